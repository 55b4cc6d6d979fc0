//! Selects the segments of a log that exceed the age or size limit, and deletes them.
//!
//! Age is running time: a segment may be deleted when the segments after it cover
//! the time to keep. The wall clock has no influence.

use std::path::{Path, PathBuf};

use diskwright_base::Frame;

use crate::error::StoreError;
use crate::format::{BLOCK, BlockHead, END, EndRecord, HEAD, HeadRecord};
use crate::ledger::{TickLedger, TrimSummary};
use crate::order::{self, SegmentPlace};
use crate::reader::{LogItem, LogReader};
use crate::segment::{AHEAD, GLANCE, Peek, RecordScanner};

/// Returns the smallest and largest tick time of a file, by its end record or the
/// heads of its blocks; `None` if it has no tick.
pub(crate) fn times(mut scanner: RecordScanner) -> Result<Option<(i64, i64)>, StoreError> {
    if let Some(end) = scanner.closing()? {
        return Ok((end.least_ns <= end.most_ns).then_some((end.least_ns, end.most_ns)));
    }
    let mut span: Option<(i64, i64)> = None;
    loop {
        match scanner.peek()? {
            Peek::Record(header) if header.kind == BLOCK => {
                if let Some(head) = scanner.take(&header)?.and_then(BlockHead::parse) {
                    let (min_ns, max_ns) = span.unwrap_or((head.from_ns, head.to_ns));
                    span = Some((min_ns.min(head.from_ns), max_ns.max(head.to_ns)));
                }
            }
            Peek::Record(header) => scanner.pass(&header),
            Peek::Lost { loss: crate::Loss::Damaged, .. } => {}
            Peek::Lost { .. } | Peek::End => return Ok(span),
        }
    }
}

/// Limits of the log's size and age.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RetentionLimits {
    pub bytes: Option<u64>,
    pub age_ns: Option<u64>,
}

/// A segment that is to be deleted.
#[derive(Debug)]
pub(crate) struct ExpiredSegment(PathBuf);

/// Cache of the running time of finished segments, so that each is read once.
#[derive(Debug, Default)]
pub(crate) struct SegmentAges {
    known: Vec<(SegmentPlace, u64)>,
}

impl SegmentAges {
    /// Returns the running time that a segment covers, nanoseconds.
    fn covered(&mut self, dir: &Path, place: &SegmentPlace) -> u64 {
        if let Some((_, covered)) = self.known.iter().find(|(known, _)| known == place) {
            return *covered;
        }
        let covered = covered(&place.path(dir));
        self.known.push((place.clone(), covered));
        covered
    }
}

/// Computes the running time of a segment's ticks: from its end record, or from all
/// its ticks if that has no such number. Unreadable segments count as 0.
fn covered(path: &Path) -> u64 {
    let closing = RecordScanner::open(path, GLANCE).and_then(|mut scanner| scanner.closing()).ok().flatten();
    if let Some(covered) = closing.and_then(|end| end.covered_ns) {
        return covered;
    }
    let Ok(mut reader) = LogReader::open(path) else { return 0 };
    let mut frame = Frame::default();
    let mut covered = 0u64;
    while let Ok(Some(item)) = reader.next(&mut frame) {
        if item == LogItem::Frame {
            covered = frame.ticks().iter().fold(covered, |sum, tick| sum.saturating_add(tick.elapsed_ns));
        }
    }
    covered
}

/// Chooses whole segments from the oldest on, never the newest: those that are
/// too old, and those that make the log too large. They are counted in the ledger.
/// Segments in `waiting`, which are to be deleted already, are skipped.
pub(crate) fn choose(
    dir: &Path,
    keep: RetentionLimits,
    waiting: &[ExpiredSegment],
    ages: &mut SegmentAges,
    ledger: &mut TickLedger,
) -> Result<Vec<ExpiredSegment>, StoreError> {
    let mut expired = Vec::new();
    if keep.bytes.is_none() && keep.age_ns.is_none() {
        return Ok(expired);
    }
    let mut places = order::segments(dir)?;
    places.retain(|place| !waiting.iter().any(|victim| victim.0 == place.path(dir)));
    let size = |place: &SegmentPlace| std::fs::symlink_metadata(place.path(dir)).map_or(0, |m| m.len());
    let mut total: u64 = places.iter().map(size).sum();
    let old = keep.age_ns.map_or(0, |age| too_old(dir, &places, age, ages));
    let Some((_newest, older)) = places.split_last() else { return Ok(expired) };
    for (index, place) in older.iter().enumerate() {
        if index >= old && keep.bytes.is_none_or(|max_bytes| total <= max_bytes) {
            break;
        }
        let bytes = size(place);
        total -= bytes;
        let path = place.path(dir);
        count(&path, places[index + 1].path(dir), bytes, ledger);
        ages.known.retain(|(known, _)| known != place);
        expired.push(ExpiredSegment(path));
    }
    Ok(expired)
}

/// Counts the segments, from the oldest on, that ended at least `age_ns` of running time ago.
fn too_old(dir: &Path, places: &[SegmentPlace], age_ns: u64, ages: &mut SegmentAges) -> usize {
    let mut later_ns = 0u64;
    for (index, place) in places.iter().enumerate().rev() {
        if later_ns >= age_ns {
            return index + 1;
        }
        later_ns = later_ns.saturating_add(ages.covered(dir, place));
    }
    0
}

/// Counts a segment to be deleted in the ledger, and notes the first tick of the next oldest.
fn count(path: &Path, next: PathBuf, bytes: u64, ledger: &mut TickLedger) {
    let head = |path: &Path| RecordScanner::open(path, GLANCE).and_then(|mut s| s.head()).ok().flatten();
    // If the next segment's head is damaged, the end of this one determines the number.
    let first = head(&next).map(|head| head.next_tick).or_else(|| last_number(path)).or(ledger.first);
    let begin = ledger.first.or_else(|| head(path).map(|head| head.next_tick));
    let trimmed = &mut ledger.trimmed;
    trimmed.segments += 1;
    trimmed.bytes += bytes;
    trimmed.ticks += first.zip(begin).map_or(0, |(first, begin)| first.saturating_sub(begin));
    let times = RecordScanner::open(path, GLANCE).and_then(times).ok().flatten();
    trimmed.range = match (trimmed.range, times) {
        (Some((a, b)), Some((c, d))) => Some((a.min(c), b.max(d))),
        (a, b) => a.or(b),
    };
    ledger.first = first;
}

/// Returns the number after the last tick of a segment.
fn last_number(path: &Path) -> Option<u64> {
    let mut scanner = RecordScanner::open(path, AHEAD).ok()?;
    let mut last = None;
    loop {
        let header = match scanner.peek().ok()? {
            Peek::Record(header) => header,
            Peek::Lost { loss: crate::Loss::Damaged, .. } => continue,
            _ => return last,
        };
        let Some(payload) = scanner.take(&header).ok()? else { continue };
        let number = match header.kind {
            HEAD => HeadRecord::parse(payload, path).ok().flatten().map(|head| head.next_tick),
            BLOCK => BlockHead::parse(payload).map(|head| head.first_tick.saturating_add(head.ticks as u64)),
            END => EndRecord::parse(payload).map(|end| end.next_tick),
            _ => None,
        };
        last = last.max(number);
    }
}

/// Deletes the segments; files that are already gone are no error.
pub(crate) fn delete(expired: Vec<ExpiredSegment>) -> Result<(), StoreError> {
    for ExpiredSegment(path) in expired {
        match std::fs::remove_file(&path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(StoreError::io(&path, e)),
            _ => {}
        }
    }
    Ok(())
}

/// Returns the removals in `after` that are not in `before`.
pub(crate) fn since(before: &TrimSummary, after: &TrimSummary) -> TrimSummary {
    TrimSummary {
        segments: after.segments - before.segments,
        ticks: after.ticks.saturating_sub(before.ticks),
        bytes: after.bytes - before.bytes,
        range: after.range,
    }
}

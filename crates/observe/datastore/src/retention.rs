//! Which segments of a log are too old or too many, and their deletion.
//!
//! Age is running time: a segment may go when those behind it cover as much as
//! is to be kept. The wall clock has no say in it.

use std::path::{Path, PathBuf};

use diskwright_base::Frame;

use crate::error::StoreError;
use crate::format::{BLOCK, BlockHead, END, EndRecord, HEAD, HeadRecord};
use crate::ledger::{TickLedger, TrimSummary};
use crate::order::{self, SegmentPlace};
use crate::reader::{LogItem, LogReader};
use crate::segment::{AHEAD, GLANCE, Peek, RecordScanner};

/// Least and greatest tick time of a file, by its closing record or by the
/// heads of its blocks; `None` where it has no tick.
pub(crate) fn times(mut scanner: RecordScanner) -> Result<Option<(i64, i64)>, StoreError> {
    if let Some(end) = scanner.closing()? {
        return Ok((end.least_ns <= end.most_ns).then_some((end.least_ns, end.most_ns)));
    }
    let mut span: Option<(i64, i64)> = None;
    loop {
        match scanner.peek()? {
            Peek::Record(header) if header.kind == BLOCK => {
                if let Some(head) = scanner.take(&header)?.and_then(BlockHead::parse) {
                    let (least, most) = span.unwrap_or((head.from_ns, head.to_ns));
                    span = Some((least.min(head.from_ns), most.max(head.to_ns)));
                }
            }
            Peek::Record(header) => scanner.pass(&header),
            Peek::Lost { loss: crate::Loss::Damaged, .. } => {}
            Peek::Lost { .. } | Peek::End => return Ok(span),
        }
    }
}

/// How much to keep.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RetentionLimits {
    pub bytes: Option<u64>,
    pub age_ns: Option<u64>,
}

/// A segment that stands to be deleted.
#[derive(Debug)]
pub(crate) struct ExpiredSegment(PathBuf);

/// Running time of finished segments, so that each is looked at once.
#[derive(Debug, Default)]
pub(crate) struct SegmentAges {
    known: Vec<(SegmentPlace, u64)>,
}

impl SegmentAges {
    /// Running time that a segment covers, nanoseconds.
    fn covered(&mut self, dir: &Path, place: &SegmentPlace) -> u64 {
        if let Some((_, covered)) = self.known.iter().find(|(known, _)| known == place) {
            return *covered;
        }
        let covered = covered(&place.path(dir));
        self.known.push((place.clone(), covered));
        covered
    }
}

/// Running time of a segment's ticks: by its closing record, or by all its
/// ticks where it has none that tells. What cannot be read covers nothing.
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
/// too old, and those that make the log too large. The ledger is told of them.
/// Those that wait to be deleted already are passed over.
pub(crate) fn choose(
    dir: &Path,
    keep: RetentionLimits,
    waiting: &[ExpiredSegment],
    ages: &mut SegmentAges,
    ledger: &mut TickLedger,
) -> Result<Vec<ExpiredSegment>, StoreError> {
    let mut victims = Vec::new();
    if keep.bytes.is_none() && keep.age_ns.is_none() {
        return Ok(victims);
    }
    let mut places = order::segments(dir)?;
    places.retain(|place| !waiting.iter().any(|victim| victim.0 == place.path(dir)));
    let size = |place: &SegmentPlace| std::fs::symlink_metadata(place.path(dir)).map_or(0, |m| m.len());
    let mut total: u64 = places.iter().map(size).sum();
    let old = keep.age_ns.map_or(0, |age| too_old(dir, &places, age, ages));
    let Some((_newest, older)) = places.split_last() else { return Ok(victims) };
    for (index, place) in older.iter().enumerate() {
        if index >= old && keep.bytes.is_none_or(|most| total <= most) {
            break;
        }
        let bytes = size(place);
        total -= bytes;
        let path = place.path(dir);
        count(&path, places[index + 1].path(dir), bytes, ledger);
        ages.known.retain(|(known, _)| known != place);
        victims.push(ExpiredSegment(path));
    }
    Ok(victims)
}

/// How many segments from the oldest on ended so much running time ago.
fn too_old(dir: &Path, places: &[SegmentPlace], age_ns: u64, ages: &mut SegmentAges) -> usize {
    let mut behind = 0u64;
    for (index, place) in places.iter().enumerate().rev() {
        if behind >= age_ns {
            return index + 1;
        }
        behind = behind.saturating_add(ages.covered(dir, place));
    }
    0
}

/// Tells the ledger of a segment that goes, and of the one that is the oldest then.
fn count(path: &Path, next: PathBuf, bytes: u64, ledger: &mut TickLedger) {
    let head = |path: &Path| RecordScanner::open(path, GLANCE).and_then(|mut s| s.head()).ok().flatten();
    // Where the next one's head is damaged, the end of this one tells.
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

/// Number behind the last tick of a segment.
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
        let told = match header.kind {
            HEAD => HeadRecord::parse(payload, path).ok().flatten().map(|head| head.next_tick),
            BLOCK => BlockHead::parse(payload).map(|head| head.first_tick.saturating_add(head.ticks as u64)),
            END => EndRecord::parse(payload).map(|end| end.next_tick),
            _ => None,
        };
        last = last.max(told);
    }
}

/// Deletes them.
pub(crate) fn delete(victims: Vec<ExpiredSegment>) -> Result<(), StoreError> {
    for ExpiredSegment(path) in victims {
        match std::fs::remove_file(&path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(StoreError::io(&path, e)),
            _ => {}
        }
    }
    Ok(())
}

/// What `after` has removed more than `before`.
pub(crate) fn since(before: &TrimSummary, after: &TrimSummary) -> TrimSummary {
    TrimSummary {
        segments: after.segments - before.segments,
        ticks: after.ticks.saturating_sub(before.ticks),
        bytes: after.bytes - before.bytes,
        range: after.range,
    }
}

//! Selects the segments of a log that exceed the age or size limit, and deletes them.
//!
//! Age is running time: a segment may be deleted when the segments after it cover
//! the time to keep. The wall clock has no influence.

use std::path::{Path, PathBuf};

use diskwright_base::Frame;

use crate::error::StoreError;
use crate::format::{BLOCK_KIND, BlockHead, END_KIND, EndRecord, HEAD_KIND, HeadRecord};
use crate::ledger::{TickLedger, TrimSummary};
use crate::reader::{LogItem, LogReader};
use crate::record_scanner::{HEADER_READ_BYTES, Peek, READ_AHEAD_BYTES, RecordScanner};
use crate::segment_list::{self, SegmentFile};

/// Returns the smallest and largest tick time of a file, by its end record or the
/// heads of its blocks; `None` if it has no tick.
pub(crate) fn file_time_range(mut scanner: RecordScanner) -> Result<Option<(i64, i64)>, StoreError> {
    if let Some(end) = scanner.read_end_record()? {
        return Ok((end.min_time_ns <= end.max_time_ns).then_some((end.min_time_ns, end.max_time_ns)));
    }
    let mut range: Option<(i64, i64)> = None;
    loop {
        match scanner.peek_record()? {
            Peek::Record(header) if header.kind == BLOCK_KIND => {
                if let Some(head) = scanner.read_payload(&header)?.and_then(BlockHead::parse) {
                    let (min_ns, max_ns) = range.unwrap_or((head.first_time_ns, head.last_time_ns));
                    range = Some((min_ns.min(head.first_time_ns), max_ns.max(head.last_time_ns)));
                }
            }
            Peek::Record(header) => scanner.skip_record(&header),
            Peek::Lost { loss: crate::Loss::Damaged, .. } => {}
            Peek::Lost { .. } | Peek::End => return Ok(range),
        }
    }
}

/// Limits of the log's size and age.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RetentionLimits {
    pub max_bytes: Option<u64>,
    pub max_age_ns: Option<u64>,
}

/// A segment that is to be deleted.
#[derive(Debug)]
pub(crate) struct ExpiredSegment(PathBuf);

/// Cache of the running time of finished segments, so that each is read once.
#[derive(Debug, Default)]
pub(crate) struct SegmentAges {
    known: Vec<(SegmentFile, u64)>,
}

impl SegmentAges {
    /// Returns the running time that a segment covers, nanoseconds.
    fn running_time_ns(&mut self, dir: &Path, segment: &SegmentFile) -> u64 {
        if let Some((_, covered)) = self.known.iter().find(|(known, _)| known == segment) {
            return *covered;
        }
        let covered = compute_running_time_ns(&segment.path(dir));
        self.known.push((segment.clone(), covered));
        covered
    }
}

/// Computes the running time of a segment's ticks: from its end record, or from all
/// its ticks if that has no such number. Unreadable segments count as 0.
fn compute_running_time_ns(path: &Path) -> u64 {
    let end =
        RecordScanner::open(path, HEADER_READ_BYTES).and_then(|mut scanner| scanner.read_end_record()).ok().flatten();
    if let Some(covered) = end.and_then(|end| end.covered_ns) {
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
/// Segments in `waiting`, which were chosen before and still wait to be deleted, are skipped.
pub(crate) fn choose_expired(
    dir: &Path,
    limits: RetentionLimits,
    waiting: &[ExpiredSegment],
    ages: &mut SegmentAges,
    ledger: &mut TickLedger,
) -> Result<Vec<ExpiredSegment>, StoreError> {
    let mut expired = Vec::new();
    if limits.max_bytes.is_none() && limits.max_age_ns.is_none() {
        return Ok(expired);
    }
    let mut segments = segment_list::list_segments(dir)?;
    segments.retain(|segment| !waiting.iter().any(|expired| expired.0 == segment.path(dir)));
    let size = |segment: &SegmentFile| std::fs::symlink_metadata(segment.path(dir)).map_or(0, |m| m.len());
    // looked up once, so that the same sizes are added to the total and subtracted from it
    let sizes: Vec<u64> = segments.iter().map(size).collect();
    let mut total: u64 = sizes.iter().sum();
    let expired_by_age = limits.max_age_ns.map_or(0, |age| count_expired_by_age(dir, &segments, age, ages));
    let Some((_newest, older)) = segments.split_last() else { return Ok(expired) };
    for (index, segment) in older.iter().enumerate() {
        if index >= expired_by_age && limits.max_bytes.is_none_or(|max_bytes| total <= max_bytes) {
            break;
        }
        total -= sizes[index];
        let path = segment.path(dir);
        record_trim(&path, segments[index + 1].path(dir), sizes[index], ledger);
        ages.known.retain(|(known, _)| known != segment);
        expired.push(ExpiredSegment(path));
    }
    Ok(expired)
}

/// Counts the segments, from the oldest on, that ended at least `age_ns` of running time ago.
fn count_expired_by_age(dir: &Path, segments: &[SegmentFile], age_ns: u64, ages: &mut SegmentAges) -> usize {
    let mut later_ns = 0u64;
    for (index, segment) in segments.iter().enumerate().rev() {
        if later_ns >= age_ns {
            return index + 1;
        }
        later_ns = later_ns.saturating_add(ages.running_time_ns(dir, segment));
    }
    0
}

/// Counts a segment to be deleted in the ledger, and sets the ledger's first tick to that of the next segment.
fn record_trim(path: &Path, next: PathBuf, bytes: u64, ledger: &mut TickLedger) {
    let head =
        |path: &Path| RecordScanner::open(path, HEADER_READ_BYTES).and_then(|mut s| s.read_head()).ok().flatten();
    // If the next segment's head is damaged, the end of this one determines the number.
    let next_tick = head(&next).map(|head| head.next_tick).or_else(|| number_after_last_tick(path));
    let first_kept = next_tick.or(ledger.first_kept);
    let first_removed = ledger.first_kept.or_else(|| head(path).map(|head| head.next_tick));
    let trimmed = &mut ledger.trimmed;
    trimmed.segments = trimmed.segments.saturating_add(1);
    // ledger and heads come from files, which may hold any numbers
    trimmed.bytes = trimmed.bytes.saturating_add(bytes);
    let ticks = first_kept.zip(first_removed).map_or(0, |(kept, removed)| kept.saturating_sub(removed));
    trimmed.ticks = trimmed.ticks.saturating_add(ticks);
    let times = RecordScanner::open(path, HEADER_READ_BYTES).and_then(file_time_range).ok().flatten();
    trimmed.range = match (trimmed.range, times) {
        (Some((a, b)), Some((c, d))) => Some((a.min(c), b.max(d))),
        (a, b) => a.or(b),
    };
    ledger.first_kept = first_kept;
}

/// Returns the number after the last tick of a segment.
fn number_after_last_tick(path: &Path) -> Option<u64> {
    let mut scanner = RecordScanner::open(path, READ_AHEAD_BYTES).ok()?;
    let mut last = None;
    loop {
        let header = match scanner.peek_record().ok()? {
            Peek::Record(header) => header,
            Peek::Lost { loss: crate::Loss::Damaged, .. } => continue,
            _ => return last,
        };
        let Some(payload) = scanner.read_payload(&header).ok()? else { continue };
        let number = match header.kind {
            HEAD_KIND => HeadRecord::parse(payload, path).ok().flatten().map(|head| head.next_tick),
            BLOCK_KIND => BlockHead::parse(payload).map(|head| head.first_tick.saturating_add(head.ticks as u64)),
            END_KIND => EndRecord::parse(payload).map(|end| end.next_tick),
            _ => None,
        };
        last = last.max(number);
    }
}

/// Deletes the segments; files that are already gone are no error.
pub(crate) fn delete_segments(expired: Vec<ExpiredSegment>) -> Result<(), StoreError> {
    for ExpiredSegment(path) in expired {
        match std::fs::remove_file(&path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(StoreError::from_io(&path, e)),
            _ => {}
        }
    }
    Ok(())
}

/// Returns the removals in `after` that are not in `before`.
pub(crate) fn trim_difference(before: &TrimSummary, after: &TrimSummary) -> TrimSummary {
    assert!(
        before.segments <= after.segments && before.ticks <= after.ticks && before.bytes <= after.bytes,
        "removals are only added: {before:?}, then {after:?}"
    );
    TrimSummary {
        segments: after.segments - before.segments,
        ticks: after.ticks - before.ticks,
        bytes: after.bytes - before.bytes,
        range: after.range,
    }
}

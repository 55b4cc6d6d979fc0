//! Segments of a drive's buffer: the blocks that each holds, and the choice of the segment to replace.

use super::spec::DriveCacheSpec;
use crate::Ns;

/// One segment: blocks `start .. end`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CacheSegment {
    pub start: u64,
    pub end: u64,
    last_use: u64,
    /// Block up to which read-ahead was planned.
    pub read_ahead_limit: u64,
    /// True if it holds written data.
    pub has_writes: bool,
    /// Time at which the written data is on the disk.
    pub clean_at: Ns,
}

impl CacheSegment {
    #[inline]
    fn is_empty(&self) -> bool {
        self.end <= self.start
    }

    #[inline]
    fn overlaps(&self, start: u64, end: u64) -> bool {
        (self.end > start) & (self.start < end) & !self.is_empty()
    }
}

/// A range of blocks: to be found in the segments, or for which a segment is to be allocated.
#[derive(Clone, Copy, Debug)]
pub(super) struct CacheQuery {
    pub start: u64,
    pub end: u64,
    pub write: bool,
    pub now: Ns,
    /// Segment that read-ahead is filling.
    pub reading: Option<usize>,
}

/// All segments of a drive's buffer.
#[derive(Clone, Debug)]
pub(super) struct Segments {
    segments: Vec<CacheSegment>,
    use_count: u64,
    keeps_data: bool,
    has_write_segment: bool,
    serves_written: bool,
    almost_hits: bool,
    /// Blocks of a segment.
    pub segment_blocks: u64,
}

impl Segments {
    /// Creates empty segments.
    pub fn new(spec: &DriveCacheSpec) -> Segments {
        Segments {
            segments: vec![CacheSegment::default(); spec.segments as usize],
            use_count: 0,
            keeps_data: spec.keeps_data,
            has_write_segment: spec.has_write_segment && spec.segments > 1,
            serves_written: spec.serves_written,
            almost_hits: spec.almost_hits,
            segment_blocks: u64::from(spec.segment_blocks),
        }
    }

    /// Returns a segment; an empty one if there is none with this index.
    pub fn get(&self, index: usize) -> CacheSegment {
        self.segments.get(index).copied().unwrap_or_default()
    }

    /// Returns a segment, mutable.
    pub fn get_mut(&mut self, index: usize) -> Option<&mut CacheSegment> {
        self.segments.get_mut(index)
    }

    /// Finds the segment that holds the first block of a read, or is reading that block. A segment that holds the whole
    /// read is preferred to one with a part; among equals, one that is being written, then one that is being read, then
    /// the least recently used.
    #[inline]
    pub fn find_segment(&self, query: &CacheQuery) -> Option<usize> {
        if !self.keeps_data {
            return None;
        }
        // fast path: nearly always no segment can hold the block; one branchless comparison for each shows that
        let may_hold =
            |segment: &CacheSegment| query.start.wrapping_sub(segment.start) <= segment.end.wrapping_sub(segment.start);
        if !self.segments.iter().fold(false, |any, segment| any | may_hold(segment)) {
            return None;
        }
        let mut best: Option<(u32, u64, usize)> = None;
        for (index, segment) in self.segments.iter().enumerate() {
            let reading = query.reading == Some(index);
            let holds = segment.start <= query.start
                && (query.start < segment.end
                    || (reading && self.almost_hits && query.start == segment.end && !segment.is_empty()));
            if !holds || (segment.has_writes && !self.serves_written) || (self.has_write_segment && index == 0) {
                continue;
            }
            let covers_all = u32::from(query.end <= segment.end) * 4;
            let freshness = if segment.clean_at > query.now { 2 } else { u32::from(reading) };
            let is_better = match best {
                Some((value, used, _)) => {
                    covers_all + freshness > value || (covers_all + freshness == value && segment.last_use < used)
                }
                None => true,
            };
            if is_better {
                best = Some((covers_all + freshness, segment.last_use, index));
            }
        }
        best.map(|(.., index)| index)
    }

    /// Returns true if blocks of the range are still being written to the disk.
    pub fn has_unwritten_overlap(&self, query: &CacheQuery) -> bool {
        self.segments.iter().any(|s| s.clean_at > query.now && s.overlaps(query.start, query.end))
    }

    /// Number of segments with data not yet on the disk.
    pub fn dirty_segment_count(&self, now: Ns) -> usize {
        self.segments.iter().filter(|s| s.clean_at > now).count()
    }

    /// Marks a segment as the most recently used.
    pub fn mark_used(&mut self, index: usize) {
        self.use_count += 1;
        if let Some(segment) = self.segments.get_mut(index) {
            segment.last_use = self.use_count;
        }
    }

    /// Drops the blocks of a segment.
    pub fn clear_segment(&mut self, index: usize) {
        if let Some(segment) = self.segments.get_mut(index) {
            *segment = CacheSegment { last_use: segment.last_use, ..CacheSegment::default() };
        }
    }

    /// Allocates a segment for these blocks. `None` if the drive has no segments.
    #[inline]
    pub fn allocate_segment(&mut self, query: &CacheQuery) -> Option<usize> {
        self.use_count += 1;
        let index = self.choose_victim(query)?;
        let start = query.start.max(query.end.saturating_sub(self.segment_blocks));
        let used = self.use_count;
        self.segments[index] = CacheSegment {
            start,
            end: query.end,
            last_use: used,
            read_ahead_limit: 0,
            has_writes: query.write,
            clean_at: 0,
        };
        Some(index)
    }

    /// Chooses the segment to replace: for a write, first a segment that it overwrites; then an empty one, then the
    /// least recently used, then the one that is being read into, and last one that is not yet on the disk.
    fn choose_victim(&self, query: &CacheQuery) -> Option<usize> {
        if self.has_write_segment && query.write {
            return Some(0);
        }
        let from = usize::from(self.has_write_segment);
        let mut best = (u64::MAX, None);
        for (index, segment) in self.segments.iter().enumerate().skip(from) {
            // selects instead of branches: the position of the minimum is unpredictable
            let is_free = segment.is_empty() | (segment.has_writes & !self.serves_written);
            let worth = if is_free { 1 } else { 2 };
            let worth = if query.write & segment.overlaps(query.start, query.end) { 0 } else { worth };
            let worth = if query.reading == Some(index) { 3 } else { worth };
            let worth: u64 = if segment.clean_at > query.now { 4 } else { worth };
            // the key orders by worth, then by last use
            debug_assert!(segment.last_use < 1 << 60, "the counter of uses runs into the worth");
            let key = worth << 60 | segment.last_use;
            best = if key < best.0 { (key, Some(index)) } else { best };
        }
        best.1
    }

    /// Drops segments that hold older data of blocks that were written, except for the segment `except`.
    pub fn invalidate_blocks(&mut self, start: u64, end: u64, except: Option<usize>) {
        let stale = |index: usize, segment: &CacheSegment| (Some(index) != except) & segment.overlaps(start, end);
        // fast path: nearly always no segment is stale, which is checked without branches
        if !self.segments.iter().enumerate().fold(false, |any, (index, segment)| any | stale(index, segment)) {
            return;
        }
        for index in 0..self.segments.len() {
            if stale(index, &self.segments[index]) {
                self.clear_segment(index);
            }
        }
    }
}

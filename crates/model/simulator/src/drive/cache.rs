//! Segments of a drive's buffer: the blocks that each holds, and the choice of the segment to replace.

use super::spec::DriveCacheSpec;
use crate::Ns;

/// One segment: blocks `start .. end`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CacheSegment {
    pub start: u64,
    pub end: u64,
    used: u64,
    /// Block up to which read-ahead was planned.
    pub limit: u64,
    /// True if it holds written data.
    pub written: bool,
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

/// Block range to find in the segments, or to allocate a segment for.
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
    all: Vec<CacheSegment>,
    uses: u64,
    keeps: bool,
    separate: bool,
    serves_written: bool,
    almost: bool,
    /// Blocks of a segment.
    pub blocks: u64,
}

impl Segments {
    /// Creates empty segments.
    pub fn new(spec: &DriveCacheSpec) -> Segments {
        Segments {
            all: vec![CacheSegment::default(); spec.segments as usize],
            uses: 0,
            keeps: spec.keeps,
            separate: spec.separate_write && spec.segments > 1,
            serves_written: spec.serves_written,
            almost: spec.almost_hits,
            blocks: u64::from(spec.segment_blocks),
        }
    }

    /// Returns a segment; an empty one if there is none with this index.
    pub fn get(&self, index: usize) -> CacheSegment {
        self.all.get(index).copied().unwrap_or_default()
    }

    /// Returns a segment, mutable.
    pub fn get_mut(&mut self, index: usize) -> Option<&mut CacheSegment> {
        self.all.get_mut(index)
    }

    /// Finds the segment that holds the first block of a read, or is reading it. A segment that holds the whole read
    /// is preferred to one with a part; among equals one that is being written, then one that is being read, then the
    /// least recently used.
    #[inline]
    pub fn find(&self, query: &CacheQuery) -> Option<usize> {
        if !self.keeps {
            return None;
        }
        // fast path: nearly always no segment can hold it, which one branchless comparison each rules out
        let near =
            |segment: &CacheSegment| query.start.wrapping_sub(segment.start) <= segment.end.wrapping_sub(segment.start);
        if !self.all.iter().fold(false, |any, segment| any | near(segment)) {
            return None;
        }
        let mut best: Option<(u32, u64, usize)> = None;
        for (index, segment) in self.all.iter().enumerate() {
            let reading = query.reading == Some(index);
            let holds = segment.start <= query.start
                && (query.start < segment.end
                    || (reading && self.almost && query.start == segment.end && !segment.is_empty()));
            if !holds || (segment.written && !self.serves_written) || (self.separate && index == 0) {
                continue;
            }
            let covers_all = u32::from(query.end <= segment.end) * 4;
            let fresh = if segment.clean_at > query.now { 2 } else { u32::from(reading) };
            let better = match best {
                Some((value, used, _)) => {
                    covers_all + fresh > value || (covers_all + fresh == value && segment.used < used)
                }
                None => true,
            };
            if better {
                best = Some((covers_all + fresh, segment.used, index));
            }
        }
        best.map(|(.., index)| index)
    }

    /// Returns true if blocks of the range are still being written to the disk.
    pub fn collides(&self, query: &CacheQuery) -> bool {
        self.all.iter().any(|s| s.clean_at > query.now && s.overlaps(query.start, query.end))
    }

    /// Number of segments with data not yet on the disk.
    pub fn unwritten(&self, now: Ns) -> usize {
        self.all.iter().filter(|s| s.clean_at > now).count()
    }

    /// Marks a segment as the most recently used.
    pub fn touch(&mut self, index: usize) {
        self.uses += 1;
        if let Some(segment) = self.all.get_mut(index) {
            segment.used = self.uses;
        }
    }

    /// Drops the blocks of a segment.
    pub fn clear(&mut self, index: usize) {
        if let Some(segment) = self.all.get_mut(index) {
            *segment = CacheSegment { used: segment.used, ..CacheSegment::default() };
        }
    }

    /// Allocates a segment for these blocks. None if the drive has no segments.
    #[inline]
    pub fn take(&mut self, query: &CacheQuery) -> Option<usize> {
        self.uses += 1;
        let index = self.victim(query)?;
        let start = query.start.max(query.end.saturating_sub(self.blocks));
        let used = self.uses;
        self.all[index] = CacheSegment { start, end: query.end, used, limit: 0, written: query.write, clean_at: 0 };
        Some(index)
    }

    /// Chooses the segment to replace: for a write one that it overwrites; then empty ones, then the least recently
    /// used, then the one that is being read into, and last one that is not yet on the disk.
    fn victim(&self, query: &CacheQuery) -> Option<usize> {
        if self.separate && query.write {
            return Some(0);
        }
        let from = usize::from(self.separate);
        let mut best = (u64::MAX, None);
        for (index, segment) in self.all.iter().enumerate().skip(from) {
            // selects instead of branches: the position of the minimum is unpredictable
            let is_free = segment.is_empty() | (segment.written & !self.serves_written);
            let worth = if is_free { 1 } else { 2 };
            let worth = if query.write & segment.overlaps(query.start, query.end) { 0 } else { worth };
            let worth = if query.reading == Some(index) { 3 } else { worth };
            let worth: u64 = if segment.clean_at > query.now { 4 } else { worth };
            // the key orders by worth, then by last use; `last_use` is a counter and never reaches 2^60
            let key = worth << 60 | segment.used;
            best = if key < best.0 { (key, Some(index)) } else { best };
        }
        best.1
    }

    /// Drops segments that hold older data of blocks that were written, except for the segment `except`.
    pub fn forget(&mut self, start: u64, end: u64, except: Option<usize>) {
        let stale = |index: usize, segment: &CacheSegment| (Some(index) != except) & segment.overlaps(start, end);
        // fast path: nearly always no segment is stale, which is checked without branches
        if !self.all.iter().enumerate().fold(false, |any, (index, segment)| any | stale(index, segment)) {
            return;
        }
        for index in 0..self.all.len() {
            if stale(index, &self.all[index]) {
                self.clear(index);
            }
        }
    }
}

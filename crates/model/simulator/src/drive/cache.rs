//! Segments of a drive's buffer: which blocks each holds, and which goes when
//! another is needed.

use super::spec::DriveCacheSpec;
use crate::Ns;

/// One segment: blocks `start .. end`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CacheSegment {
    pub start: u64,
    pub end: u64,
    used: u64,
    /// How far it was to be read on.
    pub limit: u64,
    /// It holds what was written.
    pub written: bool,
    /// When that is on the disk.
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

/// What is sought in the segments, or sought a place for.
#[derive(Clone, Copy, Debug)]
pub(super) struct CacheQuery {
    pub start: u64,
    pub end: u64,
    pub write: bool,
    pub now: Ns,
    /// The segment that is just being read into.
    pub reading: Option<usize>,
}

/// All segments.
#[derive(Clone, Debug)]
pub(super) struct Segments {
    all: Vec<CacheSegment>,
    uses: u64,
    keeps: bool,
    separate: bool,
    serves_written: bool,
    almost: bool,
    /// Blocks of one.
    pub blocks: u64,
}

impl Segments {
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

    pub fn get(&self, index: usize) -> CacheSegment {
        self.all.get(index).copied().unwrap_or_default()
    }

    pub fn get_mut(&mut self, index: usize) -> Option<&mut CacheSegment> {
        self.all.get_mut(index)
    }

    /// The segment that holds the first block of a read, or is just reading it. One that holds
    /// all is better than one with a part; what is being written is the freshest, then what is
    /// being read; of equals it is the one used longest ago.
    #[inline]
    pub fn find(&self, query: &CacheQuery) -> Option<usize> {
        if !self.keeps {
            return None;
        }
        // nearly always none can hold it, which one comparison of each tells without branches
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
            let whole = u32::from(query.end <= segment.end) * 4;
            let fresh = if segment.clean_at > query.now { 2 } else { u32::from(reading) };
            let better = match best {
                Some((value, used, _)) => whole + fresh > value || (whole + fresh == value && segment.used < used),
                None => true,
            };
            if better {
                best = Some((whole + fresh, segment.used, index));
            }
        }
        best.map(|(.., index)| index)
    }

    /// True where blocks to read are still on their way to the disk and may not serve reads.
    pub fn collides(&self, query: &CacheQuery) -> bool {
        self.all.iter().any(|s| s.clean_at > query.now && s.overlaps(query.start, query.end))
    }

    /// Segments whose data are not all on the disk.
    pub fn unwritten(&self, now: Ns) -> usize {
        self.all.iter().filter(|s| s.clean_at > now).count()
    }

    pub fn touch(&mut self, index: usize) {
        self.uses += 1;
        if let Some(segment) = self.all.get_mut(index) {
            segment.used = self.uses;
        }
    }

    /// Gives a segment's blocks up.
    pub fn clear(&mut self, index: usize) {
        if let Some(segment) = self.all.get_mut(index) {
            *segment = CacheSegment { used: segment.used, ..CacheSegment::default() };
        }
    }

    /// Takes a segment for these blocks. None where the drive has no segments.
    #[inline]
    pub fn take(&mut self, query: &CacheQuery) -> Option<usize> {
        self.uses += 1;
        let index = self.victim(query)?;
        let start = query.start.max(query.end.saturating_sub(self.blocks));
        let used = self.uses;
        self.all[index] = CacheSegment { start, end: query.end, used, limit: 0, written: query.write, clean_at: 0 };
        Some(index)
    }

    /// A write takes what it makes useless anyway; then come empty ones, then the one used
    /// longest ago, and what is just being read into comes last.
    fn victim(&self, query: &CacheQuery) -> Option<usize> {
        if self.separate && query.write {
            return Some(0);
        }
        let from = usize::from(self.separate);
        let mut best = (u64::MAX, None);
        for (index, segment) in self.all.iter().enumerate().skip(from) {
            // selected and not branched on: which is the least cannot be foreseen
            let useless = segment.is_empty() | (segment.written & !self.serves_written);
            let worth = if useless { 1 } else { 2 };
            let worth = if query.write & segment.overlaps(query.start, query.end) { 0 } else { worth };
            let worth = if query.reading == Some(index) { 3 } else { worth };
            let worth: u64 = if segment.clean_at > query.now { 4 } else { worth };
            // uses are counted one by one, and never come to 2^60
            let key = worth << 60 | segment.used;
            best = if key < best.0 { (key, Some(index)) } else { best };
        }
        best.1
    }

    /// What is written is no longer as it was read.
    pub fn forget(&mut self, start: u64, end: u64, but: Option<usize>) {
        let stale = |index: usize, segment: &CacheSegment| (Some(index) != but) & segment.overlaps(start, end);
        // nearly always there are none, which this tells without branches
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

//! Segments of a drive's buffer: which blocks each holds, and which goes when
//! another is needed.

use super::spec::DriveCacheSpec;

/// One segment: blocks `start .. end`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CacheSegment {
    pub start: u64,
    pub end: u64,
    used: u64,
    /// It holds what was written.
    pub written: bool,
}

/// All segments.
#[derive(Clone, Debug)]
pub(super) struct Segments {
    all: Vec<CacheSegment>,
    uses: u64,
    keeps: bool,
    separate: bool,
    write_segments: usize,
    serves_written: bool,
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
            write_segments: spec.write_segments.max(1) as usize,
            serves_written: spec.serves_written,
            blocks: u64::from(spec.segment_blocks),
        }
    }

    pub fn get(&self, at: usize) -> CacheSegment {
        self.all.get(at).copied().unwrap_or_default()
    }

    pub fn get_mut(&mut self, at: usize) -> Option<&mut CacheSegment> {
        self.all.get_mut(at)
    }

    /// The segment that holds a block for reading; `or_end` also one that ends just before it.
    #[inline]
    pub fn holding(&self, block: u64, or_end: bool) -> Option<usize> {
        let holds = |s: &CacheSegment| {
            s.start <= block
                && (block < s.end || (or_end && block == s.end && s.end > s.start))
                && (!s.written || self.serves_written)
        };
        if self.keeps { self.all.iter().position(holds) } else { None }
    }

    pub fn touch(&mut self, at: usize) {
        self.uses += 1;
        if let Some(segment) = self.all.get_mut(at) {
            segment.used = self.uses;
        }
    }

    /// Takes a segment for `start .. end`: the one used longest ago of those
    /// that may serve this. None where the drive has no segments.
    #[inline]
    pub fn take(&mut self, start: u64, end: u64, write: bool) -> Option<usize> {
        self.uses += 1;
        let at = self.victim(write)?;
        let start = start.max(end.saturating_sub(self.blocks));
        self.all[at] = CacheSegment { start, end, used: self.uses, written: write };
        Some(at)
    }

    fn victim(&self, write: bool) -> Option<usize> {
        if self.separate {
            // the first one is for writes
            return if write { Some(0) } else { oldest(&self.all[1..], |_| true).map(|at| at + 1) };
        }
        if write {
            let written = self.all.iter().filter(|s| s.written && s.end > s.start).count();
            if written >= self.write_segments {
                return oldest(&self.all, |s| s.written && s.end > s.start);
            }
        }
        oldest(&self.all, |_| true)
    }

    /// What is written is no longer as it was read.
    pub fn forget(&mut self, start: u64, end: u64, but: Option<usize>) {
        for (at, segment) in self.all.iter_mut().enumerate() {
            if Some(at) == but || segment.end <= start || segment.start >= end {
                continue;
            }
            *segment = CacheSegment::default();
        }
    }
}

#[inline]
fn oldest(segments: &[CacheSegment], fits: impl Fn(&CacheSegment) -> bool) -> Option<usize> {
    segments.iter().enumerate().filter(|(_, s)| fits(s)).min_by_key(|(_, s)| s.used).map(|(at, _)| at)
}

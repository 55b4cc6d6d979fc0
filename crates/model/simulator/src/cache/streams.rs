//! Detection of sequential readers, and read-ahead for each.

/// A reader that may be sequential.
#[derive(Clone, Copy, Debug, Default)]
struct SequentialStream {
    /// Pages below this one were read, or are in flight.
    read_ahead_end: u64,
    /// A reader that passes this page has entered the last run; [`NO_PAGE`] before the first run.
    trigger_page: u64,
    /// Pages of the next run; 0 before the first sequential read.
    next_run_pages: u64,
}

/// Presence of a request's pages in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PagePresence {
    /// All pages are cached.
    Cached,
    /// The first missing page is in flight.
    InFlight,
    /// This page is neither cached nor in flight.
    Absent(u64),
}

/// Read-ahead for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadAheadPlan {
    Nothing,
    /// Read-ahead together with the missing pages, up to this page.
    WithMiss(u64),
    /// Read-ahead as a separate read, from and up to these pages.
    Separate(u64, u64),
}

/// Next block of an unused stream: no read begins there.
const NO_BLOCK: u64 = u64::MAX;
/// Trigger of a stream without a run: no reader passes it.
const NO_PAGE: u64 = u64::MAX;
/// Largest number of readers tracked; each read searches all of them.
pub const MAX_STREAMS: u32 = 4096;

/// Number of hash values: several times the usual number of readers, so that few reads collide.
const HASH_COUNT: usize = 256;

/// All sequential readers.
#[derive(Clone, Debug)]
pub(super) struct SequentialStreams {
    /// Block that each reader would read next, or [`NO_BLOCK`]; a separate array so that the search is fast.
    next_blocks: Vec<u64>,
    /// Number of these blocks with each hash: one lookup shows that a read continues no stream, as most do not.
    hash_counts: Box<[u16; HASH_COUNT]>,
    streams: Vec<SequentialStream>,
    /// Ring by recency: the neighbors (less and more recent) of each stream, then those of the ring's end.
    lru_ring: Vec<(u32, u32)>,
    first_run_pages: u64,
    max_run_pages: u64,
    starts_early: bool,
}

impl SequentialStreams {
    /// Tracks `count` readers, with runs from `from` up to `to` pages.
    pub fn new(count: u32, from: u64, to: u64, early: bool) -> SequentialStreams {
        let count = count.clamp(1, MAX_STREAMS) as usize;
        let (from, to) = (from.max(1), to.max(1));
        let ring = count as u32 + 1;
        let order = (0..ring).map(|index| ((index + ring - 1) % ring, (index + 1) % ring)).collect();
        let mut hashes = Box::new([0; HASH_COUNT]);
        hashes[hash_block(NO_BLOCK)] = count as u16;
        SequentialStreams {
            next_blocks: vec![NO_BLOCK; count],
            hash_counts: hashes,
            streams: vec![SequentialStream::default(); count],
            lru_ring: order,
            first_run_pages: from,
            max_run_pages: to,
            starts_early: early,
        }
    }

    /// Plans the read-ahead for a read of blocks `first..end`, pages `from..to`.
    pub fn plan_read_ahead(&mut self, first: u64, end: u64, from: u64, to: u64, seen: PagePresence) -> ReadAheadPlan {
        let known = match self.hash_counts[hash_block(first)] {
            0 => None,
            _ => self.next_blocks.iter().position(|next| *next == first),
        };
        let index = known.unwrap_or_else(|| self.least_recent());
        self.mark_recent(index);
        let count = &mut self.hash_counts[hash_block(self.next_blocks[index])];
        debug_assert!(*count > 0, "a stream is not counted under its hash");
        *count -= 1;
        self.hash_counts[hash_block(end)] += 1;
        self.next_blocks[index] = end;
        let stream = &mut self.streams[index];
        if known.is_none() {
            *stream = SequentialStream { read_ahead_end: to, trigger_page: NO_PAGE, next_run_pages: 0 };
            return ReadAheadPlan::Nothing;
        }
        if stream.next_run_pages == 0 {
            stream.next_run_pages = self.first_run_pages;
        }
        let missing = match seen {
            PagePresence::Cached => None,
            PagePresence::InFlight if to <= stream.read_ahead_end => None,
            PagePresence::InFlight => Some(stream.read_ahead_end.max(from)),
            PagePresence::Absent(page) => Some(page),
        };
        if let Some(missing) = missing {
            let target = to.max(missing + stream.next_run_pages);
            (stream.read_ahead_end, stream.trigger_page) = (target, to.max(missing));
            stream.next_run_pages = (stream.next_run_pages * 2).min(self.max_run_pages);
            return ReadAheadPlan::WithMiss(target);
        }
        if to > stream.read_ahead_end {
            // the request goes beyond the stream's read-ahead, but all of it has been cached before
            (stream.read_ahead_end, stream.trigger_page) = (to, to);
        } else if self.starts_early && to > stream.trigger_page {
            let start = stream.read_ahead_end;
            (stream.read_ahead_end, stream.trigger_page) = (start + stream.next_run_pages, start);
            stream.next_run_pages = (stream.next_run_pages * 2).min(self.max_run_pages);
            return ReadAheadPlan::Separate(start, stream.read_ahead_end);
        }
        ReadAheadPlan::Nothing
    }

    /// Returns the least recently active stream, the first after the end of the ring.
    fn least_recent(&self) -> usize {
        self.lru_ring[self.streams.len()].1 as usize
    }

    /// Moves a stream before the end of the ring, as the most recently active.
    fn mark_recent(&mut self, index: usize) {
        let end = self.streams.len();
        let (before, after) = self.lru_ring[index];
        // each stream is in the ring once, so every link has its counterpart
        debug_assert!(
            self.lru_ring[before as usize].1 == index as u32 && self.lru_ring[after as usize].0 == index as u32,
            "the ring is broken at stream {index}"
        );
        self.lru_ring[before as usize].1 = after;
        self.lru_ring[after as usize].0 = before;
        let last = self.lru_ring[end].0;
        self.lru_ring[last as usize].1 = index as u32;
        self.lru_ring[index] = (last, end as u32);
        self.lru_ring[end].0 = index as u32;
    }
}

/// Fibonacci hashing, as in `cache_lines.rs`, to 8 bits.
#[inline]
fn hash_block(block: u64) -> usize {
    (block.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the runs read ahead for a reader of single pages whose reads all arrive in time.
    fn read_ahead_runs(early: bool, pages: u64) -> Vec<(u64, u64)> {
        let mut streams = SequentialStreams::new(2, 4, 16, early);
        let (mut have, mut runs) = (0, Vec::new());
        for page in 0..pages {
            let seen = if page < have { PagePresence::Cached } else { PagePresence::Absent(page) };
            let ahead = streams.plan_read_ahead(page * 8, page * 8 + 8, page, page + 1, seen);
            let (start, end) = match ahead {
                ReadAheadPlan::WithMiss(end) => (page, end),
                ReadAheadPlan::Separate(start, end) => (start, end),
                ReadAheadPlan::Nothing if page >= have => (page, page + 1),
                ReadAheadPlan::Nothing => continue,
            };
            have = end;
            runs.push((start, end - start));
        }
        runs
    }

    #[test]
    fn runs_double_up_to_the_longest() {
        assert_eq!(read_ahead_runs(false, 50), [(0, 1), (1, 4), (5, 8), (13, 16), (29, 16), (45, 16)]);
        // early: the next run begins when the reader enters the last
        assert_eq!(read_ahead_runs(true, 50), [(0, 1), (1, 4), (5, 8), (13, 16), (29, 16), (45, 16), (61, 16)]);
    }

    #[test]
    fn tracks_readers_up_to_the_limit() {
        for (count, ahead) in [(2, true), (1, false)] {
            let mut streams = SequentialStreams::new(count, 4, 16, true);
            streams.plan_read_ahead(0, 8, 0, 1, PagePresence::Absent(0));
            streams.plan_read_ahead(8000, 8008, 1000, 1001, PagePresence::Absent(1000));
            let again = streams.plan_read_ahead(8, 16, 1, 2, PagePresence::Absent(1));
            assert_eq!(again, if ahead { ReadAheadPlan::WithMiss(5) } else { ReadAheadPlan::Nothing });
        }
    }
}

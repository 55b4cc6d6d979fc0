//! Detection of sequential readers, and read-ahead for each.

/// A reader that may be sequential.
#[derive(Clone, Copy, Debug, Default)]
struct SequentialStream {
    /// Pages below this one were read, or are in flight.
    ahead: u64,
    /// A reader beyond this page has entered the last run.
    mark: u64,
    /// Pages of the next run; 0 before the first sequential read.
    run: u64,
}

/// Presence of a request's pages in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PagePresence {
    /// All pages are cached.
    Here,
    /// The first missing page is in flight.
    Coming,
    /// This page is neither cached nor in flight.
    Absent(u64),
}

/// Read-ahead for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadAheadPlan {
    Nothing,
    /// Together with the missing pages, up to this page.
    Along(u64),
    /// As a separate read, from and up to these pages.
    Apart(u64, u64),
}

/// Largest number of readers tracked; each read searches all of them.
pub const MOST_STREAMS: u32 = 4096;

/// Number of hash values: several times the usual number of readers, so that few reads collide.
const HASHES: usize = 256;

/// All sequential readers.
#[derive(Clone, Debug)]
pub(super) struct SequentialStreams {
    /// Block that each would read next; a separate array so that the search is fast.
    next: Vec<u64>,
    /// Number of these with each hash: most reads continue no stream, which one lookup shows.
    hashes: Box<[u16; HASHES]>,
    all: Vec<SequentialStream>,
    /// Ring by recency: the neighbours (less and more recent) of each stream, then those of the ring's end.
    order: Vec<(u32, u32)>,
    from: u64,
    to: u64,
    early: bool,
}

impl SequentialStreams {
    /// Tracks `count` readers, with runs from `from` up to `to` pages.
    pub fn new(count: u32, from: u64, to: u64, early: bool) -> SequentialStreams {
        let count = count.clamp(1, MOST_STREAMS) as usize;
        let (from, to) = (from.max(1), to.max(1));
        let ring = count as u32 + 1;
        let order = (0..ring).map(|index| ((index + ring - 1) % ring, (index + 1) % ring)).collect();
        let mut hashes = Box::new([0; HASHES]);
        hashes[hash(u64::MAX)] = count as u16;
        SequentialStreams {
            next: vec![u64::MAX; count],
            hashes,
            all: vec![SequentialStream::default(); count],
            order,
            from,
            to,
            early,
        }
    }

    /// Plans the read-ahead for a read of blocks `first..end`, pages `from..to`.
    pub fn read(&mut self, first: u64, end: u64, from: u64, to: u64, seen: PagePresence) -> ReadAheadPlan {
        let known = match self.hashes[hash(first)] {
            0 => None,
            _ => self.next.iter().position(|next| *next == first),
        };
        let index = known.unwrap_or_else(|| self.quietest());
        self.heard(index);
        self.hashes[hash(self.next[index])] -= 1;
        self.hashes[hash(end)] += 1;
        self.next[index] = end;
        let stream = &mut self.all[index];
        if known.is_none() {
            *stream = SequentialStream { ahead: to, mark: u64::MAX, run: 0 };
            return ReadAheadPlan::Nothing;
        }
        if stream.run == 0 {
            stream.run = self.from;
        }
        let missing = match seen {
            PagePresence::Here => None,
            PagePresence::Coming if to <= stream.ahead => None,
            PagePresence::Coming => Some(stream.ahead.max(from)),
            PagePresence::Absent(page) => Some(page),
        };
        if let Some(missing) = missing {
            let target = to.max(missing + stream.run);
            (stream.ahead, stream.mark) = (target, to.max(missing));
            stream.run = (stream.run * 2).min(self.to);
            return ReadAheadPlan::Along(target);
        }
        if to > stream.ahead {
            // all of it is cached from earlier
            (stream.ahead, stream.mark) = (to, to);
        } else if self.early && to > stream.mark {
            let start = stream.ahead;
            (stream.ahead, stream.mark) = (start + stream.run, start);
            stream.run = (stream.run * 2).min(self.to);
            return ReadAheadPlan::Apart(start, stream.ahead);
        }
        ReadAheadPlan::Nothing
    }

    /// Returns the least recently active stream, the first after the end of the ring.
    fn quietest(&self) -> usize {
        self.order[self.all.len()].1 as usize
    }

    /// Moves a stream before the end of the ring, as the most recently active.
    fn heard(&mut self, index: usize) {
        let end = self.all.len();
        let (before, after) = self.order[index];
        self.order[before as usize].1 = after;
        self.order[after as usize].0 = before;
        let last = self.order[end].0;
        self.order[last as usize].1 = index as u32;
        self.order[index] = (last, end as u32);
        self.order[end].0 = index as u32;
    }
}

/// Fibonacci hashing, as in `cache_lines.rs`, to 8 bits.
#[inline]
fn hash(block: u64) -> usize {
    (block.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the runs read ahead for a reader of single pages whose reads all arrive in time.
    fn runs(early: bool, pages: u64) -> Vec<(u64, u64)> {
        let mut streams = SequentialStreams::new(2, 4, 16, early);
        let (mut have, mut runs) = (0, Vec::new());
        for page in 0..pages {
            let seen = if page < have { PagePresence::Here } else { PagePresence::Absent(page) };
            let ahead = streams.read(page * 8, page * 8 + 8, page, page + 1, seen);
            let (start, end) = match ahead {
                ReadAheadPlan::Along(end) => (page, end),
                ReadAheadPlan::Apart(start, end) => (start, end),
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
        assert_eq!(runs(false, 50), [(0, 1), (1, 4), (5, 8), (13, 16), (29, 16), (45, 16)]);
        // early: the next run begins when the reader enters the last
        assert_eq!(runs(true, 50), [(0, 1), (1, 4), (5, 8), (13, 16), (29, 16), (45, 16), (61, 16)]);
    }

    #[test]
    fn readers_are_told_apart_up_to_their_number() {
        for (count, ahead) in [(2, true), (1, false)] {
            let mut streams = SequentialStreams::new(count, 4, 16, true);
            streams.read(0, 8, 0, 1, PagePresence::Absent(0));
            streams.read(8000, 8008, 1000, 1001, PagePresence::Absent(1000));
            let again = streams.read(8, 16, 1, 2, PagePresence::Absent(1));
            assert_eq!(again, if ahead { ReadAheadPlan::Along(5) } else { ReadAheadPlan::Nothing });
        }
    }
}

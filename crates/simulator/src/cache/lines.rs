//! The entries of a cache: found by number, and in the order of their last use.

/// Number of no entry: the foot of all lists.
pub(super) const NONE: u32 = 0;

/// One entry: a line of neighbouring pages, one bit each. What is looked at for
/// every request fills one line of the processor's cache; the rest lies apart.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
pub(super) struct CacheLine {
    /// Which line of the volume.
    pub number: u64,
    /// What is here.
    pub valid: u64,
    /// Read ahead, and not asked for yet.
    pub ahead: u64,
    /// The next entry of the same bucket.
    chain: u32,
    /// It is in the order of use. Busy entries leave it when they would be next to go.
    pub listed: bool,
    /// It waits to be flushed.
    pub queued: bool,
    /// On its way from below.
    pub reading: u64,
    /// Newer than below.
    pub dirty: u64,
    /// On its way below.
    pub flushing: u64,
    /// The last flight that began with one of its pages.
    pub flight: u32,
}

/// The entries used more and less recently than one.
#[derive(Clone, Copy, Debug, Default)]
struct UseLinks {
    newer: u32,
    older: u32,
}

/// An entry that waits to be flushed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FlushWait {
    /// When it became dirty.
    pub since: u64,
    /// Dirty for longer and shorter.
    pub before: u32,
    pub after: u32,
    /// Its place in the order of flushing.
    pub place: u32,
}

impl CacheLine {
    /// Pages that take room.
    pub fn held(&self) -> u64 {
        self.valid | self.reading | self.flushing
    }

    /// Something is under way with it, or has to be.
    pub fn busy(&self) -> bool {
        self.reading | self.dirty | self.flushing != 0
    }
}

/// All entries. Entry 0 is no entry, but the end of every list.
#[derive(Clone, Debug)]
pub(super) struct CacheLines {
    all: Vec<CacheLine>,
    uses: Vec<UseLinks>,
    /// Of each entry, where it waits to be flushed.
    pub waits: Vec<FlushWait>,
    buckets: Vec<u32>,
    /// Entries to be used again, linked by `chain`.
    free: u32,
    shift: u32,
    most: usize,
    /// Pages held in all.
    pub held: u64,
}

impl std::ops::Index<u32> for CacheLines {
    type Output = CacheLine;

    #[inline]
    fn index(&self, at: u32) -> &CacheLine {
        &self.all[at as usize]
    }
}

impl std::ops::IndexMut<u32> for CacheLines {
    #[inline]
    fn index_mut(&mut self, at: u32) -> &mut CacheLine {
        &mut self.all[at as usize]
    }
}

impl CacheLines {
    /// Room for so many entries at most.
    pub fn new(most: u64) -> CacheLines {
        let most = most.clamp(1, super::spec::MOST_LINES) as usize;
        let buckets = most.next_power_of_two().max(2);
        CacheLines {
            all: vec![CacheLine::default()],
            uses: vec![UseLinks::default()],
            waits: vec![FlushWait::default()],
            buckets: vec![NONE; buckets],
            free: NONE,
            shift: 64 - buckets.ilog2(),
            most,
            held: 0,
        }
    }

    #[inline]
    fn bucket(&self, number: u64) -> usize {
        // multiplicative hashing with 2^64 / golden ratio (Knuth, The Art of
        // Computer Programming 3, 6.4): neighbours come to lie far apart
        (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift) as usize
    }

    /// The entry of a line, or [`NONE`].
    #[inline]
    pub fn find(&self, number: u64) -> u32 {
        let mut at = self.buckets[self.bucket(number)];
        while at != NONE {
            let line = &self[at];
            if line.number == number {
                return at;
            }
            at = line.chain;
        }
        NONE
    }

    /// A new entry, used just now. `None` where all are in use.
    pub fn add(&mut self, number: u64) -> Option<u32> {
        let at = if self.free != NONE {
            let at = self.free;
            self.free = self[at].chain;
            at
        } else if self.all.len() <= self.most {
            self.all.push(CacheLine::default());
            self.uses.push(UseLinks::default());
            self.waits.push(FlushWait::default());
            (self.all.len() - 1) as u32
        } else {
            return None;
        };
        let bucket = self.bucket(number);
        self[at] = CacheLine { number, chain: self.buckets[bucket], ..CacheLine::default() };
        self.buckets[bucket] = at;
        self.list(at, true);
        Some(at)
    }

    /// Forgets an entry that is neither busy nor queued.
    pub fn remove(&mut self, at: u32) {
        self.held -= u64::from(self[at].held().count_ones());
        if self[at].listed {
            self.unlist(at);
        }
        let (bucket, next) = (self.bucket(self[at].number), self[at].chain);
        if self.buckets[bucket] == at {
            self.buckets[bucket] = next;
        } else {
            let mut before = self.buckets[bucket];
            while self[before].chain != at && before != NONE {
                before = self[before].chain;
            }
            self[before].chain = next;
        }
        self[at] = CacheLine { chain: self.free, ..CacheLine::default() };
        self.free = at;
    }

    /// The entry used longest ago of those that may go, `but` one. Busy ones
    /// met on the way leave the order: they come back when they are not.
    pub fn oldest(&mut self, but: u32) -> Option<u32> {
        let mut at = self.uses[0].newer;
        loop {
            match at {
                NONE => return None,
                _ if at == but => at = self.uses[at as usize].newer,
                _ if self[at].busy() => {
                    let next = self.uses[at as usize].newer;
                    self.unlist(at);
                    at = next;
                }
                _ => return Some(at),
            }
        }
    }

    /// It was used just now.
    #[inline]
    pub fn touch(&mut self, at: u32) {
        if self.uses[0].older == at {
            return;
        }
        if self[at].listed {
            self.unlist(at);
        }
        self.list(at, true);
    }

    /// Puts an entry into the order: as the one used last, or as the one used first.
    #[inline]
    pub fn list(&mut self, at: u32, newest: bool) {
        // entry 0 closes the ring: the newest is older than it, the oldest newer
        let ends = self.uses[0];
        let (newer, older) = if newest { (0, ends.older) } else { (ends.newer, 0) };
        self[at].listed = true;
        self.uses[at as usize] = UseLinks { newer, older };
        self.uses[newer as usize].older = at;
        self.uses[older as usize].newer = at;
    }

    #[inline]
    fn unlist(&mut self, at: u32) {
        let UseLinks { newer, older } = self.uses[at as usize];
        self.uses[newer as usize].older = older;
        self.uses[older as usize].newer = newer;
        self[at].listed = false;
    }

    /// Entries in use.
    #[cfg(test)]
    pub fn used(&self) -> usize {
        let free = std::iter::successors(Some(self.free), |at| Some(self[*at].chain));
        self.all.len() - 1 - free.take_while(|at| *at != NONE).count()
    }
}

#[cfg(test)]
mod tests {
    use diskwright_base::Rng;

    use super::*;

    #[test]
    fn it_agrees_with_a_list_in_order_of_use() {
        let (mut lines, mut model) = (CacheLines::new(50), Vec::<u64>::new());
        let mut dice = Rng::new(4, 4);
        for _ in 0..20_000 {
            let number = dice.below(90) << (dice.below(2) * 40);
            let at = lines.find(number);
            let known = model.iter().position(|n| *n == number);
            assert_eq!(at != NONE, known.is_some());
            match (known, dice.below(4)) {
                (Some(at_model), 0) => {
                    model.remove(at_model);
                    lines.remove(at);
                }
                (Some(at_model), _) => {
                    let number = model.remove(at_model);
                    model.push(number);
                    lines.touch(at);
                }
                (None, _) => {
                    if lines.used() == 50 {
                        let oldest = lines.oldest(NONE).expect("none is busy");
                        assert_eq!(lines[oldest].number, model.remove(0));
                        lines.remove(oldest);
                    }
                    model.push(number);
                    assert!(lines.add(number).is_some());
                }
            }
            assert_eq!(lines.used(), model.len());
        }
    }

    #[test]
    fn busy_entries_are_passed_by() {
        let mut lines = CacheLines::new(3);
        let at: Vec<u32> = (0..3).filter_map(|n| lines.add(n)).collect();
        assert_eq!(lines.add(3), None);
        lines[at[0]].dirty = 1;
        assert_eq!(lines.oldest(NONE), Some(at[1]));
        assert_eq!(lines.oldest(at[1]), Some(at[2]));
        lines[at[0]].dirty = 0;
        assert!(!lines[at[0]].listed);
        lines.list(at[0], false);
        assert_eq!(lines.oldest(NONE), Some(at[0]));
    }
}

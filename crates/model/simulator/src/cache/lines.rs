//! The entries of a cache: found by number, and in the order of their last use.

/// Number of no entry: the foot of all lists.
pub(super) const NONE: u32 = 0;

/// What is looked at of an entry for every request: a line of neighbouring pages,
/// one bit each. It is small, so that of a large cache much is in the processor's.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(32))]
pub(super) struct CacheLineHead {
    /// Which line of the volume.
    pub number: u64,
    /// What is here.
    pub valid: u64,
    /// The next entry of the same bucket.
    chain: u32,
    /// Where its last use stands in the order of use, if it is there.
    place: u32,
    /// It is in the order of use. Busy entries leave it when they would be next to go.
    pub listed: bool,
    /// Some of it may have been read ahead and not asked for yet.
    pub foreseen: bool,
}

/// The rest of an entry.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CacheLine {
    /// Read ahead, and not asked for yet.
    pub ahead: u64,
    /// On its way from below.
    pub reading: u64,
    /// Newer than below.
    pub dirty: u64,
    /// On its way below.
    pub flushing: u64,
    /// The last flight that began with one of its pages.
    pub flight: u32,
    /// It waits to be flushed.
    pub queued: bool,
}

/// The order of use: each use of an entry, the oldest first. Places count up and
/// wrap. Only an entry's last use counts, which the entry itself knows: so a use
/// writes at the end of this list and in the entry, where a chain of neighbours
/// would be two more misses of the processor's cache.
#[derive(Clone, Debug, Default)]
struct UseOrder {
    uses: std::collections::VecDeque<u32>,
    /// Place of the first.
    first: u32,
}

/// Uses kept for each entry before those that no longer count are taken out.
const USES_AN_ENTRY: usize = 4;

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

impl UseOrder {
    /// The first is done with.
    #[inline]
    fn skip(&mut self) {
        self.uses.pop_front();
        self.first = self.first.wrapping_add(1);
    }
}

impl CacheLine {
    /// Something is under way with it, or has to be.
    pub fn busy(&self) -> bool {
        self.reading | self.dirty | self.flushing != 0
    }
}

/// All entries. Entry 0 is no entry, but the end of every list.
#[derive(Clone, Debug)]
pub(super) struct CacheLines {
    heads: Vec<CacheLineHead>,
    all: Vec<CacheLine>,
    order: UseOrder,
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
    fn index(&self, slot: u32) -> &CacheLine {
        &self.all[slot as usize]
    }
}

impl std::ops::IndexMut<u32> for CacheLines {
    #[inline]
    fn index_mut(&mut self, slot: u32) -> &mut CacheLine {
        &mut self.all[slot as usize]
    }
}

impl CacheLines {
    /// Room for so many entries at most.
    pub fn new(most: u64) -> CacheLines {
        let most = most.clamp(1, super::spec::MOST_LINES) as usize;
        let buckets = most.next_power_of_two().max(2);
        CacheLines {
            heads: vec![CacheLineHead::default()],
            all: vec![CacheLine::default()],
            order: UseOrder::default(),
            waits: vec![FlushWait::default()],
            buckets: vec![NONE; buckets],
            free: NONE,
            shift: 64 - buckets.ilog2(),
            most,
            held: 0,
        }
    }

    #[inline]
    pub fn head(&self, slot: u32) -> &CacheLineHead {
        &self.heads[slot as usize]
    }

    #[inline]
    pub fn head_mut(&mut self, slot: u32) -> &mut CacheLineHead {
        &mut self.heads[slot as usize]
    }

    /// Pages of an entry that take room.
    pub fn held_of(&self, slot: u32) -> u64 {
        self.head(slot).valid | self[slot].reading | self[slot].flushing
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
        let mut slot = self.buckets[self.bucket(number)];
        while slot != NONE {
            let head = self.head(slot);
            if head.number == number {
                return slot;
            }
            slot = head.chain;
        }
        NONE
    }

    /// A new entry, used just now. `None` where all are in use.
    pub fn add(&mut self, number: u64) -> Option<u32> {
        let index = if self.free != NONE {
            let index = self.free;
            self.free = self.head(index).chain;
            index
        } else if self.all.len() <= self.most {
            self.heads.push(CacheLineHead::default());
            self.all.push(CacheLine::default());
            self.waits.push(FlushWait::default());
            (self.all.len() - 1) as u32
        } else {
            return None;
        };
        let bucket = self.bucket(number);
        self[index] = CacheLine::default();
        *self.head_mut(index) = CacheLineHead { number, chain: self.buckets[bucket], ..CacheLineHead::default() };
        self.buckets[bucket] = index;
        self.list(index, true);
        Some(index)
    }

    /// Forgets an entry that is neither busy nor queued.
    pub fn remove(&mut self, slot: u32) {
        self.held -= u64::from(self.held_of(slot).count_ones());
        let CacheLineHead { number, chain: next, .. } = *self.head(slot);
        let bucket = self.bucket(number);
        if self.buckets[bucket] == slot {
            self.buckets[bucket] = next;
        } else {
            let mut before = self.buckets[bucket];
            while self.head(before).chain != slot && before != NONE {
                before = self.head(before).chain;
            }
            self.head_mut(before).chain = next;
        }
        *self.head_mut(slot) = CacheLineHead { chain: self.free, ..CacheLineHead::default() };
        self.free = slot;
    }

    /// The entry used longest ago of those that may go, `but` one. Busy ones
    /// met on the way leave the order: they come back when they are not.
    pub fn oldest(&mut self, but: u32) -> Option<u32> {
        let mut passed = false;
        let found = loop {
            let Some(slot) = self.order.uses.front().copied() else { break None };
            let (line, head) = (&self.all[slot as usize], &mut self.heads[slot as usize]);
            if !head.listed || head.place != self.order.first {
                self.order.skip();
            } else if line.busy() {
                head.listed = false;
                self.order.skip();
            } else if slot == but {
                passed = true;
                self.order.skip();
            } else {
                break Some(slot);
            }
        };
        if passed {
            // it stays the oldest
            self.list(but, false);
        }
        found
    }

    /// It was used just now.
    #[inline]
    pub fn touch(&mut self, slot: u32) {
        let (head, order) = (self.head(slot), &self.order);
        if !head.listed || head.place != order.first.wrapping_add(order.uses.len() as u32).wrapping_sub(1) {
            self.list(slot, true);
        }
    }

    /// Puts an entry into the order: as the one used last, or as the one used first.
    #[inline]
    pub fn list(&mut self, slot: u32, newest: bool) {
        let order = &mut self.order;
        let place = if newest {
            order.uses.push_back(slot);
            order.first.wrapping_add(order.uses.len() as u32 - 1)
        } else {
            order.uses.push_front(slot);
            order.first = order.first.wrapping_sub(1);
            order.first
        };
        let head = &mut self.heads[slot as usize];
        (head.listed, head.place) = (true, place);
        if order.uses.len() > USES_AN_ENTRY * self.all.len() + 64 {
            self.tidy();
        }
    }

    /// Takes out the uses that no longer count.
    #[cold]
    fn tidy(&mut self) {
        let (heads, order) = (&mut self.heads, &mut self.order);
        let (mut place, mut kept) = (order.first, order.first);
        order.uses.retain(|slot| {
            let head = &mut heads[*slot as usize];
            let counts = head.listed && head.place == place;
            if counts {
                head.place = kept;
            }
            (place, kept) = (place.wrapping_add(1), kept.wrapping_add(u32::from(counts)));
            counts
        });
        debug_assert!(order.uses.len() < heads.len(), "each entry counts once");
    }

    /// Entries in use.
    #[cfg(test)]
    pub fn used(&self) -> usize {
        let free = std::iter::successors(Some(self.free), |slot| Some(self.head(*slot).chain));
        self.all.len() - 1 - free.take_while(|slot| *slot != NONE).count()
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
            let slot = lines.find(number);
            let known = model.iter().position(|n| *n == number);
            assert_eq!(slot != NONE, known.is_some());
            match (known, dice.below(4)) {
                (Some(at_model), 0) => {
                    model.remove(at_model);
                    lines.remove(slot);
                }
                (Some(at_model), _) => {
                    let number = model.remove(at_model);
                    model.push(number);
                    lines.touch(slot);
                }
                (None, _) => {
                    if lines.used() == 50 {
                        let oldest = lines.oldest(NONE).expect("none is busy");
                        assert_eq!(lines.head(oldest).number, model.remove(0));
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
        let slot: Vec<u32> = (0..3).filter_map(|n| lines.add(n)).collect();
        assert_eq!(lines.add(3), None);
        lines[slot[0]].dirty = 1;
        assert_eq!(lines.oldest(NONE), Some(slot[1]));
        assert_eq!(lines.oldest(slot[1]), Some(slot[2]));
        lines[slot[0]].dirty = 0;
        assert!(!lines.head(slot[0]).listed);
        lines.list(slot[0], false);
        assert_eq!(lines.oldest(NONE), Some(slot[0]));
    }
}

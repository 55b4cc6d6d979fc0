//! Entries of a cache: a hash table by line number, and their LRU order.

/// Slot number that means no entry; it terminates all lists.
pub(super) const NONE: u32 = 0;

/// Hot part of an entry, examined for every request: a line of neighbouring pages, one bit each. It is small, so that
/// much of a large cache fits into the processor's cache.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(32))]
pub(super) struct CacheLineHead {
    /// Number of the line in the volume.
    pub number: u64,
    /// Valid pages.
    pub valid: u64,
    /// Next entry of the same hash bucket.
    chain: u32,
    /// Position of its last use in the LRU order, if it is there.
    place: u32,
    /// True if it is in the LRU order. Busy entries leave it when they would be evicted next.
    pub listed: bool,
    /// True if some pages may have been read ahead and not requested yet.
    pub foreseen: bool,
}

/// Cold part of an entry.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CacheLine {
    /// Pages read ahead and not requested yet.
    pub ahead: u64,
    /// Pages being read from below.
    pub reading: u64,
    /// Pages newer than below.
    pub dirty: u64,
    /// Pages being written below.
    pub flushing: u64,
    /// Last flight that began with one of its pages.
    pub flight: u32,
    /// True if it is queued to be flushed.
    pub queued: bool,
}

/// LRU order: a list of uses of entries, the oldest first. Positions count up and wrap. Only an entry's last use
/// counts, whose position the entry stores: so a use writes at the end of this list and in the entry, whereas a linked
/// list would cost two more misses of the processor's cache for the neighbours.
#[derive(Clone, Debug, Default)]
struct UseOrder {
    uses: std::collections::VecDeque<u32>,
    /// Position of the first use.
    first: u32,
}

/// Uses kept per entry before stale ones are removed.
const USES_AN_ENTRY: usize = 4;

/// Links of an entry that is queued to be flushed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FlushWait {
    /// Time at which it became dirty.
    pub since: u64,
    /// Neighbours in the list by age: dirty for longer, and for shorter.
    pub before: u32,
    pub after: u32,
    /// Its position in the heap by address.
    pub place: u32,
}

impl UseOrder {
    /// Drops the oldest use.
    #[inline]
    fn skip(&mut self) {
        self.uses.pop_front();
        self.first = self.first.wrapping_add(1);
    }
}

impl CacheLine {
    /// Returns true if a page is dirty or in flight.
    pub fn busy(&self) -> bool {
        self.reading | self.dirty | self.flushing != 0
    }
}

/// All entries. Entry 0 is a sentinel, the end of every list.
#[derive(Clone, Debug)]
pub(super) struct CacheLines {
    heads: Vec<CacheLineHead>,
    all: Vec<CacheLine>,
    order: UseOrder,
    /// Flush queue links of each entry.
    pub waits: Vec<FlushWait>,
    buckets: Vec<u32>,
    /// First free entry; free entries are linked by `next_in_bucket`.
    free: u32,
    shift: u32,
    most: usize,
    /// Total pages held.
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
    /// Creates a table for at most `max_entries` entries.
    pub fn new(max_entries: u64) -> CacheLines {
        let max_entries = max_entries.clamp(1, super::spec::MOST_LINES) as usize;
        let buckets = max_entries.next_power_of_two().max(2);
        CacheLines {
            heads: vec![CacheLineHead::default()],
            all: vec![CacheLine::default()],
            order: UseOrder::default(),
            waits: vec![FlushWait::default()],
            buckets: vec![NONE; buckets],
            free: NONE,
            shift: 64 - buckets.ilog2(),
            most: max_entries,
            held: 0,
        }
    }

    /// Returns the hot part of an entry.
    #[inline]
    pub fn head(&self, slot: u32) -> &CacheLineHead {
        &self.heads[slot as usize]
    }

    /// Returns the hot part of an entry, mutable.
    #[inline]
    pub fn head_mut(&mut self, slot: u32) -> &mut CacheLineHead {
        &mut self.heads[slot as usize]
    }

    /// Returns the pages of an entry that take room.
    pub fn held_of(&self, slot: u32) -> u64 {
        self.head(slot).valid | self[slot].reading | self[slot].flushing
    }

    #[inline]
    fn bucket(&self, number: u64) -> usize {
        // multiplicative hashing with 2^64 / golden ratio (Knuth, The Art of Computer Programming 3, 6.4) spreads
        // neighbours
        (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift) as usize
    }

    /// Returns the entry of a line, or [`NONE`].
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

    /// Adds an entry as the most recently used. `None` if all are in use.
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

    /// Removes an entry that is neither busy nor queued.
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

    /// Returns the least recently used entry that may be evicted, except for `excluded`. Busy entries on the way leave
    /// the order; they are inserted again when they are not busy any more.
    pub fn oldest(&mut self, excluded: u32) -> Option<u32> {
        let mut skipped_excluded = false;
        let found = loop {
            let Some(slot) = self.order.uses.front().copied() else { break None };
            let (line, head) = (&self.all[slot as usize], &mut self.heads[slot as usize]);
            if !head.listed || head.place != self.order.first {
                self.order.skip();
            } else if line.busy() {
                head.listed = false;
                self.order.skip();
            } else if slot == excluded {
                skipped_excluded = true;
                self.order.skip();
            } else {
                break Some(slot);
            }
        };
        if skipped_excluded {
            // the excluded entry stays the oldest
            self.list(excluded, false);
        }
        found
    }

    /// Marks an entry as the most recently used.
    #[inline]
    pub fn touch(&mut self, slot: u32) {
        let (head, order) = (self.head(slot), &self.order);
        if !head.listed || head.place != order.first.wrapping_add(order.uses.len() as u32).wrapping_sub(1) {
            self.list(slot, true);
        }
    }

    /// Inserts an entry into the LRU order, as the most or as the least recently used.
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

    /// Removes stale uses.
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

    /// Number of entries in use.
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
        let mut rng = Rng::new(4, 4);
        for _ in 0..20_000 {
            let number = rng.next_below(90) << (rng.next_below(2) * 40);
            let slot = lines.find(number);
            let known = model.iter().position(|n| *n == number);
            assert_eq!(slot != NONE, known.is_some());
            match (known, rng.next_below(4)) {
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

//! Entries of a cache: a hash table by line number, and their LRU order.

/// Slot number that means no entry; it terminates all lists.
pub(super) const NO_ENTRY: u32 = 0;

/// Hot part of an entry, examined for every request: a line of neighboring pages, one bit each. It is small, so that
/// the hot parts of many entries fit into the processor's cache.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(32))]
pub(super) struct CacheLineHead {
    /// Number of the line in the volume.
    pub line_number: u64,
    /// Valid pages.
    pub valid: u64,
    /// Next entry of the same hash bucket.
    next_in_bucket: u32,
    /// Position of its last use in the LRU order, if it is there.
    use_position: u32,
    /// True if it is in the LRU order. Busy entries leave it when they would be evicted next.
    pub is_in_use_order: bool,
    /// True if some pages may have been read ahead and not requested yet.
    pub has_unused_read_ahead: bool,
}

/// Cold part of an entry.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CacheLine {
    /// Pages read ahead and not requested yet.
    pub unused_read_ahead: u64,
    /// Pages being read from below.
    pub reading: u64,
    /// Pages newer than below.
    pub dirty: u64,
    /// Pages being written below.
    pub flushing: u64,
    /// Last flight that began with one of its pages.
    pub flight: u32,
    /// True if it is queued to be flushed.
    pub is_flush_queued: bool,
}

/// LRU order: a list of uses of entries, the oldest first. Positions count up and wrap. Only the last use of an entry
/// counts; the entry stores its position. So a use writes only the end of this list and the entry, whereas a linked
/// list would cost two more misses of the processor's cache, for the neighbors.
#[derive(Clone, Debug, Default)]
struct LruOrder {
    uses: std::collections::VecDeque<u32>,
    /// Position of the first use.
    first_position: u32,
}

/// Uses kept per entry before stale ones are removed.
const MAX_USES_PER_ENTRY: usize = 4;

/// Links of an entry that is queued to be flushed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FlushQueueLink {
    /// Time at which it became dirty.
    pub dirty_since: u64,
    /// Next entry in the list by age that has been dirty for longer.
    pub older: u32,
    /// Next entry in the list by age that has been dirty for less time.
    pub newer: u32,
    /// Position of the entry in the heap by address.
    pub heap_position: u32,
}

impl LruOrder {
    /// Returns the entry whose use is at a position.
    #[inline]
    fn slot_at(&self, position: u32) -> Option<u32> {
        self.uses.get(position.wrapping_sub(self.first_position) as usize).copied()
    }

    /// Drops the oldest use.
    #[inline]
    fn drop_oldest_use(&mut self) {
        self.uses.pop_front();
        self.first_position = self.first_position.wrapping_add(1);
    }
}

impl CacheLine {
    /// Returns true if a page is dirty or in flight.
    pub fn is_busy(&self) -> bool {
        self.reading | self.dirty | self.flushing != 0
    }
}

/// All entries. Entry 0 is a sentinel, the end of every list.
#[derive(Clone, Debug)]
pub(super) struct CacheLines {
    heads: Vec<CacheLineHead>,
    entries: Vec<CacheLine>,
    lru: LruOrder,
    /// Flush queue links of each entry.
    pub flush_links: Vec<FlushQueueLink>,
    buckets: Vec<u32>,
    /// First free entry; free entries are linked by `next_in_bucket`.
    first_free: u32,
    hash_shift: u32,
    max_entries: usize,
    /// Total pages held.
    pub held_pages: u64,
}

impl std::ops::Index<u32> for CacheLines {
    type Output = CacheLine;

    #[inline]
    fn index(&self, slot: u32) -> &CacheLine {
        &self.entries[slot as usize]
    }
}

impl std::ops::IndexMut<u32> for CacheLines {
    #[inline]
    fn index_mut(&mut self, slot: u32) -> &mut CacheLine {
        &mut self.entries[slot as usize]
    }
}

impl CacheLines {
    /// Creates a table for at most `max_entries` entries.
    pub fn new(max_entries: u64) -> CacheLines {
        let max_entries = max_entries.clamp(1, super::spec::MAX_LINES) as usize;
        let buckets = max_entries.next_power_of_two().max(2);
        CacheLines {
            heads: vec![CacheLineHead::default()],
            entries: vec![CacheLine::default()],
            lru: LruOrder::default(),
            flush_links: vec![FlushQueueLink::default()],
            buckets: vec![NO_ENTRY; buckets],
            first_free: NO_ENTRY,
            hash_shift: 64 - buckets.ilog2(),
            max_entries,
            held_pages: 0,
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

    /// Returns the pages of an entry that occupy space in the cache.
    pub fn held_mask(&self, slot: u32) -> u64 {
        self.head(slot).valid | self[slot].reading | self[slot].flushing
    }

    #[inline]
    fn bucket_index(&self, number: u64) -> usize {
        // multiplicative hashing with 2^64 / golden ratio (Knuth, The Art of Computer Programming 3, 6.4) spreads
        // neighbors
        (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.hash_shift) as usize
    }

    /// Returns the entry of a line, or [`NO_ENTRY`].
    #[inline]
    pub fn find_entry(&self, number: u64) -> u32 {
        let mut slot = self.buckets[self.bucket_index(number)];
        while slot != NO_ENTRY {
            let head = self.head(slot);
            if head.line_number == number {
                return slot;
            }
            slot = head.next_in_bucket;
        }
        NO_ENTRY
    }

    /// Adds an entry as the most recently used. `None` if all are in use.
    pub fn add_entry(&mut self, number: u64) -> Option<u32> {
        let index = if self.first_free != NO_ENTRY {
            let index = self.first_free;
            self.first_free = self.head(index).next_in_bucket;
            index
        } else if self.entries.len() <= self.max_entries {
            self.heads.push(CacheLineHead::default());
            self.entries.push(CacheLine::default());
            self.flush_links.push(FlushQueueLink::default());
            (self.entries.len() - 1) as u32
        } else {
            return None;
        };
        let bucket = self.bucket_index(number);
        self[index] = CacheLine::default();
        *self.head_mut(index) =
            CacheLineHead { line_number: number, next_in_bucket: self.buckets[bucket], ..CacheLineHead::default() };
        self.buckets[bucket] = index;
        self.insert_use(index, true);
        Some(index)
    }

    /// Removes an entry that is neither busy nor queued.
    pub fn remove_entry(&mut self, slot: u32) {
        debug_assert!(!self[slot].is_busy() && !self[slot].is_flush_queued, "entry {slot} is busy or queued");
        self.held_pages -= u64::from(self.held_mask(slot).count_ones());
        let CacheLineHead { line_number: number, next_in_bucket: next, .. } = *self.head(slot);
        let bucket = self.bucket_index(number);
        if self.buckets[bucket] == slot {
            self.buckets[bucket] = next;
        } else {
            let mut before = self.buckets[bucket];
            while self.head(before).next_in_bucket != slot && before != NO_ENTRY {
                before = self.head(before).next_in_bucket;
            }
            debug_assert!(before != NO_ENTRY, "entry {slot} is not in its bucket");
            self.head_mut(before).next_in_bucket = next;
        }
        *self.head_mut(slot) = CacheLineHead { next_in_bucket: self.first_free, ..CacheLineHead::default() };
        self.first_free = slot;
    }

    /// Returns the least recently used entry that may be evicted, except for `excluded`. Busy entries on the way leave
    /// the order; they are inserted again when they are not busy any more.
    pub fn find_victim(&mut self, excluded: u32) -> Option<u32> {
        let mut skipped_excluded = false;
        let found = loop {
            let Some(slot) = self.lru.uses.front().copied() else { break None };
            let (line, head) = (&self.entries[slot as usize], &mut self.heads[slot as usize]);
            if !head.is_in_use_order || head.use_position != self.lru.first_position {
                self.lru.drop_oldest_use();
            } else if line.is_busy() {
                head.is_in_use_order = false;
                self.lru.drop_oldest_use();
            } else if slot == excluded {
                skipped_excluded = true;
                self.lru.drop_oldest_use();
            } else {
                break Some(slot);
            }
        };
        debug_assert!(found != Some(excluded), "the entry {excluded} is excluded");
        if skipped_excluded {
            // the excluded entry stays the oldest
            self.insert_use(excluded, false);
        }
        found
    }

    /// Marks an entry as the most recently used.
    #[inline]
    pub fn mark_used(&mut self, slot: u32) {
        let (head, order) = (self.head(slot), &self.lru);
        debug_assert!(
            !head.is_in_use_order || order.slot_at(head.use_position) == Some(slot),
            "the last use of entry {slot} is not at its position"
        );
        if !head.is_in_use_order
            || head.use_position != order.first_position.wrapping_add(order.uses.len() as u32).wrapping_sub(1)
        {
            self.insert_use(slot, true);
        }
    }

    /// Inserts an entry into the LRU order, as the most or as the least recently used.
    #[inline]
    pub fn insert_use(&mut self, slot: u32, newest: bool) {
        let order = &mut self.lru;
        let position = if newest {
            order.uses.push_back(slot);
            order.first_position.wrapping_add(order.uses.len() as u32 - 1)
        } else {
            order.uses.push_front(slot);
            order.first_position = order.first_position.wrapping_sub(1);
            order.first_position
        };
        debug_assert!(order.slot_at(position) == Some(slot), "the last use of entry {slot} is not at its position");
        let head = &mut self.heads[slot as usize];
        (head.is_in_use_order, head.use_position) = (true, position);
        if order.uses.len() > MAX_USES_PER_ENTRY * self.entries.len() + 64 {
            self.compact_uses();
        }
    }

    /// Removes stale uses.
    #[cold]
    fn compact_uses(&mut self) {
        let (heads, order) = (&mut self.heads, &mut self.lru);
        let (mut position, mut new_position) = (order.first_position, order.first_position);
        order.uses.retain(|slot| {
            let head = &mut heads[*slot as usize];
            let is_last_use = head.is_in_use_order && head.use_position == position;
            if is_last_use {
                head.use_position = new_position;
            }
            (position, new_position) = (position.wrapping_add(1), new_position.wrapping_add(u32::from(is_last_use)));
            is_last_use
        });
        debug_assert!(order.uses.len() < heads.len(), "each entry counts once");
    }

    /// Number of entries in use.
    #[cfg(test)]
    pub fn entry_count(&self) -> usize {
        let free = std::iter::successors(Some(self.first_free), |slot| Some(self.head(*slot).next_in_bucket));
        self.entries.len() - 1 - free.take_while(|slot| *slot != NO_ENTRY).count()
    }
}

#[cfg(test)]
mod tests {
    use diskwright_base::Rng;

    use super::*;

    #[test]
    fn agrees_with_a_list_in_order_of_use() {
        let (mut lines, mut model) = (CacheLines::new(50), Vec::<u64>::new());
        let mut rng = Rng::new(4, 4);
        for _ in 0..20_000 {
            let number = rng.next_below(90) << (rng.next_below(2) * 40);
            let slot = lines.find_entry(number);
            let known = model.iter().position(|n| *n == number);
            assert_eq!(slot != NO_ENTRY, known.is_some());
            match (known, rng.next_below(4)) {
                (Some(at_model), 0) => {
                    model.remove(at_model);
                    lines.remove_entry(slot);
                }
                (Some(at_model), _) => {
                    let number = model.remove(at_model);
                    model.push(number);
                    lines.mark_used(slot);
                }
                (None, _) => {
                    if lines.entry_count() == 50 {
                        let oldest = lines.find_victim(NO_ENTRY).expect("none is busy");
                        assert_eq!(lines.head(oldest).line_number, model.remove(0));
                        lines.remove_entry(oldest);
                    }
                    model.push(number);
                    assert!(lines.add_entry(number).is_some());
                }
            }
            assert_eq!(lines.entry_count(), model.len());
        }
    }

    #[test]
    fn busy_entries_are_not_evicted() {
        let mut lines = CacheLines::new(3);
        let slot: Vec<u32> = (0..3).filter_map(|n| lines.add_entry(n)).collect();
        assert_eq!(lines.add_entry(3), None);
        lines[slot[0]].dirty = 1;
        assert_eq!(lines.find_victim(NO_ENTRY), Some(slot[1]));
        assert_eq!(lines.find_victim(slot[1]), Some(slot[2]));
        lines[slot[0]].dirty = 0;
        assert!(!lines.head(slot[0]).is_in_use_order);
        lines.insert_use(slot[0], false);
        assert_eq!(lines.find_victim(NO_ENTRY), Some(slot[0]));
    }
}

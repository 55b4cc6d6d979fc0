//! Queue of entries to be flushed: a list by age and, if flushing goes by address, a heap.

use super::cache_lines::{CacheLines, FlushQueueLink, NO_ENTRY};
use crate::Ns;

/// Queue of entries to be flushed. Every queued entry is in the list by age, and if `by_address` also in the heap.
#[derive(Clone, Debug)]
pub(super) struct FlushQueue {
    /// Heap by sweep, then line; empty if only age counts. Entries store their position in it, so that any of them can
    /// be removed.
    heap: Vec<HeapEntry>,
    by_address: bool,
    /// Number of sweeps from the lowest address so far.
    sweep: u64,
    /// Line that the current sweep has reached.
    arm_line: u64,
    /// First entry of the list by age, dirty for the longest time.
    oldest: u32,
    /// Last entry of the list by age, dirty for the shortest time.
    newest: u32,
}

/// A queued entry in the heap.
#[derive(Clone, Copy, Debug)]
struct HeapEntry {
    sweep: u64,
    line: u64,
    slot: u32,
}

impl HeapEntry {
    /// Flushing goes sweep by sweep, and line by line in each.
    fn order_key(&self) -> (u64, u64) {
        (self.sweep, self.line)
    }
}

impl FlushQueue {
    /// Creates an empty queue.
    pub fn new(by_address: bool) -> FlushQueue {
        FlushQueue { heap: Vec::new(), by_address, sweep: 0, arm_line: 0, oldest: NO_ENTRY, newest: NO_ENTRY }
    }

    /// Adds an entry. Lines below the arm wait for the next sweep.
    #[inline]
    pub fn push_entry(&mut self, lines: &mut CacheLines, slot: u32, now: Ns) {
        let last = self.newest;
        debug_assert!(!lines[slot].is_flush_queued, "entry {slot} is queued already");
        lines[slot].is_flush_queued = true;
        let number = lines.head(slot).line_number;
        lines.flush_links[slot as usize] =
            FlushQueueLink { dirty_since: now, older: last, newer: NO_ENTRY, heap_position: 0 };
        match last {
            NO_ENTRY => self.oldest = slot,
            _ => lines.flush_links[last as usize].newer = slot,
        }
        self.newest = slot;
        if self.by_address {
            let sweep = self.sweep + u64::from(number < self.arm_line);
            self.heap.push(HeapEntry { sweep, line: number, slot });
            self.sift_up(lines, self.heap.len() - 1);
        }
    }

    /// Removes an entry.
    pub fn remove_entry(&mut self, lines: &mut CacheLines, slot: u32) {
        debug_assert!(lines[slot].is_flush_queued, "entry {slot} is not queued");
        lines[slot].is_flush_queued = false;
        let FlushQueueLink { older: before, newer: after, heap_position: position, .. } =
            lines.flush_links[slot as usize];
        let position = position as usize;
        match before {
            NO_ENTRY => self.oldest = after,
            _ => lines.flush_links[before as usize].newer = after,
        }
        match after {
            NO_ENTRY => self.newest = before,
            _ => lines.flush_links[after as usize].older = before,
        }
        if !self.by_address {
            return;
        }
        debug_assert!(
            self.heap.get(position).is_some_and(|entry| entry.slot == slot),
            "entry {slot} is not at position {position} of the heap"
        );
        let Some(last) = self.heap.pop() else { return };
        if position < self.heap.len() {
            self.heap[position] = last;
            // the former last entry may have to move in either direction
            self.sift_up(lines, position);
            self.sift_down(lines, lines.flush_links[last.slot as usize].heap_position as usize);
        }
    }

    /// Returns the entry that has been dirty for the longest time, and since when.
    #[inline]
    pub fn oldest_entry(&self, lines: &CacheLines) -> Option<(u32, Ns)> {
        if self.oldest == NO_ENTRY {
            None
        } else {
            Some((self.oldest, lines.flush_links[self.oldest as usize].dirty_since))
        }
    }

    /// Returns the entry to flush next, without removing it.
    pub fn next_entry(&mut self, lines: &CacheLines) -> Option<u32> {
        if !self.by_address {
            return self.oldest_entry(lines).map(|(slot, _)| slot);
        }
        let first = self.heap.first()?;
        debug_assert!(first.sweep >= self.sweep, "the arm goes back to sweep {}", first.sweep);
        (self.sweep, self.arm_line) = (first.sweep, first.line);
        Some(first.slot)
    }

    /// Advances the arm to a line.
    pub fn advance_arm(&mut self, line: u64) {
        self.arm_line = self.arm_line.max(line);
    }

    fn sift_up(&mut self, lines: &mut CacheLines, mut position: usize) {
        let entry = self.heap[position];
        while position > 0 && entry.order_key() < self.heap[(position - 1) / 2].order_key() {
            self.set_heap_entry(lines, position, self.heap[(position - 1) / 2]);
            position = (position - 1) / 2;
        }
        self.set_heap_entry(lines, position, entry);
        self.check_order(position);
    }

    fn sift_down(&mut self, lines: &mut CacheLines, mut position: usize) {
        let entry = self.heap[position];
        loop {
            let children = position * 2 + 1..(position * 2 + 3).min(self.heap.len());
            let smallest = children.min_by_key(|child| self.heap[*child].order_key());
            match smallest {
                Some(child) if self.heap[child].order_key() < entry.order_key() => {
                    self.set_heap_entry(lines, position, self.heap[child]);
                    position = child;
                }
                _ => break,
            }
        }
        self.set_heap_entry(lines, position, entry);
        self.check_order(position);
    }

    /// Checks that an entry is not before its parent.
    fn check_order(&self, position: usize) {
        debug_assert!(
            position == 0 || self.heap[(position - 1) / 2].order_key() <= self.heap[position].order_key(),
            "the heap is not in order at {position}"
        );
    }

    fn set_heap_entry(&mut self, lines: &mut CacheLines, position: usize, entry: HeapEntry) {
        self.heap[position] = entry;
        lines.flush_links[entry.slot as usize].heap_position = position as u32;
    }
}

#[cfg(test)]
mod tests {
    use diskwright_base::Rng;

    use super::*;

    #[test]
    fn by_address_is_c_look_and_by_age_is_first_in_first_out() {
        let (mut lines, mut order) = (CacheLines::new(8), FlushQueue::new(true));
        let add = |order: &mut FlushQueue, lines: &mut CacheLines, number, now| {
            let slot = lines.add_entry(number).expect("room");
            order.push_entry(lines, slot, now);
        };
        for (now, number) in [(1, 50), (2, 10), (3, 30)] {
            add(&mut order, &mut lines, number, now);
        }
        assert_eq!(
            order.oldest_entry(&lines).map(|(slot, since)| (lines.head(slot).line_number, since)),
            Some((50, 1))
        );
        let mut gone = Vec::new();
        for round in 0.. {
            let Some(slot) = order.next_entry(&lines) else { break };
            gone.push(lines.head(slot).line_number);
            order.remove_entry(&mut lines, slot);
            if round == 1 {
                // the arm stands at 30: 20 waits for the next sweep, 40 does not
                add(&mut order, &mut lines, 20, 4);
                add(&mut order, &mut lines, 40, 5);
            }
        }
        assert_eq!(gone, [10, 30, 40, 50, 20]);
        assert!(order.oldest_entry(&lines).is_none());
    }

    #[test]
    fn any_entry_can_be_removed() {
        for by_address in [false, true] {
            let (mut lines, mut order) = (CacheLines::new(200), FlushQueue::new(by_address));
            let mut rng = Rng::new(9, 1);
            let mut model: Vec<(u64, u32)> = Vec::new();
            for now in 0..5000 {
                if model.len() < 150 && rng.next_bool(0.55) {
                    let number = rng.next_u64();
                    let slot = lines.add_entry(number).expect("room");
                    order.push_entry(&mut lines, slot, now);
                    model.push((number, slot));
                } else if !model.is_empty() {
                    let any = rng.next_bool(0.5);
                    let slot = if any {
                        model[rng.next_below(model.len() as u64) as usize].1
                    } else {
                        order.next_entry(&lines).expect("some wait")
                    };
                    let known = model.iter().position(|(_, a)| *a == slot).expect("it waits");
                    let (number, _) = model.remove(known);
                    let above = |(n, _): &&(u64, u32)| *n >= number;
                    assert!(any || by_address || known == 0);
                    assert!(any || !by_address || model.iter().filter(above).all(|(n, _)| *n > number));
                    order.remove_entry(&mut lines, slot);
                    lines.remove_entry(slot);
                }
                assert_eq!(order.oldest_entry(&lines).map(|(slot, _)| slot), model.first().map(|(_, slot)| *slot));
            }
        }
    }
}

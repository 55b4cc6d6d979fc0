//! Queue of entries to be flushed: a list by age and, if flushing goes by address, a heap.

use super::lines::{CacheLines, FlushWait, NONE};
use crate::Ns;

/// Queue of entries to be flushed. Every queued entry is in the list by age, and if `by_address` also in the heap.
#[derive(Clone, Debug)]
pub(super) struct FlushQueue {
    /// Heap of (sweep, line, entry); empty if only age counts. Entries know their position in it, so that any can be
    /// removed.
    heap: Vec<(u64, u64, u32)>,
    by_address: bool,
    /// Number of sweeps from the lowest address so far, and the line that the sweep has reached.
    sweep: u64,
    arm: u64,
    /// Ends of the list by age: the entry dirty for longest, and for shortest.
    first: u32,
    last: u32,
}

impl FlushQueue {
    /// Creates an empty queue.
    pub fn new(by_address: bool) -> FlushQueue {
        FlushQueue { heap: Vec::new(), by_address, sweep: 0, arm: 0, first: NONE, last: NONE }
    }

    /// Adds an entry. Lines below the arm wait for the next sweep.
    #[inline]
    pub fn add(&mut self, lines: &mut CacheLines, slot: u32, now: Ns) {
        let last = self.last;
        lines[slot].queued = true;
        let number = lines.head(slot).number;
        lines.waits[slot as usize] = FlushWait { since: now, before: last, after: NONE, place: 0 };
        match last {
            NONE => self.first = slot,
            _ => lines.waits[last as usize].after = slot,
        }
        self.last = slot;
        if self.by_address {
            let sweep = self.sweep + u64::from(number < self.arm);
            self.heap.push((sweep, number, slot));
            self.rise(lines, self.heap.len() - 1);
        }
    }

    /// Removes an entry.
    pub fn remove(&mut self, lines: &mut CacheLines, slot: u32) {
        lines[slot].queued = false;
        let FlushWait { before, after, place, .. } = lines.waits[slot as usize];
        let place = place as usize;
        match before {
            NONE => self.first = after,
            _ => lines.waits[before as usize].after = after,
        }
        match after {
            NONE => self.last = before,
            _ => lines.waits[after as usize].before = before,
        }
        if !self.by_address {
            return;
        }
        let Some(last) = self.heap.pop() else { return };
        if place < self.heap.len() {
            self.heap[place] = last;
            // the former last entry may have to move in either direction
            self.rise(lines, place);
            self.sink(lines, lines.waits[last.2 as usize].place as usize);
        }
    }

    /// Returns the entry that waits longest, and since when.
    #[inline]
    pub fn oldest(&self, lines: &CacheLines) -> Option<(u32, Ns)> {
        if self.first == NONE { None } else { Some((self.first, lines.waits[self.first as usize].since)) }
    }

    /// Returns the entry to flush next, without removing it.
    pub fn next(&mut self, lines: &CacheLines) -> Option<u32> {
        if !self.by_address {
            return self.oldest(lines).map(|(slot, _)| slot);
        }
        let (sweep, number, slot) = self.heap.first().copied()?;
        (self.sweep, self.arm) = (sweep, number);
        Some(slot)
    }

    /// Advances the arm to a line.
    pub fn passed(&mut self, line: u64) {
        self.arm = self.arm.max(line);
    }

    fn rise(&mut self, lines: &mut CacheLines, mut place: usize) {
        let entry = self.heap[place];
        while place > 0 && (entry.0, entry.1) < (self.heap[(place - 1) / 2].0, self.heap[(place - 1) / 2].1) {
            self.put(lines, place, self.heap[(place - 1) / 2]);
            place = (place - 1) / 2;
        }
        self.put(lines, place, entry);
    }

    fn sink(&mut self, lines: &mut CacheLines, mut place: usize) {
        let entry = self.heap[place];
        loop {
            let children = place * 2 + 1..(place * 2 + 3).min(self.heap.len());
            let smallest = children.min_by_key(|child| (self.heap[*child].0, self.heap[*child].1));
            match smallest {
                Some(child) if (self.heap[child].0, self.heap[child].1) < (entry.0, entry.1) => {
                    self.put(lines, place, self.heap[child]);
                    place = child;
                }
                _ => break,
            }
        }
        self.put(lines, place, entry);
    }

    fn put(&mut self, lines: &mut CacheLines, place: usize, entry: (u64, u64, u32)) {
        self.heap[place] = entry;
        lines.waits[entry.2 as usize].place = place as u32;
    }
}

#[cfg(test)]
mod tests {
    use diskwright_base::Rng;

    use super::*;

    #[test]
    fn by_address_is_c_look_and_by_age_is_in_turn() {
        let (mut lines, mut order) = (CacheLines::new(8), FlushQueue::new(true));
        let add = |order: &mut FlushQueue, lines: &mut CacheLines, number, now| {
            let slot = lines.add(number).expect("room");
            order.add(lines, slot, now);
        };
        for (now, number) in [(1, 50), (2, 10), (3, 30)] {
            add(&mut order, &mut lines, number, now);
        }
        assert_eq!(order.oldest(&lines).map(|(slot, since)| (lines.head(slot).number, since)), Some((50, 1)));
        let mut gone = Vec::new();
        for round in 0.. {
            let Some(slot) = order.next(&lines) else { break };
            gone.push(lines.head(slot).number);
            order.remove(&mut lines, slot);
            if round == 1 {
                // the arm stands at 30: 20 waits for the next sweep, 40 does not
                add(&mut order, &mut lines, 20, 4);
                add(&mut order, &mut lines, 40, 5);
            }
        }
        assert_eq!(gone, [10, 30, 40, 50, 20]);
        assert!(order.oldest(&lines).is_none());
    }

    #[test]
    fn any_can_be_taken_out() {
        for by_address in [false, true] {
            let (mut lines, mut order) = (CacheLines::new(200), FlushQueue::new(by_address));
            let mut rng = Rng::new(9, 1);
            let mut model: Vec<(u64, u32)> = Vec::new();
            for now in 0..5000 {
                if model.len() < 150 && rng.next_bool(0.55) {
                    let number = rng.next_u64();
                    let slot = lines.add(number).expect("room");
                    order.add(&mut lines, slot, now);
                    model.push((number, slot));
                } else if !model.is_empty() {
                    let any = rng.next_bool(0.5);
                    let slot = if any {
                        model[rng.next_below(model.len() as u64) as usize].1
                    } else {
                        order.next(&lines).expect("some wait")
                    };
                    let known = model.iter().position(|(_, a)| *a == slot).expect("it waits");
                    let (number, _) = model.remove(known);
                    let above = |(n, _): &&(u64, u32)| *n >= number;
                    assert!(any || by_address || known == 0);
                    assert!(any || !by_address || model.iter().filter(above).all(|(n, _)| *n > number));
                    order.remove(&mut lines, slot);
                    lines.remove(slot);
                }
                assert_eq!(order.oldest(&lines).map(|(slot, _)| slot), model.first().map(|(_, slot)| *slot));
            }
        }
    }
}

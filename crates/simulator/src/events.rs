//! Events to come, in the order of their time; of one moment, in the order in
//! which they were added. So a run is the same however the heap is laid out.

use crate::Ns;

/// Children of a node. Four to a node halve the depth, and they lie side by side.
const WIDTH: usize = 4;

#[derive(Clone, Copy, Debug)]
struct Entry<T> {
    at: Ns,
    sequence: u64,
    what: T,
}

impl<T> Entry<T> {
    #[inline]
    fn before(&self, other: &Entry<T>) -> bool {
        // one comparison of 128 bits, without a branch on equal times
        self.key() < other.key()
    }

    #[inline]
    fn key(&self) -> u128 {
        u128::from(self.at) << 64 | u128::from(self.sequence)
    }
}

/// A queue of events. `what` should be small (a number of a component and what
/// it awaits). Memory is that of the most events that ever waited at once.
#[derive(Clone, Debug)]
pub struct Events<T> {
    heap: Vec<Entry<T>>,
    sequence: u64,
    now: Ns,
}

impl<T: Copy> Default for Events<T> {
    fn default() -> Events<T> {
        Events::new()
    }
}

impl<T: Copy> Events<T> {
    /// An empty queue at moment 0.
    pub fn new() -> Events<T> {
        Events { heap: Vec::new(), sequence: 0, now: 0 }
    }

    /// The moment of the event taken last.
    #[inline]
    pub fn now(&self) -> Ns {
        self.now
    }

    /// Events that wait.
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// True when none waits.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// The moment of the next event.
    pub fn next_at(&self) -> Option<Ns> {
        self.heap.first().map(|entry| entry.at)
    }

    /// Adds an event. A moment that is past is taken as now: time never goes back.
    #[inline]
    pub fn at(&mut self, at: Ns, what: T) {
        let entry = Entry { at: at.max(self.now), sequence: self.sequence, what };
        self.sequence += 1;
        self.heap.push(entry);
        self.rise(self.heap.len() - 1, entry);
    }

    /// Adds an event some time from now.
    #[inline]
    pub fn after(&mut self, wait: Ns, what: T) {
        self.at(self.now.saturating_add(wait), what);
    }

    /// Takes the next event; its moment is now.
    #[inline]
    pub fn take(&mut self) -> Option<(Ns, T)> {
        let last = self.heap.pop()?;
        let first = match self.heap.first() {
            Some(first) => *first,
            None => last,
        };
        if !self.heap.is_empty() {
            self.sink(last);
        }
        self.now = first.at;
        Some((first.at, first.what))
    }

    /// Forgets all events and starts again at moment 0; keeps the memory.
    pub fn clear(&mut self) {
        self.heap.clear();
        (self.sequence, self.now) = (0, 0);
    }

    /// Puts `entry` at `place` or above, moving down what comes after it.
    #[inline]
    fn rise(&mut self, mut place: usize, entry: Entry<T>) {
        while place > 0 {
            let parent = (place - 1) / WIDTH;
            if !entry.before(&self.heap[parent]) {
                break;
            }
            self.heap[place] = self.heap[parent];
            place = parent;
        }
        self.heap[place] = entry;
    }

    /// Puts `entry` at the top or below, moving up what comes before it.
    #[inline]
    fn sink(&mut self, entry: Entry<T>) {
        let (heap, mut place) = (&mut self.heap, 0);
        loop {
            let children = place * WIDTH + 1;
            let last = heap.len().min(children + WIDTH);
            let Some(least) = (children..last).min_by_key(|child| heap[*child].key()) else { break };
            if !heap[least].before(&entry) {
                break;
            }
            heap[place] = heap[least];
            place = least;
        }
        heap[place] = entry;
    }
}

#[cfg(test)]
mod tests {
    use diskwright_base::Dice;

    use super::*;

    #[test]
    fn events_come_in_the_order_of_time_then_of_adding() {
        let mut events = Events::new();
        for (at, what) in [(30, 'a'), (10, 'b'), (30, 'c'), (20, 'd'), (10, 'e')] {
            events.at(at, what);
        }
        let taken: Vec<(Ns, char)> = std::iter::from_fn(|| events.take()).collect();
        assert_eq!(taken, [(10, 'b'), (10, 'e'), (20, 'd'), (30, 'a'), (30, 'c')]);
        assert_eq!((events.now(), events.is_empty()), (30, true));
    }

    #[test]
    fn the_heap_agrees_with_sorting() {
        let mut dice = Dice::new(1, 1);
        let (mut events, mut sorted) = (Events::new(), Vec::new());
        for round in 0..3000u64 {
            for _ in 0..dice.below(4) {
                // few moments, so that many are equal
                let at = events.now() + dice.below(8);
                events.at(at, sorted.len());
                sorted.push((at, sorted.len(), false));
            }
            if dice.chance(0.6) || round > 2900 {
                let next = sorted.iter().filter(|e| !e.2).min().copied();
                assert_eq!(events.take(), next.map(|(at, what, _)| (at, what)));
                if let Some((_, what, _)) = next {
                    sorted[what].2 = true;
                }
                assert_eq!(events.len(), sorted.iter().filter(|e| !e.2).count());
            }
        }
    }

    #[test]
    fn time_never_goes_back() {
        let mut events = Events::new();
        events.at(50, 'a');
        assert_eq!(events.next_at(), Some(50));
        events.take();
        events.at(10, 'b');
        events.after(u64::MAX, 'd');
        events.after(0, 'c');
        assert_eq!((events.take(), events.take()), (Some((50, 'b')), Some((50, 'c'))));
        assert_eq!(events.take(), Some((u64::MAX, 'd')));
        events.clear();
        assert_eq!((events.take(), events.now()), (None, 0));
    }
}

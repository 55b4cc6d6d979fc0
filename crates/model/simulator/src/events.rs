//! Events to come, in the order of their time; of one moment, in the order in
//! which they were added. So a run is the same however the heap is laid out.

use crate::Ns;

/// Children of a node. Four to a node halve the depth, and they lie side by side.
const WIDTH: usize = 4;

#[derive(Clone, Copy, Debug)]
struct EventEntry<T> {
    time: Ns,
    sequence: u64,
    what: T,
}

impl<T> EventEntry<T> {
    #[inline]
    fn before(&self, other: &EventEntry<T>) -> bool {
        // one comparison of 128 bits, without a branch on equal times
        self.key() < other.key()
    }

    #[inline]
    fn key(&self) -> u128 {
        u128::from(self.time) << 64 | u128::from(self.sequence)
    }
}

/// A queue of events. `what` should be small (a number of a component and what
/// it awaits). Memory is that of the most events that ever waited at once.
///
/// The usual step of a simulation takes an event and adds its consequence, so
/// that the place of the taken one is kept free for it: one way through the
/// heap instead of two.
#[derive(Clone, Debug)]
pub struct Events<T> {
    heap: Vec<EventEntry<T>>,
    /// The first entry was taken, and nothing has filled its place.
    vacant: bool,
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
        Events { heap: Vec::new(), vacant: false, sequence: 0, now: 0 }
    }

    /// The moment of the event taken last.
    #[inline]
    pub fn now(&self) -> Ns {
        self.now
    }

    /// Events that wait.
    pub fn len(&self) -> usize {
        self.heap.len() - usize::from(self.vacant)
    }

    /// True when none waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The moment of the next event.
    pub fn next_at(&self) -> Option<Ns> {
        let first = usize::from(self.vacant);
        self.heap.iter().skip(first).take(WIDTH).map(|entry| entry.time).min()
    }

    /// Adds an event. A moment that is past is taken as now: time never goes back.
    #[inline]
    pub fn schedule(&mut self, time: Ns, what: T) {
        let entry = EventEntry { time: time.max(self.now), sequence: self.sequence, what };
        self.sequence += 1;
        if self.vacant {
            self.vacant = false;
            self.sink(entry);
        } else {
            self.heap.push(entry);
            self.rise(self.heap.len() - 1, entry);
        }
    }

    /// Adds an event some time from now.
    #[inline]
    pub fn after(&mut self, wait: Ns, what: T) {
        self.schedule(self.now.saturating_add(wait), what);
    }

    /// Takes the next event; its moment is now.
    #[inline]
    pub fn take(&mut self) -> Option<(Ns, T)> {
        if self.vacant {
            self.vacant = false;
            let last = self.heap.pop()?;
            if !self.heap.is_empty() {
                self.sink(last);
            }
        }
        let first = self.heap.first()?;
        debug_assert!(first.time >= self.now, "time never goes back");
        self.vacant = true;
        self.now = first.time;
        Some((first.time, first.what))
    }

    /// Time goes on to a moment before the next event.
    pub fn wait(&mut self, until: Ns) {
        self.now = self.now.max(until.min(self.next_at().unwrap_or(until)));
        debug_assert!(self.next_at().is_none_or(|next| self.now <= next), "no event is passed over");
    }

    /// Forgets all events and starts again at moment 0; keeps the memory.
    pub fn clear(&mut self) {
        self.heap.clear();
        (self.vacant, self.sequence, self.now) = (false, 0, 0);
    }

    /// Puts `entry` at `place` or above, moving down what comes after it.
    #[inline]
    fn rise(&mut self, mut place: usize, entry: EventEntry<T>) {
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
    fn sink(&mut self, entry: EventEntry<T>) {
        let (heap, mut place) = (&mut self.heap[..], 0);
        loop {
            let children = place * WIDTH + 1;
            let least = match heap.get(children..children + WIDTH) {
                // the least of four by selection: which it is cannot be foreseen, so branches would cost
                Some([a, b, c, d]) => {
                    let (ab, ab_key) = earlier((0, a.key()), (1, b.key()));
                    let (cd, cd_key) = earlier((2, c.key()), (3, d.key()));
                    children + earlier((ab, ab_key), (cd, cd_key)).0
                }
                _ => match (children..heap.len()).min_by_key(|child| heap[*child].key()) {
                    Some(least) => least,
                    None => break,
                },
            };
            if !heap[least].before(&entry) {
                break;
            }
            heap[place] = heap[least];
            place = least;
        }
        heap[place] = entry;
    }
}

#[inline]
fn earlier(one: (usize, u128), other: (usize, u128)) -> (usize, u128) {
    let later = other.1 < one.1;
    (if later { other.0 } else { one.0 }, if later { other.1 } else { one.1 })
}

#[cfg(test)]
mod tests {
    use diskwright_base::Rng;

    use super::*;

    #[test]
    fn events_come_in_the_order_of_time_then_of_adding() {
        let mut events = Events::new();
        for (time, what) in [(30, 'a'), (10, 'b'), (30, 'c'), (20, 'd'), (10, 'e')] {
            events.schedule(time, what);
        }
        let taken: Vec<(Ns, char)> = std::iter::from_fn(|| events.take()).collect();
        assert_eq!(taken, [(10, 'b'), (10, 'e'), (20, 'd'), (30, 'a'), (30, 'c')]);
        assert_eq!((events.now(), events.is_empty()), (30, true));
    }

    #[test]
    fn the_heap_agrees_with_sorting() {
        let mut dice = Rng::new(1, 1);
        let (mut events, mut sorted) = (Events::new(), Vec::new());
        for round in 0..3000u64 {
            for _ in 0..dice.below(4) {
                // few moments, so that many are equal
                let time = events.now() + dice.below(8);
                events.schedule(time, sorted.len());
                sorted.push((time, sorted.len(), false));
            }
            if dice.chance(0.6) || round > 2900 {
                let next = sorted.iter().filter(|e| !e.2).min().copied();
                assert_eq!(events.take(), next.map(|(time, what, _)| (time, what)));
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
        events.schedule(50, 'a');
        assert_eq!(events.next_at(), Some(50));
        events.take();
        events.schedule(10, 'b');
        events.after(u64::MAX, 'd');
        events.after(0, 'c');
        assert_eq!((events.take(), events.take()), (Some((50, 'b')), Some((50, 'c'))));
        assert_eq!(events.take(), Some((u64::MAX, 'd')));
        events.clear();
        assert_eq!((events.take(), events.now()), (None, 0));
        assert!(events.is_empty() && events.next_at().is_none());
    }

    #[test]
    fn the_next_moment_is_known_when_the_first_is_taken() {
        let mut events = Events::new();
        for time in [5, 3, 9, 4, 8, 7] {
            events.schedule(time, ());
        }
        for next in [4, 5, 7, 8, 9] {
            events.take();
            assert_eq!(events.next_at(), Some(next));
        }
        events.take();
        assert_eq!((events.next_at(), events.len()), (None, 0));
        assert_eq!((events.take(), events.len()), (None, 0));
        events.schedule(1, ());
        assert_eq!(events.take(), Some((9, ())));
    }
}

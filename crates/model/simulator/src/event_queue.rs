//! Future events in the order of time; at equal times, in the order of insertion. So a run is reproducible, and does
//! not depend on the layout of the heap.

use crate::Ns;

/// Children of a node. Four per node halve the depth, and they lie next to each other in memory.
const CHILDREN_PER_NODE: usize = 4;

#[derive(Clone, Copy, Debug)]
struct EventEntry<T> {
    time: Ns,
    sequence: u64,
    payload: T,
}

impl<T> EventEntry<T> {
    #[inline]
    fn is_before(&self, other: &EventEntry<T>) -> bool {
        // a single comparison of 128 bits, without a branch on equal times
        self.order_key() < other.order_key()
    }

    #[inline]
    fn order_key(&self) -> u128 {
        u128::from(self.time) << 64 | u128::from(self.sequence)
    }
}

/// A priority queue of events: a 4-ary heap. Payloads should be small (the number of a component and the kind of
/// event). Memory grows to the largest number of events that ever waited at once.
///
/// A simulation step typically pops an event and schedules a follow-up, so the root is left vacant after a pop and
/// filled by the next event: one pass through the heap instead of two.
#[derive(Clone, Debug)]
pub struct EventQueue<T> {
    heap: Vec<EventEntry<T>>,
    /// True after the root was popped, until the next event fills its place.
    vacant: bool,
    sequence: u64,
    now: Ns,
}

impl<T: Copy> Default for EventQueue<T> {
    fn default() -> EventQueue<T> {
        EventQueue::new()
    }
}

impl<T: Copy> EventQueue<T> {
    /// An empty queue at time 0.
    pub fn new() -> EventQueue<T> {
        EventQueue { heap: Vec::new(), vacant: false, sequence: 0, now: 0 }
    }

    /// Time of the last event popped.
    #[inline]
    pub fn now(&self) -> Ns {
        self.now
    }

    /// Number of waiting events.
    pub fn len(&self) -> usize {
        self.heap.len() - usize::from(self.vacant)
    }

    /// True if no event waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Time of the next event.
    pub fn next_time(&self) -> Option<Ns> {
        if !self.vacant {
            return self.heap.first().map(|entry| entry.time);
        }
        debug_assert!(!self.heap.is_empty(), "an empty heap has no vacant root");
        let children = 1..self.heap.len().min(1 + CHILDREN_PER_NODE);
        self.heap[children].iter().map(|entry| entry.time).min()
    }

    /// Schedules an event. A past time is taken as now: time never goes back.
    #[inline]
    pub fn schedule(&mut self, time: Ns, payload: T) {
        let entry = EventEntry { time: time.max(self.now), sequence: self.sequence, payload };
        self.sequence += 1;
        if self.vacant {
            debug_assert!(!self.heap.is_empty(), "an empty heap has no vacant root");
            self.vacant = false;
            self.sift_down(entry);
        } else {
            self.heap.push(entry);
            self.sift_up(self.heap.len() - 1, entry);
        }
    }

    /// Schedules an event `delay` from now.
    #[inline]
    pub fn schedule_after(&mut self, delay: Ns, payload: T) {
        self.schedule(self.now.saturating_add(delay), payload);
    }

    /// Removes and returns the next event; its time becomes now.
    #[inline]
    pub fn pop(&mut self) -> Option<(Ns, T)> {
        if self.vacant {
            debug_assert!(!self.heap.is_empty(), "an empty heap has no vacant root");
            self.vacant = false;
            let last = self.heap.pop()?;
            if !self.heap.is_empty() {
                self.sift_down(last);
            }
        }
        let first = self.heap.first()?;
        debug_assert!(first.time >= self.now, "time never goes back");
        self.vacant = true;
        self.now = first.time;
        Some((first.time, first.payload))
    }

    /// Advances time to `until`, but not past the next event.
    pub fn advance_to(&mut self, until: Ns) {
        self.now = self.now.max(until.min(self.next_time().unwrap_or(until)));
        debug_assert!(self.next_time().is_none_or(|next| self.now <= next), "no event is passed over");
    }

    /// Removes all events and restarts at time 0; keeps the memory.
    pub fn clear(&mut self) {
        self.heap.clear();
        (self.vacant, self.sequence, self.now) = (false, 0, 0);
    }

    /// Puts `entry` at `index` or above, moving later entries down.
    #[inline]
    fn sift_up(&mut self, mut index: usize, entry: EventEntry<T>) {
        while index > 0 {
            let parent = (index - 1) / CHILDREN_PER_NODE;
            if !entry.is_before(&self.heap[parent]) {
                break;
            }
            self.heap[index] = self.heap[parent];
            index = parent;
        }
        self.heap[index] = entry;
    }

    /// Puts `entry` at the root or below, moving earlier entries up.
    #[inline]
    fn sift_down(&mut self, entry: EventEntry<T>) {
        let (heap, mut index) = (&mut self.heap[..], 0);
        loop {
            let children = index * CHILDREN_PER_NODE + 1;
            let first = match heap.get(children..children + CHILDREN_PER_NODE) {
                // the earliest of four by selection: the outcome is unpredictable, so branches would be slow
                Some([a, b, c, d]) => {
                    let (ab, ab_key) = select_earlier((0, a.order_key()), (1, b.order_key()));
                    let (cd, cd_key) = select_earlier((2, c.order_key()), (3, d.order_key()));
                    children + select_earlier((ab, ab_key), (cd, cd_key)).0
                }
                _ => match (children..heap.len()).min_by_key(|child| heap[*child].order_key()) {
                    Some(first) => first,
                    None => break,
                },
            };
            if !heap[first].is_before(&entry) {
                break;
            }
            heap[index] = heap[first];
            index = first;
        }
        heap[index] = entry;
    }
}

/// Returns the index and key of the earlier of two entries, without a branch.
#[inline]
fn select_earlier(a: (usize, u128), b: (usize, u128)) -> (usize, u128) {
    let is_b_earlier = b.1 < a.1;
    (if is_b_earlier { b.0 } else { a.0 }, if is_b_earlier { b.1 } else { a.1 })
}

#[cfg(test)]
mod tests {
    use diskwright_base::Rng;

    use super::*;

    #[test]
    fn events_are_ordered_by_time_then_by_insertion() {
        let mut events = EventQueue::new();
        for (time, payload) in [(30, 'a'), (10, 'b'), (30, 'c'), (20, 'd'), (10, 'e')] {
            events.schedule(time, payload);
        }
        let taken: Vec<(Ns, char)> = std::iter::from_fn(|| events.pop()).collect();
        assert_eq!(taken, [(10, 'b'), (10, 'e'), (20, 'd'), (30, 'a'), (30, 'c')]);
        assert_eq!((events.now(), events.is_empty()), (30, true));
    }

    #[test]
    fn the_heap_agrees_with_sorting() {
        let mut rng = Rng::new(1, 1);
        let (mut events, mut sorted) = (EventQueue::new(), Vec::new());
        for round in 0..3000u64 {
            for _ in 0..rng.next_below(4) {
                // few different times, so that many are equal
                let time = events.now() + rng.next_below(8);
                events.schedule(time, sorted.len());
                sorted.push((time, sorted.len(), false));
            }
            if rng.next_bool(0.6) || round > 2900 {
                let next = sorted.iter().filter(|e| !e.2).min().copied();
                assert_eq!(events.pop(), next.map(|(time, payload, _)| (time, payload)));
                if let Some((_, payload, _)) = next {
                    sorted[payload].2 = true;
                }
                assert_eq!(events.len(), sorted.iter().filter(|e| !e.2).count());
            }
        }
    }

    #[test]
    fn time_never_goes_back() {
        let mut events = EventQueue::new();
        events.schedule(50, 'a');
        assert_eq!(events.next_time(), Some(50));
        events.pop();
        events.schedule(10, 'b');
        events.schedule_after(u64::MAX, 'd');
        events.schedule_after(0, 'c');
        assert_eq!((events.pop(), events.pop()), (Some((50, 'b')), Some((50, 'c'))));
        assert_eq!(events.pop(), Some((u64::MAX, 'd')));
        events.clear();
        assert_eq!((events.pop(), events.now()), (None, 0));
        assert!(events.is_empty() && events.next_time().is_none());
    }

    #[test]
    fn next_time_is_known_while_the_root_is_vacant() {
        let mut events = EventQueue::new();
        for time in [5, 3, 9, 4, 8, 7] {
            events.schedule(time, ());
        }
        for next in [4, 5, 7, 8, 9] {
            events.pop();
            assert_eq!(events.next_time(), Some(next));
        }
        events.pop();
        assert_eq!((events.next_time(), events.len()), (None, 0));
        assert_eq!((events.pop(), events.len()), (None, 0));
        events.schedule(1, ());
        assert_eq!(events.pop(), Some((9, ())));
    }
}

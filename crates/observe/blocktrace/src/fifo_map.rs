//! Map from places on devices to first-in-first-out queues: flushes and pass-through commands all
//! have the same place, and two reads of one sector may be in flight at once. There is rarely
//! more than one value at a place, so the queues are linked lists in one vector without separate
//! allocations.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A position on a device and a class of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlaceKey {
    pub device: u32,
    pub class: u8,
    pub sector: u64,
}

impl std::hash::Hash for PlaceKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.sector ^ (u64::from(self.device) << 40) ^ (u64::from(self.class) << 36));
    }
}

/// Hasher that multiplies once (Knuth, volume 3, 6.4). Places come from the kernel, not from an attacker
/// who could choose places that collide; a collision costs only time.
#[derive(Default)]
pub(crate) struct PlaceHasher(u64);

impl Hasher for PlaceHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|b| self.write_u64(u64::from(*b)));
    }
    fn write_u64(&mut self, value: u64) {
        let mixed = (self.0 ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }
}

/// Index that stands for "no link": the end of a list.
const NO_LINK: u32 = u32::MAX;

/// An entry of a linked list.
#[derive(Debug)]
struct FifoLink<V> {
    value: Option<V>,
    next: u32,
}

/// Values by place, first in first out.
#[derive(Debug)]
pub(crate) struct FifoMap<V> {
    /// First and last link of each place.
    ends: HashMap<PlaceKey, (u32, u32), BuildHasherDefault<PlaceHasher>>,
    /// Each link is either in the list of one place, and holds a value, or in the list of free links, and holds none.
    links: Vec<FifoLink<V>>,
    free_head: u32,
    count: usize,
}

impl<V> Default for FifoMap<V> {
    fn default() -> FifoMap<V> {
        FifoMap { ends: HashMap::default(), links: Vec::new(), free_head: NO_LINK, count: 0 }
    }
}

impl<V> FifoMap<V> {
    /// Number of values.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Appends a value to those at its place.
    pub(crate) fn push(&mut self, key: PlaceKey, value: V) {
        let link = FifoLink { value: Some(value), next: NO_LINK };
        let index = if self.free_head == NO_LINK {
            debug_assert!(self.links.len() < NO_LINK as usize, "{} links have numbers", self.links.len());
            self.links.push(link);
            (self.links.len() - 1) as u32
        } else {
            let index = self.free_head;
            let free = std::mem::replace(&mut self.links[index as usize], link);
            debug_assert!(free.value.is_none(), "a free link holds no value");
            self.free_head = free.next;
            index
        };
        self.count += 1;
        match self.ends.entry(key) {
            std::collections::hash_map::Entry::Occupied(mut ends) => {
                let last = std::mem::replace(&mut ends.get_mut().1, index);
                debug_assert!(self.links[last as usize].next == NO_LINK, "nothing follows the last link of a place");
                self.links[last as usize].next = index;
            }
            std::collections::hash_map::Entry::Vacant(ends) => {
                ends.insert((index, index));
            }
        }
    }

    /// Iterates over all values, in no particular order.
    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.links.iter().filter_map(|link| link.value.as_ref())
    }

    /// Returns the first value at a place.
    pub(crate) fn peek_first(&self, key: PlaceKey) -> Option<&V> {
        let (first, _) = self.ends.get(&key)?;
        self.links[*first as usize].value.as_ref()
    }

    /// Removes and returns the first value at a place.
    pub(crate) fn pop(&mut self, key: PlaceKey) -> Option<V> {
        let std::collections::hash_map::Entry::Occupied(mut ends) = self.ends.entry(key) else { return None };
        let (first, last) = *ends.get();
        let next = self.links[first as usize].next;
        debug_assert_eq!(first == last, next == NO_LINK, "a list ends at its last link");
        if first == last {
            ends.remove();
        } else {
            ends.get_mut().0 = next;
        }
        let link = std::mem::replace(&mut self.links[first as usize], FifoLink { value: None, next: self.free_head });
        self.free_head = first;
        self.count -= 1;
        debug_assert!(link.value.is_some(), "the first link of a place holds a value");
        link.value
    }

    /// Keeps the values for which `is_kept` returns true, in order; returns the number of values removed.
    pub(crate) fn retain_values(&mut self, mut is_kept: impl FnMut(&PlaceKey, &V) -> bool) -> usize {
        let count_before = self.count;
        let keys: Vec<PlaceKey> = self.ends.keys().copied().collect();
        for key in keys {
            let mut kept = Vec::new();
            while let Some(value) = self.pop(key) {
                if is_kept(&key, &value) {
                    kept.push(value);
                }
            }
            kept.into_iter().for_each(|value| self.push(key, value));
        }
        debug_assert!(self.has_each_link_in_one_list(), "each link is in one list");
        count_before - self.count
    }

    /// Returns true if the lists of the places hold all values, and the list of free links all other links.
    fn has_each_link_in_one_list(&self) -> bool {
        let length = |first: u32| {
            let next = |index: &u32| Some(self.links[*index as usize].next).filter(|next| *next != NO_LINK);
            // a list that ran in a circle would be longer than all links
            let first = Some(first).filter(|first| *first != NO_LINK);
            std::iter::successors(first, next).take(self.links.len() + 1).count()
        };
        let in_places: usize = self.ends.values().map(|(first, _)| length(*first)).sum();
        let (free, values) = (length(self.free_head), self.values().count());
        in_places == self.count && values == self.count && in_places + free == self.links.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(sector: u64) -> PlaceKey {
        PlaceKey { device: 8 << 20, class: 0, sector }
    }

    #[test]
    fn first_in_is_first_out_at_each_place() {
        let mut fifo = FifoMap::default();
        for n in 0..5 {
            fifo.push(key(0), n);
            fifo.push(key(8), n + 10);
        }
        assert_eq!((fifo.len(), fifo.peek_first(key(0)), fifo.peek_first(key(1))), (10, Some(&0), None));
        assert_eq!(
            (0..6).map(|_| fifo.pop(key(0))).collect::<Vec<_>>(),
            [Some(0), Some(1), Some(2), Some(3), Some(4), None]
        );
        // links are used again
        (0..5).for_each(|n| fifo.push(key(16), n));
        assert_eq!(fifo.links.len(), 10);
        assert_eq!((0..5).filter_map(|_| fifo.pop(key(8))).collect::<Vec<_>>(), [10, 11, 12, 13, 14]);
        assert!(fifo.has_each_link_in_one_list());
        assert_eq!(fifo.retain_values(|_, n| n % 2 == 0), 2);
        assert_eq!((0..3).filter_map(|_| fifo.pop(key(16))).collect::<Vec<_>>(), [0, 2, 4]);
        assert_eq!(fifo.len(), 0);
        assert!(fifo.has_each_link_in_one_list());
    }

    #[test]
    fn places_differ_by_device_and_class() {
        let mut fifo = FifoMap::default();
        fifo.push(key(8), 1);
        assert_eq!(fifo.pop(PlaceKey { class: 1, ..key(8) }), None);
        assert_eq!(fifo.pop(PlaceKey { device: 1, ..key(8) }), None);
        assert_eq!(fifo.pop(key(8)), Some(1));
    }
}

//! Numbered slots for operations in flight, allocated and freed again.

/// Pool of slots, one per operation in flight; slots are numbered from 1 and reused.
#[derive(Clone, Debug)]
pub(super) struct Slots<T> {
    slots: Vec<T>,
    free: Vec<u32>,
    most: u32,
}

impl<T: Default> Slots<T> {
    pub(super) fn new(max_slots: u32) -> Slots<T> {
        Slots { slots: Vec::new(), free: Vec::new(), most: max_slots }
    }

    /// Allocates a slot and returns its number; `None` where the pool is full.
    #[inline]
    pub(super) fn take(&mut self) -> Option<u32> {
        self.free.pop().or_else(|| {
            let places = self.slots.len() as u32;
            (places < self.most).then(|| {
                self.slots.push(T::default());
                places + 1
            })
        })
    }

    #[inline]
    pub(super) fn get(&mut self, number: u32) -> Option<&mut T> {
        self.slots.get_mut((number as usize).wrapping_sub(1))
    }

    #[inline]
    pub(super) fn give(&mut self, number: u32) {
        self.free.push(number);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.free.len() == self.slots.len()
    }
}

//! Numbered slots for operations in flight, allocated and freed again.

/// Pool of slots, one per operation in flight; slots are numbered from 1 and reused.
#[derive(Clone, Debug)]
pub(super) struct SlotPool<T> {
    slots: Vec<T>,
    free: Vec<u32>,
    max_slots: u32,
}

impl<T: Default> SlotPool<T> {
    pub(super) fn new(max_slots: u32) -> SlotPool<T> {
        SlotPool { slots: Vec::new(), free: Vec::new(), max_slots }
    }

    /// Allocates a slot and returns its number; `None` if the pool is full.
    #[inline]
    pub(super) fn allocate_slot(&mut self) -> Option<u32> {
        self.free.pop().or_else(|| {
            let slot_count = self.slots.len() as u32;
            (slot_count < self.max_slots).then(|| {
                self.slots.push(T::default());
                slot_count + 1
            })
        })
    }

    #[inline]
    pub(super) fn get(&mut self, number: u32) -> Option<&mut T> {
        self.slots.get_mut((number as usize).wrapping_sub(1))
    }

    #[inline]
    pub(super) fn free_slot(&mut self, number: u32) {
        self.free.push(number);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.free.len() == self.slots.len()
    }
}

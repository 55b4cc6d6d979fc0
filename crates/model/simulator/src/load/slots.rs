//! Places for what is under way, taken and given back.

/// Something of each that is under way; numbered from 1 on, and used again.
#[derive(Clone, Debug)]
pub(super) struct Slots<T> {
    slots: Vec<T>,
    free: Vec<u32>,
    most: u32,
}

impl<T: Default> Slots<T> {
    pub(super) fn new(most: u32) -> Slots<T> {
        Slots { slots: Vec::new(), free: Vec::new(), most }
    }

    /// The number of a free place; `None` where there are too many.
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

//! Entries by number.

/// Entries by number. Numbers are reused, the latest freed first, so memory grows only to the largest number of entries
/// at once.
#[derive(Debug)]
pub(super) struct Slots<T> {
    entries: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slots<T> {
    fn default() -> Slots<T> {
        Slots { entries: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slots<T> {
    /// Adds an entry and returns its number.
    pub fn insert(&mut self, entry: T) -> u32 {
        match self.free.pop() {
            Some(number) => {
                debug_assert!(self.entries[number as usize].is_none(), "entry {number} is free and in use");
                self.entries[number as usize] = Some(entry);
                number
            }
            None => {
                self.entries.push(Some(entry));
                (self.entries.len() - 1) as u32
            }
        }
    }

    /// Takes an entry.
    ///
    /// # Panics
    /// If there is no entry with this number.
    pub fn take(&mut self, number: u32) -> T {
        let entry = self.entries[number as usize].take();
        self.free.push(number);
        entry.unwrap_or_else(|| panic!("entry {number} was taken already"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_reused() {
        let mut slots = Slots::default();
        assert_eq!((slots.insert('a'), slots.insert('b'), slots.insert('c')), (0, 1, 2));
        assert_eq!((slots.take(1), slots.take(0)), ('b', 'a'));
        assert_eq!((slots.insert('d'), slots.insert('e'), slots.insert('f')), (0, 1, 3));
        assert_eq!(slots.take(1), 'e');
    }

    #[test]
    #[should_panic(expected = "taken already")]
    fn an_entry_is_taken_once() {
        let mut slots = Slots::default();
        slots.insert('a');
        slots.take(0);
        slots.take(0);
    }
}

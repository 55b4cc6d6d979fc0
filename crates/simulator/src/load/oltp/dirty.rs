//! Which pages are dirty: a bit each, so that a checkpoint finds them in order.

/// A set of page numbers.
#[derive(Clone, Debug)]
pub(super) struct Dirty {
    words: Vec<u64>,
    pages: u64,
    count: u64,
}

impl Dirty {
    pub(super) fn new(pages: u64) -> Dirty {
        Dirty { words: vec![0; pages.div_ceil(64) as usize], pages, count: 0 }
    }

    pub(super) fn pages(&self) -> u64 {
        self.pages
    }

    /// How many there are.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    pub(super) fn is(&self, page: u64) -> bool {
        self.words.get((page / 64) as usize).is_some_and(|word| word >> (page % 64) & 1 == 1)
    }

    pub(super) fn set(&mut self, page: u64) {
        if page < self.pages && !self.is(page) {
            self.words[(page / 64) as usize] |= 1 << (page % 64);
            self.count += 1;
        }
    }

    pub(super) fn clear(&mut self, page: u64) {
        if self.is(page) {
            self.words[(page / 64) as usize] &= !(1 << (page % 64));
            self.count -= 1;
        }
    }

    /// The first from here on.
    pub(super) fn next(&self, from: u64) -> Option<u64> {
        let start = (from / 64) as usize;
        let head = self.words.get(start)? & (u64::MAX << (from % 64));
        if head != 0 {
            return Some(start as u64 * 64 + u64::from(head.trailing_zeros()));
        }
        let later = self.words[start + 1..].iter().position(|word| *word != 0)?;
        let word = start + 1 + later;
        Some(word as u64 * 64 + u64::from(self.words[word].trailing_zeros()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_found_in_order() {
        let mut dirty = Dirty::new(200);
        for page in [199, 3, 64, 3, 127, 200] {
            dirty.set(page);
        }
        assert_eq!(dirty.count(), 4);
        let found: Vec<u64> = std::iter::successors(dirty.next(0), |page| dirty.next(page + 1)).collect();
        assert_eq!(found, [3, 64, 127, 199]);
        dirty.clear(64);
        dirty.clear(5);
        assert_eq!((dirty.next(4), dirty.count(), dirty.next(200), dirty.next(1000)), (Some(127), 3, None, None));
    }
}

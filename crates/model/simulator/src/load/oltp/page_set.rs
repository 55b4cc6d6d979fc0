//! Set of dirty pages: one bit per page, so that a checkpoint finds them in order; above these bits, a bit for each
//! non-empty word, and so on. So the few dirty pages of a database of terabytes are found without a scan of all bits.

/// A set of page numbers.
#[derive(Clone, Debug)]
pub(super) struct PageSet {
    /// Bitmap words: level 0 has a bit per page, each further level a bit per word of the level below, up to one word.
    levels: Vec<Vec<u64>>,
    page_count: u64,
    dirty_count: u64,
}

impl PageSet {
    pub(super) fn new(pages: u64) -> PageSet {
        let mut levels = Vec::new();
        let mut bits = pages.max(1);
        while bits > 1 || levels.is_empty() {
            bits = bits.div_ceil(64);
            levels.push(vec![0; bits as usize]);
        }
        PageSet { levels, page_count: pages, dirty_count: 0 }
    }

    pub(super) fn page_count(&self) -> u64 {
        self.page_count
    }

    /// Number of pages in the set.
    pub(super) fn dirty_count(&self) -> u64 {
        self.dirty_count
    }

    pub(super) fn contains(&self, page: u64) -> bool {
        self.levels[0].get((page / 64) as usize).is_some_and(|word| word >> (page % 64) & 1 == 1)
    }

    pub(super) fn insert(&mut self, page: u64) {
        if page >= self.page_count || self.contains(page) {
            return;
        }
        self.dirty_count += 1;
        let mut bit = page;
        for words in &mut self.levels {
            let word = &mut words[(bit / 64) as usize];
            let was_non_empty = *word != 0;
            *word |= 1 << (bit % 64);
            if was_non_empty {
                break;
            }
            bit /= 64;
        }
    }

    pub(super) fn remove(&mut self, page: u64) {
        if !self.contains(page) {
            return;
        }
        self.dirty_count -= 1;
        let mut bit = page;
        for words in &mut self.levels {
            let word = &mut words[(bit / 64) as usize];
            *word &= !(1 << (bit % 64));
            if *word != 0 {
                break;
            }
            bit /= 64;
        }
    }

    /// Returns the first page of the set from `from` on.
    pub(super) fn next_from(&self, from: u64) -> Option<u64> {
        let mut bit = from;
        for (level, words) in self.levels.iter().enumerate() {
            // past the last word of a level, no higher level has further bits
            let word = words.get((bit / 64) as usize)? & (u64::MAX << (bit % 64));
            if word != 0 {
                let mut found = bit / 64 * 64 + u64::from(word.trailing_zeros());
                for words in self.levels[..level].iter().rev() {
                    found = found * 64 + u64::from(words[found as usize].trailing_zeros());
                }
                return Some(found);
            }
            bit = bit / 64 + 1;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_found_in_order() {
        let mut dirty = PageSet::new(200);
        for page in [199, 3, 64, 3, 127, 200] {
            dirty.insert(page);
        }
        assert_eq!(dirty.dirty_count(), 4);
        let found: Vec<u64> = std::iter::successors(dirty.next_from(0), |page| dirty.next_from(page + 1)).collect();
        assert_eq!(found, [3, 64, 127, 199]);
        dirty.remove(64);
        dirty.remove(5);
        assert_eq!(
            (dirty.next_from(4), dirty.dirty_count(), dirty.next_from(200), dirty.next_from(1000)),
            (Some(127), 3, None, None)
        );
    }

    #[test]
    fn agrees_with_an_ordered_set() {
        for pages in [1, 64, 65, 4096, 4097, 300_000] {
            let (mut dirty, mut plain) = (PageSet::new(pages), std::collections::BTreeSet::new());
            let mut rng = diskwright_base::Rng::new(pages, 0);
            for _ in 0..3000 {
                let page = rng.next_below(pages);
                if rng.next_bool(0.5) {
                    dirty.insert(page);
                    plain.insert(page);
                } else if let Some(page) = dirty.next_from(page) {
                    dirty.remove(page);
                    plain.remove(&page);
                }
                let from = rng.next_below(pages + 70);
                assert_eq!(dirty.next_from(from), plain.range(from..).next().copied(), "{from} of {pages}");
                assert_eq!(dirty.dirty_count(), plain.len() as u64);
            }
        }
    }
}

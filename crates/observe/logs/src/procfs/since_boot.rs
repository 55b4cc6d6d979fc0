//! Facts of a single dump of /proc/vmstat, or of `vmstat -s`: its numbers count since boot, so they tell no rates, but
//! how often all of memory has passed through swap, and how much of it came from the wrong node.

use std::collections::HashMap;

use diskwright_base::counter_ids::memory;

/// Pages of this size are counted.
const PAGE_KIB: f64 = 4.0;
/// Numbers that add up to all pages, where the dump does not tell how much memory there is.
const PAGE_NUMBERS: [&str; 11] = [
    "nr_free_pages",
    "nr_inactive_anon",
    "nr_active_anon",
    "nr_inactive_file",
    "nr_active_file",
    "nr_active",
    "nr_inactive",
    "nr_unevictable",
    "nr_slab_reclaimable",
    "nr_slab_unreclaimable",
    "nr_page_table_pages",
];
/// Other numbers that are kept, and their names in `vmstat -s`.
const OTHER_NUMBERS: [(&str, &str); 5] = [
    ("MemTotal:", "K total memory"),
    ("pswpin", "pages swapped in"),
    ("pswpout", "pages swapped out"),
    ("numa_hit", ""),
    ("numa_miss", ""),
];
/// Smallest number of pages of a machine.
const MIN_PAGES: f64 = 1000.0;

/// Numbers of the first dump.
#[derive(Debug, Default)]
pub(super) struct SinceBoot {
    numbers: HashMap<&'static str, f64>,
}

impl SinceBoot {
    /// Keeps a number if a fact needs it.
    pub fn add_number(&mut self, name: &str, value: u64) {
        let page_number = PAGE_NUMBERS.iter().find(|known| **known == name).copied();
        let other = OTHER_NUMBERS.iter().find(|(key, words)| *key == name || *words == name).map(|(key, _)| *key);
        if let Some(key) = page_number.or(other) {
            self.numbers.insert(key, value as f64);
        }
    }

    /// Returns the facts that follow.
    pub fn facts(&self) -> Vec<(&'static str, f64)> {
        let number = |name: &str| self.numbers.get(name).copied();
        let mut facts = Vec::new();
        let counted: f64 = PAGE_NUMBERS.iter().filter_map(|name| number(name)).sum();
        let pages = number("MemTotal:").map_or(counted, |kib| kib / PAGE_KIB);
        if pages >= MIN_PAGES {
            let swapped = [("pswpin", memory::SWAPPED_IN_FRACTION), ("pswpout", memory::SWAPPED_OUT_FRACTION)];
            facts.extend(swapped.into_iter().filter_map(|(name, fact)| Some((fact, number(name)? / pages))));
        }
        if let (Some(hits), Some(misses)) = (number("numa_hit"), number("numa_miss"))
            && hits + misses > 0.0
        {
            facts.push((memory::NUMA_MISS_FRACTION, misses / (hits + misses)));
        }
        facts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_that_were_swapped_are_compared_with_memory() {
        let mut numbers = SinceBoot::default();
        for (name, value) in [("nr_free_pages", 50_000), ("nr_active_anon", 200_000), ("pswpin", 1_000_000)] {
            numbers.add_number(name, value);
        }
        assert_eq!(numbers.facts(), [(memory::SWAPPED_IN_FRACTION, 4.0)]);
        numbers.add_number("K total memory", 8_000_000);
        numbers.add_number("pages swapped out", 500_000);
        assert_eq!(numbers.facts(), [(memory::SWAPPED_IN_FRACTION, 0.5), (memory::SWAPPED_OUT_FRACTION, 0.25)]);
        numbers.add_number("numa_hit", 300);
        numbers.add_number("numa_miss", 100);
        assert_eq!(numbers.facts()[2], (memory::NUMA_MISS_FRACTION, 0.25));
    }
}

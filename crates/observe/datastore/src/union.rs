//! The combined columns of several schemas: those of the first schema, then those
//! that only later schemas have, in order. Writer and reader build the same union.

use std::collections::HashMap;

use diskwright_base::Series;

/// Combined series, with an index for finding them.
#[derive(Debug, Default)]
pub(crate) struct ColumnUnion<'a> {
    /// All series, in order.
    pub series: Vec<&'a Series>,
    /// Indices of the first `indexed_count` series by their key.
    indices: HashMap<(&'a str, &'a str, u64), usize>,
    indexed_count: usize,
}

/// Key by which two series are the same.
fn series_key(series: &Series) -> (&str, &str, u64) {
    (series.counter.as_str(), series.instance.as_str(), series.scale.to_bits())
}

impl<'a> ColumnUnion<'a> {
    /// Adds the series that are new, and returns the index of each.
    pub fn add_series(&mut self, series: &'a [Series]) -> Vec<usize> {
        // A schema may name a series twice; each then has its own column.
        let mut is_taken = vec![false; self.series.len() + series.len()];
        // Most schemas are alike: the next series is usually the next one of the union too.
        let mut next = 0;
        let mut indices = Vec::with_capacity(series.len());
        for added in series {
            let is_next = self.series.get(next).is_some_and(|candidate| series_key(candidate) == series_key(added));
            let known = if is_next { Some(next) } else { self.find_series(added) };
            let index = known.filter(|index| !is_taken[*index]).unwrap_or_else(|| {
                self.series.push(added);
                self.series.len() - 1
            });
            is_taken[index] = true;
            if known == Some(index) {
                next = index + 1;
            }
            indices.push(index);
        }
        indices
    }

    /// Returns the first index of a series. The map is built when it is first needed.
    fn find_series(&mut self, series: &'a Series) -> Option<usize> {
        for index in self.indexed_count..self.series.len() {
            self.indices.entry(series_key(self.series[index])).or_insert(index);
        }
        self.indexed_count = self.series.len();
        self.indices.get(&series_key(series)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_column_has_one_place() {
        let one = |name: &str| Series { counter: name.into(), instance: String::new(), scale: 1.0 };
        let first = [one("a"), one("b"), one("c")];
        let second = [one("d"), one("a"), one("c"), one("a")];
        let mut third = [one("b")];
        third[0].scale = 2.0;
        let mut union = ColumnUnion::default();
        assert_eq!(union.add_series(&first), [0, 1, 2]);
        assert_eq!(union.add_series(&first[1..]), [1, 2]);
        assert_eq!(union.add_series(&second), [3, 0, 2, 4]);
        assert_eq!(union.add_series(&third), [5]);
        assert_eq!(union.series.len(), 6);
    }
}

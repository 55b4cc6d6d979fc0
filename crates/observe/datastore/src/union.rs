//! The columns of several schemas together: those of the first, then those
//! that only later ones have, in order. Writer and reader build it alike.

use std::collections::HashMap;

use diskwright_base::Series;

/// Series with their places.
#[derive(Debug, Default)]
pub(crate) struct Union<'a> {
    /// All of them, in order.
    pub series: Vec<&'a Series>,
    /// Places of the first so many, by what makes two series the same.
    index: HashMap<(&'a str, &'a str, u64), usize>,
    indexed: usize,
}

fn key(series: &Series) -> (&str, &str, u64) {
    (series.counter.as_str(), series.instance.as_str(), series.scale.to_bits())
}

impl<'a> Union<'a> {
    /// Adds the series that are not there yet, and says where each of them stands.
    pub fn join(&mut self, series: &'a [Series]) -> Vec<usize> {
        // A schema may name a series twice; each has its own column then.
        let mut taken = vec![false; self.series.len() + series.len()];
        // Schemas are mostly alike: the next series tends to be the next here.
        let mut next = 0;
        let mut places = Vec::with_capacity(series.len());
        for one in series {
            let alike = self.series.get(next).is_some_and(|there| key(there) == key(one));
            let known = if alike { Some(next) } else { self.find(one) };
            let index = known.filter(|index| !taken[*index]).unwrap_or_else(|| {
                self.series.push(one);
                self.series.len() - 1
            });
            taken[index] = true;
            if known == Some(index) {
                next = index + 1;
            }
            places.push(index);
        }
        places
    }

    /// The first place of a series; the index is made when it is first needed.
    fn find(&mut self, one: &'a Series) -> Option<usize> {
        for index in self.indexed..self.series.len() {
            self.index.entry(key(self.series[index])).or_insert(index);
        }
        self.indexed = self.series.len();
        self.index.get(&key(one)).copied()
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
        let mut union = Union::default();
        assert_eq!(union.join(&first), [0, 1, 2]);
        assert_eq!(union.join(&first[1..]), [1, 2]);
        assert_eq!(union.join(&second), [3, 0, 2, 4]);
        assert_eq!(union.join(&third), [5]);
        assert_eq!(union.series.len(), 6);
    }
}

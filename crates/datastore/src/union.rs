//! The columns of several schemas together: those of the first, then those
//! that only later ones have, in order. Writer and reader build it alike.

use std::collections::HashMap;

use diskwright_base::Series;

/// Series with their places.
#[derive(Debug, Default)]
pub(crate) struct Union<'a> {
    /// All of them, in order.
    pub series: Vec<&'a Series>,
    index: HashMap<(&'a str, &'a str, u64), usize>,
}

impl<'a> Union<'a> {
    /// Adds the series that are not there yet, and says where each of them stands.
    pub fn join(&mut self, series: &'a [Series]) -> Vec<usize> {
        // A schema may name a series twice; each has its own column then.
        let mut taken = vec![false; self.series.len() + series.len()];
        let mut place = |one: &'a Series| {
            let key = (one.counter.as_str(), one.instance.as_str(), one.scale.to_bits());
            let known = self.index.get(&key).copied().filter(|at| !taken[*at]);
            let at = known.unwrap_or_else(|| {
                self.index.insert(key, self.series.len());
                self.series.push(one);
                self.series.len() - 1
            });
            taken[at] = true;
            at
        };
        series.iter().map(&mut place).collect()
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
        assert_eq!(union.join(&second), [3, 0, 2, 4]);
        assert_eq!(union.join(&third), [5]);
        assert_eq!(union.series.len(), 6);
    }
}

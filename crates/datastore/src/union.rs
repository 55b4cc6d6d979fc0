//! The columns of several schemas together: those of the first, then those
//! that only later ones have, in order. Writer and reader build it alike.

use std::collections::HashMap;

use diskwright_base::{Schema, Series};

/// What makes two series the same.
pub(crate) fn key(series: &Series) -> (String, String, u64) {
    (series.counter.clone(), series.instance.clone(), series.scale.to_bits())
}

/// Adds the series that `all` lacks, and says where each of them stands in it.
/// `index` has the places of the series of `all`.
pub(crate) fn join(
    all: &mut Schema,
    index: &mut HashMap<(String, String, u64), usize>,
    series: &[Series],
) -> Vec<usize> {
    // A schema may name a series twice; each has its own column then.
    let mut taken = vec![false; all.series.len() + series.len()];
    let mut place = |series: &Series| {
        let known = index.get(&key(series)).copied().filter(|at| !taken[*at]);
        let at = known.unwrap_or_else(|| {
            index.insert(key(series), all.series.len());
            all.series.push(series.clone());
            all.series.len() - 1
        });
        taken[at] = true;
        at
    };
    series.iter().map(&mut place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_column_has_one_place() {
        let one = |name: &str| Series { counter: name.into(), instance: String::new(), scale: 1.0 };
        let mut all = Schema { series: vec![one("a"), one("b"), one("c")] };
        let mut index = all.series.iter().enumerate().map(|(i, s)| (key(s), i)).collect();
        assert_eq!(join(&mut all, &mut index, &[one("d"), one("a"), one("c"), one("a")]), [3, 0, 2, 4]);
        assert_eq!(all.series.len(), 5);
        let mut rescaled = one("b");
        rescaled.scale = 2.0;
        assert_eq!(join(&mut all, &mut index, &[rescaled]), [5]);
    }
}

//! Multiple tests. Of 400 series of pure noise, 20 would show a "trend" that is significant at 5 %, so significance
//! must be adjusted for the number of tests.
//!
//! Source: Holm, "A simple sequentially rejective multiple test procedure",
//! Scandinavian Journal of Statistics 6 (1979). It holds for dependent tests too: where there is no effect at all, the
//! probability that any test is significant stays below the limit.

/// Adjusts p-values by Holm's procedure: the smallest times their number, the next times one less, and so on; never
/// decreasing, at most 1. `NaN` stands for no test and stays.
pub fn adjust_by_holm(chances: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..chances.len()).filter(|&index| !chances[index].is_nan()).collect();
    order.sort_by(|&a, &b| chances[a].total_cmp(&chances[b]));
    let mut adjusted = vec![f64::NAN; chances.len()];
    let mut reached: f64 = 0.0;
    for (rank, &index) in order.iter().enumerate() {
        reached = reached.max(chances[index] * (order.len() - rank) as f64).min(1.0);
        adjusted[index] = reached;
    }
    adjusted
}

/// An adjusted p-value, and the level at which it was tested.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TestResult {
    /// P-value adjusted by [`adjust_by_holm`]; `NaN` where there is no test.
    pub adjusted_p_value: f64,
    /// An interval with this error rate excludes "no difference" exactly where the adjusted p-value is below the error
    /// rate of the family.
    pub level: f64,
}

/// Holm's procedure with the level of each test: the error rate of the family over the number of tests left at its
/// turn. Tests after the first insignificant one share its level.
pub fn test_by_holm(chances: &[f64], error: f64) -> Vec<TestResult> {
    let adjusted = adjust_by_holm(chances);
    let count = chances.iter().filter(|c| !c.is_nan()).count();
    let found = adjusted.iter().filter(|a| **a < error).count();
    let mut order: Vec<usize> = (0..chances.len()).filter(|&index| !chances[index].is_nan()).collect();
    order.sort_by(|&a, &b| chances[a].total_cmp(&chances[b]));
    let mut levels = vec![error / (count - found.min(count.saturating_sub(1))).max(1) as f64; chances.len()];
    for (rank, &index) in order.iter().take(found).enumerate() {
        levels[index] = error / (count - rank) as f64;
    }
    adjusted.into_iter().zip(levels).map(|(adjusted, level)| TestResult { adjusted_p_value: adjusted, level }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_those_of_the_tests() {
        // 0.005 against 0.05/4, 0.01 against 0.05/3, then 0.03 fails against 0.05/2
        let list = test_by_holm(&[0.01, 0.04, f64::NAN, 0.03, 0.005], 0.05);
        let level = |index: usize| list[index].level;
        assert_eq!((level(4), level(0), level(3), level(1)), (0.05 / 4.0, 0.05 / 3.0, 0.05 / 2.0, 0.05 / 2.0));
        for (index, chance) in [(0, 0.01), (1, 0.04), (3, 0.03), (4, 0.005)] {
            assert_eq!(chance < level(index), list[index].adjusted_p_value < 0.05, "{index}");
        }
        let all = test_by_holm(&[0.0, 0.0], 0.05);
        assert!(all.iter().all(|t| t.adjusted_p_value == 0.0 && t.level > 0.0), "{all:?}");
        assert!(test_by_holm(&[], 0.05).is_empty());
    }

    #[test]
    fn worked_example() {
        // of 4 tests: 0.005 x 4, 0.01 x 3, 0.03 x 2, 0.04 x 1 (which may not fall below 0.06)
        let adjusted = adjust_by_holm(&[0.01, 0.04, f64::NAN, 0.03, 0.005]);
        let expected = [0.03, 0.06, f64::NAN, 0.06, 0.02];
        for (a, e) in adjusted.iter().zip(expected) {
            assert!((a - e).abs() < 1e-12 || (a.is_nan() && e.is_nan()), "{adjusted:?}");
        }
        assert_eq!(adjust_by_holm(&[0.9, 0.8]), [1.0, 1.0]);
    }
}

//! Multiple tests. Of 400 series of pure noise, 20 would show a "trend" that is significant at 5 %, so significance
//! must be adjusted for the number of tests.
//!
//! Source: Holm, "A simple sequentially rejective multiple test procedure",
//! Scandinavian Journal of Statistics 6 (1979). It is valid for dependent tests too: if there is no effect at all, the
//! probability that any test is significant stays below the limit.

/// Adjusts p-values by Holm's procedure: multiplies the smallest by the number of tests, the next by one less, and so
/// on. The adjusted values never decrease in this order, and are at most 1. `NaN` stands for no test, and stays.
pub fn adjust_by_holm(p_values: &[f64]) -> Vec<f64> {
    let mut adjusted = vec![f64::NAN; p_values.len()];
    let mut largest: f64 = 0.0;
    let order = tests_by_p_value(p_values);
    for (rank, &index) in order.iter().enumerate() {
        largest = largest.max(p_values[index] * (order.len() - rank) as f64).min(1.0);
        adjusted[index] = largest;
    }
    adjusted
}

/// Returns the indexes of the p-values that are not `NaN`, smallest value first.
fn tests_by_p_value(p_values: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..p_values.len()).filter(|&index| !p_values[index].is_nan()).collect();
    order.sort_by(|&a, &b| p_values[a].total_cmp(&p_values[b]));
    order
}

/// An adjusted p-value, and the level at which it was tested.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TestResult {
    /// P-value adjusted by [`adjust_by_holm`]; `NaN` if there is no test.
    pub adjusted_p_value: f64,
    /// Error rate of this test: an interval with this error rate excludes "no difference" exactly if the adjusted
    /// p-value is below the error rate of the family.
    pub level: f64,
}

/// Tests p-values by Holm's procedure, smallest first. The level of a test is the error rate of the family divided by
/// the number of tests that remain when its turn comes. Tests after the first insignificant one share its level.
pub fn test_by_holm(p_values: &[f64], error: f64) -> Vec<TestResult> {
    let adjusted = adjust_by_holm(p_values);
    let order = tests_by_p_value(p_values);
    let count = order.len();
    let significant = adjusted.iter().filter(|a| **a < error).count();
    let remaining = (count - significant.min(count.saturating_sub(1))).max(1);
    let mut levels = vec![error / remaining as f64; p_values.len()];
    for (rank, &index) in order.iter().take(significant).enumerate() {
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

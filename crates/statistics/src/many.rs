//! Many tests at once. Of 400 series of pure noise, 20 would show a "trend"
//! that is significant at 5 %; what is told must stand against the number of
//! questions asked.
//!
//! Source: Holm, "A simple sequentially rejective multiple test procedure",
//! Scandinavian Journal of Statistics 6 (1979). It holds whatever the tests
//! have to do with each other: where nothing is going on at all, the chance
//! that anything is told stays below the limit.

/// Chances as they stand against all of them together: the smallest times
/// their number, the next times one less, and so on; never falling, at most 1.
/// `NaN` is no question and stays.
pub fn holm(chances: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..chances.len()).filter(|&at| !chances[at].is_nan()).collect();
    order.sort_by(|&a, &b| chances[a].total_cmp(&chances[b]));
    let mut adjusted = vec![f64::NAN; chances.len()];
    let mut reached: f64 = 0.0;
    for (rank, &at) in order.iter().enumerate() {
        reached = reached.max(chances[at] * (order.len() - rank) as f64).min(1.0);
        adjusted[at] = reached;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worked_example() {
        // of 4 tests: 0.005 x 4, 0.01 x 3, 0.03 x 2, 0.04 x 1 (which may not fall below 0.06)
        let adjusted = holm(&[0.01, 0.04, f64::NAN, 0.03, 0.005]);
        let expected = [0.03, 0.06, f64::NAN, 0.06, 0.02];
        for (a, e) in adjusted.iter().zip(expected) {
            assert!((a - e).abs() < 1e-12 || (a.is_nan() && e.is_nan()), "{adjusted:?}");
        }
        assert_eq!(holm(&[0.9, 0.8]), [1.0, 1.0]);
    }
}

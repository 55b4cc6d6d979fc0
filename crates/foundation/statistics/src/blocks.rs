//! Means of blocks: a series is cut into a few blocks of equal length, so long
//! that neighboring blocks depend little on each other.
//!
//! Source: the method of batch means, Schmeiser, "Batch size effects in the
//! analysis of simulation output", Operations Research 30 (1982), which finds
//! 10 to 30 independent batches enough for a series of any length. We take more,
//! because the remaining correlation of neighbors must be estimated from them
//! ([`crate::autocorrelation`]): on noise with an autocorrelation of 0.9 per point, 24 blocks gave up to ten times
//! too many slopes at a p-value of 1 in 10,000, and 48 did not.

use crate::{WeightedPoint, is_positive};

/// Number of blocks that a series is cut into, if it has enough points.
pub const BLOCK_COUNT: usize = 48;
/// Smallest number of blocks for any estimate.
pub const MIN_BLOCKS: usize = 8;

/// Cuts a series into up to [`BLOCK_COUNT`] blocks of equal duration, and returns the
/// mean of each, at the mean time of its points and with the sum of their weights.
/// Blocks without points are left out. Empty if there are fewer points than
/// [`MIN_BLOCKS`].
pub fn block_means(points: &[WeightedPoint]) -> Vec<WeightedPoint> {
    let count = points.len().min(BLOCK_COUNT);
    if count < MIN_BLOCKS {
        return Vec::new();
    }
    cut_into_blocks(points, count)
}

/// Cuts a series into `count` blocks of equal duration, and returns their means. Blocks without points are left out.
pub fn cut_into_blocks(points: &[WeightedPoint], count: usize) -> Vec<WeightedPoint> {
    let (Some(first), Some(last)) = (first_time_s(points), last_time_s(points)) else { return Vec::new() };
    if !is_positive(last - first) || count == 0 {
        return Vec::new();
    }
    let mut sums = vec![[0.0; 3]; count];
    for p in points {
        let index = ((p.time_s - first) / (last - first) * count as f64) as usize;
        let [value, time, weight] = &mut sums[index.min(count - 1)];
        *value += p.value * p.weight;
        *time += p.time_s * p.weight;
        *weight += p.weight;
    }
    let filled = sums.iter().filter(|[_, _, weight]| *weight > 0.0);
    filled
        .map(|[value, time, weight]| WeightedPoint { time_s: time / weight, value: value / weight, weight: *weight })
        .collect()
}

fn first_time_s(points: &[WeightedPoint]) -> Option<f64> {
    points.iter().map(|p| p.time_s).min_by(f64::total_cmp)
}

fn last_time_s(points: &[WeightedPoint]) -> Option<f64> {
    points.iter().map(|p| p.time_s).max_by(f64::total_cmp)
}

/// Effective number of equally weighted points: `(sum of weights)² / sum of squares` (Kish, "Survey Sampling", 1965,
/// 11.7).
pub fn effective_sample_size(points: &[WeightedPoint]) -> f64 {
    let sum: f64 = points.iter().map(|p| p.weight).sum();
    let squares: f64 = points.iter().map(|p| p.weight * p.weight).sum();
    if squares > 0.0 { sum * sum / squares } else { 0.0 }
}

/// Returns the weighted mean of the values; `NaN` without points.
pub fn weighted_mean(points: &[WeightedPoint]) -> f64 {
    let sum: f64 = points.iter().map(|p| p.weight).sum();
    points.iter().map(|p| p.value * p.weight).sum::<f64>() / sum
}

/// Returns true if all values are equal except for rounding.
pub fn is_constant(points: &[WeightedPoint]) -> bool {
    let size = points.iter().map(|p| p.value.abs()).fold(0.0, f64::max);
    let first = points.first().map_or(0.0, |p| p.value);
    points.iter().all(|p| (p.value - first).abs() <= 1e-9 * size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_weighted_and_gaps_left_out() {
        let point = |at_s: f64, value, weight| WeightedPoint { time_s: at_s, value, weight };
        // two blocks of four seconds; the first has weights 1 and 3
        let list = [point(0.0, 2.0, 1.0), point(1.0, 6.0, 3.0), point(8.0, 5.0, 2.0)];
        let cut = cut_into_blocks(&list, 2);
        assert_eq!(cut, [point(0.75, 5.0, 4.0), point(8.0, 5.0, 2.0)]);
        // 36 / 20
        assert!((effective_sample_size(&cut) - 1.8).abs() < 1e-12);
        assert!((weighted_mean(&cut) - 5.0).abs() < 1e-12);
        assert!(is_constant(&cut) && !is_constant(&list));
    }

    #[test]
    fn few_points_make_no_blocks() {
        let list: Vec<WeightedPoint> =
            (0..15).map(|i| WeightedPoint { time_s: f64::from(i), value: 1.0, weight: 1.0 }).collect();
        assert!(block_means(&list[..7]).is_empty());
        assert!(block_means(&[list[0]; 40]).is_empty(), "no length");
        assert_eq!(block_means(&list).len(), 15);
    }
}

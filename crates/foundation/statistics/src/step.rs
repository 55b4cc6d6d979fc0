//! Steps: a series has one level before some time, and another level after it.
//!
//! Sources: the greatest of the t statistics over all positions where the series
//! can be cut in two, Worsley, "On the likelihood ratio test for a shift in
//! location of normal populations", Journal of the American Statistical
//! Association 74 (1979); its p-value is at most the sum of those of all positions
//! (Bonferroni's inequality, which Worsley finds close). Degrees of freedom
//! count independent values ([`crate::autocorrelation`]).

use crate::autocorrelation::{degrees_of_freedom, estimate_autocorrelation, remaining_count};
use crate::distribution::student_p_value;
use crate::{WeightedPoint, blocks, is_positive};

/// A step of a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepFit {
    /// Time of the step on the points' clock.
    pub time_s: f64,
    /// Mean before it.
    pub before: f64,
    /// Mean after it.
    pub after: f64,
    /// P-value: the probability that noise alone looks as much like a step.
    pub p_value: f64,
    /// Weighted sum of squared residuals of the blocks.
    pub residual: f64,
}

/// Smallest number of blocks on each side.
const MIN_SIDE_BLOCKS: usize = 3;
const _: () = assert!(MIN_SIDE_BLOCKS >= 2, "the position of a step is searched up to two blocks before the cut");

/// Weighted sum of points, from which the gain of a cut is computed.
#[derive(Clone, Copy, Default)]
struct StepSums {
    weight: f64,
    value: f64,
}

impl StepSums {
    fn add_point(&mut self, p: &WeightedPoint) {
        self.weight += p.weight;
        self.value += p.weight * p.value;
    }

    fn mean(&self) -> f64 {
        self.value / self.weight
    }

    /// Reduction of the squared residuals if this side of a cut and the other one have their own levels, given the sums
    /// of all points.
    fn level_gain(&self, total: &StepSums) -> f64 {
        let other = StepSums { weight: total.weight - self.weight, value: total.value - self.value };
        if !is_positive(self.weight) || !is_positive(other.weight) {
            return 0.0;
        }
        self.weight * other.weight / total.weight * (self.mean() - other.mean()).powi(2)
    }
}

fn sum_points(points: &[WeightedPoint]) -> StepSums {
    let mut sums = StepSums::default();
    points.iter().for_each(|p| sums.add_point(p));
    sums
}

/// Blocks cut in two: those before index `left`, and those from index `right` on. A block between them is left out.
struct Cut {
    left: usize,
    right: usize,
    /// Reduction of the squared residuals by the cut, with the weights of `residual`.
    gain: f64,
    /// Weighted sum of squared residuals. The weights are scaled to sum to the effective number of blocks.
    residual: f64,
}

impl Cut {
    fn from_blocks(blocks: &[WeightedPoint], left: usize, right: usize) -> Cut {
        let sides = [sum_points(&blocks[..left]), sum_points(&blocks[right..])];
        let total = StepSums { weight: sides[0].weight + sides[1].weight, value: sides[0].value + sides[1].value };
        let mut cut = Cut { left, right, gain: sides[0].level_gain(&total), residual: 0.0 };
        let scale = blocks::effective_sample_size(&cut.kept_blocks(blocks)) / total.weight;
        cut.residual = scale * cut.residual_squares(blocks);
        cut.gain *= scale;
        cut
    }

    fn kept_blocks(&self, blocks: &[WeightedPoint]) -> Vec<WeightedPoint> {
        [&blocks[..self.left], &blocks[self.right..]].concat()
    }

    fn block_residuals(&self, blocks: &[WeightedPoint]) -> Vec<f64> {
        let levels = [sum_points(&blocks[..self.left]).mean(), sum_points(&blocks[self.right..]).mean()];
        self.kept_blocks(blocks)
            .iter()
            .enumerate()
            .map(|(index, b)| b.value - levels[usize::from(index >= self.left)])
            .collect()
    }

    fn residual_squares(&self, blocks: &[WeightedPoint]) -> f64 {
        self.block_residuals(blocks)
            .into_iter()
            .zip(self.kept_blocks(blocks))
            .map(|(residual, b)| b.weight * residual * residual)
            .sum()
    }

    fn gain_ratio(&self) -> f64 {
        if self.gain > 0.0 { self.gain / self.residual } else { 0.0 }
    }

    /// P-value: the probability that noise gains as much at this position.
    fn p_value(&self, blocks: &[WeightedPoint]) -> f64 {
        if !is_positive(self.gain) {
            return 1.0;
        }
        // three parameters are fitted: two levels and the position
        let count = blocks::effective_sample_size(&self.kept_blocks(blocks));
        // rounding errors of an exact step are correlated and must not count
        let autocorrelation = if self.residual <= 1e-20 * self.gain {
            0.0
        } else {
            estimate_autocorrelation(&self.block_residuals(blocks), 3)
        };
        student_p_value(
            (self.gain / (self.residual / remaining_count(count, autocorrelation, 3.0))).sqrt(),
            degrees_of_freedom(count, autocorrelation, 3.0),
        )
    }
}

/// Returns the position of the first point after the best cut, among the positions that `is_allowed`.
fn find_best_position(points: &[WeightedPoint], is_allowed: impl Fn(usize) -> bool) -> Option<usize> {
    let total = sum_points(points);
    let mut left = StepSums::default();
    let mut best: Option<(usize, f64)> = None;
    for (index, p) in points.iter().enumerate() {
        if index > 0 && is_allowed(index) {
            let gain = left.level_gain(&total);
            if best.is_none_or(|(_, best_gain)| gain > best_gain) {
                best = Some((index, gain));
            }
        }
        left.add_point(p);
    }
    best.map(|(index, _)| index)
}

/// Finds the likeliest step of a series. Its significance is tested on the blocks; its position is searched among the
/// points, which must be in the order of time. `None` if there are too few blocks.
pub fn find_step(points: &[WeightedPoint], blocks: &[WeightedPoint]) -> Option<StepFit> {
    if blocks.len() < 2 * MIN_SIDE_BLOCKS + 2 {
        return None;
    }
    // a step inside a block spoils that block's mean, so each cut may leave one block out
    let last = blocks.len() - MIN_SIDE_BLOCKS;
    let cuts =
        (MIN_SIDE_BLOCKS..=last).flat_map(|cut| [(cut, cut), (cut, cut + 1)]).filter(|&(_, right)| right <= last);
    let tried: Vec<Cut> = cuts.map(|(left, right)| Cut::from_blocks(blocks, left, right)).collect();
    let best_cut = tried.iter().max_by(|a, b| a.gain_ratio().total_cmp(&b.gain_ratio()))?;
    let cut = best_cut.left;
    // scaled to all blocks; a block that is left out has no residual, because the step inside it explains its mean
    let scale = blocks::effective_sample_size(blocks) / sum_points(blocks).weight;
    let residual = scale * best_cut.residual_squares(blocks);
    // Bonferroni's inequality
    let p_value = (tried.len() as f64 * best_cut.p_value(blocks)).min(1.0);
    // one block on either side of the cut; the assertion at MIN_SIDE_BLOCKS says why there are two before it
    let search_range_s =
        blocks[cut - 1].time_s.min(blocks[cut - 2].time_s)..=blocks[(cut + 1).min(blocks.len() - 1)].time_s;
    let position = find_best_position(points, |index| {
        search_range_s.contains(&points[index].time_s) && search_range_s.contains(&points[index - 1].time_s)
    })?;
    Some(StepFit {
        time_s: 0.5 * (points[position - 1].time_s + points[position].time_s),
        before: blocks::weighted_mean(&points[..position]),
        after: blocks::weighted_mean(&points[position..]),
        p_value,
        residual,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::Noise;

    fn points(values: impl IntoIterator<Item = f64>) -> Vec<WeightedPoint> {
        let values = values.into_iter().enumerate();
        values.map(|(i, value)| WeightedPoint { time_s: i as f64, value, weight: 1.0 }).collect()
    }

    fn of(values: impl IntoIterator<Item = f64>) -> StepFit {
        let list = points(values);
        find_step(&list, &blocks::block_means(&list)).unwrap()
    }

    #[test]
    fn worked_example() {
        // 5 blocks around 1 and 5 around 4: residuals 1 + 1, gain 10/4 x 3² = 22.5; 9 cuts
        // (5 places, and 4 that leave a block out), memory 0, 10 - 3 = 7 values left:
        // t = sqrt(22.5 / (2/7)) = 8.874 with 7 x 5 / 12 degrees
        let list = points([0.5, 1.5, 0.5, 1.5, 1.0, 4.0, 3.5, 4.5, 3.5, 4.5]);
        let step = find_step(&list, &list).unwrap();
        assert!((step.residual - 2.0).abs() < 1e-12, "{step:?}");
        assert!((step.before - 1.0).abs() < 1e-12 && (step.after - 4.0).abs() < 1e-12 && step.time_s == 4.5);
        assert!((step.p_value - 9.0 * student_p_value(8.8741, 35.0 / 12.0)).abs() < 1e-4, "{step:?}");
    }

    #[test]
    fn a_step_is_found_where_it_is() {
        let mut noise = Noise::new(9);
        let (mut near, mut sure) = (0, 0);
        for _ in 0..100 {
            let series = noise.remembering(0.5, 900).into_iter().enumerate();
            let step = of(series.map(|(i, v)| v + if i < 613 { 0.0 } else { 3.0 }));
            sure += i32::from(step.p_value < 0.01);
            assert!((step.after - step.before - 3.0).abs() < 0.6);
            near += i32::from((step.time_s - 612.5).abs() <= 5.0);
        }
        // noise with a larger estimated autocorrelation costs some significance
        assert!(near >= 90 && sure >= 95, "{near} {sure}");
    }

    #[test]
    fn noise_has_a_step_no_more_often_than_the_error_rate() {
        for (r, count, alpha) in
            [(0.0, 60, 0.05), (0.5, 300, 0.05), (0.9, 600, 0.05), (0.9, 2000, 0.05), (0.9, 600, 0.01)]
        {
            let mut noise = Noise::new(21);
            let runs = 800;
            let false_steps = (0..runs).filter(|_| of(noise.remembering(r, count)).p_value < alpha).count();
            let false_ones = false_steps as f64 / f64::from(runs);
            let max_share = alpha + 3.0 * (alpha * (1.0 - alpha) / f64::from(runs)).sqrt();
            assert!(false_ones <= max_share, "{r} {count} {alpha}: {false_ones}");
        }
    }

    #[test]
    fn one_burst_is_no_step() {
        for burst in [0, 100, 470] {
            let step = of((0..480).map(|i| if (burst..burst + 10).contains(&i) { 1.0 } else { 0.0 }));
            assert!(step.p_value > 0.01, "{burst}: {step:?}");
        }
        assert_eq!(of([2.0; 60]).p_value, 1.0);
    }
}

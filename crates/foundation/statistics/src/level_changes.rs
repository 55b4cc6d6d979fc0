//! Changes of level of a series that may have several: up and down again.
//!
//! The series is cut into stretches with a level each, by optimal partitioning of its logarithm: least squares and a
//! penalty for each cut (Jackson et al., "An algorithm for optimal partitioning of data on an interval", IEEE Signal
//! Processing Letters 12 (2005)). A cut counts if its change is large and sudden, and if nearly all values before and
//! after it lie on their own sides. Its significance is that of the two stretches beside it.
//! A series that changes its level many times has a rhythm or wanders, and is left out.

use crate::distribution::student_p_value;
use crate::{WeightedPoint, blocks};

/// What makes a change large.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MinChange {
    /// Smallest ratio of the levels.
    pub ratio: f64,
    /// Smallest difference of the levels, in the unit of the values; more than 0.
    pub difference: f64,
}

/// A change of level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LevelChange {
    /// Its time on the points' clock.
    pub time_s: f64,
    /// Time between the last point before it and the first after it, seconds.
    pub precision_s: f64,
    /// Mean from the change before it, or the beginning.
    pub before: f64,
    /// Mean until the next change, or the end.
    pub after: f64,
    /// P-value: the probability that noise alone looks as much like a step.
    pub p_value: f64,
}

/// Smallest number of points of a series.
const MIN_POINTS: usize = 12;
/// Smallest number of points of a level: the first tick of a recording, or a burst of some ticks, is none.
const MIN_LEVEL_POINTS: usize = 5;
/// Largest number of blocks that are partitioned; the time that this takes grows with its square.
const MAX_BLOCKS: usize = 240;
/// Largest number of changes of a series.
const MAX_CHANGES: usize = 6;
/// Number of points on each side that tell whether a change is sudden, and the share of the change that they must show.
const SUDDEN_POINTS: usize = 5;
const MIN_SUDDEN_SHARE: f64 = 0.6;
/// Smallest share of the values of a level that lie on its side of the middle.
const MIN_SIDE_SHARE: f64 = 0.8;
/// A cut with a larger p-value may well be noise, and divides a level.
const MAX_P_VALUE: f64 = 0.01;
/// Largest autocorrelation that is assumed, and smallest degrees of freedom of a test.
const MAX_AUTOCORRELATION: f64 = 0.97;
const MIN_DEGREES: f64 = 1.0;
/// A gap longer than this many usual distances of points hides when a change was.
const MAX_GAP_SPACINGS: f64 = 3.5;

/// Finds the changes of level of a series, in the order of time. The points must be in the order of time; values below
/// zero count as zero.
pub fn find_level_changes(points: &[WeightedPoint], min_change: MinChange) -> Vec<LevelChange> {
    if points.len() < MIN_POINTS {
        return Vec::new();
    }
    let series = LogSeries::new(points, min_change);
    let mut cuts = series.partition();
    series.drop_small_cuts(&mut cuts);
    if cuts.len() > MAX_CHANGES {
        return Vec::new();
    }
    // without a cut, those beside it have longer levels, and perhaps a better place
    loop {
        (0..cuts.len()).for_each(|index| series.refine_cut(&mut cuts, index));
        let Some(index) = series.find_doubtful_cut(&cuts) else { break };
        cuts.remove(index);
    }
    (0..cuts.len()).map(|index| series.describe_cut(&cuts, index)).collect()
}

/// A series with the logarithms of its values.
struct LogSeries<'p> {
    points: &'p [WeightedPoint],
    min_change: MinChange,
    logs: Vec<f64>,
    /// Sums of the first 0, 1, 2 … logarithms, and of their squares.
    sums: Vec<[f64; 2]>,
    spacing_s: f64,
}

impl<'p> LogSeries<'p> {
    fn new(points: &'p [WeightedPoint], min_change: MinChange) -> LogSeries<'p> {
        let logs: Vec<f64> = points.iter().map(|p| (p.value.max(0.0) / min_change.difference).ln_1p()).collect();
        let mut sums = Vec::with_capacity(logs.len() + 1);
        let mut sum = [0.0; 2];
        sums.push(sum);
        for log in &logs {
            sum = [sum[0] + log, sum[1] + log * log];
            sums.push(sum);
        }
        let mut spacings: Vec<f64> = points.windows(2).map(|w| w[1].time_s - w[0].time_s).collect();
        spacings.sort_unstable_by(f64::total_cmp);
        LogSeries { points, min_change, logs, sums, spacing_s: spacings[spacings.len() / 2] }
    }

    fn mean(&self, from: usize, to: usize) -> f64 {
        (self.sums[to][0] - self.sums[from][0]) / (to - from) as f64
    }

    /// Sum of the squared distances from the mean.
    fn squares(&self, from: usize, to: usize) -> f64 {
        let [sum, squares] = [0, 1].map(|moment| self.sums[to][moment] - self.sums[from][moment]);
        (squares - sum * sum / (to - from) as f64).max(0.0)
    }

    /// Cuts the series where levels explain more than a cut costs. Returns the first point of each level but the first.
    fn partition(&self) -> Vec<usize> {
        let count = self.logs.len();
        let per_block = count.div_ceil(MAX_BLOCKS);
        let edges: Vec<usize> = (0..count).step_by(per_block).chain([count]).collect();
        let block_count = edges.len() - 1;
        let min_blocks = MIN_LEVEL_POINTS.div_ceil(per_block).max(2);
        let means: Vec<f64> = edges.windows(2).map(|w| self.mean(w[0], w[1])).collect();
        let noise = noise_variance(&means);
        let smallest = self.min_change.ratio.ln().powi(2) / 8.0;
        let penalty = per_block as f64 * (4.0 * noise * (block_count as f64).ln() + min_blocks as f64 * smallest);
        let mut best = vec![(f64::INFINITY, 0); block_count + 1];
        best[0].0 = -penalty;
        for end in min_blocks..=block_count {
            for begin in (0..=end - min_blocks).filter(|begin| *begin == 0 || *begin >= min_blocks) {
                let cost = best[begin].0 + penalty + self.squares(edges[begin], edges[end]);
                if cost < best[end].0 {
                    best[end] = (cost, begin);
                }
            }
        }
        let mut cuts = Vec::new();
        let mut end = best[block_count].1;
        while end > 0 {
            cuts.push(edges[end]);
            end = best[end].1;
        }
        cuts.reverse();
        cuts
    }

    /// First point of the level before a cut, and the point after the last one of the level behind it.
    fn sides(&self, cuts: &[usize], index: usize) -> (usize, usize) {
        let from = if index == 0 { 0 } else { cuts[index - 1] };
        (from, cuts.get(index + 1).copied().unwrap_or(self.logs.len()))
    }

    fn levels(&self, cuts: &[usize], index: usize) -> (f64, f64) {
        let (from, to) = self.sides(cuts, index);
        let cut = cuts[index];
        (blocks::weighted_mean(&self.points[from..cut]), blocks::weighted_mean(&self.points[cut..to]))
    }

    fn is_large(&self, cuts: &[usize], index: usize) -> bool {
        let (before, after) = self.levels(cuts, index);
        let (low, high) = (before.min(after), before.max(after));
        high - low >= self.min_change.difference && high >= self.min_change.ratio * low
    }

    /// Drops cuts whose levels hardly differ, the smallest difference first.
    fn drop_small_cuts(&self, cuts: &mut Vec<usize>) {
        loop {
            let difference = |index: usize| {
                let (from, to) = self.sides(cuts, index);
                (self.mean(from, cuts[index]) - self.mean(cuts[index], to)).abs()
            };
            let small = (0..cuts.len()).filter(|index| !self.is_large(cuts, *index));
            let Some(index) = small.min_by(|a, b| difference(*a).total_cmp(&difference(*b))) else { return };
            cuts.remove(index);
        }
    }

    /// Moves a cut, which lies between two blocks, to the point where it explains most.
    fn refine_cut(&self, cuts: &mut [usize], index: usize) {
        let reach = 2 * self.logs.len().div_ceil(MAX_BLOCKS);
        let (from, to) = self.sides(cuts, index);
        let squares = |cut: usize| self.squares(from, cut) + self.squares(cut, to);
        loop {
            let cut = cuts[index];
            let near = cut.saturating_sub(reach).max(from + 1)..=(cut + reach).min(to - 1);
            match near.min_by(|a, b| squares(*a).total_cmp(&squares(*b))) {
                Some(better) if squares(better) < squares(cut) => cuts[index] = better,
                _ => return,
            }
        }
    }

    /// True for a change that is large, long, sudden, not hidden by a gap, and more than a few high values.
    fn is_sound(&self, cuts: &[usize], index: usize) -> bool {
        let ((from, to), cut) = (self.sides(cuts, index), cuts[index]);
        if cut - from < MIN_LEVEL_POINTS || to - cut < MIN_LEVEL_POINTS || !self.is_large(cuts, index) {
            return false;
        }
        let gap_s = self.points[cut].time_s - self.points[cut - 1].time_s;
        if gap_s > MAX_GAP_SPACINGS * self.spacing_s {
            return false;
        }
        let (before, after) = (self.mean(from, cut), self.mean(cut, to));
        // the point of the change itself may lie between both levels
        let near_before = self.mean(cut.saturating_sub(SUDDEN_POINTS).max(from), cut);
        let near_after = self.mean(cut + 1, (cut + 1 + SUDDEN_POINTS).min(to));
        let is_sudden = (near_after - near_before) / (after - before) >= MIN_SUDDEN_SHARE;
        let middle = 0.5 * (before + after);
        let share = |part: &[f64], is_upper: bool| {
            part.iter().filter(|log| (**log > middle) == is_upper).count() as f64 / part.len() as f64
        };
        let is_rise = after > before;
        is_sudden
            && share(&self.logs[from..cut], !is_rise) >= MIN_SIDE_SHARE
            && share(&self.logs[cut..to], is_rise) >= MIN_SIDE_SHARE
    }

    /// The cut that does not count, or may well be noise.
    fn find_doubtful_cut(&self, cuts: &[usize]) -> Option<usize> {
        if let Some(unsound) = (0..cuts.len()).find(|index| !self.is_sound(cuts, *index)) {
            return Some(unsound);
        }
        let p_value = |index: usize| {
            let (from, to) = self.sides(cuts, index);
            self.p_value((from, cuts[index], to))
        };
        let least_certain = (0..cuts.len()).max_by(|a, b| p_value(*a).total_cmp(&p_value(*b)))?;
        (p_value(least_certain) > MAX_P_VALUE).then_some(least_certain)
    }

    fn describe_cut(&self, cuts: &[usize], index: usize) -> LevelChange {
        let ((from, to), cut) = (self.sides(cuts, index), cuts[index]);
        let (before, after) = self.levels(cuts, index);
        let [last, first] = [cut - 1, cut].map(|i| self.points[i].time_s);
        LevelChange {
            time_s: 0.5 * (last + first),
            precision_s: first - last,
            before,
            after,
            p_value: self.p_value((from, cut, to)),
        }
    }
}

impl LogSeries<'_> {
    /// P-value of a cut between two levels: that of Student's t of the difference of their means, times the positions
    /// that the cut could have (Bonferroni). Neighboring values depend on each other, so they count as
    /// `n (1 - r) / (1 + r)` independent ones (Bartlett, Journal of the Royal Statistical Society 98 (1935)), with the
    /// largest autocorrelation `r` that two deviations of its estimate allow.
    fn p_value(&self, (from, cut, to): (usize, usize, usize)) -> f64 {
        let (before, after) = (self.mean(from, cut), self.mean(cut, to));
        let residuals: Vec<f64> = (from..to).map(|i| self.logs[i] - if i < cut { before } else { after }).collect();
        let count = residuals.len() as f64;
        let squares: f64 = residuals.iter().map(|r| r * r).sum();
        let products: f64 = residuals.windows(2).map(|w| w[0] * w[1]).sum();
        // rounding errors of exact levels are correlated and must not count
        if squares <= 1e-20 * count * (after - before).powi(2) {
            return 0.0;
        }
        let estimate = (products / squares).clamp(0.0, 1.0);
        let largest = (estimate + 2.0 * ((1.0 - estimate * estimate) / count).sqrt()).min(MAX_AUTOCORRELATION);
        let independent = |count: usize| count as f64 * (1.0 - largest) / (1.0 + largest);
        let sides = [independent(cut - from), independent(to - cut)];
        // two levels and the position are fitted
        let degrees = sides[0] + sides[1] - 3.0;
        if degrees < MIN_DEGREES || sides.iter().any(|side| *side < 1.0) {
            return 1.0;
        }
        let variance = squares / count * (sides[0] + sides[1]) / degrees;
        let t = (after - before).abs() / (variance * (1.0 / sides[0] + 1.0 / sides[1])).sqrt();
        (student_p_value(t, degrees) * count).min(1.0)
    }
}

/// Variance of the noise of neighboring values, by the median of their differences: steps hardly change it.
fn noise_variance(values: &[f64]) -> f64 {
    let mut differences: Vec<f64> = values.windows(2).map(|w| (w[1] - w[0]).abs()).collect();
    if differences.is_empty() {
        return 0.0;
    }
    differences.sort_unstable_by(f64::total_cmp);
    // the median of the absolute value of a normal variable is 0.6745 deviations, and a difference has two of them
    (differences[differences.len() / 2] / 0.6745).powi(2) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::Noise;

    const QUEUE: MinChange = MinChange { ratio: 1.5, difference: 1.0 };

    fn of(values: impl IntoIterator<Item = f64>) -> Vec<LevelChange> {
        let point = |(i, value): (usize, f64)| WeightedPoint { time_s: i as f64, value, weight: 1.0 };
        find_level_changes(&values.into_iter().enumerate().map(point).collect::<Vec<_>>(), QUEUE)
    }

    /// Values around levels that scatter by a quarter of them.
    fn around(noise: &mut Noise, levels: &[(usize, f64)]) -> Vec<f64> {
        let mut values = Vec::new();
        for (count, level) in levels {
            let scatter = noise.remembering(0.3, *count);
            values.extend(scatter.iter().map(|n| (level * (1.0 + 0.25 * n)).max(0.0)));
        }
        values
    }

    #[test]
    fn up_and_down_are_found_where_they_are() {
        let mut noise = Noise::new(4);
        for (scale, tolerance) in [(1, 1.0), (20, 2.0)] {
            for _ in 0..50 {
                let levels = [(30 * scale, 1.0), (40 * scale, 8.0), (25 * scale, 1.2)];
                let [up, down] = of(around(&mut noise, &levels)).try_into().unwrap();
                assert!((up.time_s - 30.0 * scale as f64).abs() <= tolerance, "{up:?}");
                assert!((down.time_s - 70.0 * scale as f64).abs() <= tolerance, "{down:?}");
                assert!((up.before - 1.0).abs() < 0.5 && (up.after - 8.0).abs() < 2.0 && up.precision_s == 1.0);
                assert!(up.p_value < 1e-3 && down.p_value < 1e-3, "{up:?} {down:?}");
            }
        }
    }

    /// The blocks that are partitioned have five points here.
    #[test]
    fn the_moment_is_found_within_a_block() {
        let mut noise = Noise::new(8);
        for cut in 598..608 {
            // means are weighted by operations, of which there are more in trouble
            let point = |i: i32| {
                let (level, weight) = if i < cut { (22.0, 20.0) } else { (68.0, 300.0) };
                WeightedPoint { time_s: f64::from(i), value: level * (0.8 + 0.4 * noise.even()), weight }
            };
            let points: Vec<WeightedPoint> = (0..1200).map(point).collect();
            let [change] = find_level_changes(&points, QUEUE).try_into().unwrap();
            assert_eq!(change.time_s, f64::from(cut) - 0.5);
        }
    }

    #[test]
    fn noise_bursts_and_slopes_have_none() {
        let mut noise = Noise::new(11);
        let mut found = 0;
        for memory in [0.0, 0.5, 0.9, 0.97] {
            for count in [30, 120, 900, 4000] {
                for _ in 0..40 {
                    let scatter = noise.remembering(memory, count);
                    let list = of(scatter.iter().map(|n| (4.0 * (1.0 + 0.4 * n)).max(0.0)));
                    found += list.iter().filter(|change| change.p_value < 0.001).count();
                }
            }
        }
        assert!(found <= 2, "{found} of 640");
        let burst = |from: usize, length: usize| {
            of((0..300).map(move |i| if (from..from + length).contains(&i) { 9.0 } else { 1.0 }))
        };
        assert_eq!([burst(0, 1), burst(0, 3), burst(150, 4), burst(298, 2)].concat(), []);
        assert_eq!(of((0..300).map(|i| f64::from(i) * 0.1)), [], "it grows steadily");
        assert_eq!(of((0..600).map(|i| if i / 20 % 2 == 0 { 1.0 } else { 9.0 })), [], "it comes and goes");
        assert_eq!(of([3.0; 100]), []);
        assert_eq!(of((0..200).map(|i| if i < 100 { 8.0 } else { 9.5 })), [], "too little");
        assert_eq!(of((0..200).map(|i| if i < 100 { 0.01 } else { 0.5 })), [], "below what matters");
    }

    #[test]
    fn a_change_during_a_gap_has_no_moment() {
        let mut list: Vec<WeightedPoint> = (0..100)
            .map(|i| WeightedPoint { time_s: f64::from(i), value: if i < 50 { 1.0 } else { 9.0 }, weight: 1.0 })
            .collect();
        assert_eq!(find_level_changes(&list, QUEUE).len(), 1);
        list[50..].iter_mut().for_each(|p| p.time_s += 30.0);
        assert_eq!(find_level_changes(&list, QUEUE), []);
    }
}

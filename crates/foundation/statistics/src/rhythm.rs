//! Rhythms: patterns that repeat, such as every two hours, every day or every week.
//!
//! The period is found, not assumed: candidates are peaks of the spectrum above its surroundings, the day and the week.
//! The series is folded at and near each candidate, so finely that a short burst falls into the same part of every
//! period. A period must occur three times, a day or a week twice. P-values are adjusted for the number of periods that
//! could have been found.
//!
//! Sources: folding and analysis of variance, Schwarzenberg-Czerny, "On the
//! advantage of using analysis of variance for period search", Monthly Notices of
//! the Royal Astronomical Society 241 (1989), here with repeated measurements,
//! each period being one measurement of the whole profile. Because neighboring
//! parts depend on each other, the degrees of freedom are lowered as Box, "Some
//! theorems on quadratic forms … II", Annals of Mathematical Statistics 25 (1954),
//! and Greenhouse and Geisser, "On methods in the analysis of profile data",
//! Psychometrika 24 (1959), do; the dependence is estimated as in
//! [`crate::autocorrelation`]. The explained share is reduced by the share that noise would
//! explain (omega squared, Hays, "Statistics", 1963).

use crate::distribution::fisher_p_value;
use crate::spectrum::{self, Candidate};
use crate::{WeightedPoint, is_positive, line_fit};

const DAY_S: f64 = 86_400.0;
const WEEK_S: f64 = 604_800.0;

/// Period of a rhythm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Period {
    /// A day, whose parts are whole hours.
    Day,
    /// A week, whose parts are days.
    Week,
    /// Another period, seconds.
    Other(f64),
}

impl Period {
    /// Length of the period, seconds.
    pub fn seconds(self) -> f64 {
        match self {
            Period::Day => DAY_S,
            Period::Week => WEEK_S,
            Period::Other(seconds) => seconds,
        }
    }

    /// Number of parts into which it can be cut if points lie `spacing_s` apart; `None` if they lie too far apart.
    fn part_count(self, spacing_s: f64) -> Option<usize> {
        let max_parts = (self.seconds() / spacing_s * 1.001) as usize;
        let first_possible = |counts: &[usize]| counts.iter().copied().find(|parts| *parts <= max_parts);
        match self {
            Period::Week => first_possible(&[7]),
            // parts of whole hours
            Period::Day => first_possible(&[24, 12, 8, 6]),
            Period::Other(_) => (max_parts >= 4).then(|| max_parts.min(MAX_PARTS as usize)),
        }
    }

    /// Smallest number of periods in the series.
    fn min_repeats(self) -> f64 {
        if matches!(self, Period::Other(_)) { 3.0 } else { 2.0 }
    }
}

/// A rhythm of a series.
#[derive(Clone, Debug, PartialEq)]
pub struct Rhythm {
    /// Period after which it repeats.
    pub period: Period,
    /// Share of the variance (about the trend) that it explains, 0 to 1.
    pub share: f64,
    /// P-value: the probability that noise alone explains as much at any of the tried periods.
    pub p_value: f64,
    /// Mean of each part of the period, minus the overall mean; `NaN` for a part without points.
    pub profile: Vec<f64>,
}

impl Rhythm {
    /// Part of the period in which a time lies.
    fn part_index(&self, at_s: f64) -> usize {
        period_part(at_s, self.period, self.profile.len())
    }

    /// Value of the rhythm at a time.
    pub fn value_at(&self, at_s: f64) -> f64 {
        let value = self.profile[self.part_index(at_s)];
        if value.is_nan() { 0.0 } else { value }
    }

    /// Start of the highest part of the period, seconds from the start of the period.
    pub fn peak_s(&self) -> f64 {
        let known = self.profile.iter().enumerate().filter(|(_, v)| !v.is_nan());
        let index = known.max_by(|a, b| a.1.total_cmp(b.1)).map_or(0, |(index, _)| index);
        index as f64 * self.period.seconds() / self.profile.len() as f64
    }
}

/// Returns the part of a period in which a time lies.
fn period_part(at_s: f64, period: Period, parts: usize) -> usize {
    let period_s = period.seconds();
    // several times faster than `rem_euclid`, and as exact for whole seconds, at which parts of a day begin
    let within_s = at_s - ((at_s / period_s) as i64) as f64 * period_s;
    let within_s = if within_s < 0.0 { within_s + period_s } else { within_s };
    ((within_s / period_s * parts as f64) as usize).min(parts - 1)
}

/// Mean of one part of one period; `row` is the number of the period in the series.
struct PeriodCell {
    row: usize,
    part: usize,
    value: f64,
}

/// Largest number of rhythms of one series.
pub const MAX_RHYTHMS: usize = 2;
/// P-value below which a rhythm is accepted, before it is adjusted for other series.
const MAX_P_VALUE: f64 = 0.01;
/// Largest number of parts of a period.
const MAX_PARTS: f64 = 24.0;
/// Folds that explain at least this share of the variance that the best one explains count as equally good; of these,
/// the shortest period is chosen.
const TIE_SHARE: f64 = 0.9;
/// Smallest share of the variance (of the series, or of the remainder after another rhythm) that a rhythm must explain.
const MIN_SHARE: f64 = 0.02;
/// Smallest share of the whole variance that a second rhythm must explain.
const MIN_SECOND_SHARE: f64 = 0.05;
/// Standard deviations beyond which outliers are clipped for the second test.
const OUTLIER_DEVIATIONS: f64 = 4.0;
/// Largest number of periods that are tried on either side of a candidate.
const MAX_STEPS: f64 = 30.0;

/// Finds up to [`MAX_RHYTHMS`] rhythms of a series whose points are `spacing_s` apart. The clock of the points must
/// start at midnight before a Monday. The first rhythm is returned even if it is likely noise, as long as a period
/// could be tested; the second only if it is significant.
pub fn find_rhythms(points: &[WeightedPoint], spacing_s: f64) -> Vec<Rhythm> {
    let line = line_fit::LineFit::fit(points);
    let level = |at_s: f64| line.as_ref().map_or(0.0, |l| l.value_at(at_s));
    let points: Vec<WeightedPoint> =
        points.iter().map(|p| WeightedPoint { value: p.value - level(p.time_s), ..*p }).collect();
    let points = points.as_slice();
    let Some(first) = best_rhythm(points, spacing_s) else { return Vec::new() };
    if first.p_value >= MAX_P_VALUE {
        return vec![first];
    }
    let remainder = subtract_rhythm(points, &first);
    let remaining_share = squared_deviations(&remainder) / squared_deviations(points);
    let is_real =
        |r: &Rhythm| r.p_value < MAX_P_VALUE && !is_echo(r, &first) && r.share * remaining_share >= MIN_SECOND_SHARE;
    let Some(second) = best_rhythm(&remainder, spacing_s).filter(is_real) else {
        return vec![first];
    };
    // fold at the shorter period first, and fit the longer rhythm to the remainder: a fold at a day also contains a
    // rhythm of two hours
    let (short, long) = if second.period.seconds() < first.period.seconds() {
        (second.period, first.period)
    } else {
        return vec![first, second];
    };
    let trials = trial_count(points, spacing_s);
    let Some(shorter) = fold_series(points, short, spacing_s) else { return vec![first] };
    let longer = fold_series(&subtract_rhythm(points, &shorter), long, spacing_s);
    let adjusted = |r: Rhythm| Rhythm { p_value: (r.p_value * trials).min(1.0), ..r };
    match longer.map(adjusted).filter(|r| r.p_value < MAX_P_VALUE) {
        // a single burst in the longer period, folded at the shorter one, still explains about this share of `first`:
        // a rhythm of its own explains clearly more (the factor is our choice)
        Some(longer) if shorter.share > 1.5 * first.share * short.seconds() / long.seconds() => {
            vec![adjusted(shorter), longer]
        }
        _ => vec![first],
    }
}

fn squared_deviations(points: &[WeightedPoint]) -> f64 {
    let mean = points.iter().map(|p| p.value).sum::<f64>() / points.len() as f64;
    points.iter().map(|p| (p.value - mean).powi(2)).sum()
}

fn subtract_rhythm(points: &[WeightedPoint], rhythm: &Rhythm) -> Vec<WeightedPoint> {
    points.iter().map(|p| WeightedPoint { value: p.value - rhythm.value_at(p.time_s), ..*p }).collect()
}

/// Returns true if `second` is only a remnant of `first`, left because the parts of the fold and the points do not
/// coincide: one period is one, two or three times the other.
fn is_echo(second: &Rhythm, first: &Rhythm) -> bool {
    let (a, b) = (second.period.seconds(), first.period.seconds());
    let ratio = a.max(b) / a.min(b);
    ratio < 3.5 && (ratio / ratio.round() - 1.0).abs() < 0.1
}

/// Number of distinguishable periods of at least four points. Two periods are distinguishable if their folds are a part
/// of a period apart at the end of the series.
fn trial_count(points: &[WeightedPoint], spacing_s: f64) -> f64 {
    let span = points.last().map_or(0.0, |p| p.time_s) - points.first().map_or(0.0, |p| p.time_s) + spacing_s;
    (span / (4.0 * spacing_s) * MAX_PARTS / 2.0).max(1.0)
}

/// Returns the rhythm that explains most, with its p-value adjusted for all periods that were tried.
fn best_rhythm(points: &[WeightedPoint], spacing_s: f64) -> Option<Rhythm> {
    let span = points.last()?.time_s - points.first()?.time_s + spacing_s;
    let calendar = [Period::Day, Period::Week];
    let mut folds: Vec<Rhythm> = calendar.into_iter().filter_map(|p| fold_series(points, p, spacing_s)).collect();
    let variance = PointVariance::new(points);
    for candidate in spectrum::candidate_periods(points, spacing_s) {
        folds.extend(best_fold_near(&variance, candidate, span, spacing_s));
    }
    let trials = trial_count(points, spacing_s);
    let adjusted = |r: Rhythm| Rhythm { p_value: (r.p_value * trials).min(1.0), ..r };
    let mut folds: Vec<Rhythm> = folds.into_iter().map(adjusted).collect();
    if folds.iter().all(|r| r.p_value >= MAX_P_VALUE) {
        return folds.into_iter().min_by(|a, b| a.p_value.total_cmp(&b.p_value));
    }
    folds.retain(|r| r.p_value < MAX_P_VALUE);
    // compared by the variance of the points: in a fold, parts of different lengths average out different amounts of
    // noise
    let explained = |r: &Rhythm| variance.explained(r.period.seconds(), spacing_s);
    let most_explained = folds.iter().map(explained).fold(0.0, f64::max);
    folds.retain(|r| explained(r) >= TIE_SHARE * most_explained);
    let shortest = folds.iter().map(|r| r.period.seconds()).fold(f64::INFINITY, f64::min);
    // of the periods that cannot be distinguished from the shortest: the day or week, else the best
    let resolution_s = shortest * shortest / span;
    folds.retain(|r| r.period.seconds() - shortest <= resolution_s);
    let named = folds.iter().find(|r| !matches!(r.period, Period::Other(_))).cloned();
    named.or_else(|| folds.into_iter().max_by(|a, b| a.share.total_cmp(&b.share)))
}

/// Folds the series at the best period near a candidate.
fn best_fold_near(variance: &PointVariance<'_>, candidate: Candidate, span: f64, spacing_s: f64) -> Option<Rhythm> {
    let step = 1.0 / (span * MAX_PARTS);
    let steps = (candidate.frequency_tolerance / step).ceil().min(MAX_STEPS) as i32;
    let seconds = |k: &i32| 1.0 / (candidate.frequency + f64::from(*k) * step);
    let periods = (-steps..=steps).map(|k| seconds(&k)).filter(|s| *s > 0.0);
    let score = |s: f64| (s, variance.explained(s, spacing_s));
    let (period_s, most_explained) = periods.map(score).max_by(|a, b| a.1.total_cmp(&b.1))?;
    // a round number of minutes is preferred if it explains nearly as much
    let resolution_s = period_s * period_s / span / MAX_PARTS;
    let round = [3600.0, 1800.0, 900.0, 300.0, 60.0].into_iter().map(|unit| (period_s / unit).round() * unit);
    let is_close = |s: &f64| *s > 0.0 && (s - period_s).abs() <= 2.0 * resolution_s;
    let round_period = round.filter(is_close).find(|s| variance.explained(*s, spacing_s) >= 0.97 * most_explained);
    fold_series(variance.points, Period::Other(round_period.unwrap_or(period_s)), spacing_s)
}

/// Points with their mean and the sum of their squared deviations, which are the same at every period.
struct PointVariance<'p> {
    points: &'p [WeightedPoint],
    mean: f64,
    total: f64,
}

impl<'p> PointVariance<'p> {
    fn new(points: &'p [WeightedPoint]) -> PointVariance<'p> {
        let mean = points.iter().map(|p| p.value).sum::<f64>() / points.len() as f64;
        PointVariance { points, mean, total: squared_deviations(points) }
    }

    /// Returns the sum of squares that the parts of a period explain; a cheap measure by which periods are searched.
    fn explained(&self, period_s: f64, spacing_s: f64) -> f64 {
        let parts = ((period_s / spacing_s).floor() as usize).clamp(1, MAX_PARTS as usize);
        let (mut sums, mut counts) = ([0.0; MAX_PARTS as usize], [0.0; MAX_PARTS as usize]);
        for p in self.points {
            let index = period_part(p.time_s, Period::Other(period_s), parts);
            sums[index] += p.value;
            counts[index] += 1.0;
        }
        let level =
            |(sum, count): (&f64, &f64)| if *count > 0.0 { count * (sum / count - self.mean).powi(2) } else { 0.0 };
        let between: f64 = sums.iter().zip(&counts).map(level).sum();
        // minus what as many parts would explain of pure noise
        let residual_df = (self.points.len() as f64 - parts as f64).max(1.0);
        between - (parts as f64 - 1.0) * (self.total - between) / residual_df
    }
}

/// Folds a series at one period. `None` if the period does not occur often enough or the points lie too far apart.
fn fold_series(points: &[WeightedPoint], period: Period, spacing_s: f64) -> Option<Rhythm> {
    let (first, last) = (points.first()?.time_s, points.last()?.time_s);
    if last - first + spacing_s < period.min_repeats() * period.seconds() * 0.999 {
        return None;
    }
    let parts = period.part_count(spacing_s)?;
    let cells = period_cells(points, first, period, parts);
    let mut cell_counts = vec![0; parts];
    cells.iter().for_each(|c| cell_counts[c.part] += 1);
    // gaps in the series: three quarters of the parts must have been seen at least twice (our choice)
    if cell_counts.iter().filter(|&&count| count >= 2).count() < parts * 3 / 4 {
        return None;
    }
    let rhythm = fit_levels(&cells, period, parts);
    if rhythm.share < MIN_SHARE {
        return Some(Rhythm { p_value: 1.0, ..rhythm });
    }
    // the test is repeated without outliers: two large values that happen to lie a period apart are no rhythm
    let clipped = fit_levels(&period_cells(&clip_outliers(points), first, period, parts), period, parts);
    Some(Rhythm { p_value: rhythm.p_value.max(clipped.p_value), ..rhythm })
}

/// Clips outliers at [`OUTLIER_DEVIATIONS`] standard deviations from the median. The standard deviation is estimated
/// from the median absolute deviation, which is 1/1.4826 of it for normally distributed values.
fn clip_outliers(points: &[WeightedPoint]) -> Vec<WeightedPoint> {
    let median = |mut list: Vec<f64>| {
        let middle = list.len() / 2;
        *list.select_nth_unstable_by(middle, f64::total_cmp).1
    };
    let middle = median(points.iter().map(|p| p.value).collect());
    let limit = OUTLIER_DEVIATIONS * 1.4826 * median(points.iter().map(|p| (p.value - middle).abs()).collect());
    let clip = |v: f64| if limit > 0.0 { v.clamp(middle - limit, middle + limit) } else { v };
    points.iter().map(|p| WeightedPoint { value: clip(p.value), ..*p }).collect()
}

/// Returns the means of the parts of each period.
fn period_cells(points: &[WeightedPoint], first: f64, period: Period, parts: usize) -> Vec<PeriodCell> {
    // weighted sum of each cell, and its weight
    let mut sums: Vec<(PeriodCell, f64)> = Vec::new();
    for p in points {
        let row = ((p.time_s - first) / period.seconds()) as usize;
        let part = period_part(p.time_s, period, parts);
        // points are in the order of time, so that a point's cell is among the last
        match sums.iter_mut().rev().take(2).find(|(cell, _)| (cell.row, cell.part) == (row, part)) {
            Some((cell, weight)) => {
                cell.value += p.value * p.weight;
                *weight += p.weight;
            }
            None => sums.push((PeriodCell { row, part, value: p.value * p.weight }, p.weight)),
        }
    }
    sums.into_iter().map(|(cell, weight)| PeriodCell { value: cell.value / weight, ..cell }).collect()
}

/// Fits a level to each period and each part, and tests the levels of the parts against the residuals.
fn fit_levels(cells: &[PeriodCell], period: Period, parts: usize) -> Rhythm {
    let rows = cells.iter().map(|c| c.row + 1).max().unwrap_or(0);
    let (mut row_levels, mut part_levels) = (vec![0.0; rows], vec![0.0; parts]);
    // gaps leave the table unbalanced, so the levels are fitted alternately until they converge
    for _ in 0..30 {
        let before = part_levels.clone();
        row_levels = group_means(cells, rows, |c| c.row, |c| c.value - part_levels[c.part]);
        part_levels = group_means(cells, parts, |c| c.part, |c| c.value - row_levels[c.row]);
        let known: Vec<f64> = part_levels.iter().copied().filter(|v| !v.is_nan()).collect();
        let middle = known.iter().sum::<f64>() / known.len().max(1) as f64;
        part_levels.iter_mut().for_each(|v| *v -= middle);
        let size = known.iter().map(|v| v.abs()).fold(0.0, f64::max);
        if part_levels.iter().zip(&before).all(|(now, before)| (now - before).abs() <= 1e-9 * size || now.is_nan()) {
            break;
        }
    }
    let residuals: Vec<f64> = cells.iter().map(|c| c.value - row_levels[c.row] - part_levels[c.part]).collect();
    let explained: f64 = cells.iter().map(|c| part_levels[c.part].powi(2)).sum();
    let residual: f64 = residuals.iter().map(|r| r * r).sum();
    let grand_mean = cells.iter().map(|c| c.value).sum::<f64>() / cells.len().max(1) as f64;
    let total: f64 = cells.iter().map(|c| (c.value - grand_mean).powi(2)).sum();
    let count_known = |list: &[f64]| list.iter().filter(|v| !v.is_nan()).count() as f64;
    let part_df = count_known(&part_levels) - 1.0;
    let residual_df = cells.len() as f64 - count_known(&row_levels) - part_df;
    let epsilon = box_epsilon(neighbor_correlation(cells, &residuals, parts), parts);
    let residual_variance = residual / residual_df;
    // explained squares that small are rounding errors
    let p_value = if explained > 1e-18 * total {
        fisher_p_value(explained / part_df / residual_variance, epsilon * part_df, epsilon * residual_df)
    } else {
        1.0
    };
    let share = if total > 0.0 { ((explained - part_df * residual_variance) / total).clamp(0.0, 1.0) } else { 0.0 };
    Rhythm { period, share, p_value, profile: part_levels }
}

/// Returns the mean of the values of each of `count` groups of cells.
fn group_means(
    cells: &[PeriodCell],
    count: usize,
    index_of: impl Fn(&PeriodCell) -> usize,
    value_of: impl Fn(&PeriodCell) -> f64,
) -> Vec<f64> {
    let mut sums = vec![(0.0, 0.0); count];
    for cell in cells {
        let value = value_of(cell);
        if !value.is_nan() {
            let sum = &mut sums[index_of(cell)];
            *sum = (sum.0 + value, sum.1 + 1.0);
        }
    }
    sums.into_iter().map(|(sum, count)| sum / count).collect()
}

/// Correlation of neighboring parts within a period, corrected for the subtracted mean.
fn neighbor_correlation(cells: &[PeriodCell], residuals: &[f64], parts: usize) -> f64 {
    let (mut products, mut pairs) = (0.0, 0.0);
    for index in 1..cells.len() {
        let neighbors =
            cells[index].row == cells[index - 1].row && cells[index].part == (cells[index - 1].part + 1) % parts;
        if neighbors {
            products += residuals[index] * residuals[index - 1];
            pairs += 1.0;
        }
    }
    let squares = residuals.iter().map(|r| r * r).sum::<f64>() / residuals.len().max(1) as f64;
    if !is_positive(squares) || pairs == 0.0 {
        return 0.0;
    }
    let n = parts as f64;
    ((n * (products / pairs / squares) + 1.0) / (n - 3.0)).clamp(0.0, 0.99)
}

/// Box's epsilon for parts with the correlation of a first-order autoregression: 1 where they are independent, less
/// where they are not.
fn box_epsilon(r: f64, parts: usize) -> f64 {
    let cov = |i: usize, j: usize| r.powi(i.abs_diff(j) as i32);
    let n = parts as f64;
    let row: Vec<f64> = (0..parts).map(|i| (0..parts).map(|j| cov(i, j)).sum::<f64>() / n).collect();
    let all = row.iter().sum::<f64>() / n;
    let (mut trace, mut squares) = (0.0, 0.0);
    for i in 0..parts {
        for j in 0..parts {
            let centered = cov(i, j) - row[i] - row[j] + all;
            squares += centered * centered;
            if i == j {
                trace += centered;
            }
        }
    }
    trace * trace / ((n - 1.0) * squares)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::Noise;

    const HOUR: f64 = 3600.0;

    fn hours(values: impl IntoIterator<Item = f64>) -> Vec<WeightedPoint> {
        let values = values.into_iter().enumerate();
        values.map(|(i, value)| WeightedPoint { time_s: (i as f64 + 0.5) * HOUR, value, weight: 1.0 }).collect()
    }

    #[test]
    fn a_time_lies_in_the_part_of_its_period_that_the_remainder_gives() {
        for period in [Period::Day, Period::Week, Period::Other(7_200.0), Period::Other(5_431.7)] {
            for hour in -50..2_000 {
                for second in [0.0, 1.0, 1_799.5] {
                    let at_s = f64::from(hour) * 3_600.0 + second;
                    let exact = at_s.rem_euclid(period.seconds()) / period.seconds() * 24.0;
                    assert_eq!(period_part(at_s, period, 24), (exact as usize).min(23), "{period:?} {at_s}");
                }
            }
        }
    }

    #[test]
    fn worked_example() {
        // two days of two parts: 1 3 / 2 6. Row means 2 4, part effects -1.5 +1.5, residuals
        // ±0.5: explained 4 x 2.25 = 9, residual 4 x 0.25 = 1, F(1,1) = 9, chance by 2/pi atan(1/3) = 0.2048
        let cell = |row, part, value| PeriodCell { row, part, value };
        let cells = [cell(0, 0, 1.0), cell(0, 1, 3.0), cell(1, 0, 2.0), cell(1, 1, 6.0)];
        let rhythm = fit_levels(&cells, Period::Day, 2);
        assert!((rhythm.profile[1] - 1.5).abs() < 1e-12 && (rhythm.profile[0] + 1.5).abs() < 1e-12);
        let exact = 2.0 / std::f64::consts::PI * (1f64 / 3.0).atan();
        assert!((rhythm.p_value - exact).abs() < 1e-9, "{rhythm:?}");
        // total 14 about the mean 3; omega squared (9 - 1) / 14
        assert!((rhythm.share - 8.0 / 14.0).abs() < 1e-12);
        assert_eq!(rhythm.peak_s(), 43_200.0);
    }

    #[test]
    fn independence_is_spherical_and_memory_is_not() {
        assert!((box_epsilon(0.0, 24) - 1.0).abs() < 1e-12);
        let some = box_epsilon(0.5, 24);
        assert!(some > 0.5 && some < 0.75, "{some}");
        assert!(box_epsilon(0.9, 24) < 0.25);
    }

    #[test]
    fn a_day_comes_back_with_gaps_and_a_trend() {
        let mut noise = Noise::new(4);
        let day = |i: usize| if (9..17).contains(&(i % 24)) { 4.0 } else { 0.0 };
        let series = noise.remembering(0.6, 24 * 6).into_iter().enumerate();
        let list = hours(series.map(|(i, v)| v + day(i) + 0.05 * i as f64));
        let kept: Vec<WeightedPoint> =
            list.iter().enumerate().filter(|(i, _)| !(50..59).contains(i)).map(|(_, p)| *p).collect();
        let found = find_rhythms(&kept, HOUR);
        let rhythm = &found[0];
        assert_eq!(rhythm.period, Period::Day, "{found:?}");
        assert!(rhythm.p_value < 1e-4 && rhythm.share > 0.6, "{rhythm:?}");
        assert!((9.0..17.0).contains(&(rhythm.peak_s() / HOUR)), "{rhythm:?}");
        let short = find_rhythms(&list[..47], HOUR);
        assert!(short.iter().all(|r| r.period != Period::Day), "fewer than two days: {short:?}");
    }

    #[test]
    fn a_week_comes_back() {
        let mut noise = Noise::new(8);
        let weekend = |i: usize| if i / 24 % 7 >= 5 { -3.0 } else { 0.0 };
        let list = hours(noise.remembering(0.6, 24 * 28).into_iter().enumerate().map(|(i, v)| v + weekend(i)));
        let found = find_rhythms(&list, HOUR);
        let week = found.iter().find(|r| r.period == Period::Week).unwrap_or_else(|| panic!("{found:?}"));
        assert!(week.p_value < MAX_P_VALUE && week.share > 0.5, "{week:?}");
        assert!(week.peak_s() < 5.0 * 86_400.0);
    }

    /// Significant rhythms of a series of `count` points `spacing_s` apart. Each point is a mean of ten values.
    fn significant_rhythms(count: usize, spacing_s: f64, value: impl Fn(f64) -> f64) -> Vec<(Period, f64)> {
        let mean =
            |from: f64| (0..10).map(|k| value(from + spacing_s * (f64::from(k) + 0.5) / 10.0)).sum::<f64>() / 10.0;
        let point = |i: usize| WeightedPoint {
            time_s: (i as f64 + 0.5) * spacing_s,
            value: mean(i as f64 * spacing_s),
            weight: 1.0,
        };
        let list: Vec<WeightedPoint> = (0..count).map(point).collect();
        find_rhythms(&list, spacing_s)
            .into_iter()
            .filter(|r| r.p_value < MAX_P_VALUE)
            .map(|r| (r.period, r.peak_s()))
            .collect()
    }

    fn is_every(found: &[(Period, f64)], seconds: f64) -> bool {
        found.iter().any(|(p, _)| (p.seconds() / seconds - 1.0).abs() < 0.01)
    }

    #[test]
    fn bursts_and_saws_of_any_period_are_told_by_their_period() {
        // three days of two to seven minutes, a week of a quarter of an hour
        for (count, spacing_s) in [(2160, 120.0), (672, 900.0), (1000, 256.0)] {
            for period_s in [5400.0, 7200.0, 9000.0, 10_000.0, 14_400.0, 21_600.0, 43_200.0, 86_400.0_f64] {
                if spacing_s * 4.0 > period_s || count as f64 * spacing_s < 3.0 * period_s {
                    continue;
                }
                let noise = std::cell::RefCell::new(Noise::new(period_s as u64));
                let burst = |time_s: f64| {
                    if (time_s + 0.3 * period_s) % period_s < (period_s / 24.0).max(600.0) { 5.0 } else { 0.0 }
                };
                let found =
                    significant_rhythms(count, spacing_s, |time_s| burst(time_s) + 1.5 * noise.borrow_mut().normal());
                assert!(is_every(&found, period_s) && found.len() == 1, "{spacing_s} {period_s}: {found:?}");
                let saw = |time_s: f64| 4.0 * (time_s % period_s) / period_s;
                let found =
                    significant_rhythms(count, spacing_s, |time_s| saw(time_s) + 1.5 * noise.borrow_mut().normal());
                assert!(is_every(&found, period_s), "{spacing_s} {period_s}: {found:?}");
            }
        }
    }

    #[test]
    fn two_rhythms_are_two() {
        let mut noise = Noise::new(2);
        let list: Vec<f64> = noise.remembering(0.5, 960);
        let day = |time_s: f64| 3.0 * (std::f64::consts::TAU * time_s / 86_400.0).sin();
        let backup = |time_s: f64| if time_s % 7200.0 < 1800.0 { 4.0 } else { 0.0 };
        let found =
            significant_rhythms(960, 900.0, |time_s| list[(time_s / 900.0) as usize] + day(time_s) + backup(time_s));
        assert!(found.len() == 2 && is_every(&found, 7200.0) && is_every(&found, 86_400.0), "{found:?}");
    }

    #[test]
    fn a_trend_or_noise_alone_is_no_rhythm() {
        let line = hours((0..240).map(f64::from));
        assert!(find_rhythms(&line, HOUR).iter().all(|r| r.p_value == 1.0));
        let walk = |noise: &mut Noise, count: usize| {
            let mut level = 0.0;
            let mut step = || {
                level += noise.normal();
                level
            };
            (0..count).map(|_| step()).collect::<Vec<f64>>()
        };
        for (r, count) in [(0.0, 48), (0.0, 168), (0.6, 72), (0.9, 72), (0.9, 400), (0.99, 800), (1.0, 72), (1.0, 600)]
        {
            let mut noise = Noise::new(31);
            let runs = 200;
            let has_rhythm = |noise: &mut Noise| {
                let list = if r < 1.0 { noise.remembering(r, count) } else { walk(noise, count) };
                find_rhythms(&hours(list), HOUR).iter().any(|r| r.p_value < 0.05)
            };
            let false_ones = (0..runs).filter(|_| has_rhythm(&mut noise)).count() as f64 / f64::from(runs);
            assert!(false_ones <= 0.05 + 3.0 * (0.0475 / f64::from(runs)).sqrt(), "{r} {count}: {false_ones}");
        }
    }
}

//! Rhythms: a pattern that repeats every two hours, every day, every week.
//!
//! The period is found, not assumed: candidates are peaks of the spectrum above its surroundings, the day and the week.
//! The series is folded at and near each candidate, finely enough that a short burst falls into the same part of every
//! period. A period must occur three times, a day and a week twice. P-values are adjusted for the number of periods
//! that could have been found.
//!
//! Sources: folding and analysis of variance, Schwarzenberg-Czerny, "On the
//! advantage of using analysis of variance for period search", Monthly Notices of
//! the Royal Astronomical Society 241 (1989), here with repeated measurements,
//! each period being one measurement of the whole profile; since neighbouring
//! parts depend on each other, the degrees of freedom are lowered as Box, "Some
//! theorems on quadratic forms … II", Annals of Mathematical Statistics 25 (1954),
//! and Greenhouse and Geisser, "On methods in the analysis of profile data",
//! Psychometrika 24 (1959), do; the dependence is estimated as in
//! [`crate::autocorrelation`]. The share is corrected for what chance explains (omega
//! squared, Hays, "Statistics", 1963).

use crate::distribution::fisher_p_value;
use crate::spectrum::{self, Candidate};
use crate::{WeightedPoint, is_positive, line_fit};

const DAY_S: f64 = 86_400.0;
const WEEK_S: f64 = 604_800.0;

/// Period of a rhythm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Period {
    /// A day, in parts of hours.
    Day,
    /// A week, in parts of days.
    Week,
    /// Another period, seconds.
    Other(f64),
}

impl Period {
    /// Its length.
    pub fn seconds(self) -> f64 {
        match self {
            Period::Day => DAY_S,
            Period::Week => WEEK_S,
            Period::Other(seconds) => seconds,
        }
    }

    /// Number of parts that it can be cut into where points lie `spacing_s` apart; `None` where they lie too far apart.
    fn part_count(self, spacing_s: f64) -> Option<usize> {
        let max_parts = (self.seconds() / spacing_s * 1.001) as usize;
        let of = |list: &[usize]| list.iter().copied().find(|parts| *parts <= max_parts);
        match self {
            Period::Week => of(&[7]),
            // whole hours
            Period::Day => of(&[24, 12, 8, 6]),
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
    /// Its period.
    pub period: Period,
    /// Share of the variance (about the trend) that it explains, 0 to 1.
    pub share: f64,
    /// P-value: the probability that noise alone explains as much at any of the tried periods.
    pub p_value: f64,
    /// Difference of each part of the period from the mean; `NaN` for a part without points.
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

    /// Start of the part of the period at which it is highest, seconds.
    pub fn peak_s(&self) -> f64 {
        let known = self.profile.iter().enumerate().filter(|(_, v)| !v.is_nan());
        let index = known.max_by(|a, b| a.1.total_cmp(b.1)).map_or(0, |(index, _)| index);
        index as f64 * self.period.seconds() / self.profile.len() as f64
    }
}

fn period_part(at_s: f64, period: Period, parts: usize) -> usize {
    let place = at_s.rem_euclid(period.seconds()) / period.seconds() * parts as f64;
    (place as usize).min(parts - 1)
}

/// Mean of one part of one period; `row` is the number of the period.
struct PeriodCell {
    row: usize,
    part: usize,
    value: f64,
}

/// Largest number of rhythms of one series.
pub const MAX_RHYTHMS: usize = 2;
/// P-value below which a rhythm is accepted, before it is adjusted for other series.
const MAX_P_VALUE: f64 = 0.01;
/// Number of parts of the finest fold.
const MAX_PARTS: f64 = 24.0;
/// Folds that explain at least this share of what the best one explains count as equally good; the shortest period is
/// chosen.
const TIE_SHARE: f64 = 0.9;
/// Smallest share of the variance that a rhythm must explain, of the series or of the remainder after another rhythm.
const MIN_SHARE: f64 = 0.02;
/// Share of the whole variance that a second rhythm must explain.
const MIN_SECOND_SHARE: f64 = 0.05;
/// Standard deviations beyond which outliers are clipped for the second test.
const OUTLIER_DEVIATIONS: f64 = 4.0;
/// Largest number of folds to either side of a candidate.
const MAX_STEPS: f64 = 30.0;

/// Finds the rhythms of a series, shortest first. Its clock must start at midnight of a Monday; `spacing_s` is the
/// distance of its points. The first element is returned wherever a rhythm could be tested, even if it is likely noise;
/// further ones only where they are significant.
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
    let left = subtract_rhythm(points, &first);
    let of_left = squared_deviations(&left) / squared_deviations(points);
    let real = |r: &Rhythm| r.p_value < MAX_P_VALUE && !is_echo(r, &first) && r.share * of_left >= MIN_SECOND_SHARE;
    let Some(second) = best_rhythm(&left, spacing_s).filter(real) else {
        return vec![first];
    };
    // the longer rhythm is fitted to the remainder of the shorter one: a fold at a day also contains a rhythm of two
    // hours
    let (short, long) = if second.period.seconds() < first.period.seconds() {
        (second.period, first.period)
    } else {
        return vec![first, second];
    };
    let tried = trial_count(points, spacing_s);
    let Some(shorter) = fold_series(points, short, spacing_s) else { return vec![first] };
    let longer = fold_series(&subtract_rhythm(points, &shorter), long, spacing_s);
    let corrected = |r: Rhythm| Rhythm { p_value: (r.p_value * tried).min(1.0), ..r };
    match longer.map(corrected).filter(|r| r.p_value < MAX_P_VALUE) {
        Some(longer) if shorter.share > 1.5 * first.share * short.seconds() / long.seconds() => {
            vec![corrected(shorter), longer]
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

/// True for a remnant of a subtracted rhythm, at its own period or two or three times it, where its parts and the
/// points do not coincide.
fn is_echo(second: &Rhythm, first: &Rhythm) -> bool {
    let (a, b) = (second.period.seconds(), first.period.seconds());
    let times = a.max(b) / a.min(b);
    times < 3.5 && (times / times.round() - 1.0).abs() < 0.1
}

/// Number of distinguishable periods: one for each part of a period by which a fold may be off at the end of the
/// series, down to four points a period.
fn trial_count(points: &[WeightedPoint], spacing_s: f64) -> f64 {
    let span = points.last().map_or(0.0, |p| p.time_s) - points.first().map_or(0.0, |p| p.time_s) + spacing_s;
    (span / (4.0 * spacing_s) * MAX_PARTS / 2.0).max(1.0)
}

/// The rhythm that explains most, with its p-value adjusted for all periods.
fn best_rhythm(points: &[WeightedPoint], spacing_s: f64) -> Option<Rhythm> {
    let span = points.last()?.time_s - points.first()?.time_s + spacing_s;
    let calendar = [Period::Day, Period::Week];
    let mut folds: Vec<Rhythm> = calendar.into_iter().filter_map(|p| fold_series(points, p, spacing_s)).collect();
    for candidate in spectrum::candidate_periods(points, spacing_s) {
        folds.extend(best_fold_near(points, candidate, span, spacing_s));
    }
    let tried = trial_count(points, spacing_s);
    let corrected = |r: Rhythm| Rhythm { p_value: (r.p_value * tried).min(1.0), ..r };
    let mut folds: Vec<Rhythm> = folds.into_iter().map(corrected).collect();
    if folds.iter().all(|r| r.p_value >= MAX_P_VALUE) {
        return folds.into_iter().min_by(|a, b| a.p_value.total_cmp(&b.p_value));
    }
    folds.retain(|r| r.p_value < MAX_P_VALUE);
    // compared by the points: parts of different lengths average out different amounts of noise
    let worth = |r: &Rhythm| explained_variance(points, r.period.seconds(), spacing_s);
    let most_explained = folds.iter().map(worth).fold(0.0, f64::max);
    folds.retain(|r| worth(r) >= TIE_SHARE * most_explained);
    let shortest = folds.iter().map(|r| r.period.seconds()).fold(f64::INFINITY, f64::min);
    // among the periods indistinguishable from the shortest: the day or week, else the best
    let blur = shortest * shortest / span;
    folds.retain(|r| r.period.seconds() - shortest <= blur);
    let named = folds.iter().find(|r| !matches!(r.period, Period::Other(_))).cloned();
    named.or_else(|| folds.into_iter().max_by(|a, b| a.share.total_cmp(&b.share)))
}

/// The best fold near a candidate.
fn best_fold_near(points: &[WeightedPoint], candidate: Candidate, span: f64, spacing_s: f64) -> Option<Rhythm> {
    let step = 1.0 / (span * MAX_PARTS);
    let steps = (candidate.frequency_tolerance / step).ceil().min(MAX_STEPS) as i32;
    let seconds = |k: &i32| 1.0 / (candidate.frequency + f64::from(*k) * step);
    let tried = (-steps..=steps).map(|k| seconds(&k)).filter(|s| *s > 0.0);
    let score = |s: f64| (s, explained_variance(points, s, spacing_s));
    let (period_s, most_explained) = tried.map(score).max_by(|a, b| a.1.total_cmp(&b.1))?;
    // a round number of minutes is preferred where it folds about as well
    let blur = period_s * period_s / span / MAX_PARTS;
    let round = [3600.0, 1800.0, 900.0, 300.0, 60.0].into_iter().map(|unit| (period_s / unit).round() * unit);
    let close = |s: &f64| *s > 0.0 && (s - period_s).abs() <= 2.0 * blur;
    let as_good =
        round.into_iter().filter(close).find(|s| explained_variance(points, *s, spacing_s) >= 0.97 * most_explained);
    fold_series(points, Period::Other(as_good.unwrap_or(period_s)), spacing_s)
}

/// Variance explained by the parts of a period, for the search.
fn explained_variance(points: &[WeightedPoint], period_s: f64, spacing_s: f64) -> f64 {
    let parts = ((period_s / spacing_s).floor() as usize).clamp(1, MAX_PARTS as usize);
    let (mut sums, mut counts) = ([0.0; MAX_PARTS as usize], [0.0; MAX_PARTS as usize]);
    for p in points {
        let index = period_part(p.time_s, Period::Other(period_s), parts);
        sums[index] += p.value;
        counts[index] += 1.0;
    }
    let mean = sums.iter().sum::<f64>() / points.len() as f64;
    let level = |(sum, count): (&f64, &f64)| if *count > 0.0 { count * (sum / count - mean).powi(2) } else { 0.0 };
    let between: f64 = sums.iter().zip(&counts).map(level).sum();
    let all: f64 = points.iter().map(|p| (p.value - mean).powi(2)).sum();
    // minus the variance that as many parts of pure noise would explain
    let free = (points.len() as f64 - parts as f64).max(1.0);
    between - (parts as f64 - 1.0) * (all - between) / free
}

/// Folds a series at one period. `None` where the period does not occur often enough or the points lie too far apart.
fn fold_series(points: &[WeightedPoint], period: Period, spacing_s: f64) -> Option<Rhythm> {
    let (first, last) = (points.first()?.time_s, points.last()?.time_s);
    if last - first + spacing_s < period.min_repeats() * period.seconds() * 0.999 {
        return None;
    }
    let parts = period.part_count(spacing_s)?;
    let cells = period_cells(points, first, period, parts);
    let mut seen = vec![0; parts];
    cells.iter().for_each(|c| seen[c.part] += 1);
    if seen.iter().filter(|&&count| count >= 2).count() < parts * 3 / 4 {
        return None;
    }
    let rhythm = fit_levels(&cells, period, parts);
    if rhythm.share < MIN_SHARE {
        return Some(Rhythm { p_value: 1.0, ..rhythm });
    }
    // the test is repeated without outliers: two large values that happen to lie a period apart are no rhythm
    let calm = fit_levels(&self::period_cells(&clip_outliers(points), first, period, parts), period, parts);
    Some(Rhythm { p_value: rhythm.p_value.max(calm.p_value), ..rhythm })
}

/// The points with outliers clipped to [`OUTLIER_DEVIATIONS`] standard deviations about the median, estimated from
/// the median absolute deviation.
fn clip_outliers(points: &[WeightedPoint]) -> Vec<WeightedPoint> {
    let median = |mut list: Vec<f64>| {
        let middle = list.len() / 2;
        *list.select_nth_unstable_by(middle, f64::total_cmp).1
    };
    let middle = median(points.iter().map(|p| p.value).collect());
    let far = OUTLIER_DEVIATIONS * 1.4826 * median(points.iter().map(|p| (p.value - middle).abs()).collect());
    let cut = |v: f64| if far > 0.0 { v.clamp(middle - far, middle + far) } else { v };
    points.iter().map(|p| WeightedPoint { value: cut(p.value), ..*p }).collect()
}

/// Means of the parts of each period.
fn period_cells(points: &[WeightedPoint], first: f64, period: Period, parts: usize) -> Vec<PeriodCell> {
    let mut sums: Vec<(usize, usize, f64, f64)> = Vec::new();
    for p in points {
        let row = ((p.time_s - first) / period.seconds()) as usize;
        let part = period_part(p.time_s, period, parts);
        let value = p.value;
        match sums.iter_mut().rev().take(2).find(|s| (s.0, s.1) == (row, part)) {
            Some(sum) => {
                sum.2 += value * p.weight;
                sum.3 += p.weight;
            }
            None => sums.push((row, part, value * p.weight, p.weight)),
        }
    }
    sums.into_iter().map(|(row, part, value, weight)| PeriodCell { row, part, value: value / weight }).collect()
}

/// Fits a level to each period and each part, and tests the levels of the parts against the residuals.
fn fit_levels(cells: &[PeriodCell], period: Period, parts: usize) -> Rhythm {
    let rows = cells.iter().map(|c| c.row + 1).max().unwrap_or(0);
    let (mut of_row, mut of_part) = (vec![0.0; rows], vec![0.0; parts]);
    // gaps leave the table unbalanced, so the levels are fitted alternately until they converge
    for _ in 0..30 {
        let before = of_part.clone();
        of_row = group_means(cells, rows, |c| c.row, |c| c.value - of_part[c.part]);
        of_part = group_means(cells, parts, |c| c.part, |c| c.value - of_row[c.row]);
        let known: Vec<f64> = of_part.iter().copied().filter(|v| !v.is_nan()).collect();
        let middle = known.iter().sum::<f64>() / known.len().max(1) as f64;
        of_part.iter_mut().for_each(|v| *v -= middle);
        let size = known.iter().map(|v| v.abs()).fold(0.0, f64::max);
        if of_part.iter().zip(&before).all(|(now, before)| (now - before).abs() <= 1e-9 * size || now.is_nan()) {
            break;
        }
    }
    let left: Vec<f64> = cells.iter().map(|c| c.value - of_row[c.row] - of_part[c.part]).collect();
    let explained: f64 = cells.iter().map(|c| of_part[c.part].powi(2)).sum();
    let residual: f64 = left.iter().map(|r| r * r).sum();
    let grand = cells.iter().map(|c| c.value).sum::<f64>() / cells.len().max(1) as f64;
    let total: f64 = cells.iter().map(|c| (c.value - grand).powi(2)).sum();
    let used = |list: &[f64]| list.iter().filter(|v| !v.is_nan()).count() as f64;
    let above = used(&of_part) - 1.0;
    let below = cells.len() as f64 - used(&of_row) - above;
    let epsilon = box_epsilon(neighbour_correlation(cells, &left, parts), parts);
    let scatter = residual / below;
    let chance = if explained > 1e-18 * total {
        fisher_p_value(explained / above / scatter, epsilon * above, epsilon * below)
    } else {
        1.0
    };
    let share = if total > 0.0 { ((explained - above * scatter) / total).clamp(0.0, 1.0) } else { 0.0 };
    Rhythm { period, share, p_value: chance, profile: of_part }
}

fn group_means(
    cells: &[PeriodCell],
    count: usize,
    of: impl Fn(&PeriodCell) -> usize,
    value: impl Fn(&PeriodCell) -> f64,
) -> Vec<f64> {
    let mut sums = vec![(0.0, 0.0); count];
    for cell in cells {
        let value = value(cell);
        if !value.is_nan() {
            let sum = &mut sums[of(cell)];
            *sum = (sum.0 + value, sum.1 + 1.0);
        }
    }
    sums.into_iter().map(|(sum, count)| sum / count).collect()
}

/// Correlation of neighbouring parts within a period, corrected for the subtracted mean.
fn neighbour_correlation(cells: &[PeriodCell], left: &[f64], parts: usize) -> f64 {
    let (mut products, mut pairs) = (0.0, 0.0);
    for index in 1..cells.len() {
        let neighbours =
            cells[index].row == cells[index - 1].row && cells[index].part == (cells[index - 1].part + 1) % parts;
        if neighbours {
            products += left[index] * left[index - 1];
            pairs += 1.0;
        }
    }
    let squares = left.iter().map(|r| r * r).sum::<f64>() / left.len().max(1) as f64;
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
            let centred = cov(i, j) - row[i] - row[j] + all;
            squares += centred * centred;
            if i == j {
                trace += centred;
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

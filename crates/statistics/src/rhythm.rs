//! A rhythm: the hour of the day or the day of the week explains a share of
//! what a series does.
//!
//! Sources: analysis of variance with repeated measurements, a day (or week)
//! being one measurement of the whole profile; since neighbouring hours depend
//! on each other, the degrees of freedom are lowered as Box, "Some theorems on
//! quadratic forms … II", Annals of Mathematical Statistics 25 (1954), and
//! Greenhouse and Geisser, "On methods in the analysis of profile data",
//! Psychometrika 24 (1959), do; the dependence is estimated as in
//! [`crate::memory`]. The share is corrected for what chance explains (omega
//! squared, Hays, "Statistics", 1963).

use crate::distribution::fisher;
use crate::{Point, is_positive, line};

/// What comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Period {
    /// By the hour.
    Day,
    /// By the day of the week.
    Week,
}

impl Period {
    /// Both.
    pub const ALL: [Period; 2] = [Period::Day, Period::Week];

    /// Its length.
    pub fn seconds(self) -> f64 {
        match self {
            Period::Day => 86_400.0,
            Period::Week => 604_800.0,
        }
    }

    /// Into how many parts it can be cut; finest first.
    fn parts(self) -> &'static [usize] {
        match self {
            Period::Day => &[24, 12, 8, 6],
            Period::Week => &[7],
        }
    }
}

/// A rhythm.
#[derive(Clone, Debug, PartialEq)]
pub struct Rhythm {
    /// What comes back.
    pub period: Period,
    /// Share of the variance (about the trend) that it explains, 0 to 1.
    pub share: f64,
    /// Chance that noise alone explains as much.
    pub chance: f64,
    /// What each part of the period adds to the mean; `NaN` where nothing was seen of it.
    pub profile: Vec<f64>,
}

impl Rhythm {
    /// The part of the period in which a moment lies.
    fn part(&self, at_s: f64) -> usize {
        part(at_s, self.period, self.profile.len())
    }

    /// What the rhythm adds at a moment.
    pub fn at(&self, at_s: f64) -> f64 {
        let value = self.profile[self.part(at_s)];
        if value.is_nan() { 0.0 } else { value }
    }

    /// Start of the part of the period at which it is highest, seconds.
    pub fn peak_s(&self) -> f64 {
        let known = self.profile.iter().enumerate().filter(|(_, v)| !v.is_nan());
        let at = known.max_by(|a, b| a.1.total_cmp(b.1)).map_or(0, |(at, _)| at);
        at as f64 * self.period.seconds() / self.profile.len() as f64
    }
}

fn part(at_s: f64, period: Period, parts: usize) -> usize {
    let place = at_s.rem_euclid(period.seconds()) / period.seconds() * parts as f64;
    (place as usize).min(parts - 1)
}

/// A part of one day: its place, its value, and what is left of it.
struct Cell {
    row: usize,
    part: usize,
    value: f64,
}

/// The rhythm of a series, whose clock must start at a midnight (for a week:
/// of a Monday). `spacing_s` is how far its points lie apart. `None` where it
/// covers fewer than two periods or its points lie too far apart.
pub fn find(points: &[Point], period: Period, spacing_s: f64) -> Option<Rhythm> {
    let (first, last) = (points.first()?.at_s, points.last()?.at_s);
    if last - first + spacing_s < 2.0 * period.seconds() {
        return None;
    }
    let fits = |parts: &&usize| period.seconds() / **parts as f64 >= spacing_s * 0.999;
    let parts = *period.parts().iter().find(fits)?;
    let cells = cells(points, first, period, parts);
    let seen = |part: usize| cells.iter().filter(|c| c.part == part).count();
    if (0..parts).filter(|&part| seen(part) >= 2).count() < parts * 3 / 4 {
        return None;
    }
    Some(explain(&cells, period, parts))
}

/// Means of the parts of each period, less the straight line through all points.
fn cells(points: &[Point], first: f64, period: Period, parts: usize) -> Vec<Cell> {
    let line = line::Line::fit(points);
    let mut sums: Vec<(usize, usize, f64, f64)> = Vec::new();
    for p in points {
        let row = ((p.at_s - first) / period.seconds()) as usize;
        let part = part(p.at_s, period, parts);
        let value = p.value - line.as_ref().map_or(0.0, |l| l.at(p.at_s));
        match sums.iter_mut().rev().take(2).find(|s| (s.0, s.1) == (row, part)) {
            Some(sum) => {
                sum.2 += value * p.weight;
                sum.3 += p.weight;
            }
            None => sums.push((row, part, value * p.weight, p.weight)),
        }
    }
    sums.into_iter().map(|(row, part, value, weight)| Cell { row, part, value: value / weight }).collect()
}

/// Fits a level to each period and each part, and weighs the parts' levels
/// against what is left.
fn explain(cells: &[Cell], period: Period, parts: usize) -> Rhythm {
    let rows = cells.iter().map(|c| c.row + 1).max().unwrap_or(0);
    let (mut of_row, mut of_part) = (vec![0.0; rows], vec![0.0; parts]);
    // gaps leave the table unbalanced: the levels are settled by turns
    for _ in 0..30 {
        of_row = means(cells, rows, |c| c.row, |c| c.value - of_part[c.part]);
        of_part = means(cells, parts, |c| c.part, |c| c.value - of_row[c.row]);
        let known: Vec<f64> = of_part.iter().copied().filter(|v| !v.is_nan()).collect();
        let middle = known.iter().sum::<f64>() / known.len().max(1) as f64;
        of_part.iter_mut().for_each(|v| *v -= middle);
    }
    let left: Vec<f64> = cells.iter().map(|c| c.value - of_row[c.row] - of_part[c.part]).collect();
    let explained: f64 = cells.iter().map(|c| of_part[c.part].powi(2)).sum();
    let residual: f64 = left.iter().map(|r| r * r).sum();
    let grand = cells.iter().map(|c| c.value).sum::<f64>() / cells.len().max(1) as f64;
    let total: f64 = cells.iter().map(|c| (c.value - grand).powi(2)).sum();
    let used = |list: &[f64]| list.iter().filter(|v| !v.is_nan()).count() as f64;
    let above = used(&of_part) - 1.0;
    let below = cells.len() as f64 - used(&of_row) - above;
    let epsilon = sphericity(within(cells, &left, parts), parts);
    let scatter = residual / below;
    let chance = if explained > 1e-18 * total {
        fisher(explained / above / scatter, epsilon * above, epsilon * below)
    } else {
        1.0
    };
    let share = if total > 0.0 { ((explained - above * scatter) / total).clamp(0.0, 1.0) } else { 0.0 };
    Rhythm { period, share, chance, profile: of_part }
}

fn means(cells: &[Cell], count: usize, of: impl Fn(&Cell) -> usize, value: impl Fn(&Cell) -> f64) -> Vec<f64> {
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

/// Correlation of neighbouring parts within a period, corrected for the mean
/// that was taken from each.
fn within(cells: &[Cell], left: &[f64], parts: usize) -> f64 {
    let (mut products, mut pairs) = (0.0, 0.0);
    for at in 1..cells.len() {
        let neighbours = cells[at].row == cells[at - 1].row && cells[at].part == (cells[at - 1].part + 1) % parts;
        if neighbours {
            products += left[at] * left[at - 1];
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

/// Box's epsilon for parts that depend on each other as in a first-order
/// autoregression: 1 where they do not, less where they do.
fn sphericity(r: f64, parts: usize) -> f64 {
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

    fn hours(values: impl IntoIterator<Item = f64>) -> Vec<Point> {
        let values = values.into_iter().enumerate();
        values.map(|(i, value)| Point { at_s: (i as f64 + 0.5) * HOUR, value, weight: 1.0 }).collect()
    }

    #[test]
    fn worked_example() {
        // two days of two parts: 1 3 / 2 6. Row means 2 4, part effects -1.5 +1.5, residuals
        // ±0.5: explained 4 x 2.25 = 9, residual 4 x 0.25 = 1, F(1,1) = 9, chance by 2/pi atan(1/3) = 0.2048
        let cell = |row, part, value| Cell { row, part, value };
        let cells = [cell(0, 0, 1.0), cell(0, 1, 3.0), cell(1, 0, 2.0), cell(1, 1, 6.0)];
        let rhythm = explain(&cells, Period::Day, 2);
        assert!((rhythm.profile[1] - 1.5).abs() < 1e-12 && (rhythm.profile[0] + 1.5).abs() < 1e-12);
        let exact = 2.0 / std::f64::consts::PI * (1f64 / 3.0).atan();
        assert!((rhythm.chance - exact).abs() < 1e-9, "{rhythm:?}");
        // total 14 about the mean 3; omega squared (9 - 1) / 14
        assert!((rhythm.share - 8.0 / 14.0).abs() < 1e-12);
        assert_eq!(rhythm.peak_s(), 43_200.0);
    }

    #[test]
    fn independence_is_spherical_and_memory_is_not() {
        assert!((sphericity(0.0, 24) - 1.0).abs() < 1e-12);
        let some = sphericity(0.5, 24);
        assert!(some > 0.5 && some < 0.75, "{some}");
        assert!(sphericity(0.9, 24) < 0.25);
    }

    #[test]
    fn a_day_comes_back_with_gaps_and_a_trend() {
        let mut noise = Noise::new(4);
        let day = |i: usize| if (9..17).contains(&(i % 24)) { 4.0 } else { 0.0 };
        let series = noise.remembering(0.6, 24 * 6).into_iter().enumerate();
        let list = hours(series.map(|(i, v)| v + day(i) + 0.05 * i as f64));
        let kept: Vec<Point> =
            list.iter().enumerate().filter(|(i, _)| !(50..59).contains(i)).map(|(_, p)| *p).collect();
        let rhythm = find(&kept, Period::Day, HOUR).unwrap();
        assert!(rhythm.chance < 1e-6 && rhythm.share > 0.6, "{rhythm:?}");
        assert!((9.0..17.0).contains(&(rhythm.peak_s() / HOUR)), "{rhythm:?}");
        assert_eq!(find(&list[..47], Period::Day, HOUR), None, "fewer than two days");
        assert_eq!(find(&list, Period::Week, HOUR), None);
    }

    #[test]
    fn a_week_comes_back() {
        let mut noise = Noise::new(8);
        let weekend = |i: usize| if i / 24 % 7 >= 5 { -3.0 } else { 0.0 };
        let list = hours(noise.remembering(0.6, 24 * 28).into_iter().enumerate().map(|(i, v)| v + weekend(i)));
        let rhythm = find(&list, Period::Week, HOUR).unwrap();
        assert!(rhythm.chance < 1e-3 && rhythm.share > 0.5, "{rhythm:?}");
        assert!(rhythm.peak_s() < 5.0 * 86_400.0);
    }

    #[test]
    fn a_trend_alone_and_noise_alone_are_no_rhythm() {
        let line = hours((0..240).map(f64::from));
        assert_eq!(find(&line, Period::Day, HOUR).unwrap().chance, 1.0);
        for (r, days) in [(0.0, 2), (0.0, 7), (0.6, 3), (0.9, 3), (0.9, 7)] {
            let mut noise = Noise::new(31);
            let runs = 500;
            let told = |noise: &mut Noise| {
                find(&hours(noise.remembering(r, 24 * days)), Period::Day, HOUR).unwrap().chance < 0.05
            };
            let false_ones = (0..runs).filter(|_| told(&mut noise)).count() as f64 / f64::from(runs);
            assert!(false_ones <= 0.05 + 3.0 * (0.0475 / f64::from(runs)).sqrt(), "{r} {days}: {false_ones}");
        }
    }
}

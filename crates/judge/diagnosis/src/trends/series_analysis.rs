//! Analysis of one series: its rhythms, then a line or a step in what the rhythms leave.

use diskwright_statistics::day_line::fit_line_beside_day;
use diskwright_statistics::{LineFit, Rhythm, StepFit, WeightedPoint, blocks, rhythm, step};

use crate::sums::BucketPoint;

/// Smallest number of points of a series that is analyzed: with fewer, autocorrelated noise cannot be distinguished
/// from a trend.
pub(crate) const MIN_POINTS: usize = 48;
/// The first Monday of 1970 at midnight, nanoseconds since 1970.
const MONDAY_NS: i64 = 4 * 86_400_000_000_000;
const WEEK_NS: i64 = 604_800_000_000_000;
/// A rhythm with a p-value below this is subtracted before lines and steps are fitted.
const MAX_RHYTHM_P_VALUE: f64 = 0.01;
/// P-value of a line or step below which it is clear, and no daily rhythm can hide it.
const MAX_CLEAR_P_VALUE: f64 = 0.001;

/// Line, step and rhythms of a series over the window.
#[derive(Clone, Debug)]
pub(crate) struct SeriesAnalysis {
    /// The points, seconds since `origin_ns`.
    pub points: Vec<WeightedPoint>,
    pub origin_ns: i64,
    pub mean: f64,
    /// `None` for a series that never changes.
    pub line: Option<LineFit>,
    pub step: Option<StepFit>,
    pub rhythms: Vec<Rhythm>,
}

/// Model that describes a series best.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SeriesModel {
    Line,
    Step,
}

impl SeriesAnalysis {
    /// Analyzes a series; `None` where there are too few points.
    pub fn analyze_series(filled: &[BucketPoint]) -> Option<SeriesAnalysis> {
        if filled.len() < MIN_POINTS {
            return None;
        }
        // the clock of the points starts on a Monday at midnight, as rhythms require
        let first = filled[0].time_ns;
        let origin_ns = first - (first - MONDAY_NS).rem_euclid(WEEK_NS);
        let seconds = |time_ns: i64| (time_ns as f64 - origin_ns as f64) / 1e9;
        let mut points: Vec<WeightedPoint> = filled
            .iter()
            .map(|f| WeightedPoint { time_s: seconds(f.time_ns), value: f.value, weight: f.weight })
            .filter(|p| p.value.is_finite() && p.weight.is_finite())
            .collect();
        if points.len() < MIN_POINTS {
            return None;
        }
        let mean = blocks::weighted_mean(&points);
        if blocks::is_constant(&points) {
            return Some(SeriesAnalysis { points, origin_ns, mean, line: None, step: None, rhythms: Vec::new() });
        }
        let spacing = median_spacing_s(&points);
        let rhythms = rhythm::find_rhythms(&points, spacing);
        let original = points.clone();
        for rhythm in rhythms.iter().filter(|r| r.p_value < MAX_RHYTHM_P_VALUE) {
            points.iter_mut().for_each(|p| p.value -= rhythm.value_at(p.time_s));
        }
        let blocks = blocks::block_means(&points);
        let (mut line, mut step) = (LineFit::fit(&blocks), step::find_step(&points, &blocks));
        let least_p_value = line.map_or(1.0, |l| l.p_value).min(step.map_or(1.0, |s| s.p_value));
        // a rhythm of too few days to be known hides a slope, unless each time is compared with that of the day before
        if least_p_value > MAX_CLEAR_P_VALUE
            && let Some(mut beside_day) = fit_line_beside_day(&points, spacing)
        {
            // the second test of one question
            beside_day.p_value = (2.0 * beside_day.p_value).min(1.0);
            if beside_day.p_value < least_p_value {
                (line, step) = (Some(beside_day), None);
            }
        }
        Some(SeriesAnalysis { points: original, origin_ns, mean, line, step, rhythms })
    }

    /// The model that leaves less unexplained. A step has a third parameter, its time, so it must be better by the
    /// Bayesian information criterion (Schwarz, Annals of Statistics 6, 1978).
    pub fn best_model(&self) -> SeriesModel {
        let (Some(line), Some(step)) = (&self.line, &self.step) else { return SeriesModel::Line };
        let count = blocks::BLOCK_COUNT as f64;
        if step.residual * (count.ln() / count).exp() < line.residual { SeriesModel::Step } else { SeriesModel::Line }
    }

    /// Converts a time on the points' clock to nanoseconds since 1970; `None` where it is out of range.
    pub fn time_ns(&self, time_s: f64) -> Option<i64> {
        let ns = self.origin_ns as f64 + time_s * 1e9;
        // the year 2200
        (ns.is_finite() && ns.abs() < 7.26e18).then_some(ns as i64)
    }

    /// Time of the last point on the points' clock.
    pub fn end_s(&self) -> f64 {
        self.points.last().map_or(0.0, |p| p.time_s)
    }

    /// Time from the first to the last point, seconds.
    pub fn span_s(&self) -> f64 {
        self.end_s() - self.points.first().map_or(0.0, |p| p.time_s)
    }
}

/// Median time between neighboring points, seconds.
fn median_spacing_s(points: &[WeightedPoint]) -> f64 {
    let mut spacings: Vec<f64> = points.windows(2).map(|w| w[1].time_s - w[0].time_s).collect();
    spacings.sort_unstable_by(f64::total_cmp);
    spacings.get(spacings.len() / 2).copied().unwrap_or(0.0)
}

//! Trends of the judged quantities: a slope with its interval, the time at which it would cross the rule's limit, a
//! step, rhythms. Two guards against noise: intervals take the autocorrelation of samples into account
//! ([`diskwright_statistics`]), and significance is adjusted for the number of tests made on the whole log.
//!
//! Uses `rules`, `sums`, `culprits` and `run`.

mod growing;
mod series_analysis;
mod subjects;
mod trend;

use diskwright_statistics::{ERROR_RATE, Period, Rhythm, multiple_tests};

use crate::run::Observation;
pub use crate::sums::MIN_WINDOW_S;
use crate::sums::is_long_enough;
use diskwright_base::timestamp::format_rfc3339;
pub(crate) use growing::{KERNEL_KIND, name_growing_programs, runs_out_of_memory};
use series_analysis::{SeriesAnalysis, SeriesModel};
use subjects::{TrendCondition, TrendSubject, trend_subjects};
pub use trend::{Trend, TrendRhythm, TrendShape, TrendStep};

/// Number of points of a shown series.
const SERIES_POINTS: usize = 60;
const DAY_S: f64 = 86_400.0;
/// A crossing further in the future than this many windows is not reported as important.
const MAX_HORIZON_WINDOWS: f64 = 10.0;
/// Smallest change that is worth showing, as a share of the quantity's level. Our choice, as the two that follow.
const MIN_CHANGE_OF_LEVEL: f64 = 0.2;
/// The same as a share of the limit or of the distance from it.
const MIN_CHANGE_OF_SCALE: f64 = 0.1;
/// Smallest share of the variance that a rhythm worth showing explains.
const MIN_RHYTHM_SHARE: f64 = 0.3;

/// All trends of a pack, and what was tested together with them.
#[derive(Default)]
pub(crate) struct TrendsFound {
    /// Important ones first.
    pub list: Vec<Trend>,
    /// Number of tests for which the p-values are adjusted.
    pub test_count: usize,
    /// The further p-values, adjusted.
    pub further: Vec<f64>,
}

/// Finds all trends of a pack. There are none for windows under an hour. `further` are p-values of the same log that
/// share the chance of error.
pub(crate) fn find_trends(observed: &Observation, pack: usize, further: &[f64]) -> TrendsFound {
    if !is_long_enough((observed.window.from_ns, observed.window.to_ns)) {
        return TrendsFound { further: multiple_tests::adjust_by_holm(further), ..TrendsFound::default() };
    }
    let subjects = trend_subjects(observed, pack);
    let found: Vec<(&TrendSubject<'_>, SeriesAnalysis)> =
        subjects.iter().filter_map(|s| Some((s, SeriesAnalysis::analyze_series(&s.filled)?))).collect();
    let mut p_values = Vec::new();
    // for each series, the position of its first p-value
    let mut starts = Vec::new();
    for (_, analysis) in &found {
        starts.push(p_values.len());
        let line = analysis.line.as_ref().map_or(f64::NAN, |l| l.p_value);
        let step = analysis.step.as_ref().map_or(f64::NAN, |s| s.p_value);
        p_values.extend([line, step]);
        p_values.extend(analysis.rhythms.iter().map(|r| r.p_value));
    }
    let own_count = p_values.len();
    p_values.extend(further);
    let test_count = p_values.iter().filter(|p_value| !p_value.is_nan()).count();
    let adjusted = multiple_tests::adjust_by_holm(&p_values);
    let mut list: Vec<Trend> = found
        .iter()
        .zip(&starts)
        .map(|((subject, analysis), &start)| {
            build_trend(subject, analysis, &adjusted[start..], (observed.window.from_ns, observed.window.to_ns))
        })
        .collect();
    list.sort_by_cached_key(subjects::sort_key);
    TrendsFound { list, test_count, further: adjusted[own_count..].to_vec() }
}

/// Builds one trend; `adjusted` begins with the adjusted p-values of its line, its step and its rhythms.
fn build_trend(subject: &TrendSubject<'_>, analysis: &SeriesAnalysis, adjusted: &[f64], window: (i64, i64)) -> Trend {
    let p_value = |index: usize| if adjusted[index].is_nan() { 1.0 } else { adjusted[index] };
    let (line_p_value, step_p_value) = (p_value(0), p_value(1));
    let shape = match analysis.best_model() {
        _ if line_p_value.min(step_p_value) >= ERROR_RATE => TrendShape::Flat,
        SeriesModel::Line => TrendShape::Line,
        SeriesModel::Step => TrendShape::Step,
    };
    let end_s = analysis.end_s();
    let line = analysis.line.as_ref();
    let now = match (shape, line, &analysis.step) {
        (TrendShape::Line, Some(line), _) => line.value_at(end_s),
        (TrendShape::Step, _, Some(step)) => step.after,
        _ => analysis.mean,
    };
    let slope = line.map_or(0.0, |l| l.slope);
    let judged = subject.next_condition(now, slope);
    let finite_per_day = |v: f64| Some(v * DAY_S).filter(|v| v.is_finite());
    let interval = line.map_or((0.0, 0.0), |l| l.slope_interval);
    let rhythms = significant_rhythms(analysis, adjusted);
    let mut trend = Trend {
        counter: judged.condition.quantity.counter.id.clone(),
        quantity: judged.condition.quantity.formula_text(),
        instance: subject.instance.clone(),
        unit: judged.condition.unit(),
        rule: judged.rule.id.clone(),
        title: judged.rule.title.clone(),
        bottleneck: judged.rule.bottleneck,
        compare: judged.condition.compare.name(),
        limit: judged.limit,
        shape,
        now,
        slope_per_day: slope * DAY_S,
        slope_low: finite_per_day(interval.0),
        slope_high: finite_per_day(interval.1),
        slope_significance: line_p_value,
        crosses: None,
        crosses_earliest: None,
        crosses_latest: None,
        step: significant_step(analysis, shape, step_p_value),
        rhythm: rhythms.first().cloned(),
        rhythms,
        matters: false,
        growing: None,
        series: Vec::new(),
    };
    set_crossings(&mut trend, judged, analysis);
    trend.matters = is_worth_showing(&trend, judged, analysis);
    if shape != TrendShape::Flat || trend.rhythm.is_some() {
        trend.series = series_parts(analysis, window);
    }
    trend
}

/// The step, where it describes the series best.
fn significant_step(analysis: &SeriesAnalysis, shape: TrendShape, p_value: f64) -> Option<TrendStep> {
    let step = analysis.step.as_ref().filter(|_| shape == TrendShape::Step)?;
    let time = format_rfc3339(analysis.time_ns(step.time_s)?);
    Some(TrendStep { time, before: step.before, after: step.after, significance: p_value })
}

/// The significant rhythms, those that explain most first; `adjusted` begins as in [`build_trend`].
fn significant_rhythms(analysis: &SeriesAnalysis, adjusted: &[f64]) -> Vec<TrendRhythm> {
    let significant = analysis.rhythms.iter().zip(&adjusted[2..]).filter(|(_, p_value)| **p_value < ERROR_RATE);
    let mut list: Vec<TrendRhythm> =
        significant.filter_map(|(r, p_value)| describe_rhythm(analysis, r, *p_value)).collect();
    list.sort_by(|a, b| b.share.total_cmp(&a.share));
    list
}

fn describe_rhythm(analysis: &SeriesAnalysis, rhythm: &Rhythm, p_value: f64) -> Option<TrendRhythm> {
    const DAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
    let (peak_s, period_s) = (rhythm.peak_s(), rhythm.period.seconds());
    let (period, peak) = match rhythm.period {
        Period::Day => ("day", format!("{:02}:00", (peak_s / 3600.0) as u32)),
        Period::Week => ("week", DAYS[((peak_s / DAY_S) as usize).min(6)].to_owned()),
        Period::Other(_) => {
            let start_s = analysis.end_s() - analysis.span_s();
            let first_s = start_s + (peak_s - start_s).rem_euclid(period_s);
            ("other", format_rfc3339(analysis.time_ns(first_s)?))
        }
    };
    let known = || rhythm.profile.iter().copied().filter(|v| !v.is_nan());
    let swing = known().fold(f64::NEG_INFINITY, f64::max) - known().fold(f64::INFINITY, f64::min);
    let times = analysis.span_s() / period_s;
    Some(TrendRhythm { period, period_s, times, share: rhythm.share, peak, swing, significance: p_value })
}

/// Sets when the limit is crossed. After a step there is no line to extrapolate, and a value that is already beyond the
/// limit crosses nothing.
fn set_crossings(trend: &mut Trend, judged: &TrendCondition<'_>, analysis: &SeriesAnalysis) {
    let Some(line) = analysis.line.as_ref().filter(|_| trend.shape != TrendShape::Step) else { return };
    let end_s = analysis.end_s();
    if judged.holds(trend.now) || judged.holds(line.value_at(end_s)) {
        return;
    }
    let crossing = line.limit_crossing(judged.limit, end_s);
    let moment = |at_s: Option<f64>| at_s.and_then(|second| analysis.time_ns(second)).map(format_rfc3339);
    trend.crosses_earliest = moment(crossing.earliest_s);
    if trend.shape == TrendShape::Line {
        trend.crosses = moment(crossing.time_s);
        trend.crosses_latest = moment(crossing.latest_s).filter(|_| trend.crosses.is_some());
    }
}

/// True where the trend is worth a line on the screen: it will cross the rule's limit soon, or its change is large
/// relative to its mean and to the limit.
fn is_worth_showing(trend: &Trend, judged: &TrendCondition<'_>, analysis: &SeriesAnalysis) -> bool {
    if !judged.is_leading {
        return false;
    }
    // a change is large relative to the limit or to the distance from it
    let scale = judged.limit.abs().max((judged.limit - analysis.mean).abs());
    let is_large = |change: f64, level: f64| {
        change.abs() >= MIN_CHANGE_OF_LEVEL * level.abs() && change.abs() >= MIN_CHANGE_OF_SCALE * scale
    };
    match trend.shape {
        TrendShape::Line => {
            let horizon_s = analysis.end_s() + MAX_HORIZON_WINDOWS * analysis.span_s();
            let crossing = analysis.line.as_ref().map(|l| l.limit_crossing(judged.limit, analysis.end_s()));
            let crosses_soon = crossing.and_then(|c| c.time_s).is_some_and(|second| second <= horizon_s);
            let change = trend.slope_per_day / DAY_S * analysis.span_s();
            (trend.crosses.is_some() && crosses_soon) || is_large(change, analysis.mean)
        }
        TrendShape::Step => {
            trend.step.as_ref().is_some_and(|s| is_large(s.after - s.before, s.before.abs().max(s.after.abs())))
        }
        TrendShape::Flat => {
            trend.rhythm.as_ref().is_some_and(|r| r.share >= MIN_RHYTHM_SHARE && is_large(r.swing, analysis.mean))
        }
    }
}

/// Means of the quantity over equal parts of the window.
fn series_parts(analysis: &SeriesAnalysis, (from_ns, to_ns): (i64, i64)) -> Vec<Option<f64>> {
    let mut parts = vec![(0.0, 0.0); SERIES_POINTS];
    let span = to_ns as f64 - from_ns as f64;
    for p in &analysis.points {
        let Some(time_ns) = analysis.time_ns(p.time_s) else { continue };
        let index = ((time_ns as f64 - from_ns as f64) / span * SERIES_POINTS as f64).max(0.0) as usize;
        let part = &mut parts[index.min(SERIES_POINTS - 1)];
        *part = (part.0 + p.value * p.weight, part.1 + p.weight);
    }
    parts.into_iter().map(|(product, weight)| (weight > 0.0).then(|| product / weight)).collect()
}

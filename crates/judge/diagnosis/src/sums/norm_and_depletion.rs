//! History of a quantity beyond the window, for alerts: its usual value (norm) and the time until it is used up.

use std::collections::{BTreeMap, VecDeque};

use crate::sums::node::NodeColumn;

const HOUR_NS: i64 = 3_600_000_000_000;
const MINUTE_NS: i64 = 60_000_000_000;
/// Hours of history that make up a norm.
const NORM_HOURS: usize = 24;
/// Smallest number of ticks for a norm.
const MIN_TICKS: u64 = 300;
/// Shortest history for a norm.
const MIN_SPAN_NS: i64 = HOUR_NS / 2;
/// Histogram bins for each doubling of the value: the median is exact to 9 %.
const BINS_PER_DOUBLING: f64 = 4.0;

/// The median of a quantity over the last day, from a histogram for each hour.
#[derive(Clone, Debug, Default)]
pub(crate) struct OwnNorm {
    /// Number of the hour since 1970, and the histogram: how many values fell into each bin.
    hours: VecDeque<(i64, BTreeMap<i16, u32>)>,
    /// Number of values so far.
    ticks: u64,
    /// Time of the first value.
    first_ns: i64,
    /// `None` until there is enough history.
    median: Option<f64>,
    /// Number of the minute, since 1970, for which the median was computed.
    minute: i64,
}

impl OwnNorm {
    /// Fills `out` with the quantity relative to its median before this minute; gaps until there is enough history.
    pub fn relate_to_median(&mut self, slot: &NodeColumn, ends: &[i64], out: &mut NodeColumn) {
        let count = slot.values.len();
        out.values.resize(count, 0.0);
        out.weights.resize(count, 0.0);
        for (index, &time_ns) in ends.iter().enumerate().take(count) {
            let value = slot.values[index];
            self.update_median(time_ns);
            let median = self.median.filter(|_| slot.weights[index] > 0.0 && value > 0.0);
            out.values[index] = median.map_or(f64::NAN, |median| value / median);
            out.weights[index] = if self.median.is_some() { slot.weights[index] } else { f64::NAN };
            if slot.weights[index] > 0.0 && value > 0.0 {
                self.add_value(value, time_ns);
            }
        }
        out.gap = out.weights.iter().any(|weight| weight.is_nan());
    }

    /// Recomputes the median once a minute and drops hours older than a day.
    fn update_median(&mut self, time_ns: i64) {
        let minute = time_ns.div_euclid(MINUTE_NS);
        if minute == self.minute {
            return;
        }
        self.minute = minute;
        let hour = time_ns.div_euclid(HOUR_NS);
        while self.hours.front().is_some_and(|(old, _)| hour - old >= NORM_HOURS as i64) {
            self.hours.pop_front();
        }
        let count: u64 = self.hours.iter().flat_map(|(_, bins)| bins.values()).map(|n| u64::from(*n)).sum();
        let is_enough = count >= MIN_TICKS && time_ns - self.first_ns >= MIN_SPAN_NS;
        self.median = is_enough.then(|| self.compute_median(count)).flatten();
    }

    fn compute_median(&self, total: u64) -> Option<f64> {
        let mut bins: BTreeMap<i16, u64> = BTreeMap::new();
        for (bin, count) in self.hours.iter().flat_map(|(_, bins)| bins) {
            *bins.entry(*bin).or_default() += u64::from(*count);
        }
        let mut below = 0;
        let middle_bin = bins.into_iter().find_map(|(bin, count)| {
            below += count;
            (below * 2 >= total).then_some(bin)
        })?;
        Some(((f64::from(middle_bin) + 0.5) / BINS_PER_DOUBLING).exp2())
    }

    fn add_value(&mut self, value: f64, time_ns: i64) {
        if self.ticks == 0 {
            self.first_ns = time_ns;
        }
        self.ticks += 1;
        let hour = time_ns.div_euclid(HOUR_NS);
        if self.hours.back().is_none_or(|(last, _)| *last < hour) {
            self.hours.push_back((hour, BTreeMap::new()));
        }
        let bin = (value.log2() * BINS_PER_DOUBLING).floor().clamp(f64::from(i16::MIN), f64::from(i16::MAX)) as i16;
        if let Some((_, bins)) = self.hours.back_mut() {
            *bins.entry(bin).or_default() += 1;
        }
    }
}

/// Largest number of points of a trend; there is one for each minute.
const MAX_POINTS: usize = 120;
/// Smallest number of points for a trend.
const MIN_POINTS: usize = 5;
/// A trend looks ahead by at most this many times its own length: half an hour of points reaches a day.
const MAX_LOOKAHEAD_FACTOR: f64 = 48.0;
/// Smallest share of the variance that the line must explain.
const MIN_FIT: f64 = 0.9;

/// The line through the last two hours of a quantity, with a point for each minute.
#[derive(Clone, Debug, Default)]
pub(crate) struct DepletionTrend {
    /// Time, nanoseconds since 1970, and value.
    points: VecDeque<(i64, f64)>,
    /// Seconds until it is used up; infinite where it does not fall along a line.
    remaining_s: f64,
}

impl DepletionTrend {
    /// Fills `out` with the seconds until the quantity is used up; gaps until there are enough points.
    pub fn fill_remaining_time(&mut self, slot: &NodeColumn, ends: &[i64], out: &mut NodeColumn) {
        let count = slot.values.len();
        out.values.resize(count, 0.0);
        out.weights.resize(count, 0.0);
        for (index, &time_ns) in ends.iter().enumerate().take(count) {
            let (value, weight) = (slot.values[index], slot.weights[index]);
            let minute = time_ns.div_euclid(MINUTE_NS);
            let is_new = self.points.back().is_none_or(|(last, _)| last.div_euclid(MINUTE_NS) != minute);
            if weight > 0.0 && is_new {
                // the clock was set back: points that lie in the future would bend the line
                if self.points.back().is_some_and(|(last, _)| *last > time_ns) {
                    self.points.clear();
                }
                self.points.push_back((time_ns, value));
                if self.points.len() > MAX_POINTS {
                    self.points.pop_front();
                }
                self.remaining_s = self.fit_remaining_s();
            }
            let is_enough = self.points.len() >= MIN_POINTS;
            out.values[index] = self.remaining_s;
            out.weights[index] = if is_enough { weight } else { f64::NAN };
        }
        out.gap = out.weights.iter().any(|weight| weight.is_nan());
    }

    /// Fits a line by least squares (Legendre 1805) and returns the seconds until it reaches zero; the fit is the
    /// square of the correlation.
    fn fit_remaining_s(&self) -> f64 {
        let (Some(first), Some(last)) = (self.points.front(), self.points.back()) else { return f64::INFINITY };
        let count = self.points.len() as f64;
        let seconds = |time_ns: i64| (time_ns - first.0) as f64 * 1e-9;
        let mean_t = self.points.iter().map(|(time, _)| seconds(*time)).sum::<f64>() / count;
        let mean_v = self.points.iter().map(|(_, value)| value).sum::<f64>() / count;
        let (mut tt, mut tv, mut vv) = (0.0, 0.0, 0.0);
        for (time, value) in &self.points {
            let (t, v) = (seconds(*time) - mean_t, value - mean_v);
            tt += t * t;
            tv += t * v;
            vv += v * v;
        }
        if tt <= 0.0 || vv <= 0.0 || tv >= 0.0 || tv * tv / (tt * vv) < MIN_FIT {
            return f64::INFINITY;
        }
        let remaining_s = last.1 / -(tv / tt);
        if remaining_s > MAX_LOOKAHEAD_FACTOR * seconds(last.0) { f64::INFINITY } else { remaining_s }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(values: &[f64]) -> NodeColumn {
        let weights = values.iter().map(|v| if v.is_nan() { 0.0 } else { 1.0 }).collect();
        let mut column = NodeColumn::default();
        (column.values, column.weights) = (values.to_vec(), weights);
        column
    }

    /// Feeds one value each `step_s` seconds and returns the last value and weight that come out.
    fn feed(relate: &mut dyn FnMut(&NodeColumn, &[i64], &mut NodeColumn), values: &[f64], step_s: i64) -> (f64, f64) {
        let ends: Vec<i64> = (0..values.len()).map(|i| (i as i64 + 1) * step_s * 1_000_000_000).collect();
        let mut out = NodeColumn::default();
        relate(&column(values), &ends, &mut out);
        (*out.values.last().unwrap(), *out.weights.last().unwrap())
    }

    #[test]
    fn a_norm_takes_half_an_hour_and_is_the_median() {
        let mut norm = OwnNorm::default();
        // 29 minutes of 2 ms are no norm
        let short = feed(&mut |s, e, o| norm.relate_to_median(s, e, o), &[0.002; 348], 5);
        assert!(short.1.is_nan());
        let mut norm = OwnNorm::default();
        let mut values = vec![0.002; 3600];
        // a third of the ticks ten times slower does not move the median
        values.iter_mut().step_by(3).for_each(|v| *v = 0.02);
        values.push(0.02);
        let (ratio, weight) = feed(&mut |s, e, o| norm.relate_to_median(s, e, o), &values, 1);
        assert!((9.0..11.0).contains(&ratio) && weight == 1.0, "{ratio} {weight}");
    }

    #[test]
    fn a_norm_forgets_what_is_older_than_a_day() {
        let mut norm = OwnNorm::default();
        let mut values = vec![0.001; 24 * 60];
        values.extend(vec![0.004; 26 * 60]);
        let (ratio, _) = feed(&mut |s, e, o| norm.relate_to_median(s, e, o), &values, 60);
        assert!((0.9..1.1).contains(&ratio), "{ratio}");
    }

    #[test]
    fn a_filesystem_that_loses_a_gigabyte_a_minute_is_full_in_time() {
        let mut trend = DepletionTrend::default();
        // 100 GB, one less each minute: after 40 minutes 60 are left, for an hour
        let values: Vec<f64> = (0..=40).map(|minute| 1e11 - f64::from(minute) * 1e9).collect();
        let (left, weight) = feed(&mut |s, e, o| trend.fill_remaining_time(s, e, o), &values, 60);
        assert!((left - 3600.0).abs() < 1.0 && weight == 1.0, "{left}");
    }

    #[test]
    fn what_does_not_fall_in_a_line_or_falls_too_slowly_is_not_used_up() {
        let last = |values: &[f64]| {
            let mut trend = DepletionTrend::default();
            feed(&mut |s, e, o| trend.fill_remaining_time(s, e, o), values, 60).0
        };
        assert!(last(&[1e11; 60]).is_infinite());
        // a file of 10 GB is written and deleted again and again
        let saw: Vec<f64> = (0..60).map(|minute| 1e11 - f64::from(minute % 10) * 1e9).collect();
        assert!(last(&saw).is_infinite());
        // 1 GB per hour of 100 GB: full in four days, too far to extrapolate from an hour
        let slow: Vec<f64> = (0..60).map(|minute| 1e11 - f64::from(minute) * 1.7e7).collect();
        assert!(last(&slow).is_infinite());
    }
}

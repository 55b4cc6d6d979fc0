//! Data of a chart, independent of whether it is drawn in a terminal or on a page.

use diskwright_base::{Catalogue, Note};

use crate::axis;
use crate::downsample::{ChartBucket, bucket_unit};

/// One counter over a window, for one or more instances.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// Title: the quantity in words.
    pub title: String,
    /// Unit of the values, as in the catalogue.
    pub unit: String,
    /// Canonical counter id.
    pub counter: String,
    /// Start of the window, nanoseconds since 1970 UTC.
    pub from_ns: i64,
    /// End of the window, nanoseconds since 1970 UTC.
    pub to_ns: i64,
    /// The instances, each with the same number of buckets.
    pub lines: Vec<ChartLine>,
    /// Limit to compare the values with, in the same unit.
    pub limit: Option<f64>,
    /// Key of the finding that the chart belongs to: rule and instance.
    pub finding: Option<String>,
    /// Intervals to highlight (in which a finding held), nanoseconds since 1970 UTC.
    pub shaded_intervals: Vec<(i64, i64)>,
}

/// One instance's values.
#[derive(Clone, Debug, PartialEq)]
pub struct ChartLine {
    /// Name of the instance; empty if there is only one.
    pub instance: String,
    /// Values over the window, evenly spaced.
    pub buckets: Vec<ChartBucket>,
}

impl Chart {
    /// Makes a chart of a counter; title and unit follow from its id.
    pub fn new(counter: &str, from_ns: i64, to_ns: i64, lines: Vec<ChartLine>) -> Chart {
        let instances: Vec<&str> = lines.iter().map(|l| l.instance.as_str()).collect();
        Chart {
            title: axis::counter_title(counter, &instances),
            unit: bucket_unit(Catalogue::builtin(), counter),
            counter: counter.into(),
            from_ns,
            to_ns: to_ns.max(from_ns + 1),
            lines,
            limit: None,
            finding: None,
            shaded_intervals: Vec::new(),
        }
    }

    /// Returns the smallest and largest of the buckets' means and the drawn limit;
    /// `None` if nothing was measured.
    pub fn mean_span(&self) -> Option<(f64, f64)> {
        value_span(self.measured_buckets().map(|b| (b.mean, b.mean)), self.drawn_limit())
    }

    /// Returns the smallest and largest tick value or drawn limit; `None` if nothing was measured.
    pub fn full_span(&self) -> Option<(f64, f64)> {
        value_span(self.measured_buckets().map(|b| (b.min, b.max)), self.drawn_limit())
    }

    /// Returns the limit, unless it lies so far above the values that drawing it
    /// would flatten them.
    pub fn drawn_limit(&self) -> Option<f64> {
        let max_value = self.measured_buckets().map(|b| b.max).fold(0.0, f64::max);
        self.limit.filter(|l| l.is_finite() && (max_value == 0.0 || *l <= 5.0 * max_value))
    }

    fn measured_buckets(&self) -> impl Iterator<Item = &ChartBucket> {
        self.lines.iter().flat_map(|l| &l.buckets).filter(|b| !b.is_gap())
    }

    /// Returns the position of a time in the window: 0 at its start, 1 at its end.
    pub fn time_share(&self, time_ns: i64) -> f64 {
        // a window of one tick has no length
        let span_ns = self.to_ns.saturating_sub(self.from_ns).max(1);
        time_ns.saturating_sub(self.from_ns) as f64 / span_ns as f64
    }

    /// Returns the bookmarks within the window, oldest first, each with its number
    /// among all bookmarks.
    pub fn bookmarks<'a>(&self, notes: &'a [Note]) -> Vec<(usize, &'a Note)> {
        let is_inside = |(_, n): &(usize, &Note)| n.time_ns >= self.from_ns && n.time_ns <= self.to_ns;
        all_bookmarks(notes).into_iter().filter(is_inside).collect()
    }
}

/// Returns all bookmarks among the notes, oldest first, numbered from 1.
pub fn all_bookmarks(notes: &[Note]) -> Vec<(usize, &Note)> {
    let mut found: Vec<&Note> = notes.iter().filter(|n| n.kind == Note::BOOKMARK).collect();
    found.sort_by_key(|n| n.time_ns);
    found.into_iter().enumerate().map(|(index, note)| (index + 1, note)).collect()
}

fn value_span(values: impl Iterator<Item = (f64, f64)>, limit: Option<f64>) -> Option<(f64, f64)> {
    let mut found: Option<(f64, f64)> = None;
    for (min, max) in values {
        let (low, high) = found.unwrap_or((min, max));
        found = Some((low.min(min), high.max(max)));
    }
    let (low, high) = found?;
    let limit = limit.unwrap_or(high);
    Some((low.min(limit), high.max(limit)))
}

impl ChartLine {
    /// Returns minimum, mean and maximum; `None` if nothing was measured. The mean is
    /// weighted by the buckets' weights and so equals the mean over ticks.
    pub fn summary(&self) -> Option<(f64, f64, f64)> {
        let measured: Vec<&ChartBucket> = self.buckets.iter().filter(|b| !b.is_gap()).collect();
        let weight: f64 = measured.iter().map(|b| b.weight).sum();
        if measured.is_empty() {
            return None;
        }
        let min = measured.iter().map(|b| b.min).fold(f64::INFINITY, f64::min);
        let max = measured.iter().map(|b| b.max).fold(f64::NEG_INFINITY, f64::max);
        let mean = measured.iter().map(|b| b.mean * b.weight).sum::<f64>() / weight;
        Some((min, mean, max))
    }

    /// Returns the runs of neighbouring buckets that have data, as ranges of positions.
    pub fn data_runs(&self) -> Vec<std::ops::Range<usize>> {
        let mut runs: Vec<std::ops::Range<usize>> = Vec::new();
        for (index, _) in self.buckets.iter().enumerate().filter(|(_, b)| !b.is_gap()) {
            match runs.last_mut() {
                Some(run) if run.end == index => run.end += 1,
                _ => runs.push(index..index + 1),
            }
        }
        runs
    }
}

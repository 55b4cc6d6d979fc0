//! What a chart shows, whether it is drawn in a terminal or on a page.

use diskwright_base::{Catalogue, Note};

use crate::axis;
use crate::downsample::{ChartBucket, bucket_unit};

/// One counter over a window, for one or more instances.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// What it shows, in words.
    pub title: String,
    /// Unit of the values, as in the catalogue.
    pub unit: String,
    /// Canonical counter id.
    pub counter: String,
    /// Start of the window, nanoseconds since 1970 UTC.
    pub from_ns: i64,
    /// Its end.
    pub to_ns: i64,
    /// The instances, each with the same number of buckets.
    pub lines: Vec<ChartLine>,
    /// A limit to hold the values against, in the same unit.
    pub limit: Option<f64>,
    /// The finding that it stands with: rule and instance.
    pub finding: Option<String>,
    /// Stretches to point out (a finding's window), nanoseconds since 1970 UTC.
    pub shaded: Vec<(i64, i64)>,
}

/// One instance's values.
#[derive(Clone, Debug, PartialEq)]
pub struct ChartLine {
    /// What it is about; empty where there is only one.
    pub instance: String,
    /// Values over the window, evenly spaced.
    pub buckets: Vec<ChartBucket>,
}

impl Chart {
    /// A chart of a counter, named and with the unit after its id.
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
            shaded: Vec::new(),
        }
    }

    /// Least and greatest of the lines' means and the drawn limit; `None`
    /// where nothing was measured.
    pub fn span(&self) -> Option<(f64, f64)> {
        span(self.measured().map(|b| (b.mean, b.mean)), self.drawn_limit())
    }

    /// The same with the ticks' extremes.
    pub fn full_span(&self) -> Option<(f64, f64)> {
        span(self.measured().map(|b| (b.least, b.most)), self.drawn_limit())
    }

    /// The limit, unless it lies so far above the values that drawing it
    /// would press them flat against the axis.
    pub fn drawn_limit(&self) -> Option<f64> {
        let most = self.measured().map(|b| b.most).fold(0.0, f64::max);
        self.limit.filter(|l| l.is_finite() && (most == 0.0 || *l <= 5.0 * most))
    }

    fn measured(&self) -> impl Iterator<Item = &ChartBucket> {
        self.lines.iter().flat_map(|l| &l.buckets).filter(|b| !b.is_gap())
    }

    /// Where in the window a moment lies, 0 at its start and 1 at its end.
    pub fn place(&self, time_ns: i64) -> f64 {
        (time_ns as f64 - self.from_ns as f64) / (self.to_ns as f64 - self.from_ns as f64)
    }

    /// The bookmarks within the window, oldest first, each with its number
    /// among all bookmarks.
    pub fn bookmarks<'a>(&self, notes: &'a [Note]) -> Vec<(usize, &'a Note)> {
        let inside = |(_, n): &(usize, &Note)| n.time_ns >= self.from_ns && n.time_ns <= self.to_ns;
        bookmarks(notes).into_iter().filter(inside).collect()
    }
}

/// All bookmarks among the notes, oldest first, numbered from 1.
pub fn bookmarks(notes: &[Note]) -> Vec<(usize, &Note)> {
    let mut found: Vec<&Note> = notes.iter().filter(|n| n.kind == Note::BOOKMARK).collect();
    found.sort_by_key(|n| n.time_ns);
    found.into_iter().enumerate().map(|(index, note)| (index + 1, note)).collect()
}

fn span(values: impl Iterator<Item = (f64, f64)>, limit: Option<f64>) -> Option<(f64, f64)> {
    let mut found: Option<(f64, f64)> = None;
    for (least, most) in values {
        let (low, high) = found.unwrap_or((least, most));
        found = Some((low.min(least), high.max(most)));
    }
    let (low, high) = found?;
    let limit = limit.unwrap_or(high);
    Some((low.min(limit), high.max(limit)))
}

impl ChartLine {
    /// Least, mean (by the buckets' weights, so that it is that of the ticks)
    /// and greatest; `None` where nothing was measured.
    pub fn summary(&self) -> Option<(f64, f64, f64)> {
        let measured: Vec<&ChartBucket> = self.buckets.iter().filter(|b| !b.is_gap()).collect();
        let weight: f64 = measured.iter().map(|b| b.weight).sum();
        if measured.is_empty() {
            return None;
        }
        let least = measured.iter().map(|b| b.least).fold(f64::INFINITY, f64::min);
        let most = measured.iter().map(|b| b.most).fold(f64::NEG_INFINITY, f64::max);
        let mean = measured.iter().map(|b| b.mean * b.weight).sum::<f64>() / weight;
        Some((least, mean, most))
    }

    /// Runs of neighbouring buckets that have data, as positions.
    pub fn runs(&self) -> Vec<std::ops::Range<usize>> {
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

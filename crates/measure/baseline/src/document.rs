//! The stored document of a baseline: `diskwright.baseline/1`.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::circumstances::BaselineCircumstances;
use crate::figure::{FigureDefinition, FigureKind, GROUPS, find_definition};
use crate::machine::BaselineMachine;
use crate::measurement::MAX_SPREAD;
use crate::sustained_load::SustainedResult;

/// Schema name of the document.
pub const SCHEMA: &str = "diskwright.baseline/1";

/// Share of the best rate that marks the knee.
const KNEE_SHARE: f64 = 0.95;

/// A measurement of a machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BaselineDocument {
    /// [`SCHEMA`].
    pub schema: String,
    /// Start of the measurement, RFC 3339 in UTC.
    pub measured: String,
    /// `full`, or `check` for a measurement of some seconds.
    pub extent: String,
    /// Version of the program.
    pub version: String,
    /// The measured machine.
    pub machine: BaselineMachine,
    /// Duration of the measurement, s.
    pub seconds: f64,
    /// The figures.
    pub figures: Vec<FigureResult>,
    /// Figures that could not be measured, with reasons.
    pub skipped: Vec<SkippedFigure>,
    /// Throughput by number of concurrent threads.
    pub scaling: Option<ThreadScaling>,
    /// Result of the sustained load, if it was requested.
    pub sustained: Option<SustainedResult>,
    /// Results of `probe quick`, if a target was given.
    pub disk: Option<BaselineDisk>,
    /// Conditions during the measurement.
    pub circumstances: BaselineCircumstances,
    /// Remarks for the reader.
    pub remarks: Vec<String>,
}

/// Result of a figure with a number of threads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FigureResult {
    /// Id, as in the list of figures.
    pub id: String,
    /// Title for people.
    pub title: String,
    /// `per_s`, `bytes_per_s` or `s`.
    pub unit: String,
    /// `higher` or `lower`.
    pub better: String,
    /// Concurrent threads.
    pub threads: usize,
    /// Version of the work; only results of equal versions are comparable.
    pub method: u32,
    /// All values, in the order of measurement.
    pub values: Vec<f64>,
    /// Median of the values; `null` if they spread too widely.
    pub median: Option<f64>,
    /// Width of the middle half of the values, as a share of the median.
    pub spread: f64,
    /// Why there is no median.
    pub refused: Option<String>,
}

/// A figure that could not be measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SkippedFigure {
    /// Id, as in the list of figures.
    pub id: String,
    /// Concurrent threads.
    pub threads: usize,
    /// Why it could not be measured.
    pub because: String,
}

/// Scaling curve of a figure.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ThreadScaling {
    /// The figure.
    pub figure: String,
    /// Numbers of threads with their total rate.
    pub points: Vec<ScalingPoint>,
    /// Smallest number of threads that reaches 95 % of the best rate.
    pub knee_threads: usize,
    /// Rate at the knee as a multiple of the rate of one thread.
    pub speedup: f64,
    /// Numbers of threads whose rate was too noisy: the knee may be at one of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unknown_threads: Vec<usize>,
}

/// Point of a scaling curve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ScalingPoint {
    /// Concurrent threads.
    pub threads: usize,
    /// Total rate of these threads.
    pub rate: f64,
}

/// Results of `probe quick`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BaselineDisk {
    /// The target as the user typed it.
    pub target: String,
    /// Figures of the device's profile: name, unit, value.
    pub figures: Vec<DiskFigure>,
}

/// Figure of a disk.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DiskFigure {
    /// Name as in profiles: `reads_per_s`.
    pub figure: String,
    /// Unit.
    pub unit: String,
    /// The value.
    pub value: f64,
}

/// Returns the values in ascending order.
fn sort_values(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// Returns the median; of an even number of values, the mean of the middle two; 0 if there are none.
#[must_use]
pub fn median(values: &[f64]) -> f64 {
    let sorted = sort_values(values);
    match sorted.len() {
        0 => 0.0,
        n if n % 2 == 1 => sorted[n / 2],
        n => f64::midpoint(sorted[n / 2 - 1], sorted[n / 2]),
    }
}

/// Returns the width of the middle half of the values, as a share of the median: of five values the
/// distance from the second to the fourth. One disturbed value does not widen it. The values must be
/// greater than 0.
#[must_use]
pub fn relative_spread(values: &[f64]) -> f64 {
    let sorted = sort_values(values);
    let outer_values = sorted.len() / 4;
    match sorted.as_slice() {
        [] => 0.0,
        sorted => (sorted[sorted.len() - 1 - outer_values] - sorted[outer_values]) / median(sorted),
    }
}

impl FigureResult {
    /// Judges the values of a figure and builds its result.
    ///
    /// # Panics
    /// When there is no value, or one is not a number above 0: such a spread would pass for narrow.
    #[must_use]
    pub fn from_values(figure: &FigureDefinition, threads: usize, values: &[f64]) -> FigureResult {
        let is_measured = |value: &f64| value.is_finite() && *value > 0.0;
        assert!(threads > 0 && !values.is_empty() && values.iter().all(is_measured), "{}: {values:?}", figure.id);
        let spread = relative_spread(values);
        let refused = (spread > MAX_SPREAD).then(|| {
            let (spread, limit, count) = (spread * 100.0, MAX_SPREAD * 100.0, values.len());
            format!(
                "too noisy: the middle half of {count} values spreads over {spread:.0} %, the limit is {limit:.0} %"
            )
        });
        FigureResult {
            id: figure.id.into(),
            title: figure.title.into(),
            unit: figure.unit.into(),
            better: figure.kind.better_direction().into(),
            threads,
            method: figure.method,
            values: values.to_vec(),
            median: refused.is_none().then(|| median(values)),
            spread,
            refused,
        }
    }

    /// Checks that the result can be compared: id, unit and direction must match the list of figures,
    /// because the file is not trusted.
    fn check_definition(&self) -> Result<(), String> {
        let FigureResult { id, unit, better, .. } = self;
        if !GROUPS.iter().any(|(group, _)| *group == self.group_name()) {
            return Err(format!("`{id}` is not a figure of a baseline"));
        }
        if self.median.is_some_and(|value| !(value.is_finite() && value > 0.0)) {
            return Err(format!("{id} is not a number above 0"));
        }
        if !(self.spread >= 0.0 && self.threads > 0) {
            return Err(format!("{id} has a spread below 0, or no threads"));
        }
        let (expected_unit, expected_better) = match find_definition(id).filter(|known| known.method == self.method) {
            Some(known) => (known.unit, known.kind.better_direction()),
            // the method may be that of a later version; at least the direction must be known
            None if better == FigureKind::Time.better_direction() => {
                (unit.as_str(), FigureKind::Time.better_direction())
            }
            None => (unit.as_str(), FigureKind::Rate.better_direction()),
        };
        if unit != expected_unit || better != expected_better {
            return Err(format!(
                "{id} has the unit `{unit}` and is better if `{better}`; expected `{expected_unit}` and \
                 `{expected_better}`"
            ));
        }
        Ok(())
    }

    /// Returns the part of the id before the point.
    #[must_use]
    pub fn group_name(&self) -> &str {
        self.id.split_once('.').map_or(self.id.as_str(), |(group, _)| group)
    }
}

impl ThreadScaling {
    /// Builds the curve of a figure that was measured with several numbers of threads.
    #[must_use]
    pub fn from_figures(figures: &[FigureResult], id: &str) -> Option<ThreadScaling> {
        let to_point = |figure: &FigureResult| Some(ScalingPoint { threads: figure.threads, rate: figure.median? });
        let mut points: Vec<ScalingPoint> =
            figures.iter().filter(|figure| figure.id == id).filter_map(to_point).collect();
        points.sort_by_key(|point| point.threads);
        let best = points.iter().map(|point| point.rate).reduce(f64::max)?;
        let single_rate = points.iter().find(|point| point.threads == 1)?.rate;
        let knee = *points.iter().find(|point| point.rate >= KNEE_SHARE * best)?;
        let knee_threads = knee.threads;
        // rates grow up to the knee: below a measured count that is not the knee, no other count
        // can be it
        let lower_threads = points.iter().filter(|point| point.threads < knee_threads).map(|point| point.threads).max();
        let is_unknown =
            |figure: &&FigureResult| figure.id == id && figure.median.is_none() && Some(figure.threads) > lower_threads;
        let mut unknown_threads: Vec<usize> = figures.iter().filter(is_unknown).map(|figure| figure.threads).collect();
        unknown_threads.sort_unstable();
        debug_assert!(points.windows(2).all(|pair| pair[0].threads < pair[1].threads), "{id}: two rates of one count");
        debug_assert!(single_rate > 0.0, "{id}: one thread did nothing");
        let speedup = knee.rate / single_rate;
        (points.len() >= 3).then(|| ThreadScaling { figure: id.into(), points, knee_threads, speedup, unknown_threads })
    }
}

impl BaselineDocument {
    /// Returns the figure with an id and a number of threads.
    #[must_use]
    pub fn find_figure(&self, id: &str, threads: usize) -> Option<&FigureResult> {
        self.figures.iter().find(|figure| figure.id == id && figure.threads == threads)
    }

    /// Parses and checks a document.
    ///
    /// # Errors
    /// Why it is not a valid baseline.
    pub fn parse(bytes: &[u8]) -> Result<BaselineDocument, String> {
        let document: BaselineDocument = serde_json::from_slice(bytes).map_err(|e| format!("no baseline: {e}"))?;
        document.check_figures().map(|()| document)
    }

    /// Checks that all figures can be compared.
    ///
    /// # Errors
    /// A description of the first fault.
    pub fn check_figures(&self) -> Result<(), String> {
        if self.schema != SCHEMA {
            return Err(format!("its schema is `{}`, this program knows `{SCHEMA}`", self.schema));
        }
        let mut seen = BTreeSet::new();
        for figure in &self.figures {
            figure.check_definition()?;
            if !seen.insert((figure.id.as_str(), figure.threads)) {
                return Err(format!("{} appears twice (threads: {})", figure.id, figure.threads));
            }
        }
        Ok(())
    }
}

/// Returns true if bytes begin like a baseline document, of any version.
#[must_use]
pub fn is_baseline(head: &[u8]) -> bool {
    let text = String::from_utf8_lossy(head);
    let start = text.trim_start().strip_prefix('{').map(str::trim_start);
    let value = start.and_then(|rest| rest.strip_prefix("\"schema\"")).map(|rest| rest.trim_start_matches([':', ' ']));
    value.is_some_and(|value| value.starts_with("\"diskwright.baseline/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::find_definition;

    #[test]
    fn one_disturbed_value_of_five_changes_neither_median_nor_spread_much() {
        assert_eq!((median(&[3.0, 1.0, 2.0]), median(&[4.0, 1.0, 2.0, 3.0]), median(&[])), (2.0, 2.5, 0.0));
        // 98, 99, 100, 101, 500: from 99 to 101
        assert!((relative_spread(&[500.0, 98.0, 99.0, 100.0, 101.0]) - 0.02).abs() < 1e-12);
        assert!((relative_spread(&[90.0, 100.0]) - 10.0 / 95.0).abs() < 1e-12);
    }

    #[test]
    fn a_wide_spread_is_refused_and_its_values_are_kept() {
        let figure = find_definition("memory.read").expect("known");
        let firm = FigureResult::from_values(figure, 1, &[98.0, 99.0, 100.0, 101.0, 102.0]);
        assert_eq!((firm.median, firm.refused), (Some(100.0), None));
        let wide = FigureResult::from_values(figure, 1, &[80.0, 90.0, 100.0, 110.0, 120.0]);
        assert_eq!((wide.median, wide.values.len()), (None, 5));
        assert!(wide.refused.is_some_and(|why| why.starts_with("too noisy: ") && why.contains("20 %")));
    }

    #[test]
    fn the_knee_is_where_more_threads_bring_little() {
        let figure = find_definition("processor.integer").expect("known");
        let at_threads = |(threads, rate): (usize, f64)| FigureResult::from_values(figure, threads, &[rate; 5]);
        let rates = [(4, 202.0), (1, 100.0), (2, 198.0), (8, 203.0)];
        let scaling = ThreadScaling::from_figures(&rates.map(at_threads), figure.id).expect("a curve");
        assert_eq!((scaling.knee_threads, scaling.speedup, scaling.points[0].threads), (2, 1.98, 1));
        assert!(scaling.unknown_threads.is_empty(), "{scaling:?}");
        assert_eq!(ThreadScaling::from_figures(&rates.map(at_threads)[..2], figure.id), None);
        // the refused value at 2 threads may be the knee, and the refused one at 16 more than the
        // best
        let noisy = |threads: usize| FigureResult::from_values(figure, threads, &[80.0, 90.0, 100.0, 110.0, 120.0]);
        let mut figures: Vec<FigureResult> = [(1, 100.0), (4, 390.0), (8, 395.0)].map(at_threads).into();
        figures.extend([16, 2].map(noisy));
        let scaling = ThreadScaling::from_figures(&figures, figure.id).expect("a curve");
        assert_eq!((scaling.knee_threads, scaling.unknown_threads), (4, vec![2, 16]));
    }

    #[test]
    fn documents_are_known_by_their_head_and_checked() {
        assert!(is_baseline(b" {\n  \"schema\": \"diskwright.baseline/7\", "));
        assert!(!is_baseline(b"{\"schema\": \"diskwright.probe/1\"}") && !is_baseline(&[0xff, 0]));
        let figure = FigureResult::from_values(find_definition("memory.read").expect("known"), 1, &[5.0]);
        let good = BaselineDocument { schema: SCHEMA.into(), figures: vec![figure], ..BaselineDocument::default() };
        let text = serde_json::to_string(&good).expect("written");
        assert_eq!(BaselineDocument::parse(text.as_bytes()).as_ref(), Ok(&good));
        for (from, to) in [
            ("baseline/1", "baseline/2"),
            ("memory.read", "taste.read"),
            ("5.0,\"spread", "-5.0,\"spread"),
            ("\"spread\":0.0", "\"spread\":-1.0"),
            // twice as long would be twice as good
            ("\"better\":\"higher\",", ""),
            ("\"higher\"", "\"lower\""),
            ("\"bytes_per_s\"", "\"MB/s\""),
            ("\"threads\":1", "\"threads\":0"),
        ] {
            assert!(text.contains(from), "{from}: {text}");
            assert!(BaselineDocument::parse(text.replace(from, to).as_bytes()).is_err(), "{to}");
        }
        let twice = BaselineDocument { figures: vec![good.figures[0].clone(); 2], ..good.clone() };
        assert!(twice.check_figures().is_err_and(|why| why.contains("twice")));
        // a later version may measure otherwise
        let mut later = good;
        (later.figures[0].method, later.figures[0].unit) = (7, "lines_per_s".into());
        assert_eq!(later.check_figures(), Ok(()));
    }
}

//! Compares results: which differences are real, which are noise, and
//! which are unclear.
//!
//! The result of a run varies from one repeat to the next. If a run was repeated
//! (`--repeat`, or several files per side), the spread of the repeats
//! shows the precision of the mean, and two means are compared by Welch's
//! test ([`diskwright_statistics::Contrast`]). With several
//! files per side each file counts as one value, the mean of its repeats: repeats
//! of one session have more in common than those of different sessions, and treating
//! them as independent would find differences in noise (nested designs: Cochran,
//! "Sampling Techniques", 1977, 10.3). All differences of a comparison share one
//! error probability of 5 % (Holm).
//!
//! Percentiles are read from buckets that are up to 1/64 of the value wide; the
//! variance of such a reading, the squared width divided by 12, is added to each side (JCGM
//! 100:2008, "Guide to the expression of uncertainty in measurement", F.2.2.1).

use std::collections::{HashMap, HashSet};

use diskwright_statistics::mean::MeanVariance;
use diskwright_statistics::multiple_tests::test_by_holm;
use diskwright_statistics::{Bounds, Contrast, ERROR_RATE};
use serde::Serialize;

use crate::circumstances::{Circumstance, find_circumstances};
use crate::document::ProbeDocument;
use crate::result::RunResult;

/// Outcome of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ResultOutcome {
    /// All differences beyond noise are better.
    Helped,
    /// All differences beyond noise are worse.
    Worse,
    /// Some differences beyond noise are better, some worse.
    Mixed,
    /// There is no difference beyond noise.
    Unchanged,
    /// Too few runs of one name to decide.
    Unclear,
}

/// Mean of repeated runs with its confidence interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct RepeatEstimate {
    /// Arithmetic mean.
    pub mean: f64,
    /// Lower end of the 95 % confidence interval; `None` for a single run.
    pub low: Option<f64>,
    /// Upper end of the interval.
    pub high: Option<f64>,
    /// Number of values: repeats, or files if a side has several.
    pub values: usize,
}

/// One quantity of one run, on both sides. The fields are those of a
/// comparison of logs; `instance` is the run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ResultRow {
    /// Field of the result: `requests_per_s`, `latency_s.p99`.
    pub counter: &'static str,
    /// Name of the run.
    pub instance: String,
    /// Unit, by its name in the catalogue.
    pub unit: &'static str,
    /// Estimate of the first side.
    pub before: RepeatEstimate,
    /// Estimate of the second side.
    pub after: RepeatEstimate,
    /// After minus before.
    pub difference: f64,
    /// Lower end of the difference's 95 % confidence interval.
    pub difference_low: Option<f64>,
    /// Upper end of the interval.
    pub difference_high: Option<f64>,
    /// After divided by before.
    pub ratio: Option<f64>,
    /// Probability that noise alone causes such a difference anywhere in this comparison.
    pub significance: Option<f64>,
    /// True if the difference may be noise; `None` for single runs, which do not show noise.
    pub noise: Option<bool>,
    /// True if the second side is better, whether by noise or not.
    pub better: bool,
}

impl ResultRow {
    /// Returns the share by which the second side is worse than the first; negative if it is better.
    pub fn worse_by(&self) -> f64 {
        let ratio = self.ratio.unwrap_or(1.0);
        let more_is_better = QUANTITIES.iter().any(|q| q.counter == self.counter && q.more_is_better);
        if more_is_better { 1.0 - ratio } else { ratio - 1.0 }
    }
}

/// A run that only one side has, named as in a comparison of logs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OneSidedRun {
    /// Always `run`.
    pub counter: &'static str,
    /// Name of the run.
    pub instance: String,
}

/// Summary of a side.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ResultSide {
    /// Its files.
    pub files: Vec<String>,
    /// Suites.
    pub suites: Vec<String>,
    /// Targets.
    pub targets: Vec<String>,
    /// Keys by which the devices are recognized.
    pub devices: Vec<String>,
    /// Start time of each file, RFC 3339.
    pub started: Vec<String>,
}

/// Comparison of two sides.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ResultComparison {
    /// `diskwright.compare/1`.
    pub schema: &'static str,
    /// `probe`, because results are compared, not logs.
    #[serde(rename = "of")]
    pub kind: &'static str,
    /// Outcome of the comparison.
    pub outcome: ResultOutcome,
    /// The outcome as a sentence.
    pub sentence: String,
    /// Number of differences that were judged.
    pub questions: usize,
    /// Each quantity of each run that both sides have, in the order of the first file.
    pub counters: Vec<ResultRow>,
    /// Runs that only the first side has.
    pub only_before: Vec<OneSidedRun>,
    /// Runs that only the second side has.
    pub only_after: Vec<OneSidedRun>,
    /// Runs of both sides that are not compared, because at least one side stopped all runs of that name early.
    pub ended_early: Vec<OneSidedRun>,
    /// Other differences between the sides.
    pub circumstances: Vec<Circumstance>,
    /// Summary of the first side.
    pub before: ResultSide,
    /// Summary of the second side.
    pub after: ResultSide,
}

/// A quantity that is compared.
struct ComparedQuantity {
    counter: &'static str,
    unit: &'static str,
    more_is_better: bool,
    /// True if it is read from a histogram's bucket.
    is_bucketed: bool,
    extract: fn(&RunResult) -> Option<f64>,
}

/// Creates a quantity in seconds of which less is better.
const fn latency_quantity(
    counter: &'static str,
    is_bucketed: bool,
    extract: fn(&RunResult) -> Option<f64>,
) -> ComparedQuantity {
    ComparedQuantity { counter, unit: "s", more_is_better: false, is_bucketed, extract }
}

/// Creates a rate, of which more is better.
const fn rate_quantity(
    counter: &'static str,
    unit: &'static str,
    extract: fn(&RunResult) -> Option<f64>,
) -> ComparedQuantity {
    ComparedQuantity { counter, unit, more_is_better: true, is_bucketed: false, extract }
}

/// All compared quantities, in the order of the report.
const QUANTITIES: &[ComparedQuantity] = &[
    rate_quantity("requests_per_s", "per_s", |r| Some(r.requests_per_s)),
    rate_quantity(BYTES_PER_S, "bytes_per_s", |r| Some(r.bytes_per_s)),
    latency_quantity("latency_s.mean", false, |r| r.latency_s.mean),
    latency_quantity("latency_s.p50", true, |r| r.latency_s.p50),
    latency_quantity("latency_s.p95", true, |r| r.latency_s.p95),
    latency_quantity("latency_s.p99", true, |r| r.latency_s.p99),
    latency_quantity("latency_s.p999", true, |r| r.latency_s.p999),
    latency_quantity("cpu_s_per_request", false, |r| r.cpu_s_per_request),
];

/// Counter that only repeats the request rate if all requests have one size.
const BYTES_PER_S: &str = "bytes_per_s";

/// Largest width of a bucket relative to its value: [`diskwright_base::Histogram`].
const RELATIVE_BUCKET_WIDTH: f64 = 1.0 / 64.0;

/// A result with the name of its file.
pub type ResultFile<'a> = (&'a str, &'a ProbeDocument);

/// Compares the second side with the first.
pub fn compare_results(before: &[ResultFile<'_>], after: &[ResultFile<'_>]) -> ResultComparison {
    let (first, second) = (RunsByName::from_files(before), RunsByName::from_files(after));
    let mut counters = Vec::new();
    let (mut contrasts, mut is_question) = (Vec::new(), Vec::new());
    for name in first.names.iter().filter(|n| second.has_run(n)) {
        for quantity in QUANTITIES {
            let values = [quantity_values(&first, name, quantity), quantity_values(&second, name, quantity)];
            let Some((row, contrast)) = build_row(name, quantity, &values) else { continue };
            let is_repeat =
                quantity.counter == BYTES_PER_S && counters.last().is_some_and(|r| repeats_request_rate(&row, r));
            contrasts.push(contrast);
            is_question.push(!is_repeat);
            counters.push(row);
        }
    }
    judge_rows(&mut counters, &contrasts, &is_question);
    let outcome = overall_outcome(&counters);
    let is_shared = first.names.iter().any(|n| second.has_run(n));
    let named = |name: &str| OneSidedRun { counter: "run", instance: name.to_owned() };
    // a run without any row: every run that was completed has a rate
    let is_left_out = |name: &str| second.has_run(name) && !counters.iter().any(|row| row.instance == name);
    let ended_early: Vec<OneSidedRun> =
        first.names.iter().filter(|name| is_left_out(name)).map(|name| named(name)).collect();
    let missing_runs = |side: &RunsByName<'_>, other: &RunsByName<'_>| -> Vec<OneSidedRun> {
        let missing = side.names.iter().filter(|n| !other.has_run(n));
        missing.map(|name| named(name)).collect()
    };
    ResultComparison {
        schema: "diskwright.compare/1",
        kind: "probe",
        outcome,
        sentence: outcome_sentence(outcome, &counters, is_shared),
        questions: contrasts.iter().zip(&is_question).filter(|(c, is_question)| c.is_some() && **is_question).count(),
        counters,
        only_before: missing_runs(&first, &second),
        only_after: missing_runs(&second, &first),
        ended_early,
        circumstances: find_circumstances(before, after, [&first, &second]),
        before: summarize_side(before),
        after: summarize_side(after),
    }
}

/// The runs of a side by name.
pub(crate) struct RunsByName<'a> {
    /// Distinct names in their order.
    pub(crate) names: Vec<&'a str>,
    files: Vec<HashMap<&'a str, Vec<&'a RunResult>>>,
}

impl<'a> RunsByName<'a> {
    /// Groups the runs of a side's files by name.
    fn from_files(side: &[ResultFile<'a>]) -> RunsByName<'a> {
        let (mut names, mut known, mut files) = (Vec::new(), HashSet::new(), Vec::new());
        for (_, document) in side {
            let mut file: HashMap<&str, Vec<&RunResult>> = HashMap::new();
            for run in &document.runs {
                if known.insert(run.name.as_str()) {
                    names.push(run.name.as_str());
                }
                file.entry(&run.name).or_default().push(run);
            }
            files.push(file);
        }
        RunsByName { names, files }
    }

    /// Returns true if the side has a run of this name.
    pub(crate) fn has_run(&self, name: &str) -> bool {
        self.files.iter().any(|f| f.contains_key(name))
    }

    /// Returns all runs of a name, file by file.
    pub(crate) fn runs_named(&self, name: &str) -> impl Iterator<Item = &'a RunResult> {
        self.files.iter().filter_map(move |f| f.get(name)).flatten().copied()
    }
}

/// Returns a quantity's values: one per repeat if there is a single file, else one per file.
fn quantity_values(side: &RunsByName<'_>, name: &str, quantity: &ComparedQuantity) -> Vec<f64> {
    let completed_values = |runs: &Vec<&RunResult>| -> Vec<f64> {
        // a stopped run has another measuring time than the others
        let completed = runs.iter().filter(|r| !r.stopped);
        completed.filter_map(|r| (quantity.extract)(r)).filter(|v| v.is_finite()).collect()
    };
    let runs_by_file = side.files.iter().filter_map(|f| f.get(name));
    let mut files: Vec<Vec<f64>> = runs_by_file.map(completed_values).filter(|v| !v.is_empty()).collect();
    if files.len() == 1 {
        return files.remove(0);
    }
    files.iter().map(|v| v.iter().sum::<f64>() / v.len() as f64).collect()
}

/// Returns true if the byte rate only repeats the request rate, because all requests have one size.
pub fn repeats_request_rate(bytes: &ResultRow, requests: &ResultRow) -> bool {
    let is_close = |a: f64, b: f64| (a - b).abs() <= 1e-6 * a.abs();
    let same = requests.ratio.zip(bytes.ratio).is_some_and(|(a, b)| is_close(a, b));
    same && bytes.counter == BYTES_PER_S && requests.counter == "requests_per_s" && bytes.instance == requests.instance
}

/// Computes the mean of repeats with its variance; `None` for fewer than two. `bucket` is
/// the width of the buckets that the values were read from, relative to the value.
fn mean_with_variance(values: &[f64], bucket: f64) -> Option<MeanVariance> {
    let count = values.len() as f64;
    if values.len() < 2 {
        return None;
    }
    let value = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|v| (v - value).powi(2)).sum();
    let sampling_variance = squares / (count - 1.0) / count;
    let variance = sampling_variance + (value * bucket).powi(2) / 12.0;
    // Welch and Satterthwaite; the variance of the reading is known, so it has infinite degrees of freedom
    let df = if sampling_variance > 0.0 { (count - 1.0) * (variance / sampling_variance).powi(2) } else { 1e9 };
    Some(MeanVariance { value, variance, df: df.min(1e9) })
}

/// Estimates the mean of repeated values that were not read from buckets.
pub fn estimate_from_values(values: &[f64]) -> RepeatEstimate {
    build_estimate(values, mean_with_variance(values, 0.0).as_ref())
}

/// Builds an estimate with the interval of the mean, if it is finite.
fn build_estimate(values: &[f64], mean: Option<&MeanVariance>) -> RepeatEstimate {
    let average = values.iter().sum::<f64>() / values.len().max(1) as f64;
    let interval =
        mean.map(MeanVariance::confidence_interval).filter(|(low, high)| low.is_finite() && high.is_finite());
    RepeatEstimate { mean: average, low: interval.map(|i| i.0), high: interval.map(|i| i.1), values: values.len() }
}

/// Builds a row that is not judged yet, and the contrast of its sides if it is known; `None` if a side has no value.
fn build_row(
    name: &str,
    quantity: &ComparedQuantity,
    [first, second]: &[Vec<f64>; 2],
) -> Option<(ResultRow, Option<Contrast>)> {
    if first.is_empty() || second.is_empty() {
        return None;
    }
    let bucket = if quantity.is_bucketed { RELATIVE_BUCKET_WIDTH } else { 0.0 };
    let means = [mean_with_variance(first, bucket), mean_with_variance(second, bucket)];
    let (before, after) = (build_estimate(first, means[0].as_ref()), build_estimate(second, means[1].as_ref()));
    let contrast = means[0].as_ref().zip(means[1].as_ref()).map(|(a, b)| Contrast::compare_few(a, b, Bounds::POSITIVE));
    let row = ResultRow {
        counter: quantity.counter,
        instance: name.to_owned(),
        unit: quantity.unit,
        difference: after.mean - before.mean,
        difference_low: None,
        difference_high: None,
        ratio: Some(after.mean / before.mean).filter(|r| r.is_finite()),
        significance: None,
        noise: None,
        better: (after.mean > before.mean) == quantity.more_is_better && after.mean != before.mean,
        before,
        after,
    };
    Some((row, contrast.filter(Contrast::is_known)))
}

/// Judges all rows together. Each interval has the level of its own test, so that it
/// excludes 0 exactly if the difference is beyond noise. A row that only repeats
/// another one gets the judgement of that one.
fn judge_rows(rows: &mut [ResultRow], contrasts: &[Option<Contrast>], is_question: &[bool]) {
    let p_value = |(c, is_question): (&Option<Contrast>, &bool)| match c {
        Some(c) if *is_question => c.p_value(),
        _ => f64::NAN,
    };
    let p_values: Vec<f64> = contrasts.iter().zip(is_question).map(p_value).collect();
    let mut last = None;
    for ((row, contrast), result) in rows.iter_mut().zip(contrasts).zip(test_by_holm(&p_values, ERROR_RATE)) {
        let result = if result.adjusted_p_value.is_nan() && row.counter == BYTES_PER_S { last } else { Some(result) };
        last = result;
        let Some((contrast, result)) = contrast.as_ref().zip(result.filter(|r| !r.adjusted_p_value.is_nan())) else {
            continue;
        };
        row.significance = Some(result.adjusted_p_value);
        row.noise = Some(result.adjusted_p_value >= ERROR_RATE);
        let (low, high) = contrast.difference_interval(result.level);
        (row.difference_low, row.difference_high) =
            (Some(low).filter(|v| v.is_finite()), Some(high).filter(|v| v.is_finite()));
    }
}

/// Determines the outcome from the judged rows.
fn overall_outcome(rows: &[ResultRow]) -> ResultOutcome {
    let beyond_noise = || rows.iter().filter(|r| r.noise == Some(false));
    match (beyond_noise().any(|r| r.better), beyond_noise().any(|r| !r.better)) {
        (true, true) => ResultOutcome::Mixed,
        (true, false) => ResultOutcome::Helped,
        (false, true) => ResultOutcome::Worse,
        (false, false) if rows.iter().any(|r| r.noise.is_some()) => ResultOutcome::Unchanged,
        (false, false) => ResultOutcome::Unclear,
    }
}

/// Returns the name of a quantity for users.
pub fn quantity_label(counter: &str) -> &str {
    match counter {
        "requests_per_s" => "requests per second",
        BYTES_PER_S => "bytes per second",
        "latency_s.mean" => "mean latency",
        "latency_s.p50" => "50 % latency",
        "latency_s.p95" => "95 % latency",
        "latency_s.p99" => "99 % latency",
        "latency_s.p999" => "99.9 % latency",
        "cpu_s_per_request" => "processor time per request",
        other => other,
    }
}

/// Describes the outcome; `is_shared` is true if the sides have names of runs in common.
fn outcome_sentence(outcome: ResultOutcome, rows: &[ResultRow], is_shared: bool) -> String {
    if rows.is_empty() && is_shared {
        return "The runs that the results have in common were stopped before their end.".into();
    }
    if rows.is_empty() {
        return "The results have no run in common.".into();
    }
    let judged = rows.iter().filter(|r| r.noise.is_some()).count();
    let beyond_noise = |better: bool| rows.iter().filter(move |r| r.noise == Some(false) && r.better == better);
    let log_change = |r: &&ResultRow| r.ratio.map_or(0.0, |ratio| ratio.max(1e-9).ln().abs());
    let largest = |better| {
        let row = beyond_noise(better).max_by(|a, b| log_change(a).total_cmp(&log_change(b)))?;
        let ratio_text =
            row.ratio.map_or(String::new(), |r| format!(", x {}", diskwright_base::units::format_significant(r)));
        Some(format!("most in {} of {}{ratio_text}", quantity_label(row.counter), row.instance))
    };
    let summary = |better: bool, word: &str| {
        let count = beyond_noise(better).count();
        largest(better).map(|largest| format!("{count} of {judged} figures {word} beyond noise ({largest})"))
    };
    match outcome {
        ResultOutcome::Helped => format!("The second is better: {}.", summary(true, "are better").unwrap_or_default()),
        ResultOutcome::Worse => format!("The second is worse: {}.", summary(false, "are worse").unwrap_or_default()),
        ResultOutcome::Mixed => {
            let good = summary(true, "are better").unwrap_or_default();
            let bad = summary(false, "worse").unwrap_or_default();
            format!("Better and worse: {good}, {bad}.")
        }
        ResultOutcome::Unchanged => format!("No difference beyond noise in {judged} figures."),
        ResultOutcome::Unclear => "Single runs do not show noise: measure each side with --repeat 5.".into(),
    }
}

/// Summarizes a side.
fn summarize_side(documents: &[ResultFile<'_>]) -> ResultSide {
    let field_values = |field: fn(&ProbeDocument) -> &str| {
        let mut values: Vec<String> = documents.iter().map(|(_, d)| field(d).to_owned()).collect();
        values.dedup();
        values
    };
    ResultSide {
        files: documents.iter().map(|(file, _)| (*file).to_owned()).collect(),
        suites: field_values(|d| &d.suite),
        targets: field_values(|d| &d.target),
        devices: field_values(|d| &d.device.key),
        started: field_values(|d| &d.started),
    }
}

#[cfg(test)]
mod tests;

//! Compares two windows: counter by counter, with intervals that take the autocorrelation of samples into account, the
//! verdict on each window, and whether the change between them helped.
//!
//! A comparison has an error rate of 5 %: half of it for the tests that its answer depends on (the load, the response
//! time, the response time at equal load, the blamed counters), half for all other counters. Each interval has the
//! level at which its own difference was tested, so that it excludes 0 exactly where the difference is significant.
//! Kills, which are counts and no means, are tested beside them.
//!
//! Uses `rules`, `sums`, `compile` and the verdicts of `answer`.

mod answer_quantities;
mod change_outcome;
mod comparison_text;
mod counter_window;
mod database_change;
mod device_change;
mod equal_load;
mod kill_change;
mod limit_change;
mod program_change;
mod program_window;

use std::collections::HashSet;

use diskwright_base::catalogue::display_unit;

use diskwright_statistics::multiple_tests::{TestResult, test_by_holm};
use diskwright_statistics::{Bounds, Contrast, ERROR_RATE, MeanVariance, contrast};
use serde::Serialize;

use crate::answer::Verdict;
use answer_quantities::{AnswerQuantities, AnswerRows};
pub use answer_quantities::{ChangeDirection, QuantityChange};
pub use change_outcome::ChangeOutcome;
use comparison_text::DecidedBy;
use counter_window::WindowMean;
pub use counter_window::{ALL_INSTANCES, CounterWindow};
pub use database_change::DatabaseChange;
pub use device_change::DeviceChange;
use device_change::DeviceTests;
use equal_load::EqualLoadResult;
pub use equal_load::{EqualLoad, RequestChanges};
pub use kill_change::KillChange;
pub use limit_change::ExceededLimit;
pub use program_change::ProgramChange;

/// A mean whose interval reaches beyond ten times its value counts as unknown.
const MAX_KNOWN_FACTOR: f64 = 10.0;
/// Name of the contract.
pub const SCHEMA: &str = "diskwright.compare/1";
/// Error rate of each half of the tests.
const HALF_ERROR_RATE: f64 = ERROR_RATE / 2.0;

/// The comparison: the JSON contract `diskwright.compare/1`, field by field.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WindowComparison {
    /// `diskwright.compare/1`.
    pub schema: &'static str,
    /// Effect of the change.
    pub outcome: ChangeOutcome,
    /// The answer in words.
    pub sentence: String,
    /// Load and response time of all disks together, or the load of all links.
    #[serde(flatten)]
    pub requests: RequestChanges,
    /// Each disk judged by itself, the one in question first: what a verdict blames, or what changed most. Where the
    /// answer depends on disks, the first decides, and not the sums over all disks above.
    pub devices: Vec<DeviceChange>,
    /// Blamed counters, where the answer does not depend on the disks' response time.
    pub goals: Vec<QuantityChange>,
    /// Programs that share what the first verdict blames, the largest users first; empty where it blames neither
    /// processors nor disks, or the logs have no tables of processes.
    pub programs: Vec<ProgramChange>,
    /// Why `programs` does not show which programs got more and which got less: there are too few process tables. Else
    /// missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub programs_missing: Option<String>,
    /// Database servers whose sessions waited in the first window.
    pub databases: Vec<DatabaseChange>,
    /// Programs that were killed because memory ran out, by cgroup; empty where neither window had a kill.
    pub kills: Vec<KillChange>,
    /// The limit that held a cgroup back in the first window, if the group does more in the second than it allowed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exceeded_limit: Option<ExceededLimit>,
    /// Number of tests; significance is adjusted for that number.
    pub questions: usize,
    /// Counters of both windows.
    pub counters: Vec<ComparisonRow>,
    /// Counters and instances that only the first window has.
    pub only_before: Vec<CounterInstance>,
    /// Counters and instances that only the second window has.
    pub only_after: Vec<CounterInstance>,
    /// Number of series beyond the limit.
    pub left_out: usize,
    /// The verdict on the first window.
    pub before: Verdict,
    /// The verdict on the second.
    pub after: Verdict,
}

/// A counter of an instance.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CounterInstance {
    /// Its id.
    pub counter: String,
    /// Instance; `*` for all disks or links together.
    pub instance: String,
}

/// A counter of an instance in both windows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ComparisonRow {
    /// Its id.
    pub counter: String,
    /// Instance; `*` for all disks or links together.
    pub instance: String,
    /// Unit of all values.
    pub unit: String,
    /// The first window.
    pub before: MeanEstimate,
    /// The second.
    pub after: MeanEstimate,
    /// The second mean less the first.
    pub difference: f64,
    /// Lower end of its interval at `level`; `null` where it is unknown.
    pub difference_low: Option<f64>,
    /// Upper end.
    pub difference_high: Option<f64>,
    /// The second mean over the first; `null` where that is 0.
    pub ratio: Option<f64>,
    /// Lower end of its interval at `level`; `null` where it is unknown.
    pub ratio_low: Option<f64>,
    /// Upper end.
    pub ratio_high: Option<f64>,
    /// Error rate of the intervals of difference and ratio: the level at which this difference was tested among all
    /// others.
    pub level: Option<f64>,
    /// Probability that noise alone makes any counter differ as much; `null` where it is unknown.
    pub significance: Option<f64>,
    /// True where the difference may be noise; `null` where that is unknown.
    pub noise: Option<bool>,
}

impl ComparisonRow {
    /// Unit in which screens show the values; see [`display_unit`].
    pub fn display_unit(&self) -> &str {
        display_unit(&self.counter, &self.unit)
    }
}

/// A mean with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct MeanEstimate {
    /// Mean over the window, weighted as the counter's kind demands.
    pub mean: f64,
    /// Lower end; `null` where there are too few ticks.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
}

impl MeanEstimate {
    fn from_variance(value: f64, variance: Option<&MeanVariance>, bounds: Bounds) -> MeanEstimate {
        let (low, high) =
            variance.map_or((f64::NAN, f64::NAN), |mean| contrast::mean_interval(mean, bounds, ERROR_RATE));
        // an interval that is open or extremely wide says nothing
        let is_known = low.is_finite() && high.is_finite() && high <= MAX_KNOWN_FACTOR * value.abs().max(low.abs());
        MeanEstimate { mean: value, low: is_known.then_some(low), high: is_known.then_some(high) }
    }
}

/// A difference that is tested.
pub(crate) struct TestedDifference {
    /// `None` where it is unknown.
    contrast: Option<Contrast>,
    /// True where the answer depends on it.
    is_leading: bool,
    /// Result of its test among all others.
    test_result: TestResult,
}

impl TestedDifference {
    fn from_contrast(contrast: Option<Contrast>) -> TestedDifference {
        let contrast = contrast.filter(Contrast::is_known);
        TestedDifference {
            contrast,
            is_leading: false,
            test_result: TestResult { adjusted_p_value: f64::NAN, level: ERROR_RATE },
        }
    }

    fn p_value(&self) -> f64 {
        self.contrast.as_ref().filter(|c| !c.is_same()).map_or(f64::NAN, Contrast::p_value)
    }

    /// Probability that noise alone gives such a difference anywhere in the comparison.
    fn adjusted_p_value(&self) -> Option<f64> {
        let contrast = self.contrast.as_ref()?;
        // two equal constants were not tested
        Some(if contrast.is_same() {
            1.0
        } else {
            (self.test_result.adjusted_p_value * ERROR_RATE / HALF_ERROR_RATE).min(1.0)
        })
    }

    /// True where the difference may be noise. `None` also where it may be noise or very large: the windows vary too
    /// much to tell these apart.
    fn is_noise(&self) -> Option<bool> {
        let noise = self.adjusted_p_value()? >= ERROR_RATE;
        (!noise || !self.is_open()).then_some(noise)
    }

    /// True where the second mean may be a small part of the first as well as many times of it.
    fn is_open(&self) -> bool {
        let ratio = self.contrast.as_ref().and_then(|c| c.ratio_interval(self.test_result.level));
        ratio.is_some_and(|(low, high)| high > MAX_KNOWN_FACTOR * MAX_KNOWN_FACTOR * low)
    }
}

/// Compares the second window with the first.
pub fn compare_windows(
    first: &CounterWindow,
    second: &CounterWindow,
    before: Verdict,
    after: Verdict,
) -> WindowComparison {
    let (mut counters, mut tests) = comparison_rows(first, second);
    let (windows, verdicts) = ([first, second], [&before, &after]);
    let picked = AnswerRows::select_rows(&counters, &before, &after);
    let devices = DeviceTests::select_devices(windows, &counters, verdicts, &mut tests);
    let depends_on_devices = picked.response.is_some() && picked.goals.is_empty() && !devices.is_empty();
    let equal = picked.response.map(|row| {
        let disk = answer_quantities::disks_instance(first);
        equal_load::compare_at_equal_load(windows, &counters[row], disk)
    });
    let sums = tests.len();
    tests.extend(sum_tests(windows, picked.response.is_some(), equal.as_ref()));
    if !depends_on_devices {
        lead_by_sums(&mut tests, &picked, sums);
    }
    let programs = program_change::select_programs(windows, &before, &mut tests);
    let databases = database_change::select_databases(windows, &counters, &mut tests);
    let count = test_differences(&mut tests);
    for (row, test) in counters.iter_mut().zip(&tests) {
        fill_row(row, test);
    }
    let mut quantities = AnswerQuantities::from_rows(&counters, &picked, &tests[sums]);
    let equal = equal.map(|equal| equal.map(|equal| equal.into_equal_load(&tests[sums + 1]))).transpose();
    let (equal_load, equal_load_missing) = equal.map_or_else(|reason| (None, Some(reason)), |equal| (equal, None));
    let devices = device_change::judge_devices(devices, &counters, &tests, verdicts);
    let of_devices = device_change::outcome_of_devices(&devices).filter(|_| depends_on_devices);
    let of_machine =
        of_devices.unwrap_or_else(|| change_outcome::judge_change(&quantities, equal_load.as_ref(), &before, &after));
    let programs = program_change::judge_programs(programs, &tests);
    let databases = database_change::judge_databases(databases, &counters, &tests);
    let (kills, limit) =
        (kill_change::judge_kills(windows, verdicts), limit_change::find_exceeded_limit(windows, verdicts));
    let (outcome, decided_by) = decide_outcome(of_machine, &programs, &databases, (&kills, limit.as_ref()));
    let mut comparison = WindowComparison {
        schema: SCHEMA,
        outcome,
        sentence: String::new(),
        goals: std::mem::take(&mut quantities.goals),
        requests: RequestChanges::new(quantities, (equal_load, equal_load_missing)),
        devices,
        programs_missing: program_change::too_few_tables(windows, &programs),
        programs,
        databases,
        kills,
        exceeded_limit: limit,
        questions: count,
        counters,
        only_before: counters_only_in(first, second),
        only_after: counters_only_in(second, first),
        left_out: first.left_out + second.left_out,
        before,
        after,
    };
    comparison.sentence = comparison_text::comparison_sentence(&comparison, of_devices.is_some(), decided_by);
    comparison
}

/// Makes the sums over all disks lead, whose tests begin at `sums`. They decide only where no disk does.
fn lead_by_sums(tests: &mut [TestedDifference], picked: &AnswerRows, sums: usize) {
    tests[..sums].iter_mut().for_each(|test| test.is_leading = false);
    picked.row_indices().chain([sums, sums + 1]).for_each(|test| tests[test].is_leading = true);
}

/// The outcome, and what decides it: what is nearest to those who wait.
fn decide_outcome(
    of_machine: ChangeOutcome,
    programs: &[ProgramChange],
    databases: &[DatabaseChange],
    (kills, limit): (&[KillChange], Option<&ExceededLimit>),
) -> (ChangeOutcome, DecidedBy) {
    if let Some(outcome) = database_change::outcome_of_databases(databases) {
        return (outcome, DecidedBy::Databases);
    }
    if let Some(outcome) = kill_change::outcome_of_kills(kills) {
        return (outcome, DecidedBy::Kills);
    }
    if limit.is_some() {
        return (ChangeOutcome::Helped, DecidedBy::Limit);
    }
    match program_change::outcome_beside_machine(programs, of_machine) {
        Some(outcome) => (outcome, DecidedBy::Programs),
        // kills that may have ended are a difference that the other counters do not show
        None if of_machine == ChangeOutcome::Unchanged && kills.iter().any(|kill| kill.needed_s.is_some()) => {
            (ChangeOutcome::Unclear, DecidedBy::Counters)
        }
        None => (of_machine, DecidedBy::Counters),
    }
}

/// The tests of all disks together: the share of reads, and the response time at equal load.
fn sum_tests(
    [first, second]: [&CounterWindow; 2],
    has_response: bool,
    equal: Option<&Result<EqualLoadResult, String>>,
) -> [TestedDifference; 2] {
    let share = match has_response {
        true => answer_quantities::compare_read_share(first, second, answer_quantities::disks_instance(first)),
        false => TestedDifference::from_contrast(None),
    };
    let equal = equal.and_then(|equal| Some(equal.as_ref().ok()?.contrast));
    [share, TestedDifference::from_contrast(equal)]
}

/// For each difference, the index of the first one that is the same. A difference under two names, or in two units, has
/// exactly the same p-value, because a p-value has no unit. P-values of 0 and 1 do not identify a difference.
fn first_of_same(differences: &[TestedDifference]) -> Vec<usize> {
    let p_value = |index: usize| differences[index].p_value();
    let mut first_of: Vec<usize> = (0..differences.len()).collect();
    let mut sorted: Vec<usize> = first_of.iter().copied().filter(|&q| p_value(q) > 0.0 && p_value(q) < 1.0).collect();
    // stable, so that the first of equal differences comes first
    sorted.sort_by(|&a, &b| p_value(a).total_cmp(&p_value(b)));
    for pair in sorted.windows(2) {
        if p_value(pair[0]) == p_value(pair[1]) {
            first_of[pair[1]] = first_of[pair[0]];
        }
    }
    first_of
}

/// Tests all differences, leading ones separately from the others, and returns the number of tests. Equal differences
/// are tested once, among the leading ones if any of them is leading.
fn test_differences(differences: &mut [TestedDifference]) -> usize {
    let first_of = first_of_same(differences);
    let mut leads = vec![false; differences.len()];
    for (difference, &first) in differences.iter().zip(&first_of) {
        leads[first] |= difference.is_leading;
    }
    for (difference, &first) in differences.iter_mut().zip(&first_of) {
        difference.is_leading = leads[first];
    }
    let mut count = 0;
    for leading in [true, false] {
        let is_tested = |index: usize| first_of[index] == index && leads[index] == leading;
        let p_values: Vec<f64> = (0..differences.len())
            .map(|index| if is_tested(index) { differences[index].p_value() } else { f64::NAN })
            .collect();
        let results = test_by_holm(&p_values, HALF_ERROR_RATE);
        for (difference, &first) in differences.iter_mut().zip(&first_of).filter(|(q, _)| q.is_leading == leading) {
            difference.test_result = results[first];
        }
        count += p_values.iter().filter(|p| !p.is_nan()).count();
    }
    count
}

/// Fills a row with the result of its test.
fn fill_row(row: &mut ComparisonRow, question: &TestedDifference) {
    let Some(contrast) = &question.contrast else { return };
    let (low, high) = contrast.difference_interval(question.test_result.level);
    if contrast.is_same() {
        row.difference = 0.0;
    }
    row.significance = question.adjusted_p_value();
    row.noise = question.is_noise();
    row.level = Some(question.test_result.level);
    if row.noise.is_none() {
        return;
    }
    // with few independent values an end may be infinite
    let finite = |v: f64| Some(v).filter(|v| v.is_finite());
    (row.difference_low, row.difference_high) = (finite(low), finite(high));
    let ratio = contrast.ratio_interval(question.test_result.level);
    (row.ratio_low, row.ratio_high) = (ratio.and_then(|r| finite(r.0)), ratio.and_then(|r| finite(r.1)));
}

/// Rows of the counters that both windows have, each with its difference to be tested.
fn comparison_rows(first: &CounterWindow, second: &CounterWindow) -> (Vec<ComparisonRow>, Vec<TestedDifference>) {
    let (mut rows, mut questions) = (Vec::new(), Vec::new());
    for counter in first.counters() {
        let Some(same) = second.find_counter(&counter.counter, &counter.instance) else { continue };
        let (Some(a), Some(b)) = (counter.window_mean(), same.window_mean()) else { continue };
        let bounds = counter_bounds(&counter.unit, &a, &b);
        let contrast = a.variance.as_ref().zip(b.variance.as_ref()).map(|(a, b)| Contrast::compare_means(a, b, bounds));
        questions.push(TestedDifference::from_contrast(contrast));
        rows.push(ComparisonRow {
            counter: counter.counter.clone(),
            instance: counter.instance.clone(),
            unit: counter.unit.clone(),
            before: MeanEstimate::from_variance(a.mean, a.variance.as_ref(), bounds),
            after: MeanEstimate::from_variance(b.mean, b.variance.as_ref(), bounds),
            difference: b.mean - a.mean,
            difference_low: None,
            difference_high: None,
            ratio: (a.mean != 0.0).then(|| b.mean / a.mean),
            ratio_low: None,
            ratio_high: None,
            level: None,
            significance: None,
            noise: None,
        });
    }
    (rows, questions)
}

/// Possible values of a counter, judged by its values: one that was never below 0 cannot be negative, and a fraction
/// that was never above 1 cannot exceed 1.
fn counter_bounds(unit: &str, a: &WindowMean, b: &WindowMean) -> Bounds {
    let (low, high) = (a.range.0.min(b.range.0), a.range.1.max(b.range.1));
    if low < 0.0 {
        Bounds::NONE
    } else if unit == "fraction" && high <= 1.0 {
        Bounds::SHARE
    } else {
        Bounds::POSITIVE
    }
}

/// Counters that one window has and the other lacks or never had a value of.
fn counters_only_in(window: &CounterWindow, other: &CounterWindow) -> Vec<CounterInstance> {
    let measured = |w: &CounterWindow| -> Vec<(String, String)> {
        let with_value = w.counters().iter().filter(|s| s.window_mean().is_some());
        with_value.map(|s| (s.counter.clone(), s.instance.clone())).collect()
    };
    let others: HashSet<_> = measured(other).into_iter().collect();
    let named = |(counter, instance): (String, String)| CounterInstance { counter, instance };
    measured(window).into_iter().filter(|key| !others.contains(key)).map(named).collect()
}

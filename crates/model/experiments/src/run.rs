//! From rows to outcomes: simulates the required systems, each once, and compares the results with published values.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::SearchError;
use crate::document::{ExperimentDocument, FitParameter, PublishedRow, RowUse};
use crate::fit;
use crate::judge::{self, RowOutcome};
use crate::numbers::Numbers;

/// Numbers of a simulation, or the reason why there are none.
pub type SimulationResult = Result<Numbers, String>;

/// A system and the settings that differ from its description.
#[derive(Clone, Debug, PartialEq)]
pub struct Variant {
    /// `experiments/systems/NAME.toml`.
    pub system: String,
    /// Keys and values, as for `simulate --set`; for a repeated key the last value counts.
    pub settings: Vec<(String, String)>,
    /// Number of simulations, each with another seed; the numbers are their means.
    pub repeat: u32,
}

/// Simulates variants, several in parallel.
#[derive(Clone, Copy)]
pub struct VariantRunner<'a> {
    /// Simulates a variant.
    pub simulate: &'a (dyn Fn(&Variant) -> SimulationResult + Sync),
    /// Number of parallel simulations.
    pub threads: usize,
}

/// Returns the variant of a run: its system, the document's fitted parameters for that system, then the run's own
/// settings.
fn run_variant(document: &ExperimentDocument, run: &str) -> Option<Variant> {
    let run = document.runs.get(run)?;
    let fitted_settings = document.fits.iter().flat_map(|parameter| {
        let keys = parameter.keys.iter().filter_map(|key| key.split_once(':'));
        let keys_of_system = keys.filter(|(system, _)| *system == run.system);
        keys_of_system.map(|(_, key)| (key.to_owned(), format_value(parameter)))
    });
    let run_settings = run.set.iter().map(|(key, value)| (key.clone(), value.to_string()));
    let settings = fitted_settings.chain(run_settings).collect();
    Some(Variant { system: run.system.clone(), settings, repeat: run.repeat })
}

/// Formats a parameter's value for a description.
fn format_value(parameter: &FitParameter) -> String {
    let value = if parameter.is_integer { parameter.value.round() } else { parameter.value };
    // TOML distinguishes 3 and 3.0
    let number = if parameter.is_integer || !parameter.value_format.is_empty() {
        value.to_string()
    } else {
        format!("{value:?}")
    };
    if parameter.value_format.is_empty() { number } else { parameter.value_format.replace("{}", &number) }
}

/// Simulates the rows of a document that `is_selected` selects, and returns their outcomes in order. The outcomes of
/// the rows report a failed simulation.
pub fn simulate_document(
    runner: &VariantRunner,
    document: &ExperimentDocument,
    is_selected: impl Fn(&PublishedRow) -> bool,
) -> Vec<RowOutcome> {
    let rows: Vec<&PublishedRow> = document.rows.iter().filter(|row| is_selected(row)).collect();
    let runs = rows.iter().flat_map(|row| row.run_names());
    let variants = runs.filter_map(|run| run_variant(document, run).map(|variant| (run, variant))).collect();
    let simulated = simulate_all(runner, &variants);
    rows.into_iter().map(|row| row_outcome(document, row, &simulated)).collect()
}

fn row_outcome(
    document: &ExperimentDocument,
    row: &PublishedRow,
    simulated: &BTreeMap<&str, SimulationResult>,
) -> RowOutcome {
    let lookup = |run: &str, path: &str| match simulated.get(run) {
        Some(Ok(numbers)) => numbers.get(path).map_err(|error| format!("run {run}: {error}")),
        Some(Err(error)) => Err(format!("run {run}: {error}")),
        None => Err(format!("run {run} was not simulated")),
    };
    let value = match &row.measure {
        Some(measure) => measure.evaluate(&lookup).map(|value| value / unit_factor(&row.unit)),
        None => Err(row.because.clone()),
    };
    let comparisons: Result<Vec<bool>, String> = row.holds.iter().map(|test| test.is_true(&lookup)).collect();
    let comparisons = comparisons.ok().filter(|results| !results.is_empty());
    let holds = comparisons.map(|results| (results.iter().filter(|holds| **holds).count(), results.len()));
    judge::judge_row(document, row, value, holds)
}

/// Returns the size of a row's unit in SI units.
fn unit_factor(unit: &str) -> f64 {
    match unit {
        "%" => 0.01,
        "KB" => 1024.0,
        "MB/s" => 1e6,
        _ => 1.0,
    }
}

/// Simulates each variant once, even if several runs share it.
fn simulate_all<'a>(
    runner: &VariantRunner,
    variants: &BTreeMap<&'a str, Variant>,
) -> BTreeMap<&'a str, SimulationResult> {
    let mut distinct: Vec<&Variant> = Vec::new();
    for variant in variants.values() {
        if !distinct.contains(&variant) {
            distinct.push(variant);
        }
    }
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<Option<SimulationResult>>> = Mutex::new(vec![None; distinct.len()]);
    let (simulate, queue) = (runner.simulate, &distinct);
    let work = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(variant) = queue.get(index) else { break };
            let numbers = simulate_repeated(simulate, variant);
            // the lock is poisoned only if a simulation panicked, which ends the scope anyway
            results.lock().unwrap_or_else(PoisonError::into_inner)[index] = Some(numbers);
        }
    };
    std::thread::scope(|scope| {
        let threads = 0..runner.threads.clamp(1, distinct.len().max(1));
        let started = threads.filter(|_| std::thread::Builder::new().spawn_scoped(scope, work).is_ok()).count();
        if started == 0 {
            work();
        }
    });
    let results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    let find_result = |variant: &Variant| {
        distinct.iter().position(|known| *known == variant).and_then(|index| results[index].clone())
    };
    variants.iter().filter_map(|(run, variant)| find_result(variant).map(|numbers| (*run, numbers))).collect()
}

/// Returns the means over a variant's repetitions.
fn simulate_repeated(simulate: &(dyn Fn(&Variant) -> SimulationResult + Sync), variant: &Variant) -> SimulationResult {
    if variant.repeat <= 1 {
        return simulate(variant);
    }
    let mut results = Vec::new();
    for seed in 1..=variant.repeat {
        let mut settings = variant.settings.clone();
        settings.push(("watch.seed".into(), seed.to_string()));
        results.push(simulate(&Variant { settings, repeat: 1, ..variant.clone() })?);
    }
    Ok(Numbers::mean_of_runs(&results))
}

/// A parameter before and after a search.
#[derive(Clone, Debug, PartialEq)]
pub struct FitResult {
    /// Its name.
    pub name: String,
    /// Value in the data.
    pub before: f64,
    /// Value found.
    pub after: f64,
}

/// Searches the free parameters of a document that minimize the squared errors of the fit rows that set them:
/// parameters that share rows are searched together, the others one after the other, in two rounds. No other row is
/// simulated.
/// Returns the parameters and the root mean square error.
///
/// # Errors
/// Fails if a row cannot be simulated.
pub fn search_parameters(
    runner: &VariantRunner,
    original: &ExperimentDocument,
    max_evaluations: usize,
) -> Result<(Vec<FitResult>, f64), SearchError> {
    let mut trial = original.clone();
    for _ in 0..SEARCH_ROUNDS {
        for group in parameter_groups(original) {
            search_group(runner, &mut trial, &group, max_evaluations)?;
        }
    }
    let rows: Vec<&String> = original.fits.iter().flat_map(|fitted| &fitted.rows).collect();
    let outcomes = simulate_document(runner, &trial, |row| rows.contains(&&row.id));
    // rounded as it was simulated
    let simulated_value = |fitted: &FitParameter| if fitted.is_integer { fitted.value.round() } else { fitted.value };
    let results = original.fits.iter().zip(&trial.fits).map(|(parameter, fitted)| FitResult {
        name: parameter.name.clone(),
        before: parameter.value,
        after: simulated_value(fitted),
    });
    Ok((results.collect(), mean_square(&outcomes).sqrt()))
}

/// Number of rounds over the groups: one group's rows may depend on another's parameters.
const SEARCH_ROUNDS: usize = 2;

/// Groups the positions of parameters that share rows.
fn parameter_groups(document: &ExperimentDocument) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (index, parameter) in document.fits.iter().enumerate().filter(|(_, f)| !f.worked_out) {
        let shares_row =
            |other_index: &usize| document.fits[*other_index].rows.iter().any(|row| parameter.rows.contains(row));
        match groups.iter_mut().find(|group| group.iter().any(shares_row)) {
            Some(group) => group.push(index),
            None => groups.push(vec![index]),
        }
    }
    groups
}

fn search_group(
    runner: &VariantRunner,
    trial: &mut ExperimentDocument,
    group: &[usize],
    max_evaluations: usize,
) -> Result<(), SearchError> {
    let rows: Vec<String> = group.iter().flat_map(|index| trial.fits[*index].rows.clone()).collect();
    let start: Vec<f64> = group.iter().map(|index| trial.fits[*index].value).collect();
    let bounds: Vec<[f64; 2]> = group.iter().map(|index| trial.fits[*index].range).collect();
    let mut failure = None;
    let (point, squares) = fit::minimize_within_bounds(&start, &bounds, max_evaluations, |point| {
        for (index, value) in group.iter().zip(point) {
            trial.fits[*index].value = *value;
        }
        let outcomes = simulate_document(runner, trial, |row| row.usage == RowUse::Fit && rows.contains(&row.id));
        if failure.is_none() {
            failure = outcomes.iter().find_map(|o| o.failure.as_ref().map(|reason| (o.id.clone(), reason.clone())));
        }
        mean_square(&outcomes)
    });
    for (index, value) in group.iter().zip(&point) {
        trial.fits[*index].value = *value;
    }
    match failure {
        Some((row, reason)) if !squares.is_finite() => Err(SearchError::new(&trial.doc, format!("row {row}"), reason)),
        _ => Ok(()),
    }
}

/// Mean square of the errors, with a percentage point as 0.01; NaN if a row has none.
fn mean_square(outcomes: &[RowOutcome]) -> f64 {
    let squares = outcomes.iter().map(|o| (o.error.unwrap_or(f64::NAN) * if o.gain { 0.01 } else { 1.0 }).powi(2));
    squares.sum::<f64>() / outcomes.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str = r#"
doc = "009"
title = "Made up"
[runs]
one = { system = "small" }
two = { system = "small", set = { "disk.count" = 2 } }
[[fit]]
name = "rate"
value = 3.0
range = [1.0, 50.0]
rows = ["A"]
keys = ["small:host.rate"]
because = "a test"
[[row]]
id = "A"
what = "one"
published = 20.0
unit = "/s"
use = "fit"
measure = "one:rate"
[[row]]
id = "B"
what = "gain"
published = 90.0
unit = "%"
gain = true
use = "predict"
baseline = { value = 100.0, because = "ideal" }
measure = "two:rate / one:rate - 1"
[[row]]
id = "C"
what = "order"
unit = ""
use = "shape"
holds = ["two:rate > one:rate", "one:rate > two:rate"]
"#;
    /// Simulates a system whose rate is the host's rate times its number of drives to the power of 0.9.
    fn simulate(variant: &Variant) -> SimulationResult {
        let of = |wanted: &str| variant.settings.iter().rev().find(|(key, _)| key == wanted).map(|(_, v)| v.parse());
        let number = |key: &str, usual: f64| of(key).unwrap_or(Ok(usual)).map_err(|_| format!("{key} is not a number"));
        if variant.system != "small" {
            return Err(format!("there is no system `{}`", variant.system));
        }
        let mut numbers = Numbers::default();
        numbers.insert("rate", number("host.rate", 0.0)? * number("disk.count", 1.0)?.powf(0.9));
        Ok(numbers)
    }

    const BENCH: VariantRunner<'static> = VariantRunner { simulate: &simulate, threads: 2 };

    #[test]
    fn rows_are_judged() {
        let read = ExperimentDocument::read("009", DOCUMENT).unwrap();
        let outcomes = simulate_document(&BENCH, &read, |_| true);
        assert_eq!(outcomes[0].simulated, Some(3.0));
        assert!((outcomes[1].simulated.unwrap() - 86.6).abs() < 0.1 && outcomes[1].error.unwrap() < 3.5);
        assert_eq!(outcomes[1].baseline_error, Some(10.0));
        assert_eq!((outcomes[2].holds, outcomes[2].simulated), (Some((1, 2)), None));
    }

    #[test]
    fn a_run_is_repeated_with_other_seeds() {
        let simulate = |variant: &Variant| {
            let seed = variant.settings.iter().rev().find(|(key, _)| key == "watch.seed").expect("a seed");
            let mut numbers = Numbers::default();
            numbers.insert("rate", seed.1.parse().unwrap());
            Ok(numbers)
        };
        let bench = VariantRunner { simulate: &simulate, threads: 2 };
        let text = DOCUMENT.replacen("one = { system", "one = { repeat = 4, system", 1);
        let read = ExperimentDocument::read("009", &text).unwrap();
        assert_eq!(simulate_document(&bench, &read, |row| row.id == "A")[0].simulated, Some(2.5));
        let error =
            ExperimentDocument::read("009", &DOCUMENT.replacen("one = { system", "one = { repeat = 0, system", 1));
        assert!(error.unwrap_err().to_string().contains("repeat"));
    }

    #[test]
    fn a_search_moves_parameters_by_their_fit_rows() {
        let read = ExperimentDocument::read("009", DOCUMENT).unwrap();
        let (found, error) = search_parameters(&BENCH, &read, 200).unwrap();
        assert!((found[0].after - 20.0).abs() < 0.05 && error < 0.003, "{found:?} {error}");
        assert_eq!(found[0].before, 3.0);
        // integer parameters are reported as integers
        let text = DOCUMENT.replacen("value = 3.0", "value = 3.0\nwhole = true", 1);
        let (found, _) = search_parameters(&BENCH, &ExperimentDocument::read("009", &text).unwrap(), 200).unwrap();
        assert_eq!(found[0].after.fract(), 0.0, "{found:?}");
    }

    #[test]
    fn rejects_inconsistent_documents() {
        let cases = [
            ("rows = [\"A\"]", "rows = [\"B\"]", "must not set anything"),
            ("two:rate / one", "four:rate / one", "names run `four`"),
            ("value = 3.0", "value = 0.5", "outside its range"),
            ("use = \"fit\"", "use = \"fitted\"", "`use` cannot be `fitted`; it takes fit, predict"),
            ("id = \"B\"", "id = \"A\"", "exists already"),
            ("published = 20.0\n", "", "`published` is missing"),
            ("measure = \"one:rate\"", "measure = \"one:\"", "expected a path"),
        ];
        for (from, to, expected) in cases {
            let error =
                ExperimentDocument::read("009.toml", &DOCUMENT.replacen(from, to, 1)).expect_err(to).to_string();
            assert!(error.contains(expected) && error.starts_with("009.toml"), "{to}: {error}");
        }
    }

    #[test]
    fn simulation_failures_are_reported_with_their_rows() {
        let text = DOCUMENT.replacen("one = { system = \"small\" }", "one = { system = \"large\" }", 1);
        let read = ExperimentDocument::read("009", &text).unwrap();
        let outcomes = simulate_document(&BENCH, &read, |_| true);
        let failed = |index: usize| outcomes[index].failure.clone();
        assert_eq!(failed(0), Some("run one: there is no system `large`".to_owned()));
        assert_eq!((failed(0), outcomes[1].simulated, outcomes[2].holds), (failed(1), None, None));
        assert!(search_parameters(&BENCH, &read, 9).unwrap_err().to_string().contains("row A: run one"));
    }
}

//! From rows to outcomes: which systems are to be simulated, each once, and
//! what stands against print.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use toml::{Table, Value};

use crate::DataError;
use crate::document::{Document, Fitted, Row, Use};
use crate::fit;
use crate::judge::{self, Outcome};
use crate::numbers::Numbers;
use crate::patch;

/// What a simulation of a description gives, or why there is none.
pub type Simulated = Result<Numbers, String>;

/// Where systems come from and what simulates them.
#[derive(Clone, Copy)]
pub struct Bench<'a> {
    /// Text of a system by its name.
    pub system: &'a dyn Fn(&str) -> Option<String>,
    /// Simulates a description; told its name for messages.
    pub simulate: &'a (dyn Fn(&str, &str) -> Simulated + Sync),
    /// Simulations at a time.
    pub threads: usize,
}

/// The text of a run's description: its system, the fitted parameters of the
/// document that stand in it, then what the run itself sets otherwise.
///
/// # Errors
/// Names the key that is not there.
pub fn description(bench: &Bench, file: &str, document: &Document, run: &str) -> Result<String, DataError> {
    let wrong = |message: String| DataError::new(file, format!("run {run}"), message);
    let told = document.runs.get(run).ok_or_else(|| wrong("is not in [runs]".into()))?;
    let text = (bench.system)(&told.system).ok_or_else(|| wrong(format!("there is no system `{}`", told.system)))?;
    let read = |error: toml::de::Error| wrong(format!("system `{}`: {}", told.system, error.message()));
    let mut table: Table = text.parse().map_err(read)?;
    for fitted in &document.fits {
        let keys = fitted.keys.iter().filter_map(|key| key.split_once(':'));
        for (_, path) in keys.filter(|(system, _)| *system == told.system) {
            let put = patch::set(&mut table, path, written(fitted));
            put.map_err(|error| wrong(format!("fit `{}`, key `{path}`: {error}", fitted.name)))?;
        }
    }
    for (path, value) in &told.set {
        patch::set(&mut table, path, value.clone()).map_err(|error| wrong(format!("key `{path}`: {error}")))?;
    }
    toml::to_string(&table).map_err(|error| wrong(error.to_string()))
}

/// A parameter's value as it stands in a description.
fn written(fitted: &Fitted) -> Value {
    let value = if fitted.whole { fitted.value.round() } else { fitted.value };
    if fitted.written.is_empty() {
        return if fitted.whole { Value::Integer(value as i64) } else { Value::Float(value) };
    }
    Value::String(fitted.written.replace("{}", &value.to_string()))
}

/// Outcomes of a document's rows that are wanted, in their order.
///
/// # Errors
/// Where the data do not fit together; a simulation that fails is its row's outcome.
pub fn document(
    bench: &Bench,
    file: &str,
    document: &Document,
    wanted: impl Fn(&Row) -> bool,
) -> Result<Vec<Outcome>, DataError> {
    let rows: Vec<&Row> = document.rows.iter().filter(|row| wanted(row)).collect();
    let mut texts: BTreeMap<&str, String> = BTreeMap::new();
    for run in rows.iter().flat_map(|row| row.runs()) {
        if !texts.contains_key(run) {
            texts.insert(run, description(bench, file, document, run)?);
        }
    }
    let simulated = simulate_all(bench, &texts);
    Ok(rows.into_iter().map(|row| outcome(document, row, &simulated)).collect())
}

fn outcome(document: &Document, row: &Row, simulated: &BTreeMap<&str, Simulated>) -> Outcome {
    let lookup = |run: &str, path: &str| match simulated.get(run) {
        Some(Ok(numbers)) => numbers.get(path).map_err(|error| format!("run {run}: {error}")),
        Some(Err(error)) => Err(format!("run {run}: {error}")),
        None => Err(format!("run {run} was not simulated")),
    };
    let value = match &row.measure {
        Some(measure) => measure.value(&lookup).map(|value| value / unit(&row.unit)),
        None => Err(row.because.clone()),
    };
    let held: Result<Vec<bool>, String> = row.holds.iter().map(|test| test.holds(&lookup)).collect();
    let holds = held.ok().filter(|held| !held.is_empty());
    judge::outcome(document, row, value, holds.map(|held| (held.iter().filter(|h| **h).count(), held.len())))
}

/// One of a row's unit in SI units.
fn unit(unit: &str) -> f64 {
    match unit {
        "%" => 0.01,
        "KB" => 1024.0,
        "MB/s" => 1e6,
        _ => 1.0,
    }
}

/// Simulates each description once, even where several runs have the same.
fn simulate_all<'a>(bench: &Bench, texts: &BTreeMap<&'a str, String>) -> BTreeMap<&'a str, Simulated> {
    let mut distinct: Vec<(&str, &str)> = Vec::new();
    for (run, text) in texts {
        if !distinct.iter().any(|(_, known)| known == text) {
            distinct.push((run, text));
        }
    }
    let next = AtomicUsize::new(0);
    let done: Mutex<BTreeMap<usize, Simulated>> = Mutex::default();
    let simulate = bench.simulate;
    let work = || {
        while let Some((run, text)) = distinct.get(next.fetch_add(1, Ordering::Relaxed)) {
            let numbers = simulate(run, text);
            let at = distinct.iter().position(|(_, known)| known == text).unwrap_or(0);
            // a poisoned lock is one whose simulation panicked, which ends the scope anyway
            done.lock().unwrap_or_else(std::sync::PoisonError::into_inner).insert(at, numbers);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..bench.threads.clamp(1, distinct.len().max(1)) {
            scope.spawn(work);
        }
    });
    let done = done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    let of = |text: &String| distinct.iter().position(|(_, known)| known == text).and_then(|at| done.get(&at));
    texts.iter().filter_map(|(run, text)| of(text).map(|numbers| (*run, numbers.clone()))).collect()
}

/// A parameter before and after a search.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// What it is.
    pub name: String,
    /// As it stands in the data.
    pub before: f64,
    /// As it comes out.
    pub after: f64,
}

/// Searches the named parameters of a document (all if none are named), so
/// that the squares of the errors of the fit rows that set them come to least. No other
/// row is simulated. Returns the parameters and the root mean square error.
///
/// # Errors
/// Where a name is unknown or the data do not fit together.
pub fn search(
    bench: &Bench,
    file: &str,
    original: &Document,
    names: &[String],
    most: usize,
) -> Result<(Vec<Found>, f64), DataError> {
    if let Some(name) = names.iter().find(|name| !original.fits.iter().any(|f| f.name == **name)) {
        return Err(DataError::new(file, format!("fit `{name}`"), "there is no such parameter"));
    }
    let chosen: Vec<usize> =
        (0..original.fits.len()).filter(|at| names.is_empty() || names.contains(&original.fits[*at].name)).collect();
    let rows: Vec<&String> = chosen.iter().flat_map(|at| &original.fits[*at].rows).collect();
    let start: Vec<f64> = chosen.iter().map(|at| original.fits[*at].value).collect();
    let bounds: Vec<[f64; 2]> = chosen.iter().map(|at| original.fits[*at].range).collect();
    let mut trial = original.clone();
    let mut failed = None;
    let (point, squares) = fit::least(&start, &bounds, most, |point| {
        for (at, value) in chosen.iter().zip(point) {
            trial.fits[*at].value = *value;
        }
        let wanted = |row: &Row| row.usage == Use::Fit && rows.contains(&&row.id);
        match document(bench, file, &trial, wanted) {
            Ok(outcomes) => mean_square(&outcomes),
            Err(error) => {
                failed.get_or_insert(error);
                f64::NAN
            }
        }
    });
    if let Some(error) = failed {
        return Err(error);
    }
    let found = chosen.iter().zip(&point).map(|(at, after)| {
        let fitted = &original.fits[*at];
        Found { name: fitted.name.clone(), before: fitted.value, after: *after }
    });
    Ok((found.collect(), squares.sqrt()))
}

/// Mean square of errors, a percentage point as 0.01; NaN where a row has none.
fn mean_square(outcomes: &[Outcome]) -> f64 {
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
two = { system = "small", set = { "drives.disk.count" = 2 } }
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
    const SYSTEM: &str = "[host]\nrate = 0.0\n[[drives]]\nname = \"disk\"\ncount = 1\n";

    /// A system whose rate is the host's rate times its drives to the power of 0.9.
    fn simulate(_: &str, text: &str) -> Simulated {
        let table: Table = text.parse().map_err(|_| "no TOML")?;
        let count = table["drives"][0]["count"].as_integer().ok_or("no count")? as f64;
        let mut numbers = Numbers::default();
        numbers.put("rate", table["host"]["rate"].as_float().ok_or("no rate")? * count.powf(0.9));
        Ok(numbers)
    }

    fn bench() -> Bench<'static> {
        Bench { system: &|name| (name == "small").then(|| SYSTEM.to_owned()), simulate: &simulate, threads: 2 }
    }

    #[test]
    fn rows_are_judged() {
        let read = Document::read("009", DOCUMENT).unwrap();
        let outcomes = document(&bench(), "009", &read, |_| true).unwrap();
        assert_eq!(outcomes[0].simulated, Some(3.0));
        assert!((outcomes[1].simulated.unwrap() - 86.6).abs() < 0.1 && outcomes[1].error.unwrap() < 3.5);
        assert_eq!(outcomes[1].baseline_error, Some(10.0));
        assert_eq!((outcomes[2].holds, outcomes[2].simulated), (Some((1, 2)), None));
    }

    #[test]
    fn a_search_moves_parameters_by_their_fit_rows() {
        let read = Document::read("009", DOCUMENT).unwrap();
        let (found, error) = search(&bench(), "009", &read, &[], 200).unwrap();
        assert!((found[0].after - 20.0).abs() < 0.05 && error < 0.003, "{found:?} {error}");
        assert_eq!(found[0].before, 3.0);
        assert!(search(&bench(), "009", &read, &["other".into()], 9).is_err());
    }

    #[test]
    fn what_does_not_fit_together_is_told() {
        let cases = [
            ("one = { system = \"small\" }", "one = { system = \"large\" }", "no system `large`"),
            ("small:host.rate", "small:hots.rate", "there is no `hots`"),
            ("rows = [\"A\"]", "rows = [\"B\"]", "may set nothing"),
            ("two:rate / one", "four:rate / one", "speaks of run `four`"),
            ("value = 3.0", "value = 0.5", "outside its range"),
            ("use = \"fit\"", "use = \"fitted\"", "unknown variant"),
            ("id = \"B\"", "id = \"A\"", "was there before"),
            ("published = 20.0\n", "", "`published` is missing"),
            ("measure = \"one:rate\"", "measure = \"one:\"", "a path is wanted"),
        ];
        for (from, to, told) in cases {
            let text = DOCUMENT.replacen(from, to, 1);
            let read = Document::read("009.toml", &text);
            let error = read.and_then(|read| document(&bench(), "009.toml", &read, |_| true)).expect_err(to);
            assert!(error.to_string().contains(told), "{to}: {error}");
        }
    }
}

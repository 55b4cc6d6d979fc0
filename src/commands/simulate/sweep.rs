//! `simulate --users 1,2,4` and `--sweep KEY=...`: runs the same system with one value after another, on all cores.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use diskwright_base::units::format_value;
use diskwright_report::{Align, Ink, TextTable, terminal_curves};
use diskwright_simulator::system::read::Setting;
use serde_json::{Value, json};

use super::outcome::{self, SimulationOutcome};
use super::system_run::{read_loaded_system, simulate_system, simulation_progress_bar};
use super::{ChartArguments, charts, document};
use crate::commands::{Failure, output};

/// Maximum number of runs of one sweep: more are no readable curve, and each takes seconds.
const MAX_RUNS: usize = 256;

/// One run of a sweep.
pub struct SweepRun {
    /// The value, as typed.
    pub value: String,
    /// The result.
    pub outcome: SimulationOutcome,
}

/// Runs the sweep.
pub fn run_sweep(
    path: &Path,
    settings: &[Setting],
    key: &str,
    values: &[String],
    pictures: &ChartArguments,
    as_json: bool,
) -> Result<(), Failure> {
    if values.len() > MAX_RUNS {
        let count = values.len();
        return Err(Failure::Usage(format!("{key}: {count} values to run; the limit is {MAX_RUNS}: run it in parts")));
    }
    let runs = run_all(path, settings, key, values)?;
    let name = runs.first().map_or("", |run| run.outcome.system.name.as_str());
    let charts = charts::sweep_charts(key, &runs);
    if pictures.are_given() {
        pictures.write_charts(name, &charts, || charts::sweep_sheet(key, &runs, charts.clone()))?;
    }
    if pictures.write_to_stdout() {
        return Ok(());
    }
    if as_json {
        return output::print_json(&sweep_document(key, &runs));
    }
    for remark in sweep_remarks(key, &runs) {
        output::print_note(remark);
    }
    let style = output::stdout_style();
    let mut out = format!("{}: by {key}\n\n", style.paint(Ink::Bold, &style.clean_text(name)));
    out += &sweep_table(key, &runs).render(&style);
    for chart in &charts {
        out += &format!("\n{}", terminal_curves::draw_curves(chart, &style, 10));
    }
    output::print_text(&out)
}

/// Returns the remarks on runs, each once, with the values that it applies to, unless it applies to all.
pub fn sweep_remarks(key: &str, runs: &[SweepRun]) -> Vec<String> {
    let mut remarks: Vec<(&str, Vec<&str>)> = Vec::new();
    for run in runs {
        for note in &run.outcome.notes {
            match remarks.iter_mut().find(|(known, _)| *known == note.as_str()) {
                Some((_, values)) => values.push(run.value.as_str()),
                None => remarks.push((note.as_str(), vec![run.value.as_str()])),
            }
        }
    }
    let format_remark = |(note, values): (&str, Vec<&str>)| match values.len() == runs.len() {
        true => note.to_owned(),
        false => format!("{key}={}: {note}", values.join(",")),
    };
    remarks.into_iter().map(format_remark).collect()
}

/// Runs all values, in their order.
fn run_all(path: &Path, settings: &[Setting], key: &str, values: &[String]) -> Result<Vec<SweepRun>, Failure> {
    // every description is read before anything runs, so that an error is reported at once
    let mut systems = Vec::with_capacity(values.len());
    for value in values {
        let setting = Setting { key: key.to_owned(), value: value.clone() };
        let settings: Vec<Setting> = settings.iter().cloned().chain([setting]).collect();
        systems.push(Mutex::new(Some(read_loaded_system(path, &settings)?)));
    }
    let bar = simulation_progress_bar(values.len() as u64, "{msg} {wide_bar} {pos}/{len} runs");
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<Result<SimulationOutcome, Failure>>>> =
        values.iter().map(|_| Mutex::new(None)).collect();
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(system) = systems.get(number) else { return };
            let loaded = system.lock().ok().and_then(|mut system| system.take());
            let Some((system, notes)) = loaded else { continue };
            let outcome = simulate_system(system, notes, |_| Ok(()));
            bar.inc(1);
            if let Ok(mut slot) = results[number].lock() {
                *slot = Some(outcome);
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(values.len());
    std::thread::scope(|scope| {
        let started = (0..threads).filter(|_| std::thread::Builder::new().spawn_scoped(scope, work).is_ok()).count();
        if started == 0 {
            work();
        }
    });
    bar.finish_and_clear();
    let mut runs = Vec::with_capacity(values.len());
    for (value, slot) in values.iter().zip(results) {
        let outcome = slot.into_inner().ok().flatten();
        let stopped = || Failure::Failed(format!("the run with {key}={value} did not finish"));
        runs.push(SweepRun { value: value.clone(), outcome: outcome.ok_or_else(stopped)?? });
    }
    Ok(runs)
}

fn sweep_document(key: &str, runs: &[SweepRun]) -> Value {
    let points = runs.iter().map(|run| {
        let mut point = json!({ "value": run.value });
        if let (Value::Object(fields), Value::Object(run_fields)) = (&mut point, document::run_json(&run.outcome)) {
            fields.extend(run_fields);
        }
        point
    });
    let first = runs.first().map(|run| &run.outcome.system);
    json!({
        "schema": "diskwright.simulation/1",
        "name": first.map(|system| &system.name),
        "seed": first.map(|system| system.watch.seed),
        "sweep": { "key": key, "points": points.collect::<Vec<_>>() },
    })
}

/// Builds a table with one row per run and workload.
fn sweep_table(key: &str, runs: &[SweepRun]) -> TextTable {
    let has_several_workloads = runs.iter().any(|run| run.outcome.report.workloads.len() > 1);
    let mut table = TextTable::new().with_column(key, Align::Right);
    if has_several_workloads {
        table = table.with_column("workload", Align::Left);
    }
    for title in ["requests/s", "bytes/s", "response", "95 %"] {
        table = table.with_column(title, Align::Right);
    }
    table = table.with_column("fullest", Align::Left);
    for run in runs {
        let report = &run.outcome.report;
        let fullest = describe_bottleneck(run);
        for workload in &report.workloads {
            let elapsed_s = report.elapsed_s();
            let time = |ns: Option<f64>| ns.map_or("-".to_owned(), |ns| format_value(ns / 1e9, "s"));
            let rate = |amount: u64, unit: &str| match run.outcome.is_measured() {
                true => format_value(amount as f64 / elapsed_s, unit),
                false => "-".to_owned(),
            };
            let mut cells = vec![run.value.clone()];
            if has_several_workloads {
                cells.push(workload.name.clone());
            }
            cells.push(rate(workload.counts.request_count(), "count"));
            cells.push(rate(workload.counts.byte_count(), "bytes_per_s"));
            cells.push(time(workload.responses.mean()));
            cells.push(time(workload.responses.quantile(0.95)));
            cells.push(fullest.clone());
            table.add_row(cells);
        }
    }
    table
}

/// Describes the part of a run's path with the highest utilization.
pub fn describe_bottleneck(run: &SweepRun) -> String {
    match outcome::busiest_component(&run.outcome) {
        Some(part) => format!("{} {}", outcome::component_name(part), format_value(part.utilisation(), "fraction")),
        None if run.outcome.is_measured() => String::new(),
        None => "nothing measured: the load ended within the warm-up".to_owned(),
    }
}

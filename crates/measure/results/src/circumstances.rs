//! Finds other differences between the two sides of a comparison: devices,
//! kernels, schedulers, settings, and runs of one name with different
//! patterns.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::Value;

use crate::compare::{ResultFile, RunsByName};
use crate::document::ProbeDocument;

/// A circumstance that differs between the sides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Circumstance {
    /// Name: `kernel`, `device.scheduler`, `queue.read_ahead_kb`, `pattern.lasts_s`.
    #[serde(rename = "what")]
    pub name: String,
    /// Value on the first side; several are separated by commas.
    pub before: String,
    /// Value on the second side.
    pub after: String,
    /// Runs that it applies to; empty for all.
    pub runs: Vec<String>,
}

/// Returns the known facts of a document by name.
fn document_facts(document: &ProbeDocument) -> BTreeMap<String, String> {
    let (device, machine) = (&document.device, &document.machine);
    let first = |field: fn(&crate::result::RunResult) -> String| document.runs.first().map(field);
    let number = |n: Option<u64>| n.map(|n| n.to_string());
    // a file may contain any numbers
    let counts = document.runs.iter().flat_map(|run| [run.failed, run.short_transfers, run.unanswered]);
    let failed = counts.fold(0, u64::saturating_add);
    let known_facts: [(&str, Option<String>); 24] = [
        ("suite", Some(document.suite.clone())),
        ("target", Some(document.target.clone())),
        ("target_bytes", Some(document.target_bytes.to_string())),
        ("buffered", Some(document.buffered.to_string())),
        ("version", Some(document.version.clone())),
        ("engine", first(|r| r.engine.clone())),
        // failed requests are in no compared figure
        ("failed_requests", Some(failed.to_string())),
        ("device", Some(device.key.clone())),
        ("device.model", device.model.clone()),
        ("device.class", Some(device.class.clone())),
        ("device.bytes", number(device.bytes)),
        ("device.scheduler", device.scheduler.clone()),
        ("device.write_cache", device.write_cache.clone()),
        ("device.queue_requests", number(device.queue_requests.map(u64::from))),
        ("filesystem", device.filesystem.clone()),
        ("mount", device.mount.clone()),
        ("options", device.options.clone()),
        ("host", Some(device.host.clone())),
        ("kernel", Some(device.kernel.clone())),
        ("processors", Some(device.processors.to_string())),
        ("processor", machine.processor.clone()),
        ("governor", machine.governor.clone()),
        ("memory_bytes", number(machine.memory_bytes)),
        ("io_limits", Some(machine.io_limits.join("; "))),
    ];
    let known = known_facts.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    // the scheduler and the queue's requests are already facts of the device
    let queue = machine.queue.iter().filter(|(name, _)| *name != "scheduler" && *name != "nr_requests");
    known.chain(queue.map(|(name, value)| (format!("queue.{name}"), value.clone()))).collect()
}

/// Distinct values by name.
type DistinctValues = BTreeMap<String, BTreeSet<String>>;

/// Collects the facts of all files of a side.
fn collect_values(side: &[ResultFile<'_>]) -> DistinctValues {
    let mut values = DistinctValues::new();
    for (name, value) in side.iter().flat_map(|(_, d)| document_facts(d)) {
        values.entry(name).or_default().insert(value);
    }
    values
}

/// Joins values with commas.
fn join_values(values: Option<&BTreeSet<String>>) -> String {
    let words: Vec<&str> = values.into_iter().flatten().map(|v| if v.is_empty() { "none" } else { v }).collect();
    if words.is_empty() { "unknown".into() } else { words.join(", ") }
}

/// Finds all circumstances that differ.
pub(crate) fn find_circumstances(
    before: &[ResultFile<'_>],
    after: &[ResultFile<'_>],
    runs: [&RunsByName<'_>; 2],
) -> Vec<Circumstance> {
    let (first, second) = (collect_values(before), collect_values(after));
    let names: BTreeSet<&String> = first.keys().chain(second.keys()).collect();
    let mut circumstances: Vec<Circumstance> = names
        .into_iter()
        .filter(|name| first.get(*name) != second.get(*name))
        .map(|name| Circumstance {
            name: name.clone(),
            before: join_values(first.get(name)),
            after: join_values(second.get(name)),
            runs: Vec::new(),
        })
        .collect();
    circumstances.extend(pattern_differences(runs));
    circumstances
}

/// Returns the fields of a run's pattern, except name and seed, which may differ.
fn pattern_fields(side: &RunsByName<'_>, run: &str) -> DistinctValues {
    let mut values = DistinctValues::new();
    for pattern in side.runs_named(run).filter_map(|r| serde_json::to_value(r.pattern.as_ref()?).ok()) {
        let Value::Object(fields) = pattern else { continue };
        for (name, value) in fields.into_iter().filter(|(name, _)| name != "name" && name != "seed") {
            values.entry(name).or_default().insert(value.to_string());
        }
    }
    values
}

/// Finds differences between the patterns of runs of one name; the same difference in
/// several runs is reported once.
fn pattern_differences([before, after]: [&RunsByName<'_>; 2]) -> Vec<Circumstance> {
    let mut found: BTreeMap<(String, String, String), Vec<String>> = BTreeMap::new();
    let mut shared_runs = 0;
    for run in before.names.iter().filter(|n| after.has_run(n)) {
        shared_runs += 1;
        let (first, second) = (pattern_fields(before, run), pattern_fields(after, run));
        if first.is_empty() || second.is_empty() {
            // a file is from a version that did not store patterns
            continue;
        }
        let names: BTreeSet<&String> = first.keys().chain(second.keys()).collect();
        for name in names.into_iter().filter(|n| first.get(*n) != second.get(*n)) {
            let field = format!("pattern.{name}");
            let key = (field, join_values(first.get(name)), join_values(second.get(name)));
            found.entry(key).or_default().push((*run).to_owned());
        }
    }
    let circumstance = |((field, before, after), runs): ((String, String, String), Vec<String>)| {
        let runs = if runs.len() == shared_runs { Vec::new() } else { runs };
        Circumstance { name: field, before, after, runs }
    };
    found.into_iter().map(circumstance).collect()
}

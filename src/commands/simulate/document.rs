//! A simulated system as JSON: `diskwright.simulation/1`.

use diskwright_base::Histogram;
use diskwright_simulator::System;
use diskwright_simulator::analytic::solve;
use diskwright_simulator::confidence::Interval;
use diskwright_simulator::load::{LoadSpan, Operations};
use diskwright_simulator::run::{ArrayReport, CacheReport, Component, WorkloadReport};
use diskwright_simulator::station::StationTotals;
use serde_json::{Value, json};

use super::outcome::{self, SimulationOutcome};

/// Returns the document of a run.
pub fn simulation_document(outcome: &SimulationOutcome) -> Value {
    let mut document = json!({
        "schema": "diskwright.simulation/1",
        "name": outcome.system.name,
        "seed": outcome.system.watch.seed,
    });
    if let (Value::Object(fields), Value::Object(run_fields)) = (&mut document, run_json(outcome)) {
        fields.extend(run_fields);
    }
    document
}

/// Returns the results of a run, without the parts that all runs of a sweep share.
pub fn run_json(outcome: &SimulationOutcome) -> Value {
    let report = &outcome.report;
    let elapsed_s = report.elapsed_s();
    json!({
        "duration_s": elapsed_s,
        "because": outcome.unmeasured_reason(),
        "workloads": report.workloads.iter().map(|w| workload_json(w, elapsed_s)).collect::<Vec<_>>(),
        "components": report.components.iter().map(component_json).collect::<Vec<_>>(),
        "arrays": report.arrays.iter().map(|a| array_json(a, outcome)).collect::<Vec<_>>(),
        "caches": report.caches.iter().map(cache_json).collect::<Vec<_>>(),
        "interrupts_per_s": json_number(report.interrupts / elapsed_s),
        "interrupt_share": json_number(outcome::interrupt_share(outcome)),
        "bottleneck": bottleneck_json(outcome),
        "analytic": analytic_json(&outcome.system),
        "notes": outcome.notes,
    })
}

/// Returns a number, or null if it is not finite.
fn json_number(value: f64) -> Value {
    if value.is_finite() { json!(value) } else { Value::Null }
}

/// Returns the result of mean value analysis of the same system, or `because` if it has no solution.
fn analytic_json(system: &System) -> Value {
    match solve(system) {
        Ok(solution) => {
            let part = |(name, share): &(String, f64)| json!({ "name": name, "utilisation": json_number(*share) });
            json!({
                "requests_per_s": json_number(solution.throughput_per_s),
                "response_s": json_number(solution.response_s),
                "read_response_s": json_number(solution.read_response_s),
                "write_response_s": json_number(solution.write_response_s),
                "components": solution.utilisations.iter().map(part).collect::<Vec<_>>(),
                "because": null,
            })
        }
        Err(unsolved) => json!({ "because": unsolved.to_string() }),
    }
}

/// Returns the component with the highest utilization.
fn bottleneck_json(outcome: &SimulationOutcome) -> Value {
    outcome::busiest_component(outcome).map_or(Value::Null, |component| {
        json!({
            "kind": component.kind.name(),
            "name": component.name,
            "utilisation": json_number(component.utilisation()),
            "words": outcome::describe_bottleneck(outcome),
        })
    })
}

fn workload_json(workload: &WorkloadReport, elapsed_s: f64) -> Value {
    let counts = &workload.counts;
    let per_second = |count: u64| json_number(count as f64 / elapsed_s);
    json!({
        "name": workload.name,
        "requests": counts.request_count(),
        "requests_per_s": per_second(counts.request_count()),
        "reads_per_s": per_second(counts.reads),
        "writes_per_s": per_second(counts.writes),
        "bytes_per_s": per_second(counts.byte_count()),
        "response_s": response_json(&workload.responses, workload.response_s),
        "operations": workload.operations.iter().map(|o| operations_json(o, elapsed_s)).collect::<Vec<_>>(),
    })
}

/// Returns a distribution of response times; `half_width` is that of the mean's 95 % interval.
fn response_json(responses: &Histogram, interval: Option<Interval>) -> Value {
    let quantile = |share: f64| responses.quantile(share).map(|ns| ns / 1e9);
    json!({
        "mean": responses.mean().map(|ns| ns / 1e9),
        "half_width": interval.map(|interval| json_number(interval.half_width)),
        "p50": quantile(0.5),
        "p95": quantile(0.95),
        "p99": quantile(0.99),
        "max": responses.max().map(|ns| ns as f64 / 1e9),
    })
}

fn operations_json(operations: &Operations, elapsed_s: f64) -> Value {
    let totals = &operations.totals;
    let seconds = |ns: u64| ns as f64 / 1e9;
    let span = |span: &LoadSpan| json!({ "name": span.name, "from_s": seconds(span.from), "to_s": seconds(span.to) });
    json!({
        "name": operations.name,
        "done": totals.done,
        "lost": totals.lost,
        "per_s": json_number(totals.done as f64 / elapsed_s),
        "response_s": response_json(&operations.responses, None),
        "spans": operations.spans.iter().map(span).collect::<Vec<_>>(),
    })
}

/// Fields derived from the integrals of a station, a drive or an array.
fn totals_fields(totals: &StationTotals) -> [(&'static str, Value); 4] {
    [
        ("busy", json_number(totals.busy_share())),
        ("queue", json_number(totals.mean_queue())),
        ("requests_per_s", json_number(totals.throughput_per_s())),
        ("response_s", json_number(totals.response_s())),
    ]
}

fn component_json(component: &Component) -> Value {
    let elapsed_s = component.totals.elapsed_ns as f64 / 1e9;
    let counts = &component.counts;
    let mut value = json!({
        "kind": component.kind.name(),
        "name": component.name,
        "servers": component.servers,
        "utilisation": json_number(component.utilisation()),
    });
    let totals = totals_fields(&component.totals);
    if let Value::Object(fields) = &mut value {
        fields.extend(totals.into_iter().map(|(key, value)| (key.to_owned(), value)));
        fields.insert("bytes_per_s".into(), json_number(counts.byte_count() as f64 / elapsed_s));
        if component.kind == diskwright_simulator::ComponentKind::Drive {
            let seconds_per_request = |ns: u64| json_number(ns as f64 / 1e9 / counts.request_count() as f64);
            fields.insert("reads_per_s".into(), json_number(counts.reads as f64 / elapsed_s));
            fields.insert("writes_per_s".into(), json_number(counts.writes as f64 / elapsed_s));
            fields.insert("seek_s".into(), seconds_per_request(counts.seek_ns));
            fields.insert("rotation_s".into(), seconds_per_request(counts.rotation_ns));
            fields.insert("media_s".into(), seconds_per_request(counts.media_ns));
            fields.insert("hit_share".into(), json_number(counts.hits as f64 / counts.request_count() as f64));
        }
    }
    value
}

fn array_json(array: &ArrayReport, outcome: &SimulationOutcome) -> Value {
    let elapsed_s = array.totals.elapsed_ns as f64 / 1e9;
    let members: Vec<String> = array.members.iter().map(|drive| outcome.system.drive_name(*drive)).collect();
    let background = array.background.map(|b| {
        json!({
            "task": b.task.name(),
            "done_bytes": b.done_bytes,
            "all_bytes": b.all_bytes,
            "ended_s": b.ended_ns.map(|ns| ns as f64 / 1e9),
        })
    });
    let mut value = json!({
        "name": array.name,
        "members": members,
        "reads_per_s": json_number(array.counts.reads as f64 / elapsed_s),
        "writes_per_s": json_number(array.counts.writes as f64 / elapsed_s),
        "bytes_per_s": json_number(array.counts.byte_count() as f64 / elapsed_s),
        "member_ios_per_s": json_number(array.member_ios as f64 / elapsed_s),
        "lost_bytes": array.lost_blocks * 512,
        "background": background,
    });
    if let Value::Object(fields) = &mut value {
        fields.extend(totals_fields(&array.totals).into_iter().map(|(key, value)| (key.to_owned(), value)));
    }
    value
}

fn cache_json(cache: &CacheReport) -> Value {
    let counters = &cache.counters;
    json!({
        "name": cache.name,
        "hit_share": json_number(counters.hit_share()),
        "reads": counters.total_reads(),
        "writes": counters.total_writes(),
        "read_ios": counters.read_ios,
        "write_ios": counters.write_ios,
        "read_bytes": counters.blocks_read * 512,
        "read_ahead_bytes": counters.blocks_ahead * 512,
        "read_ahead_used_bytes": counters.blocks_ahead_used * 512,
        "written_bytes": counters.blocks_written * 512,
    })
}

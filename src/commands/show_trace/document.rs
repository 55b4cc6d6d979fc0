//! A request trace as JSON: `diskwright.trace/1`.

use diskwright_base::{Histogram, Operation};
use diskwright_traces::statistics::{HOT_SHARES, RequestStatistics, TraceReport};
use diskwright_traces::{PassedOn, TraceFormat, TraceSummary};
use serde_json::{Value, json};

use super::super::time_argument;
use super::histogram_steps::{self, HistogramStep};

/// Maximum number of exact sizes listed.
const MAX_SIZES: usize = 20;

/// Returns the document of one trace.
pub fn trace_document(format: &TraceFormat, summary: &TraceSummary, report: &TraceReport) -> Value {
    let moment = |ns: Option<i64>| ns.filter(|_| summary.wall_clock).map(time_argument::rfc3339);
    let skipped =
        summary.skipped.iter().map(|s| json!({ "where": s.context, "because": s.reason, "times": s.count })).collect();
    let passed = |p: &PassedOn| json!({ "device": p.device, "requests": p.requests });
    json!({
        "schema": "diskwright.trace/1",
        "format": format.id,
        "files": summary.files,
        "wall_clock": summary.wall_clock,
        "from": moment(report.all.flow.from_ns),
        "to": moment(report.all.flow.to_ns),
        "seconds": report.all.flow.duration_s(),
        "requests": report.all.requests,
        "unfinished": summary.unfinished,
        "without_arrival": summary.without_arrival,
        "out_of_order": summary.out_of_order,
        "assumed": summary.assumed,
        "passed_on": summary.passed_on.iter().map(passed).collect::<Vec<_>>(),
        "of_further_devices": report.further_device_requests,
        "skipped": Value::Array(skipped),
        "all": figures_json(&report.all),
        "devices": report.devices.iter().map(figures_json).collect::<Vec<_>>(),
    })
}

fn figures_json(f: &RequestStatistics) -> Value {
    let amounts = Operation::ALL.map(|operation| {
        let amount = f.operation_amount(operation);
        (operation.name().to_owned(), json!({ "requests": amount.requests, "bytes": amount.bytes }))
    });
    let flow = &f.flow;
    json!({
        "name": f.name,
        "requests": f.requests,
        "operations": Value::Object(amounts.into_iter().collect()),
        "read_share": f.read_share(),
        "sizes": sizes_json(f),
        "sequential_share": f.sequential,
        "sequential_in_streams_share": f.sequential_in_streams,
        "run_requests": distribution_json(&f.run_requests, 1.0),
        "run_bytes": distribution_json(&f.run_bytes, 1.0),
        "seek_bytes": distribution_json(&f.seek_bytes, 1.0),
        "seeks_forward_share": f.seeks_forward,
        "arrivals": {
            "per_s": flow.requests_per_s,
            "peak_per_s": flow.peak_per_s,
            "peak_after_s": flow.peak_second,
            "between_s": distribution_json(&flow.interarrival_ns, 1e-9),
            "variation": flow.variation,
        },
        "queue_s": distribution_json(&f.queue_ns, 1e-9),
        "service_s": distribution_json(&f.service_ns, 1e-9),
        "response_s": distribution_json(&f.response_ns, 1e-9),
        "read_response_s": distribution_json(&f.read_response_ns, 1e-9),
        "write_response_s": distribution_json(&f.write_response_ns, 1e-9),
        "outstanding": { "mean": flow.mean_in_flight, "most": flow.max_in_flight, "requests": flow.completed },
        "busy_share": flow.busy_share,
        "footprint": {
            "bytes": f.footprint.bytes,
            "exact": f.footprint.is_exact,
            "hot": f.footprint.hot_access_shares.map(|hot| {
                let part = |(blocks, accesses): (&f64, f64)| {
                    json!({ "blocks_share": blocks, "accesses_share": accesses })
                };
                HOT_SHARES.iter().zip(hot).map(part).collect::<Vec<_>>()
            }),
        },
    })
}

fn sizes_json(f: &RequestStatistics) -> Value {
    let powers = f.sizes.by_power.iter().enumerate().filter(|(_, (reads, writes))| reads + writes > 0);
    let by_power = powers
        .map(|(power, (reads, writes))| json!({ "up_to_bytes": 1u64 << power, "reads": reads, "writes": writes }));
    let common = f.sizes.most_common(MAX_SIZES);
    json!({
        "by_power": by_power.collect::<Vec<_>>(),
        "common": common.iter().map(|(bytes, times)| json!({ "bytes": bytes, "requests": times })).collect::<Vec<_>>(),
    })
}

/// Returns a distribution, with recorded values multiplied by `scale`; `null` if nothing was recorded.
fn distribution_json(histogram: &Histogram, scale: f64) -> Value {
    if histogram.is_empty() {
        return Value::Null;
    }
    let scaled = |value: Option<f64>| value.map(|v| v * scale);
    let quantile = |share: f64| scaled(histogram.quantile(share));
    let steps = histogram_steps::histogram_steps(histogram);
    let edge = |value: u64| value as f64 * scale;
    let step_json = |step: &HistogramStep| json!({ "from": edge(step.from), "to": edge(step.to), "count": step.count });
    json!({
        "count": histogram.count(),
        "mean": scaled(histogram.mean()),
        "least": quantile(0.0),
        "p50": quantile(0.5),
        "p90": quantile(0.9),
        "p95": quantile(0.95),
        "p99": quantile(0.99),
        "p999": quantile(0.999),
        "p9999": quantile(0.9999),
        "p99999": quantile(0.99999),
        "most": quantile(1.0),
        "steps": steps.iter().filter(|step| step.count > 0).map(step_json).collect::<Vec<_>>(),
    })
}

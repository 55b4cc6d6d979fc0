//! A live trace as JSON: `diskwright.trace/1` with `method`.

use std::collections::HashMap;

use diskwright_blocktrace::dirty_pages::{DirtyingThread, assess_certainty};
use diskwright_blocktrace::diskstats::RequestTotals;
use diskwright_blocktrace::latency::bucket_edges;
use diskwright_blocktrace::pairing::TracedRequest;
use diskwright_blocktrace::summary::{HEAT_ROWS, OperationSummary, RequesterSummary, SIZE_CLASSES};
use diskwright_blocktrace::{HeatMap, LatencyHistogram, TraceMethod, TraceSession, TracedOperation};
use serde_json::{Value, json};

use super::super::time_argument;
use super::screen::{TraceClock, attribution_doubt, command_name, longest_requests};

/// Maximum number of threads named per device.
const MAX_REQUESTERS: usize = 20;

/// Returns the document of a trace.
pub fn live_trace_document(
    session: &mut TraceSession,
    totals: &HashMap<u32, RequestTotals>,
    clock: TraceClock,
) -> Value {
    let (cost, loss) = (session.cost(), session.loss());
    let counts = session.counts();
    let kernel_loss = session.kernel_loss();
    let devices: Vec<Value> = session.summary.devices().into_iter().map(|d| device_json(session, d, totals)).collect();
    let worst: Vec<Value> = longest_requests(session)
        .iter()
        .map(|(request, is_done)| request_json(session, request, *is_done, clock))
        .collect();
    json!({
        "schema": "diskwright.trace/1",
        "method": session.method().name(),
        "seconds": cost.elapsed_ns as f64 / 1e9,
        "from": time_argument::rfc3339(clock.wall_time_ns(clock.monotonic_ns.saturating_sub(cost.elapsed_ns))),
        "to": time_argument::rfc3339(clock.wall_ns),
        "sampled": { "one_of": session.sample_divisor() },
        "latency_from": latency_start(session),
        "program_reads": session.reads_requests().map(|typed| if typed { "requests" } else { "events" }),
        "dropped": loss.total(),
        "overrun": loss.overrun,
        "unread_processors": loss.unread,
        "unpaired": counts.map(|(_, p)| json!({
            "without_beginning": p.without_beginning,
            "without_start": p.without_start,
            "without_end": p.without_end,
            "clock_back": p.clock_back,
        })).or_else(|| kernel_loss.map(|l| json!({ "without_beginning": l.without_beginning, "missed": l.missed }))),
        "unfinished": session.unfinished_count(),
        "merged": counts.map(|(_, p)| json!({ "bios": p.merged_bios, "requests": p.merged_requests })),
        "requeues": counts.map(|(_, p)| p.requeues),
        "events": counts.map(|(r, _)| json!({
            "read": r.events, "unknown": r.unknown, "pages": r.pages, "pages_cut": r.truncated_pages,
            "pages_after_loss": r.pages_after_loss, "dirtied": r.dirtied,
        })),
        "cost": {
            "cpu_share": cost.processor_share(),
            "events_per_s": cost.events_per_s(),
            "reader_s": cost.reader_ns as f64 / 1e9,
            "kernel_s": cost.kernel_ns / 1e9,
            "event_s": session.event_ns() / 1e9,
            "processors": cost.processors,
        },
        "remarks": session.remarks,
        "devices": devices,
        "worst": worst,
    })
}

/// Start of latencies, as known at the end of the trace.
fn latency_start(session: &TraceSession) -> &'static str {
    match (session.method(), session.is_from_issue()) {
        (TraceMethod::Tracefs, _) => "queue",
        (TraceMethod::Bpf, true) => "issue",
        (TraceMethod::Bpf, false) => "start",
    }
}

fn device_json(session: &mut TraceSession, device: u32, totals: &HashMap<u32, RequestTotals>) -> Value {
    let name = session.names.name(device);
    let counted = session
        .counted_by_kernel(device, totals)
        .map(|t| json!({ "reads": t.reads, "writes": t.writes, "discards": t.discards, "flushes": t.flushes }));
    let summary = &session.summary;
    let operations = TracedOperation::ALL.into_iter().filter_map(|operation| {
        let sum = summary.find_operation(device, operation)?;
        Some(figures_json(operation, sum, summary.find_heat_map(device, operation)))
    });
    let operations: Vec<Value> = operations.collect();
    let dirtied = session.dirty_pages().map(|pages| dirtied_json(&pages.threads_of_device(device)));
    let requesters: Vec<Value> = summary.requesters(device).iter().take(MAX_REQUESTERS).map(requester_json).collect();
    json!({
        "name": name,
        "operations": operations,
        "processes": requesters,
        "dirtied": dirtied,
        "counted_by_kernel": counted,
    })
}

/// Returns the threads that dirtied pages, and how certain it is that the pages written to the device were theirs.
fn dirtied_json(threads: &[DirtyingThread]) -> Value {
    let thread = |t: &DirtyingThread| json!({ "pid": (t.pid > 0).then_some(t.pid), "comm": t.comm, "pages": t.pages });
    json!({
        "pages": threads.iter().map(|t| t.pages).sum::<u64>(),
        "sure": assess_certainty(threads).name(),
        "processes": threads.iter().take(MAX_REQUESTERS).map(thread).collect::<Vec<_>>(),
    })
}

fn figures_json(operation: TracedOperation, sum: &OperationSummary, heat: Option<&HeatMap>) -> Value {
    let sizes = (0..SIZE_CLASSES).filter(|class| sum.sizes[*class] > 0);
    let sizes = sizes.map(|class| json!({ "up_to_bytes": 512u64 << class, "requests": sum.sizes[class] }));
    json!({
        "operation": operation.name(),
        "requests": sum.requests,
        "bytes": sum.bytes,
        "errors": sum.errors,
        "latency_s": latency_json(&sum.latency),
        "stages_s": {
            "queue": latency_json(&sum.queue),
            "scheduler": latency_json(&sum.scheduler),
            "device": latency_json(&sum.device),
        },
        "histogram": sum.latency.nonempty_buckets().map(|(step, count)| {
            let (from, to) = bucket_edges(step);
            json!({ "from_s": from as f64 / 1e9, "to_s": to as f64 / 1e9, "count": count })
        }).collect::<Vec<_>>(),
        "sizes": sizes.collect::<Vec<_>>(),
        "sequential_share": sum.sequential_share(),
        "distance_bytes": sum.mean_distance_bytes(),
        "depth": { "mean": sum.mean_depth(), "most": (sum.depth_count > 0).then_some(sum.max_depth) },
        "heat": heat.map(heat_map_json),
    })
}

/// Returns `null` if nothing was seen; percentiles if ten requests lie above them.
fn latency_json(h: &LatencyHistogram) -> Value {
    if h.count() == 0 {
        return Value::Null;
    }
    let percentile = |share: f64| h.percentile_ns(share).map(|ns| ns / 1e9);
    json!({
        "count": h.count(),
        "mean": h.mean_ns().map(|ns| ns / 1e9),
        "p50": percentile(0.5),
        "p90": percentile(0.9),
        "p95": percentile(0.95),
        "p99": percentile(0.99),
        "p999": percentile(0.999),
        "max": h.longest_ns().map(|ns| ns as f64 / 1e9),
    })
}

fn heat_map_json(map: &HeatMap) -> Value {
    let column = |column: &[u32; HEAT_ROWS]| {
        // index of the latency's doubling: 0 is below 1.024 us
        let cells = column.iter().enumerate().filter(|(_, count)| **count > 0);
        cells.map(|(row, count)| json!([row, count])).collect::<Vec<_>>()
    };
    json!({
        "column_s": map.column_ns as f64 / 1e9,
        "columns": map.columns().iter().map(column).collect::<Vec<_>>(),
    })
}

fn requester_json(requester: &RequesterSummary) -> Value {
    json!({
        "pid": (requester.pid > 0).then_some(requester.pid),
        "comm": command_name(&requester.comm),
        "operation": requester.operation.name(),
        "requests": requester.requests,
        "bytes": requester.bytes,
        "device_s": requester.device_ns as f64 / 1e9,
        "sure": attribution_doubt(requester.pid, &requester.comm, requester.operation).is_none(),
    })
}

fn request_json(session: &mut TraceSession, request: &TracedRequest, is_done: bool, clock: TraceClock) -> Value {
    let seconds = |ns: Option<u64>| ns.map(|ns| ns as f64 / 1e9);
    json!({
        "time": is_done.then(|| time_argument::rfc3339(clock.wall_time_ns(request.done_ns))),
        "done": is_done,
        "device": session.names.name(request.device),
        "operation": request.operation.name(),
        "offset_bytes": request.sector.saturating_mul(512),
        "bytes": u64::from(request.sectors) * 512,
        "latency_s": request.latency_ns() as f64 / 1e9,
        "stages_s": {
            "queue": seconds(request.queue_ns()),
            "scheduler": seconds(request.scheduler_ns()),
            "device": seconds(request.device_ns()),
        },
        "depth": (request.depth > 0).then_some(request.depth),
        "pid": (request.pid > 0).then_some(request.pid),
        "comm": command_name(&request.comm),
        "error": (request.error != 0).then_some(request.error),
    })
}

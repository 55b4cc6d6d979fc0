//! A trace of a few seconds for a capture: the figures of each operation, and the longest requests.

use diskwright_base::capture::{LongRequest, TracedMoment, TracedOperations};
use serde::Deserialize;

/// Largest number of requests that are kept.
const MAX_LONGEST: usize = 20;
/// Largest number of devices and operations that are kept.
const MAX_OPERATIONS: usize = 200;

/// The parts of `diskwright.trace/1` that a capture keeps; others are skipped while they are read.
#[derive(Deserialize)]
struct Trace {
    seconds: f64,
    #[serde(default)]
    dropped: u64,
    #[serde(default)]
    devices: Vec<TracedDevice>,
    #[serde(default)]
    worst: Vec<WorstRequest>,
}

#[derive(Deserialize)]
struct TracedDevice {
    name: String,
    #[serde(default)]
    operations: Vec<Operation>,
}

#[derive(Deserialize)]
struct Operation {
    operation: String,
    requests: u64,
    #[serde(default)]
    bytes: u64,
    #[serde(default)]
    latency_s: Option<Latency>,
}

#[derive(Deserialize)]
struct Latency {
    mean: Option<f64>,
    p99: Option<f64>,
    max: Option<f64>,
}

#[derive(Deserialize)]
struct WorstRequest {
    #[serde(default)]
    device: String,
    #[serde(default)]
    operation: Option<String>,
    latency_s: Option<f64>,
    done: Option<bool>,
    #[serde(default)]
    comm: Option<String>,
}

/// Parses the answer of `trace --json`; `None` if it is none.
pub fn parse_trace(text: &[u8]) -> Option<TracedMoment> {
    let trace: Trace = serde_json::from_slice(text).ok()?;
    let operations = trace.devices.into_iter().flat_map(|device| {
        let name = device.name;
        device.operations.into_iter().map(move |operation| {
            let latency = operation.latency_s.unwrap_or(Latency { mean: None, p99: None, max: None });
            TracedOperations {
                device: name.clone(),
                operation: operation.operation,
                requests: operation.requests,
                bytes: operation.bytes,
                mean_s: latency.mean,
                p99_s: latency.p99,
                max_s: latency.max,
            }
        })
    });
    let longest = trace.worst.into_iter().filter_map(|request| {
        Some(LongRequest {
            device: request.device,
            operation: request.operation.unwrap_or_default(),
            latency_s: request.latency_s?,
            unfinished: request.done == Some(false),
            program: request.comm.unwrap_or_default(),
        })
    });
    Some(TracedMoment {
        seconds: trace.seconds,
        operations: operations.take(MAX_OPERATIONS).collect(),
        longest: longest.take(MAX_LONGEST).collect(),
        dropped: trace.dropped,
    })
}

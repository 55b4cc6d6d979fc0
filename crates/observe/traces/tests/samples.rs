//! Tests with the validation traces of four real drives, if they are available: in the
//! folder in `DISKWRIGHT_SAMPLES`, or in `shared/samples` beside the
//! checkout. They are not part of the project; without them the tests say so and
//! pass.

#![allow(clippy::disallowed_macros, reason = "what a test prints is shown when it fails")]

use std::path::PathBuf;

use diskwright_base::{Operation, Request};
use diskwright_traces::{Statistics, open};

fn samples_folder() -> Option<PathBuf> {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../../shared/samples");
    let folder = std::env::var_os("DISKWRIGHT_SAMPLES").map_or_else(|| PathBuf::from(beside), PathBuf::from);
    let folder = folder.join("drive-validation");
    if folder.is_dir() {
        return Some(folder);
    }
    println!("skipped: no samples at {}", folder.display());
    None
}

/// Name, requests, reads, and the published mean response time of the drive, ms.
const DRIVES: [(&str, u64, u64, f64); 4] = [
    ("atlas_III", 10_000, 6498, 6.263),
    ("barracuda", 10_000, 6511, 6.627),
    ("hp_c2247a", 9999, 5115, 15.298),
    ("hp_c3323a", 9074, 6113, 15.765),
];

#[test]
fn means_match_the_published_ones() {
    let Some(folder) = samples_folder() else { return };
    for (drive, count, reads, printed_ms) in DRIVES {
        let mut trace = open(&[folder.join(format!("{drive}.trace"))]).expect("opens");
        assert_eq!(trace.format().id, "disksim-validation");
        let mut statistics = Statistics::new();
        let requests: Vec<Request> = trace.by_ref().map(|r| r.expect("readable")).collect();
        requests.iter().for_each(|r| statistics.push(r));
        let summary = trace.summary();
        assert_eq!(
            (summary.requests, summary.skipped.len(), summary.devices.as_slice()),
            (count, 0, &[drive.into()][..])
        );
        let report = statistics.finish(&summary.devices);
        let figures = &report.all;
        assert_eq!(figures.operation_amount(Operation::Read).requests, reads);
        let mean_ms = figures.response_ns.mean().expect("measured") * 1e-6;
        println!(
            "{drive}: mean response {mean_ms:.3} ms (printed {printed_ms}), sequential {:?}, busy {:?}",
            figures.sequential, figures.flow.busy_share
        );
        assert!((mean_ms - printed_ms).abs() < 0.0006, "{drive}: {mean_ms} for {printed_ms}");
        // queue depth 1
        assert_eq!(figures.flow.max_in_flight, Some(1));
        assert!(requests.windows(2).all(|w| w[0].completion_ns <= w[1].arrival_ns));
    }
}

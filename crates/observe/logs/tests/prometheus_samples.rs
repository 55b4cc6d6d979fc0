//! Pages of real exporters, where they are available: in the folder that `DISKWRIGHT_SAMPLES` names, or in
//! `shared/samples` beside the checkout. They are not part of the project; without them this test prints a message and
//! passes.

#![allow(clippy::disallowed_macros, reason = "what a test prints is shown when it fails")]

use std::ops::ControlFlow;
use std::path::PathBuf;

use diskwright_base::Note;
use diskwright_logs::{LogInput, LogOptions, LogPiece, read};

fn sample_folder() -> Option<PathBuf> {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../../shared/samples");
    let folder = std::env::var_os("DISKWRIGHT_SAMPLES").map_or_else(|| PathBuf::from(beside), PathBuf::from);
    let folder = folder.join("node_exporter");
    if folder.is_dir() {
        return Some(folder);
    }
    println!("skipped: no samples at {}", folder.display());
    None
}

/// Returns the number of known series, of disks in the topology, and of skips besides the remark on a single page.
fn page_facts(file: &str) -> Option<(u64, usize, usize)> {
    let mut input = LogInput::open(&sample_folder()?.join(file)).unwrap();
    let mut disks = 0;
    let summary = read(&mut input, &LogOptions::default(), &mut |piece| {
        if let LogPiece::Note(note) = piece
            && note.kind == Note::TOPOLOGY
        {
            disks = note.read_topology().unwrap().devices.len();
        }
        ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!((summary.format, summary.ticks), ("prometheus-text", 1), "{file}");
    Some((summary.series - summary.foreign, disks, summary.skipped.len() - 1))
}

#[test]
fn reads_real_pages() {
    let Some((known, disks, left_out)) = page_facts("live_node_exporter_1.5.0.prom") else { return };
    assert!(known > 80 && disks == 2 && left_out == 0, "{known} {disks} {left_out}");
    let (known, disks, _) = page_facts("node_exporter_e2e_metrics.prom").unwrap();
    assert!(known > 300 && disks > 8, "{known} {disks}");
    let (known, _, left_out) = page_facts("windows_exporter_v0.20.0_metrics.prom").unwrap();
    // the page repeats some series of processes
    assert!(known > 70 && left_out == 1, "{known} {left_out}");
}

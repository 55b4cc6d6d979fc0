//! SSDs compared with published figures: fitted ones, and predicted ones without further changes. The rows are in
//! `flash/rows.toml`, each with its source; `docs/drives.md` shows the results.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use diskwright_base::Rng;
use diskwright_simulator::flash::{FlashDevice, FlashModel, FlashSpec, InitialState};
use diskwright_simulator::{DeviceModel, Io, catalogue};

/// A published figure of a drive.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct FlashRow {
    drive: String,
    /// A value of the drive's description was set by it; otherwise it is predicted.
    #[serde(default)]
    fit: bool,
    /// Share of reads, size in KB and requests at a time; in order, or anywhere.
    reads: f64,
    kb: f64,
    depth: u32,
    #[serde(default)]
    sequential: bool,
    /// The published value, in one of these units.
    iops: Option<f64>,
    mb_s: Option<f64>,
    /// Ours less print, in percent of print, as it came out.
    error: f64,
    source: String,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct FlashRows {
    row: Vec<FlashRow>,
}

/// Requests per second of a drive at queue depth `depth`; the first half is for the state to settle and is not counted.
fn rate(spec: &FlashSpec, row: &FlashRow) -> f64 {
    let start =
        if row.sequential { InitialState { filled_share: 1.0, overwrite_passes: 0.0 } } else { spec.initial_state };
    let model =
        Arc::new(FlashModel::new(&FlashSpec { initial_state: start, ..spec.clone() }).expect("a possible drive"));
    let (mut flash, mut rng) = (FlashDevice::new(&model), Rng::new(23, 0));
    let blocks = (row.kb * 2.0) as u32;
    let places = model.capacity_blocks() / u64::from(blocks);
    // enough to fill the write buffer many times
    let written = 300_000.0 * (row.kb / 4.0).min(1.0) / (1.0 - row.reads).max(0.3);
    let requests = if row.depth < 16 { 60_000 } else { written as u64 };
    let (mut from, mut until) = (0, 0);
    let mut out = BinaryHeap::new();
    let mut next = 0;
    let mut io = || {
        next = (next + 1) % places;
        let place = if row.sequential { next } else { rng.next_below(places) };
        Io { first: place * u64::from(blocks), blocks, write: !rng.next_bool(row.reads) }
    };
    (0..row.depth.min(model.queue_slots())).for_each(|_| out.push(Reverse(flash.submit(0, &io()))));
    for index in 0..requests * 2 {
        let Some(Reverse(now)) = out.pop() else { break };
        if index == requests {
            from = now;
        }
        until = now;
        out.push(Reverse(flash.submit(now, &io())));
    }
    (requests - 1) as f64 / ((until - from) as f64 / 1e9)
}

/// Simulated value, published value, and the error in percent.
fn compare(spec: &FlashSpec, row: &FlashRow) -> (f64, f64, f64) {
    let rate = rate(spec, row);
    let (ours, print) = match (row.iops, row.mb_s) {
        (Some(print), None) => (rate, print),
        (None, Some(print)) => (rate * row.kb * 1024.0 / 1e6, print),
        _ => panic!("{}: one figure a row", row.drive),
    };
    (ours, print, (ours / print - 1.0) * 100.0)
}

fn flash_spec(drive: &str) -> FlashSpec {
    let entry = catalogue::find_entry(drive).unwrap_or_else(|| panic!("{drive} is not in the catalogue"));
    match entry.build_device() {
        Ok(DeviceModel::Flash(model)) => model.spec().clone(),
        _ => panic!("{drive} is no SSD"),
    }
}

fn rows() -> Vec<FlashRow> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/flash/rows.toml");
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{path}: {e}"));
    toml::from_str::<FlashRows>(&text).unwrap_or_else(|e| panic!("{path}: {e}")).row
}

/// Fitted figures are met, predicted ones are within 15 %, and every error is the documented one.
#[test]
fn ssds_match_published_and_measured_figures() {
    let rows = rows();
    let mut wrong = String::new();
    for row in &rows {
        assert!(!row.source.is_empty() && row.drive.len() > 3, "a row without a source or a drive");
        let (ours, print, error) = compare(&flash_spec(&row.drive), row);
        let bound = if row.fit { 3.0 } else { 15.0 };
        if error.abs() > bound || (error - row.error).abs() > 0.3 {
            let load = format!("{} KB, {} reads, depth {}", row.kb, row.reads, row.depth);
            wrong += &format!("{}: {load}: {ours:.0}, print {print}: {error:+.1} %, stated {}\n", row.drive, row.error);
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
    let predicted: Vec<f64> = rows.iter().filter(|row| !row.fit).map(|row| row.error.abs()).collect();
    assert!(predicted.len() >= 7, "rows that were not fitted are what this is for");
    let mean = predicted.iter().sum::<f64>() / predicted.len() as f64;
    assert!(mean < 6.0, "mean error of what was predicted: {mean:.1} %");
}

//! Devices with known parameters are described from the loops of `probe quick`, and the descriptions are tested on
//! loops that the fit never saw: other depths, sizes and mixes.

use diskwright_simulator::calibrate::burst::{self, RunTimeline};
use diskwright_simulator::calibrate::{
    CalibratedDevice, CalibratedDrive, CalibrationCell, CalibrationError, ModelKind, calibrate_device,
    hold_out_middle_depths,
};
use diskwright_simulator::catalogue::measure::{DriveLoad, measure_arrivals, measure_load};
use diskwright_simulator::catalogue::{EntryKind, find_entry, read};
use diskwright_simulator::device::DeviceModel;

/// Bytes of a run that is long enough to fill the buffers.
const RUN_BYTES: u32 = 128 << 20;

fn random(read_share: f64, kb: u32, depth: u32) -> DriveLoad {
    DriveLoad { sequential: false, read_share, blocks: 2 * kb, depth, range: None }
}

fn in_order(read_share: f64, kb: u32) -> DriveLoad {
    DriveLoad { sequential: true, ..random(read_share, kb, 8) }
}

/// The loops of `probe quick`, but at smaller depths, because the largest take longest to simulate.
fn quick_loads() -> Vec<DriveLoad> {
    let of = |share: f64| {
        let depths = [1, 4, 16, 32].map(|depth| random(share, 4, depth));
        depths.into_iter().chain([in_order(share, 64), in_order(share, 1024)])
    };
    of(1.0).chain(of(0.0)).chain([random(0.5, 4, 16)]).collect()
}

/// Loops that `probe quick` does not run.
fn other_loads() -> Vec<DriveLoad> {
    let of = |share: f64| {
        let depths = [2, 8, 24].map(|depth| random(share, 4, depth));
        depths.into_iter().chain([random(share, 16, 4), random(share, 64, 8), random(share, 256, 4)])
    };
    of(1.0).chain(of(0.0)).chain([random(0.7, 4, 4), random(0.7, 4, 24), random(0.3, 4, 16)]).collect()
}

fn cells(truth: &DeviceModel, loads: Vec<DriveLoad>, aside: bool) -> Vec<CalibrationCell> {
    let requests = |load: &DriveLoad| match truth {
        DeviceModel::Flash(_) => (RUN_BYTES / (512 * load.blocks)).max(1000),
        _ => 4000,
    };
    let cell = |load: DriveLoad| CalibrationCell {
        name: format!("{load:?}"),
        per_s: measure_load(truth, &load, requests(&load)).iops,
        response_s: None,
        held_out: aside,
        load,
    };
    loads.into_iter().map(cell).collect()
}

fn device(bytes: u64) -> CalibratedDevice {
    CalibratedDevice {
        id: "measured".into(),
        name: "a device".into(),
        bytes,
        source: "a test".into(),
        year: 2026,
        commit_s: None,
        credits: None,
    }
}

fn mean_error(found: &CalibratedDrive) -> f64 {
    found.held_out.iter().map(|cell| cell.error.abs()).sum::<f64>() / found.held_out.len() as f64
}

fn describe_device(truth: &DeviceModel) -> CalibratedDrive {
    let all = [cells(truth, quick_loads(), false), cells(truth, other_loads(), true)].concat();
    let found = calibrate_device(&all, &device(truth.block_count() * 512)).expect("a description");
    // the description is read back by the catalogue's reader
    let entries = read("measured.toml", &found.toml).expect("a catalogue");
    assert_eq!(entries[0].kind, found.entry.kind);
    found
}

fn model(text: &str) -> DeviceModel {
    read("truth.toml", text).expect("a device")[0].build_device().expect("a model")
}

/// The head of an entry; its table follows.
const HEAD: &str = "[[drive]]\nid = \"truth\"\nname = \"truth\"\nvendor = \"none\"\nyear = 2026\nclass = \"plain\"\n\
                    capacity_gb = 100\ninterface = \"none\"\nsource = \"a test\"\n\n[drive.volume]\nqueue = 256\n";

#[test]
fn a_capped_device_is_described_by_its_limits() {
    let limits = "iops = 3000\nmb_s = 100\nwrite_iops = 1500\nwrite_mb_s = 50\noperation_kb = 1048576\n\
                  read = { constant_us = 300 }\nwrite = { constant_us = 400 }\n";
    let found = describe_device(&model(&format!("{HEAD}{limits}")));
    assert_eq!(found.kind, ModelKind::Limits, "{:?}", found.tried);
    assert!(mean_error(&found) < 0.05, "{:?}", found.held_out);
    let EntryKind::Volume(spec) = &found.entry.kind else { panic!("{}", found.toml) };
    let [operations, bytes] = spec.rate_limits(true);
    for (fitted, truth) in [
        (spec.operations.baseline, 3000.0),
        (spec.bytes.baseline, 1e8),
        (operations.baseline, 1500.0),
        (bytes.baseline, 5e7),
    ] {
        assert!((fitted / truth - 1.0).abs() < 0.05, "{fitted} for {truth}");
    }
}

#[test]
fn a_mechanical_drive_is_described_as_one() {
    let truth = find_entry("st3600057ss").expect("in the catalogue").build_device().expect("a model");
    let found = describe_device(&truth);
    assert_eq!(found.kind, ModelKind::Mechanical, "{:?}", found.tried);
    assert!(mean_error(&found) < 0.1, "{:?}", found.held_out);
}

#[test]
fn an_ssd_is_described_within_a_tenth() {
    let truth = find_entry("intel-x25m-80").expect("in the catalogue").build_device().expect("a model");
    let found = describe_device(&truth);
    assert!(mean_error(&found) < 0.1, "{:?} {:?}", found.tried, found.held_out);
}

#[test]
fn a_logs_loads_are_fitted_and_tried_by_their_response() {
    let truth = model(&format!(
        "{HEAD}iops = 2000\noperation_kb = 256\nread = {{ constant_us = 900 }}\nwrite = {{ constant_us = 500 }}\n"
    ));
    let load = |rate: f64, aside: bool| {
        let load = random(0.6, 8, 1);
        let response = measure_arrivals(&truth, &load, rate, 20_000).mean_s;
        CalibrationCell {
            name: format!("log, {rate}/s"),
            load,
            per_s: rate,
            response_s: Some(response),
            held_out: aside,
        }
    };
    let mut all = cells(&truth, quick_loads(), false);
    all.extend([200.0, 800.0, 1600.0].map(|rate| load(rate, false)));
    all.extend([400.0, 1200.0].map(|rate| load(rate, true)));
    let found = calibrate_device(&all, &device(100_000_000_000)).expect("a description");
    assert_eq!(found.held_out.iter().map(|cell| cell.tested.name()).collect::<Vec<_>>(), ["log", "log"]);
    // 0.6 of 900 us and 0.4 of 500 us without waits: 740 us
    assert!((found.held_out[0].measured_s / 740e-6 - 1.0).abs() < 0.1, "{:?}", found.held_out);
    assert!(mean_error(&found) < 0.1, "{:?}", found.held_out);
}

#[test]
fn reads_and_a_log_with_writes_suffice_for_a_description() {
    let truth = model(&format!(
        "{HEAD}iops = 2000\noperation_kb = 256\nread = {{ constant_us = 900 }}\nwrite = {{ constant_us = 900 }}\n"
    ));
    // how near it comes is not judged here, so that as few as are needed are enough
    let mut all = cells(&truth, vec![random(1.0, 4, 1), random(1.0, 4, 16), in_order(1.0, 64)], false);
    let load = random(0.6, 8, 1);
    let response_s = Some(measure_arrivals(&truth, &load, 800.0, 20_000).mean_s);
    all.push(CalibrationCell { name: "log, 800/s".into(), load, per_s: 800.0, response_s, held_out: false });
    let found = calibrate_device(&all, &device(100_000_000_000)).expect("a description");
    assert!(found.notes.iter().any(|note| note.starts_with("writes were not measured")), "{:?}", found.notes);
    assert!(found.tried.iter().any(|tried| tried.kind == ModelKind::Flash), "{:?}", found.tried);
}

#[test]
fn spent_credits_are_in_the_description() {
    // as probe sees it: 3 s at 500 a second, then 3,000 until 6,000 more than the 500 that flow in are gone
    let slices = |parts: &[(f64, usize)]| parts.iter().flat_map(|&(rate, n)| vec![rate; n]).collect::<Vec<f64>>();
    let course = |per_s| RunTimeline { bytes: 4096.0, ramp_s: 0.0, step_s: 0.1, per_s };
    let credits = burst::find_credits(&[course(slices(&[(500.0, 30)])), course(slices(&[(3000.0, 24), (500.0, 26)]))]);
    let credits = credits.expect("a fall");
    let truth = model(&format!(
        "{HEAD}iops = 3000\noperation_kb = 256\nread = {{ constant_us = 600 }}\nwrite = {{ constant_us = 600 }}\n"
    ));
    let device = CalibratedDevice { credits: Some(credits), ..device(100_000_000_000) };
    let found = calibrate_device(&cells(&truth, quick_loads(), false), &device).expect("a description");
    let EntryKind::Volume(spec) = &found.entry.kind else { panic!("{}", found.toml) };
    let limit = spec.operations;
    assert!((limit.baseline / 500.0 - 1.0).abs() < 0.05 && (limit.burst / 3000.0 - 1.0).abs() < 0.05, "{limit:?}");
    assert!((limit.credits / 6000.0 - 1.0).abs() < 0.1, "{limit:?}");
    assert!(found.notes.iter().any(|note| note.starts_with("credits ran out after")), "{:?}", found.notes);
}

#[test]
fn names_missing_measurements() {
    let truth = find_entry("intel-s3500-480").expect("in the catalogue").build_device().expect("a model");
    let some = cells(&truth, vec![random(1.0, 4, 1), random(1.0, 4, 4)], false);
    let Err(CalibrationError::Missing(missing)) = calibrate_device(&some, &device(1 << 30)) else {
        panic!("too little")
    };
    let message = missing.to_string();
    assert!(message.contains("no random run with 16 and more requests at a time of reads"), "{message}");
    assert!(message.contains("no run of requests eight times as large of reads"), "{message}");
}

#[test]
fn holds_out_the_middle_depth_of_each_series() {
    let truth = find_entry("intel-s3500-480").expect("in the catalogue").build_device().expect("a model");
    let mut all = cells(&truth, [1, 4, 16, 64, 256].map(|depth| random(1.0, 4, depth)).to_vec(), false);
    all.extend(cells(&truth, vec![in_order(1.0, 64), random(0.5, 4, 16)], false));
    hold_out_middle_depths(&mut all);
    let aside: Vec<u32> = all.iter().filter(|cell| cell.held_out).map(|cell| cell.load.depth).collect();
    assert_eq!(aside, [16]);
}

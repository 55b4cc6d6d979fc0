//! Speed of reading PCP archives and Performance Monitor's binary logs to frames, by processor time; beside it that of
//! `pmdumplog`, which prints an archive (no other program here reads a .blg).
//!
//!     cargo bench -p diskwright-logs --bench binary
//!
//! With `--tiny`, and when `cargo test` runs it, the numbers are meaningless.

#![allow(clippy::disallowed_macros, reason = "a benchmark prints its table")]

#[path = "../tests/blg_encoder/mod.rs"]
mod blg_encoder;
#[path = "../tests/pcp_encoder/mod.rs"]
mod pcp_encoder;

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use diskwright_logs::{LogInput, LogOptions, LogPiece, read};
use pcp_encoder::{Archive, COUNT, COUNTER, KBYTE, MSEC, START, U32, U64, Value, pmid};
use rustix::time::{ClockId, clock_gettime};

/// Disks of the simulated machine.
const DISKS: u32 = 24;
/// Metrics of each disk: name, type and units.
const METRICS: [(&str, u32, u32); 8] = [
    ("disk.dev.read", U64, COUNT),
    ("disk.dev.write", U64, COUNT),
    ("disk.dev.read_bytes", U64, KBYTE),
    ("disk.dev.write_bytes", U64, KBYTE),
    ("disk.dev.read_rawactive", U32, MSEC),
    ("disk.dev.write_rawactive", U32, MSEC),
    ("disk.dev.avactive", U32, MSEC),
    ("disk.dev.aveq", U32, MSEC),
];

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let has = |wanted: &str| arguments.iter().any(|a| a == wanted);
    let tiny = has("--tiny") || !has("--bench");
    let (samples, times) = if tiny { (5, 1) } else { (10_000, 5) };
    let work = std::env::temp_dir().join(format!("diskwright-binary-{}", std::process::id()));
    fs::create_dir_all(&work).expect("a temporary folder");
    for version in [2, 3] {
        let archive = make_archive(version, samples);
        let base = work.join(format!("v{version}"));
        let put = |ending: &str, bytes: &[u8]| fs::write(base.with_extension(ending), bytes).expect("written");
        put("meta", &archive.meta);
        put("0", &archive.volume);
        put("index", &archive.index);
        measure_reading(&format!("PCP version {version}"), &base, archive.volume.len(), times);
        measure_pmdumplog(&base, archive.volume.len());
    }
    for (name, file) in [
        ("BLG, counter list", blg_encoder::of_lists(u64::from(samples) * 2)),
        ("BLG, whole objects", blg_encoder::of_objects(u64::from(samples))),
    ] {
        let path = work.join("log.blg");
        fs::write(&path, &file).expect("written");
        measure_reading(name, &path, file.len(), times);
    }
    let _ = fs::remove_dir_all(&work);
}

/// Makes an archive of 24 disks with a record per second.
fn make_archive(version: u8, samples: u32) -> Archive {
    let mut archive = Archive::new(version, "bench", 1);
    let domain = pcp_encoder::DISKS;
    for (item, (name, kind, units)) in (0..).zip(METRICS) {
        archive.describe(pmid(60, 0, item), name, kind, domain, COUNTER, units);
    }
    let names: Vec<String> = (0..DISKS).map(|d| format!("sd{}", char::from(b'a' + d as u8))).collect();
    let instances: Vec<(u32, &str)> = (0..).zip(names.iter().map(String::as_str)).collect();
    archive.instances(START as f64, domain, &instances);
    for sample in 0..samples {
        let value = |kind: u32, disk: u32| match kind {
            U64 => Value::U64(u64::from(sample) * u64::from(100 + disk)),
            _ => Value::Word(sample * (10 + disk)),
        };
        let set = |kind| (0..DISKS).map(|d| (d, value(kind, d))).collect();
        let sets: Vec<_> = (0..).zip(METRICS).map(|(item, m)| (pmid(60, 0, item), Ok(set(m.1)))).collect();
        archive.record(START as f64 + f64::from(sample), &sets);
    }
    archive.finish(START as f64 + f64::from(samples));
    archive
}

/// Returns the processor time of this thread.
fn thread_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32)
}

fn measure_reading(name: &str, path: &Path, bytes: usize, times: u32) {
    let mut best = f64::INFINITY;
    let mut values = 0;
    for _ in 0..times {
        let before = thread_time();
        let mut sink = |_: LogPiece<'_>| ControlFlow::Continue(());
        let mut input = LogInput::open(path).expect("opens");
        let summary = read(&mut input, &LogOptions::default(), &mut sink).expect("is read");
        best = best.min((thread_time() - before).as_secs_f64());
        values = summary.values;
    }
    let megabytes = bytes as f64 * 1e-6;
    let rates = (megabytes / best, values as f64 / best * 1e-6);
    println!("{name:<20} {megabytes:8.1} MB  {:8.0} MB/s  {:6.1} million values/s", rates.0, rates.1);
}

fn measure_pmdumplog(base: &Path, bytes: usize) {
    let before = std::time::Instant::now();
    let done = Command::new("pmdumplog").arg(base).stdout(Stdio::null()).stderr(Stdio::null()).status();
    match done {
        Ok(status) if status.success() => {
            let rate = bytes as f64 * 1e-6 / before.elapsed().as_secs_f64();
            println!("{:<20} {:8} {rate:12.0} MB/s (wall)", "  pmdumplog", "");
        }
        _ => println!("  skipped: pmdumplog is not installed (package pcp)"),
    }
}

//! Size of a log under real load, compared with sysstat's and PCP's files of the
//! same minutes, and speed of reading it.
//!
//!     cargo bench -p diskwright-datastore --bench size_and_speed -- --for 600
//!
//! It makes its own load with fio: as root on sixteen loop devices over sparse
//! files, otherwise on plain files; whatever else the machine does is in the
//! log too. `--disks N` binds another number, `--no-load` makes none, `--keep
//! DIR` keeps the log. With `--tiny`, and when `cargo test` runs it, a few
//! quick ticks only show that it works; then the numbers mean nothing.

#![allow(clippy::disallowed_macros, reason = "a benchmark prints its table")]
#![allow(clippy::disallowed_methods, reason = "it paces itself, and ends by itself")]

#[path = "size_and_speed/load.rs"]
mod load;
#[path = "size_and_speed/peers.rs"]
mod peers;

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use diskwright_base::{Frame, Schema, Tick};
use diskwright_counters::live::{Roots, Sampler, SamplerOptions, SystemClock};
use diskwright_datastore::{LogItem, LogReader, LogWriter, WriterOptions};
use rustix::time::{ClockId, clock_gettime};

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let has = |wanted: &str| arguments.iter().any(|a| a == wanted);
    let value = |name: &str| arguments.iter().position(|a| a == name).and_then(|index| arguments.get(index + 1));
    let number = |name: &str, default| value(name).and_then(|v| v.parse().ok()).unwrap_or(default);
    let tiny = has("--tiny") || !has("--bench");
    let work = std::env::temp_dir().join(format!("diskwright-bench-{}", std::process::id()));
    fs::create_dir_all(&work).expect("a temporary folder");
    let (ticks, every) = if tiny { (12, 0.02) } else { (number("--for", 600), 1.0) };
    let machine = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    println!("# size and speed of a log: Linux {}, {ticks} ticks of {every} s", machine.trim());
    let load = if tiny || has("--no-load") { None } else { load::Load::start(&work, number("--disks", 16), ticks) };
    println!("load: {}", load.as_ref().map_or("none made".to_owned(), |l| l.description.clone()));
    let peers = if tiny { Vec::new() } else { peers::start_peers(&work, ticks) };
    let log = value("--keep").map_or(work.join("log"), PathBuf::from);
    let tally = record_log(&log, ticks, every);
    let resident = status_kib("VmHWM");
    drop(load);
    sizes_by_kind(&log, &tally);
    for peer in peers {
        peer.report(tally.ticks);
    }
    let each = tally.push.as_secs_f64() * 1e6 / tally.ticks as f64;
    println!("{:<44} {each:>9.1} us, waiting included", "writing a tick and its notes");
    let (times, rounds) = if tiny { (2, 2) } else { (20, 10) };
    repeat_log(&log, &work.join("long"), times);
    measure_speed(&work.join("long"), &tally, rounds, times);
    println!("{:<44} {resident:>9} KiB", "most resident memory while recording");
    println!("{:<44} {:>9} KiB", "and after reading", status_kib("VmHWM"));
    // files left in the temporary folder do no harm
    let _ = fs::remove_dir_all(&work);
}

/// Counts of the recorded ticks and cells.
#[derive(Default)]
struct Tally {
    ticks: u64,
    cells: u64,
    changed: u64,
    moved: u64,
    schemas: u64,
    push: Duration,
}

fn record_log(log: &Path, ticks: u64, every: f64) -> Tally {
    let slow = SamplerOptions { slow_interval: Duration::from_secs(10), ..SamplerOptions::default() };
    let mut sampler = Sampler::new(Roots::default(), Box::new(SystemClock), slow);
    let mut writer = LogWriter::create_or_append(log, WriterOptions::default()).expect("a log can be made");
    let mut tally = Tally::default();
    let mut before: Option<(Arc<Schema>, Vec<f64>)> = None;
    let start = Instant::now();
    for tick in 0..ticks {
        let due = start + Duration::from_secs_f64(every * tick as f64);
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        sampler.tick();
        tally.count(before.as_ref(), sampler.schema(), sampler.row());
        before = Some((sampler.schema().clone(), sampler.row().to_vec()));
        let notes = sampler.take_notes();
        let pushed = Instant::now();
        for note in notes {
            writer.add_note(&note).expect("there is room");
        }
        writer.push(sampler.schema(), sampler.tick_stamp(), sampler.row()).expect("there is room");
        tally.push += pushed.elapsed();
    }
    writer.close().expect("there is room");
    tally
}

impl Tally {
    fn count(&mut self, before: Option<&(Arc<Schema>, Vec<f64>)>, schema: &Arc<Schema>, row: &[f64]) {
        self.ticks += 1;
        self.cells += row.len() as u64;
        self.moved += row.iter().filter(|cell| cell.abs() > 0.0).count() as u64;
        let Some((old, cells)) = before else { return };
        let changed = |a: f64, b: f64| a.to_bits() != b.to_bits() && !(a.is_nan() && b.is_nan());
        if Arc::ptr_eq(old, schema) {
            self.changed += row.iter().zip(cells).filter(|(a, b)| changed(**a, **b)).count() as u64;
            return;
        }
        // A value of a new series does not count as changed.
        self.schemas += 1;
        let known: HashMap<_, _> = old.series.iter().map(|s| (&s.counter, &s.instance)).zip(cells).collect();
        let pairs =
            schema.series.iter().zip(row).filter_map(|(s, r)| Some((r, known.get(&(&s.counter, &s.instance))?)));
        self.changed += pairs.filter(|(a, b)| changed(**a, ***b)).count() as u64;
    }
}

/// Bytes of a log's segments by kind of record.
#[derive(Default)]
struct Sizes {
    counters: u64,
    schemas: u64,
    notes: u64,
    rest: u64,
}

fn sizes_by_kind(log: &Path, tally: &Tally) {
    let mut sizes = Sizes::default();
    let files = fs::read_dir(log).expect("the log").flatten().map(|entry| entry.path());
    for file in files.filter(|path| path.extension().is_some_and(|e| e == "dwlog")) {
        let bytes = fs::read(&file).expect("the log");
        let mut offset = 0;
        while offset < bytes.len() {
            let length =
                16 + u64::from(u32::from_le_bytes([bytes[offset + 5], bytes[offset + 6], bytes[offset + 7], 0]));
            match bytes[offset + 4] {
                2 => sizes.schemas += length,
                3 => sizes.counters += length,
                4 => sizes.notes += length,
                _ => sizes.rest += length,
            }
            offset += length as usize;
        }
    }
    let (ticks, changed) = (tally.ticks as f64, tally.changed as f64);
    println!("{:<44} {:>9}   {} changes of the schema", "cells", tally.cells, tally.schemas);
    println!(
        "{:<44} {:>9}   {:.1} a tick",
        "values that changed since the tick before",
        tally.changed,
        changed / ticks
    );
    println!("{:<44} {:>9}   {:.1} a tick", "values other than 0", tally.moved, tally.moved as f64 / ticks);
    println!("{:<44} {:>9} {:>12} {:>18}", "", "bytes", "a tick", "a changed value");
    let line = |name: &str, bytes: u64| {
        let bytes = bytes as f64;
        println!("{name:<44} {bytes:>9} {:>12.1} {:>18.3}", bytes / ticks, bytes / changed);
    };
    line("our log: counters", sizes.counters);
    line("our log: names of series", sizes.schemas);
    line("our log: counters, names, heads (at most 1.0)", sizes.counters + sizes.schemas + sizes.rest);
    line("our log: process tables, topology", sizes.notes);
    line("our log, all of it", sizes.counters + sizes.schemas + sizes.rest + sizes.notes);
}

/// Processor time of this thread, nanoseconds, without waiting.
fn thread_ns() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// Writes a longer log by repeating the ticks and notes, so that the cost per
/// log does not hide the cost per value.
fn repeat_log(log: &Path, long: &Path, times: u32) {
    let mut writer = LogWriter::create_or_append(long, WriterOptions::default()).expect("a log can be made");
    let (from, to) =
        LogReader::open(log).and_then(|reader| reader.time_range()).expect("the log").expect("it has ticks");
    let mut frame = Frame::default();
    let mut row = Vec::new();
    for round in 0..i64::from(times) {
        let shift = round * (to - from + 1_000_000_000);
        let mut reader = LogReader::open(log).expect("the log");
        while let Some(item) = reader.next(&mut frame).expect("the log") {
            match item {
                LogItem::Note(mut note) => {
                    note.time_ns += shift;
                    writer.add_note(&note).expect("there is room");
                }
                LogItem::Frame => {
                    for (index, tick) in frame.ticks().iter().enumerate() {
                        row.clear();
                        row.extend((0..frame.schema().series.len()).map(|column| frame.column(column)[index]));
                        let tick = Tick { time_ns: tick.time_ns + shift, ..*tick };
                        writer.push(frame.schema(), tick, &row).expect("there is room");
                    }
                }
                LogItem::Damage(damage) => panic!("{damage}"),
            }
        }
    }
    writer.close().expect("there is room");
}

fn measure_speed(log: &Path, tally: &Tally, rounds: u32, times: u32) {
    let mut frame = Frame::default();
    let (mut best_ns, mut values) = (f64::MAX, 0);
    for _ in 0..rounds {
        let start = thread_ns();
        let mut reader = LogReader::open(log).expect("the log");
        values = 0;
        while let Some(item) = reader.next(&mut frame).expect("the log") {
            if item == LogItem::Frame {
                values += frame.ticks().len() * frame.schema().series.len();
            }
        }
        best_ns = best_ns.min(thread_ns() - start);
    }
    assert_eq!(values as u64, tally.cells * u64::from(times), "all that was recorded");
    println!("the log {times} times over, notes read too, the best of {rounds} readings");
    println!("{:<44} {:>9.0} million a second", "decoded values, all", values as f64 / best_ns * 1e3);
    let changed = (tally.changed * u64::from(times)) as f64 / best_ns * 1e3;
    println!("{:<44} {changed:>9.0} million a second", "decoded values, if only changed ones counted");
}

fn status_kib(key: &str) -> u64 {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find(|l| l.starts_with(key));
    line.and_then(|l| l.split_whitespace().nth(1)).and_then(|n| n.parse().ok()).unwrap_or(0)
}

//! Speed of writing a bulk import and of reading it back: noisy doubles,
//! a mixture like a Windows log's, and constant columns; wide and narrow. For
//! comparison, if gzip is installed, the size after `gzip -1` of the same
//! cells as PerfMon would print them.
//!
//!     cargo bench -p diskwright-datastore --bench bulk [-- --dir DIR]
//!
//! The log is in memory (/dev/shm) unless `--dir` names another folder: the benchmark measures
//! processor time, including the system's. With `--tiny`, and when `cargo test` runs it, the
//! numbers mean nothing. `--keep DIR` only writes a wide, mixed log to DIR, for other benchmarks
//! (`benches/export`).

#![allow(clippy::disallowed_macros, reason = "a benchmark prints its table")]

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use diskwright_base::{Frame, Schema, Series, Tick};
use diskwright_datastore::{LogItem, LogReader, LogWriter, WriterOptions};
use rustix::time::{ClockId, clock_gettime};

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let has = |wanted: &str| arguments.iter().any(|a| a == wanted);
    let value = |name: &str| arguments.iter().position(|a| a == name).and_then(|index| arguments.get(index + 1));
    let tiny = has("--tiny") || !has("--bench");
    if let Some(keep) = value("--keep") {
        write_frames(Path::new(keep), &next_frame(1100, 953, mixed_cells), if tiny { 1 } else { 20 });
        return;
    }
    let memory = Path::new("/dev/shm");
    let base = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    let base = value("--dir").map_or(base, PathBuf::from);
    let work = base.join(format!("diskwright-bulk-{}", std::process::id()));
    fs::create_dir_all(&work).expect("a temporary folder");
    println!("# bulk import: million cells a second of processor time, best of some; bytes a cell");
    println!(
        "{:<10} {:>7} {:>8} {:>8} {:>8} {:>10} {:>10}",
        "cells", "columns", "writing", "reading", "bytes", "gzip -1", "text"
    );
    for (width, rounds) in [(1100, if tiny { 1 } else { 40 }), (10, if tiny { 1 } else { 3000 })] {
        for (name, cell) in KINDS {
            let frame = next_frame(width, if tiny { 50 } else { 953 }, *cell);
            measure(&work, name, &frame, rounds, if tiny { 1 } else { 3 });
        }
    }
    let _ = fs::remove_dir_all(&work);
}

type Cell = fn(usize, usize, &mut Random, f64) -> f64;

const KINDS: &[(&str, Cell)] = &[
    ("noisy", |_, _, random, _| random.share() * 12345.678),
    ("mixed", mixed_cells),
    ("constant", |_, column, _, _| column as f64 * 17.0),
];

/// Cells like those of a wide PerfMon log: many counters that rarely change, whole
/// numbers that drift, and rates over seconds that are not exactly 1 s long.
fn mixed_cells(tick: usize, column: usize, random: &mut Random, before: f64) -> f64 {
    let second = 1.0 + random.share() * 0.01;
    match column % 10 {
        0..=2 => 0.0,
        3 => 4096.0 * column as f64,
        4 if random.share() > 0.01 && tick > 0 => before,
        4 => (random.share() * 1e6).floor(),
        5 => (before + (random.share() - 0.5) * 100.0).round() * 4.0,
        6 if random.share() < 0.6 => 0.0,
        6 | 7 => (random.share() * 300.0).floor() / second,
        8 => (random.share() * 64.0).floor() * 1.5625 / second,
        _ => random.share() * 12345.678,
    }
}

/// A congruential generator, which makes the same cells on every machine.
struct Random(u64);

impl Random {
    fn share(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 ^ self.0 >> 31) >> 11) as f64 / (1u64 << 53) as f64
    }
}

fn next_frame(width: usize, ticks: usize, cell: Cell) -> Frame {
    let series = |i| Series { counter: format!("foreign.counter {i}"), instance: String::new(), scale: 1.0 };
    let schema = Arc::new(Schema::new((0..width).map(series).collect()));
    let mut frame = Frame::new(schema, ticks);
    let mut random = Random(1);
    let mut row = vec![0.0; width];
    for tick in 0..ticks {
        for (column, value) in row.iter_mut().enumerate() {
            *value = cell(tick, column, &mut random, *value);
        }
        let time_ns = 1_700_000_000_000_000_000 + tick as i64 * 1_000_000_000 + (random.share() * 2e7) as i64;
        frame.push(Tick { time_ns, elapsed_ns: 1_000_000_000 }, &row);
    }
    frame
}

/// Processor time of this thread in user and system mode, s.
fn processor_time_s() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Writes the same cells repeatedly, with later times.
fn write_frames(log: &Path, frame: &Frame, rounds: usize) {
    let mut shifted = frame.clone();
    let mut writer = LogWriter::create_or_append(log, WriterOptions::for_bulk_import()).expect("a log can be made");
    for round in 0..rounds {
        let later = |tick: &Tick| Tick { time_ns: tick.time_ns + round as i64 * 1_000_000_000_000, ..*tick };
        let ticks: Vec<Tick> = frame.ticks().iter().map(later).collect();
        shifted.set_ticks(&ticks);
        writer.push_frame(&shifted).expect("there is room");
    }
    writer.close().expect("there is room");
}

fn measure(work: &Path, name: &str, frame: &Frame, rounds: usize, times: usize) {
    let width = frame.schema().series.len();
    let cells = (width * frame.ticks().len() * rounds) as f64;
    let log = work.join("log");
    let (mut writing, mut reading) = (f64::MAX, f64::MAX);
    let mut bytes = 0;
    for _ in 0..times {
        let _ = fs::remove_dir_all(&log);
        let start = processor_time_s();
        write_frames(&log, frame, rounds);
        writing = writing.min(processor_time_s() - start);
        bytes = fs::read_dir(&log).expect("the log").flatten().map(|e| e.metadata().map_or(0, |m| m.len())).sum();
        let start = processor_time_s();
        let mut reader = LogReader::open(&log).expect("the log");
        let mut back = Frame::default();
        let mut seen = 0;
        while let Some(item) = reader.next(&mut back).expect("the log") {
            assert_eq!(item, LogItem::Frame);
            seen += back.ticks().len() * back.schema().series.len();
        }
        assert_eq!(seen as f64, cells, "all that was written");
        reading = reading.min(processor_time_s() - start);
    }
    let (zipped, text) = gzip_sizes(frame);
    let one = (width * frame.ticks().len()) as f64;
    println!(
        "{name:<10} {width:>7} {:>8.0} {:>8.0} {:>8.3} {:>10} {:>10.1}",
        cells / writing / 1e6,
        cells / reading / 1e6,
        bytes as f64 / cells,
        zipped.map_or("-".to_owned(), |zipped| format!("{:.3}", zipped as f64 / one)),
        text as f64 / one,
    );
}

/// Returns the length of the cells as quoted text, and after `gzip -1`.
fn gzip_sizes(frame: &Frame) -> (Option<usize>, usize) {
    let mut text = String::new();
    for index in 0..frame.ticks().len() {
        for column in 0..frame.schema().series.len() {
            text += &format!("\"{}\",", frame.column(column)[index]);
        }
        text += "\r\n";
    }
    let length = text.len();
    let zip = Command::new("gzip").args(["-1", "-c"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let Ok(mut zip) = zip else { return (None, length) };
    let mut input = zip.stdin.take().expect("piped");
    let feeding = std::thread::spawn(move || input.write_all(text.as_bytes()));
    let zipped = zip.wait_with_output().map(|output| output.stdout.len()).ok();
    let _ = feeding.join();
    (zipped, length)
}

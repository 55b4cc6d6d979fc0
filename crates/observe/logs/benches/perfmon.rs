//! Speed of reading a Performance Monitor CSV to frames, and to a Diskwright log, by processor time; beside it that of
//! other programs for the same files, pinned to one thread (`peers.py`), in the same run.
//!
//!     python3 -m venv V && V/bin/pip install duckdb pandas polars pyarrow
//!     cargo bench -p diskwright-logs --bench perfmon -- --python V/bin/python3
//!
//! The files are in memory (/dev/shm) unless `--dir` says otherwise. `--mb` sets their size, `--only NAME` selects one
//! of them. `--stream GB` shows instead that memory stays constant: it sends that much through a pipe, without a file.
//! With `--tiny`, and when `cargo test` runs it, the numbers are meaningless.

#![allow(clippy::disallowed_macros, reason = "a benchmark prints its table")]

use std::fs;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use diskwright_datastore::{LogWriter, WriterOptions};
use diskwright_logs::{LogInput, LogOptions, LogPiece, ReadSummary, read};
use rustix::time::{ClockId, clock_gettime};

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let has = |wanted: &str| arguments.iter().any(|a| a == wanted);
    let value = |name: &str| arguments.iter().position(|a| a == name).and_then(|index| arguments.get(index + 1));
    let number = |name: &str, default: f64| value(name).and_then(|v| v.parse().ok()).unwrap_or(default);
    let memory = Path::new("/dev/shm");
    let base = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    let work = value("--dir").map_or(base, PathBuf::from).join(format!("diskwright-perfmon-{}", std::process::id()));
    fs::create_dir_all(&work).expect("a temporary folder");
    if has("--from-pipe") {
        read_pipe(&work, has("--to-log"));
    } else if let Some(gigabytes) = value("--stream").and_then(|v| v.parse::<f64>().ok()) {
        for to_log in [false, true] {
            stream_pipe(gigabytes, to_log, value("--dir"));
        }
    } else {
        let tiny = has("--tiny") || !has("--bench");
        let (megabytes, times) = if tiny { (0.3, 1) } else { (number("--mb", 200.0), number("--times", 5.0) as u32) };
        let only = value("--only").map(String::as_str);
        compare_readers(&work, megabytes, times, value("--python").map(Path::new), only);
    }
    let _ = fs::remove_dir_all(&work);
}

/// Files to be read: name, columns and cells.
const FILES: &[(&str, usize, Cell)] = &[
    ("wide", 1105, write_mixed),
    ("narrow", 12, write_mixed),
    ("wide-noise", 1105, write_noisy),
    ("old-wide", 1105, write_twenty_digits),
];

type Cell = fn(&mut String, usize, usize, &mut Random, &mut f64);

/// Writes a cell of a log of whole objects: many counters that do not change, integers that drift, rates over a second
/// that is never exact, and processes that do not exist yet (blanks).
fn write_mixed(out: &mut String, row: usize, column: usize, random: &mut Random, value: &mut f64) {
    let second = 1.0 + random.next_share() * 0.01;
    match column % 10 {
        0 | 1 => *value = 0.0,
        2 if row == 0 || random.next_share() < 0.01 => *value = (random.next_share() * 4.0).floor() - 1.0,
        3 => *value = 4096.0 * column as f64,
        4 if row == 0 || random.next_share() < 0.01 => *value = (random.next_share() * 1e6).floor(),
        5 => *value = ((*value / 4.0 + (random.next_share() - 0.5) * 100.0).round() * 4.0).abs(),
        6 => *value = (random.next_share() * 3.0).floor() / second,
        7 => *value = (random.next_share() * 300.0).floor() / second,
        8 => *value = (random.next_share() * 64.0).floor() * 1.5625 / second,
        9 => *value = random.next_share() * 12345.678,
        _ => {}
    }
    if *value < 0.0 || (row == 0 && column % 10 > 5) { out.push(' ') } else { out.push_str(&value.to_string()) }
}

/// Writes doubles of 15 to 17 digits only.
fn write_noisy(out: &mut String, _: usize, _: usize, random: &mut Random, _: &mut f64) {
    out.push_str(&(random.next_share() * 12345.678).to_string());
}

/// Writes the mixture as Windows before 10 printed it: 20 digits, and exponents of three.
fn write_twenty_digits(out: &mut String, row: usize, column: usize, random: &mut Random, value: &mut f64) {
    write_mixed(out, row, column, random, value);
    if column % 10 > 5 && row > 0 {
        out.truncate(out.rfind('"').map_or(0, |index| index + 1));
        let decimals = 19 - value.abs().max(1e-9).log10().floor() as i32;
        out.push_str(&format!("{:.*}", decimals.clamp(0, 25) as usize, value));
    }
}

/// A congruential generator, which gives the same cells on every machine.
struct Random(u64);

impl Random {
    fn next_share(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 ^ self.0 >> 31) >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Counters of a typical log of a dozen counters.
const NARROW_COUNTERS: &[&str] = &[
    r"Processor(_Total)\% Privileged Time",
    r"Processor(_Total)\% Interrupt Time",
    r"System\Processor Queue Length",
    r"Memory\Commit Limit",
    r"Memory\Page Faults/sec",
    r"Memory\Available Bytes",
    r"Memory\Pages/sec",
    r"PhysicalDisk(0 C:)\Disk Reads/sec",
    r"PhysicalDisk(0 C:)\Avg. Disk Queue Length",
    r"PhysicalDisk(0 C:)\Disk Writes/sec",
    r"PhysicalDisk(1 D:)\Current Disk Queue Length",
    r"Network Interface(Intel[R] Ethernet)\Output Queue Length",
];

fn make_header(columns: usize) -> String {
    let mut text = "\"(PDH-CSV 4.0) (Coordinated Universal Time)(0)\"".to_owned();
    let counters = ["% Processor Time", "IO Read Bytes/sec", "IO Write Bytes/sec", "Working Set", "ID Process"];
    if columns <= NARROW_COUNTERS.len() {
        NARROW_COUNTERS[..columns].iter().for_each(|path| text += &format!(",\"\\\\SERVER1\\{path}\""));
        return text + "\r\n";
    }
    for column in 0..columns {
        text += &match column % 10 {
            5 if column < 100 => format!(",\"\\\\SERVER1\\PhysicalDisk({column} C:)\\Disk Reads/sec\""),
            index => format!(",\"\\\\SERVER1\\Process(program#{})\\{}\"", column / 5, counters[index % 5]),
        };
    }
    text + "\r\n"
}

/// Makes rows from number `from` on, about `bytes` long.
fn make_rows(columns: usize, cell: Cell, values: &mut [f64], random: &mut Random, from: usize, bytes: usize) -> String {
    let mut out = String::with_capacity(bytes + (32 << 10));
    let mut row = from;
    while out.len() < bytes {
        out += &format_time(row);
        for (column, value) in values.iter_mut().enumerate().take(columns) {
            out.push_str(",\"");
            cell(&mut out, row, column, random, value);
            out.push('"');
        }
        out.push_str("\r\n");
        row += 1;
    }
    out
}

/// Formats the time of a row: one per second from the first of March 2026 on.
fn format_time(row: usize) -> String {
    let (day, second) = (row / 86_400, row % 86_400);
    let (month, day) = (3 + day / 28, 1 + day % 28);
    let (year, month) = (2026 + (month - 1) / 12, 1 + (month - 1) % 12);
    let (h, m, s) = (second / 3600, second / 60 % 60, second % 60);
    format!("\"{month:02}/{day:02}/{year} {h:02}:{m:02}:{s:02}.{:03}\"", row * 7 % 20)
}

/// Returns the processor time of this thread, including the system's on its behalf.
fn processor_s() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

fn read_to_frames(file: &Path) -> (ReadSummary, f64) {
    let start = processor_s();
    let mut input = LogInput::open(file).expect("the file");
    let mut sink = |_: LogPiece<'_>| ControlFlow::Continue(());
    let summary = read(&mut input, &LogOptions::default(), &mut sink).expect("a log");
    (summary, processor_s() - start)
}

fn read_to_log(file: &Path, log: &Path) -> (ReadSummary, f64) {
    let _ = fs::remove_dir_all(log);
    let start = processor_s();
    let mut writer = LogWriter::create_or_append(log, WriterOptions::for_bulk_import()).expect("a log can be made");
    let mut input = LogInput::open(file).expect("the file");
    let mut sink = |piece: LogPiece<'_>| {
        match piece {
            LogPiece::Frame(frame) => writer.push_frame(frame).expect("there is room"),
            LogPiece::Note(note) => drop(writer.add_note(&note).expect("there is room")),
        }
        ControlFlow::Continue(())
    };
    let summary = read(&mut input, &LogOptions::default(), &mut sink).expect("a log");
    writer.close().expect("there is room");
    (summary, processor_s() - start)
}

fn compare_readers(work: &Path, megabytes: f64, times: u32, python: Option<&Path>, only: Option<&str>) {
    println!("# PerfMon CSV, MB a second of processor time (system's included), best of {times}");
    println!("{:<12} {:>7} {:>8} {:>8}  {:<24} {:>9}", "file", "columns", "MB", "ticks", "reader", "MB/s");
    for &(name, columns, cell) in FILES.iter().filter(|f| only.is_none_or(|only| only == f.0)) {
        let file = work.join(format!("{name}.csv"));
        let mut random = Random(1);
        let mut values = vec![0.0; columns];
        let text =
            make_header(columns) + &make_rows(columns, cell, &mut values, &mut random, 0, (megabytes * 1e6) as usize);
        fs::write(&file, &text).expect("there is room");
        let size = text.len() as f64 / 1e6;
        drop(text);
        let mut best = [f64::MAX; 2];
        let mut ticks = 0;
        for _ in 0..times {
            let (summary, seconds) = read_to_frames(&file);
            best[0] = best[0].min(seconds);
            ticks = summary.ticks;
            assert_eq!(summary.series, columns as u64);
            assert!(summary.skipped.is_empty(), "{:?}", summary.skipped);
            best[1] = best[1].min(read_to_log(&file, &work.join("log")).1);
        }
        for (reader, seconds) in ["diskwright, to frames", "diskwright, to a log"].iter().zip(best) {
            println!("{name:<12} {columns:>7} {size:>8.1} {ticks:>8}  {reader:<24} {:>9.0}", size / seconds);
        }
        if let Some(python) = python {
            let script = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/peers.py");
            let done = Command::new(python).arg(script).arg(&file).arg(times.to_string()).output();
            let out = done.expect("python runs");
            for line in String::from_utf8_lossy(&out.stdout).lines() {
                let (peer, seconds) = line.rsplit_once(' ').expect("a name and seconds");
                let rate = size / seconds.parse::<f64>().expect("seconds");
                println!("{name:<12} {columns:>7} {size:>8.1} {ticks:>8}  {peer:<24} {rate:>9.0}");
            }
            eprint!("{}", String::from_utf8_lossy(&out.stderr));
        }
        let _ = fs::remove_file(&file);
    }
}

/// Sends this many GB through a pipe to another process of this program.
fn stream_pipe(gigabytes: f64, to_log: bool, dir: Option<&String>) {
    for &(name, columns, cell) in &FILES[..2] {
        let me = std::env::current_exe().expect("a path");
        let mut child = Command::new(me);
        child.arg("--from-pipe").args(to_log.then_some("--to-log")).stdin(Stdio::piped());
        if let Some(dir) = dir {
            child.args(["--dir", dir.as_str()]);
        }
        let mut child = child.spawn().expect("it runs");
        let mut pipe = child.stdin.take().expect("a pipe");
        pipe.write_all(make_header(columns).as_bytes()).expect("it reads");
        let mut values = vec![0.0; columns];
        let body = make_rows(columns, cell, &mut values, &mut Random(1), 1, 32 << 20);
        // the same rows again and again, each with its own time
        let mut sent = 0;
        let mut row = 0;
        while (sent as f64) < gigabytes * 1e9 {
            let mut piece = Vec::with_capacity(body.len());
            for line in body.split_inclusive('\n') {
                piece.extend_from_slice(format_time(row).as_bytes());
                piece.extend_from_slice(&line.as_bytes()[25..]);
                row += 1;
            }
            pipe.write_all(&piece).expect("it reads");
            sent += piece.len();
        }
        drop(pipe);
        let way = if to_log { "to a log" } else { "to frames" };
        println!("{name}: {:.2} GB through a pipe {way}, {row} rows", sent as f64 * 1e-9);
        assert!(child.wait().expect("it ends").success());
    }
}

/// Reads standard input, and prints the largest resident memory.
fn read_pipe(work: &Path, keeps: bool) {
    let stdin = Path::new("-");
    let (summary, seconds) = if keeps { read_to_log(stdin, &work.join("log")) } else { read_to_frames(stdin) };
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let max_resident = status.lines().find_map(|l| l.strip_prefix("VmHWM:")).unwrap_or("unknown").trim();
    let span = summary.range.map_or(0, |(from, to)| to - from);
    let hours = Duration::from_nanos(span.unsigned_abs()).as_secs() / 3600;
    println!(
        "  {} ticks over {hours} h, {} values, {seconds:.1} s; most resident: {max_resident}",
        summary.ticks, summary.values
    );
}

//! Speed of reading and aggregating traces, compared with blkparse and btt on the same
//! files if they are installed.
//!
//!     cargo bench -p diskwright-traces --bench reading -- --requests 2000000
//!
//! The traces are generated: random and sequential requests of three sizes
//! with up to 32 in flight, on two processors. With `--tiny`, and when `cargo
//! test` runs it, a few requests only show that it works.

#![allow(clippy::disallowed_macros, reason = "a benchmark prints its table")]

#[path = "../tests/common/mod.rs"]
mod common;

use std::collections::BinaryHeap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::{C, D, DEFAULT_FORMAT, G, Q, READ, WRITE, event};
use diskwright_base::{Histogram, Operation, Request};
use diskwright_traces::{CSV_HEADING, Statistics, open, write_csv_line};
use rustix::time::{ClockId, clock_gettime};

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let has = |wanted: &str| arguments.iter().any(|a| a == wanted);
    let tiny = has("--tiny") || !has("--bench");
    let requested =
        arguments.iter().position(|a| a == "--requests").and_then(|index| arguments.get(index + 1)?.parse().ok());
    let (count, rounds) = if tiny { (2000, 1) } else { (requested.unwrap_or(2_000_000), 3) };
    let folder = std::env::temp_dir().join(format!("diskwright-traces-bench-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a temporary folder");
    let machine = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    println!("# reading traces of {count} requests: Linux {}", machine.trim());
    println!(
        "{:<22} {:>8} {:>10} {:>14} {:>10} {:>14}",
        "", "MB", "read MB/s", "requests/s", "and summed", "requests/s"
    );
    let requests = random_requests(count);
    for (format, paths) in write_formats(&requests, &folder) {
        measure_format(format, &paths, count, rounds);
    }
    measure_histogram(&requests, rounds);
    if !tiny {
        measure_peers(&folder, rounds);
        println!("most resident memory, the {count} requests of this benchmark included: {} KiB", status_kib("VmHWM"));
    }
    let _ = fs::remove_dir_all(&folder);
}

/// Processor time of this thread, seconds.
fn thread_time_s() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

fn status_kib(field: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix(field)?.strip_prefix(':'));
    line.and_then(|l| l.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// Generates requests with up to 32 in flight; a third continues where the last ended.
fn random_requests(count: usize) -> Vec<Request> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut random_below = |sides: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % sides
    };
    let (mut now, mut end) = (0i64, 0u64);
    let mut slots = [0i64; 32];
    let make = |_| {
        now += 1000 + random_below(20_000) as i64;
        let slot = random_below(32) as usize;
        now = now.max(slots[slot] + 500);
        let sectors = [8, 16, 128][random_below(3) as usize];
        let sector = if random_below(3) == 0 { end } else { random_below(1 << 28) * 8 };
        end = sector + sectors;
        let operation = if random_below(10) < 7 { Operation::Read } else { Operation::Write };
        let issued_ns = now + 500 + random_below(3000) as i64;
        slots[slot] = issued_ns + 20_000 + random_below(400_000) as i64;
        let request = Request::new(now, 0, operation, sector * 512, sectors as u32 * 512);
        Request { issued_ns, completion_ns: slots[slot], ..request }
    };
    (0..count).map(make).collect()
}

/// Writes the requests in each format; returns the files.
fn write_formats(requests: &[Request], folder: &Path) -> Vec<(&'static str, Vec<PathBuf>)> {
    let save = |name: &str, bytes: &[u8]| {
        let path = folder.join(name);
        fs::write(&path, bytes).expect("room for a trace");
        path
    };
    let (mut msr, mut disksim, mut validation, mut csv) =
        (String::new(), String::new(), String::new(), CSV_HEADING.to_owned());
    for r in requests {
        let response = r.response_ns().unwrap_or(0);
        let word = if r.operation == Operation::Read { "Read" } else { "Write" };
        let (block, blocks) = (r.offset_bytes / 512, r.length_bytes / 512);
        let time = 128_166_372_003_061_629 + r.arrival_ns / 100;
        let _ = writeln!(msr, "{time},usr,0,{word},{},{},{}", r.offset_bytes, r.length_bytes, response / 100);
        let (ms, reads) = (r.arrival_ns as f64 * 1e-6, u8::from(r.operation == Operation::Read));
        let _ = writeln!(disksim, "{ms:.6} 0 {block} {blocks} {reads}");
        let _ = writeln!(
            validation,
            "{} Hit {block:8} {blocks:3} {:10}.00000 {:10}.00000",
            &word[..1],
            response / 1000,
            20
        );
        write_csv_line(&mut csv, r, "sda");
    }
    let mut sets = vec![("blktrace", write_blktrace(requests, folder))];
    for (format, text) in [("msr-cambridge", msr), ("disksim", disksim), ("disksim-validation", validation)] {
        sets.push((format, vec![save(format, text.as_bytes())]));
    }
    sets.push(("requests-csv", vec![save("requests.csv", csv.as_bytes())]));
    sets
}

/// Writes a blktrace: Q, G and D on the processor that queues, C on the other one.
fn write_blktrace(requests: &[Request], folder: &Path) -> Vec<PathBuf> {
    let mut files = [Vec::new(), Vec::new()];
    let mut later: BinaryHeap<(std::cmp::Reverse<u64>, usize, u64, usize)> = BinaryHeap::new();
    let mut put = |offset: u64, processor: usize, action: u64, r: &Request| {
        let category = if r.operation == Operation::Read { READ } else { WRITE } | 0x100;
        let entry = event(offset, action, category, r.offset_bytes / 512, r.length_bytes / 512);
        files[processor].extend(DEFAULT_FORMAT.encode_record(&entry));
    };
    for (number, r) in requests.iter().enumerate() {
        let moment = |ns: i64| u64::try_from(ns).unwrap_or(0);
        let arrival = moment(r.arrival_ns);
        while let Some((std::cmp::Reverse(position), ..)) = later.peek()
            && *position <= arrival
            && let Some((std::cmp::Reverse(position), processor, action, number)) = later.pop()
        {
            put(position, processor, action, &requests[number]);
        }
        put(arrival, number % 2, Q, r);
        put(arrival, number % 2, G, r);
        later.push((std::cmp::Reverse(moment(r.issued_ns)), number % 2, D, number));
        later.push((std::cmp::Reverse(moment(r.completion_ns)), 1 - number % 2, C, number));
    }
    while let Some((std::cmp::Reverse(position), processor, action, number)) = later.pop() {
        put(position, processor, action, &requests[number]);
    }
    let paths = [0, 1].map(|processor| folder.join(format!("bench.blktrace.{processor}")));
    for (path, bytes) in paths.iter().zip(&files) {
        fs::write(path, bytes).expect("room for a trace");
    }
    paths.into()
}

/// Measures the time of recording a latency in a histogram.
fn measure_histogram(requests: &[Request], rounds: u32) {
    let times: Vec<u64> = requests.iter().filter_map(Request::response_ns).collect();
    let mut histogram = Histogram::new();
    let mut min_s = f64::MAX;
    for _ in 0..rounds {
        histogram.clear();
        let start = thread_time_s();
        times.iter().for_each(|&t| histogram.record(t));
        min_s = min_s.min((thread_time_s() - start) / times.len() as f64);
    }
    assert_eq!(histogram.count(), times.len() as u64);
    println!("{:<44} {:>8.1} ns", "a histogram records a value", min_s * 1e9);
}

fn size_mb(paths: &[PathBuf]) -> f64 {
    paths.iter().map(|p| fs::metadata(p).map_or(0, |m| m.len())).sum::<u64>() as f64 * 1e-6
}

fn measure_format(format: &str, paths: &[PathBuf], count: usize, rounds: u32) {
    let mb = size_mb(paths);
    let (mut read_s, mut summed_s) = (f64::MAX, f64::MAX);
    for _ in 0..rounds {
        let start = thread_time_s();
        let found = open(paths).expect("opens").map(|r| u64::from(r.is_ok())).sum::<u64>();
        read_s = read_s.min(thread_time_s() - start);
        assert_eq!(found, count as u64, "{format}");
        let start = thread_time_s();
        let mut statistics = Statistics::new();
        let mut trace = open(paths).expect("opens");
        assert_eq!(trace.format().id, format);
        trace.by_ref().for_each(|r| statistics.push(&r.expect("readable")));
        let report = statistics.finish(trace.devices());
        summed_s = summed_s.min(thread_time_s() - start);
        assert_eq!(report.all.requests, count as u64, "{format}");
    }
    let rate = |seconds: f64| format!("{:.2} M", count as f64 / seconds * 1e-6);
    println!(
        "{format:<22} {mb:>8.1} {:>10.0} {:>14} {:>10.0} {:>14}",
        mb / read_s,
        rate(read_s),
        mb / summed_s,
        rate(summed_s)
    );
}

/// Processor time of the child processes that have ended, seconds.
fn children_time_s() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let behind_name = stat.rsplit(')').next().unwrap_or("");
    let numbers: Vec<f64> = behind_name.split_whitespace().skip(1).filter_map(|n| n.parse().ok()).collect();
    // user and system time of children are the 16th and 17th field, the state is the 3rd
    let ticks: f64 = numbers.get(12..14).map_or(0.0, |n| n.iter().sum());
    ticks / rustix::param::clock_ticks_per_second() as f64
}

/// Measures blkparse and btt on the same two files, also by processor time.
fn measure_peers(folder: &Path, rounds: u32) {
    let mb = size_mb(&[folder.join("bench.blktrace.0"), folder.join("bench.blktrace.1")]);
    let text = ["blkparse", "-q", "-i", "bench", "-o", "bench.txt"];
    let binary = ["blkparse", "-q", "-O", "-i", "bench", "-d", "bench.bin"];
    let sums = ["btt", "-i", "bench.bin", "-o", "bench.btt"];
    for command in [&text[..], &binary, &sums] {
        let mut min_s = f64::MAX;
        for _ in 0..rounds.min(2) {
            let start = children_time_s();
            let mut process = Command::new(command[0]);
            process.args(&command[1..]).current_dir(folder).stdout(Stdio::null()).stderr(Stdio::null());
            match process.status() {
                Ok(status) if status.success() => min_s = min_s.min(children_time_s() - start),
                Ok(status) => return println!("{}: skipped: {status}", command.join(" ")),
                Err(why) => return println!("{}: skipped: {why}", command[0]),
            }
        }
        println!("{:<44} {min_s:>8.2} s {:>8.0} MB/s of the binary files", command.join(" "), mb / min_s);
    }
    if let Ok(found) = fs::metadata(folder.join("bench.txt")) {
        measure_text(&folder.join("bench.txt"), found.len() as f64 * 1e-6);
    }
}

/// Measures reading the text that blkparse wrote.
fn measure_text(path: &Path, mb: f64) {
    let start = thread_time_s();
    let count = open(&[path.to_owned()]).expect("opens").filter(Result::is_ok).count();
    let seconds = thread_time_s() - start;
    println!(
        "{:<22} {mb:>8.1} {:>10.0} {:>12.2} M",
        "blkparse (its text)",
        mb / seconds,
        count as f64 / seconds * 1e-6
    );
}

//! Compares the processor cost of a request in one run: our engines, fio with its defaults and with
//! every option that makes it cheaper, and requests that do nothing on a bare ring.
//!
//!     cargo bench -p diskwright-probe --bench cost -- [--dir DIR] [--rounds N] [--seconds S]
//!
//! With `--tiny`, and when `cargo test` runs it, it does one short round only, to check that it
//! works; the numbers then mean nothing. If fio is not installed, its part is skipped with a
//! message.
//!
//! Every contender reads 4 KiB at random places with 64 requests in flight, one thread, O_DIRECT
//! and latency histograms on, for the same time, in turns. The table shows the median of the rounds
//! and their extremes. Our processor time is that of the whole process from before the engine is
//! made until after it is gone (so kernel workers are included); fio's is the time that it reports
//! for its job, without its start-up. If compilers run at the same time, start the program under
//! `chrt -f 50 taskset -c N`, on a processor that does not handle the disk's interrupts: the time
//! of an interrupt is charged to whatever runs there.

#![allow(clippy::disallowed_macros, reason = "a benchmark prints its table")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use diskwright_probe::engine::ring;
use diskwright_probe::pattern::Pattern;
use diskwright_probe::run::{self, EngineKind, RunConfig};
use diskwright_probe::{ProbeTarget, TargetOptions};

/// Requests in flight.
const QUEUE_DEPTH: u32 = 64;
/// Options that make fio cheaper: registered files and buffers.
const FIO_REGISTERED_OPTIONS: &[&str] = &["--registerfiles=1", "--fixedbufs=1"];

/// A participant of the comparison.
#[derive(Clone)]
enum Contender {
    /// Our engine of this kind.
    Ours(EngineKind),
    /// fio with these options beside the usual ones.
    Fio(Vec<String>),
    /// Requests that do nothing, with this batch size.
    NoOps(u32),
}

/// Result of one round of one contender.
#[derive(Clone, Copy, Default)]
struct Round {
    requests_per_s: f64,
    /// User time per request, microseconds.
    user_us: f64,
    system_us: f64,
    p50_us: f64,
    p99_us: f64,
}

impl Round {
    fn sum_us(&self) -> f64 {
        self.user_us + self.system_us
    }
}

/// One of the figures of a round.
type Figure = fn(&Round) -> f64;

/// A contender with its rounds.
struct Entry {
    name: String,
    contender: Contender,
    rounds: Vec<Round>,
}

impl Entry {
    fn new(name: &str, contender: Contender) -> Entry {
        Entry { name: name.into(), contender, rounds: Vec::new() }
    }

    /// Returns the median, the minimum and the maximum over the rounds.
    fn median_and_range(&self, value: impl Fn(&Round) -> f64) -> (f64, f64, f64) {
        let mut all: Vec<f64> = self.rounds.iter().map(value).collect();
        all.sort_by(f64::total_cmp);
        let last = all.len() - 1;
        (f64::midpoint(all[last / 2], all[all.len() / 2]), all[0], all[last])
    }
}

/// Command-line settings.
struct Settings {
    rounds: usize,
    seconds: f64,
    folder: PathBuf,
    tiny: bool,
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let has = |wanted: &str| arguments.iter().any(|a| a == wanted);
    let value = |name: &str| arguments.iter().position(|a| a == name).and_then(|index| arguments.get(index + 1));
    let number = |name: &str| value(name).and_then(|v| v.parse::<f64>().ok());
    let tiny = has("--tiny") || !has("--bench") && value("--dir").is_none();
    let folder = value("--dir").map_or_else(|| PathBuf::from(env!("CARGO_TARGET_TMPDIR")), PathBuf::from);
    let setting = Settings {
        rounds: number("--rounds").map_or(if tiny { 1 } else { 7 }, |n| (n as usize).max(1)),
        seconds: number("--seconds").unwrap_or(if tiny { 0.2 } else { 3.0 }),
        folder,
        tiny,
    };
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let (rounds, seconds) = (setting.rounds, setting.seconds);
    println!("# cost of a request: 4 KiB random reads, {QUEUE_DEPTH} outstanding, O_DIRECT, one thread, histograms on");
    println!("# Linux {}, {rounds} rounds of {seconds} s, in turns; median (least to most)", kernel.trim());
    let fio = fio_version();
    match &fio {
        Ok(version) => println!("# beside {version}"),
        Err(why) => println!("fio: skipped: {why}"),
    }
    let only = value("--only").map(String::as_str);
    if only.is_none_or(|o| o == "holes") {
        compare_on_holes(&setting, fio.is_ok());
    }
    if only.is_none_or(|o| o == "filled") {
        compare_on_filled_file(&setting, fio.is_ok());
    }
    if let Some(device) = value("--device") {
        let mut entries = list_contenders(fio.is_ok());
        run_and_compare(&format!("the device {device}"), Path::new(device), &mut entries, &setting);
    }
}

fn fio_version() -> Result<String, String> {
    let output = Command::new("fio").arg("--version").output().map_err(|e| format!("fio --version: {e}"))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Holes of a sparse file: the device costs nothing, what is left is the
/// kernel's path and the engine.
fn compare_on_holes(setting: &Settings, fio: bool) {
    let path = setting.folder.join("cost-holes.dat");
    let bytes = if setting.tiny { 64 << 20 } else { 4 << 30 };
    let made = fs::File::create(&path).and_then(|file| file.set_len(bytes));
    if let Err(why) = made {
        println!("holes: skipped: {}: {why}", path.display());
        return;
    }
    let mut entries = list_contenders(fio);
    entries.push(Entry::new("bare ring, requests that do nothing", Contender::NoOps(QUEUE_DEPTH)));
    run_and_compare("holes of a sparse file", &path, &mut entries, setting);
    print_distance_to_no_op(&entries);
    remove_test_file(&path);
}

/// A file filled by the target's own code, on the disk.
fn compare_on_filled_file(setting: &Settings, fio: bool) {
    let path = setting.folder.join("cost-filled.dat");
    let bytes = if setting.tiny { 16 << 20 } else { 1 << 30 };
    let options = TargetOptions { bytes: Some(bytes), keep: true, ..TargetOptions::default() };
    if let Err(why) = ProbeTarget::open_or_create(&path, &options, &mut |_, _| true) {
        println!("filled file: skipped: {why}");
        return;
    }
    let mut entries = list_contenders(fio);
    entries.push(Entry::new("ours, threads", Contender::Ours(EngineKind::Threads)));
    if fio {
        for engine in ["psync", "pvsync2"] {
            // 64 outstanding are 64 threads there too
            let options = [format!("--ioengine={engine}"), "--numjobs=64".into(), "--group_reporting".into()];
            entries.push(Entry::new(&format!("fio {engine}, 64 threads"), Contender::Fio(options.into())));
        }
    }
    run_and_compare("a filled file", &path, &mut entries, setting);
    remove_test_file(&path);
}

fn remove_test_file(path: &Path) {
    // a leftover below the target folder does no harm
    let _ = fs::remove_file(path);
}

fn list_contenders(fio: bool) -> Vec<Entry> {
    let mut entries = vec![Entry::new("ours, io_uring", Contender::Ours(EngineKind::Best))];
    if !fio {
        return entries;
    }
    let ring = |more: &[String]| {
        let usual = ["--ioengine=io_uring".to_owned(), format!("--iodepth={QUEUE_DEPTH}")];
        Contender::Fio(usual.iter().chain(more).cloned().collect())
    };
    let registered: Vec<String> = FIO_REGISTERED_OPTIONS.iter().map(|o| (*o).to_owned()).collect();
    entries.push(Entry::new("fio", ring(&[])));
    entries.push(Entry::new("fio registered", ring(&registered)));
    for batch in [8, 16, 32, 64] {
        for batch_min in [1, batch] {
            let mut options = registered.clone();
            options.push(format!("--iodepth_batch={batch}"));
            options.push(format!("--iodepth_batch_complete_min={batch_min}"));
            options.push(format!("--iodepth_batch_complete_max={QUEUE_DEPTH}"));
            entries.push(Entry::new(
                &format!("fio registered, batches of {batch}, waits for {batch_min}"),
                ring(&options),
            ));
        }
    }
    entries
}

fn run_and_compare(title: &str, path: &Path, entries: &mut Vec<Entry>, setting: &Settings) {
    for _ in 0..setting.rounds {
        for entry in entries.iter_mut() {
            let round = match &entry.contender {
                Contender::Ours(kind) => run_ours(path, *kind, setting.seconds),
                Contender::Fio(options) => run_fio(path, options, setting.seconds),
                Contender::NoOps(batch) => run_no_ops(*batch, setting.seconds),
            };
            match round {
                Ok(round) => entry.rounds.push(round),
                Err(why) => println!("{}: {why}", entry.name),
            }
        }
    }
    entries.retain(|e| !e.rounds.is_empty());
    println!("\n== {title}");
    println!(
        "{:<46} {:>28} {:>7} {:>7} {:>22} {:>8} {:>8}",
        "", "requests/s", "user us", "sys us", "processor time us", "50 % us", "99 % us"
    );
    for entry in entries.iter() {
        let (rate, min_rate, max_rate) = entry.median_and_range(|r| r.requests_per_s);
        let (sum, sum_least, sum_most) = entry.median_and_range(Round::sum_us);
        let [user, system, p50, p99] =
            [|r: &Round| r.user_us, |r: &Round| r.system_us, |r: &Round| r.p50_us, |r: &Round| r.p99_us]
                .map(|figure| entry.median_and_range(figure).0);
        let rates = format!("{rate:.0} ({min_rate:.0} to {max_rate:.0})");
        let sums = format!("{sum:.3} ({sum_least:.3} to {sum_most:.3})");
        println!("{:<46} {rates:>28} {user:>7.3} {system:>7.3} {sums:>22} {p50:>8.1} {p99:>8.1}", entry.name);
    }
    print_ratios(entries);
}

/// Prints our figures relative to fio's best; the best fio variant may differ from figure to
/// figure.
fn print_ratios(entries: &[Entry]) {
    let is_ring = |e: &&Entry| matches!(&e.contender, Contender::Fio(o) if o[0].ends_with("io_uring"));
    let best = |value: Figure| {
        let all = entries.iter().filter(is_ring);
        all.min_by(|a, b| a.median_and_range(value).0.total_cmp(&b.median_and_range(value).0))
    };
    let ours = |value: Figure| entries[0].median_and_range(value).0;
    let figures: [(&str, Figure, &str); 3] = [
        ("processor time", Round::sum_us, "at most 1"),
        ("user part", |r| r.user_us, "at most 0.7"),
        ("time between answers", |r| 1.0 / r.requests_per_s, "at most 0.83 on holes: 1.2 x the requests a second"),
    ];
    for (name, value, goal) in figures {
        let Some(fio) = best(value) else { continue };
        println!(
            "ours to the least of fio ({}): {name} {:.3} ({goal})",
            fio.name,
            ours(value) / fio.median_and_range(value).0
        );
    }
}

/// Prints how much more our requests cost than requests that do nothing.
fn print_distance_to_no_op(entries: &[Entry]) {
    let (Some(ours), Some(bare)) = (entries.first(), entries.last()) else { return };
    if !matches!(bare.contender, Contender::NoOps(_)) {
        return;
    }
    let (all, min_us) = (ours.median_and_range(Round::sum_us).0, bare.median_and_range(Round::sum_us).0);
    let system = ours.median_and_range(|r| r.system_us).0;
    let (times, share) = (all / min_us, system / all * 100.0);
    println!("ours costs {all:.3} us a request, {times:.1} x one that does nothing ({min_us:.3} us)");
    println!("the kernel's share of ours is {share:.0} %");
}

fn run_ours(path: &Path, kind: EngineKind, seconds: f64) -> Result<Round, String> {
    let target =
        ProbeTarget::open_or_create(path, &TargetOptions::default(), &mut |_, _| true).map_err(|e| e.to_string())?;
    let (ramp, lasts) = (Duration::ZERO, Duration::from_secs_f64(seconds));
    let pattern = Pattern { ramp, duration: lasts, ..Pattern::random_reads(4096, QUEUE_DEPTH) };
    let config = RunConfig { engine: kind, workers: 1, brake: None, stop: Arc::default() };
    let before = process_times();
    let outcome = run::run(&target, &pattern, &config, &mut |_, _| {}).map_err(|e| e.to_string())?;
    let spent = times_since(before);
    let reads = &outcome.tally.reads;
    assert!(outcome.tally.failed_requests() == 0, "no request fails");
    if reads.requests == 0 {
        return Err("nothing was answered in so short a time".into());
    }
    let latency_us = |share| reads.latency.quantile(share).unwrap_or(f64::NAN) * 1e-3;
    Ok(to_round(reads.requests as f64, outcome.seconds, spent, (latency_us(0.5), latency_us(0.99))))
}

fn run_no_ops(batch: u32, seconds: f64) -> Result<Round, String> {
    let before = process_times();
    let (count, taken) = ring::run_no_ops(batch, Duration::from_secs_f64(seconds)).map_err(|e| e.to_string())?;
    Ok(to_round(count as f64, taken.as_secs_f64(), times_since(before), (f64::NAN, f64::NAN)))
}

fn to_round(requests: f64, seconds: f64, (user_s, system_s): (f64, f64), (p50_us, p99_us): (f64, f64)) -> Round {
    let (user_us, system_us) = (user_s / requests * 1e6, system_s / requests * 1e6);
    Round { requests_per_s: requests / seconds, user_us, system_us, p50_us, p99_us }
}

/// Processor time of this process so far: user and system in clock ticks, and
/// the exact sum in seconds.
fn process_times() -> (f64, f64, f64) {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let field = |index: usize| rest.split_whitespace().nth(index).and_then(|n| n.parse().ok()).unwrap_or(f64::NAN);
    let exact = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    (field(11), field(12), exact.tv_sec as f64 + exact.tv_nsec as f64 * 1e-9)
}

/// User and system time since `before`, seconds: the exact sum, split in the ratio of the tick
/// counts.
fn times_since(before: (f64, f64, f64)) -> (f64, f64) {
    let after = process_times();
    let (user, system, sum) = (after.0 - before.0, after.1 - before.1, after.2 - before.2);
    let share = if user + system > 0.0 { user / (user + system) } else { 0.0 };
    (sum * share, sum * (1.0 - share))
}

fn run_fio(path: &Path, options: &[String], seconds: f64) -> Result<Round, String> {
    let mut command = Command::new("fio");
    command.args(["--name=cost", "--rw=randread", "--bs=4k", "--direct=1", "--time_based", "--thread"]);
    command.args(["--norandommap", "--output-format=json", "--invalidate=0"]);
    command.arg(format!("--runtime={}ms", (seconds * 1e3) as u64)).arg(format!("--filename={}", path.display()));
    let output = command.args(options).output().map_err(|e| format!("fio: {e}"))?;
    if !output.status.success() {
        return Err(format!("fio: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    // notes come before the document
    let document: serde_json::Value =
        text.find('{').and_then(|position| serde_json::from_str(&text[position..]).ok()).ok_or("fio wrote no JSON")?;
    let job = &document["jobs"][0];
    let number = |value: &serde_json::Value| value.as_f64().unwrap_or(f64::NAN);
    let read = &job["read"];
    let (requests, runtime) = (number(&read["total_ios"]), number(&job["job_runtime"]) * 1e-3);
    let percentile = |name: &str| number(&read["clat_ns"]["percentile"][name]) * 1e-3;
    let spent = (number(&job["usr_cpu"]) / 100.0 * runtime, number(&job["sys_cpu"]) / 100.0 * runtime);
    let mut round = to_round(requests, 1.0, spent, (percentile("50.000000"), percentile("99.000000")));
    round.requests_per_s = number(&read["iops"]);
    Ok(round)
}

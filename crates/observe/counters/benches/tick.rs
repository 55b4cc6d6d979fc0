//! Cost of a tick, compared in one run: the sampler, the kernel's own
//! cost of reading the same files kept open, and sysstat's sadc.
//!
//!     cargo bench -p diskwright-counters --bench tick
//!
//! With `--slow`, only the cost that the slow sources add. With `--sources`,
//! the cost of each source, as a recorder reads it ten times a second.
//!
//! With `--tiny`, and when `cargo test` runs it, it does a few rounds only, to
//! see that it works; then the numbers mean nothing.
//!
//! Processor time only, by the scheduler's own account in nanoseconds; waiting
//! does not count. The scan of the processes and the rest of a slow tick are
//! shown separately.

#![allow(clippy::disallowed_macros, reason = "a benchmark prints its table")]
#![allow(clippy::disallowed_methods, reason = "it waits for another program, which needs no pacer")]

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use diskwright_counters::live::fake::FakeMachine;
use diskwright_counters::live::sources::SOURCES;
use diskwright_counters::live::{Roots, Sampler, SamplerOptions, SystemClock};
use rustix::time::{ClockId, clock_gettime};

/// The files of a tick, each with true if the kernel returns it in pieces.
const FILES: &[(&str, bool)] = &[
    ("diskstats", true),
    ("stat", false),
    ("loadavg", false),
    ("meminfo", false),
    ("vmstat", true),
    ("pressure/cpu", false),
    ("pressure/io", false),
    ("pressure/memory", false),
    ("pressure/irq", false),
    ("interrupts", true),
    ("softirqs", false),
    ("net/dev", true),
    ("mdstat", true),
];
/// The files that sadc reads too: disks, memory, processors, paging, load.
const SHARED: &[&str] = &["diskstats", "stat", "loadavg", "meminfo", "vmstat"];

const SADC: &[&str] = &["/usr/lib/sysstat/sadc", "/usr/lib64/sa/sadc", "/usr/lib/sa/sadc"];

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let has = |wanted: &str| arguments.iter().any(|a| a == wanted);
    let tiny = has("--tiny") || !has("--bench");
    let (rounds, ticks, sadc_samples) = if tiny { (3, 5, 1) } else { (15, 200, 30) };
    let machine = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    println!("# cost of a tick: Linux {}, {rounds} rounds of {ticks} ticks", machine.trim());
    if has("--slow") {
        return slow_share(if tiny { 60 } else { 1800 });
    }
    if has("--sources") {
        return each_source(if tiny { 3 } else { 600 });
    }
    let quiet = SamplerOptions {
        slow_interval: Duration::from_secs(3600),
        processes: false,
        filesystems: false,
        cgroups: false,
        ..SamplerOptions::default()
    };
    let mut sampler = Sampler::new(Roots::default(), Box::new(SystemClock), quiet);
    let mut bare = Bare::new(FILES.iter().copied());
    let mut shared = Bare::new(FILES.iter().copied().filter(|(name, _)| SHARED.contains(name)));
    sampler.tick();
    bare.read();
    shared.read();
    // in turns, and the minimum of the rounds: other load of the machine only adds
    let (mut ours, mut kernel, mut kernel_shared) = (f64::MAX, f64::MAX, f64::MAX);
    for _ in 0..rounds {
        kernel = kernel.min(each_us(ticks, || bare.read()));
        ours = ours.min(each_us(ticks, || sampler.tick()));
        kernel_shared = kernel_shared.min(each_us(ticks, || shared.read()));
    }
    println!("{:<52} {:>9} us", "kernel alone, the same files kept open", one(kernel));
    println!("{:<52} {:>9} us   {:.2} x the kernel's (at most 2)", "sampler, all of them", one(ours), ours / kernel);
    println!("  {} series", sampler.row().len());
    println!("{:<52} {:>9} us", "kernel alone, disks, memory, processors", one(kernel_shared));
    match sadc_us(sadc_samples) {
        Ok(sadc) => {
            println!("{:<52} {:>9} us", "sadc -S DISK, a sample", one(sadc));
            println!("{:<52} {:>12.3}   (at most 0.25)", "sampler, all of its files, to sadc", ours / sadc);
        }
        Err(why) => println!("sadc: skipped: {why}"),
    }
    slow_beat(if tiny { 2 } else { 20 });
    slow_share(if tiny { 60 } else { 1800 });
    for disks in [24, 1000] {
        made_up(disks, if tiny { 2 } else { 50 });
        println!("{:<52} {:>9} KiB", "most resident memory of this process so far", status_kib("VmHWM"));
    }
}

fn one(value: f64) -> String {
    format!("{value:.1}")
}

/// Processor time of one call, microseconds, over `times` calls.
fn each_us(times: u32, mut action: impl FnMut()) -> f64 {
    let start = process_us();
    for _ in 0..times {
        action();
    }
    (process_us() - start) / f64::from(times)
}

/// Reads files that stay open, without parsing them.
struct Bare {
    files: Vec<(File, bool)>,
    buffer: Vec<u8>,
}

impl Bare {
    fn new(names: impl Iterator<Item = (&'static str, bool)>) -> Bare {
        let open = |(name, pieces): (&str, bool)| Some((File::open(Path::new("/proc").join(name)).ok()?, pieces));
        Bare { files: names.filter_map(open).collect(), buffer: vec![0; 1 << 20] }
    }

    fn read(&mut self) {
        for (file, pieces) in &self.files {
            let mut position = 0;
            while let Ok(n) = file.read_at(&mut self.buffer[position..], position as u64) {
                position += n;
                if n == 0 || !pieces {
                    break;
                }
            }
        }
    }
}

/// The sampler's own part with many disks: a made-up machine on a plain
/// filesystem, where reading costs next to nothing.
fn made_up(disks: u32, times: u32) {
    let machine = FakeMachine::new();
    let line =
        |i| format!("   8 {i:7} sd{i:04}x 8271 0 661040 50093 2004 17 160320 7085 0 9056 120444 0 0 0 0 25 61\n");
    machine.put_ordinary_files().put_file("proc/diskstats", (0..disks).map(line).collect::<String>());
    let options =
        SamplerOptions { slow_interval: Duration::from_secs(3600), processes: false, ..SamplerOptions::default() };
    let mut sampler = Sampler::new(machine.roots(), Box::new(machine.clock.clone()), options);
    sampler.tick();
    let us = each_us(times, || {
        machine.clock.advance(1.0);
        sampler.tick();
    });
    let name = format!("sampler on a made-up machine with {disks} disks");
    println!("{name:<52} {:>9} us   {} series", one(us), sampler.row().len());
}

/// Cost of a slow tick by its parts, with the processes of this machine. A fake
/// clock advances an hour between two ticks, so that each part is due.
fn slow_beat(times: u32) {
    let clock = FakeMachine::new().clock.clone();
    let cost = |options: SamplerOptions| {
        let mut sampler = Sampler::new(Roots::default(), Box::new(clock.clone()), options);
        sampler.tick();
        each_us(times, || {
            clock.advance(3600.0);
            sampler.tick();
            sampler.take_notes();
        })
    };
    let none = SamplerOptions { processes: false, cgroups: false, filesystems: false, ..SamplerOptions::default() };
    let processes = fs::read_dir("/proc").map_or(0, |entries| {
        let names = entries.flatten().filter_map(|e| e.file_name().into_string().ok());
        names.filter(|n| n.parse::<u32>().is_ok()).count()
    });
    let without = cost(none.clone());
    let with_groups = cost(SamplerOptions { cgroups: true, ..none.clone() });
    let with_processes = cost(SamplerOptions { processes: true, ..none });
    println!("{:<52} {:>9} us", "a tick with the slow beat and a look at topology", one(without));
    println!("{:<52} {:>9} us", "  control groups, on top", one(with_groups - without));
    let name = format!("  {processes} processes, on top");
    println!("{name:<52} {:>9} us", one(with_processes - without));
}

/// Processor time of this process with all its threads.
fn process_us() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 * 1e-3
}

/// Cost that the sources of the slow interval add to a recorder that ticks each second: control groups,
/// filesystems, health and hardware with their threads. The log's own cost is left out, which makes the share larger.
fn slow_share(ticks: u32) {
    let clock = FakeMachine::new().clock.clone();
    let cost = |seconds: u64, processes: bool| {
        let slow_every = Duration::from_secs(seconds);
        let options = SamplerOptions { slow_interval: slow_every, processes, ..SamplerOptions::default() };
        let mut sampler = Sampler::new(Roots::default(), Box::new(clock.clone()), options);
        sampler.tick();
        let start = process_us();
        for _ in 0..ticks {
            clock.advance(1.0);
            sampler.tick();
            sampler.take_notes();
            // a real second is long enough for the threads; so is this for nearly all of them
            std::thread::sleep(Duration::from_micros(200));
        }
        (process_us() - start) / f64::from(ticks)
    };
    // in turns, and the minimum of three: other load of the machine only adds
    let min_cost = |seconds, processes| (0..3).map(|_| cost(seconds, processes)).fold(f64::MAX, f64::min);
    let (never, slow, all) = (min_cost(1_000_000, false), min_cost(10, false), min_cost(10, true));
    println!("{:<52} {:>9} us", "a tick a second, the slow beat every 10 s, all", one(all));
    println!("{:<52} {:>9} us", "  of that the processes", one(all - slow));
    let share = 100.0 * (slow - never) / all;
    println!("{:<52} {:>9} us   {:.1} % (at most 10)", "  of that all other slow sources", one(slow - never), share);
}

/// Cost of each source with the default options, beside that of a tick that reads none.
fn each_source(ticks: u32) {
    let clock = FakeMachine::new().clock.clone();
    let cost = |id: &str| {
        let mut sampler =
            Sampler::for_one_source(id, Roots::default(), Box::new(clock.clone()), SamplerOptions::default());
        sampler.tick();
        each_us(ticks, || {
            clock.advance(0.1);
            sampler.tick();
            sampler.take_notes();
        })
    };
    let nothing = (0..3).map(|_| cost("")).fold(f64::MAX, f64::min);
    println!("{:<52} {:>9} us", "a tick that reads nothing", one(nothing));
    let mut costs: Vec<(f64, &str)> = SOURCES.iter().map(|source| (cost(source.id) - nothing, source.id)).collect();
    costs.sort_by(|a, b| b.0.total_cmp(&a.0));
    for (us, id) in &costs {
        println!("  {id:<50} {:>9} us", one(*us));
    }
    let sum = nothing + costs.iter().map(|cost| cost.0).sum::<f64>();
    println!("{:<52} {:>9} us", "together", one(sum));
}

/// sadc's processor time a sample: that of many samples less that of few, so
/// that its start does not count.
fn sadc_us(samples: u32) -> Result<f64, String> {
    let program = SADC.iter().find(|p| Path::new(p).exists()).ok_or("sysstat is not installed")?;
    let few = run_sadc(program, 1)?;
    let many = run_sadc(program, 1 + samples)?;
    Ok((many - few) / f64::from(samples))
}

fn run_sadc(program: &str, samples: u32) -> Result<f64, String> {
    let file: PathBuf = std::env::temp_dir().join(format!("diskwright-bench-{}.sa", std::process::id()));
    let count = samples.to_string();
    let mut command = Command::new(program);
    command.args(["-S", "DISK", "1", &count]).arg(&file).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|e| format!("{program}: {e}"))?;
    let time = time_of(&mut child);
    // a leftover in the temporary folder does no harm
    let _ = fs::remove_file(&file);
    time
}

/// Processor time of a child up to its end, microseconds. The scheduler's
/// account of it is read again and again: it is gone once the child is reaped.
fn time_of(child: &mut Child) -> Result<f64, String> {
    let folder = PathBuf::from(format!("/proc/{}", child.id()));
    loop {
        let stat = fs::read_to_string(folder.join("stat")).unwrap_or_default();
        let ended = stat.rsplit_once(')').is_none_or(|(_, rest)| rest.trim_start().starts_with('Z'));
        if ended {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let account = fs::read_to_string(folder.join("schedstat")).map_err(|e| format!("schedstat: {e}"));
    child.wait().map_err(|e| e.to_string())?;
    let ns: f64 = account?.split_whitespace().next().and_then(|n| n.parse().ok()).ok_or("schedstat: no number")?;
    Ok(ns * 1e-3)
}

fn status_kib(key: &str) -> u64 {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find(|l| l.starts_with(key));
    line.and_then(|l| l.split_whitespace().nth(1)).and_then(|n| n.parse().ok()).unwrap_or(0)
}

//! Speed of reading logs of dstat, nmon, collectl and atop, and CSV of dashboards, beside pandas where it reads them.
//!
//!     cargo bench -p diskwright-logs --bench tools -- --mb 200 --python PATH
//!
//! It makes logs of a server of 24 disks and 16 processors in the shapes of the tools. `--python PATH` names an
//! interpreter that has pandas; without one pandas is named and left out. With `--tiny`, and when `cargo test` runs it,
//! small files only show that it works.

#![allow(clippy::disallowed_macros, reason = "a benchmark prints its table")]

#[path = "tools/generate.rs"]
mod generate;

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::Command;

use diskwright_logs::{LogInput, LogOptions, ReadSummary};
use rustix::time::{ClockId, clock_gettime};

/// Script that reads a table with pandas, and prints processor seconds and KiB.
const PANDAS_SCRIPT: &str = "
import resource, sys, pandas
pandas.read_csv(sys.argv[1], skiprows=int(sys.argv[2]), sep=sys.argv[3])
used = resource.getrusage(resource.RUSAGE_SELF)
print(used.ru_utime + used.ru_stime, used.ru_maxrss)
";

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let has = |wanted: &str| arguments.iter().any(|a| a == wanted);
    let value = |name: &str| arguments.iter().position(|a| a == name).and_then(|index| arguments.get(index + 1));
    let tiny = has("--tiny") || !has("--bench");
    let megabytes: f64 = if tiny { 0.3 } else { value("--mb").and_then(|v| v.parse().ok()).unwrap_or(200.0) };
    let rounds = if tiny { 1 } else { 5 };
    let python = value("--python").map_or("python3", String::as_str);
    let folder = tempfile::tempdir().expect("a temporary folder");
    println!("# reading logs of tools of about {megabytes} MB, least of {rounds} rounds; MB are 10^6 bytes");
    println!("{:<34} {:>7} {:>8} {:>7} {:>9} {:>9}", "", "MB", "ticks", "series", "frames", "most KiB");
    for shape in generate::SHAPES {
        let path = folder.path().join(shape.file);
        generate::write(&path, shape, (megabytes * 1e6) as u64).expect("there is room for the log");
        measure_reading(&path, shape.title, rounds);
        if let (Some((lines, separator)), false) = (shape.table, tiny) {
            measure_pandas(&path, lines, separator, python);
        }
        // the next file needs the space
        let _ = fs::remove_file(&path);
    }
}

fn measure_reading(path: &Path, title: &str, rounds: usize) {
    let size = fs::metadata(path).map_or(0, |m| m.len()) as f64 * 1e-6;
    let mut best = f64::MAX;
    let mut summary = ReadSummary::default();
    for _ in 0..rounds {
        let start = processor_s();
        let mut input = LogInput::open(path).expect("the log that was made");
        let mut sink = |_: diskwright_logs::LogPiece<'_>| ControlFlow::Continue(());
        summary = diskwright_logs::read(&mut input, &LogOptions::default(), &mut sink).expect("it is whole");
        best = best.min(processor_s() - start);
    }
    println!(
        "{title:<34} {size:>7.1} {:>8} {:>7} {:>9.0} {:>9}  MB/s a core",
        summary.ticks,
        summary.series,
        size / best,
        max_resident_kib()
    );
}

fn measure_pandas(path: &Path, lines: u32, separator: &str, python: &str) {
    let size = fs::metadata(path).map_or(0, |m| m.len()) as f64 * 1e-6;
    let done = Command::new(python)
        .args(["-c", PANDAS_SCRIPT, &path.to_string_lossy(), &lines.to_string(), separator])
        .output();
    let text =
        done.map_or_else(|e| e.to_string(), |o| String::from_utf8_lossy(&[o.stdout, o.stderr].concat()).into_owned());
    let numbers: Vec<f64> = text.split_whitespace().map_while(|w| w.parse().ok()).collect();
    match numbers.as_slice() {
        [seconds, resident] => {
            println!("{:<34} {size:>7.1} {:>26.0} {resident:>9}  MB/s a core", "  pandas.read_csv", size / seconds);
        }
        _ => println!("  pandas.read_csv left out: {}", text.lines().last().unwrap_or_default()),
    }
}

/// Returns the processor time of this thread, including the system's on its behalf.
fn processor_s() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

fn max_resident_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    line.and_then(|l| l.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

//! Speed of reading sysstat's logs, beside that of other programs for the same files.
//!
//!     cargo bench -p diskwright-logs --bench sysstat -- --mb 200
//!
//! It makes logs in the shapes of the tools: `sadf -j -- -A` of a server of 24 disks and 16 processors, `sadf -j -- -d
//! -u`, and the same as XML and as text of sar. `--python PATH` names an interpreter that has DuckDB and pandas;
//! programs that are missing are named and left out. With `--tiny`, and when `cargo test` runs it, small files only
//! show that it works.

#![allow(clippy::disallowed_macros, reason = "a benchmark prints its table")]

#[path = "sysstat/generate.rs"]
mod generate;
#[path = "sysstat/peers.rs"]
mod peers;

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use diskwright_datastore::{LogWriter, WriterOptions};
use diskwright_logs::{LogInput, LogOptions, LogPiece, ReadSummary};
use rustix::time::{ClockId, clock_gettime};

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let has = |wanted: &str| arguments.iter().any(|a| a == wanted);
    let value = |name: &str| arguments.iter().position(|a| a == name).and_then(|index| arguments.get(index + 1));
    let tiny = has("--tiny") || !has("--bench");
    let megabytes: f64 = if tiny { 0.5 } else { value("--mb").and_then(|v| v.parse().ok()).unwrap_or(200.0) };
    let rounds = if tiny { 1 } else { 5 };
    let python = value("--python").map_or("python3", String::as_str);
    let folder = tempfile::tempdir().expect("a temporary folder");
    println!("# reading sysstat's logs of about {megabytes} MB, least of {rounds} rounds; MB are 10^6 bytes");
    println!(
        "{:<34} {:>7} {:>7} {:>8} {:>9} {:>9} {:>9}",
        "", "MB", "ticks", "series", "frames", "our log", "most KiB"
    );
    let bytes = (megabytes * 1e6) as u64;
    for shape in generate::SHAPES {
        let path = folder.path().join(shape.file);
        generate::write(&path, shape, bytes).expect("there is room for the log");
        measure_reading(&path, shape.title, rounds);
        if shape.has_peers && !tiny {
            peers::measure_peers(&path, python);
        }
        // the next file needs the space
        let _ = fs::remove_file(&path);
    }
}

/// Measures reading to frames, and to a Diskwright log.
fn measure_reading(path: &Path, title: &str, rounds: usize) {
    let size = fs::metadata(path).map_or(0, |m| m.len()) as f64 * 1e-6;
    let (mut frames, mut log) = (f64::MAX, f64::MAX);
    let mut summary = ReadSummary::default();
    for _ in 0..rounds {
        let start = processor_s();
        summary = read_log(path, &mut |_| ControlFlow::Continue(()));
        frames = frames.min(processor_s() - start);
        log = log.min(measure_writing(path));
    }
    println!(
        "{title:<34} {size:>7.1} {:>7} {:>8} {:>9.0} {:>9.0} {:>9}  MB/s a core",
        summary.ticks,
        summary.series,
        size / frames,
        size / log,
        max_resident_kib()
    );
}

fn read_log(path: &Path, sink: &mut diskwright_logs::PieceSink<'_>) -> ReadSummary {
    let mut input = LogInput::open(path).expect("the log that was made");
    diskwright_logs::read(&mut input, &LogOptions::default(), sink).expect("it is whole")
}

fn measure_writing(path: &Path) -> f64 {
    let to: PathBuf = path.with_extension("log");
    let start = processor_s();
    let mut writer = LogWriter::create_or_append(&to, WriterOptions::for_bulk_import()).expect("a log can be made");
    read_log(path, &mut |piece| {
        match piece {
            LogPiece::Frame(frame) => writer.push_frame(frame).expect("there is room"),
            LogPiece::Note(note) => _ = writer.add_note(&note).expect("there is room"),
        }
        ControlFlow::Continue(())
    });
    writer.close().expect("there is room");
    let spent = processor_s() - start;
    let _ = fs::remove_dir_all(&to);
    spent
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

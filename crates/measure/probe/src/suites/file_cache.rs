//! The page cache, measured on purpose: the effect of memory on file access.

use std::time::Duration;

use super::{DEFAULT_RUN_TIME, SEQUENTIAL, Suite, SuiteSession, Writes, format_quantity};
use crate::error::ProbeError;
use crate::page_cache;
use crate::pattern::{Pattern, Placement};

/// NT Resource Kit's file cache effect.
pub const FILE_CACHE: Suite = Suite {
    id: "file-cache",
    title: "effect of the page cache on the same file: first read, second read, writes until the kernel stops them",
    explain: "Everything here goes through the page cache, which first drops the target's pages. The first sequential \
              reads come from the disk with the kernel's read-ahead, the second from memory as far as the file fits. \
              Both show the share that never reached the disk: the bytes requested against those that the kernel read \
              for this process. The NT Resource Kit and SAS 1998 call the difference the effect of the file cache. \
              Writes go to memory until the kernel's dirty limit stops the writer; from then on they run at disk \
              speed.",
    good: "Second reads and first writes at gigabytes per second: memory speed. That measures the cache, not the disk.",
    writes: Writes::IfAllowed,
    time: DEFAULT_RUN_TIME,
    run: run_file_cache,
};

/// Record size, bytes.
const RECORD_BYTES: u32 = 64 << 10;

fn run_file_cache(session: &mut SuiteSession<'_>) -> Result<(), ProbeError> {
    session.settings.buffered = true;
    let range = read_range_bytes(session);
    let base =
        |name: &str, place, size| Pattern { range_bytes: Some(range), ..session.build_pattern(name, place, size, 1) };
    // a single pass: a second pass would be the second read
    let first = Pattern { max_bytes: Some(range), ..base("first-read", SEQUENTIAL, RECORD_BYTES) };
    // before the second read is measured, read the data that the first read did not reach
    let fill = Pattern { name: "again-until-all-is-read".into(), warm: true, ..first.clone() };
    let second = Pattern { name: "second-read".into(), warm: true, max_bytes: None, ..first.clone() };
    // so few requests that hardly any block is requested twice
    let cold = Pattern { max_bytes: Some(range / 16), ..base("random-cold", Placement::Uniform, 4 << 10) };
    let warm = Pattern { name: "random-warm".into(), warm: true, max_bytes: None, ..cold.clone() };
    let write = Pattern { read_share: 0.0, warm: true, ..base("write", SEQUENTIAL, RECORD_BYTES) };
    let cold_run = session.run(&cold)?.clone();
    let first_run = session.run(&first)?.clone();
    session.run(&fill)?;
    let second_run = session.run(&second)?.clone();
    let warm_run = session.run(&warm)?.clone();
    let share_text = |share: Option<f64>| share.map_or("an unknown share".into(), |s| format_quantity(s, "fraction"));
    let text = format!(
        "second read against first in sequence, {} and {} from memory",
        share_text(second_run.from_memory_share),
        share_text(first_run.from_memory_share)
    );
    session.report_value("second_to_first", second_run.bytes_per_s / first_run.bytes_per_s, "times", text);
    let text = format!(
        "random 4 KiB reads, {} from memory, against reads with {} from memory ({} per second)",
        share_text(warm_run.from_memory_share),
        share_text(cold_run.from_memory_share),
        format_quantity(cold_run.requests_per_s, "count")
    );
    session.report_value("random_warm_to_cold", warm_run.requests_per_s / cold_run.requests_per_s, "times", text);
    if let Some(share) = second_run.from_memory_share {
        session.report_value(
            "file_cache_effect",
            share,
            "fraction",
            "of the second read came from memory (NT Resource Kit)",
        );
    }
    if session.settings.writes { measure_writes(session, &write) } else { Ok(()) }
}

/// Returns the size of the part of the target that is read, bytes: as much as a disk of 200 MB/s reads
/// in a third of the time of one run, but no more than the target has.
fn read_range_bytes(session: &SuiteSession<'_>) -> u64 {
    let max_bytes = (session.settings.duration.as_secs_f64() * 200e6 / 3.0) as u64;
    max_bytes.clamp(16 << 20, 1 << 30).min(session.settings.target_bytes) / u64::from(RECORD_BYTES)
        * u64::from(RECORD_BYTES)
}

/// Measures how much is written at memory speed before the kernel stops the writer.
fn measure_writes(session: &mut SuiteSession<'_>, pattern: &Pattern) -> Result<(), ProbeError> {
    let write_pattern =
        Pattern { range_bytes: None, duration: pattern.duration.max(Duration::from_secs(1)), ..pattern.clone() };
    let run = session.run(&write_pattern)?.clone();
    let written = run.bytes_per_s * run.measured_s;
    let limits = page_cache::dirty_limits().map_or(String::new(), |(start_bytes, stop_bytes)| {
        let (start, stop) = (format_quantity(start_bytes, "bytes"), format_quantity(stop_bytes, "bytes"));
        format!("; the kernel starts write-back at {start} of dirty pages and stops writers at {stop}")
    });
    let rates: Vec<f64> = crate::steadiness::complete_slices(&run.slices, run.measured_s)
        .iter()
        .map(|s| *s as f64 * f64::from(RECORD_BYTES) * 10.0)
        .collect();
    match crate::steadiness::find_step(&rates).filter(|(_, before, after)| after < before) {
        Some((position, before, after)) => {
            let bytes = rates[..position].iter().sum::<f64>() / 10.0;
            let (before, after) = (format_quantity(before, "bytes_per_s"), format_quantity(after, "bytes_per_s"));
            let text =
                format!("written at {before}, and at {after} afterwards, as when the kernel stops writers{limits}");
            session.report_value("written_at_memory_speed_bytes", bytes, "bytes", text);
        }
        None => {
            let text = format!(
                "{} were written at {}, without the step down that a writer shows when it is stopped{limits}",
                format_quantity(written, "bytes"),
                format_quantity(run.bytes_per_s, "bytes_per_s")
            );
            session.report_text("written_at_memory_speed_bytes", text);
        }
    }
    Ok(())
}

//! What a process does, in words with numbers.

use diskwright_base::units::format_value;
use diskwright_base::{FileRow, ThreadRow};

use super::{BlameScope, ProcessTotals};
use crate::rules::Bottleneck;

/// Largest number of open files named in a process's sentence.
const MAX_NAMED_FILES: usize = 2;
/// Smallest ratio of what a process wrote to what the disk took from which it wrote into memory.
const MIN_CACHED_RATIO: f64 = 1.2;

/// Text that lists open files; `more` is the number of files beyond those listed.
pub(super) fn open_files_text(files: &[FileRow], more: u32) -> String {
    let names: Vec<&str> = files.iter().take(MAX_NAMED_FILES).map(|file| file.path.as_str()).collect();
    let more = more as usize + files.len() - names.len();
    match (names.is_empty(), more) {
        (true, _) => String::new(),
        (false, 0) => format!("; open files: {}", names.join(", ")),
        (false, more) => format!("; open files: {} and {more} more", names.join(", ")),
    }
}

/// What a process writes. The kernel counts when pages become dirty: more than the disk took went into memory.
fn write_text(totals: &ProcessTotals, scope: &BlameScope<'_>, seconds: f64) -> String {
    let (written, dirtied) = (totals.write_bytes / seconds, totals.dirtied_bytes / seconds);
    let rate_text = |rate: f64| format_value(rate, "bytes_per_s");
    // direct writes pass the page cache by, and count where they are sent: to a loop device, say
    let is_direct = totals.waits_in.as_deref().is_some_and(|function| function.contains("dio"));
    let is_cached = |disk_writes: &f64| !is_direct && dirtied >= MIN_CACHED_RATIO * disk_writes;
    match scope.disk_writes_of(totals).filter(is_cached) {
        Some(disk_writes) => {
            format!("writes {} to the page cache (the disk took {} in all)", rate_text(dirtied), rate_text(disk_writes))
        }
        None => format!("writes {}", rate_text(written)),
    }
}

/// Activity of a process in numbers; zero quantities are left out.
pub(super) fn activity_text(totals: &ProcessTotals, processes: u32, scope: &BlameScope<'_>, seconds: f64) -> String {
    let bottleneck = scope.bottleneck;
    let rate = |amount: f64| amount / seconds;
    let mut parts: Vec<String> = Vec::new();
    let mut add_part = |amount: f64, text: String| {
        if amount > 0.0 {
            parts.push(text);
        }
    };
    // a shortage of memory shows as I/O too
    let shows_io = !matches!(bottleneck, Bottleneck::Cpu | Bottleneck::Interrupts);
    if bottleneck == Bottleneck::Memory {
        let faults = format_value(rate(totals.major_faults), "per_s");
        add_part(totals.major_faults, format!("{faults} major faults"));
        add_part(totals.resident_bytes, format!("{} resident", format_value(totals.resident_bytes, "bytes")));
        let held = totals.held_bytes - totals.resident_bytes;
        add_part(held, format!("holds {}", format_value(totals.held_bytes, "bytes")));
        add_part(totals.growth_bytes(), format!("grew by {}", format_value(totals.growth_bytes(), "bytes")));
        add_part(totals.swapped_bytes, format!("{} in swap", format_value(totals.swapped_bytes, "bytes")));
    }
    if bottleneck == Bottleneck::Application {
        let calls = totals.read_calls + totals.write_calls;
        let each = format_value(totals.requested_bytes / calls, "bytes");
        add_part(calls, format!("{} calls of {each}", format_value(rate(calls), "per_s")));
    }
    if shows_io {
        add_part(totals.read_bytes, format!("reads {}", format_value(rate(totals.read_bytes), "bytes_per_s")));
        add_part(totals.write_bytes, write_text(totals, scope, seconds));
        // share of the window; of several processes at once, the share of each
        let waited = (totals.waited_s() / totals.seconds.max(seconds)).min(1.0);
        let waits_in = totals.waits_in.as_deref().map_or(String::new(), |f| format!(" in {f}"));
        add_part(waited, format!("waits for I/O for {} of the time{waits_in}", format_value(waited, "fraction")));
    }
    let processor = rate(totals.processor_s);
    if !shows_io || processor >= 0.1 {
        // a real-time thread is worth naming: others get its processor only while it sleeps
        let priority = totals.realtime_priority.filter(|_| !shows_io);
        let priority_text = priority.map_or(String::new(), |priority| format!(" at real-time priority {priority}"));
        add_part(processor, format!("{} of a processor{priority_text}", format_value(processor, "fraction")));
    }
    if let Some((ThreadRow { tid, name, .. }, _)) = totals.busiest_thread().filter(|_| !shows_io) {
        // over the same time as the process, so that the thread's share is no larger than that of the process
        let used = rate(totals.busiest_thread_s()).min(processor);
        add_part(used, format!("its thread {name} ({tid}) {} of one", format_value(used, "fraction")));
    }
    let together = if processes > 1 { format!("{processes} processes together: ") } else { String::new() };
    together + &parts.join(", ")
}

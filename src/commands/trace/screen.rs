//! What `trace` prints when it ends: tables, heat maps, the longest requests, losses and cost.

use std::collections::HashMap;

use diskwright_base::byte_size::ByteSize;
use diskwright_base::units::{self, format_count};
use diskwright_blocktrace::dirty_pages::{DirtyCertainty, DirtyingThread, assess_certainty};
use diskwright_blocktrace::diskstats::RequestTotals;
use diskwright_blocktrace::pairing::TracedRequest;
use diskwright_blocktrace::summary::SIZE_CLASSES;
use diskwright_blocktrace::{LatencyHistogram, OperationSummary, TraceMethod, TraceSession, TracedOperation};
use diskwright_report::{Align, DisplayZone, Ink, Style, TextTable};

use super::heat_map;

/// Maximum number of longest requests shown.
const MAX_LONGEST_SHOWN: usize = 10;
/// Maximum number of longest requests in a document.
const MAX_LONGEST_IN_DOCUMENT: usize = 20;
/// Maximum number of threads named per device.
const MAX_REQUESTERS: usize = 5;

/// Relates the trace's clock to the time of day.
#[derive(Clone, Copy)]
pub struct TraceClock {
    pub wall_ns: i64,
    pub monotonic_ns: u64,
}

impl TraceClock {
    /// Converts a past time of the trace's clock to nanoseconds since 1970.
    pub fn wall_time_ns(self, running_ns: u64) -> i64 {
        self.wall_ns.saturating_sub(i64::try_from(self.monotonic_ns.saturating_sub(running_ns)).unwrap_or(i64::MAX))
    }
}

/// A thread's name as text.
pub fn command_name(name: &[u8; 16]) -> String {
    let end = name.iter().position(|b| *b == 0).unwrap_or(name.len());
    String::from_utf8_lossy(&name[..end]).into_owned()
}

/// Returns why the thread may not be the one that caused the work; `None` if it is.
pub fn attribution_doubt(pid: i32, name: &[u8; 16], operation: TracedOperation) -> Option<&'static str> {
    let name = command_name(name);
    let starts_with_any = |words: &[&str]| words.iter().any(|word| name.starts_with(word));
    // threads of arrays and loop devices (`md0_raid1`, `md_home_raid1`, `loop3`), but no programs such as mdadm
    let is_suffix_start = |c: char| c.is_ascii_digit() || c == '_';
    let is_device = |word: &str| name.strip_prefix(word).is_some_and(|rest| rest.starts_with(is_suffix_start));
    if pid <= 0 {
        Some("not seen")
    } else if starts_with_any(&["kworker", "jbd2/", "kswapd", "xfsaild", "btrfs-", "flush-", "dmcrypt"])
        || is_device("md")
        || is_device("loop")
    {
        Some("a kernel thread, for other programs")
    } else if operation == TracedOperation::Write {
        Some("write-back, for other programs")
    } else {
        None
    }
}

/// The longest requests, each with true if it has ended; requests in flight count with their time so far.
pub fn longest_requests(session: &TraceSession) -> Vec<(TracedRequest, bool)> {
    let finished = session.summary.slowest().iter().map(|request| (*request, true));
    let mut requests: Vec<(TracedRequest, bool)> = finished
        .chain(session.unfinished_requests().into_iter().take(MAX_LONGEST_IN_DOCUMENT).map(|request| (request, false)))
        .collect();
    requests.sort_by_key(|(request, _)| std::cmp::Reverse(request.latency_ns()));
    requests.truncate(MAX_LONGEST_IN_DOCUMENT);
    requests
}

/// Draws the whole answer.
pub fn draw_trace(
    session: &mut TraceSession,
    totals: &HashMap<u32, RequestTotals>,
    clock: TraceClock,
    style: &Style,
) -> String {
    let mut out = draw_heading(session);
    let devices = session.summary.devices();
    if devices.is_empty() {
        out.push_str("no requests were traced\n");
    }
    let from_ns = clock.monotonic_ns.saturating_sub(session.cost().elapsed_ns);
    for device in devices {
        let name = style.clean_text(&session.names.name(device));
        out.push_str(&format!("\n{}{}\n", style.paint(Ink::Bold, &name), traced_counts_text(session, device, totals)));
        let operations: Vec<(TracedOperation, &OperationSummary)> = TracedOperation::ALL
            .into_iter()
            .filter_map(|o| Some((o, session.summary.find_operation(device, o)?)))
            .collect();
        out.push_str(&operation_table(&operations).render(style));
        out.push('\n');
        out.push_str(&stage_table(&operations).render(style));
        out.push('\n');
        out.push_str(&access_table(&operations).render(style));
        out.push_str(&draw_heat_maps(session, device, from_ns, clock.monotonic_ns, style));
        out.push_str(&draw_requesters(session, device, style));
        out.push_str(&draw_dirtiers(session, device, style));
    }
    out.push_str(&draw_longest(session, clock, style));
    out.push_str(&draw_footer(session, style));
    out
}

fn draw_heading(session: &TraceSession) -> String {
    let seconds = units::format_value(session.cost().elapsed_ns as f64 / 1e9, "s");
    let method = match session.method() {
        TraceMethod::Tracefs => "every event, by tracefs",
        TraceMethod::Bpf => "histograms kept in the kernel, by bpf",
    };
    let sampled = match session.sample_divisor() {
        1 => String::new(),
        divisor => format!(", 1 of {divisor} address ranges"),
    };
    // the session's remarks were already printed as they occurred (interval_lines.rs)
    format!("\n{seconds} traced: {method}{sampled}\n")
}

/// Text of how many of a device's requests were traced, and how many the kernel counted.
fn traced_counts_text(session: &TraceSession, device: u32, totals: &HashMap<u32, RequestTotals>) -> String {
    let traced: u64 = TracedOperation::ALL
        .into_iter()
        .filter_map(|o| session.summary.find_operation(device, o))
        .map(|sum| sum.requests)
        .sum();
    let requests = format_count(traced, "request", "requests");
    match session.counted_by_kernel(device, totals) {
        Some(counted) => {
            let remark = match session.method() {
                TraceMethod::Tracefs => "",
                TraceMethod::Bpf => " (including callers' flushes, which are not traced)",
            };
            format!(": {requests} traced, {} counted by the kernel{remark}", counted.total())
        }
        None => format!(": {requests} traced"),
    }
}

fn format_ns(ns: Option<f64>) -> String {
    ns.map_or_else(|| "-".into(), |ns| units::format_value(ns * 1e-9, "s"))
}

fn latency_cells(h: &LatencyHistogram) -> Vec<String> {
    let percentiles = [0.5, 0.9, 0.99, 0.999].map(|share| format_ns(h.percentile_ns(share)));
    let longest = format_ns(h.longest_ns().map(|ns| ns as f64));
    std::iter::once(format_ns(h.mean_ns())).chain(percentiles).chain([longest]).collect()
}

fn latency_table(first: &str) -> TextTable {
    let mut table = TextTable::new().with_column(first, Align::Left).with_column("requests", Align::Right);
    for title in ["mean", "50 %", "90 %", "99 %", "99.9 %", "longest"] {
        table = table.with_column(title, Align::Right);
    }
    table
}

fn operation_table(operations: &[(TracedOperation, &OperationSummary)]) -> TextTable {
    let mut table = latency_table("latency");
    for (operation, sum) in operations {
        let cells = [operation.title().to_owned(), sum.requests.to_string()];
        table.add_row(cells.into_iter().chain(latency_cells(&sum.latency)));
    }
    table
}

fn stage_table(operations: &[(TracedOperation, &OperationSummary)]) -> TextTable {
    let mut table = latency_table("stage");
    for (operation, sum) in operations {
        let stages = [
            ("waits for a queue tag", &sum.queue),
            ("waits in the scheduler", &sum.scheduler),
            ("at the device", &sum.device),
        ];
        for (stage, h) in stages.into_iter().filter(|(_, h)| h.count() > 0) {
            let cells = [format!("{}: {stage}", operation.title()), h.count().to_string()];
            table.add_row(cells.into_iter().chain(latency_cells(h)));
        }
    }
    table
}

/// Sizes, order and depth of the requests of each operation.
fn access_table(operations: &[(TracedOperation, &OperationSummary)]) -> TextTable {
    let mut table = TextTable::new().with_column("requests", Align::Left);
    for title in ["bytes", "mean size", "usual size", "sequential", "mean seek", "mean depth", "max depth", "errors"] {
        table = table.with_column(title, Align::Right);
    }
    for (operation, sum) in operations {
        let or_dash = |value: Option<String>| value.unwrap_or_else(|| "-".into());
        let bytes = (sum.bytes > 0).then(|| ByteSize::capacity(sum.bytes as f64).to_string());
        let mean_size = (sum.bytes > 0).then(|| ByteSize::memory(sum.bytes as f64 / sum.requests as f64).to_string());
        table.add_row([
            operation.title().to_owned(),
            or_dash(bytes),
            or_dash(mean_size),
            or_dash(most_common_size(sum)),
            or_dash(sum.sequential_share().map(|share| units::format_value(share, "fraction"))),
            or_dash(sum.mean_distance_bytes().map(|distance| ByteSize::capacity(distance).to_string())),
            or_dash(sum.mean_depth().map(units::format_significant)),
            or_dash((sum.depth_count > 0).then(|| sum.max_depth.to_string())),
            sum.errors.to_string(),
        ]);
    }
    table
}

/// The most common size class.
fn most_common_size(sum: &OperationSummary) -> Option<String> {
    let class = (0..SIZE_CLASSES).filter(|class| sum.sizes[*class] > 0).max_by_key(|class| sum.sizes[*class])?;
    Some(format!("to {}", ByteSize::memory((512u64 << class) as f64)))
}

fn draw_heat_maps(session: &TraceSession, device: u32, from_ns: u64, to_ns: u64, style: &Style) -> String {
    use TracedOperation::{Discard, Flush, FlushCall, Read, SyncWrite, Write};
    let groups: [(&str, &[TracedOperation]); 4] = [
        ("latency of reads over time", &[Read]),
        ("latency of writes over time", &[Write, SyncWrite]),
        ("latency of flushes over time", &[Flush, FlushCall]),
        ("latency of discards over time", &[Discard]),
    ];
    let mut out = String::new();
    for (title, operations) in groups {
        let maps: Vec<_> = operations.iter().filter_map(|o| session.summary.find_heat_map(device, *o)).collect();
        let map = heat_map::draw_heat_map(&maps, from_ns, to_ns, style);
        if !map.is_empty() {
            out.push_str(&format!("\n{title}\n{map}"));
        }
    }
    out
}

/// Draws the threads that sent requests to a device, those with the most device time first.
fn draw_requesters(session: &TraceSession, device: u32, style: &Style) -> String {
    let requesters = session.summary.requesters(device);
    if requesters.is_empty() {
        return String::new();
    }
    let mut table = TextTable::new()
        .with_column("sent by", Align::Left)
        .with_column("thread", Align::Right)
        .with_column("operation", Align::Left)
        .with_column("requests", Align::Right)
        .with_column("bytes", Align::Right)
        .with_column("time at device", Align::Right)
        .with_text_column("");
    for requester in requesters.iter().take(MAX_REQUESTERS) {
        table.add_row([
            command_name(&requester.comm),
            if requester.pid > 0 { requester.pid.to_string() } else { String::new() },
            requester.operation.title().to_owned(),
            requester.requests.to_string(),
            ByteSize::capacity(requester.bytes as f64).to_string(),
            units::format_value(requester.device_ns as f64 / 1e9, "s"),
            attribution_doubt(requester.pid, &requester.comm, requester.operation).unwrap_or_default().to_owned(),
        ]);
    }
    format!("\n{}", table.render(style))
}

/// Draws the threads whose dirtied pages the kernel wrote to a device, and how certain that is.
fn draw_dirtiers(session: &TraceSession, device: u32, style: &Style) -> String {
    let threads = session.dirty_pages().map(|pages| pages.threads_of_device(device)).unwrap_or_default();
    let requesters = session.summary.requesters(device);
    let is_for_others = requesters.iter().any(|a| {
        let is_write = matches!(a.operation, TracedOperation::Write | TracedOperation::SyncWrite);
        is_write && attribution_doubt(a.pid, &a.comm, a.operation).is_some()
    });
    if !is_for_others && threads.is_empty() {
        return String::new();
    }
    let total: u64 = threads.iter().map(|thread| thread.pages).sum();
    let thread_text = |thread: &DirtyingThread| {
        let name = if thread.comm.is_empty() { "(ended)".into() } else { style.clean_text(&thread.comm) };
        let share = units::format_value(thread.pages as f64 / total as f64, "fraction");
        format!("{name} {} ({share} of {total})", thread.pid)
    };
    let named = threads.iter().take(MAX_REQUESTERS).map(thread_text).collect::<Vec<_>>().join(", ");
    let text = match assess_certainty(&threads) {
        DirtyCertainty::Unknown if session.dirty_pages().is_none() => {
            "who dirtied the pages is known only with --method tracefs, which records single events".to_owned()
        }
        DirtyCertainty::Unknown => "who dirtied the pages is unknown: no program did so during the trace".to_owned(),
        DirtyCertainty::Likely => format!("pages were dirtied by {named}; the write-back is probably theirs"),
        DirtyCertainty::Guess => {
            format!("pages were dirtied by {named}; the write-back is divided by these shares, as an estimate")
        }
    };
    format!("{text}\n")
}

/// Draws the longest requests, one per line.
fn draw_longest(session: &mut TraceSession, clock: TraceClock, style: &Style) -> String {
    let longest = longest_requests(session);
    if longest.is_empty() {
        return String::new();
    }
    let mut table = TextTable::new()
        .with_column("longest", Align::Right)
        .with_column("ended", Align::Left)
        .with_column("device", Align::Left)
        .with_column("operation", Align::Left)
        .with_column("offset", Align::Right)
        .with_column("size", Align::Right)
        .with_column("at device", Align::Right)
        .with_column("depth", Align::Right)
        .with_text_column("sent by");
    for (request, is_done) in longest.iter().take(MAX_LONGEST_SHOWN) {
        let thread =
            if request.pid > 0 { format!("{} {}", command_name(&request.comm), request.pid) } else { String::new() };
        table.add_row([
            units::format_value(request.latency_ns() as f64 / 1e9, "s"),
            if *is_done {
                DisplayZone::local().format_clock(clock.wall_time_ns(request.done_ns))
            } else {
                "not done".into()
            },
            session.names.name(request.device),
            request.operation.title().to_owned(),
            ByteSize::capacity(request.sector as f64 * 512.0).to_string(),
            ByteSize::memory(f64::from(request.sectors) * 512.0).to_string(),
            format_ns(request.device_ns().map(|ns| ns as f64)),
            if request.depth > 0 { request.depth.to_string() } else { String::new() },
            thread,
        ]);
    }
    format!("\n{}", table.render(style))
}

/// Draws lost events, unpaired events, and the cost of tracing.
fn draw_footer(session: &TraceSession, style: &Style) -> String {
    let (cost, loss) = (session.cost(), session.loss());
    let mut out = String::from("\n");
    if loss.total() > 0 {
        let text = format_count(loss.total(), "event was", "events were") + " lost; the figures cover the others";
        out.push_str(&format!("{}\n", style.paint(Ink::Bad, &text)));
    } else if loss.unread == 0 {
        out.push_str("no events were lost\n");
    }
    if loss.unread > 0 {
        let processors = format_count(loss.unread, "processor", "processors");
        let text = format!("the losses of {processors} are unknown: the kernel's count could not be read");
        out.push_str(&format!("{}\n", style.paint(Ink::Bad, &text)));
    }
    let without_start = match (session.counts(), session.kernel_loss()) {
        (Some((read, pairs)), _) => {
            if read.unknown + read.truncated_pages > 0 {
                let (events, pages) = (
                    format_count(read.unknown, "event", "events"),
                    format_count(read.truncated_pages, "page", "pages"),
                );
                out.push_str(&format!("{events} and {pages} could not be read\n"));
            }
            if pairs.clock_back > 0 {
                let ended = format_count(pairs.clock_back, "request ended before it", "requests ended before they");
                out.push_str(&format!("{ended} began: the processors' clocks differ\n"));
            }
            pairs.without_beginning
        }
        (None, Some(loss)) => loss.without_beginning,
        (None, None) => 0,
    };
    if without_start > 0 {
        let left_out = format_count(without_start, "completion is", "completions are");
        out.push_str(&format!("{left_out} left out: the start of the request was not traced\n"));
    }
    if let Some(unfinished) = session.unfinished_count().filter(|n| *n > 0) {
        let unfinished = format_count(unfinished as u64, "request was", "requests were");
        out.push_str(&format!("{unfinished} still in flight at the end\n"));
    }
    let share = cost.processor_share().map_or_else(|| "-".into(), |share| units::format_value(share, "fraction"));
    let rate = cost.events_per_s().map_or_else(|| "-".into(), |rate| units::format_value(rate, "per_s"));
    out.push_str(&format!(
        "cost: {share} of {} ({} in this program, {} in the kernel: {rate} events at {} each)\n",
        format_count(cost.processors as u64, "processor", "processors"),
        units::format_value(cost.reader_ns as f64 / 1e9, "s"),
        units::format_value(cost.kernel_ns / 1e9, "s"),
        units::format_value(session.event_ns() / 1e9, "s"),
    ));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_kernel_threads_from_programs_with_similar_names() {
        let of = |text: &str, operation| {
            let mut name = [0; 16];
            name[..text.len()].copy_from_slice(text.as_bytes());
            attribution_doubt(7, &name, operation)
        };
        for kernel in ["md0_raid1", "md_home_raid1", "loop3", "kworker/u8:2", "jbd2/sda1-8", "dmcrypt_write/2"] {
            assert_eq!(of(kernel, TracedOperation::SyncWrite), Some("a kernel thread, for other programs"), "{kernel}");
        }
        for program in ["mdadm", "mdworker", "loopback"] {
            assert_eq!(of(program, TracedOperation::SyncWrite), None, "{program}");
        }
        assert!(of("mdadm", TracedOperation::Write).is_some());
        assert_eq!(attribution_doubt(0, &[0; 16], TracedOperation::Read), Some("not seen"));
    }
}

//! Output while the trace runs: one line per device and operation for each interval.

use std::collections::HashMap;
use std::time::Duration;

use diskwright_base::units;
use diskwright_blocktrace::{LatencyHistogram, TraceSession, TracedOperation};
use diskwright_counters::live::ClockReading;
use diskwright_report::{DisplayZone, Ink, Style};

/// Keeps the previous totals, so that an interval is the difference.
pub struct IntervalLines {
    every_ns: u64,
    due_ns: u64,
    last_ns: u64,
    previous_totals: HashMap<(u32, TracedOperation), (LatencyHistogram, u64)>,
    lines_printed: usize,
    remarks_printed: usize,
}

/// Lines after which the heading is repeated.
const LINES_PER_HEADING: usize = 20;

impl IntervalLines {
    /// Creates lines for intervals that start now.
    pub fn new(now_ns: u64, every: Duration) -> IntervalLines {
        let every_ns = u64::try_from(every.as_nanos()).unwrap_or(u64::MAX);
        let due_ns = now_ns.saturating_add(every_ns);
        IntervalLines {
            every_ns,
            due_ns,
            last_ns: now_ns,
            previous_totals: HashMap::new(),
            lines_printed: 0,
            remarks_printed: 0,
        }
    }

    /// Returns the lines of the interval that has ended; `None` before its end.
    pub fn interval_text(&mut self, session: &mut TraceSession, now: ClockReading, style: &Style) -> Option<String> {
        if now.running_ns < self.due_ns {
            return None;
        }
        let seconds = (now.running_ns - self.last_ns) as f64 / 1e9;
        self.last_ns = now.running_ns;
        while self.due_ns <= now.running_ns {
            self.due_ns = self.due_ns.saturating_add(self.every_ns);
        }
        let mut out = String::new();
        for remark in &session.remarks[self.remarks_printed.min(session.remarks.len())..] {
            out.push_str(&format!("{}\n", style.paint(Ink::Warn, &style.clean_text(remark))));
        }
        self.remarks_printed = session.remarks.len();
        let mut clock = DisplayZone::local().format_clock(now.wall_ns);
        for device in session.summary.devices() {
            let name = session.names.name(device);
            for operation in TracedOperation::ALL {
                let Some(sum) = session.summary.find_operation(device, operation) else { continue };
                let (latency, bytes) = (sum.latency.clone(), sum.bytes);
                let previous = self.previous_totals.insert((device, operation), (latency.clone(), bytes));
                let (latency_since, bytes_since) = match &previous {
                    Some((old_latency, old_bytes)) => (latency.difference_since(old_latency), bytes - old_bytes),
                    None => (latency, bytes),
                };
                if latency_since.count() == 0 {
                    continue;
                }
                if self.lines_printed.is_multiple_of(LINES_PER_HEADING) {
                    out.push_str(&style.paint(Ink::Bold, HEADING));
                    out.push('\n');
                }
                self.lines_printed += 1;
                out.push_str(&format_line(
                    &clock,
                    &style.clean_text(&name),
                    operation,
                    &latency_since,
                    bytes_since,
                    seconds,
                ));
                clock = String::new();
            }
        }
        out.push_str(&stall_lines(session, self.every_ns.max(MIN_STALL_NS), style));
        (!out.is_empty()).then_some(out)
    }
}

/// Requests in flight for this long are reported before they end.
const MIN_STALL_NS: u64 = 500_000_000;

/// Lists devices with requests that have been in flight for long: their latencies are in no percentile yet.
fn stall_lines(session: &mut TraceSession, min_ns: u64, style: &Style) -> String {
    let requests = session.unfinished_requests();
    let mut listed: Vec<u32> = Vec::new();
    let mut out = String::new();
    for oldest in &requests {
        if oldest.latency_ns() < min_ns || listed.contains(&oldest.device) {
            continue;
        }
        listed.push(oldest.device);
        let in_flight = requests.iter().filter(|r| r.device == oldest.device).count();
        let name = style.clean_text(&session.names.name(oldest.device));
        let seconds = units::format_value(oldest.latency_ns() as f64 * 1e-9, "s");
        let in_flight = units::format_count(in_flight as u64, "request", "requests");
        let text = format!("{name}: {in_flight} in flight, the oldest ({}) for {seconds}", oldest.operation.title());
        out.push_str(&format!("{}\n", style.paint(Ink::Warn, &text)));
    }
    out
}

const HEADING: &str = "time     device       operation  requests/s   bytes/s     50 %     99 %  longest";

fn format_line(
    clock: &str,
    device: &str,
    operation: TracedOperation,
    latency: &LatencyHistogram,
    bytes: u64,
    seconds: f64,
) -> String {
    let time = |ns: Option<f64>| ns.map_or_else(|| "-".into(), |ns| units::format_value(ns * 1e-9, "s"));
    let rate = units::format_value(latency.count() as f64 / seconds, "per_s");
    let throughput = units::format_value(bytes as f64 / seconds, "bytes_per_s");
    let (median, tail) = (time(latency.percentile_ns(0.5)), time(latency.percentile_ns(0.99)));
    let longest = time(latency.longest_ns().map(|ns| ns as f64));
    format!(
        "{clock:<8} {device:<12} {:<10} {rate:>10} {throughput:>9} {median:>8} {tail:>8} {longest:>8}\n",
        operation.title()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_fit_the_columns_of_a_terminal() {
        let mut latency = LatencyHistogram::default();
        latency.record(123_456_789);
        let text = format_line("22:20:11", "nvme0n1", TracedOperation::FlushCall, &latency, 999_900_000_000, 1.0);
        assert_eq!((HEADING.len(), text.trim_end_matches('\n').chars().count()), (80, 80), "{text}");
    }
}

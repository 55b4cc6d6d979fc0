//! A request trace as text: tables and histograms of bars.

use diskwright_base::byte_size::ByteSize;
use diskwright_base::units::format_count;
use diskwright_base::{Histogram, Operation, units};
use diskwright_report::{Align, DisplayZone, Ink, Style, TextTable};
use diskwright_traces::statistics::{HOT_SHARES, MAX_STREAMS, RequestStatistics, TraceReport};
use diskwright_traces::{PassedOn, TraceSummary};

use super::histogram_steps::{self, HistogramStep};

/// Maximum number of devices whose figures are shown separately besides the sum.
const MAX_SEPARATE_DEVICES: usize = 4;
/// Maximum number of exact sizes named.
const MAX_SIZES: usize = 5;

/// Draws everything about one trace. `counts_once` is true if requests that were passed on count only at the last
/// device.
pub fn draw_trace(
    title: &str,
    summary: &TraceSummary,
    report: &TraceReport,
    counts_once: bool,
    charts: bool,
    style: &Style,
) -> String {
    let mut out = draw_heading(title, summary, report, style);
    for line in summary_remarks(summary, counts_once) {
        out.push_str(&format!("{}\n", style.paint(Ink::Warn, &style.clean_text(&line))));
    }
    if report.further_device_requests > 0 {
        let requests =
            format_count(report.further_device_requests, "request of more devices is", "requests of more devices are");
        out.push_str(&format!("{requests} included in the total only\n"));
    }
    out.push('\n');
    out.push_str(&overview_table(report).render(style));
    if report.devices.len() != 1 {
        draw_figures(&mut out, &report.all, "all devices", charts, style);
    }
    if report.devices.len() <= MAX_SEPARATE_DEVICES {
        for device in &report.devices {
            draw_figures(&mut out, device, &device.name, charts, style);
        }
    } else {
        let devices = report.devices.len();
        out.push_str(&format!("\n{devices} devices are shown together; use --instance to see one of them\n"));
    }
    out
}

fn draw_heading(title: &str, summary: &TraceSummary, report: &TraceReport, style: &Style) -> String {
    let range = match (summary.wall_clock, report.all.flow.from_ns, report.all.flow.to_ns) {
        (true, Some(from), Some(to)) => DisplayZone::local().format_range(from, to),
        _ => format!("{} on a separate clock", units::format_value(report.all.flow.duration_s(), "s")),
    };
    let files = match summary.files.as_slice() {
        [only] => style.clean_text(only),
        [first, ..] => format!("{} and {} more", style.clean_text(first), summary.files.len() - 1),
        [] => String::new(),
    };
    format!("{files}: {title}\n{}, {range}\n", format_count(report.all.requests, "request", "requests"))
}

/// Describes limits of the figures, one per line.
pub fn summary_remarks(summary: &TraceSummary, counts_once: bool) -> Vec<String> {
    let mut lines: Vec<String> = summary.assumed.iter().cloned().collect();
    for passed in &summary.passed_on {
        let PassedOn { device, requests } = passed;
        let one = format!("request of {device} was passed on to another device");
        let requests_text =
            format_count(*requests, &one, &format!("requests of {device} were passed on to another device"));
        lines.push(match (counts_once, *requests) {
            (true, 1) => format!("{requests_text} and counts there (--instance {device} shows it)"),
            (true, _) => format!("{requests_text} and count there (--instance {device} shows them)"),
            (false, 1) => format!("{requests_text}, which counts it too"),
            (false, _) => format!("{requests_text}, which counts them too"),
        });
    }
    let mut add_count = |count: u64, one: &str, many: &str| {
        if count > 0 {
            lines.push(format_count(count, &format!("request {one}"), &format!("requests {many}")));
        }
    };
    add_count(summary.unfinished, "has no completion in the trace", "have no completion in the trace");
    add_count(
        summary.without_arrival,
        "has no arrival event: it counts from its issue",
        "have no arrival event: they count from their issue",
    );
    add_count(
        summary.out_of_order,
        "is out of arrival order; its distance to the previous request is not counted",
        "are out of arrival order; their distance to the previous request is not counted",
    );
    for skipped in &summary.skipped {
        let times = if skipped.count == 1 { "once".to_owned() } else { format!("{} times", skipped.count) };
        lines.push(format!("left out {times}, first at {}: {}", skipped.context, skipped.reason));
    }
    lines
}

fn format_share(value: Option<f64>) -> String {
    value.map_or_else(|| "unknown".into(), |v| units::format_value(v, "fraction"))
}

fn format_rate(value: Option<f64>) -> String {
    value.map_or_else(|| "unknown".into(), |v| units::format_value(v, "per_s"))
}

/// Formats an amount of data, or a distance on the disk.
fn format_bytes(value: u64) -> String {
    ByteSize::capacity(value as f64).to_string()
}

fn format_size(bytes: u64) -> String {
    ByteSize::memory(bytes as f64).to_string()
}

/// Builds the table with one row per device.
fn overview_table(report: &TraceReport) -> TextTable {
    let mut table = TextTable::new().with_column("device", Align::Left);
    for title in ["requests", "reads", "read", "written", "a second", "peak", "outstanding", "most", "busy"] {
        table = table.with_column(title, Align::Right);
    }
    let mut row = |name: &str, f: &RequestStatistics| {
        let outstanding = f.flow.mean_in_flight.map_or_else(|| "unknown".into(), units::format_significant);
        table.add_row([
            name.to_owned(),
            f.requests.to_string(),
            format_share(f.read_share()),
            format_bytes(f.operation_amount(Operation::Read).bytes),
            format_bytes(f.operation_amount(Operation::Write).bytes),
            format_rate(f.flow.requests_per_s),
            format_rate(Some(f.flow.peak_per_s as f64)),
            outstanding,
            f.flow.max_in_flight.map_or_else(String::new, |max_in_flight| max_in_flight.to_string()),
            format_share(f.flow.busy_share),
        ]);
    };
    for device in &report.devices {
        row(&device.name, device);
    }
    if report.devices.len() != 1 {
        row("all", &report.all);
    }
    table
}

/// Draws the sections on one device, or on all.
fn draw_figures(out: &mut String, f: &RequestStatistics, name: &str, charts: bool, style: &Style) {
    out.push_str(&format!("\n{}\n", style.paint(Ink::Bold, &style.clean_text(name))));
    out.push_str(&time_table(f).render(style));
    out.push('\n');
    out.push_str(&access_table(f).render(style));
    out.push_str(&format!("\nsize of reads and writes{}\n", common_sizes(f)));
    out.push_str(&draw_sizes(f, style));
    let mut histogram = |title: &str, histogram: &Histogram, unit: &str| {
        if !histogram.is_empty() {
            out.push_str(&format!("\n{title}\n{}", draw_bars(&histogram_rows(histogram, unit), style)));
        }
    };
    histogram("response time (arrival to completion)", &f.response_ns, "s");
    if charts {
        histogram("queue time (arrival to issue)", &f.queue_ns, "s");
        histogram("service time (issue to completion)", &f.service_ns, "s");
        histogram("time between arrivals", &f.flow.interarrival_ns, "s");
        histogram("distance to the previous request", &f.seek_bytes, "bytes");
        histogram("requests in a run", &f.run_requests, "count");
    }
}

fn time_table(f: &RequestStatistics) -> TextTable {
    let mut table = TextTable::new().with_column("time", Align::Left);
    for title in ["requests", "mean", "50 %", "95 %", "99 %", "99.9 %", "99.999 %", "most"] {
        table = table.with_column(title, Align::Right);
    }
    let mut row = |title: &str, h: &Histogram| {
        let format_time =
            |ns: Option<f64>| ns.map_or_else(|| "unknown".into(), |ns| units::format_value(ns * 1e-9, "s"));
        let without_percentile = if h.is_empty() { "unknown" } else { "-" };
        let percentile =
            |share| h.percentile(share).map_or_else(|| without_percentile.to_owned(), |ns| format_time(Some(ns)));
        let percentiles = [0.5, 0.95, 0.99, 0.999, 0.99999].map(percentile);
        let cells = [title.to_owned(), h.count().to_string(), format_time(h.mean())];
        table.add_row(cells.into_iter().chain(percentiles).chain([format_time(h.max().map(|m| m as f64))]));
    };
    row("queue", &f.queue_ns);
    row("service", &f.service_ns);
    row("response", &f.response_ns);
    if !f.read_response_ns.is_empty() && !f.write_response_ns.is_empty() {
        row("  of reads", &f.read_response_ns);
        row("  of writes", &f.write_response_ns);
    }
    row("between arrivals", &f.flow.interarrival_ns);
    table
}

fn access_table(f: &RequestStatistics) -> TextTable {
    let mut table = TextTable::new().with_text_column("").with_text_column("");
    let mut row = |name: &str, value: String| table.add_row([name.to_owned(), value]);
    let variation = f.flow.variation.map_or_else(|| "unknown".into(), units::format_significant);
    row("variation of arrivals", format!("{variation} (1 is random, more is bursty)"));
    row("begins where the previous one ended", format_share(f.sequential));
    row(&format!("begins where one of {MAX_STREAMS} streams ended"), format_share(f.sequential_in_streams));
    if let (Some(mean), Some(max), Some(length)) = (f.run_requests.mean(), f.run_requests.max(), f.run_bytes.mean()) {
        let mean = units::format_amount(mean, "request", "requests");
        row("run in a stream", format!("mean {mean}, {}; longest {max}", format_bytes(length as u64)));
    }
    if let (Some(mean), Some(median)) = (f.seek_bytes.mean(), f.seek_bytes.quantile(0.5)) {
        let forward = format_share(f.seeks_forward);
        row(
            "distance otherwise",
            format!("mean {}, median {}; {forward} forward", format_bytes(mean as u64), format_bytes(median as u64)),
        );
    }
    let about = if f.footprint.is_exact { "" } else { "about " };
    row("touched", format!("{about}{} in blocks of 4 KiB", format_bytes(f.footprint.bytes)));
    if let Some(hot) = f.footprint.hot_access_shares.map(|hot| hot.map(|part| units::format_value(part, "fraction"))) {
        let blocks = HOT_SHARES.map(|share| units::format_significant(share * 100.0)).join(", ");
        row(&format!("hottest {blocks} % of that"), format!("take {} of the accesses", hot.join(", ")));
    }
    for operation in [Operation::Flush, Operation::Discard] {
        let amount = f.operation_amount(operation);
        if amount.requests > 0 {
            let length = if amount.bytes > 0 { format!(", {}", format_bytes(amount.bytes)) } else { String::new() };
            row(
                if operation == Operation::Flush { "flushes" } else { "discards" },
                format!("{}{length}", amount.requests),
            );
        }
    }
    table
}

/// Formats `: 4 KiB 62 %, 64 KiB 20 %, …`.
fn common_sizes(f: &RequestStatistics) -> String {
    let total = f.operation_amount(Operation::Read).requests + f.operation_amount(Operation::Write).requests;
    let describe = |(length, times): &(u32, u64)| {
        format!("{} {}", format_size(u64::from(*length)), units::format_value(*times as f64 / total as f64, "fraction"))
    };
    let named: Vec<String> = f.sizes.most_common(MAX_SIZES).iter().map(describe).collect();
    if named.is_empty() { String::new() } else { format!("; most common {}", named.join(", ")) }
}

/// A row of a histogram: its label, its count, and a suffix.
struct HistogramRow {
    label: String,
    count: u64,
    suffix: String,
}

fn draw_sizes(f: &RequestStatistics, style: &Style) -> String {
    let powers = &f.sizes.by_power;
    let is_used = |(reads, writes): &(u64, u64)| reads + writes > 0;
    let (Some(first), Some(last)) = (powers.iter().position(is_used), powers.iter().rposition(is_used)) else {
        return "  none\n".into();
    };
    let row = |power: usize| {
        let (reads, writes) = powers[power];
        let suffix = format!("{}, {}", format_count(reads, "read", "reads"), format_count(writes, "write", "writes"));
        HistogramRow { label: format!("to {}", format_size(1 << power)), count: reads + writes, suffix }
    };
    draw_bars(&(first..=last).map(row).collect::<Vec<_>>(), style)
}

fn histogram_rows(histogram: &Histogram, unit: &str) -> Vec<HistogramRow> {
    let format = |value: u64| match unit {
        "s" => units::format_value(value as f64 * 1e-9, "s"),
        "bytes" => format_bytes(value),
        _ => value.to_string(),
    };
    let row = |HistogramStep { from, to, count }: HistogramStep| {
        let label = if to == from + 1 { format(from) } else { format!("{} to {}", format(from), format(to)) };
        HistogramRow { label, count, suffix: String::new() }
    };
    histogram_steps::histogram_steps(histogram).into_iter().map(row).collect()
}

/// Draws bars in proportion to the largest count; every row that is not empty has at least a thin bar.
fn draw_bars(rows: &[HistogramRow], style: &Style) -> String {
    const MAX_BAR_COLUMNS: usize = 36;
    let total: u64 = rows.iter().map(|r| r.count).sum();
    let max_count = rows.iter().map(|r| r.count).max().unwrap_or(0).max(1);
    let mut table = TextTable::new()
        .with_column("", Align::Right)
        .with_column("", Align::Left)
        .with_column("", Align::Right)
        .with_column("", Align::Left);
    for HistogramRow { label, count, suffix } in rows {
        let length = (*count as f64 / max_count as f64 * MAX_BAR_COLUMNS as f64).round() as usize;
        let bar = match (count, length) {
            (0, _) => String::new(),
            (_, 0) => style.glyph("▏", ".").to_owned(),
            _ => style.glyph("█", "#").repeat(length),
        };
        let (share, suffix) = match (*count, suffix.as_str()) {
            (0, _) => (String::new(), String::new()),
            (_, "") => (format_share(Some(*count as f64 / total.max(1) as f64)), count.to_string()),
            (_, suffix) => (format_share(Some(*count as f64 / total.max(1) as f64)), suffix.to_owned()),
        };
        table.add_row([label.clone(), bar, share, suffix]);
    }
    table.render(style)
}

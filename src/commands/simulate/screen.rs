//! The screen of a simulated system: workloads, then the path from processors to drives with the utilization of each
//! part, then the bottleneck.

use diskwright_base::byte_size::ByteSize;
use diskwright_base::units::{format_count, format_significant, format_value};
use diskwright_report::{Align, Ink, Style, TextTable, text};
use diskwright_simulator::analytic::solve;
use diskwright_simulator::load::Operations;
use diskwright_simulator::{Component, ComponentKind, SimulationReport};

use super::outcome::{
    self, FULL_UTILIZATION, HIGH_UTILIZATION, SimulationOutcome, busiest_component, component_name, describe_bottleneck,
};

/// Columns of a bar.
const BAR_COLUMNS: usize = 20;
/// Maximum number of drives listed; of more, those that differ most are shown.
const MAX_DRIVES: usize = 12;

/// Draws the screen.
pub fn draw_simulation(outcome: &SimulationOutcome, style: &Style) -> String {
    let report = &outcome.report;
    let name = style.paint(Ink::Bold, &style.clean_text(&outcome.system.name));
    let mut out =
        format!("{name}: {} simulated, seed {}\n\n", format_seconds(report.elapsed_s()), outcome.system.watch.seed);
    if let (false, Some(reason)) = (outcome.is_measured(), outcome.unmeasured_reason()) {
        return out + &style.paint(Ink::Bad, &reason) + "\n";
    }
    out += &workload_table(report).render(style);
    out.push('\n');
    out += &draw_components(report, style);
    for array in report.arrays.iter().filter(|array| array.counts.request_count() > 0) {
        let member_ios = array.member_ios as f64 / array.counts.request_count() as f64;
        let rate = array.totals.throughput_per_s();
        let name = style.clean_text(&array.name);
        out += &format!(
            "\n{name}: {} from users, {} member I/Os for each",
            format_value(rate, "per_s"),
            format_significant(member_ios)
        );
        if let Some(background) = &array.background {
            let share = background.done_bytes as f64 / background.all_bytes.max(1) as f64;
            let task = format!("{:?}", background.task).to_lowercase();
            out += &format!("; {task} {} done", format_value(share, "fraction"));
        }
        if array.lost_blocks > 0 {
            let lost = ByteSize::capacity(array.lost_blocks as f64 * 512.0);
            out += &format!("; {lost} could not be served: too many members have failed");
        }
        out.push('\n');
    }
    for cache in report.caches.iter().filter(|cache| cache.counters.total_reads() > 0) {
        let share = format_value(cache.counters.hit_share(), "fraction");
        out += &format!("\ncache of {}: {share} of the reads\n", style.clean_text(&cache.name));
    }
    let share = outcome::interrupt_share(outcome);
    if report.interrupt_ns > 0.0 {
        let rate = format_value(report.interrupts / report.elapsed_s(), "per_s");
        out += &format!("\ninterrupts: {rate}, {} of the processors' time\n", format_value(share, "fraction"));
    }
    if let Ok(solution) = solve(&outcome.system) {
        let (rate, response) = (format_value(solution.throughput_per_s, "per_s"), format_seconds(solution.response_s));
        let words = format!("by mean value analysis: {rate}, response {response}");
        out += &format!("\n{}\n", style.paint(Ink::Dim, &words));
    }
    let words = describe_bottleneck(outcome);
    let ink = if busiest_component(outcome).is_some_and(|c| c.utilisation() >= FULL_UTILIZATION) {
        Ink::Bad
    } else {
        Ink::Bold
    };
    out + &format!("\n{}\n", style.paint(ink, &style.clean_text(&words)))
}

fn format_seconds(value: f64) -> String {
    format_value(value, "s")
}

fn workload_table(report: &SimulationReport) -> TextTable {
    let mut table = TextTable::new().with_column("workload", Align::Left);
    for title in ["requests/s", "reads/s", "writes/s", "bytes/s", "response", "95 %", "99 %", "longest"] {
        table = table.with_column(title, Align::Right);
    }
    let elapsed_s = report.elapsed_s();
    for workload in &report.workloads {
        let counts = &workload.counts;
        let time = |ns: Option<f64>| ns.map_or("-".to_owned(), |ns| format_seconds(ns / 1e9));
        let mean = match workload.response_s {
            Some(interval) if interval.half_width.is_finite() && interval.mean > 0.0 => {
                format!(
                    "{} ±{}",
                    time(workload.responses.mean()),
                    format_value(interval.relative_half_width(), "fraction")
                )
            }
            _ => time(workload.responses.mean()),
        };
        table.add_row([
            workload.name.clone(),
            format_significant(counts.request_count() as f64 / elapsed_s),
            format_significant(counts.reads as f64 / elapsed_s),
            format_significant(counts.writes as f64 / elapsed_s),
            format_value(counts.byte_count() as f64 / elapsed_s, "bytes_per_s"),
            mean,
            time(workload.responses.quantile(0.95)),
            time(workload.responses.quantile(0.99)),
            time(workload.responses.max().map(|ns| ns as f64)),
        ]);
        for operations in workload.operations.iter().filter(|o| o.totals.done > 0 && !is_each_request(o, counts)) {
            let cells = [
                format!("  {}", operations.name),
                format_significant(operations.totals.done as f64 / elapsed_s),
                String::new(),
                String::new(),
                format_value(operations.totals.bytes as f64 / elapsed_s, "bytes_per_s"),
                format_seconds(operations.totals.mean_response_s()),
                time(operations.responses.quantile(0.95)),
                time(operations.responses.quantile(0.99)),
                time(operations.responses.max().map(|ns| ns as f64)),
            ];
            table.add_row(cells);
        }
    }
    table
}

/// True if each operation is one request, so that a separate line would repeat the same figures.
fn is_each_request(operations: &Operations, counts: &diskwright_simulator::run::IoCounts) -> bool {
    operations.totals.done.abs_diff(counts.request_count()) * 100 <= counts.request_count()
}

/// Draws the parts in the order of the path.
fn draw_components(report: &SimulationReport, style: &Style) -> String {
    let mut out =
        style.paint(Ink::Dim, &format!("{:<28}{:<w$}   queue     rate", "", "utilization", w = BAR_COLUMNS + 6)) + "\n";
    let drives: Vec<&Component> = report.components.iter().filter(|c| c.kind == ComponentKind::Drive).collect();
    for component in report.components.iter().filter(|c| c.kind != ComponentKind::Drive && c.totals.arrived > 0) {
        out += &component_line(component, style);
    }
    let mut shown = drives.clone();
    if drives.len() > MAX_DRIVES {
        shown.sort_by(|a, b| b.utilisation().total_cmp(&a.utilisation()));
        shown.truncate(MAX_DRIVES);
    }
    shown.iter().for_each(|drive| out += &component_line(drive, style));
    if drives.len() > shown.len() {
        let lowest = drives.iter().map(|d| d.utilisation()).fold(f64::MAX, f64::min);
        let more = format_count((drives.len() - shown.len()) as u64, "more drive", "more drives");
        let words = format!("and {more}, busy {} or more", format_value(lowest, "fraction"));
        out += &format!("{}\n", style.paint(Ink::Dim, &words));
    }
    out
}

fn component_line(component: &Component, style: &Style) -> String {
    let share = component.utilisation();
    let name = text::pad_right(&text::cut_text(&style.clean_text(&component_name(component)), 26, "~"), 26);
    let filled = if share.is_finite() { (share.clamp(0.0, 1.0) * BAR_COLUMNS as f64).round() as usize } else { 0 };
    let ink = match share {
        s if s >= FULL_UTILIZATION => Ink::Bad,
        s if s >= HIGH_UTILIZATION => Ink::Warn,
        _ => Ink::Good,
    };
    let bar = format!("{}{}", style.glyph("█", "#").repeat(filled), style.glyph("░", ".").repeat(BAR_COLUMNS - filled));
    let queue = component.totals.mean_queue();
    let rate = component.totals.throughput_per_s();
    let bytes = component.counts.byte_count() as f64 / (component.totals.elapsed_ns as f64 / 1e9);
    let throughput = if bytes > 0.0 { format_value(bytes, "bytes_per_s") } else { String::new() };
    let line = format!(
        "{name}  {} {:>5}  {:>6}  {:>9}  {throughput}",
        style.paint(ink, &bar),
        format_value(share, "fraction"),
        format_significant(queue),
        format_value(rate, "per_s"),
    );
    line.trim_end().to_owned() + "\n"
}

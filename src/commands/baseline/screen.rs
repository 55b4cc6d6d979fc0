//! A baseline as text: a table, the scaling curve, disturbances, and the comparison with the saved baseline.

use std::fmt::Write as _;

use diskwright_base::units::{format_amount, format_value};
use diskwright_baseline::document::{BaselineDocument, FigureResult};
use diskwright_baseline::figure::GROUPS;
use diskwright_baseline::measurement::MAX_SPREAD;
use diskwright_report::curves::{Axis, AxisScale, ChartCurve, CurvePoint, Curves};
use diskwright_report::{Align, Ink, TextTable, terminal_curves};

use super::Against;
use super::comparison::describe_against_baseline;
use super::saved::{self, BaselineUpdate};
use crate::commands::output;

/// Draws the screen.
pub fn draw_baseline(document: &BaselineDocument, against: Option<&Against>, update: &BaselineUpdate) -> String {
    let style = output::stdout_style();
    let machine = &document.machine;
    let model = machine.processor.as_deref().unwrap_or("processor unknown");
    let memory = format_value(machine.memory_bytes as f64, "bytes");
    let head = style.paint(Ink::Bold, &format!("What {} does", style.clean_text(&machine.host)));
    let processors =
        if machine.processors == 1 { "1 processor".into() } else { format!("{} processors", machine.processors) };
    let mut out = format!(
        "{head}\n{}, {processors}, {memory}, Linux {}\n\n",
        style.clean_text(model),
        style.clean_text(&machine.kernel)
    );
    out += &figures_table(document).render(&style);
    if let Some(scaling) = &document.scaling {
        out += &format!("\n{}", terminal_curves::draw_curves(&scaling_chart(document), &style, 8));
        let threads = if scaling.knee_threads == 1 { "1 thread" } else { &format!("{} threads", scaling.knee_threads) };
        let _ = writeln!(out, "Knee at {threads}: {} times the rate of one.", format_digits(scaling.speedup));
        if !scaling.unknown_threads.is_empty() {
            let unknown = scaling.unknown_threads.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
            let _ = writeln!(out, "Too noisy to judge: {unknown} threads; the knee may be there.");
        }
    }
    out += &sustained_text(document);
    if let Some(disk) = &document.disk {
        let _ = writeln!(out, "\nDisk {}", style.clean_text(&disk.target));
        for figure in &disk.figures {
            let _ = writeln!(out, "  {:<18} {}", figure.figure, format_value(figure.value, &figure.unit));
        }
    }
    out.push('\n');
    for line in extra_notes(document) {
        let line = output::wrap_paragraph(&style.clean_text(&line));
        let _ = writeln!(out, "{}", style.paint(Ink::Dim, line.trim_end()));
    }
    if let Some((comparison, before)) = against {
        out += &format!("\n{}", describe_against_baseline(comparison, before, document, &style));
    }
    out + &saved_text(update)
}

fn format_digits(value: f64) -> String {
    format_value(value, "count")
}

/// One row per figure: one thread, all threads.
fn figures_table(document: &BaselineDocument) -> TextTable {
    let all_threads = document.machine.processors;
    let has_all_threads = all_threads > 1 && document.figures.iter().any(|figure| figure.threads == all_threads);
    let mut table = TextTable::new()
        .with_text_column("figure")
        .with_column("1 thread", Align::Right)
        .with_column("spread", Align::Right);
    if has_all_threads {
        let title = format!("{all_threads} threads");
        table = table
            .with_column(&title, Align::Right)
            .with_column("spread", Align::Right)
            .with_column("times", Align::Right);
    }
    for (group, _) in GROUPS {
        let group_figures =
            document.figures.iter().filter(|figure| figure.group_name() == *group && figure.threads == 1);
        for single in group_figures {
            let mut cells = vec![format!("{group}: {}", single.title)];
            cells.extend(figure_cells(single));
            if let Some(parallel) = document.find_figure(&single.id, all_threads).filter(|_| has_all_threads) {
                cells.extend(figure_cells(parallel));
                let medians = parallel.median.zip(single.median).filter(|_| single.better == "higher");
                cells.push(medians.map_or(String::new(), |(parallel, single)| format_digits(parallel / single)));
            }
            table.add_row(cells);
        }
    }
    table
}

fn figure_cells(figure: &FigureResult) -> [String; 2] {
    let median = figure.median.map_or_else(|| "too noisy".into(), |median| format_value(median, &figure.unit));
    [median, format!("{:.1} %", figure.spread * 100.0)]
}

fn sustained_text(document: &BaselineDocument) -> String {
    let Some(load) = &document.sustained else { return String::new() };
    let rate = |value: f64| format_value(value, "per_s");
    let change = if load.has_fallen {
        let causes = "heat, credits, another limit, or other programs";
        format!("fell by {}: {causes}", format_value(load.fell_by, "fraction"))
    } else {
        "did not fall".into()
    };
    let temperature = load.temperature_c.map_or_else(
        || "no temperature sensor".into(),
        |t| format!("{} to {}", format_value(t.low, "celsius"), format_value(t.high, "celsius")),
    );
    format!(
        "\nWork of all processors for {}: {} at first, {} at the end; the rate {change} ({temperature}).\n",
        format_value(load.seconds, "s"),
        rate(load.first),
        rate(load.last)
    )
}

/// Returns the lines below the figures: circumstances, skipped figures and remarks.
fn extra_notes(document: &BaselineDocument) -> Vec<String> {
    let circumstances = &document.circumstances;
    let mut lines = Vec::new();
    let mut meanwhile = saved::describe_disturbances(circumstances);
    if circumstances.steal_share.is_none() {
        meanwhile.push("steal and other programs unknown".into());
    } else if meanwhile.is_empty() {
        meanwhile.push("steal and other programs below 1 %".into());
        // throttling is known only in a cgroup; a limit that was never reached is still a limit
        meanwhile.extend(circumstances.throttled_s.map(|_| "never throttled".to_owned()));
    }
    if let Some(clock) = circumstances.frequency_hz.or(circumstances.clock_hz) {
        let hertz = |value: f64| format!("{:.2}", value / 1e9);
        meanwhile.push(format!("clock about {} to {} GHz", hertz(clock.low), hertz(clock.high)));
    }
    if let Some(heat) = circumstances.temperature_c {
        meanwhile.push(format!("up to {}", format_value(heat.high, "celsius")));
    }
    if let Some(processors) = document.machine.limited_processors() {
        let count = format_amount(processors, "processor", "processors");
        lines.push(format!("The cgroup of this program limits it to the time of {count}."));
    }
    lines.push(format!("Meanwhile: {}. Measured in {}.", meanwhile.join(", "), format_value(document.seconds, "s")));
    let refused: Vec<&FigureResult> = document.figures.iter().filter(|figure| figure.refused.is_some()).collect();
    if !refused.is_empty() {
        let max_spread = format_value(MAX_SPREAD, "fraction");
        let (count, figures) = (refused.len(), document.figures.len());
        lines.push(format!(
            "Too noisy: {count} of {figures} figures; the middle half of their values spreads over more than \
             {max_spread}."
        ));
    }
    lines
        .extend(document.skipped.iter().map(|skipped| format!("{} was not measured: {}", skipped.id, skipped.because)));
    lines.extend(document.remarks.iter().cloned());
    if document.disk.is_none() && document.extent == "full" {
        lines.push("No disk was measured; --disk TARGET does.".into());
    }
    lines
}

fn saved_text(update: &BaselineUpdate) -> String {
    match (&update.file, &update.because) {
        (Some(file), _) if update.is_baseline => format!("\nSaved as the baseline of this machine: {file}\n"),
        (Some(file), _) => format!("\nSaved as the newest check of this machine: {file}\n"),
        (None, Some(because)) => format!("\nNot saved: {because}.\n"),
        (None, None) => String::new(),
    }
}

/// Curves of a baseline: throughput by threads, latency by working set.
pub fn baseline_charts(document: &BaselineDocument) -> Vec<Curves> {
    let latency = |figure: &FigureResult| {
        let bytes = diskwright_base::byte_size::parse_memory_size(figure.id.strip_prefix("memory.latency.")?).ok()?;
        Some(CurvePoint { x: bytes as f64, y: figure.median?, interval: None })
    };
    let points = document.figures.iter().filter_map(latency).collect();
    let latency = Curves {
        title: "Memory latency by working set".into(),
        x: Axis { words: "Working set".into(), unit: "bytes".into(), scale: AxisScale::Log },
        y: Axis { words: "Time of a load".into(), unit: "s".into(), scale: AxisScale::Log },
        lines: vec![ChartCurve { name: String::new(), points }],
    };
    vec![scaling_chart(document), latency]
}

fn scaling_chart(document: &BaselineDocument) -> Curves {
    let points = document.scaling.iter().flat_map(|scaling| &scaling.points);
    let point = |point: &diskwright_baseline::document::ScalingPoint| CurvePoint {
        x: point.threads as f64,
        y: point.rate,
        interval: None,
    };
    Curves {
        title: "Integer rounds by concurrent threads".into(),
        x: Axis { words: "Concurrent threads".into(), unit: "count".into(), scale: AxisScale::Log },
        y: Axis { words: "Rate of all threads".into(), unit: "per_s".into(), scale: AxisScale::Linear },
        lines: vec![ChartCurve { name: String::new(), points: points.map(point).collect() }],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unreported_values_are_unknown_and_not_none() {
        let meanwhile = |share: Option<f64>| {
            let mut document = BaselineDocument::default();
            (document.circumstances.steal_share, document.circumstances.others_share) = (share, share);
            extra_notes(&document).join("\n")
        };
        assert!(meanwhile(None).starts_with("Meanwhile: steal and other programs unknown."), "{}", meanwhile(None));
        assert!(meanwhile(Some(0.004)).contains("below 1 %") && meanwhile(Some(0.5)).contains("steal at 50 %"));
        // a limit that was never reached is not "no limit"
        let mut limited = BaselineDocument::default();
        limited.machine.processor_limit = Some("400000 100000".into());
        let seen = &mut limited.circumstances;
        (seen.steal_share, seen.others_share, seen.throttled_s) = (Some(0.0), Some(0.0), Some(0.0));
        let notes = extra_notes(&limited).join("\n");
        assert!(notes.contains("to the time of 4 processors") && notes.contains("never throttled"), "{notes}");
        assert!(!notes.contains("no limit"), "{notes}");
    }
}

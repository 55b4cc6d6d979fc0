//! Charts of simulated systems: utilization of each part over time; throughput, response and utilization against the
//! swept value.

use std::collections::BTreeMap;

use diskwright_base::units::{format_significant, format_value};
use diskwright_report::curves::{Axis, AxisScale, ChartCurve, CurvePoint, Curves};
use diskwright_report::sheet::{PageSheet, SheetSection, SheetTable};
use diskwright_simulator::{Component, ComponentKind, SimulationReport};

use super::outcome::{self, SimulationOutcome, component_name};
use super::sweep::{self, SweepRun};

fn new_axis(words: &str, unit: &str, scale: AxisScale) -> Axis {
    Axis { words: words.to_owned(), unit: unit.to_owned(), scale }
}

/// Returns the parts that are drawn as lines, each with its name and the positions of its components. Only parts that
/// did anything are drawn; the drives of one array or group are one part, drawn as their mean.
fn drawn_parts(outcome: &SimulationOutcome) -> Vec<(String, Vec<usize>)> {
    let report = &outcome.report;
    let mut groups: BTreeMap<usize, (String, Vec<usize>)> = BTreeMap::new();
    let mut parts = Vec::new();
    let mut drive = 0;
    for (index, component) in report.components.iter().enumerate() {
        let is_used = component.totals.arrived > 0;
        if component.kind != ComponentKind::Drive {
            if is_used {
                parts.push((component_name(component), vec![index]));
            }
            continue;
        }
        if let Some((group, _)) = outcome.system.find_drive_group(drive).filter(|_| is_used) {
            let name = || format!("drives {}", outcome.system.drives[group].name);
            groups.entry(group).or_insert_with(|| (name(), Vec::new())).1.push(index);
        }
        drive += 1;
    }
    parts.extend(groups.into_values());
    parts
}

fn mean_of(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    sum / count
}

/// Charts of one run.
pub fn run_charts(outcome: &SimulationOutcome) -> Vec<Curves> {
    let line = |(name, positions): (String, Vec<usize>)| {
        let points = outcome.timeline.iter().map(|sample| {
            let shares = positions.iter().filter_map(|p| sample.utilizations.get(*p).copied());
            CurvePoint { x: sample.end_s, y: mean_of(shares), interval: None }
        });
        ChartCurve { name, points: points.collect() }
    };
    let over_time = Curves {
        title: "Utilization of each part".into(),
        x: new_axis("Simulated time", "s", AxisScale::Linear),
        y: new_axis("Share of time busy", "fraction", AxisScale::Linear),
        lines: drawn_parts(outcome).into_iter().map(line).collect(),
    };
    vec![over_time, response_chart(&outcome.report)]
}

/// Chart of each workload's response distribution.
fn response_chart(report: &SimulationReport) -> Curves {
    const POINTS: u32 = 120;
    let line = |workload: &diskwright_simulator::WorkloadReport| {
        let point = |n: u32| {
            let share = f64::from(n) / f64::from(POINTS);
            let x = workload.responses.quantile(share).unwrap_or(f64::NAN) / 1e9;
            CurvePoint { x, y: share, interval: None }
        };
        ChartCurve { name: workload.name.clone(), points: (0..POINTS).map(point).collect() }
    };
    Curves {
        title: "Share of requests by response time".into(),
        x: new_axis("Response time", "s", AxisScale::Linear),
        y: new_axis("Share of requests that are faster", "fraction", AxisScale::Linear),
        lines: report.workloads.iter().map(line).collect(),
    }
}

/// Charts of a sweep; values that are not numbers are spaced evenly.
pub fn sweep_charts(key: &str, runs: &[SweepRun]) -> Vec<Curves> {
    let numbers = sweep_numbers(runs);
    let is_named = numbers.is_none();
    let (x_values, unit) = numbers.unwrap_or_else(|| ((1..=runs.len()).map(|n| n as f64).collect(), ""));
    let spread = x_values.iter().copied().fold(0.0, f64::max) / x_values.iter().copied().fold(f64::MAX, f64::min);
    let scale = if !is_named && spread >= 16.0 && spread.is_finite() { AxisScale::Log } else { AxisScale::Linear };
    let x_label = if is_named {
        let names = runs.iter().enumerate().map(|(index, run)| format!("{} is {}", index + 1, run.value));
        format!("{key}: {}", names.collect::<Vec<_>>().join(", "))
    } else if unit.is_empty() {
        key.to_owned()
    } else {
        format!("{key}, {unit}")
    };
    let x = || new_axis(&x_label, "count", scale);
    let workload_curves = |extract: &dyn Fn(&SimulationReport, usize) -> f64| -> Vec<ChartCurve> {
        let names = runs.first().map_or(&[][..], |run| &run.outcome.report.workloads);
        let line = |(index, workload): (usize, &diskwright_simulator::WorkloadReport)| {
            let values = runs.iter().zip(&x_values);
            let point = |(run, x): (&SweepRun, &f64)| CurvePoint {
                x: *x,
                y: extract(&run.outcome.report, index),
                interval: None,
            };
            ChartCurve { name: workload.name.clone(), points: values.map(point).collect() }
        };
        names.iter().enumerate().map(line).collect()
    };
    let rate = workload_curves(&|report, index| {
        report.workloads.get(index).map_or(f64::NAN, |w| w.counts.request_count() as f64 / report.elapsed_s())
    });
    let response = workload_curves(&|report, index| {
        report.workloads.get(index).and_then(|w| w.responses.mean()).map_or(f64::NAN, |ns| ns / 1e9)
    });
    let chart =
        |title: &str, y: Axis, lines: Vec<ChartCurve>| Curves { title: format!("{title} by {key}"), x: x(), y, lines };
    vec![
        chart("Requests per second", new_axis("Requests per second", "per_s", AxisScale::Linear), rate),
        chart("Response", new_axis("Mean response", "s", AxisScale::Linear), response),
        chart(
            "Utilization of each part",
            new_axis("Share of time busy", "fraction", AxisScale::Linear),
            utilization_curves(runs, &x_values),
        ),
    ]
}

/// Returns the utilization curve of each part that is used in any run.
fn utilization_curves(runs: &[SweepRun], x_values: &[f64]) -> Vec<ChartCurve> {
    let mut lines: Vec<ChartCurve> = Vec::new();
    for (run, x) in runs.iter().zip(x_values) {
        for (name, positions) in drawn_parts(&run.outcome) {
            let components = &run.outcome.report.components;
            let y = mean_of(positions.iter().filter_map(|index| components.get(*index)).map(Component::utilisation));
            let point = CurvePoint { x: *x, y, interval: None };
            match lines.iter_mut().find(|line| line.name == name) {
                Some(line) => line.points.push(point),
                None => lines.push(ChartCurve { name, points: vec![point] }),
            }
        }
    }
    lines
}

/// The swept values as numbers, and their common unit, if any; `None` if they are not numbers with one unit.
fn sweep_numbers(runs: &[SweepRun]) -> Option<(Vec<f64>, &str)> {
    let split = |value: &'_ str| value.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(value.len());
    let first = &runs.first()?.value;
    let unit = &first[split(first)..];
    let number = |run: &SweepRun| run.value.strip_suffix(unit)?.parse::<f64>().ok().filter(|n| n.is_finite());
    Some((runs.iter().map(number).collect::<Option<Vec<f64>>>()?, unit.trim()))
}

/// Page on a run.
pub fn run_sheet(outcome: &SimulationOutcome, charts: Vec<Curves>) -> PageSheet {
    let report = &outcome.report;
    let parts =
        SheetSection { title: "The path".into(), tables: vec![component_table(report)], ..SheetSection::default() };
    let load = SheetSection {
        title: "Workloads".into(),
        charts,
        tables: vec![workload_table(report)],
        ..SheetSection::default()
    };
    let notes = SheetSection { title: "Remarks".into(), words: outcome.notes.clone(), ..SheetSection::default() };
    // without time there are no rates
    let sections = if outcome.is_measured() { vec![load, parts, notes] } else { vec![notes] };
    PageSheet {
        title: outcome.system.name.clone(),
        made: format!("Simulated: {}, seed {}", format_value(report.elapsed_s(), "s"), outcome.system.watch.seed),
        lead: vec![outcome::describe_bottleneck(outcome)],
        sections,
        version: env!("CARGO_PKG_VERSION").into(),
    }
}

fn column_titles(titles: &[&str]) -> Vec<String> {
    titles.iter().map(|title| (*title).to_owned()).collect()
}

fn workload_table(report: &SimulationReport) -> SheetTable {
    let elapsed_s = report.elapsed_s();
    let time = |ns: Option<f64>| ns.map_or(String::new(), |ns| format_value(ns / 1e9, "s"));
    let row = |workload: &diskwright_simulator::WorkloadReport| {
        vec![
            workload.name.clone(),
            format_value(workload.counts.request_count() as f64 / elapsed_s, "per_s"),
            format_value(workload.counts.byte_count() as f64 / elapsed_s, "bytes_per_s"),
            time(workload.responses.mean()),
            time(workload.responses.quantile(0.95)),
            time(workload.responses.quantile(0.99)),
        ]
    };
    let titles = column_titles(&["Workload", "Requests", "Bytes", "Response", "95 %", "99 %"]);
    SheetTable { titles, rows: report.workloads.iter().map(row).collect() }
}

fn component_table(report: &SimulationReport) -> SheetTable {
    let row = |component: &Component| {
        vec![
            component_name(component),
            format_value(component.utilisation(), "fraction"),
            format_significant(component.totals.mean_queue()),
            format_value(component.totals.throughput_per_s(), "per_s"),
            format_value(component.totals.response_s(), "s"),
        ]
    };
    let used = report.components.iter().filter(|component| component.totals.arrived > 0);
    SheetTable {
        titles: column_titles(&["Part", "At work", "Queue", "Requests", "Response"]),
        rows: used.map(row).collect(),
    }
}

/// Page on a sweep.
pub fn sweep_sheet(key: &str, runs: &[SweepRun], charts: Vec<Curves>) -> PageSheet {
    let row = |run: &SweepRun| {
        let report = &run.outcome.report;
        let sum = |field: fn(&diskwright_simulator::run::IoCounts) -> u64| {
            report.workloads.iter().map(|w| field(&w.counts)).sum::<u64>() as f64 / report.elapsed_s()
        };
        let first = report.workloads.first().and_then(|w| w.responses.mean());
        vec![
            run.value.clone(),
            format_value(sum(diskwright_simulator::run::IoCounts::request_count), "per_s"),
            format_value(sum(diskwright_simulator::run::IoCounts::byte_count), "bytes_per_s"),
            first.map_or(String::new(), |ns| format_value(ns / 1e9, "s")),
            sweep::describe_bottleneck(run),
        ]
    };
    let titles = column_titles(&[key, "Requests", "Bytes", "Response", "Fullest"]);
    let table = SheetTable { titles, rows: runs.iter().map(row).collect() };
    let section = SheetSection { title: format!("By {key}"), charts, tables: vec![table], ..SheetSection::default() };
    let words = sweep::sweep_remarks(key, runs);
    let notes = SheetSection { title: "Remarks".into(), words, ..SheetSection::default() };
    PageSheet {
        title: runs.first().map_or_else(String::new, |run| run.outcome.system.name.clone()),
        made: "Simulated".into(),
        sections: vec![section, notes],
        version: env!("CARGO_PKG_VERSION").into(),
        ..PageSheet::default()
    }
}

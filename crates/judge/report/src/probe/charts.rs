//! Charts of results of any suite: sweeps of one quantity, the distribution of
//! latency, and rates and latencies over time. Several results share the same charts.

use std::collections::BTreeSet;

use diskwright_results::result::{DirectionResult, RunResult, RunTimeline};

use super::NamedResult;
use super::sweep::{DIMENSIONS, Dimension, Sweep, SweepChart, find_sweeps};
use crate::curves::{Axis, AxisScale, ChartCurve, CurvePoint, Curves};
use crate::svg::MAX_LINES;

/// Makes the charts of these results, the sweeps first.
pub fn result_charts(results: &[NamedResult<'_>]) -> Vec<Curves> {
    let mut charts: Vec<Curves> = Vec::new();
    for dimension in DIMENSIONS {
        let sweeps = find_sweeps(results, dimension);
        if sweeps.is_empty() {
            continue;
        }
        charts.extend(dimension.charts.iter().map(|chart| match chart {
            SweepChart::Throughput => throughput_chart(dimension, &sweeps),
            SweepChart::Rate => rate_chart(dimension, &sweeps),
            SweepChart::Latency => latency_chart(dimension, &sweeps),
            SweepChart::MixedLatency => mixed_latency_chart(dimension, &sweeps),
        }));
    }
    charts.extend(percentile_chart(results));
    charts.extend(timeline_charts(results));
    charts
}

/// Makes an axis. The label of a y axis begins a sentence, so it has a capital letter; that of an x axis follows "by".
fn make_axis(label: &str, unit: &str, scale: AxisScale) -> Axis {
    Axis { words: label.into(), unit: unit.into(), scale }
}

/// A quantity: its word in the name of a line (may be empty), and the function that reads it from a run.
type ChartQuantity<'a> = (&'a str, fn(&RunResult) -> Option<f64>);

/// Makes a chart with a line for each sweep and quantity.
fn sweep_chart(
    title: &str,
    y: Axis,
    dimension: &Dimension,
    sweeps: &[Sweep<'_>],
    quantities: &[ChartQuantity<'_>],
) -> Curves {
    let mut lines = Vec::new();
    for sweep in sweeps {
        for (word, quantity) in quantities {
            let name_parts = [sweep.name.as_str(), *word].into_iter().filter(|w| !w.is_empty()).collect::<Vec<_>>();
            lines.push(ChartCurve { name: name_parts.join(", "), points: sweep.curve_points(quantity) });
        }
    }
    lines.retain(|l| !l.points.is_empty());
    let x = make_axis(dimension.axis_label.unwrap_or(dimension.words), dimension.unit, dimension.scale);
    Curves { title: format!("{title} by {}", dimension.words), x, y, lines }
}

fn throughput_chart(dimension: &Dimension, sweeps: &[Sweep<'_>]) -> Curves {
    let y = make_axis("Bytes per second", "bytes_per_s", AxisScale::Linear);
    sweep_chart("Throughput", y, dimension, sweeps, &[("", |r| Some(r.bytes_per_s))])
}

fn rate_chart(dimension: &Dimension, sweeps: &[Sweep<'_>]) -> Curves {
    let y = make_axis("Requests per second", "per_s", AxisScale::Linear);
    sweep_chart("Requests per second", y, dimension, sweeps, &[("", |r| Some(r.requests_per_s))])
}

fn latency_chart(dimension: &Dimension, sweeps: &[Sweep<'_>]) -> Curves {
    let y = make_axis("Latency", "s", AxisScale::Log);
    let mean: ChartQuantity<'_> = ("mean", |r| r.latency_s.mean);
    // two lines per sweep, as long as the lines can be distinguished
    let shows_mean = 2 * sweeps.len() <= MAX_LINES;
    let tail: ChartQuantity<'_> = (if shows_mean { "99 %" } else { "" }, |r| r.latency_s.p99);
    if shows_mean {
        sweep_chart("Latency", y, dimension, sweeps, &[mean, tail])
    } else {
        sweep_chart("99 % latency", y, dimension, sweeps, &[tail])
    }
}

fn mixed_latency_chart(dimension: &Dimension, sweeps: &[Sweep<'_>]) -> Curves {
    let y = make_axis("Latency", "s", AxisScale::Log);
    fn tail(side: Option<DirectionResult>) -> Option<f64> {
        side.and_then(|d| d.latency_s.p99.or(d.latency_s.mean))
    }
    sweep_chart("99 % latency", y, dimension, sweeps, &[("reads", |r| tail(r.reads)), ("writes", |r| tail(r.writes))])
}

/// Returns the names of the runs for which `is_wanted` returns true, each once; at most `max_count`, evenly spaced.
fn pick_run_names(
    results: &[NamedResult<'_>],
    max_count: usize,
    is_wanted: impl Fn(&RunResult) -> bool,
) -> Vec<String> {
    let (mut names, mut seen) = (Vec::new(), BTreeSet::new());
    for run in results.iter().flat_map(|r| &r.document.runs).filter(|r| is_wanted(r)) {
        if seen.insert(run.name.as_str()) {
            names.push(run.name.clone());
        }
    }
    if names.len() <= max_count {
        return names;
    }
    let last = names.len() - 1;
    let position = |index: usize| if max_count > 1 { index * last / (max_count - 1) } else { last };
    (0..max_count).map(|index| names[position(index)].clone()).collect()
}

/// Returns the name of a run's line, with the name of the result if there are several.
fn run_label(run: &str, result: &NamedResult<'_>, has_several_results: bool) -> String {
    if has_several_results { format!("{run} {}", result.name) } else { run.to_owned() }
}

/// Charts latency by share of requests; of repeated runs the first is drawn.
fn percentile_chart(results: &[NamedResult<'_>]) -> Option<Curves> {
    let names = pick_run_names(results, (MAX_LINES / results.len().max(1)).max(1), |r| r.distribution.len() > 2);
    let mut lines = Vec::new();
    for name in &names {
        for result in results {
            let Some(run) = result.document.runs.iter().find(|r| r.name == *name) else { continue };
            let points = run.distribution.iter().map(|&(x, y)| CurvePoint { x, y, interval: None }).collect();
            lines.push(ChartCurve { name: run_label(name, result, results.len() > 1), points });
        }
    }
    let x = make_axis("share of the requests that took at most this long", "fraction", AxisScale::Nines);
    let y = make_axis("Latency", "s", AxisScale::Log);
    (!lines.is_empty()).then(|| Curves { title: "Latency by percentile".into(), x, y, lines })
}

/// Largest number of runs that are all drawn over time. If there are more, only
/// those without steady state are drawn.
const MAX_TIMELINE_RUNS: usize = 3;

type TimelineQuantity = fn(&RunTimeline) -> Vec<Option<f64>>;

/// Charts request rate and longest latency over the time of a run.
fn timeline_charts(results: &[NamedResult<'_>]) -> Vec<Curves> {
    let run_count = pick_run_names(results, usize::MAX, |_| true).len();
    let draws_all = run_count <= MAX_TIMELINE_RUNS;
    let is_wanted = |r: &RunResult| r.timeline.is_some() && (draws_all || r.steady == Some(false));
    let names = pick_run_names(results, (MAX_LINES / results.len().max(1)).max(1), is_wanted);
    let mut charts = Vec::new();
    let quantities: [(&str, &str, AxisScale, TimelineQuantity); 2] = [
        ("Requests per second", "per_s", AxisScale::Linear, |c| c.requests_per_s.iter().map(|v| Some(*v)).collect()),
        ("Longest latency", "s", AxisScale::Log, |c| c.max_s.clone()),
    ];
    for (label, unit, scale, extract) in quantities {
        let mut lines = Vec::new();
        for name in &names {
            for result in results {
                let run = result.document.runs.iter().find(|r| r.name == *name);
                let Some(timeline) = run.and_then(|r| r.timeline.as_ref()) else { continue };
                let values = extract(timeline);
                let points = timeline.until_s.iter().zip(values);
                let points = points.filter_map(|(&x, y)| Some(CurvePoint { x, y: y?, interval: None })).collect();
                lines.push(ChartCurve { name: run_label(name, result, results.len() > 1), points });
            }
        }
        let x = make_axis("time since the measurement began", "s", AxisScale::Linear);
        let unsteady_note = if draws_all { "" } else { ", runs without steady state" };
        if !lines.is_empty() {
            charts.push(Curves {
                title: format!("{label} over time{unsteady_note}"),
                x,
                y: make_axis(label, unit, scale),
                lines,
            });
        }
    }
    charts
}

//! Detection of sweeps: runs that differ in one quantity and in nothing else, found
//! among a result's runs regardless of its suite.

use diskwright_base::byte_size::{ByteSize, CAPACITY_UNIT};
use diskwright_results::compare::estimate_from_values;
use diskwright_results::pattern::{Durability, Pace, Placement};
use diskwright_results::result::RunResult;

use super::NamedResult;
use crate::curves::{AxisScale, CurvePoint};

/// A quantity that runs may differ in.
pub(super) struct Dimension {
    pub id: &'static str,
    /// Quantity in words, to follow `by`.
    pub words: &'static str,
    /// Label of the axis, if it says more than `words`.
    pub axis_label: Option<&'static str>,
    /// Charts of a sweep of this quantity, in order.
    pub charts: &'static [SweepChart],
    pub unit: &'static str,
    pub scale: AxisScale,
    pub extract: fn(&RunResult) -> Option<f64>,
}

/// A chart that shows the runs of a sweep.
#[derive(Clone, Copy)]
pub(super) enum SweepChart {
    /// Bytes per second.
    Throughput,
    /// Requests per second.
    Rate,
    /// Latency of all requests.
    Latency,
    /// Latency of reads and of writes.
    MixedLatency,
}

/// Makes a dimension with the usual charts and without its reader, which the caller sets.
const fn new_dimension(id: &'static str, words: &'static str, unit: &'static str, scale: AxisScale) -> Dimension {
    const USUAL_CHARTS: &[SweepChart] = &[SweepChart::Rate, SweepChart::Latency];
    Dimension { id, words, axis_label: None, charts: USUAL_CHARTS, unit, scale, extract: |_| None }
}

/// All dimensions, the usual ones first.
pub(super) const DIMENSIONS: &[Dimension] = &[
    Dimension {
        extract: |r| Some(r.size_bytes),
        charts: &[SweepChart::Throughput, SweepChart::Rate],
        ..new_dimension("size", "record size", "bytes", AxisScale::Log)
    },
    Dimension {
        extract: |r| r.depth.map(f64::from),
        ..new_dimension("depth", "requests in flight", "count", AxisScale::Log)
    },
    Dimension { extract: |r| r.users.map(f64::from), ..new_dimension("users", "users", "count", AxisScale::Log) },
    Dimension {
        extract: |r| r.offered_per_s,
        axis_label: Some("requested rate, requests per second"),
        ..new_dimension("offered", "requested rate", "per_s", AxisScale::Linear)
    },
    Dimension {
        extract: |r| Some(1.0 - r.read_share),
        charts: &[SweepChart::MixedLatency],
        ..new_dimension("writes", "share of writes", "fraction", AxisScale::Linear)
    },
    Dimension {
        extract: stride_of_run,
        charts: &[SweepChart::Latency],
        ..new_dimension("stride", "distance between requests", "bytes", AxisScale::Log)
    },
    Dimension {
        extract: |r| r.pattern.as_ref()?.range_bytes.map(|b| b as f64),
        ..new_dimension("range", "range that is read", CAPACITY_UNIT, AxisScale::Log)
    },
    Dimension {
        extract: |r| r.pattern.as_ref().map(|p| p.from_bytes as f64),
        charts: &[SweepChart::Throughput],
        ..new_dimension("from", "place on the target", CAPACITY_UNIT, AxisScale::Linear)
    },
    Dimension { extract: stream_count, ..new_dimension("streams", "streams", "count", AxisScale::Log) },
];

fn stride_of_run(run: &RunResult) -> Option<f64> {
    match run.pattern.as_ref()?.placement {
        Placement::Strided { stride_bytes } => Some(stride_bytes as f64),
        _ => None,
    }
}

fn stream_count(run: &RunResult) -> Option<f64> {
    match run.pattern.as_ref()?.placement {
        Placement::Sequential { streams } => Some(f64::from(streams)),
        _ => None,
    }
}

/// Returns the parts of a run's access pattern in words, each with its id. Runs
/// whose parts differ only in one dimension form a sweep.
fn pattern_parts(run: &RunResult) -> Vec<(&'static str, String)> {
    let direction = match run.read_share {
        1.0 => "reads".into(),
        0.0 => "writes".into(),
        share => format!("{} % reads", (share * 100.0).round()),
    };
    let placement = if run.place == "uniform" { "random" } else { &run.place };
    let mut parts = vec![
        ("place", placement.to_owned()),
        ("writes", direction),
        ("size", ByteSize::memory(run.size_bytes).to_string()),
    ];
    let numbered = |n: Option<u32>, word: &str| n.map(|n| format!("{word} {n}"));
    parts.extend(numbered(run.depth, "depth").map(|w| ("depth", w)));
    parts.extend(numbered(run.users, "users").map(|w| ("users", w)));
    parts.extend(run.offered_per_s.map(|r| ("offered", format!("{r:.0}/s"))));
    let Some(pattern) = &run.pattern else { return parts };
    let durable = match pattern.durable {
        Durability::No => "",
        Durability::Fdatasync => "fdatasync",
        Durability::Fsync => "fsync",
        Durability::Dsync => "O_DSYNC",
    };
    let bytes = |b: u64| ByteSize::capacity(b as f64);
    parts.push(("durable", durable.into()));
    parts.push(("buffered", if pattern.buffered { "buffered".into() } else { String::new() }));
    parts.push(("range", pattern.range_bytes.map_or(String::new(), |b| format!("within {}", bytes(b)))));
    parts.push((
        "from",
        if pattern.from_bytes > 0 { format!("from {}", bytes(pattern.from_bytes)) } else { String::new() },
    ));
    match pattern.placement {
        Placement::Strided { stride_bytes } => {
            parts.push(("stride", format!("every {}", ByteSize::memory(stride_bytes as f64))))
        }
        Placement::Sequential { streams } => parts.push(("streams", format!("{streams} streams"))),
        Placement::Normal { mean, deviation } => parts.push(("around", format!("around {mean} ± {deviation:.3}"))),
        Placement::Zipf { theta } => parts.push(("theta", format!("theta {theta}"))),
        Placement::Pareto { power } => parts.push(("power", format!("power {power}"))),
        Placement::Uniform => {}
    }
    if let Pace::Users { think_s, .. } = pattern.pace {
        parts.push(("think", format!("thinking {think_s} s")));
    }
    parts
}

/// One sweep of one result.
pub(super) struct Sweep<'a> {
    /// Name that distinguishes it from other sweeps of its dimension; empty for the only one.
    pub name: String,
    parts: Vec<(&'static str, String)>,
    /// Values of the dimension in ascending order, each with its runs.
    pub steps: Vec<(f64, Vec<&'a RunResult>)>,
}

impl Sweep<'_> {
    /// Returns the means of a quantity over each step's repeats, with their intervals.
    pub fn curve_points(&self, quantity: impl Fn(&RunResult) -> Option<f64>) -> Vec<CurvePoint> {
        let point = |(x, runs): &(f64, Vec<&RunResult>)| {
            let values: Vec<f64> = runs.iter().filter_map(|r| quantity(r)).collect();
            let estimate = estimate_from_values(&values);
            let y = Some(estimate.mean).filter(|_| !values.is_empty())?;
            Some(CurvePoint {
                x: *x,
                y,
                interval: estimate.low.zip(estimate.high).map(|(low, high)| (low.max(0.0), high)),
            })
        };
        self.steps.iter().filter_map(point).collect()
    }
}

/// Smallest number of steps of a sweep.
const MIN_STEPS: usize = 3;
/// Largest number of runs that are examined; a suite makes far fewer.
const MAX_RUNS: usize = 5000;

/// Finds all sweeps of a dimension in these results.
pub(super) fn find_sweeps<'a>(results: &[NamedResult<'a>], dimension: &Dimension) -> Vec<Sweep<'a>> {
    let mut found: Vec<Sweep<'a>> = Vec::new();
    for result in results {
        let first_of_result = found.len();
        for run in result.document.runs.iter().take(MAX_RUNS) {
            let Some(x) = (dimension.extract)(run).filter(|x| x.is_finite()) else { continue };
            let mut parts = pattern_parts(run);
            parts.retain(|(id, _)| *id != dimension.id);
            parts.push(("result", result.name.to_owned()));
            let existing = found[first_of_result..].iter_mut().find(|s| s.parts == parts);
            let sweep = match existing {
                Some(sweep) => sweep,
                None => {
                    found.push(Sweep { name: String::new(), parts, steps: Vec::new() });
                    found.last_mut().expect("was just pushed")
                }
            };
            match sweep.steps.iter_mut().find(|(value, _)| *value == x) {
                Some((_, runs)) => runs.push(run),
                None => sweep.steps.push((x, vec![run])),
            }
        }
    }
    found.retain(|s| s.steps.len() >= MIN_STEPS);
    found.iter_mut().for_each(|s| s.steps.sort_by(|a, b| a.0.total_cmp(&b.0)));
    name_sweeps(&mut found);
    found
}

/// Names each sweep by the parts in which the sweeps differ.
fn name_sweeps(sweeps: &mut [Sweep<'_>]) {
    let all_parts: Vec<Vec<(&'static str, String)>> = sweeps.iter().map(|s| s.parts.clone()).collect();
    for sweep in sweeps {
        let differs = |part: &&(&'static str, String)| !all_parts.iter().all(|parts| parts.contains(part));
        let words: Vec<&str> = sweep.parts.iter().filter(differs).map(|(_, w)| w.as_str()).collect();
        sweep.name = words.into_iter().filter(|w| !w.is_empty()).collect::<Vec<_>>().join(" ");
    }
}

//! `--try N`: the best designs simulated from their descriptions, as `simulate` does, beside what was planned.

use std::path::Path;

use diskwright_base::units::format_value;
use diskwright_planner::{Demand, PlannedDesign};
use diskwright_report::{Align, Ink, Style, TextTable};
use diskwright_simulator::system::read::Setting;
use serde::Serialize;

use super::screen::{design_title, wrap_indented};
use crate::commands::Failure;
use crate::commands::simulate::outcome::{SimulationOutcome, busiest_component, component_name};
use crate::commands::simulate::system_run;

/// Differences of more than this from the plan are marked.
const MAX_DIFFERENCE: f64 = 0.1;

/// A design that was simulated from its description.
#[derive(Clone, Debug, Serialize)]
pub struct TriedDesign {
    rank: u32,
    design: String,
    /// Its file, if it is kept.
    description: Option<String>,
    seed: u64,
    duration_s: f64,
    planned: TriedFigures,
    /// `None` if nothing was measured.
    measured: Option<TriedFigures>,
    because: Option<String>,
    differences: Vec<Difference>,
    notes: Vec<String>,
}

/// Figures of a design under its load.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct TriedFigures {
    requests_per_s: f64,
    response_s: TriedResponse,
    busiest: Option<BusiestPart>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct TriedResponse {
    mean: Option<f64>,
    p95: Option<f64>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct BusiestPart {
    part: String,
    utilization: f64,
}

/// A figure that differs from the plan by more than [`MAX_DIFFERENCE`].
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Difference {
    field: &'static str,
    planned: f64,
    measured: f64,
    /// Measured over planned, minus 1.
    difference: f64,
}

/// Simulates a design from its description with a seed, or with the description's own.
pub fn try_design(
    design: &PlannedDesign,
    demand: &Demand,
    file: &Path,
    seed: Option<u64>,
) -> Result<TriedDesign, Failure> {
    let settings: Vec<Setting> =
        seed.map(|seed| Setting { key: "watch.seed".into(), value: seed.to_string() }).into_iter().collect();
    let (system, notes) = system_run::read_loaded_system(file, &settings)?;
    let outcome = system_run::simulate_system(system, notes, |_| Ok(()))?;
    let planned = planned_figures(design, demand);
    let because = outcome.unmeasured_reason();
    let measured = because.is_none().then(|| measured_figures(&outcome)).flatten();
    Ok(TriedDesign {
        rank: design.rank,
        design: design_title(design),
        description: None,
        seed: outcome.system.watch.seed,
        duration_s: outcome.report.elapsed_s(),
        differences: measured.as_ref().map_or(Vec::new(), |m| find_differences(&planned, m)),
        planned,
        measured,
        because,
        notes: outcome.notes,
    })
}

impl TriedDesign {
    /// Names the file of the description, if it is kept.
    pub fn with_description(self, file: Option<&Path>) -> TriedDesign {
        TriedDesign { description: file.map(|file| file.display().to_string()), ..self }
    }
}

fn planned_figures(design: &PlannedDesign, demand: &Demand) -> TriedFigures {
    let known = |value: f64| Some(value).filter(|value| value.is_finite());
    let busiest = design.utilization.first();
    TriedFigures {
        requests_per_s: demand.requests_per_s(),
        response_s: TriedResponse { mean: known(design.response_s.mean), p95: known(design.response_s.p95) },
        busiest: busiest.map(|part| BusiestPart { part: part.part.clone(), utilization: part.utilization }),
    }
}

/// What the simulation measured of the load; `None` if it has no workload.
fn measured_figures(outcome: &SimulationOutcome) -> Option<TriedFigures> {
    let report = &outcome.report;
    let workload = report.workloads.first()?;
    let seconds = |ns: Option<f64>| ns.map(|ns| ns * 1e-9);
    let part = |component| BusiestPart { part: component_name(component), utilization: component.utilisation() };
    Some(TriedFigures {
        requests_per_s: workload.counts.request_count() as f64 / report.elapsed_s(),
        response_s: TriedResponse {
            mean: seconds(workload.responses.mean()),
            p95: seconds(workload.responses.quantile(0.95)),
        },
        busiest: busiest_component(outcome).map(part),
    })
}

/// Finds the figures that differ too much from the plan.
fn find_differences(planned: &TriedFigures, measured: &TriedFigures) -> Vec<Difference> {
    let busiest = |figures: &TriedFigures| figures.busiest.as_ref().map(|part| part.utilization);
    let pairs = [
        ("requests_per_s", Some(planned.requests_per_s), Some(measured.requests_per_s)),
        ("response_s.mean", planned.response_s.mean, measured.response_s.mean),
        ("response_s.p95", planned.response_s.p95, measured.response_s.p95),
        ("busiest.utilization", busiest(planned), busiest(measured)),
    ];
    let difference = |(field, planned, measured): (&'static str, Option<f64>, Option<f64>)| {
        let (planned, measured) = planned.zip(measured)?;
        let difference = measured / planned - 1.0;
        (difference.abs() > MAX_DIFFERENCE).then_some(Difference { field, planned, measured, difference })
    };
    pairs.into_iter().filter_map(difference).collect()
}

/// Draws what was planned and what was measured, a row each.
pub fn draw_tried(tried: &[TriedDesign], style: &Style) -> String {
    let Some(first) = tried.first() else { return String::new() };
    let heading = format!("Tried: each design simulated from its description, seed {}", first.seed);
    let mut table = TextTable::new().with_column("", Align::Right).with_column("", Align::Left);
    for title in ["for", "requests", "mean", "95 %"] {
        table = table.with_column(title, Align::Right);
    }
    table = table.with_text_column("busiest part");
    for tried in tried {
        table.add_row(figure_cells(&tried.rank.to_string(), ["planned", ""], &tried.planned, &[]));
        if let Some(measured) = &tried.measured {
            let duration = format_value(tried.duration_s, "s");
            table.add_row(figure_cells("", ["measured", &duration], measured, &tried.differences));
        }
    }
    let mut out = format!("\n{}\n{}", style.paint(Ink::Bold, &heading), table.render(style));
    if tried.iter().any(|tried| !tried.differences.is_empty()) {
        out += &wrap_indented("* differs from the plan by more than 10 %", 0, style);
    }
    for tried in tried {
        for line in tried.because.iter().chain(&tried.notes) {
            out += &wrap_indented(&format!("{}: {}", tried.rank, style.clean_text(line)), 0, style);
        }
    }
    out + "\n"
}

/// Cells of a row; figures that differ from the plan have a star.
fn figure_cells(
    rank: &str,
    [title, duration]: [&str; 2],
    figures: &TriedFigures,
    differences: &[Difference],
) -> [String; 7] {
    let marked = |field: &str, text: String| {
        if differences.iter().any(|difference| difference.field == field) { format!("{text} *") } else { text }
    };
    let time = |value: Option<f64>| value.map_or("no data".to_owned(), |s| format_value(s, "s"));
    let part = |part: &BusiestPart| format!("{}, busy {}", part.part, format_value(part.utilization, "fraction"));
    [
        rank.to_owned(),
        title.to_owned(),
        duration.to_owned(),
        marked("requests_per_s", format_value(figures.requests_per_s, "per_s")),
        marked("response_s.mean", time(figures.response_s.mean)),
        marked("response_s.p95", time(figures.response_s.p95)),
        marked("busiest.utilization", figures.busiest.as_ref().map_or("no data".to_owned(), part)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(mean: f64, p95: f64, utilization: f64) -> TriedFigures {
        TriedFigures {
            requests_per_s: 100.0,
            response_s: TriedResponse { mean: Some(mean), p95: Some(p95) },
            busiest: Some(BusiestPart { part: "members".into(), utilization }),
        }
    }

    #[test]
    fn figures_that_differ_by_more_than_a_tenth_are_marked() {
        let planned = figures(0.01, 0.02, 0.5);
        assert_eq!(find_differences(&planned, &figures(0.0109, 0.0181, 0.549)), []);
        let found = find_differences(&planned, &figures(0.0112, 0.0178, 0.56));
        let fields: Vec<&str> = found.iter().map(|difference| difference.field).collect();
        assert_eq!(fields, ["response_s.mean", "response_s.p95", "busiest.utilization"]);
        assert!((found[0].difference - 0.12).abs() < 1e-9 && (found[1].difference + 0.11).abs() < 1e-9, "{found:?}");
        let unknown = TriedFigures { response_s: TriedResponse { mean: None, p95: None }, ..planned.clone() };
        assert_eq!(find_differences(&unknown, &planned), []);
        let row = figure_cells("", ["", ""], &figures(0.0112, 0.02, 0.5), &found[..1]);
        assert_eq!((row[4].as_str(), row[5].as_str()), ("11.2 ms *", "20 ms"));
    }
}

//! Charts of a plan: the frontier of cost against response, and the answer as a page.

use diskwright_base::byte_size::ByteSize;
use diskwright_base::units::format_value;
use diskwright_planner::answer::{FrontierPoint, RejectedDesign, ResponseFigures};
use diskwright_planner::{PlanAnswer, PlanLimits, PlannedDesign};
use diskwright_report::curves::{Axis, AxisScale, ChartCurve, CurvePoint, Curves};
use diskwright_report::sheet::{PageSheet, SheetSection, SheetTable};

use super::screen;

/// Frontier for the terminal; `None` if it has too few points for a line.
pub fn frontier_chart(answer: &PlanAnswer) -> Option<Curves> {
    cost_chart(answer).filter(|_| answer.frontier.len() > 1)
}

/// All charts for a file; the response chart includes designs without a known price.
pub fn plan_charts(answer: &PlanAnswer) -> Vec<Curves> {
    [cost_chart(answer), response_chart(answer)].into_iter().flatten().collect()
}

/// Response of each listed design.
fn response_chart(answer: &PlanAnswer) -> Option<Curves> {
    let line = |name: &str, extract: fn(&ResponseFigures) -> f64| {
        let point = |design: &PlannedDesign| CurvePoint {
            x: f64::from(design.rank),
            y: extract(&design.response_s),
            interval: None,
        };
        ChartCurve { name: name.into(), points: answer.designs.iter().map(point).collect() }
    };
    let curves = || Curves {
        title: "Response time of the designs in the list".into(),
        x: Axis { words: "Number in the list".into(), unit: "count".into(), scale: AxisScale::Linear },
        y: Axis { words: "Response".into(), unit: "s".into(), scale: AxisScale::Linear },
        lines: vec![line("99 %", |r| r.p99), line("95 %", |r| r.p95), line("mean", |r| r.mean)],
    };
    (!answer.designs.is_empty()).then(curves)
}

/// Cost against response of the designs that no other design beats in both.
fn cost_chart(answer: &PlanAnswer) -> Option<Curves> {
    let line = |name: &str, meets: bool| {
        let points = answer.frontier.iter().filter(|point| point.meets == meets);
        let point = |point: &FrontierPoint| CurvePoint { x: point.cost, y: point.response_s, interval: None };
        ChartCurve { name: name.into(), points: points.map(point).collect() }
    };
    let lines = [line("meets the demand", true), line("does not", false)];
    let lines: Vec<ChartCurve> = lines.into_iter().filter(|line| !line.points.is_empty()).collect();
    if lines.is_empty() {
        return None;
    }
    let currency = answer.designs.first().map_or("", |design| design.currency.as_str());
    Some(Curves {
        title: "Shortest response time for each cost".into(),
        x: Axis {
            words: format!("Cost over the years of use, {currency}"),
            unit: "count".into(),
            scale: AxisScale::Log,
        },
        y: Axis { words: "Mean response".into(), unit: "s".into(), scale: AxisScale::Linear },
        lines,
    })
}

/// Builds the page.
pub fn plan_sheet(answer: &PlanAnswer, limits: &PlanLimits) -> PageSheet {
    let titles = |titles: &[&str]| titles.iter().map(|title| (*title).to_owned()).collect();
    let designs = answer.designs.iter().map(|design| {
        vec![
            design.rank.to_string(),
            screen::design_title(design),
            ByteSize::capacity(design.usable_bytes).to_string(),
            format_value(design.response_s.mean, "s"),
            format_value(design.response_s.p95, "s"),
            format_value(design.response_s.p99, "s"),
            design.limit.clone(),
            screen::format_design_price(design),
            design.why.clone(),
        ]
    });
    let list = SheetTable {
        titles: titles(&["", "design", "usable", "mean", "95 %", "99 %", "saturates first", "price", "why"]),
        rows: designs.collect(),
    };
    let currency = &limits.currency;
    let rejected = |r: &RejectedDesign| {
        let price = screen::format_price(r.price, r.price_period, currency);
        vec![r.design.clone(), price, r.limit.clone(), r.because.clone()]
    };
    let rejected = SheetTable {
        titles: titles(&["design", "price", "fails at", "because"]),
        rows: answer.rejected.iter().map(rejected).collect(),
    };
    let section = |title: &str, section: SheetSection| SheetSection { title: title.into(), ..section };
    let words: Vec<String> = answer.break_even.iter().map(|point| point.sentence.clone()).collect();
    PageSheet {
        title: "Plan".into(),
        made: format!("Prices in {}, {}", limits.currency, limits.today),
        lead: vec![screen::describe_demand(answer)],
        sections: vec![
            section("Designs", SheetSection { tables: vec![list], words, ..SheetSection::default() }),
            section("Cost and response", SheetSection { charts: plan_charts(answer), ..SheetSection::default() }),
            section("Why not", SheetSection { tables: vec![rejected], ..SheetSection::default() }),
            section("Remarks", SheetSection { words: answer.notes.clone(), ..SheetSection::default() }),
        ],
        version: env!("CARGO_PKG_VERSION").into(),
    }
}

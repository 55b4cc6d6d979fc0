//! The figures of a design in plain arithmetic: the inputs of each formula and its result, so that anybody can
//! recompute it.

use serde::Serialize;

use crate::analysis::StorageDesign;
use crate::answer::{HorizonFigures, PlannedDesign, PricePeriod};
use crate::arithmetic::{usable_members, write_cost};
use crate::controller_path::PathPart;
use crate::demand::Demand;
use crate::limits::PlanLimits;

/// A figure and its derivation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ArithmeticStep {
    /// The field of the design.
    pub figure: &'static str,
    /// The formula in words.
    pub formula: &'static str,
    /// The formula with numbers.
    pub numbers: String,
    /// The result, in the unit of the field.
    pub value: f64,
}

/// Returns the steps of a design, in the order in which they depend on each other.
pub(crate) fn design_steps(
    design: &StorageDesign<'_>,
    planned: &PlannedDesign,
    demand: &Demand,
    limits: &PlanLimits,
) -> Vec<ArithmeticStep> {
    let mut steps = load_steps(design, planned, demand);
    steps.extend(path_steps(design, planned, demand));
    steps.extend(capacity_steps(design, planned, demand, limits));
    steps.extend(price_steps(planned, limits));
    steps
}

fn new_step(figure: &'static str, formula: &'static str, numbers: String, value: f64) -> ArithmeticStep {
    ArithmeticStep { figure, formula, numbers, value }
}

/// Formats six significant digits, so that recomputing gives the same result.
fn format_number(value: f64) -> String {
    format!("{value:.5e}").parse::<f64>().unwrap_or(value).to_string()
}

/// Number of stripe units that a request spans.
fn stripe_pieces(design: &StorageDesign<'_>, bytes: f64) -> f64 {
    if design.is_striped() { (bytes / design.unit_bytes as f64).max(1.0) } else { 1.0 }
}

fn load_steps(design: &StorageDesign<'_>, planned: &PlannedDesign, demand: &Demand) -> Vec<ArithmeticStep> {
    let (level, count) = (design.level, design.count);
    let [read, write] =
        [demand.read_size_bytes, demand.write_size_bytes].map(|bytes| format_number(stripe_pieces(design, bytes)));
    let (reads, writes) = (format_number(demand.reads_per_s), format_number(demand.writes_per_s));
    let cost = format_number(write_cost(level, count));
    let published = format_number(level.small_write_factor(count));
    vec![
        new_step(
            "member_load_per_s",
            "(reads x stripe units of a read + writes x stripe units of a write x I/Os of a small write) / members",
            format!("({reads} x {read} + {writes} x {write} x {cost}) / {count}"),
            planned.member_load_per_s,
        ),
        new_step(
            "member_load_published_per_s",
            "(reads + writes x the factor of NT Magazine 1998) / members",
            format!("({reads} + {writes} x {published}) / {count}"),
            planned.member_load_published_per_s,
        ),
        new_step(
            "queue_per_spindle",
            "requests per second x mean response / members (Little's law)",
            format!(
                "{} x {} / {count}",
                format_number(demand.requests_per_s()),
                format_number(planned.response_s.mean)
            ),
            planned.queue_per_spindle,
        ),
    ]
}

/// Steps for channels, links and the bus: bytes of all member I/Os over the capacity of each. Compaq 1997's channel
/// arithmetic.
fn path_steps(design: &StorageDesign<'_>, planned: &PlannedDesign, demand: &Demand) -> Vec<ArithmeticStep> {
    let Some(path) = &design.path else { return Vec::new() };
    let channels = PathStep {
        kind: PathPart::Channels,
        figure: "channels",
        formula: "member I/Os per second x their bytes x share of the fullest channel / its rate, or that of the \
                  drives' interface if slower; without overheads",
        rate: path.channel_rate(&design.part.device),
        parts: path.channel_count(),
    };
    let host_links = path.offer.link_mb_s.map(|mb_s| PathStep {
        kind: PathPart::HostLinks,
        figure: "host links",
        formula: "member I/Os per second x their bytes x share of the fullest controller / rate of its link",
        rate: mb_s * 1e6,
        parts: path.controllers,
    });
    let bus = path.offer.bus.as_ref().map(|bus| PathStep {
        kind: PathPart::Bus,
        figure: "bus",
        formula: "member I/Os per second x their bytes / rate of the bus",
        rate: bus.mb_s * 1e6,
        parts: 1,
    });
    let is_in_answer = |step: &PathStep| {
        let name = path.name_of_part(step.kind);
        planned.utilization.iter().any(|part| Some(&part.part) == name.as_ref())
    };
    let member_ios = planned.member_load_per_s * f64::from(design.count);
    let bytes = member_bytes_per_s(design, demand);
    let steps = std::iter::once(channels).chain(host_links).chain(bus).filter(is_in_answer);
    steps.map(|step| step.into_arithmetic(design.count, member_ios, bytes)).collect()
}

/// Load of the busiest part of one kind in a path.
struct PathStep {
    kind: PathPart,
    figure: &'static str,
    formula: &'static str,
    /// Capacity of a part, bytes per second.
    rate: f64,
    /// Number of parts of this kind.
    parts: u16,
}

impl PathStep {
    fn into_arithmetic(self, members: u16, member_ios: f64, bytes: f64) -> ArithmeticStep {
        // members are assigned round-robin; share of the busiest
        let share = f64::from(members.div_ceil(self.parts)) / f64::from(members);
        let numbers = format!(
            "{} x {} x {} / {}",
            format_number(member_ios),
            format_number(bytes / member_ios),
            format_number(share),
            format_number(self.rate)
        );
        new_step(self.figure, self.formula, numbers, bytes * share / self.rate)
    }
}

/// Bytes per second of all member I/Os: for small writes, each I/O moves the write's bytes.
fn member_bytes_per_s(design: &StorageDesign<'_>, demand: &Demand) -> f64 {
    let cost = write_cost(design.level, design.count);
    demand.reads_per_s * demand.read_size_bytes + demand.writes_per_s * demand.write_size_bytes * cost
}

fn capacity_steps(
    design: &StorageDesign<'_>,
    planned: &PlannedDesign,
    demand: &Demand,
    limits: &PlanLimits,
) -> Vec<ArithmeticStep> {
    let members = usable_members(design.level, design.count);
    let usable_step = new_step(
        "usable_bytes",
        "data members x capacity of one",
        format!("{} x {}", format_number(members), format_number(design.part.capacity_bytes)),
        planned.usable_bytes,
    );
    let mut steps = vec![usable_step];
    if let (Some(seconds), Some(rate)) = (planned.rebuild_s, design.part.stream_bytes_per_s) {
        let rate = rate.min(crate::reliability::MD_CEILING_BYTES_PER_S);
        let numbers = format!("{} / {}", format_number(design.part.capacity_bytes), format_number(rate));
        steps.push(new_step("rebuild_s", "capacity of a member / rate of a rebuild", numbers, seconds));
    }
    // a design that does not hold today's data is full at once
    let full_after = planned.full_after_days.filter(|days| *days > 0.0);
    if let (Some(growth), Some(used), Some(days)) = (demand.growth, demand.capacity_bytes, full_after) {
        let numbers = format!(
            "({} - {}) / {}",
            format_number(planned.usable_bytes),
            format_number(used),
            format_number(growth.bytes_per_day)
        );
        steps.push(new_step("full_after_days", "(usable - in use today) / growth per day", numbers, days));
    }
    if let (Some(horizon), Some(used)) = (&planned.horizon, demand.capacity_bytes) {
        // the plan never covers less than today's use
        let growth = demand.growth.map_or(0.0, |growth| growth.bytes_per_day.max(0.0));
        let (used, days) = (format_number(used), format_number(limits.horizon_days));
        let needed = format!("{used} + {} x {days}", format_number(growth));
        steps.push(new_step(
            "horizon.capacity_bytes",
            "in use today + growth per day (at least 0) x days",
            needed,
            horizon.capacity_bytes,
        ));
        let numbers =
            format!("{} / ({} / {used})", format_number(planned.headroom), format_number(horizon.capacity_bytes));
        let formula = "headroom today / (space needed then / today), assuming that the load grows with the data";
        steps.push(new_step("horizon.headroom", formula, numbers, horizon.headroom));
    }
    steps
}

fn price_steps(planned: &PlannedDesign, limits: &PlanLimits) -> Vec<ArithmeticStep> {
    let mut steps = Vec::new();
    if let Some(price) = planned.price {
        let item = |item: &crate::purchase::BoughtItem| {
            let each = item.price.unwrap_or(f64::NAN) / f64::from(item.count.max(1));
            format!("{} x {}", item.count, format_number(each))
        };
        let numbers =
            if planned.bought.is_empty() { "0".into() } else { join_numbers(planned.bought.iter().map(item)) };
        steps.push(new_step("price", "quantity x unit price, summed", numbers, price));
        if let (Some(cost), PricePeriod::Month) = (planned.cost, planned.price_period) {
            let numbers = format!("{} x 12 x {}", format_number(price), format_number(limits.years));
            steps.push(new_step("cost", "price per month x 12 x years", numbers, cost));
        }
    }
    if let Some(watts) = planned.watts {
        let drives = planned.count + planned.spares;
        let controllers = planned.controller.as_ref().map(|c| (c.count, c.watts_each.unwrap_or(f64::NAN)));
        let controller_watts = controllers.map_or(0.0, |(count, each)| f64::from(count) * each);
        let mut numbers = format!("{drives} x {}", format_number((watts - controller_watts) / f64::from(drives)));
        if let Some((count, each)) = controllers {
            numbers += &format!(" + {count} x {}", format_number(each));
        }
        steps.push(new_step("watts", "quantity x active power of one, summed", numbers, watts));
    }
    steps
}

fn join_numbers(items: impl Iterator<Item = String>) -> String {
    items.collect::<Vec<_>>().join(" + ")
}

/// Capacity and headroom at the horizon. The load is assumed to grow like the data, which is stated in the answer.
pub(crate) fn horizon_figures(planned: &PlannedDesign, demand: &Demand, limits: &PlanLimits) -> Option<HorizonFigures> {
    let (growth, used) = (demand.growth?, demand.capacity_bytes?);
    let days = limits.horizon_days;
    if days <= 0.0 {
        return None;
    }
    let capacity_bytes = demand.capacity_after(days)?;
    let after_days = |per_day: f64| used + per_day.max(0.0) * days;
    let interval = growth.interval_bytes_per_day.map(|(low, high)| (after_days(low), after_days(high)));
    Some(HorizonFigures {
        days,
        capacity_bytes,
        capacity_interval_bytes: interval,
        free_bytes: planned.usable_bytes - capacity_bytes,
        holds_upper_end: interval.map(|(_, high)| high <= planned.usable_bytes),
        headroom: planned.headroom * used / capacity_bytes,
    })
}

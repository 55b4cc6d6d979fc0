//! The answer: designs in the order of preference, the frontier of cost against
//! response, and why others are not among them. Its fields are those of
//! `diskwright.plan/1` (docs/json.md).

use diskwright_base::units::format_significant;
use serde::Serialize;

use crate::arithmetic_steps::ArithmeticStep;
use crate::demand::Demand;
pub use crate::price_period::PricePeriod;
use crate::purchase::BoughtItem;
use crate::reliability::mission_simulation::MissionOutcome;
use crate::search::MAX_LOAD_FACTOR;

/// Answer to a demand.
#[derive(Clone, Debug, Serialize)]
pub struct PlanAnswer {
    /// The demand.
    pub demand: Demand,
    /// The short list, best first. If nothing meets the demand, the nearest designs.
    pub designs: Vec<PlannedDesign>,
    /// True if the designs meet the demand; else the first is the nearest possible.
    pub feasible: bool,
    /// Designs that fail, each with its limit and by how much: the cheaper ones, and those that only the simulation
    /// rejected.
    pub rejected: Vec<RejectedDesign>,
    /// The cheapest design for each response, from the cheapest on.
    pub frontier: Vec<FrontierPoint>,
    /// Prices at which another design would rank first.
    pub break_even: Vec<BreakEven>,
    /// If no design meets the demand: each requirement that, relaxed alone, gives designs, the smallest change first.
    pub relax: Vec<Relaxation>,
    /// Number of designs that were judged.
    pub searched: u64,
    /// Assumptions and caveats: old prices, unknown prices.
    pub notes: Vec<String>,
}

pub use crate::judged_design::{RESPONSE_LIMIT, SizedBy};

/// A design of the short list.
#[derive(Clone, Debug, Default, Serialize)]
pub struct PlannedDesign {
    /// 1 is the best.
    pub rank: u32,
    /// RAID level.
    pub level: String,
    /// Drive or volume.
    pub part: String,
    /// Full name.
    pub name: String,
    /// Members that are needed, without spares.
    pub count: u32,
    /// Members that are recommended: with a surplus for surges.
    pub recommended_count: u32,
    /// Spare drives.
    pub spares: u32,
    /// Stripe unit, bytes; `None` where there is none.
    pub stripe_unit_bytes: Option<u64>,
    /// The design under the demand as a description that `simulate` and `disk` read.
    #[serde(skip)]
    pub description: String,
    /// Capacity for data, bytes.
    pub usable_bytes: f64,
    /// Requirement that determined its size.
    pub sized_by: SizedBy,
    /// I/Os per second on each member, by this planner's write costs.
    pub member_load_per_s: f64,
    /// The same by the factors of NT Magazine 1998.
    pub member_load_published_per_s: f64,
    /// Maximum I/Os per second that a member sustains under this mix.
    pub member_sustains_per_s: f64,
    /// Front-end requests per second that all members carry, by rule and by the popular blend.
    pub rules: RuleFigures,
    /// Requests in flight for each member.
    pub queue_per_spindle: f64,
    /// Response, s: simulated if available.
    pub response_s: ResponseFigures,
    /// Response by analysis, s.
    pub analysis_response_s: ResponseFigures,
    /// Deviation of the simulated mean from the analysis, as a share of the simulated one.
    pub deviation: Option<f64>,
    /// False if they differ by more than 15 %.
    pub agrees: Option<bool>,
    /// With a failed member, simulated; `None` if it cannot keep up or has no redundancy.
    pub degraded_response_s: Option<ResponseFigures>,
    /// While a spare is rebuilt, simulated.
    pub rebuilding_response_s: Option<ResponseFigures>,
    /// Utilization of each part by name, the highest first.
    pub utilization: Vec<PartUtilization>,
    /// The part that saturates first.
    pub limit: String,
    /// Load that it carries as a multiple of the demand, until a target is missed or a part is full.
    pub headroom: f64,
    /// Limit of the headroom: `response`, or the part that saturates; `None` if nothing limits it within the loads
    /// tried.
    pub headroom_limit: Option<String>,
    /// Load at which a part saturates, as a multiple of the demand.
    pub saturates_at: f64,
    /// Days until it is full, at the given growth.
    pub full_after_days: Option<f64>,
    /// Duration of a rebuild at best, s.
    pub rebuild_s: Option<f64>,
    /// Duration under the demand, as simulated, s.
    pub rebuild_loaded_s: Option<f64>,
    /// Duration at the minimum rate that md keeps up, s.
    pub rebuild_floor_s: Option<f64>,
    /// Chance of losing data in 5 years by data-sheet rates; `None` if unknown.
    pub loss_5_years: Option<f64>,
    /// Chances of losing data over the mission.
    pub loss: LossFigures,
    /// Price, once for hardware and per month for volumes; `None` if unknown.
    pub price: Option<f64>,
    /// `once` or `month`.
    pub price_period: PricePeriod,
    /// Cost over the mission.
    pub cost: Option<f64>,
    /// Currency of the price.
    pub currency: String,
    /// Date of the price.
    pub price_date: Option<String>,
    /// Source of the price.
    pub price_source: Option<String>,
    /// Items to buy, each with its price; existing drives are left out.
    pub bought: Vec<BoughtItem>,
    /// Known part of the price, if not all of it is known.
    pub known_price: Option<f64>,
    /// Existing drives that are kept.
    pub kept: u32,
    /// Watts of all drives and controllers at work; `None` if any is unknown.
    pub watts: Option<f64>,
    /// Date of a drive's watts.
    pub watts_date: Option<String>,
    /// Source of a drive's watts.
    pub watts_source: Option<String>,
    /// Controllers in front of the drives; `None` for ports of the machine that limit nothing.
    pub controller: Option<PlannedController>,
    /// At the horizon, where there is one.
    pub horizon: Option<HorizonFigures>,
    /// Derivation of the figures.
    pub arithmetic: Vec<ArithmeticStep>,
    /// True if it was simulated.
    pub simulated: bool,
    /// Reason for its rank.
    pub why: String,
}

/// Controllers of a design.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlannedController {
    /// Id in the catalogue.
    pub id: String,
    /// Full name.
    pub name: String,
    /// Number of controllers.
    pub count: u32,
    /// Channels in all.
    pub channels: u32,
    /// Drives on the fullest channel.
    pub drives_per_channel: u32,
    /// Its cache, bytes, if it accepts writes.
    pub write_back_bytes: Option<f64>,
    /// Watts of each controller.
    pub watts_each: Option<f64>,
    /// Date of its row.
    pub date: String,
    /// Source of its row.
    pub source: String,
}

/// A design at the horizon.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct HorizonFigures {
    /// Days until the horizon.
    pub days: f64,
    /// Capacity that is needed then, bytes.
    pub capacity_bytes: f64,
    /// Capacity for both ends of the growth's interval.
    pub capacity_interval_bytes: Option<(f64, f64)>,
    /// Free capacity then, bytes.
    pub free_bytes: f64,
    /// True if it holds the upper end of the growth; `None` if growth was typed.
    pub holds_upper_end: Option<bool>,
    /// Load that it carries then as a multiple of the demand, if the load grows like the data.
    pub headroom: f64,
}

/// Two rules for the load that members carry together. The planner's own answer uses neither.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct RuleFigures {
    /// Rule 1, raw / (r + w p): the point of saturation.
    pub front_end_per_s: f64,
    /// Rule 2, raw r + raw w / p: widely copied, and too high for mixed loads.
    pub blend_per_s: f64,
}

/// Chances of losing data over the mission.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct LossFigures {
    /// The mission, years.
    pub years: f64,
    /// Time from a failure until the member is restored, s.
    pub repair_s: Option<f64>,
    /// By data-sheet rates, unreadable sectors at the published bound.
    pub spec: Option<f64>,
    /// By field rates, without unreadable sectors.
    pub field: Option<f64>,
    /// By field rates, with members failing five times as often while one is down.
    pub correlated: Option<f64>,
    /// Simulated missions with the data sheet's rates.
    pub drawn: Option<MissionOutcome>,
}

/// Statistics of responses, s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct ResponseFigures {
    /// Mean.
    pub mean: f64,
    /// 95 % are shorter.
    pub p95: f64,
    /// 99 % are shorter.
    pub p99: f64,
}

/// Utilization of a part.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PartUtilization {
    /// Name of the part.
    pub part: String,
    /// Share of its capacity in use.
    pub utilization: f64,
}

/// A design that is not on the list.
#[derive(Clone, Debug, Serialize)]
pub struct RejectedDesign {
    /// Its title: `raid5 of 5 x compaq-9gb`.
    pub design: String,
    /// Reason, and by how much it fails.
    pub because: String,
    /// The part or demand that it fails at.
    pub limit: String,
    /// Its price, once for hardware and per month for volumes; `None` if unknown.
    pub price: Option<f64>,
    /// `once` or `month`.
    pub price_period: PricePeriod,
    /// Its cost over the mission.
    pub cost: Option<f64>,
    /// True if it costs less than the first of the list; `None` if either cost is unknown.
    pub cheaper: Option<bool>,
}

/// A design that no other beats in both cost and response.
#[derive(Clone, Debug, Serialize)]
pub struct FrontierPoint {
    /// Its title.
    pub design: String,
    /// Its cost over the mission.
    pub cost: f64,
    /// Its mean response, s.
    pub response_s: f64,
    /// True if it meets the demand.
    pub meets: bool,
}

/// A requirement that, relaxed alone, gives designs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Relaxation {
    /// `response`, `capacity`, `budget`, `loss`, `max_drives`, `levels`, `only`, `drives` or `instance`.
    pub requirement: &'static str,
    /// Its value: s, bytes, an amount of the currency, a chance, a number of drives; `None` for a list of names.
    pub now: Option<f64>,
    /// The value that gives designs, in the same unit.
    pub needed: Option<f64>,
    /// `needed` over `now`, or the reverse for a capacity: by how much it is relaxed; `None` for a list of names.
    pub factor: Option<f64>,
    /// The option with the relaxed value; `None` if the option is left out.
    pub option: Option<String>,
    /// What must be relaxed at the same time; `None` if this alone is enough.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub also: Option<AlsoRelaxed>,
    /// Number of designs that meet the relaxed demand in the analysis.
    pub designs: usize,
    /// The cheapest of them that meets it in the simulation too.
    pub design: String,
    /// Its cost over the mission, if known.
    pub cost: Option<f64>,
    /// As a sentence.
    pub sentence: String,
}

/// The second of two requirements that are relaxed together; fields as in [`Relaxation`].
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AlsoRelaxed {
    /// The requirement.
    pub requirement: &'static str,
    /// Its value.
    pub now: f64,
    /// The value that gives designs, together with the first.
    pub needed: f64,
    /// By how much it is relaxed.
    pub factor: f64,
    /// The option with the relaxed value.
    pub option: String,
}

/// A price at which the ranking changes.
#[derive(Clone, Debug, Serialize)]
pub struct BreakEven {
    /// The part with this price.
    pub part: String,
    /// The design that would rank first.
    pub design: String,
    /// Price of one part below which it does.
    pub below: f64,
    /// Current price; `None` if unknown.
    pub now: Option<f64>,
    /// As a sentence.
    pub sentence: String,
}

/// Headroom below which a design meets no load: the search for it ends there, near 0.
const MIN_HEADROOM: f64 = 1e-4;

impl PlannedDesign {
    /// True if it meets the demand's limits under any load at all.
    #[must_use]
    pub fn sustains_any_load(&self) -> bool {
        self.headroom >= MIN_HEADROOM
    }

    /// Formats `1.2x`, or what keeps the design from meeting any load.
    #[must_use]
    pub fn format_headroom(&self) -> String {
        match (self.sustains_any_load(), self.headroom_limit.as_deref()) {
            (false, Some(limit)) => format!("none: {limit}"),
            (false, None) => "none".into(),
            (true, _) => format!("{}x", format_significant(self.headroom)),
        }
    }

    /// Formats `1.2x the load, limited by members`: the sustained load, and its limit.
    #[must_use]
    pub fn describe_headroom(&self) -> String {
        let times = |factor: f64| format!("{}x the load", format_significant(factor));
        match self.headroom_limit.as_deref() {
            Some(RESPONSE_LIMIT) if !self.sustains_any_load() => {
                "no load within the response limit, which is too short even for single requests".into()
            }
            Some(part) if !self.sustains_any_load() => format!("no load, limited by {part}"),
            None => format!("at least {}", times(self.headroom)),
            Some(RESPONSE_LIMIT) if self.saturates_at < MAX_LOAD_FACTOR => format!(
                "{}, limited by the response time (saturates first: {}, at {}x)",
                times(self.headroom),
                self.limit,
                format_significant(self.saturates_at)
            ),
            Some(RESPONSE_LIMIT) => format!("{}, limited by the response time", times(self.headroom)),
            Some(part) => format!("{}, limited by {part}", times(self.headroom)),
        }
    }
}

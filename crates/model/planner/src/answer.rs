//! The answer: designs in the order of preference, the frontier of cost against
//! response, and why others are not among them. Its fields are those of
//! `diskwright.plan/1` (docs/json.md).

use diskwright_base::units::digits;
use serde::Serialize;

use crate::bought::BoughtItem;
use crate::demand::Demand;
pub use crate::period::PricePeriod;
use crate::reliability::drawn::MissionOutcome;
use crate::search::MOST_FACTOR;
use crate::steps::ArithmeticStep;

/// What a demand leads to.
#[derive(Clone, Debug, Serialize)]
pub struct PlanAnswer {
    /// What was asked for.
    pub demand: Demand,
    /// The short list, best first. Where nothing meets the demand, what comes nearest.
    pub designs: Vec<PlannedDesign>,
    /// True where the designs meet the demand; else the first is the nearest possible.
    pub feasible: bool,
    /// Designs that fail, each with where and by how much: the cheaper ones, and those of which only the simulation
    /// showed it.
    pub rejected: Vec<RejectedDesign>,
    /// The cheapest design for each response, from the cheapest on.
    pub frontier: Vec<FrontierPoint>,
    /// Prices at which another design would be first.
    pub break_even: Vec<BreakEven>,
    /// How many designs were judged.
    pub searched: u64,
    /// What to know when reading it: assumptions, old prices, unknown prices.
    pub notes: Vec<String>,
}

pub use crate::judged::RESPONSE;

/// A design of the short list.
#[derive(Clone, Debug, Default, Serialize)]
pub struct PlannedDesign {
    /// 1 is the best.
    pub rank: u32,
    /// RAID level.
    pub level: String,
    /// Drive or volume.
    pub part: String,
    /// What it is called in full.
    pub name: String,
    /// Members that are needed, without spares.
    pub count: u32,
    /// Members that are recommended: with a surplus for surges.
    pub recommended_count: u32,
    /// Spare drives.
    pub spares: u32,
    /// Stripe unit, bytes; `None` where there is none.
    pub stripe_unit_bytes: Option<u64>,
    /// Room for data.
    pub usable_bytes: f64,
    /// What made it as large as it is: `capacity`, `response`, `load`, `queue`, `level`, `offer`.
    pub sized_by: String,
    /// I/Os a second on each member, as they cost here.
    pub member_load_per_s: f64,
    /// The same by the factors of NT Magazine 1998.
    pub member_load_published_per_s: f64,
    /// I/Os a second that a member sustains under this mix at most.
    pub member_sustains_per_s: f64,
    /// Front-end requests a second that all members carry, by rule and by the popular blend.
    pub rules: RuleFigures,
    /// Requests in flight for each member.
    pub queue_per_spindle: f64,
    /// Response, s: of the simulation where it was simulated.
    pub response_s: ResponseFigures,
    /// Response by analysis, s.
    pub analysis_response_s: ResponseFigures,
    /// How far the simulated mean is from the analysis, as a share of the simulated.
    pub deviation: Option<f64>,
    /// False where they are further apart than 15 %.
    pub agrees: Option<bool>,
    /// With a member failed, simulated; `None` where it cannot keep up or has no redundancy.
    pub degraded_response_s: Option<ResponseFigures>,
    /// While a spare is rebuilt, simulated.
    pub rebuilding_response_s: Option<ResponseFigures>,
    /// Utilization of each part by name, the highest first.
    pub utilization: Vec<PartUtilization>,
    /// The part that saturates first.
    pub limit: String,
    /// Load that it carries as a multiple of the demand, until a target is missed or a part is full.
    pub headroom: f64,
    /// What ends that: `response`, or the part that saturates; `None` where nothing does within the loads tried.
    pub headroom_limit: Option<String>,
    /// Load at which a part saturates, as a multiple of the demand.
    pub saturates_at: f64,
    /// Days until it is full, by the growth that was given.
    pub full_after_days: Option<f64>,
    /// Seconds that a rebuild takes at best.
    pub rebuild_s: Option<f64>,
    /// Under the demand, as simulated.
    pub rebuild_loaded_s: Option<f64>,
    /// At the least rate that md keeps up.
    pub rebuild_floor_s: Option<f64>,
    /// Chance of losing data in 5 years by data-sheet rates; `None` where it is not known.
    pub loss_5_years: Option<f64>,
    /// Chances of losing data over the mission.
    pub loss: LossFigures,
    /// Price, once for hardware and a month for volumes; `None` where it is not known.
    pub price: Option<f64>,
    /// `once` or `month`.
    pub price_period: PricePeriod,
    /// What it costs over the mission.
    pub cost: Option<f64>,
    /// Currency of the price.
    pub currency: String,
    /// Day of the price.
    pub price_date: Option<String>,
    /// Who says so.
    pub price_source: Option<String>,
    /// What is bought, each sort with its price; drives that are there are left out.
    pub bought: Vec<BoughtItem>,
    /// What of the price is known, where not all of it is.
    pub known_price: Option<f64>,
    /// Drives that are there and stay.
    pub kept: u32,
    /// Watts of all drives and controllers at work; `None` where any is not known.
    pub watts: Option<f64>,
    /// Day of the watts of a drive.
    pub watts_date: Option<String>,
    /// Who says so.
    pub watts_source: Option<String>,
    /// Controllers before the drives; `None` for ports of the machine that limit nothing.
    pub controller: Option<PlannedController>,
    /// At the horizon, where there is one.
    pub horizon: Option<HorizonFigures>,
    /// How the figures came about.
    pub arithmetic: Vec<ArithmeticStep>,
    /// True where it was simulated.
    pub simulated: bool,
    /// Why it has this rank.
    pub why: String,
}

/// Controllers of a design.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlannedController {
    /// Which.
    pub id: String,
    /// What it is called.
    pub name: String,
    /// How many.
    pub count: u32,
    /// Channels in all.
    pub channels: u32,
    /// Drives on the fullest channel.
    pub drives_per_channel: u32,
    /// Its cache, bytes, where it takes writes.
    pub write_back_bytes: Option<f64>,
    /// Watts of one.
    pub watts_each: Option<f64>,
    /// Day of its row.
    pub date: String,
    /// Where that is written.
    pub source: String,
}

/// A design at the horizon.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct HorizonFigures {
    /// Days until then.
    pub days: f64,
    /// Room that is needed then.
    pub capacity_bytes: f64,
    /// The same for both ends of the growth's interval.
    pub capacity_interval_bytes: Option<(f64, f64)>,
    /// Room that is left then.
    pub free_bytes: f64,
    /// True where it holds what the upper end of the growth needs; `None` where growth was typed.
    pub holds_upper_end: Option<bool>,
    /// Load that it carries as a multiple of the demand then, if the load grows as the data do.
    pub headroom: f64,
}

/// Two rules for what members carry together. The planner's own answer comes from neither.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct RuleFigures {
    /// Rule 1, raw / (r + w p): what saturates.
    pub front_end_per_s: f64,
    /// Rule 2, raw r + raw w / p: widely copied, and too much for mixed loads.
    pub blend_per_s: f64,
}

/// Chances of losing data over the mission.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct LossFigures {
    /// The mission, years.
    pub years: f64,
    /// Time from a failure until the member is made good, s.
    pub repair_s: Option<f64>,
    /// By data-sheet rates, unreadable sectors at the printed bound.
    pub spec: Option<f64>,
    /// By the field's rates, without unreadable sectors.
    pub field: Option<f64>,
    /// By the field's rates, members failing five times as often while one is down.
    pub correlated: Option<f64>,
    /// The data sheet's row drawn at random.
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

/// How much of a part is used.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PartUtilization {
    /// Which part.
    pub part: String,
    /// Share of what it can do.
    pub utilization: f64,
}

/// A design that is not on the list.
#[derive(Clone, Debug, Serialize)]
pub struct RejectedDesign {
    /// What it is: `raid5 of 5 x compaq-9gb`.
    pub design: String,
    /// Where it fails and by how much.
    pub because: String,
    /// The part or demand that it fails at.
    pub limit: String,
    /// Its price, once for hardware and a month for volumes; `None` where it is not known.
    pub price: Option<f64>,
    /// `once` or `month`.
    pub price_period: PricePeriod,
    /// What it costs over the mission.
    pub cost: Option<f64>,
    /// True where it costs less than the first of the list; `None` where either is not known.
    pub cheaper: Option<bool>,
}

/// A design that no other beats in both cost and response.
#[derive(Clone, Debug, Serialize)]
pub struct FrontierPoint {
    /// What it is.
    pub design: String,
    /// What it costs over the mission.
    pub cost: f64,
    /// Its mean response, s.
    pub response_s: f64,
    /// True where it meets the demand.
    pub meets: bool,
}

/// A price at which the ranking turns.
#[derive(Clone, Debug, Serialize)]
pub struct BreakEven {
    /// The part whose price it is.
    pub part: String,
    /// The design that would be first.
    pub design: String,
    /// Below this price of one part.
    pub below: f64,
    /// What it is now; `None` where it is not known.
    pub now: Option<f64>,
    /// As a sentence.
    pub sentence: String,
}

impl PlannedDesign {
    /// `1.2x the load, limited by members`: what it sustains, and what binds then.
    #[must_use]
    pub fn headroom_words(&self) -> String {
        let times = |factor: f64| format!("{}x the load", digits(factor));
        match self.headroom_limit.as_deref() {
            None => format!("at least {}", times(self.headroom)),
            Some(RESPONSE) if self.saturates_at < MOST_FACTOR => format!(
                "{}, limited by the response time (saturates first: {}, at {}x)",
                times(self.headroom),
                self.limit,
                digits(self.saturates_at)
            ),
            Some(RESPONSE) => format!("{}, limited by the response time", times(self.headroom)),
            Some(part) => format!("{}, limited by {part}", times(self.headroom)),
        }
    }
}

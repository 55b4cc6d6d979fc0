//! The planner: how many disks, which level, which volume, their cost, and their performance.
//!
//! Pure functions over data: a [`Demand`] from any source, the drives of the simulator's catalogue and dated price
//! lists go in; a [`PlanAnswer`] comes out. No clock, no files.
//!
//! Reading order. What goes in:
//!
//! - [`demand`]: requests per second, their sizes, the capacity, the acceptable response
//! - [`series`]: the demand that a log shows
//! - [`limits`]: the budget, and the levels, drives and instances that are allowed
//! - [`prices`]: dated prices and limits with their sources
//! - `price_period`: whether a price is paid once or every month
//!
//! From designs to the answer:
//!
//! - [`planning`]: all steps from a demand to the answer
//! - `plan_context`: its inputs, the order of designs, and simulations that are reused
//! - [`design_part`]: the drives and volumes of which designs consist
//! - [`controller_path`]: controllers, channels and the bus between host and drives
//! - [`search`]: every combination of part, level, number and stripe unit
//! - `load_factor`: the multiple of the demand that a design sustains
//! - `judged_design`: a design with the limits at which it fails
//! - [`analysis`]: a design under the demand, by formulas
//! - `doubtful_designs`: designs that only a simulation can reject
//! - `short_list`: those that are listed
//! - [`simulation`]: a design healthy, degraded and rebuilding
//! - `design_summary`: all figures of a design on the short list
//! - `relaxation`: which requirement to relax if nothing meets the demand
//! - [`answer`]: the ranked designs, the frontier, and the rejected
//!
//! What these use:
//!
//! - [`arithmetic`], [`arithmetic_steps`]: sizing as in the source documents, step by step
//! - [`operation_rule`]: what a request costs at a volume
//! - [`bucket_replay`]: when burst credits run out
//! - [`purchase`]: the bill, item by item
//! - [`reliability`], [`loss_chance`]: the chance of data loss
//! - [`notes`]: caveats of an answer
//!
//! [`what_if`] is separate: it predicts the effect of a change to the machine of a log.

pub mod analysis;
pub mod answer;
pub mod arithmetic;
pub mod arithmetic_steps;
pub mod bucket_replay;
pub mod controller_path;
pub mod demand;
pub mod description;
pub mod design_part;
mod design_summary;
mod doubtful_designs;
mod judged_design;
pub mod limits;
mod load_factor;
pub mod loss_chance;
pub mod notes;
pub mod operation_rule;
mod plan_context;
pub mod planning;
mod price_period;
pub mod prices;
pub mod purchase;
mod relaxation;
pub mod reliability;
pub mod search;
pub mod series;
mod short_list;
pub mod simulation;
pub mod what_if;

pub use answer::{PlanAnswer, PlannedDesign, RejectedDesign};
pub use demand::{Demand, DemandError};
pub use limits::{PartFilter, PlanLimits};
pub use planning::plan;

/// Reason why there is no answer.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PlanError {
    /// An impossible demand.
    #[error(transparent)]
    Demand(#[from] DemandError),
    /// An unknown name.
    #[error("unknown {kind} `{name}`{}", hint(near.as_deref()))]
    Unknown {
        /// Kind of the name: a drive, an instance.
        kind: &'static str,
        /// As it was typed.
        name: String,
        /// The nearest existing name.
        near: Option<String>,
    },
    /// A drive that cannot be built.
    #[error("drive `{drive}`: {because}")]
    Drive {
        /// Its name.
        drive: String,
        /// The reason.
        because: String,
    },
    /// Contradictory limits.
    #[error("{0}")]
    Contradiction(String),
}

/// Formats ` (did you mean `x`?)`, or nothing.
fn hint(near: Option<&str>) -> String {
    near.map_or(String::new(), |near| format!(" (did you mean `{near}`?)"))
}

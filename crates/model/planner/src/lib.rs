//! The planner: how many disks, which level, which volume, what it costs, what
//! it will do.
//!
//! Pure functions over data: a [`Demand`], however it came about, the drives of
//! the simulator's catalogue and dated price lists go in; a [`PlanAnswer`] comes
//! out. No clock, no files.

pub mod analysis;
pub mod answer;
pub mod arithmetic;
pub mod bought;
pub mod choose;
mod context;
pub mod counted;
pub mod demand;
mod describe;
mod doubtful;
mod judged;
pub mod limits;
pub mod losses;
pub mod notes;
pub mod parts;
pub mod paths;
mod period;
pub mod prices;
pub mod reliability;
pub mod replay;
pub mod search;
pub mod series;
pub mod simulated;
pub mod steps;
pub mod what_if;

pub use answer::{PlanAnswer, PlannedDesign, RejectedDesign};
pub use choose::plan;
pub use demand::{Demand, DemandError};
pub use limits::{PartFilter, PlanLimits};

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PlanError {
    /// A demand that cannot be.
    #[error(transparent)]
    Demand(#[from] DemandError),
    /// A name that there is not.
    #[error("unknown {what} `{name}`{}", hint(near.as_deref()))]
    Unknown {
        /// A drive, an instance.
        what: &'static str,
        /// As it was typed.
        name: String,
        /// The nearest that there is.
        near: Option<String>,
    },
    /// A drive that cannot be made.
    #[error("drive `{drive}`: {because}")]
    Drive {
        /// Which.
        drive: String,
        /// Why.
        because: String,
    },
    /// Limits that leave nothing.
    #[error("{0}")]
    Contradiction(String),
}

/// ` (did you mean `x`?)`, or nothing.
fn hint(near: Option<&str>) -> String {
    near.map_or(String::new(), |near| format!(" (did you mean `{near}`?)"))
}

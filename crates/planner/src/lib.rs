//! The planner: how many disks, which level, which volume, what it costs, what
//! it will do.
//!
//! Pure functions over data: a [`Demand`], however it came about, the drives of
//! the simulator's catalogue and dated price lists go in; a [`PlanAnswer`] comes
//! out. No clock, no files.

pub mod answer;
pub mod arithmetic;
pub mod demand;
pub mod prices;
pub mod reliability;

pub use answer::{PlanAnswer, PlannedDesign, RejectedDesign};
pub use demand::{Demand, DemandError};

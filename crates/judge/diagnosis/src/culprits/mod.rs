//! Culprits: processes, cgroups and programs that cause what the verdict is about, from process tables and traces.
//!
//! Uses `rules`.

mod culprit;
mod process_memory;
mod process_totals;
mod program_activity;
mod requesters;

pub use culprit::{AttributionCertainty, Culprit, OperationRequesters, ProgramActivity, RequestingProgram, Sleep};
pub(crate) use process_totals::{BlamedDisk, Culprits};
pub(crate) use requesters::Requesters;

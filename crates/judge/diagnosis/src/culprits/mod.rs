//! Culprits: processes, cgroups and programs that cause what the verdict is about, from process tables and traces.
//!
//! Uses `rules`.

mod blamed_disk;
mod culprit;
mod database_totals;
mod listed_activity;
mod process_identity;
mod process_memory;
mod process_onsets;
mod process_totals;
mod program_activity;
mod requesters;

pub(crate) use blamed_disk::BlamedDisk;
pub use culprit::{
    AttributionCertainty, Culprit, CulpritProcess, GrowingProgram, OperationRequesters, ProgramActivity,
    RequestingProgram, Sleep,
};
pub(crate) use database_totals::{DatabaseTotals, is_database_program, moved_bytes};
pub(crate) use process_onsets::{Doing, ProcessOnset, ProcessOnsets};
pub(crate) use process_totals::Culprits;
pub(crate) use requesters::Requesters;

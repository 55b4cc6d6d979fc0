//! All integration tests of this crate in one program: one link instead of many.

mod analytic;
mod array_plans;
mod arrays;
mod cached_systems;
mod caches;
mod calibrate;
mod catalogue;
mod changes;
mod channels;
mod common;
mod data_sheets;
mod descriptions;
mod diskspecs;
mod fairness;
mod flash_data_sheets;
mod flush_and_trim;
mod grid;
mod invariants;
mod mechanical;
mod mixed;
mod parameters;
mod processors;
mod queueing;
mod queueing_systems;
mod replay;
mod samples;
mod striping;
mod systems;
mod volumes;
mod workload_systems;

#[path = "common/random_system.rs"]
mod random_system;
#[path = "../../../../tests/sweep.rs"]
mod sweep;

//! What is blamed: which trouble explains which, what is a bottleneck of its own, and who causes it.

mod acting_processes;
pub(super) mod action_facts;
pub(super) mod all_bottlenecks;
pub(super) mod blamed_programs;
pub(super) mod database_blame;
pub(super) mod explanations;
pub(super) mod relations;
pub(super) mod unlisted;

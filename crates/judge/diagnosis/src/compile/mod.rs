//! Compiles rules for the series of a schema and for the topology: which nodes to compute, in which order, and which
//! states they feed.
//!
//! Uses `rules` and `sums`.

mod change_nodes;
mod logical_stand_ins;
mod node_builder;
mod node_slots;
mod paging_nodes;
mod rule_program;
mod rule_scopes;
mod schema_index;
mod volume_nodes;

pub(crate) use node_builder::NodeBuilder;
pub(crate) use rule_program::{JudgeProgram, MAX_CGROUPS, ProgramOptions, StatisticPlan, compile_rules};
pub use schema_index::physical_disks;
pub(crate) use schema_index::{SchemaIndex, cgroup_path, is_in_cgroup, split_cgroup_device};
pub(crate) use volume_nodes::{LOAD_COUNTERS, PLAIN_COUNTERS};

//! Judges samples and topology by rules: the bottleneck, what was ruled out and why, and what to do.
//!
//! A [`Pack`] is a set of rules by one authority, read from TOML
//! (`docs/rules.md`). A [`Judge`] takes frames and notes one after another,
//! from a live sampler or a log, and gives one [`Verdict`] a pack at the end.
//! It keeps sums and not samples, so a log may be of any length.
//!
//! In the order of processing:
//!
//! - `pack_reader`, `rule`, `counter_names`, `pseudo_counters`, `advice`, `packs`: from text to rules
//! - `schema_index`, `node_builder`, `paging_nodes`, `rule_program`, `logical_stand_ins`: compile the rules for a
//!   schema and topology
//! - `device_ceiling`: compares a load with the measured ceiling of its device
//! - `node`, `lane_sums`, `window_buckets`, `steadiness`, `rule_progress`, `window_states`: from ticks to sums, run by
//!   `judge`
//! - `program_cache`: keeps a compiled program from window to window
//! - `observation`: everything that the judge collected; what follows only reads it
//! - `trends`: slopes, steps and rhythms of the judged quantities
//! - `rule_monitor`, `norm_and_depletion`: rules tick by tick, for alerts
//! - `compare`: two windows side by side
//! - `rule_outcome`, `ranking`, `confidence`, `phases`, `sentences`, `culprits`, `build_verdict`: from sums to the
//!   verdict

pub mod advice;
mod build_verdict;
mod ceiling_remarks;
pub mod compare;
mod confidence;
pub mod counter_names;
mod culprits;
mod device_ceiling;
mod hold_intervals;
mod judge;
mod lane_sums;
mod log_notes;
mod log_origin;
mod logical_stand_ins;
mod node;
mod node_builder;
mod norm_and_depletion;
mod observation;
mod pack_reader;
pub mod packs;
mod paging_nodes;
mod phases;
mod process_memory;
mod program_activity;
mod program_cache;
pub mod pseudo_counters;
mod ranking;
pub mod recording_hints;
mod requesters;
pub mod rule;
mod rule_monitor;
mod rule_outcome;
mod rule_program;
mod rule_progress;
mod schema_index;
mod sentences;
mod steadiness;
pub mod trends;
pub mod verdict;
mod window_buckets;
mod window_parts;
mod window_states;

pub use advice::Advice;
pub use device_ceiling::DeviceLoad;
pub use diskwright_base::{Ceiling, Problem};
pub use judge::{Judge, JudgeOptions};
pub use rule::{Bottleneck, Pack, Rule, Severity};
pub use rule_monitor::{RuleMonitor, RuleTick};
pub use verdict::{Culprit, Finding, Verdict};

/// The machine's physical disks among the instances of a schema, each once: stacked devices and memory disks are left
/// out.
pub fn physical_disks<'a>(
    schema: &'a diskwright_base::Schema,
    topology: Option<&'a diskwright_base::Topology>,
) -> Vec<&'a str> {
    schema_index::SchemaIndex::new(schema, topology, &[]).disks().to_vec()
}

/// Share of a device's ceiling that a load uses, by the utilization law over reads and writes; `None` where unmeasured
/// kinds of requests could add to it.
pub fn ceiling_used(ceiling: &Ceiling, class: diskwright_base::DeviceClass, load: DeviceLoad) -> Option<f64> {
    let used = device_ceiling::DeviceCeiling::for_device(ceiling, class).used_share(&load);
    used.is_finite().then_some(used)
}

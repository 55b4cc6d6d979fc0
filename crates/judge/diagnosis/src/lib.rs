//! Judges samples and topology by rules: the bottleneck, what was ruled out and why, and what to do.
//!
//! A [`Pack`] is a set of rules by one authority, read from TOML (`docs/rules.md`). A [`Judge`] takes frames and notes
//! one after another, from a live sampler or a log, and gives one [`Verdict`] for each pack at the end. It keeps sums
//! and not samples, so a log may be of any length.
//!
//! The modules, in the order of processing. Each uses only those before it, which a test checks:
//!
//! - `rules`: from text to rules
//! - `sums`: from ticks to sums, by nodes and states
//! - `compile`: rules for a schema and topology become nodes and states
//! - `culprits`: processes and programs that cause a bottleneck
//! - `run`: the judge feeds frames and notes to the states
//! - `trends`: slopes, steps and rhythms of the judged quantities
//! - `changes`: levels that stepped, and what began then
//! - `answer`: from sums to the verdict
//! - `compare`: two windows side by side

mod answer;
pub mod changes;
pub mod compare;
mod compile;
mod culprits;
mod rules;
mod run;
mod sums;
pub mod trends;

pub use answer::verdict;
pub use compile::physical_disks;
pub use diskwright_base::{Ceiling, Problem};
pub use rules::DeviceLoad;
pub use rules::{advice, counter_names, packs, pseudo_counters, recording_hints, rule};
pub use run::{Judge, JudgeOptions, RuleMonitor, RuleTick};

pub use advice::Advice;
pub use rule::{Bottleneck, Pack, Rule, Severity};
pub use verdict::{Culprit, Finding, Verdict};

/// Share of a device's ceiling that a load uses, by the utilization law over reads and writes; `None` where the load
/// has requests of a kind that was not measured.
pub fn ceiling_used(ceiling: &Ceiling, class: diskwright_base::DeviceClass, load: DeviceLoad) -> Option<f64> {
    let used = rules::DeviceCeiling::for_device(ceiling, class).used_share(&load);
    used.is_finite().then_some(used)
}

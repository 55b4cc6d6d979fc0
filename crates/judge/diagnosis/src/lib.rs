//! Rules over samples and topology: what holds the machine back, what was
//! ruled out and why, and what to do.
//!
//! A [`Pack`] is a set of rules by one authority, read from TOML
//! (`docs/rules.md`). A [`Judge`] takes frames and notes one after another,
//! from a live sampler or a log, and gives one [`Verdict`] a pack at the end.
//! It keeps sums and not samples, so a log may be of any length.
//!
//! In the order in which it happens:
//!
//! - `load`, `read`, `names`, `pseudo`, `advice`, `packs`: text to rules
//! - `scene`, `build`, `program`, `stand_in`: a schema and topology to columns to compute
//! - `paging`: how much of a disk's work is paging
//! - `ceilings`: a load against what a probe measured its device to do; `profiles`: what is said of that
//! - `node`, `lanes`, `window`, `spread`, `stream`, `states`: ticks to sums, which `judge` makes
//! - `kept`: what a judge of window after window need not make again
//! - `observation`: all that the judge saw; what follows only reads it
//! - `trends`: where the judged quantities are heading, and what changed
//! - `monitor`, `history`: rules tick by tick, as alerts ask for them
//! - `compare`: two windows side by side
//! - `outcome`, `rank`, `certainty`, `phases`, `words`, `culprits`, `finish`: sums to the verdict

pub mod advice;
mod askers;
mod build;
mod ceilings;
mod certainty;
pub mod compare;
mod culprits;
mod finish;
mod grid;
mod history;
mod judge;
mod kept;
mod lanes;
mod load;
pub mod missing;
mod monitor;
pub mod names;
mod node;
mod notes;
mod observation;
mod origin;
mod outcome;
pub mod packs;
mod paging;
mod phases;
mod profiles;
mod program;
pub mod pseudo;
mod rank;
pub mod rule;
mod scene;
mod spread;
mod stand_in;
mod states;
mod stream;
mod stretches;
mod together;
pub mod trends;
pub mod verdict;
mod waits;
mod window;
mod words;

pub use advice::Advice;
pub use ceilings::DeviceLoad;
pub use diskwright_base::{Ceiling, Problem};
pub use judge::{Judge, JudgeOptions};
pub use monitor::{RuleMonitor, RuleTick};
pub use rule::{Bottleneck, Pack, Rule, Severity};
pub use verdict::{Culprit, Finding, Verdict};

/// The machine's own disks among the instances of a schema, each once: what stands on others and
/// what is memory is left out.
pub fn disks<'a>(schema: &'a diskwright_base::Schema, topology: Option<&'a diskwright_base::Topology>) -> Vec<&'a str> {
    scene::SchemaIndex::new(schema, topology, &[]).disks().to_vec()
}

/// Share of a device's ceiling that a load uses, by the utilisation law over reads and writes; `None`
/// where what was not measured could add to it.
pub fn ceiling_used(ceiling: &Ceiling, class: diskwright_base::DeviceClass, load: DeviceLoad) -> Option<f64> {
    let used = ceilings::DeviceCeiling::of(ceiling, class).used(&load);
    used.is_finite().then_some(used)
}

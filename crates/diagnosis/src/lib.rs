//! Rules over samples and topology: what holds the machine back, what was
//! ruled out and why, and what to do.
//!
//! A [`Pack`] is a set of rules by one authority, read from TOML.

pub mod advice;
pub mod load;
pub mod names;
pub mod packs;
pub mod pseudo;
pub mod read;
pub mod rule;

pub use advice::Advice;
pub use read::RuleError;
pub use rule::{Bottleneck, Pack, Rule, Severity};

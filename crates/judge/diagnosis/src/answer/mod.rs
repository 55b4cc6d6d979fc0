//! From an observation to the verdict: outcomes of rules, ranking, confidence, phases, sentences.
//!
//! Uses all modules but `compare`.

mod blame;
mod build_verdict;
mod completion;
mod confidence;
mod ended;
mod evidence_seen;
mod exclusion_texts;
mod interrupt_limits;
mod limits;
mod ranking;
mod rule_outcome;
mod sentences;
mod times;
pub mod verdict;

pub(crate) use sentences::subject_phrase;
pub(crate) use verdict::{Finding, Verdict};

//! Rules as data: packs and their loader, counters that rules name, measured ceilings that they compare with, advice,
//! and how to record counters that a log lacks.
//!
//! Uses no other module.

pub mod advice;
pub(crate) mod bottleneck_proof;
mod change_quantities;
pub mod counter_names;
mod device_ceiling;
mod log_origin;
mod pack_reader;
pub mod packs;
pub mod pseudo_counters;
pub mod recording_hints;
pub mod rule;

pub(crate) use advice::{
    ActionFacts, Advice, AdviceCondition, LoadFacts, fitting_actions, honors_priorities, is_batch_program,
    is_server_program,
};
pub(crate) use bottleneck_proof::{BottleneckProof, NextCommand};
pub(crate) use change_quantities::{Activity, ChangeQuantity, change_quantities};
pub(crate) use counter_names::{RuleCounter, rule_objects};
pub use device_ceiling::DeviceLoad;
pub(crate) use device_ceiling::{DeviceCeiling, format_count};
pub(crate) use log_origin::{LogOrigin, MissingCounters};
#[cfg(test)]
pub(crate) use packs::builtin_pack;
pub(crate) use pseudo_counters::{Pseudo, SPINDLES_COUNTER};
pub(crate) use rule::{
    Absent, Bottleneck, Comparator, Condition, ConditionSpan, InstanceFilter, Operand, Pack, QuantityDivisor, Rule,
    RuleLimit, RuleQuantity, Severity,
};

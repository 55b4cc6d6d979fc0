//! Limits that are not the rules' own: ceilings that probes measured, and what clouds allow.

pub(crate) mod ceiling_remarks;
pub(crate) mod volume_use;

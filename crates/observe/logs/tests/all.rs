//! All integration tests of this crate in one program: one link instead of many.

mod blg_encoder;
mod corpus;
mod impossible;
mod pasted_facts;
mod pasted_parts;
mod pasted_pieces;
mod pcp;
mod pcp_encoder;
mod pcp_samples;
mod perfmon;
mod perfmon_blg;
mod perfmon_blg_samples;
mod perfmon_samples;
mod procfs;
mod prometheus;
mod prometheus_samples;
mod recognise;
#[path = "../../../../tests/sweep.rs"]
mod sweep;
mod sysstat;
mod sysstat_live;
mod sysstat_samples;
mod text_log;
mod tools;
mod top;
mod unix;

//! Advice on one host's settings: their current values, better ones, and the reasons.
//!
//! - `host_tree`: the host's facts, which are files of `/proc` and `/sys`, and a few texts in the same form. A folder,
//!   a live host and a note of a log all become one [`HostTree`].
//! - `host_facts`: the facts prepared for checks: devices, mounts, the role, the load.
//! - `check`: the table of checks (`data/*.toml`); `judges/`: functions for checks that a limit cannot express.
//! - `advice`: the findings of the checks, in order; `trouble`: those first that bear on a verdict.
//! - `setting_change`: writing settings and reverting them; `baseline`: changes since a saved state.
//!
//! Nothing here opens a log or prints.

mod advice;
pub mod baseline;
mod check;
mod drive_health;
mod file_extents;
mod filesystem_space;
mod gain;
mod host_facts;
mod host_load;
mod host_tree;
mod host_trouble;
mod judges;
mod platform;
mod role;
mod setting_change;
mod trouble;

pub use advice::{AdviceItem, HostAdvice, SettingWrite, UnknownCheck, advise};
pub use check::{AdviceSeverity, CHECKS, ChangeRisk, HostCheck};
pub use drive_health::HealthLoad;
pub use gain::{ExpectedGain, QueuedWrites, ReadAheadModel};
pub use host_facts::HostFacts;
pub use host_load::{DiskLoad, HostLoad, HostLoadReader, SequentialReads};
pub use host_tree::{HostTree, TreeGap};
pub use host_trouble::HostTrouble;
pub use platform::HostPlatform;
pub use role::ServerRole;
pub use setting_change::{ChangeBook, ChangeBookError, SettingChange};

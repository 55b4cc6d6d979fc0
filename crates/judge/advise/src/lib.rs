//! Advice on one host's settings: what is set, what would be better, and why here.
//!
//! - `tree`: the host's facts, which are files of `/proc` and `/sys` and a few texts in
//!   their shape. A folder, a live host and a note of a log all become one [`HostTree`].
//! - `scene`: the facts made ready for questions: devices, mounts, the role, the load.
//! - `check`: the table of checks (`data/*.toml`), and `judges/`: functions for those that a limit cannot say.
//! - `advice`: what the checks found, in order.
//! - `change`: writing settings and taking them back; `baseline`: what changed since.
//!
//! Nothing here opens a log or prints.

mod advice;
pub mod baseline;
mod change;
mod check;
mod gain;
mod health;
mod judges;
mod load;
mod platform;
mod role;
mod scene;
mod space;
mod tree;

pub use advice::{AdviceItem, HostAdvice, SettingWrite, UnknownCheck, advise};
pub use change::{ChangeBook, ChangeBookError, SettingChange};
pub use check::{AdviceSeverity, CHECKS, ChangeRisk, HostCheck};
pub use gain::{ExpectedGain, QueuedWrites, ReadAheadModel};
pub use health::HealthLoad;
pub use load::{DiskLoad, HostLoad, HostLoadReader};
pub use platform::HostPlatform;
pub use role::ServerRole;
pub use scene::HostScene;
pub use tree::{HostTree, TreeGap};

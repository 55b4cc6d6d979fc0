//! Runs compiled rules over frames and notes: the judge of a window, whose observation holds sums and not samples, and
//! the monitor of single ticks for alerts.
//!
//! Uses `rules`, `sums`, `compile` and `culprits`.

mod event_watch;
mod judge;
mod latest_row;
mod log_notes;
mod machine_onsets;
mod observation;
mod program_cache;
mod rule_monitor;
mod volume_watch;

pub(crate) use event_watch::KillTick;
pub use judge::{Judge, JudgeOptions};
pub(crate) use log_notes::NoteCount;
pub(crate) use machine_onsets::{MachineOnset, OnsetKind};
pub(crate) use observation::Observation;
pub use rule_monitor::{RuleMonitor, RuleTick};
pub(crate) use volume_watch::{LimitWatch, WatchedVolume};

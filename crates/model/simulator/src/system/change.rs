//! Changes to a system during a run, as data.

use super::BackgroundWork;
use crate::Ns;

/// A change to the drives of a system.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SystemChange {
    /// A member of an array fails: its drive completes everything at once without data, and the array continues without
    /// it. If the array has a spare and settings for rebuilds, a rebuild starts.
    Fail {
        /// The array, by position.
        array: usize,
        /// The member, by position.
        member: u16,
    },
    /// A new drive of the same model replaces a failed member and is rebuilt.
    Replace {
        /// The array, by position.
        array: usize,
        /// The member, by position.
        member: u16,
        /// Settings of the rebuild; those of the array, or [`BackgroundWork::default`], if `None`.
        settings: Option<BackgroundWork>,
    },
    /// All service times of a drive are multiplied by this factor; 1 undoes it. Requests in service end as scheduled.
    Slow {
        /// The drive, by number over all groups.
        drive: u32,
        /// A factor within [`SLOWDOWN_FACTOR_RANGE`].
        factor: f64,
    },
    /// A drive stops completing requests, or resumes.
    Hang {
        /// The drive, by number over all groups.
        drive: u32,
        /// True to hang it, false to resume it.
        on: bool,
    },
}

/// Smallest and largest factor of [`SystemChange::Slow`].
pub const SLOWDOWN_FACTOR_RANGE: (f64, f64) = (0.001, 1e6);

/// A change with its time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScheduledChange {
    /// Virtual time since the start of the run, including the warm-up.
    pub time_ns: Ns,
    /// The change.
    pub change: SystemChange,
}

impl Default for BackgroundWork {
    /// Steps of 512 KB, one at a time, without a rate limit.
    fn default() -> BackgroundWork {
        BackgroundWork { step_blocks: (512 << 10) / crate::io::BLOCK_BYTES as u32, depth: 1, rate: None }
    }
}

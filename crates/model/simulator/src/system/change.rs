//! What happens to a system in the course of a run, as data.

use super::Background;
use crate::Ns;

/// Something that happens to the drives of a system.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SystemChange {
    /// A member of an array fails: its drive answers everything at once with nothing, and the array
    /// goes on without it. Where the set has a spare and says how it rebuilds, that begins.
    Fail {
        /// The array, by position.
        array: usize,
        /// The member, by position.
        member: u16,
    },
    /// A fresh drive of the same model comes into the place of a failed member, and is rebuilt.
    Replace {
        /// The array, by position.
        array: usize,
        /// The member, by position.
        member: u16,
        /// How it is rebuilt; as the set says, or as [`Background::default`].
        settings: Option<Background>,
    },
    /// Everything that a drive does takes this factor longer; 1 undoes it. What is under way ends as foreseen.
    Slow {
        /// The drive, by number over all groups.
        drive: u32,
        /// From [`SLOWEST`]`.0` to `.1`.
        factor: f64,
    },
    /// A drive answers nothing any more, or goes on with what waits for it.
    Hang {
        /// The drive, by number over all groups.
        drive: u32,
        /// It hangs; else it is released.
        on: bool,
    },
}

/// The least and the largest factor of [`SystemChange::Slow`].
pub const SLOWEST: (f64, f64) = (0.001, 1e6);

/// A change at its moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScheduledChange {
    /// When, virtual time from the beginning of the run, warming up included.
    pub at: Ns,
    /// What.
    pub change: SystemChange,
}

impl Default for Background {
    /// Steps of 512 KB, one at a time, as fast as they go.
    fn default() -> Background {
        Background { step_blocks: (512 << 10) / crate::io::BLOCK_BYTES as u32, depth: 1, rate: None }
    }
}

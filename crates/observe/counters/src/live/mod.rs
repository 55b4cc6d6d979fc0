//! Live capture on Linux. A [`Sampler`] reads `/proc` and `/sys` once a tick
//! and gives a row of cells under a schema, and notes beside it.
//!
//! Reading order: [`Sampler`] (one tick), `totals.rs` (from the kernel's
//! running numbers to cells; wraps, resets and devices that come and go are
//! settled there and nowhere else), `held.rs` (files that stay open), then the
//! sources, one file or folder each in `sources/`.
//!
//! What cannot be read is a gap in the cells and an `unseen` or `gap` note,
//! never an error: a recorder that stops because a file is missing is of no
//! use on the machine that is in trouble.

mod clock;
mod events;
pub mod fake;
mod held;
mod moment;
pub mod mountinfo;
mod notes;
mod sampler;
pub mod scan;
pub mod sources;
mod totals;

use std::path::PathBuf;
use std::time::Duration;

pub use clock::{Clock, ClockReading, SystemClock};
pub use sampler::{AttachedColumns, Sampler};
pub use sources::{SOURCES, SourceInfo};

/// Where the kernel's files are. Everything the sampler touches lies below
/// these, so a made-up tree drives all of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roots {
    /// The proc filesystem.
    pub proc: PathBuf,
    /// The sys filesystem.
    pub sys: PathBuf,
    /// What mount points and cgroup mounts are looked up below.
    pub root: PathBuf,
}

impl Default for Roots {
    fn default() -> Roots {
        Roots { proc: "/proc".into(), sys: "/sys".into(), root: "/".into() }
    }
}

impl Roots {
    /// A tree that holds `proc` and `sys` folders.
    pub fn under(root: impl Into<PathBuf>) -> Roots {
        let root = root.into();
        Roots { proc: root.join("proc"), sys: root.join("sys"), root }
    }

    /// An absolute path of the machine, below the root.
    pub fn at(&self, path: &str) -> PathBuf {
        // the kernel's own /sys may be somewhere else than below the root
        match path.strip_prefix("/sys/") {
            Some(rest) => self.sys.join(rest),
            None => self.root.join(path.trim_start_matches('/')),
        }
    }
}

/// What to look at, and how often the costly part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SamplerOptions {
    /// The slow beat: processes, free space, topology, the search for new
    /// control groups, another try at files that could not be read.
    pub slow_every: Duration,
    /// Look at processes.
    pub processes: bool,
    /// Look at the free space of filesystems.
    pub filesystems: bool,
    /// Look at control groups.
    pub cgroups: bool,
    /// At most so many control groups are followed.
    pub most_cgroups: usize,
}

impl Default for SamplerOptions {
    fn default() -> SamplerOptions {
        SamplerOptions {
            slow_every: Duration::from_secs(5),
            processes: true,
            filesystems: true,
            cgroups: true,
            most_cgroups: 200,
        }
    }
}

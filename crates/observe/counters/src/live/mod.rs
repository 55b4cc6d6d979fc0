//! Live capture on Linux. A [`Sampler`] reads `/proc` and `/sys` once per tick and returns a row of cells under a
//! schema, with notes.
//!
//! Reading order: [`Sampler`] (one tick), `counter_table.rs` (from the kernel's running numbers to cells; wraps, resets
//! and devices that appear and disappear are handled only there), `open_file.rs` (files that stay open), then the
//! sources, one file or folder each in `sources/`.
//!
//! Data that cannot be read give a gap in the cells and an `unseen` or `gap` note, never an error: a recorder that
//! stops because a file is missing is useless on a machine in trouble.

mod blocked_process;
mod clock;
mod counter_table;
mod device_events;
pub mod fake;
pub mod mountinfo;
mod note_collector;
mod open_file;
mod sampler;
mod source_process;
mod source_reader;
mod source_wire;
pub mod sources;
pub mod text_scan;
pub mod thread_priority;
mod tick_context;
mod watched_read;

use std::path::PathBuf;
use std::time::Duration;

pub use clock::{Clock, ClockReading, SystemClock};
pub use sampler::{AttachedColumns, Sampler, TopologyFacts};
pub use source_process::serve_sources;
pub use sources::{SOURCES, SourceInfo};

/// Locations of the kernel's files. The sampler reads nothing outside of them, so a fake tree can drive all of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roots {
    /// The proc filesystem.
    pub proc: PathBuf,
    /// The sys filesystem.
    pub sys: PathBuf,
    /// Root folder below which mount points and cgroup mounts are looked up.
    pub root: PathBuf,
}

impl Default for Roots {
    fn default() -> Roots {
        Roots { proc: "/proc".into(), sys: "/sys".into(), root: "/".into() }
    }
}

impl Roots {
    /// The roots of a tree that holds `proc` and `sys` folders.
    pub fn from_root(root: impl Into<PathBuf>) -> Roots {
        let root = root.into();
        Roots { proc: root.join("proc"), sys: root.join("sys"), root }
    }

    /// Translates an absolute path of the machine to a path below the roots.
    pub fn resolve_path(&self, path: &str) -> PathBuf {
        // /sys may be configured elsewhere than below the root
        match path.strip_prefix("/sys/") {
            Some(rest) => self.sys.join(rest),
            None => self.root.join(path.trim_start_matches('/')),
        }
    }
}

/// Scope of sampling, and the interval of its costly part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SamplerOptions {
    /// Interval of the costly work: the scan of processes, free space and topology, the search for new control groups,
    /// and another try at files that could not be read.
    pub slow_interval: Duration,
    /// Sample processes.
    pub processes: bool,
    /// Sample the free space of filesystems.
    pub filesystems: bool,
    /// Sample control groups.
    pub cgroups: bool,
    /// Largest number of control groups that are followed.
    pub max_cgroups: usize,
    /// Schedule the reading thread before other threads, as far as the kernel allows.
    pub raises_priority: bool,
    /// The process for which this one reads. The threads of both wait for each other and are not listed as sleepers.
    pub sampling_process: Option<u32>,
}

impl Default for SamplerOptions {
    fn default() -> SamplerOptions {
        SamplerOptions {
            slow_interval: Duration::from_secs(5),
            processes: true,
            filesystems: true,
            cgroups: true,
            max_cgroups: 200,
            raises_priority: false,
            sampling_process: None,
        }
    }
}

//! State that the sources share during one tick.

use super::note_collector::NoteCollector;
use super::{Roots, SamplerOptions};

/// Times of a tick.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct TickTimes {
    /// Wall clock, nanoseconds since 1970 UTC.
    pub time_ns: i64,
    /// Running time, nanoseconds.
    pub running_ns: u64,
    /// Time since boot, nanoseconds, sleep included.
    pub since_boot_ns: u64,
    /// Running time since the tick before, nanoseconds; 0 on the first.
    pub elapsed_ns: u64,
    /// This tick is a slow one.
    pub is_slow_tick: bool,
}

/// State of one tick that the sources read and set.
pub(crate) struct TickContext<'a> {
    /// Locations of the kernel's files.
    pub roots: &'a Roots,
    /// Scope and interval of sampling.
    pub options: &'a SamplerOptions,
    /// Collector of notes.
    pub notes: &'a mut NoteCollector,
    /// Wall clock, nanoseconds since 1970 UTC.
    pub time_ns: i64,
    /// Running time, nanoseconds.
    pub running_ns: u64,
    /// Time since boot, nanoseconds, sleep included.
    pub since_boot_ns: u64,
    /// Running time since the tick before, nanoseconds; 0 on the first.
    pub elapsed_ns: u64,
    /// This tick is a slow one.
    pub is_slow_tick: bool,
    /// This tick is a slow one, and devices may have changed since the last.
    pub devices_due: bool,
    /// A source saw tasks waiting: the processes are scanned at once.
    pub processes_due: bool,
    /// A source saw devices or mounts appear or disappear: the topology is read at once.
    pub topology_due: bool,
}

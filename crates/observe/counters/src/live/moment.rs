//! What the sources share during one tick.

use super::notes::NoteCollector;
use super::{Roots, SamplerOptions};

/// One tick as the sources see it.
pub(crate) struct TickContext<'a> {
    /// Where the files are.
    pub roots: &'a Roots,
    /// What to look at.
    pub options: &'a SamplerOptions,
    /// Gatherer of notes.
    pub notes: &'a mut NoteCollector,
    /// Wall clock, nanoseconds since 1970 UTC.
    pub time_ns: i64,
    /// Running time, nanoseconds.
    pub running_ns: u64,
    /// Time since boot, nanoseconds, sleep included.
    pub since_boot_ns: u64,
    /// Running time since the tick before, nanoseconds; 0 on the first.
    pub elapsed_ns: u64,
    /// The slow beat falls into this tick.
    pub slow: bool,
    /// A slow beat at which devices may be others than at the last, or in another state.
    pub devices_due: bool,
    /// A source saw that somebody waits: the processes are looked at at once.
    pub trouble: bool,
    /// A source saw that devices or mounts came or went: the topology is read at once.
    pub rescan: bool,
}

//! What happened to a request on its way through the block layer, as blktrace
//! and blkparse tell it.

use diskwright_base::Operation;

/// Kinds of events that a request is built from. The others (merges, plugs,
/// inserts, sleeps, messages) add nothing to arrival, issue and completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TraceEventKind {
    /// Q: asked for.
    Queue,
    /// A: turned to this place from [`TraceEvent::source`]; a Q may follow.
    Remap,
    /// X: cut in two at [`TraceEvent::other`]; both parts go on.
    Split,
    /// D: went to the device.
    Issue,
    /// R: came back from the driver, to be issued again.
    Requeue,
    /// C: done.
    Complete,
}

/// One event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TraceEvent {
    /// Kernel's number of the device.
    pub(crate) device: u32,
    pub(crate) kind: TraceEventKind,
    pub(crate) operation: Operation,
    /// First sector.
    pub(crate) sector: u64,
    /// Sectors; 0 for a flush.
    pub(crate) sectors: u32,
    /// Of a split: where the second part begins, sector. Of a remap: where it
    /// was asked for on the device that it came from.
    pub(crate) other: u64,
    /// Of a remap: the device that it came from.
    pub(crate) source: u32,
}

/// Sectors lie below this, so that a place in bytes fits 64 bits and a place
/// and an operation fit one key.
pub(crate) const MOST_SECTORS: u64 = 1 << 55;

/// The kernel's device number in its parts.
pub(crate) fn major_minor(device: u32) -> (u32, u32) {
    (device >> 20, device & 0xf_ffff)
}

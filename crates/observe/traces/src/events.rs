//! Events of requests in the block layer, as blktrace and blkparse write them.

use diskwright_base::Operation;

/// Kinds of events from which a request is built. Other events (merges, plugs, inserts, sleeps, messages) add nothing
/// to arrival, issue and completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TraceEventKind {
    /// Q: submitted to the device's queue.
    Queue,
    /// A: remapped to this place from [`TraceEvent::source_device`]; a Q may follow.
    Remap,
    /// X: split at [`TraceEvent::other_sector`]; both parts continue.
    Split,
    /// D: issued to the device.
    Issue,
    /// R: returned by the driver, to be issued again.
    Requeue,
    /// C: completed.
    Complete,
}

/// One event of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TraceEvent {
    /// The kernel's number of the device.
    pub(crate) device: u32,
    pub(crate) kind: TraceEventKind,
    pub(crate) operation: Operation,
    /// First sector.
    pub(crate) sector: u64,
    /// Number of sectors; 0 for a flush.
    pub(crate) sectors: u32,
    /// For a split: first sector of the second part. For a remap: the sector on the device that it came from.
    pub(crate) other_sector: u64,
    /// For a remap: the device that it came from.
    pub(crate) source_device: u32,
}

/// Upper limit of sector numbers: below it, an offset in bytes fits into 64 bits, and a sector and an operation fit
/// into one key.
pub(crate) const MAX_SECTOR: u64 = 1 << 55;

/// Splits the kernel's device number into major and minor.
pub(crate) fn major_minor(device: u32) -> (u32, u32) {
    (device >> 20, device & 0xf_ffff)
}

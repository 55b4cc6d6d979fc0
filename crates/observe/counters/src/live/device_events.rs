//! Detection of devices that appear, disappear or change. The kernel numbers its device events (uevents), and one file
//! holds the newest number: while it is unchanged, devices need not be scanned.

use super::Roots;
use super::open_file::OpenFile;
use super::source_reader::SourceOpener;
use super::sources::CounterSource;
use super::tick_context::TickContext;

/// Longest time between two scans of devices and mounts, nanoseconds.
pub(crate) const MAX_AGE_NS: u64 = 60_000_000_000;

/// The newest event number, and the time of the last scan of devices.
pub(crate) struct DeviceEvents {
    sequence_file: OpenFile,
    last_sequence: Vec<u8>,
    scanned_ns: Option<u64>,
    /// A second scan follows a change, because the event of a removed device precedes its removal.
    repeat_scan: bool,
}

impl DeviceEvents {
    /// Prepares to read the event number below these roots.
    fn new(roots: &Roots) -> DeviceEvents {
        DeviceEvents {
            sequence_file: OpenFile::in_one_read(roots.sys.join("kernel/uevent_seqnum"), "").without_notes(),
            last_sequence: Vec::new(),
            scanned_ns: None,
            repeat_scan: false,
        }
    }

    /// Opens this source, which must be the first of a tick.
    pub const OPENER: SourceOpener = |roots, _| Some(Box::new(DeviceEvents::new(roots)));

    /// Returns true if devices must be scanned at this slow tick; always true if the kernel does not show the number.
    fn is_scan_due(&mut self, context: &mut TickContext) -> bool {
        let now_ns = context.running_ns;
        let is_old = self.scanned_ns.is_none_or(|scanned_ns| now_ns.saturating_sub(scanned_ns) >= MAX_AGE_NS);
        let Some(number) = self.sequence_file.read(context) else { return true };
        let has_changed = number != self.last_sequence;
        if has_changed {
            self.last_sequence = number.to_vec();
        }
        let is_due = has_changed || self.repeat_scan || is_old;
        self.repeat_scan = has_changed;
        if is_due {
            self.scanned_ns = Some(now_ns);
        }
        is_due
    }
}

impl CounterSource for DeviceEvents {
    fn read_tick(&mut self, context: &mut TickContext) {
        context.devices_due = context.is_slow_tick && self.is_scan_due(context);
    }
}

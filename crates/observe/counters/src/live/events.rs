//! Detection of devices that appear, disappear or change. The kernel numbers its events about them (uevents), and one
//! file has the newest number: while it is unchanged, devices need not be listed or checked for use.

use super::Roots;
use super::held::OpenFile;
use super::moment::TickContext;

/// Longest time between two scans of devices and mounts, nanoseconds.
pub(crate) const AGAIN_NS: u64 = 60_000_000_000;

/// The newest event number, and the time of the last scan of devices.
pub(crate) struct DeviceEvents {
    number: OpenFile,
    known: Vec<u8>,
    looked_ns: Option<u64>,
    /// A second scan follows a change, because a device is reported before it has gone.
    once_more: bool,
}

impl DeviceEvents {
    /// Watches the event number below these roots.
    pub fn new(roots: &Roots) -> DeviceEvents {
        DeviceEvents {
            number: OpenFile::whole(roots.sys.join("kernel/uevent_seqnum"), "").quiet(),
            known: Vec::new(),
            looked_ns: None,
            once_more: false,
        }
    }

    /// Returns true, at a slow tick, if devices must be scanned; always, where the kernel does not show the number.
    pub fn are_due(&mut self, context: &mut TickContext) -> bool {
        let now_ns = context.running_ns;
        let old = self.looked_ns.is_none_or(|looked| now_ns.saturating_sub(looked) >= AGAIN_NS);
        let Some(number) = self.number.read(context) else { return true };
        let changed = number != self.known;
        if changed {
            self.known = number.to_vec();
        }
        let due = changed || self.once_more || old;
        self.once_more = changed;
        if due {
            self.looked_ns = Some(now_ns);
        }
        due
    }
}

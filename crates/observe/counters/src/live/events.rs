//! Whether devices may have come, gone or changed. The kernel numbers what it reports of them (uevents), and one file
//! has the newest number: while that stands still, nobody need list devices or ask whether they are in use.

use super::Roots;
use super::held::OpenFile;
use super::moment::TickContext;

/// Devices and mounts are looked at so often in any case, nanoseconds.
pub(crate) const AGAIN_NS: u64 = 60_000_000_000;

/// The newest number, and when devices were last looked at because of it.
pub(crate) struct DeviceEvents {
    number: OpenFile,
    known: Vec<u8>,
    looked_ns: Option<u64>,
    /// A device is reported before it has gone: what changed is looked at a second time.
    once_more: bool,
}

impl DeviceEvents {
    pub fn new(roots: &Roots) -> DeviceEvents {
        DeviceEvents {
            number: OpenFile::whole(roots.sys.join("kernel/uevent_seqnum"), "").quiet(),
            known: Vec::new(),
            looked_ns: None,
            once_more: false,
        }
    }

    /// Slow beat: true where devices have to be looked at; always, where the kernel does not show the number.
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

//! sysfs: the devices, their properties, and their stacking. Recorded as a note at the start and after each change.
//!
//! Only leaves are summed, so the devices below a device matter: the disk of a partition, the members of an array, the
//! disk under the file of a loop device. A loop device over a file in memory, on another machine, or served by a user
//! process (FUSE) is a leaf.

mod block;
mod device_class;
mod device_stack;
mod links;

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;

use diskwright_base::{Note, Topology};

use crate::live::mountinfo;
use crate::live::open_file::{read_bytes, read_text};
use crate::live::text_scan::{split_key_and_number, text_lines};
use crate::live::tick_context::TickContext;
use crate::live::{Roots, SamplerOptions};

use super::{CounterSource, SourceInfo};

/// This source.
pub const SOURCE: SourceInfo = SourceInfo {
    id: "topology",
    files: &["/sys/block", "/sys/fs/btrfs", "/proc/self/mountinfo", "/proc/swaps"],
    explain: "Devices, arrays, filesystems and swap areas, and how they are stacked.",
    parse_any: |bytes| _ = black_box(mountinfo::parse_mounts(bytes)),
    open: |_: &Roots, _: &SamplerOptions| Some(Box::new(TopologySource::default())),
};

#[derive(Default)]
struct TopologySource {
    last: Option<Arc<Topology>>,
    /// Running time of the last reading.
    read_ns: u64,
    /// Devices may have changed since the last reading.
    has_pending_change: bool,
    missing_noted: bool,
}

impl CounterSource for TopologySource {
    fn read_tick(&mut self, context: &mut TickContext) {
        // only a kernel event shows that another device has taken an old name; attributes change
        // without an event, so devices are also scanned from time to time
        self.has_pending_change |= context.topology_due || context.devices_due;
        // changes come in bursts, and with a thousand disks a scan is not cheap
        let is_old_enough = context.running_ns.saturating_sub(self.read_ns) >= 1_000_000_000;
        if self.last.is_some() && !(self.has_pending_change && is_old_enough) {
            return;
        }
        self.has_pending_change = false;
        self.read_ns = context.running_ns;
        let now = read_topology(context.roots);
        if now.devices.is_empty() && !self.missing_noted {
            self.missing_noted = true;
            let text = format!(
                "{}: no block device can be seen, so the stacking of devices is unknown",
                context.roots.sys.join("block").display()
            );
            context.notes.push(context.time_ns, Note::UNSEEN, text);
        }
        if self.last.as_deref() != Some(&now) {
            let now = Arc::new(now);
            context.notes.push_note(Note::topology(context.time_ns, Arc::clone(&now)));
            self.last = Some(now);
        }
    }
}

/// Reads the topology of the machine.
pub fn read_topology(roots: &Roots) -> Topology {
    let kernel = roots.proc.join("sys/kernel");
    let (devices, filesystems, swaps) = device_stack::read_stack(roots);
    Topology {
        host: read_text(&kernel.join("hostname")).unwrap_or_default(),
        kernel: read_text(&kernel.join("osrelease")).unwrap_or_default(),
        processors: online_processors(&read_bytes(&roots.proc.join("stat")).unwrap_or_default()),
        memory_bytes: memory_bytes(&read_bytes(&roots.proc.join("meminfo")).unwrap_or_default()),
        // files of another machine do not show its page size
        page_bytes: if roots.root == Path::new("/") { rustix::param::page_size() as u64 } else { 0 },
        devices,
        cloud_instance: None,
        filesystems,
        swaps,
    }
}

fn online_processors(stat: &[u8]) -> u32 {
    let online = text_lines(stat).filter(|l| l.starts_with(b"cpu") && l.get(3).is_some_and(u8::is_ascii_digit)).count();
    u32::try_from(online).unwrap_or(u32::MAX)
}

/// Physical memory, bytes; 0 where it is unknown.
pub(crate) fn memory_bytes(meminfo: &[u8]) -> u64 {
    let total = text_lines(meminfo).filter_map(split_key_and_number).find(|(key, _)| *key == b"MemTotal");
    total.and_then(|(_, kib)| kib).and_then(|kib| kib.checked_mul(1024)).unwrap_or(0)
}

#[cfg(test)]
mod tests;

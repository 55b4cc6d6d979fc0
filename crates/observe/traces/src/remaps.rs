//! Follows requests from device to device.
//!
//! LVM, md and partitions turn a request to another place (A). What stood on the
//! first device is then the same request as what comes to the second one, and
//! counts there alone. A request that no remap touches counts where it is: its
//! device may stand on others that were not traced.
//!
//! ```text
//! 253,0 Q 100          asked of a volume
//! 8,2   A 2148 <- (253,0) 100     turned to a partition
//! 8,0   A 4196 <- (8,2) 2148      and that to its disk
//! 8,0   Q 4196         asked of the disk (not where the same request is passed on)
//! ```
//!
//! Older kernels and tools name the disk in the second line too.

use diskwright_base::Operation;

use crate::events::{TraceEvent, TraceEventKind};
use crate::matching::{Matcher, Pieces, key};

/// Remaps of a remap that are followed.
const MOST_STEPS: usize = 16;
/// Pieces looked at for those that a remap takes.
const MOST_TAKEN: usize = 64;

/// What an open request is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Turned to this place, and nothing more happened to it.
    Remapped,
    /// A request of its device.
    Asked,
    /// Went on to the device of this table.
    PassedTo(usize),
    /// The same request stands behind it once more.
    Replaced,
}

impl Standing {
    /// Of a request that comes to a device by this event.
    pub(crate) fn of(kind: TraceEventKind) -> Standing {
        if kind == TraceEventKind::Remap { Standing::Remapped } else { Standing::Asked }
    }

    /// Something happened that only a request has.
    pub(crate) fn happened(&mut self) {
        if *self == Standing::Remapped {
            *self = Standing::Asked;
        }
    }
}

impl Matcher {
    /// A remap came to a device: says so of the request on the device that it left.
    pub(crate) fn follow(&mut self, to: usize, event: &TraceEvent) {
        let from = self.by_kernel_number.get(&event.source).copied().filter(|from| *from != to);
        if event.operation == Operation::Flush {
            return self.follow_flush(from, to);
        }
        let end = event.other.saturating_add(u64::from(event.sectors));
        if let Some(from) = from {
            if self.replace_remap(from, event.operation, event.other, end) {
                self.tables[from].leads_to = Some(to);
                return;
            }
            if self.pass_on(from, to, event.operation, event.other, end) {
                return;
            }
        }
        // the partition before it bears the disk's name
        self.replace_remap(to, event.operation, event.other, end);
    }

    /// Marks the requests of a device that lie in `sector..end`; false where there are none.
    fn pass_on(&mut self, from: usize, to: usize, operation: Operation, sector: u64, end: u64) -> bool {
        let overlapping = |pieces: &Pieces| -> Vec<u64> {
            let range = key(operation, 0, 0)..key(operation, end, 0);
            let found = pieces.range(range).rev().take(MOST_TAKEN).filter(|(_, to)| **to > sector);
            found.map(|(key, _)| key.1).collect()
        };
        let table = &self.tables[from];
        let mut ids = overlapping(&table.waiting);
        // device mapper's own queues issue before they pass on
        ids.extend(overlapping(&table.flying));
        for id in &ids {
            self.pass(*id, to);
        }
        !ids.is_empty()
    }

    fn pass(&mut self, id: u64, to: usize) {
        if let Some(held) = self.held(id)
            && held.standing == Standing::Asked
        {
            held.standing = Standing::PassedTo(to);
        }
    }

    fn follow_flush(&mut self, from: Option<usize>, to: usize) {
        if let Some(from) = from {
            if self.replace_flush(from) {
                self.tables[from].leads_to = Some(to);
                return;
            }
            let table = &self.tables[from];
            let ids: Vec<u64> = table.waiting_flushes.iter().chain(&table.flying_flushes).copied().collect();
            if !ids.is_empty() {
                return ids.into_iter().for_each(|id| self.pass(id, to));
            }
        }
        self.replace_flush(to);
    }

    /// A remap to just this place gives way to what it becomes; false where there is none.
    pub(crate) fn replace_remap(&mut self, table: usize, operation: Operation, sector: u64, end: u64) -> bool {
        let alike = self.tables[table].waiting.range(key(operation, sector, 0)..=key(operation, sector, u64::MAX));
        let Some((found, _)) = alike.rev().take(1).find(|(_, to)| **to == end) else { return false };
        let found = *found;
        let replaced = self.replace(found.1);
        if replaced {
            self.tables[table].waiting.remove(&found);
        }
        replaced
    }

    pub(crate) fn replace_flush(&mut self, table: usize) -> bool {
        let Some(id) = self.tables[table].waiting_flushes.back().copied() else { return false };
        let replaced = self.replace(id);
        if replaced {
            self.tables[table].waiting_flushes.pop_back();
        }
        replaced
    }

    fn replace(&mut self, id: u64) -> bool {
        let remap = self.held(id).filter(|held| held.standing == Standing::Remapped);
        remap.map(|held| held.standing = Standing::Replaced).is_some()
    }

    /// True where requests that come to a table's device, or to what it is turned to, are
    /// in the trace. The trace of one partition names its disk in remaps alone.
    pub(crate) fn is_seen(&self, table: usize) -> bool {
        let next = |index: &usize| self.tables.get(*index).and_then(|table| table.leads_to);
        std::iter::successors(Some(table), next)
            .take(MOST_STEPS)
            .any(|index| self.tables.get(index).is_some_and(|table| table.active))
    }
}

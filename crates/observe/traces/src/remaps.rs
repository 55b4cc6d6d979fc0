//! Follows requests from device to device.
//!
//! LVM, md and partitions remap a request to another place (A). The request on the
//! first device is then the same as the one on the second device, and counts only
//! there. A request without a remap counts on its device, which may be stacked on
//! others that were not traced.
//!
//! ```text
//! 253,0 Q 100          queued on a volume
//! 8,2   A 2148 <- (253,0) 100     remapped to a partition
//! 8,0   A 4196 <- (8,2) 2148      and from there to its disk
//! 8,0   Q 4196         queued on the disk (absent if the same request is passed on)
//! ```
//!
//! Older kernels and tools name the disk in the second line too.

use diskwright_base::Operation;

use crate::events::{TraceEvent, TraceEventKind};
use crate::matching::{Matcher, Pieces, key};

/// Largest number of successive remaps that are followed.
const MOST_STEPS: usize = 16;
/// Largest number of pieces searched for those that a remap passes on.
const MOST_TAKEN: usize = 64;

/// State of an open request, which decides where it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Remapped to this place, with no later event.
    Remapped,
    /// A request of its device.
    Asked,
    /// Passed on to the device with this index.
    PassedTo(usize),
    /// Replaced by a later entry of the same request.
    Replaced,
}

impl Standing {
    /// Returns the state of a request that arrives at a device by this event.
    pub(crate) fn of(kind: TraceEventKind) -> Standing {
        if kind == TraceEventKind::Remap { Standing::Remapped } else { Standing::Asked }
    }

    /// Notes an event that proves this to be a request of its device.
    pub(crate) fn happened(&mut self) {
        if *self == Standing::Remapped {
            *self = Standing::Asked;
        }
    }
}

impl Matcher {
    /// Processes a remap to a device: marks the request on the device that it came from.
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
        // the remap to the partition before it has the disk's number
        self.replace_remap(to, event.operation, event.other, end);
    }

    /// Marks the requests of a device in `sector..end` as passed on; returns false if there are none.
    fn pass_on(&mut self, from: usize, to: usize, operation: Operation, sector: u64, end: u64) -> bool {
        let overlapping = |pieces: &Pieces| -> Vec<u64> {
            let range = key(operation, 0, 0)..key(operation, end, 0);
            let found = pieces.range(range).rev().take(MOST_TAKEN).filter(|(_, to)| **to > sector);
            found.map(|(key, _)| key.1).collect()
        };
        let table = &self.tables[from];
        let mut ids = overlapping(&table.waiting);
        // devices of the device mapper with their own queue issue before they pass on
        ids.extend(overlapping(&table.flying));
        for id in &ids {
            self.pass(*id, to);
        }
        !ids.is_empty()
    }

    /// Marks one request as passed on.
    fn pass(&mut self, id: u64, to: usize) {
        if let Some(held) = self.held(id)
            && held.standing == Standing::Asked
        {
            held.standing = Standing::PassedTo(to);
        }
    }

    /// Processes a remap of a flush.
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

    /// Replaces a remap to exactly this place, because its next event adds a new entry; returns false if none exists.
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

    /// Replaces the last remapped flush of a device; returns false if there is none.
    pub(crate) fn replace_flush(&mut self, table: usize) -> bool {
        let Some(id) = self.tables[table].waiting_flushes.back().copied() else { return false };
        let replaced = self.replace(id);
        if replaced {
            self.tables[table].waiting_flushes.pop_back();
        }
        replaced
    }

    /// Marks a remapped request as replaced; returns false if it has another state.
    fn replace(&mut self, id: u64) -> bool {
        let remap = self.held(id).filter(|held| held.standing == Standing::Remapped);
        remap.map(|held| held.standing = Standing::Replaced).is_some()
    }

    /// Returns true if the trace contains requests of a device, or of one to which it is
    /// remapped. The trace of one partition mentions its disk only in remaps.
    pub(crate) fn is_seen(&self, table: usize) -> bool {
        let next = |index: &usize| self.tables.get(*index).and_then(|table| table.leads_to);
        std::iter::successors(Some(table), next)
            .take(MOST_STEPS)
            .any(|index| self.tables.get(index).is_some_and(|table| table.active))
    }
}

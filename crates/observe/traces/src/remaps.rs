//! Follows requests from device to device.
//!
//! LVM, md and partitions remap a request to another place (A). The request on the first device is then the same as the
//! request on the second device, and counts only there. A request without a remap counts on its device, which may be
//! stacked on other devices that were not traced.
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
use crate::matcher::{Matcher, Pieces, piece_key};

/// Largest number of successive remaps that are followed.
const MAX_REMAP_STEPS: usize = 16;
/// Largest number of pieces that are searched for those that a remap passes on.
const MAX_REMAPPED_PIECES: usize = 64;

/// State of an open request, which decides where it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestState {
    /// Remapped to this device, without a later event so far.
    Remapped,
    /// A request of its device.
    Queued,
    /// Passed on to the device with this index.
    PassedTo(usize),
    /// Replaced by a later open request, which is the same request at its next place.
    Replaced,
}

impl RequestState {
    /// Returns the state of a request that arrives at a device by this event.
    pub(crate) fn from_event_kind(kind: TraceEventKind) -> RequestState {
        if kind == TraceEventKind::Remap { RequestState::Remapped } else { RequestState::Queued }
    }

    /// Notes an event that proves this to be a request of its device.
    pub(crate) fn confirm_request(&mut self) {
        if *self == RequestState::Remapped {
            *self = RequestState::Queued;
        }
    }
}

impl Matcher {
    /// Processes a remap to a device: marks the requests on the device from which it came.
    pub(crate) fn follow_remap(&mut self, to: usize, event: &TraceEvent) {
        let from = self.by_kernel_number.get(&event.source_device).copied().filter(|from| *from != to);
        if event.operation == Operation::Flush {
            return self.follow_flush(from, to);
        }
        let end = event.other_sector.saturating_add(u64::from(event.sectors));
        if let Some(from) = from {
            if self.replace_remap(from, event.operation, event.other_sector, end) {
                self.device_states[from].remapped_to = Some(to);
                return;
            }
            if self.pass_on_requests(from, to, event.operation, event.other_sector, end) {
                return;
            }
        }
        // older kernels give the disk's number to the earlier remap to the partition too
        self.replace_remap(to, event.operation, event.other_sector, end);
    }

    /// Marks the requests of a device in `sector..end` as passed on; returns false if there are none.
    fn pass_on_requests(&mut self, from: usize, to: usize, operation: Operation, sector: u64, end: u64) -> bool {
        let overlapping = |pieces: &Pieces| -> Vec<u64> {
            let range = piece_key(operation, 0, 0)..piece_key(operation, end, 0);
            let candidates = pieces.range(range).rev().take(MAX_REMAPPED_PIECES);
            candidates.filter(|(_, to)| **to > sector).map(|(key, _)| key.1).collect()
        };
        let device = &self.device_states[from];
        let mut ids = overlapping(&device.waiting);
        // devices of the device mapper that have a queue issue requests before they pass them on
        ids.extend(overlapping(&device.in_flight));
        for id in &ids {
            self.pass_on_request(*id, to);
        }
        !ids.is_empty()
    }

    /// Marks one request as passed on.
    fn pass_on_request(&mut self, id: u64, to: usize) {
        if let Some(open) = self.find_open_request(id)
            && open.state == RequestState::Queued
        {
            open.state = RequestState::PassedTo(to);
        }
    }

    /// Processes a remap of a flush.
    fn follow_flush(&mut self, from: Option<usize>, to: usize) {
        if let Some(from) = from {
            if self.replace_flush(from) {
                self.device_states[from].remapped_to = Some(to);
                return;
            }
            let device = &self.device_states[from];
            let ids: Vec<u64> = device.waiting_flushes.iter().chain(&device.in_flight_flushes).copied().collect();
            if !ids.is_empty() {
                return ids.into_iter().for_each(|id| self.pass_on_request(id, to));
            }
        }
        self.replace_flush(to);
    }

    /// Marks a remapped request at exactly this place as replaced, because its next event adds a new open request;
    /// returns false if there is none.
    pub(crate) fn replace_remap(&mut self, device: usize, operation: Operation, sector: u64, end: u64) -> bool {
        let same_place = self.device_states[device]
            .waiting
            .range(piece_key(operation, sector, 0)..=piece_key(operation, sector, u64::MAX));
        let Some((&key, _)) = same_place.rev().take(1).find(|(_, to)| **to == end) else { return false };
        let is_replaced = self.replace_request(key.1);
        if is_replaced {
            self.device_states[device].waiting.remove(&key);
        }
        is_replaced
    }

    /// Marks the last flush of a device as replaced, if it was remapped; returns false if there is none.
    pub(crate) fn replace_flush(&mut self, device: usize) -> bool {
        let Some(id) = self.device_states[device].waiting_flushes.back().copied() else { return false };
        let is_replaced = self.replace_request(id);
        if is_replaced {
            self.device_states[device].waiting_flushes.pop_back();
        }
        is_replaced
    }

    /// Marks a remapped request as replaced; returns false if it has another state.
    fn replace_request(&mut self, id: u64) -> bool {
        let Some(open) = self.find_open_request(id).filter(|open| open.state == RequestState::Remapped) else {
            return false;
        };
        open.state = RequestState::Replaced;
        true
    }

    /// Returns true if the trace contains requests of a device, or of a device to which it is remapped. The trace of
    /// one partition mentions its disk only in remaps.
    pub(crate) fn is_device_traced(&self, device: usize) -> bool {
        let next = |index: &usize| self.device_states.get(*index).and_then(|device| device.remapped_to);
        std::iter::successors(Some(device), next)
            .take(MAX_REMAP_STEPS)
            .any(|index| self.device_states.get(index).is_some_and(|device| device.is_active))
    }
}

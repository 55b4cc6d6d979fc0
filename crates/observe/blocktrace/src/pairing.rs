//! Pairing of events into requests.
//!
//! A bio arrives at a device (queue), and gets a request or joins one (start, merges); the request goes to the driver
//! (issue) and completes (completion). Events carry no id of a request, so they are paired by device, first sector and
//! class of operation, first in first out if several are equal. Devices without requests (zram, device mapper, md)
//! have only the first and the last step. Events must come in order of time.

use std::collections::{HashMap, HashSet, VecDeque};

use crate::devices::BlockDeviceNames;
use crate::event::{BlockEvent, BlockEventKind, TracedOperation};
use crate::fifo_map::{FifoMap, PlaceKey};

/// A request from beginning to end. Times are the trace clock's, nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TracedRequest {
    /// The disk (never a partition), the kernel's own number.
    pub device: u32,
    /// Its operation.
    pub operation: TracedOperation,
    /// First sector of 512 bytes, on the disk.
    pub sector: u64,
    /// Number of sectors.
    pub sectors: u32,
    /// Time at which its first bio arrived at the device.
    pub queued_ns: Option<u64>,
    /// Time at which it became a request.
    pub started_ns: Option<u64>,
    /// Time at which it last went to the driver.
    pub issued_ns: Option<u64>,
    /// Time at which it completed.
    pub done_ns: u64,
    /// Number of requests at the driver when it was issued, itself included; 0 if it was not issued.
    pub depth: u32,
    /// Number of times that the driver returned it to the queue.
    pub requeues: u16,
    /// Id of the requesting thread: the one that submitted the bio, or that of the start event if no bio was seen; 0 if
    /// unknown.
    pub pid: i32,
    /// Name of that thread.
    pub comm: [u8; 16],
    /// The kernel's error number, 0 or negative.
    pub error: i32,
}

impl TracedRequest {
    /// Time of its first known event, nanoseconds on the trace's clock.
    pub fn arrived_ns(&self) -> u64 {
        self.queued_ns.or(self.started_ns).or(self.issued_ns).unwrap_or(self.done_ns)
    }

    /// Time from its first known event to its end, nanoseconds.
    pub fn latency_ns(&self) -> u64 {
        self.done_ns.saturating_sub(self.arrived_ns())
    }

    /// Wait for a place in the device's queue (tags, frozen queues), nanoseconds. The kernel reports a bio only after a
    /// cgroup's throttle has let it through.
    pub fn queue_ns(&self) -> Option<u64> {
        Some(self.started_ns?.saturating_sub(self.queued_ns?))
    }

    /// Wait in the scheduler and in the submitter's batch, nanoseconds.
    pub fn scheduler_ns(&self) -> Option<u64> {
        Some(self.issued_ns?.saturating_sub(self.started_ns?))
    }

    /// Time at the driver and the device, nanoseconds.
    pub fn device_ns(&self) -> Option<u64> {
        Some(self.done_ns.saturating_sub(self.issued_ns?))
    }
}

/// Counts of events that gave no complete request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PairingCounts {
    /// Completions whose beginning was not seen: before the trace, or lost.
    pub without_beginning: u64,
    /// Issues whose start was not seen.
    pub without_start: u64,
    /// Beginnings whose end did not come within five minutes (30 s if events were lost), or for which a table was full.
    pub without_end: u64,
    /// Completions with an earlier time than their issue, because the clocks of two processors differ.
    pub clock_back: u64,
    /// Bios that joined a request.
    pub merged_bios: u64,
    /// Requests that joined another one.
    pub merged_requests: u64,
    /// Requests that the driver returned to the queue.
    pub requeues: u64,
    /// Events of operations that are not followed (pass-through, zone management).
    pub other_operations: u64,
}

/// The requesting thread, and the time of the request.
#[derive(Clone, Copy, Debug)]
struct Requester {
    time_ns: u64,
    pid: i32,
    comm: [u8; 16],
}

/// A bio that has no request yet.
#[derive(Clone, Copy, Debug)]
struct QueuedBio {
    requester: Requester,
    queued_ns: u64,
    operation: TracedOperation,
    sectors: u32,
}

/// A request that has not completed.
#[derive(Clone, Copy, Debug)]
struct UnfinishedRequest {
    request: TracedRequest,
    /// Sectors not completed yet.
    left_sectors: u32,
    /// Time of its first known event.
    since_ns: u64,
}

/// Largest number of entries of a table; when it is reached, old entries are searched for and dropped.
const MAX_OPEN_ENTRIES: usize = 1 << 18;
/// Age from which entries are dropped when a table is full.
const MAX_OPEN_AGE_NS: u64 = 300_000_000_000;
/// Age from which, after a loss of events, the end of an open request is taken to be lost: no driver waits so long.
const MAX_LOST_AGE_NS: u64 = 30_000_000_000;
/// Interval of the searches for such entries.
const SWEEP_INTERVAL_NS: u64 = 1_000_000_000;
/// Largest difference of processors' clocks.
const MAX_CLOCK_SKEW_NS: u64 = 1_000_000;
/// Largest number of completions that wait for their issue.
const MAX_EARLY_COMPLETIONS: usize = 256;

/// Times of the last search for old entries in a full table.
#[derive(Debug, Default)]
struct TableSweeps {
    queued_ns: u64,
    started_ns: u64,
    issued_ns: u64,
    origins_ns: u64,
}

/// Builds requests from events.
#[derive(Debug, Default)]
pub struct RequestPairing {
    /// Names of devices, and the disks of partitions.
    pub names: BlockDeviceNames,
    /// The disks to follow; `None` means all.
    only_disks: Option<HashSet<u32>>,
    /// Bios that have no request yet.
    queued: FifoMap<QueuedBio>,
    /// Requests that were not issued yet.
    started: FifoMap<UnfinishedRequest>,
    /// Requests at the driver.
    issued: FifoMap<UnfinishedRequest>,
    /// Completions whose issue has not come yet.
    early_completions: VecDeque<(PlaceKey, BlockEvent)>,
    /// Requesting threads of bios that were remapped, by the new device and sector.
    origins: HashMap<(u32, u64), Requester>,
    /// Number of requests at the driver, by device.
    depth: HashMap<u32, u32>,
    /// Devices that have requests.
    request_devices: HashSet<u32>,
    /// The kernel has the start event.
    has_start: bool,
    /// Events were lost up to this time.
    lost_ns: Option<u64>,
    /// Time of the last search for requests whose end was lost.
    lost_swept_ns: u64,
    sweeps: TableSweeps,
    /// Counts of events that gave no complete request.
    pub counts: PairingCounts,
}

impl RequestPairing {
    /// Creates a pairing; `has_start` is true if the kernel has the start event, `only_disks` limits it to these disks.
    pub fn new(has_start: bool, only_disks: Option<HashSet<u32>>) -> RequestPairing {
        RequestPairing { only_disks, has_start, ..RequestPairing::default() }
    }

    /// Number of requests that have begun and not completed.
    pub fn unfinished_count(&self) -> usize {
        self.started.len() + self.issued.len()
    }

    /// The requests that have not completed, as if they completed now: a stall is visible here before it ends.
    pub fn unfinished_at(&self, now_ns: u64) -> Vec<TracedRequest> {
        let open = self.started.values().chain(self.issued.values());
        open.map(|open| TracedRequest { done_ns: now_ns, ..open.request }).collect()
    }

    /// Drops requests that are no longer sampled: their end will not come. `mask` has the bits of a sector
    /// that are zero where it is sampled.
    pub fn forget_unsampled(&mut self, mask: u64) {
        self.queued.retain_values(|key, _| key.sector & mask == 0);
        self.started.retain_values(|key, _| key.sector & mask == 0);
        self.retain_issued(|key, _| key.sector & mask == 0);
    }

    /// Notes that events were lost before this time. The end of any request that is open now may be among them: such a
    /// request is dropped when another begins at the same place, or finally by [`RequestPairing::give_up_lost`].
    pub fn note_loss(&mut self, now_ns: u64) {
        self.lost_ns = Some(now_ns);
    }

    /// Drops requests that were open when events were lost and have not ended since. Otherwise they would stay in
    /// flight, and count in the depth of all others, until the trace ends.
    pub fn give_up_lost(&mut self, now_ns: u64) {
        let Some(lost) = self.lost_ns else { return };
        if now_ns.saturating_sub(self.lost_swept_ns) < SWEEP_INTERVAL_NS {
            return;
        }
        self.lost_swept_ns = now_ns;
        let is_kept = |since_ns: u64| since_ns > lost || now_ns.saturating_sub(since_ns) <= MAX_LOST_AGE_NS;
        let dropped = self.queued.retain_values(|_, bio| is_kept(bio.queued_ns))
            + self.started.retain_values(|_, open| is_kept(open.since_ns));
        self.counts.without_end += dropped as u64 + self.retain_issued(|_, open| is_kept(open.since_ns));
        if now_ns.saturating_sub(lost) > MAX_LOST_AGE_NS {
            self.lost_ns = None;
        }
    }

    /// Keeps the requests at the driver for which `is_kept` returns true; returns the number removed.
    fn retain_issued(&mut self, is_kept: impl Fn(&PlaceKey, &UnfinishedRequest) -> bool) -> u64 {
        let depth = &mut self.depth;
        let dropped = self.issued.retain_values(|key, open| {
            let is_kept = is_kept(key, open);
            if let Some(depth) = depth.get_mut(&key.device).filter(|_| !is_kept) {
                *depth = depth.saturating_sub(1);
            }
            is_kept
        });
        dropped as u64
    }

    /// Handles the next event; requests that it completes go to `done`.
    pub fn handle_event(&mut self, event: &BlockEvent, done: &mut impl FnMut(TracedRequest)) {
        let disk = self.names.disk_of(event.device);
        if self.only_disks.as_ref().is_some_and(|disks| !disks.contains(&disk)) {
            return;
        }
        let Some(operation) = event.operation() else {
            self.counts.other_operations += 1;
            return;
        };
        let key = place_key(disk, event, operation);
        self.drop_early_completions(event.time_ns);
        match event.kind {
            BlockEventKind::Queue => self.handle_queue(key, event, operation),
            BlockEventKind::GetRequest if self.has_start => {}
            BlockEventKind::GetRequest | BlockEventKind::Start => self.handle_start(key, event, operation),
            // the start stands for it; without a scheduler there is no insert
            BlockEventKind::Insert => {}
            BlockEventKind::Issue => self.handle_issue(key, event, operation, done),
            BlockEventKind::Complete => self.handle_complete(key, event, done),
            BlockEventKind::Requeue => self.handle_requeue(key, event),
            BlockEventKind::BackMerge => {
                self.counts.merged_bios += u64::from(self.queued.pop(key).is_some());
            }
            BlockEventKind::FrontMerge => self.handle_front_merge(key, event),
            BlockEventKind::RequestMerge => {
                self.counts.merged_requests += u64::from(self.started.pop(key).is_some());
            }
            BlockEventKind::BioComplete => self.handle_bio_complete(key, event, done),
            BlockEventKind::Remap => self.handle_remap(event),
            BlockEventKind::Split => self.handle_split(key, event),
        }
        assert!(
            self.early_completions.len() <= MAX_EARLY_COMPLETIONS,
            "{} early completions",
            self.early_completions.len()
        );
        assert!(self.origins.len() <= MAX_OPEN_ENTRIES, "{} origins", self.origins.len());
    }

    fn handle_queue(&mut self, key: PlaceKey, event: &BlockEvent, operation: TracedOperation) {
        let submitter = Requester { time_ns: event.time_ns, pid: event.pid, comm: event.comm };
        let origin = if self.origins.is_empty() { None } else { self.origins.remove(&(event.device, event.sector)) };
        let bio = QueuedBio {
            requester: origin.unwrap_or(submitter),
            queued_ns: event.time_ns,
            operation,
            sectors: event.sectors,
        };
        self.counts.without_end += drop_lost(&mut self.queued, self.lost_ns, key, |bio| bio.queued_ns);
        if self.queued.len() >= MAX_OPEN_ENTRIES && is_sweep_due(&mut self.sweeps.queued_ns, event.time_ns) {
            let oldest_ns = event.time_ns.saturating_sub(MAX_OPEN_AGE_NS);
            self.counts.without_end += self.queued.retain_values(|_, bio| bio.queued_ns > oldest_ns) as u64;
        }
        if self.queued.len() < MAX_OPEN_ENTRIES {
            self.queued.push(key, bio);
        } else {
            self.counts.without_end += 1;
        }
    }

    fn handle_start(&mut self, key: PlaceKey, event: &BlockEvent, operation: TracedOperation) {
        let mut open = new_unfinished(key.device, event, operation);
        open.request.started_ns = Some(event.time_ns);
        (open.request.pid, open.request.comm) = (event.pid, event.comm);
        if let Some(bio) = self.queued.pop(key) {
            open.request.queued_ns = Some(bio.queued_ns);
            (open.request.pid, open.request.comm) = (bio.requester.pid, bio.requester.comm);
        }
        self.request_devices.insert(key.device);
        self.keep_started(key, open, event.time_ns);
    }

    fn keep_started(&mut self, key: PlaceKey, open: UnfinishedRequest, now_ns: u64) {
        self.counts.without_end += drop_lost(&mut self.started, self.lost_ns, key, |open| open.since_ns);
        if self.started.len() >= MAX_OPEN_ENTRIES && is_sweep_due(&mut self.sweeps.started_ns, now_ns) {
            let oldest_ns = now_ns.saturating_sub(MAX_OPEN_AGE_NS);
            self.counts.without_end += self.started.retain_values(|_, open| open.since_ns > oldest_ns) as u64;
        }
        if self.started.len() < MAX_OPEN_ENTRIES {
            self.started.push(key, open);
        } else {
            self.counts.without_end += 1;
        }
    }

    fn handle_issue(
        &mut self,
        key: PlaceKey,
        event: &BlockEvent,
        operation: TracedOperation,
        done: &mut impl FnMut(TracedRequest),
    ) {
        let mut open = self.started.pop(key).unwrap_or_else(|| {
            // the device's flush has no start event; callers' flushes have one
            let is_flush = operation == TracedOperation::Flush;
            self.counts.without_start += u64::from(!is_flush);
            let mut open = new_unfinished(key.device, event, operation);
            // a flush is attributed to the caller that has waited longest
            let call_key = PlaceKey { class: TracedOperation::FlushCall.pairing_class(), ..key };
            if let Some(waiting) = self.started.peek_first(call_key).filter(|_| is_flush) {
                (open.request.pid, open.request.comm) = (waiting.request.pid, waiting.request.comm);
            }
            open
        });
        // the request may have grown since its start
        (open.request.sector, open.request.sectors, open.left_sectors) = (event.sector, event.sectors, event.sectors);
        open.request.operation = operation;
        open.request.issued_ns = Some(event.time_ns);
        self.request_devices.insert(key.device);
        let dropped = drop_lost(&mut self.issued, self.lost_ns, key, |open| open.since_ns);
        self.counts.without_end += dropped;
        let depth = self.depth.entry(key.device).or_insert(0);
        *depth = depth.saturating_sub(u32::try_from(dropped).unwrap_or(u32::MAX)).saturating_add(1);
        open.request.depth = *depth;
        if self.issued.len() >= MAX_OPEN_ENTRIES && is_sweep_due(&mut self.sweeps.issued_ns, event.time_ns) {
            let oldest_ns = event.time_ns.saturating_sub(MAX_OPEN_AGE_NS);
            self.counts.without_end += self.retain_issued(|_, open| open.since_ns > oldest_ns);
        }
        if self.issued.len() >= MAX_OPEN_ENTRIES {
            self.counts.without_end += 1;
            self.decrement_depth(key.device);
            return;
        }
        self.issued.push(key, open);
        if let Some(position) = self.early_completions.iter().position(|(early, _)| *early == key)
            && let Some((_, completion)) = self.early_completions.remove(position)
        {
            self.counts.clock_back += 1;
            self.handle_complete(key, &BlockEvent { time_ns: event.time_ns, ..completion }, done);
        }
    }

    fn handle_complete(&mut self, key: PlaceKey, event: &BlockEvent, done: &mut impl FnMut(TracedRequest)) {
        if let Some(mut open) = self.issued.pop(key) {
            if event.sectors > 0 && event.sectors < open.left_sectors {
                // a part has completed; the remaining sectors follow it
                open.left_sectors -= event.sectors;
                let key = PlaceKey { sector: key.sector.saturating_add(u64::from(event.sectors)), ..key };
                self.issued.push(key, open);
                return;
            }
            self.decrement_depth(key.device);
            emit_request(open.request, event, done);
        } else if let Some(open) = self.started.pop(key) {
            // a caller's flush, or a request that failed before its issue
            emit_request(open.request, event, done);
        } else if event.sectors > 0 || key.class == TracedOperation::Flush.pairing_class() {
            // other completions without sectors are second ends, of writes that a flush followed
            if self.early_completions.len() >= MAX_EARLY_COMPLETIONS {
                self.early_completions.pop_front();
                self.counts.without_beginning += 1;
            }
            self.early_completions.push_back((key, *event));
        }
    }

    /// Counts that a request of a device has left the driver.
    fn decrement_depth(&mut self, device: u32) {
        if let Some(depth) = self.depth.get_mut(&device) {
            *depth = depth.saturating_sub(1);
        }
    }

    /// Drops completions whose issue did not come in time.
    fn drop_early_completions(&mut self, now_ns: u64) {
        while self.early_completions.front().is_some_and(|(_, e)| e.time_ns.saturating_add(MAX_CLOCK_SKEW_NS) < now_ns)
        {
            self.early_completions.pop_front();
            self.counts.without_beginning += 1;
        }
    }

    fn handle_requeue(&mut self, key: PlaceKey, event: &BlockEvent) {
        let Some(mut open) = self.issued.pop(key) else { return };
        self.decrement_depth(key.device);
        self.counts.requeues += 1;
        open.request.requeues = open.request.requeues.saturating_add(1);
        open.request.issued_ns = None;
        self.keep_started(key, open, event.time_ns);
    }

    fn handle_front_merge(&mut self, key: PlaceKey, event: &BlockEvent) {
        self.counts.merged_bios += u64::from(self.queued.pop(key).is_some());
        let old_key = PlaceKey { sector: event.sector.saturating_add(u64::from(event.sectors)), ..key };
        if let Some(mut open) = self.started.pop(old_key) {
            open.request.sector = event.sector;
            open.request.sectors = open.request.sectors.saturating_add(event.sectors);
            self.started.push(key, open);
        }
    }

    fn handle_bio_complete(&mut self, key: PlaceKey, event: &BlockEvent, done: &mut impl FnMut(TracedRequest)) {
        let Some(bio) = self.queued.pop(key) else {
            let handles_bios = !self.uses_requests(key.device);
            self.counts.without_beginning += u64::from(handles_bios);
            return;
        };
        if self.uses_requests(key.device) {
            return;
        }
        let mut open = new_unfinished(key.device, event, bio.operation);
        let request = &mut open.request;
        (request.queued_ns, request.sectors) = (Some(bio.queued_ns), bio.sectors);
        (request.pid, request.comm) = (bio.requester.pid, bio.requester.comm);
        emit_request(open.request, event, done);
    }

    /// Attributes a remapped bio to the thread that made the request to the upper device, regardless of the thread that
    /// passes it down.
    fn handle_remap(&mut self, event: &BlockEvent) {
        let upper = self.names.disk_of(event.other_device);
        if self.names.is_path(event.device) && self.names.disk_of(event.device) == upper {
            // the bio of an NVMe disk stays at its place until the request of a path takes it
            return;
        }
        let requester = self.origins.remove(&(event.other_device, event.other_sector)).or_else(|| {
            let class = event.operation()?.pairing_class();
            let key = PlaceKey { device: upper, class, sector: event.other_sector };
            self.queued.peek_first(key).map(|bio| bio.requester)
        });
        let Some(requester) = requester else { return };
        if self.origins.len() >= MAX_OPEN_ENTRIES && is_sweep_due(&mut self.sweeps.origins_ns, event.time_ns) {
            let oldest_ns = event.time_ns.saturating_sub(MAX_OPEN_AGE_NS);
            self.origins.retain(|_, requester| requester.time_ns > oldest_ns);
        }
        if self.origins.len() < MAX_OPEN_ENTRIES {
            self.origins.insert((event.device, event.sector), requester);
        }
    }

    /// Handles a split: the second part of a bio begins at another sector, and no further event announces it. For a
    /// device without requests, the end of the second part stands for the whole.
    fn handle_split(&mut self, key: PlaceKey, event: &BlockEvent) {
        let Some(bio) = self.queued.pop(key) else { return };
        let second_key = PlaceKey { sector: event.other_sector, ..key };
        if !self.uses_requests(key.device) {
            self.queued.push(second_key, bio);
            return;
        }
        let first_sectors = u32::try_from(event.other_sector.saturating_sub(event.sector)).unwrap_or(bio.sectors);
        self.queued.push(key, QueuedBio { sectors: bio.sectors.min(first_sectors), ..bio });
        self.queued.push(second_key, QueuedBio { sectors: bio.sectors.saturating_sub(first_sectors), ..bio });
    }

    fn uses_requests(&mut self, device: u32) -> bool {
        self.request_devices.contains(&device) || self.names.has_requests(device)
    }
}

/// Returns true if a full table may be searched again, and then notes the time of this search. A search takes as long
/// as thousands of events.
fn is_sweep_due(swept_ns: &mut u64, now_ns: u64) -> bool {
    let is_due = now_ns.saturating_sub(*swept_ns) >= SWEEP_INTERVAL_NS;
    if is_due {
        *swept_ns = now_ns;
    }
    is_due
}

/// Returns the key by which a request is paired. A flush has no sector: the kernel writes 0 or -1
/// for the same flush. A caller's flush loses its letter F before it ends.
fn place_key(device: u32, event: &BlockEvent, operation: TracedOperation) -> PlaceKey {
    let is_end = event.kind == BlockEventKind::Complete && event.sectors == 0;
    let has_no_place = event.sector == 0 || event.sector == u64::MAX;
    let class = match operation {
        TracedOperation::Write | TracedOperation::SyncWrite if is_end && has_no_place => TracedOperation::FlushCall,
        operation => operation,
    };
    let is_flush = matches!(class, TracedOperation::Flush | TracedOperation::FlushCall);
    PlaceKey { device, class: class.pairing_class(), sector: if is_flush { 0 } else { event.sector } }
}

/// Creates a request of which only this event is known.
fn new_unfinished(device: u32, event: &BlockEvent, operation: TracedOperation) -> UnfinishedRequest {
    let request = TracedRequest {
        device,
        operation,
        sector: event.sector,
        sectors: event.sectors,
        queued_ns: None,
        started_ns: None,
        issued_ns: None,
        done_ns: event.time_ns,
        depth: 0,
        requeues: 0,
        pid: 0,
        comm: [0; 16],
        error: 0,
    };
    UnfinishedRequest { request, left_sectors: event.sectors, since_ns: event.time_ns }
}

/// Drops requests at a place that were open when events were lost; returns their number. Otherwise the next end there
/// would be paired with such a request, and each later end with the request before its own.
fn drop_lost<V>(map: &mut FifoMap<V>, lost_ns: Option<u64>, key: PlaceKey, since_ns: impl Fn(&V) -> u64) -> u64 {
    let Some(lost) = lost_ns else { return 0 };
    let mut dropped = 0;
    while map.peek_first(key).is_some_and(|open| since_ns(open) <= lost) {
        map.pop(key);
        dropped += 1;
    }
    dropped
}

fn emit_request(mut request: TracedRequest, event: &BlockEvent, done: &mut impl FnMut(TracedRequest)) {
    (request.done_ns, request.error) = (event.time_ns, event.error);
    done(request);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_table_is_swept_once_a_second() {
        let (mut looked, second) = (0, SWEEP_INTERVAL_NS);
        let due = [second, second + 1, 2 * second - 1, 2 * second].map(|now| is_sweep_due(&mut looked, now));
        assert_eq!(due, [true, false, false, true]);
    }
}

//! Builds requests from events.
//!
//! A queued request (Q) waits as a piece, a range of sectors; an issue (D) takes the
//! pieces that it covers, and a completion (C) ends these. So merges need no
//! separate events: an issue that covers three requests issues all three.
//! A request that was split is done when its last sector is.
//!
//! A request that a device only passes on (LVM, md, a partition) counts once, at
//! the last device that it is seen on; `remaps.rs` follows it there.
//!
//! Requests are returned in order of arrival, so each waits until all earlier ones are
//! done. A request that never ends (its event was lost) is abandoned when too
//! many wait after it.

use std::collections::{BTreeMap, HashMap, VecDeque};

use diskwright_base::{Operation, Request};
use diskwright_logs::Skips;

use crate::events::{TraceEvent, TraceEventKind, major_minor};
use crate::remaps::Standing;
use crate::summary::{DeviceTable, PassedOn};

/// Largest number of open requests.
const MOST_HELD: usize = 1 << 18;
/// Largest number of pieces with the same start that are searched for one of the right length.
const MOST_ALIKE: usize = 8;
/// Age after which a request has lost its completion, if another one at the same place
/// was issued: no driver waits so long. Without this limit, every later completion
/// at this place would be assigned to the wrong request.
const LOST_NS: i64 = 30_000_000_000;
/// Largest number of splits that are remembered per device.
const MOST_SPLITS: usize = 32;

/// Key of a piece: operation and first sector in one number, then the request's number.
pub(crate) type Key = (u64, u64);
/// Pieces by their key; the value is the sector after the piece.
pub(crate) type Pieces = BTreeMap<Key, u64>;

/// A range of sectors of a request.
#[derive(Clone, Copy)]
struct SectorRange {
    from: u64,
    to: u64,
    id: u64,
}

/// Builds the key of a piece.
pub(crate) fn key(operation: Operation, sector: u64, id: u64) -> Key {
    ((operation as u64) << 56 | sector, id)
}

/// First sector of the piece with this key.
fn sector_of(key: Key) -> u64 {
    key.0 & ((1 << 56) - 1)
}

/// State of one device.
#[derive(Default)]
pub(crate) struct MatcherDevice {
    kernel_number: u32,
    pub(crate) waiting: Pieces,
    pub(crate) flying: Pieces,
    pub(crate) waiting_flushes: VecDeque<u64>,
    pub(crate) flying_flushes: VecDeque<u64>,
    /// True if the device had an event other than a remap.
    pub(crate) active: bool,
    /// Index of the device to which its remaps were remapped again.
    pub(crate) leads_to: Option<usize>,
    /// Number of requests that it passed on.
    passed_on: u64,
    /// Sectors at which waiting requests were split, and the requests' numbers.
    splits: VecDeque<(u64, u64)>,
}

/// A request that was not returned yet.
pub(crate) struct OpenRequest {
    request: Request,
    table: usize,
    /// Number of sectors that are not done.
    left: u32,
    done: bool,
    pub(crate) standing: Standing,
}

/// Builds requests from events in order of time.
#[derive(Default)]
pub(crate) struct Matcher {
    pub(crate) devices: DeviceTable,
    pub(crate) skips: Skips,
    /// Number of requests returned without a completion.
    pub(crate) unfinished: u64,
    /// Number of requests without a Q in the trace.
    pub(crate) without_arrival: u64,
    /// True to return requests that were passed on at each device.
    pub(crate) every_layer: bool,
    pub(crate) tables: Vec<MatcherDevice>,
    pub(crate) by_kernel_number: HashMap<u32, usize>,
    last: Option<(u32, usize)>,
    held: VecDeque<OpenRequest>,
    /// Number of the first of the open requests.
    base: u64,
    /// Number of requests abandoned since their pieces were last dropped.
    given_up: usize,
    ended: bool,
    pieces: Vec<SectorRange>,
}

impl Matcher {
    /// Processes an event; one that cannot be used is counted in `skips`.
    pub(crate) fn event(&mut self, time_ns: i64, event: &TraceEvent) {
        let Some(table) = self.table(event.device) else {
            return self.skips.add_skip(format!("{time_ns} ns"), DeviceTable::TOO_MANY);
        };
        let flush = event.operation == Operation::Flush;
        if event.kind == TraceEventKind::Remap {
            self.follow(table, event);
        } else {
            self.tables[table].active = true;
        }
        match event.kind {
            TraceEventKind::Queue | TraceEventKind::Remap if flush => self.queue_flush(table, time_ns, event),
            TraceEventKind::Issue if flush => self.issue_flushes(table, time_ns),
            TraceEventKind::Complete if flush => self.complete_flushes(table, time_ns),
            _ if flush => {}
            TraceEventKind::Queue | TraceEventKind::Remap => self.queue(table, time_ns, event),
            TraceEventKind::Split => self.split(table, event),
            TraceEventKind::Issue => self.issue(table, time_ns, event),
            TraceEventKind::Requeue => self.requeue(table, event),
            TraceEventKind::Complete => self.complete(table, time_ns, event),
        }
    }

    /// Marks the end of the events.
    pub(crate) fn end(&mut self) {
        self.ended = true;
    }

    /// Returns the number of requests that each device passed on.
    pub(crate) fn passed_on(&self) -> Vec<PassedOn> {
        let passed = self.tables.iter().filter(|table| table.passed_on > 0);
        passed.map(|table| PassedOn { device: name(table.kernel_number), requests: table.passed_on }).collect()
    }

    /// Removes and returns the first request, if it is complete.
    pub(crate) fn pop(&mut self) -> Option<Request> {
        loop {
            let first = self.held.front()?;
            let (standing, done) = (first.standing, first.done);
            let passed = matches!(standing, Standing::PassedTo(to) if self.is_seen(to));
            let mut is_returned = standing != Standing::Replaced && (!passed || self.every_layer);
            if is_returned && !done {
                if !self.ended && self.held.len() <= MOST_HELD {
                    return None;
                }
                // a remap without a later event is not a request
                is_returned = standing != Standing::Remapped;
                self.unfinished += u64::from(is_returned);
            }
            let OpenRequest { mut request, table, .. } = self.held.pop_front()?;
            self.base += 1;
            self.given_up += usize::from(!done);
            if self.given_up > MOST_HELD / 4 {
                self.sweep();
            }
            self.tables[table].passed_on += u64::from(passed);
            if is_returned {
                let number = self.tables[table].kernel_number;
                request.device = self.devices.number(&number.to_le_bytes(), || name(number))?;
                return Some(request);
            }
        }
    }

    /// Drops the pieces of abandoned requests.
    fn sweep(&mut self) {
        self.given_up = 0;
        let base = self.base;
        for table in &mut self.tables {
            table.waiting.retain(|key, _| key.1 >= base);
            table.flying.retain(|key, _| key.1 >= base);
            table.waiting_flushes.retain(|id| *id >= base);
            table.flying_flushes.retain(|id| *id >= base);
        }
    }

    /// Finds or adds the state of a device; `None` if there are too many devices.
    fn table(&mut self, device: u32) -> Option<usize> {
        if let Some((last, table)) = self.last
            && last == device
        {
            return Some(table);
        }
        let table = match self.by_kernel_number.get(&device) {
            Some(&table) => table,
            None if self.tables.len() >= usize::from(u16::MAX) => return None,
            None => {
                self.tables.push(MatcherDevice { kernel_number: device, ..MatcherDevice::default() });
                self.by_kernel_number.insert(device, self.tables.len() - 1);
                self.tables.len() - 1
            }
        };
        self.last = Some((device, table));
        Some(table)
    }

    /// Finds an open request by its number.
    pub(crate) fn held(&mut self, id: u64) -> Option<&mut OpenRequest> {
        let place = id.checked_sub(self.base)?;
        self.held.get_mut(usize::try_from(place).ok()?)
    }

    /// Adds a new request and returns its number.
    fn hold(&mut self, table: usize, request: Request, sectors: u32, standing: Standing) -> u64 {
        self.held.push_back(OpenRequest { request, table, left: sectors, done: false, standing });
        self.base + self.held.len() as u64 - 1
    }

    /// Processes a Q, or a remap to this device.
    fn queue(&mut self, table: usize, time_ns: i64, event: &TraceEvent) {
        let TraceEvent { operation, sector, sectors, .. } = *event;
        let end = sector + u64::from(sectors);
        // a Q after a remap to the same place is the same request
        self.replace_remap(table, operation, sector, end);
        self.cut_at_split(table, operation, sector, end);
        let bytes = u64::from(sectors) * 512;
        let length = u32::try_from(bytes).unwrap_or(u32::MAX);
        let request = Request::new(time_ns, 0, operation, sector * 512, length);
        let id = self.hold(table, request, sectors, Standing::of(event.kind));
        self.tables[table].waiting.insert(key(operation, sector, id), end);
    }

    /// Shortens a split request if its second part is queued again, as by kernels
    /// before 4.16.
    fn cut_at_split(&mut self, table: usize, operation: Operation, sector: u64, end: u64) {
        let MatcherDevice { splits, waiting, .. } = &mut self.tables[table];
        let Some(place) = splits.iter().position(|(offset, _)| *offset == sector) else { return };
        let Some((_, id)) = splits.remove(place) else { return };
        let before = waiting.range(..key(operation, sector, 0)).rev().take(MOST_ALIKE);
        let Some((&found, &to)) = before.into_iter().find(|(k, to)| k.1 == id && **to == end) else { return };
        waiting.insert(found, sector);
        let cut = u32::try_from(to - sector).unwrap_or(u32::MAX);
        if let Some(held) = self.held(id) {
            held.left = held.left.saturating_sub(cut);
            held.request.length_bytes = held.request.length_bytes.saturating_sub(cut.saturating_mul(512));
        }
    }

    /// Records the place of a split.
    fn split(&mut self, table: usize, event: &TraceEvent) {
        let MatcherDevice { splits, waiting, .. } = &mut self.tables[table];
        let key = key(event.operation, event.sector, u64::MAX);
        let Some((found, to)) = waiting.range(..=key).next_back() else { return };
        if event.other > sector_of(*found) && event.other < *to {
            splits.push_back((event.other, found.1));
            if splits.len() > MOST_SPLITS {
                splits.pop_front();
            }
        }
    }

    /// Processes a D, which issues all pieces in its range.
    fn issue(&mut self, table: usize, time_ns: i64, event: &TraceEvent) {
        let mut pieces = std::mem::take(&mut self.pieces);
        let TraceEvent { operation, sector, sectors, .. } = *event;
        let end = sector + u64::from(sectors);
        take(&mut self.tables[table].waiting, operation, sector, end, &mut pieces);
        if pieces.is_empty() {
            // there is no Q in the trace: the request counts from its issue
            let bytes = u32::try_from(u64::from(sectors) * 512).unwrap_or(u32::MAX);
            let request = Request::new(time_ns, 0, operation, sector * 512, bytes);
            let id = self.hold(table, request, sectors, Standing::Asked);
            self.without_arrival += 1;
            self.tables[table].flying.insert(key(operation, sector, id), end);
        }
        for piece in &pieces {
            self.give_up_lost(table, time_ns, operation, piece.from);
            if let Some(held) = self.held(piece.id) {
                if held.request.issue_time_ns().is_none() {
                    held.request.issued_ns = time_ns;
                }
                held.standing.happened();
                self.tables[table].flying.insert(key(operation, piece.from, piece.id), piece.to);
            }
        }
        pieces.clear();
        self.pieces = pieces;
    }

    /// Abandons a request at this place whose completion must have been lost.
    fn give_up_lost(&mut self, table: usize, time_ns: i64, operation: Operation, sector: u64) {
        let alike = key(operation, sector, 0)..=key(operation, sector, u64::MAX);
        let Some((&found, _)) = self.tables[table].flying.range(alike).next() else { return };
        let since = |held: &OpenRequest| held.request.issue_time_ns().unwrap_or(held.request.arrival_ns);
        let lost = |held: &&mut OpenRequest| time_ns.saturating_sub(since(held)) > LOST_NS;
        if let Some(held) = self.held(found.1).filter(lost) {
            held.done = true;
            self.unfinished += 1;
            self.tables[table].flying.remove(&found);
        }
    }

    /// Processes an R, which returns pieces to the queue.
    fn requeue(&mut self, table: usize, event: &TraceEvent) {
        let mut pieces = std::mem::take(&mut self.pieces);
        let TraceEvent { operation, sector, sectors, .. } = *event;
        take(&mut self.tables[table].flying, operation, sector, sector + u64::from(sectors), &mut pieces);
        for piece in &pieces {
            if let Some(held) = self.held(piece.id) {
                // the last issue counts
                held.request.issued_ns = Request::UNKNOWN_NS;
                self.tables[table].waiting.insert(key(operation, piece.from, piece.id), piece.to);
            }
        }
        pieces.clear();
        self.pieces = pieces;
    }

    /// Processes a C, which completes all pieces in its range.
    fn complete(&mut self, table: usize, time_ns: i64, event: &TraceEvent) {
        let mut pieces = std::mem::take(&mut self.pieces);
        let TraceEvent { operation, sector, sectors, .. } = *event;
        let end = sector + u64::from(sectors);
        take(&mut self.tables[table].flying, operation, sector, end, &mut pieces);
        if pieces.is_empty() {
            // devices without their own queue (device mapper, md) have no D
            take(&mut self.tables[table].waiting, operation, sector, end, &mut pieces);
        }
        if pieces.is_empty() {
            self.skips.add_skip(format!("{time_ns} ns"), "a completion whose request was not traced");
        }
        for piece in &pieces {
            if let Some(held) = self.held(piece.id) {
                held.standing.happened();
                held.left = held.left.saturating_sub(u32::try_from(piece.to - piece.from).unwrap_or(u32::MAX));
                if held.left == 0 {
                    held.request.completion_ns = time_ns;
                    held.done = true;
                }
            }
        }
        pieces.clear();
        self.pieces = pieces;
    }

    fn queue_flush(&mut self, table: usize, time_ns: i64, event: &TraceEvent) {
        self.replace_flush(table);
        let request = Request::new(time_ns, 0, Operation::Flush, 0, 0);
        let id = self.hold(table, request, 0, Standing::of(event.kind));
        self.tables[table].waiting_flushes.push_back(id);
    }

    /// Issues all waiting flushes: one flush of the device serves them all.
    fn issue_flushes(&mut self, table: usize, time_ns: i64) {
        let mut waiting = std::mem::take(&mut self.tables[table].waiting_flushes);
        for id in waiting.drain(..) {
            if let Some(held) = self.held(id) {
                held.request.issued_ns = time_ns;
                held.standing.happened();
                self.tables[table].flying_flushes.push_back(id);
            }
        }
        self.tables[table].waiting_flushes = waiting;
    }

    fn complete_flushes(&mut self, table: usize, time_ns: i64) {
        let mut in_flight = std::mem::take(&mut self.tables[table].flying_flushes);
        if in_flight.is_empty() {
            in_flight = std::mem::take(&mut self.tables[table].waiting_flushes);
        }
        for id in in_flight.drain(..) {
            if let Some(held) = self.held(id) {
                held.request.completion_ns = time_ns;
                held.standing.happened();
                held.done = true;
            }
        }
    }
}

/// Formats a device number as the kernel's tools do, for example `8,0`.
fn name(kernel_number: u32) -> String {
    let (major, minor) = major_minor(kernel_number);
    format!("{major},{minor}")
}

/// Removes the parts of pieces of an operation that lie in `from..to` from `pieces`, in
/// order of sectors; parts outside the range stay. Of pieces at one place, the one that
/// ends at the end of the range is preferred, then the oldest.
fn take(pieces: &mut Pieces, operation: Operation, from: u64, to: u64, taken: &mut Vec<SectorRange>) {
    let mut offset = from;
    while offset < to {
        let Some((found, end)) = covering(pieces, operation, offset, to) else {
            let later = pieces.range(key(operation, offset + 1, 0)..key(operation, to, 0)).next();
            match later {
                Some((next, _)) => offset = sector_of(*next),
                None => return,
            }
            continue;
        };
        let (start, id) = (sector_of(found), found.1);
        pieces.remove(&found);
        if start < offset {
            pieces.insert(found, offset);
        }
        if end > to {
            pieces.insert(key(operation, to, id), end);
        }
        taken.push(SectorRange { from: offset, to: end.min(to), id });
        offset = end.min(to);
    }
}

/// Finds the piece to take for the sector `offset`.
fn covering(pieces: &Pieces, operation: Operation, offset: u64, to: u64) -> Option<(Key, u64)> {
    let at_offset =
        || pieces.range(key(operation, offset, 0)..=key(operation, offset, u64::MAX)).map(|(k, e)| (*k, *e));
    let before = || pieces.range(key(operation, 0, 0)..key(operation, offset, 0)).rev().map(|(k, e)| (*k, *e));
    at_offset()
        .take(MOST_ALIKE)
        .find(|(_, end)| *end == to)
        .or_else(|| at_offset().take(MOST_ALIKE).find(|(_, end)| *end < to))
        .or_else(|| at_offset().next())
        .or_else(|| before().take(MOST_ALIKE).find(|(_, end)| *end > offset))
}

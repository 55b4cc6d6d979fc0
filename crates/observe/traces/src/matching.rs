//! From events to requests.
//!
//! What was asked for (Q) waits in pieces of sectors; an issue (D) takes the
//! pieces it covers, and a completion (C) ends those. So merges need no
//! events of their own: an issue that covers three requests issues all three.
//! A request that was cut is done when its last sector is.
//!
//! A request that a device only passes on (LVM, md, a partition) counts once, at
//! the last device that it is seen on; `remaps.rs` follows it there.
//!
//! Requests go out in order of arrival, so one waits until all before it are
//! done. A request that never ends (its event was lost) is given up when too
//! many wait behind it.

use std::collections::{BTreeMap, HashMap, VecDeque};

use diskwright_base::{Operation, Request};
use diskwright_logs::Skips;

use crate::events::{TraceEvent, TraceEventKind, major_minor};
use crate::remaps::Standing;
use crate::summary::{DeviceTable, PassedOn};

/// Requests held at most.
const MOST_HELD: usize = 1 << 18;
/// Pieces that begin alike, looked at for the one of the right length.
const MOST_ALIKE: usize = 8;
/// A request under way for longer than this, with another of the same place
/// issued behind it, has lost its completion: no driver waits so long. Without
/// this, the next completion there would go to it, and so on for ever.
const LOST_NS: i64 = 30_000_000_000;
/// Splits that are remembered on a device.
const MOST_SPLITS: usize = 32;

/// Operation and first sector in one number, then the request's number.
pub(crate) type Key = (u64, u64);
/// Pieces by their key; the value is the sector behind the piece.
pub(crate) type Pieces = BTreeMap<Key, u64>;

/// A stretch of sectors of a request.
#[derive(Clone, Copy)]
struct SectorRange {
    from: u64,
    to: u64,
    id: u64,
}

pub(crate) fn key(operation: Operation, sector: u64, id: u64) -> Key {
    ((operation as u64) << 56 | sector, id)
}

fn sector_of(key: Key) -> u64 {
    key.0 & ((1 << 56) - 1)
}

#[derive(Default)]
pub(crate) struct MatcherDevice {
    kernel_number: u32,
    pub(crate) waiting: Pieces,
    pub(crate) flying: Pieces,
    pub(crate) waiting_flushes: VecDeque<u64>,
    pub(crate) flying_flushes: VecDeque<u64>,
    /// Something other than a remap happened on it.
    pub(crate) active: bool,
    /// The table of the device that its remaps were turned to once more.
    pub(crate) leads_to: Option<usize>,
    /// Requests that it passed on.
    passed_on: u64,
    /// Where a waiting request was cut, and which.
    splits: VecDeque<(u64, u64)>,
}

pub(crate) struct OpenRequest {
    request: Request,
    table: usize,
    /// Sectors that are not done.
    left: u32,
    done: bool,
    pub(crate) standing: Standing,
}

/// Builds requests from events that come in order of time.
#[derive(Default)]
pub(crate) struct Matcher {
    pub(crate) devices: DeviceTable,
    pub(crate) skips: Skips,
    /// Requests handed out without a completion.
    pub(crate) unfinished: u64,
    /// Requests of which no Q was seen.
    pub(crate) without_arrival: u64,
    /// Requests that were passed on are handed out at each device.
    pub(crate) every_layer: bool,
    pub(crate) tables: Vec<MatcherDevice>,
    pub(crate) by_kernel_number: HashMap<u32, usize>,
    last: Option<(u32, usize)>,
    held: VecDeque<OpenRequest>,
    /// Number of the first of `held`.
    base: u64,
    /// Requests given up since their pieces were swept.
    given_up: usize,
    ended: bool,
    pieces: Vec<SectorRange>,
}

impl Matcher {
    /// Takes an event; `place` is told where it cannot be used.
    pub(crate) fn event(&mut self, time_ns: i64, event: &TraceEvent) {
        let Some(table) = self.table(event.device) else {
            return self.skips.add(format!("{time_ns} ns"), DeviceTable::TOO_MANY);
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

    /// Says that no event follows.
    pub(crate) fn end(&mut self) {
        self.ended = true;
    }

    /// What devices passed on to others, of which each request counts there.
    pub(crate) fn passed_on(&self) -> Vec<PassedOn> {
        let passed = self.tables.iter().filter(|table| table.passed_on > 0);
        passed.map(|table| PassedOn { device: name(table.kernel_number), requests: table.passed_on }).collect()
    }

    /// A request that can go out.
    pub(crate) fn pop(&mut self) -> Option<Request> {
        loop {
            let first = self.held.front()?;
            let (standing, done) = (first.standing, first.done);
            let passed = matches!(standing, Standing::PassedTo(to) if self.is_seen(to));
            let mut counts = standing != Standing::Replaced && (!passed || self.every_layer);
            if counts && !done {
                if !self.ended && self.held.len() <= MOST_HELD {
                    return None;
                }
                // a remap that nothing followed is no request
                counts = standing != Standing::Remapped;
                self.unfinished += u64::from(counts);
            }
            let OpenRequest { mut request, table, .. } = self.held.pop_front()?;
            self.base += 1;
            self.given_up += usize::from(!done);
            if self.given_up > MOST_HELD / 4 {
                self.sweep();
            }
            self.tables[table].passed_on += u64::from(passed);
            if counts {
                let number = self.tables[table].kernel_number;
                request.device = self.devices.number(&number.to_le_bytes(), || name(number))?;
                return Some(request);
            }
        }
    }

    /// Drops the pieces of requests that were given up.
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

    pub(crate) fn held(&mut self, id: u64) -> Option<&mut OpenRequest> {
        let place = id.checked_sub(self.base)?;
        self.held.get_mut(usize::try_from(place).ok()?)
    }

    /// A new request; its number.
    fn hold(&mut self, table: usize, request: Request, sectors: u32, standing: Standing) -> u64 {
        self.held.push_back(OpenRequest { request, table, left: sectors, done: false, standing });
        self.base + self.held.len() as u64 - 1
    }

    fn queue(&mut self, table: usize, time_ns: i64, event: &TraceEvent) {
        let TraceEvent { operation, sector, sectors, .. } = *event;
        let end = sector + u64::from(sectors);
        // it was turned to this place before and is only now asked for: the same one
        self.replace_remap(table, operation, sector, end);
        self.cut_at_split(table, operation, sector, end);
        let bytes = u64::from(sectors) * 512;
        let length = u32::try_from(bytes).unwrap_or(u32::MAX);
        let request = Request::new(time_ns, 0, operation, sector * 512, length);
        let id = self.hold(table, request, sectors, Standing::of(event.kind));
        self.tables[table].waiting.insert(key(operation, sector, id), end);
    }

    /// Kernels before 4.16 ask again for the second part of a request that
    /// they cut: then the first one ends at the cut.
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

    fn issue(&mut self, table: usize, time_ns: i64, event: &TraceEvent) {
        let mut pieces = std::mem::take(&mut self.pieces);
        let TraceEvent { operation, sector, sectors, .. } = *event;
        let end = sector + u64::from(sectors);
        take(&mut self.tables[table].waiting, operation, sector, end, &mut pieces);
        if pieces.is_empty() {
            // nobody was seen to ask for it; it counts from here
            let bytes = u32::try_from(u64::from(sectors) * 512).unwrap_or(u32::MAX);
            let request = Request::new(time_ns, 0, operation, sector * 512, bytes);
            let id = self.hold(table, request, sectors, Standing::Asked);
            self.without_arrival += 1;
            self.tables[table].flying.insert(key(operation, sector, id), end);
        }
        for piece in &pieces {
            self.give_up_lost(table, time_ns, operation, piece.from);
            if let Some(held) = self.held(piece.id) {
                if held.request.issued().is_none() {
                    held.request.issued_ns = time_ns;
                }
                held.standing.happened();
                self.tables[table].flying.insert(key(operation, piece.from, piece.id), piece.to);
            }
        }
        pieces.clear();
        self.pieces = pieces;
    }

    /// Gives up a request at this place whose completion must have been lost.
    fn give_up_lost(&mut self, table: usize, time_ns: i64, operation: Operation, sector: u64) {
        let alike = key(operation, sector, 0)..=key(operation, sector, u64::MAX);
        let Some((&found, _)) = self.tables[table].flying.range(alike).next() else { return };
        let since = |held: &OpenRequest| held.request.issued().unwrap_or(held.request.arrival_ns);
        let lost = |held: &&mut OpenRequest| time_ns.saturating_sub(since(held)) > LOST_NS;
        if let Some(held) = self.held(found.1).filter(lost) {
            held.done = true;
            self.unfinished += 1;
            self.tables[table].flying.remove(&found);
        }
    }

    fn requeue(&mut self, table: usize, event: &TraceEvent) {
        let mut pieces = std::mem::take(&mut self.pieces);
        let TraceEvent { operation, sector, sectors, .. } = *event;
        take(&mut self.tables[table].flying, operation, sector, sector + u64::from(sectors), &mut pieces);
        for piece in &pieces {
            if let Some(held) = self.held(piece.id) {
                // it counts when it goes to the device for good
                held.request.issued_ns = Request::UNKNOWN;
                self.tables[table].waiting.insert(key(operation, piece.from, piece.id), piece.to);
            }
        }
        pieces.clear();
        self.pieces = pieces;
    }

    fn complete(&mut self, table: usize, time_ns: i64, event: &TraceEvent) {
        let mut pieces = std::mem::take(&mut self.pieces);
        let TraceEvent { operation, sector, sectors, .. } = *event;
        let end = sector + u64::from(sectors);
        take(&mut self.tables[table].flying, operation, sector, end, &mut pieces);
        if pieces.is_empty() {
            // devices without a queue of their own (device mapper, md) have no D
            take(&mut self.tables[table].waiting, operation, sector, end, &mut pieces);
        }
        if pieces.is_empty() {
            self.skips.add(format!("{time_ns} ns"), "a completion whose request was not traced");
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

    /// One flush of the device serves all that wait for one.
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
        let mut flying = std::mem::take(&mut self.tables[table].flying_flushes);
        if flying.is_empty() {
            flying = std::mem::take(&mut self.tables[table].waiting_flushes);
        }
        for id in flying.drain(..) {
            if let Some(held) = self.held(id) {
                held.request.completion_ns = time_ns;
                held.standing.happened();
                held.done = true;
            }
        }
    }
}

/// `8,0`, as the kernel's tools write a device.
fn name(kernel_number: u32) -> String {
    let (major, minor) = major_minor(kernel_number);
    format!("{major},{minor}")
}

/// Takes the pieces of an operation that lie in `from..to` out of `pieces`, in
/// order of place; what sticks out stays. Of pieces at one place the one that
/// ends where the range ends goes first, then the oldest.
fn take(pieces: &mut Pieces, operation: Operation, from: u64, to: u64, taken: &mut Vec<SectorRange>) {
    let mut offset = from;
    while offset < to {
        let Some((found, end)) = covering(pieces, operation, offset, to) else {
            let behind = pieces.range(key(operation, offset + 1, 0)..key(operation, to, 0)).next();
            match behind {
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

/// The piece to take for the sector `at`.
fn covering(pieces: &Pieces, operation: Operation, offset: u64, to: u64) -> Option<(Key, u64)> {
    let alike = || pieces.range(key(operation, offset, 0)..=key(operation, offset, u64::MAX)).map(|(k, e)| (*k, *e));
    let before = || pieces.range(key(operation, 0, 0)..key(operation, offset, 0)).rev().map(|(k, e)| (*k, *e));
    alike()
        .take(MOST_ALIKE)
        .find(|(_, end)| *end == to)
        .or_else(|| alike().take(MOST_ALIKE).find(|(_, end)| *end < to))
        .or_else(|| alike().next())
        .or_else(|| before().take(MOST_ALIKE).find(|(_, end)| *end > offset))
}

//! Builds requests from events.
//!
//! A queued request (Q) waits as a piece, a range of sectors. An issue (D) takes the pieces that it covers, and a
//! completion (C) ends them. So merges need no separate events: an issue that covers three requests issues all three.
//! A request that was split is done when its last sector is done.
//!
//! A request that a device only passes on (LVM, md, a partition) counts once, at the last device on which it is seen;
//! `remaps.rs` follows it there.
//!
//! Requests are returned in order of arrival, so each waits until all earlier ones are done. A request that never ends,
//! because its event was lost, is abandoned when too many wait behind it.

use std::collections::{BTreeMap, HashMap, VecDeque};

use diskwright_base::{Operation, Request};
use diskwright_logs::Skips;

use crate::events::{TraceEvent, TraceEventKind, major_minor};
use crate::remaps::RequestState;
use crate::summary::{DeviceTable, PassedOn};

/// Largest number of open requests.
const MAX_OPEN_REQUESTS: usize = 1 << 18;
/// Largest number of pieces with the same start among which a piece of the right length is searched.
const MAX_CANDIDATES: usize = 8;
/// Age after which the completion of a request is taken to be lost, if another request at the same place is issued: no
/// driver waits so long. Without this limit, every later completion at this place would end the wrong request.
const LOST_AFTER_NS: i64 = 30_000_000_000;
/// Largest number of splits that are remembered per device.
const MAX_SPLITS: usize = 32;

/// Key of a piece: operation and first sector in one number, then the request's number.
pub(crate) type PieceKey = (u64, u64);
/// Pieces by key; the value is the sector after the piece.
pub(crate) type Pieces = BTreeMap<PieceKey, u64>;

/// A range of sectors of a request.
#[derive(Clone, Copy)]
struct SectorRange {
    from: u64,
    to: u64,
    id: u64,
}

/// Builds the key of a piece. The sectors of pieces are below [`MAX_SECTOR`](crate::events::MAX_SECTOR), so that they
/// do not reach the bits of the operation. A remap may name any sector; such a key matches no piece.
pub(crate) fn piece_key(operation: Operation, sector: u64, id: u64) -> PieceKey {
    ((operation as u64) << 56 | sector, id)
}

/// Returns the first sector of the piece with this key.
fn first_sector(key: PieceKey) -> u64 {
    key.0 & ((1 << 56) - 1)
}

/// State of one device.
#[derive(Default)]
pub(crate) struct MatcherDevice {
    kernel_number: u32,
    /// Pieces that were not issued.
    pub(crate) waiting: Pieces,
    /// Pieces that were issued and are not done.
    pub(crate) in_flight: Pieces,
    /// Numbers of flushes that were not issued.
    pub(crate) waiting_flushes: VecDeque<u64>,
    /// Numbers of flushes that were issued and are not done.
    pub(crate) in_flight_flushes: VecDeque<u64>,
    /// The device had an event other than a remap.
    pub(crate) is_active: bool,
    /// Index of the device to which requests that were remapped to this device were remapped again.
    pub(crate) remapped_to: Option<usize>,
    /// Number of requests that it passed on.
    passed_on: u64,
    /// Sectors at which waiting requests were split, and the numbers of the requests.
    splits: VecDeque<(u64, u64)>,
}

/// A request that was not returned yet.
pub(crate) struct OpenRequest {
    request: Request,
    device_index: usize,
    /// Number of sectors that are not done.
    sectors_left: u32,
    is_done: bool,
    pub(crate) state: RequestState,
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
    /// Requests that were passed on are returned at each device.
    pub(crate) every_layer: bool,
    pub(crate) device_states: Vec<MatcherDevice>,
    pub(crate) by_kernel_number: HashMap<u32, usize>,
    /// Kernel number and index of the device of the last event.
    last_device: Option<(u32, usize)>,
    /// Requests in order of arrival.
    open_requests: VecDeque<OpenRequest>,
    /// Number of the first of the open requests.
    first_id: u64,
    /// Number of requests abandoned since the pieces of abandoned requests were last dropped.
    abandoned: usize,
    /// No more events follow.
    is_at_end: bool,
    /// Buffer for the pieces that an event covers, kept so that no event allocates memory.
    pieces: Vec<SectorRange>,
}

impl Matcher {
    /// Processes an event; an event that cannot be used is counted in `skips`.
    pub(crate) fn push_event(&mut self, time_ns: i64, event: &TraceEvent) {
        let Some(device) = self.device_index(event.device) else {
            return self.skips.add_skip(format!("{time_ns} ns"), DeviceTable::TOO_MANY);
        };
        let is_flush = event.operation == Operation::Flush;
        if event.kind == TraceEventKind::Remap {
            self.follow_remap(device, event);
        } else {
            self.device_states[device].is_active = true;
        }
        match event.kind {
            TraceEventKind::Queue | TraceEventKind::Remap if is_flush => self.queue_flush(device, time_ns, event),
            TraceEventKind::Issue if is_flush => self.issue_flushes(device, time_ns),
            TraceEventKind::Complete if is_flush => self.complete_flushes(device, time_ns),
            _ if is_flush => {}
            TraceEventKind::Queue | TraceEventKind::Remap => self.queue_request(device, time_ns, event),
            TraceEventKind::Split => self.record_split(device, event),
            TraceEventKind::Issue => self.issue_requests(device, time_ns, event),
            TraceEventKind::Requeue => self.requeue_requests(device, event),
            TraceEventKind::Complete => self.complete_requests(device, time_ns, event),
        }
    }

    /// Marks the end of the events.
    pub(crate) fn end_events(&mut self) {
        self.is_at_end = true;
    }

    /// Returns the number of requests that each device passed on.
    pub(crate) fn passed_on(&self) -> Vec<PassedOn> {
        let passed = self.device_states.iter().filter(|device| device.passed_on > 0);
        passed
            .map(|device| PassedOn { device: device_name(device.kernel_number), requests: device.passed_on })
            .collect()
    }

    /// Removes and returns the first request, if it is done or abandoned.
    pub(crate) fn pop(&mut self) -> Option<Request> {
        loop {
            let first = self.open_requests.front()?;
            let (state, is_done) = (first.state, first.is_done);
            let is_passed_on = matches!(state, RequestState::PassedTo(to) if self.is_device_traced(to));
            let mut is_returned = state != RequestState::Replaced && (!is_passed_on || self.every_layer);
            if is_returned && !is_done {
                if !self.is_at_end && self.open_requests.len() <= MAX_OPEN_REQUESTS {
                    return None;
                }
                // a remap without a later event is not a request
                is_returned = state != RequestState::Remapped;
                self.unfinished += u64::from(is_returned);
            }
            let OpenRequest { mut request, device_index: device, .. } = self.open_requests.pop_front()?;
            self.first_id += 1;
            self.abandoned += usize::from(!is_done);
            if self.abandoned > MAX_OPEN_REQUESTS / 4 {
                self.drop_abandoned_pieces();
            }
            self.device_states[device].passed_on += u64::from(is_passed_on);
            if is_returned {
                let number = self.device_states[device].kernel_number;
                request.device = self.devices.number_for(&number.to_le_bytes(), || device_name(number))?;
                return Some(request);
            }
        }
    }

    /// Drops the pieces of abandoned requests.
    fn drop_abandoned_pieces(&mut self) {
        self.abandoned = 0;
        let base = self.first_id;
        for device in &mut self.device_states {
            device.waiting.retain(|key, _| key.1 >= base);
            device.in_flight.retain(|key, _| key.1 >= base);
            device.waiting_flushes.retain(|id| *id >= base);
            device.in_flight_flushes.retain(|id| *id >= base);
        }
    }

    /// Finds or adds a device; returns its index, or `None` if there are too many devices.
    fn device_index(&mut self, kernel_number: u32) -> Option<usize> {
        if let Some((last_number, device)) = self.last_device
            && last_number == kernel_number
        {
            return Some(device);
        }
        let device = match self.by_kernel_number.get(&kernel_number) {
            Some(&device) => device,
            None if self.device_states.len() >= usize::from(u16::MAX) => return None,
            None => {
                self.device_states.push(MatcherDevice { kernel_number, ..MatcherDevice::default() });
                self.by_kernel_number.insert(kernel_number, self.device_states.len() - 1);
                self.device_states.len() - 1
            }
        };
        self.last_device = Some((kernel_number, device));
        Some(device)
    }

    /// Finds an open request by its number.
    pub(crate) fn find_open_request(&mut self, id: u64) -> Option<&mut OpenRequest> {
        let index = id.checked_sub(self.first_id)?;
        self.open_requests.get_mut(usize::try_from(index).ok()?)
    }

    /// Adds a new request and returns its number.
    fn add_open_request(&mut self, device: usize, request: Request, sectors: u32, state: RequestState) -> u64 {
        self.open_requests.push_back(OpenRequest {
            request,
            device_index: device,
            sectors_left: sectors,
            is_done: false,
            state,
        });
        self.first_id + self.open_requests.len() as u64 - 1
    }

    /// Processes a Q, or a remap to this device.
    fn queue_request(&mut self, device: usize, time_ns: i64, event: &TraceEvent) {
        let TraceEvent { operation, sector, sectors, .. } = *event;
        let end = sector + u64::from(sectors);
        // a Q after a remap to the same place is the same request
        self.replace_remap(device, operation, sector, end);
        self.cut_at_split(device, operation, sector, end);
        let bytes = u64::from(sectors) * 512;
        let length = u32::try_from(bytes).unwrap_or(u32::MAX);
        let request = Request::new(time_ns, 0, operation, sector * 512, length);
        let id = self.add_open_request(device, request, sectors, RequestState::from_event_kind(event.kind));
        self.device_states[device].waiting.insert(piece_key(operation, sector, id), end);
    }

    /// Shortens a split request if its second part is queued again, as kernels before 4.16 do.
    fn cut_at_split(&mut self, device: usize, operation: Operation, sector: u64, end: u64) {
        let MatcherDevice { splits, waiting, .. } = &mut self.device_states[device];
        let Some(index) = splits.iter().position(|(split, _)| *split == sector) else { return };
        let Some((_, id)) = splits.remove(index) else { return };
        // only pieces that begin before the split, so that a shortened piece is not empty
        let before = piece_key(operation, 0, 0)..piece_key(operation, sector, 0);
        let mut candidates = waiting.range(before).rev().take(MAX_CANDIDATES);
        let Some((&key, &to)) = candidates.find(|(k, to)| k.1 == id && **to == end) else { return };
        debug_assert!(first_sector(key) < sector && sector <= to, "the split at {sector} is within the piece");
        waiting.insert(key, sector);
        let cut_sectors = u32::try_from(to - sector).unwrap_or(u32::MAX);
        if let Some(open) = self.find_open_request(id) {
            debug_assert!(cut_sectors <= open.sectors_left, "a waiting piece is not done");
            open.sectors_left -= cut_sectors;
            open.request.length_bytes = open.request.length_bytes.saturating_sub(cut_sectors.saturating_mul(512));
        }
    }

    /// Records the place of a split.
    fn record_split(&mut self, device: usize, event: &TraceEvent) {
        let MatcherDevice { splits, waiting, .. } = &mut self.device_states[device];
        let last_key = piece_key(event.operation, event.sector, u64::MAX);
        let Some((key, to)) = waiting.range(..=last_key).next_back() else { return };
        if event.other_sector > first_sector(*key) && event.other_sector < *to {
            splits.push_back((event.other_sector, key.1));
            if splits.len() > MAX_SPLITS {
                splits.pop_front();
            }
        }
    }

    /// Processes a D, which issues all pieces in its range.
    fn issue_requests(&mut self, device: usize, time_ns: i64, event: &TraceEvent) {
        let mut pieces = std::mem::take(&mut self.pieces);
        let TraceEvent { operation, sector, sectors, .. } = *event;
        let end = sector + u64::from(sectors);
        take_pieces(&mut self.device_states[device].waiting, operation, sector, end, &mut pieces);
        if pieces.is_empty() {
            // there is no Q in the trace: the request counts from its issue
            let bytes = u32::try_from(u64::from(sectors) * 512).unwrap_or(u32::MAX);
            let request = Request::new(time_ns, 0, operation, sector * 512, bytes);
            let id = self.add_open_request(device, request, sectors, RequestState::Queued);
            self.without_arrival += 1;
            self.device_states[device].in_flight.insert(piece_key(operation, sector, id), end);
        }
        for piece in &pieces {
            self.abandon_lost(device, time_ns, operation, piece.from);
            if let Some(open) = self.find_open_request(piece.id) {
                if open.request.issue_time_ns().is_none() {
                    open.request.issued_ns = time_ns;
                }
                open.state.confirm_request();
                self.device_states[device].in_flight.insert(piece_key(operation, piece.from, piece.id), piece.to);
            }
        }
        pieces.clear();
        self.pieces = pieces;
    }

    /// Abandons a request at this place whose completion must have been lost.
    fn abandon_lost(&mut self, device: usize, time_ns: i64, operation: Operation, sector: u64) {
        let keys = piece_key(operation, sector, 0)..=piece_key(operation, sector, u64::MAX);
        let Some((&key, _)) = self.device_states[device].in_flight.range(keys).next() else { return };
        let start_ns = |open: &OpenRequest| open.request.issue_time_ns().unwrap_or(open.request.arrival_ns);
        let is_lost = |open: &&mut OpenRequest| time_ns.saturating_sub(start_ns(open)) > LOST_AFTER_NS;
        if let Some(open) = self.find_open_request(key.1).filter(is_lost) {
            open.is_done = true;
            self.unfinished += 1;
            self.device_states[device].in_flight.remove(&key);
        }
    }

    /// Processes an R, which returns pieces to the queue.
    fn requeue_requests(&mut self, device: usize, event: &TraceEvent) {
        let mut pieces = std::mem::take(&mut self.pieces);
        let TraceEvent { operation, sector, sectors, .. } = *event;
        take_pieces(
            &mut self.device_states[device].in_flight,
            operation,
            sector,
            sector + u64::from(sectors),
            &mut pieces,
        );
        for piece in &pieces {
            if let Some(open) = self.find_open_request(piece.id) {
                // the last issue counts
                open.request.issued_ns = Request::UNKNOWN_NS;
                self.device_states[device].waiting.insert(piece_key(operation, piece.from, piece.id), piece.to);
            }
        }
        pieces.clear();
        self.pieces = pieces;
    }

    /// Processes a C, which completes all pieces in its range.
    fn complete_requests(&mut self, device: usize, time_ns: i64, event: &TraceEvent) {
        let mut pieces = std::mem::take(&mut self.pieces);
        let TraceEvent { operation, sector, sectors, .. } = *event;
        let end = sector + u64::from(sectors);
        take_pieces(&mut self.device_states[device].in_flight, operation, sector, end, &mut pieces);
        if pieces.is_empty() {
            // devices without their own queue (device mapper, md) have no D
            take_pieces(&mut self.device_states[device].waiting, operation, sector, end, &mut pieces);
        }
        if pieces.is_empty() {
            self.skips.add_skip(format!("{time_ns} ns"), "a completion whose request was not traced");
        }
        for piece in &pieces {
            if let Some(open) = self.find_open_request(piece.id) {
                open.state.confirm_request();
                debug_assert!(piece.from <= piece.to, "a piece from {} to {}", piece.from, piece.to);
                let sectors = u32::try_from(piece.to - piece.from).unwrap_or(u32::MAX);
                // the pieces of a request never overlap, and each is done once
                debug_assert!(sectors <= open.sectors_left, "{sectors} of {} sectors", open.sectors_left);
                open.sectors_left -= sectors;
                if open.sectors_left == 0 {
                    open.request.completion_ns = time_ns;
                    open.is_done = true;
                }
            }
        }
        pieces.clear();
        self.pieces = pieces;
    }

    fn queue_flush(&mut self, device: usize, time_ns: i64, event: &TraceEvent) {
        self.replace_flush(device);
        let request = Request::new(time_ns, 0, Operation::Flush, 0, 0);
        let id = self.add_open_request(device, request, 0, RequestState::from_event_kind(event.kind));
        self.device_states[device].waiting_flushes.push_back(id);
    }

    /// Issues all waiting flushes: one flush of the device serves them all.
    fn issue_flushes(&mut self, device: usize, time_ns: i64) {
        let mut waiting = std::mem::take(&mut self.device_states[device].waiting_flushes);
        for id in waiting.drain(..) {
            if let Some(open) = self.find_open_request(id) {
                open.request.issued_ns = time_ns;
                open.state.confirm_request();
                self.device_states[device].in_flight_flushes.push_back(id);
            }
        }
        self.device_states[device].waiting_flushes = waiting;
    }

    /// Completes all flushes in flight, or all waiting ones if the device issues none.
    fn complete_flushes(&mut self, device: usize, time_ns: i64) {
        let mut in_flight = std::mem::take(&mut self.device_states[device].in_flight_flushes);
        if in_flight.is_empty() {
            in_flight = std::mem::take(&mut self.device_states[device].waiting_flushes);
        }
        for id in in_flight.drain(..) {
            if let Some(open) = self.find_open_request(id) {
                open.request.completion_ns = time_ns;
                open.state.confirm_request();
                open.is_done = true;
            }
        }
    }
}

/// Formats a device number as the kernel's tools do, for example `8,0`.
fn device_name(kernel_number: u32) -> String {
    let (major, minor) = major_minor(kernel_number);
    format!("{major},{minor}")
}

/// Moves the parts of pieces of an operation that lie in `from..to` from `pieces` to `taken`, in order of sectors;
/// parts outside the range stay. Of several pieces at one place, the piece that ends at the end of the range is
/// preferred, then the oldest.
fn take_pieces(pieces: &mut Pieces, operation: Operation, from: u64, to: u64, taken: &mut Vec<SectorRange>) {
    let mut offset = from;
    while offset < to {
        let Some((key, end)) = find_piece(pieces, operation, offset, to) else {
            let next_piece = pieces.range(piece_key(operation, offset + 1, 0)..piece_key(operation, to, 0)).next();
            match next_piece {
                Some((next_key, _)) => offset = first_sector(*next_key),
                None => return,
            }
            continue;
        };
        let (start, id) = (first_sector(key), key.1);
        debug_assert!(start <= offset && start <= end, "the piece from {start} to {end} holds the sector {offset}");
        pieces.remove(&key);
        if start < offset {
            pieces.insert(key, offset);
        }
        if end > to {
            pieces.insert(piece_key(operation, to, id), end);
        }
        taken.push(SectorRange { from: offset, to: end.min(to), id });
        offset = end.min(to);
    }
}

/// Finds the piece to take for the sector `offset`: a piece that begins there, else one that begins before it and holds
/// it.
fn find_piece(pieces: &Pieces, operation: Operation, offset: u64, to: u64) -> Option<(PieceKey, u64)> {
    let at_offset = || {
        pieces.range(piece_key(operation, offset, 0)..=piece_key(operation, offset, u64::MAX)).map(|(k, e)| (*k, *e))
    };
    let before =
        || pieces.range(piece_key(operation, 0, 0)..piece_key(operation, offset, 0)).rev().map(|(k, e)| (*k, *e));
    at_offset()
        .take(MAX_CANDIDATES)
        .find(|(_, end)| *end == to)
        .or_else(|| at_offset().take(MAX_CANDIDATES).find(|(_, end)| *end < to))
        .or_else(|| at_offset().next())
        .or_else(|| before().take(MAX_CANDIDATES).find(|(_, end)| *end > offset))
}

//! Service of requests, page by page: which pages are cached, in flight, or have to be read or written, and which
//! requests wait for room.

use super::cache_lines::NO_ENTRY;
use super::in_flight::{CacheRequest, NO_FLIGHT};
use super::streams::{PagePresence, ReadAheadPlan};
use super::{BackingIo, Cache, CacheActions, SubmitResult};
use crate::io::Io;

/// State of a page to be read.
enum PageState {
    Cached,
    /// Being read by this flight.
    InFlight(u32),
    /// A read of it was begun just now.
    ReadBegun,
    /// Being written by this flight and not kept: it must be read after that.
    AfterWrite(u32),
    NoRoom,
}

/// Reason why a request cannot continue.
enum WaitReason {
    Flight(u32),
    Room,
}

impl Cache {
    /// Marks the cached pages from the start of a request on as used; returns the page up to which (at least) they are
    /// cached, and the state of the first missing one.
    #[inline]
    pub(super) fn count_cached_prefix(&mut self, from: u64, to: u64) -> (u64, PagePresence) {
        let shift = self.sizes.line_shift;
        let mut page = from;
        while page < to {
            let line = page >> shift;
            let requested = self.page_mask(line, page, to);
            let entry = self.lines.find_entry(line);
            let missing = requested & !self.lines.head(entry).valid;
            if missing != 0 {
                let first = (line << shift) + u64::from(missing.trailing_zeros());
                let lowest = missing & missing.wrapping_neg();
                let is_in_flight =
                    entry != NO_ENTRY && (self.lines[entry].reading | self.lines[entry].flushing) & lowest != 0;
                return (page, if is_in_flight { PagePresence::InFlight } else { PagePresence::Absent(first) });
            }
            self.mark_pages_used(entry, requested);
            page = (line + 1) << shift;
        }
        (to, PagePresence::Cached)
    }

    pub(super) fn submit_read(
        &mut self,
        request: CacheRequest,
        seen: PagePresence,
        ahead: ReadAheadPlan,
        out: &mut CacheActions,
    ) -> SubmitResult {
        let result = if seen == PagePresence::Cached {
            self.counters.reads_hit += 1;
            SubmitResult::Done
        } else {
            let read_ahead_end = if let ReadAheadPlan::WithMiss(to) = ahead {
                to.min(self.volume_end_page(request.next_page))
            } else {
                request.end_page
            };
            let slot = self.flights.add_request(CacheRequest { read_ahead_end, ..request });
            self.continue_request(slot, out);
            self.result_of_call(request.request_id, out)
        };
        if let ReadAheadPlan::Separate(from, to) = ahead {
            let mut run = NO_FLIGHT;
            for page in from..to.min(self.volume_end_page(request.next_page)) {
                if let PageState::NoRoom = self.request_page(page, true, &mut run, out) {
                    break;
                }
            }
            self.send_run(&mut run, None, out);
        }
        self.send_flushes(out);
        result
    }

    pub(super) fn submit_write(
        &mut self,
        request_id: u32,
        io: Io,
        from: u64,
        to: u64,
        out: &mut CacheActions,
    ) -> SubmitResult {
        let slot = self.flights.add_request(super::new_request(request_id, io, from, to));
        if self.write_back.is_some() && !self.flights.writers.is_empty() {
            self.queue_request(slot);
        } else {
            self.continue_request(slot, out);
        }
        self.send_flushes(out);
        self.result_of_call(request_id, out)
    }

    /// Returns the result of a call for its own request, and removes it from `ready` if it completed within the call.
    fn result_of_call(&mut self, request_id: u32, out: &mut CacheActions) -> SubmitResult {
        // no other request completes in a submitting call
        if out.ready.pop() == Some(request_id) { SubmitResult::Done } else { SubmitResult::Wait }
    }

    /// Continues a request as far as possible; completes it at its end.
    pub(super) fn continue_request(&mut self, slot: u32, out: &mut CacheActions) {
        let request = *self.flights.request(slot);
        // a faulting request waits for each piece before it reads the next
        let waits_for_fault = self.max_fault_pages.is_some() && !request.io.write && request.pending_flights > 0;
        if request.is_queued || waits_for_fault {
            return;
        }
        if request.next_page < request.end_page {
            let mut run = NO_FLIGHT;
            let clip = (request.io.write && self.write_back.is_none()).then_some(request.io);
            let outcome = match (request.io.write, self.write_back.is_some()) {
                (false, _) => self.continue_read(slot, &mut run, out),
                (true, true) => self.continue_posted_write(slot, &mut run, out),
                (true, false) => self.continue_write_through(slot, &mut run, out),
            };
            self.send_run(&mut run, clip, out);
            match outcome {
                Err(WaitReason::Flight(flight)) => self.flights.add_waiter(slot, flight),
                Err(WaitReason::Room) => return self.queue_request(slot),
                Ok(()) => {}
            }
        }
        let request = self.flights.request(slot);
        if request.next_page >= request.end_page && request.pending_flights == 0 {
            self.complete_request(slot, out);
        }
    }

    fn complete_request(&mut self, slot: u32, out: &mut CacheActions) {
        let request = *self.flights.request(slot);
        let counters = &mut self.counters;
        let count = match (request.io.write, self.write_back.is_some()) {
            (true, false) => &mut counters.writes_through,
            (true, true) if request.turn > 0 || request.has_misses || request.has_joins => &mut counters.writes_waited,
            (true, true) => &mut counters.writes_posted,
            _ if request.has_misses && (request.has_hits || request.has_joins) => &mut counters.reads_part,
            _ if request.has_misses => &mut counters.reads_missed,
            _ if request.has_joins => &mut counters.reads_joined,
            _ => &mut counters.reads_hit,
        };
        *count += 1;
        out.ready.push(request.request_id);
        self.flights.remove_request(slot);
    }

    fn continue_read(&mut self, slot: u32, run: &mut u32, out: &mut CacheActions) -> Result<(), WaitReason> {
        loop {
            let CacheRequest { next_page: page, end_page: end, read_ahead_end, .. } = *self.flights.request(slot);
            if page >= end.max(read_ahead_end) {
                return Ok(());
            }
            let is_read_ahead = page >= end;
            let read = self.request_page(page, is_read_ahead, run, out);
            match read {
                PageState::NoRoom | PageState::AfterWrite(_) if is_read_ahead => return Ok(()),
                PageState::NoRoom => return Err(WaitReason::Room),
                PageState::AfterWrite(flight) => {
                    self.flights.request_mut(slot).has_joins = true;
                    return Err(WaitReason::Flight(flight));
                }
                _ => {}
            }
            let (fixed, max_pages, last) = (self.fixed_run_pages, self.max_fault_pages, self.volume_end_page(page));
            let request = self.flights.request_mut(slot);
            request.next_page += 1;
            if is_read_ahead {
                continue;
            }
            match read {
                PageState::InFlight(flight) => {
                    request.has_joins = true;
                    self.flights.add_waiter(slot, flight);
                    if max_pages.is_some() && page + 1 < end {
                        return Ok(());
                    }
                }
                PageState::ReadBegun => {
                    request.has_misses = true;
                    if request.read_ahead_end == end {
                        request.read_ahead_end = end.max(page + fixed).min(last);
                    }
                    self.flights.add_waiter(slot, *run);
                    let run_pages = self.flights.get(*run).map_or(0, |flight| flight.end_page - flight.first_page);
                    if page + 1 < end && max_pages.is_some_and(|max| run_pages >= max) {
                        // the other missing pages are requested when these have arrived
                        return Ok(());
                    }
                }
                _ => {
                    request.has_hits = true;
                    if max_pages.is_some() && *run != NO_FLIGHT {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Requests a page for a read; `is_read_ahead` is true for a page that no client has requested yet.
    fn request_page(&mut self, page: u64, is_read_ahead: bool, run: &mut u32, out: &mut CacheActions) -> PageState {
        let (number, bit) = (page >> self.sizes.line_shift, self.page_bit(page));
        let entry = self.lines.find_entry(number);
        if entry != NO_ENTRY {
            let line = &self.lines[entry];
            let (reading, flushing) = (line.reading & bit, line.flushing & bit);
            let valid = self.lines.head(entry).valid & bit;
            let hint = line.flight;
            if !is_read_ahead {
                self.mark_pages_used(entry, bit);
            }
            if valid != 0 {
                return PageState::Cached;
            }
            if reading != 0 {
                return PageState::InFlight(self.flights.find_over_page(page, false, hint));
            }
            if flushing != 0 {
                return PageState::AfterWrite(self.flights.find_over_page(page, true, hint));
            }
        }
        let Some(entry) = self.make_room(number, entry, true) else { return PageState::NoRoom };
        self.extend_run(run, page, false, out);
        let line = &mut self.lines[entry];
        line.reading |= bit;
        line.flight = *run;
        if is_read_ahead {
            line.unused_read_ahead |= bit;
            self.lines.head_mut(entry).has_unused_read_ahead = true;
            self.counters.blocks_ahead += 1 << self.sizes.page_shift;
        }
        self.lines.held_pages += 1;
        self.lines.mark_used(entry);
        PageState::ReadBegun
    }

    /// Posts a write as far as there is room.
    fn continue_posted_write(&mut self, slot: u32, run: &mut u32, out: &mut CacheActions) -> Result<(), WaitReason> {
        while self.flights.request(slot).next_page < self.flights.request(slot).end_page {
            let request = *self.flights.request(slot);
            let page = request.next_page;
            let (number, bit) = (page >> self.sizes.line_shift, self.page_bit(page));
            let mut entry = self.lines.find_entry(number);
            let (line, valid) = (self.lines[entry], self.lines.head(entry).valid);
            let is_counted = (line.dirty | line.flushing) & bit != 0;
            if !is_counted && self.dirty_pages >= self.max_dirty_pages {
                return Err(WaitReason::Room);
            }
            if self.read_before_partial_write && valid & bit == 0 && !self.covers_page(&request.io, page) {
                match self.request_page(page, false, run, out) {
                    PageState::ReadBegun => self.flights.request_mut(slot).has_misses = true,
                    PageState::NoRoom => return Err(WaitReason::Room),
                    PageState::InFlight(flight) | PageState::AfterWrite(flight) => {
                        self.flights.request_mut(slot).has_joins = true;
                        return Err(WaitReason::Flight(flight));
                    }
                    PageState::Cached => {}
                }
                return Err(WaitReason::Flight(*run));
            }
            if self.lines.held_mask(entry) & bit == 0 {
                entry = self.make_room(number, entry, false).ok_or(WaitReason::Room)?;
                self.lines.held_pages += 1;
            }
            self.dirty_pages += u64::from(!is_counted);
            if line.dirty & bit != 0 {
                self.counters.blocks_overwritten += 1 << self.sizes.page_shift;
            }
            let line = &mut self.lines[entry];
            line.dirty |= bit;
            line.unused_read_ahead &= !bit;
            if line.flushing & bit == 0 && !line.is_flush_queued {
                self.queue_flush(entry);
            }
            self.lines.head_mut(entry).valid |= bit;
            self.lines.mark_used(entry);
            self.flights.request_mut(slot).next_page += 1;
        }
        Ok(())
    }

    /// Sends a write-through below as far as no flight conflicts with it.
    fn continue_write_through(&mut self, slot: u32, run: &mut u32, out: &mut CacheActions) -> Result<(), WaitReason> {
        while self.flights.request(slot).next_page < self.flights.request(slot).end_page {
            let request = *self.flights.request(slot);
            let page = request.next_page;
            let (number, bit) = (page >> self.sizes.line_shift, self.page_bit(page));
            let mut entry = self.lines.find_entry(number);
            let (line, valid) = (self.lines[entry], self.lines.head(entry).valid);
            let covered = self.covers_page(&request.io, page);
            if line.flushing & bit != 0 {
                return Err(WaitReason::Flight(self.flights.find_over_page(page, true, line.flight)));
            }
            if line.reading & bit != 0 && valid & bit == 0 && !covered {
                return Err(WaitReason::Flight(self.flights.find_over_page(page, false, line.flight)));
            }
            if self.lines.held_mask(entry) & bit == 0 {
                entry = self.make_room(number, entry, false).ok_or(WaitReason::Room)?;
                self.lines.held_pages += 1;
            }
            self.extend_run(run, page, true, out);
            let keep = self.allocate_on_write || line.reading & bit != 0;
            let line = &mut self.lines[entry];
            line.flushing |= bit;
            line.unused_read_ahead &= !bit;
            self.lines.head_mut(entry).valid |= if covered && keep { bit } else { 0 };
            self.lines.mark_used(entry);
            self.flights.request_mut(slot).next_page += 1;
            self.flights.add_waiter(slot, *run);
        }
        Ok(())
    }

    /// Returns true if a request covers a whole page.
    fn covers_page(&self, io: &Io, page: u64) -> bool {
        let first = page << self.sizes.page_shift;
        io.first <= first && io.end() >= (first + (1 << self.sizes.page_shift)).min(self.capacity_blocks)
    }

    /// Marks pages of an entry as requested.
    #[inline]
    fn mark_pages_used(&mut self, entry: u32, requested: u64) {
        if self.lines.head(entry).has_unused_read_ahead {
            let line = &mut self.lines[entry];
            let used_ahead = line.unused_read_ahead & requested;
            line.unused_read_ahead &= !requested;
            let has_more = line.unused_read_ahead != 0;
            self.lines.head_mut(entry).has_unused_read_ahead = has_more;
            self.counters.blocks_ahead_used += u64::from(used_ahead.count_ones()) << self.sizes.page_shift;
        }
        self.lines.mark_used(entry);
    }

    /// Makes room for one more page of a line, which is clean if `for_clean` is set, and returns the entry of the line;
    /// `entry` is the existing one, if any.
    fn make_room(&mut self, number: u64, entry: u32, for_clean: bool) -> Option<u32> {
        let is_full = |s: &Cache| {
            s.lines.held_pages >= s.sizes.pages || for_clean && s.lines.held_pages - s.dirty_pages >= s.max_clean_pages
        };
        while is_full(self) {
            if !self.evict_oldest(entry) {
                return None;
            }
        }
        if entry != NO_ENTRY {
            return Some(entry);
        }
        self.lines.add_entry(number).or_else(|| {
            self.evict_oldest(NO_ENTRY);
            self.lines.add_entry(number)
        })
    }

    /// Evicts the least recently used entry that is not busy, except for `excluded`.
    pub(super) fn evict_oldest(&mut self, excluded: u32) -> bool {
        let Some(oldest) = self.lines.find_victim(excluded) else { return false };
        self.lines.remove_entry(oldest);
        self.counters.evictions += 1;
        true
    }

    /// Extends the run (the I/O being assembled) by a page, or sends it and begins another.
    fn extend_run(&mut self, run: &mut u32, page: u64, write: bool, out: &mut CacheActions) {
        if let Some(flight) = self.flights.get(*run)
            && flight.end_page == page
            // a write is clipped to its request, whose length fits into 32 bits
            && (write || flight.end_page - flight.first_page < u64::from(u32::MAX) >> self.sizes.page_shift)
        {
            return self.flights.extend_by_page(*run);
        }
        // the pages of a write are contiguous; it could not be sent here, where its clipping is not known
        debug_assert!(
            self.flights.get(*run).is_none_or(|flight| !flight.write),
            "a write is sent without its clipping"
        );
        self.send_run(run, None, out);
        *run = self.flights.begin_io(page, write);
    }

    /// Sends the run, clipped to `clip`.
    pub(super) fn send_run(&mut self, run: &mut u32, clip: Option<Io>, out: &mut CacheActions) {
        let Some(flight) = self.flights.get(*run).copied() else { return };
        let shift = self.sizes.page_shift;
        let (mut first, mut end) = (flight.first_page << shift, (flight.end_page << shift).min(self.capacity_blocks));
        if let Some(clip) = clip {
            (first, end) = (first.max(clip.first), end.min(clip.end()));
        }
        debug_assert!(first < end, "an I/O from {first} to {end} is empty");
        let io = Io { first, blocks: (end - first) as u32, write: flight.write };
        let (ios, blocks) = match io.write {
            true => (&mut self.counters.write_ios, &mut self.counters.blocks_written),
            false => (&mut self.counters.read_ios, &mut self.counters.blocks_read),
        };
        *ios += 1;
        *blocks += u64::from(io.blocks);
        out.send.push(BackingIo { flight_number: *run, io });
        *run = NO_FLIGHT;
    }

    /// Updates a line after a flight read or wrote the pages in `mask`.
    pub(super) fn finish_line(&mut self, number: u64, mask: u64, write: bool) {
        let entry = self.lines.find_entry(number);
        if entry == NO_ENTRY {
            return;
        }
        let before = self.lines.held_mask(entry);
        let line = &mut self.lines[entry];
        if write {
            line.flushing &= !mask;
            if self.write_back.is_some() {
                self.flushing_pages -= u64::from(mask.count_ones());
                self.dirty_pages -= u64::from((mask & !line.dirty).count_ones());
            }
        } else {
            let arrived = line.reading & mask;
            line.reading &= !mask;
            self.lines.head_mut(entry).valid |= arrived;
        }
        let line = &self.lines[entry];
        let needs_flush = line.dirty & !line.flushing != 0 && !line.is_flush_queued;
        let held = self.lines.held_mask(entry);
        self.lines.held_pages -= u64::from((before & !held).count_ones());
        if needs_flush {
            self.queue_flush(entry);
        }
        if held == 0 {
            self.lines.remove_entry(entry);
        } else if !self.lines.head(entry).is_in_use_order && !self.lines[entry].is_busy() {
            // a written entry left the order as the oldest; one just read is new
            self.lines.insert_use(entry, !write);
        }
    }

    fn queue_request(&mut self, slot: u32) {
        self.last_turn += 1;
        let turn = self.last_turn;
        let request = self.flights.request_mut(slot);
        (request.is_queued, request.turn) = (true, turn);
        let queue = if request.io.write { &mut self.flights.writers } else { &mut self.flights.readers };
        queue.push_back(slot);
    }

    /// Retries the requests that wait for room, in order of arrival.
    pub(super) fn retry_queued(&mut self, out: &mut CacheActions) {
        let mut is_blocked = [false; 2];
        loop {
            let head = |write: bool| {
                let queue = if write { &self.flights.writers } else { &self.flights.readers };
                queue
                    .front()
                    .filter(|_| !is_blocked[usize::from(write)])
                    .map(|slot| (self.flights.request(*slot).turn, *slot))
            };
            let write = match (head(false), head(true)) {
                (None, None) => return,
                (Some(reader), Some(writer)) => writer.0 < reader.0,
                (None, Some(_)) => true,
                (Some(_), None) => false,
            };
            let queue = if write { &mut self.flights.writers } else { &mut self.flights.readers };
            let Some(slot) = queue.pop_front() else { return };
            let turn = self.flights.request(slot).turn;
            self.flights.request_mut(slot).is_queued = false;
            self.continue_request(slot, out);
            let request = self.flights.request_mut(slot);
            if request.is_queued {
                // it keeps its place in the queue
                request.turn = turn;
                let queue = if write { &mut self.flights.writers } else { &mut self.flights.readers };
                if let Some(last) = queue.pop_back() {
                    queue.push_front(last);
                }
                is_blocked[usize::from(write)] = true;
            }
        }
    }
}

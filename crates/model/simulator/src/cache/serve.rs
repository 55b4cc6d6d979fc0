//! Service of requests, page by page: which pages are cached, in flight, or have to be read or written, and which
//! requests wait for room.

use super::flights::{CacheRequest, NOTHING};
use super::lines::NONE;
use super::streams::{PagePresence, ReadAheadPlan};
use super::{BackingIo, Cache, CacheActions, CacheAnswer};
use crate::io::Io;

/// State of a page to be read.
enum PageState {
    Here,
    /// Being read by this flight.
    Coming(u32),
    /// A read of it was begun just now.
    Begun,
    /// Being written by this flight and not kept: it must be read after that.
    After(u32),
    NoRoom,
}

/// Reason why a request cannot continue.
enum CacheWait {
    Flight(u32),
    Room,
}

impl Cache {
    /// Marks the cached pages from the start of a request on as used; returns the page up to which (at least) they are
    /// cached, and the state of the first missing one.
    #[inline]
    pub(super) fn look(&mut self, from: u64, to: u64) -> (u64, PagePresence) {
        let shift = self.sizes.line_shift;
        let mut page = from;
        while page < to {
            let line = page >> shift;
            let wanted = self.mask(line, page, to);
            let entry = self.lines.find(line);
            let missing = wanted & !self.lines.head(entry).valid;
            if missing != 0 {
                let first = (line << shift) + u64::from(missing.trailing_zeros());
                let lowest = missing & missing.wrapping_neg();
                let coming = entry != NONE && (self.lines[entry].reading | self.lines[entry].flushing) & lowest != 0;
                return (page, if coming { PagePresence::Coming } else { PagePresence::Absent(first) });
            }
            self.used(entry, wanted);
            page = (line + 1) << shift;
        }
        (to, PagePresence::Here)
    }

    pub(super) fn ask_read(
        &mut self,
        request: CacheRequest,
        seen: PagePresence,
        ahead: ReadAheadPlan,
        out: &mut CacheActions,
    ) -> CacheAnswer {
        let answer = if seen == PagePresence::Here {
            self.counters.reads_hit += 1;
            CacheAnswer::Done
        } else {
            let along =
                if let ReadAheadPlan::Along(to) = ahead { to.min(self.last_page(request.next)) } else { request.end };
            let slot = self.flights.ask(CacheRequest { along, ..request });
            self.go_on(slot, out);
            self.answer_now(request.who, out)
        };
        if let ReadAheadPlan::Apart(from, to) = ahead {
            let mut run = NOTHING;
            for page in from..to.min(self.last_page(request.next)) {
                if let PageState::NoRoom = self.read_page(page, true, &mut run, out) {
                    break;
                }
            }
            self.close(&mut run, None, out);
        }
        self.flush(out);
        answer
    }

    pub(super) fn ask_write(
        &mut self,
        request_id: u32,
        io: Io,
        from: u64,
        to: u64,
        out: &mut CacheActions,
    ) -> CacheAnswer {
        let slot = self.flights.ask(super::asked(request_id, io, from, to));
        if self.back.is_some() && !self.flights.writers.is_empty() {
            self.queue(slot);
        } else {
            self.go_on(slot, out);
        }
        self.flush(out);
        self.answer_now(request_id, out)
    }

    /// Returns the result of a call for its own request, and removes it from `ready` if it completed within the call.
    fn answer_now(&mut self, request_id: u32, out: &mut CacheActions) -> CacheAnswer {
        // no other request completes in a submitting call
        if out.ready.pop() == Some(request_id) { CacheAnswer::Done } else { CacheAnswer::Wait }
    }

    /// Continues a request as far as possible; completes it at its end.
    pub(super) fn go_on(&mut self, slot: u32, out: &mut CacheActions) {
        let before = *self.flights.asked(slot);
        // a faulting request waits for each piece before the next
        let faulting = self.fault_most < u64::MAX && !before.io.write && before.pending > 0;
        if before.queued || faulting {
            return;
        }
        if before.next < before.end {
            let mut run = NOTHING;
            let clip = (before.io.write && self.back.is_none()).then_some(before.io);
            let stop = match (before.io.write, self.back.is_some()) {
                (false, _) => self.read_on(slot, &mut run, out),
                (true, true) => self.post_on(slot, &mut run, out),
                (true, false) => self.write_on(slot, &mut run, out),
            };
            self.close(&mut run, clip, out);
            match stop {
                Err(CacheWait::Flight(flight)) => self.flights.wait(slot, flight),
                Err(CacheWait::Room) => return self.queue(slot),
                Ok(()) => {}
            }
        }
        let request = self.flights.asked(slot);
        if request.next >= request.end && request.pending == 0 {
            self.answer(slot, out);
        }
    }

    fn answer(&mut self, slot: u32, out: &mut CacheActions) {
        let request = *self.flights.asked(slot);
        let counters = &mut self.counters;
        let count = match (request.io.write, self.back.is_some()) {
            (true, false) => &mut counters.writes_through,
            (true, true) if request.turn > 0 || request.missed || request.joined => &mut counters.writes_waited,
            (true, true) => &mut counters.writes_posted,
            _ if request.missed && (request.found || request.joined) => &mut counters.reads_part,
            _ if request.missed => &mut counters.reads_missed,
            _ if request.joined => &mut counters.reads_joined,
            _ => &mut counters.reads_hit,
        };
        *count += 1;
        out.ready.push(request.who);
        self.flights.answer(slot);
    }

    fn read_on(&mut self, slot: u32, run: &mut u32, out: &mut CacheActions) -> Result<(), CacheWait> {
        loop {
            let CacheRequest { next: page, end, along, .. } = *self.flights.asked(slot);
            if page >= end.max(along) {
                return Ok(());
            }
            let extra = page >= end;
            let read = self.read_page(page, extra, run, out);
            match read {
                PageState::NoRoom | PageState::After(_) if extra => return Ok(()),
                PageState::NoRoom => return Err(CacheWait::Room),
                PageState::After(flight) => {
                    self.flights.asked_mut(slot).joined = true;
                    return Err(CacheWait::Flight(flight));
                }
                _ => {}
            }
            let (fixed, max_pages, last) = (self.fixed, self.fault_most, self.last_page(page));
            let faults = max_pages < u64::MAX;
            let request = self.flights.asked_mut(slot);
            request.next += 1;
            if extra {
                continue;
            }
            match read {
                PageState::Coming(flight) => {
                    request.joined = true;
                    self.flights.wait(slot, flight);
                    if faults && page + 1 < end {
                        return Ok(());
                    }
                }
                PageState::Begun => {
                    request.missed = true;
                    if request.along == end {
                        request.along = end.max(page + fixed).min(last);
                    }
                    self.flights.wait(slot, *run);
                    if page + 1 < end
                        && self.flights.get(*run).is_some_and(|flight| flight.to - flight.from >= max_pages)
                    {
                        // the other missing pages are requested when these have arrived
                        return Ok(());
                    }
                }
                _ => {
                    request.found = true;
                    if faults && *run != NOTHING {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Requests a page for a read; `extra` for read-ahead, which no client has requested yet.
    fn read_page(&mut self, page: u64, extra: bool, run: &mut u32, out: &mut CacheActions) -> PageState {
        let (number, bit) = (page >> self.sizes.line_shift, self.bit(page));
        let entry = self.lines.find(number);
        if entry != NONE {
            let line = &self.lines[entry];
            let (reading, flushing) = (line.reading & bit, line.flushing & bit);
            let valid = self.lines.head(entry).valid & bit;
            let hint = line.flight;
            if !extra {
                self.used(entry, bit);
            }
            if valid != 0 {
                return PageState::Here;
            }
            if reading != 0 {
                return PageState::Coming(self.flights.over(page, false, hint));
            }
            if flushing != 0 {
                return PageState::After(self.flights.over(page, true, hint));
            }
        }
        let Some(entry) = self.room(number, entry, true) else { return PageState::NoRoom };
        self.open(run, page, false, out);
        let line = &mut self.lines[entry];
        line.reading |= bit;
        line.flight = *run;
        if extra {
            line.ahead |= bit;
            self.lines.head_mut(entry).foreseen = true;
            self.counters.blocks_ahead += 1 << self.sizes.page_shift;
        }
        self.lines.held += 1;
        self.lines.touch(entry);
        PageState::Begun
    }

    /// Posts a write as far as there is room.
    fn post_on(&mut self, slot: u32, run: &mut u32, out: &mut CacheActions) -> Result<(), CacheWait> {
        while self.flights.asked(slot).next < self.flights.asked(slot).end {
            let request = *self.flights.asked(slot);
            let page = request.next;
            let (number, bit) = (page >> self.sizes.line_shift, self.bit(page));
            let mut entry = self.lines.find(number);
            let (line, valid) = (self.lines[entry], self.lines.head(entry).valid);
            let counted = (line.dirty | line.flushing) & bit != 0;
            if !counted && self.dirty >= self.dirty_most {
                return Err(CacheWait::Room);
            }
            if self.read_first && valid & bit == 0 && !self.covers(&request.io, page) {
                match self.read_page(page, false, run, out) {
                    PageState::Begun => self.flights.asked_mut(slot).missed = true,
                    PageState::NoRoom => return Err(CacheWait::Room),
                    PageState::Coming(flight) | PageState::After(flight) => {
                        self.flights.asked_mut(slot).joined = true;
                        return Err(CacheWait::Flight(flight));
                    }
                    PageState::Here => {}
                }
                return Err(CacheWait::Flight(*run));
            }
            if self.lines.held_of(entry) & bit == 0 {
                entry = self.room(number, entry, false).ok_or(CacheWait::Room)?;
                self.lines.held += 1;
            }
            self.dirty += u64::from(!counted);
            if line.dirty & bit != 0 {
                self.counters.blocks_overwritten += 1 << self.sizes.page_shift;
            }
            let line = &mut self.lines[entry];
            line.dirty |= bit;
            line.ahead &= !bit;
            if line.flushing & bit == 0 && !line.queued {
                self.enqueue(entry);
            }
            self.lines.head_mut(entry).valid |= bit;
            self.lines.touch(entry);
            self.flights.asked_mut(slot).next += 1;
        }
        Ok(())
    }

    /// Sends a write-through below as far as no flight conflicts with it.
    fn write_on(&mut self, slot: u32, run: &mut u32, out: &mut CacheActions) -> Result<(), CacheWait> {
        while self.flights.asked(slot).next < self.flights.asked(slot).end {
            let request = *self.flights.asked(slot);
            let page = request.next;
            let (number, bit) = (page >> self.sizes.line_shift, self.bit(page));
            let mut entry = self.lines.find(number);
            let (line, valid) = (self.lines[entry], self.lines.head(entry).valid);
            let covered = self.covers(&request.io, page);
            if line.flushing & bit != 0 {
                return Err(CacheWait::Flight(self.flights.over(page, true, line.flight)));
            }
            if line.reading & bit != 0 && valid & bit == 0 && !covered {
                return Err(CacheWait::Flight(self.flights.over(page, false, line.flight)));
            }
            if self.lines.held_of(entry) & bit == 0 {
                entry = self.room(number, entry, false).ok_or(CacheWait::Room)?;
                self.lines.held += 1;
            }
            self.open(run, page, true, out);
            let keep = self.allocate || line.reading & bit != 0;
            let line = &mut self.lines[entry];
            line.flushing |= bit;
            line.ahead &= !bit;
            self.lines.head_mut(entry).valid |= if covered && keep { bit } else { 0 };
            self.lines.touch(entry);
            self.flights.asked_mut(slot).next += 1;
            self.flights.wait(slot, *run);
        }
        Ok(())
    }

    /// Returns true if a request covers a whole page.
    fn covers(&self, io: &Io, page: u64) -> bool {
        let first = page << self.sizes.page_shift;
        io.first <= first && io.end() >= (first + (1 << self.sizes.page_shift)).min(self.blocks)
    }

    /// Marks pages of an entry as requested.
    #[inline]
    fn used(&mut self, entry: u32, wanted: u64) {
        if self.lines.head(entry).foreseen {
            let line = &mut self.lines[entry];
            let foreseen = line.ahead & wanted;
            line.ahead &= !wanted;
            let some = line.ahead != 0;
            self.lines.head_mut(entry).foreseen = some;
            self.counters.blocks_ahead_used += u64::from(foreseen.count_ones()) << self.sizes.page_shift;
        }
        self.lines.touch(entry);
    }

    /// Makes room for one more page of a line and returns its entry; `entry` is the existing one, if any.
    fn room(&mut self, number: u64, entry: u32, clean: bool) -> Option<u32> {
        let full = |s: &Cache| s.lines.held >= s.sizes.pages || clean && s.lines.held - s.dirty >= s.clean_most;
        while full(self) {
            if !self.evict(entry) {
                return None;
            }
        }
        if entry != NONE {
            return Some(entry);
        }
        self.lines.add(number).or_else(|| {
            self.evict(NONE);
            self.lines.add(number)
        })
    }

    /// Evicts the least recently used entry that is not busy, except for `excluded`.
    pub(super) fn evict(&mut self, excluded: u32) -> bool {
        let Some(oldest) = self.lines.oldest(excluded) else { return false };
        self.lines.remove(oldest);
        self.counters.evictions += 1;
        true
    }

    /// Extends the run (the I/O being assembled) by a page, or sends it and begins another.
    fn open(&mut self, run: &mut u32, page: u64, write: bool, out: &mut CacheActions) {
        if let Some(flight) = self.flights.get(*run)
            && flight.to == page
            // a write is clipped to its request, whose length fits into 32 bits
            && (write || flight.to - flight.from < u64::from(u32::MAX) >> self.sizes.page_shift)
        {
            return self.flights.extend(*run);
        }
        // never sends a write, whose clipping would be missing here: the pages of a write are contiguous
        self.close(run, None, out);
        *run = self.flights.begin(page, write);
    }

    /// Sends the run, clipped to `clip`.
    pub(super) fn close(&mut self, run: &mut u32, clip: Option<Io>, out: &mut CacheActions) {
        let Some(flight) = self.flights.get(*run).copied() else { return };
        let shift = self.sizes.page_shift;
        let (mut first, mut end) = (flight.from << shift, (flight.to << shift).min(self.blocks));
        if let Some(clip) = clip {
            (first, end) = (first.max(clip.first), end.min(clip.end()));
        }
        let io = Io { first, blocks: (end - first) as u32, write: flight.write };
        let (ios, blocks) = match io.write {
            true => (&mut self.counters.write_ios, &mut self.counters.blocks_written),
            false => (&mut self.counters.read_ios, &mut self.counters.blocks_read),
        };
        *ios += 1;
        *blocks += u64::from(io.blocks);
        out.send.push(BackingIo { number: *run, io });
        *run = NOTHING;
    }

    /// Updates a line after a flight read or wrote the pages in `mask`.
    pub(super) fn arrived(&mut self, number: u64, mask: u64, write: bool) {
        let entry = self.lines.find(number);
        if entry == NONE {
            return;
        }
        let before = self.lines.held_of(entry);
        let line = &mut self.lines[entry];
        if write {
            line.flushing &= !mask;
            if self.back.is_some() {
                self.leaving -= u64::from(mask.count_ones());
                self.dirty -= u64::from((mask & !line.dirty).count_ones());
            }
        } else {
            let came = line.reading & mask;
            line.reading &= !mask;
            self.lines.head_mut(entry).valid |= came;
        }
        let line = &self.lines[entry];
        let (held, waits) = (self.lines.held_of(entry), line.dirty & !line.flushing != 0 && !line.queued);
        self.lines.held -= u64::from((before & !held).count_ones());
        if waits {
            self.enqueue(entry);
        }
        if held == 0 {
            self.lines.remove(entry);
        } else if !self.lines.head(entry).listed && !self.lines[entry].busy() {
            // a written entry left the order as the oldest; one just read is new
            self.lines.list(entry, !write);
        }
    }

    fn queue(&mut self, slot: u32) {
        self.turn += 1;
        let turn = self.turn;
        let request = self.flights.asked_mut(slot);
        (request.queued, request.turn) = (true, turn);
        let queue = if request.io.write { &mut self.flights.writers } else { &mut self.flights.readers };
        queue.push_back(slot);
    }

    /// Retries the requests that wait for room, in order of arrival.
    pub(super) fn retry(&mut self, out: &mut CacheActions) {
        let mut stuck = [false; 2];
        loop {
            let head = |write: bool| {
                let queue = if write { &self.flights.writers } else { &self.flights.readers };
                queue.front().filter(|_| !stuck[usize::from(write)]).map(|slot| (self.flights.asked(*slot).turn, *slot))
            };
            let write = match (head(false), head(true)) {
                (None, None) => return,
                (Some(reader), Some(writer)) => writer.0 < reader.0,
                (None, Some(_)) => true,
                (Some(_), None) => false,
            };
            let queue = if write { &mut self.flights.writers } else { &mut self.flights.readers };
            let Some(slot) = queue.pop_front() else { return };
            let turn = self.flights.asked(slot).turn;
            self.flights.asked_mut(slot).queued = false;
            self.go_on(slot, out);
            let request = self.flights.asked_mut(slot);
            if request.queued {
                // it keeps its place in the queue
                request.turn = turn;
                let queue = if write { &mut self.flights.writers } else { &mut self.flights.readers };
                if let Some(last) = queue.pop_back() {
                    queue.push_front(last);
                }
                stuck[usize::from(write)] = true;
            }
        }
    }
}

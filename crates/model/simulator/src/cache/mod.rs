//! Block cache between its clients and the layer below: the host's file cache (read-ahead, posted and coalesced writes,
//! limits of dirty pages) or a controller's (read-ahead, battery-backed write-back or write-through).
//!
//! The cache holds no data and has no clock: its owner reports requests ([`Cache::submit`]) and I/Os completed below
//! ([`Cache::complete_io`]); each call returns which I/Os to send below, which requests are complete, and when to call
//! again ([`CacheActions`]). Invariants:
//!
//! - No page is read twice at once, and two writes of a page are never in flight together, so the order in which the
//!   layer below completes does not matter.
//! - A page written while it is read or flushed keeps the written data.
//! - Every page of an I/O in flight has a place in the cache, so requests larger than the cache go through it piece by
//!   piece.
//!
//! Files:
//!
//! - `spec.rs`: the description; `cache_lines.rs`: entries and their LRU order
//! - `streams.rs`: read-ahead; `request_service.rs`: requests, page by page
//! - `flush_queue.rs`, `flush.rs`: order and time of flushing dirty pages
//! - `barrier.rs`: flush requests that wait until all posted writes are below
//! - `in_flight.rs`: I/Os in flight, and the requests that wait for them
mod barrier;
mod cache_lines;
mod counters;
mod flush;
mod flush_queue;
mod in_flight;
mod request_service;
mod spec;
mod streams;
#[cfg(test)]
mod tests;

pub use counters::CacheCounters;
pub use spec::{BlockCacheSpec, CacheReadAhead, CacheSpecError, FlushOrder, WriteBackPolicy, WritePolicy};
pub use streams::MAX_STREAMS;

use crate::Ns;
use crate::io::Io;
use barrier::Barrier;
use cache_lines::{CacheLines, NO_ENTRY};
use flush_queue::FlushQueue;
use in_flight::{CacheRequest, IosInFlight};
use spec::CacheSizes;
use streams::{PagePresence, ReadAheadPlan, SequentialStreams};

/// An I/O for the layer below; its number is passed back to [`Cache::complete_io`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackingIo {
    /// Number among the I/Os in flight.
    pub flight_number: u32,
    /// Blocks to read or write.
    pub io: Io,
}

/// Actions that follow from a call. A value is reused: each call empties it first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CacheActions {
    /// I/Os to send below, in this order.
    pub send: Vec<BackingIo>,
    /// Requests that had to wait and are complete now.
    pub ready: Vec<u32>,
    /// Time at which to call [`Cache::handle_wake`]. No other time is requested before that call.
    pub wake_at: Option<Ns>,
}

impl CacheActions {
    /// Creates an empty set of actions.
    pub fn new() -> CacheActions {
        CacheActions::default()
    }
}

/// Result of submitting a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubmitResult {
    /// The request is complete: a hit, or posted.
    Done,
    /// The request is complete when its id appears in [`CacheActions::ready`] of a later call.
    Wait,
}

/// Range of addresses that is a separate device below.
#[derive(Clone, Debug)]
struct CacheVolume {
    /// First page of the volume.
    first_page: u64,
    /// Page after the last one of the volume.
    end_page: u64,
    /// Entries to be flushed.
    flush_queue: FlushQueue,
    /// Number of flushes in flight.
    flushes_in_flight: u32,
}

/// A block cache with its state.
#[derive(Clone, Debug)]
pub struct Cache {
    /// Capacity below, blocks.
    capacity_blocks: u64,
    volumes: Vec<CacheVolume>,
    /// Volume whose turn it is to be flushed.
    next_volume: usize,
    sizes: CacheSizes,
    /// Largest number of pages that are not dirty.
    max_clean_pages: u64,
    /// `None` for a write-through cache.
    write_back: Option<WriteBackPolicy>,
    /// Largest number of dirty pages.
    max_dirty_pages: u64,
    /// Number of dirty pages above which flushing begins.
    flush_above_pages: u64,
    /// Largest number of pages in one flush.
    max_run_pages: u64,
    read_before_partial_write: bool,
    allocate_on_write: bool,
    /// Pages of a run if every miss is read in fixed runs; 0 otherwise.
    fixed_run_pages: u64,
    /// Largest number of pages that a request reads before it waits for them; `None` if it reads all of them at once.
    max_fault_pages: Option<u64>,
    lines: CacheLines,
    streams: Option<SequentialStreams>,
    flights: IosInFlight,
    last_turn: u64,
    /// Pages dirty or being flushed.
    dirty_pages: u64,
    /// Pages being flushed.
    flushing_pages: u64,
    /// True while [`Cache::flush_all`] flushes pages of any age.
    is_draining: bool,
    /// Flush requests that wait until posted writes are below.
    barriers: Vec<Barrier>,
    wake_at: Option<Ns>,
    now: Ns,
    counters: CacheCounters,
}

impl Cache {
    /// Creates an empty cache above one volume of `blocks_of_volume` blocks. Values that
    /// [`BlockCacheSpec::check_limits`] rejects are replaced by the nearest valid ones.
    pub fn new(spec: &BlockCacheSpec, blocks_of_volume: u64) -> Cache {
        Cache::above_volumes(spec, &[(0, blocks_of_volume)])
    }

    /// Creates an empty cache above several volumes, each with its first block in the addresses of the cache and its
    /// length, in ascending order: read-ahead stops at the end of each, and each is flushed separately.
    pub fn above_volumes(spec: &BlockCacheSpec, volumes: &[(u64, u64)]) -> Cache {
        let sizes = CacheSizes::from_spec(spec);
        let share = |share: f64| (sizes.pages as f64 * share.clamp(0.0, 1.0)) as u64;
        let in_pages = |blocks: u32| (u64::from(blocks).div_ceil(1 << sizes.page_shift)).max(1);
        let back = match spec.write {
            WritePolicy::Through => None,
            WritePolicy::Back(back) => Some(back),
        };
        let reserve = if back.is_some() { share(spec.reserve_for_writes) } else { 0 };
        let max_clean_pages = (sizes.pages - reserve.min(sizes.pages)).max(1);
        let max_run = (max_clean_pages / 4).max(1);
        let (fixed, streams) = match spec.read_ahead {
            CacheReadAhead::None => (0, None),
            CacheReadAhead::Fixed { blocks } => (in_pages(blocks).min(max_run), None),
            CacheReadAhead::Doubling { from, to } => {
                let (from, to) = (in_pages(from).min(max_run), in_pages(to).min(max_run));
                (0, Some(SequentialStreams::new(spec.streams, from, to, spec.starts_early)))
            }
        };
        let by_address = back.is_some_and(|back| back.order == FlushOrder::Address);
        let limits = back.unwrap_or_default();
        let cache_volumes = volumes.iter().map(|(first, blocks)| CacheVolume {
            first_page: first >> sizes.page_shift,
            end_page: first.saturating_add(*blocks).div_ceil(1 << sizes.page_shift),
            flush_queue: FlushQueue::new(by_address),
            flushes_in_flight: 0,
        });
        Cache {
            capacity_blocks: volumes.iter().map(|(first, blocks)| first.saturating_add(*blocks)).max().unwrap_or(0),
            volumes: cache_volumes.collect(),
            next_volume: 0,
            sizes,
            max_clean_pages,
            write_back: back,
            max_dirty_pages: share(limits.dirty_limit).max(1),
            flush_above_pages: share(limits.flush_at),
            max_run_pages: (u64::from(limits.coalesce_blocks) >> sizes.page_shift).max(1),
            read_before_partial_write: spec.read_before_partial_write,
            allocate_on_write: spec.allocate_on_write,
            fixed_run_pages: fixed,
            max_fault_pages: spec.fault_blocks.map(in_pages),
            lines: CacheLines::new(sizes.lines),
            streams,
            flights: IosInFlight::default(),
            last_turn: 0,
            dirty_pages: 0,
            flushing_pages: 0,
            is_draining: false,
            barriers: Vec::new(),
            wake_at: None,
            now: 0,
            counters: CacheCounters::default(),
        }
    }

    /// Submits a request; `request_id` is the caller's, and comes back in [`CacheActions::ready`] if the request has to
    /// wait. Blocks beyond the volume are ignored.
    #[inline]
    pub fn submit(&mut self, now: Ns, request_id: u32, io: &Io, out: &mut CacheActions) -> SubmitResult {
        self.begin_call(now, out);
        let end = io.end().min(self.capacity_blocks);
        if io.first >= end {
            return SubmitResult::Done;
        }
        let io = Io { blocks: (end - io.first) as u32, ..*io };
        let from = io.first >> self.sizes.page_shift;
        let to = ((end - 1) >> self.sizes.page_shift) + 1;
        if io.write {
            return self.submit_write(request_id, io, from, to, out);
        }
        let (next, seen) = self.count_cached_prefix(from, to);
        let ahead = match &mut self.streams {
            Some(streams) => streams.plan_read_ahead(io.first, end, from, to, seen),
            None => ReadAheadPlan::Nothing,
        };
        if seen == PagePresence::Cached && ahead == ReadAheadPlan::Nothing {
            self.counters.reads_hit += 1;
            return SubmitResult::Done;
        }
        self.submit_read(
            CacheRequest { has_hits: next > from, next_page: next, ..new_request(request_id, io, from, to) },
            seen,
            ahead,
            out,
        )
    }

    /// Reports an I/O completed below. A number that is not in flight is ignored.
    pub fn complete_io(&mut self, now: Ns, number: u32, out: &mut CacheActions) {
        self.begin_call(now, out);
        let Some(flight) = self.flights.get(number).copied() else { return };
        let shift = self.sizes.line_shift;
        for line in flight.first_page >> shift..=(flight.end_page - 1) >> shift {
            self.finish_line(line, self.page_mask(line, flight.first_page, flight.end_page), flight.write);
        }
        if flight.write && self.write_back.is_some() {
            let volume = self.find_volume(flight.first_page >> shift);
            self.volumes[volume].flushes_in_flight -= 1;
        }
        while self.lines.held_pages - self.dirty_pages > self.max_clean_pages && self.evict_oldest(NO_ENTRY) {}
        self.note_write_completed(number);
        let mut link = self.flights.end_io(number);
        while let Some((request, next)) = self.flights.take_waiter(link) {
            link = next;
            self.flights.request_mut(request).pending_flights -= 1;
            self.continue_request(request, out);
        }
        self.retry_queued(out);
        self.send_flushes(out);
        self.advance_barriers(out);
    }

    /// Handles the wake-up at a time requested by [`CacheActions::wake_at`].
    pub fn handle_wake(&mut self, now: Ns, out: &mut CacheActions) {
        self.begin_call(now, out);
        if self.wake_at.is_some_and(|wake| wake <= now) {
            self.wake_at = None;
        }
        self.send_flushes(out);
    }

    /// Flushes all dirty pages, whatever their age, until [`Cache::is_clean`].
    pub fn flush_all(&mut self, now: Ns, out: &mut CacheActions) {
        self.begin_call(now, out);
        self.is_draining = self.dirty_pages > 0;
        self.send_flushes(out);
    }

    /// Returns true if no page is dirty.
    pub fn is_clean(&self) -> bool {
        self.dirty_pages == 0
    }

    /// Returns true if a read of this block would hit.
    pub fn holds_block(&self, block: u64) -> bool {
        let page = block >> self.sizes.page_shift;
        let slot = self.lines.find_entry(page >> self.sizes.line_shift);
        self.lines.head(slot).valid & self.page_bit(page) != 0
    }

    /// Returns true if no request waits and no I/O is in flight below.
    pub fn is_idle(&self) -> bool {
        self.flights.waiting_requests() == 0 && self.flights.ios_in_flight() == 0 && self.barriers.is_empty()
    }

    /// Returns the counters up to `now`.
    pub fn counters(&self, now: Ns) -> CacheCounters {
        let shift = self.sizes.page_shift;
        let since_last_call = u128::from(self.dirty_pages << shift) * u128::from(now.saturating_sub(self.now));
        CacheCounters {
            dirty_blocks: self.dirty_pages << shift,
            dirty_block_ns: self.counters.dirty_block_ns + since_last_call,
            held_blocks: self.lines.held_pages << shift,
            waiting: self.flights.waiting_requests() as u64,
            ..self.counters
        }
    }

    #[inline]
    fn begin_call(&mut self, now: Ns, out: &mut CacheActions) {
        out.send.clear();
        out.ready.clear();
        out.wake_at = None;
        let step = now.saturating_sub(self.now);
        if self.dirty_pages > 0 {
            self.counters.dirty_block_ns += u128::from(self.dirty_pages << self.sizes.page_shift) * u128::from(step);
        }
        self.now += step;
    }

    /// Returns the end page of the volume of a page.
    fn volume_end_page(&self, page: u64) -> u64 {
        self.volumes[self.find_volume(page >> self.sizes.line_shift)].end_page
    }

    #[inline]
    fn page_bit(&self, page: u64) -> u64 {
        1 << (page & ((1 << self.sizes.line_shift) - 1))
    }

    /// Returns the bits of a line for the pages `from..to`, which must overlap the line.
    #[inline]
    fn page_mask(&self, line: u64, from: u64, to: u64) -> u64 {
        let first = line << self.sizes.line_shift;
        let (low, high) = (from.max(first) - first, to.min(first + (1 << self.sizes.line_shift)) - first);
        (u64::MAX >> (64 - (high - low))) << low
    }
}

/// Creates a request that was not processed yet.
fn new_request(request_id: u32, io: Io, from: u64, to: u64) -> CacheRequest {
    CacheRequest {
        request_id,
        io,
        next_page: from,
        end_page: to,
        read_ahead_end: to,
        pending_flights: 0,
        is_queued: false,
        has_hits: false,
        has_joins: false,
        has_misses: false,
        turn: 0,
    }
}

//! A cache of blocks between who asks and what is below: the host's file cache
//! (read-ahead, posted and coalesced writes, limits of dirty pages) or a
//! controller's (read-ahead, battery-backed write-back or write-through).
//!
//! It holds no data and knows no clock: its owner tells it what is asked
//! ([`Cache::ask`]) and what is done below ([`Cache::finished`]), and each
//! answer says what to send below, who may go on, and when to call again
//! ([`CacheActions`]). What holds at any time: nothing is read twice at once, and two
//! writes of a page are never under way together, so that the order in which
//! the layer below answers never matters; a page written while it is read or
//! flushed stays as written; everything under way has its page, so requests
//! larger than the cache go through it piece by piece.
//!
//! - `spec.rs`: the description; `lines.rs`: entries and the order of use
//! - `streams.rs`: read-ahead; `serve.rs`: requests, page by page
//! - `order.rs`, `flush.rs`: which dirty pages go below, and when
//! - `barrier.rs`: who waits until all that was posted is below
//! - `flights.rs`: what is under way, and who waits

mod barrier;
mod counters;
mod flights;
mod flush;
mod lines;
mod order;
mod serve;
mod spec;
mod streams;
#[cfg(test)]
mod tests;

pub use counters::CacheCounters;
pub use spec::{BlockCacheSpec, CacheReadAhead, CacheSpecError, FlushOrder, WriteBackPolicy, WritePolicy};
pub use streams::MOST_STREAMS;

use crate::Ns;
use crate::io::Io;
use barrier::Barrier;
use flights::{CacheFlights, CacheRequest};
use lines::{CacheLines, NONE};
use order::FlushQueue;
use spec::CacheSizes;
use streams::{PagePresence, ReadAheadPlan, SequentialStreams};

/// An I/O for the layer below; its number is given back with [`Cache::finished`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackingIo {
    /// Which it is, among those under way.
    pub number: u32,
    /// What is to be done.
    pub io: Io,
}

/// What follows from a call. One is used again and again: each call empties it first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CacheActions {
    /// To be sent below, in this order.
    pub send: Vec<BackingIo>,
    /// Requests that had to wait and are done now.
    pub ready: Vec<u32>,
    /// [`Cache::wake`] is to be called at this moment. Until it was, none is asked for again.
    pub wake_at: Option<Ns>,
}

impl CacheActions {
    /// Nothing.
    pub fn new() -> CacheActions {
        CacheActions::default()
    }
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheAnswer {
    /// It is done: found, or posted.
    Done,
    /// It is done when its number appears in [`CacheActions::ready`] of a later call.
    Wait,
}

/// A part of the addresses that is a device of its own below.
#[derive(Clone, Debug)]
struct CacheVolume {
    /// Its pages.
    from: u64,
    to: u64,
    /// What is to be flushed of it, and I/Os under way that do.
    order: FlushQueue,
    leaving: u32,
}

/// A cache, and what it is doing.
#[derive(Clone, Debug)]
pub struct Cache {
    /// All that is below, blocks.
    blocks: u64,
    volumes: Vec<CacheVolume>,
    /// Whose turn it is to be flushed.
    next_volume: usize,
    sizes: CacheSizes,
    /// Pages that may be other than dirty.
    clean_most: u64,
    /// `None` where writes go through.
    back: Option<WriteBackPolicy>,
    /// Dirty pages at most, those above which they go, and pages of the longest run.
    dirty_most: u64,
    flush_above: u64,
    run_most: u64,
    read_first: bool,
    allocate: bool,
    /// Pages of a run where all that is missing is read in runs; 0 where not.
    fixed: u64,
    /// Pages that a request reads before it waits for them.
    fault_most: u64,
    lines: CacheLines,
    streams: Option<SequentialStreams>,
    flights: CacheFlights,
    turn: u64,
    /// Pages dirty or on their way; on their way.
    dirty: u64,
    leaving: u64,
    draining: bool,
    /// Those who wait until what was posted is below.
    barriers: Vec<Barrier>,
    wake: Option<Ns>,
    now: Ns,
    counters: CacheCounters,
}

impl Cache {
    /// An empty cache above a volume of so many blocks. Values that
    /// [`BlockCacheSpec::check`] refuses are taken as the nearest that works.
    pub fn new(spec: &BlockCacheSpec, blocks_of_volume: u64) -> Cache {
        Cache::over(spec, &[(0, blocks_of_volume)])
    }

    /// The same above several volumes, each with its first block in the
    /// addresses of the cache and its length, upwards: reading ahead ends at
    /// the end of each, and each is flushed by itself.
    pub fn over(spec: &BlockCacheSpec, volumes: &[(u64, u64)]) -> Cache {
        let sizes = CacheSizes::of(spec);
        let share = |share: f64| (sizes.pages as f64 * share.clamp(0.0, 1.0)) as u64;
        let in_pages = |blocks: u32| (u64::from(blocks).div_ceil(1 << sizes.page_shift)).max(1);
        let back = match spec.write {
            WritePolicy::Through => None,
            WritePolicy::Back(back) => Some(back),
        };
        let reserve = if back.is_some() { share(spec.reserve_for_writes) } else { 0 };
        let clean_most = (sizes.pages - reserve.min(sizes.pages)).max(1);
        let longest = (clean_most / 4).max(1);
        let (fixed, streams) = match spec.read {
            CacheReadAhead::None => (0, None),
            CacheReadAhead::Fixed { blocks } => (in_pages(blocks).min(longest), None),
            CacheReadAhead::Doubling { from, to } => {
                let (from, to) = (in_pages(from).min(longest), in_pages(to).min(longest));
                (0, Some(SequentialStreams::new(spec.streams, from, to, spec.early)))
            }
        };
        let by_address = back.is_some_and(|back| back.order == FlushOrder::Address);
        let limits = back.unwrap_or_default();
        let parts = volumes.iter().map(|(first, blocks)| CacheVolume {
            from: first >> sizes.page_shift,
            to: first.saturating_add(*blocks).div_ceil(1 << sizes.page_shift),
            order: FlushQueue::new(by_address),
            leaving: 0,
        });
        Cache {
            blocks: volumes.iter().map(|(first, blocks)| first.saturating_add(*blocks)).max().unwrap_or(0),
            volumes: parts.collect(),
            next_volume: 0,
            sizes,
            clean_most,
            back,
            dirty_most: share(limits.dirty_limit).max(1),
            flush_above: share(limits.flush_at),
            run_most: (u64::from(limits.coalesce_blocks) >> sizes.page_shift).max(1),
            read_first: spec.read_before_partial_write,
            allocate: spec.allocate_on_write,
            fixed,
            fault_most: spec.fault_blocks.map_or(u64::MAX, in_pages),
            lines: CacheLines::new(sizes.lines),
            streams,
            flights: CacheFlights::default(),
            turn: 0,
            dirty: 0,
            leaving: 0,
            draining: false,
            barriers: Vec::new(),
            wake: None,
            now: 0,
            counters: CacheCounters::default(),
        }
    }

    /// A request comes; `who` is its number at whoever asks, and comes back in
    /// [`CacheActions::ready`] where it has to wait. What lies beyond the volume is left out.
    #[inline]
    pub fn ask(&mut self, now: Ns, who: u32, io: &Io, out: &mut CacheActions) -> CacheAnswer {
        self.begin(now, out);
        let end = io.end().min(self.blocks);
        if io.first >= end {
            return CacheAnswer::Done;
        }
        let io = Io { blocks: (end - io.first) as u32, ..*io };
        let from = io.first >> self.sizes.page_shift;
        let to = ((end - 1) >> self.sizes.page_shift) + 1;
        if io.write {
            return self.ask_write(who, io, from, to, out);
        }
        let (next, seen) = self.look(from, to);
        let ahead = match &mut self.streams {
            Some(streams) => streams.read(io.first, end, from, to, seen),
            None => ReadAheadPlan::Nothing,
        };
        if seen == PagePresence::Here && ahead == ReadAheadPlan::Nothing {
            self.counters.reads_hit += 1;
            return CacheAnswer::Done;
        }
        self.ask_read(CacheRequest { found: next > from, next, ..asked(who, io, from, to) }, seen, ahead, out)
    }

    /// An I/O is done below. A number that is not under way is not believed.
    pub fn finished(&mut self, now: Ns, number: u32, out: &mut CacheActions) {
        self.begin(now, out);
        let Some(flight) = self.flights.get(number).copied() else { return };
        let shift = self.sizes.line_shift;
        for line in flight.from >> shift..=(flight.to - 1) >> shift {
            self.arrived(line, self.mask(line, flight.from, flight.to), flight.write);
        }
        if flight.write && self.back.is_some() {
            let volume = self.volume_of(flight.from >> shift);
            self.volumes[volume].leaving -= 1;
        }
        while self.lines.held - self.dirty > self.clean_most && self.evict(NONE) {}
        self.landed(number);
        let mut link = self.flights.end(number);
        while let Some((asked, next)) = self.flights.take(link) {
            link = next;
            self.flights.asked_mut(asked).pending -= 1;
            self.go_on(asked, out);
        }
        self.retry(out);
        self.flush(out);
        self.look_at_barriers(out);
    }

    /// A moment that was asked for ([`CacheActions::wake_at`]) has come.
    pub fn wake(&mut self, now: Ns, out: &mut CacheActions) {
        self.begin(now, out);
        if self.wake.is_some_and(|wake| wake <= now) {
            self.wake = None;
        }
        self.flush(out);
    }

    /// Everything dirty goes below, whatever its age, until [`Cache::is_clean`].
    pub fn flush_all(&mut self, now: Ns, out: &mut CacheActions) {
        self.begin(now, out);
        self.draining = self.dirty > 0;
        self.flush(out);
    }

    /// Nothing here is newer than below.
    pub fn is_clean(&self) -> bool {
        self.dirty == 0
    }

    /// Whether a read of this block would be answered at once.
    pub fn holds(&self, block: u64) -> bool {
        let page = block >> self.sizes.page_shift;
        let slot = self.lines.find(page >> self.sizes.line_shift);
        self.lines.head(slot).valid & self.bit(page) != 0
    }

    /// Nothing waits and nothing is under way below.
    pub fn is_idle(&self) -> bool {
        self.flights.waiting() == 0 && self.flights.under_way() == 0 && self.barriers.is_empty()
    }

    /// What it counted up to a moment.
    pub fn counters(&self, now: Ns) -> CacheCounters {
        let shift = self.sizes.page_shift;
        let rest = u128::from(self.dirty << shift) * u128::from(now.saturating_sub(self.now));
        CacheCounters {
            dirty_blocks: self.dirty << shift,
            dirty_block_ns: self.counters.dirty_block_ns + rest,
            held_blocks: self.lines.held << shift,
            waiting: self.flights.waiting() as u64,
            ..self.counters
        }
    }

    #[inline]
    fn begin(&mut self, now: Ns, out: &mut CacheActions) {
        out.send.clear();
        out.ready.clear();
        out.wake_at = None;
        let step = now.saturating_sub(self.now);
        if self.dirty > 0 {
            self.counters.dirty_block_ns += u128::from(self.dirty << self.sizes.page_shift) * u128::from(step);
        }
        self.now += step;
    }

    /// Where the volume of a page ends.
    fn last_page(&self, page: u64) -> u64 {
        self.volumes[self.volume_of(page >> self.sizes.line_shift)].to
    }

    #[inline]
    fn bit(&self, page: u64) -> u64 {
        1 << (page & ((1 << self.sizes.line_shift) - 1))
    }

    /// The bits of a line that are in pages `from..to`, some of which are.
    #[inline]
    fn mask(&self, line: u64, from: u64, to: u64) -> u64 {
        let first = line << self.sizes.line_shift;
        let (low, high) = (from.max(first) - first, to.min(first + (1 << self.sizes.line_shift)) - first);
        (u64::MAX >> (64 - (high - low))) << low
    }
}

/// A request that was not looked at yet.
fn asked(who: u32, io: Io, from: u64, to: u64) -> CacheRequest {
    CacheRequest {
        who,
        io,
        next: from,
        end: to,
        along: to,
        pending: 0,
        queued: false,
        found: false,
        joined: false,
        missed: false,
        turn: 0,
    }
}

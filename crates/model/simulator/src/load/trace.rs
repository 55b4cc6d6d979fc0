//! A recorded stream of requests, replayed: open, each at its time, or closed,
//! each some time after the one before it is done.

use std::sync::Arc;

use diskwright_base::{Operation, Request};

use crate::Ns;
use crate::io::{BLOCK_BYTES, Io};
use crate::load::slots::Slots;
use crate::load::tally::Operations;
use crate::load::{Cause, LoadError, LoadRequest};

/// Most requests under way in an open replay.
const MOST: u32 = 1 << 22;
/// Who watches the clock of an open replay.
const CLOCK: u32 = 0;

/// One request of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceRequest {
    /// When it was asked for, since the trace began.
    pub at: Ns,
    /// How long after the end of the one before it was asked for, where that is known; else 0.
    pub pause: Ns,
    /// First block.
    pub first: u64,
    /// Blocks, at least one.
    pub blocks: u32,
    /// Which target.
    pub target: u16,
    /// A write.
    pub write: bool,
}

/// When the requests of a trace are made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Timing {
    /// At their times, whatever becomes of the ones before.
    Open {
        /// Factor of the times between them: 0.5 is twice as fast.
        scale: f64,
    },
    /// So many at a time; each of them goes on after a pause.
    Closed {
        /// Requests under way.
        depth: u32,
        /// Factor of the recorded pauses; 0: none.
        scale: f64,
    },
}

/// Requests to replay.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceSpec {
    /// In the order of their times.
    pub requests: Arc<[TraceRequest]>,
    /// When they are made.
    pub timing: Timing,
    /// What lies behind the end of its target is folded into it; otherwise it is refused.
    pub fold: bool,
    /// Through the file cache.
    pub cached: bool,
}

impl TraceSpec {
    /// Of requests as the importers tell them, each device a target in the
    /// order of their numbers; flushes and discards are left out. The second is
    /// how many were.
    pub fn record(requests: impl IntoIterator<Item = Request>) -> (Vec<TraceRequest>, u64) {
        let (mut recorded, mut left_out) = (Vec::new(), 0);
        let (mut start, mut before): (Option<i64>, Option<i64>) = (None, None);
        for request in requests {
            if !request.operation.moves_data() || request.length_bytes == 0 {
                left_out += 1;
                continue;
            }
            let start = *start.get_or_insert(request.arrival_ns);
            let since = |moment: i64| request.arrival_ns.checked_sub(moment).and_then(|ns| Ns::try_from(ns).ok());
            let first = request.offset_bytes / BLOCK_BYTES;
            let end = request.end_bytes().div_ceil(BLOCK_BYTES);
            recorded.push(TraceRequest {
                at: since(start).unwrap_or(0),
                pause: before.and_then(since).unwrap_or(0),
                first,
                blocks: u32::try_from(end - first).unwrap_or(u32::MAX),
                target: request.device,
                write: request.operation == Operation::Write,
            });
            before = request.completed();
        }
        // importers give the order of arrival, but for what a trace itself has out of order
        recorded.sort_by_key(|one| one.at);
        (recorded, left_out)
    }
}

/// A replay in progress.
#[derive(Clone, Debug)]
pub struct TraceReplay {
    requests: Arc<[TraceRequest]>,
    timing: Timing,
    cached: bool,
    rooms: Vec<u64>,
    next: usize,
    under_way: Slots<(Ns, bool)>,
    operations: Vec<Operations>,
    /// Lanes of a closed replay that have nothing more to do, and what each does.
    over: u32,
    lanes: Vec<(Ns, bool)>,
}

impl TraceReplay {
    pub(super) fn new(spec: &TraceSpec, target_blocks: &[u64]) -> Result<TraceReplay, LoadError> {
        let (scale, lanes) = match spec.timing {
            Timing::Open { scale } => (scale, 0),
            Timing::Closed { depth, scale } if (1..=65_536).contains(&depth) => (scale, depth),
            Timing::Closed { .. } => return Err(LoadError::new("depth", "expected 1 to 65536 requests at a time")),
        };
        if !(0.0..=1e6).contains(&scale) {
            return Err(LoadError::new("scale", format!("{scale}; expected a factor from 0 to 1e6")));
        }
        for (number, one) in spec.requests.iter().enumerate() {
            let number = number + 1;
            let Some(room) = target_blocks.get(usize::from(one.target)) else {
                let devices = target_blocks.len();
                let why = format!("request {number} goes to device {} of {devices}, counted from 0", one.target);
                return Err(LoadError::new("requests", why));
            };
            let ends = one.first.checked_add(u64::from(one.blocks));
            let fits = ends.is_some_and(|end| end <= *room) || (spec.fold && u64::from(one.blocks) <= *room);
            if one.blocks == 0 || !fits {
                let why = format!(
                    "request {number}, {} blocks from {}, does not fit in a target of {room}; use `fold`",
                    one.blocks, one.first
                );
                return Err(LoadError::new("requests", why));
            }
        }
        if !spec.requests.is_sorted_by_key(|one| one.at) {
            return Err(LoadError::new("requests", "requests must be in order of time"));
        }
        Ok(TraceReplay {
            requests: Arc::clone(&spec.requests),
            timing: spec.timing,
            cached: spec.cached,
            rooms: target_blocks.to_vec(),
            next: 0,
            under_way: Slots::new(MOST),
            operations: ["read", "write"].map(Operations::new).into(),
            over: 0,
            lanes: vec![(0, false); lanes as usize],
        })
    }

    pub(super) fn next(&mut self, now: Ns, who: u32, cause: Cause, asks: &mut Vec<LoadRequest>) {
        match self.timing {
            Timing::Open { scale } => self.next_open(now, who, cause, scale, asks),
            Timing::Closed { scale, .. } => self.next_closed(now, who, cause, scale, asks),
        }
    }

    fn next_open(&mut self, now: Ns, who: u32, cause: Cause, scale: f64, asks: &mut Vec<LoadRequest>) {
        if who != CLOCK {
            if let Some(&mut (began, write)) = self.under_way.get(who) {
                self.operations[usize::from(write)].done(began, now);
                self.under_way.give(who);
            }
            return;
        }
        if cause == Cause::Done && self.next < self.requests.len() {
            let one = self.requests[self.next];
            self.next += 1;
            match self.under_way.take() {
                Some(slot) => {
                    self.ask(now, slot, one, asks);
                    if let Some(place) = self.under_way.get(slot) {
                        *place = (now, one.write);
                    }
                }
                None => self.operations[usize::from(one.write)].totals.lost += 1,
            }
        }
        if let Some(one) = self.requests.get(self.next) {
            let time = if scale == 1.0 { one.at } else { (one.at as f64 * scale) as Ns };
            asks.push(LoadRequest::alarm(time.max(now), CLOCK));
        }
    }

    fn next_closed(&mut self, now: Ns, who: u32, cause: Cause, scale: f64, asks: &mut Vec<LoadRequest>) {
        let Some(&(began, write)) = self.lanes.get(who as usize) else { return };
        if cause == Cause::Done {
            self.operations[usize::from(write)].done(began, now);
        }
        let Some(&one) = self.requests.get(self.next) else {
            self.over += 1;
            return;
        };
        self.next += 1;
        let pause = if cause == Cause::Start { 0.0 } else { one.pause as f64 * scale };
        let time = now.saturating_add(pause as Ns);
        self.lanes[who as usize] = (time, one.write);
        self.ask(time, who, one, asks);
    }

    fn ask(&mut self, time: Ns, who: u32, one: TraceRequest, asks: &mut Vec<LoadRequest>) {
        let last = self.rooms[usize::from(one.target)] - u64::from(one.blocks);
        let first = if one.first > last { one.first % (last + 1) } else { one.first };
        let io = Io { first, blocks: one.blocks, write: one.write };
        let totals = &mut self.operations[usize::from(one.write)].totals;
        totals.begun += 1;
        totals.requests += 1;
        totals.bytes += u64::from(one.blocks) * BLOCK_BYTES;
        asks.push(LoadRequest { cached: self.cached, ..LoadRequest::request(time, who, one.target, io) });
    }

    pub(super) fn users(&self) -> u32 {
        self.lanes.len().max(1) as u32
    }

    pub(super) fn finished(&self) -> bool {
        let all = self.next == self.requests.len();
        all && self.under_way.is_empty() && self.over as usize == self.lanes.len()
    }

    pub(super) fn operations(&self) -> &[Operations] {
        &self.operations
    }

    pub(super) fn operations_mut(&mut self) -> &mut [Operations] {
        &mut self.operations
    }
}

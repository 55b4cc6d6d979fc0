//! Replay of a trace: open, each request at its recorded time; or closed, each request some time after the previous one
//! is done.

use std::sync::Arc;

use diskwright_base::{Operation, Request};

use crate::Ns;
use crate::io::{BLOCK_BYTES, Io};
use crate::load::operation_totals::Operations;
use crate::load::slot_pool::SlotPool;
use crate::load::{Cause, LoadError, LoadRequest};

/// Largest number of requests in flight in an open replay.
const MAX_IN_FLIGHT: u32 = 1 << 22;
/// Agent of the timer of an open replay; requests in flight have the agents from 1 on.
const TIMER_AGENT: u32 = 0;

/// One request of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceRequest {
    /// Arrival time since the start of the trace, ns.
    pub arrival_ns: Ns,
    /// Time from the completion of the previous request to the arrival of this one, ns; 0 if unknown.
    pub pause_ns: Ns,
    /// First block.
    pub first_block: u64,
    /// Number of blocks, at least one.
    pub blocks: u32,
    /// Index of the target.
    pub target: u16,
    /// True for a write.
    pub write: bool,
}

/// Timing of a replay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Timing {
    /// At the recorded times, independently of completions.
    Open {
        /// Factor of the time between requests: 0.5 is twice as fast.
        scale: f64,
    },
    /// A fixed number in flight; after each completion and its pause comes the next request.
    Closed {
        /// Number of requests in flight.
        depth: u32,
        /// Factor of the recorded pauses; 0 means no pauses.
        scale: f64,
    },
}

/// A recorded stream of requests to replay.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceSpec {
    /// Requests in order of arrival.
    pub requests: Arc<[TraceRequest]>,
    /// Timing of the replay.
    pub timing: Timing,
    /// True to fold requests beyond the end of their target into it; otherwise they are rejected.
    pub fold: bool,
    /// True if requests go through the file cache.
    pub cached: bool,
}

impl TraceSpec {
    /// Converts imported requests, each device to a target in the order of the device numbers, and leaves out
    /// flushes and discards. The second value is the number of requests left out.
    pub fn from_requests(requests: impl IntoIterator<Item = Request>) -> (Vec<TraceRequest>, u64) {
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
                arrival_ns: since(start).unwrap_or(0),
                pause_ns: before.and_then(since).unwrap_or(0),
                first_block: first,
                blocks: u32::try_from(end - first).unwrap_or(u32::MAX),
                target: request.device,
                write: request.operation == Operation::Write,
            });
            before = request.completion_time_ns();
        }
        // importers keep the order of the trace, which may not be the order of arrival
        recorded.sort_by_key(|request| request.arrival_ns);
        (recorded, left_out)
    }
}

/// A replay in progress.
#[derive(Clone, Debug)]
pub struct TraceReplay {
    requests: Arc<[TraceRequest]>,
    timing: Timing,
    cached: bool,
    target_blocks: Vec<u64>,
    next_request: usize,
    open_in_flight: SlotPool<(Ns, bool)>,
    operations: Vec<Operations>,
    /// Workers of a closed replay that have finished.
    finished_workers: u32,
    /// The request (start time, write) of each worker of a closed replay.
    closed_in_flight: Vec<(Ns, bool)>,
}

impl TraceReplay {
    pub(super) fn new(spec: &TraceSpec, target_blocks: &[u64]) -> Result<TraceReplay, LoadError> {
        let (scale, workers) = match spec.timing {
            Timing::Open { scale } => (scale, 0),
            Timing::Closed { depth, scale } if (1..=65_536).contains(&depth) => (scale, depth),
            Timing::Closed { .. } => return Err(LoadError::new("depth", "expected 1 to 65536 requests at a time")),
        };
        if !(0.0..=1e6).contains(&scale) {
            return Err(LoadError::new("scale", format!("{scale}; expected a factor from 0 to 1e6")));
        }
        for (number, request) in spec.requests.iter().enumerate() {
            let number = number + 1;
            let Some(size_blocks) = target_blocks.get(usize::from(request.target)) else {
                let devices = target_blocks.len();
                let reason = format!("request {number} goes to device {} of {devices}, counted from 0", request.target);
                return Err(LoadError::new("requests", reason));
            };
            let end = request.first_block.checked_add(u64::from(request.blocks));
            let fits =
                end.is_some_and(|end| end <= *size_blocks) || (spec.fold && u64::from(request.blocks) <= *size_blocks);
            if request.blocks == 0 || !fits {
                let reason = format!(
                    "request {number}, {} blocks from {}, does not fit in a target of {size_blocks}; use `fold`",
                    request.blocks, request.first_block
                );
                return Err(LoadError::new("requests", reason));
            }
        }
        if !spec.requests.is_sorted_by_key(|request| request.arrival_ns) {
            return Err(LoadError::new("requests", "requests must be in order of time"));
        }
        Ok(TraceReplay {
            requests: Arc::clone(&spec.requests),
            timing: spec.timing,
            cached: spec.cached,
            target_blocks: target_blocks.to_vec(),
            next_request: 0,
            open_in_flight: SlotPool::new(MAX_IN_FLIGHT),
            operations: ["read", "write"].map(Operations::new).into(),
            finished_workers: 0,
            closed_in_flight: vec![(0, false); workers as usize],
        })
    }

    pub(super) fn next(&mut self, now: Ns, agent: u32, cause: Cause, requests: &mut Vec<LoadRequest>) {
        match self.timing {
            Timing::Open { scale } => self.next_open(now, agent, cause, scale, requests),
            Timing::Closed { scale, .. } => self.next_closed(now, agent, cause, scale, requests),
        }
    }

    fn next_open(&mut self, now: Ns, agent: u32, cause: Cause, scale: f64, requests: &mut Vec<LoadRequest>) {
        if agent != TIMER_AGENT {
            if let Some(&mut (began, write)) = self.open_in_flight.get(agent) {
                self.operations[usize::from(write)].record_done(began, now);
                self.open_in_flight.free_slot(agent);
            }
            return;
        }
        if cause == Cause::Done && self.next_request < self.requests.len() {
            let request = self.requests[self.next_request];
            self.next_request += 1;
            match self.open_in_flight.allocate_slot() {
                Some(slot) => {
                    self.issue_request(now, slot, request, requests);
                    if let Some(in_flight) = self.open_in_flight.get(slot) {
                        *in_flight = (now, request.write);
                    }
                }
                None => self.operations[usize::from(request.write)].totals.lost += 1,
            }
        }
        if let Some(request) = self.requests.get(self.next_request) {
            let time = if scale == 1.0 { request.arrival_ns } else { (request.arrival_ns as f64 * scale) as Ns };
            requests.push(LoadRequest::alarm_at(time.max(now), TIMER_AGENT));
        }
    }

    fn next_closed(&mut self, now: Ns, agent: u32, cause: Cause, scale: f64, requests: &mut Vec<LoadRequest>) {
        let Some(&(began, write)) = self.closed_in_flight.get(agent as usize) else { return };
        if cause == Cause::Done {
            self.operations[usize::from(write)].record_done(began, now);
        }
        let Some(&request) = self.requests.get(self.next_request) else {
            self.finished_workers += 1;
            return;
        };
        self.next_request += 1;
        let pause = if cause == Cause::Start { 0.0 } else { request.pause_ns as f64 * scale };
        let time = now.saturating_add(pause as Ns);
        self.closed_in_flight[agent as usize] = (time, request.write);
        self.issue_request(time, agent, request, requests);
    }

    fn issue_request(&mut self, time: Ns, agent: u32, request: TraceRequest, requests: &mut Vec<LoadRequest>) {
        let last = self.target_blocks[usize::from(request.target)] - u64::from(request.blocks);
        let first = if request.first_block > last { request.first_block % (last + 1) } else { request.first_block };
        let io = Io { first, blocks: request.blocks, write: request.write };
        let totals = &mut self.operations[usize::from(request.write)].totals;
        totals.begun += 1;
        totals.requests += 1;
        totals.bytes += u64::from(request.blocks) * BLOCK_BYTES;
        requests.push(LoadRequest { cached: self.cached, ..LoadRequest::awaited_io(time, agent, request.target, io) });
    }

    pub(super) fn user_count(&self) -> u32 {
        self.closed_in_flight.len().max(1) as u32
    }

    pub(super) fn is_finished(&self) -> bool {
        let are_all_issued = self.next_request == self.requests.len();
        are_all_issued
            && self.open_in_flight.is_empty()
            && self.finished_workers as usize == self.closed_in_flight.len()
    }

    pub(super) fn operations(&self) -> &[Operations] {
        &self.operations
    }

    pub(super) fn operations_mut(&mut self) -> &mut [Operations] {
        &mut self.operations
    }
}

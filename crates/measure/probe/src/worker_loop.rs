//! The loops of workers, one for each kind of pace. A worker is a thread with an engine: it generates
//! requests, submits each to the engine when it is due, and counts the completions.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::engine::{Action, Completion, IoEngine, Op, WaitFor};
use crate::live::{LiveCounters, LiveTotals};
use crate::pattern::{Durability, NormalSpread, Pace};
use crate::request_generator::{RequestGenerator, draw_bell_curve};
use crate::tally::WorkerTally;

/// Consecutive failed requests after which a worker gives up: the target is gone.
const MAX_CONSECUTIVE_ERRORS: u64 = 1000;
/// Retries after which a request that fails with a temporary error is given up.
const MAX_RETRIES: u8 = 100;
/// Largest batch while requests complete during submission: with a larger one, the first completions
/// would be seen late. A ring needs some batching to be cheap.
const MAX_SUBMIT_BATCH: usize = 32;
/// Submissions of full batches before small batches are tried again.
const BATCH_RETRY_COUNT: u32 = 64;
/// Interval between checks for the end of the run while a user computes, nanoseconds.
const COMPUTE_STEP_NS: u64 = 10_000_000;
/// Interval between checks while a job waits for its start or for a completion, nanoseconds.
const CHECK_INTERVAL_NS: u64 = 100_000_000;
/// Number of checks within the response limit of a device in use.
const CHECKS_PER_BRAKE_LIMIT: u64 = 4;
/// Shortest interval between two checks of that limit, nanoseconds.
const MIN_CHECK_INTERVAL_NS: u64 = 1_000_000;
/// Time that a stopped run waits for the requests in flight, nanoseconds.
const STOP_GRACE_NS: u64 = 200_000_000;

/// The task of one worker.
pub struct WorkerPlan<'a> {
    /// When to send requests: this worker's part of the pattern's pace.
    pub pace: Pace,
    /// How writes are made durable.
    pub durable: Durability,
    /// Time before measuring, nanoseconds.
    pub ramp_ns: u64,
    /// Measured time, nanoseconds.
    pub duration_ns: u64,
    /// Ends the run when it is set; a worker sets it for all others.
    pub stop: &'a AtomicBool,
    /// Response limit of a device in use, nanoseconds: a slower response ends the run.
    pub brake_ns: Option<u64>,
    /// Delay of the start, nanoseconds: jobs may start one after the other.
    pub start_delay_ns: u64,
    /// Number of writes after which a sync follows.
    pub sync_every: u32,
    /// The run ends when this many bytes were requested after the ramp.
    pub max_bytes: Option<u64>,
    /// Counters of completed requests, for progress.
    pub live: &'a LiveCounters,
    /// Holds the tally while the engine may block for ever.
    pub parked_tally: &'a Mutex<Option<WorkerTally>>,
}

/// The request in a submission slot.
#[derive(Clone, Copy, Default)]
struct RequestSlot {
    /// Time from which its latency counts, engine time.
    start_ns: u64,
    offset: u64,
    length: u32,
    /// It was submitted and has not completed.
    in_flight: bool,
    write: bool,
    /// The write is complete and its sync is in flight.
    syncing: bool,
    tries: u8,
}

/// Fault of a completion.
enum IoFault {
    /// Error number of the system.
    Error(i32),
    /// Fewer bytes than requested were transferred: the target has become smaller.
    Short,
}

impl RequestSlot {
    #[inline]
    fn find_fault(&self, result: i32) -> Option<IoFault> {
        match u32::try_from(result) {
            Err(_) => Some(IoFault::Error(result.wrapping_neg())),
            Ok(transferred) => (!self.syncing && transferred < self.length).then_some(IoFault::Short),
        }
    }
}

/// A running worker.
struct Worker<'a, E> {
    engine: &'a mut E,
    generator: &'a mut RequestGenerator,
    plan: &'a WorkerPlan<'a>,
    tally: WorkerTally,
    slots: Vec<RequestSlot>,
    in_flight: u32,
    completions: Vec<Completion>,
    /// Start and end of the measured time, engine time.
    measure_from_ns: u64,
    measure_until_ns: u64,
    /// Time of the last completion, or when waiting for the next one began.
    last_completion_ns: u64,
    /// Bytes that may still be requested.
    remaining_bytes: u64,
    /// Writes since the last sync.
    writes_since_sync: u32,
    /// Failed requests since the last successful one.
    consecutive_errors: u64,
    /// Time at which the clock was last read.
    clock_ns: u64,
    /// Interval between checks of the requests in flight, and time of the next check.
    check_interval_ns: u64,
    next_check_ns: u64,
}

/// Runs a worker to its end and returns its counts. Waits for the requests in flight at the end, but
/// does not count them, except for the latency of those that an open loop sent. After a stop it waits
/// only briefly; then [`WorkerTally::unanswered`] has the number of abandoned requests, and the engine
/// must not be used any more.
///
/// # Errors
/// If the engine fails.
pub fn run_worker<E: IoEngine>(
    engine: &mut E,
    generator: &mut RequestGenerator,
    plan: &WorkerPlan<'_>,
    slots: u32,
) -> io::Result<WorkerTally> {
    let mut begin = engine.now();
    let due = begin.saturating_add(plan.start_delay_ns);
    while begin < due && !plan.stop.load(Ordering::Relaxed) {
        engine.submit_and_wait(WaitFor::Until(due.min(begin + CHECK_INTERVAL_NS)), &mut Vec::new())?;
        begin = engine.now();
    }
    let from = begin.saturating_add(plan.ramp_ns);
    let until = from.saturating_add(plan.duration_ns);
    let mut work = Worker {
        engine,
        generator,
        plan,
        tally: WorkerTally::default(),
        slots: vec![RequestSlot::default(); slots as usize],
        in_flight: 0,
        completions: Vec::with_capacity(slots as usize),
        measure_from_ns: from,
        measure_until_ns: until,
        last_completion_ns: begin,
        remaining_bytes: plan.max_bytes.unwrap_or(u64::MAX),
        writes_since_sync: 0,
        consecutive_errors: 0,
        clock_ns: begin,
        check_interval_ns: plan.brake_ns.map_or(CHECK_INTERVAL_NS, |ns| {
            (ns / CHECKS_PER_BRAKE_LIMIT).clamp(MIN_CHECK_INTERVAL_NS, CHECK_INTERVAL_NS)
        }),
        next_check_ns: begin,
    };
    match plan.pace {
        Pace::Closed { .. } => work.run_closed_loop()?,
        Pace::Users { think_s, random, .. } => work.run_users(think_s, random)?,
        Pace::Cycles { think_s, requests, compute_s, .. } => work.run_cycles(&think_s, &requests, &compute_s)?,
        Pace::Open { rate_per_s, poisson } => work.run_open_loop(rate_per_s, poisson)?,
    }
    // a run that ends by its byte limit counts every request
    while work.has_reached_byte_limit() && work.in_flight > 0 && !plan.stop.load(Ordering::Relaxed) {
        work.submit_and_wait(WaitFor::One)?;
        let now = work.engine.now();
        work.handle_completions(now, |_| {});
    }
    assert_eq!(work.in_flight as usize, work.slots.iter().filter(|slot| slot.in_flight).count(), "a lost request");
    let now = work.engine.now();
    work.tally.measured_ns = now.min(until).saturating_sub(from);
    if work.in_flight > 0 {
        work.record_silence(now);
    }
    work.drain_in_flight()?;
    Ok(work.tally)
}

impl<E: IoEngine> Worker<'_, E> {
    fn is_run_over(&self, now: u64) -> bool {
        self.tally.braked_ns.is_some()
            || now >= self.measure_until_ns
            || self.has_reached_byte_limit()
            || self.plan.stop.load(Ordering::Relaxed)
            || self.consecutive_errors >= MAX_CONSECUTIVE_ERRORS
    }

    /// Stops the run if a response takes longer than the limit of a device in use.
    #[inline]
    fn stop_if_too_slow(&mut self, latency_ns: u64) {
        if self.plan.brake_ns.is_some_and(|limit_ns| latency_ns > limit_ns) {
            self.tally.braked_ns = self.tally.braked_ns.max(Some(latency_ns));
            self.plan.stop.store(true, Ordering::Relaxed);
        }
    }

    /// Returns whether the byte limit was reached.
    #[inline]
    fn has_reached_byte_limit(&self) -> bool {
        self.remaining_bytes == 0
    }

    /// Submits the next request in a slot; its latency begins at `start`.
    #[inline]
    fn submit_request(&mut self, slot: u32, start: u64) {
        debug_assert!(!self.slots[slot as usize].in_flight, "slot {slot} has one request at a time");
        let request = self.generator.next_request();
        let action = if request.write { Action::Write } else { Action::Read };
        self.slots[slot as usize] = RequestSlot {
            start_ns: start,
            offset: request.offset,
            length: request.length,
            write: request.write,
            in_flight: true,
            ..RequestSlot::default()
        };
        self.engine.queue_op(Op { slot, action, offset: request.offset, length: request.length });
        if self.in_flight == 0 {
            self.last_completion_ns = self.last_completion_ns.max(start);
        }
        self.in_flight += 1;
        if self.plan.max_bytes.is_some() && start >= self.measure_from_ns {
            self.remaining_bytes = self.remaining_bytes.saturating_sub(u64::from(request.length));
        }
    }

    /// Submits the batch and waits, at most until the next check for the end of the run.
    #[inline]
    fn submit_and_wait(&mut self, wait: WaitFor) -> io::Result<()> {
        let next_check = self.clock_ns.saturating_add(self.check_interval_ns);
        let wait = match wait {
            WaitFor::One if self.in_flight > 0 => WaitFor::Until(next_check),
            WaitFor::Until(until) => WaitFor::Until(until.min(next_check)),
            wait => wait,
        };
        self.plan.live.set_in_flight(self.in_flight, self.last_completion_ns);
        let result = match self.engine.may_block() {
            true => self.submit_and_wait_blocking(wait),
            false => self.engine.submit_and_wait(wait, &mut self.completions),
        };
        self.plan.live.set_in_flight(0, 0);
        result
    }

    /// Parks the tally while the engine may block for ever. If it is gone afterwards, the worker was abandoned.
    fn submit_and_wait_blocking(&mut self, wait: WaitFor) -> io::Result<()> {
        let parked = || self.plan.parked_tally.lock().unwrap_or_else(PoisonError::into_inner);
        *parked() = Some(std::mem::take(&mut self.tally));
        let result = self.engine.submit_and_wait(wait, &mut self.completions);
        self.tally = parked().take().ok_or_else(|| io::Error::other("the worker was abandoned"))?;
        result
    }

    /// Stops the run if the oldest request in flight takes too long, even while others complete.
    fn check_oldest_request(&mut self, now: u64) {
        self.next_check_ns = now + self.check_interval_ns;
        if let Some(oldest) = self.oldest_start_ns() {
            self.stop_if_too_slow(now.saturating_sub(oldest));
        }
    }

    /// Returns the start of the oldest request in flight.
    fn oldest_start_ns(&self) -> Option<u64> {
        self.slots.iter().filter(|slot| slot.in_flight).map(|slot| slot.start_ns).min()
    }

    /// Waits for the requests in flight; after a stop, not for long.
    fn drain_in_flight(&mut self) -> io::Result<()> {
        let mut stopped_at = None;
        while self.in_flight > 0 {
            let now = self.engine.now();
            self.clock_ns = now;
            if self.plan.stop.load(Ordering::Relaxed) && now >= *stopped_at.get_or_insert(now) + STOP_GRACE_NS {
                let oldest = self.oldest_start_ns().unwrap_or(now);
                self.tally.unanswered = u64::from(self.in_flight);
                self.tally.unanswered_ns = now.saturating_sub(oldest);
                break;
            }
            if self.plan.brake_ns.is_some() && stopped_at.is_none() && now >= self.next_check_ns {
                self.check_oldest_request(now);
            }
            self.submit_and_wait(WaitFor::One)?;
            self.handle_late_completions();
        }
        Ok(())
    }

    /// Counts the completions; passes each slot that becomes free to `freed`.
    #[inline]
    fn handle_completions(&mut self, now: u64, mut freed: impl FnMut(u32)) {
        self.clock_ns = now;
        if self.plan.brake_ns.is_some() && now >= self.next_check_ns {
            self.check_oldest_request(now);
        }
        if self.completions.is_empty() {
            if self.in_flight > 0 {
                // a device in use that completes nothing must not get more requests
                self.stop_if_too_slow(now.saturating_sub(self.last_completion_ns));
            }
            return;
        }
        self.record_silence(now);
        self.last_completion_ns = now;
        let mut completions = std::mem::take(&mut self.completions);
        let mut totals = LiveTotals::default();
        for Completion { slot: index, result } in completions.drain(..) {
            let slot = self.slots[index as usize];
            debug_assert!(slot.in_flight, "slot {index} had no request");
            self.in_flight -= 1;
            let fault = slot.find_fault(result);
            if fault.is_none() && slot.write && !slot.syncing && self.start_sync(index) {
                continue;
            }
            if result < 0 && self.retry_request(index, -result) {
                continue;
            }
            self.slots[index as usize].in_flight = false;
            freed(index);
            let latency = now.saturating_sub(slot.start_ns);
            self.stop_if_too_slow(latency);
            // a transfer that is too short does not measure the requested one
            if let Some(fault) = fault {
                self.consecutive_errors += 1;
                match fault {
                    IoFault::Error(number) => self.tally.record_error(number),
                    IoFault::Short => self.tally.short += 1,
                }
                continue;
            }
            self.consecutive_errors = 0;
            totals.add_completion(slot.length, latency);
            if now > self.measure_from_ns && now <= self.measure_until_ns {
                self.tally.record_completion(slot.write, slot.length, latency, now - self.measure_from_ns);
            } else if now > self.measure_until_ns {
                self.record_late_completion(slot, now);
            }
        }
        self.plan.live.add_totals(totals);
        self.completions = completions;
    }

    /// Records the time since the last completion, as far as it lies in the measured time.
    #[inline]
    fn record_silence(&mut self, now: u64) {
        let silence = now.min(self.measure_until_ns).saturating_sub(self.last_completion_ns.max(self.measure_from_ns));
        self.tally.longest_silence_ns = self.tally.longest_silence_ns.max(silence);
    }

    /// Records the latency of a completion after the end, if an open loop sent the request in time: a user would have
    /// seen this latency, and a stall at the end must not be hidden. The completion is part of no rate.
    fn record_late_completion(&mut self, slot: RequestSlot, now: u64) {
        if self.counts_late(slot) {
            let side = if slot.write { &mut self.tally.writes } else { &mut self.tally.reads };
            side.latency.record(now.saturating_sub(slot.start_ns));
        }
    }

    fn counts_late(&self, slot: RequestSlot) -> bool {
        slot.start_ns >= self.measure_from_ns && matches!(self.plan.pace, Pace::Open { .. })
    }

    /// Handles completions after the loop has ended. Errors still count: a dead disk may report them late.
    fn handle_late_completions(&mut self) {
        let now = self.engine.now();
        let mut completions = std::mem::take(&mut self.completions);
        for Completion { slot: index, result } in completions.drain(..) {
            let slot = self.slots[index as usize];
            self.in_flight -= 1;
            let fault = slot.find_fault(result);
            // the sync after a write is part of its latency
            if self.counts_late(slot) && fault.is_none() && slot.write && !slot.syncing && self.start_sync(index) {
                continue;
            }
            self.slots[index as usize] = RequestSlot::default();
            match fault {
                // a temporary error, for whose retry no time is left
                Some(IoFault::Error(libc::EAGAIN | libc::EINTR)) => {}
                Some(IoFault::Error(number)) => self.tally.record_error(number),
                Some(IoFault::Short) => self.tally.short += 1,
                None => self.record_late_completion(slot, now),
            }
        }
        self.completions = completions;
    }

    /// Retries a request after a temporary error; returns false if it failed for good. Its latency
    /// counts from the first try.
    fn retry_request(&mut self, slot_index: u32, error: i32) -> bool {
        let slot = &mut self.slots[slot_index as usize];
        if !matches!(error, libc::EAGAIN | libc::EINTR) || slot.tries == MAX_RETRIES {
            return false;
        }
        slot.tries += 1;
        let slot = *slot;
        let (offset, length) = if slot.syncing { (0, 0) } else { (slot.offset, slot.length) };
        let action = match (slot.syncing, slot.write) {
            (true, _) if self.plan.durable == Durability::Fsync => Action::Fsync,
            (true, _) => Action::Fdatasync,
            (false, true) => Action::Write,
            (false, false) => Action::Read,
        };
        self.engine.queue_op(Op { slot: slot_index, action, offset, length });
        self.in_flight += 1;
        self.tally.retried += 1;
        true
    }

    /// Records how long after its due time a request was sent.
    #[inline]
    fn record_lateness(&mut self, now: u64, due: u64) {
        if now > self.measure_from_ns {
            self.tally.lateness.record(now.saturating_sub(due));
        }
    }

    /// Starts the sync that follows a write; returns false if none is due.
    fn start_sync(&mut self, slot: u32) -> bool {
        let action = match self.plan.durable {
            Durability::Fdatasync => Action::Fdatasync,
            Durability::Fsync => Action::Fsync,
            Durability::No | Durability::Dsync => return false,
        };
        self.writes_since_sync += 1;
        if self.writes_since_sync < self.plan.sync_every {
            return false;
        }
        self.writes_since_sync = 0;
        self.slots[slot as usize].syncing = true;
        self.engine.queue_op(Op { slot, action, offset: 0, length: 0 });
        self.in_flight += 1;
        true
    }

    /// Keeps a fixed number of requests in flight: a new one for each completion.
    fn run_closed_loop(&mut self) -> io::Result<()> {
        let mut free: Vec<u32> = (0..self.slots.len() as u32).collect();
        let mut now = self.engine.now();
        // full batches until small ones are tried again; 0 while requests complete during submission
        let mut full_batches = 0u32;
        while !self.is_run_over(now) {
            let batch_size = if full_batches == 0 { MAX_SUBMIT_BATCH } else { usize::MAX };
            for _ in 0..free.len().min(batch_size) {
                if !self.has_reached_byte_limit()
                    && let Some(slot) = free.pop()
                {
                    self.submit_request(slot, now);
                }
            }
            if free.is_empty() || self.has_reached_byte_limit() {
                self.submit_and_wait(WaitFor::One)?;
                full_batches = full_batches.saturating_sub(1);
            } else {
                self.submit_and_wait(WaitFor::Nothing)?;
                let are_complete = self.completions.len() == self.in_flight as usize;
                full_batches = if are_complete { 0 } else { BATCH_RETRY_COUNT };
            }
            now = self.engine.now();
            self.handle_completions(now, |slot| free.push(slot));
        }
        Ok(())
    }

    /// Runs users with think time: each slot is one user.
    fn run_users(&mut self, think_s: f64, random: bool) -> io::Result<()> {
        let begin = self.engine.now();
        let think_ns = |generator: &mut RequestGenerator| {
            let seconds = if random { generator.rng_mut().draw_exponential(think_s) } else { think_s };
            (seconds * 1e9) as u64
        };
        let mut ready = BinaryHeap::new();
        for user in 0..self.slots.len() as u32 {
            // spread the first arrivals over one think time
            let first = (self.generator.rng_mut().next_f64() * think_s * 1e9) as u64;
            ready.push(Reverse((begin + first, user)));
        }
        let (mut now, mut finished) = (begin, Vec::new());
        while !self.is_run_over(now) {
            while let Some(&Reverse((due, user))) =
                ready.peek().filter(|r| r.0.0 <= now && !self.has_reached_byte_limit())
            {
                ready.pop();
                // a late start is not the device's fault: latency counts from now
                self.submit_request(user, now.max(due));
                self.record_lateness(now, due);
            }
            let next = ready.peek().map_or(self.measure_until_ns, |r| r.0.0.min(self.measure_until_ns));
            self.submit_and_wait(WaitFor::Until(next))?;
            now = self.engine.now();
            self.handle_completions(now, |slot| finished.push(slot));
            for user in finished.drain(..) {
                ready.push(Reverse((now + think_ns(self.generator), user)));
            }
        }
        Ok(())
    }

    /// Runs users in Response Probe's cycles: think, send some requests, compute.
    fn run_cycles(
        &mut self,
        think_s: &NormalSpread,
        requests: &NormalSpread,
        compute_s: &NormalSpread,
    ) -> io::Result<()> {
        let begin = self.engine.now();
        let users = self.slots.len() as u32;
        // requests that remain in each user's cycle
        let mut remaining = vec![0u64; users as usize];
        let first_due = |g: &mut RequestGenerator| begin + (g.rng_mut().next_f64() * think_s.mean * 1e9) as u64;
        let mut ready: BinaryHeap<_> = (0..users).map(|user| Reverse((first_due(self.generator), user))).collect();
        let (mut now, mut finished) = (begin, Vec::new());
        while !self.is_run_over(now) {
            while let Some(&Reverse((due, user))) =
                ready.peek().filter(|r| r.0.0 <= now && !self.has_reached_byte_limit())
            {
                ready.pop();
                let cycle_requests = &mut remaining[user as usize];
                if *cycle_requests == 0 {
                    *cycle_requests = (draw_bell_curve(self.generator.rng_mut(), requests).round() as u64).max(1);
                }
                self.submit_request(user, now.max(due));
            }
            let next = ready.peek().map_or(self.measure_until_ns, |r| r.0.0.min(self.measure_until_ns));
            self.submit_and_wait(WaitFor::Until(next))?;
            now = self.engine.now();
            self.handle_completions(now, |slot| finished.push(slot));
            for user in finished.drain(..) {
                let cycle_requests = &mut remaining[user as usize];
                *cycle_requests -= 1;
                if *cycle_requests == 0 {
                    now = self.spend_compute_time(compute_s);
                    let think = draw_bell_curve(self.generator.rng_mut(), think_s);
                    ready.push(Reverse((now + (think * 1e9) as u64, user)));
                } else {
                    ready.push(Reverse((now, user)));
                }
            }
        }
        Ok(())
    }

    /// Keeps the processor busy, as a user does who processes the data; returns the time afterwards.
    fn spend_compute_time(&mut self, compute_s: &NormalSpread) -> u64 {
        let mut left_ns = (draw_bell_curve(self.generator.rng_mut(), compute_s) * 1e9) as u64;
        let mut now = self.engine.now();
        while left_ns > 0 && !self.is_run_over(now) {
            let step_ns = left_ns.min(COMPUTE_STEP_NS);
            self.engine.consume_cpu(step_ns);
            left_ns -= step_ns;
            now = self.engine.now();
        }
        now
    }

    /// Sends requests at a fixed rate that does not depend on the device.
    fn run_open_loop(&mut self, rate_per_s: f64, poisson: bool) -> io::Result<()> {
        let mean_ns = 1e9 / rate_per_s;
        let begin = self.engine.now();
        let mut due = begin as f64;
        let mut free: Vec<u32> = (0..self.slots.len() as u32).collect();
        let mut now = begin;
        // time since which a slot has been free
        let mut free_since = begin;
        while !self.is_run_over(now) {
            while due <= now as f64 && !self.has_reached_byte_limit() {
                let Some(slot) = free.pop() else { break };
                self.submit_request(slot, due as u64);
                self.tally.late += u64::from((due as u64) < free_since);
                self.record_lateness(now, free_since.max(due as u64));
                due += if poisson { self.generator.rng_mut().draw_exponential(mean_ns) } else { mean_ns };
            }
            let wait = if free.is_empty() {
                WaitFor::One
            } else {
                WaitFor::Until((due.ceil() as u64).min(self.measure_until_ns))
            };
            self.submit_and_wait(wait)?;
            now = self.engine.now();
            if free.is_empty() {
                free_since = now;
            }
            self.handle_completions(now, |slot| free.push(slot));
        }
        if !self.has_reached_byte_limit() {
            // count the requests that were due and found no slot: their latency is unknown
            let from = due.max(self.measure_from_ns as f64);
            self.tally.unsent = ((now.min(self.measure_until_ns) as f64 - from) / mean_ns).ceil().max(0.0) as u64;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;

//! The worker loops: they generate requests, submit them to an engine when they are due, and count
//! the completions. One worker is one thread with one engine.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::draw::{Draw, bell};
use crate::engine::{Action, Completion, IoEngine, Op, TurnWait};
use crate::live::{Live, LiveTotals};
use crate::pattern::{Durable, NormalSpread, Pace};
use crate::tally::WorkerTally;

/// A worker gives up after this many failed requests in a row: the target is gone.
const MOST_ERRORS: u64 = 1000;
/// A request that fails with a temporary error is given up after this many retries.
const MOST_TRIES: u8 = 100;
/// Largest batch while requests complete during submission: with more, the first completions would
/// be seen late. A ring needs some batching to be cheap.
const AT_ONCE: usize = 32;
/// Turns with large batches before it is checked again whether requests complete during submission.
const LOOK_AGAIN: u32 = 64;
/// Interval of the check for the end of the run while the processor is kept busy, nanoseconds.
const COMPUTE_NS: u64 = 10_000_000;
/// Interval of the same check while a job waits for its start or for a completion, nanoseconds.
const LOOK_NS: u64 = 100_000_000;
/// Checks per response limit of a device in use.
const LOOKS_PER_BRAKE: u64 = 4;
/// Shortest interval between two such checks, nanoseconds.
const LEAST_LOOK_NS: u64 = 1_000_000;
/// Time that a stopped run waits for the requests in flight, nanoseconds.
const GRACE_NS: u64 = 200_000_000;

/// The task of one worker.
pub struct WorkerPlan<'a> {
    /// When to make requests: this worker's part of the pattern's pace.
    pub pace: Pace,
    /// Sync after each write.
    pub durable: Durable,
    /// Time before measuring, nanoseconds.
    pub ramp_ns: u64,
    /// Measured time, nanoseconds.
    pub lasts_ns: u64,
    /// Set from outside to end the run.
    pub stop: &'a AtomicBool,
    /// A response slower than this ends the run, nanoseconds: others use the device.
    pub brake_ns: Option<u64>,
    /// Delay of the start, nanoseconds: jobs may start one after the other.
    pub after_ns: u64,
    /// A sync follows every `sync_every`-th write.
    pub sync_every: u32,
    /// The run ends when this many bytes were requested after the ramp.
    pub most_bytes: Option<u64>,
    /// Counters of completed requests, for progress.
    pub done: &'a Live,
    /// Holds the counts while the engine may block for ever.
    pub shelf: &'a Mutex<Option<WorkerTally>>,
}

/// The request of a slot.
#[derive(Clone, Copy, Default)]
struct RequestSlot {
    /// Time from which its latency counts, engine time.
    start: u64,
    offset: u64,
    length: u32,
    /// Submitted and not completed.
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
    /// Fewer bytes than requested: the target has become smaller.
    Short,
}

impl RequestSlot {
    #[inline]
    fn fault(&self, result: i32) -> Option<IoFault> {
        match u32::try_from(result) {
            Err(_) => Some(IoFault::Error(result.wrapping_neg())),
            Ok(moved) => (!self.syncing && moved < self.length).then_some(IoFault::Short),
        }
    }
}

/// A running worker.
struct Worker<'a, E> {
    engine: &'a mut E,
    draw: &'a mut Draw,
    lane: &'a WorkerPlan<'a>,
    tally: WorkerTally,
    slots: Vec<RequestSlot>,
    outstanding: u32,
    done: Vec<Completion>,
    /// Start and end of the measured time, engine time.
    from: u64,
    until: u64,
    /// Time of the last completion, or when waiting for the next one began.
    last_answer: u64,
    /// Bytes that may still be requested.
    left_bytes: u64,
    /// Writes since the last sync.
    unsynced: u32,
    /// Failures since the last success.
    failing: u64,
    /// Time of the last look at the clock.
    now: u64,
    /// Interval between checks of the requests in flight, and time of the next check.
    look_ns: u64,
    next_look: u64,
}

/// Runs a worker to its end and returns its counts. Requests in flight at the end are waited for
/// and not counted, except for the latency of those that an open loop made. After a stop they are
/// waited for only briefly; then [`WorkerTally::unanswered`] holds the number of abandoned
/// requests, and the engine must not be used any more.
///
/// # Errors
/// When the engine fails.
pub fn run<E: IoEngine>(
    engine: &mut E,
    generator: &mut Draw,
    plan: &WorkerPlan<'_>,
    slots: u32,
) -> io::Result<WorkerTally> {
    let mut begin = engine.now();
    let due = begin.saturating_add(plan.after_ns);
    while begin < due && !plan.stop.load(Ordering::Relaxed) {
        engine.turn(TurnWait::Until(due.min(begin + LOOK_NS)), &mut Vec::new())?;
        begin = engine.now();
    }
    let from = begin.saturating_add(plan.ramp_ns);
    let until = from.saturating_add(plan.lasts_ns);
    let mut work = Worker {
        engine,
        draw: generator,
        lane: plan,
        tally: WorkerTally::default(),
        slots: vec![RequestSlot::default(); slots as usize],
        outstanding: 0,
        done: Vec::with_capacity(slots as usize),
        from,
        until,
        last_answer: begin,
        left_bytes: plan.most_bytes.unwrap_or(u64::MAX),
        unsynced: 0,
        failing: 0,
        now: begin,
        look_ns: plan.brake_ns.map_or(LOOK_NS, |ns| (ns / LOOKS_PER_BRAKE).clamp(LEAST_LOOK_NS, LOOK_NS)),
        next_look: begin,
    };
    match plan.pace {
        Pace::Closed { .. } => work.closed()?,
        Pace::Users { think_s, random, .. } => work.users(think_s, random)?,
        Pace::Cycles { think_s, requests, compute_s, .. } => work.cycles(&think_s, &requests, &compute_s)?,
        Pace::Open { rate_per_s, poisson } => work.open(rate_per_s, poisson)?,
    }
    // a run that ends by its byte limit counts every request
    while work.is_spent() && work.outstanding > 0 && !plan.stop.load(Ordering::Relaxed) {
        work.turn(TurnWait::One)?;
        let now = work.engine.now();
        work.settle(now, |_| {});
    }
    let now = work.engine.now();
    work.tally.measured_ns = now.min(until).saturating_sub(from);
    if work.outstanding > 0 {
        work.silence(now);
    }
    work.drain()?;
    Ok(work.tally)
}

impl<E: IoEngine> Worker<'_, E> {
    fn is_over(&self, now: u64) -> bool {
        self.tally.braked_ns.is_some()
            || now >= self.until
            || self.is_spent()
            || self.lane.stop.load(Ordering::Relaxed)
            || self.failing >= MOST_ERRORS
    }

    /// Stops the run if a response takes too long.
    #[inline]
    fn brake(&mut self, latency_ns: u64) {
        if self.lane.brake_ns.is_some_and(|limit_ns| latency_ns > limit_ns) {
            self.tally.braked_ns = self.tally.braked_ns.max(Some(latency_ns));
            self.lane.stop.store(true, Ordering::Relaxed);
        }
    }

    /// Returns whether the byte limit was reached.
    #[inline]
    fn is_spent(&self) -> bool {
        self.left_bytes == 0
    }

    /// Submits the next request in a slot; its latency begins at `start`.
    #[inline]
    fn make(&mut self, slot: u32, start: u64) {
        debug_assert!(!self.slots[slot as usize].in_flight, "slot {slot} has one request at a time");
        let request = self.draw.request();
        let action = if request.write { Action::Write } else { Action::Read };
        self.slots[slot as usize] = RequestSlot {
            start,
            offset: request.offset,
            length: request.length,
            write: request.write,
            in_flight: true,
            ..RequestSlot::default()
        };
        self.engine.put(Op { slot, action, offset: request.offset, length: request.length });
        if self.outstanding == 0 {
            self.last_answer = self.last_answer.max(start);
        }
        self.outstanding += 1;
        if self.lane.most_bytes.is_some() && start >= self.from {
            self.left_bytes = self.left_bytes.saturating_sub(u64::from(request.length));
        }
    }

    /// Submits the batch and waits, but never past the next check for the end of the run.
    #[inline]
    fn turn(&mut self, wait: TurnWait) -> io::Result<()> {
        let look = self.now.saturating_add(self.look_ns);
        let wait = match wait {
            TurnWait::One if self.outstanding > 0 => TurnWait::Until(look),
            TurnWait::Until(until) => TurnWait::Until(until.min(look)),
            wait => wait,
        };
        self.lane.done.waits(self.outstanding, self.last_answer);
        let turned = match self.engine.blocks() {
            true => self.turn_that_blocks(wait),
            false => self.engine.turn(wait, &mut self.done),
        };
        self.lane.done.waits(0, 0);
        turned
    }

    /// Parks the counts while the engine may block for ever. If they are gone afterwards, the run
    /// has abandoned this worker.
    fn turn_that_blocks(&mut self, wait: TurnWait) -> io::Result<()> {
        let shelf = || self.lane.shelf.lock().unwrap_or_else(PoisonError::into_inner);
        *shelf() = Some(std::mem::take(&mut self.tally));
        let turned = self.engine.turn(wait, &mut self.done);
        self.tally = shelf().take().ok_or_else(|| io::Error::other("the lane was given up"))?;
        turned
    }

    /// Stops the run if a request in flight has taken too long although others complete.
    fn look(&mut self, now: u64) {
        self.next_look = now + self.look_ns;
        if let Some(oldest) = self.oldest() {
            self.brake(now.saturating_sub(oldest));
        }
    }

    /// Returns the start of the oldest request in flight.
    fn oldest(&self) -> Option<u64> {
        self.slots.iter().filter(|slot| slot.in_flight).map(|slot| slot.start).min()
    }

    /// Waits for the requests in flight; after a stop, not for long.
    fn drain(&mut self) -> io::Result<()> {
        let mut stopped_at = None;
        while self.outstanding > 0 {
            let now = self.engine.now();
            self.now = now;
            if self.lane.stop.load(Ordering::Relaxed) && now >= *stopped_at.get_or_insert(now) + GRACE_NS {
                let oldest = self.oldest().unwrap_or(now);
                self.tally.unanswered = u64::from(self.outstanding);
                self.tally.unanswered_ns = now.saturating_sub(oldest);
                break;
            }
            if self.lane.brake_ns.is_some() && stopped_at.is_none() && now >= self.next_look {
                self.look(now);
            }
            self.turn(TurnWait::One)?;
            self.settle_late();
        }
        Ok(())
    }

    /// Counts the completions; each slot that becomes free is passed to `freed`.
    #[inline]
    fn settle(&mut self, now: u64, mut freed: impl FnMut(u32)) {
        self.now = now;
        if self.lane.brake_ns.is_some() && now >= self.next_look {
            self.look(now);
        }
        if self.done.is_empty() {
            if self.outstanding > 0 {
                // a device that completes nothing must not get more requests
                self.brake(now.saturating_sub(self.last_answer));
            }
            return;
        }
        self.silence(now);
        self.last_answer = now;
        let mut completions = std::mem::take(&mut self.done);
        let mut totals = LiveTotals::default();
        for answer in completions.drain(..) {
            let slot = self.slots[answer.slot as usize];
            debug_assert!(slot.in_flight, "slot {} had no request", answer.slot);
            self.outstanding -= 1;
            if slot.fault(answer.result).is_none() && slot.write && !slot.syncing && self.sync(answer.slot) {
                continue;
            }
            if answer.result < 0 && self.again(answer.slot, -answer.result) {
                continue;
            }
            self.slots[answer.slot as usize].in_flight = false;
            freed(answer.slot);
            let latency = now.saturating_sub(slot.start);
            self.brake(latency);
            // a shorter transfer is no measurement of the requested one
            if let Some(fault) = slot.fault(answer.result) {
                self.failing += 1;
                match fault {
                    IoFault::Error(number) => self.tally.error(number),
                    IoFault::Short => self.tally.short += 1,
                }
                continue;
            }
            self.failing = 0;
            totals.answer(slot.length, latency);
            if now > self.from && now <= self.until {
                self.tally.answer(slot.write, slot.length, latency, now - self.from);
            } else if now > self.until {
                self.late_answer(slot, now);
            }
        }
        self.lane.done.add(totals);
        self.done = completions;
    }

    /// Records the time without a completion up to now, as far as it was measured.
    #[inline]
    fn silence(&mut self, now: u64) {
        let silence = now.min(self.until).saturating_sub(self.last_answer.max(self.from));
        self.tally.longest_silence_ns = self.tally.longest_silence_ns.max(silence);
    }

    /// Counts a completion after the end. It is part of no rate; but a request that an open loop
    /// should have had answered in time has a latency that a user would have seen, and a stall at
    /// the end must not be hidden.
    fn late_answer(&mut self, slot: RequestSlot, now: u64) {
        if self.counts_late(slot) {
            let side = if slot.write { &mut self.tally.writes } else { &mut self.tally.reads };
            side.latency.record(now.saturating_sub(slot.start));
        }
    }

    fn counts_late(&self, slot: RequestSlot) -> bool {
        slot.start >= self.from && matches!(self.lane.pace, Pace::Open { .. })
    }

    /// Handles the completions that come after the loop has ended. Errors still count as errors: a
    /// dead disk may take longer than a run to report one.
    fn settle_late(&mut self) {
        let now = self.engine.now();
        let mut completions = std::mem::take(&mut self.done);
        for answer in completions.drain(..) {
            self.outstanding -= 1;
            let slot = self.slots[answer.slot as usize];
            let fault = slot.fault(answer.result);
            // a write's sync belongs to it
            if self.counts_late(slot) && fault.is_none() && slot.write && !slot.syncing && self.sync(answer.slot) {
                continue;
            }
            self.slots[answer.slot as usize] = RequestSlot::default();
            match fault {
                // it would be retried, but there is no time left
                Some(IoFault::Error(libc::EAGAIN | libc::EINTR)) => {}
                Some(IoFault::Error(number)) => self.tally.error(number),
                Some(IoFault::Short) => self.tally.short += 1,
                None => self.late_answer(slot, now),
            }
        }
        self.done = completions;
    }

    /// Retries a request that the system could not begin; returns false if it failed for good. Its
    /// latency continues.
    fn again(&mut self, number: u32, error: i32) -> bool {
        let slot = &mut self.slots[number as usize];
        if !matches!(error, libc::EAGAIN | libc::EINTR) || slot.tries == MOST_TRIES {
            return false;
        }
        slot.tries += 1;
        let slot = *slot;
        let (offset, length) = if slot.syncing { (0, 0) } else { (slot.offset, slot.length) };
        let action = match (slot.syncing, slot.write) {
            (true, _) if self.lane.durable == Durable::Fsync => Action::Fsync,
            (true, _) => Action::Fdatasync,
            (false, true) => Action::Write,
            (false, false) => Action::Read,
        };
        self.engine.put(Op { slot: number, action, offset, length });
        self.outstanding += 1;
        self.tally.retried += 1;
        true
    }

    /// Records that a request was made later than it was due.
    #[inline]
    fn lateness(&mut self, now: u64, due: u64) {
        if now > self.from {
            self.tally.lateness.record(now.saturating_sub(due));
        }
    }

    /// Starts the sync that follows a write; returns false if none is due.
    fn sync(&mut self, slot: u32) -> bool {
        let action = match self.lane.durable {
            Durable::Fdatasync => Action::Fdatasync,
            Durable::Fsync => Action::Fsync,
            Durable::No | Durable::Dsync => return false,
        };
        self.unsynced += 1;
        if self.unsynced < self.lane.sync_every {
            return false;
        }
        self.unsynced = 0;
        self.slots[slot as usize].syncing = true;
        self.engine.put(Op { slot, action, offset: 0, length: 0 });
        self.outstanding += 1;
        true
    }

    /// Keeps a fixed number of requests in flight: a new one for each completion.
    fn closed(&mut self) -> io::Result<()> {
        let mut free: Vec<u32> = (0..self.slots.len() as u32).collect();
        let mut now = self.engine.now();
        // turns until small batches are tried again; 0 while requests complete during submission
        let mut patience = 0u32;
        while !self.is_over(now) {
            let batch_size = if patience == 0 { AT_ONCE } else { usize::MAX };
            for _ in 0..free.len().min(batch_size) {
                if !self.is_spent()
                    && let Some(slot) = free.pop()
                {
                    self.make(slot, now);
                }
            }
            if free.is_empty() || self.is_spent() {
                self.turn(TurnWait::One)?;
                patience = patience.saturating_sub(1);
            } else {
                self.turn(TurnWait::Nothing)?;
                let at_once = self.done.len() == self.outstanding as usize;
                patience = if at_once { 0 } else { LOOK_AGAIN };
            }
            now = self.engine.now();
            self.settle(now, |slot| free.push(slot));
        }
        Ok(())
    }

    /// Runs users with think time: each slot is one user.
    fn users(&mut self, think_s: f64, random: bool) -> io::Result<()> {
        let begin = self.engine.now();
        let think = |draw: &mut Draw| {
            let seconds = if random { draw.dice().draw_exponential(think_s) } else { think_s };
            (seconds * 1e9) as u64
        };
        let mut ready = BinaryHeap::new();
        for user in 0..self.slots.len() as u32 {
            // spread the first arrivals over one think time
            let first = (self.draw.dice().next_f64() * think_s * 1e9) as u64;
            ready.push(Reverse((begin + first, user)));
        }
        let mut now = begin;
        let mut back = Vec::new();
        while !self.is_over(now) {
            while let Some(&Reverse((due, user))) = ready.peek().filter(|r| r.0.0 <= now && !self.is_spent()) {
                ready.pop();
                // a user who wakes late did not wait for the device: latency starts now
                self.make(user, now.max(due));
                self.lateness(now, due);
            }
            let next = ready.peek().map_or(self.until, |r| r.0.0.min(self.until));
            self.turn(TurnWait::Until(next))?;
            now = self.engine.now();
            self.settle(now, |slot| back.push(slot));
            for user in back.drain(..) {
                ready.push(Reverse((now + think(self.draw), user)));
            }
        }
        Ok(())
    }

    /// Runs users in Response Probe's cycles: think, make some requests, compute.
    fn cycles(&mut self, think_s: &NormalSpread, requests: &NormalSpread, compute_s: &NormalSpread) -> io::Result<()> {
        let begin = self.engine.now();
        let users = self.slots.len() as u32;
        // requests left in each user's cycle
        let mut left = vec![0u64; users as usize];
        let first = |draw: &mut Draw| begin + (draw.dice().next_f64() * think_s.mean * 1e9) as u64;
        let mut ready: BinaryHeap<_> = (0..users).map(|user| Reverse((first(self.draw), user))).collect();
        let (mut now, mut back) = (begin, Vec::new());
        while !self.is_over(now) {
            while let Some(&Reverse((due, user))) = ready.peek().filter(|r| r.0.0 <= now && !self.is_spent()) {
                ready.pop();
                if left[user as usize] == 0 {
                    left[user as usize] = (bell(self.draw.dice(), requests).round() as u64).max(1);
                }
                self.make(user, now.max(due));
            }
            let next = ready.peek().map_or(self.until, |r| r.0.0.min(self.until));
            self.turn(TurnWait::Until(next))?;
            now = self.engine.now();
            self.settle(now, |slot| back.push(slot));
            for user in back.drain(..) {
                let left = &mut left[user as usize];
                *left -= 1;
                if *left == 0 {
                    now = self.compute(compute_s);
                    let thinks = bell(self.draw.dice(), think_s);
                    ready.push(Reverse((now + (thinks * 1e9) as u64, user)));
                } else {
                    ready.push(Reverse((now, user)));
                }
            }
        }
        Ok(())
    }

    /// Keeps the processor busy like a user who works on what was read; returns the time
    /// afterwards.
    fn compute(&mut self, compute_s: &NormalSpread) -> u64 {
        let mut left = (bell(self.draw.dice(), compute_s) * 1e9) as u64;
        let mut now = self.engine.now();
        while left > 0 && !self.is_over(now) {
            let part = left.min(COMPUTE_NS);
            self.engine.compute(part);
            left -= part;
            now = self.engine.now();
        }
        now
    }

    /// Makes requests at a fixed rate, whatever the device does.
    fn open(&mut self, rate_per_s: f64, poisson: bool) -> io::Result<()> {
        let mean_ns = 1e9 / rate_per_s;
        let begin = self.engine.now();
        let mut due = begin as f64;
        let mut free: Vec<u32> = (0..self.slots.len() as u32).collect();
        let mut now = begin;
        // time since which a slot has been free
        let mut free_since = begin;
        while !self.is_over(now) {
            while due <= now as f64 && !self.is_spent() {
                let Some(slot) = free.pop() else { break };
                self.make(slot, due as u64);
                self.tally.late += u64::from((due as u64) < free_since);
                self.lateness(now, free_since.max(due as u64));
                due += if poisson { self.draw.dice().draw_exponential(mean_ns) } else { mean_ns };
            }
            let wait =
                if free.is_empty() { TurnWait::One } else { TurnWait::Until((due.ceil() as u64).min(self.until)) };
            self.turn(wait)?;
            now = self.engine.now();
            if free.is_empty() {
                free_since = now;
            }
            self.settle(now, |slot| free.push(slot));
        }
        if !self.is_spent() {
            // requests that were due and found no slot: how long they would have waited is unknown
            let from = due.max(self.from as f64);
            self.tally.unsent = ((now.min(self.until) as f64 - from) / mean_ns).ceil().max(0.0) as u64;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;

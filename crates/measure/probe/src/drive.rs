//! The loops: they draw requests, hand them to an engine when they are due,
//! and count the answers. One lane is one thread with one engine.

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

/// After so many failed requests in a row a lane gives up: the target is gone.
const MOST_ERRORS: u64 = 1000;
/// A request that the system tells us to try again is given up after so many times.
const MOST_TRIES: u8 = 100;
/// Requests handed over at once where answers come while they are: with more,
/// the first answers would be looked at late. A ring needs some, to be cheap.
const AT_ONCE: usize = 32;
/// Turns until it is looked again whether answers come at once.
const LOOK_AGAIN: u32 = 64;
/// A look at whether the run is over while the processor is kept busy, nanoseconds.
const COMPUTE_NS: u64 = 10_000_000;
/// The same while a job waits for its start, or for an answer, nanoseconds.
const LOOK_NS: u64 = 100_000_000;
/// Looks within the time that a device in use may take.
const LOOKS_PER_BRAKE: u64 = 4;
/// Shortest time between two such looks, nanoseconds.
const LEAST_LOOK_NS: u64 = 1_000_000;
/// A run that was stopped waits so long for the answers to what is in flight, nanoseconds.
const GRACE_NS: u64 = 200_000_000;

/// What one lane has to do.
pub struct WorkerPlan<'a> {
    /// When to make requests: this lane's part of the pattern's pace.
    pub pace: Pace,
    /// Sync after each write.
    pub durable: Durable,
    /// Time before measuring, and measured, nanoseconds.
    pub ramp_ns: u64,
    /// Measured time, nanoseconds.
    pub lasts_ns: u64,
    /// Set by whoever wants the run to end.
    pub stop: &'a AtomicBool,
    /// An answer that takes longer than this ends the run, nanoseconds: others use the device.
    pub brake_ns: Option<u64>,
    /// Time before anything begins, nanoseconds: jobs may start one after the other.
    pub after_ns: u64,
    /// Each so many-th write is made durable.
    pub sync_every: u32,
    /// Ends when so much was asked for after the ramp, bytes.
    pub most_bytes: Option<u64>,
    /// Told what was answered, for progress.
    pub done: &'a Live,
    /// Where the counts lie while the engine may not come back.
    pub shelf: &'a Mutex<Option<WorkerTally>>,
}

/// A slot's request under way.
#[derive(Clone, Copy, Default)]
struct RequestSlot {
    /// When its latency began.
    start: u64,
    offset: u64,
    length: u32,
    /// It has no answer.
    in_flight: bool,
    write: bool,
    /// The write is done and its sync is under way.
    syncing: bool,
    tries: u8,
}

/// What is wrong with an answer.
enum IoFault {
    /// The system's error number.
    Error(i32),
    /// Fewer bytes than asked for: the end of the target is nearer than it was.
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

/// A lane at work.
struct Worker<'a, E> {
    engine: &'a mut E,
    draw: &'a mut Draw,
    lane: &'a WorkerPlan<'a>,
    tally: WorkerTally,
    slots: Vec<RequestSlot>,
    outstanding: u32,
    done: Vec<Completion>,
    /// Measuring begins and ends, engine time.
    from: u64,
    until: u64,
    /// When the last answer came, or when waiting for the next began.
    last_answer: u64,
    /// Bytes that may still be asked for.
    left_bytes: u64,
    /// Writes until the next that is made durable.
    unsynced: u32,
    /// Failures since the last success.
    failing: u64,
    /// When it was last looked at the clock.
    now: u64,
    /// Time between looks at what is in flight, and when the next is due.
    look_ns: u64,
    next_look: u64,
}

/// Runs a lane to its end and gives what it counted. Requests that are under
/// way at the end are waited for and not counted, but for the latency of those
/// that an open loop made. Where the run is stopped they are waited for only for a
/// moment; then [`WorkerTally::unanswered`] says how many were given up, and the engine
/// must not be used any more.
///
/// # Errors
/// When the engine fails.
pub fn run<E: IoEngine>(engine: &mut E, draw: &mut Draw, lane: &WorkerPlan<'_>, slots: u32) -> io::Result<WorkerTally> {
    let mut begin = engine.now();
    let due = begin.saturating_add(lane.after_ns);
    while begin < due && !lane.stop.load(Ordering::Relaxed) {
        engine.turn(TurnWait::Until(due.min(begin + LOOK_NS)), &mut Vec::new())?;
        begin = engine.now();
    }
    let from = begin.saturating_add(lane.ramp_ns);
    let until = from.saturating_add(lane.lasts_ns);
    let mut work = Worker {
        engine,
        draw,
        lane,
        tally: WorkerTally::default(),
        slots: vec![RequestSlot::default(); slots as usize],
        outstanding: 0,
        done: Vec::with_capacity(slots as usize),
        from,
        until,
        last_answer: begin,
        left_bytes: lane.most_bytes.unwrap_or(u64::MAX),
        unsynced: 0,
        failing: 0,
        now: begin,
        look_ns: lane.brake_ns.map_or(LOOK_NS, |ns| (ns / LOOKS_PER_BRAKE).clamp(LEAST_LOOK_NS, LOOK_NS)),
        next_look: begin,
    };
    match lane.pace {
        Pace::Closed { .. } => work.closed()?,
        Pace::Users { think_s, random, .. } => work.users(think_s, random)?,
        Pace::Cycles { think_s, requests, compute_s, .. } => work.cycles(&think_s, &requests, &compute_s)?,
        Pace::Open { rate_per_s, poisson } => work.open(rate_per_s, poisson)?,
    }
    // where all was asked for, all counts
    while work.is_spent() && work.outstanding > 0 && !lane.stop.load(Ordering::Relaxed) {
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

    /// Ends everything where an answer takes too long.
    #[inline]
    fn brake(&mut self, took: u64) {
        if self.lane.brake_ns.is_some_and(|most| took > most) {
            self.tally.braked_ns = self.tally.braked_ns.max(Some(took));
            self.lane.stop.store(true, Ordering::Relaxed);
        }
    }

    /// All bytes that there are to ask for were asked for.
    #[inline]
    fn is_spent(&self) -> bool {
        self.left_bytes == 0
    }

    /// Makes the next request from a slot; its latency begins at `start`.
    #[inline]
    fn make(&mut self, slot: u32, start: u64) {
        debug_assert!(!self.slots[slot as usize].in_flight, "slot {slot} has one request at a time");
        let drawn = self.draw.request();
        let action = if drawn.write { Action::Write } else { Action::Read };
        self.slots[slot as usize] = RequestSlot {
            start,
            offset: drawn.offset,
            length: drawn.length,
            write: drawn.write,
            in_flight: true,
            ..RequestSlot::default()
        };
        self.engine.put(Op { slot, action, offset: drawn.offset, length: drawn.length });
        if self.outstanding == 0 {
            self.last_answer = self.last_answer.max(start);
        }
        self.outstanding += 1;
        if self.lane.most_bytes.is_some() && start >= self.from {
            self.left_bytes = self.left_bytes.saturating_sub(u64::from(drawn.length));
        }
    }

    /// Hands over and waits, but never past the next look at whether the run is over.
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

    /// While it may not come back, the counts lie where others find them. Who takes them has
    /// given this lane up.
    fn turn_that_blocks(&mut self, wait: TurnWait) -> io::Result<()> {
        let shelf = || self.lane.shelf.lock().unwrap_or_else(PoisonError::into_inner);
        *shelf() = Some(std::mem::take(&mut self.tally));
        let turned = self.engine.turn(wait, &mut self.done);
        self.tally = shelf().take().ok_or_else(|| io::Error::other("the lane was given up"))?;
        turned
    }

    /// Ends everything where a request in flight has taken too long, although others are answered.
    fn look(&mut self, now: u64) {
        self.next_look = now + self.look_ns;
        if let Some(oldest) = self.oldest() {
            self.brake(now.saturating_sub(oldest));
        }
    }

    /// When the oldest request in flight began.
    fn oldest(&self) -> Option<u64> {
        self.slots.iter().filter(|slot| slot.in_flight).map(|slot| slot.start).min()
    }

    /// Waits for what is in flight; where the run was stopped, not for long.
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

    /// Counts the answers that came; each slot that is free again goes to `freed`.
    #[inline]
    fn settle(&mut self, now: u64, mut freed: impl FnMut(u32)) {
        self.now = now;
        if self.lane.brake_ns.is_some() && now >= self.next_look {
            self.look(now);
        }
        if self.done.is_empty() {
            if self.outstanding > 0 {
                // a device that answers nothing at all must not be asked for more
                self.brake(now.saturating_sub(self.last_answer));
            }
            return;
        }
        self.silence(now);
        self.last_answer = now;
        let mut done = std::mem::take(&mut self.done);
        let mut seen = LiveTotals::default();
        for answer in done.drain(..) {
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
            // nothing that moved less than was asked is a measurement of what was asked
            if let Some(fault) = slot.fault(answer.result) {
                self.failing += 1;
                match fault {
                    IoFault::Error(number) => self.tally.error(number),
                    IoFault::Short => self.tally.short += 1,
                }
                continue;
            }
            self.failing = 0;
            seen.answer(slot.length, latency);
            if now > self.from && now <= self.until {
                self.tally.answer(slot.write, slot.length, latency, now - self.from);
            } else if now > self.until {
                self.late_answer(slot, now);
            }
        }
        self.lane.done.add(seen);
        self.done = done;
    }

    /// Notes the time without an answer up to now, as far as it was measured.
    #[inline]
    fn silence(&mut self, now: u64) {
        let silence = now.min(self.until).saturating_sub(self.last_answer.max(self.from));
        self.tally.longest_silence_ns = self.tally.longest_silence_ns.max(silence);
    }

    /// Counts an answer after the end. It is in no rate; but what an open loop should have made in
    /// time and got late is latency that somebody would have had, and a stall at the end must not hide it.
    fn late_answer(&mut self, slot: RequestSlot, now: u64) {
        if self.counts_late(slot) {
            let side = if slot.write { &mut self.tally.writes } else { &mut self.tally.reads };
            side.latency.record(now.saturating_sub(slot.start));
        }
    }

    fn counts_late(&self, slot: RequestSlot) -> bool {
        slot.start >= self.from && matches!(self.lane.pace, Pace::Open { .. })
    }

    /// Takes the answers that come after the loop has ended. What failed has failed: a dead disk may
    /// take longer than a run to say so.
    fn settle_late(&mut self) {
        let now = self.engine.now();
        let mut done = std::mem::take(&mut self.done);
        for answer in done.drain(..) {
            self.outstanding -= 1;
            let slot = self.slots[answer.slot as usize];
            let fault = slot.fault(answer.result);
            // a write's sync belongs to it
            if self.counts_late(slot) && fault.is_none() && slot.write && !slot.syncing && self.sync(answer.slot) {
                continue;
            }
            self.slots[answer.slot as usize] = RequestSlot::default();
            match fault {
                // it was to be tried again, and there is no time left
                Some(IoFault::Error(libc::EAGAIN | libc::EINTR)) => {}
                Some(IoFault::Error(number)) => self.tally.error(number),
                Some(IoFault::Short) => self.tally.short += 1,
                None => self.late_answer(slot, now),
            }
        }
        self.done = done;
    }

    /// Makes a request again that the system could not begin; false where it
    /// failed for good. Its latency goes on.
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

    /// Notes that a request was made later than it was due.
    #[inline]
    fn lateness(&mut self, now: u64, due: u64) {
        if now > self.from {
            self.tally.lateness.record(now.saturating_sub(due));
        }
    }

    /// Begins the sync that belongs to a write; false where none does.
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

    /// So many outstanding: a new request for each answer.
    fn closed(&mut self) -> io::Result<()> {
        let mut free: Vec<u32> = (0..self.slots.len() as u32).collect();
        let mut now = self.engine.now();
        // turns until few requests are handed over at once again; 0 while answers come at once
        let mut patience = 0u32;
        while !self.is_over(now) {
            let most = if patience == 0 { AT_ONCE } else { usize::MAX };
            for _ in 0..free.len().min(most) {
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

    /// Users who think: each slot is one of them.
    fn users(&mut self, think_s: f64, random: bool) -> io::Result<()> {
        let begin = self.engine.now();
        let think = |draw: &mut Draw| {
            let seconds = if random { draw.dice().exponential(think_s) } else { think_s };
            (seconds * 1e9) as u64
        };
        let mut ready = BinaryHeap::new();
        for user in 0..self.slots.len() as u32 {
            // they do not all come in at once
            let first = (self.draw.dice().share() * think_s * 1e9) as u64;
            ready.push(Reverse((begin + first, user)));
        }
        let mut now = begin;
        let mut back = Vec::new();
        while !self.is_over(now) {
            while let Some(&Reverse((due, user))) = ready.peek().filter(|r| r.0.0 <= now && !self.is_spent()) {
                ready.pop();
                // a user who wakes late has waited for nobody: the clock starts now
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

    /// Users in Response Probe's cycles: think, some requests, compute.
    fn cycles(&mut self, think_s: &NormalSpread, requests: &NormalSpread, compute_s: &NormalSpread) -> io::Result<()> {
        let begin = self.engine.now();
        let users = self.slots.len() as u32;
        // requests that are left of each user's cycle
        let mut left = vec![0u64; users as usize];
        let first = |draw: &mut Draw| begin + (draw.dice().share() * think_s.mean * 1e9) as u64;
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

    /// Keeps the processor busy as a user who works on what was read; gives the time after it.
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

    /// So many a second, come what may.
    fn open(&mut self, rate_per_s: f64, poisson: bool) -> io::Result<()> {
        let mean_ns = 1e9 / rate_per_s;
        let begin = self.engine.now();
        let mut due = begin as f64;
        let mut free: Vec<u32> = (0..self.slots.len() as u32).collect();
        let mut now = begin;
        // since when there has been a free slot
        let mut free_since = begin;
        while !self.is_over(now) {
            while due <= now as f64 && !self.is_spent() {
                let Some(slot) = free.pop() else { break };
                self.make(slot, due as u64);
                self.tally.late += u64::from((due as u64) < free_since);
                self.lateness(now, free_since.max(due as u64));
                due += if poisson { self.draw.dice().exponential(mean_ns) } else { mean_ns };
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
            // what was due by now and found no slot: nobody knows how long it would have waited
            let from = due.max(self.from as f64);
            self.tally.unsent = ((now.min(self.until) as f64 - from) / mean_ns).ceil().max(0.0) as u64;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;

//! The loops: they draw requests, hand them to an engine when they are due,
//! and count the answers. One lane is one thread with one engine.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::draw::{Draw, bell};
use crate::engine::{Action, Done, Engine, Op, Wait};
use crate::live::{Live, Seen};
use crate::pattern::{Durable, Pace, Spread};
use crate::tally::Tally;

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
/// The same while a job waits for its start, nanoseconds.
const IDLE_NS: u64 = 100_000_000;

/// What one lane has to do.
pub struct Lane<'a> {
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
}

/// A slot's request under way.
#[derive(Clone, Copy, Default)]
struct Slot {
    /// When its latency began.
    start: u64,
    offset: u64,
    length: u32,
    write: bool,
    /// The write is done and its sync is under way.
    syncing: bool,
    tries: u8,
}

/// What is wrong with an answer.
enum Fault {
    /// The system's error number.
    Error(i32),
    /// Fewer bytes than asked for: the end of the target is nearer than it was.
    Short,
}

impl Slot {
    #[inline]
    fn fault(&self, result: i32) -> Option<Fault> {
        match u32::try_from(result) {
            Err(_) => Some(Fault::Error(result.wrapping_neg())),
            Ok(moved) => (!self.syncing && moved < self.length).then_some(Fault::Short),
        }
    }
}

/// A lane at work.
struct Work<'a, E> {
    engine: &'a mut E,
    draw: &'a mut Draw,
    lane: &'a Lane<'a>,
    tally: Tally,
    slots: Vec<Slot>,
    outstanding: u32,
    done: Vec<Done>,
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
}

/// Runs a lane to its end and gives what it counted. Requests that are under
/// way at the end are waited for and not counted, but for the latency of those
/// that an open loop made.
///
/// # Errors
/// When the engine fails.
pub fn run<E: Engine>(engine: &mut E, draw: &mut Draw, lane: &Lane<'_>, slots: u32) -> io::Result<Tally> {
    let mut begin = engine.now();
    let due = begin.saturating_add(lane.after_ns);
    while begin < due && !lane.stop.load(Ordering::Relaxed) {
        engine.turn(Wait::Until(due.min(begin + IDLE_NS)), &mut Vec::new())?;
        begin = engine.now();
    }
    let from = begin.saturating_add(lane.ramp_ns);
    let until = from.saturating_add(lane.lasts_ns);
    let mut work = Work {
        engine,
        draw,
        lane,
        tally: Tally::default(),
        slots: vec![Slot::default(); slots as usize],
        outstanding: 0,
        done: Vec::with_capacity(slots as usize),
        from,
        until,
        last_answer: begin,
        left_bytes: lane.most_bytes.unwrap_or(u64::MAX),
        unsynced: 0,
        failing: 0,
    };
    match lane.pace {
        Pace::Closed { .. } => work.closed()?,
        Pace::Users { think_s, random, .. } => work.users(think_s, random)?,
        Pace::Cycles { think_s, requests, compute_s, .. } => work.cycles(&think_s, &requests, &compute_s)?,
        Pace::Open { rate_per_s, poisson } => work.open(rate_per_s, poisson)?,
    }
    // where all was asked for, all counts
    while work.is_spent() && work.outstanding > 0 {
        work.turn(Wait::One)?;
        let now = work.engine.now();
        work.settle(now, |_| {});
    }
    let now = work.engine.now();
    work.tally.measured_ns = now.min(until).saturating_sub(from);
    if work.outstanding > 0 {
        work.silence(now);
    }
    while work.outstanding > 0 {
        work.turn(Wait::One)?;
        work.settle_late();
    }
    Ok(work.tally)
}

impl<E: Engine> Work<'_, E> {
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
        let drawn = self.draw.request();
        let action = if drawn.write { Action::Write } else { Action::Read };
        self.slots[slot as usize] =
            Slot { start, offset: drawn.offset, length: drawn.length, write: drawn.write, ..Slot::default() };
        self.engine.put(Op { slot, action, offset: drawn.offset, length: drawn.length });
        if self.outstanding == 0 {
            self.last_answer = self.last_answer.max(start);
        }
        self.outstanding += 1;
        if self.lane.most_bytes.is_some() && start >= self.from {
            self.left_bytes = self.left_bytes.saturating_sub(u64::from(drawn.length));
        }
    }

    #[inline]
    fn turn(&mut self, wait: Wait) -> io::Result<()> {
        self.engine.turn(wait, &mut self.done)
    }

    /// Counts the answers that came; each slot that is free again goes to `freed`.
    #[inline]
    fn settle(&mut self, now: u64, mut freed: impl FnMut(u32)) {
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
        let mut seen = Seen::default();
        for answer in done.drain(..) {
            let slot = self.slots[answer.slot as usize];
            self.outstanding -= 1;
            if slot.fault(answer.result).is_none() && slot.write && !slot.syncing && self.sync(answer.slot) {
                continue;
            }
            if answer.result < 0 && self.again(answer.slot, -answer.result) {
                continue;
            }
            freed(answer.slot);
            let latency = now.saturating_sub(slot.start);
            self.brake(latency);
            // nothing that moved less than was asked is a measurement of what was asked
            if let Some(fault) = slot.fault(answer.result) {
                self.failing += 1;
                match fault {
                    Fault::Error(number) => self.tally.error(number),
                    Fault::Short => self.tally.short += 1,
                }
                continue;
            }
            self.failing = 0;
            seen.answer(slot.length, latency);
            if now > self.from && now <= self.until {
                self.tally.answer(slot.write, slot.length, latency, now - self.from);
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

    /// Takes the answers that come after the end. They are in no rate; but what
    /// an open loop should have made in time and got late is latency that
    /// somebody would have had, and a stall at the end must not hide it.
    fn settle_late(&mut self) {
        let now = self.engine.now();
        let mut done = std::mem::take(&mut self.done);
        for answer in done.drain(..) {
            self.outstanding -= 1;
            let slot = self.slots[answer.slot as usize];
            let counts = slot.start >= self.from && slot.fault(answer.result).is_none();
            if counts && matches!(self.lane.pace, Pace::Open { .. }) {
                let side = if slot.write { &mut self.tally.writes } else { &mut self.tally.reads };
                side.latency.record(now.saturating_sub(slot.start));
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
                self.turn(Wait::One)?;
                patience = patience.saturating_sub(1);
            } else {
                self.turn(Wait::Nothing)?;
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
            self.turn(Wait::Until(next))?;
            now = self.engine.now();
            self.settle(now, |slot| back.push(slot));
            for user in back.drain(..) {
                ready.push(Reverse((now + think(self.draw), user)));
            }
        }
        Ok(())
    }

    /// Users in Response Probe's cycles: think, some requests, compute.
    fn cycles(&mut self, think_s: &Spread, requests: &Spread, compute_s: &Spread) -> io::Result<()> {
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
            self.turn(Wait::Until(next))?;
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
    fn compute(&mut self, compute_s: &Spread) -> u64 {
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
            let wait = if free.is_empty() { Wait::One } else { Wait::Until((due.ceil() as u64).min(self.until)) };
            self.turn(wait)?;
            now = self.engine.now();
            if free.is_empty() {
                free_since = now;
            }
            self.settle(now, |slot| free.push(slot));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;

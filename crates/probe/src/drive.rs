//! The loops: they draw requests, hand them to an engine when they are due,
//! and count the answers. One lane is one thread with one engine.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::draw::Draw;
use crate::engine::{Action, Done, Engine, Op, Wait};
use crate::live::{Live, Seen};
use crate::pattern::{Durable, Pace, Spread};
use crate::tally::Tally;

/// After so many failed requests in a row a lane gives up: the target is gone.
const MOST_ERRORS: u64 = 1000;
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
    length: u32,
    write: bool,
    /// The write is done and its sync is under way.
    syncing: bool,
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
        self.slots[slot as usize] = Slot { start, length: drawn.length, write: drawn.write, syncing: false };
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
        while !self.is_over(now) {
            while !self.is_spent()
                && let Some(slot) = free.pop()
            {
                self.make(slot, now);
            }
            self.turn(Wait::One)?;
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
                    left[user as usize] = (self.draw.dice().bell(requests).round() as u64).max(1);
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
                    let thinks = self.draw.dice().bell(think_s);
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
        let mut left = (self.draw.dice().bell(compute_s) * 1e9) as u64;
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
        while !self.is_over(now) {
            while due <= now as f64 && !self.is_spent() {
                let Some(slot) = free.pop() else {
                    self.tally.late += 1;
                    break;
                };
                self.make(slot, due as u64);
                due += if poisson { self.draw.dice().exponential(mean_ns) } else { mean_ns };
            }
            let wait = if free.is_empty() { Wait::One } else { Wait::Until((due.ceil() as u64).min(self.until)) };
            self.turn(wait)?;
            now = self.engine.now();
            self.settle(now, |slot| free.push(slot));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;
    use crate::engine::fake::FakeDevice;
    use crate::pattern::Pattern;

    const MS: u64 = 1_000_000;
    const S: u64 = 1_000 * MS;

    fn measure(mut device: FakeDevice, pattern: &Pattern, slots: u32, lasts_s: u64) -> Tally {
        let (stop, done) = (AtomicBool::new(false), Live::default());
        let (pace, durable) = (pattern.pace.clone(), pattern.durable);
        let lane = Lane {
            pace,
            durable,
            ramp_ns: S,
            lasts_ns: lasts_s * S,
            stop: &stop,
            done: &done,
            brake_ns: None,
            after_ns: 0,
            sync_every: pattern.sync_every,
            most_bytes: pattern.most_bytes,
        };
        let mut draw = Draw::new(pattern, 1 << 30, 0, 1);
        run(&mut device, &mut draw, &lane, slots).unwrap()
    }

    fn paced(pace: Pace) -> Pattern {
        Pattern { pace, ..Pattern::random_reads(4096, 1) }
    }

    #[test]
    fn a_closed_loop_keeps_its_depth() {
        // one server of 5 ms at depth 8: 200 a second, each waits 40 ms (Little's law)
        let tally = measure(FakeDevice::steady(1, 5 * MS), &paced(Pace::Closed { depth: 8 }), 8, 10);
        assert_eq!(tally.reads.requests, 2000);
        let mean = tally.reads.latency.mean().unwrap() / MS as f64;
        assert!((mean - 40.0).abs() < 0.1, "{mean}");
        // as many servers as requests: nobody waits
        let tally = measure(FakeDevice::steady(8, 5 * MS), &paced(Pace::Closed { depth: 8 }), 8, 10);
        assert_eq!(tally.reads.requests, 16_000);
    }

    #[test]
    fn users_obey_the_response_time_law() {
        // 20 users thinking 100 ms before 10 servers of 5 ms: X = N / (R + Z), Denning and Buzen 1978
        let pace = Pace::Users { users: 20, think_s: 0.1, random: true };
        let tally = measure(FakeDevice::steady(10, 5 * MS), &paced(pace), 20, 100);
        let rate = tally.reads.requests as f64 / 100.0;
        let response = tally.reads.latency.mean().unwrap() / S as f64;
        assert!((rate - 20.0 / (response + 0.1)).abs() / rate < 0.02, "{rate} {response}");
    }

    #[test]
    fn an_open_loop_shows_a_stall_and_a_closed_one_hides_it() {
        // 1 ms a request, but nothing moves in the first second of every ten
        let stalling = || {
            FakeDevice::new(
                1,
                Box::new(|_, begins| {
                    let into = begins % (10 * S);
                    Ok(if into < S { S - into + MS } else { MS })
                }),
            )
        };
        let open = Pace::Open { rate_per_s: 100.0, poisson: false };
        let open = measure(stalling(), &paced(open), 4096, 100);
        let closed = measure(stalling(), &paced(Pace::Closed { depth: 1 }), 1, 100);
        let p99 = |t: &Tally| t.reads.latency.quantile(0.99).unwrap() / MS as f64;
        // a tenth of all requests fall into the stall and wait half of it in the mean
        assert!(p99(&open) > 800.0, "{}", p99(&open));
        assert!(p99(&closed) < 2.0, "{}", p99(&closed));
        assert!(closed.longest_silence_ns >= S, "{}", closed.longest_silence_ns);
    }

    #[test]
    fn poisson_arrivals_wait_as_mm1_md1_say() {
        // M/D/1 at load 0.8: waiting = rho / (2 (1 - rho)) services (Pollaczek and Khinchine)
        let pace = Pace::Open { rate_per_s: 800.0, poisson: true };
        let tally = measure(FakeDevice::steady(1, MS), &paced(pace), 4096, 2000);
        let mean = tally.reads.latency.mean().unwrap() / MS as f64;
        assert!((mean - 3.0).abs() < 0.15, "{mean}");
    }

    #[test]
    fn a_durable_write_is_one_request() {
        let pattern = Pattern { read_share: 0.0, durable: Durable::Fdatasync, ..paced(Pace::Closed { depth: 1 }) };
        let tally = measure(FakeDevice::steady(1, 5 * MS), &pattern, 1, 1);
        // the sync of the last may end with the run
        assert!((199..=200).contains(&tally.writes.requests) && tally.reads.requests == 0);
    }

    #[test]
    fn a_brake_ends_the_run_at_the_first_slow_answer() {
        let mut device = FakeDevice::new(1, Box::new(|_, at| Ok(if at > 2 * S { 80 * MS } else { MS })));
        let (stop, done) = (AtomicBool::new(false), Live::default());
        let pace = Pace::Closed { depth: 1 };
        let lane = Lane {
            pace,
            durable: Durable::No,
            ramp_ns: 0,
            lasts_ns: 100 * S,
            stop: &stop,
            done: &done,
            brake_ns: Some(50 * MS),
            after_ns: 0,
            sync_every: 1,
            most_bytes: None,
        };
        let pattern = paced(Pace::Closed { depth: 1 });
        let tally = run(&mut device, &mut Draw::new(&pattern, 1 << 30, 0, 1), &lane, 1).unwrap();
        assert_eq!(tally.braked_ns, Some(80 * MS));
        assert!(device.now() < 3 * S);
    }

    #[test]
    fn a_brake_takes_the_load_off_a_device_that_answers_nothing() {
        // it serves one a millisecond for a second, then nothing for an hour
        let mut device = FakeDevice::new(1, Box::new(|_, at| Ok(if at > S { 3600 * S } else { MS })));
        let (stop, done) = (AtomicBool::new(false), Live::default());
        let pace = Pace::Open { rate_per_s: 100.0, poisson: false };
        let pattern = paced(pace.clone());
        let lane = Lane {
            pace,
            durable: Durable::No,
            ramp_ns: 0,
            lasts_ns: 100 * S,
            stop: &stop,
            done: &done,
            brake_ns: Some(50 * MS),
        };
        let tally = run(&mut device, &mut Draw::new(&pattern, 1 << 30, 0, 1), &lane, 4096).unwrap();
        // no more than what came in 50 ms was asked for
        assert!(tally.braked_ns.is_some_and(|ns| ns < 70 * MS) && tally.reads.latency.count() < 110, "{tally:?}");
        assert!(stop.load(Ordering::Relaxed));
    }

    #[test]
    fn a_stall_at_the_end_is_no_secret() {
        // nothing moves in the last second of five (the second of which is the first that counts)
        let device = || FakeDevice::new(1, Box::new(|_, at| Ok(if at > 5 * S { 10 * S } else { MS })));
        let open = measure(device(), &paced(Pace::Open { rate_per_s: 100.0, poisson: false }), 4096, 5);
        let p99 = open.reads.latency.quantile(0.99).unwrap();
        assert!(p99 > 5.0 * S as f64, "{p99}");
        assert!((395..=405).contains(&open.reads.requests), "{}", open.reads.requests);
        for tally in [open, measure(device(), &paced(Pace::Closed { depth: 1 }), 1, 5)] {
            let silence = tally.longest_silence_ns;
            assert!((990 * MS..=S).contains(&silence), "{silence}");
        }
    }

    #[test]
    fn waiting_for_work_is_no_silence() {
        let tally = measure(FakeDevice::steady(1, MS), &paced(Pace::Open { rate_per_s: 2.0, poisson: false }), 8, 10);
        assert!(tally.longest_silence_ns <= MS, "{}", tally.longest_silence_ns);
    }

    #[test]
    fn some_errors_do_not_end_a_run_and_short_answers_are_no_measurement() {
        let mut count = 0;
        let service = move |_: &Op, _| {
            count += 1;
            if count % 10 == 0 { Err(5) } else { Ok(100_000) }
        };
        let tally = measure(FakeDevice::new(1, Box::new(service)), &paced(Pace::Closed { depth: 1 }), 1, 10);
        // 100 us a request, and errors take no time
        assert_eq!(tally.reads.requests, 100_000);
        assert!((12_000..12_400).contains(&tally.failed()), "{}", tally.failed());
    }

    #[test]
    fn errors_are_counted_and_end_a_run() {
        let broken = FakeDevice::new(1, Box::new(|_, _| Err(5)));
        let tally = measure(broken, &paced(Pace::Closed { depth: 4 }), 4, 1_000_000);
        assert_eq!(tally.reads.requests, 0);
        assert_eq!(tally.errors[0].0, 5);
        assert!(tally.failed() >= MOST_ERRORS);
    }

    #[test]
    fn cycles_think_ask_and_compute() {
        // 10 ms of thinking, 4 requests of 5 ms, 20 ms of computing: 4 requests every 50 ms
        let pace = Pace::Cycles {
            users: 1,
            think_s: Spread::fixed(0.01),
            requests: Spread::fixed(4.0),
            compute_s: Spread::fixed(0.02),
        };
        let tally = measure(FakeDevice::steady(1, 5 * MS), &paced(pace), 1, 10);
        assert!((796..=804).contains(&tally.reads.requests), "{}", tally.reads.requests);
        assert!((tally.reads.latency.mean().unwrap() / (5 * MS) as f64 - 1.0).abs() < 0.01);
    }

    #[test]
    fn only_each_fourth_write_is_made_durable() {
        let pattern =
            Pattern { read_share: 0.0, durable: Durable::Fdatasync, sync_every: 4, ..paced(Pace::Closed { depth: 1 }) };
        let syncs = std::sync::Arc::new(AtomicU64::new(0));
        let count = std::sync::Arc::clone(&syncs);
        let service = move |op: &Op, _| {
            count.fetch_add(u64::from(op.action == Action::Fdatasync), Ordering::Relaxed);
            Ok(5 * MS)
        };
        let tally = measure(FakeDevice::new(1, Box::new(service)), &pattern, 1, 1);
        let writes = tally.writes.requests + 200;
        assert!(syncs.load(Ordering::Relaxed).abs_diff(writes / 4) <= 1, "{writes}");
    }

    #[test]
    fn a_limit_of_bytes_ends_a_run_and_all_of_it_counts() {
        let pattern = Pattern { most_bytes: Some(100 * 4096), ..paced(Pace::Closed { depth: 8 }) };
        let tally = measure(FakeDevice::steady(4, 5 * MS), &pattern, 8, 1000);
        // the ramp is not counted against it
        assert!((100..=108).contains(&tally.reads.requests), "{}", tally.reads.requests);
    }
}

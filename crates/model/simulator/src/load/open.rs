//! Operations that arrive on their own, whether or not earlier ones are done. Each occupies a slot while in flight.

use diskwright_base::Rng;

use crate::Ns;
use crate::load::course::LoadTimeline;
use crate::load::operations::{NextOperation, OperationBook, OperationFlight, POSTED};
use crate::load::slots::Slots;
use crate::load::{ArrivalBatch, Bursts, Cause, DurationDistribution, LoadError, LoadRequest, OpenSpec, Operations};

/// Agent of the arrival timer; operations in flight have the agents from 1 on.
const DOOR: u32 = 0;

/// Largest mean number of bursts between two arrivals.
const MOST_BURSTS: f64 = 1e4;

/// An open load in progress.
#[derive(Clone, Debug)]
pub struct OpenLoad {
    gap: DurationDistribution,
    batch: ArrivalBatch,
    bursts: Option<Bursts>,
    /// Remaining time of the burst, ns.
    burst_left: f64,
    book: OperationBook,
    course: LoadTimeline,
    under_way: Slots<OperationFlight>,
    /// Time of the next arrival, and the fraction of a nanosecond by which it is too early.
    due: Ns,
    early: f64,
    /// Operations that may still arrive.
    left: u64,
    over: bool,
    dice: Rng,
}

impl OpenLoad {
    pub(super) fn new(spec: &OpenSpec, target_blocks: &[u64], mut rng: Rng) -> Result<OpenLoad, LoadError> {
        spec.gap.check("gap")?;
        if spec.gap.mean_s() < 1e-9 {
            return Err(LoadError::new("gap", "the mean gap between arrivals must be at least 1e-9 s"));
        }
        if let Some(Bursts { on, off }) = &spec.bursts {
            on.check("bursts")?;
            off.check("bursts")?;
            // add_pauses steps through the bursts of a gap one by one
            if on.mean_s() * MOST_BURSTS < spec.gap.mean_s() || on.mean_s() < 1e-9 {
                let why = format!("a burst must last at least 1e-9 s and 1/{MOST_BURSTS} of the gap between arrivals");
                return Err(LoadError::new("bursts", why));
            }
        }
        let batch_fits = match spec.batch {
            ArrivalBatch::One => true,
            ArrivalBatch::Fixed(size) => (1..=65_536).contains(&size),
            ArrivalBatch::Geometric(mean) => (1.0..=65_536.0).contains(&mean),
        };
        if !batch_fits {
            return Err(LoadError::new("batch", "expected 1 to 65536 operations at a time"));
        }
        if !(1..POSTED).contains(&spec.most_outstanding) {
            return Err(LoadError::new("most_outstanding", format!("expected at least 1 and less than {POSTED}")));
        }
        let weights: Vec<f64> = spec.classes.iter().map(|class| class.weight).collect();
        let burst_left = spec.bursts.map_or(f64::INFINITY, |bursts| bursts.on.draw(&mut rng) * 1e9);
        Ok(OpenLoad {
            gap: spec.gap,
            batch: spec.batch,
            bursts: spec.bursts,
            burst_left,
            book: OperationBook::new(&spec.classes, target_blocks, 1)?,
            course: LoadTimeline::new(&spec.phases, &weights)?,
            under_way: Slots::new(spec.most_outstanding),
            due: 0,
            early: 0.0,
            left: spec.most_operations.unwrap_or(u64::MAX),
            over: false,
            dice: rng,
        })
    }

    #[inline]
    pub(super) fn next(&mut self, now: Ns, agent: u32, cause: Cause, requests: &mut Vec<LoadRequest>) {
        let Some(agent) = self.book.told(agent, cause) else { return };
        if agent == DOOR {
            if cause == Cause::Start {
                self.due = now;
            } else {
                self.arrive(now, requests);
            }
            self.await_next(requests);
            return;
        }
        let Some(flight) = self.under_way.get(agent) else { return };
        if self.book.go_on(flight, NextOperation { at: now, who: agent, user: 0 }, &mut self.dice, requests) {
            self.under_way.give(agent);
        }
    }

    fn arrive(&mut self, now: Ns, requests: &mut Vec<LoadRequest>) {
        let size = match self.batch {
            ArrivalBatch::One => 1,
            ArrivalBatch::Fixed(size) => size,
            ArrivalBatch::Geometric(mean) => geometric(mean, &mut self.dice),
        };
        for _ in 0..u64::from(size).min(self.left) {
            self.left -= 1;
            let class = self.course.class(now, &mut self.dice);
            let Some(agent) = self.under_way.take() else {
                self.book.lost(class);
                continue;
            };
            let turn = NextOperation { at: now, who: agent, user: 0 };
            let flight = self.book.begin(class, turn, &mut self.dice, requests);
            if let Some(place) = self.under_way.get(agent) {
                *place = flight;
            }
        }
    }

    #[inline]
    fn await_next(&mut self, requests: &mut Vec<LoadRequest>) {
        let gap = self.gap.draw(&mut self.dice) * 1e9 + self.early;
        let wait = self.with_pauses(gap);
        let whole_ns = wait.floor();
        // where the level changes, the fraction is on another scale, but still below a nanosecond
        self.early = wait - whole_ns;
        // counted from the previous arrival, not from now, so that delayed calls do not add up
        match self.course.after(self.due, whole_ns).filter(|time| self.left > 0 && !self.course.over(*time)) {
            Some(time) => {
                self.due = time;
                requests.push(LoadRequest::alarm(time, DOOR));
            }
            None => self.over = true,
        }
    }

    /// Returns a gap extended by the pauses between bursts that fall into it, ns.
    fn with_pauses(&mut self, gap: f64) -> f64 {
        let Some(bursts) = self.bursts else { return gap };
        let (mut left, mut wait) = (gap, 0.0);
        while left > self.burst_left && wait < u64::MAX as f64 {
            left -= self.burst_left;
            wait += self.burst_left + bursts.off.draw(&mut self.dice) * 1e9;
            // at least 1 ns, so that the loop ends
            self.burst_left = (bursts.on.draw(&mut self.dice) * 1e9).max(1.0);
        }
        self.burst_left -= left;
        wait + left
    }

    pub(super) fn users(&self) -> u32 {
        1
    }

    pub(super) fn finished(&self) -> bool {
        self.over && self.under_way.is_empty()
    }

    pub(super) fn operations(&self) -> &[Operations] {
        &self.book.operations
    }

    pub(super) fn operations_mut(&mut self) -> &mut [Operations] {
        &mut self.book.operations
    }
}

/// Draws from the geometric distribution of this mean; at least 1.
fn geometric(mean: f64, rng: &mut Rng) -> u32 {
    let continue_share = 1.0 - 1.0 / mean;
    if continue_share <= 0.0 {
        return 1;
    }
    // inversion: P(more than n) = continue_share^n
    1 + ((1.0 - rng.next_f64()).ln() / continue_share.ln()) as u32
}

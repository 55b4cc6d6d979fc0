//! Operations that come on their own: each takes a free place among those
//! under way, and gives it back when it is done.

use diskwright_base::Rng;

use crate::Ns;
use crate::load::course::LoadTimeline;
use crate::load::operations::{NextOperation, OperationBook, OperationFlight, POSTED};
use crate::load::slots::Slots;
use crate::load::{ArrivalBatch, Bursts, Cause, DurationDistribution, LoadError, LoadRequest, OpenSpec, Operations};

/// Who watches for arrivals; operations come behind.
const DOOR: u32 = 0;

/// Most bursts in the mean between two arrivals.
const MOST_BURSTS: f64 = 1e4;

/// An open load in progress.
#[derive(Clone, Debug)]
pub struct OpenLoad {
    gap: DurationDistribution,
    batch: ArrivalBatch,
    bursts: Option<Bursts>,
    /// Time left of the burst, ns.
    burst_left: f64,
    book: OperationBook,
    course: LoadTimeline,
    under_way: Slots<OperationFlight>,
    /// When the next arrival is due, and the part of a nanosecond that this is too early.
    due: Ns,
    early: f64,
    /// Operations that may still come.
    left: u64,
    over: bool,
    dice: Rng,
}

impl OpenLoad {
    pub(super) fn new(spec: &OpenSpec, target_blocks: &[u64], mut dice: Rng) -> Result<OpenLoad, LoadError> {
        spec.gap.check("gap")?;
        if spec.gap.mean_s() < 1e-9 {
            return Err(LoadError::new("gap", "the mean gap between arrivals must be at least 1e-9 s"));
        }
        if let Some(Bursts { on, off }) = &spec.bursts {
            on.check("bursts")?;
            off.check("bursts")?;
            // arrivals seek their burst one by one
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
        let burst_left = spec.bursts.map_or(f64::INFINITY, |bursts| bursts.on.draw(&mut dice) * 1e9);
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
            dice,
        })
    }

    #[inline]
    pub(super) fn next(&mut self, now: Ns, who: u32, cause: Cause, asks: &mut Vec<LoadRequest>) {
        let Some(who) = self.book.told(who, cause) else { return };
        if who == DOOR {
            if cause == Cause::Start {
                self.due = now;
            } else {
                self.arrive(now, asks);
            }
            self.await_next(asks);
            return;
        }
        let Some(flight) = self.under_way.get(who) else { return };
        if self.book.go_on(flight, NextOperation { at: now, who, user: 0 }, &mut self.dice, asks) {
            self.under_way.give(who);
        }
    }

    fn arrive(&mut self, now: Ns, asks: &mut Vec<LoadRequest>) {
        let size = match self.batch {
            ArrivalBatch::One => 1,
            ArrivalBatch::Fixed(size) => size,
            ArrivalBatch::Geometric(mean) => geometric(mean, &mut self.dice),
        };
        for _ in 0..u64::from(size).min(self.left) {
            self.left -= 1;
            let class = self.course.class(now, &mut self.dice);
            let Some(who) = self.under_way.take() else {
                self.book.lost(class);
                continue;
            };
            let turn = NextOperation { at: now, who, user: 0 };
            let flight = self.book.begin(class, turn, &mut self.dice, asks);
            if let Some(place) = self.under_way.get(who) {
                *place = flight;
            }
        }
    }

    #[inline]
    fn await_next(&mut self, asks: &mut Vec<LoadRequest>) {
        let gap = self.gap.draw(&mut self.dice) * 1e9 + self.early;
        let wait = self.with_pauses(gap);
        let whole = wait.floor();
        // where the level changes the fraction is that of another scale, and as small
        self.early = wait - whole;
        // from one moment due to the next, so that no delay in being called adds up
        match self.course.after(self.due, whole).filter(|time| self.left > 0 && !self.course.over(*time)) {
            Some(time) => {
                self.due = time;
                asks.push(LoadRequest::alarm(time, DOOR));
            }
            None => self.over = true,
        }
    }

    /// A gap with the pauses that fall into it.
    fn with_pauses(&mut self, gap: f64) -> f64 {
        let Some(bursts) = self.bursts else { return gap };
        let (mut left, mut wait) = (gap, 0.0);
        while left > self.burst_left && wait < u64::MAX as f64 {
            left -= self.burst_left;
            wait += self.burst_left + bursts.off.draw(&mut self.dice) * 1e9;
            // never nothing, so that the loop ends
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

/// At least 1, each further one with the same probability, of this mean.
fn geometric(mean: f64, dice: &mut Rng) -> u32 {
    let go_on = 1.0 - 1.0 / mean;
    if go_on <= 0.0 {
        return 1;
    }
    // inversion: P(more than n) = go_on^n
    1 + ((1.0 - dice.share()).ln() / go_on.ln()) as u32
}

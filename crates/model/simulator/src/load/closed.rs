//! Users who ask, wait for the answer, think and ask again.

use diskwright_base::Rng;

use crate::Ns;
use crate::load::course::LoadTimeline;
use crate::load::operations::{NextOperation, OperationBook, OperationFlight};
use crate::load::{Cause, ClosedSpec, DurationDistribution, LoadError, LoadRequest, Operations};

/// Most users times outstanding operations.
const MOST_LANES: u32 = 1 << 20;

/// A closed load in progress. `who` is user x outstanding + which of their operations.
#[derive(Clone, Debug)]
pub struct ClosedLoad {
    users: u32,
    outstanding: u32,
    think: DurationDistribution,
    book: OperationBook,
    course: LoadTimeline,
    lanes: Vec<OperationFlight>,
    /// Lanes that ask no more.
    over: u32,
    /// Operations that may still be begun.
    left: u64,
    dice: Rng,
}

impl ClosedLoad {
    pub(super) fn new(spec: &ClosedSpec, target_blocks: &[u64], dice: Rng) -> Result<ClosedLoad, LoadError> {
        let lanes = spec.users.checked_mul(spec.outstanding).unwrap_or(0);
        if !(1..=MOST_LANES).contains(&lanes) {
            return Err(LoadError::new("users", format!("users x requests in flight must be from 1 to {MOST_LANES}")));
        }
        spec.think.check("think")?;
        let weights: Vec<f64> = spec.classes.iter().map(|class| class.weight).collect();
        let book = OperationBook::new(&spec.classes, target_blocks, spec.users)?;
        Ok(ClosedLoad {
            users: spec.users,
            outstanding: spec.outstanding,
            think: spec.think,
            book,
            course: LoadTimeline::new(&spec.phases, &weights)?,
            lanes: vec![OperationFlight::default(); lanes as usize],
            over: 0,
            left: spec.most_operations.unwrap_or(u64::MAX),
            dice,
        })
    }

    #[inline]
    pub(super) fn next(&mut self, now: Ns, who: u32, cause: Cause, asks: &mut Vec<LoadRequest>) {
        let Some(who) = self.book.told(who, cause) else { return };
        let user = if self.outstanding == 1 { who } else { who / self.outstanding };
        let Some(flight) = self.lanes.get_mut(who as usize) else { return };
        if cause == Cause::Start {
            let part = match self.think {
                DurationDistribution::Constant { .. } if self.users > 1 => self.dice.share(),
                _ => 1.0,
            };
            let think = self.think.draw_ns(&mut self.dice);
            self.ask(now.saturating_add((think as f64 * part) as Ns), who, user, asks);
        } else if self.book.go_on(flight, NextOperation { at: now, who, user }, &mut self.dice, asks) {
            let think = self.think.draw_ns(&mut self.dice);
            self.ask(now.saturating_add(think), who, user, asks);
        }
    }

    #[inline]
    fn ask(&mut self, time: Ns, who: u32, user: u32, asks: &mut Vec<LoadRequest>) {
        // the first users are there first and stay longest
        let time = match self.course.is_steady() {
            true => Some(time),
            false => self.course.above(f64::from(user) / f64::from(self.users), time),
        };
        let Some(time) = time.filter(|time| self.left > 0 && !self.course.over(*time)) else {
            self.over += 1;
            return;
        };
        self.left -= 1;
        let class = self.course.class(time, &mut self.dice);
        self.lanes[who as usize] = self.book.begin(class, NextOperation { at: time, who, user }, &mut self.dice, asks);
    }

    pub(super) fn users(&self) -> u32 {
        self.lanes.len() as u32
    }

    pub(super) fn finished(&self) -> bool {
        self.over as usize == self.lanes.len()
    }

    pub(super) fn operations(&self) -> &[Operations] {
        &self.book.operations
    }

    pub(super) fn operations_mut(&mut self) -> &mut [Operations] {
        &mut self.book.operations
    }
}

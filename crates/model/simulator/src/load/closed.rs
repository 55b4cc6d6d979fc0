//! Users who issue an operation, wait for it, think and repeat.

use diskwright_base::Rng;

use crate::Ns;
use crate::load::course::LoadTimeline;
use crate::load::operations::{NextOperation, OperationBook, OperationFlight};
use crate::load::{Cause, ClosedSpec, DurationDistribution, LoadError, LoadRequest, Operations};

/// Largest product of users and outstanding operations of each.
const MOST_LANES: u32 = 1 << 20;

/// A closed load in progress. Each agent is one outstanding operation of a user: agent = user x outstanding + its
/// index among the user's operations.
#[derive(Clone, Debug)]
pub struct ClosedLoad {
    users: u32,
    outstanding: u32,
    think: DurationDistribution,
    book: OperationBook,
    course: LoadTimeline,
    lanes: Vec<OperationFlight>,
    /// Agents that issue no more operations.
    over: u32,
    /// Operations that may still begin.
    left: u64,
    dice: Rng,
}

impl ClosedLoad {
    pub(super) fn new(spec: &ClosedSpec, target_blocks: &[u64], rng: Rng) -> Result<ClosedLoad, LoadError> {
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
            dice: rng,
        })
    }

    #[inline]
    pub(super) fn next(&mut self, now: Ns, agent: u32, cause: Cause, requests: &mut Vec<LoadRequest>) {
        let Some(agent) = self.book.told(agent, cause) else { return };
        let user = if self.outstanding == 1 { agent } else { agent / self.outstanding };
        let Some(flight) = self.lanes.get_mut(agent as usize) else { return };
        if cause == Cause::Start {
            let part = match self.think {
                DurationDistribution::Constant { .. } if self.users > 1 => self.dice.next_f64(),
                _ => 1.0,
            };
            let think = self.think.draw_ns(&mut self.dice);
            self.ask(now.saturating_add((think as f64 * part) as Ns), agent, user, requests);
        } else if self.book.go_on(flight, NextOperation { at: now, who: agent, user }, &mut self.dice, requests) {
            let think = self.think.draw_ns(&mut self.dice);
            self.ask(now.saturating_add(think), agent, user, requests);
        }
    }

    #[inline]
    fn ask(&mut self, time: Ns, agent: u32, user: u32, requests: &mut Vec<LoadRequest>) {
        // where the level varies, the users with the lowest numbers arrive first and stay longest
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
        let turn = NextOperation { at: time, who: agent, user };
        self.lanes[agent as usize] = self.book.begin(class, turn, &mut self.dice, requests);
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

//! Users who issue an operation, wait for it, think and repeat.

use diskwright_base::Rng;

use crate::Ns;
use crate::load::operations::{OperationFlight, OperationRunner, OperationTurn};
use crate::load::timeline::LoadTimeline;
use crate::load::{Cause, ClosedSpec, DurationDistribution, LoadError, LoadRequest, Operations};

/// Largest product of the number of users and the operations that each has in flight.
const MAX_OPERATIONS_IN_FLIGHT: u32 = 1 << 20;

/// A closed load in progress. Each agent is one outstanding operation of a user: agent = user x outstanding + its
/// index among the user's operations.
#[derive(Clone, Debug)]
pub struct ClosedLoad {
    users: u32,
    outstanding: u32,
    think: DurationDistribution,
    runner: OperationRunner,
    timeline: LoadTimeline,
    flights: Vec<OperationFlight>,
    /// Agents that issue no more operations.
    finished_agents: u32,
    /// Operations that may still begin.
    operations_left: u64,
    rng: Rng,
}

impl ClosedLoad {
    pub(super) fn new(spec: &ClosedSpec, target_blocks: &[u64], rng: Rng) -> Result<ClosedLoad, LoadError> {
        let agents = spec.users.checked_mul(spec.outstanding).unwrap_or(0);
        if !(1..=MAX_OPERATIONS_IN_FLIGHT).contains(&agents) {
            return Err(LoadError::new(
                "users",
                format!("users x requests in flight must be from 1 to {MAX_OPERATIONS_IN_FLIGHT}"),
            ));
        }
        spec.think.check_limits("think")?;
        let weights: Vec<f64> = spec.classes.iter().map(|class| class.weight).collect();
        let runner = OperationRunner::new(&spec.classes, target_blocks, spec.users)?;
        Ok(ClosedLoad {
            users: spec.users,
            outstanding: spec.outstanding,
            think: spec.think,
            runner,
            timeline: LoadTimeline::new(&spec.phases, &weights)?,
            flights: vec![OperationFlight::default(); agents as usize],
            finished_agents: 0,
            operations_left: spec.most_operations.unwrap_or(u64::MAX),
            rng,
        })
    }

    #[inline]
    pub(super) fn next(&mut self, now: Ns, agent: u32, cause: Cause, requests: &mut Vec<LoadRequest>) {
        let Some(agent) = self.runner.resolve_agent(agent, cause) else { return };
        let user = if self.outstanding == 1 { agent } else { agent / self.outstanding };
        let Some(flight) = self.flights.get_mut(agent as usize) else { return };
        if cause == Cause::Start {
            let think_share = match self.think {
                DurationDistribution::Constant { .. } if self.users > 1 => self.rng.next_f64(),
                _ => 1.0,
            };
            let think = self.think.draw_ns(&mut self.rng);
            self.begin_operation(now.saturating_add((think as f64 * think_share) as Ns), agent, user, requests);
        } else if self.runner.continue_operation(
            flight,
            OperationTurn { time: now, agent, user },
            &mut self.rng,
            requests,
        ) {
            let think = self.think.draw_ns(&mut self.rng);
            self.begin_operation(now.saturating_add(think), agent, user, requests);
        }
    }

    #[inline]
    fn begin_operation(&mut self, time: Ns, agent: u32, user: u32, requests: &mut Vec<LoadRequest>) {
        // where the level varies, the users with the lowest numbers arrive first and stay longest
        let time = match self.timeline.is_steady() {
            true => Some(time),
            false => self.timeline.first_time_above(f64::from(user) / f64::from(self.users), time),
        };
        let Some(time) = time.filter(|time| self.operations_left > 0 && !self.timeline.is_over(*time)) else {
            self.finished_agents += 1;
            return;
        };
        self.operations_left -= 1;
        let class = self.timeline.draw_class(time, &mut self.rng);
        let turn = OperationTurn { time, agent, user };
        self.flights[agent as usize] = self.runner.begin_operation(class, turn, &mut self.rng, requests);
    }

    pub(super) fn user_count(&self) -> u32 {
        self.flights.len() as u32
    }

    pub(super) fn is_finished(&self) -> bool {
        self.finished_agents as usize == self.flights.len()
    }

    pub(super) fn operations(&self) -> &[Operations] {
        &self.runner.operations
    }

    pub(super) fn operations_mut(&mut self) -> &mut [Operations] {
        &mut self.runner.operations
    }
}

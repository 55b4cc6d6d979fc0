//! Operations that arrive independently of earlier ones. Each occupies a slot while in flight.

use diskwright_base::Rng;

use crate::Ns;
use crate::load::operations::{OperationFlight, OperationRunner, OperationTurn, POSTED_FLAG};
use crate::load::slot_pool::SlotPool;
use crate::load::timeline::LoadTimeline;
use crate::load::{ArrivalBatch, Bursts, Cause, DurationDistribution, LoadError, LoadRequest, OpenSpec, Operations};

/// Agent of the arrival timer; operations in flight have the agents from 1 on.
const ARRIVAL_AGENT: u32 = 0;

/// Largest mean number of bursts between two arrivals.
const MAX_BURSTS_PER_GAP: f64 = 1e4;

/// An open load in progress.
#[derive(Clone, Debug)]
pub struct OpenLoad {
    gap: DurationDistribution,
    batch: ArrivalBatch,
    bursts: Option<Bursts>,
    /// Remaining time of the burst, ns.
    burst_left_ns: f64,
    runner: OperationRunner,
    timeline: LoadTimeline,
    in_flight: SlotPool<OperationFlight>,
    /// Time of the next arrival.
    next_arrival_ns: Ns,
    /// Fraction of a nanosecond by which that time is too early.
    early_by_ns: f64,
    /// Operations that may still arrive.
    arrivals_left: u64,
    arrivals_over: bool,
    rng: Rng,
}

impl OpenLoad {
    pub(super) fn new(spec: &OpenSpec, target_blocks: &[u64], mut rng: Rng) -> Result<OpenLoad, LoadError> {
        spec.gap.check_limits("gap")?;
        if spec.gap.mean_s() < 1e-9 {
            return Err(LoadError::new("gap", "the mean gap between arrivals must be at least 1e-9 s"));
        }
        if let Some(Bursts { on, off }) = &spec.bursts {
            on.check_limits("bursts")?;
            off.check_limits("bursts")?;
            // add_pauses steps through the bursts of a gap one by one
            if on.mean_s() * MAX_BURSTS_PER_GAP < spec.gap.mean_s() || on.mean_s() < 1e-9 {
                let reason =
                    format!("a burst must last at least 1e-9 s and 1/{MAX_BURSTS_PER_GAP} of the gap between arrivals");
                return Err(LoadError::new("bursts", reason));
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
        if !(1..POSTED_FLAG).contains(&spec.most_outstanding) {
            return Err(LoadError::new("most_outstanding", format!("expected at least 1 and less than {POSTED_FLAG}")));
        }
        let weights: Vec<f64> = spec.classes.iter().map(|class| class.weight).collect();
        let burst_left = spec.bursts.map_or(f64::INFINITY, |bursts| bursts.on.draw(&mut rng) * 1e9);
        Ok(OpenLoad {
            gap: spec.gap,
            batch: spec.batch,
            bursts: spec.bursts,
            burst_left_ns: burst_left,
            runner: OperationRunner::new(&spec.classes, target_blocks, 1)?,
            timeline: LoadTimeline::new(&spec.phases, &weights)?,
            in_flight: SlotPool::new(spec.most_outstanding),
            next_arrival_ns: 0,
            early_by_ns: 0.0,
            arrivals_left: spec.most_operations.unwrap_or(u64::MAX),
            arrivals_over: false,
            rng,
        })
    }

    #[inline]
    pub(super) fn next(&mut self, now: Ns, agent: u32, cause: Cause, requests: &mut Vec<LoadRequest>) {
        let Some(agent) = self.runner.resolve_agent(agent, cause) else { return };
        if agent == ARRIVAL_AGENT {
            if cause == Cause::Start {
                self.next_arrival_ns = now;
            } else {
                self.begin_arrivals(now, requests);
            }
            self.schedule_next_arrival(requests);
            return;
        }
        let Some(flight) = self.in_flight.get(agent) else { return };
        if self.runner.continue_operation(flight, OperationTurn { time: now, agent, user: 0 }, &mut self.rng, requests)
        {
            self.in_flight.free_slot(agent);
        }
    }

    fn begin_arrivals(&mut self, now: Ns, requests: &mut Vec<LoadRequest>) {
        let size = match self.batch {
            ArrivalBatch::One => 1,
            ArrivalBatch::Fixed(size) => size,
            ArrivalBatch::Geometric(mean) => draw_geometric(mean, &mut self.rng),
        };
        for _ in 0..u64::from(size).min(self.arrivals_left) {
            self.arrivals_left -= 1;
            let class = self.timeline.draw_class(now, &mut self.rng);
            let Some(agent) = self.in_flight.allocate_slot() else {
                self.runner.count_lost(class);
                continue;
            };
            let turn = OperationTurn { time: now, agent, user: 0 };
            let flight = self.runner.begin_operation(class, turn, &mut self.rng, requests);
            if let Some(slot) = self.in_flight.get(agent) {
                *slot = flight;
            }
        }
    }

    #[inline]
    fn schedule_next_arrival(&mut self, requests: &mut Vec<LoadRequest>) {
        let gap = self.gap.draw(&mut self.rng) * 1e9 + self.early_by_ns;
        let wait = self.add_pauses(gap);
        let whole_ns = wait.floor();
        // if the level changes, the fraction is on another scale, but still below a nanosecond
        self.early_by_ns = wait - whole_ns;
        // the gap counts from the previous arrival, not from now, so that delays of calls do not add up
        match self
            .timeline
            .time_after_area(self.next_arrival_ns, whole_ns)
            .filter(|time| self.arrivals_left > 0 && !self.timeline.is_over(*time))
        {
            Some(time) => {
                self.next_arrival_ns = time;
                requests.push(LoadRequest::alarm_at(time, ARRIVAL_AGENT));
            }
            None => self.arrivals_over = true,
        }
    }

    /// Returns a gap extended by the pauses between bursts that fall into it, ns.
    fn add_pauses(&mut self, gap: f64) -> f64 {
        let Some(bursts) = self.bursts else { return gap };
        let (mut left, mut wait) = (gap, 0.0);
        while left > self.burst_left_ns && wait < u64::MAX as f64 {
            left -= self.burst_left_ns;
            wait += self.burst_left_ns + bursts.off.draw(&mut self.rng) * 1e9;
            // at least 1 ns, so that the loop ends
            self.burst_left_ns = (bursts.on.draw(&mut self.rng) * 1e9).max(1.0);
        }
        self.burst_left_ns -= left;
        wait + left
    }

    pub(super) fn user_count(&self) -> u32 {
        1
    }

    pub(super) fn is_finished(&self) -> bool {
        self.arrivals_over && self.in_flight.is_empty()
    }

    pub(super) fn operations(&self) -> &[Operations] {
        &self.runner.operations
    }

    pub(super) fn operations_mut(&mut self) -> &mut [Operations] {
        &mut self.runner.operations
    }
}

/// Draws from the geometric distribution of this mean; at least 1.
fn draw_geometric(mean: f64, rng: &mut Rng) -> u32 {
    let continue_share = 1.0 - 1.0 / mean;
    if continue_share <= 0.0 {
        return 1;
    }
    // inversion: P(more than n) = continue_share^n
    1 + ((1.0 - rng.next_f64()).ln() / continue_share.ln()) as u32
}

//! Several loads in one network, and token buckets: a fixed-point iteration instead of adding one user after the other.
//!
//! An arriving request finds the mean state minus its own share of it (Schweitzer, "Approximate analysis of multiclass
//! closed networks of queues", 1979; nothing is subtracted for open arrivals). Services, forks and depths are modelled
//! as for one load.

use super::bucket::{BucketBacklog, BucketDemand, solve_bucket};
use super::network::{
    AnalyticNetwork, CenterLoad, CenterRound, CenterState, ClassResponse, NetworkState, ServiceDemand,
    random_arrival_share,
};

/// A load's demand: users, or arrivals at a rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct LoadChain {
    /// Users; 0 for random arrivals.
    pub users: f64,
    /// Mean think time of a user, s.
    pub think_s: f64,
    /// Squared coefficient of variation of the think time.
    pub think_cv2: f64,
    /// Random arrivals, requests per second.
    pub arrivals_per_s: f64,
    /// Instead of a rate: another chain, and the number of requests for each of its requests.
    pub follows: Option<(usize, f64)>,
    /// Upper bound of the users' request rate, per second.
    pub max_per_s: f64,
}

/// Throughput and response time of a load.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ChainState {
    pub throughput: f64,
    pub response: f64,
    /// Time of its users before each request, s.
    pub before_s: f64,
    /// By kind of request: share, write, mean, variance.
    pub kinds: Vec<ClassResponse>,
}

/// A steady state of several loads.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct MixedState {
    /// True if the fixed point was found.
    pub has_converged: bool,
    pub chains: Vec<ChainState>,
    pub centers: Vec<CenterState>,
}

/// Largest number of rounds.
const MAX_ROUNDS: usize = 400;
/// Relative change below which the iteration stops.
const CONVERGED_CHANGE: f64 = 1e-5;
/// Relative change of a full step that still counts as converged.
const ACCEPTED_CHANGE: f64 = 0.01;

/// State of the fixed-point iteration.
struct FixedPoint<'a> {
    network: AnalyticNetwork,
    /// Shares of the classes within their chains.
    shares: Vec<f64>,
    chains: &'a [LoadChain],
    state: MixedState,
    /// By chain, then center: mean queue.
    queues: Vec<Vec<f64>>,
    /// Results at the buckets.
    bucket_rounds: Vec<Option<CenterRound>>,
    /// By chain: total wait of a request at buckets, s, and its variance.
    bucket_waits: Vec<(f64, f64)>,
    /// Extra wait of writes at each center where background work cannot keep up, s.
    write_delays_s: Vec<f64>,
}

impl AnalyticNetwork {
    /// Solves for several loads. `None` if more requests arrive than can be served.
    pub fn solve_mixed(&self, chains: &[LoadChain]) -> Option<MixedState> {
        let mut iteration = FixedPoint {
            network: self.clone(),
            shares: self.classes.iter().map(|class| class.share).collect(),
            chains,
            state: MixedState {
                has_converged: false,
                chains: vec![ChainState::default(); chains.len()],
                centers: vec![CenterState::default(); self.centers.len()],
            },
            queues: vec![vec![0.0; self.centers.len()]; chains.len()],
            bucket_rounds: vec![None; self.centers.len()],
            bucket_waits: vec![(0.0, 0.0); chains.len()],
            write_delays_s: vec![0.0; self.centers.len()],
        };
        for (state, chain) in iteration.state.chains.iter_mut().zip(chains) {
            state.throughput = if chain.users > 0.0 { 1e-3 * chain.users } else { chain.arrivals_per_s };
        }
        iteration.start_without_queues();
        let (mut weight, mut last) = (1.0f64, f64::INFINITY);
        for round in 0..MAX_ROUNDS {
            let change = iteration.run_round(weight)?;
            iteration.state.has_converged = change < ACCEPTED_CHANGE;
            // grows the step while the iteration approaches the fixed point
            weight = if change < 0.7 * last { (weight * 1.5).min(1.0) } else { (weight * 0.7).max(0.03) };
            last = change;
            if change < CONVERGED_CHANGE && round > 3 {
                break;
            }
        }
        let keeps_up = iteration.state.chains.iter().all(|chain| chain.response.is_finite());
        keeps_up.then_some(iteration.state)
    }
}

impl FixedPoint<'_> {
    /// Starts with the throughput of users that meet no queues, as far as the centers allow.
    fn start_without_queues(&mut self) {
        let idle = vec![CenterRound::IDLE; self.network.centers.len()];
        let loads = vec![CenterLoad::default(); self.network.centers.len()];
        for (index, chain) in self.chains.iter().enumerate() {
            if chain.users <= 0.0 {
                continue;
            }
            let (mut response, mut before_s) = (0.0, 0.0);
            for (class, share) in self.network.classes.iter().zip(&self.shares) {
                for step in class.steps.iter().filter(|_| class.chain == index) {
                    let sum = if step.is_before { &mut before_s } else { &mut response };
                    *sum += share * self.network.step_response(step, &idle, &loads);
                }
            }
            let throughput = chain.users / (chain.think_s + before_s + response).max(1e-9);
            self.state.chains[index] = ChainState { throughput, response, before_s, kinds: Vec::new() };
        }
    }

    /// Share of the arrivals that are random, not triggered by a completion.
    fn random_share(&self, total: f64) -> f64 {
        let each = self.chains.iter().zip(&self.state.chains).map(|(chain, state)| {
            let random = if chain.users > 0.0 {
                random_arrival_share(chain.think_s + state.before_s, state.response)
            } else {
                1.0
            };
            random * state.throughput
        });
        each.sum::<f64>() / total
    }

    /// Runs one round and returns the largest relative change of throughput and response. `None` if open arrivals are
    /// too many.
    fn run_round(&mut self, weight: f64) -> Option<f64> {
        let total: f64 = self.state.chains.iter().map(|chain| chain.throughput).sum();
        for (class, share) in self.network.classes.iter_mut().zip(&self.shares) {
            class.share = share * self.state.chains[class.chain].throughput / total;
        }
        let centers = self.network.centers.len();
        let loads: Vec<CenterLoad> = (0..centers).map(|index| self.network.center_load(index)).collect();
        let now = NetworkState { throughput: total, centers: self.state.centers.clone(), ..NetworkState::default() };
        let random = self.random_share(total);
        let buckets = self.solve_buckets(&loads)?;
        self.bucket_rounds.copy_from_slice(&buckets);
        let mut change = 0.0f64;
        let mut busy = vec![0.0; centers];
        for index in 0..self.chains.len() {
            let met: Vec<CenterRound> = (0..centers)
                .map(|center| match buckets[center] {
                    Some(found) => found,
                    None => {
                        let seen = self.state_seen_by_chain(index, center);
                        let mut met = self.network.meet_center(center, random, None, &seen, &now, &loads[center]);
                        met.wait += self.write_delays_s[center];
                        // with at least as many servers as users, no request waits
                        let users = self.chains.iter().map(|c| if c.users > 0.0 { c.users } else { f64::INFINITY });
                        if users.sum::<f64>() <= self.network.centers[center].servers {
                            met.wait = 0.0;
                        }
                        met
                    }
                })
                .collect();
            for (busy, met) in busy.iter_mut().zip(&met) {
                *busy += met.hold * self.state.chains[index].throughput / total;
            }
            change = change.max(self.update_chain(index, &met, &loads, weight));
        }
        self.hold_writes(total)?;
        for index in 0..centers {
            let center = &self.network.centers[index];
            let queue: f64 = self.queues.iter().map(|queues| queues[index]).sum();
            let busy = total * loads[index].ios * busy[index] / (center.servers * center.members);
            self.state.centers[index] = CenterState { queue, busy: busy.min(1.0) };
            if self.open_share(index, total, busy) >= 0.9999 {
                return None;
            }
        }
        Some(change)
    }

    /// Part of a center's utilization due to open arrivals.
    fn open_share(&self, index: usize, total: f64, busy: f64) -> f64 {
        let (mut open, mut all) = (0.0, 0.0);
        for (class, _, _, ios) in self.network.center_visits(index) {
            let ios = class.share * ios;
            all += ios;
            open += if self.chains[class.chain].users > 0.0 { 0.0 } else { ios };
        }
        if all > 0.0 && total > 0.0 { busy * open / all } else { 0.0 }
    }

    /// State of a center as seen by an arriving request of a chain.
    fn state_seen_by_chain(&self, chain: usize, center: usize) -> CenterState {
        let found = self.state.centers[center];
        let users = self.chains[chain].users;
        if users <= 0.0 {
            return found;
        }
        let own_queue = self.queues[chain][center] / users;
        let others_share = if found.queue > 0.0 { (1.0 - own_queue / found.queue).max(0.0) } else { 1.0 };
        CenterState { queue: (found.queue - own_queue).max(0.0), busy: found.busy * others_share }
    }

    /// Updates a chain's response, throughput and queues; returns the relative change.
    fn update_chain(&mut self, index: usize, met: &[CenterRound], loads: &[CenterLoad], weight: f64) -> f64 {
        let network = &self.network;
        let mut state = ChainState::default();
        let (mut queues, mut bucketed) = (vec![0.0; met.len()], (0.0, 0.0));
        for (class, share) in network.classes.iter().zip(&self.shares).filter(|(class, _)| class.chain == index) {
            let (mut mean, mut variance) = (0.0, 0.0);
            for step in &class.steps {
                let (response, spread) = network.step_moments(step, met, loads);
                if step.is_before {
                    state.before_s += share * response;
                } else {
                    mean += response;
                    variance += spread;
                }
                for visit in &step.visits {
                    let (center, met) = (&network.centers[visit.center], &met[visit.center]);
                    let cost = center.io_cost(visit.work, step.kind, &met.depths, met.undisturbed);
                    let wait = met.visit_wait_s(visit.work, step.kind);
                    queues[visit.center] += share * step.ios * visit.times * (wait + cost.response_s());
                    if center.window_s.is_some() {
                        bucketed = (bucketed.0 + share * met.wait, bucketed.1 + share * met.wait_variance);
                    }
                }
            }
            state.response += share * mean;
            state.kinds.push((*share, class.write, mean, variance));
        }
        let (chain, last) = (self.chains[index], &self.state.chains[index]);
        let next = match chain.users > 0.0 {
            true => {
                let round_s = chain.think_s + state.before_s + state.response;
                (chain.users / round_s.max(1e-12)).min(chain.max_per_s)
            }
            false => chain.arrivals_per_s,
        };
        let next = chain.follows.map_or(next, |(leader, ratio)| ratio * self.state.chains[leader].throughput);
        let change = (next / last.throughput - 1.0).abs().max((state.response / last.response - 1.0).abs());
        state.throughput = last.throughput.max(1e-300).powf(1.0 - weight) * next.powf(weight);
        for (center, (old, new)) in self.queues[index].iter_mut().zip(queues).enumerate() {
            let new = new * state.throughput / network.centers[center].members;
            *old += (new - *old) * weight;
        }
        let old = &mut self.bucket_waits[index];
        *old = (old.0 + (bucketed.0 - old.0) * weight, old.1 + (bucketed.1 - old.1) * weight);
        self.state.chains[index] = state;
        change
    }

    /// Delays writes whose background work cannot keep up. `None` if open arrivals cause it.
    fn hold_writes(&mut self, total: f64) -> Option<()> {
        let users: f64 = self.chains.iter().map(|chain| chain.users).sum();
        for index in 0..self.write_delays_s.len() {
            let busy = total * self.network.background_work_s(index);
            if busy > 1.0 && (users <= 0.0 || self.open_share(index, total, busy) >= 1.0) {
                return None;
            }
            if busy > 1.0 || self.write_delays_s[index] > 0.0 {
                // half of Newton's step for users / (cycle + waits)
                let visits: f64 = self.network.center_visits(index).map(|(class, _, _, ios)| class.share * ios).sum();
                let step = 0.5 * (busy - 1.0) / busy.max(0.1) * users / (total * visits.max(1e-9));
                self.write_delays_s[index] = (self.write_delays_s[index] + step).max(0.0);
            }
        }
        Some(())
    }

    /// Returns the waits at token buckets.
    fn solve_buckets(&self, loads: &[CenterLoad]) -> Option<Vec<Option<CenterRound>>> {
        let each = |index: usize| match self.network.centers[index].window_s {
            // an infinite window marks the looser of two limits, at which no request waits
            Some(window_s) if window_s.is_infinite() => Some(Some(self.unlimited_bucket(index, &loads[index]))),
            Some(window_s) if loads[index].ios > 0.0 => {
                // with open arrivals only, the result is the same in every round
                match self.bucket_rounds[index] {
                    Some(known) if self.chains.iter().all(|chain| chain.users <= 0.0 && chain.follows.is_none()) => {
                        Some(Some(known))
                    }
                    _ => self.solve_bucket_center(index, window_s, &loads[index]).map(Some),
                }
            }
            Some(_) => Some(Some(CenterRound::IDLE)),
            None => Some(None),
        };
        (0..self.network.centers.len()).map(each).collect()
    }

    fn unlimited_bucket(&self, index: usize, load: &CenterLoad) -> CenterRound {
        let hold = self.network.center_visits(index).map(|(class, _, work, ios)| match work {
            ServiceDemand::Fixed(time, _) => class.share * ios * time,
            ServiceDemand::ByDepth | ServiceDemand::InTurns(_) => 0.0,
        });
        CenterRound { hold: hold.sum::<f64>() / load.ios.max(1e-300), ..CenterRound::IDLE }
    }

    fn solve_bucket_center(&self, index: usize, window_s: f64, load: &CenterLoad) -> Option<CenterRound> {
        let members = self.network.centers[index].members;
        let (mut times, mut visits) = (Vec::new(), vec![0.0; self.chains.len()]);
        let (mut hold, mut steps) = (0.0, vec![0.0; self.chains.len()]);
        for ((class, step, work), share) in self.visits_with_shares(index) {
            let ServiceDemand::Fixed(time, _) = work else { continue };
            let weight = class.share * step.ios / load.ios;
            hold += weight * time;
            visits[class.chain] += share * step.ios / members;
            steps[class.chain] += share;
            match times.iter_mut().find(|(known, _): &&mut (f64, f64)| *known == time) {
                Some((_, known_weight)) => *known_weight += weight,
                None => times.push((time, weight)),
            }
        }
        let (mut open_per_s, mut cycle_cv2) = (0.0, 0.0);
        let mut users: Vec<[f64; 4]> = Vec::new();
        for (chain, visits) in visits.iter().enumerate().filter(|(_, visits)| **visits > 0.0) {
            if self.chains[chain].users <= 0.0 {
                open_per_s += self.state.chains[chain].throughput * visits;
                continue;
            }
            let (pause, cv2) = self.cycle_outside_buckets(chain);
            users.push([self.chains[chain].users, pause, *visits, steps[chain]]);
            cycle_cv2 = cv2;
        }
        // users that wait at other members do not arrive at this one: their number depends on the wait that is sought
        let elsewhere = (1.0 - 1.0 / members) * (1.0 - load.all_share);
        let solve_at_wait = |wait: f64| {
            let users_at_member = |[users, pause, visits, steps]: &[f64; 4]| {
                let waits = steps * wait;
                (users * (1.0 - elsewhere * waits / (pause + waits)), pause / visits)
            };
            let closed: Vec<(f64, f64)> = users.iter().map(users_at_member).collect();
            Some((
                solve_bucket(&BucketDemand { service_times: &times, window_s, open_per_s, closed_users: &closed })?,
                closed,
            ))
        };
        let first = solve_at_wait(0.0)?;
        let (found, closed) = match elsewhere > 0.0 && !users.is_empty() {
            true => find_consistent_wait(first, solve_at_wait)?,
            false => first,
        };
        let (wait, variance) = match (&closed[..], open_per_s <= 0.0) {
            ([(users, pause)], true) => {
                // users with constant cycles run in lockstep
                let random = 1.0 - (1.0 - cycle_cv2) * if members > 1.0 { load.all_share } else { 1.0 };
                let lockstep_wait_s = (users * hold - pause).max(0.0);
                (random * found.wait_s + (1.0 - random) * lockstep_wait_s, random * found.wait_variance_s2)
            }
            _ => (found.wait_s, found.wait_variance_s2),
        };
        Some(CenterRound { wait, wait_again: wait, wait_variance: variance, hold, ..CenterRound::IDLE })
    }

    /// Returns the time that a user spends outside of buckets between two requests, s, and its squared coefficient of
    /// variation, at most 1.
    fn cycle_outside_buckets(&self, chain: usize) -> (f64, f64) {
        let (load, state, waits) = (&self.chains[chain], &self.state.chains[chain], self.bucket_waits[chain]);
        let apart_s = load.think_s + state.before_s;
        let pause = (apart_s + state.response - waits.0).max(1e-12);
        let spread: f64 = state.kinds.iter().map(|(share, _, _, variance)| share * variance).sum();
        let spread = (spread - waits.1).max(0.0) + load.think_cv2 * apart_s * apart_s;
        (pause, (spread / (pause * pause)).min(1.0))
    }

    /// Visits to a center, each with its class's share within its chain.
    fn visits_with_shares(
        &self,
        index: usize,
    ) -> impl Iterator<Item = ((&super::network::NetworkClass, &super::network::ForkStep, ServiceDemand), f64)> {
        let classes = self.network.classes.iter().zip(&self.shares);
        classes.flat_map(move |(class, share)| {
            class.steps.iter().flat_map(move |step| {
                let here = step.visits.iter().filter(move |visit| visit.center == index);
                here.map(move |visit| ((class, step, visit.work), *share))
            })
        })
    }
}

/// Result of a bucket for a number of users.
type BucketRound = (BucketBacklog, Vec<(f64, f64)>);

/// Finds the wait that the bucket has if the users wait that long, by false position with the Illinois rule.
fn find_consistent_wait(first: BucketRound, solve_at_wait: impl Fn(f64) -> Option<BucketRound>) -> Option<BucketRound> {
    let wait = first.0.wait_s;
    let ((mut low, mut over), (mut high, mut under), mut found) = ((0.0, wait), (wait, f64::NAN), first);
    for _ in 0..24 {
        let wait_s = if under.is_nan() { high } else { low + (high - low) * over / (over - under) };
        found = solve_at_wait(wait_s)?;
        let miss = found.0.wait_s - wait_s;
        if miss.abs() <= 1e-7 * wait_s || wait_s < 1e-12 {
            break;
        }
        if miss > 0.0 {
            (low, over) = (wait_s, miss);
            under /= 2.0;
        } else {
            (high, under) = (wait_s, miss);
            over /= 2.0;
        }
    }
    Some(found)
}

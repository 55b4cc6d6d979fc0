//! Open random arrivals: each center is solved separately, because its arrivals do not depend on other centers.
//!
//! A drive that chooses among the waiting requests gets faster, the more of them wait. So a mean queue does not
//! describe it: at times it falls behind with a short queue, at others it catches up with a long one. The solution is
//! the distribution of the queue that a departing request leaves behind, which equals the one that an arriving request
//! finds: the embedded chain of M/G/1, with service times that depend on the depth at the start. It has one solution,
//! and more requests never make its queue shorter.

use super::io_costs::{DEPTHS, Depths, interpolate_depths};
use super::network::{AnalyticNetwork, CenterLoad, CenterRound, CenterService, CenterState, NetworkState};

/// Utilization from which a center counts as saturated: waits would exceed any measured time.
const MAX_UTILIZATION: f64 = 0.9999;
/// The largest tabulated depth.
const MAX_TABULATED_DEPTH: usize = 1 << (DEPTHS - 1);
/// Largest number of requests left behind.
const MAX_LEFT_BEHIND: usize = 1 << 14;
/// Largest number of arrivals during a service.
const MAX_ARRIVALS: u32 = 400;

/// Queue of random arrivals.
#[derive(Clone, Copy, Debug, PartialEq)]
struct OpenQueue {
    /// Requests at the server, including the one in service.
    queue: f64,
    busy: f64,
    /// Depths at which services begin.
    depths: Depths,
}

/// Service times of a drive.
struct ServiceByDepth {
    /// At the tabulated depths: mean time, s, and squared coefficient of variation.
    holds_s: [f64; DEPTHS],
    cv2s: [f64; DEPTHS],
    /// Share of services that continue after their acknowledgement. The next request is chosen at the acknowledgement,
    /// so the requests that arrive during the background work, one service time long, are not yet there.
    early_share: f64,
}

/// Computes the probabilities of more than 0, more than 1 ... arrivals during a service, with this mean number and this
/// squared coefficient of variation of the service time. The time has a gamma distribution, so the number of arrivals
/// has a negative binomial one.
fn arrival_tails(mean: f64, cv2: f64, tails: &mut Vec<f64>) {
    let shape = 1.0 / cv2.max(1e-6);
    let (mut exactly, mut tail) = ((-shape * (mean / shape).ln_1p()).exp(), 1.0);
    let ratio = mean / (shape + mean);
    tails.clear();
    for count in 0..MAX_ARRIVALS {
        tail -= exactly;
        // the remaining terms are smaller than the rounding error
        if tail < 1e-13 {
            break;
        }
        tails.push(tail);
        exactly *= ratio * (shape + f64::from(count)) / f64::from(count + 1);
    }
}

/// Sums over the numbers that departing requests leave behind, not yet normalized.
#[derive(Clone, Copy, Default)]
struct LeftBehind {
    /// Weight of all departures, and of those that leave nothing behind.
    all: f64,
    none: f64,
    /// Sum of the numbers left behind.
    sum: f64,
    /// For departures after which the next service begins with a depth above 1: their weight, and the sums of that
    /// depth and of its square.
    deep: f64,
    depth: f64,
    square: f64,
}

impl LeftBehind {
    fn add_state(&mut self, weight: f64, left: f64) {
        self.all += weight;
        self.sum += weight * left;
        if left < 0.5 {
            self.none += weight;
        }
        if left > 1.5 {
            self.deep += weight;
            self.depth += weight * left;
            self.square += weight * left * left;
        }
    }

    /// Adds all larger numbers, whose weights form a geometric series.
    fn add_geometric_tail(&mut self, weight: f64, ratio: f64, left: f64) {
        let all = weight * ratio / (1.0 - ratio);
        let (mean, variance) = (left + 1.0 / (1.0 - ratio), ratio / (1.0 - ratio).powi(2));
        self.all += all;
        self.sum += all * mean;
        self.deep += all;
        self.depth += all * mean;
        self.square += all * (mean * mean + variance);
    }

    fn scale_sums(self, by: f64) -> LeftBehind {
        let LeftBehind { all, none, sum, deep, depth, square } = self;
        let [all, none, sum, deep, depth, square] = [all, none, sum, deep, depth, square].map(|figure| figure * by);
        LeftBehind { all, none, sum, deep, depth, square }
    }

    /// Returns the depths at which services begin, reduced by choices made too early.
    fn service_depths(&self, early: f64) -> Depths {
        if self.deep <= 1e-9 * self.all {
            return Depths::single_depth(1.0);
        }
        let mean = self.depth / self.deep;
        let variance = (self.square / self.deep - mean * mean).max(0.0);
        Depths::two_depths(self.deep / self.all, mean - early, variance, 2.0 - early)
    }
}

/// Solves the queue of open arrivals for service times that depend on the depth at the start. `None` if even the
/// longest queue grows.
///
/// The chain of the numbers left behind is solved upwards: each level is crossed upwards as often as downwards, and a
/// downward step is always by one, after a service without arrivals.
fn solve_open_queue(per_s: f64, service: &ServiceByDepth) -> Option<OpenQueue> {
    let ServiceByDepth { holds_s, cv2s, early_share: early } = service;
    if per_s * holds_s[DEPTHS - 1] >= MAX_UTILIZATION {
        return None;
    }
    let mut tails = Vec::new();
    let arrive = |depth: usize, tails: &mut Vec<f64>| {
        let depth = depth as f64 - early;
        arrival_tails(per_s * interpolate_depths(holds_s, depth), interpolate_depths(cv2s, depth), tails);
    };
    arrive(1, &mut tails);
    // upward crossings of each level, from the known levels below
    let mut upwards = tails.clone();
    let (mut found, mut last, mut last_ratio) = (LeftBehind::default(), 1.0, 0.0);
    found.add_state(1.0, 0.0);
    for left in 1..MAX_LEFT_BEHIND {
        arrive(left, &mut tails);
        let none = 1.0 - tails.first().copied().unwrap_or(0.0);
        let weight = upwards.get(left - 1).copied().unwrap_or(0.0) / none;
        found.add_state(weight, left as f64);
        upwards.resize(upwards.len().max(left + tails.len()), 0.0);
        for (level, tail) in upwards[left..].iter_mut().zip(tails.iter().skip(1)) {
            *level += weight * tail;
        }
        let ratio = weight / last;
        let is_straight = left > MAX_TABULATED_DEPTH && (ratio - last_ratio).abs() < 1e-9;
        if ratio < 1.0 && (weight < 1e-12 * found.all * (1.0 - ratio) || is_straight) {
            found.add_geometric_tail(weight, ratio, left as f64);
            break;
        }
        (last, last_ratio) = (weight, ratio);
        if weight > 1e100 {
            found = found.scale_sums(1e-100);
            last *= 1e-100;
            upwards.iter_mut().for_each(|level| *level *= 1e-100);
        }
    }
    Some(OpenQueue {
        queue: found.sum / found.all,
        busy: 1.0 - found.none / found.all,
        depths: found.service_depths(*early),
    })
}

impl AnalyticNetwork {
    /// Solves for random arrivals at a rate. `None` if some part of the network cannot keep up.
    pub fn solve_open(&self, rate: f64) -> Option<NetworkState> {
        if rate > self.max_throughput() {
            return None;
        }
        let loads: Vec<CenterLoad> = (0..self.centers.len()).map(|center| self.center_load(center)).collect();
        let met = (0..loads.len()).map(|index| self.meet_random(index, rate, &loads[index]));
        let met = met.collect::<Option<Vec<CenterRound>>>()?;
        let mut state = self.accumulate_steps(&met, &loads);
        state.throughput = rate;
        for (index, found) in state.centers.iter_mut().enumerate() {
            found.queue *= rate / self.centers[index].members;
            found.busy = met[index].busy;
        }
        state.kinds = self.class_responses(&met, &loads);
        state.response.is_finite().then_some(state)
    }

    /// True if every center could serve these arrivals with a long queue. Rates are 0 for chains of users.
    pub fn can_sustain(&self, rates: &[f64]) -> bool {
        let deepest = Depths::single_depth(MAX_TABULATED_DEPTH as f64);
        let sustains = |index: usize| {
            let center = &self.centers[index];
            let busy = self.center_visits(index).map(|(class, step, work, ios)| {
                let rate = rates.get(class.chain).copied().unwrap_or(0.0) * class.share * ios;
                rate * center.io_cost(work, step.kind, &deepest, 1.0).hold_s / center.members / center.servers
            });
            busy.sum::<f64>() < MAX_UTILIZATION
        };
        (0..self.centers.len()).all(sustains)
    }

    /// Returns the state that random arrivals meet at a center.
    fn meet_random(&self, index: usize, rate: f64, load: &CenterLoad) -> Option<CenterRound> {
        if load.ios <= 0.0 {
            return Some(CenterRound::IDLE);
        }
        let per_s = rate * load.ios / self.centers[index].members;
        if load.by_depth { self.meet_drive(index, per_s, load) } else { self.meet_station(index, per_s, load) }
    }

    /// Returns the state at drives, whose service depends on the depth.
    fn meet_drive(&self, index: usize, per_s: f64, load: &CenterLoad) -> Option<CenterRound> {
        const ROUNDS: usize = 200;
        let center = &self.centers[index];
        let has_rewrites = center.costs.rewrite.hold_s > 0.0;
        let mut undisturbed = 1.0;
        let mut found = None;
        // rewrites take longer when other requests come between, which raises the utilization: finds the fixed point
        for _ in 0..ROUNDS {
            let service_by = |depth: usize| {
                let depths = Depths::single_depth(f64::from(1u32 << depth));
                self.center_service(index, load, &depths, &depths, undisturbed)
            };
            let services: [CenterService; DEPTHS] = std::array::from_fn(service_by);
            let holds_s = services.map(|service| service.hold_s);
            let service =
                ServiceByDepth { holds_s, cv2s: services.map(|service| service.cv2), early_share: load.early_share };
            let queue = solve_open_queue(per_s, &service)?;
            found = Some(queue);
            let next = (1.0 - queue.busy).max(0.0).powf(1.5);
            let change = (undisturbed - next).abs();
            undisturbed = next;
            if !has_rewrites || change < 1e-7 {
                break;
            }
        }
        let OpenQueue { queue, busy, depths } = found?;
        let service = self.center_service(index, load, &depths, &depths, undisturbed);
        let residual = (1.0 + service.cv2) / 2.0;
        // mean time per I/O ahead, so that by Little's law the queue is that of the chain
        let slot = (queue - busy) / per_s / (queue - busy + busy * residual).max(1e-300);
        let mut met_queue = queue;
        // fewer I/Os are met where members are used in turn
        for _ in 0..ROUNDS {
            let next = busy + per_s * slot * center.ios_ahead(load, met_queue, busy, residual, busy);
            let change = (next - met_queue).abs();
            met_queue = next;
            if change <= 1e-9 * met_queue {
                break;
            }
        }
        let wait = (met_queue - busy) / per_s;
        let far = depths.mean_cost(&center.costs.write).hold_s;
        Some(CenterRound {
            depths,
            undisturbed,
            queue: met_queue,
            busy,
            wait,
            wait_again: if far > 0.0 { (met_queue - busy) * slot + (1.0 - undisturbed) * far } else { wait },
            wait_variance: met_queue * (1.0 + met_queue) * (2.0 + service.cv2) / 3.0 * slot * slot,
            // waits vary with the arrivals, which are the same for all members, and with the services
            uncommon_share: service.cv2 / (1.0 + service.cv2),
            hold: service.hold_s,
        })
    }

    /// Returns the state at stations, whose service time does not depend on the depth: the self-consistent queue.
    fn meet_station(&self, index: usize, per_s: f64, load: &CenterLoad) -> Option<CenterRound> {
        let center = &self.centers[index];
        let hold_s = self.center_service(index, load, &Depths::NONE, &Depths::NONE, 1.0).hold_s;
        let busy = per_s * hold_s / center.servers;
        if busy >= MAX_UTILIZATION {
            return None;
        }
        let now = NetworkState::default();
        let meet = |queue: f64| self.meet_center(index, 1.0, None, &CenterState { queue, busy }, &now, load);
        let turns =
            self.center_visits(index).map(|(class, _, work, ios)| class.share * ios / load.ios * work.turn_count());
        let turns: f64 = turns.sum();
        let queue_caused_by = |queue: f64| per_s * (meet(queue).wait * turns + hold_s);
        let (mut low, mut high) = (0.0, per_s * hold_s);
        while queue_caused_by(high) > high {
            (low, high) = (high, 2.0 * high);
        }
        while high - low > 1e-10 * high {
            let middle = 0.5 * (low + high);
            if queue_caused_by(middle) > middle { low = middle } else { high = middle }
        }
        Some(CenterRound { busy, ..meet(high) })
    }
}

//! Requests that arrive at a rate, at random: each center is solved by itself, because its arrivals depend on nothing
//! that happens elsewhere.
//!
//! A drive that chooses among what waits is faster the more that is. So a mean queue does not describe it: at one
//! moment it falls behind with a short queue, at another it catches up with a long one. What is solved is the
//! distribution of the queue that a departing request leaves behind, which is also what an arriving one finds: the
//! chain of M/G/1, with services that depend on the depth at which they begin. It has one solution, and more requests
//! never make its queue shorter.

use super::network::{AnalyticNetwork, CenterLoad, CenterRound, CenterService, CenterState, NetworkState};
use super::served::{DEPTHS, Depths, between_depths};

/// Utilization from which on a center does not keep up: waits would be longer than any time that is watched.
const SATURATED: f64 = 0.9999;
/// The last depth that is tabulated.
const DEEPEST: usize = 1 << (DEPTHS - 1);
/// Requests that are left behind, and arrivals during a service, at most.
const MOST_LEFT: usize = 1 << 14;
const MOST_ARRIVALS: u32 = 400;

/// Where requests arrive at random.
#[derive(Clone, Copy, Debug, PartialEq)]
struct RandomQueue {
    /// Requests at the server, the one that is served included.
    queue: f64,
    busy: f64,
    /// How many were there, where a service began.
    depths: Depths,
}

/// Services of a drive.
struct ServiceByDepth {
    /// At the tabulated depths: mean time, s, and squared coefficient of variation.
    holds_s: [f64; DEPTHS],
    cv2s: [f64; DEPTHS],
    /// Share of services after whose answer work goes on: what comes next was chosen at the answer, when all that
    /// came during that work, one service long, was not there yet.
    early: f64,
}

/// Arrivals during a service of which so many come in the mean, and whose time varies so: how likely more than none,
/// one and so on are. The time has a gamma distribution, so that they have a negative binomial one.
fn more_than(mean: f64, cv2: f64, tails: &mut Vec<f64>) {
    let shape = 1.0 / cv2.max(1e-6);
    let (mut exactly, mut tail) = ((-shape * (mean / shape).ln_1p()).exp(), 1.0);
    let ratio = mean / (shape + mean);
    tails.clear();
    for count in 0..MOST_ARRIVALS {
        tail -= exactly;
        // what is left of the sum is rounding
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
    all: f64,
    none: f64,
    sum: f64,
    /// Of those who leave somebody waiting: how deep the queue is where the next service begins.
    deep: f64,
    depth: f64,
    square: f64,
}

impl LeftBehind {
    fn add(&mut self, weight: f64, left: f64) {
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

    /// All numbers beyond one, each of which is rarer than the one before by the same.
    fn add_rest(&mut self, weight: f64, ratio: f64, left: f64) {
        let all = weight * ratio / (1.0 - ratio);
        let (mean, variance) = (left + 1.0 / (1.0 - ratio), ratio / (1.0 - ratio).powi(2));
        self.all += all;
        self.sum += all * mean;
        self.deep += all;
        self.depth += all * mean;
        self.square += all * (mean * mean + variance);
    }

    fn scaled(self, by: f64) -> LeftBehind {
        let LeftBehind { all, none, sum, deep, depth, square } = self;
        let [all, none, sum, deep, depth, square] = [all, none, sum, deep, depth, square].map(|figure| figure * by);
        LeftBehind { all, none, sum, deep, depth, square }
    }

    /// Depths that services begin with, less what was chosen too early for them.
    fn depths(&self, early: f64) -> Depths {
        if self.deep <= 1e-9 * self.all {
            return Depths::one(1.0);
        }
        let mean = self.depth / self.deep;
        let variance = (self.square / self.deep - mean * mean).max(0.0);
        Depths::split(self.deep / self.all, mean - early, variance, 2.0 - early)
    }
}

/// Requests at a rate, whose service takes so long where so many are there when it begins. `None` where even the
/// longest queue grows.
///
/// The chain of the numbers that departing requests leave behind, solved upwards: as often as a level is passed
/// upwards it is passed downwards, and downwards only by one, with no arrival.
fn random_queue(per_s: f64, service: &ServiceByDepth) -> Option<RandomQueue> {
    let ServiceByDepth { holds_s, cv2s, early } = service;
    if per_s * holds_s[DEPTHS - 1] >= SATURATED {
        return None;
    }
    let mut tails = Vec::new();
    let arrive = |depth: usize, tails: &mut Vec<f64>| {
        let depth = depth as f64 - early;
        more_than(per_s * between_depths(holds_s, depth), between_depths(cv2s, depth), tails);
    };
    arrive(1, &mut tails);
    // passed upwards: each level, by what is known of those below
    let mut upwards = tails.clone();
    let (mut found, mut last, mut last_ratio) = (LeftBehind::default(), 1.0, 0.0);
    found.add(1.0, 0.0);
    for left in 1..MOST_LEFT {
        arrive(left, &mut tails);
        let none = 1.0 - tails.first().copied().unwrap_or(0.0);
        let weight = upwards.get(left - 1).copied().unwrap_or(0.0) / none;
        found.add(weight, left as f64);
        upwards.resize(upwards.len().max(left + tails.len()), 0.0);
        for (level, tail) in upwards[left..].iter_mut().zip(tails.iter().skip(1)) {
            *level += weight * tail;
        }
        let ratio = weight / last;
        let is_straight = left > DEEPEST && (ratio - last_ratio).abs() < 1e-9;
        if ratio < 1.0 && (weight < 1e-12 * found.all * (1.0 - ratio) || is_straight) {
            found.add_rest(weight, ratio, left as f64);
            break;
        }
        (last, last_ratio) = (weight, ratio);
        if weight > 1e100 {
            found = found.scaled(1e-100);
            last *= 1e-100;
            upwards.iter_mut().for_each(|level| *level *= 1e-100);
        }
    }
    Some(RandomQueue { queue: found.sum / found.all, busy: 1.0 - found.none / found.all, depths: found.depths(*early) })
}

impl AnalyticNetwork {
    /// Requests that come at a rate, at random. `None` where some part of the network cannot keep up.
    pub fn open(&self, rate: f64) -> Option<NetworkState> {
        if rate > self.most() {
            return None;
        }
        let loads: Vec<CenterLoad> = (0..self.centers.len()).map(|center| self.load(center)).collect();
        let met = (0..loads.len()).map(|index| self.meet_random(index, rate, &loads[index]));
        let met = met.collect::<Option<Vec<CenterRound>>>()?;
        let mut state = self.passed(&met, &loads);
        state.throughput = rate;
        for (index, found) in state.centers.iter_mut().enumerate() {
            found.queue *= rate / self.centers[index].members;
            found.busy = met[index].busy;
        }
        state.kinds = self.responses(&met, &loads);
        state.response.is_finite().then_some(state)
    }

    /// Whether each center could serve the arrivals of these loads if its queue were long. Rates are 0 for users.
    pub fn may_bear(&self, rates: &[f64]) -> bool {
        let deepest = Depths::one(DEEPEST as f64);
        let bears = |index: usize| {
            let center = &self.centers[index];
            let busy = self.visits(index).map(|(class, step, work, ios)| {
                let rate = rates.get(class.chain).copied().unwrap_or(0.0) * class.share * ios;
                rate * center.cost(work, step.kind, &deepest, 1.0).hold_s / center.members / center.servers
            });
            busy.sum::<f64>() < SATURATED
        };
        (0..self.centers.len()).all(bears)
    }

    /// What arrivals at random meet at a center.
    fn meet_random(&self, index: usize, rate: f64, load: &CenterLoad) -> Option<CenterRound> {
        if load.ios <= 0.0 {
            return Some(CenterRound::NOTHING);
        }
        let per_s = rate * load.ios / self.centers[index].members;
        if load.by_depth { self.meet_arm(index, per_s, load) } else { self.meet_station(index, per_s, load) }
    }

    /// At drives, whose service depends on the depth.
    fn meet_arm(&self, index: usize, per_s: f64, load: &CenterLoad) -> Option<CenterRound> {
        const ROUNDS: usize = 200;
        let center = &self.centers[index];
        let again = center.served.again.hold_s > 0.0;
        let mut undisturbed = 1.0;
        let mut found = None;
        // what is written at once takes longer where others come between, which makes it busier: rises to one value
        for _ in 0..ROUNDS {
            let service_by = |depth: usize| {
                let depths = Depths::one(f64::from(1u32 << depth));
                self.service(index, load, &depths, &depths, undisturbed)
            };
            let services: [CenterService; DEPTHS] = std::array::from_fn(service_by);
            let holds_s = services.map(|service| service.hold_s);
            let service = ServiceByDepth { holds_s, cv2s: services.map(|service| service.cv2), early: load.early };
            let queue = random_queue(per_s, &service)?;
            found = Some(queue);
            let next = (1.0 - queue.busy).max(0.0).powf(1.5);
            let moved = (undisturbed - next).abs();
            undisturbed = next;
            if !again || moved < 1e-7 {
                break;
            }
        }
        let RandomQueue { queue, busy, depths } = found?;
        let service = self.service(index, load, &depths, &depths, undisturbed);
        let rest = (1.0 + service.cv2) / 2.0;
        // the time that each one before takes, so that by Little's law the queue is the chain's
        let slot = (queue - busy) / per_s / (queue - busy + busy * rest).max(1e-300);
        let mut turned = queue;
        // fewer are met where members are used in turn
        for _ in 0..ROUNDS {
            let next = busy + per_s * slot * center.ahead(load, turned, busy, rest, busy);
            let moved = (next - turned).abs();
            turned = next;
            if moved <= 1e-9 * turned {
                break;
            }
        }
        let wait = (turned - busy) / per_s;
        let far = depths.cost(&center.served.write).hold_s;
        Some(CenterRound {
            depths,
            undisturbed,
            queue: turned,
            busy,
            wait,
            wait_again: if far > 0.0 { (turned - busy) * slot + (1.0 - undisturbed) * far } else { wait },
            wait_variance: turned * (1.0 + turned) * (2.0 + service.cv2) / 3.0 * slot * slot,
            // waits vary because arrivals do, which is the same for all members, and because services do
            apart: service.cv2 / (1.0 + service.cv2),
            hold: service.hold_s,
        })
    }

    /// At stations, whose service takes the same time at all depths: the queue that brings itself about.
    fn meet_station(&self, index: usize, per_s: f64, load: &CenterLoad) -> Option<CenterRound> {
        let center = &self.centers[index];
        let hold_s = self.service(index, load, &Depths::NONE, &Depths::NONE, 1.0).hold_s;
        let busy = per_s * hold_s / center.servers;
        if busy >= SATURATED {
            return None;
        }
        let now = NetworkState::default();
        let meet = |queue: f64| self.meet(index, 1.0, None, &CenterState { queue, busy }, &now, load);
        let turns = self.visits(index).map(|(class, _, work, ios)| class.share * ios / load.ios * work.turns());
        let turns: f64 = turns.sum();
        let brings = |queue: f64| per_s * (meet(queue).wait * turns + hold_s);
        let (mut low, mut high) = (0.0, per_s * hold_s);
        while brings(high) > high {
            (low, high) = (high, 2.0 * high);
        }
        while high - low > 1e-10 * high {
            let middle = 0.5 * (low + high);
            if brings(middle) > middle { low = middle } else { high = middle }
        }
        Some(CenterRound { busy, ..meet(high) })
    }
}

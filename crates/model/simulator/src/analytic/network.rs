//! Mean value analysis of a network of devices and stations, with requests that
//! fork and join.
//!
//! The frame is Reiser and Lavenberg's: who comes to a center finds it as it is
//! with one user fewer; so it is worked out for one user, two and so on. What is
//! added to it, and why, is told in `docs/analytic.md`; the constants there were
//! fitted on simulations of systems that are not in the grid.

use super::served::{Depths, IoCost, LoadCosts};
pub(super) use super::steps::{ForkStep, IoKind, ServiceDemand, Visit};

/// One kind of request.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct NetworkClass {
    /// Whose requests these are: users, or a stream of arrivals.
    pub chain: usize,
    /// Share of all requests.
    pub share: f64,
    pub write: bool,
    pub steps: Vec<ForkStep>,
    /// Members that it uses in all.
    pub uses: f64,
}

/// Equal devices or stations, of which each I/O visits one.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct NetworkCenter {
    pub members: f64,
    /// Servers of each member.
    pub servers: f64,
    /// Members that a fork is chosen from: copies, or all.
    pub group: f64,
    /// Reads go to so many copies in turn; 1 where they do not.
    pub in_turn: f64,
    /// Members serve what they all have in an order of their own.
    pub reorders: bool,
    /// What I/Os cost by depth.
    pub served: LoadCosts,
    /// Work of a write that nobody waits for as long as it can be kept up with, s.
    pub behind_s: f64,
    /// Of a token bucket, what it lets through at once of what was not used: a time, s.
    pub window_s: Option<f64>,
}

/// The whole.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct AnalyticNetwork {
    pub centers: Vec<NetworkCenter>,
    pub classes: Vec<NetworkClass>,
}

/// Of a center: I/Os at a member that somebody waits for, and the share of time that it is busy.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct CenterState {
    pub queue: f64,
    pub busy: f64,
}

/// A steady state.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct NetworkState {
    pub throughput: f64,
    pub response: f64,
    /// What users do before their requests, waits for processors included, s.
    pub before_s: f64,
    /// Of reads and of writes.
    pub responses: [f64; 2],
    pub centers: Vec<CenterState>,
    /// Of each class: share, write, mean and variance of its response; at the end only.
    pub kinds: Vec<ClassResponse>,
}

/// Share, write, mean and variance of the responses of a class.
pub(super) type ClassResponse = (f64, bool, f64, f64);

/// Sums over the I/Os of a request at a center.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CenterLoad {
    pub ios: f64,
    /// Share of a member's I/Os that another member of the fork got too.
    common: f64,
    /// Share of a member's I/Os that all members got.
    pub all: f64,
    /// How much less than at random is found, because members are used in turn, I/Os.
    less: f64,
    /// How far they are used in turn instead of at random.
    turns: f64,
    /// Some of its work goes on when nobody waits for it any more.
    after: bool,
    /// Share of its I/Os after whose answer work goes on.
    pub early: f64,
    /// Some of its work depends on how many wait.
    pub by_depth: bool,
    /// Some of its work is done in turns.
    pub in_turns: bool,
}

/// What is met at a center in one round.
#[derive(Clone, Copy, Debug)]
pub(super) struct CenterRound {
    pub depths: Depths,
    pub undisturbed: f64,
    pub queue: f64,
    pub busy: f64,
    pub wait: f64,
    pub wait_again: f64,
    pub wait_variance: f64,
    /// Share of that which members that get the same requests do not have in common.
    pub apart: f64,
    pub hold: f64,
}

/// Service times of a center: mean, squared coefficient of variation, and the mean of those who wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct CenterService {
    pub hold_s: f64,
    pub cv2: f64,
    pub slot_s: f64,
}

impl CenterRound {
    /// What a visit waits.
    pub fn waited(&self, work: ServiceDemand, kind: IoKind) -> f64 {
        if kind == IoKind::Again { self.wait_again } else { self.wait * work.turns() }
    }

    /// At a center that nothing visits.
    pub const NOTHING: CenterRound = CenterRound {
        depths: Depths::NONE,
        undisturbed: 1.0,
        queue: 0.0,
        busy: 0.0,
        wait: 0.0,
        wait_again: 0.0,
        wait_variance: 0.0,
        apart: 0.0,
        hold: 0.0,
    };
}

/// Weight of members used in turn by one request's steps; 1 is that of reads from copies in turn.
const TURNED: f64 = 0.8;
/// Square of the wait, in services, that remains where members are used in turn and just suffice.
const UNEVEN: f64 = 0.0144;
/// How much of the unevenness of waits reads in turn take away.
const EVEN: f64 = 0.75;

impl NetworkCenter {
    /// A station of so many servers.
    pub fn station(servers: f64) -> NetworkCenter {
        NetworkCenter { members: 1.0, servers, group: 1.0, in_turn: 1.0, ..NetworkCenter::default() }
    }

    pub(super) fn cost(&self, work: ServiceDemand, kind: IoKind, depths: &Depths, undisturbed: f64) -> IoCost {
        let served = &self.served;
        match (work, kind) {
            (ServiceDemand::Fixed(hold_s, variance_s2), _) => IoCost { hold_s, after_s: 0.0, variance_s2 },
            (ServiceDemand::InTurns(hold_s), _) => IoCost { hold_s, after_s: 0.0, variance_s2: hold_s * hold_s },
            (_, IoKind::Read) => depths.cost(&served.read),
            (_, IoKind::Write) => depths.cost(&served.write),
            (_, IoKind::Again) => {
                // of two members one waits for the other, and writes later than at once
                let far = depths.cost(&served.write);
                let (now, late) = (served.again, served.again_late);
                let mix =
                    |now: f64, late: f64, far: f64| undisturbed * (0.5 * now + 0.5 * late) + (1.0 - undisturbed) * far;
                IoCost {
                    hold_s: mix(now.hold_s, late.hold_s, far.hold_s),
                    after_s: mix(now.after_s, late.after_s, far.after_s),
                    variance_s2: mix(0.0, late.variance_s2, far.variance_s2),
                }
            }
        }
    }
}

impl AnalyticNetwork {
    /// Everything that visits a center: the class, the step, the visit's work, and the I/Os of that.
    pub(super) fn visits(&self, center: usize) -> impl Iterator<Item = (&NetworkClass, &ForkStep, ServiceDemand, f64)> {
        let steps = self.classes.iter().flat_map(|class| class.steps.iter().map(move |step| (class, step)));
        steps.flat_map(move |(class, step)| {
            let here = step.visits.iter().filter(move |visit| visit.center == center);
            here.map(move |visit| (class, step, visit.work, step.ios * visit.times))
        })
    }

    pub(super) fn load(&self, index: usize) -> CenterLoad {
        let center = &self.centers[index];
        let mut load = CenterLoad::default();
        for (class, step, work, ios) in self.visits(index) {
            let ios = class.share * ios;
            load.ios += ios;
            let common = ios * (step.ios - 1.0).max(0.0) / (center.group - 1.0).max(1.0);
            load.common += common;
            load.all += common * step.ios / center.members;
            if work == ServiceDemand::ByDepth {
                let served = &center.served;
                load.by_depth = true;
                let is_early = step.kind != IoKind::Read && served.write[0].after_s + served.again.after_s > 0.0;
                load.after |= is_early;
                load.early += if is_early { ios } else { 0.0 };
            }
            load.in_turns |= matches!(work, ServiceDemand::InTurns(_));
            if step.is_before {
                // no other member has anything of this request yet
            } else if step.kind == IoKind::Read && step.ios <= 1.0 && class.uses <= 1.0 {
                load.less += ios * (center.in_turn - 1.0) / center.members;
                load.turns += if center.in_turn > 1.0 { ios * center.in_turn / center.members } else { 0.0 };
            } else {
                let elsewhere = (class.uses - step.ios).max(0.0) / center.members;
                load.less += ios * TURNED * elsewhere;
                load.turns += ios * elsewhere;
            }
        }
        let ios = load.ios.max(1e-300);
        load.common /= ios;
        load.early /= ios;
        load.all /= ios;
        load.less /= ios;
        load.turns = (load.turns / ios).min(1.0);
        load
    }

    /// Time of a member at work that nobody waits for, for each request, s.
    pub fn behind(&self, index: usize) -> f64 {
        let center = &self.centers[index];
        let writes = self.visits(index).filter(|(_, step, ..)| step.kind != IoKind::Read);
        writes.map(|(class, step, ..)| class.share * step.ios * center.behind_s / center.members).sum()
    }

    /// Most requests a second that work which nobody waits for allows.
    pub(super) fn most(&self) -> f64 {
        let work = (0..self.centers.len()).map(|index| self.behind(index)).fold(0.0, f64::max);
        if work > 0.0 { 1.0 / work } else { f64::INFINITY }
    }

    /// So many users who think so long between requests. Beyond [`EACH`] users not
    /// every number of them is worked out: between two it is taken as straight.
    pub fn closed(&self, users: f64, think_s: f64) -> NetworkState {
        const EACH: f64 = 16.0;
        const STEPS: f64 = 7.0;
        let loads: Vec<CenterLoad> = (0..self.centers.len()).map(|center| self.load(center)).collect();
        let mut state =
            NetworkState { centers: vec![CenterState::default(); self.centers.len()], ..NetworkState::default() };
        let most = self.most();
        let mut present = 0.0;
        let mut found = state.centers.clone();
        while present < users {
            let step = if present < EACH { 1.0 } else { (present / STEPS).floor().max(1.0) };
            let next = (present + step).min(users);
            let share = (next - present - 1.0) / (next - present).max(1.0);
            let before = state.centers.clone();
            state.throughput = state.throughput.max(1e-9);
            let behind = loads.iter().any(|load| load.after);
            let after = behind || loads.iter().any(|load| load.all > 0.99);
            let rounds = if share > 0.0 || after { 6 } else { 2 };
            for _ in 0..rounds {
                let seen: Vec<CenterState> = before
                    .iter()
                    .zip(&state.centers)
                    .map(|(a, b)| CenterState {
                        queue: a.queue + (b.queue - a.queue) * share,
                        busy: a.busy + (b.busy - a.busy) * share,
                    })
                    .collect();
                let last = state.throughput;
                state = self.round(next, think_s, &seen, &state, &loads, most);
                found = seen;
                if behind && last > 1e-9 {
                    // more done leaves more behind, which lets less be done: the middle settles
                    state.throughput = (state.throughput * last).sqrt();
                }
            }
            present = next;
        }
        state.kinds = self.kinds(users, think_s, &found, &state, &loads);
        state
    }

    /// Mean and variance of the responses of each class.
    fn kinds(
        &self,
        n: f64,
        think_s: f64,
        seen: &[CenterState],
        now: &NetworkState,
        loads: &[CenterLoad],
    ) -> Vec<ClassResponse> {
        let random = share_at_random(think_s + now.before_s, now.response);
        let met = |index: usize| self.meet(index, random, Some([n, think_s]), &seen[index], now, &loads[index]);
        let met: Vec<CenterRound> = (0..self.centers.len()).map(met).collect();
        self.responses(&met, loads)
    }

    /// The same of what is met at the centers.
    pub(super) fn responses(&self, met: &[CenterRound], loads: &[CenterLoad]) -> Vec<ClassResponse> {
        let class = |class: &NetworkClass| {
            let steps = class.steps.iter().filter(|step| !step.is_before);
            let steps = steps.map(|step| self.step_moments(step, met, loads));
            let (mean, variance) = steps.fold((0.0, 0.0), |sum, step| (sum.0 + step.0, sum.1 + step.1));
            (class.share, class.write, mean, variance)
        };
        self.classes.iter().map(class).collect()
    }

    /// One more look at everything, `seen` being what who comes finds.
    fn round(
        &self,
        n: f64,
        think_s: f64,
        seen: &[CenterState],
        now: &NetworkState,
        loads: &[CenterLoad],
        most: f64,
    ) -> NetworkState {
        let random = share_at_random(think_s + now.before_s, now.response);
        let met: Vec<CenterRound> = (0..self.centers.len())
            .map(|index| self.meet(index, random, Some([n, think_s]), &seen[index], now, &loads[index]))
            .collect();
        let mut state = self.passed(&met, loads);
        let apart_s = think_s + state.before_s;
        state.response = state.response.max(n / most - apart_s);
        state.throughput = n / (apart_s + state.response);
        for (index, found) in state.centers.iter_mut().enumerate() {
            let rate = state.throughput / self.centers[index].members;
            found.queue *= rate;
            found.busy = (rate * loads[index].ios * met[index].hold / self.centers[index].servers).min(1.0);
        }
        state
    }

    /// Responses of requests that meet this; of each center the time that a request is at its members, s, in the
    /// place of the queue.
    pub(super) fn passed(&self, met: &[CenterRound], loads: &[CenterLoad]) -> NetworkState {
        let mut state = NetworkState { centers: vec![CenterState::default(); met.len()], ..NetworkState::default() };
        let mut shares = [0.0; 2];
        for class in &self.classes {
            let mut response = 0.0;
            for step in &class.steps {
                match step.is_before {
                    true => state.before_s += class.share * self.step(step, met, loads),
                    false => response += self.step(step, met, loads),
                }
                for visit in &step.visits {
                    let (center, met) = (&self.centers[visit.center], &met[visit.center]);
                    let cost = center.cost(visit.work, step.kind, &met.depths, met.undisturbed);
                    let wait = met.waited(visit.work, step.kind);
                    let ios = class.share * step.ios * visit.times;
                    state.centers[visit.center].queue += ios * (wait + cost.seen_s());
                }
            }
            state.response += class.share * response;
            state.responses[usize::from(class.write)] += class.share * response;
            shares[usize::from(class.write)] += class.share;
        }
        for (response, share) in state.responses.iter_mut().zip(shares) {
            *response = if share > 0.0 { *response / share } else { f64::NAN };
        }
        state
    }

    /// What is met at a center.
    pub(super) fn meet(
        &self,
        index: usize,
        at_random: f64,
        users: Option<[f64; 2]>,
        seen: &CenterState,
        now: &NetworkState,
        load: &CenterLoad,
    ) -> CenterRound {
        let center = &self.centers[index];
        if load.ios <= 0.0 {
            return CenterRound::NOTHING;
        }
        // writing again at once, before anything else came between
        let undisturbed = (1.0 - seen.busy).max(0.0).powf(1.5);
        // work that nobody waits for any more is everybody's, who comes' too
        let queue = seen.queue + if load.after { self.alone(index, seen, now.throughput, undisturbed) } else { 0.0 };
        let finite = (center.members - 1.0) / (center.members + 1.0);
        let spread = queue * (1.0 + queue) * (finite + (1.0 - finite) * at_random);
        let depths = match load.by_depth {
            true => Depths::of(seen.busy, queue, spread * 0.7 * (1.0 - load.all)),
            false => Depths::NONE,
        };
        let CenterService { hold_s: hold, cv2, slot_s: slot } =
            self.service(index, load, &depths, &depths.weighted(), undisturbed);
        let rest = rest_of_service(cv2, at_random, load.all);
        let busy = seen.busy.min(queue);
        let side = center.servers.max(1.0);
        let ahead = center.ahead(load, queue, busy, rest, seen.busy);
        let far = if load.by_depth { depths.cost(&center.served.write).hold_s } else { 0.0 };
        let in_step = load.all > 0.99 && cv2 < 0.01 && side <= 1.0;
        let most = users.filter(|_| in_step).map_or(f64::INFINITY, |users| wait_in_step(now, index, users, hold));
        let wait = if nobody_waits(users, side) { 0.0 } else { (ahead * slot).min(most) };
        CenterRound {
            depths,
            undisturbed,
            queue,
            busy,
            wait,
            wait_again: if far > 0.0 { (queue - busy) * slot + (1.0 - undisturbed) * far } else { wait },
            apart: 0.0,
            wait_variance: wait_variance(side, wait, slot, spread * (2.0 + cv2) / 3.0),
            hold,
        }
    }

    /// What I/Os cost a center where it serves at these depths, and those who wait are served at others.
    pub(super) fn service(
        &self,
        index: usize,
        load: &CenterLoad,
        depths: &Depths,
        waiting: &Depths,
        undisturbed: f64,
    ) -> CenterService {
        let center = &self.centers[index];
        let (mut hold_s, mut square, mut slot_s, mut turn_s2) = (0.0, 0.0, 0.0, 0.0);
        for (class, step, work, ios) in self.visits(index) {
            let weight = class.share * ios / load.ios;
            let cost = center.cost(work, step.kind, depths, undisturbed);
            hold_s += weight * cost.hold_s;
            square += weight * (cost.hold_s * cost.hold_s + cost.variance_s2);
            slot_s += match work {
                ServiceDemand::ByDepth => weight * center.cost(work, step.kind, waiting, undisturbed).hold_s,
                ServiceDemand::Fixed(time, _) | ServiceDemand::InTurns(time) => weight * time,
            };
            turn_s2 += weight * cost.hold_s * cost.hold_s / work.turns();
        }
        if load.in_turns {
            // those who are met are there as long as they take, and each has one turn before one's own
            return CenterService { hold_s, cv2: 1.0, slot_s: turn_s2 / hold_s };
        }
        let cv2 = if hold_s > 0.0 { (square / (hold_s * hold_s) - 1.0).max(0.0) } else { 0.0 };
        CenterService { hold_s, cv2, slot_s }
    }

    /// I/Os at a member that nobody waits for any more.
    fn alone(&self, index: usize, seen: &CenterState, throughput: f64, undisturbed: f64) -> f64 {
        let center = &self.centers[index];
        let depths = Depths::one(seen.queue);
        let after = |(class, step, work, ios): (&NetworkClass, &ForkStep, ServiceDemand, f64)| {
            class.share * ios * center.cost(work, step.kind, &depths, undisturbed).after_s
        };
        throughput / center.members * self.visits(index).map(after).sum::<f64>()
    }

    /// Response of a step: the waits, the services, and what the last I/O is later than the mean.
    pub(super) fn step(&self, step: &ForkStep, met: &[CenterRound], loads: &[CenterLoad]) -> f64 {
        self.step_moments(step, met, loads).0
    }

    /// The same, and the variance of it, s².
    pub(super) fn step_moments(&self, step: &ForkStep, met: &[CenterRound], loads: &[CenterLoad]) -> (f64, f64) {
        let (mut response, mut variance, mut all) = (step.delay_s, step.delay_variance_s2, step.delay_variance_s2);
        for visit in &step.visits {
            let (center, met, load) = (&self.centers[visit.center], &met[visit.center], &loads[visit.center]);
            let cost = center.cost(visit.work, step.kind, &met.depths, met.undisturbed);
            let again = step.kind == IoKind::Again && visit.work == ServiceDemand::ByDepth;
            let own = if again {
                // all members are then done at the same moment, a turn after the last read
                let at_once = center.served.again.seen_s();
                met.undisturbed * at_once + (1.0 - met.undisturbed) * cost.seen_s()
            } else {
                cost.seen_s()
            };
            response += own + if again { met.wait_again } else { met.wait * visit.work.turns() };
            all += cost.variance_s2 + met.wait_variance;
            if step.ios > 1.0 {
                variance += center.variance(visit.work, step.kind, &cost, met, load);
            }
        }
        // evenly distributed times: the last of k is (k - 1) / (k + 1) sqrt(3) deviations later than the mean
        let later = (step.ios - 1.0).max(0.0) / (step.ios + 1.0) * 3f64.sqrt() * variance.sqrt();
        // and its variance 12 k / ((k + 1)² (k + 2)) of theirs
        let k = step.ios.max(1.0);
        let apart = variance * 12.0 * k / ((k + 1.0).powi(2) * (k + 2.0));
        let spread = if k > 1.0 { apart + (all - variance).max(0.0) } else { all };
        (response + later, spread)
    }
}

/// Share of requests that come at random, from thinking, and not in step with the others.
pub(super) fn share_at_random(think_s: f64, response: f64) -> f64 {
    if think_s > 0.0 { think_s / (think_s + response) } else { 0.0 }
}

impl NetworkCenter {
    /// I/Os that are served before one that comes, of a queue of which so much is in service, with so much of that
    /// left.
    pub(super) fn ahead(&self, load: &CenterLoad, queue: f64, busy: f64, rest: f64, servers_busy: f64) -> f64 {
        let ahead = (queue - busy) + busy * rest;
        let even = (queue - load.less) / 2.0;
        let turned = (even + (even * even + UNEVEN).sqrt()).min(queue);
        let ahead = ahead.min(turned * (load.turns + (1.0 - load.turns) * ahead / queue.max(1e-9)));
        // what is served by the other servers is not waited for
        let side = self.servers.max(1.0);
        if side > 1.0 { (ahead - (side - 1.0) * servers_busy).max(0.0) / side } else { ahead }
    }

    /// Variance between the members of a fork of what an I/O spends at this center.
    fn variance(&self, work: ServiceDemand, kind: IoKind, cost: &IoCost, met: &CenterRound, load: &CenterLoad) -> f64 {
        let mut service = cost.variance_s2;
        if work == ServiceDemand::ByDepth {
            // arms that did the same before stand at the same place
            service -= load.common * self.served.arm_variance;
        }
        if cost.after_s > 0.0 {
            service = 0.0;
        }
        if kind == IoKind::Again && work == ServiceDemand::ByDepth {
            let (far, again) = (self.served.write[0], self.served.again);
            let apart = (far.hold_s + far.seen_s() - again.seen_s()).max(0.0);
            service = (1.0 - met.undisturbed) * (service.max(0.0) + met.undisturbed * apart * apart);
        }
        // who is ahead goes on with the next request: what is common does not add up
        let service = service.max(0.0) * (1.0 - load.common * met.busy).powi(2);
        let even = if self.in_turn > 1.0 { EVEN * self.in_turn / self.members } else { 0.0 };
        let waits = (1.0 - load.common * (1.0 - met.apart)) * (1.0 - even) * met.wait_variance;
        let apart = (0.035 * (met.queue - 2.0)).clamp(0.0, 0.8) * ((self.group - 3.0) / 3.0).clamp(0.0, 1.0);
        let orders = if self.reorders { load.common * apart * met.wait * met.wait } else { 0.0 };
        // shares that add up to one may be a little more
        (service + waits + orders).max(0.0)
    }
}

/// There are as many servers as users, and several.
fn nobody_waits(users: Option<[f64; 2]>, servers: f64) -> bool {
    users.is_some_and(|[users, _]| users <= servers && servers > 1.0)
}

/// Variance of a wait, of which one server's is so many squares of a service.
fn wait_variance(servers: f64, wait: f64, slot: f64, squares: f64) -> f64 {
    // of several servers each ends a service so often
    if servers > 1.0 { wait * (wait + 2.0 * slot / servers) } else { squares * slot * slot }
}

/// What is left of a service under way when somebody comes, as a share of it.
fn rest_of_service(cv2: f64, at_random: f64, all: f64) -> f64 {
    // who comes from a think time comes at random; who comes from a member is in step with others
    let rest = (2.0 + cv2) / 3.0 * (1.0 - at_random) + (1.0 + cv2) / 2.0 * at_random;
    rest + (1.0 - rest) * all.powi(3) * (1.0 - at_random)
}

/// The longest wait where all members serve the same in the same order and time:
/// whoever is not elsewhere on his round is ahead, and nobody else.
fn wait_in_step(now: &NetworkState, index: usize, [n, think_s]: [f64; 2], hold: f64) -> f64 {
    let here = now.centers[index].queue / now.throughput.max(1e-9);
    let elsewhere = (think_s + now.before_s + now.response - here).max(0.0);
    ((n - 1.0) * hold - elsewhere).max(0.0)
}

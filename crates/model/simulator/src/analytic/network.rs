//! Mean value analysis of a network of devices and stations, with requests that fork and join.
//!
//! The method is Reiser and Lavenberg's: an arriving request sees the center in the state with one user fewer, so the
//! network is solved for one user, two and so on. `docs/analytic.md` describes the extensions and the reasons for them;
//! their constants were fitted to simulations of systems that the accuracy grid does not contain.

pub(super) use super::fork_step::{ForkStep, IoKind, ServiceDemand, Visit};
use super::io_costs::{Depths, IoCost, LoadCosts};

/// One kind of request.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct NetworkClass {
    /// Its chain: users, or a stream of arrivals.
    pub chain: usize,
    /// Share of all requests.
    pub share: f64,
    pub write: bool,
    pub steps: Vec<ForkStep>,
    /// Total number of members that it uses.
    pub uses: f64,
}

/// Equal devices or stations; each I/O visits one of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct NetworkCenter {
    pub members: f64,
    /// Servers of each member.
    pub servers: f64,
    /// Members that a fork chooses from: copies, or all.
    pub group: f64,
    /// Number of copies that serve reads in turn; 1 if they do not.
    pub in_turn: f64,
    /// True if members reorder their queues independently.
    pub reorders: bool,
    /// Costs of I/Os by depth.
    pub costs: LoadCosts,
    /// Background work per write, as long as it can keep up, s.
    pub background_write_s: f64,
    /// For a token bucket: unused capacity of this time may be used at once, s.
    pub window_s: Option<f64>,
}

/// A network of centers, and the classes of requests that visit them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct AnalyticNetwork {
    pub centers: Vec<NetworkCenter>,
    pub classes: Vec<NetworkClass>,
}

/// State of a center: foreground I/Os at a member, and its utilization.
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
    /// Time of users before their requests, waits for processors included, s.
    pub before_s: f64,
    /// Mean response times of reads and of writes, s.
    pub responses: [f64; 2],
    pub centers: Vec<CenterState>,
    /// By class; set at the end only.
    pub kinds: Vec<ClassResponse>,
}

/// Responses of a class: its share of the requests, true for writes, mean response, s, and variance, s².
pub(super) type ClassResponse = (f64, bool, f64, f64);

/// Sums over the I/Os of a request at a center.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CenterLoad {
    pub ios: f64,
    /// Share of a member's I/Os that another member of the fork also gets.
    common_share: f64,
    /// Share of a member's I/Os that all members get.
    pub all_share: f64,
    /// Reduction of the queue found, relative to random choice, because members are used in turn, I/Os.
    in_turn_discount: f64,
    /// Degree to which members are used in turn instead of at random.
    in_turn_share: f64,
    /// True if some of its work continues in the background.
    has_background: bool,
    /// Share of its I/Os that continue after their acknowledgement.
    pub early_share: f64,
    /// True if some of its work depends on the queue depth.
    pub by_depth: bool,
    /// True if some of its work is time-sliced.
    pub in_turns: bool,
}

/// State met at a center in one round.
#[derive(Clone, Copy, Debug)]
pub(super) struct CenterRound {
    pub depths: Depths,
    pub undisturbed: f64,
    pub queue: f64,
    pub busy: f64,
    pub wait: f64,
    pub wait_again: f64,
    pub wait_variance: f64,
    /// Share of the wait's variance that members with the same requests do not have in common.
    pub uncommon_share: f64,
    pub hold: f64,
}

/// Service times of a center: mean, squared coefficient of variation, and the mean for waiting I/Os.
#[derive(Clone, Copy, Debug)]
pub(super) struct CenterService {
    pub hold_s: f64,
    pub cv2: f64,
    pub slot_s: f64,
}

impl CenterRound {
    /// Returns the wait of a visit.
    pub fn visit_wait_s(&self, work: ServiceDemand, kind: IoKind) -> f64 {
        if kind == IoKind::Rewrite { self.wait_again } else { self.wait * work.turn_count() }
    }

    /// State of a center that nothing visits.
    pub const IDLE: CenterRound = CenterRound {
        depths: Depths::NONE,
        undisturbed: 1.0,
        queue: 0.0,
        busy: 0.0,
        wait: 0.0,
        wait_again: 0.0,
        wait_variance: 0.0,
        uncommon_share: 0.0,
        hold: 0.0,
    };
}

/// Weight of the members that one request's steps use in turn; 1 would be that of reads from copies in turn.
const IN_TURN_WEIGHT: f64 = 0.8;
/// Square of the wait, in services, that remains where members are used in turn and just suffice.
const IN_TURN_WAIT_SQUARED: f64 = 0.0144;
/// Part of the unevenness of waits that reads in turn remove.
const IN_TURN_EVENNESS: f64 = 0.75;

impl NetworkCenter {
    /// A station with a number of servers.
    pub fn with_servers(servers: f64) -> NetworkCenter {
        NetworkCenter { members: 1.0, servers, group: 1.0, in_turn: 1.0, ..NetworkCenter::default() }
    }

    pub(super) fn io_cost(&self, work: ServiceDemand, kind: IoKind, depths: &Depths, undisturbed: f64) -> IoCost {
        let costs = &self.costs;
        match (work, kind) {
            (ServiceDemand::Fixed(hold_s, variance_s2), _) => IoCost { hold_s, after_s: 0.0, variance_s2 },
            (ServiceDemand::InTurns(hold_s), _) => IoCost { hold_s, after_s: 0.0, variance_s2: hold_s * hold_s },
            (_, IoKind::Read) => depths.mean_cost(&costs.read),
            (_, IoKind::Write) => depths.mean_cost(&costs.write),
            (_, IoKind::Rewrite) => {
                // one of two members waits for the other, and then writes later
                let far = depths.mean_cost(&costs.write);
                let (now, late) = (costs.rewrite, costs.late_rewrite);
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
    /// Lists all visits to a center: the class, the step, the visit's work, and its I/Os.
    pub(super) fn center_visits(
        &self,
        center: usize,
    ) -> impl Iterator<Item = (&NetworkClass, &ForkStep, ServiceDemand, f64)> {
        let steps = self.classes.iter().flat_map(|class| class.steps.iter().map(move |step| (class, step)));
        steps.flat_map(move |(class, step)| {
            let here = step.visits.iter().filter(move |visit| visit.center == center);
            here.map(move |visit| (class, step, visit.work, step.ios * visit.times))
        })
    }

    pub(super) fn center_load(&self, index: usize) -> CenterLoad {
        let center = &self.centers[index];
        let mut load = CenterLoad::default();
        for (class, step, work, ios) in self.center_visits(index) {
            let ios = class.share * ios;
            load.ios += ios;
            let common = ios * (step.ios - 1.0).max(0.0) / (center.group - 1.0).max(1.0);
            load.common_share += common;
            load.all_share += common * step.ios / center.members;
            if work == ServiceDemand::ByDepth {
                let costs = &center.costs;
                load.by_depth = true;
                let is_early = step.kind != IoKind::Read && costs.write[0].after_s + costs.rewrite.after_s > 0.0;
                load.has_background |= is_early;
                load.early_share += if is_early { ios } else { 0.0 };
            }
            load.in_turns |= matches!(work, ServiceDemand::InTurns(_));
            if step.is_before {
                // no other member has received anything of this request yet
            } else if step.kind == IoKind::Read && step.ios <= 1.0 && class.uses <= 1.0 {
                load.in_turn_discount += ios * (center.in_turn - 1.0) / center.members;
                load.in_turn_share += if center.in_turn > 1.0 { ios * center.in_turn / center.members } else { 0.0 };
            } else {
                let elsewhere = (class.uses - step.ios).max(0.0) / center.members;
                load.in_turn_discount += ios * IN_TURN_WEIGHT * elsewhere;
                load.in_turn_share += ios * elsewhere;
            }
        }
        let ios = load.ios.max(1e-300);
        load.common_share /= ios;
        load.early_share /= ios;
        load.all_share /= ios;
        load.in_turn_discount /= ios;
        load.in_turn_share = (load.in_turn_share / ios).min(1.0);
        load
    }

    /// Background time of a member per request, s.
    pub fn background_work_s(&self, index: usize) -> f64 {
        let center = &self.centers[index];
        let writes = self.center_visits(index).filter(|(_, step, ..)| step.kind != IoKind::Read);
        writes.map(|(class, step, ..)| class.share * step.ios * center.background_write_s / center.members).sum()
    }

    /// Largest throughput that background work allows, requests/s.
    pub(super) fn max_throughput(&self) -> f64 {
        let work = (0..self.centers.len()).map(|index| self.background_work_s(index)).fold(0.0, f64::max);
        if work > 0.0 { 1.0 / work } else { f64::INFINITY }
    }

    /// Solves for closed users with a think time. Up to 16 users are added one by one, further ones in larger steps,
    /// within which the state that an arrival sees is interpolated linearly.
    pub fn solve_closed(&self, users: f64, think_s: f64) -> NetworkState {
        const MAX_SINGLE_STEPS: f64 = 16.0;
        const STEPS: f64 = 7.0;
        let loads: Vec<CenterLoad> = (0..self.centers.len()).map(|center| self.center_load(center)).collect();
        let mut state =
            NetworkState { centers: vec![CenterState::default(); self.centers.len()], ..NetworkState::default() };
        let max_throughput = self.max_throughput();
        let mut present = 0.0;
        let mut found = state.centers.clone();
        while present < users {
            let step = if present < MAX_SINGLE_STEPS { 1.0 } else { (present / STEPS).floor().max(1.0) };
            let next = (present + step).min(users);
            let share = (next - present - 1.0) / (next - present).max(1.0);
            let before = state.centers.clone();
            state.throughput = state.throughput.max(1e-9);
            let has_background = loads.iter().any(|load| load.has_background);
            let converges_slowly = has_background || loads.iter().any(|load| load.all_share > 0.99);
            let rounds = if share > 0.0 || converges_slowly { 6 } else { 2 };
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
                state = self.run_round(next, think_s, &seen, &state, &loads, max_throughput);
                found = seen;
                if has_background && last > 1e-9 {
                    // a higher throughput leaves more background work, which lowers it: the geometric mean converges
                    state.throughput = (state.throughput * last).sqrt();
                }
            }
            present = next;
        }
        state.kinds = self.closed_responses(users, think_s, &found, &state, &loads);
        state
    }

    /// Mean and variance of the responses of each class.
    fn closed_responses(
        &self,
        n: f64,
        think_s: f64,
        seen: &[CenterState],
        now: &NetworkState,
        loads: &[CenterLoad],
    ) -> Vec<ClassResponse> {
        let random = random_arrival_share(think_s + now.before_s, now.response);
        let met = |index: usize| self.meet_center(index, random, Some([n, think_s]), &seen[index], now, &loads[index]);
        let met: Vec<CenterRound> = (0..self.centers.len()).map(met).collect();
        self.class_responses(&met, loads)
    }

    /// Mean and variance of the responses of each class, given the state met at the centers.
    pub(super) fn class_responses(&self, met: &[CenterRound], loads: &[CenterLoad]) -> Vec<ClassResponse> {
        let class = |class: &NetworkClass| {
            let steps = class.steps.iter().filter(|step| !step.is_before);
            let steps = steps.map(|step| self.step_moments(step, met, loads));
            let (mean, variance) = steps.fold((0.0, 0.0), |sum, step| (sum.0 + step.0, sum.1 + step.1));
            (class.share, class.write, mean, variance)
        };
        self.classes.iter().map(class).collect()
    }

    /// Runs one more round; `seen` is the state that an arriving request finds.
    fn run_round(
        &self,
        n: f64,
        think_s: f64,
        seen: &[CenterState],
        now: &NetworkState,
        loads: &[CenterLoad],
        max_throughput: f64,
    ) -> NetworkState {
        let random = random_arrival_share(think_s + now.before_s, now.response);
        let met: Vec<CenterRound> = (0..self.centers.len())
            .map(|index| self.meet_center(index, random, Some([n, think_s]), &seen[index], now, &loads[index]))
            .collect();
        let mut state = self.accumulate_steps(&met, loads);
        let apart_s = think_s + state.before_s;
        state.response = state.response.max(n / max_throughput - apart_s);
        state.throughput = n / (apart_s + state.response);
        for (index, found) in state.centers.iter_mut().enumerate() {
            let rate = state.throughput / self.centers[index].members;
            found.queue *= rate;
            found.busy = (rate * loads[index].ios * met[index].hold / self.centers[index].servers).min(1.0);
        }
        state
    }

    /// Sums up the responses of requests that meet this state; the queue of each center is the time that a request
    /// spends at its members, s.
    pub(super) fn accumulate_steps(&self, met: &[CenterRound], loads: &[CenterLoad]) -> NetworkState {
        let mut state = NetworkState { centers: vec![CenterState::default(); met.len()], ..NetworkState::default() };
        let mut shares = [0.0; 2];
        for class in &self.classes {
            let mut response = 0.0;
            for step in &class.steps {
                match step.is_before {
                    true => state.before_s += class.share * self.step_response(step, met, loads),
                    false => response += self.step_response(step, met, loads),
                }
                for visit in &step.visits {
                    let (center, met) = (&self.centers[visit.center], &met[visit.center]);
                    let cost = center.io_cost(visit.work, step.kind, &met.depths, met.undisturbed);
                    let wait = met.visit_wait_s(visit.work, step.kind);
                    let ios = class.share * step.ios * visit.times;
                    state.centers[visit.center].queue += ios * (wait + cost.response_s());
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

    /// Returns the state that an arriving request meets at a center.
    pub(super) fn meet_center(
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
            return CenterRound::IDLE;
        }
        // a rewrite is undisturbed if no other request arrived in between
        let undisturbed = (1.0 - seen.busy).max(0.0).powf(1.5);
        // background work delays every request
        let queue = seen.queue
            + if load.has_background { self.background_queue(index, seen, now.throughput, undisturbed) } else { 0.0 };
        let finite = (center.members - 1.0) / (center.members + 1.0);
        let spread = queue * (1.0 + queue) * (finite + (1.0 - finite) * at_random);
        let depths = match load.by_depth {
            true => Depths::from_queue(seen.busy, queue, spread * 0.7 * (1.0 - load.all_share)),
            false => Depths::NONE,
        };
        let CenterService { hold_s: hold, cv2, slot_s: slot } =
            self.center_service(index, load, &depths, &depths.weighted_by_depth(), undisturbed);
        let residual = residual_service(cv2, at_random, load.all_share);
        let busy = seen.busy.min(queue);
        let servers = center.servers.max(1.0);
        let ahead = center.ios_ahead(load, queue, busy, residual, seen.busy);
        let far = if load.by_depth { depths.mean_cost(&center.costs.write).hold_s } else { 0.0 };
        let in_lockstep = load.all_share > 0.99 && cv2 < 0.01 && servers <= 1.0;
        let max_wait =
            users.filter(|_| in_lockstep).map_or(f64::INFINITY, |users| max_lockstep_wait(now, index, users, hold));
        let wait = if is_wait_free(users, servers) { 0.0 } else { (ahead * slot).min(max_wait) };
        CenterRound {
            depths,
            undisturbed,
            queue,
            busy,
            wait,
            wait_again: if far > 0.0 { (queue - busy) * slot + (1.0 - undisturbed) * far } else { wait },
            uncommon_share: 0.0,
            wait_variance: wait_variance(servers, wait, slot, spread * (2.0 + cv2) / 3.0),
            hold,
        }
    }

    /// Returns the service times of a center at these depths; `waiting` are the depths that waiting I/Os are served at.
    pub(super) fn center_service(
        &self,
        index: usize,
        load: &CenterLoad,
        depths: &Depths,
        waiting: &Depths,
        undisturbed: f64,
    ) -> CenterService {
        let center = &self.centers[index];
        let (mut hold_s, mut square, mut slot_s, mut turn_s2) = (0.0, 0.0, 0.0, 0.0);
        for (class, step, work, ios) in self.center_visits(index) {
            let weight = class.share * ios / load.ios;
            let cost = center.io_cost(work, step.kind, depths, undisturbed);
            hold_s += weight * cost.hold_s;
            square += weight * (cost.hold_s * cost.hold_s + cost.variance_s2);
            slot_s += match work {
                ServiceDemand::ByDepth => weight * center.io_cost(work, step.kind, waiting, undisturbed).hold_s,
                ServiceDemand::Fixed(time, _) | ServiceDemand::InTurns(time) => weight * time,
            };
            turn_s2 += weight * cost.hold_s * cost.hold_s / work.turn_count();
        }
        if load.in_turns {
            // a new job finds others that stay for all of their work, and each gets one time slice before the new one
            return CenterService { hold_s, cv2: 1.0, slot_s: turn_s2 / hold_s };
        }
        let cv2 = if hold_s > 0.0 { (square / (hold_s * hold_s) - 1.0).max(0.0) } else { 0.0 };
        CenterService { hold_s, cv2, slot_s }
    }

    /// I/Os in the background at a member.
    fn background_queue(&self, index: usize, seen: &CenterState, throughput: f64, undisturbed: f64) -> f64 {
        let center = &self.centers[index];
        let depths = Depths::single_depth(seen.queue);
        let after = |(class, step, work, ios): (&NetworkClass, &ForkStep, ServiceDemand, f64)| {
            class.share * ios * center.io_cost(work, step.kind, &depths, undisturbed).after_s
        };
        throughput / center.members * self.center_visits(index).map(after).sum::<f64>()
    }

    /// Response of a step: the waits, the services, and the extra time of the last I/O of the fork.
    pub(super) fn step_response(&self, step: &ForkStep, met: &[CenterRound], loads: &[CenterLoad]) -> f64 {
        self.step_moments(step, met, loads).0
    }

    /// Response of a step, s, and its variance, s².
    pub(super) fn step_moments(&self, step: &ForkStep, met: &[CenterRound], loads: &[CenterLoad]) -> (f64, f64) {
        let (mut response, mut variance) = (step.delay_s, step.delay_variance_s2);
        let mut io_variance = step.delay_variance_s2;
        for visit in &step.visits {
            let (center, met, load) = (&self.centers[visit.center], &met[visit.center], &loads[visit.center]);
            let cost = center.io_cost(visit.work, step.kind, &met.depths, met.undisturbed);
            let is_rewrite = step.kind == IoKind::Rewrite && visit.work == ServiceDemand::ByDepth;
            let service_s = if is_rewrite {
                // undisturbed, all members finish at the same time, a revolution after the last read
                let at_once = center.costs.rewrite.response_s();
                met.undisturbed * at_once + (1.0 - met.undisturbed) * cost.response_s()
            } else {
                cost.response_s()
            };
            response += service_s + if is_rewrite { met.wait_again } else { met.wait * visit.work.turn_count() };
            io_variance += cost.variance_s2 + met.wait_variance;
            if step.ios > 1.0 {
                variance += center.fork_variance(visit.work, step.kind, &cost, met, load);
            }
        }
        // for uniformly distributed times, the last of k is (k - 1) / (k + 1) sqrt(3) deviations later than the mean
        let later = (step.ios - 1.0).max(0.0) / (step.ios + 1.0) * 3f64.sqrt() * variance.sqrt();
        // and its variance is 12 k / ((k + 1)² (k + 2)) of that of a single one
        let k = step.ios.max(1.0);
        let apart = variance * 12.0 * k / ((k + 1.0).powi(2) * (k + 2.0));
        let spread = if k > 1.0 { apart + (io_variance - variance).max(0.0) } else { io_variance };
        (response + later, spread)
    }
}

/// Share of requests that arrive randomly, after think times, and not in step with the others.
pub(super) fn random_arrival_share(think_s: f64, response: f64) -> f64 {
    if think_s > 0.0 { think_s / (think_s + response) } else { 0.0 }
}

impl NetworkCenter {
    /// Number of I/Os that are served before a new one: of the `queue`, `busy` are in service, with the share
    /// `residual` of their service left.
    pub(super) fn ios_ahead(&self, load: &CenterLoad, queue: f64, busy: f64, residual: f64, servers_busy: f64) -> f64 {
        let ahead = (queue - busy) + busy * residual;
        let even = (queue - load.in_turn_discount) / 2.0;
        let turned = (even + (even * even + IN_TURN_WAIT_SQUARED).sqrt()).min(queue);
        let ahead = ahead.min(turned * (load.in_turn_share + (1.0 - load.in_turn_share) * ahead / queue.max(1e-9)));
        // I/Os that other servers serve cause no wait
        let servers = self.servers.max(1.0);
        if servers > 1.0 { (ahead - (servers - 1.0) * servers_busy).max(0.0) / servers } else { ahead }
    }

    /// Variance among the members of a fork of the time that an I/O spends at this center.
    fn fork_variance(
        &self,
        work: ServiceDemand,
        kind: IoKind,
        cost: &IoCost,
        met: &CenterRound,
        load: &CenterLoad,
    ) -> f64 {
        let mut service = cost.variance_s2;
        if work == ServiceDemand::ByDepth {
            // arms that served the same requests before are at the same position
            service -= load.common_share * self.costs.arm_variance;
        }
        if cost.after_s > 0.0 {
            service = 0.0;
        }
        if kind == IoKind::Rewrite && work == ServiceDemand::ByDepth {
            let (far, again) = (self.costs.write[0], self.costs.rewrite);
            let apart = (far.hold_s + far.response_s() - again.response_s()).max(0.0);
            service = (1.0 - met.undisturbed) * (service.max(0.0) + met.undisturbed * apart * apart);
        }
        // a member that is ahead proceeds to the next request, so common requests do not add to the variance
        let service = service.max(0.0) * (1.0 - load.common_share * met.busy).powi(2);
        let even = if self.in_turn > 1.0 { IN_TURN_EVENNESS * self.in_turn / self.members } else { 0.0 };
        let waits = (1.0 - load.common_share * (1.0 - met.uncommon_share)) * (1.0 - even) * met.wait_variance;
        let apart = (0.035 * (met.queue - 2.0)).clamp(0.0, 0.8) * ((self.group - 3.0) / 3.0).clamp(0.0, 1.0);
        let orders = if self.reorders { load.common_share * apart * met.wait * met.wait } else { 0.0 };
        // rounding can make the sum of the shares exceed one
        (service + waits + orders).max(0.0)
    }
}

/// True if there are several servers, and at least as many as users.
fn is_wait_free(users: Option<[f64; 2]>, servers: f64) -> bool {
    users.is_some_and(|[users, _]| users <= servers && servers > 1.0)
}

/// Variance of a wait; for a single server it is `squares` squared services.
fn wait_variance(servers: f64, wait: f64, slot: f64, squares: f64) -> f64 {
    // with several servers, completions are more frequent by their number
    if servers > 1.0 { wait * (wait + 2.0 * slot / servers) } else { squares * slot * slot }
}

/// Residual service time at an arrival, as a share of the service time.
fn residual_service(cv2: f64, at_random: f64, all_share: f64) -> f64 {
    // arrivals after a think time are random; arrivals from another member are in step with others
    let residual = (2.0 + cv2) / 3.0 * (1.0 - at_random) + (1.0 + cv2) / 2.0 * at_random;
    residual + (1.0 - residual) * all_share.powi(3) * (1.0 - at_random)
}

/// Longest wait when all members serve the same requests in the same order and time: every user that is not elsewhere
/// in its cycle is ahead.
fn max_lockstep_wait(now: &NetworkState, index: usize, [n, think_s]: [f64; 2], hold: f64) -> f64 {
    let here = now.centers[index].queue / now.throughput.max(1e-9);
    let elsewhere = (think_s + now.before_s + now.response - here).max(0.0);
    ((n - 1.0) * hold - elsewhere).max(0.0)
}

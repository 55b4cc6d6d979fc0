//! Response of a device by the load on its members, fitted to a log.
//!
//! A member responds in `R = s + t q - u l`, where `l` is its load and `q = l R` the number in flight on it (Little's
//! law): the standalone service time, the time for the requests found there, less the part of the request in service
//! that is already over. With one server and random arrivals `t = s` and `u = s² (1 - c²) / 2`, where `c²` is the
//! squared coefficient of variation of its service times (Pollaczek and Khinchine; Jain 1991, M/G/1); in closed loops
//! it is the arrival theorem of mean value analysis (Reiser and Lavenberg 1980), with `q` and `l` as they are without
//! the requesting program. All three are fitted, because a member does not behave as a single server, and is not slowed
//! by its own load alone; `u` only if it explains enough to justify a parameter (Schwarz 1978). It is at most `s t - t²
//! / 2`: near saturation, requests that arrive at random wait at least half as long as those with exponential service
//! times, so `t² l / (2 (1 - t l))` (heavy traffic: Kingman 1962, of several servers Köllerström 1974). Users who fall
//! into step wait less in the log, and after a change they may not. A front-end read is one member's response; a write
//! consists of several, depending on the level (the slowest of two is 1.5 exponential times, of three 1.83: the
//! harmonic numbers; parity is read first and then written), or as the log shows, if it has separate times of reads and
//! writes.

use diskwright_base::RaidLevel;

use diskwright_simulator::ArrayLevel;

use super::DeviceCounters;
use crate::arithmetic::{back_end_per_s, write_cost};
use crate::series::{FrontLoad, FrontSums};

/// Minimum share of the requests in a load class for it to count.
const MIN_REQUEST_SHARE: f64 = 0.002;
/// Maximum number of programs that are added one by one: of more, one makes no difference.
const MAX_ADDED_PROGRAMS: f64 = 2000.0;
/// Fits, each with the queue that requests find by the previous fit; the third differs little from the second.
const FIT_ROUNDS: usize = 4;
/// Steps to the highest `u`, which depends on the other two; each leaves about a third of the remaining error.
const BOUND_STEPS: usize = 30;
/// Minimum number of loads, each seen in both halves, for a model.
const MIN_LOADS: usize = 3;

/// A load on a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct LoadPoint {
    pub reads: f64,
    pub writes: f64,
    /// Measured, s; NaN if it is only a load.
    pub response_s: f64,
}

/// Programs that wait for the device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ClosedPopulation {
    pub users: f64,
    pub think_s: f64,
}

/// Response of a member by its load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ResponseModel {
    pub level: Option<RaidLevel>,
    pub members: usize,
    /// Response of a write over that of a read.
    pub write_ratio: f64,
    /// Standalone, s.
    pub standalone_s: f64,
    /// Additional time per I/O in flight, s; 0 if no load in the log slowed it down.
    pub queueing_s: f64,
    /// Reduction per I/O per second, s².
    pub residual_s2: f64,
    /// Mean error on the half of the log that it was not fitted to.
    pub error: f64,
    /// The highest load on a member in the log.
    pub max_seen_load: f64,
    /// Response at the lowest loads in the log, s.
    pub light_s: f64,
}

/// I/Os per second of each member, with this planner's costs of small writes (three on three members of RAID 5): the
/// published factors do not change when disks are added, real costs do.
pub(super) fn member_load_on(level: Option<RaidLevel>, members: usize, reads: f64, writes: f64) -> f64 {
    let level = level.and_then(|level| ArrayLevel::parse(level.name()));
    let cost = level.zip(u16::try_from(members).ok()).map_or(1.0, |(level, members)| write_cost(level, members));
    back_end_per_s(reads, writes, cost) / members.max(1) as f64
}

/// Sequential member responses of a write, each the slowest of several.
pub(super) fn write_phases(level: Option<RaidLevel>, members: usize) -> f64 {
    let harmonic = |n: usize| (1..=n).map(|i| 1.0 / i as f64).sum::<f64>();
    match level {
        None | Some(RaidLevel::Linear | RaidLevel::Raid0) => 1.0,
        Some(RaidLevel::Raid1) => harmonic(members.max(1)),
        Some(RaidLevel::Raid10) => harmonic(2),
        // with three members the one other block is read, then two are written
        Some(RaidLevel::Raid4 | RaidLevel::Raid5) if members == 3 => 1.0 + harmonic(2),
        Some(RaidLevel::Raid4 | RaidLevel::Raid5) => 2.0 * harmonic(2),
        Some(RaidLevel::Raid6) => 2.0 * harmonic(3),
    }
}

impl LoadPoint {
    /// Returns the load for the time at or above a percentile of the member load.
    pub fn at_percentile(front: &FrontLoad, percentile: f64) -> Option<LoadPoint> {
        let min_seconds = front.sums.seconds * (1.0 - percentile / 100.0);
        let mut upper = FrontSums::default();
        for class in front.curve.merged_halves().iter().rev() {
            upper.add_sums(class);
            if upper.seconds >= min_seconds && upper.seconds > 0.0 {
                break;
            }
        }
        let point = LoadPoint {
            reads: upper.reads / upper.seconds,
            writes: upper.writes / upper.seconds,
            response_s: upper.response_s(),
        };
        (upper.seconds > 0.0 && point.response_s > 0.0).then_some(point)
    }

    /// Reads and writes per second.
    pub fn requests_per_s(&self) -> f64 {
        self.reads + self.writes
    }

    /// Returns this many users with the pause that makes this load (Little's law); `None` if more requests are in
    /// flight.
    pub fn population_with_pause(&self, users: f64) -> Option<ClosedPopulation> {
        /// Users who do not pause are all in flight, within this factor.
        const TOLERANCE: f64 = 0.9;
        let (cycle_s, think_s) = (users / self.requests_per_s(), users / self.requests_per_s() - self.response_s);
        (cycle_s > TOLERANCE * self.response_s).then_some(ClosedPopulation { users, think_s: think_s.max(0.0) })
    }

    /// Multiplies the load by a factor.
    pub fn scaled_by(&self, factor: f64) -> LoadPoint {
        LoadPoint { reads: self.reads * factor, writes: self.writes * factor, ..*self }
    }

    /// Returns counters with the measured response.
    pub fn measured_counters(&self, front: &FrontLoad) -> DeviceCounters {
        self.with_response(front, self.response_s)
    }

    /// Returns counters with another response.
    pub fn with_response(&self, front: &FrontLoad, response_s: f64) -> DeviceCounters {
        device_counters(self, member_load_on(front.level, front.members, self.reads, self.writes), response_s)
    }
}

fn device_counters(point: &LoadPoint, member_load_per_s: f64, response_s: f64) -> DeviceCounters {
    DeviceCounters {
        requests_per_s: point.requests_per_s(),
        reads_per_s: point.reads,
        writes_per_s: point.writes,
        member_load_per_s,
        response_s,
        queue: point.requests_per_s() * response_s,
    }
}

impl ResponseModel {
    /// Fits a model to the first half of a device's curve and tests it on the second; `None` if too few loads were
    /// seen. If programs pause for `think_s`, their numbers in both halves are known, and the resulting response is
    /// tested; otherwise the response at the load.
    pub fn fit_to_curve(front: &FrontLoad, think_s: Option<f64>) -> Option<ResponseModel> {
        let totals = &front.sums;
        let (read, write) = (totals.read_s / totals.reads, totals.write_s / totals.writes);
        let level_ratio = write_phases(front.level, front.members);
        let measured_ratio = (read > 0.0 && write > 0.0).then(|| write / read).filter(|ratio| ratio.is_finite());
        let write_ratio = measured_ratio.unwrap_or(level_ratio);
        let mut model = ResponseModel {
            level: front.level,
            members: front.members,
            write_ratio,
            standalone_s: 0.0,
            queueing_s: 0.0,
            residual_s2: 0.0,
            error: 0.0,
            max_seen_load: 0.0,
            light_s: 0.0,
        };
        let [fitted, tested] = front.curve.halves().map(|half| model.fitted_loads(half));
        if fitted.len() < MIN_LOADS || tested.len() < MIN_LOADS {
            return None;
        }
        model.fit_coefficients(&fitted.iter().map(|p| (p, [1.0, 1.0])).collect::<Vec<_>>())?;
        for _ in 0..FIT_ROUNDS {
            let Some(think_s) = think_s else { break };
            let shares = |p: &FittedLoad| model.arrival_shares(p, think_s);
            let rows: Vec<(&FittedLoad, [f64; 2])> = fitted.iter().map(|p| (p, shares(p))).collect();
            model.fit_coefficients(&rows)?;
        }
        model.max_seen_load = fitted.iter().chain(&tested).map(|p| p.load).fold(0.0, f64::max);
        model.light_s = fitted.first().map_or(f64::NAN, |p| p.response_s);
        let weight: f64 = tested.iter().map(|p| p.weight).sum();
        let weighted_error = |p: &FittedLoad| p.weight * model.relative_error(p, think_s).abs().min(10.0);
        model.error = tested.iter().map(weighted_error).sum::<f64>() / weight;
        model.error.is_finite().then_some(model)
    }

    /// Loads of members with their responses, from the lowest on.
    fn fitted_loads(&self, curve: &[FrontSums]) -> Vec<FittedLoad> {
        let total: f64 = curve.iter().map(|s| s.reads + s.writes).sum();
        let is_counted = |s: &&FrontSums| s.reads + s.writes > MIN_REQUEST_SHARE * total && s.queue_s > 0.0;
        let point = |s: &FrontSums| FittedLoad {
            load: member_load_on(self.level, self.members, s.reads / s.seconds, s.writes / s.seconds),
            response_s: s.queue_s / (s.reads + self.write_ratio * s.writes),
            weight: s.reads + s.writes,
            front: LoadPoint { reads: s.reads / s.seconds, writes: s.writes / s.seconds, response_s: s.response_s() },
        };
        curve.iter().filter(is_counted).map(point).collect()
    }

    /// Relative error of the model's response at a load.
    fn relative_error(&self, p: &FittedLoad, think_s: Option<f64>) -> f64 {
        let Some(think_s) = think_s else { return self.member_response(p.load) / p.response_s - 1.0 };
        let users = p.front.requests_per_s() * (p.front.response_s + think_s);
        let found = self.predict_closed(p.front, ClosedPopulation { users, think_s });
        found.map_or(f64::INFINITY, |found| found.response_s / p.front.response_s - 1.0)
    }

    /// Queue and load that one of several waiting programs finds, as shares of those including it (the arrival theorem:
    /// it finds the state without itself).
    fn arrival_shares(&self, p: &FittedLoad, think_s: f64) -> [f64; 2] {
        let users = p.front.requests_per_s() * (p.front.response_s + think_s);
        let states = self.exact_mva(p.front, ClosedPopulation { users, think_s });
        states.map_or([1.0, 1.0], |[without, with]| [without.queue / with.queue, without.load / with.load])
    }

    /// Fits the coefficients by least squares of the relative errors: `1 = s / R + t l - u l / R`, with the shares of
    /// queue and load that requests find.
    fn fit_coefficients(&mut self, points: &[(&FittedLoad, [f64; 2])]) -> Option<()> {
        let row = |(p, [queue, load]): &(&FittedLoad, [f64; 2])| {
            ([1.0 / p.response_s, p.load * queue, -p.load * load / p.response_s], p.weight)
        };
        let rows: Vec<([f64; 3], f64)> = points.iter().map(row).collect();
        let total_weight: f64 = rows.iter().map(|row| row.1).sum();
        let standalone_s =
            rows.iter().map(|([x, ..], w)| w * x).sum::<f64>() / rows.iter().map(|([x, ..], w)| w * x * x).sum::<f64>();
        let squares = |[s, t, u]: [f64; 3]| {
            rows.iter().map(|([x, y, z], w)| w / total_weight * (1.0 - s * x - t * y - u * z).powi(2)).sum::<f64>()
        };
        let is_slowing = |[s, t, u]: &[f64; 3]| *s > 0.0 && *t > 0.0 && *u < s * t && *u > -s * t;
        // runs of a log vary by this much, so a closer fit is not better
        let criterion = |numbers: [f64; 3], count: f64| {
            points.len() as f64 * squares(numbers).max(1e-4).ln() + count * (points.len() as f64).ln()
        };
        let mut best = [standalone_s, 0.0, 0.0];
        let with_residual = match least_squares(&rows, 3) {
            Some([s, t, u]) if u > max_residual(s, t) => (fit_at_max_residual(&rows), 2.0),
            with_residual => (with_residual, 3.0),
        };
        for (numbers, count) in [(least_squares(&rows, 2), 2.0), with_residual] {
            let Some(numbers) = numbers.filter(is_slowing) else { continue };
            if best[1] == 0.0 || criterion(numbers, count) < criterion(best, 2.0) {
                best = numbers;
            }
        }
        [self.standalone_s, self.queueing_s, self.residual_s2] = best;
        (self.standalone_s > 0.0 && self.standalone_s.is_finite()).then_some(())
    }

    /// True if no load in the log slowed the device down.
    pub fn never_slows_down(&self) -> bool {
        self.queueing_s == 0.0
    }

    fn member_response(&self, load: f64) -> f64 {
        let idle_share = 1.0 - self.queueing_s * load;
        if idle_share > 0.0 { (self.standalone_s - self.residual_s2 * load) / idle_share } else { f64::INFINITY }
    }

    /// The same disks with another level.
    pub fn with_level(&self, to: RaidLevel) -> ResponseModel {
        self.with_array(Some(to), self.members)
    }

    /// More or fewer of the same disks.
    pub fn with_members(&self, members: usize) -> ResponseModel {
        self.with_array(self.level, members)
    }

    fn with_array(&self, level: Option<RaidLevel>, members: usize) -> ResponseModel {
        let ratio = write_phases(level, members) / write_phases(self.level, self.members);
        let write_ratio = if self.write_ratio < 1.0 { self.write_ratio } else { (self.write_ratio * ratio).max(1.0) };
        ResponseModel { level, members, write_ratio, ..*self }
    }

    fn member_load(&self, point: &LoadPoint) -> f64 {
        member_load_on(self.level, self.members, point.reads, point.writes)
    }

    fn front_response(&self, point: &LoadPoint) -> f64 {
        let share = point.writes / point.requests_per_s();
        self.member_response(self.member_load(point)) * (1.0 - share + share * self.write_ratio)
    }

    /// Maximum requests per second of this mix.
    pub fn max_requests_per_s(&self, point: LoadPoint) -> f64 {
        point.requests_per_s() / self.queueing_s / self.member_load(&point)
    }

    /// Predicts an open load, which does not depend on the response; `None` if it is too much.
    pub fn predict_open(&self, point: LoadPoint) -> Option<DeviceCounters> {
        let response = if point.requests_per_s() > 0.0 { self.front_response(&point) } else { self.standalone_s };
        response.is_finite().then(|| device_counters(&point, self.member_load(&point), response))
    }

    /// Adds waiting programs one by one: each finds the state without itself (exact mean value analysis, Reiser and
    /// Lavenberg 1980). Returns the member without the last of them, and with it; `None` if there are so many that one
    /// makes no difference.
    fn exact_mva(&self, point: LoadPoint, population: ClosedPopulation) -> Option<[MemberState; 2]> {
        let ClosedPopulation { users, think_s } = population;
        if !(users > 0.0 && users <= MAX_ADDED_PROGRAMS) {
            return None;
        }
        let mix = point.scaled_by(1.0 / point.requests_per_s());
        let share = mix.writes;
        let (of_front, load) = (1.0 - share + share * self.write_ratio, self.member_load(&mix));
        let mut state = MemberState::default();
        // the first step is the fractional part of a program
        let mut count = users - users.ceil() + 1.0;
        loop {
            let response = self.standalone_s + self.queueing_s * state.queue - self.residual_s2 * state.load;
            let response = response.max(1e-3 * self.standalone_s);
            let requests = count / (response * of_front + think_s);
            let with = MemberState { requests, load: requests * load, queue: requests * load * response };
            count += 1.0;
            if count > users + 1e-9 {
                return Some([state, with]);
            }
            state = with;
        }
    }

    /// Predicts a closed load: `X = N / (R + Z)`.
    pub fn predict_closed(&self, point: LoadPoint, population: ClosedPopulation) -> Option<DeviceCounters> {
        // if all requests were swapping and disappear, there is no mix of them
        if point.requests_per_s() <= 0.0 {
            return self.predict_open(point);
        }
        if let Some([_, found]) = self.exact_mva(point, population) {
            let response = population.users / found.requests - population.think_s;
            let found = point.scaled_by(found.requests / point.requests_per_s());
            return response.is_finite().then(|| device_counters(&found, self.member_load(&found), response));
        }
        let mix = point.scaled_by(1.0 / point.requests_per_s());
        let max_per_s = population.users / (population.think_s + 1e-6);
        let (mut low, mut high) =
            (0.0, if self.never_slows_down() { max_per_s } else { max_per_s.min(self.max_requests_per_s(point)) });
        for _ in 0..80 {
            let middle = 0.5 * (low + high);
            let issued_per_s = population.users / (self.front_response(&mix.scaled_by(middle)) + population.think_s);
            if issued_per_s > middle { low = middle } else { high = middle }
        }
        // users who do not pause wait, however busy the device is
        let found = mix.scaled_by(low);
        let response = population.users / low - population.think_s;
        (low > 0.0 && response.is_finite()).then(|| device_counters(&found, self.member_load(&found), response))
    }
}

/// State of a member, and requests per second of the device.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct MemberState {
    requests: f64,
    load: f64,
    queue: f64,
}

/// A load on a member and its response.
struct FittedLoad {
    load: f64,
    response_s: f64,
    weight: f64,
    /// Load of the whole device.
    front: LoadPoint,
}

/// Maximum `u` that random arrivals allow.
fn max_residual(s: f64, t: f64) -> f64 {
    (s * t - 0.5 * t * t).max(0.0)
}

/// Fits with the maximum `u`, iteratively.
fn fit_at_max_residual(rows: &[([f64; 3], f64)]) -> Option<[f64; 3]> {
    let ([mut s, mut t, _], mut u) = (least_squares(rows, 2)?, 0.0);
    for _ in 0..BOUND_STEPS {
        u = max_residual(s, t);
        // the part that `u` explains moves to the other side: rows approach `1 - u z`
        let row = |([x, y, z], weight): &([f64; 3], f64)| {
            let side = 1.0 - u * z;
            ([x / side, y / side, 0.0], weight * side * side)
        };
        [s, t, _] = least_squares(&rows.iter().map(row).collect::<Vec<_>>(), 2)?;
    }
    Some([s, t, u])
}

/// Fits the first `count` coefficients so that rows come nearest to 1, the others are 0; by the normal equations.
/// `None` if the rows do not determine them.
fn least_squares(rows: &[([f64; 3], f64)], count: usize) -> Option<[f64; 3]> {
    let mut table = [[0.0; 4]; 3];
    for (x, weight) in rows {
        for i in 0..count {
            (0..count).for_each(|j| table[i][j] += weight * x[i] * x[j]);
            table[i][3] += weight * x[i];
        }
    }
    for i in 0..count {
        let diagonal = table[i][i];
        for j in 0..i {
            let factor = table[i][j] / table[j][j];
            (j..4).for_each(|k| table[i][k] -= factor * table[j][k]);
        }
        if table[i][i] <= 1e-9 * diagonal {
            return None;
        }
    }
    let mut found = [0.0; 3];
    for i in (0..count).rev() {
        let known_part: f64 = (i + 1..count).map(|j| table[i][j] * found[j]).sum();
        found[i] = (table[i][3] - known_part) / table[i][i];
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks_added_to_three_cost_a_write_more() {
        // 126 reads and 73 writes per second: (126 + 3 x 73) / 3 on each of three, (126 + 4 x 73) / 6 on each of six
        let on = |members| member_load_on(Some(RaidLevel::Raid5), members, 126.0, 73.0);
        assert_eq!((on(3), on(6).round()), (115.0, 70.0));
        let phases = |members| write_phases(Some(RaidLevel::Raid5), members);
        assert_eq!((phases(3), phases(6)), (2.5, 3.0));
        assert_eq!(member_load_on(None, 1, 126.0, 73.0), 199.0);
    }

    #[test]
    fn device_without_load_is_idle() {
        let model = ResponseModel {
            level: None,
            members: 1,
            write_ratio: 1.0,
            standalone_s: 0.01,
            queueing_s: 0.005,
            residual_s2: 0.0,
            error: 0.0,
            max_seen_load: 100.0,
            light_s: 0.01,
        };
        let point = LoadPoint { reads: 60.0, writes: 40.0, response_s: 0.02 }.scaled_by(0.0);
        let found = model
            .predict_closed(point, ClosedPopulation { users: 8.0, think_s: 0.1 })
            .expect("it keeps up with nothing");
        assert_eq!((found.requests_per_s, found.response_s, found.queue), (0.0, 0.01, 0.0));
    }

    #[test]
    fn users_in_step_still_queue() {
        // 10 ms standalone and at half of its maximum; then 90 ms with nine in flight at 99 per second
        let row = |load: f64, response: f64| ([1.0 / response, load, -load / response], 1.0);
        let rows = [row(20.0, 0.0102), row(50.0, 0.0104), row(60.0, 0.0104), row(98.0, 0.09), row(100.0, 0.09)];
        let [s, t, u] = least_squares(&rows, 3).expect("distinguished");
        assert!(u > max_residual(s, t), "the rows want more: {u}");
        let [s, t, u] = fit_at_max_residual(&rows).expect("distinguished");
        assert!((u / max_residual(s, t) - 1.0).abs() < 1e-6 && s > 0.0 && t > 0.0, "{s} {t} {u}");
        // it waits half as long as with exponential service times, near saturation
        let (load, response) = (0.9 / t, |load: f64| (s - u * load) / (1.0 - t * load));
        let waits = response(load) - s;
        assert!((waits / (0.5 * t * t * load / (1.0 - t * load)) - 1.0).abs() < 1e-6, "{waits}");
    }

    #[test]
    fn recovers_a_single_server_with_random_arrivals() {
        // 10 ms each, always: R = S + l S² / (2 (1 - l S)), so that t = S and u = S² / 2
        let served = 0.01;
        let row = |load: f64| {
            let response = served + load * served * served / (2.0 * (1.0 - load * served));
            ([1.0 / response, load, -load / response], 1.0)
        };
        let rows: Vec<([f64; 3], f64)> = (1..9).map(|step| row(10.0 * f64::from(step))).collect();
        let [alone, each, begun] = least_squares(&rows, 3).expect("distinguished");
        assert!((alone / served - 1.0).abs() < 1e-6 && (each / served - 1.0).abs() < 1e-6, "{alone} {each}");
        assert!((begun / (served * served / 2.0) - 1.0).abs() < 1e-6, "{begun}");
        // at half of its maximum: 10 ms and a half of 10 ms in half of the cases
        let response = (alone - begun * 50.0) / (1.0 - each * 50.0);
        assert!((response - 0.015).abs() < 1e-9, "{response}");
        assert_eq!(least_squares(&rows[..1], 3), None);
    }
}

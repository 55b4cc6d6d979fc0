//! The response of a device by the load on its members, fitted to a log.
//!
//! A queue with one server and random arrivals answers in `R = 1 / (m - l)`
//! (Jain 1991, M/M/1); any part whose response doubles at half of its capacity
//! has that form with `R = 1 / (a - b l)`, where `1 / a` is its response alone and
//! `a / b` the most that it does. Both are fitted, because the load of a member is
//! not alone what slows it. A front-end read is one member's response; a write is
//! so many of them as the level says (the slowest of two is 1.5 exponential times,
//! of three 1.83: the harmonic numbers; parity is read first and then written), or
//! as the log shows, where it has the times of reads and writes apart.

use diskwright_base::RaidLevel;

use super::DeviceCounters;
use crate::series::{FrontLoad, FrontSums, member_load};

/// Places of a curve with less than this share of the requests say nothing.
const LEAST_SHARE: f64 = 0.002;
/// Loads that must have been seen, each in both halves, for a model.
const LEAST_PLACES: usize = 3;

/// A load on a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct LoadPoint {
    pub reads: f64,
    pub writes: f64,
    /// Measured, s; NaN where it is only a load.
    pub response_s: f64,
}

/// Programs that wait for the device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Population {
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
    pub alone_per_s: f64,
    pub slows: f64,
    /// Mean error on the half of the log that it was not fitted to.
    pub error: f64,
    /// The highest load on a member that was seen.
    pub seen: f64,
    /// Response at the lowest loads that were seen, s.
    pub light_s: f64,
}

/// Member responses that a write takes, one after another, each the slowest of several.
fn write_phases(level: Option<RaidLevel>, members: usize) -> f64 {
    let harmonic = |n: usize| (1..=n).map(|i| 1.0 / i as f64).sum::<f64>();
    match level {
        None | Some(RaidLevel::Linear | RaidLevel::Raid0) => 1.0,
        Some(RaidLevel::Raid1) => harmonic(members.max(1)),
        Some(RaidLevel::Raid10) => harmonic(2),
        Some(RaidLevel::Raid4 | RaidLevel::Raid5) => 2.0 * harmonic(2),
        Some(RaidLevel::Raid6) => 2.0 * harmonic(3),
    }
}

impl LoadPoint {
    /// The time at or above a percentile of the member load.
    pub fn of(front: &FrontLoad, percentile: f64) -> Option<LoadPoint> {
        let mut places = vec![FrontSums::default(); front.curve[0].len()];
        for half in &front.curve {
            places.iter_mut().zip(half).for_each(|(place, sums)| place.add(sums));
        }
        let wanted = front.sums.seconds * (1.0 - percentile / 100.0);
        let mut upper = FrontSums::default();
        for place in places.iter().rev() {
            upper.add(place);
            if upper.seconds >= wanted && upper.seconds > 0.0 {
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

    pub fn requests(&self) -> f64 {
        self.reads + self.writes
    }

    /// So many times the load.
    pub fn scaled(&self, factor: f64) -> LoadPoint {
        LoadPoint { reads: self.reads * factor, writes: self.writes * factor, ..*self }
    }

    /// As counters, with the response that was measured.
    pub fn counters(&self, front: &FrontLoad) -> DeviceCounters {
        self.with_response(front, self.response_s)
    }

    /// As counters, with another response.
    pub fn with_response(&self, front: &FrontLoad, response_s: f64) -> DeviceCounters {
        counters(self, front.member_load(self.reads, self.writes), response_s)
    }
}

fn counters(point: &LoadPoint, member_load_per_s: f64, response_s: f64) -> DeviceCounters {
    DeviceCounters {
        requests_per_s: point.requests(),
        reads_per_s: point.reads,
        writes_per_s: point.writes,
        member_load_per_s,
        response_s,
        queue: point.requests() * response_s,
    }
}

impl ResponseModel {
    /// Fitted to the first half of a device's curve and tried on the second; `None` where too few
    /// loads were seen.
    pub fn fit(front: &FrontLoad) -> Option<ResponseModel> {
        let all = &front.sums;
        let (read, write) = (all.read_s / all.reads, all.write_s / all.writes);
        let by_level = write_phases(front.level, front.members);
        let measured = (read > 0.0 && write > 0.0).then(|| write / read).filter(|ratio| ratio.is_finite());
        let write_ratio = measured.unwrap_or(by_level);
        let mut model = ResponseModel {
            level: front.level,
            members: front.members,
            write_ratio,
            alone_per_s: 0.0,
            slows: 0.0,
            error: 0.0,
            seen: 0.0,
            light_s: 0.0,
        };
        let [fitted, tried] = [0, 1].map(|half: usize| model.points(&front.curve[half]));
        if fitted.len() < LEAST_PLACES || tried.len() < LEAST_PLACES {
            return None;
        }
        model.line(&fitted)?;
        model.seen = fitted.iter().chain(&tried).map(|p| p.load).fold(0.0, f64::max);
        model.light_s = fitted.first().map_or(f64::NAN, |p| p.response_s);
        let weight: f64 = tried.iter().map(|p| p.weight).sum();
        let off = |p: &CurvePoint| p.weight * (model.member_response(p.load) / p.response_s - 1.0).abs().min(10.0);
        model.error = tried.iter().map(off).sum::<f64>() / weight;
        model.error.is_finite().then_some(model)
    }

    /// Loads of members with their responses, from the lowest on.
    fn points(&self, curve: &[FrontSums]) -> Vec<CurvePoint> {
        let all: f64 = curve.iter().map(|s| s.reads + s.writes).sum();
        let enough = |s: &&FrontSums| s.reads + s.writes > LEAST_SHARE * all && s.queue_s > 0.0;
        let point = |s: &FrontSums| CurvePoint {
            load: member_load(self.level, self.members, s.reads / s.seconds, s.writes / s.seconds),
            response_s: s.queue_s / (s.reads + self.write_ratio * s.writes),
            weight: s.reads + s.writes,
        };
        curve.iter().filter(enough).map(point).collect()
    }

    /// `R (a - b l) = 1` by least squares of the relative errors.
    fn line(&mut self, points: &[CurvePoint]) -> Option<()> {
        let mut sums = [0.0; 5];
        for p in points {
            let (x, y) = (p.response_s, -p.response_s * p.load);
            for (sum, value) in sums.iter_mut().zip([x * x, x * y, y * y, x, y]) {
                *sum += p.weight * value;
            }
        }
        let [xx, xy, yy, x, y] = sums;
        let determinant = xx * yy - xy * xy;
        let (alone, slows) = ((x * yy - y * xy) / determinant, (y * xx - x * xy) / determinant);
        (self.alone_per_s, self.slows) = match slows > 0.0 && alone > 0.0 && determinant > 1e-12 * xx * yy {
            true => (alone, slows),
            // no slowing down to be seen
            false => (x / xx, 0.0),
        };
        (self.alone_per_s > 0.0 && self.alone_per_s.is_finite()).then_some(())
    }

    /// True where no load that was seen slowed the device down.
    pub fn is_flat(&self) -> bool {
        self.slows == 0.0
    }

    fn member_response(&self, load: f64) -> f64 {
        let left = self.alone_per_s - self.slows * load;
        if left > 0.0 { 1.0 / left } else { f64::INFINITY }
    }

    /// The same disks with another level.
    pub fn with_level(&self, to: RaidLevel) -> ResponseModel {
        let ratio = write_phases(Some(to), self.members) / write_phases(self.level, self.members);
        let write_ratio = if self.write_ratio < 1.0 { self.write_ratio } else { (self.write_ratio * ratio).max(1.0) };
        ResponseModel { level: Some(to), write_ratio, ..*self }
    }

    fn load(&self, point: &LoadPoint) -> f64 {
        member_load(self.level, self.members, point.reads, point.writes)
    }

    fn response(&self, point: &LoadPoint) -> f64 {
        let share = point.writes / point.requests();
        self.member_response(self.load(point)) * (1.0 - share + share * self.write_ratio)
    }

    /// Requests a second of this mix that it cannot exceed.
    pub fn most(&self, point: LoadPoint) -> f64 {
        point.requests() * self.alone_per_s / self.slows / self.load(&point)
    }

    /// A load that comes whatever becomes of it; `None` where it is too much.
    pub fn open(&self, point: LoadPoint) -> Option<DeviceCounters> {
        let response = if point.requests() > 0.0 { self.response(&point) } else { 1.0 / self.alone_per_s };
        response.is_finite().then(|| counters(&point, self.load(&point), response))
    }

    /// A load of programs that wait: `X = N / (R + Z)`.
    pub fn closed(&self, point: LoadPoint, population: Population) -> Option<DeviceCounters> {
        let mix = point.scaled(1.0 / point.requests());
        let most = population.users / (population.think_s + 1e-6);
        let (mut low, mut high) = (0.0, if self.is_flat() { most } else { most.min(self.most(point)) });
        for _ in 0..80 {
            let middle = 0.5 * (low + high);
            let asked = population.users / (self.response(&mix.scaled(middle)) + population.think_s);
            if asked > middle { low = middle } else { high = middle }
        }
        // the users who do not pause wait, however full the device is
        let found = mix.scaled(low);
        let response = population.users / low - population.think_s;
        (low > 0.0 && response.is_finite()).then(|| counters(&found, self.load(&found), response))
    }
}

/// A load on a member and what it answered in.
struct CurvePoint {
    load: f64,
    response_s: f64,
    weight: f64,
}

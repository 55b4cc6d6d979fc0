//! Queues with known solutions, as complete systems: plain devices, arrays of them and processors, with loads, in the
//! event loop.

#![allow(dead_code, reason = "tests and the benchmark each use some")]

use std::sync::Arc;

use diskwright_base::units::format_count;
use diskwright_simulator::ArrayLevel;
use diskwright_simulator::Ns;
use diskwright_simulator::confidence::{Interval, Means};
use diskwright_simulator::device::{DeviceModel, PlainSpec};
use diskwright_simulator::load::{
    ClosedSpec, DurationDistribution, LoadSpec, OpenSpec, OperationClass, OperationTotals, OperationTransfer,
    Operations, RequestSizes,
};
use diskwright_simulator::service_time::ServiceTimeDistribution;
use diskwright_simulator::solve::*;
use diskwright_simulator::system::{ArraySpec, DriveGroupSpec, System, WatchSpec, Workload, WorkloadTarget};
use diskwright_simulator::{Simulation, SimulationReport};

/// Mean service time, s: a thousandth, so that a nanosecond is negligible.
const S: f64 = 1e-3;
const MEAN: Ns = 1_000_000;
/// Batches of a run.
const BATCHES: u64 = 64;

/// A system whose mean response is known.
pub struct Case {
    pub label: String,
    /// Mean response, s.
    truth_s: f64,
    /// Requests a second.
    rate_per_s: f64,
    /// Share of a server's time at work, where it is known.
    utilisation: Option<f64>,
    /// Relative variance of the mean response: variance of the mean of n responses, over the mean's square, times n.
    varies: f64,
    system: System,
}

/// Result of a case.
pub struct Row {
    pub label: String,
    pub truth_s: f64,
    pub found: Interval,
    pub requests: u64,
    /// Relative error of the mean response.
    pub error: f64,
    /// Largest relative error of the rate, the utilization or Little's law.
    pub others: f64,
}

impl Case {
    /// Runs until the half-width of the 95 % interval is about this share of the mean.
    pub fn run(&self, half: f64) -> Row {
        let requests = (1.96 / half).powi(2) * self.varies;
        let duration = (requests / self.rate_per_s * 1e9) as Ns;
        let watch = WatchSpec { warm_up: duration / 50, duration, interval: duration.div_ceil(BATCHES), seed: 1 };
        let system = System { watch, ..self.system.clone() };
        let mut means = Means::new();
        let mut before = OperationTotals::default();
        let report = Simulation::new(&system).expect("a possible system").run(|sample| {
            let now = sum(&sample.workloads[0].operations);
            means.push(now.added_since(&before).mean_response_s());
            before = now;
        });
        let found = means.confidence_interval();
        let totals = sum(&report.workloads[0].operations);
        Row {
            label: self.label.clone(),
            truth_s: self.truth_s,
            found,
            requests: totals.done,
            error: found.mean / self.truth_s - 1.0,
            others: self.max_other_error(&report, &totals),
        }
    }

    fn max_other_error(&self, report: &SimulationReport, totals: &OperationTotals) -> f64 {
        let rate = totals.done as f64 / report.elapsed_s();
        let mut off = vec![rate / self.rate_per_s];
        let drives = &report.components[report.components.len() - drive_count(&self.system)..];
        if let (Some(utilisation), Some(drive)) = (self.utilisation, drives.first()) {
            off.push(drive.totals.utilisation() / f64::from(drive.servers) / utilisation);
        }
        // Little's law at each drive: jobs present = arrival rate times time there
        off.extend(
            drives
                .iter()
                .filter(|drive| drive.totals.service_ns > 0)
                .map(|drive| drive.totals.mean_queue() / (drive.totals.throughput_per_s() * drive.totals.response_s())),
        );
        off.iter().map(|share| (share - 1.0).abs()).fold(0.0, f64::max)
    }
}

fn drive_count(system: &System) -> usize {
    system.drive_count() as usize
}

fn sum(operations: &[Operations]) -> OperationTotals {
    operations[0].totals
}

fn device(servers: u32, service: ServiceTimeDistribution) -> DeviceModel {
    let spec = PlainSpec { name: "plain".into(), blocks: 1 << 22, servers, service, bytes_per_s: f64::INFINITY };
    DeviceModel::Plain(Arc::new(spec))
}

fn exponential() -> ServiceTimeDistribution {
    ServiceTimeDistribution::Exponential { mean: MEAN }
}

fn single(servers: u32, service: ServiceTimeDistribution, load: LoadSpec) -> System {
    let drives = vec![DriveGroupSpec::new("server", 1, device(servers, service))];
    let workloads = vec![Workload { name: "jobs".into(), targets: vec![WorkloadTarget::Drive(0)], load }];
    System { drives, workloads, ..System::new("queue") }
}

fn striped(members: u32, load: LoadSpec) -> System {
    let drives = vec![DriveGroupSpec::new("branch", members, device(1, exponential()))];
    let arrays =
        vec![ArraySpec { unit_blocks: 8, ..ArraySpec::new("fork", ArrayLevel::Raid0, (0..members).collect()) }];
    let workloads = vec![Workload { name: "jobs".into(), targets: vec![WorkloadTarget::Array(0)], load }];
    System { drives, arrays, workloads, ..System::new("fork and join") }
}

/// Random arrivals of requests over so many stripe units.
fn open(per_s: f64, units: u64, compute: DurationDistribution) -> LoadSpec {
    let classes = vec![OperationClass::with_transfer("job", 1.0, transfer(units, compute))];
    LoadSpec::Open(OpenSpec {
        gap: DurationDistribution::Exponential { mean_s: 1.0 / per_s },
        classes,
        ..OpenSpec::default()
    })
}

fn closed(users: u32, think_s: f64, units: u64, compute: DurationDistribution) -> LoadSpec {
    let think =
        if think_s > 0.0 { DurationDistribution::Exponential { mean_s: think_s } } else { DurationDistribution::NONE };
    let classes = vec![OperationClass::with_transfer("job", 1.0, transfer(units, compute))];
    LoadSpec::Closed(ClosedSpec { users, think, classes, ..ClosedSpec::default() })
}

fn transfer(units: u64, compute: DurationDistribution) -> OperationTransfer {
    OperationTransfer { bytes: RequestSizes::One(4096 * units), compute, ..OperationTransfer::default() }
}

/// Approximate relative variance of means of M/G/1: that of M/M/1 (Blomqvist 1967, as in Daley, "The serial correlation
/// coefficients of waiting times in a stationary single server queue", 1968), more for services that vary more.
fn relative_variance(rho: f64, cv2: f64) -> f64 {
    let waits = rho * (2.0 + 5.0 * rho - 4.0 * rho.powi(2) + rho.powi(3)) / (1.0 - rho).powi(4);
    let mm1 = (waits + 1.0) * (1.0 - rho).powi(2);
    mm1 * (0.25 + 0.25 * cv2 + 0.5 * cv2 * cv2)
}

/// One server with random arrivals.
pub fn mg1_at(rho: f64, service: ServiceTimeDistribution, label: &str) -> Case {
    let cv2 = service.variation_squared();
    let truth = mg1(rho / S, S, cv2).expect("not full");
    Case {
        label: format!("{label}, {:.0} % busy", rho * 100.0),
        truth_s: truth.response_s,
        rate_per_s: rho / S,
        utilisation: Some(rho),
        varies: relative_variance(rho, cv2),
        system: single(1, service, open(rho / S, 1, DurationDistribution::NONE)),
    }
}

/// M/M/1.
pub fn mm1_at(rho: f64) -> Case {
    mg1_at(rho, exponential(), "M/M/1")
}

/// M/D/1.
pub fn md1_at(rho: f64) -> Case {
    mg1_at(rho, ServiceTimeDistribution::Constant(MEAN), "M/D/1")
}

/// M/E4/1.
pub fn me1_at(rho: f64) -> Case {
    mg1_at(rho, ServiceTimeDistribution::Erlang { stages: 4, mean: MEAN }, "M/E4/1")
}

/// M/H2/1, squared coefficient of variation 4.
pub fn mh1_at(rho: f64) -> Case {
    mg1_at(rho, ServiceTimeDistribution::Hyperexponential { mean: MEAN, cv2: 4.0 }, "M/H2/1, cv² 4")
}

/// Several servers, one queue.
pub fn mmc_at(servers: u32, rho: f64) -> Case {
    let per_s = rho * f64::from(servers) / S;
    Case {
        label: format!("M/M/{servers}, {:.0} % busy", rho * 100.0),
        truth_s: mmc(per_s, S, servers).expect("not full").response_s,
        rate_per_s: per_s,
        utilisation: Some(rho),
        varies: relative_variance(rho, 1.0),
        system: single(servers, exponential(), open(per_s, 1, DurationDistribution::NONE)),
    }
}

/// Machines that think and are repaired.
pub fn repairman(machines: u32, think: f64, servers: u32) -> Case {
    let truth = machine_repairman(machines, think * S, S, servers);
    Case {
        label: format!("{machines} machines, think {think} S, {}", format_count(servers, "repairman", "repairmen")),
        truth_s: truth.response_s,
        rate_per_s: truth.throughput_per_s,
        utilisation: Some(truth.utilisations[0] / f64::from(servers)),
        varies: 3.0,
        system: single(servers, exponential(), closed(machines, think * S, 1, DurationDistribution::NONE)),
    }
}

/// Two branches, random arrivals: exact.
pub fn fork_two(rho: f64) -> Case {
    Case {
        label: format!("fork and join of 2, {:.0} % busy", rho * 100.0),
        truth_s: fork_join_two(rho / S, S).expect("not full"),
        rate_per_s: rho / S,
        utilisation: Some(rho),
        varies: relative_variance(rho, 1.0),
        system: striped(2, open(rho / S, 2, DurationDistribution::NONE)),
    }
}

/// More branches: Nelson and Tantawi's approximation, which is no truth.
pub fn fork_many(branches: u32, rho: f64) -> Case {
    let truth_s = fork_join(branches, rho / S, S).expect("not full");
    let label = format!("fork and join of {branches}, {:.0} % busy (approximate formula)", rho * 100.0);
    let system = striped(branches, open(rho / S, u64::from(branches), DurationDistribution::NONE));
    Case { label, truth_s, system, ..fork_two(rho) }
}

/// Two branches and users without think time: exact.
pub fn fork_closed(users: u32) -> Case {
    let rate_per_s = fork_join_two_closed(users, S);
    Case {
        label: format!("fork and join of 2, {}", format_count(users, "user", "users")),
        truth_s: f64::from(users) / rate_per_s,
        rate_per_s,
        utilisation: Some(rate_per_s * S),
        varies: 1.0,
        system: striped(2, closed(users, 0.0, 2, DurationDistribution::NONE)),
    }
}

/// A single user: the slowest of all branches, exact.
pub fn fork_alone(branches: u32) -> Case {
    let truth_s = fork_join_empty(branches, S);
    Case {
        label: format!("fork and join of {branches}, one user"),
        truth_s,
        rate_per_s: 1.0 / truth_s,
        utilisation: None,
        varies: 1.0,
        system: striped(branches, closed(1, 0.0, u64::from(branches), DurationDistribution::NONE)),
    }
}

/// Processors in front of a device, both exponential, random arrivals: each behaves as if alone (Jackson 1957), and
/// time slices on a processor make no difference for exponential times.
pub fn tandem(first: f64, second: f64) -> Case {
    let per_s = second / S;
    let compute_s = first / per_s;
    let before = mm1(per_s, compute_s).expect("not full").response_s;
    let compute = DurationDistribution::Exponential { mean_s: compute_s };
    Case {
        label: format!("processor {:.0} %, then device {:.0} % busy", first * 100.0, second * 100.0),
        truth_s: before + mm1(per_s, S).expect("not full").response_s,
        rate_per_s: per_s,
        utilisation: Some(second),
        varies: relative_variance(first.max(second), 1.0),
        system: single(1, exponential(), open(per_s, 1, compute)),
    }
}

/// Processor, device and thinking users: mean value analysis is exact.
pub fn network(users: u32, think: f64, compute: f64) -> Case {
    let centers = vec![MvaCenter::Queue(compute * S), MvaCenter::Queue(S)];
    let truth = solve_exact(&ClosedNetwork { users, think_s: think * S, centers });
    let spell = DurationDistribution::Exponential { mean_s: compute * S };
    Case {
        label: format!("{}, think {think} S, processor {compute} S, device S", format_count(users, "user", "users")),
        truth_s: truth.response_s,
        rate_per_s: truth.throughput_per_s,
        utilisation: Some(truth.utilisations[1]),
        varies: 4.0,
        system: single(1, exponential(), closed(users, think * S, 1, spell)),
    }
}

/// A processor shared in time slices of a twentieth of a service: whatever the distribution, the mean is that of M/M/1
/// (Kleinrock 1967), except for the effect of the slices.
pub fn shared_processor(rho: f64) -> Case {
    let service_s = 20.0 * S;
    let load = open(rho / service_s, 1, DurationDistribution::Hyper { mean_s: service_s, cv2: 4.0 });
    Case {
        label: format!("M/H2/1 by turns, cv² 4, {:.0} % busy", rho * 100.0),
        truth_s: mm1(rho / service_s, service_s).expect("not full").response_s,
        rate_per_s: rho / service_s,
        utilisation: None,
        varies: 0.5 * relative_variance(rho, 1.0),
        system: single(1, ServiceTimeDistribution::Constant(0), load),
    }
}

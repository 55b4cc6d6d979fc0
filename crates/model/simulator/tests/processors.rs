//! Users who compute between requests: the processors are a center with a queue, in the analysis as in the simulation.

use std::sync::Arc;

use diskwright_simulator::Simulation;
use diskwright_simulator::analytic::solve;
use diskwright_simulator::device::{DeviceModel, PlainSpec};
use diskwright_simulator::load::{ClosedSpec, DurationDistribution, LoadSpec, OperationClass, OperationTransfer};
use diskwright_simulator::service_time::ServiceTimeDistribution;
use diskwright_simulator::solve::{ClosedNetwork, MvaCenter, solve_exact};
use diskwright_simulator::system::read::read;
use diskwright_simulator::system::{DriveGroupSpec, System, Workload, WorkloadTarget};

/// Throughput and response: by analysis, and by a simulation of `seconds`.
fn solve_and_simulate(text: &str, seconds: u32) -> [(f64, f64); 2] {
    let text = format!("[watch]\nwarm_up = \"50s\"\nduration = \"{seconds}s\"\n{text}");
    let system = read("a.toml", &text, &[], &|_| Err(String::new())).unwrap_or_else(|p| panic!("{p}")).system;
    let found = solve(&system).unwrap_or_else(|error| panic!("{error}: {text}"));
    let report = Simulation::new(&system).expect("possible").run_without_samples();
    let requests: u64 = report.workloads.iter().map(|workload| workload.counts.request_count()).sum();
    let sum: f64 = report.workloads.iter().map(|workload| workload.responses.sum() as f64 * 1e-9).sum();
    let simulated = (requests as f64 / report.elapsed_s(), sum / requests as f64);
    // and the processors are as busy
    let busy = report.find_component("processors").map_or(f64::NAN, |part| part.utilisation());
    let reckoned = found.utilisations.iter().find(|(name, _)| name == "processors").map_or(0.0, |part| part.1);
    assert!((busy - reckoned).abs() < 0.07, "{text}: processors {reckoned}, simulated {busy}");
    [(found.throughput_per_s, found.response_s), simulated]
}

const DISK: &str = "[[drive]]\nmodel = \"st32171w\"\n[[workload]]\n";

#[test]
fn three_users_who_compute_share_a_processor() {
    for compute in ["\"1s\"", "{ exponential = \"1s\" }"] {
        let [reckoned, simulated] = solve_and_simulate(&format!("{DISK}users = 3\ncompute = {compute}\n"), 2000);
        // as a delay without a queue, it was 2.96 a second
        assert!((reckoned.0 / 1.0 - 1.0).abs() < 0.02, "{compute}: {reckoned:?}");
        assert!((reckoned.0 / simulated.0 - 1.0).abs() < 0.05, "{compute}: {reckoned:?} {simulated:?}");
        assert!((reckoned.1 / simulated.1 - 1.0).abs() < 0.05, "{compute}: {reckoned:?} {simulated:?}");
    }
}

/// A device of 80 ms, and users who think and compute, all exponential.
fn plain(users: u32, think_s: f64, mean_s: f64) -> System {
    let service = ServiceTimeDistribution::Exponential { mean: 80_000_000 };
    let spec = PlainSpec { name: "plain".into(), blocks: 1 << 22, servers: 1, service, bytes_per_s: f64::INFINITY };
    let compute = DurationDistribution::Exponential { mean_s };
    let think = DurationDistribution::Exponential { mean_s: think_s };
    let think = if think_s > 0.0 { think } else { DurationDistribution::NONE };
    let transfer = OperationTransfer { compute, ..OperationTransfer::default() };
    let classes = vec![OperationClass::with_transfer("job", 1.0, transfer)];
    let load = LoadSpec::Closed(ClosedSpec { users, think, classes, ..ClosedSpec::default() });
    let drives = vec![DriveGroupSpec::new("server", 1, DeviceModel::Plain(Arc::new(spec)))];
    let workloads = vec![Workload { name: "jobs".into(), targets: vec![WorkloadTarget::Drive(0)], load }];
    System { drives, workloads, ..System::new("queue") }
}

#[test]
fn one_processor_and_one_device_are_solved_exactly() {
    for (users, think, compute) in [(1, 1.0, 0.1), (3, 0.0, 0.1), (8, 1.0, 0.1), (12, 2.0, 0.05), (4, 0.5, 0.4)] {
        let system = plain(users, think, compute);
        let found = solve(&system).expect("solved");
        let centers = vec![MvaCenter::Queue(compute), MvaCenter::Queue(0.08)];
        let truth = solve_exact(&ClosedNetwork { users, think_s: think, centers });
        let apart = found.throughput_per_s / truth.throughput_per_s - 1.0;
        assert!(apart.abs() < 0.01, "{users} {think} {compute}: {} {}", found.throughput_per_s, truth.throughput_per_s);
        let response = f64::from(users) / truth.throughput_per_s - think;
        assert!(found.response_s < response, "the response has no time of the processor in it");
    }
}

#[test]
fn processors_are_as_simulated() {
    // of several servers, what others serve is not waited for: an approximation, which the analysis makes everywhere
    let cases = [
        ("several processors", "[host]\nprocessors = 2\n", "users = 6\ncompute = { exponential = \"20ms\" }\n", 0.15),
        ("as many as users", "[host]\nprocessors = 4\n", "users = 4\ncompute = { exponential = \"20ms\" }\n", 0.08),
        (
            "think times",
            "",
            "users = 20\nthink = { exponential = \"1s\" }\ncompute = { exponential = \"30ms\" }\n",
            0.05,
        ),
        ("writes", "", "users = 5\nread_share = 0.6\nsize = \"8KB\"\ncompute = { exponential = \"25ms\" }\n", 0.05),
        ("arrivals", "", "rate = \"20/s\"\ncompute = { exponential = \"30ms\" }\n", 0.05),
        (
            "two loads",
            "",
            "users = 3\ncompute = { exponential = \"40ms\" }\n[[workload]]\nrate = \"10/s\"\n\
             compute = { exponential = \"10ms\" }\n",
            0.08,
        ),
    ];
    let mut rows = Vec::new();
    for (name, host, load, max_error) in cases {
        let [reckoned, simulated] = solve_and_simulate(&format!("{host}{DISK}{load}"), 2000);
        let apart = [reckoned.0 / simulated.0 - 1.0, reckoned.1 / simulated.1 - 1.0];
        rows.push(format!("{name}: {:+.3} {:+.3}", apart[0], apart[1]));
        assert!(apart.iter().all(|apart| apart.abs() < max_error), "{rows:?}");
    }
    // work shorter than a turn, where the processor is all that counts
    let nvme = "[[drive]]\nmodel = \"samsung-980pro-1tb\"\n[[workload]]\nusers = 4\ncompute = \"500us\"\n";
    let [reckoned, simulated] = solve_and_simulate(nvme, 20);
    assert!(reckoned.0 <= 2000.0 && (reckoned.0 / simulated.0 - 1.0).abs() < 0.03, "{reckoned:?} {simulated:?}");
}

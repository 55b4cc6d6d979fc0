//! Requests per second of complete simulated systems on one core.
//!
//!     cargo bench -p diskwright-simulator --bench systems [-- --only PART-OF-A-NAME] [--seconds N]
//!
//! `--seconds` makes each line one run of that many simulated seconds, for counting instructions. With `--tiny`, and
//! when `cargo test` runs it, it runs a little only, to see that it works; then the numbers are meaningless.

#![allow(clippy::disallowed_macros, reason = "a benchmark prints its table")]

use std::sync::Arc;
use std::time::Instant;

use diskwright_simulator::ArrayLevel;
use diskwright_simulator::DeviceModel;
use diskwright_simulator::Simulation;
use diskwright_simulator::catalogue;
use diskwright_simulator::diskspecs;
use diskwright_simulator::drive::{Model, QueuePolicy};
use diskwright_simulator::load::{ClosedSpec, LoadSpec, OltpSpec, OperationClass, OperationTransfer, RequestSizes};
use diskwright_simulator::system::{ArraySpec, Channel, Controller, DriveGroupSpec, System, Workload, WorkloadTarget};

const SECOND: u64 = 1_000_000_000;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let has = |wanted: &str| arguments.iter().any(|a| a == wanted);
    let tiny = has("--tiny") || !has("--bench");
    let given_seconds = arguments.iter().skip_while(|a| *a != "--seconds").nth(1).and_then(|n| n.parse().ok());
    let (rounds, seconds) = match given_seconds {
        Some(seconds) => (1, seconds),
        None if tiny => (1, 20),
        None => (5, 20_000),
    };
    let model = disk_model();
    println!("# {}: 4 KB at random; million device I/Os a second of one core", model.name());
    print_line("one drive, one user", rounds, seconds * 2, &one_drive(&model, 1, QueuePolicy::FirstComeFirstServed));
    print_line(
        "one drive, one user, ten times as long",
        rounds.min(3),
        seconds * 20,
        &one_drive(&model, 1, QueuePolicy::FirstComeFirstServed),
    );
    print_line(
        "one drive, 16 users, shortest positioning",
        rounds,
        seconds,
        &one_drive(&model, 16, QueuePolicy::ShortestPositioning),
    );
    print_line(
        "one drive on a channel, one user",
        rounds,
        seconds,
        &on_channel(one_drive(&model, 1, QueuePolicy::FirstComeFirstServed)),
    );
    for users in [8, 32] {
        for writes in [0.0, 0.5, 1.0] {
            let name = format!("RAID 5 of 8, {users} users, {:.0} % writes", writes * 100.0);
            print_line(&name, rounds, seconds / 4, &raid5_system(&model, users, writes));
        }
    }
    // cost of a transaction's requests, compared with plain ones at the same positions: the goal is at most twice as
    // much
    let large = catalogue::find_entry("st4000nm0023").expect("in the catalogue").build_device().expect("possible");
    print_line("4 TB: 32 users, half of 8 KB writes", rounds, seconds, &large_disk(&large, plain_load(8192, 0.5)));
    print_line("4 TB: transactions of 32 users", rounds, seconds, &large_disk(&large, transaction_load()));
    print_line(
        "RAID 5 of 8, 32 users, half writes, ten times as long",
        rounds.min(3),
        seconds * 5 / 2,
        &raid5_system(&model, 32, 0.5),
    );
}

fn disk_model() -> Arc<Model> {
    let name = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/drives/disk7200.diskspecs");
    let load = |path: &str| std::fs::read_to_string(path).map_err(|e| e.to_string());
    let text = load(name).unwrap_or_else(|e| panic!("{name}: {e}"));
    let drive = diskspecs::read_drive(name, &text, &load).unwrap_or_else(|e| panic!("{e}"));
    Arc::new(Model::new(&drive.spec).unwrap_or_else(|e| panic!("{name}: {e}")))
}

fn users_load(users: u32, writes: f64) -> LoadSpec {
    let transfer = OperationTransfer { read_share: 1.0 - writes, ..OperationTransfer::default() };
    closed_load(users, transfer)
}

fn plain_load(bytes: u64, writes: f64) -> LoadSpec {
    let bytes = RequestSizes::One(bytes);
    closed_load(32, OperationTransfer { read_share: 1.0 - writes, bytes, ..OperationTransfer::default() })
}

/// On as many pages as the disk holds, half a billion.
fn transaction_load() -> LoadSpec {
    LoadSpec::Oltp(OltpSpec { users: 32, buffers: 1 << 20, ..OltpSpec::default() })
}

fn closed_load(users: u32, transfer: OperationTransfer) -> LoadSpec {
    LoadSpec::Closed(ClosedSpec {
        users,
        classes: vec![OperationClass::with_transfer("4k", 1.0, transfer)],
        ..ClosedSpec::default()
    })
}

fn one_drive(model: &Arc<Model>, users: u32, order: QueuePolicy) -> System {
    let drives = DriveGroupSpec { order, ..DriveGroupSpec::new("disk", 1, DeviceModel::Mechanical(Arc::clone(model))) };
    let workload =
        Workload { name: "users".into(), targets: vec![WorkloadTarget::Drive(0)], load: users_load(users, 0.0) };
    System { drives: vec![drives], workloads: vec![workload], ..System::new("one drive") }
}

fn large_disk(device: &DeviceModel, load: LoadSpec) -> System {
    let workload = Workload { name: "users".into(), targets: vec![WorkloadTarget::Drive(0)], load };
    let drives = vec![DriveGroupSpec::new("disk", 1, device.clone())];
    System { drives, workloads: vec![workload], ..System::new("a large disk") }
}

fn on_channel(mut system: System) -> System {
    system.controllers = vec![Controller::new("adapter")];
    let channel = Channel {
        name: "scsi".into(),
        controller: Some(0),
        rate: Some(20_000_000),
        overhead_ns: 100_000,
        disconnects: true,
    };
    system.channels = vec![channel];
    system.drives[0].channel = Some(0);
    system
}

fn raid5_system(model: &Arc<Model>, users: u32, writes: f64) -> System {
    let workload =
        Workload { name: "users".into(), targets: vec![WorkloadTarget::Array(0)], load: users_load(users, writes) };
    System {
        drives: vec![DriveGroupSpec::new("disk", 8, DeviceModel::Mechanical(Arc::clone(model)))],
        arrays: vec![ArraySpec::new("set", ArrayLevel::Raid5, (0..8).collect())],
        workloads: vec![workload],
        ..System::new("RAID 5 of eight")
    }
}

/// True if a line is selected: all are, unless `--only` names a part of it.
fn is_wanted(name: &str) -> bool {
    let mut arguments = std::env::args().skip_while(|a| a != "--only").skip(1);
    arguments.next().is_none_or(|part| name.contains(&part))
}

fn print_line(name: &str, rounds: u32, seconds: u64, system: &System) {
    if !is_wanted(name) {
        return;
    }
    let mut system = system.clone();
    system.watch.warm_up = SECOND;
    system.watch.duration = seconds * SECOND;
    let mut rates = Vec::new();
    let (mut ios, mut done) = (0, 0.0);
    for _ in 0..rounds {
        let mut simulation = Simulation::new(&system).unwrap_or_else(|e| panic!("{e}"));
        let started = Instant::now();
        let report = simulation.run_without_samples();
        let wall_s = started.elapsed().as_secs_f64();
        ios = report.components.iter().map(|part| part.counts.reads + part.counts.writes).sum();
        done = report.workloads[0].counts.request_count() as f64 / report.elapsed_s();
        rates.push(ios as f64 / wall_s / 1e6);
    }
    rates.sort_by(f64::total_cmp);
    let (middle, best) = (rates[rates.len() / 2], rates[rates.len() - 1]);
    println!("{name:56} {middle:7.2} (best {best:.2}) of {ios:9} I/Os; the system does {done:.1} requests/s");
}

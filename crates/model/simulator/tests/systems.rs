//! Complete systems in virtual time, compared with hand-computed results.

use std::sync::Arc;

use diskwright_simulator::ArrayLevel;
use diskwright_simulator::Ns;
use diskwright_simulator::array::{ArrayPolicy, ParityUpdate};
use diskwright_simulator::cache::BlockCacheSpec;
use diskwright_simulator::device::{DeviceModel, PlainSpec};
use diskwright_simulator::load::AccessPattern;
use diskwright_simulator::load::{ClosedSpec, LoadSpec, OperationClass, OperationTransfer as Transfer, RequestSizes};
use diskwright_simulator::service_time::ServiceTimeDistribution;
use diskwright_simulator::system::*;
use diskwright_simulator::{ComponentKind, Simulation, SimulationReport};

const MS: Ns = 1_000_000;
const SECOND: Ns = 1000 * MS;

/// A device with a service time of `ms` milliseconds.
fn plain(ms: u64, servers: u32) -> DeviceModel {
    let service = ServiceTimeDistribution::Constant(ms * MS);
    let spec = PlainSpec { name: "plain".into(), blocks: 1 << 22, servers, service, bytes_per_s: f64::INFINITY };
    DeviceModel::Plain(Arc::new(spec))
}

fn users(users: u32, spec: Transfer) -> LoadSpec {
    LoadSpec::Closed(ClosedSpec {
        users,
        classes: vec![OperationClass::with_transfer("io", 1.0, spec)],
        ..ClosedSpec::default()
    })
}

fn reads(bytes: u64) -> Transfer {
    Transfer { bytes: RequestSizes::One(bytes), ..Transfer::default() }
}

fn writes(bytes: u64) -> Transfer {
    Transfer { read_share: 0.0, ..reads(bytes) }
}

fn workload_on(target: WorkloadTarget, load: LoadSpec) -> Vec<Workload> {
    vec![Workload { name: "users".into(), targets: vec![target], load }]
}

fn system(drives: Vec<DriveGroupSpec>, workloads: Vec<Workload>) -> System {
    let watch = WatchSpec { warm_up: SECOND, duration: 20 * SECOND, ..WatchSpec::default() };
    System { watch, drives, workloads, ..System::new("test") }
}

fn run(system: &System) -> SimulationReport {
    Simulation::new(system).expect("a possible system").run_without_samples()
}

fn rate(report: &SimulationReport) -> f64 {
    report.workloads[0].counts.request_count() as f64 / report.elapsed_s()
}

fn assert_near(value: f64, wanted: f64, share: f64) {
    assert!((value / wanted - 1.0).abs() <= share, "{value} where {wanted} is right");
}

#[test]
fn a_saturated_drive_obeys_littles_law() {
    let system = system(
        vec![DriveGroupSpec::new("d", 1, plain(10, 1))],
        workload_on(WorkloadTarget::Drive(0), users(4, reads(4096))),
    );
    let report = run(&system);
    assert_near(rate(&report), 100.0, 0.001);
    let drive = report.find_component("d").expect("the drive");
    assert_eq!(drive.kind, ComponentKind::Drive);
    assert_near(drive.utilisation(), 1.0, 1e-9);
    assert_near(drive.totals.mean_queue(), 4.0, 1e-9);
    // four users, 100 a second: Little's law
    assert_near(report.workloads[0].responses.mean().expect("some"), 40e6, 0.01);
    assert_eq!(report.bottleneck().map(|c| c.name.as_str()), Some("d"));
    assert_eq!(drive.counts.bytes_read, drive.counts.reads * 4096);
}

#[test]
fn the_path_is_as_fast_as_its_slowest_part() {
    // 64 KB: 4 drives of 1 ms could do 4000/s; the channel of 20 MB/s carries 305,
    // the bus 2014, a processor at 1 ms 1000
    let mut system =
        system(vec![DriveGroupSpec { channel: Some(0), ..DriveGroupSpec::new("d", 4, plain(1, 1)) }], vec![]);
    for drive in 0..4 {
        system.workloads.extend(workload_on(WorkloadTarget::Drive(drive), users(8, reads(65_536))));
    }
    system.host = HostSpec { processors: 2, interrupt_ns: MS, ..HostSpec::default() };
    system.buses = vec![Bus { name: "pci".into(), rate: 132_000_000, overhead_ns: 0 }];
    system.controllers = vec![Controller { bus: Some(0), command_ns: 100_000, ..Controller::new("adapter") }];
    let channel =
        Channel { name: "scsi".into(), controller: Some(0), rate: Some(20_000_000), overhead_ns: 0, disconnects: true };
    system.channels = vec![channel];
    let report = run(&system);
    let all: f64 = report.workloads.iter().map(|w| w.counts.request_count() as f64 / report.elapsed_s()).sum();
    assert_near(all, 20e6 / 65_536.0, 0.005);
    assert_eq!(report.bottleneck().map(|c| c.name.as_str()), Some("scsi"));
    assert_near(report.find_component("pci").expect("bus").utilisation(), all * 65_536.0 / 132e6, 0.01);
    assert_near(report.find_component("adapter").expect("controller").utilisation(), all * 1e-4, 0.01);
    // two processors share an interrupt of 1 ms a request
    assert_near(report.find_component("processors").expect("processors").utilisation(), all * 1e-3 / 2.0, 0.01);
    assert_near(report.interrupts / report.elapsed_s(), all, 0.01);
}

#[test]
fn programmed_transfers_cost_processors_every_byte_and_every_sector() {
    let mut system = system(
        vec![DriveGroupSpec { channel: Some(0), ..DriveGroupSpec::new("d", 1, plain(10, 1)) }],
        workload_on(WorkloadTarget::Drive(0), users(1, reads(65_536))),
    );
    system.host.interrupt_ns = 20_000;
    let transfer = TransferMode::Pio { interrupt_blocks: 1, byte_ps: 100_000 };
    system.controllers = vec![Controller { transfer, ..Controller::new("ide") }];
    system.channels =
        vec![Channel { name: "cable".into(), controller: Some(0), rate: None, overhead_ns: 0, disconnects: false }];
    let report = run(&system);
    // W27: 128 interrupts of 64 KB; 10 ms + 128 x 20 us + 65536 x 0.1 us = 19.1 ms
    assert_near(report.interrupts / rate(&report) / report.elapsed_s(), 128.0, 0.001);
    assert_near(rate(&report), 1e3 / (10.0 + 2.56 + 6.5536), 0.001);
    assert_near(report.interrupt_ns / report.elapsed_s() / 1e9, rate(&report) * 9.1136e-3, 0.01);
    // a port of one command at a time has not done with it before the processor has moved the bytes
    system.host.processors = 2;
    system.controllers[0].max_outstanding = Some(1);
    system.workloads = workload_on(WorkloadTarget::Drive(0), users(3, reads(65_536)));
    assert_near(rate(&run(&system)), 1e3 / (10.0 + 2.56 + 6.5536), 0.001);
}

#[test]
fn a_small_write_to_raid_5_is_four_member_ios_in_two_turns() {
    let drives = vec![DriveGroupSpec::new("d", 5, plain(10, 1))];
    let mut system = system(drives, workload_on(WorkloadTarget::Array(0), users(1, writes(4096))));
    system.arrays = vec![ArraySpec::new("set", ArrayLevel::Raid5, (0..5).collect())];
    let report = run(&system);
    assert_near(rate(&report), 1.0 / 0.020, 0.001);
    assert_eq!(report.arrays[0].counts.writes * 4, report.arrays[0].member_ios);
    // the host computes: what is folded in for each write, between reading and writing
    system.host.xor_byte_ps = 1_000_000;
    let slower = run(&system);
    let processors = slower.find_component("processors").expect("processors");
    let each = processors.totals.service_ns as f64 * 1e-9 / slower.arrays[0].counts.writes as f64;
    assert_near(rate(&slower), 1.0 / (0.020 + each), 0.001);
    // the old and the new data of 4 KB are folded into the old parity, at 1 us a byte
    assert_near(each, 2.0 * 4096.0 * 1e-6, 0.001);
    assert!(slower.find_component("set parity").is_none());
}

#[test]
fn a_controller_hides_its_members_from_the_host() {
    let drives = vec![DriveGroupSpec::new("d", 5, plain(10, 1))];
    let mut system = system(drives, workload_on(WorkloadTarget::Array(0), users(1, writes(4096))));
    system.host.interrupt_ns = 1000;
    system.controllers = vec![Controller { xor_byte_ps: 1_000_000, command_ns: MS, ..Controller::new("raid") }];
    system.arrays =
        vec![ArraySpec { run_by: RunBy::Controller(0), ..ArraySpec::new("set", ArrayLevel::Raid5, (0..5).collect()) }];
    let report = run(&system);
    let parity = report.find_component("raid parity").expect("its engine");
    assert!(parity.totals.service_ns > 0 && report.find_component("processors").expect("host").totals.service_ns > 0);
    assert_near(report.interrupts / report.elapsed_s(), rate(&report), 0.01);
    assert_near(rate(&report), 1.0 / (0.021 + 1e-6 + parity.totals.response_s()), 0.001);
}

#[test]
fn failed_members_are_read_from_the_others_and_rebuilt_onto_a_spare() {
    let drives = vec![DriveGroupSpec::new("d", 4, plain(1, 1))];
    let mut system = system(drives, workload_on(WorkloadTarget::Array(0), users(1, reads(4096))));
    // 64 MB a member in steps of 1 MB, 10 MB/s: 6.7 s
    let rebuild = Some(BackgroundWork { step_blocks: 2048, depth: 1, rate: Some(10 << 20) });
    let set = ArraySpec {
        member_blocks: Some(131_072),
        failed: vec![1],
        spares: vec![3],
        rebuild,
        ..ArraySpec::new("set", ArrayLevel::Raid5, vec![0, 1, 2])
    };
    system.arrays = vec![set];
    let report = run(&system);
    let background = report.arrays[0].background.expect("a rebuild");
    assert_eq!((background.done_bytes, background.all_bytes), (64 << 20, 64 << 20));
    assert_near(background.ended_ns.expect("ended") as f64, 6.4e9, 0.03);
    assert_eq!(report.arrays[0].members, [0, 3, 2]);
    assert_eq!(report.arrays[0].lost_blocks, 0);
    // without a spare every third read costs two
    system.arrays[0].spares = Vec::new();
    let degraded = run(&system);
    assert!(degraded.arrays[0].background.is_none());
    let each = degraded.arrays[0].member_ios as f64 / degraded.arrays[0].counts.reads as f64;
    assert_near(each, 4.0 / 3.0, 0.02);
}

/// Requests per second of one array of plain drives, and member I/Os per request.
fn parity_array_rates(members: u32, by: ParityUpdate, spec: Transfer, outstanding: u32) -> (f64, f64) {
    let drives = vec![DriveGroupSpec::new("d", members, plain(10, 1))];
    let mut system = system(drives, workload_on(WorkloadTarget::Array(0), users(outstanding, spec)));
    let policy = ArrayPolicy { write_by: by, ..ArrayPolicy::default() };
    system.arrays = vec![ArraySpec { policy, ..ArraySpec::new("set", ArrayLevel::Raid5, (0..members).collect()) }];
    let report = run(&system);
    let array = &report.arrays[0];
    (rate(&report), array.member_ios as f64 / array.counts.writes.max(1) as f64)
}

#[test]
fn a_stream_of_small_writes_becomes_whole_rows_where_md_runs_the_array() {
    let stream = |bytes| Transfer { access: AccessPattern::Sequential { streams: 1 }, ..writes(bytes) };
    // five members, rows of four units of 64 KB, eight units under way: two rows, five writes of each
    let (requests, each) = parity_array_rates(5, ParityUpdate::Md, stream(65_536), 8);
    assert_near(each, 5.0 / 4.0, 0.01);
    assert_near(requests, 400.0, 0.01);
    let (_, apart) = parity_array_rates(5, ParityUpdate::Fewest, stream(65_536), 8);
    assert!(apart > 3.0, "each by itself is read and modified: {apart}");
    // one at a time there is nothing to gather, and nothing waits
    assert_eq!(
        parity_array_rates(5, ParityUpdate::Md, stream(65_536), 1),
        parity_array_rates(5, ParityUpdate::Fewest, stream(65_536), 1)
    );
    // random writes have no rows in common
    assert_eq!(
        parity_array_rates(5, ParityUpdate::Md, writes(4096), 8),
        parity_array_rates(5, ParityUpdate::Fewest, writes(4096), 8)
    );
}

#[test]
fn large_requests_are_split_and_gates_hold() {
    let mut system = system(
        vec![DriveGroupSpec { channel: Some(0), ..DriveGroupSpec::new("d", 1, plain(10, 4)) }],
        workload_on(WorkloadTarget::Drive(0), users(1, reads(262_144))),
    );
    system.controllers = vec![Controller { transfer_blocks: Some(128), ..Controller::new("adapter") }];
    system.channels =
        vec![Channel { name: "c".into(), controller: Some(0), rate: None, overhead_ns: 0, disconnects: true }];
    // four parts side by side in 10 ms
    assert_near(rate(&run(&system)), 100.0, 0.001);
    system.controllers[0].max_outstanding = Some(2);
    assert_near(rate(&run(&system)), 50.0, 0.001);
}

#[test]
fn the_file_cache_answers_what_it_holds() {
    let spec = Transfer {
        cached: true,
        part: diskwright_simulator::load::TargetPart::Bytes { from: 0, bytes: 1 << 20 },
        ..reads(4096)
    };
    let mut system =
        system(vec![DriveGroupSpec::new("d", 1, plain(1, 1))], workload_on(WorkloadTarget::Drive(0), users(2, spec)));
    system.host.cache = Some(BlockCacheSpec { bytes: 4 << 20, ..BlockCacheSpec::default() });
    system.host.copy_byte_ps = 1_000_000;
    system.watch.warm_up = 30 * SECOND;
    let report = run(&system);
    // all of 1 MB was read while it warmed up: 4 KB at 1 us a byte on one processor
    assert_near(rate(&report), 1e6 / 4096.0, 0.001);
    assert_eq!(report.find_component("d").expect("the drive").counts.reads, 0);
}

#[test]
fn one_seed_gives_one_result() {
    let mut system = system(
        vec![DriveGroupSpec::new("d", 4, plain(3, 1))],
        workload_on(WorkloadTarget::Array(0), users(6, Transfer { read_share: 0.6, ..reads(8192) })),
    );
    system.arrays = vec![ArraySpec::new("set", ArrayLevel::Raid5, (0..4).collect())];
    let text = |seed| {
        let mut system = system.clone();
        system.watch.seed = seed;
        let report = run(&system);
        format!("{:?} {:?}", report.components, report.arrays)
    };
    assert_eq!(text(1), text(1));
    assert_ne!(text(1), text(2));
}

#[test]
fn devices_report_the_utilization_of_their_scarcest_part() {
    let full = |id: &str, load| {
        let device = diskwright_simulator::catalogue::find_entry(id)
            .expect("in the catalogue")
            .build_device()
            .expect("possible");
        let mut system = system(vec![DriveGroupSpec::new("d", 1, device)], workload_on(WorkloadTarget::Drive(0), load));
        system.watch.duration = 2 * SECOND;
        let report = run(&system);
        let drive = report.find_component("d").expect("the drive");
        (drive.utilisation(), drive.totals.busy_share(), rate(&report))
    };
    // one user keeps an SSD at work all the time, and uses little of it
    let (used, busy, _) = full("samsung-980pro-1tb", users(1, reads(4096)));
    assert!(used < 0.2 && busy > 0.9, "{used} {busy}");
    // a volume of 3,000 operations a second that is asked for more
    let (used, _, rate) = full("aws-gp3", users(64, reads(4096)));
    assert!((0.97..=1.0).contains(&used), "{used}");
    assert_near(rate, 3000.0, 0.03);
}

//! Complete systems with caches, compared with hand-computed results.

use std::sync::Arc;

use diskwright_simulator::ArrayLevel;
use diskwright_simulator::Ns;
use diskwright_simulator::cache::{BlockCacheSpec, CacheReadAhead, WriteBackPolicy, WritePolicy};
use diskwright_simulator::device::{DeviceModel, PlainSpec};
use diskwright_simulator::load::{
    AccessPattern, Bursts, ClosedSpec, DurationDistribution, LoadSpec, OpenSpec, OperationClass, OperationTransfer,
    RequestSizes, TargetPart,
};
use diskwright_simulator::service_time::ServiceTimeDistribution;
use diskwright_simulator::system::*;
use diskwright_simulator::{Simulation, SimulationReport};

const MS: Ns = 1_000_000;
const SECOND: Ns = 1000 * MS;

/// Drives with a service time of 10 ms.
fn drives(count: u32) -> Vec<DriveGroupSpec> {
    let service = ServiceTimeDistribution::Constant(10 * MS);
    let spec = PlainSpec { name: "plain".into(), blocks: 1 << 22, servers: 1, service, bytes_per_s: f64::INFINITY };
    vec![DriveGroupSpec::new("d", count, DeviceModel::Plain(Arc::new(spec)))]
}

fn transfer_of(read_share: f64, bytes: u64) -> OperationTransfer {
    OperationTransfer { read_share, bytes: RequestSizes::One(bytes), ..OperationTransfer::default() }
}

fn users(users: u32, spec: OperationTransfer) -> LoadSpec {
    LoadSpec::Closed(ClosedSpec {
        users,
        classes: vec![OperationClass::with_transfer("io", 1.0, spec)],
        ..ClosedSpec::default()
    })
}

fn workload_on(target: WorkloadTarget, load: LoadSpec) -> Workload {
    Workload { name: "load".into(), targets: vec![target], load }
}

fn system(count: u32, workloads: Vec<Workload>) -> System {
    let watch = WatchSpec { warm_up: 0, duration: 20 * SECOND, ..WatchSpec::default() };
    System { watch, drives: drives(count), workloads, ..System::new("test") }
}

/// A RAID 5 of five drives behind a controller that needs 0.1 ms per request and has a cache.
fn raid(cache: Option<BlockCacheSpec>, workloads: Vec<Workload>) -> System {
    let mut system = system(5, workloads);
    system.controllers = vec![Controller { command_ns: MS / 10, cache, ..Controller::new("raid") }];
    system.arrays =
        vec![ArraySpec { run_by: RunBy::Controller(0), ..ArraySpec::new("set", ArrayLevel::Raid5, (0..5).collect()) }];
    system
}

/// 16 MB behind a battery: all of it may be dirty, and flushes start at once.
fn battery() -> BlockCacheSpec {
    let back = WriteBackPolicy {
        dirty_limit: 1.0,
        flush_at: 0.0,
        flush_after: None,
        coalesce_blocks: 128,
        ..WriteBackPolicy::default()
    };
    BlockCacheSpec {
        bytes: 16 << 20,
        read_ahead: CacheReadAhead::None,
        write: WritePolicy::Back(back),
        ..BlockCacheSpec::default()
    }
}

fn run(system: &System) -> (SimulationReport, Vec<SimulationReport>) {
    let mut samples = Vec::new();
    let report = Simulation::new(system).expect("a possible system").run(|sample| samples.push(sample.clone()));
    (report, samples)
}

fn rate(report: &SimulationReport, workload: usize) -> f64 {
    report.workloads[workload].counts.request_count() as f64 / report.elapsed_s()
}

fn assert_near(value: f64, wanted: f64, share: f64) {
    assert!((value / wanted - 1.0).abs() <= share, "{value} where {wanted} is right");
}

#[test]
fn a_battery_takes_a_burst_and_then_the_members_limit() {
    let load = || vec![workload_on(WorkloadTarget::Array(0), users(8, transfer_of(0.0, 4096)))];
    let (_, samples) = run(&raid(Some(battery()), load()));
    // 4096 pages at 10,000 a second take less than half a second; from then on
    // five drives do 100 I/Os a second each, and a small write costs four
    assert!(rate(&samples[0], 0) > 4096.0, "{}", rate(&samples[0], 0));
    let settled = samples[5..].iter().map(|sample| rate(sample, 0)).sum::<f64>() / samples[5..].len() as f64;
    assert_near(settled, 5.0 * 100.0 / 4.0, 0.06);
    let cache = &samples[10].caches[0].counters;
    assert_eq!((cache.dirty_blocks, cache.writes_posted), (4096 * 8, 0));
    // without a cache the burst is no faster than what follows
    let (plain, _) = run(&raid(None, load()));
    assert!(rate(&plain, 0) <= 125.0);
    let through = BlockCacheSpec { write: WritePolicy::Through, ..battery() };
    let (through, _) = run(&raid(Some(through), load()));
    assert_near(rate(&through, 0), rate(&plain, 0), 0.02);
}

#[test]
fn bursts_that_fit_are_answered_at_the_speed_of_the_cache() {
    // 400 a second for a second, then nine of rest: 40 a second of the 125 that the members can do
    let bursts =
        Some(Bursts { on: DurationDistribution::Constant { s: 1.0 }, off: DurationDistribution::Constant { s: 9.0 } });
    let classes = vec![OperationClass::with_transfer("io", 1.0, transfer_of(0.0, 4096))];
    let open = OpenSpec { gap: DurationDistribution::Constant { s: 0.0025 }, bursts, classes, ..OpenSpec::default() };
    let mut cached = raid(Some(battery()), vec![workload_on(WorkloadTarget::Array(0), LoadSpec::Open(open))]);
    cached.watch.duration = 100 * SECOND;
    let (report, _) = run(&cached);
    assert_near(report.workloads[0].responses.mean().expect("some"), 1e5, 0.001);
    assert!(report.caches[0].counters.writes_waited == 0 && report.caches[0].counters.writes_posted >= 3900);
    cached.controllers[0].cache = None;
    let (plain, _) = run(&cached);
    assert!(plain.workloads[0].responses.mean().expect("some") > 5e8);
}

#[test]
fn posted_writes_go_at_the_disks_pace() {
    let cached = OperationTransfer { cached: true, ..transfer_of(0.0, 4096) };
    let ordered = OperationTransfer { access: AccessPattern::Sequential { streams: 1 }, ..cached.clone() };
    // at random one page a time; in order 128 blocks
    for (load, pages) in [(cached.clone(), 1.0), (ordered, 16.0)] {
        let mut system = system(1, vec![workload_on(WorkloadTarget::Drive(0), users(4, load))]);
        system.host.copy_byte_ps = 100_000;
        let back =
            WriteBackPolicy { dirty_limit: 0.5, flush_at: 0.2, coalesce_blocks: 128, ..WriteBackPolicy::default() };
        system.host.cache =
            Some(BlockCacheSpec { bytes: 4 << 20, write: WritePolicy::Back(back), ..BlockCacheSpec::default() });
        system.watch.warm_up = 5 * SECOND;
        let (report, _) = run(&system);
        assert_near(rate(&report, 0), 100.0 * pages, 0.02);
        assert_near(report.find_component("d").expect("the drive").utilisation(), 1.0, 1e-6);
        let counters = &report.caches[0].counters;
        assert_near(counters.blocks_flushed as f64 / counters.flush_ios as f64, 8.0 * pages, 0.02);
    }
    // one cache keeps all of its drives at work
    let loads = (0..3).map(|drive| workload_on(WorkloadTarget::Drive(drive), users(4, cached.clone()))).collect();
    let mut system = system(3, loads);
    let back = WriteBackPolicy { dirty_limit: 0.5, flush_at: 0.2, flush_depth: 4, ..WriteBackPolicy::default() };
    system.host.cache =
        Some(BlockCacheSpec { bytes: 16 << 20, write: WritePolicy::Back(back), ..BlockCacheSpec::default() });
    system.host.copy_byte_ps = 100_000;
    system.watch.warm_up = 5 * SECOND;
    let (report, _) = run(&system);
    for drive in ["d0", "d1", "d2"] {
        assert_near(report.find_component(drive).expect("a drive").utilisation(), 1.0, 1e-3);
    }
}

#[test]
fn posted_writes_below_what_the_disks_can_do_cost_processor_time_only() {
    // 50 a second of 100 possible
    let classes =
        vec![OperationClass::with_transfer("io", 1.0, OperationTransfer { cached: true, ..transfer_of(0.0, 4096) })];
    let open = OpenSpec { gap: DurationDistribution::Exponential { mean_s: 0.02 }, classes, ..OpenSpec::default() };
    let mut system = system(1, vec![workload_on(WorkloadTarget::Drive(0), LoadSpec::Open(open))]);
    let back = WriteBackPolicy { flush_after: Some(SECOND), ..WriteBackPolicy::default() };
    system.host = HostSpec { request_ns: MS, interrupt_ns: MS / 2, copy_byte_ps: 100_000, ..HostSpec::default() };
    system.host.cache =
        Some(BlockCacheSpec { bytes: 4 << 20, write: WritePolicy::Back(back), ..BlockCacheSpec::default() });
    system.watch = WatchSpec { warm_up: 5 * SECOND, duration: 100 * SECOND, ..system.watch };
    let (report, _) = run(&system);
    // copying takes 0.41 ms; sometimes the processor is at work for those that go down
    let mean = report.workloads[0].responses.mean().expect("some");
    assert!(mean > 409_600.0 && mean < 1_000_000.0, "{mean}");
    let counters = &report.caches[0].counters;
    assert_near(counters.write_ios as f64, counters.total_writes() as f64, 0.05);
    assert_near(report.find_component("d").expect("the drive").utilisation(), 0.01 * rate(&report, 0), 0.05);
    // when one is dirty for a second, all that are go
    let dirty_pages = counters.dirty_block_ns as f64 / 8.0 / (report.to - report.from) as f64;
    let rate = rate(&report, 0);
    assert!(dirty_pages > 0.5 * rate && dirty_pages < 1.5 * rate, "{dirty_pages}");
}

#[test]
fn a_controllers_read_ahead_makes_a_reader_of_small_records_fast() {
    let read = CacheReadAhead::Doubling { from: 128, to: 128 };
    let small = OperationTransfer { access: AccessPattern::Sequential { streams: 1 }, ..transfer_of(1.0, 8192) };
    for (early, runs_per_s) in [(false, 1e9 / (10e6 + 8.0 * 1e5)), (true, 100.0)] {
        let cache =
            BlockCacheSpec { bytes: 1 << 20, read_ahead: read, starts_early: early, ..BlockCacheSpec::default() };
        let mut system = system(1, vec![workload_on(WorkloadTarget::Drive(0), users(1, small.clone()))]);
        system.controllers = vec![Controller { command_ns: MS / 10, cache: Some(cache), ..Controller::new("adapter") }];
        system.channels =
            vec![Channel { name: "c".into(), controller: Some(0), rate: None, overhead_ns: 0, disconnects: true }];
        system.drives[0].channel = Some(0);
        let (report, _) = run(&system);
        // each 10 ms brings eight records; early, while those before are asked for
        assert_near(rate(&report, 0), runs_per_s * 8.0, 0.01);
        assert!(report.caches[0].counters.reads_hit * 8 >= report.workloads[0].counts.reads * 6);
    }
}

#[test]
fn a_file_cache_above_a_controllers_cache() {
    // the lower one takes whatever comes in no time; so does a long row of flushes
    let back = WriteBackPolicy {
        dirty_limit: 0.9,
        flush_at: 0.9,
        flush_after: Some(2 * SECOND),
        ..WriteBackPolicy::default()
    };
    let spec = BlockCacheSpec {
        bytes: 64 << 20,
        read_ahead: CacheReadAhead::None,
        write: WritePolicy::Back(back),
        ..BlockCacheSpec::default()
    };
    let small = OperationTransfer {
        cached: true,
        part: TargetPart::Bytes { from: 0, bytes: 256 << 20 },
        ..transfer_of(0.5, 4096)
    };
    let mut system = system(2, vec![workload_on(WorkloadTarget::Array(0), users(2, small))]);
    system.host = HostSpec { cache: Some(spec), copy_byte_ps: 20_000, ..HostSpec::default() };
    let below = BlockCacheSpec { bytes: 512 << 20, ..spec };
    system.controllers = vec![Controller { cache: Some(below), ..Controller::new("raid") }];
    system.arrays =
        vec![ArraySpec { run_by: RunBy::Controller(0), ..ArraySpec::new("set", ArrayLevel::Raid1, vec![0, 1]) }];
    let (report, _) = run(&system);
    let [upper, lower] = [&report.caches[0].counters, &report.caches[1].counters];
    assert!(upper.flush_ios > 1000, "{upper:?}");
    // what one sends is what the other gets
    let waiting = [lower.total_reads(), lower.total_writes()].map(|n| n as i64);
    assert!(waiting[0] <= upper.read_ios as i64 && waiting[0] + 40 > upper.read_ios as i64);
    assert!(waiting[1] <= upper.write_ios as i64 && waiting[1] + 40 > upper.write_ios as i64);
    let members = report.arrays[0].counts;
    assert!(members.reads <= lower.read_ios && members.writes <= lower.write_ios);
}

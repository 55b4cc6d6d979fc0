//! Loads of the documents in complete systems, compared with hand-computed results.

use std::sync::Arc;

use diskwright_simulator::Ns;
use diskwright_simulator::device::{DeviceModel, PlainSpec};
use diskwright_simulator::load::*;
use diskwright_simulator::service_time::ServiceTimeDistribution;
use diskwright_simulator::system::{DriveGroupSpec, HostSpec, System, WatchSpec, Workload, WorkloadTarget};
use diskwright_simulator::{Simulation, SimulationReport};

const MS: Ns = 1_000_000;
const SECOND: Ns = 1000 * MS;

/// So many drives of 1 GiB that need a millisecond for anything.
fn system(drives: u32, load: LoadSpec) -> System {
    let service = ServiceTimeDistribution::Constant(MS);
    let spec = PlainSpec { name: "plain".into(), blocks: 1 << 21, servers: 1, service, bytes_per_s: f64::INFINITY };
    let targets = (0..drives).map(WorkloadTarget::Drive).collect();
    System {
        watch: WatchSpec { warm_up: 0, duration: 100 * SECOND, ..WatchSpec::default() },
        drives: vec![DriveGroupSpec::new("d", drives, DeviceModel::Plain(Arc::new(spec)))],
        workloads: vec![Workload { name: "load".into(), targets, load }],
        ..System::new("test")
    }
}

fn run(system: &System) -> SimulationReport {
    Simulation::new(system).expect("a possible system").run(|_| {})
}

fn assert_near(value: f64, wanted: f64, share: f64) {
    assert!((value / wanted - 1.0).abs() <= share, "{value} where {wanted} is right");
}

/// A MiB of 8192 records in four runs, merged at once: 80 requests, 0.12288 s of computing.
fn example_sort() -> SortSpec {
    SortSpec {
        data_bytes: 1 << 20,
        record_bytes: 128,
        key_bytes: 0,
        memory_factor: 1.0,
        memory_bytes: 256 << 10,
        merge_bytes: 32 << 10,
        cached: false,
        ..SortSpec::default()
    }
}

#[test]
fn a_sort_takes_its_requests_and_its_comparisons() {
    let time = |drives, spec: SortSpec| {
        let report = run(&system(drives, LoadSpec::Sort(spec)));
        let sort = &report.workloads[0].operations[0];
        assert_eq!((sort.totals.done, report.workloads[0].counts.request_count()), (1, 80));
        sort.totals.mean_response_s()
    };
    assert_near(time(1, example_sort()), 0.080 + 0.12288, 1e-5);
    // ahead of itself: the processor is never idle for long, and a disk of its own for runs helps
    let two = time(1, SortSpec { window: 2, ..example_sort() });
    let work = Region { target: 1, part: TargetPart::All };
    let apart = time(2, SortSpec { window: 2, work, ..example_sort() });
    assert!(apart < two && two < 0.19 && apart > 0.12288, "{two} {apart}");
}

#[test]
fn two_sorts_share_one_processor() {
    let mut both = system(2, LoadSpec::Sort(example_sort()));
    both.workloads.push(Workload { targets: vec![WorkloadTarget::Drive(1)], ..both.workloads[0].clone() });
    let last = |report: &SimulationReport| {
        report.workloads.iter().map(|w| w.operations[0].totals.mean_response_s()).fold(0.0, f64::max)
    };
    let one = last(&run(&both));
    both.host = HostSpec { processors: 2, ..HostSpec::default() };
    let two = last(&run(&both));
    // with a processor each they are as if alone
    assert_near(two, 0.20288, 1e-5);
    assert!(one > 2.0 * 0.12288 && one < 2.0 * 0.20288, "{one}");
}

#[test]
fn a_scan_is_as_fast_as_its_drives_while_it_reads_ahead() {
    let files = (0..4).map(|target| Region { target, part: TargetPart::All }).collect();
    let scan = ScanSpec { files, degree: 4, ahead: 16, ..ScanSpec::default() };
    let mut system = system(4, LoadSpec::Scan(scan));
    system.watch = WatchSpec { warm_up: SECOND, duration: 20 * SECOND, ..WatchSpec::default() };
    let report = run(&system);
    // four drives, a thousand extents a second each, but for the beginnings and ends of queries of 1024 extents
    let rate = report.workloads[0].counts.request_count() as f64 / report.elapsed_s();
    assert!(rate > 3700.0 && rate <= 4000.0, "{rate}");
    for drive in 0..4 {
        let drive = report.find_component(&format!("d{drive}")).expect("a drive");
        assert!(drive.utilisation() > 0.92 && drive.totals.mean_queue() <= 32.0);
    }
    assert_eq!(
        report.workloads[0].operations[0].totals.bytes,
        report.workloads[0].counts.bytes_read
            + 65_536 * (report.workloads[0].operations[0].totals.requests - report.workloads[0].counts.reads)
    );
}

#[test]
fn clients_and_transactions_obey_the_interactive_law() {
    let think = DurationDistribution::Exponential { mean_s: 0.05 };
    let netbench = NetbenchSpec { clients: 30, think, cached: false, ..NetbenchSpec::default() };
    let oltp = OltpSpec { users: 30, think, pages: 4, ..OltpSpec::default() };
    for (load, users) in [(LoadSpec::Netbench(netbench), 30.0), (LoadSpec::Oltp(oltp), 30.0)] {
        let mut system = system(1, load);
        system.watch = WatchSpec { warm_up: 5 * SECOND, duration: 200 * SECOND, ..WatchSpec::default() };
        let report = run(&system);
        let operations = &report.workloads[0].operations;
        let classes = if operations[0].name == "transaction" { 1 } else { operations.len() };
        let done: u64 = operations[..classes].iter().map(|o| o.totals.done).sum();
        let response: f64 =
            operations[..classes].iter().map(|o| o.totals.total_response_ns as f64 * 1e-9).sum::<f64>() / done as f64;
        // U = X (R + Z)
        assert_near(done as f64 / report.elapsed_s() * (response + 0.05), users, 0.01);
    }
}

#[test]
fn a_trace_comes_at_its_times_and_all_of_it_is_done() {
    let requests: Arc<[TraceRequest]> = (0..5000)
        .map(|n| TraceRequest {
            arrival_ns: n * 2 * MS,
            pause_ns: MS,
            first_block: n * 100,
            blocks: 8,
            target: 0,
            write: n % 3 == 0,
        })
        .collect();
    let spec = |timing| TraceSpec { requests: requests.clone(), timing, fold: false, cached: false };
    let report = run(&system(1, LoadSpec::Trace(spec(Timing::Open { scale: 1.0 }))));
    assert_eq!(report.workloads[0].counts.request_count(), 5000);
    assert_near(report.workloads[0].responses.mean().expect("some"), 1e6, 1e-6);
    assert_near(report.elapsed_s(), 9.999, 0.001);
    // twice as fast as it can: the last one waits for half of all
    let report = run(&system(1, LoadSpec::Trace(spec(Timing::Open { scale: 0.25 }))));
    assert_near(report.elapsed_s(), 5.0, 0.001);
    assert_near(report.workloads[0].responses.max().expect("some") as f64, 2.5e9, 0.01);
    // one after the other, a pause of a millisecond after each
    let report = run(&system(1, LoadSpec::Trace(spec(Timing::Closed { depth: 1, scale: 1.0 }))));
    assert_near(report.elapsed_s(), 9.999, 0.001);
}

#[test]
fn posting_to_a_slow_drive_fills_buffers_and_not_memory() {
    let posted = OperationTransfer { posted: true, read_share: 0.0, ..OperationTransfer::default() };
    let load =
        ClosedSpec { classes: vec![OperationClass::with_transfer("post", 1.0, posted)], ..ClosedSpec::default() };
    let mut simulation = Simulation::new(&system(1, LoadSpec::Closed(load))).expect("a possible system");
    simulation.run_until(SECOND);
    // buffers were filled at once, and one more is waited for; a thousand are done
    assert!((60_000..=65_537).contains(&simulation.in_flight_count()), "{}", simulation.in_flight_count());
}

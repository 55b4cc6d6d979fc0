//! A simulation's intervals as samples: every column has its cell, and they add up to the report of the whole run.

use diskwright_base::topology::{DeviceClass, RaidLevel};
use diskwright_base::{Frame, LatencyColumns, LatencyHistogram, LatencyOperation};
use diskwright_simulator::Simulation;
use diskwright_simulator::System;
use diskwright_simulator::sample_rows::{EPOCH_NS, SampleRows};
use diskwright_simulator::system::read::read;

const SYSTEM: &str = r#"
[watch]
warm_up = "1s"
duration = "20s"
[host]
processors = 2
request = "0.2ms"
interrupt = "0.1ms"
other_interrupts = "50/s"
[[controller]]
command = "1ms"
rate = "40MB/s"
[[channel]]
rate = "10MB/s"
[[drive]]
name = "d"
count = 5
model = "st32171w"
[[array]]
name = "set"
level = 5
drives = "d0-3"
spares = "d4"
failed = [1]
rebuild = { rate = "2MB/s" }
[[workload]]
users = 6
read_share = 0.5
size = "8KB"
compute = "1ms"
"#;

fn system() -> System {
    read("a.toml", SYSTEM, &[], &|_| Err(String::new())).unwrap_or_else(|problems| panic!("{problems}")).system
}

#[test]
fn intervals_add_up_to_the_whole() {
    let system = system();
    let mut samples = SampleRows::new(&system);
    let schema = samples.schema().clone();
    let (mut rows, mut ticks) = (Vec::new(), Vec::new());
    let report = Simulation::new(&system).expect("possible").run(|report| {
        let mut row = Vec::new();
        ticks.push(samples.build_row(report, &mut row));
        assert_eq!(row.len(), schema.series.len());
        assert!(row.iter().all(|cell| cell.is_finite()), "{row:?}");
        rows.push(row);
    });
    assert_eq!(ticks.len(), 20);
    assert_eq!((ticks[0].time_ns - EPOCH_NS, ticks[0].elapsed_ns), (2_000_000_000, 1_000_000_000));
    let column = |counter: &str, instance: &str| schema.column(counter, instance).expect(counter);
    let sum = |counter: &str, instance: &str| rows.iter().map(|row| row[column(counter, instance)]).sum::<f64>();
    let near = |a: f64, b: f64| assert!((a - b).abs() <= 1e-6 * b.abs().max(1.0), "{a} {b}");
    let set = &report.arrays[0];
    near(sum("physical_disk.reads", "set"), set.counts.reads as f64);
    near(sum("physical_disk.write_bytes", "set"), set.counts.bytes_written as f64);
    let drive = report.find_component("d0").expect("d0");
    near(sum("physical_disk.writes", "d0"), drive.counts.writes as f64);
    near(sum("physical_disk.busy_time_s", "d0"), drive.totals.busy_ns as f64 / 1e9);
    near(sum("physical_disk.utilisation", "d0") / 20.0, drive.utilisation());
    assert!(schema.column("physical_disk.utilisation", "set").is_none(), "an array has no parts of its own");
    near(
        sum("physical_disk.read_time_s", "d0") + sum("physical_disk.write_time_s", "d0"),
        drive.totals.response_ns as f64 / 1e9,
    );
    near(sum("interrupts.total", ""), report.interrupts);
    near(sum("interrupts.clock", ""), 1000.0);
    let times = ["user_s", "system_s", "irq_s", "idle_s"].map(|t| sum(&format!("processor.{t}"), "_total"));
    near(times.iter().sum(), 40.0);
    assert!(times.iter().all(|time| *time > 0.1), "{times:?}");
    // the rebuild is slow enough to be under way all of the time
    assert_eq!((sum("array.background", "set"), sum("array.failed", "set")), (20.0, 20.0));
    let (low, high) = (sum("array.sync_bytes", "set"), 2e6 * 20.0);
    assert!(low > 0.5 * high && low <= high * 1.1, "{low}");
    // what was rebuilt while the system warmed up is not of the first second; a step is of half a megabyte
    let first = rows[0][column("array.sync_bytes", "set")];
    assert!(first <= 3e6, "{first}");
    let busy = sum("controller.busy", "controller") / 20.0;
    assert!(busy > 0.05 && busy <= 1.0, "{busy}");
}

#[test]
fn the_topology_is_that_of_the_description() {
    let samples = SampleRows::new(&system());
    let topology = samples.topology();
    let set = topology.find_device("set").expect("the array");
    assert_eq!((set.level, set.missing, set.below.len()), (Some(RaidLevel::Raid5), 1, 4));
    assert_eq!(topology.leaves_under("set"), ["d0", "d1", "d2", "d3"]);
    let drive = topology.find_device("d0").expect("a drive");
    assert_eq!((drive.class, drive.link_bytes_per_s), (DeviceClass::Rotational, Some(10e6)));
}

#[test]
fn samples_carry_the_callers_time() {
    let mut system = system();
    system.watch.duration = system.watch.interval;
    let report = Simulation::new(&system).expect("possible").run_without_samples();
    let tick = |mut samples: SampleRows| samples.build_row(&report, &mut Vec::new()).time_ns;
    let own = 1_800_000_000_000_000_000;
    assert_eq!(tick(SampleRows::starting_at(&system, own)) - own, tick(SampleRows::new(&system)) - EPOCH_NS);
    assert_eq!(tick(SampleRows::starting_at(&system, i64::MAX)), i64::MAX);
}

/// As in a trace of a real machine, each request of each interval is in one step, and the mean within a step.
#[test]
fn distributions_count_each_request_once() {
    let system = system();
    let mut samples = SampleRows::new(&system).with_latency();
    let mut all: Vec<(String, LatencyOperation, LatencyHistogram)> = Vec::new();
    let report = Simulation::new(&system).expect("possible").run(|report| {
        let mut row = Vec::new();
        let tick = samples.build_row(report, &mut row);
        let mut frame = Frame::new(samples.schema().clone(), 1);
        frame.push(tick, &row);
        for group in LatencyColumns::from_schema(frame.schema()).groups {
            let known = all.iter().position(|(device, op, _)| *device == group.device && *op == group.operation);
            let index = known.unwrap_or_else(|| {
                all.push((group.device.clone(), group.operation, LatencyHistogram::default()));
                all.len() - 1
            });
            all[index].2.merge(&group.histogram(&frame, 0..1));
        }
    });
    let found = |device: &str, operation| {
        let found = all.iter().find(|(d, o, _)| d == device && *o == operation);
        found.map(|(_, _, histogram)| histogram).expect("requests")
    };
    let (set, drive) = (&report.arrays[0].counts, &report.find_component("d0").expect("d0").counts);
    for (device, counts) in [("set", set), ("d0", drive)] {
        let (reads, writes) = (found(device, LatencyOperation::Read), found(device, LatencyOperation::SyncWrite));
        assert_eq!((reads.count(), writes.count()), (counts.reads, counts.writes), "{device}");
        let mean = counts.read_ns as f64 / counts.reads as f64;
        assert!((reads.mean_ns().expect("reads") / mean - 1.0).abs() < 0.032, "{device}");
    }
}

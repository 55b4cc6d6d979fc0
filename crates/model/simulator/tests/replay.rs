//! Replays: the demerit figure by hand, the channel's time derived from hits, and measured drives if their traces are
//! available.

use std::path::PathBuf;
use std::sync::Arc;

use diskwright_simulator::DeviceModel;
use diskwright_simulator::Io;
use diskwright_simulator::Simulation;
use diskwright_simulator::diskspecs;
use diskwright_simulator::drive::{MechanicalDrive, Model};
use diskwright_simulator::load::{LoadSpec, Timing, TraceRequest, TraceSpec};
use diskwright_simulator::replay::{Replay, ReplayRequest, channel_block_time, demerit_s};
use diskwright_simulator::system::{DriveGroupSpec, System, WatchSpec, Workload, WorkloadTarget};

/// Sorted, the pairs are (1, 2), (3, 3) and (8, 4) seconds: the root of (1 + 0 + 16) / 3.
#[test]
fn demerit_matches_a_hand_computed_value() {
    const S: u64 = 1_000_000_000;
    let demerit = demerit_s(&[8 * S, S, 3 * S], &[3 * S, 2 * S, 4 * S]).expect("three of both");
    assert!((demerit - (17.0_f64 / 3.0).sqrt()).abs() < 1e-12, "{demerit}");
    assert_eq!(demerit_s(&[S, 2 * S], &[2 * S, S]), Some(0.0));
    assert_eq!(demerit_s(&[], &[]), None);
    assert_eq!(demerit_s(&[S], &[S, S]), None);
}

fn read(file: &str) -> diskspecs::DiskspecsDrive {
    let load = |path: &str| std::fs::read_to_string(path).map_err(|e| e.to_string());
    let text = load(file).unwrap_or_else(|e| panic!("{file}: {e}"));
    diskspecs::read_drive(file, &text, &load).unwrap_or_else(|e| panic!("{e}"))
}

fn own_drive(block_ns: u64) -> Arc<Model> {
    let mut spec = read(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/drives/disk7200.diskspecs")).spec;
    (spec.channel.read_block, spec.channel.write_block) = (block_ns, block_ns);
    Arc::new(Model::new(&spec).expect("possible"))
}

/// Streams of four reads and a write, as a drive with this channel serves them.
fn make_trace(block_ns: u64) -> Vec<ReplayRequest> {
    let mut drive = MechanicalDrive::new(&own_drive(block_ns));
    let mut requests = Vec::new();
    let mut now = 0;
    for n in 0..400_u64 {
        let (stream, step) = (n / 5, n % 5);
        let first = stream * 7919 % 300 * 10_000 + step * 8;
        let io = Io { first, blocks: 8, write: step == 4 };
        let done = drive.start(now, &io).done_at;
        let pause = 20_000_000 + n * 1_000_003 % 9_000_000;
        requests.push(ReplayRequest { io, response_ns: done - now, pause_ns: pause });
        now = done + pause;
    }
    requests
}

/// The same requests as a workload of a complete system in which only the drive takes time.
#[test]
fn a_trace_in_a_system_is_a_replay() {
    let (model, requests) = (own_drive(51_200), make_trace(51_200));
    let replay = Replay::replay_requests(&model, requests.iter().copied());
    let pauses = std::iter::once(0).chain(requests.iter().map(|one| one.pause_ns));
    let recorded = requests.iter().zip(pauses).map(|(one, pause)| {
        let Io { first, blocks, write } = one.io;
        TraceRequest { arrival_ns: 0, pause_ns: pause, first_block: first, blocks, target: 0, write }
    });
    let timing = Timing::Closed { depth: 1, scale: 1.0 };
    let trace = TraceSpec { requests: recorded.collect(), timing, fold: false, cached: false };
    let workload = Workload { name: "t".into(), targets: vec![WorkloadTarget::Drive(0)], load: LoadSpec::Trace(trace) };
    let system = System {
        watch: WatchSpec { warm_up: 0, ..WatchSpec::default() },
        drives: vec![DriveGroupSpec::new("d", 1, DeviceModel::Mechanical(model))],
        workloads: vec![workload],
        ..System::new("replay")
    };
    let report = Simulation::new(&system).expect("possible").run(|_| {});
    assert_eq!(report.workloads[0].counts.request_count(), 400);
    let mean_s = report.workloads[0].responses.mean().expect("some") * 1e-9;
    let wanted_s = replay.predicted_mean_s().expect("some");
    assert!((mean_s / wanted_s - 1.0).abs() < 1e-6, "{mean_s} {wanted_s}");
}

#[test]
fn a_drive_replays_itself() {
    let requests = make_trace(51_200);
    let replay = Replay::replay_requests(&own_drive(51_200), requests.iter().copied());
    assert_eq!(replay.demerit_s(), Some(0.0));
    assert_eq!(replay.measured_mean_s(), replay.predicted_mean_s());
    assert_eq!((replay.reads.requests, replay.writes.requests), (320, 80));
    let parts: u64 = replay.by_hit.iter().map(|p| p.requests).sum();
    assert_eq!(parts, 400);
    let spent = replay.spent;
    let sum = spent.waiting_s + spent.overhead_s + spent.seek_s + spent.rotation_s + spent.media_s + spent.channel_s;
    let all = replay.reads.predicted_s + replay.writes.predicted_s;
    assert!((sum - all).abs() < all * 0.02, "{sum} of {all}");
}

#[test]
fn the_channel_time_is_derived_from_hits() {
    let requests = make_trace(80_000);
    let (read, write) = channel_block_time(&own_drive(0), &requests).expect("enough hits");
    assert!(read.abs_diff(80_000) < 200 && write.abs_diff(80_000) < 200, "{read} {write}");
    assert_eq!(channel_block_time(&own_drive(0), &requests[..20]), None);
}

/// Hits of one to twelve blocks and, fewer, of 33 to 64, as a drive with this channel serves them. Those of more blocks
/// than `late_above` last a turn longer, as if they had waited for the disk.
fn make_hits(block_ns: u64, late_above: u32) -> Vec<ReplayRequest> {
    let mut drive = MechanicalDrive::new(&own_drive(block_ns));
    let (mut requests, mut now) = (Vec::new(), 0);
    for n in 0..300_u32 {
        let blocks = if n % 5 == 0 { 64 - n / 5 % 32 } else { 1 + n % 12 };
        let first = u64::from(n) * 7919 % 300 * 10_000;
        let late_ns = if blocks > late_above { 8_333_333 } else { 0 };
        for (blocks, late_ns, pause_ns) in [(64, 0, 1_000_000), (blocks, late_ns, 20_000_000)] {
            let io = Io { first, blocks, write: false };
            let done = drive.start(now, &io).done_at;
            requests.push(ReplayRequest { io, response_ns: done - now + late_ns, pause_ns });
            now = done + pause_ns;
        }
    }
    requests
}

/// Six of the 32 large sizes are late; a line of least squares would be at 128 us.
#[test]
fn a_few_large_requests_do_not_tilt_the_channel_time() {
    for late_above in [64, 58] {
        let requests = make_hits(80_000, late_above);
        let (read, write) = channel_block_time(&own_drive(0), &requests).expect("enough hits");
        assert!(read.abs_diff(80_000) < 500 && write == read, "{read} {write}, late above {late_above}");
    }
}

/// A measured drive: its files, the block times of its bus where the drive does not specify them (as in DiskSim's own
/// validation), and DiskSim 4.0's demerit on the same trace, ms: the larger of the one from our run and the one that
/// its validation script expects.
struct MeasuredDrive {
    trace: &'static str,
    drive: &'static str,
    bus: Option<(u64, u64)>,
    bar_ms: f64,
}

const MEASURED: [MeasuredDrive; 6] = [
    MeasuredDrive { trace: "atlas_III", drive: "atlas_III", bus: None, bar_ms: 0.378 },
    MeasuredDrive { trace: "barracuda", drive: "barracuda", bus: None, bar_ms: 0.348 },
    MeasuredDrive { trace: "cheetah9LP", drive: "cheetah9LP", bus: None, bar_ms: 0.108 },
    MeasuredDrive { trace: "dec_rz26", drive: "dec_rz26", bus: Some((70_690, 70_690)), bar_ms: 0.341 },
    MeasuredDrive { trace: "hp_c2247a", drive: "hp_c2247a", bus: Some((170_100, 186_860)), bar_ms: 0.094 },
    MeasuredDrive { trace: "hp_c3323a", drive: "hp_c3323a_validate", bus: Some((145_500, 145_500)), bar_ms: 0.306 },
];

/// Folder of the measured traces: the one that `DISKWRIGHT_SAMPLES` names, or `shared/samples` beside the checkout.
fn samples() -> PathBuf {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../../shared/samples");
    std::env::var_os("DISKWRIGHT_SAMPLES").map_or_else(|| PathBuf::from(beside), PathBuf::from).join("drive-validation")
}

fn measured(line: &str) -> Option<ReplayRequest> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let [operation, _, first, blocks, response, pause] = fields[..] else { return None };
    let ns = |text: &str| text.parse::<f64>().ok().map(|us| (us * 1000.0).round() as u64);
    let io = Io { first: first.parse().ok()?, blocks: blocks.parse().ok()?, write: operation == "W" };
    Some(ReplayRequest { io, response_ns: ns(response)?, pause_ns: ns(pause)? })
}

#[test]
fn measured_drives_are_as_near_as_disksim() {
    let folder = samples();
    if !folder.is_dir() {
        eprintln!("skipped: no traces in {} (DISKWRIGHT_SAMPLES tells where samples are)", folder.display());
        return;
    }
    for MeasuredDrive { trace, drive, bus, bar_ms } in MEASURED {
        let found = read(&folder.join(format!("{drive}.diskspecs")).display().to_string());
        let text = std::fs::read_to_string(folder.join(format!("{trace}.trace"))).expect("trace");
        let requests: Vec<ReplayRequest> = text.lines().filter_map(measured).collect();
        let mut spec = found.spec;
        assert_eq!(found.has_channel_time, bus.is_none(), "{trace}");
        if let Some(bus) = bus {
            let model = Arc::new(Model::new(&spec).expect("possible"));
            let (read, _) = channel_block_time(&model, &requests).expect("hits");
            assert!(read.abs_diff(bus.0) * 25 < bus.0, "{trace}: {read} ns from hits, {} reported", bus.0);
            (spec.channel.read_block, spec.channel.write_block) = bus;
        }
        let model = Arc::new(Model::new(&spec).expect("possible"));
        let demerit_ms = Replay::replay_requests(&model, requests).demerit_s().expect("requests") * 1e3;
        // to the precision of DiskSim's published figures
        assert!((demerit_ms * 1e3).round() <= bar_ms * 1e3, "{trace}: {demerit_ms} ms, at most {bar_ms}");
    }
}

//! Values judged a second of one core's time, by the default pack, on a server of 24
//! disks and 16 processors: alone, and with the log decoded first. A value is
//! one stored cell: one series at one tick.
//!
//! `--tiny` runs a little of it, to see that it still runs, as `cargo test` does.

use std::sync::Arc;
use std::time::Instant;

use diskwright_base::{Device, DeviceClass, Frame, Note, RaidLevel, Schema, Series, Tick, Topology};
use diskwright_datastore::{LogItem, LogReader, LogWriter, WriterOptions};
use diskwright_diagnosis::{Judge, JudgeOptions, Verdict, packs};

const DISKS: usize = 24;
const PROCESSORS: usize = 16;
/// Ticks of a frame, about those of a block of the datastore.
const FRAME: usize = 256;
const SECOND: u64 = 1_000_000_000;

/// Stored counters of a disk, their scale, and what an idle, a calm and a
/// saturated disk adds a second.
const DISK: &[(&str, f64, [f64; 3])] = &[
    ("reads", 1.0, [0.0, 40.0, 900.0]),
    ("reads_merged", 1.0, [0.0, 2.0, 10.0]),
    ("read_bytes", 512.0, [0.0, 320.0, 7200.0]),
    ("read_time_s", 1e-3, [0.0, 20.0, 27_000.0]),
    ("writes", 1.0, [0.0, 20.0, 100.0]),
    ("writes_merged", 1.0, [0.0, 4.0, 20.0]),
    ("write_bytes", 512.0, [0.0, 400.0, 1600.0]),
    ("write_time_s", 1e-3, [0.0, 15.0, 3000.0]),
    ("current_queue_length", 1.0, [0.0, 0.0, 12.0]),
    ("busy_time_s", 1e-3, [0.0, 30.0, 998.0]),
    ("weighted_time_s", 1e-3, [0.0, 36.0, 30_000.0]),
    ("discards", 1.0, [0.0, 0.0, 0.0]),
    ("discards_merged", 1.0, [0.0, 0.0, 0.0]),
    ("discard_bytes", 512.0, [0.0, 0.0, 0.0]),
    ("discard_time_s", 1e-3, [0.0, 0.0, 0.0]),
    ("flushes", 1.0, [0.0, 1.0, 8.0]),
    ("flush_time_s", 1e-3, [0.0, 1.0, 40.0]),
    ("stalled", 1.0, [0.0, 0.0, 0.0]),
];

/// Counters of the machine: object, counter, scale, value.
const MACHINE: &[(&str, f64, f64)] = &[
    ("memory.total_bytes", 1024.0, 16e6),
    ("memory.available_bytes", 1024.0, 9e6),
    ("memory.free_bytes", 1024.0, 2e6),
    ("memory.buffers_bytes", 1024.0, 1e5),
    ("memory.cached_bytes", 1024.0, 6e6),
    ("memory.dirty_bytes", 1024.0, 5e4),
    ("memory.writeback_bytes", 1024.0, 1e3),
    ("memory.anonymous_bytes", 1024.0, 5e6),
    ("memory.committed_bytes", 1024.0, 7e6),
    ("memory.commit_limit_bytes", 1024.0, 12e6),
    ("memory.swap_total_bytes", 1024.0, 4e6),
    ("memory.swap_free_bytes", 1024.0, 4e6),
    ("memory.dirty_threshold_bytes", 4096.0, 4e5),
    ("memory.dirty_background_threshold_bytes", 4096.0, 2e5),
    ("paging.faults", 1.0, 4000.0),
    ("paging.major_faults", 1.0, 1.0),
    ("paging.swap_in_pages", 1.0, 0.0),
    ("paging.swap_out_pages", 1.0, 0.0),
    ("paging.refaults_file", 1.0, 3.0),
    ("paging.refaults_anon", 1.0, 0.0),
    ("paging.block_in_bytes", 1024.0, 9000.0),
    ("paging.block_out_bytes", 1024.0, 4000.0),
    ("paging.scanned_pages", 1.0, 0.0),
    ("paging.allocation_stalls", 1.0, 0.0),
    ("pressure.cpu_some_s", 1e-6, 9e3),
    ("pressure.io_some_s", 1e-6, 4e5),
    ("pressure.io_full_s", 1e-6, 1e5),
    ("pressure.memory_some_s", 1e-6, 0.0),
    ("pressure.memory_full_s", 1e-6, 0.0),
    ("interrupts.total", 1.0, 9000.0),
    ("interrupts.clock", 1.0, 2000.0),
    ("interrupts.network", 1.0, 1500.0),
    ("interrupts.disk", 1.0, 3000.0),
    ("interrupts.softirq_block", 1.0, 3000.0),
    ("interrupts.softirq_net_rx", 1.0, 1500.0),
    ("system.context_switches", 1.0, 20_000.0),
    ("system.running", 1.0, 3.0),
    ("system.blocked", 1.0, 2.0),
];

/// The server's load: how many of its disks are saturated, and whether they are an array.
#[derive(Clone, Copy)]
struct Load {
    name: &'static str,
    saturated: usize,
    array: bool,
    /// One cell of a hundred is a gap.
    gaps: bool,
}

const LOADS: &[Load] = &[
    Load { name: "calm", saturated: 0, array: false, gaps: false },
    Load { name: "all disks saturated", saturated: DISKS, array: false, gaps: false },
    Load { name: "all disks saturated, with gaps", saturated: DISKS, array: false, gaps: true },
    Load { name: "one array, saturated", saturated: DISKS, array: true, gaps: false },
];

fn disk_name(number: usize) -> String {
    format!("sd{}", (b'a' + number as u8) as char)
}

/// Series and what each adds a second.
fn server(load: Load) -> (Schema, Vec<f64>) {
    let (mut series, mut values) = (Vec::new(), Vec::new());
    let mut add = |counter: String, instance: &str, scale: f64, value: f64| {
        series.push(Series { counter, instance: instance.into(), scale });
        values.push(value);
    };
    for disk in 0..DISKS {
        let state = if disk < load.saturated { 2 } else { usize::from(disk % 3 == 0) };
        for (counter, scale, levels) in DISK {
            add(format!("physical_disk.{counter}"), &disk_name(disk), *scale, levels[state]);
        }
    }
    for processor in 0..=PROCESSORS {
        let name = if processor == 0 { "_total".into() } else { format!("cpu{}", processor - 1) };
        let each = if processor == 0 { PROCESSORS as f64 } else { 1.0 };
        let shares = [("user_s", 20.0), ("nice_s", 0.0), ("system_s", 8.0), ("idle_s", 66.0), ("iowait_s", 4.0)];
        let more = [("irq_s", 0.0), ("softirq_s", 2.0), ("steal_s", 0.0), ("guest_s", 0.0)];
        for (counter, value) in shares.into_iter().chain(more) {
            add(format!("processor.{counter}"), &name, 0.01, value * each);
        }
    }
    for (counter, scale, value) in MACHINE {
        add((*counter).into(), "", *scale, *value);
    }
    (Schema::new(series), values)
}

fn topology(load: Load) -> Note {
    let mut devices: Vec<Device> = (0..DISKS)
        .map(|d| Device { name: disk_name(d), class: DeviceClass::Rotational, ..Device::default() })
        .collect();
    if load.array {
        let below = (0..DISKS).map(disk_name).collect();
        devices.push(Device { name: "md0".into(), below, level: Some(RaidLevel::Raid6), ..Device::default() });
    }
    let topology = Topology { devices, processors: PROCESSORS as u32, ..Topology::default() };
    Note::new(0, Note::TOPOLOGY, serde_json::to_string(&topology).expect("a topology is JSON"))
}

/// A row that wavers around the values, whole numbers as the kernel's are.
fn waver(values: &[f64], gaps: bool, row: &mut Vec<f64>, state: &mut u64) {
    row.clear();
    for value in values {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let part = (*state >> 40) as f64 / (1 << 24) as f64;
        let gap = gaps && part < 0.01;
        row.push(if gap { f64::NAN } else { (value * (0.9 + 0.2 * part)).round() });
    }
}

/// Seconds that this thread has run, so that whoever shares the machine does
/// not count; the clock where the kernel does not tell.
fn ran(since: Instant) -> f64 {
    let schedstat = std::fs::read_to_string("/proc/thread-self/schedstat");
    let ns = schedstat.ok().and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
    ns.map_or_else(|| since.elapsed().as_secs_f64(), |ns| ns / 1e9)
}

fn tick(number: usize) -> Tick {
    Tick { time_ns: (number as i64 + 1) * SECOND as i64, elapsed_ns: SECOND }
}

fn options(ticks: usize) -> JudgeOptions {
    JudgeOptions { expected: Some((0, (ticks as u64 * SECOND) as i64)), ..JudgeOptions::default() }
}

fn judge(load: Load, ticks: usize) -> Judge {
    let pack = packs::builtin_pack("default").expect("there is a default pack").expect("it is valid");
    let mut judge = Judge::new(vec![pack], options(ticks));
    judge.add_note(&topology(load));
    judge
}

/// The same frames over and over, `frames` of them; `on` for times that go on,
/// so that the window is long enough for trends.
fn alone(load: Load, frames: usize, on: bool) -> (usize, f64, Verdict) {
    let (schema, values) = server(load);
    let width = schema.series.len();
    let schema = Arc::new(schema);
    let (mut row, mut state) = (Vec::new(), 1);
    // more than the second-level cache holds, as when a decoder wrote them
    let mut ring: Vec<Frame> = Vec::new();
    for number in 0..4 {
        let mut frame = Frame::new(schema.clone(), FRAME);
        for i in 0..FRAME {
            waver(&values, load.gaps, &mut row, &mut state);
            frame.push(tick(number * FRAME + i), &row);
        }
        ring.push(frame);
    }
    let ticks: Vec<Vec<Tick>> =
        (0..frames).map(|number| (0..FRAME).map(|i| tick(if on { number * FRAME + i } else { i })).collect()).collect();
    let mut judge = judge(load, if on { frames * FRAME } else { FRAME });
    judge.add_frame(&ring[0]);
    let began = Instant::now();
    let start = ran(began);
    let count = ring.len();
    for number in 0..frames {
        let frame = &mut ring[number % count];
        frame.set_ticks(&ticks[number]);
        judge.add_frame(frame);
    }
    let verdict = judge.finish().remove(0);
    let seconds = ran(began) - start;
    (frames * FRAME * width, seconds, verdict)
}

/// A log on disk, read and judged; and read alone.
fn from_log(load: Load, ticks: usize) -> Result<(usize, f64, f64, u64), Box<dyn std::error::Error>> {
    let folder = std::env::temp_dir().join(format!("diskwright-judge-{}", std::process::id()));
    let (schema, values) = server(load);
    let width = schema.series.len();
    let schema = Arc::new(schema);
    let mut writer = LogWriter::create_or_append(&folder, WriterOptions::default())?;
    writer.add_note(&topology(load))?;
    let (mut row, mut state) = (Vec::new(), 1);
    for number in 0..ticks {
        waver(&values, load.gaps, &mut row, &mut state);
        writer.push(&schema, tick(number), &row)?;
    }
    writer.close()?;
    let bytes: u64 = std::fs::read_dir(&folder)?.filter_map(|e| e.ok()?.metadata().ok()).map(|m| m.len()).sum();
    let read = |judge: Option<&mut Judge>| -> Result<f64, Box<dyn std::error::Error>> {
        let mut judge = judge;
        let began = Instant::now();
        let start = ran(began);
        let mut reader = LogReader::open(&folder)?;
        let mut frame = Frame::default();
        while let Some(item) = reader.next(&mut frame)? {
            match (item, &mut judge) {
                (LogItem::Frame, Some(judge)) => judge.add_frame(&frame),
                (LogItem::Note(note), Some(judge)) => judge.add_note(&note),
                _ => {}
            }
        }
        Ok(ran(began) - start)
    };
    let decode = read(None)?;
    let mut judge = judge(load, ticks);
    let both = read(Some(&mut judge))?;
    assert_eq!(judge.finish()[0].window.ticks, ticks as u64, "the whole log was judged");
    std::fs::remove_dir_all(&folder)?;
    Ok((ticks * width, decode, both, bytes))
}

/// Most memory that this process ever had resident, MiB.
fn peak_mib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    line.and_then(|l| l.split_whitespace().next()?.parse::<f64>().ok()).map_or(f64::NAN, |kib| kib / 1024.0)
}

/// Seconds to make ready for a schema: the price of a device or container that
/// comes or goes.
fn change(groups: usize, changes: usize) -> (usize, f64) {
    let (mut schema, mut row) = server(LOADS[0]);
    for group in 0..groups {
        for counter in ["memory_bytes", "memory_some_s", "io_some_s", "major_faults", "refaults_file", "cpu_time_s"] {
            let (counter, instance) = (format!("cgroup.{counter}"), format!("/jobs/{group}"));
            schema.series.push(Series { counter, instance, scale: 1.0 });
            row.push(1.0);
        }
    }
    let mut judge = judge(LOADS[2], changes);
    let began = Instant::now();
    let start = ran(began);
    for number in 0..changes {
        // one group is another each time
        let last = schema.series.len() - 6..;
        schema.series[last].iter_mut().for_each(|s| s.instance = format!("/jobs/new-{number}"));
        let mut frame = Frame::new(Arc::new(schema.clone()), 1);
        frame.push(tick(number), &row);
        judge.add_frame(&frame);
    }
    (schema.series.len(), (ran(began) - start) / changes as f64)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // cargo passes --bench when it benches and nothing when it tests
    let has = |flag: &str| std::env::args().any(|a| a == flag);
    let tiny = has("--tiny") || !has("--bench");
    let (frames, ticks) = if tiny { (2, 300) } else { (400, 40_000) };
    // first, for what the peak was before counts too
    for ticks in [ticks / 20, ticks] {
        from_log(LOADS[1], ticks)?;
        eprintln!("a log of {ticks} ticks written, read and judged: at most {:.1} MiB resident", peak_mib());
    }
    for &load in LOADS {
        let (values, seconds, verdict) = alone(load, frames, false);
        let (_, with_trends, _) = alone(load, frames, true);
        let rate = |seconds: f64| values as f64 / seconds / 1e6;
        let each = seconds / values as f64 * 1e9;
        eprintln!(
            "judged, {}: {:.0} million values a second, {each:.2} ns each; with trends {:.0} ({})",
            load.name,
            rate(seconds),
            rate(with_trends),
            verdict.sentence.chars().take(60).collect::<String>()
        );
    }
    let (series, seconds) = change(100, if tiny { 2 } else { 200 });
    eprintln!("a changed schema of {series} series: {:.2} ms", seconds * 1e3);
    for &load in LOADS {
        let (values, decode, both, bytes) = from_log(load, ticks)?;
        let million = |seconds: f64| values as f64 / seconds / 1e6;
        eprintln!(
            "decoded and judged, {}: {:.0} million values a second (decoded alone: {:.0}; {:.2} bytes a value)",
            load.name,
            million(both),
            million(decode),
            bytes as f64 / values as f64
        );
    }
    Ok(())
}

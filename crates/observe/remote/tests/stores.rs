//! Tests with real stores, if they are installed: Debian's `prometheus`,
//! `victoria-metrics` and `prometheus-node-exporter`. Each is started on a free
//! loopback port with its own folder, and stopped with the test.

#![allow(clippy::disallowed_macros, reason = "what a test prints is shown when it fails")]
#![allow(clippy::disallowed_methods, reason = "a test may ask the clock, and wait for a server")]

use std::io::Write;
use std::net::TcpListener;
use std::ops::ControlFlow;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use diskwright_base::{Catalogue, CounterPlan, Device, DeviceClass, Frame, Note, Schema, Series, Tick, Topology};
use diskwright_diagnosis::{Judge, JudgeOptions, Verdict, packs};
use diskwright_logs::LogPiece;
use diskwright_remote::feed::{SeriesFeed, metrics_page};
use diskwright_remote::fleet::{Fleet, stored_counters_for};
use diskwright_remote::host::{self, HostQuery};
use diskwright_remote::{MetricStore, RemoteWriter, Selector, StoreAccess, read_whole_body};

use crate::synthetic;

/// A running store, which is killed when dropped.
struct RunningStore {
    child: Child,
    url: String,
    _folder: tempfile::TempDir,
}

impl Drop for RunningStore {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl RunningStore {
    fn connect_store(&self) -> MetricStore {
        MetricStore::new(&StoreAccess::new(&self.url)).unwrap()
    }
}

fn start_program(program: &str, ready: &str, arguments: impl Fn(&str, &str) -> Vec<String>) -> Option<RunningStore> {
    let folder = tempfile::tempdir().unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let spawned = Command::new(program)
        .args(arguments(&port.to_string(), folder.path().to_str().unwrap()))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let Ok(child) = spawned else {
        println!("skipped: {program} is not installed");
        return None;
    };
    let running = RunningStore { child, url: format!("http://{port}"), _folder: folder };
    let deadline = Instant::now() + Duration::from_secs(60);
    while running.connect_store().get(ready, &[], read_whole_body).is_err() {
        assert!(Instant::now() < deadline, "{program} does not start");
        std::thread::sleep(Duration::from_millis(100));
    }
    Some(running)
}

fn start_victoria_metrics() -> Option<RunningStore> {
    start_program("victoria-metrics", "/health", |port, folder| {
        let data = format!("-storageDataPath={folder}");
        vec![format!("-httpListenAddr={port}"), data, "-search.latencyOffset=0s".into(), "-retentionPeriod=100y".into()]
    })
}

fn start_prometheus() -> Option<RunningStore> {
    start_program("prometheus", "/-/ready", |port, folder| {
        let config = format!("{folder}/prometheus.yml");
        std::fs::write(&config, "global: {scrape_interval: 1h}\n").unwrap();
        vec![
            format!("--web.listen-address={port}"),
            format!("--config.file={config}"),
            format!("--storage.tsdb.path={folder}/data"),
            "--web.enable-remote-write-receiver".into(),
        ]
    })
}

/// Current time rounded to a whole minute, seconds since 1970.
fn now_s() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    i64::try_from(now / 60 * 60).unwrap()
}

const STEP_S: i64 = 15;
const TICKS: i64 = 80;

/// Counter, instance, scale, value per tick, and the addition for each of five steps of a small wave.
const RECORDED: [(&str, &str, f64, f64, f64); 23] = [
    ("physical_disk.reads", "sda", 1.0, 2000.0, 50.0),
    ("physical_disk.read_time_s", "sda", 0.001, 90_000.0, 900.0),
    ("physical_disk.read_bytes", "sda", 512.0, 64_000.0, 0.0),
    ("physical_disk.writes", "sda", 1.0, 300.0, 0.0),
    ("physical_disk.write_time_s", "sda", 0.001, 15_000.0, 0.0),
    ("physical_disk.write_bytes", "sda", 512.0, 9600.0, 0.0),
    ("physical_disk.busy_time_s", "sda", 0.001, 15_000.0, 0.0),
    ("physical_disk.weighted_time_s", "sda", 0.001, 105_000.0, 900.0),
    ("physical_disk.current_queue_length", "sda", 1.0, 8.0, 0.0),
    ("processor.user_s", "_total", 0.01, 300.0, 0.0),
    ("processor.nice_s", "_total", 0.01, 0.0, 0.0),
    ("processor.system_s", "_total", 0.01, 60.0, 0.0),
    ("processor.idle_s", "_total", 0.01, 1800.0, 0.0),
    ("processor.iowait_s", "_total", 0.01, 800.0, 0.0),
    ("processor.irq_s", "_total", 0.01, 0.0, 0.0),
    ("processor.softirq_s", "_total", 0.01, 5.0, 0.0),
    ("processor.steal_s", "_total", 0.01, 0.0, 0.0),
    ("memory.total_bytes", "", 1024.0, 16e6, 0.0),
    ("memory.available_bytes", "", 1024.0, 6e6, 0.0),
    ("pressure.io_some_s", "", 1e-6, 9e6, 0.0),
    ("pressure.memory_some_s", "", 1e-6, 0.0, 0.0),
    ("paging.swap_in_pages", "", 1.0, 0.0, 0.0),
    ("paging.swap_out_pages", "", 1.0, 0.0, 0.0),
];

/// Twenty minutes of a machine whose rotational disk is saturated.
fn write_recording(end_s: i64) -> (Topology, Frame) {
    let of = |&(counter, instance, scale, _, _): &(&str, &str, f64, f64, f64)| Series {
        counter: counter.into(),
        instance: instance.into(),
        scale,
    };
    let mut frame = Frame::new(Arc::new(Schema::new(RECORDED.iter().map(of).collect())), TICKS as usize);
    for tick in 0..TICKS {
        let row = RECORDED.map(|(_, _, _, base, wave)| base + wave * (tick % 5) as f64);
        let time_ns = (end_s - (TICKS - 1 - tick) * STEP_S) * 1_000_000_000;
        frame.push(Tick { time_ns, elapsed_ns: STEP_S as u64 * 1_000_000_000 }, &row);
    }
    let disk = Device { name: "sda".into(), class: DeviceClass::Rotational, ..Device::default() };
    (Topology { host: "db1".into(), processors: 2, devices: vec![disk], ..Topology::default() }, frame)
}

fn judge_host(topology: &Topology, frames: &[Frame]) -> Verdict {
    let mut judge = Judge::new(vec![packs::builtin_pack("default").unwrap().unwrap()], JudgeOptions::default());
    judge.add_note(&Note::new(0, Note::TOPOLOGY, serde_json::to_string(topology).unwrap()));
    frames.iter().for_each(|frame| judge.add_frame(frame));
    judge.finish().remove(0)
}

fn mean(frames: &[Frame], counter: &str, instance: &str) -> f64 {
    let mut sum = diskwright_base::CounterSummary::default();
    let mut value = None;
    for frame in frames {
        let plan = CounterPlan::resolve_counter(Catalogue::builtin(), frame.schema(), counter, instance).unwrap();
        sum.merge_summary(&plan.summarise_ticks(frame, |_| true));
        value = plan.summary_value(&sum);
    }
    value.unwrap()
}

/// Sends a recording to the store by remote write and reads it back.
fn round_trip(store: &RunningStore, flush: &str) {
    let end_s = now_s() - 60;
    let (topology, frame) = write_recording(end_s);
    let mut feed = SeriesFeed::new();
    feed.add_note(&Note::new(0, Note::TOPOLOGY, serde_json::to_string(&topology).unwrap()));
    let labels = vec![("instance".to_owned(), "db1".to_owned()), ("job".to_owned(), "diskwright".to_owned())];
    let to = MetricStore::for_writing(&StoreAccess::new(&store.url)).unwrap();
    let mut writer = RemoteWriter::start(to, labels).unwrap();
    for (index, tick) in frame.ticks().iter().enumerate() {
        let row: Vec<f64> = (0..frame.schema().series.len()).map(|column| frame.column(column)[index]).collect();
        feed.add_tick(*tick, frame.schema(), &row);
        writer.push(feed.snapshot());
    }
    assert_eq!(writer.finish().lost, 0, "{:?}", writer.current_trouble());
    let _ = store.connect_store().get(flush, &[], read_whole_body);
    let wanted = HostQuery {
        selector: Selector::parse("{instance=\"db1\"}").unwrap(),
        host_label: "instance".into(),
        from_ms: (end_s - TICKS * STEP_S) * 1000,
        to_ms: end_s * 1000,
        step_ms: None,
    };
    let (mut frames, mut read) = (Vec::new(), Topology::default());
    let summary = host::read(&store.connect_store(), &wanted, &mut |piece| {
        match piece {
            LogPiece::Frame(frame) => frames.push(frame.clone()),
            LogPiece::Note(note) if note.kind == Note::TOPOLOGY => {
                read = Arc::unwrap_or_clone(note.read_topology().unwrap())
            }
            LogPiece::Note(_) => {}
        }
        ControlFlow::Continue(())
    });
    let summary = summary.unwrap();
    assert!(summary.ticks as i64 >= TICKS - 2, "{} ticks", summary.ticks);
    assert_eq!(summary.foreign, 0);
    let own = [frame];
    for counter in ["reads_per_s", "avg_s_per_read", "avg_queue_length", "busy", "avg_bytes_per_transfer"] {
        let id = format!("physical_disk.{counter}");
        let (before, after) = (mean(&own, &id, "sda"), mean(&frames, &id, "sda"));
        assert!((after / before - 1.0).abs() < 0.02, "{counter}: {before} became {after}");
    }
    assert_eq!(mean(&frames, "memory.total_bytes", ""), mean(&own, "memory.total_bytes", ""));
    assert_eq!(read.find_device("sda").unwrap().class, DeviceClass::Rotational);
    let (before, after) = (judge_host(&topology, &own), judge_host(&read, &frames));
    assert_eq!(before.bottleneck.name(), "disk");
    assert_eq!((after.bottleneck, after.instance), (before.bottleneck, before.instance));
    assert_eq!(after.findings[0].rule, before.findings[0].rule);
}

#[test]
fn a_recording_in_prometheus_gives_the_same_verdict() {
    if let Some(store) = start_prometheus() {
        round_trip(&store, "/-/healthy");
    }
}

#[test]
fn a_recording_in_victoria_metrics_gives_the_same_verdict() {
    if let Some(store) = start_victoria_metrics() {
        round_trip(&store, "/internal/force_flush");
    }
}

/// Deviation of a scrape's time, milliseconds.
fn jitter_ms(n: i64) -> i64 {
    (n * 7919) % 181 - 90
}

/// Number of writes between two scrapes: bursts, so that a scrape counted twice or lost is noticed.
fn writes_between(n: i64) -> f64 {
    if n % 7 == 0 { 10_000.0 } else { (n * 37 % 101) as f64 }
}

/// Machines scraped every 15 s, each a second later than the one before, early or late by up to 90 ms.
fn scraped_at_every_second(store: &RunningStore, flush: &str, end_s: i64) {
    let schema = Arc::new(Schema::new(vec![
        Series { counter: "physical_disk.writes".into(), instance: "sda".into(), scale: 1.0 },
        Series { counter: "system.load_1".into(), instance: String::new(), scale: 1.0 },
        Series { counter: "memory.available_bytes".into(), instance: String::new(), scale: 1.0 },
    ]));
    for offset in 0..STEP_S {
        let labels = vec![("instance".to_owned(), format!("at{offset:02}")), ("job".to_owned(), "made".to_owned())];
        let to = MetricStore::for_writing(&StoreAccess::new(&store.url)).unwrap();
        let mut writer = RemoteWriter::start(to, labels).unwrap();
        let mut feed = SeriesFeed::new();
        for n in 0..TICKS {
            let time_ns = scrape_ms(end_s, offset, n) * 1_000_000;
            feed.add_tick(Tick { time_ns, elapsed_ns: 15_000_000_000 }, &schema, &[writes_between(n), 1.0, 1e9]);
            writer.push(feed.snapshot());
        }
        assert_eq!(writer.finish().lost, 0, "{:?}", writer.current_trouble());
    }
    let _ = store.connect_store().get(flush, &[], read_whole_body);
}

fn scrape_ms(end_s: i64, offset: i64, n: i64) -> i64 {
    (end_s - (TICKS - n) * STEP_S + offset) * 1000 + jitter_ms(n)
}

/// Number of writes in the scrapes of a time range.
fn writes_in_range(end_s: i64, offset: i64, from_ms: i64, to_ms: i64) -> f64 {
    let inside = |n: &i64| (from_ms + 1..=to_ms).contains(&scrape_ms(end_s, offset, *n));
    (0..TICKS).filter(inside).map(writes_between).sum()
}

/// Sum of writes over a frame, and the time range that its ticks cover, milliseconds.
fn sum_of_writes(frame: &Frame) -> (f64, i64, i64) {
    let column = frame.schema().column("physical_disk.writes", "sda").unwrap();
    assert!(frame.column(column).iter().all(|v| !v.is_nan()), "{:?}", frame.column(column));
    let (first, last) = (frame.ticks()[0], *frame.ticks().last().unwrap());
    let from_ms = (first.time_ns - i64::try_from(first.elapsed_ns).unwrap()) / 1_000_000;
    (frame.column(column).iter().sum(), from_ms, last.time_ns / 1_000_000)
}

fn check_totals(store: &RunningStore, flush: &str) {
    let end_s = now_s() - 60;
    scraped_at_every_second(store, flush, end_s);
    // the window begins after the first scrapes, so that each tick has one before it
    let wanted = |matches: &str, step_ms| HostQuery {
        selector: Selector::parse(matches).unwrap(),
        host_label: "instance".into(),
        from_ms: (end_s - (TICKS - 4) * STEP_S) * 1000,
        to_ms: end_s * 1000,
        step_ms,
    };
    for offset in 0..STEP_S {
        for step_ms in [None, Some(60_000), Some(75_000)] {
            let mut frames = Vec::new();
            let only = wanted(&format!("{{instance=\"at{offset:02}\"}}"), step_ms);
            host::read(&store.connect_store(), &only, &mut |piece| {
                if let LogPiece::Frame(frame) = piece {
                    frames.push(frame.clone());
                }
                ControlFlow::Continue(())
            })
            .unwrap();
            let [frame] = frames.as_slice() else { panic!("{} frames", frames.len()) };
            let (sum, from_ms, to_ms) = sum_of_writes(frame);
            assert_eq!(
                sum,
                writes_in_range(end_s, offset, from_ms, to_ms),
                "scraped at {offset} s, ticks of {step_ms:?}"
            );
            let each = (step_ms.unwrap_or(15_000) / 15_000) as f64;
            let column = frame.schema().column("physical_disk.writes", "sda").unwrap();
            let max_value = frame.column(column).iter().copied().fold(0.0, f64::max);
            assert!(
                max_value < 10_000.0 * (each / 7.0).ceil() + 101.0 * each,
                "no tick has a scrape too many: {max_value}"
            );
        }
    }
    let counters = stored_counters_for(["physical_disk.writes", "system.load_1", "memory.available_bytes"]);
    let fleet = Fleet::discover_hosts(&store.connect_store(), wanted("", Some(60_000)), &counters).unwrap();
    assert_eq!(fleet.hosts.len() as i64, STEP_S);
    for member in fleet.fetch_members(&store.connect_store(), &fleet.hosts).unwrap() {
        let offset: i64 = member.host[2..].parse().unwrap();
        let (sum, from_ms, to_ms) = sum_of_writes(&member.samples.unwrap().frame);
        assert_eq!(sum, writes_in_range(end_s, offset, from_ms, to_ms), "of a fleet, scraped at {offset} s");
    }
}

#[test]
fn prometheus_counts_each_scrape_once() {
    if let Some(store) = start_prometheus() {
        check_totals(&store, "/-/healthy");
    }
}

#[test]
fn victoria_metrics_counts_each_scrape_once() {
    if let Some(store) = start_victoria_metrics() {
        check_totals(&store, "/internal/force_flush");
    }
}

#[test]
fn a_small_fleet_is_ranked_by_its_known_troubles() {
    let Some(running) = start_victoria_metrics() else { return };
    let (hosts, ticks, end_s) = (10, 241, now_s());
    let times = synthetic::timestamps_json((end_s - 240 * 15) * 1000, ticks, 15.0);
    let store = running.connect_store();
    for host in 0..hosts {
        let mut body = Vec::new();
        synthetic::host_series(host, hosts, ticks, 15.0)
            .iter()
            .for_each(|s| synthetic::write_import_line(s, &times, &mut body));
        store.send("/api/v1/import", &[], &body).unwrap();
    }
    store.get("/internal/force_flush", &[], read_whole_body).unwrap();
    let selector = Selector::default();
    let (from_ms, to_ms) = ((end_s - 3600) * 1000, end_s * 1000);
    let wanted = HostQuery { selector, host_label: "instance".into(), from_ms, to_ms, step_ms: Some(60_000) };
    let counters = stored_counters_for(Catalogue::builtin().counters().iter().map(|c| c.id.as_str()));
    let fleet = Fleet::discover_hosts(&store, wanted, &counters).unwrap();
    assert_eq!((fleet.hosts.len(), fleet.scrape_ms(), fleet.grid.count), (hosts, 15_000, 60));
    let mut seen = 0;
    for chunk in fleet.host_chunks() {
        for member in fleet.fetch_members(&store, chunk).unwrap() {
            let samples = member.samples.unwrap();
            assert_eq!(samples.topology.processors, 2);
            let number: usize = member.host[4..8].parse().unwrap();
            let verdict = judge_host(&samples.topology, &[samples.frame]);
            let truth = synthetic::trouble_of_host(number, hosts).bottleneck();
            assert_eq!(verdict.bottleneck.name(), truth, "{}: {}", member.host, verdict.sentence);
            seen += 1;
        }
    }
    assert_eq!(seen, hosts);
}

#[test]
fn promtool_accepts_the_page() {
    let series = Catalogue::builtin().counters().iter().map(|c| {
        let instance = if c.object_name() == "memory" { "" } else { "one" };
        Series { counter: c.id.clone(), instance: instance.into(), scale: 1.0 }
    });
    let schema = Arc::new(Schema::new(series.collect()));
    let mut feed = SeriesFeed::new();
    feed.add_tick(Tick { time_ns: 1_000_000_000, elapsed_ns: 1 }, &schema, &vec![1.5; schema.series.len()]);
    let text = metrics_page(feed.snapshot());
    let spawned = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut child) = spawned else { return println!("skipped: promtool is not installed") };
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let done = child.wait_with_output().unwrap();
    let output = format!("{}{}", String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{output}");
}

#[test]
fn the_pages_of_a_real_exporter_are_read() {
    let exporter =
        start_program("prometheus-node-exporter", "/metrics", |port, _| vec![format!("--web.listen-address={port}")]);
    let Some(exporter) = exporter else { return };
    let mut pages = Vec::new();
    for _ in 0..3 {
        pages.extend(exporter.connect_store().get("/metrics", &[], read_whole_body).unwrap());
        std::thread::sleep(Duration::from_millis(300));
    }
    let mut input = diskwright_logs::LogInput::from_bytes("pages.prom", pages).unwrap();
    let options = diskwright_logs::LogOptions::default();
    let summary = diskwright_logs::read(&mut input, &options, &mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!(summary.format, "prometheus-text");
    assert!(summary.ticks >= 2 && summary.series - summary.foreign > 40, "{summary:?}");
}

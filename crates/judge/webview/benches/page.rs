//! Cost of the page: time of a zoom into a log of seven days and 24 disks, and processor share of 32 viewers of a
//! recording. `-- --tiny` runs a small version of both, to check that they still work.
#![allow(
    missing_docs,
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    reason = "a bench prints and has no clock"
)]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use diskwright_base::{Frame, LogPiece, Note, ProcessRow, ProcessTable, Schema, Series, Tick};
use diskwright_dashboard::{History, Panels};
use diskwright_datastore::{LogItem, LogReader, LogWriter, WriterOptions};
use diskwright_diagnosis::packs;
use diskwright_report::heat_map::HeatChart;
use diskwright_webview::{HostSource, Stretch, WebAccess, WebSettings, WebView};
use serde_json::Value;

const DISKS: usize = 24;
const PROCESSES: u32 = 500;
const VIEWERS: usize = 32;
const SECOND: i64 = 1_000_000_000;
const OF_DISKS: [(&str, f64); 12] = [
    ("reads", 1.0),
    ("writes", 1.0),
    ("read_bytes", 512.0),
    ("write_bytes", 512.0),
    ("read_time_s", 1e-3),
    ("write_time_s", 1e-3),
    ("weighted_time_s", 1e-3),
    ("busy_time_s", 1e-3),
    ("reads_merged", 1.0),
    ("writes_merged", 1.0),
    ("flushes", 1.0),
    ("flush_time_s", 1e-3),
];
const OF_MACHINE: [(&str, f64); 6] = [
    ("memory.total_bytes", 1024.0),
    ("memory.available_bytes", 1024.0),
    ("memory.dirty_bytes", 1024.0),
    ("memory.writeback_bytes", 1024.0),
    ("pressure.io_some_time_s", 1e-6),
    ("pressure.memory_some_time_s", 1e-6),
];

/// A log on disk, as the recorder leaves it.
struct LogSource {
    dir: PathBuf,
    live: bool,
}

impl History for LogSource {
    fn range(&self) -> Option<(i64, i64)> {
        LogReader::open(&self.dir).ok()?.time_range().ok()?
    }

    fn read(&self, from_ns: i64, to_ns: i64, each: &mut dyn FnMut(LogPiece<'_>)) -> Result<(), String> {
        let mut reader = LogReader::open(&self.dir).map_err(|e| e.to_string())?;
        reader.set_window(from_ns, to_ns);
        let mut frame = Frame::default();
        while let Some(item) = reader.next(&mut frame).map_err(|e| e.to_string())? {
            match item {
                LogItem::Frame => each(LogPiece::Frame(&frame)),
                LogItem::Note(note) => each(LogPiece::Note(note)),
                LogItem::Damage(_) => {}
            }
        }
        Ok(())
    }
}

impl HostSource for LogSource {
    fn name(&self) -> String {
        "bench".into()
    }
    fn history(&self) -> Result<Box<dyn History + '_>, String> {
        Ok(Box::new(LogSource { dir: self.dir.clone(), live: self.live }))
    }
    fn refresh(&self) -> Result<(), String> {
        Ok(())
    }
    fn is_live(&self) -> bool {
        self.live
    }
    fn interval_ns(&self) -> i64 {
        SECOND
    }
    fn can_set_bookmarks(&self) -> bool {
        false
    }
    fn set_bookmark(&self, _: i64, _: &str) -> Result<(), String> {
        Err("a bench".into())
    }
    fn report_page(&self, _: Stretch) -> Result<String, String> {
        Err("a bench".into())
    }
    fn heat_charts(&self, _: Stretch) -> Result<Vec<HeatChart>, String> {
        Err("a bench".into())
    }
    fn compare_stretches(&self, _: Stretch, _: Stretch) -> Result<Value, String> {
        Err("a bench".into())
    }
}

fn schema() -> Arc<Schema> {
    let disk = |name: usize| {
        OF_DISKS.map(|(counter, scale)| Series {
            counter: format!("physical_disk.{counter}"),
            instance: format!("sd{}", char::from(b'a' + name as u8)),
            scale,
        })
    };
    let machine = OF_MACHINE.map(|(counter, scale)| Series { counter: counter.into(), instance: String::new(), scale });
    Arc::new(Schema::new((0..DISKS).flat_map(disk).chain(machine).collect()))
}

/// A number that looks like noise, below `most`.
fn noise(state: &mut u64, max_value: f64) -> f64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    ((*state >> 40) as f64 / (1u64 << 24) as f64 * max_value).floor()
}

fn row(state: &mut u64, row: &mut Vec<f64>) {
    row.clear();
    for _ in 0..DISKS {
        let (reads, writes) = (noise(state, 200.0), noise(state, 100.0));
        let (read_ms, write_ms) = (reads * (1.0 + noise(state, 6.0)), writes * 3.0);
        let busy = (read_ms + write_ms).min(1000.0);
        row.extend([reads, writes, reads * 16.0, writes * 32.0, read_ms, write_ms, read_ms + write_ms, busy]);
        row.extend([noise(state, 4.0), noise(state, 4.0), noise(state, 3.0), noise(state, 9.0)]);
    }
    row.extend([16e6, 9e6 + noise(state, 1e5), noise(state, 5e4), 0.0, noise(state, 2e5), 0.0]);
}

fn table(state: &mut u64) -> String {
    let process = |pid: u32| ProcessRow {
        pid,
        name: format!("process{pid}"),
        cgroup: "/system.slice/some.service".into(),
        processor: noise(&mut *state, 100.0) / 1e4,
        read_bytes_per_s: Some(f64::from(pid * 100)),
        write_bytes_per_s: Some(0.0),
        resident_bytes: 5e7,
        ..ProcessRow::default()
    };
    let rows = (1..=PROCESSES).map(process).collect();
    serde_json::to_string(&ProcessTable { elapsed_s: 10.0, rows, ..ProcessTable::default() }).expect("JSON")
}

fn write(dir: &Path, from_ns: i64, ticks: i64, options: WriterOptions) -> LogWriter {
    let (schema, mut state, mut cells) = (schema(), 7, Vec::new());
    let mut writer = LogWriter::create_or_append(dir, options).expect("a log");
    for second in 1..=ticks {
        row(&mut state, &mut cells);
        let tick = Tick { time_ns: from_ns + second * SECOND, elapsed_ns: SECOND.unsigned_abs() };
        writer.push(&schema, tick, &cells).expect("room");
    }
    writer
}

fn view(dir: &Path, live: bool) -> WebView {
    let pack = packs::builtin_pack("default").expect("there").expect("right");
    let settings = WebSettings { panels: Panels::builtin(), pack, ceilings: Vec::new(), version: "bench".into() };
    let source = LogSource { dir: dir.to_owned(), live };
    WebView::start("0", WebAccess::default(), settings, vec![Box::new(source)]).expect("served")
}

fn get(address: &str, target: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("connected");
    write!(stream, "GET {target} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("answered");
    assert!(answer.starts_with("HTTP/1.1 200 "), "{}", answer.lines().next().unwrap_or_default());
    answer
}

fn zooms(dir: &Path, days: f64) {
    let ticks = (days * 86_400.0) as i64;
    let from_ns = 1_790_000_000 * SECOND;
    let begun = Instant::now();
    write(dir, from_ns, ticks, WriterOptions::for_bulk_import()).close().expect("closed");
    println!(
        "log: {ticks} ticks of {} series, written in {:.1} s",
        schema().series.len(),
        begun.elapsed().as_secs_f64()
    );
    let view = view(dir, false);
    let address = view.address().to_string();
    let begun = Instant::now();
    while !get(&address, "/api/host").contains("\"read\":1.0") {
        std::thread::park_timeout(Duration::from_millis(50));
    }
    println!("overview: read in {:.1} s", begun.elapsed().as_secs_f64());
    let mut state = 3;
    let mut worst: f64 = 0.0;
    for minutes in [10_080.0, 5_000.0, 1440.0, 720.0, 480.0, 420.0, 360.0, 240.0, 60.0, 10.0, 1.0] {
        let span = (minutes * 60_000.0_f64).min(ticks as f64 * 1000.0 - 1000.0);
        let mut took: Vec<f64> = Vec::new();
        for _ in 0..15 {
            let start = 1_790_000_000_000.0 + noise(&mut state, ticks as f64 * 1000.0 - span);
            let counters = "pressure.io_some,processor.busy,pressure.memory_some,physical_disk.avg_queue_length";
            let target = format!("/api/range?from={start}&to={}&points=800&counters={counters}", start + span);
            let begun = Instant::now();
            get(&address, &target);
            took.push(begun.elapsed().as_secs_f64() * 1e3);
        }
        took.sort_by(f64::total_cmp);
        worst = worst.max(took[took.len() - 1]);
        println!(
            "zoom to {minutes:>6} min: median {:>6.1} ms, longest {:>6.1} ms",
            took[took.len() / 2],
            took[took.len() - 1]
        );
    }
    println!("longest answer to a zoom: {worst:.1} ms");
}

fn pause(length: Duration) {
    let end = Instant::now() + length;
    while Instant::now() < end {
        std::thread::park_timeout(end.saturating_duration_since(Instant::now()));
    }
}

/// Processor seconds of the page's threads, those of the recorder aside.
fn of_page() -> f64 {
    let tasks = std::fs::read_dir("/proc/self/task").expect("tasks").flatten();
    let of = |task: std::fs::DirEntry| {
        let name = std::fs::read_to_string(task.path().join("comm")).ok()?;
        let names = ["pages", "answers", "overviews", "frames"];
        let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        names.contains(&name.trim()).then(|| text.split(' ').next()?.parse::<f64>().ok())?
    };
    tasks.filter_map(of).sum::<f64>() * 1e-9
}

/// Adds a tick each second, and the processes every tenth, as `record` does.
fn record(mut writer: LogWriter, ends: &AtomicBool) {
    let (schema, mut state, mut cells, mut number) = (schema(), 11, Vec::new(), 0);
    while !ends.load(Ordering::Relaxed) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos() as i64;
        row(&mut state, &mut cells);
        if number % 10 == 0 {
            writer.add_note(&Note::new(now, Note::PROCESSES, table(&mut state))).expect("noted");
        }
        writer.push(&schema, Tick { time_ns: now, elapsed_ns: SECOND.unsigned_abs() }, &cells).expect("room");
        number += 1;
        std::thread::park_timeout(Duration::from_secs(1));
    }
    writer.close().expect("closed");
}

/// Reads streams; a process of its own, so that its cost is not counted.
fn watch(address: &str) {
    let streams: Vec<_> = (0..VIEWERS)
        .map(|_| {
            let address = address.to_owned();
            std::thread::spawn(move || {
                let mut stream = TcpStream::connect(&address).expect("connected");
                write!(stream, "GET /events HTTP/1.1\r\nHost: {address}\r\n\r\n").expect("sent");
                std::io::copy(&mut stream, &mut std::io::sink()).unwrap_or(0)
            })
        })
        .collect();
    let bytes: u64 = streams.into_iter().map(|stream| stream.join().unwrap_or(0)).sum();
    println!("viewers: {VIEWERS} got {:.1} MB", bytes as f64 / 1e6);
}

fn viewers(dir: &Path, seconds: u64) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos() as i64;
    let before = 300;
    let writer = write(dir, now - (before + 1) * SECOND, before, WriterOptions::default());
    let ends = Arc::new(AtomicBool::new(false));
    let ends_recorder = Arc::clone(&ends);
    let recorder = std::thread::Builder::new()
        .name("recorder".into())
        .spawn(move || record(writer, &ends_recorder))
        .expect("begun");
    pause(Duration::from_secs(2));
    let view = view(dir, true);
    let cost = |seconds: u64| {
        let (begun, before) = (Instant::now(), of_page());
        pause(Duration::from_secs(seconds));
        (of_page() - before) / begun.elapsed().as_secs_f64() * 100.0
    };
    pause(Duration::from_secs(5));
    let alone = cost(seconds);
    let program = std::env::current_exe().expect("this program");
    let address = view.address().to_string();
    let mut child = std::process::Command::new(program).args(["--watch", &address]).spawn().expect("begun");
    pause(Duration::from_secs(3));
    let watched = cost(seconds);
    drop(view);
    ends.store(true, Ordering::Relaxed);
    let _ = (child.wait(), recorder.join());
    println!("page: {alone:.2} % of a core without viewers, {watched:.2} % with {VIEWERS}");
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let Some(index) = arguments.iter().position(|word| word == "--watch") {
        return watch(&arguments[index + 1]);
    }
    let is_short = arguments.iter().any(|word| word == "--tiny");
    let dir = tempfile::tempdir().expect("a folder");
    zooms(&dir.path().join("week"), if is_short { 0.1 } else { 7.0 });
    viewers(&dir.path().join("live"), if is_short { 5 } else { 30 });
}

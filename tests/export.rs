//! `export`: formats, selections, the JSON answer, exit codes.
#![allow(clippy::expect_used)]

use std::fs;
use std::path::Path;
use std::sync::Arc;

use crate::common::{diskwright, folder};

use diskwright_base::{Frame, Note, ProcessRow, ProcessTable, Schema, Series, Tick};
use diskwright_datastore::{LogWriter, WriterOptions};
use serde_json::Value;

const SECOND_NS: i64 = 1_000_000_000;

/// Standard output of a command that must succeed.
fn stdout_text(arguments: &[&str]) -> String {
    let done = diskwright(arguments);
    assert_eq!(done.status.code(), Some(0), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).expect("text")
}

/// Writes a log of six ticks: a disk, one foreign counter with a gap, and a second disk that appears at the fifth tick.
fn write_log(name: &str) -> String {
    let place = folder(&format!("export-{name}")).join("log");
    let series =
        |counter: &str, instance: &str, scale| Series { counter: counter.into(), instance: instance.into(), scale };
    let mut all = vec![
        series("physical_disk.reads", "sda", 1.0),
        series("physical_disk.read_time_s", "sda", 0.001),
        series(r"foreign.\Thing(x)\Odd, of it", "", 1.0),
    ];
    let early = Arc::new(Schema::new(all.clone()));
    all.push(series("physical_disk.reads", "sdb", 1.0));
    let late = Arc::new(Schema::new(all));
    let mut writer = LogWriter::create_or_append(&place, WriterOptions::for_bulk_import()).expect("a log");
    for second in 0..6i64 {
        let tick = Tick {
            time_ns: (1_700_000_000 + second) * SECOND_NS,
            elapsed_ns: if second == 0 { 0 } else { SECOND_NS as u64 },
        };
        let odd = if second == 2 { f64::NAN } else { 0.5 + second as f64 };
        let row = [10.0 * second as f64, 20.0, odd, 7.0];
        let (schema, width) = if second < 4 { (&early, 3) } else { (&late, 4) };
        let mut frame = Frame::new(schema.clone(), 1);
        frame.push(tick, &row[..width]);
        writer.push_frame(&frame).expect("writable");
    }
    writer.close().expect("writable");
    place.to_str().expect("plain").to_owned()
}

#[test]
fn computes_catalogue_counters_and_keeps_foreign_ones() {
    let log = write_log("values");
    let csv = stdout_text(&["export", &log, "--as", "csv"]);
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines.len(), 7);
    assert!(lines[0].contains(",physical_disk.reads_per_s{sda},"), "{}", lines[0]);
    assert!(lines[0].ends_with(r#","foreign.\Thing(x)\Odd, of it""#), "{}", lines[0]);
    assert!(lines[3].ends_with(','), "a gap is an empty cell: {}", lines[3]);
    let long = stdout_text(&["export", &log, "--as", "csv", "--long", "--counter", "physical_disk.reads_per_s"]);
    // a rate at the first tick is a gap, as its length is unknown
    assert!(long.contains("2023-11-14T22:13:20.000000Z,physical_disk.reads_per_s,sda,per_s,\r\n"), "{long}");
    assert!(long.contains("2023-11-14T22:13:23.000000Z,physical_disk.reads_per_s,sda,per_s,30\r\n"), "{long}");
    assert!(!long.contains("22:13:23.000000Z,physical_disk.reads_per_s,sdb"), "sdb is not there yet: {long}");
    assert!(long.contains("22:13:24.000000Z,physical_disk.reads_per_s,sdb,per_s,7\r\n"), "{long}");
}

#[test]
fn raw_exports_stored_values() {
    let log = write_log("raw");
    let raw = stdout_text(&["export", &log, "--as", "csv", "--raw"]);
    let header = raw.lines().next().expect("a header");
    let expected = "time,physical_disk.reads{sda},physical_disk.read_time_s{sda},";
    assert_eq!(header, format!("{expected}\"foreign.\\Thing(x)\\Odd, of it\",physical_disk.reads{{sdb}}"));
    assert_eq!(raw.lines().nth(3), Some("2023-11-14T22:13:22.000000Z,20,0.02,,"));
}

#[test]
fn selects_counters_instances_and_times() {
    let log = write_log("choice");
    let of = |more: &[&str]| stdout_text(&[&["export", &log, "--as", "jsonl"], more].concat());
    let objects = |text: String| text.lines().map(|l| serde_json::from_str(l).expect("JSON")).collect::<Vec<Value>>();
    let late = objects(of(&["--instance", "sdb", "--counter", "*.reads", "--from", "2023-11-14T22:13:24Z"]));
    assert_eq!(late.len(), 2);
    assert_eq!(late[0]["physical_disk.reads{sdb}"], 7);
    assert_eq!(late[0].as_object().map(serde_json::Map::len), Some(2));
    let foreign = objects(of(&["--counter", "foreign.*"]));
    assert!(foreign[2][r"foreign.\Thing(x)\Odd, of it"].is_null());
    assert_eq!(foreign[3][r"foreign.\Thing(x)\Odd, of it"], 3.5);
    let nt = objects(of(&["--counter", r"PhysicalDisk\Disk Reads/sec"]));
    assert_eq!(nt[1]["physical_disk.reads_per_s{sda}"], 10);
    for (wrong, code) in [("no.such", 2), ("memory.*", 1)] {
        let done = diskwright(&["export", &log, "--as", "jsonl", "--counter", wrong]);
        assert_eq!((done.status.code(), done.stdout.len()), (Some(code), 0), "{wrong}");
    }
}

#[test]
fn suggests_the_nearest_name_for_typing_errors() {
    let log = write_log("typed");
    let (right, wrong) = ("physical_disk.reads", "physical_disk.readz");
    let meant = "(did you mean `physical_disk.reads`?)";
    let cases: [(&[&str], i32, &str); 4] = [
        (&["--counter", wrong], 2, meant),
        // a right name beside it does not excuse a wrong one
        (&["--counter", "physical_disk.read_time_s", "--counter", wrong], 2, meant),
        (&["--counter", right, "--instance", "sdbb"], 1, "(did you mean `sdb`?); instances: sda, sdb"),
        (&["--counter", right, "--instance", "sda", "--instance", "sdbb"], 1, "no instance `sdbb` in the log"),
    ];
    for command in [&["export", &log, "--as", "csv"][..], &["show", &log]] {
        for (more, code, words) in cases {
            let done = diskwright(&[command, more].concat());
            let stderr = String::from_utf8_lossy(&done.stderr).into_owned();
            assert_eq!((done.status.code(), done.stdout.len()), (Some(code), 0), "{command:?} {more:?}: {stderr}");
            assert!(stderr.contains(words), "{command:?} {more:?}: {stderr}");
        }
    }
}

/// The log has latencies of single requests of `sda` only.
#[test]
fn names_a_device_that_was_not_traced() {
    let place = folder("export-traced").join("log");
    let all = [("physical_disk.reads", "sda"), ("request_latency.reads", "sda@1088")]
        .map(|(counter, instance)| Series { counter: counter.into(), instance: instance.into(), scale: 1.0 })
        .to_vec();
    let mut writer = LogWriter::create_or_append(&place, WriterOptions::for_bulk_import()).expect("a log");
    let mut frame = Frame::new(Arc::new(Schema::new(all)), 2);
    for second in 0..2i64 {
        let tick = Tick { time_ns: (1_700_000_000 + second) * SECOND_NS, elapsed_ns: SECOND_NS as u64 };
        frame.push(tick, &[5.0 * second as f64, 5.0]);
    }
    writer.push_frame(&frame).expect("writable");
    writer.close().expect("writable");
    let log = place.to_str().expect("plain");
    let cases: [(&[&str], i32); 4] = [
        (&["--instance", "sda"], 0),
        (&["--instance", "sda", "--instance", "nvme*"], 0),
        (&["--instance", "sdb"], 1),
        (&["--instance", "sda", "--instance", "sdb"], 1),
    ];
    for (devices, code) in cases {
        let done = diskwright(&[&["show", log, "--latency", "--json"], devices].concat());
        let stderr = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(code), "{devices:?}: {stderr}");
        assert_eq!(stderr.contains("no instance `sdb` in the log"), code == 1, "{devices:?}: {stderr}");
    }
}

#[test]
fn json_answer_describes_the_written_file() {
    let log = write_log("answer");
    for (form, ending) in [("csv", "csv"), ("jsonl", "jsonl"), ("parquet", "parquet"), ("prometheus", "txt")] {
        let file = format!("{log}.{ending}");
        fs::write(&file, "something older").expect("writable");
        let answer =
            stdout_text(&["export", &log, "--as", form, "--counter", "physical_disk.reads", "-o", &file, "--json"]);
        let answer: Value = serde_json::from_str(&answer).expect("JSON");
        assert_eq!(answer["schema"], "diskwright.export/1");
        assert_eq!((&answer["format"], &answer["file"]), (&form.into(), &file.as_str().into()));
        assert_eq!((&answer["series"], &answer["gaps"]), (&2.into(), &0.into()), "{form}");
        assert_eq!(answer["values"], 8, "{form}");
        assert_eq!(answer["bytes"], fs::metadata(&file).expect("written").len());
        assert_eq!(answer["rows"], if ["csv", "jsonl"].contains(&form) { 6 } else { 8 }, "{form}");
        assert_eq!(
            (&answer["from"], &answer["to"]),
            (&"2023-11-14T22:13:20.000Z".into(), &"2023-11-14T22:13:25.000Z".into())
        );
    }
    let left: Vec<_> = fs::read_dir(Path::new(&log).parent().expect("a folder")).expect("a folder").flatten().collect();
    assert_eq!(left.len(), 5, "the log, four files, nothing half made: {left:?}");
}

#[test]
fn prometheus_text_groups_metrics_and_ends_with_eof() {
    let log = write_log("prometheus");
    let text = stdout_text(&["export", &log, "--as", "prometheus"]);
    assert!(text.ends_with("# EOF\n"));
    let types: Vec<&str> = text.lines().filter(|line| line.starts_with("# TYPE ")).collect();
    let mut once = types.clone();
    once.dedup();
    assert_eq!(types, once);
    assert!(text.contains("diskwright_physical_disk_reads_total{device=\"sda\"} 150 1700000005.000\n"), "{text}");
    assert!(text.contains("diskwright_physical_disk_reads_per_second{device=\"sdb\"} 7 1700000004.000\n"), "{text}");
}

#[test]
fn wrong_usage_exits_with_2() {
    let log = write_log("usage");
    let cases: &[&[&str]] = &[
        &["--as", "xml"],
        &[],
        &["--as", "csv", "--json"],
        &["--as", "csv", "--long", "--wide"],
        &["--as", "prometheus", "--wide"],
        &["--as", "jsonl", "--long"],
        &["--as", "csv", "--from", "soon"],
    ];
    for more in cases {
        let done = diskwright(&[&["export", &log], *more].concat());
        assert_eq!((done.status.code(), done.stdout.len()), (Some(2), 0), "{more:?}");
    }
    let done = diskwright(&["export", &log, "--as", "csv", "-o", "/no/such/folder/x.csv"]);
    assert_eq!(done.status.code(), Some(1));
}

/// Writes a log with two process tables: `dd` was busy in both, `cron` in the first only.
fn write_log_with_processes(name: &str) -> String {
    let log = write_log(name);
    let row = |pid: u32, name: &str, bytes: f64| ProcessRow {
        pid,
        name: name.into(),
        read_bytes_per_s: Some(bytes),
        processor: 0.25,
        ..ProcessRow::default()
    };
    let mut writer = LogWriter::create_or_append(Path::new(&log), WriterOptions::for_bulk_import()).expect("a log");
    for (second, rows) in [(3, vec![row(7, "dd", 4e6), row(9, "cron", 1e3)]), (5, vec![row(7, "dd", 6e6)])] {
        let table = ProcessTable { elapsed_s: 2.0, rows, ..ProcessTable::default() };
        let text = serde_json::to_string(&table).expect("JSON");
        writer.add_note(&Note::new((1_700_000_000 + second) * SECOND_NS, Note::PROCESSES, text)).expect("writable");
    }
    writer.close().expect("writable");
    log
}

#[test]
fn exports_process_counters_only_on_request() {
    let log = write_log_with_processes("processes");
    let csv = stdout_text(&["export", &log, "--as", "csv", "--counter", "PROCESS.read_bytes_*"]);
    let lines: Vec<&str> = csv.lines().collect();
    assert!(lines[0].ends_with(",process.read_bytes_per_s{dd (7)},process.read_bytes_per_s{cron (9)}"), "{csv}");
    let table_rows = &lines[1..];
    assert_eq!(table_rows.len(), 2, "no row for a tick between two looks: {csv}");
    let rows = stdout_text(&["show", &log, "--as", "csv", "--counter", "process.read_bytes_per_s"]);
    assert_eq!(rows.lines().count(), 3, "{rows}");
    assert!(table_rows[0].ends_with(",4000000,1000") && table_rows[1].ends_with(",6000000,"), "{csv}");
    let shown = stdout_text(&["show", &log, "--counter", "process.*", "--json"]);
    let answer: Value = serde_json::from_str(&shown).expect("JSON");
    let series = answer["series"].as_array().expect("a list");
    let cron = series.iter().find(|s| s["instance"] == "cron (9)" && s["counter"] == "process.processor");
    assert_eq!(cron.expect("shown")["most"], 0.25);
    // without the option the export has no process counters
    assert!(!stdout_text(&["export", &log, "--as", "csv"]).contains("process."));
    let page = folder("export-processes-page").join("page.html");
    stdout_text(&["report", &log, "-o", page.to_str().expect("plain")]);
    let page = fs::read_to_string(&page).expect("a page");
    assert!(page.contains("dd (7)"), "the page draws who read");
}

//! `show` on request traces.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn fixture_path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/observe/traces/tests/fixtures").join(name)
}

fn run_show(arguments: &[&str], input: Stdio) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_diskwright"));
    command.arg("show").args(arguments).env("LC_ALL", "C.UTF-8").stdin(input).output().expect("the program runs")
}

/// Runs `show` on a fixture.
fn show_fixture(name: &str, more: &[&str]) -> Output {
    let path = fixture_path(name);
    let path = path.to_str().expect("a plain path");
    run_show(&[&[path], more].concat(), Stdio::null())
}

fn parse_document(output: &Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn reads_a_blktrace_of_two_processors() {
    // either file brings the other
    for name in ["small.blktrace.0", "small.blktrace.1"] {
        let shown = parse_document(&show_fixture(name, &["--json"]));
        assert_eq!((&shown["schema"], &shown["format"]), (&"diskwright.trace/1".into(), &"blktrace".into()));
        assert_eq!((&shown["requests"], &shown["unfinished"]), (&65.into(), &0.into()));
        assert_eq!(shown["wall_clock"], true);
        assert!(
            shown["from"].as_str().is_some_and(|from| from.starts_with("2023-11-14T22:13:20.250")),
            "{}",
            shown["from"]
        );
        let device = &shown["devices"][0];
        assert_eq!(device["name"], "8,16");
        assert_eq!(device["operations"]["flush"]["requests"], 1);
        assert_eq!(device["operations"]["discard"]["bytes"], 1 << 20);
        assert_eq!(device["queue_s"]["count"], 65);
        let (queue, service) = (&device["queue_s"]["mean"], &device["service_s"]["mean"]);
        let sum = queue.as_f64().expect("known") + service.as_f64().expect("known");
        assert!((sum / device["response_s"]["mean"].as_f64().expect("known") - 1.0).abs() < 1e-9);
    }
}

#[test]
fn blkparse_text_agrees_with_the_binary_records() {
    let (mut binary, mut text) = (
        parse_document(&show_fixture("small.blktrace.0", &["--json"])),
        parse_document(&show_fixture("small.blkparse", &["--json"])),
    );
    assert_eq!(text["wall_clock"], false);
    assert_eq!(binary["all"].take(), text["all"].take());
}

#[test]
fn exported_csv_is_read_back_from_a_pipe() {
    let names = "small.blktrace.0 small.msr.csv small.validation small.disksim small_whole.disksim small.mqsim \
                 small.spc small.alibaba.csv small.tencent.csv small.systor.csv small_1.vscsi small_2.vscsi";
    for name in names.split_whitespace() {
        let csv = show_fixture(name, &["--as", "csv"]);
        assert!(csv.status.success() && csv.stdout.starts_with(b"arrival_s,device,"), "{name}");
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.csv"));
        std::fs::write(&path, &csv.stdout).expect("written");
        let again = parse_document(&run_show(&["-", "--json"], Stdio::from(File::open(&path).expect("there"))));
        let mut first = parse_document(&show_fixture(name, &["--json"]));
        assert_eq!(again["format"], "requests-csv");
        assert_eq!(again["from"], first["from"], "{name}");
        assert_eq!(again["all"], first["all"].take(), "{name}");
        assert_eq!(again["devices"], first["devices"].take(), "{name}");
    }
}

#[test]
fn prints_tables_and_histograms() {
    let shown = |more: &[&str]| {
        let done = show_fixture("small.msr.csv", more);
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).expect("UTF-8")
    };
    let table = shown(&[]);
    for word in ["80 requests", "web_0", "web_1", "all devices", "response", "unknown", "size of reads and writes", "█"]
    {
        assert!(table.contains(word), "{word}:\n{table}");
    }
    // a percentile needs ten requests above it, and fewer of the 80 lie above the 95th
    let response = table.lines().find(|line| line.trim_start().starts_with("response")).expect("a row");
    assert!(response.contains(" -"), "{response}");
    let chart = shown(&["--as", "chart", "--instance", "*_1"]);
    assert!(chart.contains("40 requests") && !chart.contains("web_0"), "{chart}");
    assert!(chart.contains("time between arrivals") && chart.contains("distance to the previous request"), "{chart}");
}

#[test]
fn a_line_break_in_a_file_name_begins_no_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a\nNo disk is busy.csv");
    std::fs::copy(fixture_path("small.msr.csv"), &path).expect("copied");
    let done = run_show(&[path.to_str().expect("a plain path")], Stdio::null());
    let table = String::from_utf8(done.stdout).expect("UTF-8");
    assert!(table.contains("a No disk is busy.csv: "), "{table}");
}

#[test]
fn why_reads_a_trace_as_a_log() {
    let mut why = Command::new(env!("CARGO_BIN_EXE_diskwright"));
    why.arg("why").arg(fixture_path("small.msr.csv")).arg("--json");
    let done = why.stdin(Stdio::null()).output().expect("the program runs");
    let stderr = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(0), "{stderr}");
    let verdict: Value = serde_json::from_slice(&done.stdout).expect("JSON");
    assert_eq!(verdict["schema"].as_str(), Some("diskwright.verdict/1"));
    assert!(
        verdict["unjudged"].as_array().is_some_and(|rules| !rules.is_empty()),
        "a trace knows no memory: {verdict}"
    );
}

#[test]
fn refuses_wrong_options_and_mixed_traces() {
    let message = |done: &Output| String::from_utf8_lossy(&done.stderr).into_owned();
    let window = show_fixture("small.spc", &["--from", "-1m"]);
    assert_eq!(window.status.code(), Some(2), "{}", message(&window));
    for (words, expected) in [
        (&["--latency"][..], "--latency is for logs"),
        (&["--latency", "--as", "csv"], "cannot be used with"),
        (&["--utc-offset", "+02:00"], "--utc-offset needs a log"),
    ] {
        let done = show_fixture("small.spc", words);
        assert!(done.status.code() == Some(2) && message(&done).contains(expected), "{words:?}: {}", message(&done));
    }
    let unknown = show_fixture("small.spc", &["--instance", "sda"]);
    assert_eq!(unknown.status.code(), Some(1));
    assert!(message(&unknown).contains("devices: 0, 1"), "{}", message(&unknown));
    let (one, two) = (fixture_path("small.spc"), fixture_path("small.msr.csv"));
    let mixed = run_show(&[one.to_str().expect("plain"), two.to_str().expect("plain")], Stdio::null());
    assert_eq!(mixed.status.code(), Some(1));
    assert!(message(&mixed).contains("one at a time"), "{}", message(&mixed));
}

/// A volume (253,0) on a partition of a disk (8,0), as blkparse prints it.
#[test]
fn counts_stacked_devices_once_or_each_by_name() {
    let request = |i: usize| {
        let (s, t) = (i * 64, format!("0.{:09}", i * 1000));
        let line = |device: &str, action: &str, sector: usize, rest: &str| {
            format!("{device} 0 1 {t} 7 {action} R {sector} + 8 {rest}\n")
        };
        line("253,0", "Q", s, "[x]")
            + &line("8,2", "A", s + 2048, &format!("<- (253,0) {s}"))
            + &line("8,0", "A", s + 4096, &format!("<- (8,2) {}", s + 2048))
            + &["Q", "D", "C"].map(|action| line("8,0", action, s + 4096, "[x]")).concat()
            + &line("253,0", "C", s, "[x]")
    };
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("layers.blkparse");
    std::fs::write(&path, (0..113).map(request).collect::<String>()).expect("written");
    let shown = |more: &[&str]| run_show(&[&[path.to_str().expect("plain"), "--json"], more].concat(), Stdio::null());
    let once = parse_document(&shown(&[]));
    assert_eq!((&once["requests"], &once["devices"][0]["name"]), (&113.into(), &"8,0".into()));
    assert_eq!(once["passed_on"][0]["requests"], 113);
    let upper = parse_document(&shown(&["--instance", "253,0"]));
    assert_eq!((&upper["requests"], &upper["devices"][0]["name"]), (&113.into(), &"253,0".into()));
    assert_eq!(parse_document(&shown(&["--instance", "*"]))["requests"], 226);
    let screen = run_show(&[path.to_str().expect("plain")], Stdio::null());
    assert!(String::from_utf8_lossy(&screen.stdout).contains("113 requests of 253,0 were passed on"));
}

#[test]
fn asks_for_the_format_of_an_ambiguous_trace() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("unsure.trace");
    let lines: String = (0..50).map(|i| format!("{} 0 {} 8 1\n", i * 1000, i * 16)).collect();
    std::fs::write(&path, lines).expect("written");
    let path = path.to_str().expect("plain");
    let refused = run_show(&[path], Stdio::null());
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--trace-format disksim"));
    for (format, seconds) in [("disksim", 49.0), ("mqsim", 49e-6)] {
        let shown = parse_document(&run_show(&[path, "--trace-format", format, "--json"], Stdio::null()));
        assert!(
            (shown["seconds"].as_f64().expect("known") / seconds - 1.0).abs() < 1e-9,
            "{format}: {}",
            shown["seconds"]
        );
    }
    let unknown = run_show(&[path, "--trace-format", "disk"], Stdio::null());
    assert_eq!(unknown.status.code(), Some(2));
}

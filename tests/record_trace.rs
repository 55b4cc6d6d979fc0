//! `record --trace`, `trace on` and `trace off`: a recorder keeps single requests, and the next recorder removes what a
//! killed one left.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::common::{command, folder, interrupt, json, said, success, text, until};
use crate::trace::TracedDisk;

/// Runs the program with its own runtime folder, so that it sees only recorders of this test.
fn run(place: &Path, words: &[&str]) -> std::process::Output {
    command(words).env("XDG_RUNTIME_DIR", place).output().expect("the program runs")
}

fn status(place: &Path) -> Value {
    success(&run(place, &["trace", "status", "--json"]))
}

fn recorder(place: &Path) -> Value {
    status(place)["recorders"][0].clone()
}

/// A recorder in the background; killed when it is dropped.
struct BackgroundRecorder(Child);

impl BackgroundRecorder {
    fn start(place: &Path, log: &Path, more: &[&str]) -> BackgroundRecorder {
        let words = [&["record", text(log), "--for", "300s"], more].concat();
        let mut command = command(&words);
        command.env("XDG_RUNTIME_DIR", place).stdout(Stdio::null()).stderr(Stdio::null());
        BackgroundRecorder(command.spawn().expect("the program runs"))
    }

    fn interrupt(&mut self) {
        interrupt(&self.0);
        assert!(self.0.wait().expect("an end").success());
    }
}

impl Drop for BackgroundRecorder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Reads blocks of 4 KiB directly.
fn read(device: &str, count: u32) {
    let words = [format!("if={device}"), "of=/dev/null".into(), "bs=4k".into(), format!("count={count}")];
    let done = Command::new("dd").args(words).arg("iflag=direct").output().expect("dd");
    assert!(done.status.success());
}

fn place(name: &str) -> PathBuf {
    folder(name)
}

/// Latencies of the reads of a device.
fn reads_of(document: &Value, device: &str) -> Option<Value> {
    let groups = document["latency"].as_array()?;
    groups.iter().find(|g| g["device"] == device && g["operation"] == "read").cloned()
}

#[test]
fn a_running_recorder_is_told_to_trace_and_keeps_each_request() {
    let Some(disk) = TracedDisk::attach("record-trace") else { return };
    let (place, device) = (place("record-trace"), disk.device().trim_start_matches("/dev/"));
    let log = place.join("log");
    let mut recording = BackgroundRecorder::start(&place, &log, &[]);
    until("the recorder answers", || recorder(&place)["tracing"] == Value::Bool(false));
    read(disk.device(), 50);
    let on = success(&run(&place, &["trace", "on", "--budget", "100%", "--json"]));
    assert_eq!((&on["order"], &on["recorder"]["tracing"]), (&"on".into(), &true.into()));
    // the requests of the tick in which tracing began are not kept
    std::thread::park_timeout(Duration::from_millis(2500));
    read(disk.device(), 300);
    until("the requests are seen", || recorder(&place)["trace"]["requests"].as_u64() >= Some(300));
    std::thread::park_timeout(Duration::from_millis(1500));
    let off = success(&run(&place, &["trace", "off", "--json"]));
    assert_eq!(off["recorder"]["tracing"], Value::Bool(false));
    read(disk.device(), 70);
    recording.interrupt();
    assert_eq!(recorder(&place), Value::Null, "its socket went with it");
    let shown = success(&run(&place, &["show", text(&log), "--latency", "--instance", device, "--json"]));
    let found = reads_of(&shown, device).expect("reads");
    assert_eq!(found["requests"], 300, "{found}");
    assert!(found["p90_s"].is_f64() && found["p99_s"].is_null(), "{found}");
    let raw = run(&place, &["export", text(&log), "--as", "jsonl", "--raw", "--counter", "request_latency.reads"]);
    assert!(String::from_utf8_lossy(&raw.stdout).contains(&format!("{device}@")), "{}", said(&raw));
    let median = "physical_disk.read_latency_p50_s";
    let series = success(&run(&place, &["show", text(&log), "--counter", median, "--instance", device, "--json"]));
    assert!(series["series"][0]["mean"].as_f64().is_some_and(|mean| mean > 0.0), "{series}");
    let page = place.join("page.html");
    assert!(run(&place, &["report", text(&log), "-o", text(&page)]).status.success());
    let page = std::fs::read_to_string(page).expect("a page");
    assert!(page.contains("Latency of single requests") && page.contains(&format!("{device}: read")));
    assert!(!page.contains(&format!("{device}@")), "no steps among the charts");
}

#[test]
fn what_a_killed_recorder_left_the_next_one_removes() {
    let Some(disk) = TracedDisk::attach("record-killed") else { return };
    let place = place("record-killed");
    let mut killed = BackgroundRecorder::start(&place, &place.join("one"), &["--trace", "--trace-budget", "100%"]);
    until("it traces", || recorder(&place)["tracing"] == Value::Bool(true));
    let pid = killed.0.id();
    let instance = |document: &Value| {
        let all = document["instances"].as_array().cloned().unwrap_or_default();
        all.into_iter().find(|i| i["name"].as_str().is_some_and(|name| name.contains(&format!("-{pid}-"))))
    };
    assert_eq!(instance(&status(&place)).map(|i| i["alive"].clone()), Some(true.into()));
    killed.0.kill().expect("it runs");
    killed.0.wait().expect("an end");
    assert_eq!(instance(&status(&place)).map(|i| i["alive"].clone()), Some(false.into()));
    let mut next = BackgroundRecorder::start(&place, &place.join("two"), &["--trace", "--trace-budget", "100%"]);
    until("the next one traces", || recorder(&place)["tracing"] == Value::Bool(true));
    assert_eq!(instance(&status(&place)), None);
    read(disk.device(), 10);
    next.interrupt();
    let sockets = std::fs::read_dir(place.join("diskwright/recorders")).expect("the folder").count();
    assert_eq!(sockets, 0);
}

#[test]
fn without_a_recorder_that_is_said() {
    let place = place("record-none");
    let output = run(&place, &["trace", "on"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("record DIR --trace"), "{}", said(&output));
    assert_eq!(run(&place, &["trace", "off", "a", "b"]).status.code(), Some(2));
    assert_eq!(json(&run(&place, &["trace", "status", "--json"]))["recorders"], Value::Array(Vec::new()));
}

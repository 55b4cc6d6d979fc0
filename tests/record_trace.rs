//! `record --trace`, `trace on` and `trace off`: a recorder keeps single requests, and the next recorder removes what a
//! killed one left.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::common::{command, folder, interrupt, json, stderr, success, text, wait_until};
use crate::trace::TracedDisk;

/// Runs the program with its own runtime folder, so that it sees only recorders of this test.
fn run_with_runtime_folder(place: &Path, words: &[&str]) -> std::process::Output {
    command(words).env("XDG_RUNTIME_DIR", place).output().expect("the program runs")
}

fn trace_status(place: &Path) -> Value {
    success(&run_with_runtime_folder(place, &["trace", "status", "--json"]))
}

fn first_recorder(place: &Path) -> Value {
    trace_status(place)["recorders"][0].clone()
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
fn read_blocks(device: &str, count: u32) {
    let words = [format!("if={device}"), "of=/dev/null".into(), "bs=4k".into(), format!("count={count}")];
    let done = Command::new("dd").args(words).arg("iflag=direct").output().expect("dd");
    assert!(done.status.success());
}

fn test_folder(name: &str) -> PathBuf {
    folder(name)
}

/// Latencies of the reads of a device.
fn read_latency(document: &Value, device: &str) -> Option<Value> {
    let groups = document["latency"].as_array()?;
    groups.iter().find(|g| g["device"] == device && g["operation"] == "read").cloned()
}

#[test]
fn trace_on_makes_a_running_recorder_keep_each_request() {
    let Some(disk) = TracedDisk::attach("record-trace") else { return };
    let (place, device) = (test_folder("record-trace"), disk.device().trim_start_matches("/dev/"));
    let log = place.join("log");
    let mut recording = BackgroundRecorder::start(&place, &log, &[]);
    wait_until("the recorder answers", || first_recorder(&place)["tracing"] == Value::Bool(false));
    read_blocks(disk.device(), 50);
    let on = success(&run_with_runtime_folder(&place, &["trace", "on", "--budget", "100%", "--json"]));
    assert_eq!((&on["order"], &on["recorder"]["tracing"]), (&"on".into(), &true.into()));
    // the requests of the tick in which tracing began are not kept
    std::thread::park_timeout(Duration::from_millis(2500));
    read_blocks(disk.device(), 300);
    wait_until("the requests are seen", || first_recorder(&place)["trace"]["requests"].as_u64() >= Some(300));
    std::thread::park_timeout(Duration::from_millis(1500));
    let off = success(&run_with_runtime_folder(&place, &["trace", "off", "--json"]));
    assert_eq!(off["recorder"]["tracing"], Value::Bool(false));
    read_blocks(disk.device(), 70);
    recording.interrupt();
    assert_eq!(first_recorder(&place), Value::Null, "its socket went with it");
    let shown =
        success(&run_with_runtime_folder(&place, &["show", text(&log), "--latency", "--instance", device, "--json"]));
    let found = read_latency(&shown, device).expect("reads");
    assert_eq!(found["requests"], 300, "{found}");
    assert!(found["p90_s"].is_f64() && found["p99_s"].is_null(), "{found}");
    let raw = run_with_runtime_folder(
        &place,
        &["export", text(&log), "--as", "jsonl", "--raw", "--counter", "request_latency.reads"],
    );
    assert!(String::from_utf8_lossy(&raw.stdout).contains(&format!("{device}@")), "{}", stderr(&raw));
    let median = "physical_disk.read_latency_p50_s";
    let series = success(&run_with_runtime_folder(
        &place,
        &["show", text(&log), "--counter", median, "--instance", device, "--json"],
    ));
    assert!(series["series"][0]["mean"].as_f64().is_some_and(|mean| mean > 0.0), "{series}");
    let page = place.join("page.html");
    assert!(run_with_runtime_folder(&place, &["report", text(&log), "-o", text(&page)]).status.success());
    let page = std::fs::read_to_string(page).expect("a page");
    assert!(page.contains("Latency of single requests") && page.contains(&format!("{device}: read")));
    assert!(!page.contains(&format!("{device}@")), "no steps among the charts");
}

#[test]
fn the_next_recorder_removes_what_a_killed_one_left() {
    let Some(disk) = TracedDisk::attach("record-killed") else { return };
    let place = test_folder("record-killed");
    let mut killed = BackgroundRecorder::start(&place, &place.join("one"), &["--trace", "--trace-budget", "100%"]);
    wait_until("it traces", || first_recorder(&place)["tracing"] == Value::Bool(true));
    let pid = killed.0.id();
    let instance = |document: &Value| {
        let all = document["instances"].as_array().cloned().unwrap_or_default();
        all.into_iter().find(|i| i["name"].as_str().is_some_and(|name| name.contains(&format!("-{pid}-"))))
    };
    assert_eq!(instance(&trace_status(&place)).map(|i| i["alive"].clone()), Some(true.into()));
    killed.0.kill().expect("it runs");
    killed.0.wait().expect("an end");
    // the recorder of another test may have removed it already
    assert_ne!(instance(&trace_status(&place)).map(|i| i["alive"].clone()), Some(true.into()));
    let mut next = BackgroundRecorder::start(&place, &place.join("two"), &["--trace", "--trace-budget", "100%"]);
    wait_until("the next one traces", || first_recorder(&place)["tracing"] == Value::Bool(true));
    assert_eq!(instance(&trace_status(&place)), None);
    read_blocks(disk.device(), 10);
    next.interrupt();
    let sockets = std::fs::read_dir(place.join("diskwright/recorders")).expect("the folder").count();
    assert_eq!(sockets, 0);
}

#[test]
fn trace_on_fails_without_a_recorder() {
    let place = test_folder("record-none");
    let output = run_with_runtime_folder(&place, &["trace", "on"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("record DIR --trace"), "{}", stderr(&output));
    assert_eq!(run_with_runtime_folder(&place, &["trace", "off", "a", "b"]).status.code(), Some(2));
    assert_eq!(
        json(&run_with_runtime_folder(&place, &["trace", "status", "--json"]))["recorders"],
        Value::Array(Vec::new())
    );
}

//! `--capture` of `record`, `watch` and `serve`: a real blocked task is in the capture of an alert, which `why`,
//! `report`, the screen and the page show; limits of rate, size and memory; options.

use std::fs;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::common::{diskwright, folder, interrupt, stderr, success, text, wait_until};
use crate::serve::RunningServer;

/// An alert that begins at the first tick, so that no load is needed.
pub const OWN_ALERT: &str = r#"
[pack]
id = "own"
title = "own"
source = "test"
explain = "test"
[[rule]]
id = "own.always"
title = "it is on"
object = "machine"
bottleneck = "cpu"
severity = "warning"
all = [{ counter = "memory.total_bytes", above = 0 }]
source = "test"
explain = "test"
alert = { silence = "10m" }
"#;

/// Starts a process whose main thread waits in the kernel and cannot be interrupted: the parent of a `vfork`. `None`
/// without Python, or where the number of the call is not known.
fn start_blocked_process() -> Option<Child> {
    let script = r#"
import ctypes, platform, time, os
number = {"x86_64": 56, "aarch64": 220}[platform.machine()]
# CLONE_VFORK and SIGCHLD, without CLONE_VM: the child has memory of its own
if ctypes.CDLL(None).syscall(number, 0x4000 | 17, 0, 0, 0, 0) == 0:
    time.sleep(60)
    os._exit(0)
"#;
    let mut python = Command::new("python3");
    let mut child = python.args(["-c", script]).stdin(Stdio::null()).stderr(Stdio::null()).spawn().ok()?;
    let stat = format!("/proc/{}/stat", child.id());
    for _ in 0..500 {
        let state = fs::read_to_string(&stat).unwrap_or_default();
        if state.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('D')) {
            return Some(child);
        }
        std::thread::park_timeout(std::time::Duration::from_millis(20));
    }
    end_process(&mut child);
    None
}

/// Ends a blocked process: its child first, because it waits for that.
fn end_process(child: &mut Child) {
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", child.id())).unwrap_or_default();
    for pid in children.split_ascii_whitespace() {
        let _ = Command::new("kill").args(["-KILL", pid]).status();
    }
    let _ = child.kill();
    let _ = child.wait();
}

/// Records with captures until one is in the log; the recording then ends.
fn record_until_captured(log: &std::path::Path, alerts: &str, options: &[&str]) -> Value {
    let arguments = [&["record", text(log), "--every", "200ms", "--capture", alerts][..], options].concat();
    let mut recorder = crate::common::command(&arguments).stderr(Stdio::null()).spawn().expect("the program runs");
    let find_captures = || {
        let answer = diskwright(&["why", text(log), "--json"]);
        let document: Value = serde_json::from_slice(&answer.stdout).unwrap_or_default();
        document["captures"].clone()
    };
    wait_until("a capture", || find_captures().is_array());
    interrupt(&recorder);
    recorder.wait().expect("it ends");
    find_captures()
}

#[test]
fn a_blocked_task_is_in_the_capture_which_the_answers_show() {
    let bench = folder("captures_blocked");
    let own = bench.join("own.toml");
    fs::write(&own, OWN_ALERT).expect("a file");
    let Some(mut blocked) = start_blocked_process() else {
        eprintln!("skipped: no process can be blocked here");
        return;
    };
    let log = bench.join("log");
    let captures = record_until_captured(&log, &format!("--alerts={}", text(&own)), &[]);
    let pid = u64::from(blocked.id());
    let capture = &captures[0];
    assert_eq!((&capture["schema"], &capture["alert"]), (&"diskwright.capture/1".into(), &"own.always".into()));
    let tasks = capture["blocked"]["tasks"].as_array().expect("a list");
    let task = tasks.iter().find(|task| task["pid"] == pid).unwrap_or_else(|| panic!("{capture}"));
    assert_eq!(task["name"], "python3");
    // the function and the stack need root
    let lacks_stacks = capture["missing"].to_string().contains("stacks");
    let function = task["waits_in"].as_str().unwrap_or_default();
    assert!(lacks_stacks || function.contains("clone") || function.contains("vfork") || function.is_empty(), "{task}");
    assert!(lacks_stacks || task["stack"].to_string().contains("clone"), "{task}");
    assert!(capture["requests"].is_object() || capture["missing"].to_string().contains("requests"), "{capture}");
    assert!(capture["memory_processes"].as_array().is_some_and(|list| !list.is_empty()), "{capture}");
    end_process(&mut blocked);
    let whole = diskwright(&["why", text(&log)]);
    let whole = String::from_utf8_lossy(&whole.stdout).into_owned();
    assert!(whole.contains("captured at") && whole.contains("python3"), "{whole}");
    let page = bench.join("page.html");
    let made = diskwright(&["report", text(&log), "-o", text(&page)]);
    assert!(made.status.success(), "{}", stderr(&made));
    let page = fs::read_to_string(page).expect("a page");
    assert!(page.contains("Captured when alerts began") && page.contains("python3"));
}

/// The recording ends while requests are traced: the capture is saved as far as it is, and of a size.
#[test]
fn a_capture_that_the_end_of_the_recording_cuts_is_saved_within_its_size() {
    let bench = folder("captures_end");
    let own = bench.join("own.toml");
    fs::write(&own, OWN_ALERT).expect("a file");
    let log = bench.join("log");
    let alerts = format!("--alerts={}", text(&own));
    let arguments = ["record", text(&log), "--every", "200ms", "--for", "1500ms", "--capture", "--capture-size", "4K"];
    let recorded = diskwright(&[&arguments[..], &[&alerts]].concat());
    assert!(recorded.status.success(), "{}", stderr(&recorded));
    let document = success(&diskwright(&["why", text(&log), "--json"]));
    let captures = document["captures"].as_array().expect("captures");
    assert_eq!(captures.len(), 1, "one in five minutes");
    assert!(captures[0].to_string().len() < 5 << 10, "{}", captures[0].to_string().len());
    assert!(document["notes"].as_array().is_some_and(|notes| notes.iter().all(|note| note["kind"] != "capture")));
}

/// The option of the alert that begins at once, in a file of this folder.
fn own_alerts(bench: &std::path::Path) -> String {
    let own = bench.join("own.toml");
    fs::write(&own, OWN_ALERT).expect("a file");
    format!("--alerts={}", text(&own))
}

#[test]
fn watching_without_a_screen_prints_what_was_captured() {
    let bench = folder("captures_unattended");
    let alerts = own_alerts(&bench);
    let watch =
        ["watch", "--no-screen", "--every", "200ms", "--for", "2s", "--capture", "--no-alert", "recorder.silent"];
    let printed = diskwright(&[&watch[..], &[&alerts, "--json"]].concat());
    assert!(printed.status.success(), "{}", stderr(&printed));
    let lines = String::from_utf8_lossy(&printed.stdout).into_owned();
    let documents: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let captures: Vec<&Value> = documents.iter().filter(|one| one["schema"] == "diskwright.capture/1").collect();
    assert_eq!(captures.len(), 1, "{lines}");
    assert_eq!(captures[0]["alert"], "own.always");
    let printed = diskwright(&[&watch[..], &[&alerts]].concat());
    let lines = String::from_utf8_lossy(&printed.stdout).into_owned();
    assert!(lines.contains(" captured for alert own.always: ") && lines.contains("\n  memory: "), "{lines}");
}

#[test]
fn the_page_of_a_live_machine_shows_what_was_captured() {
    let bench = folder("captures_served");
    let alerts = own_alerts(&bench);
    let served = RunningServer::start(&["--every", "200ms", "--capture", &alerts]);
    let find_marks = || {
        let host = served.json("/api/host");
        let Some([from, to]) = host["range_ms"].as_array().map(Vec::as_slice) else { return Vec::new() };
        // after the first tick there is no range yet
        if from == to {
            return Vec::new();
        }
        let range = served.json(&format!("/api/range?from={from}&to={to}&points=10"));
        let marks = range["marks"].as_array().cloned().unwrap_or_default();
        marks.into_iter().filter(|mark| mark["kind"] == "capture").collect()
    };
    wait_until("a capture", || !find_marks().is_empty());
    let marks = find_marks();
    assert_eq!(marks.len(), 1, "{marks:?}");
    // at the time of its mark, the verdict has all of it
    let at_ms = marks[0]["time_ns"].as_f64().expect("a time") / 1e6 + 1000.0;
    let view = served.json(&format!("/api/view?at={at_ms}&judged=60000&shown=5000"));
    let capture = &view["verdict"]["captures"][0];
    assert_eq!(capture["alert"], "own.always", "{view}");
    assert!(capture["lines"].as_array().is_some_and(|lines| !lines.is_empty()), "{capture}");
}

/// Resident memory of a process, bytes.
fn resident_bytes(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.split_ascii_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) << 10
}

/// The budget of captures: 8 MiB beside the recorder. Other processes read files and trace, and end.
#[test]
fn a_recorder_that_captures_needs_little_more_memory() {
    const MAX_ADDED_BYTES: u64 = 8 << 20;
    let bench = folder("captures_memory");
    let alerts = own_alerts(&bench);
    let measure = |name: &str, options: &[&str]| {
        let log = bench.join(name);
        let arguments = [&["record", text(&log), "--every", "200ms", &alerts][..], options].concat();
        let mut recorder = crate::common::command(&arguments).stderr(Stdio::null()).spawn().expect("the program runs");
        let has_captured = || {
            let document = serde_json::from_slice::<Value>(&diskwright(&["why", text(&log), "--json"]).stdout);
            document.is_ok_and(|document| options.is_empty() || document["captures"].is_array())
        };
        wait_until("a capture", has_captured);
        let bytes = resident_bytes(recorder.id());
        interrupt(&recorder);
        recorder.wait().expect("it ends");
        bytes
    };
    let (without, with) = (measure("without", &[]), measure("with", &["--capture"]));
    assert!(without > 0 && with < without + MAX_ADDED_BYTES, "{without} and {with} bytes");
}

#[test]
fn captures_need_a_live_machine_and_their_options_need_captures() {
    let bench = folder("captures_options");
    let log = bench.join("log");
    assert!(diskwright(&["record", text(&log), "--every", "100ms", "--for", "300ms"]).status.success());
    for (arguments, expected) in [
        (&["record", "x", "--capture-every", "1m"][..], "--capture"),
        (&["record", "x", "--capture", "--capture-size", "1K"], "4K to 4M"),
        (&["watch", "--capture-per-day", "1", "--no-screen"], "--capture"),
        (&["watch", "--once", "--capture"], "--no-screen"),
        (&["watch", text(&log), "--once", "--capture"], "record DIR --capture"),
        (&["watch", text(&log), "--no-screen", "--capture"], "record DIR --capture"),
        (&["serve", text(&log), "--capture"], "record DIR --capture"),
        (&["serve", "--prometheus", "http://127.0.0.1:1", "--capture"], "record DIR --capture"),
    ] {
        let wrong = diskwright(arguments);
        assert!(wrong.status.code() == Some(2) && stderr(&wrong).contains(expected), "{}", stderr(&wrong));
    }
}

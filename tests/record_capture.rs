//! `record --capture`: a real blocked task is in the capture of an alert, which `why` and `report` show; limits of rate
//! and size; options.

use std::fs;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::common::{diskwright, folder, interrupt, stderr, success, text, wait_until};

/// An alert that begins at the first tick, so that no load is needed.
const OWN_ALERT: &str = r#"
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
    let bench = folder("record_capture_blocked");
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
    let bench = folder("record_capture_end");
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

#[test]
fn captures_need_a_log_and_their_options_need_captures() {
    for (arguments, expected) in [
        (&["record", "x", "--capture-every", "1m"][..], "--capture"),
        (&["record", "x", "--capture", "--capture-size", "1K"], "4K to 4M"),
    ] {
        let wrong = diskwright(arguments);
        assert!(wrong.status.code() == Some(2) && stderr(&wrong).contains(expected), "{}", stderr(&wrong));
    }
}

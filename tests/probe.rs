//! The command `probe` on real files: the JSON answer, refusals, interrupts.

#![allow(clippy::disallowed_methods, reason = "a test waits for another process")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::common::folder;

use serde_json::Value;

fn probe_command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_diskwright"));
    command.arg("probe").args(arguments).env("DISKWRIGHT_STATE", folder.join("state")).current_dir(folder);
    command
}

fn run_probe(folder: &Path, arguments: &[&str]) -> Output {
    probe_command(folder, arguments).output().expect("runs")
}

#[test]
fn a_suite_on_a_created_file_returns_the_documented_json() {
    let folder = folder("probe-probe-made");
    let quick = ["--for", "100ms", "--ramp", "0", "--size", "16MB", "--json"];
    let done = run_probe(&folder, &[&["quick", "probe.dat", "-o", "result.json"][..], &quick].concat());
    let stderr = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{stderr}");
    let answer: Value = serde_json::from_slice(&done.stdout).expect("JSON");
    assert_eq!((&answer["schema"], &answer["suite"]), (&"diskwright.probe/1".into(), &"quick".into()));
    let runs = answer["runs"].as_array().expect("runs");
    // a busy disk may answer no request within 0.1 s; then the run has no mean latency
    let is_consistent = |r: &Value| {
        let rate = r["requests_per_s"].as_f64().expect("a rate");
        (rate > 0.0) == r["latency_s"]["mean"].is_number() && r["failed"] == 0
    };
    assert!(runs.iter().all(is_consistent), "{answer:#}");
    assert!(runs.iter().any(|r| r["requests_per_s"].as_f64() > Some(0.0)), "{answer:#}");
    assert!(runs.iter().any(|r| r["depth"] == 64 && r["read_share"] == 1.0));
    // a file that the probe created is written to as well
    assert!(runs.iter().any(|r| r["read_share"] == 0.0));
    assert!(!folder.join("probe.dat").exists(), "the file goes away");
    let kept: Value = serde_json::from_str(&fs::read_to_string(folder.join("result.json")).unwrap()).unwrap();
    assert_eq!(kept, answer);
}

#[test]
fn refuses_what_would_lose_data() {
    let folder = folder("probe-probe-refused");
    fs::write(folder.join("data"), vec![7; 1 << 20]).unwrap();
    for (arguments, expected) in [
        (&["commit", "data"][..], "--destroy-data-on data"),
        (&["commit", "data", "--destroy-data-on", "other"], "nothing was written"),
        (&["minread", "."], "a folder"),
        (&["minread", "/dev/null"], "character device"),
    ] {
        let done = run_probe(&folder, arguments);
        let stderr = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(1), "{stderr}");
        assert!(stderr.contains(expected), "{arguments:?}: {stderr}");
    }
    assert_eq!(fs::read(folder.join("data")).unwrap(), vec![7; 1 << 20]);
    for (arguments, expected) in [
        (&["minread", "data", "--limit", "5ms"][..], "--limit goes with the suite `load`"),
        (&["quick", "data", "--limit-share", "99%"], "--limit-share goes with the suite `load`"),
        (&["quick", "data", "--members", "sda,sdb"], "--members goes with `stripes`"),
        (&["minread", "data", "--brake", "20ms"], "--brake goes with --live"),
        (&["sort-memory", ".", "--engine", "threads"], "takes no --engine"),
    ] {
        let done = run_probe(&folder, arguments);
        let stderr = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(done.status.code() == Some(2) && stderr.contains(expected), "{arguments:?}: {stderr}");
    }
    let done = run_probe(&folder, &["slowly", "data"]);
    assert_eq!(done.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&done.stderr).contains("diskmax"));
}

#[test]
fn an_interrupted_probe_keeps_finished_runs_and_cleans_up() {
    let folder = folder("probe-probe-interrupted");
    let arguments = ["depth", "probe.dat", "--for", "300ms", "--ramp", "0", "--size", "4MB", "--json", "-o", "r.json"];
    let child = probe_command(&folder, &arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("runs");
    // each run takes 0.3 s, and the suite has nine of them
    std::thread::sleep(std::time::Duration::from_millis(900));
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill");
    assert!(sent.success());
    let done = child.wait_with_output().expect("ends");
    assert!(!folder.join("probe.dat").exists(), "the file goes away");
    if let Ok(text) = fs::read_to_string(folder.join("r.json")) {
        let answer: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(answer["complete"], false);
        assert!(answer["runs"].as_array().is_some_and(|runs| !runs.is_empty() && runs.len() < 9));
    }
    assert_eq!(done.status.code(), Some(1));
}

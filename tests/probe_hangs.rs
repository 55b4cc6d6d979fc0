//! `probe` on a disk that really hangs: the first Ctrl-C ends it at once and keeps the figures, and `--brake` acts
//! while a request is in flight. The disk is served by `disk` and attached as a block device by FUSE and a loop device;
//! prints why it skips where there are none.

#![allow(clippy::disallowed_methods, reason = "a test waits for other processes")]

use std::fs::{self, File};
use std::os::unix::net::UnixStream;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use crate::common::stderr;

use crate::devices::{Bench, report_skip, run_tool, send_signal, wait_up_to_10_s};
use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_diskwright");

const DISK_SYSTEM: &str = r#"
[[drive]]
name = "disk"
count = 1
capacity = "64MB"
plain = { servers = 8, service = { constant_us = 500 } }
"#;

/// Limit for the exit: far above a second, for busy machines; far below the length of the run.
const MAX_EXIT_TIME: Duration = Duration::from_secs(10);

/// Serves and attaches a disk; returns the socket of its server and its device.
pub fn attach_disk(bench: &mut Bench) -> Option<(String, String)> {
    if File::options().read(true).write(true).open("/dev/fuse").is_err() {
        report_skip("no /dev/fuse");
        return None;
    }
    fs::write(bench.path("system.toml"), DISK_SYSTEM).expect("written");
    let (system, socket) = (bench.path("system.toml").display().to_string(), bench.path("s").display().to_string());
    let journal = bench.path("journal").display().to_string();
    bench.start_program(PROGRAM, &["disk", &system, "--socket", &socket])?;
    wait_up_to_10_s(|| UnixStream::connect(&socket).is_ok()).expect("served");
    bench.run_at_end(PROGRAM, &["disk", "detach", "--all", "--force", "--journal", &journal]);
    let words = ["disk", "attach", "--by", "fuse", "--socket", &socket, "--journal", &journal];
    let device = run_tool(PROGRAM, &words)?;
    // released first of all: nothing can be detached while the disk hangs
    bench.run_at_end(PROGRAM, &["disk", "release", "disk", "--socket", &socket]);
    Some((socket, device))
}

/// Sends a command to the running server.
pub fn send_command(socket: &str, command: &str) {
    run_tool(PROGRAM, &["disk", command, "disk", "--socket", socket]).expect("obeyed");
}

/// Number of reads that a device has completed.
fn completed_reads(device: &str) -> u64 {
    let stat = fs::read_to_string(format!("/sys/block/{}/stat", device.trim_start_matches("/dev/")));
    stat.ok().and_then(|stat| stat.split_ascii_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// Probes the device (the second word) for a moment, then lets the disk hang and calls `end`. Returns the output, and
/// the time from `end` to the exit.
fn probe_hanging_disk(bench: &Bench, socket: &str, words: &[&str], end: impl FnOnce(u32)) -> (Output, Duration) {
    let _ = fs::remove_file(bench.path("result.json"));
    let device = words[1];
    // more reads than the probe does before it measures
    let enough = completed_reads(device) + 500;
    let words = [words, &["--for", "60s", "-o", "result.json"]].concat();
    let mut command = bench.command(&words);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("runs");
    // on a busy disk, the reads of ten seconds are enough too
    let _ = wait_up_to_10_s(|| completed_reads(device) > enough);
    send_command(socket, "hang");
    std::thread::sleep(Duration::from_millis(500));
    let begun = Instant::now();
    end(child.id());
    let done = child.wait_with_output().expect("ends");
    let took = begun.elapsed();
    send_command(socket, "release");
    eprintln!("{words:?} ended {took:?} later: {}", stderr(&done));
    (done, took)
}

#[test]
fn a_signal_ends_a_probe_of_a_hanging_disk_and_keeps_its_figures() {
    let Some(mut bench) = Bench::new("hangs-signal") else { return };
    let Some((socket, device)) = attach_disk(&mut bench) else { return };
    for (engine, suite) in [("best", "depth"), ("threads", "depth"), ("threads", "diskmax")] {
        let words = [suite, &device, "--engine", engine];
        let (done, took) = probe_hanging_disk(&bench, &socket, &words, |process| send_signal("-INT", process));
        assert!(took < MAX_EXIT_TIME, "{engine}: {took:?}");
        assert_eq!(done.status.code(), Some(1), "{engine}: {}", stderr(&done));
        assert!(stderr(&done).contains("interrupted"), "{engine}: {}", stderr(&done));
        let text = fs::read_to_string(bench.path("result.json")).expect("a result");
        let answer: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!((&answer["complete"], &answer["because"]), (&false.into(), &"interrupted".into()));
        let run = &answer["runs"][0];
        assert!(run["requests_per_s"].as_f64().is_some_and(|rate| rate > 10.0), "{engine}: {run:#}");
        assert!(run["unanswered"].as_u64().is_some_and(|count| count > 0), "{engine}: {run:#}");
        assert!(run["unanswered_s"].as_f64().is_some_and(|age| age > 0.4), "{engine}: {run:#}");
        let remarks = answer["remarks"].as_array().expect("remarks");
        assert!(remarks.iter().any(|remark| remark["id"] == "unanswered"), "{answer:#}");
    }
}

#[test]
fn the_brake_acts_on_a_request_in_flight() {
    let Some(mut bench) = Bench::new("hangs-brake") else { return };
    let Some((socket, device)) = attach_disk(&mut bench) else { return };
    for engine in ["best", "threads"] {
        // the disk still hangs when the probe ends: it is released only afterwards
        let words = ["depth", &device, "--engine", engine, "--live", "--brake", "200ms"];
        let (done, took) = probe_hanging_disk(&bench, &socket, &words, |_| {});
        assert!(took < MAX_EXIT_TIME, "{engine}: {took:?}");
        assert_eq!(done.status.code(), Some(1), "{engine}: {}", stderr(&done));
        let words = "s and more to respond, more than the 0.2 s of --brake";
        assert!(stderr(&done).contains(words), "{engine}: {}", stderr(&done));
    }
}

#[test]
fn a_second_signal_ends_a_probe_of_a_hanging_disk() {
    let Some(mut bench) = Bench::new("hangs-twice") else { return };
    let Some((socket, device)) = attach_disk(&mut bench) else { return };
    let (done, took) = probe_hanging_disk(&bench, &socket, &["depth", &device, "--engine", "threads"], |process| {
        send_signal("-INT", process);
        send_signal("-INT", process);
    });
    // the first signal may have ended it already
    assert!(took < MAX_EXIT_TIME && matches!(done.status.code(), Some(1 | 130)), "{took:?}, {}", stderr(&done));
}

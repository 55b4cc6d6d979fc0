//! `probe` on a disk that really hangs: the first Ctrl-C ends it at once and keeps the figures, and `--brake` acts
//! while a request is in flight. The disk is served by `disk` and attached as a block device by FUSE and a loop device;
//! prints why it skips where there are none.

#![allow(clippy::disallowed_methods, reason = "a test waits for other processes")]

use std::fs::{self, File};
use std::os::unix::net::UnixStream;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use crate::common::said;

use crate::devices::{Bench, kill, skip, tool, within};
use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_diskwright");

const DISK: &str = r#"
[[drive]]
name = "disk"
count = 1
capacity = "64MB"
plain = { servers = 8, service = { constant_us = 500 } }
"#;

/// Limit for the exit: far above a second, for busy machines; far below the length of the run.
const SOON: Duration = Duration::from_secs(10);

/// Serves and attaches a disk; returns the socket of its server and its device.
fn attached(bench: &mut Bench) -> Option<(String, String)> {
    if File::options().read(true).write(true).open("/dev/fuse").is_err() {
        skip("no /dev/fuse");
        return None;
    }
    fs::write(bench.path("system.toml"), DISK).expect("written");
    let (system, socket) = (bench.path("system.toml").display().to_string(), bench.path("s").display().to_string());
    let journal = bench.path("journal").display().to_string();
    bench.start(PROGRAM, &["disk", &system, "--socket", &socket])?;
    within(|| UnixStream::connect(&socket).is_ok()).expect("served");
    bench.later(PROGRAM, &["disk", "detach", "--all", "--force", "--journal", &journal]);
    let words = ["disk", "attach", "--by", "fuse", "--socket", &socket, "--journal", &journal];
    let device = tool(PROGRAM, &words)?;
    // released first of all: nothing can be detached while the disk hangs
    bench.later(PROGRAM, &["disk", "release", "disk", "--socket", &socket]);
    Some((socket, device))
}

/// Sends a command to the running server.
fn order(socket: &str, command: &str) {
    tool(PROGRAM, &["disk", command, "disk", "--socket", socket]).expect("obeyed");
}

/// Number of reads that a device has completed.
fn reads(device: &str) -> u64 {
    let stat = fs::read_to_string(format!("/sys/block/{}/stat", device.trim_start_matches("/dev/")));
    stat.ok().and_then(|stat| stat.split_ascii_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// Probes the device (the second word) for a moment, then lets the disk hang and calls `end`. Returns the output, and
/// the time from `end` to the exit.
fn hung(bench: &Bench, socket: &str, words: &[&str], end: impl FnOnce(u32)) -> (Output, Duration) {
    let _ = fs::remove_file(bench.path("result.json"));
    let device = words[1];
    // more reads than the probe does before it measures
    let enough = reads(device) + 500;
    let words = [words, &["--for", "60s", "-o", "result.json"]].concat();
    let mut command = bench.command(&words);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("runs");
    // on a busy disk, the reads of ten seconds are enough too
    let _ = within(|| reads(device) > enough);
    order(socket, "hang");
    std::thread::sleep(Duration::from_millis(500));
    let begun = Instant::now();
    end(child.id());
    let done = child.wait_with_output().expect("ends");
    let took = begun.elapsed();
    order(socket, "release");
    eprintln!("{words:?} ended {took:?} later: {}", said(&done));
    (done, took)
}

#[test]
fn a_signal_ends_a_probe_of_a_disk_that_hangs_and_keeps_its_figures() {
    let Some(mut bench) = Bench::new("hangs-signal") else { return };
    let Some((socket, device)) = attached(&mut bench) else { return };
    for (engine, suite) in [("best", "depth"), ("threads", "depth"), ("threads", "diskmax")] {
        let words = [suite, &device, "--engine", engine];
        let (done, took) = hung(&bench, &socket, &words, |process| kill("-INT", process));
        assert!(took < SOON, "{engine}: {took:?}");
        assert_eq!(done.status.code(), Some(1), "{engine}: {}", said(&done));
        assert!(said(&done).contains("interrupted"), "{engine}: {}", said(&done));
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
fn a_brake_acts_on_a_request_in_flight() {
    let Some(mut bench) = Bench::new("hangs-brake") else { return };
    let Some((socket, device)) = attached(&mut bench) else { return };
    for engine in ["best", "threads"] {
        // the disk still hangs when the probe ends: it is released only afterwards
        let words = ["depth", &device, "--engine", engine, "--live", "--brake", "200ms"];
        let (done, took) = hung(&bench, &socket, &words, |_| {});
        assert!(took < SOON, "{engine}: {took:?}");
        assert_eq!(done.status.code(), Some(1), "{engine}: {}", said(&done));
        let words = "s and more to respond, more than the 0.2 s of --brake";
        assert!(said(&done).contains(words), "{engine}: {}", said(&done));
    }
}

#[test]
fn a_second_signal_ends_it_whatever_goes_on() {
    let Some(mut bench) = Bench::new("hangs-twice") else { return };
    let Some((socket, device)) = attached(&mut bench) else { return };
    let (done, took) = hung(&bench, &socket, &["depth", &device, "--engine", "threads"], |process| {
        kill("-INT", process);
        kill("-INT", process);
    });
    // the first signal may have ended it already
    assert!(took < SOON && matches!(done.status.code(), Some(1 | 130)), "{took:?}, {}", said(&done));
}

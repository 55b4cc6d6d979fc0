//! `record --capture` beside what really hangs: a disk that completes nothing, and a filesystem that does not answer.
//! The capture ends in its time, has the blocked task, and no tick waits for it. Takes root, FUSE and loop devices;
//! prints why it skips where there are none.

#![allow(clippy::disallowed_methods, reason = "a test waits for other processes")]

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::captures::OWN_ALERT;
use crate::common::{diskwright, folder, success, text};
use crate::devices::{Bench, wait_up_to_10_s};
use crate::network_mounts::run_with_silent_mount;
use crate::probe_hangs::{attach_disk, send_command};

const PROGRAM: &str = env!("CARGO_BIN_EXE_diskwright");
/// Longest time of a recording of ten seconds whose capture began in it: a capture takes at most 22 s.
const MAX_TIME: Duration = Duration::from_secs(60);

/// The blocked task of this name in the capture of a log. The ticks went on meanwhile.
fn find_blocked_task(log: &Path, name: &str) -> Value {
    let document = success(&diskwright(&["why", text(log), "--json"]));
    let capture = &document["captures"][0];
    assert_eq!(capture["alert"], "own.always", "{document}");
    assert!(document["window"]["ticks"].as_u64().is_some_and(|ticks| ticks > 10), "{}", document["window"]);
    let tasks = capture["blocked"]["tasks"].as_array().expect("a list");
    tasks.iter().find(|task| task["name"] == name).unwrap_or_else(|| panic!("{capture}")).clone()
}

#[test]
fn a_disk_that_completes_nothing_delays_no_capture_and_its_reader_is_in_it() {
    let Some(mut bench) = Bench::new("capture-hangs") else { return };
    let Some((socket, device)) = attach_disk(&mut bench) else { return };
    let own = bench.path("own.toml");
    fs::write(&own, OWN_ALERT).expect("a file");
    let reader = format!("if={device}");
    let Some(reader) = bench.start_program("dd", &[&reader, "of=/dev/null", "iflag=direct", "bs=4k", "count=1000000"])
    else {
        return;
    };
    send_command(&socket, "hang");
    let is_blocked = || {
        let stat = fs::read_to_string(format!("/proc/{reader}/stat")).unwrap_or_default();
        stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('D'))
    };
    wait_up_to_10_s(is_blocked).expect("it waits for the disk");
    let (log, alerts, begun) = (bench.path("log"), format!("--alerts={}", own.display()), Instant::now());
    // on another disk, which does not hang
    let recorded =
        diskwright(&["record", text(&log), "--every", "250ms", "--for", "10s", "--json", "--capture", &alerts]);
    assert!(begun.elapsed() < MAX_TIME, "{:?}", begun.elapsed());
    assert_eq!(success(&recorded)["ticks_lost"], 0);
    find_blocked_task(&log, "dd");
    send_command(&socket, "release");
}

#[test]
fn a_filesystem_that_never_answers_delays_no_capture_and_who_waits_is_in_it() {
    let bench = folder("capture-silent-mount");
    let (point, log, own) = (bench.join("mnt"), bench.join("log"), bench.join("own.toml"));
    fs::create_dir(&point).expect("a folder");
    fs::write(&own, OWN_ALERT).expect("a file");
    // the shell's child waits for the mount while the recorder captures
    let record = format!(
        "stat -f {} > {}.out 2>&1 & asks=$!; {PROGRAM} record --every 250ms --for 10s --capture --alerts={} {}; \
         code=$?\nkill -9 $asks; exit $code",
        text(&point),
        text(&log),
        text(&own),
        text(&log)
    );
    let Some((output, took)) = run_with_silent_mount(text(&point), &["bash", "-c", &record]) else { return };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(took < MAX_TIME, "{took:?}");
    find_blocked_task(&log, "stat");
}

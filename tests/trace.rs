//! `trace`: a traced load, wrong usage, and the message without privileges.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::common::{command, diskwright, folder, json, stderr, success, text};

/// A loop device over a file in memory; detached when it is dropped.
pub struct TracedDisk {
    file: PathBuf,
    device: String,
}

impl TracedDisk {
    /// Attaches the device; `None`, with the reason printed, where this machine cannot trace or attach it.
    pub fn attach(name: &str) -> Option<TracedDisk> {
        let status = diskwright(&["trace", "status", "--json"]);
        let status = success(&status);
        if status["tracefs"] != Value::Bool(true) {
            eprintln!("skipped: no tracing here: {}", status["because"]);
            return None;
        }
        let file = Path::new("/dev/shm").join(format!("diskwright-{name}-{}", std::process::id()));
        fs::write(&file, vec![1; 16 << 20]).expect("a file in memory");
        let made = Command::new("losetup").args(["-f", "--show"]).arg(&file).output();
        let made = made.ok().filter(|made| made.status.success());
        let Some(made) = made else {
            let _ = fs::remove_file(&file);
            eprintln!("skipped: no loop device");
            return None;
        };
        Some(TracedDisk { file, device: String::from_utf8_lossy(&made.stdout).trim().to_owned() })
    }

    /// Path of the device.
    pub fn device(&self) -> &str {
        &self.device
    }

    /// Traces while 300 blocks are read and 20 are written; returns the output of `trace`.
    fn trace_reads_and_writes(&self, more: &[&str]) -> std::process::Output {
        let words = [&["trace", &self.device, "--for", "3s", "--budget", "100%"], more].concat();
        let traced = command(&words).stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn();
        let traced = traced.expect("the program runs");
        std::thread::park_timeout(std::time::Duration::from_millis(1500));
        let run = |words: &[String]| assert!(Command::new("dd").args(words).output().expect("dd").status.success());
        let device = &self.device;
        run(&[
            format!("if={device}"),
            "of=/dev/null".into(),
            "bs=4k".into(),
            "count=300".into(),
            "iflag=direct".into(),
        ]);
        run(&[
            "if=/dev/zero".into(),
            format!("of={device}"),
            "bs=4k".into(),
            "count=20".into(),
            "oflag=direct".into(),
            "conv=fsync,notrunc".into(),
        ]);
        traced.wait_with_output().expect("an end")
    }
}

impl Drop for TracedDisk {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["-d", &self.device]).status();
        let _ = fs::remove_file(&self.file);
    }
}

/// Figures of an operation on the only device.
fn find_operation<'a>(document: &'a Value, name: &str) -> &'a Value {
    let operations = document["devices"][0]["operations"].as_array().expect("operations");
    operations.iter().find(|o| o["operation"] == name).unwrap_or_else(|| panic!("no {name}: {document}"))
}

#[test]
fn a_trace_has_requests_stages_and_processes() {
    let Some(disk) = TracedDisk::attach("trace-json") else { return };
    let document = success(&disk.trace_reads_and_writes(&["--json", "--method", "tracefs"]));
    assert_eq!((&document["schema"], &document["method"]), (&"diskwright.trace/1".into(), &"tracefs".into()));
    let read = find_operation(&document, "read");
    assert!(read["requests"].as_u64().is_some_and(|n| n >= 300), "{read}");
    for stage in ["queue", "scheduler", "device"] {
        assert_eq!(read["stages_s"][stage]["count"], read["requests"], "{stage}");
    }
    // a percentile needs ten requests above it: 300 requests have ten above the 90th, but not above the 99th
    assert!(read["latency_s"]["p90"].is_f64() && read["latency_s"]["p999"].is_null(), "{read}");
    assert!(find_operation(&document, "sync_write")["requests"].as_u64().is_some_and(|n| n >= 20));
    assert!(find_operation(&document, "flush")["requests"].as_u64().is_some_and(|n| n >= 1));
    let processes = document["devices"][0]["processes"].as_array().expect("processes");
    assert!(processes.iter().any(|p| p["comm"] == "dd" && p["sure"] == true), "{processes:?}");
    assert_eq!((&document["dropped"], &document["events"]["unknown"]), (&0.into(), &0.into()));
    assert!(document["cost"]["cpu_share"].as_f64().is_some_and(|share| share > 0.0));
    assert!(document["worst"].as_array().is_some_and(|worst| worst.len() == 20 && worst[0]["latency_s"].is_f64()));
}

#[test]
fn bpf_histograms_name_their_method() {
    let Some(disk) = TracedDisk::attach("trace-bpf") else { return };
    let traced = disk.trace_reads_and_writes(&["--json", "--method", "bpf"]);
    if !traced.status.success() && stderr(&traced).contains("bpf") {
        eprintln!("skipped: no bpf here: {}", stderr(&traced));
        return;
    }
    let document = success(&traced);
    assert_eq!((&document["method"], &document["latency_from"]), (&"bpf".into(), &"start".into()));
    let read = find_operation(&document, "read");
    assert!(read["requests"].as_u64().is_some_and(|n| n >= 300), "{read}");
    assert!(read["bytes"].as_u64().is_some_and(|n| n >= 300 * 4096), "{read}");
}

/// The file has the format of blktrace: `show`, `plan`, `report` and blkparse find the same requests in it.
#[test]
fn other_commands_read_a_saved_trace() {
    let Some(disk) = TracedDisk::attach("trace-out") else { return };
    let file = folder("trace-out").join("requests.blktrace");
    let traced = disk.trace_reads_and_writes(&["--out", text(&file)]);
    assert!(traced.status.success(), "{}", stderr(&traced));
    let shown = success(&diskwright(&["show", text(&file), "--json"]));
    assert_eq!((&shown["format"], &shown["wall_clock"]), (&"blktrace".into(), &true.into()));
    let reads = shown["all"]["operations"]["read"]["requests"].as_u64().expect("reads");
    assert!(reads >= 300, "{shown}");
    assert!(shown["all"]["operations"]["flush"]["requests"].as_u64().is_some_and(|n| n >= 1));
    let screen = String::from_utf8_lossy(&traced.stdout).into_owned();
    assert!(screen.contains("every event, by tracefs") && screen.contains("no events were lost"), "{screen}");
    // other commands read it as a log
    let planned = diskwright(&["plan", "--from", text(&file), "--demand-only", "--json"]);
    assert!(stderr(&planned).contains("not enough data"), "a second is no load to plan for: {}", stderr(&planned));
    let page = folder("trace-out-page").join("page.html");
    let reported = diskwright(&["report", text(&file), "-o", text(&page)]);
    assert!(reported.status.success(), "{}", stderr(&reported));
    let page = fs::read_to_string(page).expect("a page");
    assert!(page.contains("Latency of single requests"), "no heat map");
    let Ok(parsed) =
        Command::new("blkparse").args(["-q", "-i", "-"]).stdin(fs::File::open(&file).expect("it")).output()
    else {
        eprintln!("skipped: no blkparse");
        return;
    };
    let lines = String::from_utf8_lossy(&parsed.stdout).into_owned();
    let completed = lines.lines().filter(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        fields.get(5) == Some(&"C") && fields.get(6).is_some_and(|rwbs| rwbs.starts_with('R'))
    });
    assert_eq!(completed.count() as u64, reads);
}

#[test]
fn refuses_what_cannot_be_traced() {
    for (words, code, message) in [
        (&["trace", "no-such-disk"][..], 1, "no such block device"),
        (&["trace", "../../etc"][..], 1, "no such block device"),
        (&["trace", "--for", "0s"][..], 2, "invalid duration"),
        (&["trace", "--every", "1ms"][..], 2, "--every takes at least 50 ms"),
        (&["trace", "--budget", "none"][..], 2, "is not a share"),
        (&["trace", "--method", "bpf", "--out", "x"][..], 2, "does not keep"),
    ] {
        let output = diskwright(words);
        assert_eq!(output.status.code(), Some(code), "{words:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(message), "{words:?}: {}", stderr(&output));
    }
}

/// Without privileges the message says what is not possible, which command makes it possible, and what works without.
#[test]
fn prints_the_command_to_run_without_privileges() {
    let program = env!("CARGO_BIN_EXE_diskwright");
    let is_root = rustix::process::geteuid().is_root();
    let output = if is_root {
        // the user nobody may not enter the build folder, so the program is passed as a descriptor
        let script = format!(
            "exec 3<{program}; exec setpriv --reuid 65534 --regid 65534 --clear-groups \
            --bounding-set=-all --inh-caps=-all /proc/self/fd/3 trace vda --for 1s"
        );
        Command::new("sh").args(["-c", &script]).output()
    } else {
        Ok(diskwright(&["trace", "--for", "1s"]))
    };
    let output = output.expect("sh");
    if stderr(&output).contains("setpriv") || stderr(&output).contains("no such block device") {
        eprintln!("skipped: no setpriv or no disk vda");
        return;
    }
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    for part in ["cannot trace single requests", "sudo diskwright trace", "--for 1s", "diskwright why"] {
        assert!(stderr(&output).contains(part), "{part}: {}", stderr(&output));
    }
}

#[test]
fn trace_status_has_the_documented_fields() {
    let document = json(&diskwright(&["trace", "status", "--json"]));
    assert_eq!(document["schema"], "diskwright.trace-status/1");
    assert!(document["tracefs"].is_boolean() && document["instances"].is_array());
    assert_eq!(document["bpf_usable"], document["bpf_because"].is_null());
}

#[test]
fn trace_status_says_what_this_user_can_do() {
    let document = json(&diskwright(&["trace", "status", "--json"]));
    let text = diskwright(&["trace", "status"]);
    let text = String::from_utf8_lossy(&text.stdout);
    let line = text.lines().find(|line| line.starts_with("bpf: ")).expect("a line about bpf");
    assert_eq!(line == "bpf: usable", document["bpf_usable"] == true, "{line}");
    if rustix::process::geteuid().is_root() {
        assert!(!line.contains("needs root"), "{line}");
    }
}

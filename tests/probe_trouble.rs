//! `probe` on targets that are broken, break, or vanish, and signals to it: finished runs are kept, each failure has
//! its message, and nothing is left behind. Needs root, loop devices and nbdkit; prints why it skips without them.

#![allow(clippy::disallowed_methods, reason = "a test waits for another process")]

use std::fs::{self, File};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::said;

use crate::devices::{Bench, skip, tool, within};
use crate::sweep::sweep;
use serde_json::Value;

/// Reads the result file of a probe.
fn kept(bench: &Bench) -> Value {
    let text = fs::read_to_string(bench.path("result.json")).expect("a result file");
    serde_json::from_str(&text).expect("JSON")
}

/// Sentence of the remark with this id.
fn remark(answer: &Value, id: &str) -> String {
    let remarks = answer["remarks"].as_array().expect("remarks");
    let found = remarks.iter().find(|r| r["id"] == id).unwrap_or_else(|| panic!("no remark {id}: {answer:#}"));
    found["text"].as_str().expect("a sentence").to_owned()
}

/// Starts a probe, waits until it measures, and then for `more`.
fn started(bench: &Bench, arguments: &[&str], more: Duration) -> Child {
    let arguments = [arguments, &["-o", "result.json"]].concat();
    let mut command = bench.command(&arguments);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("runs");
    let is_ring = |e: fs::DirEntry| fs::read_link(e.path()).is_ok_and(|p| p.to_string_lossy().contains("io_uring"));
    let measures = |id: u32| fs::read_dir(format!("/proc/{id}/fd")).is_ok_and(|all| all.flatten().any(is_ring));
    // without io_uring it measures within the ten seconds as well
    let _ = within(|| worker(child.id()).is_some_and(measures));
    std::thread::sleep(more);
    child
}

/// Child process of the started one: the one that measures.
fn worker(starter: u32) -> Option<u32> {
    let all = fs::read_dir("/proc").ok()?.flatten().filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok());
    let status = |id: &u32| fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    all.into_iter().find(|id| status(id).lines().any(|line| line == format!("PPid:\t{starter}")))
}

fn signal(name: &str, process: u32) {
    let sent = Command::new("kill").args([&format!("-{name}"), &process.to_string()]).status().expect("kill");
    assert!(sent.success());
}

#[test]
fn a_live_device_that_answers_slowly_is_left_alone() {
    let Some(mut bench) = Bench::new("trouble-brake") else { return };
    let Some((device, _)) = bench.served(16, &["--filter=delay", "rdelay=30ms"]) else { return };
    if tool("mkfs.ext4", &["-q", &device]).is_none() {
        return;
    }
    let Some(_point) = bench.mount(&device, "point", "ro,noload") else { return };
    bench.fails(&["depth", &device], &["is mounted on", "use --live"]);
    let begun = Instant::now();
    let stopped = ["is mounted", "to respond, more than the 0.02 s of --brake"];
    bench.fails(&["depth", &device, "--live", "--brake", "20ms", "--for", "60s"], &stopped[1..]);
    assert!(begun.elapsed() < Duration::from_secs(30), "it went on under load");
    // a brake above the latencies of the device does not act
    let answer = bench.measures(&["minread", &device, "--live", "--brake", "60s", "--for", "300ms"]);
    let mean = answer["runs"][0]["latency_s"]["mean"].as_f64().expect("a mean");
    assert!(mean >= 0.03, "{mean}");
}

#[test]
fn errors_are_counted_and_what_succeeds_is_measured() {
    let Some(mut bench) = Bench::new("trouble-errors") else { return };
    let trigger = bench.path("trigger");
    let rate = ["error=EIO", "error-pread-rate=10%", &format!("error-file={}", trigger.display())];
    let Some((device, _)) = bench.served(16, &[&["--filter=error"], &rate[..]].concat()) else { return };
    File::create(&trigger).expect("a trigger");
    let answer = bench.measures(&["diskmax", &device, "--for", "1s"]);
    // no more errors while the devices are detached
    fs::remove_file(&trigger).expect("no trigger");
    assert_eq!(answer["complete"], true);
    let run = &answer["runs"][0];
    let (failed, rate) = (run["failed"].as_f64().expect("a count"), run["requests_per_s"].as_f64().expect("a rate"));
    assert!(failed > 0.0 && rate > 0.0, "{run:#}");
    let share = failed / (failed + rate * run["measured_s"].as_f64().expect("a time"));
    // loop and FUSE may split a request in two, and either part can fail
    assert!(share > 0.03 && share < 0.4, "{share}: {run:#}");
    assert_eq!(run["errors"][0]["number"], 5);
    let text = remark(&answer, "failed");
    assert!(text.contains("Input/output error") && text.contains("rates and latencies do not include them"), "{text}");
}

#[test]
fn a_target_that_vanishes_ends_the_probe_and_not_its_results() {
    let Some(mut bench) = Bench::new("trouble-vanishes") else { return };
    let Some((device, server)) = bench.served(16, &[]) else { return };
    let child = started(&bench, &["depth", &device, "--for", "1s"], Duration::from_millis(2500));
    signal("KILL", server);
    let begun = Instant::now();
    let done = child.wait_with_output().expect("ends");
    assert!(begun.elapsed() < Duration::from_secs(60), "it asked a dead device for long");
    assert_eq!(done.status.code(), Some(1), "{}", said(&done));
    assert!(said(&done).contains("requests failed, the first with: Input/output error"), "{}", said(&done));
    let answer = kept(&bench);
    assert_eq!(answer["complete"], false);
    assert!(answer["because"].as_str().is_some_and(|b| b.contains("requests failed")), "{answer:#}");
    assert!(answer["runs"][0]["requests_per_s"].as_f64().is_some_and(|rate| rate > 0.0), "{answer:#}");
    // a new probe of the vanished device fails at its start
    bench.fails(&["minread", &device], &[&device]);
}

#[test]
fn a_file_that_is_cut_off_is_no_fast_one() {
    let Some(bench) = Bench::new("trouble-cut") else { return };
    let path = bench.path("data");
    fs::write(&path, vec![7; 8 << 20]).expect("a file");
    let child = started(&bench, &["depth", "data", "--for", "1s"], Duration::from_millis(2500));
    File::options().write(true).open(&path).and_then(|f| f.set_len(0)).expect("cut");
    let done = child.wait_with_output().expect("ends");
    assert_eq!(done.status.code(), Some(1), "{}", said(&done));
    assert!(said(&done).contains("has become smaller"), "{}", said(&done));
    let answer = kept(&bench);
    assert_eq!(answer["complete"], false);
    // the run during which the file was cut counts only the requests before, and says so
    if answer["runs"].as_array().is_some_and(|runs| runs.iter().any(|r| r["short"].as_u64() > Some(0))) {
        assert!(remark(&answer, "short").contains("not counted"));
    }
}

#[test]
fn signals_keep_what_was_measured_and_leave_no_file() {
    let Some(bench) = Bench::new("trouble-signals") else { return };
    for name in ["INT", "TERM"] {
        let _ = fs::remove_file(bench.path("result.json"));
        let arguments = ["depth", "probe.dat", "--size", "4MiB", "--for", "1s"];
        let child = started(&bench, &arguments, Duration::from_millis(2500));
        signal(name, child.id());
        let done = child.wait_with_output().expect("ends");
        assert_eq!(done.status.code(), Some(1), "{}", said(&done));
        assert!(said(&done).contains("interrupted"), "{}", said(&done));
        let answer = kept(&bench);
        let runs = answer["runs"].as_array().expect("runs");
        assert!(answer["complete"] == false && !runs.is_empty() && runs.len() < 9, "{name}: {answer:#}");
        assert!(!bench.path("probe.dat").exists());
    }
}

#[test]
fn nothing_is_left_of_a_probe_that_is_killed() {
    let Some(bench) = Bench::new("trouble-killed") else { return };
    let killed = |name: &str, words: &[&str]| {
        let arguments = [&["depth", name, "--size", "4MiB", "--for", "60s"], words].concat();
        let mut child = started(&bench, &arguments, Duration::from_millis(200));
        child.kill().expect("ends");
        child.wait().expect("ends");
        bench.path(name).exists()
    };
    assert!(!killed("probe.dat", &[]), "it has no name where the filesystem can do that");
    // with --keep the file has a name, and the next probe recognizes it
    assert!(killed("kept.dat", &["--keep"]));
    bench.fails(&["commit", "kept.dat"], &["an earlier probe filled and kept", "use --destroy-data-on kept.dat"]);
}

#[test]
fn a_filesystem_that_fills_says_so_and_keeps_nothing() {
    let Some(mut bench) = Bench::new("trouble-full") else { return };
    // a filesystem of 64 MiB over a backing file that can hold 24 MiB
    fs::create_dir_all(bench.path("memory")).expect("a folder");
    let mut mount = Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", "size=24m", "tmpfs"]).arg(bench.path("memory"));
    if !mount.status().is_ok_and(|s| s.success()) {
        return skip("no tmpfs");
    }
    let path = bench.path("memory").display().to_string();
    bench.later("umount", &[&path]);
    let backing = bench.file("memory/disk", 64 << 20);
    let Some(device) = bench.attach(&backing, &[]) else { return };
    if tool("mkfs.ext4", &["-q", "-O", "^has_journal", &device]).is_none() {
        return;
    }
    let Some(_point) = bench.mount(&device, "point", "noatime") else { return };
    bench
        .fails(&["minread", "point/probe.dat", "--size", "50MiB"], &["are free, and at most half of that may be used"]);
    bench.fails(&["minread", "point/probe.dat", "--size", "512K"], &["at least 1 MiB"]);
    bench.fails(&["minread", "point/probe.dat", "--size", "26MiB"], &["point/probe.dat: cannot be filled"]);
    bench.fails(&["minread", "point/probe.dat", "--size", "26MiB", "--keep"], &["cannot be filled"]);
    let left: Vec<_> = fs::read_dir(bench.path("point")).expect("a folder").flatten().map(|e| e.file_name()).collect();
    assert_eq!(left, ["lost+found"]);
}

#[test]
fn what_cannot_be_measured_says_what_could() {
    let Some(mut bench) = Bench::new("trouble-kinds") else { return };
    let disk = bench.exact_file("disk", 4 << 20);
    let Some(device) = bench.attach(&disk, &[]) else { return };
    let Some(read_only) = bench.attach(&disk, &["--read-only"]) else { return };
    bench.fails(
        &["commit", &read_only, "--destroy-data-on", &read_only],
        &["the device is read-only", "suites that only read"],
    );
    bench.measures(&["minread", &read_only]);
    bench.fails(&["minread", &device, "--size", "8MiB"], &["8388608 bytes are requested, but it has 4194304"]);
    assert_eq!(bench.measures(&["minread", &device, "--size", "2MiB"])["target_bytes"], 2 << 20);
    if tool("mkfifo", &[&bench.path("pipe").display().to_string()]).is_some() {
        bench.fails(&["minread", "pipe"], &["a pipe or socket"]);
    }
    let _socket = std::os::unix::net::UnixListener::bind(bench.path("socket")).expect("a socket");
    bench.fails(&["minread", "socket"], &["a pipe or socket"]);
    bench.fails(&["minread", "/dev/zero"], &["a character device (a terminal, a tape"]);
    bench.fails(&["minread", "."], &["a folder", "created, filled and removed"]);
    bench.fails(&["minread", "no/such/folder/file"], &["cannot be created", "No such file"]);
    std::os::unix::fs::symlink("round", bench.path("round")).expect("a link");
    bench.fails(&["minread", "round"], &["symbolic links"]);
    // a character device
    let free = "/dev/loop-control";
    bench.fails(&["minread", free], &["a character device"]);
    // stat gives it 4096 bytes, but it does not support direct I/O
    bench.fails(&["minread", "/sys/devices/system/cpu/online"], &["direct I/O; --buffered measures its cache"]);
    let learned = || fs::read_dir(bench.path("state")).map_or(0, Iterator::count);
    let before = learned();
    let sparse = bench.file("sparse", 4 << 20);
    let answer = bench.measures(&["minread", &sparse.display().to_string()]);
    assert!(remark(&answer, "target").contains("100 % of the file is holes"), "{answer:#}");
    let answer = bench.measures(&["minread", "/dev/shm/diskwright-probe.dat", "--size", "1MiB"]);
    assert!(remark(&answer, "target").contains("is in memory"), "{answer:#}");
    assert_eq!(learned(), before, "no ceiling is learned from what asks no disk");
}

#[test]
fn a_read_only_filesystem_is_read_and_not_written_to() {
    let Some(mut bench) = Bench::new("trouble-readonly") else { return };
    let Some(device) = bench.device("disk", 16) else { return };
    if tool("mkfs.ext4", &["-q", &device]).is_none() {
        return;
    }
    let Some(point) = bench.mount(&device, "point", "noatime") else { return };
    fs::write(point.join("data"), vec![7; 1 << 20]).expect("a file");
    let path = point.display().to_string();
    if tool("mount", &["-o", "remount,ro", &path]).is_none() {
        return;
    }
    bench.measures(&["minread", "point/data"]);
    let write = ["commit", "point/data", "--destroy-data-on", "point/data"];
    bench.refused(&write, &point.join("data").display().to_string(), &["is read-only, and cannot be written to"]);
    bench.fails(&["minread", "point/new"], &["point/new: cannot be created: Read-only file system"]);
}

/// A mistyped device name creates no file in /dev, /proc or /sys: neither as a target nor as output.
#[test]
fn nothing_is_made_among_devices() {
    let program = env!("CARGO_BIN_EXE_diskwright");
    let run = |words: &[&str]| Command::new(program).args(words).output().expect("runs");
    let listed: Value = serde_json::from_slice(&run(&["list", "suites", "--json"]).stdout).expect("a list of suites");
    let ids: Vec<&str> =
        listed["entries"].as_array().expect("entries").iter().filter_map(|s| s["id"].as_str()).collect();
    assert!(ids.len() > 5, "{listed}");
    let folder = tempfile::tempdir().expect("a folder");
    let script = folder.path().join("job.fio");
    fs::write(&script, "[a]\nfilename=/dev/diskwright-nope\nrw=randread\nsize=1m\n").expect("written");
    let refused = |words: &[&str], path: &str| {
        let done = run(words);
        let stderr = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(1), "{words:?}: {stderr}");
        assert!(
            stderr.contains(path) && stderr.contains("no file is created in /dev, /proc or /sys"),
            "{words:?}: {stderr}"
        );
        assert!(!std::path::Path::new(path).exists(), "{words:?}");
    };
    let paths = ["/dev/diskwright-nope", "/proc/diskwright-nope", "/sys/diskwright-nope"];
    // each suite on one of the paths, in a full sweep on all
    for number in sweep(ids.len() * paths.len(), ids.len()) {
        let (id, path) = (ids[number / paths.len()], paths[number % paths.len()]);
        refused(&["probe", id, path, "--for", "50ms", "--size", "1MB", "--forget"], path);
    }
    for path in paths {
        let target = folder.path().join("target").display().to_string();
        refused(&["probe", "quick", &target, "--for", "50ms", "--size", "1MB", "--forget", "-o", path], path);
    }
    refused(&["probe", &script.display().to_string()], "/dev/diskwright-nope");
}

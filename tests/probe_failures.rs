//! `probe` on targets that are broken, break, or vanish, and signals to it: finished runs are kept, each failure has
//! its message, and nothing is left behind. Needs root, loop devices and nbdkit; prints why it skips without them.

#![allow(clippy::disallowed_methods, reason = "a test waits for another process")]

use std::fs::{self, File};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::stderr;

use crate::devices::{Bench, report_skip, run_tool, wait_up_to_10_s};
use crate::sweep::sweep;
use serde_json::Value;

/// Reads the result file of a probe.
fn read_result(bench: &Bench) -> Value {
    let text = fs::read_to_string(bench.path("result.json")).expect("a result file");
    serde_json::from_str(&text).expect("JSON")
}

/// Sentence of the remark with this id.
fn remark_text(answer: &Value, id: &str) -> String {
    let remarks = answer["remarks"].as_array().expect("remarks");
    let found = remarks.iter().find(|r| r["id"] == id).unwrap_or_else(|| panic!("no remark {id}: {answer:#}"));
    found["text"].as_str().expect("a sentence").to_owned()
}

/// Starts a probe, waits until it measures, and then for `more`.
fn start_probe(bench: &Bench, arguments: &[&str], more: Duration) -> Child {
    let arguments = [arguments, &["-o", "result.json"]].concat();
    let mut command = bench.command(&arguments);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("runs");
    let is_ring = |e: fs::DirEntry| fs::read_link(e.path()).is_ok_and(|p| p.to_string_lossy().contains("io_uring"));
    let measures = |id: u32| fs::read_dir(format!("/proc/{id}/fd")).is_ok_and(|all| all.flatten().any(is_ring));
    // without io_uring it measures within the ten seconds as well
    let _ = wait_up_to_10_s(|| find_worker(child.id()).is_some_and(measures));
    std::thread::sleep(more);
    child
}

/// Child process of the started one: the one that measures.
fn find_worker(starter: u32) -> Option<u32> {
    let all = fs::read_dir("/proc").ok()?.flatten().filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok());
    let status = |id: &u32| fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    all.into_iter().find(|id| status(id).lines().any(|line| line == format!("PPid:\t{starter}")))
}

fn send_signal(name: &str, process: u32) {
    let sent = Command::new("kill").args([&format!("-{name}"), &process.to_string()]).status().expect("kill");
    assert!(sent.success());
}

#[test]
fn the_brake_stops_a_probe_of_a_slow_live_device() {
    let Some(mut bench) = Bench::new("trouble-brake") else { return };
    let Some((device, _)) = bench.attach_nbd_server(16, &["--filter=delay", "rdelay=30ms"]) else { return };
    if run_tool("mkfs.ext4", &["-q", &device]).is_none() {
        return;
    }
    let Some(_point) = bench.mount(&device, "point", "ro,noload") else { return };
    bench.expect_failure(&["depth", &device], &["is mounted on", "use --live"]);
    let begun = Instant::now();
    let stopped = ["is mounted", "to respond, more than the 0.02 s of --brake"];
    bench.expect_failure(&["depth", &device, "--live", "--brake", "20ms", "--for", "60s"], &stopped[1..]);
    assert!(begun.elapsed() < Duration::from_secs(30), "it went on under load");
    // a brake above the latencies of the device does not act
    let answer = bench.measure(&["minread", &device, "--live", "--brake", "60s", "--for", "300ms"]);
    let mean = answer["runs"][0]["latency_s"]["mean"].as_f64().expect("a mean");
    assert!(mean >= 0.03, "{mean}");
}

#[test]
fn counts_errors_and_measures_successful_requests() {
    let Some(mut bench) = Bench::new("trouble-errors") else { return };
    let trigger = bench.path("trigger");
    let rate = ["error=EIO", "error-pread-rate=10%", &format!("error-file={}", trigger.display())];
    let Some((device, _)) = bench.attach_nbd_server(16, &[&["--filter=error"], &rate[..]].concat()) else { return };
    File::create(&trigger).expect("a trigger");
    let answer = bench.measure(&["diskmax", &device, "--for", "1s"]);
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
    let text = remark_text(&answer, "failed");
    assert!(text.contains("Input/output error") && text.contains("rates and latencies do not include them"), "{text}");
}

#[test]
fn keeps_results_when_the_target_vanishes() {
    let Some(mut bench) = Bench::new("trouble-vanishes") else { return };
    let Some((device, server)) = bench.attach_nbd_server(16, &[]) else { return };
    let child = start_probe(&bench, &["depth", &device, "--for", "1s"], Duration::from_millis(2500));
    send_signal("KILL", server);
    let begun = Instant::now();
    let done = child.wait_with_output().expect("ends");
    assert!(begun.elapsed() < Duration::from_secs(60), "it asked a dead device for long");
    assert_eq!(done.status.code(), Some(1), "{}", stderr(&done));
    assert!(stderr(&done).contains("requests failed, the first with: Input/output error"), "{}", stderr(&done));
    let answer = read_result(&bench);
    assert_eq!(answer["complete"], false);
    assert!(answer["because"].as_str().is_some_and(|b| b.contains("requests failed")), "{answer:#}");
    assert!(answer["runs"][0]["requests_per_s"].as_f64().is_some_and(|rate| rate > 0.0), "{answer:#}");
    // a new probe of the vanished device fails at its start
    bench.expect_failure(&["minread", &device], &[&device]);
}

#[test]
fn stops_when_the_file_is_truncated() {
    let Some(bench) = Bench::new("trouble-cut") else { return };
    let path = bench.path("data");
    fs::write(&path, vec![7; 8 << 20]).expect("a file");
    let child = start_probe(&bench, &["depth", "data", "--for", "1s"], Duration::from_millis(2500));
    File::options().write(true).open(&path).and_then(|f| f.set_len(0)).expect("cut");
    let done = child.wait_with_output().expect("ends");
    assert_eq!(done.status.code(), Some(1), "{}", stderr(&done));
    assert!(stderr(&done).contains("has become smaller"), "{}", stderr(&done));
    let answer = read_result(&bench);
    assert_eq!(answer["complete"], false);
    // the run during which the file was cut counts only the requests before, and says so
    if answer["runs"].as_array().is_some_and(|runs| runs.iter().any(|r| r["short"].as_u64() > Some(0))) {
        assert!(remark_text(&answer, "short").contains("not counted"));
    }
}

#[test]
fn signals_keep_finished_runs_and_leave_no_file() {
    let Some(bench) = Bench::new("trouble-signals") else { return };
    for name in ["INT", "TERM"] {
        let _ = fs::remove_file(bench.path("result.json"));
        let arguments = ["depth", "probe.dat", "--size", "4MiB", "--for", "1s"];
        let child = start_probe(&bench, &arguments, Duration::from_millis(2500));
        send_signal(name, child.id());
        let done = child.wait_with_output().expect("ends");
        assert_eq!(done.status.code(), Some(1), "{}", stderr(&done));
        assert!(stderr(&done).contains("interrupted"), "{}", stderr(&done));
        let answer = read_result(&bench);
        let runs = answer["runs"].as_array().expect("runs");
        assert!(answer["complete"] == false && !runs.is_empty() && runs.len() < 9, "{name}: {answer:#}");
        assert!(!bench.path("probe.dat").exists());
    }
}

#[test]
fn a_killed_probe_leaves_no_file() {
    let Some(bench) = Bench::new("trouble-killed") else { return };
    let killed = |name: &str, words: &[&str]| {
        let arguments = [&["depth", name, "--size", "4MiB", "--for", "60s"], words].concat();
        let mut child = start_probe(&bench, &arguments, Duration::from_millis(200));
        child.kill().expect("ends");
        child.wait().expect("ends");
        bench.path(name).exists()
    };
    assert!(!killed("probe.dat", &[]), "it has no name where the filesystem can do that");
    // with --keep the file has a name, and the next probe recognizes it
    assert!(killed("kept.dat", &["--keep"]));
    bench.expect_failure(
        &["commit", "kept.dat"],
        &["an earlier probe filled and kept", "use --destroy-data-on kept.dat"],
    );
}

#[test]
fn reports_a_full_filesystem_and_leaves_no_file() {
    let Some(mut bench) = Bench::new("trouble-full") else { return };
    // a filesystem of 64 MiB over a backing file that can hold 24 MiB
    fs::create_dir_all(bench.path("memory")).expect("a folder");
    let mut mount = Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", "size=24m", "tmpfs"]).arg(bench.path("memory"));
    if !mount.status().is_ok_and(|s| s.success()) {
        return report_skip("no tmpfs");
    }
    let path = bench.path("memory").display().to_string();
    bench.run_at_end("umount", &[&path]);
    let backing = bench.sparse_file("memory/disk", 64 << 20);
    let Some(device) = bench.attach_loop_device(&backing, &[]) else { return };
    if run_tool("mkfs.ext4", &["-q", "-O", "^has_journal", &device]).is_none() {
        return;
    }
    let Some(_point) = bench.mount(&device, "point", "noatime") else { return };
    bench.expect_failure(
        &["minread", "point/probe.dat", "--size", "50MiB"],
        &["are free, and at most half of that may be used"],
    );
    bench.expect_failure(&["minread", "point/probe.dat", "--size", "512K"], &["at least 1 MiB"]);
    bench.expect_failure(&["minread", "point/probe.dat", "--size", "26MiB"], &["point/probe.dat: cannot be filled"]);
    bench.expect_failure(&["minread", "point/probe.dat", "--size", "26MiB", "--keep"], &["cannot be filled"]);
    let left: Vec<_> = fs::read_dir(bench.path("point")).expect("a folder").flatten().map(|e| e.file_name()).collect();
    assert_eq!(left, ["lost+found"]);
}

#[test]
fn refusals_say_what_could_be_measured() {
    let Some(mut bench) = Bench::new("trouble-kinds") else { return };
    let disk = bench.exact_sparse_file("disk", 4 << 20);
    let Some(device) = bench.attach_loop_device(&disk, &[]) else { return };
    let Some(read_only) = bench.attach_loop_device(&disk, &["--read-only"]) else { return };
    bench.expect_failure(
        &["commit", &read_only, "--destroy-data-on", &read_only],
        &["the device is read-only", "suites that only read"],
    );
    bench.measure(&["minread", &read_only]);
    bench.expect_failure(&["minread", &device, "--size", "8MiB"], &["8388608 bytes are requested, but it has 4194304"]);
    assert_eq!(bench.measure(&["minread", &device, "--size", "2MiB"])["target_bytes"], 2 << 20);
    if run_tool("mkfifo", &[&bench.path("pipe").display().to_string()]).is_some() {
        bench.expect_failure(&["minread", "pipe"], &["a pipe or socket"]);
    }
    let _socket = std::os::unix::net::UnixListener::bind(bench.path("socket")).expect("a socket");
    bench.expect_failure(&["minread", "socket"], &["a pipe or socket"]);
    bench.expect_failure(&["minread", "/dev/zero"], &["a character device (a terminal, a tape"]);
    bench.expect_failure(&["minread", "."], &["a folder", "created, filled and removed"]);
    bench.expect_failure(&["minread", "no/such/folder/file"], &["cannot be created", "No such file"]);
    std::os::unix::fs::symlink("round", bench.path("round")).expect("a link");
    bench.expect_failure(&["minread", "round"], &["symbolic links"]);
    // a character device
    let free = "/dev/loop-control";
    bench.expect_failure(&["minread", free], &["a character device"]);
    // stat gives it 4096 bytes, but it does not support direct I/O
    bench
        .expect_failure(&["minread", "/sys/devices/system/cpu/online"], &["direct I/O; --buffered measures its cache"]);
    let learned = || fs::read_dir(bench.path("state")).map_or(0, Iterator::count);
    let before = learned();
    let sparse = bench.sparse_file("sparse", 4 << 20);
    let answer = bench.measure(&["minread", &sparse.display().to_string()]);
    assert!(remark_text(&answer, "target").contains("100 % of the file is holes"), "{answer:#}");
    let answer = bench.measure(&["minread", "/dev/shm/diskwright-probe.dat", "--size", "1MiB"]);
    assert!(remark_text(&answer, "target").contains("is in memory"), "{answer:#}");
    assert_eq!(learned(), before, "no ceiling is learned from what asks no disk");
}

#[test]
fn reads_but_never_writes_a_read_only_filesystem() {
    let Some(mut bench) = Bench::new("trouble-readonly") else { return };
    let Some(device) = bench.new_loop_device("disk", 16) else { return };
    if run_tool("mkfs.ext4", &["-q", &device]).is_none() {
        return;
    }
    let Some(point) = bench.mount(&device, "point", "noatime") else { return };
    fs::write(point.join("data"), vec![7; 1 << 20]).expect("a file");
    let path = point.display().to_string();
    if run_tool("mount", &["-o", "remount,ro", &path]).is_none() {
        return;
    }
    bench.measure(&["minread", "point/data"]);
    let write = ["commit", "point/data", "--destroy-data-on", "point/data"];
    bench.expect_refused(
        &write,
        &point.join("data").display().to_string(),
        &["is read-only, and cannot be written to"],
    );
    bench.expect_failure(&["minread", "point/new"], &["point/new: cannot be created: Read-only file system"]);
}

/// A mistyped device name creates no file in /dev, /proc or /sys: neither as a target nor as output.
#[test]
fn creates_no_files_in_kernel_folders() {
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

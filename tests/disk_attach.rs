//! `disk attach` and `disk detach` on the kernel of this machine: real reads and writes, and no leftovers whichever
//! process is killed. Needs root, nbdkit, FUSE and loop devices; prints why it skips where they are missing.

#![allow(clippy::disallowed_methods, reason = "a test waits for other processes")]

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::process::{Child, Command, Output, Stdio};

use crate::common::stderr;

use crate::devices::{
    Bench, find_processes, report_skip, run_tool, send_signal, wait_for_server, wait_up_to_10_s, write_at,
};
use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_diskwright");

/// A running nbdkit server and a journal for the attached devices of one test.
struct AttachBench {
    bench: Bench,
    uri: String,
    journal: String,
    server: u32,
}

impl AttachBench {
    fn new(test: &str) -> Option<AttachBench> {
        AttachBench::with_server_options(test, &[])
    }

    /// The same with more options for nbdkit.
    fn with_server_options(test: &str, options: &[&str]) -> Option<AttachBench> {
        let mut bench = Bench::new(&format!("attach-{test}"))?;
        run_tool("nbdkit", &["--version"])?;
        if File::options().read(true).write(true).open("/dev/fuse").is_err() {
            report_skip("no /dev/fuse");
            return None;
        }
        let (socket, journal) = (bench.path("socket"), bench.path("journal").display().to_string());
        let path = socket.display().to_string();
        let server = bench.start_program("nbdkit", &[&["-f", "-U", &path], options, &["memory", "64M"]].concat())?;
        wait_for_server(&socket).expect("a server");
        bench.run_at_end(PROGRAM, &["disk", "detach", "--all", "--force", "--journal", &journal]);
        Some(AttachBench { bench, uri: format!("nbd+unix:///?socket={path}"), journal, server })
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command.arg("disk").args(arguments).args(["--journal", &self.journal]);
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("runs")
    }

    fn attach(&self, more: &[&str]) -> Value {
        let done = self.run(&[&["attach", &self.uri, "--json", "--by", "fuse"], more].concat());
        assert!(done.status.success(), "{}", stderr(&done));
        serde_json::from_slice(&done.stdout).expect("JSON")
    }

    /// Expects exit code 1 and these words on standard error.
    fn expect_failure(&self, arguments: &[&str], words: &str) {
        let done = self.run(arguments);
        assert_eq!(done.status.code(), Some(1), "{arguments:?}: {}", stderr(&done));
        assert!(stderr(&done).contains(words), "{arguments:?} does not say `{words}`: {}", stderr(&done));
    }

    fn detach(&self, device: &str) {
        let done = self.run(&["detach", device]);
        assert!(done.status.success(), "{}", stderr(&done));
    }

    /// Journal entries, mounts, loop devices and processes that remain of attached devices.
    fn leftovers(&self) -> Vec<String> {
        let mut left: Vec<String> = Vec::new();
        let names = |folder: &str| {
            let entries = fs::read_dir(folder).into_iter().flatten().flatten();
            entries.map(|e| e.file_name().to_string_lossy().into_owned()).collect::<Vec<_>>()
        };
        left.extend(names(&self.journal).into_iter().filter(|name| name != "lock").map(|n| format!("entry {n}")));
        let mounts = fs::read_to_string("/proc/self/mountinfo").expect("mounts");
        left.extend(mounts.lines().filter(|line| line.contains(&self.journal)).map(str::to_owned));
        for name in names("/sys/block") {
            let backing = fs::read_to_string(format!("/sys/block/{name}/loop/backing_file")).unwrap_or_default();
            if backing.contains(&self.journal) {
                left.push(name);
            }
        }
        left.extend(find_processes(&[&self.journal]).into_iter().map(|process| format!("process {process}")));
        left
    }

    fn expect_no_leftovers(&self) {
        // 40 s: on a busy machine the kernel takes long
        let gone = (0..4).any(|_| wait_up_to_10_s(|| self.leftovers().is_empty()).is_some());
        assert!(gone, "left: {:?}", self.leftovers());
    }
}

fn device_path(attached: &Value) -> &str {
    attached["device"].as_str().expect("a device")
}

fn keeper_pid(attached: &Value) -> u32 {
    attached["pid"].as_u64().and_then(|id| id.try_into().ok()).expect("a process")
}

/// True if the device cannot be written: some kernels refuse to open it for writing, others refuse the write.
fn refuses_writes(device: &str) -> bool {
    File::options().write(true).open(device).and_then(|file| file.write_at(&[1; 4096], 0)).is_err()
}

/// Starts direct writes that go on until one fails or the process is killed; waits for the first.
fn start_writer(device: &str) -> Child {
    let words = ["if=/dev/zero", &format!("of={device}"), "bs=64k", "oflag=direct", "conv=notrunc"];
    let dd = format!("dd {}", words.join(" "));
    // each dd ends at the device's end; the shell has it open all the time
    let endless = format!("exec 3<{device}; while {dd} || {dd} count=1; do :; done");
    let writer = Command::new("sh").args(["-c", &endless]).stderr(Stdio::null()).spawn().expect("a shell");
    let stat = format!("/sys/block/{}/stat", device.trim_start_matches("/dev/"));
    let wrote = || {
        let text = fs::read_to_string(&stat).unwrap_or_default();
        text.split_ascii_whitespace().nth(4).is_some_and(|writes| writes != "0")
    };
    wait_up_to_10_s(wrote).expect("writes");
    writer
}

#[test]
fn reads_what_was_written_and_leaves_nothing_behind() {
    let Some(lab) = AttachBench::new("io") else { return };
    let made = lab.attach(&[]);
    assert_eq!(made["schema"], "diskwright.attach/1");
    assert_eq!((&made["by"], &made["bytes"]), (&"fuse".into(), &(64u64 << 20).into()));
    assert_eq!((&made["connections"], &made["in_flight_at_most"]), (&4.into(), &128.into()));
    assert_eq!((&made["uri"], &made["read_only"]), (&lab.uri.as_str().into(), &false.into()));
    assert!(made["limits"].as_array().is_some_and(|limits| !limits.is_empty()));
    // a program that walks all files finds this one, and no error
    let shown = fs::read_dir(format!("{}/1/mount", lab.journal)).expect("a folder");
    let shown: Vec<_> = shown.map(|entry| entry.expect("an entry").file_name()).collect();
    assert_eq!(shown, ["disk"]);
    let (first, last): (Vec<u8>, Vec<u8>) = ((0..100_000).map(|n| (n % 251) as u8).collect(), vec![7; 4096]);
    write_at(device_path(&made), 12_345, &first);
    write_at(device_path(&made), -4096, &last);
    // a second, read-only device of the same export shows what the first one wrote
    let other = lab.attach(&["--read-only", "--connections", "2"]);
    assert_ne!(device_path(&made), device_path(&other));
    let mut read = vec![0; first.len()];
    let file = File::open(device_path(&other)).expect("opens");
    file.read_exact_at(&mut read, 12_345).expect("reads");
    assert!(read == first, "other bytes");
    file.read_exact_at(&mut read[..4096], (64 << 20) - 4096).expect("reads");
    assert!(read[..4096] == last, "other bytes at the end");
    drop(file);
    assert!(refuses_writes(device_path(&other)), "it may be written");
    lab.expect_failure(&["detach", "/dev/null"], "was not made by `disk attach`, which made /dev/");
    lab.detach(device_path(&made));
    lab.detach(device_path(&other));
    wait_up_to_10_s(|| lab.leftovers().is_empty()).unwrap_or_else(|| panic!("{:?}", lab.leftovers()));
    lab.expect_failure(&["detach", device_path(&made)], "was not made by");
}

#[test]
fn attaches_a_read_only_export_read_only() {
    let Some(lab) = AttachBench::with_server_options("readonly", &["-r"]) else { return };
    let made = lab.attach(&[]);
    assert_eq!(made["read_only"], true);
    assert!(refuses_writes(device_path(&made)), "it may be written");
    let done = lab.run(&["detach", "--all", "--json"]);
    let answer: Value = serde_json::from_slice(&done.stdout).expect("JSON");
    assert_eq!((&answer["schema"], &answer["failed"]), (&"diskwright.detach/1".into(), &Value::Array(vec![])));
    assert_eq!(answer["detached"][0]["device"], made["device"]);
    lab.expect_no_leftovers();
}

#[test]
fn concurrent_attaches_get_separate_devices() {
    let Some(lab) = AttachBench::new("several") else { return };
    let quiet = |mut command: Command| command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("runs");
    let start = |words: &[&str]| quiet(lab.command(words));
    let started: Vec<Child> = (0..4).map(|_| start(&["attach", &lab.uri, "--by", "fuse"])).collect();
    let end = |child: Child| {
        let done = child.wait_with_output().expect("ends");
        assert!(done.status.success());
        String::from_utf8(done.stdout).expect("text").trim().to_owned()
    };
    let mut devices: Vec<String> = started.into_iter().map(end).collect();
    for (number, device) in (0u8..).zip(&devices) {
        write_at(device, i64::from(number) * 65_536, &[number; 4096]);
    }
    let ends: Vec<Child> = devices.iter().map(|device| start(&["detach", device])).collect();
    ends.into_iter().for_each(|child| assert_eq!(end(child), ""));
    devices.sort();
    devices.dedup();
    assert_eq!(devices.len(), 4);
    lab.expect_no_leftovers();
}

#[test]
fn detach_refuses_a_device_in_use_unless_forced() {
    let Some(mut lab) = AttachBench::new("use") else { return };
    let made = lab.attach(&[]);
    let name = device_path(&made);
    let mut holder = Command::new("sleep").arg("60").stdin(File::open(name).expect("opens")).spawn().expect("sleeps");
    lab.expect_failure(&["detach", name], "(sleep) has it open");
    holder.kill().and_then(|()| holder.wait()).expect("ends");
    if run_tool("mkfs.ext4", &["-q", name]).is_none() {
        return;
    }
    let Some(point) = lab.bench.mount(name, "point", "rw") else { return };
    fs::write(point.join("file"), "text").expect("writes");
    lab.expect_failure(&["detach", name], &format!("is mounted on {}", point.display()));
    lab.expect_failure(&["detach", "--all"], "use --force");
    assert_eq!(fs::read_to_string(point.join("file")).expect("still there"), "text");
    let done = lab.run(&["detach", name, "--force"]);
    assert!(done.status.success(), "{}", stderr(&done));
    lab.expect_no_leftovers();
}

#[test]
fn killing_the_server_removes_its_devices() {
    let Some(lab) = AttachBench::new("server") else { return };
    let (one, two) = (lab.attach(&[]), lab.attach(&[]));
    let mut writer = start_writer(device_path(&one));
    send_signal("-KILL", lab.server);
    lab.expect_no_leftovers();
    writer.wait().expect("it saw errors and ended");
    assert_ne!(device_path(&one), device_path(&two));
    lab.expect_failure(&["attach", &lab.uri], "onnect");
}

#[test]
fn killing_the_fuse_process_removes_its_device() {
    let Some(lab) = AttachBench::new("file") else { return };
    let made = lab.attach(&[]);
    let mut writer = start_writer(device_path(&made));
    let mut killed = 0;
    for id in find_processes(&["diskwright-file", &lab.uri]) {
        send_signal("-KILL", id);
        killed += 1;
    }
    assert_eq!(killed, 1);
    lab.expect_no_leftovers();
    writer.wait().expect("it saw errors and ended");
}

#[test]
fn cleans_up_after_a_killed_keeper() {
    let Some(lab) = AttachBench::new("keeper") else { return };
    let made = lab.attach(&[]);
    let mut writer = start_writer(device_path(&made));
    send_signal("-KILL", keeper_pid(&made));
    // the device works on, and is not detached while it is in use
    let done = lab.run(&["attach", &lab.uri, "--by", "fuse"]);
    assert!(stderr(&done).contains("and is in use"), "{}", stderr(&done));
    let second = String::from_utf8_lossy(&done.stdout).trim().to_owned();
    write_at(&second, 0, b"written");
    writer.kill().and_then(|()| writer.wait()).expect("ends");
    // the last dd of the shell may still have it open
    wait_up_to_10_s(|| {
        lab.run(&["detach", "--all"]);
        lab.leftovers().is_empty()
    });
    lab.expect_no_leftovers();
    // the next attach cleans up as well
    let third = lab.attach(&[]);
    send_signal("-KILL", keeper_pid(&third));
    let done = lab.run(&["attach", &lab.uri, "--by", "fuse"]);
    assert!(stderr(&done).contains("and was detached"), "{}", stderr(&done));
    let fourth = String::from_utf8_lossy(&done.stdout).trim().to_owned();
    lab.detach(&fourth);
    lab.expect_no_leftovers();
}

#[test]
fn a_signal_to_the_keeper_detaches_cleanly() {
    let Some(lab) = AttachBench::new("signal") else { return };
    let made = lab.attach(&[]);
    write_at(device_path(&made), 4096, b"kept");
    send_signal("-TERM", keeper_pid(&made));
    lab.expect_no_leftovers();
    let again = lab.attach(&[]);
    let mut read = [0; 4];
    File::open(device_path(&again)).and_then(|file| file.read_exact_at(&mut read, 4096)).expect("reads");
    assert_eq!(&read, b"kept");
    lab.detach(device_path(&again));
    lab.expect_no_leftovers();
}

#[test]
fn forced_detach_leaves_a_hanging_server() {
    let Some(lab) = AttachBench::new("hangs") else { return };
    let made = lab.attach(&[]);
    let mut writer = start_writer(device_path(&made));
    send_signal("-STOP", lab.server);
    lab.expect_failure(&["detach", device_path(&made)], "has it open");
    let done = lab.run(&["detach", device_path(&made), "--force"]);
    send_signal("-CONT", lab.server);
    assert!(done.status.success(), "{}", stderr(&done));
    lab.expect_no_leftovers();
    writer.wait().expect("it saw errors and ended");
}

#[test]
fn refuses_what_cannot_be_attached() {
    let Some(lab) = AttachBench::new("told") else { return };
    lab.expect_failure(&["attach", &lab.uri, "--by", "ublk"], "--by ublk does not work here");
    lab.expect_failure(&["attach", "nbd+unix:///?socket=/no/such/socket"], "No such file or directory");
    let usage = lab.run(&["attach", "http://host/"]);
    assert_eq!(usage.status.code(), Some(2), "{}", stderr(&usage));
    assert!(stderr(&usage).contains("scheme is not nbd"), "{}", stderr(&usage));
    wait_up_to_10_s(|| lab.leftovers().is_empty()).unwrap_or_else(|| panic!("{:?}", lab.leftovers()));
}

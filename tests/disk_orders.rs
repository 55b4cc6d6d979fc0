//! The command `disk`: its first line, the commands to a running server, and data that survives a failed member.

use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use diskwright_virtualdisk::nbd::client::{ClientOptions, NbdClient};
use diskwright_virtualdisk::nbd::wire::CommandFlags;
use serde_json::Value;

fn diskwright() -> Command {
    Command::new(env!("CARGO_BIN_EXE_diskwright"))
}

/// A running server of a virtual disk; killed when it is dropped.
struct Disk {
    child: Child,
    folder: tempfile::TempDir,
    first: String,
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const RAID5: &str = r#"
[[drive]]
name = "disk"
count = 4
capacity = "64MB"
[drive.plain]
servers = 4
service = { constant_us = 200 }

[[array]]
name = "data"
level = "raid5"
drives = ["disk0", "disk1", "disk2"]
stripe_unit = "16KB"
rebuild = { step = "1MB" }
"#;

impl Disk {
    /// Starts a server and reads the first line of its output.
    fn serve(description: &str, more: &[&str]) -> Disk {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("system.toml");
        std::fs::write(&file, description).expect("written");
        let mut command = diskwright();
        command.arg("disk").arg(&file).args(more).env("XDG_RUNTIME_DIR", folder.path());
        if !more.contains(&"--listen") {
            command.arg("--socket").arg(folder.path().join("s"));
        }
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
        let mut first = String::new();
        let out = child.stdout.take().expect("piped");
        BufReader::new(out).read_line(&mut first).expect("a line");
        Disk { child, folder, first }
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("s")
    }

    fn order(&self, words: &[&str]) -> Output {
        let mut command = diskwright();
        command.arg("disk").args(words).arg("--socket").arg(self.socket());
        command.output().expect("it runs")
    }

    /// JSON answer of a command that must succeed.
    fn json(&self, words: &[&str]) -> Value {
        let output = self.order(&[words, &["--json"]].concat());
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("a document")
    }

    /// Message of a command that must exit with 1.
    fn refused(&self, words: &[&str]) -> String {
        let output = self.order(words);
        assert_eq!(output.status.code(), Some(1), "{words:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    fn client(&self, export: &str) -> NbdClient<UnixStream> {
        let stream = UnixStream::connect(self.socket()).expect("connected");
        NbdClient::start(stream, export, ClientOptions::default()).expect("greeted")
    }
}

/// States of the members of the first array.
fn states(status: &Value) -> Vec<String> {
    let members = status["arrays"][0]["members"].as_array().expect("members");
    members.iter().map(|member| member["state"].as_str().unwrap_or("?").to_owned()).collect()
}

#[test]
fn data_survives_a_member_and_its_rebuild() {
    let disk = Disk::serve(RAID5, &[]);
    assert!(disk.first.starts_with("serving data (raid5, "), "{}", disk.first);
    let mut client = disk.client("");
    let data: Vec<u8> = (0..300_000u32).map(|byte| (byte * 7 / 3) as u8).collect();
    client.write(12_345, &data, CommandFlags::default()).expect("written");
    let status = disk.json(&["fail", "disk1"]);
    assert_eq!(states(&status), ["well", "failed", "well"]);
    assert!(disk.refused(&["fail", "disk9"]).contains("no drive is called `disk9`; the drives are disk0, disk1"));
    assert!(disk.refused(&["fail", "disk1"]).contains("failed"));
    disk.json(&["fail", "disk3"]);
    let mut alone = disk.client("disk3");
    assert!(alone.read(0, &mut [0; 512]).is_err(), "a drive by itself has nobody who could help");
    disk.json(&["replace", "disk3"]);
    alone.read(0, &mut [0; 512]).expect("a new drive");
    let mut back = vec![0; data.len()];
    client.read(12_345, &mut back).expect("read");
    assert!(back == data, "degraded");
    client.write(100_000, &data[..50_000], CommandFlags::default()).expect("written");
    disk.json(&["replace", "disk1"]);
    // 64 steps of 1 MB, each of at least 0.2 ms
    let mut tries = 0;
    while states(&disk.json(&["status"])) != ["well", "well", "well"] {
        tries += 1;
        assert!(tries < 500, "{}", disk.json(&["status"]));
    }
    disk.json(&["fail", "disk0"]);
    client.read(100_000, &mut back[..50_000]).expect("read");
    assert!(back[..50_000] == data[..50_000], "from what was rebuilt");
}

#[test]
fn a_file_remembers_what_was_written_and_who_failed() {
    let first = Disk::serve(RAID5, &[]);
    let file = first.folder.path().join("content");
    let options = ["--backing", &file.display().to_string()];
    let disk = Disk::serve(RAID5, &options);
    disk.client("").write(70_000, &[9; 5000], CommandFlags::FUA).expect("written");
    disk.json(&["fail", "disk2"]);
    assert!(disk.order(&["stop"]).status.success());
    drop(disk);
    let disk = Disk::serve(RAID5, &options);
    let mut back = [0; 5000];
    disk.client("").read(70_000, &mut back).expect("read");
    assert_eq!(back, [9; 5000]);
    let status = disk.json(&["status"]);
    assert_eq!(states(&status), ["well", "well", "failed"]);
    disk.json(&["replace", "disk2"]);
}

#[test]
fn a_rebuild_that_ended_with_its_server_is_not_said_to_go_on() {
    // at 1 KB/s it pauses for a quarter of an hour after each step of 1 MB
    let slow = RAID5.replace("step = \"1MB\"", "step = \"1MB\", rate = \"1KB/s\"");
    let first = Disk::serve(&slow, &[]);
    let file = first.folder.path().join("content");
    let options = ["--backing", &file.display().to_string()];
    let disk = Disk::serve(&slow, &options);
    disk.json(&["fail", "disk1"]);
    assert_eq!(states(&disk.json(&["replace", "disk1"])), ["well", "rebuilding", "well"]);
    assert!(disk.order(&["stop"]).status.success());
    drop(disk);
    let disk = Disk::serve(&slow, &options);
    assert_eq!(states(&disk.json(&["status"])), ["well", "failed", "well"]);
    assert_eq!(states(&disk.json(&["replace", "disk1"])), ["well", "rebuilding", "well"]);
}

#[test]
fn drives_by_themselves_slow_down_hang_and_fail() {
    let disk = Disk::serve(RAID5, &["--every", "100ms"]);
    let mut client = disk.client("disk3");
    let mut block = [0; 4096];
    client.read(0, &mut block).expect("read");
    let status = disk.json(&["slow", "disk3", "--factor", "100"]);
    assert_eq!(status["members"][0]["factor"], 100.0);
    let begin = std::time::Instant::now();
    client.read(0, &mut block).expect("read");
    assert!(begin.elapsed().as_millis() >= 20, "100 times 0.2 ms");
    disk.json(&["slow", "disk3", "--factor", "1"]);
    disk.json(&["error", "disk3", "--share", "1", "--what", "reads"]);
    assert!(client.read(0, &mut block).is_err());
    client.write(0, &block, CommandFlags::default()).expect("only reads fail");
    disk.json(&["error", "disk3", "--share", "0"]);
    client.read(0, &mut block).expect("read");
    disk.json(&["hang", "disk3"]);
    let late = std::thread::spawn(move || client.read(0, &mut [0; 4096]).is_ok());
    std::thread::yield_now();
    assert!(!late.is_finished());
    let text = disk.order(&["status"]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("disk3        hangs"), "{text}");
    disk.json(&["release", "disk3"]);
    assert!(late.join().expect("no panic"));
}

#[test]
fn a_drive_by_itself_that_fails_answers_everything_with_an_error() {
    let disk = Disk::serve(RAID5, &[]);
    let mut client = disk.client("disk3");
    client.write(0, &[7; 512], CommandFlags::default()).expect("written");
    disk.json(&["slow", "disk3", "--factor", "50"]);
    disk.json(&["hang", "disk3"]);
    let mut waiting = disk.client("disk3");
    let late = std::thread::spawn(move || waiting.read(0, &mut [0; 512]).is_ok());
    let begun = std::time::Instant::now();
    while disk.json(&["status"])["under_way"] != 1 {
        assert!(begun.elapsed().as_secs() < 30, "the read does not arrive");
    }
    let status = disk.json(&["fail", "disk3"]);
    assert_eq!(status["members"][0]["hangs"], false, "{status}");
    assert!(!late.join().expect("no panic"), "its data is gone: no zeros are passed for it");
    assert!(client.flush().is_err(), "what was written is not there to be kept");
    let status = disk.json(&["replace", "disk3"]);
    assert_eq!(status["members"].as_array().map(Vec::len), Some(0), "{status}");
    client.flush().expect("the new one works");
    client.read(0, &mut [0; 512]).expect("and is neither slow nor hangs");
}

#[test]
fn what_is_said_before_anything_is_served() {
    let disk = Disk::serve(RAID5, &["--json", "--size", "1MiB"]);
    // only the first line of the JSON document was read
    assert!(disk.first.starts_with('{'), "{}", disk.first);
    let uri = format!("nbd+unix:///data?socket={}", disk.socket().display());
    assert_eq!(disk.json(&["status"])["exports"][0]["uri"], uri);
    assert_eq!(disk.json(&["status"])["exports"][0]["bytes"], 1 << 20);
    assert!(disk.order(&["stop"]).status.success());

    let wrong = |arguments: &[&str], code: i32, expected: &str| {
        let output = diskwright().arg("disk").args(arguments).output().expect("it runs");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(code) && error.contains(expected), "{arguments:?}: {error}");
    };
    let file = disk.folder.path().join("system.toml").display().to_string();
    wrong(&[], 2, "Usage");
    wrong(&[&file, "--speed", "0"], 2, "a number from 0.001 to 1000");
    wrong(&[&file, "--listen", "nowhere"], 2, "is not HOST:PORT");
    wrong(&[&file, "--size", "1TB"], 1, "`data` holds 127991808 bytes");
    wrong(&["/nowhere.toml"], 1, "/nowhere.toml");
    let taken = disk.folder.path().join("system.toml");
    wrong(&[&file, "--socket", &taken.display().to_string()], 1, "another file has that name");
    let path = |name: &str| disk.folder.path().join(name).display().to_string();
    wrong(&[&file, "--socket", &path(&"s".repeat(99))], 1, "the limit of a socket is 107");
    let new = path("new");
    wrong(&[&file, "--memory", "1GB", "--backing", &new], 2, "--memory is for content in memory");
    // a refused start creates no backing file, which would be in the way of the next start
    wrong(&[&file, "--socket", &path("t"), "--size", "1TB", "--backing", &new], 1, "`data` holds 127991808 bytes");
    wrong(&[&file, "--socket", &taken.display().to_string(), "--backing", &new], 1, "another file has that name");
    assert!(!Path::new(&new).exists());
}

/// `sudo diskwright disk attach` finds what the same person serves without sudo.
#[test]
fn what_sudos_caller_serves_is_found() {
    let disk = Disk::serve(RAID5, &[]);
    let (caller, temporary) = (Command::new("id").arg("-u").output(), disk.folder.path());
    let root = caller.is_ok_and(|id| id.stdout == b"0\n");
    let folder = temporary.join("diskwright-12345");
    if !root || std::os::unix::fs::chown(temporary.join("diskwright"), Some(12_345), None).is_err() {
        eprintln!("skipped: only root can be somebody else before sudo");
        return;
    }
    std::fs::create_dir(temporary.join("mine")).expect("root's folder");
    std::fs::rename(temporary.join("diskwright"), &folder).expect("another's folder");
    let status = |caller: &str| {
        let mut command = diskwright();
        command.env("TMPDIR", temporary).env("XDG_RUNTIME_DIR", temporary.join("mine")).env("SUDO_UID", caller);
        command.args(["disk", "status"]).output().expect("it runs")
    };
    // where this user serves another disk at the same time, the command fails with a list of both
    let ours = disk.socket().display().to_string();
    let finds = |caller: &str| {
        let text = status(caller);
        text.status.success() || String::from_utf8_lossy(&text.stderr).contains(&ours)
    };
    assert!(finds("12345"), "{}", String::from_utf8_lossy(&status("12345").stderr));
    let other = status("12346");
    let (text, error) = (String::from_utf8_lossy(&other.stdout), String::from_utf8_lossy(&other.stderr));
    assert!(!text.contains(&ours) && !error.contains(&ours), "a third one's is not looked for: {text}{error}");
}

/// Another user who creates the folder of sockets in /tmp first cannot keep the server from starting.
#[test]
fn a_name_that_is_taken_stops_no_server() {
    let mut first = Disk::serve(RAID5, &["--listen", "127.0.0.1:0"]);
    let temporary = first.folder.path().join("everybodys");
    let user = rustix::process::geteuid().as_raw();
    std::fs::create_dir_all(temporary.join(format!("diskwright-{user}"))).expect("somebody's folder");
    let file = first.folder.path().join("system.toml");
    let mine = |command: &mut Command| {
        // no runtime folder, and a folder of this test as /tmp
        command.env("TMPDIR", &temporary).env_remove("XDG_RUNTIME_DIR");
    };
    let mut command = diskwright();
    mine(command.arg("disk").arg(&file).stdout(Stdio::piped()));
    let mut child = command.spawn().expect("started");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
    let socket = line.trim().rsplit_once("socket=").map(|(_, socket)| socket.to_owned()).unwrap_or_default();
    let mut command = diskwright();
    mine(command.args(["disk", "stop", "--socket", &socket]));
    let stopped = command.output().expect("it runs");
    if !stopped.status.success() {
        let _ = child.kill();
    }
    let _ = (child.wait(), first.child.kill());
    assert!(stopped.status.success(), "{line}: {}", String::from_utf8_lossy(&stopped.stderr));
    assert!(!socket.starts_with(&temporary.join(format!("diskwright-{user}/")).display().to_string()), "{socket}");
}

#[test]
fn only_what_has_failed_is_replaced() {
    let disk = Disk::serve(RAID5, &[]);
    let (mut alone, mut back) = (disk.client("disk3"), [0; 512]);
    alone.write(0, &[7; 512], CommandFlags::default()).expect("written");
    assert!(disk.refused(&["replace", "disk3"]).contains("`disk3` has not failed; only a failed drive"));
    assert!(disk.refused(&["replace", "disk0"]).contains("`disk0` has not failed"));
    disk.json(&["error", "disk3", "--share", "0.5"]);
    assert!(disk.refused(&["replace", "disk3"]).contains("`disk3` has not failed"));
    disk.json(&["error", "disk3", "--share", "0"]);
    alone.read(0, &mut back).expect("read");
    assert_eq!(back, [7; 512]);
    disk.json(&["fail", "disk3"]);
    disk.json(&["replace", "disk3"]);
    alone.read(0, &mut back).expect("read");
    assert_eq!(back, [0; 512]);
}

#[test]
fn a_rebuild_of_several_steps_at_a_time_tells_how_far_it_is() {
    let system =
        RAID5.replace("rebuild = { step = \"1MB\" }", "spares = \"disk3\"\nrebuild = { step = \"64KB\", depth = 4 }");
    let disk = Disk::serve(&system, &["--every", "50ms", "--speed", "0.005"]);
    disk.json(&["fail", "disk1"]);
    let done = || disk.json(&["status"])["arrays"][0]["background"]["done_bytes"].as_u64();
    let begun = std::time::Instant::now();
    while done().is_none_or(|done| done == 0) {
        assert!(begun.elapsed().as_secs() < 30, "{}", disk.json(&["status"]));
        std::thread::yield_now();
    }
    assert_eq!(states(&disk.json(&["status"])), ["well", "rebuilding", "well"]);
}

#[test]
fn a_disk_whose_socket_is_called_control_is_found() {
    let disk = Disk::serve(RAID5, &[]);
    let (file, socket) = (disk.folder.path().join("system.toml"), disk.folder.path().join("my.control"));
    let mut command = diskwright();
    let child = command.arg("disk").arg(&file).arg("--socket").arg(&socket).stdout(Stdio::piped());
    let mut child = child.env("XDG_RUNTIME_DIR", disk.folder.path()).spawn().expect("started");
    let mut first = String::new();
    BufReader::new(child.stdout.take().expect("piped")).read_line(&mut first).expect("a line");
    let stop = diskwright().args(["disk", "stop", "--socket"]).arg(&socket).output().expect("it runs");
    if !stop.status.success() {
        let _ = child.kill();
    }
    assert!(child.wait().expect("ended").success(), "{}", String::from_utf8_lossy(&stop.stderr));
}

#[test]
fn beyond_loopback_only_with_a_warning() {
    let mut disk = Disk::serve(RAID5, &["--listen", "0.0.0.0:0"]);
    let _ = disk.child.kill();
    let mut stderr = String::new();
    std::io::Read::read_to_string(&mut disk.child.stderr.take().expect("piped"), &mut stderr).expect("text");
    assert!(stderr.contains("NBD has no password"), "{stderr}");
}

#[test]
fn its_counters_are_a_log() {
    let disk = Disk::serve(RAID5, &[]);
    let log = disk.folder.path().join("log");
    drop(disk.order(&["stop"]));
    let disk = Disk::serve(RAID5, &["--every", "50ms", "--record", &log.display().to_string()]);
    let mut client = disk.client("");
    for number in 0..200 {
        client.write(number * 65_536, &[7; 4096], CommandFlags::default()).expect("written");
    }
    assert!(disk.order(&["stop"]).status.success());
    let mut disk = disk;
    assert!(disk.child.wait().expect("ended").success());
    assert_eq!(writes_in(&log), 200.0);
    let why = diskwright().args(["why", "--json"]).arg(&log).output().expect("it runs");
    let verdict: Value = serde_json::from_slice(&why.stdout).expect("a verdict");
    assert!(verdict["bottleneck"].is_string());
}

/// Number of writes of the array according to a log of the disk.
fn writes_in(log: &Path) -> f64 {
    let options = ["--as", "csv", "--counter", "physical_disk.writes", "--instance", "data"];
    let show = diskwright().arg("export").arg(log).args(options).output().expect("it runs");
    let text = String::from_utf8_lossy(&show.stdout).into_owned();
    text.lines().skip(1).filter_map(|line| line.split(',').nth(1)?.parse::<f64>().ok()).sum()
}

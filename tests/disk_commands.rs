//! The command `disk`: its first line, the commands to a running server, and data that survives a failed member.

use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use diskwright_virtualdisk::nbd::client::{ClientOptions, NbdClient};
use diskwright_virtualdisk::nbd::wire::CommandFlags;
use serde_json::Value;

fn diskwright_command() -> Command {
    Command::new(env!("CARGO_BIN_EXE_diskwright"))
}

/// A running server of a virtual disk; killed when it is dropped.
struct ServedDisk {
    child: Child,
    folder: tempfile::TempDir,
    first_line: String,
}

impl Drop for ServedDisk {
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

impl ServedDisk {
    /// Starts a server and reads the first line of its output.
    fn serve(description: &str, more: &[&str]) -> ServedDisk {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("system.toml");
        std::fs::write(&file, description).expect("written");
        let mut command = diskwright_command();
        command.arg("disk").arg(&file).args(more).env("XDG_RUNTIME_DIR", folder.path());
        if !more.contains(&"--listen") {
            command.arg("--socket").arg(folder.path().join("s"));
        }
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
        let mut first = String::new();
        let out = child.stdout.take().expect("piped");
        BufReader::new(out).read_line(&mut first).expect("a line");
        ServedDisk { child, folder, first_line: first }
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("s")
    }

    fn run_command(&self, words: &[&str]) -> Output {
        let mut command = diskwright_command();
        command.arg("disk").args(words).arg("--socket").arg(self.socket());
        command.output().expect("it runs")
    }

    /// JSON answer of a command that must succeed.
    fn answer_json(&self, words: &[&str]) -> Value {
        let output = self.run_command(&[words, &["--json"]].concat());
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("a document")
    }

    /// Message of a command that must exit with 1.
    fn refusal_text(&self, words: &[&str]) -> String {
        let output = self.run_command(words);
        assert_eq!(output.status.code(), Some(1), "{words:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    fn connect_client(&self, export: &str) -> NbdClient<UnixStream> {
        let stream = UnixStream::connect(self.socket()).expect("connected");
        NbdClient::start(stream, export, ClientOptions::default()).expect("greeted")
    }
}

/// States of the members of the first array.
fn member_states(status: &Value) -> Vec<String> {
    let members = status["arrays"][0]["members"].as_array().expect("members");
    members.iter().map(|member| member["state"].as_str().unwrap_or("?").to_owned()).collect()
}

#[test]
fn data_survives_a_failed_member_and_its_rebuild() {
    let disk = ServedDisk::serve(RAID5, &[]);
    assert!(disk.first_line.starts_with("serving data (raid5, "), "{}", disk.first_line);
    let mut client = disk.connect_client("");
    let data: Vec<u8> = (0..300_000u32).map(|byte| (byte * 7 / 3) as u8).collect();
    client.write(12_345, &data, CommandFlags::default()).expect("written");
    let status = disk.answer_json(&["fail", "disk1"]);
    assert_eq!(member_states(&status), ["well", "failed", "well"]);
    assert!(disk.refusal_text(&["fail", "disk9"]).contains("no drive is called `disk9`; the drives are disk0, disk1"));
    assert!(disk.refusal_text(&["fail", "disk1"]).contains("failed"));
    disk.answer_json(&["fail", "disk3"]);
    let mut alone = disk.connect_client("disk3");
    assert!(alone.read(0, &mut [0; 512]).is_err(), "a drive by itself has nobody who could help");
    disk.answer_json(&["replace", "disk3"]);
    alone.read(0, &mut [0; 512]).expect("a new drive");
    let mut back = vec![0; data.len()];
    client.read(12_345, &mut back).expect("read");
    assert!(back == data, "degraded");
    client.write(100_000, &data[..50_000], CommandFlags::default()).expect("written");
    disk.answer_json(&["replace", "disk1"]);
    // 64 steps of 1 MB, each of at least 0.2 ms
    let mut tries = 0;
    while member_states(&disk.answer_json(&["status"])) != ["well", "well", "well"] {
        tries += 1;
        assert!(tries < 500, "{}", disk.answer_json(&["status"]));
    }
    disk.answer_json(&["fail", "disk0"]);
    client.read(100_000, &mut back[..50_000]).expect("read");
    assert!(back[..50_000] == data[..50_000], "from what was rebuilt");
}

#[test]
fn backing_file_keeps_content_and_failed_members() {
    let first = ServedDisk::serve(RAID5, &[]);
    let file = first.folder.path().join("content");
    let options = ["--backing", &file.display().to_string()];
    let disk = ServedDisk::serve(RAID5, &options);
    disk.connect_client("").write(70_000, &[9; 5000], CommandFlags::FUA).expect("written");
    disk.answer_json(&["fail", "disk2"]);
    assert!(disk.run_command(&["stop"]).status.success());
    drop(disk);
    let disk = ServedDisk::serve(RAID5, &options);
    let mut back = [0; 5000];
    disk.connect_client("").read(70_000, &mut back).expect("read");
    assert_eq!(back, [9; 5000]);
    let status = disk.answer_json(&["status"]);
    assert_eq!(member_states(&status), ["well", "well", "failed"]);
    disk.answer_json(&["replace", "disk2"]);
}

#[test]
fn a_rebuild_ended_by_a_stop_leaves_the_member_failed() {
    // at 1 KB/s it pauses for a quarter of an hour after each step of 1 MB
    let slow = RAID5.replace("step = \"1MB\"", "step = \"1MB\", rate = \"1KB/s\"");
    let first = ServedDisk::serve(&slow, &[]);
    let file = first.folder.path().join("content");
    let options = ["--backing", &file.display().to_string()];
    let disk = ServedDisk::serve(&slow, &options);
    disk.answer_json(&["fail", "disk1"]);
    assert_eq!(member_states(&disk.answer_json(&["replace", "disk1"])), ["well", "rebuilding", "well"]);
    assert!(disk.run_command(&["stop"]).status.success());
    drop(disk);
    let disk = ServedDisk::serve(&slow, &options);
    assert_eq!(member_states(&disk.answer_json(&["status"])), ["well", "failed", "well"]);
    assert_eq!(member_states(&disk.answer_json(&["replace", "disk1"])), ["well", "rebuilding", "well"]);
}

#[test]
fn a_standalone_drive_can_slow_down_hang_and_fail() {
    let disk = ServedDisk::serve(RAID5, &["--every", "100ms"]);
    let mut client = disk.connect_client("disk3");
    let mut block = [0; 4096];
    client.read(0, &mut block).expect("read");
    let status = disk.answer_json(&["slow", "disk3", "--factor", "100"]);
    assert_eq!(status["members"][0]["factor"], 100.0);
    let begin = std::time::Instant::now();
    client.read(0, &mut block).expect("read");
    assert!(begin.elapsed().as_millis() >= 20, "100 times 0.2 ms");
    disk.answer_json(&["slow", "disk3", "--factor", "1"]);
    disk.answer_json(&["error", "disk3", "--share", "1", "--what", "reads"]);
    assert!(client.read(0, &mut block).is_err());
    client.write(0, &block, CommandFlags::default()).expect("only reads fail");
    disk.answer_json(&["error", "disk3", "--share", "0"]);
    client.read(0, &mut block).expect("read");
    disk.answer_json(&["hang", "disk3"]);
    let late = std::thread::spawn(move || client.read(0, &mut [0; 4096]).is_ok());
    std::thread::yield_now();
    assert!(!late.is_finished());
    let text = disk.run_command(&["status"]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("disk3        hangs"), "{text}");
    disk.answer_json(&["release", "disk3"]);
    assert!(late.join().expect("no panic"));
}

#[test]
fn a_failed_standalone_drive_answers_everything_with_an_error() {
    let disk = ServedDisk::serve(RAID5, &[]);
    let mut client = disk.connect_client("disk3");
    client.write(0, &[7; 512], CommandFlags::default()).expect("written");
    disk.answer_json(&["slow", "disk3", "--factor", "50"]);
    disk.answer_json(&["hang", "disk3"]);
    let mut waiting = disk.connect_client("disk3");
    let late = std::thread::spawn(move || waiting.read(0, &mut [0; 512]).is_ok());
    let begun = std::time::Instant::now();
    while disk.answer_json(&["status"])["under_way"] != 1 {
        assert!(begun.elapsed().as_secs() < 30, "the read does not arrive");
    }
    let status = disk.answer_json(&["fail", "disk3"]);
    assert_eq!(status["members"][0]["hangs"], false, "{status}");
    assert!(!late.join().expect("no panic"), "its data is gone: no zeros are passed for it");
    assert!(client.flush().is_err(), "what was written is not there to be kept");
    let status = disk.answer_json(&["replace", "disk3"]);
    assert_eq!(status["members"].as_array().map(Vec::len), Some(0), "{status}");
    client.flush().expect("the new one works");
    client.read(0, &mut [0; 512]).expect("and is neither slow nor hangs");
}

#[test]
fn refuses_wrong_options_before_serving() {
    let disk = ServedDisk::serve(RAID5, &["--json", "--size", "1MiB"]);
    // only the first line of the JSON document was read
    assert!(disk.first_line.starts_with('{'), "{}", disk.first_line);
    let uri = format!("nbd+unix:///data?socket={}", disk.socket().display());
    assert_eq!(disk.answer_json(&["status"])["exports"][0]["uri"], uri);
    assert_eq!(disk.answer_json(&["status"])["exports"][0]["bytes"], 1 << 20);
    assert!(disk.run_command(&["stop"]).status.success());

    let wrong = |arguments: &[&str], code: i32, expected: &str| {
        let output = diskwright_command().arg("disk").args(arguments).output().expect("it runs");
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
fn finds_disks_served_by_the_caller_of_sudo() {
    let disk = ServedDisk::serve(RAID5, &[]);
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
        let mut command = diskwright_command();
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
fn serves_although_its_folder_name_is_taken() {
    let mut first = ServedDisk::serve(RAID5, &["--listen", "127.0.0.1:0"]);
    let temporary = first.folder.path().join("everybodys");
    let user = rustix::process::geteuid().as_raw();
    std::fs::create_dir_all(temporary.join(format!("diskwright-{user}"))).expect("somebody's folder");
    let file = first.folder.path().join("system.toml");
    let mine = |command: &mut Command| {
        // no runtime folder, and a folder of this test as /tmp
        command.env("TMPDIR", &temporary).env_remove("XDG_RUNTIME_DIR");
    };
    let mut command = diskwright_command();
    mine(command.arg("disk").arg(&file).stdout(Stdio::piped()));
    let mut child = command.spawn().expect("started");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
    let socket = line.trim().rsplit_once("socket=").map(|(_, socket)| socket.to_owned()).unwrap_or_default();
    let mut command = diskwright_command();
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
fn replaces_only_failed_drives() {
    let disk = ServedDisk::serve(RAID5, &[]);
    let (mut alone, mut back) = (disk.connect_client("disk3"), [0; 512]);
    alone.write(0, &[7; 512], CommandFlags::default()).expect("written");
    assert!(disk.refusal_text(&["replace", "disk3"]).contains("`disk3` has not failed; only a failed drive"));
    assert!(disk.refusal_text(&["replace", "disk0"]).contains("`disk0` has not failed"));
    disk.answer_json(&["error", "disk3", "--share", "0.5"]);
    assert!(disk.refusal_text(&["replace", "disk3"]).contains("`disk3` has not failed"));
    disk.answer_json(&["error", "disk3", "--share", "0"]);
    alone.read(0, &mut back).expect("read");
    assert_eq!(back, [7; 512]);
    disk.answer_json(&["fail", "disk3"]);
    disk.answer_json(&["replace", "disk3"]);
    alone.read(0, &mut back).expect("read");
    assert_eq!(back, [0; 512]);
}

#[test]
fn a_parallel_rebuild_reports_its_progress() {
    let system =
        RAID5.replace("rebuild = { step = \"1MB\" }", "spares = \"disk3\"\nrebuild = { step = \"64KB\", depth = 4 }");
    let disk = ServedDisk::serve(&system, &["--every", "50ms", "--speed", "0.005"]);
    disk.answer_json(&["fail", "disk1"]);
    let done = || disk.answer_json(&["status"])["arrays"][0]["background"]["done_bytes"].as_u64();
    let begun = std::time::Instant::now();
    while done().is_none_or(|done| done == 0) {
        assert!(begun.elapsed().as_secs() < 30, "{}", disk.answer_json(&["status"]));
        std::thread::yield_now();
    }
    assert_eq!(member_states(&disk.answer_json(&["status"])), ["well", "rebuilding", "well"]);
}

#[test]
fn finds_a_disk_whose_socket_name_ends_in_control() {
    let disk = ServedDisk::serve(RAID5, &[]);
    let (file, socket) = (disk.folder.path().join("system.toml"), disk.folder.path().join("my.control"));
    let mut command = diskwright_command();
    let child = command.arg("disk").arg(&file).arg("--socket").arg(&socket).stdout(Stdio::piped());
    let mut child = child.env("XDG_RUNTIME_DIR", disk.folder.path()).spawn().expect("started");
    let mut first = String::new();
    BufReader::new(child.stdout.take().expect("piped")).read_line(&mut first).expect("a line");
    let stop = diskwright_command().args(["disk", "stop", "--socket"]).arg(&socket).output().expect("it runs");
    if !stop.status.success() {
        let _ = child.kill();
    }
    assert!(child.wait().expect("ended").success(), "{}", String::from_utf8_lossy(&stop.stderr));
}

#[test]
fn warns_when_it_listens_beyond_loopback() {
    let mut disk = ServedDisk::serve(RAID5, &["--listen", "0.0.0.0:0"]);
    let _ = disk.child.kill();
    let mut stderr = String::new();
    std::io::Read::read_to_string(&mut disk.child.stderr.take().expect("piped"), &mut stderr).expect("text");
    assert!(stderr.contains("NBD has no password"), "{stderr}");
}

#[test]
fn records_its_counters_in_a_log() {
    let disk = ServedDisk::serve(RAID5, &[]);
    let log = disk.folder.path().join("log");
    drop(disk.run_command(&["stop"]));
    let disk = ServedDisk::serve(RAID5, &["--every", "50ms", "--record", &log.display().to_string()]);
    let mut client = disk.connect_client("");
    for number in 0..200 {
        client.write(number * 65_536, &[7; 4096], CommandFlags::default()).expect("written");
    }
    assert!(disk.run_command(&["stop"]).status.success());
    let mut disk = disk;
    assert!(disk.child.wait().expect("ended").success());
    assert_eq!(array_writes_in_log(&log), 200.0);
    let why = diskwright_command().args(["why", "--json"]).arg(&log).output().expect("it runs");
    let verdict: Value = serde_json::from_slice(&why.stdout).expect("a verdict");
    assert!(verdict["bottleneck"].is_string());
}

/// Number of writes of the array according to a log of the disk.
fn array_writes_in_log(log: &Path) -> f64 {
    let options = ["--as", "csv", "--counter", "physical_disk.writes", "--instance", "data"];
    let show = diskwright_command().arg("export").arg(log).args(options).output().expect("it runs");
    let text = String::from_utf8_lossy(&show.stdout).into_owned();
    text.lines().skip(1).filter_map(|line| line.split(',').nth(1)?.parse::<f64>().ok()).sum()
}

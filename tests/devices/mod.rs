//! Real devices for tests: loop devices, filesystems, servers, all removed at the end. Where this machine cannot
//! provide one, [`Bench::new`] and the other functions that return an `Option` print the reason, and the test is
//! skipped.

#![allow(dead_code, reason = "each test binary uses its part of it")]
#![allow(clippy::disallowed_methods, reason = "a test waits for other processes")]

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// What a refusal says of a process that uses the device.
const HAS_IT_OPEN: &str = " has it open";

/// Folder and devices of one test; devices, programs and the folder are removed when it is dropped.
pub struct Bench {
    /// Folder of the test.
    pub folder: PathBuf,
    undo: Vec<Vec<String>>,
    children: Vec<Child>,
}

/// Ids of processes whose command line contains all of these words.
pub fn find_processes(words: &[&str]) -> Vec<u32> {
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let has = |id: &u32| {
        let line = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line);
        words.iter().all(|word| line.contains(word))
    };
    numbers.filter(has).collect()
}

/// Loop devices over files of a folder.
fn loop_devices_over(folder: &Path) -> Vec<String> {
    let listed =
        run_tool("losetup", &["--list", "--noheadings", "--raw", "--output", "NAME,BACK-FILE"]).unwrap_or_default();
    let pairs = listed.lines().filter_map(|line| line.split_once(' '));
    pairs.filter(|(_, file)| Path::new(file).starts_with(folder)).map(|(name, _)| name.to_owned()).collect()
}

/// Sends a signal. After `-KILL` it waits until the process has ended, because until then it holds its locks.
pub fn send_signal(signal: &str, process: u32) {
    run_tool("kill", &[signal, &process.to_string()]).expect("signalled");
    let status = || fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    if signal == "-KILL" {
        wait_up_to_10_s(|| status().is_empty() || status().contains("State:\tZ")).expect("it ends");
    }
}

/// Bytes by which sparse files of this run exceed the requested size, a multiple of 64 KiB. A killed run leaves loop
/// devices on the machine; where no path leads to their files any more, only the size distinguishes them from files of
/// this run.
fn extra_bytes() -> u64 {
    65536 * (1 + u64::from(std::process::id()) % 31)
}

/// Prints why a test is skipped.
pub fn report_skip(reason: &str) {
    eprintln!("skipped: {reason}");
}

impl Bench {
    /// Creates the folder of a test; `None` where loop devices cannot be attached.
    pub fn new(test: &str) -> Option<Bench> {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
        // removes what a killed run left behind, the innermost mounts first
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let points = mounts.lines().filter_map(|line| line.split(' ').nth(4));
        let left: Vec<&str> = points.filter(|point| Path::new(point).starts_with(&folder)).collect();
        for point in left.into_iter().rev() {
            run_tool("umount", &["-l", point]);
        }
        for device in loop_devices_over(&folder) {
            run_tool("losetup", &["-d", &device]);
        }
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder");
        let mut bench = Bench { folder, undo: Vec::new(), children: Vec::new() };
        let file = bench.sparse_file("try", 1 << 20);
        let device = bench.attach_loop_device(&file, &[])?;
        // the node of a device that was not detached may exist without working
        File::open(device).is_ok().then_some(bench)
    }

    /// Path in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Creates a sparse file, a little larger than this.
    pub fn sparse_file(&self, name: &str, bytes: u64) -> PathBuf {
        self.exact_sparse_file(name, bytes + extra_bytes())
    }

    /// Creates a sparse file of exactly this size.
    pub fn exact_sparse_file(&self, name: &str, bytes: u64) -> PathBuf {
        let path = self.path(name);
        File::create(&path).and_then(|f| f.set_len(bytes)).expect("a sparse file");
        path
    }

    /// Attaches a loop device over a file or device.
    pub fn attach_loop_device(&mut self, file: &Path, options: &[&str]) -> Option<String> {
        let file = file.display().to_string();
        let arguments = [&["--find", "--show"], options, &[file.as_str()]].concat();
        let device = run_tool("losetup", &arguments)?;
        self.run_at_end("losetup", &["-d", &device]);
        Some(device)
    }

    /// Attaches a loop device over a new sparse file of this size.
    pub fn new_loop_device(&mut self, name: &str, mib: u64) -> Option<String> {
        let file = self.sparse_file(name, mib << 20);
        self.attach_loop_device(&file, &[])
    }

    /// Mounts a device on a new folder of this name; returns the mount point.
    pub fn mount(&mut self, device: &str, name: &str, options: &str) -> Option<PathBuf> {
        let point = self.path(name);
        fs::create_dir_all(&point).expect("a mount point");
        let path = point.display().to_string();
        run_tool("mount", &["-o", options, device, &path])?;
        self.run_at_end("umount", &[&path]);
        Some(point)
    }

    /// Registers a command to be run at the end of the test, in reverse order of registration.
    pub fn run_at_end(&mut self, program: &str, arguments: &[&str]) {
        self.undo.push([&[program], arguments].concat().into_iter().map(str::to_owned).collect());
    }

    /// Runs a command now that was registered with [`Bench::run_at_end`] and removes it from the list: a device that
    /// is free may belong to another test by the end.
    pub fn undo_now(&mut self, program: &str, arguments: &[&str]) {
        let step: Vec<String> = [&[program], arguments].concat().into_iter().map(str::to_owned).collect();
        self.undo.retain(|other| *other != step);
        let done = || Command::new(program).args(arguments).output().is_ok_and(|o| o.status.success());
        wait_up_to_10_s(done).unwrap_or_else(|| panic!("{}", step.join(" ")));
    }

    /// Detaches a loop device and waits until it is gone.
    pub fn detach(&mut self, device: &str) {
        let backing = || {
            fs::read(format!("/sys/block/{}/loop/backing_file", device.trim_start_matches("/dev/"))).unwrap_or_default()
        };
        let before = backing();
        self.undo_now("losetup", &["-d", device]);
        wait_up_to_10_s(|| backing() != before).expect("it goes");
    }

    /// Starts a program that is killed at the end of the test; returns its process id.
    pub fn start_program(&mut self, program: &str, arguments: &[&str]) -> Option<u32> {
        let mut command = Command::new(program);
        // commands of other tests must not find a disk that this test serves
        command.args(arguments).env("XDG_RUNTIME_DIR", &self.folder).stdout(Stdio::null()).stderr(Stdio::null());
        let Ok(child) = command.spawn() else {
            report_skip(&format!("no {program}"));
            return None;
        };
        self.children.push(child);
        self.children.last().map(Child::id)
    }

    /// Attaches a loop device over a memory disk of nbdkit with these filters and options; returns the device and the
    /// process id of the server.
    pub fn attach_nbd_server(&mut self, mib: u64, arguments: &[&str]) -> Option<(String, u32)> {
        let (socket, mount) = (self.path("server.socket"), self.path("server.nbd"));
        let (path, size) = (socket.display().to_string(), ((mib << 20) + extra_bytes()).to_string());
        let filters: Vec<&str> = arguments.iter().copied().filter(|a| a.starts_with("--")).collect();
        let options: Vec<&str> = arguments.iter().copied().filter(|a| !a.starts_with("--")).collect();
        let server = [&["-f", "-U", &path], &filters[..], &["memory", &size], &options[..]].concat();
        let server = self.start_program("nbdkit", &server)?;
        wait_for_server(&socket)?;
        File::create(&mount).expect("a mount point");
        let (uri, point) = (format!("nbd+unix:///?socket={path}"), mount.display().to_string());
        self.start_program("nbdfuse", &["-C", "8", &point, &uri])?;
        self.run_at_end("fusermount3", &["-u", &point]);
        let served = wait_up_to_10_s(|| fs::metadata(&mount).is_ok_and(|m| m.len() > 0));
        if served.is_none() {
            report_skip("nbdfuse serves nothing here (no /dev/fuse?)");
        }
        served?;
        Some((self.attach_loop_device(&mount, &["--direct-io=on"])?, server))
    }

    /// A command `diskwright probe`, with runs of 50 ms unless the arguments have `--for`.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_diskwright"));
        command.arg("probe").args(arguments).args(["--ramp", "0"]);
        if !arguments.contains(&"--for") {
            command.args(["--for", "50ms"]);
        }
        command.env("DISKWRIGHT_STATE", self.path("state")).current_dir(&self.folder);
        command
    }

    /// Runs `diskwright probe` to its end.
    pub fn run_probe(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("runs")
    }

    /// Expects exit code 1, all these words in the message, and unchanged data.
    pub fn expect_refused(&self, arguments: &[&str], data: &str, expected: &[&str]) {
        self.expect_all_refused(&[arguments], data, expected);
    }

    /// The same for several commands: a checksum of the data takes as long as a refusal.
    pub fn expect_all_refused(&self, all: &[&[&str]], data: &str, expected: &[&str]) {
        let before = md5_sum(data);
        all.iter().for_each(|arguments| self.expect_failure(arguments, expected));
        assert_eq!(md5_sum(data), before, "one of {all:?} changed {data}");
    }

    /// Expects exit code 1 and all these words in the message. Tests that run at the same time open devices that are
    /// not theirs for a moment: a message about such a process counts only where one is expected.
    pub fn expect_failure(&self, arguments: &[&str], expected: &[&str]) {
        let mut done = self.run_probe(arguments);
        let is_of_passer = |done: &Output| {
            let message = String::from_utf8_lossy(&done.stderr);
            message.contains(HAS_IT_OPEN) && expected.iter().any(|words| !message.contains(words))
        };
        let _ = wait_up_to_10_s(|| {
            let is_settled = !is_of_passer(&done);
            if !is_settled {
                done = self.run_probe(arguments);
            }
            is_settled
        });
        let stderr = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(1), "{arguments:?}: {stderr}");
        for words in expected {
            assert!(
                stderr.contains(words),
                "{arguments:?} does not say `{words}`: {stderr}\n{}",
                self.describe_state()
            );
        }
    }

    /// Lists all loop devices and the mounts of this test, for the message of a failed test.
    fn describe_state(&self) -> String {
        let loops = run_tool("losetup", &["--list"]).unwrap_or_default();
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let folder = self.folder.display().to_string();
        let own: Vec<&str> = mounts.lines().filter(|line| line.contains(&folder)).collect();
        format!("{loops}\n{}", own.join("\n"))
    }

    /// Runs a probe that must succeed; returns its JSON answer.
    pub fn measure(&self, arguments: &[&str]) -> serde_json::Value {
        let done = self.run_probe(&[arguments, &["--json"]].concat());
        assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
        serde_json::from_slice(&done.stdout).expect("JSON")
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        for step in self.undo.drain(..).rev() {
            // a busy device becomes free when its last user ends
            let done = || Command::new(&step[0]).args(&step[1..]).output().is_ok_and(|o| o.status.success());
            if wait_up_to_10_s(done).is_none() {
                eprintln!("not undone: {}", step.join(" "));
            }
        }
        for mut child in self.children.drain(..) {
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Standard output of a program; `None`, with the reason printed, where it fails or is missing.
pub fn run_tool(program: &str, arguments: &[&str]) -> Option<String> {
    match Command::new(program).args(arguments).output() {
        Ok(done) if done.status.success() => Some(String::from_utf8_lossy(&done.stdout).trim().to_owned()),
        Ok(done) => {
            report_skip(&format!(
                "{program} {}: {}",
                arguments.join(" "),
                String::from_utf8_lossy(&done.stderr).trim()
            ));
            None
        }
        Err(error) => {
            report_skip(&format!("{program}: {error}"));
            None
        }
    }
}

/// Waits up to ten seconds for a condition; `None` if it does not hold by then.
pub fn wait_up_to_10_s(mut condition: impl FnMut() -> bool) -> Option<()> {
    let begun = Instant::now();
    while !condition() {
        if begun.elapsed() > Duration::from_secs(10) {
            return None;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Some(())
}

/// Waits until a server accepts connections at a socket, whose file is there before; `None` if it does not.
pub fn wait_for_server(socket: &Path) -> Option<()> {
    wait_up_to_10_s(|| UnixStream::connect(socket).is_ok())
}

/// MD5 checksum of a file or device.
pub fn md5_sum(path: &str) -> String {
    let done = Command::new("md5sum").arg(path).output().expect("md5sum, of coreutils");
    assert!(done.status.success(), "{path}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8_lossy(&done.stdout).into_owned()
}

/// Writes bytes at an offset, counted from the end where negative.
pub fn write_at(path: &str, offset: i64, bytes: &[u8]) {
    let file = File::options().write(true).open(path).expect("opens");
    let end = || std::io::Seek::seek(&mut &file, std::io::SeekFrom::End(0)).expect("a size");
    let offset = if offset < 0 { end() - offset.unsigned_abs() } else { offset as u64 };
    file.write_all_at(bytes, offset).expect("writes");
    file.sync_all().expect("syncs");
}

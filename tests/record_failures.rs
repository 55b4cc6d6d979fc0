//! `record` with its log on a frozen or a full filesystem, and under a service manager. Needs root to mount and freeze
//! filesystems.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use crate::common::{command, diskwright, folder, json, text, wait_until};

use diskwright_base::{Frame, Note};
use diskwright_datastore::{LogItem, LogReader};
use serde_json::Value;

/// Standard output of a program; `None` where it fails or is missing.
fn run_tool(program: &str, arguments: &[&str]) -> Option<String> {
    let done = Command::new(program).args(arguments).output().ok()?;
    done.status.success().then(|| String::from_utf8_lossy(&done.stdout).trim().to_owned())
}

/// A filesystem for one test; thawed and unmounted when it is dropped.
struct TestFilesystem {
    point: PathBuf,
    device: Option<String>,
}

impl TestFilesystem {
    /// Mounts ext4 over a loop device; `None`, with the reason printed, where this machine cannot.
    fn mount_ext4(folder: &Path) -> Option<TestFilesystem> {
        let image = folder.join("image");
        File::create(&image).and_then(|file| file.set_len(64 << 20)).expect("an image");
        let Some(device) = run_tool("losetup", &["--find", "--show", text(&image)]) else {
            eprintln!("skipped: no loop device (takes root)");
            return None;
        };
        let disk = TestFilesystem { point: folder.join("disk"), device: Some(device.clone()) };
        fs::create_dir(&disk.point).expect("a folder");
        let made =
            run_tool("mkfs.ext4", &["-q", &device]).and_then(|_| run_tool("mount", &[&device, text(&disk.point)]));
        if made.is_none() || run_tool("fsfreeze", &["--help"]).is_none() {
            eprintln!("skipped: no ext4, or no fsfreeze");
            return None;
        }
        Some(disk)
    }

    /// Mounts a tmpfs of 256 KiB; `None`, with the reason printed, where this machine cannot.
    fn mount_small_tmpfs(folder: &Path) -> Option<TestFilesystem> {
        let disk = TestFilesystem { point: folder.join("disk"), device: None };
        fs::create_dir(&disk.point).expect("a folder");
        if run_tool("mount", &["-t", "tmpfs", "-o", "size=256k", "none", text(&disk.point)]).is_none() {
            eprintln!("skipped: no filesystem can be mounted (takes root)");
            return None;
        }
        Some(disk)
    }

    fn freeze(&self) {
        assert!(run_tool("fsfreeze", &["--freeze", text(&self.point)]).is_some());
    }

    fn thaw(&self) {
        assert!(run_tool("fsfreeze", &["--unfreeze", text(&self.point)]).is_some());
    }
}

impl Drop for TestFilesystem {
    fn drop(&mut self) {
        if self.device.is_some() {
            run_tool("fsfreeze", &["--unfreeze", text(&self.point)]);
        }
        // a process that was blocked on it may need a moment to end
        wait_until("the filesystem to be free", || {
            run_tool("mountpoint", &["-q", text(&self.point)]).is_none()
                || run_tool("umount", &[text(&self.point)]).is_some()
        });
        if let Some(device) = &self.device {
            run_tool("losetup", &["--detach", device]);
        }
    }
}

/// Waits for a time.
fn wait_for(time: Duration) {
    let end = Instant::now() + time;
    wait_until("time to pass", || Instant::now() >= end);
}

/// A recorder whose output goes to files outside of the filesystem.
struct Recorder {
    child: Child,
    out: PathBuf,
    err: PathBuf,
}

impl Recorder {
    fn start(folder: &Path, log: &Path, every: &str) -> Recorder {
        let (out, err) = (folder.join("out"), folder.join("err"));
        let mut command = command(&["record", text(log), "--every", every, "--json"]);
        command.stdout(File::create(&out).expect("a file")).stderr(File::create(&err).expect("a file"));
        let recorder = Recorder { child: command.spawn().expect("the program runs"), out, err };
        wait_until("the first ticks", || read_times_and_notes(log).0.len() > 3);
        recorder
    }

    fn interrupt(&self) {
        assert!(run_tool("kill", &["-INT", &self.child.id().to_string()]).is_some());
    }

    fn answer_json(&self) -> Option<Value> {
        serde_json::from_str(&fs::read_to_string(&self.out).ok()?).ok()
    }

    /// Waits for the exit; returns exit code, JSON answer and standard error.
    fn wait_for_exit(mut self) -> (Option<i32>, Value, String) {
        let code = self.child.wait().expect("ends").code();
        let message = fs::read_to_string(&self.err).expect("readable");
        (code, self.answer_json().unwrap_or_else(|| panic!("no answer: {message}")), message)
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        let _ = self.child.kill();
    }
}

/// Times of the ticks of a log, ns, and its notes.
fn read_times_and_notes(log: &Path) -> (Vec<i64>, Vec<Note>) {
    let (mut times, mut notes, mut frame) = (Vec::new(), Vec::new(), Frame::default());
    let Ok(mut reader) = LogReader::open(log) else { return (times, notes) };
    while let Ok(Some(item)) = reader.next(&mut frame) {
        match item {
            LogItem::Frame => times.extend(frame.ticks().iter().map(|tick| tick.time_ns)),
            LogItem::Note(note) => notes.push(note),
            LogItem::Damage(damage) => panic!("{damage:?}"),
        }
    }
    (times, notes)
}

#[test]
fn keeps_every_tick_while_its_disk_is_frozen() {
    let folder = folder("record-trouble-still");
    let Some(disk) = TestFilesystem::mount_ext4(&folder) else { return };
    let log = disk.point.join("log");
    let recorder = Recorder::start(&folder, &log, "200ms");
    disk.freeze();
    let from = *read_times_and_notes(&log).0.last().expect("ticks");
    wait_for(Duration::from_secs(3));
    disk.thaw();
    let to = from + 3_000_000_000;
    wait_until("ticks behind it", || read_times_and_notes(&log).0.last().is_some_and(|last| *last > to));
    recorder.interrupt();
    let (code, answer, errors) = recorder.wait_for_exit();
    assert_eq!((code, &answer["ticks_lost"]), (Some(0), &Value::from(0)), "{errors}");
    let (times, notes) = read_times_and_notes(&log);
    assert_eq!(answer["ticks"], Value::from(times.len()));
    // 15 ticks, less those that a busy machine delays
    let meanwhile: Vec<i64> = times.iter().copied().filter(|time| (from..to).contains(time)).collect();
    let late = answer["ticks_late"].as_u64().expect("a number") as usize;
    assert!(meanwhile.len() + 10 * late >= 14 && meanwhile.len() > 5, "{} ticks, {late} late", meanwhile.len());
    assert!(notes.iter().all(|note| !note.text().contains("were lost")), "{notes:?}");
    for (name, field) in [("why", "/window/ticks"), ("show", "/ticks")] {
        let done = diskwright(&[name, text(&log), "--json"]);
        let document = json(&done);
        if let Some(ticks) = document.pointer(field) {
            assert_eq!(*ticks, Value::from(times.len()), "{name}");
        }
        assert_eq!(document["damage"], Value::Array(vec![]), "{name}");
    }
    drop(disk);
    let _ = fs::remove_dir_all(&folder);
}

#[test]
fn record_and_mark_report_losses_while_the_disk_is_frozen() {
    let folder = folder("record-trouble-asked");
    let Some(disk) = TestFilesystem::mount_ext4(&folder) else { return };
    let log = disk.point.join("log");
    let recorder = Recorder::start(&folder, &log, "200ms");
    disk.freeze();
    let words = folder.join("mark");
    let mut mark = command(&["mark", text(&log), "the", "users", "call"]);
    let mut mark = mark.stderr(File::create(&words).expect("a file")).spawn().expect("the program runs");
    wait_for(Duration::from_secs(2));
    recorder.interrupt();
    // both answer while the disk is still frozen
    wait_until("the recorder's answer", || recorder.answer_json().is_some());
    let messages = || fs::read_to_string(&words).unwrap_or_default();
    wait_until("the word of mark", || !messages().is_empty());
    disk.thaw();
    let (code, answer, err) = recorder.wait_for_exit();
    let lost = answer["ticks_lost"].as_u64().expect("a number");
    assert!(code == Some(1) && lost >= 3, "{code:?} {answer}");
    assert!(err.contains(&format!("its disk does not respond; at the end {lost} ticks are lost")), "{err}");
    assert!(err.contains("waiting up to 10 s for its disk; "), "{err}");
    assert_eq!(mark.wait().expect("ends").code(), Some(1));
    assert!(messages().contains("its disk does not respond; the bookmark may not have been written"), "{}", messages());
    drop(disk);
    let _ = fs::remove_dir_all(&folder);
}

#[test]
fn counts_every_tick_lost_to_a_full_disk() {
    let folder = folder("record-trouble-full");
    let Some(disk) = TestFilesystem::mount_small_tmpfs(&folder) else { return };
    let log = disk.point.join("log");
    let recorder = Recorder::start(&folder, &log, "50ms");
    let filler = disk.point.join("filler");
    let fits = |file: &mut File| std::io::Write::write_all(file, &[0; 1024]).is_ok();
    let mut file = File::create(&filler).expect("a file");
    while fits(&mut file) {}
    wait_until("a word of it", || fs::read_to_string(&recorder.err).is_ok_and(|err| err.contains("recording paused")));
    wait_for(Duration::from_secs(1));
    drop(file);
    fs::remove_file(&filler).expect("was there");
    wait_until("a word of its end", || fs::read_to_string(&recorder.err).is_ok_and(|err| err.contains("goes on")));
    let before = read_times_and_notes(&log).0.len();
    wait_until("further ticks", || read_times_and_notes(&log).0.len() > before + 2);
    recorder.interrupt();
    let (code, answer, errors) = recorder.wait_for_exit();
    assert_eq!(code, Some(0), "{errors}");
    let (times, notes) = read_times_and_notes(&log);
    assert_eq!(answer["ticks"], Value::from(times.len()));
    let lost = answer["ticks_lost"].as_u64().expect("a number");
    assert!(lost > 0, "{answer}");
    let losses = |text: &'static str| notes.iter().filter_map(move |note| note.text().split_once(text));
    let noted = losses(" ticks are lost").chain(losses(" tick is lost")).map(|(before, _)| {
        let number = before.rsplit(' ').next().expect("a word");
        number.parse::<u64>().expect("a number")
    });
    assert_eq!(noted.sum::<u64>(), lost, "{notes:?}");
    drop(disk);
    let _ = fs::remove_dir_all(&folder);
}

/// systemd starts dependent units once the recorder is ready, and ends a recorder that misses its watchdog.
#[test]
fn notifies_the_service_manager_of_start_watchdog_and_stop() {
    let folder = folder("record-service");
    let socket = folder.join("notify");
    let manager = std::os::unix::net::UnixDatagram::bind(&socket).expect("a socket");
    let log = folder.join("log");
    let arguments = ["record", text(&log), "--every", "100ms", "--for", "1s"];
    let done = command(&arguments).env("NOTIFY_SOCKET", &socket).env("WATCHDOG_USEC", "300000").output().expect("run");
    assert!(done.status.success());
    manager.set_nonblocking(true).expect("set");
    let mut heard = Vec::new();
    let mut buffer = [0; 200];
    while let Ok(length) = manager.recv(&mut buffer) {
        heard.push(String::from_utf8_lossy(&buffer[..length]).lines().next().unwrap_or_default().to_owned());
    }
    assert_eq!(
        (heard.first().map(String::as_str), heard.last().map(String::as_str)),
        (Some("READY=1"), Some("STOPPING=1"))
    );
    assert!(heard.len() > 2 && heard[1..heard.len() - 1].iter().all(|word| word == "WATCHDOG=1"), "{heard:?}");
    // with the WATCHDOG_PID of another process, no watchdog messages are sent
    let other = command(&arguments[..2])
        .args(["--for", "200ms", "--every", "50ms"])
        .env("NOTIFY_SOCKET", &socket)
        .env("WATCHDOG_USEC", "3000")
        .env("WATCHDOG_PID", "1")
        .output()
        .expect("run");
    assert!(other.status.success());
    let mut words = 0;
    while manager.recv(&mut buffer).is_ok() {
        words += 1;
    }
    assert_eq!(words, 2, "ready and stopping");
}

/// What was in blocks is gone; the last ticks are in memory and written again.
#[test]
fn a_removed_folder_counts_what_went_with_it() {
    let folder = folder("record-trouble-removed");
    let log = folder.join("log");
    let recorder = Recorder::start(&folder, &log, "10ms");
    // a block has 240 ticks
    wait_until("a block", || read_times_and_notes(&log).0.len() > 300);
    fs::remove_dir_all(&log).expect("was there");
    wait_until("ticks in the new folder", || read_times_and_notes(&log).0.len() > 3);
    recorder.interrupt();
    let (code, answer, errors) = recorder.wait_for_exit();
    assert_eq!((code, &answer["ticks_lost"]), (Some(0), &Value::from(0)), "{errors}");
    let (times, notes) = read_times_and_notes(&log);
    let removed = answer["ticks_removed"].as_u64().expect("a number");
    assert!(removed >= 240, "{answer}");
    assert_eq!(answer["ticks"], Value::from(times.len() as u64 + removed));
    let told = format!("was removed or moved during recording: {removed} ticks with it");
    assert!(errors.contains(&told), "{errors}");
    assert!(notes.iter().any(|note| note.kind == Note::GAP && note.text().contains(&told)), "{notes:?}");
    let _ = fs::remove_dir_all(&folder);
}

/// A stopped recorder's ticks are in no file; the log says how many were due.
#[test]
fn ticks_missed_by_a_stopped_recorder_are_in_every_account() {
    let folder = folder("record-trouble-stopped");
    let log = folder.join("log");
    let recorder = Recorder::start(&folder, &log, "200ms");
    let signal = |name: &str| run_tool("kill", &[name, &recorder.child.id().to_string()]).expect("it runs");
    signal("-STOP");
    wait_for(Duration::from_secs(3));
    signal("-CONT");
    let before = read_times_and_notes(&log).0.len();
    wait_until("further ticks", || read_times_and_notes(&log).0.len() > before + 2);
    // while it is still recorded
    let missed_so_far = json(&diskwright(&["why", text(&log), "--json"]))["window"]["ticks_missed"].clone();
    recorder.interrupt();
    let (code, answer, errors) = recorder.wait_for_exit();
    let missed = answer["ticks_missed"].as_u64().expect("a number");
    assert!(code == Some(0) && missed >= 10, "{answer}: {errors}");
    let cost = |field: &str| answer["cost"][field].as_f64().unwrap_or_default();
    assert!(cost("processor_s") > 0.0 && cost("seconds") > 3.0 && cost("resident_bytes") > 1e6, "{answer}");
    assert!(missed_so_far.as_u64().is_some_and(|so_far| so_far >= 10 && so_far <= missed), "{missed_so_far}");
    let verdict = json(&diskwright(&["why", text(&log), "--json"]));
    assert_eq!(verdict["window"]["ticks_missed"], missed, "{verdict}");
    assert_eq!(json(&diskwright(&["show", text(&log), "--json"]))["ticks_missed"], missed);
    for (command, expected) in
        [("why", format!(", {missed} missed")), ("show", format!("{missed} ticks were due and missed"))]
    {
        let shown = diskwright(&[command, text(&log)]);
        let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
        assert!(shown.contains(&expected), "{command}: {shown}");
    }
    let _ = fs::remove_dir_all(&folder);
}

#[test]
fn ticks_missed_while_watching_are_in_the_verdict() {
    let arguments = ["why", "--for", "6s", "--every", "200ms", "--json"];
    let child = command(&arguments).stdout(std::process::Stdio::piped()).spawn().expect("the program runs");
    let pid = child.id().to_string();
    wait_for(Duration::from_secs(1));
    run_tool("kill", &["-STOP", &pid]).expect("it runs");
    wait_for(Duration::from_secs(3));
    run_tool("kill", &["-CONT", &pid]).expect("it runs");
    let verdict = json(&child.wait_with_output().expect("ends"));
    assert!(verdict["window"]["ticks_missed"].as_u64().is_some_and(|missed| missed >= 10), "{}", verdict["window"]);
}

/// A shell that covers `/proc/vmstat` with a pipe that nobody writes to, in a mount namespace of its own, and becomes
/// the command that follows; exit code 77 where this machine cannot.
const COVER_VMSTAT: &str = "mkfifo \"$1/pipe\" && mount --bind \"$1/pipe\" /proc/vmstat || exit 77; shift; exec \"$@\"";

fn command_beside_blocking_file(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c", COVER_VMSTAT, "sh", text(folder)]);
    command.arg(env!("CARGO_BIN_EXE_diskwright")).args(arguments);
    command
}

#[test]
fn a_file_that_blocks_costs_no_other_counter() {
    let folder = folder("record-trouble-blocked");
    let log = folder.join("log");
    let arguments = ["record", text(&log), "--every", "200ms", "--for", "3s", "--json"];
    let done = command_beside_blocking_file(&folder, &arguments).output();
    let Some(done) = done.ok().filter(|done| ![Some(77), Some(1)].contains(&done.status.code())) else {
        return eprintln!("skipped: no mount namespace (takes root)");
    };
    let answer = json(&done);
    let count = |field: &str| answer[field].as_u64().expect("a number");
    // the first ticks may wait for the pipe; a busy machine delays others
    assert!(count("ticks") + count("ticks_missed") >= 15, "{answer}");
    assert!(count("ticks") >= 5, "{answer}");
    let (times, notes) = read_times_and_notes(&log);
    assert_eq!(times.len() as u64, count("ticks"));
    let is_named = |note: &Note| note.kind == Note::GAP && note.text().contains("/proc/vmstat: did not answer");
    assert!(notes.iter().any(is_named), "{notes:?}");
    let shown = diskwright(&["show", text(&log), "--counter", "memory.total_bytes", "--json"]);
    assert!(shown.status.success(), "{}", crate::common::stderr(&shown));
    let _ = fs::remove_dir_all(&folder);
}

#[test]
fn a_signal_ends_the_recorder_beside_a_file_that_blocks() {
    let folder = folder("record-trouble-signal");
    let log = folder.join("log");
    let arguments = ["record", text(&log), "--every", "200ms", "--json"];
    let Ok(recorder) = command_beside_blocking_file(&folder, &arguments).spawn() else {
        return eprintln!("skipped: no mount namespace (takes root)");
    };
    let recorder = std::cell::RefCell::new(recorder);
    let has_ended = || recorder.borrow_mut().try_wait().is_ok_and(|done| done.is_some());
    wait_until("a tick", || has_ended() || !read_times_and_notes(&log).0.is_empty());
    if has_ended() {
        return eprintln!("skipped: no mount namespace (takes root)");
    }
    run_tool("kill", &["-TERM", &recorder.borrow().id().to_string()]);
    wait_until("the end", has_ended);
    assert!(recorder.into_inner().wait().is_ok_and(|status| status.success()));
    assert!(!read_times_and_notes(&log).0.is_empty());
    let _ = fs::remove_dir_all(&folder);
}

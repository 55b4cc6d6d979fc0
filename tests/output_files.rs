//! Files that commands write and leave behind: output files, temporary imports, files imported twice; and sparse files
//! that they refuse to read to the end.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::common::stderr;

use rustix::process::{Pid, Signal, kill_process};

fn diskwright_command(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_diskwright"));
    let temporary = folder.join("tmp");
    fs::create_dir_all(&temporary).expect("a folder");
    command.current_dir(folder).env("TMPDIR", temporary).env("XDG_STATE_HOME", folder).stdin(Stdio::null());
    command
}

fn run_in_folder(folder: &Path, arguments: &[&str]) -> Output {
    diskwright_command(folder).args(arguments).output().expect("runs")
}

/// Writes a log of Performance Monitor with a tick a second.
fn write_perfmon_log(path: &Path, ticks: u32) {
    let mut text = String::from("\"(PDH-CSV 4.0) (UTC)(0)\",\"\\\\HOST\\PhysicalDisk(0 C:)\\Disk Read Bytes/sec\"\r\n");
    for tick in 0..ticks {
        let (hour, minute, second) = (tick / 3600, tick / 60 % 60, tick % 60);
        text += &format!("\"11/21/2026 {hour:02}:{minute:02}:{second:02}.000\",\"{tick}\"\r\n");
    }
    fs::write(path, text).expect("written");
}

/// Temporary folders of imports.
fn leftover_imports(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder.join("tmp")).expect("readable").map(|e| e.expect("an entry").path()).collect()
}

#[test]
fn refuses_links_and_devices_as_output_and_keeps_files_on_failure() {
    let bench = tempfile::tempdir().expect("a folder");
    let folder = bench.path();
    write_perfmon_log(&folder.join("a.csv"), 200);
    fs::write(folder.join("precious"), "precious").expect("written");
    symlink("precious", folder.join("link")).expect("a link");
    for refused in ["link", "/dev/new-page", "/proc/new-page", "/sys/new-page"] {
        for command in [
            &["report", "a.csv", "-o", refused][..],
            &["export", "a.csv", "--as", "csv", "-o", refused],
            &["export", "a.csv", "--as", "parquet", "-o", refused],
            &["compare", "a.csv", "--at", "-1m", "-o", refused],
            &["probe", "quick", "made.dat", "--size", "1MB", "-o", refused],
            &["simulate", "none.toml", "--svg", refused],
            &["simulate", "none.toml", "--html", refused],
        ] {
            let output = run_in_folder(folder, command);
            assert_eq!(output.status.code(), Some(1), "{command:?}");
            assert!(stderr(&output).contains(refused), "{command:?}: {}", stderr(&output));
        }
    }
    assert_eq!(fs::read_to_string(folder.join("precious")).expect("there"), "precious");
    assert!(!folder.join("made.dat").exists(), "refused before anything is measured");
    // a failed export keeps the old file
    fs::write(folder.join("old.csv"), "old").expect("written");
    let output = run_in_folder(folder, &["export", "precious", "--as", "csv", "-o", "old.csv"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(fs::read_to_string(folder.join("old.csv")).expect("there"), "old");
    let output = run_in_folder(folder, &["report", "a.csv", "-o", "-"]);
    assert!(output.status.success() && output.stdout.starts_with(b"<!DOCTYPE html>"), "{}", stderr(&output));
    let system = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/systems/raid5-of-three.toml");
    let output = run_in_folder(folder, &["simulate", system, "--duration", "2s", "--svg", "-", "--json"]);
    let picture = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(picture.starts_with("<svg") && picture.trim_end().ends_with("</svg>"), "{}", stderr(&output));
    let hidden = |name: &std::ffi::OsStr| name.to_string_lossy().starts_with(".diskwright-");
    assert!(!fs::read_dir(folder).expect("readable").any(|e| hidden(&e.expect("an entry").file_name())));
}

/// Starts a command that reads a log without an end; returns it with its temporary folder, once that is there.
#[allow(clippy::zombie_processes, reason = "the caller waits for it")]
fn start_endless_read(folder: &Path) -> (Child, PathBuf) {
    let mut command = diskwright_command(folder);
    let mut child = command
        .args(["why", "/dev/stdin"])
        .env("DISKWRIGHT_MEMORY_LIMIT", "0")
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("runs");
    let mut head = fs::read(folder.join("a.csv")).expect("there");
    head.resize(head.len().max(70_000), b'\n');
    child.stdin.as_mut().expect("a pipe").write_all(&head).expect("taken");
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(made) = leftover_imports(folder).into_iter().find(|made| made.join("lock").exists()) {
            return (child, made);
        }
        assert!(Instant::now() < end, "no temporary folder");
        std::thread::yield_now();
    }
}

/// True if this process, and so its children, ignore the signal with this bit in the mask.
fn is_signal_ignored(bit: u32) -> bool {
    let status = fs::read_to_string("/proc/self/status").expect("readable");
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).expect("reported");
    u64::from_str_radix(mask.trim(), 16).expect("a number") >> bit & 1 == 1
}

#[test]
fn temporary_imports_are_private_and_removed_with_their_command() {
    let bench = tempfile::tempdir().expect("a folder");
    let folder = bench.path();
    write_perfmon_log(&folder.join("a.csv"), 3000);
    for (signal, bit) in [("INT", 1), ("TERM", 14), ("HUP", 0)] {
        if is_signal_ignored(bit) {
            // as under nohup, where a program has to keep it ignored
            eprintln!("skipped: SIG{signal} is ignored here");
            continue;
        }
        let (mut child, made) = start_endless_read(folder);
        assert_eq!(fs::metadata(&made).expect("there").mode() & 0o777, 0o700);
        let sent = Command::new("kill").args([&format!("-{signal}"), &child.id().to_string()]).status();
        assert!(sent.expect("kill runs").success());
        assert!(!child.wait().expect("ends").success());
        assert!(leftover_imports(folder).is_empty(), "after SIG{signal}: {:?}", leftover_imports(folder));
    }
    let (mut child, made) = start_endless_read(folder);
    child.kill().expect("killed");
    child.wait().expect("ends");
    assert!(made.exists());
    assert!(run_in_folder(folder, &["why", "a.csv"]).status.success());
    assert!(leftover_imports(folder).is_empty(), "swept by the next command: {:?}", leftover_imports(folder));
}

#[test]
fn reads_a_piped_log_from_its_beginning() {
    let bench = tempfile::tempdir().expect("a folder");
    let folder = bench.path();
    write_perfmon_log(&folder.join("a.csv"), 300);
    let log = fs::read(folder.join("a.csv")).expect("there");
    let piped = |words: &[&str]| {
        let mut command = diskwright_command(folder);
        command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("runs");
        // the whole log fits into the pipe
        child.stdin.take().expect("a pipe").write_all(&log).expect("taken");
        let done = child.wait_with_output().expect("ends");
        assert!(done.status.success(), "{words:?}: {}", stderr(&done));
        done.stdout
    };
    piped(&["report", "/dev/stdin", "-o", "page.html"]);
    let compared = piped(&["compare", "/dev/stdin", "a.csv", "--json"]);
    let compared: serde_json::Value = serde_json::from_slice(&compared).expect("JSON");
    assert_eq!(compared["before"]["window"], compared["after"]["window"]);
    let plain = run_in_folder(folder, &["show", "a.csv", "--counter", "*", "--as", "csv"]);
    assert!(piped(&["show", "/dev/stdin", "--counter", "*", "--as", "csv"]) == plain.stdout, "{}", stderr(&plain));
}

#[test]
fn imports_a_file_only_once() {
    let bench = tempfile::tempdir().expect("a folder");
    let folder = bench.path();
    write_perfmon_log(&folder.join("a.csv"), 100);
    let import = |more: &[&str]| run_in_folder(folder, &[&["import", "--to", "log"], more].concat());
    assert!(import(&["a.csv"]).status.success());
    fs::copy(folder.join("a.csv"), folder.join("copy.csv")).expect("copied");
    for again in ["a.csv", "copy.csv"] {
        let output = import(&[again]);
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).contains("already") && stderr(&output).contains("--again"), "{}", stderr(&output));
    }
    let mut file = fs::File::options().append(true).open(folder.join("copy.csv")).expect("there");
    file.write_all(b"\"11/21/2026 01:00:00.000\",\"5\"\r\n").expect("written");
    assert!(stderr(&import(&["copy.csv"])).contains("has grown"));
    write_perfmon_log(&folder.join("other.csv"), 101);
    fs::write(
        folder.join("other.csv"),
        fs::read_to_string(folder.join("other.csv")).expect("there").replace("HOST", "BOST"),
    )
    .expect("written");
    assert!(import(&["other.csv"]).status.success());
    assert!(import(&["a.csv", "--again"]).status.success());
    let document = run_in_folder(folder, &["why", "log", "--json"]).stdout;
    assert!(!String::from_utf8_lossy(&document).contains("\"import\""), "the note is not for people");
}

#[test]
fn stops_at_a_hole_in_a_sparse_log() {
    let bench = tempfile::tempdir().expect("a folder");
    let folder = bench.path();
    write_perfmon_log(&folder.join("a.csv"), 100);
    fs::File::options().write(true).open(folder.join("a.csv")).expect("there").set_len(1 << 40).expect("made larger");
    let found = fs::metadata(folder.join("a.csv")).expect("there");
    if found.blocks() * 512 > 1 << 30 {
        return eprintln!("skipped: this filesystem has no holes");
    }
    let output = run_in_folder(folder, &["show", "a.csv", "--counter", "physical_disk.read_bytes_per_s"]);
    assert!(stderr(&output).contains("never written (a hole)"), "{}", stderr(&output));
    fs::File::create(folder.join("empty.csv")).expect("made").set_len(1 << 40).expect("made larger");
    let output = run_in_folder(folder, &["show", "empty.csv"]);
    assert!(!output.status.success() && stderr(&output).contains("a hole"), "{}", stderr(&output));
}

#[test]
fn skips_a_hole_in_a_sparse_segment() {
    let bench = tempfile::tempdir().expect("a folder");
    let folder = bench.path();
    write_perfmon_log(&folder.join("a.csv"), 100);
    assert!(run_in_folder(folder, &["import", "a.csv", "--to", "log"]).status.success());
    let segment = folder.join("log/00000001.dwlog");
    fs::File::options().write(true).open(&segment).expect("there").set_len(1 << 40).expect("made larger");
    if fs::metadata(&segment).expect("there").blocks() * 512 > 1 << 30 {
        return eprintln!("skipped: this filesystem has no holes");
    }
    let output = run_in_folder(folder, &["show", "log", "--counter", "physical_disk.read_bytes_per_s"]);
    assert!(String::from_utf8_lossy(&output.stdout).contains("physical_disk.read_bytes_per_s"), "{}", stderr(&output));
}

#[test]
fn answers_with_every_bookmark_of_the_window() {
    let bench = tempfile::tempdir().expect("a folder");
    let folder = bench.path();
    let log = folder.join("log");
    let mut writer = diskwright_datastore::LogWriter::create_or_append(&log, Default::default()).expect("a log");
    let series = diskwright_base::Series { counter: "processor.busy".into(), instance: String::new(), scale: 1.0 };
    let schema = std::sync::Arc::new(diskwright_base::Schema::new(vec![series]));
    for i in 1..=300i64 {
        let time_ns = 1_760_000_000_000_000_000 + i * 1_000_000_000;
        writer.push(&schema, diskwright_base::Tick { time_ns, elapsed_ns: 1_000_000_000 }, &[0.1]).expect("written");
        let text = if i % 2 == 0 { "backup".to_owned() } else { format!("step {i}") };
        writer.add_note(&diskwright_base::Note::new(time_ns, diskwright_base::Note::BOOKMARK, text)).expect("noted");
    }
    writer.close().expect("closed");
    let output = run_in_folder(folder, &["why", "log", "--json"]);
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let notes = answer["notes"].as_array().expect("a list");
    assert_eq!(notes.iter().filter(|n| n["kind"] == "bookmark").count(), 300);
}

/// Number of output files that are not yet renamed to their final name.
fn count_unfinished_files(folder: &Path) -> usize {
    let names = fs::read_dir(folder).expect("readable").map(|entry| entry.expect("an entry").file_name());
    names.filter(|name| name.to_string_lossy().starts_with(".diskwright-")).count()
}

#[test]
fn an_interrupted_export_keeps_the_old_file() {
    let bench = tempfile::tempdir().expect("a folder");
    let folder = bench.path();
    write_perfmon_log(&folder.join("a.csv"), 86_400);
    let made = run_in_folder(folder, &["import", "a.csv", "--to", "log"]);
    assert_eq!(made.status.code(), Some(0), "{}", stderr(&made));
    for (name, signal, bit) in [("INT", Signal::INT, 1), ("HUP", Signal::HUP, 0), ("TERM", Signal::TERM, 14)] {
        if is_signal_ignored(bit) {
            // as under nohup, where a program has to keep it ignored
            eprintln!("skipped: SIG{name} is ignored here");
            continue;
        }
        // on a busy machine the export may end before the signal comes; then it is tried again
        let interrupted = (0..50).any(|_| interrupt_export(folder, signal));
        assert!(interrupted, "{signal:?} never came in time");
        assert_eq!(fs::read_to_string(folder.join("out.csv")).expect("there"), "before", "{signal:?}");
        assert_eq!(count_unfinished_files(folder), 0, "{signal:?}");
    }
}

/// Sends a signal during an export over a file; false if the export ended before.
fn interrupt_export(folder: &Path, signal: Signal) -> bool {
    fs::write(folder.join("out.csv"), "before").expect("written");
    let mut export = diskwright_command(folder);
    export.args(["export", "log", "--as", "csv", "-o", "out.csv"]).stdout(Stdio::null()).stderr(Stdio::null());
    let mut export = export.spawn().expect("runs");
    while count_unfinished_files(folder) == 0 {
        if export.try_wait().expect("a child").is_some() {
            return false;
        }
        std::thread::yield_now();
    }
    // the child was not waited for yet, so that its process id cannot belong to another process
    kill_process(Pid::from_child(&export), signal).expect("a child");
    !export.wait().expect("ends").success()
}

#[test]
fn reports_on_a_machine_with_thousands_of_disks() {
    let bench = tempfile::tempdir().expect("a folder");
    let folder = bench.path();
    // the topology in the log is longer than the former limit of a note
    let name = "disk-".to_owned() + &"volume".repeat(9);
    let system = format!(
        r#"system = {{ name = "many" }}
watch = {{ duration = "2s" }}
[[drive]]
name = "{name}"
count = 2600
capacity = "1GiB"
plain = {{ servers = 1, service = {{ uniform_us = [4800, 11200] }} }}
[[workload]]
name = "readers"
users = 8
on = "{name}1"
"#
    );
    fs::write(folder.join("many.toml"), system).expect("written");
    let made = run_in_folder(folder, &["simulate", "many.toml", "--out", "log"]);
    assert_eq!(made.status.code(), Some(0), "{}", stderr(&made));
    let report = run_in_folder(folder, &["report", "log", "-o", "page.html"]);
    assert_eq!(report.status.code(), Some(0), "{}", stderr(&report));
    assert!(fs::read_to_string(folder.join("page.html")).expect("written").contains("</html>"));
}

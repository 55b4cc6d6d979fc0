//! The program under limits of the host: open files, file size, memory, threads. What a limit refuses is told, and ends
//! no command by a signal.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::common::{command, diskwright, folder, stderr, success, text, wait_until};

use diskwright_base::Frame;
use diskwright_datastore::{LogItem, LogReader};

/// Runs the program under limits, given as a shell's `ulimit` command.
fn run_with_limits(limits: &str, arguments: &[&str]) -> Output {
    let mut limited = Command::new("sh");
    limited.args(["-c", &format!("{limits} || exit 77; exec \"$0\" \"$@\""), env!("CARGO_BIN_EXE_diskwright")]);
    limited.args(arguments).env("TZ", "UTC").stdin(Stdio::null()).output().expect("a shell")
}

/// Checks that a command ended by itself, and said what it lacked if it failed.
fn assert_told(done: &Output, what: &str) {
    let errors = stderr(done);
    let code = done.status.code();
    assert!(matches!(code, Some(0 | 1)), "{what}: {:?}: {errors}", done.status);
    assert!(!errors.contains("panicked") && !errors.contains("memory allocation of"), "{what}: {errors}");
    assert!(code == Some(0) || errors.contains("diskwright: "), "{what}: {errors}");
}

/// Number of ticks that a log holds without damage.
fn count_ticks(log: &Path) -> u64 {
    let (mut ticks, mut frame) = (0, Frame::default());
    let mut reader = LogReader::open(log).expect("a log");
    while let Some(item) = reader.next(&mut frame).expect("readable") {
        match item {
            LogItem::Frame => ticks += frame.ticks().len() as u64,
            LogItem::Note(_) => {}
            LogItem::Damage(damage) => panic!("{damage:?}"),
        }
    }
    ticks
}

fn record_arguments(log: &Path) -> Vec<&str> {
    vec!["record", text(log), "--every", "100ms", "--for", "1s", "--json"]
}

#[test]
fn the_log_gets_its_descriptors_before_the_sources() {
    let folder = folder("limits-descriptors");
    for limit in [12, 16, 24, 32] {
        let log = folder.join(format!("log-{limit}"));
        let done = run_with_limits(&format!("ulimit -n {limit}"), &record_arguments(&log));
        let answer = success(&done);
        let ticks = answer["ticks"].as_u64().expect("a number");
        assert!(ticks > 0 && answer["ticks_lost"] == 0, "{limit}: {answer}");
        assert_eq!(count_ticks(&log), ticks, "{limit}");
        // beside the log, the process that reads the sources needs some for its pipes
        if limit >= 16 {
            let series = answer["series"].as_u64().expect("a number");
            assert!(series > 50, "{limit}: {series} series");
        } else if answer["series"] == 0 {
            assert!(stderr(&done).contains("no counter of this machine could be read"), "{}", stderr(&done));
        }
    }
    let _ = fs::remove_dir_all(&folder);
}

#[test]
fn too_few_descriptors_for_the_log_are_told() {
    let folder = folder("limits-few-descriptors");
    for limit in [5, 6, 7, 8] {
        let done = run_with_limits(&format!("ulimit -n {limit}"), &record_arguments(&folder.join("log")));
        assert_told(&done, &limit.to_string());
        let errors = stderr(&done);
        assert!(
            done.status.code() == Some(1) && errors.contains(&format!("may open {limit} files (ulimit -n)")),
            "{errors}"
        );
    }
    for limit in [8, 12] {
        for arguments in [&["why", "--for", "600ms", "--every", "200ms", "--json"][..], &["watch", "--once"]] {
            let done = run_with_limits(&format!("ulimit -n {limit}"), arguments);
            assert_told(&done, &format!("{limit} {arguments:?}"));
        }
    }
    let done = run_with_limits("ulimit -n 6", &["serve", "--listen", "0"]);
    assert!(done.status.code() == Some(1) && stderr(&done).contains("(ulimit -n)"), "{}", stderr(&done));
    let _ = fs::remove_dir_all(&folder);
}

/// A limit of the address space in KiB at which the program starts at all: the program and the libraries need it.
fn smallest_address_space() -> Option<u64> {
    let starts = |limit: &u64| run_with_limits(&format!("ulimit -v {limit}"), &["--version"]).status.success();
    (20_000..400_000).step_by(4000).find(starts)
}

#[test]
fn little_memory_ends_no_command_by_a_signal() {
    let folder = folder("limits-memory");
    let Some(base) = smallest_address_space() else { return eprintln!("skipped: no `ulimit -v` here") };
    for more in [0, 8000, 24_000, 96_000] {
        let limit = format!("ulimit -v {}", base + more);
        let log = folder.join(format!("log-{more}"));
        let commands = [
            record_arguments(&log),
            vec!["why", "--for", "600ms", "--every", "200ms", "--json"],
            vec!["watch", "--once"],
            vec!["trace", "status"],
        ];
        for arguments in commands {
            let done = run_with_limits(&limit, &arguments);
            assert_told(&done, &format!("{more} KiB more: {arguments:?}"));
            if more == 96_000 {
                assert!(done.status.success(), "{arguments:?}: {}", stderr(&done));
            }
        }
    }
    assert!(count_ticks(&folder.join("log-96000")) > 1);
    let _ = fs::remove_dir_all(&folder);
}

#[test]
fn a_user_who_may_start_no_thread_is_told() {
    let folder = folder("limits-threads");
    // a copy that every user may run
    let program = std::env::temp_dir().join(format!("diskwright-threads-{}", std::process::id()));
    let is_root = rustix::process::geteuid().is_root();
    if !is_root || fs::copy(env!("CARGO_BIN_EXE_diskwright"), &program).is_err() {
        return eprintln!("skipped: only root becomes another user");
    }
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("ours");
    // a user of whom nobody else runs a process
    let user = ["setpriv", "--reuid=64321", "--regid=64321", "--clear-groups"];
    let run = |limit: u32, arguments: &[&str]| {
        let mut limited = Command::new("prlimit");
        limited.arg(format!("--nproc={limit}:{limit}")).args(user).arg(&program).args(arguments);
        limited.env("TZ", "UTC").env("HOME", "/nonexistent").stdin(Stdio::null()).output()
    };
    let log = std::env::temp_dir().join(format!("diskwright-threads-log-{}", std::process::id()));
    for limit in [1, 3, 40] {
        for arguments in
            [&record_arguments(&log)[..], &["why", "--for", "600ms", "--every", "200ms"], &["watch", "--once"]]
        {
            let Ok(done) = run(limit, arguments) else { return eprintln!("skipped: no prlimit") };
            if done.status.code() == Some(127) {
                return eprintln!("skipped: no setpriv");
            }
            assert_told(&done, &format!("{limit} threads: {arguments:?}"));
            // the log's thread is the only one that a recorder cannot be without
            assert!(limit < 3 || arguments[0] == "watch" || done.status.success(), "{limit}: {}", stderr(&done));
        }
        let _ = fs::remove_dir_all(&log);
    }
    let _ = (fs::remove_file(&program), fs::remove_dir_all(&folder));
}

/// The command for a largest file; a POSIX shell counts in 512 bytes.
fn file_limit(bytes: u64) -> String {
    format!("ulimit -f {}", bytes / 512)
}

#[test]
fn the_log_continues_in_another_file_at_the_limit_of_a_file() {
    let folder = folder("limits-file-size");
    let log = folder.join("log");
    let arguments = ["record", text(&log), "--every", "10ms", "--for", "4s", "--json"];
    let done = run_with_limits(&file_limit(64 << 10), &arguments);
    let answer = success(&done);
    let ticks = answer["ticks"].as_u64().expect("a number");
    assert!(ticks > 20 && answer["ticks_lost"] == 0, "{answer}: {}", stderr(&done));
    assert_eq!(count_ticks(&log), ticks);
    let sizes =
        || fs::read_dir(&log).expect("a folder").map(|file| file.expect("a file").metadata().expect("there").len());
    assert!(sizes().all(|bytes| bytes <= 64 << 10), "{:?}", sizes().collect::<Vec<_>>());
    let _ = fs::remove_dir_all(&folder);
}

#[test]
fn a_file_limit_below_a_block_is_a_full_disk() {
    let folder = folder("limits-small-files");
    let log = folder.join("log");
    let done = run_with_limits(&file_limit(2 << 10), &record_arguments(&log));
    assert_told(&done, "record");
    assert!(stderr(&done).contains("limit"), "{}", stderr(&done));
    let _ = fs::remove_dir_all(&folder);
}

#[test]
fn commands_that_write_files_fail_at_the_limit_with_a_message() {
    let folder = folder("limits-written-files");
    let log = folder.join("log");
    let recorded = diskwright(&record_arguments(&log));
    assert!(recorded.status.success(), "{}", stderr(&recorded));
    let (log, out) = (text(&log), folder.join("out"));
    let commands: [&[&str]; 6] = [
        &["export", log, "--as", "csv", "-o", text(&out)],
        &["export", log, "--as", "parquet", "-o", text(&out)],
        &["report", log, "-o", text(&out)],
        &["compare", log, log, "-o", text(&out)],
        &["why", log, "--json"],
        &["show", log, "--as", "csv"],
    ];
    for arguments in commands {
        // standard output goes to a file too
        let mut limited = Command::new("sh");
        let script = format!("{}; exec \"$0\" \"$@\" > {}/stdout", file_limit(512), text(&folder));
        limited.args(["-c", &script, env!("CARGO_BIN_EXE_diskwright")]).args(arguments).env("TZ", "UTC");
        let done = limited.stdin(Stdio::null()).output().expect("a shell");
        assert_told(&done, &format!("{arguments:?}"));
        assert!(
            done.status.code() == Some(1) && stderr(&done).contains("(ulimit -f)"),
            "{arguments:?}: {}",
            stderr(&done)
        );
        assert!(!out.exists(), "{arguments:?} leaves no part of a file");
    }
    let _ = fs::remove_dir_all(&folder);
}

/// Programs that the command starts must not inherit an ignored signal.
#[test]
fn started_programs_have_the_usual_action_of_the_signal() {
    let folder = folder("limits-signal");
    let log = folder.join("log");
    let mut recorder = command(&["record", text(&log), "--every", "200ms"]).spawn().expect("the program runs");
    let children = format!("/proc/{0}/task/{0}/children", recorder.id());
    let reader = || fs::read_to_string(&children).ok().and_then(|list| list.split(' ').next().map(str::to_owned));
    wait_until("the process that reads", || reader().is_some_and(|pid| !pid.is_empty()));
    let status = fs::read_to_string(format!("/proc/{}/status", recorder.id())).expect("it runs");
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).expect("a mask").trim();
    let mask = u64::from_str_radix(ignored, 16).expect("a number");
    assert_eq!(mask >> (25 - 1) & 1, 0, "SIGXFSZ has a handler: {ignored}");
    crate::common::interrupt(&recorder);
    assert!(recorder.wait().expect("ends").success());
    let _ = fs::remove_dir_all(&folder);
}

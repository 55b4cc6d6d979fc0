//! Shared by tests of the commands: runs of the program, its answers, test folders.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// A command that runs the program in UTC, the time zone of expected texts, and without a password from the
/// environment.
pub fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_diskwright"));
    command.args(arguments).env("TZ", "UTC").env_remove("DISKWRIGHT_PASSWORD").stdin(Stdio::null());
    command
}

/// Runs the program to its end.
pub fn diskwright(arguments: &[&str]) -> Output {
    command(arguments).output().expect("the program runs")
}

/// Text on standard error.
pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// JSON document on standard output, whatever the exit code.
pub fn json(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}\n{}", stderr(output)))
}

/// JSON document of a command that must have succeeded.
pub fn success(output: &Output) -> Value {
    assert!(output.status.success(), "{}", stderr(output));
    json(output)
}

/// Path as text.
pub fn text(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

/// Creates an empty folder for one test below the build folder; its name has to name the file and the test.
pub fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    // removes what a killed run left behind
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder");
    folder
}

/// Waits for a condition, which holds within seconds, on a busy machine within minutes; fails after three minutes.
pub fn wait_until(event: &str, holds: impl Fn() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < Duration::from_secs(180), "waited three minutes for {event}");
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

/// Sends SIGINT, as Ctrl-C does.
pub fn interrupt(child: &Child) {
    let pid = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it runs");
}

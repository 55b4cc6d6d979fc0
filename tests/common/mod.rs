//! What tests of the commands share: running the program, its answers, folders of their own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// The program, in the time zone that expected texts are written for, and without a password of whoever runs the tests.
pub fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_diskwright"));
    command.args(arguments).env("TZ", "UTC").env_remove("DISKWRIGHT_PASSWORD").stdin(Stdio::null());
    command
}

/// The same, run to its end.
pub fn diskwright(arguments: &[&str]) -> Output {
    command(arguments).output().expect("the program runs")
}

/// What was written to standard error.
pub fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The document on standard output, whatever the exit code.
pub fn json(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}\n{}", said(output)))
}

/// The document of a command that must have succeeded.
pub fn success(output: &Output) -> Value {
    assert!(output.status.success(), "{}", said(output));
    json(output)
}

pub fn text(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

/// An empty folder below the build's, for one test: the name is the file's and the test's.
pub fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    // what a killed run left behind
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder");
    folder
}

/// Waits for what comes within seconds, on a busy machine within minutes.
pub fn until(what: &str, holds: impl Fn() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < Duration::from_secs(180), "waited three minutes for {what}");
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

/// As Ctrl-C does.
pub fn interrupt(child: &Child) {
    let pid = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it runs");
}

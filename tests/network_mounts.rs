//! A mount that never answers does not delay `why` and `record`. Needs root: a FUSE filesystem is mounted in a separate
//! mount namespace, and its server end is held open and never read.

use std::fs::File;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::{folder, text};

/// Mounts a FUSE filesystem, then runs the given command. Any access to the mount blocks until the descriptor closes.
const SILENT_MOUNT_SCRIPT: &str = r#"
exec 3<>/dev/fuse || exit 77
mount -i -t fuse -o fd=3,rootmode=40000,user_id=0,group_id=0 silent "$1" || exit 77
shift
exec "$@"
"#;

/// Runs a command with the silent mount in place, for at most a minute; returns its output and duration.
pub fn run_with_silent_mount(point: &str, arguments: &[&str]) -> Option<(std::process::Output, Duration)> {
    if !rustix::process::geteuid().is_root() || File::open("/dev/fuse").is_err() {
        eprintln!("skipped: no FUSE (takes root)");
        return None;
    }
    let begun = Instant::now();
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "60", "unshare", "-m", "sh", "-c", SILENT_MOUNT_SCRIPT, "sh", point]).args(arguments);
    let output = command.output().expect("coreutils and util-linux");
    if output.status.code() == Some(77) {
        eprintln!("skipped: FUSE cannot be mounted here");
        return None;
    }
    Some((output, begun.elapsed()))
}

#[test]
fn a_filesystem_that_never_answers_delays_neither_why_nor_record() {
    let folder = folder("silent-mount");
    let point = folder.join("mnt");
    std::fs::create_dir(&point).expect("a folder");
    // verifies the mount: an access to it blocks
    let access = ["timeout", "-s", "KILL", "1", "stat", "-f", text(&point)];
    let Some((blocked, _)) = run_with_silent_mount(text(&point), &access) else {
        return;
    };
    assert!(!blocked.status.success());

    let program = env!("CARGO_BIN_EXE_diskwright");
    let log = folder.join("log");
    // another process is blocked on the mount meanwhile
    let record = format!(
        "stat -f {} > {}.out 2>&1 & asks=$!; {program} record --every 250ms --for 2s {}; code=$?\n\
         kill -9 $asks; exit $code",
        text(&point),
        text(&log),
        text(&log)
    );
    let (output, took) = run_with_silent_mount(text(&point), &["bash", "-c", &record]).expect("it was mounted before");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(took < Duration::from_secs(30), "{took:?}");
    let shown = crate::common::json(&crate::common::diskwright(&["why", "--json", text(&log)]));
    assert_ne!(shown["bottleneck"], Value::Null);

    let (output, took) =
        run_with_silent_mount(text(&point), &[program, "why", "--json", "--for", "3s"]).expect("it was mounted before");
    assert!(output.status.code().is_some_and(|code| code < 2), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(took < Duration::from_secs(30), "{took:?}");
}

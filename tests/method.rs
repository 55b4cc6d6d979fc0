//! Runs the commands of docs/method.md unchanged. Needs root, FUSE, loop devices and nbdfuse; if one is missing, it
//! prints why it skips.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use crate::common::stderr;
use crate::devices::{Bench, report_skip, run_tool};

/// Removes what the page leaves behind if one of its commands fails.
const CLEAN_UP: &str =
    "trap 'code=$?; set +e; [ -d method ] && diskwright disk detach --force $DISK; kill $(jobs -p); exit $code' EXIT\n";

/// The shell commands of the page, in their order.
fn commands_of(page: &str) -> String {
    let blocks = page.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap_or_default());
    blocks.collect()
}

#[test]
fn the_page_of_the_method_works_as_it_stands() {
    let Some(bench) = Bench::new("method") else { return };
    if run_tool("nbdfuse", &["--version"]).is_none() {
        return;
    }
    if File::options().read(true).write(true).open("/dev/fuse").is_err() {
        report_skip("no /dev/fuse");
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("docs/method.md")).expect("the page");
    let commands = commands_of(&page);
    for step in ["record", "why", "probe", "plan", "simulate", "disk", "compare"] {
        assert!(commands.contains(&format!("\ndiskwright {step} ")), "{step}: {commands}");
    }
    // a clone whose built program is this one
    symlink(root.join("lab"), bench.path("lab")).expect("a link");
    fs::create_dir_all(bench.path("target/release")).expect("a folder");
    symlink(env!("CARGO_BIN_EXE_diskwright"), bench.path("target/release/diskwright")).expect("a link");
    let done = Command::new("bash")
        .args(["-e", "-c", &format!("{CLEAN_UP}{commands}")])
        .current_dir(&bench.folder)
        .env("FOR", "12s")
        .env("HOME", &bench.folder)
        // disks of other tests must not be found
        .env("XDG_RUNTIME_DIR", &bench.folder)
        .env_remove("XDG_CONFIG_HOME")
        .output()
        .expect("bash runs");
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(done.status.success(), "{}\n{text}", stderr(&done));
    // eight requests at a disk that serves one at a time, whatever else the machine does
    let blamed = text.lines().any(|line| line.starts_with("DISK") && line.contains("loop"));
    assert!(blamed && text.contains("Ruled out") && text.contains("memory"), "{text}");
    assert!(text.contains("random-read-4k-depth-1") && text.contains("Saved as the device profile"), "{text}");
    assert!(text.contains("Tried: each design simulated") && text.contains("written"), "{text}");
    assert!(!bench.path("method").exists(), "the page removes what it made");
}

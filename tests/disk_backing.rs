//! Files that `disk --backing` accepts, and those that it refuses and leaves unchanged: in use, or written by others.
//! Tests that need root and loop devices are skipped without them.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use crate::devices::{Bench, put, skip, sum, tool, within};

const DRIVE: &str = r#"
[[drive]]
name = "disk"
capacity = "16MiB"
plain = { servers = 8, service = { constant_us = 20 } }
"#;

const MIRROR: &str = r#"
[[drive]]
name = "disk"
count = 2
capacity = "8MiB"
plain = { servers = 8, service = { constant_us = 20 } }

[[array]]
name = "data"
level = "raid1"
drives = "disk"
"#;

fn command(bench: &Bench, system: &str, backing: &str) -> Command {
    fs::write(bench.path("system.toml"), system).expect("written");
    let mut command = Command::new(env!("CARGO_BIN_EXE_diskwright"));
    command
        .arg("disk")
        .arg(bench.path("system.toml"))
        .arg("--socket")
        .arg(bench.path("s"))
        .env("XDG_RUNTIME_DIR", bench.path("."));
    command.args(["--for", "50ms", "--backing", backing]);
    command
}

/// Expects that the file is accepted.
fn serves(bench: &Bench, backing: &Path) {
    let done = command(bench, DRIVE, &backing.display().to_string()).output().expect("runs");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

/// Expects exit code 1, all these words in the message, and an unchanged file.
fn refused(bench: &Bench, backing: &Path, expected: &[&str]) {
    let backing = backing.display().to_string();
    let before = sum(&backing);
    for system in [DRIVE, MIRROR] {
        let done = command(bench, system, &backing).output().expect("runs");
        let stderr = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(1), "{backing}: {stderr}");
        for words in expected.iter().chain([&backing.as_str()]) {
            assert!(stderr.contains(words), "{backing} does not say `{words}`: {stderr}");
        }
    }
    assert_eq!(sum(&backing), before, "{backing} was changed");
}

#[test]
fn a_file_in_use_is_no_backing() {
    let Some(mut bench) = Bench::new("backing-in-use") else { return };
    let image = bench.file("image", 16 << 20);
    let name = image.display().to_string();
    let second = bench.path("second");
    fs::hard_link(&image, &second).expect("a second name");
    if tool("mkfs.ext4", &["-q", "-F", &name]).is_none() {
        return;
    }
    let Some(device) = bench.attach(&image, &[]) else { return };
    let Some(point) = bench.mount(&device, "point", "ro,noload") else { return };
    let (kernel, point) = (device.trim_start_matches("/dev/"), point.display().to_string());
    let why = format!("it is the disk behind {kernel}, and {kernel} is mounted on {point}");
    refused(&bench, &image, &[&why, "no option allows writing to it"]);
    refused(&bench, &second, &[&why]);
    let file = bench.exact_file("open", 16 << 20);
    let writer = File::options().write(true).open(&file).expect("opens");
    refused(&bench, &file, &[&format!("process {}", std::process::id()), "has it open"]);
    drop(writer);
    serves(&bench, &file);
}

#[test]
fn a_file_that_others_wrote_is_no_backing() {
    let Some(bench) = Bench::new("backing-others") else { return };
    // a file of holes only is taken as new, and from then on it is marked as a backing file
    let file = bench.exact_file("file", 16 << 20);
    serves(&bench, &file);
    put(&file.display().to_string(), 0, b"what a client wrote");
    serves(&bench, &file);
    let copy = bench.path("copy");
    fs::copy(&file, &copy).expect("a copy");
    if tool("setfattr", &["-n", "user.test", "-v", "1", &copy.display().to_string()]).is_none() {
        return skip("files have no attributes here, or no setfattr (package attr)");
    }
    let done = command(&bench, DRIVE, &copy.display().to_string()).output().expect("runs");
    let stderr = String::from_utf8_lossy(&done.stderr).into_owned();
    assert_eq!(done.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("contains data and is not a backing file"), "{stderr}");
    assert_eq!(sum(&copy.display().to_string())[..32], sum(&file.display().to_string())[..32]);
    let way = stderr.split("keep its data: ").nth(1).expect("a way out").trim();
    let words: Vec<&str> = way.split(' ').collect();
    tool(words[0], &words[1..]).expect("what it says to do");
    serves(&bench, &copy);
}

#[test]
fn a_second_server_and_the_kernels_folders_are_told() {
    let Some(mut bench) = Bench::new("backing-second") else { return };
    let file = bench.path("file");
    let name = file.display().to_string();
    fs::write(bench.path("first.toml"), DRIVE).expect("written");
    let (system, socket) = (bench.path("first.toml").display().to_string(), bench.path("first"));
    let words = ["disk", &system, "--socket", &socket.display().to_string(), "--backing", &name];
    bench.start(env!("CARGO_BIN_EXE_diskwright"), &words).expect("started");
    within(|| socket.exists()).expect("it serves");
    refused(&bench, &file, &["another virtual disk has it open"]);
    for path in ["/dev/no-such-file", "/proc/no-such-file", "/sys/no-such-file"] {
        let done = command(&bench, DRIVE, path).output().expect("runs");
        let stderr = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(1), "{stderr}");
        assert!(stderr.contains("no file is created in /dev, /proc or /sys"), "{stderr}");
        assert!(!Path::new(path).exists());
    }
}

#[test]
fn no_log_is_begun_in_the_kernels_folders() {
    let Some(bench) = Bench::new("backing-logs") else { return };
    fs::write(bench.path("system.toml"), DRIVE).expect("written");
    let system = bench.path("system.toml").display().to_string();
    let page = bench.path("sar.txt");
    let text = "Linux 5.10.0 (host) \t01/01/2024 \t_x86_64_\t(2 CPU)\n\n\
        00:00:01        CPU     %user     %nice   %system   %iowait    %steal     %idle\n\
        00:00:11        all      1.00      0.00      1.00      0.00      0.00     98.00\n";
    fs::write(&page, text).expect("written");
    let page = page.display().to_string();
    let socket = bench.path("s").display().to_string();
    for folder in ["/dev/no-such-log", "/proc/no-such-log", "/sys/no-such-log"] {
        let all: [&[&str]; 3] = [
            &["record", folder, "--for", "1s"],
            &["import", &page, "--to", folder],
            &["disk", &system, "--socket", &socket, "--for", "50ms", "--record", folder],
        ];
        for words in all {
            let done = Command::new(env!("CARGO_BIN_EXE_diskwright")).args(words).output().expect("runs");
            let stderr = String::from_utf8_lossy(&done.stderr).into_owned();
            assert_eq!(done.status.code(), Some(1), "{words:?}: {stderr}");
            assert!(stderr.contains("no file is created in /dev, /proc or /sys"), "{words:?}: {stderr}");
            assert!(!Path::new(folder).exists(), "{words:?}");
        }
    }
}

//! Files that `disk --backing` accepts, and those that it refuses and leaves unchanged: in use, or written by others.
//! Tests that need root and loop devices are skipped without them.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use crate::devices::{Bench, md5_sum, report_skip, run_tool, wait_for_server, wait_up_to_10_s, write_at};

const DRIVE_SYSTEM: &str = r#"
[[drive]]
name = "disk"
capacity = "16MiB"
plain = { servers = 8, service = { constant_us = 20 } }
"#;

const MIRROR_SYSTEM: &str = r#"
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

fn disk_command(bench: &Bench, system: &str, backing: &str) -> Command {
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
fn expect_served(bench: &Bench, backing: &Path) {
    let done = disk_command(bench, DRIVE_SYSTEM, &backing.display().to_string()).output().expect("runs");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

/// Expects exit code 1, all these words in the message, and an unchanged file.
fn expect_refused(bench: &Bench, backing: &Path, expected: &[&str]) {
    let backing = backing.display().to_string();
    let before = md5_sum(&backing);
    for system in [DRIVE_SYSTEM, MIRROR_SYSTEM] {
        let done = disk_command(bench, system, &backing).output().expect("runs");
        let stderr = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(1), "{backing}: {stderr}");
        for words in expected.iter().chain([&backing.as_str()]) {
            assert!(stderr.contains(words), "{backing} does not say `{words}`: {stderr}");
        }
    }
    assert_eq!(md5_sum(&backing), before, "{backing} was changed");
}

#[test]
fn refuses_a_backing_file_in_use() {
    let Some(mut bench) = Bench::new("backing-in-use") else { return };
    let image = bench.sparse_file("image", 16 << 20);
    let name = image.display().to_string();
    let second = bench.path("second");
    fs::hard_link(&image, &second).expect("a second name");
    if run_tool("mkfs.ext4", &["-q", "-F", &name]).is_none() {
        return;
    }
    let Some(device) = bench.attach_loop_device(&image, &[]) else { return };
    let Some(point) = bench.mount(&device, "point", "ro,noload") else { return };
    let (kernel, point) = (device.trim_start_matches("/dev/"), point.display().to_string());
    let why = format!("it is the disk behind {kernel}, and {kernel} is mounted on {point}");
    expect_refused(&bench, &image, &[&why, "no option allows writing to it"]);
    expect_refused(&bench, &second, &[&why]);
    let file = bench.exact_sparse_file("open", 16 << 20);
    let writer = File::options().write(true).open(&file).expect("opens");
    expect_refused(&bench, &file, &[&format!("process {}", std::process::id()), "has it open"]);
    drop(writer);
    expect_served(&bench, &file);
}

#[test]
fn refuses_a_backing_file_written_by_others() {
    let Some(bench) = Bench::new("backing-others") else { return };
    // a file of holes only is taken as new, and from then on it is marked as a backing file
    let file = bench.exact_sparse_file("file", 16 << 20);
    expect_served(&bench, &file);
    write_at(&file.display().to_string(), 0, b"what a client wrote");
    expect_served(&bench, &file);
    let copy = bench.path("copy");
    fs::copy(&file, &copy).expect("a copy");
    if run_tool("setfattr", &["-n", "user.test", "-v", "1", &copy.display().to_string()]).is_none() {
        return report_skip("files have no attributes here, or no setfattr (package attr)");
    }
    let done = disk_command(&bench, DRIVE_SYSTEM, &copy.display().to_string()).output().expect("runs");
    let stderr = String::from_utf8_lossy(&done.stderr).into_owned();
    assert_eq!(done.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("contains data and is not a backing file"), "{stderr}");
    assert_eq!(md5_sum(&copy.display().to_string())[..32], md5_sum(&file.display().to_string())[..32]);
    let way = stderr.split("keep its data: ").nth(1).expect("a way out").trim();
    let words: Vec<&str> = way.split(' ').collect();
    run_tool(words[0], &words[1..]).expect("what it says to do");
    expect_served(&bench, &copy);
}

#[test]
fn refuses_a_second_server_and_files_in_kernel_folders() {
    let Some(mut bench) = Bench::new("backing-second") else { return };
    let file = bench.path("file");
    let name = file.display().to_string();
    fs::write(bench.path("first.toml"), DRIVE_SYSTEM).expect("written");
    let (system, socket) = (bench.path("first.toml").display().to_string(), bench.path("first"));
    let words = ["disk", &system, "--socket", &socket.display().to_string(), "--backing", &name];
    bench.start_program(env!("CARGO_BIN_EXE_diskwright"), &words).expect("started");
    wait_for_server(&socket).expect("it serves");
    wait_up_to_10_s(|| file.exists()).expect("it makes its file");
    expect_refused(&bench, &file, &["another virtual disk has it open"]);
    for path in ["/dev/no-such-file", "/proc/no-such-file", "/sys/no-such-file"] {
        let done = disk_command(&bench, DRIVE_SYSTEM, path).output().expect("runs");
        let stderr = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(1), "{stderr}");
        assert!(stderr.contains("no file is created in /dev, /proc or /sys"), "{stderr}");
        assert!(!Path::new(path).exists());
    }
}

#[test]
fn refuses_logs_in_kernel_folders() {
    let Some(bench) = Bench::new("backing-logs") else { return };
    fs::write(bench.path("system.toml"), DRIVE_SYSTEM).expect("written");
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

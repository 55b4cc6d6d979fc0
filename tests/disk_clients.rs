//! Other programs as clients of a served disk: fio with verification, the programs of libnbd, and filesystems whose
//! client or server is killed. Prints which programs are missing.

#![allow(clippy::disallowed_methods, reason = "a test waits for other processes")]

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::devices::{Bench, find_processes, report_skip, run_tool, send_signal, wait_up_to_10_s};

const PROGRAM: &str = env!("CARGO_BIN_EXE_diskwright");

const RAID5: &str = r#"
[[drive]]
name = "disk"
count = 3
capacity = "256MB"
[drive.plain]
servers = 8
service = { constant_us = 100 }

[[array]]
name = "data"
level = "raid5"
drives = "disk"
stripe_unit = "64KB"
"#;

/// A served RAID 5, or another system, and the options of its server.
struct ServedArray {
    bench: Bench,
    server: u32,
    more: Vec<String>,
}

impl ServedArray {
    /// Serves the RAID 5; `FILE` in an option stands for the path of its backing file.
    fn serve(test: &str, more: &[&str]) -> Option<ServedArray> {
        ServedArray::serve_system(test, RAID5, more)
    }

    fn serve_system(test: &str, system: &str, more: &[&str]) -> Option<ServedArray> {
        let mut bench = Bench::new(&format!("disk-{test}"))?;
        fs::write(bench.path("system.toml"), system).expect("written");
        let file = bench.path("content").display().to_string();
        let more: Vec<String> = more.iter().map(|word| word.replace("FILE", &file)).collect();
        let server = start_server(&mut bench, &more)?;
        Some(ServedArray { bench, server, more })
    }

    fn uri(&self) -> String {
        format!("nbd+unix:///?socket={}", self.bench.path("s").display())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.bench.path(name)
    }

    fn kill_server(&mut self) {
        send_signal("-KILL", self.server);
    }

    fn restart_server(&mut self) {
        self.server = start_server(&mut self.bench, &self.more).expect("a server");
    }
}

/// Starts the server and waits until it listens; returns its process id.
fn start_server(bench: &mut Bench, more: &[String]) -> Option<u32> {
    let (system, socket) = (bench.path("system.toml").display().to_string(), bench.path("s"));
    let path = socket.display().to_string();
    let mut words = vec!["disk", &system, "--socket", &path];
    words.extend(more.iter().map(String::as_str));
    let server = bench.start_program(PROGRAM, &words)?;
    let answers = || std::os::unix::net::UnixStream::connect(&socket).is_ok();
    wait_up_to_10_s(answers).expect("it serves");
    Some(server)
}

/// Standard output of a program that must succeed; `None` where it is not installed.
fn run_if_installed(program: &str, arguments: &[&str]) -> Option<String> {
    let mut outcome = None;
    // btrfs asks about every mount, and that of another test's killed server does not answer until it is gone
    wait_up_to_10_s(|| {
        outcome = Command::new(program).args(arguments).stdin(Stdio::null()).output().ok();
        !outcome.as_ref().is_some_and(|done| String::from_utf8_lossy(&done.stderr).contains("not connected"))
    });
    let Some(done) = outcome else {
        report_skip(&format!("{program} is not installed"));
        return None;
    };
    let stdout = String::from_utf8_lossy(&done.stdout).into_owned();
    let stderr = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{program} {}: {stdout}{stderr}", arguments.join(" "));
    Some(stdout)
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

#[test]
fn fio_verifies_what_it_wrote() {
    let Some(disk) = ServedArray::serve("fio", &[]) else { return };
    for (mix, sizes) in [("--rw=randwrite", "--bs=4k"), ("--rw=randrw", "--bsrange=512-64k")] {
        let uri = format!("--uri={}", disk.uri());
        let words = ["--name=v", "--ioengine=nbd", &uri, mix, sizes, "--size=24m", "--iodepth=32"];
        // fio would write its state of verification into the current folder
        let verify = ["--verify=crc32c", "--verify_fatal=1", "--randrepeat=0", "--verify_state_save=0"];
        if run_if_installed("fio", &[&words[..], &verify].concat()).is_none() {
            return;
        }
    }
}

#[test]
fn nbdcopy_reads_back_what_it_wrote() {
    let Some(disk) = ServedArray::serve("nbdcopy", &[]) else { return };
    let (there, back) = (disk.path("there"), disk.path("back"));
    // data with holes between, some of which do not end at blocks; zeros take no time to write
    let mut data = vec![0_u8; 480 << 20];
    let file = fs::File::create(&there).expect("a file");
    file.set_len(data.len() as u64).expect("its length");
    for start in (0..data.len()).step_by(37_000_001) {
        let end = (start + 1_234_567).min(data.len());
        data[start..end].iter_mut().enumerate().for_each(|(byte, to)| *to = (byte / 3) as u8 | 1);
        file.write_all_at(&data[start..end], start as u64).expect("written");
    }
    for connections in ["--connections=1", "--connections=4"] {
        if run_if_installed("nbdcopy", &[connections, "--flush", &text(&there), &disk.uri()]).is_none() {
            return;
        }
        let _ = fs::remove_file(&back);
        run_if_installed("nbdcopy", &[connections, &disk.uri(), &text(&back)]).expect("copied");
        let found = fs::read(&back).expect("there");
        assert!(found[..data.len()] == data[..] && found[data.len()..].iter().all(|byte| *byte == 0));
    }
    let taken = fs::metadata(&back).expect("there").blocks() * 512;
    assert!(taken < 64 << 20, "holes come back as holes: {taken} bytes are taken");
    let map = run_if_installed("nbdinfo", &["--map", &disk.uri()]).expect("reported");
    assert!(map.contains("hole,zero") && map.contains("data"), "{map}");
}

#[test]
fn nbdsh_reads_writes_trims_and_zeroes() {
    let Some(disk) = ServedArray::serve("nbdsh", &[]) else { return };
    let script = r#"
assert h.get_size() >= 500_000_000, h.get_size()
assert h.can_flush() and h.can_fua() and h.can_trim() and h.can_zero() and h.can_multi_conn()
assert not h.is_read_only()
# the sector is named as the least piece, and other pieces are served all the same
assert h.get_block_size(nbd.SIZE_MINIMUM) == 512
h.set_strict_mode(h.get_strict_mode() & ~nbd.STRICT_ALIGN)
h.pwrite(b'a' * 70000, 1234, nbd.CMD_FLAG_FUA)
h.trim(1000, 10000)
h.zero(1000, 20000, nbd.CMD_FLAG_NO_HOLE)
h.flush()
got = h.pread(70000, 1234)
want = bytearray(b'a' * 70000)
want[10000-1234:11000-1234] = bytes(1000)
want[20000-1234:21000-1234] = bytes(1000)
assert got == want
parts = []
def chunk(data, offset, status, error):
    parts.append((offset, len(data)))
h.pread_structured(1 << 20, 0, chunk)
assert sum(length for _, length in parts) == 1 << 20, parts
for bad in (lambda: h.pread(512, h.get_size()), lambda: h.pwrite(b'x' * 512, h.get_size() - 100)):
    try:
        bad()
        assert False, 'it is beyond the end'
    except nbd.Error:
        pass
"#;
    let file = disk.path("script.py");
    fs::write(&file, script).expect("written");
    // Debian's python, not one that somebody put before it
    let shell = ["PATH=/usr/bin:/bin", "nbdsh"];
    if run_tool("env", &[&shell[..], &["-c", "import nbd"]].concat()).is_some() {
        let run = format!("exec(open('{}').read())", text(&file));
        let _ = run_if_installed("env", &[&shell[..], &["-u", &disk.uri(), "-c", &run]].concat());
    }
}

/// Commands that create and check a filesystem.
struct Filesystem {
    name: &'static str,
    make_command: &'static [&'static str],
    check_command: &'static [&'static str],
}

const FILESYSTEMS: [Filesystem; 3] = [
    Filesystem { name: "ext4", make_command: &["mkfs.ext4", "-q", "-F"], check_command: &["e2fsck", "-f", "-n"] },
    Filesystem { name: "xfs", make_command: &["mkfs.xfs", "-q", "-f"], check_command: &["xfs_repair", "-n"] },
    Filesystem {
        name: "btrfs",
        make_command: &["mkfs.btrfs", "-q", "-f"],
        check_command: &["btrfs", "check", "--readonly"],
    },
];

fn attach_device(disk: &ServedArray) -> Option<String> {
    let done = run_tool(
        PROGRAM,
        &["disk", "attach", &disk.uri(), "--by", "fuse", "--json", "--journal", &journal_path(disk)],
    )?;
    let attached: serde_json::Value = serde_json::from_str(&done).expect("JSON");
    Some(attached["device"].as_str().expect("a device").to_owned())
}

fn journal_path(disk: &ServedArray) -> String {
    text(&disk.path("journal"))
}

fn detach_devices(disk: &ServedArray, force: bool) {
    let journal = journal_path(disk);
    let words = ["disk", "detach", "--all", "--journal", &journal];
    let more: &[&str] = if force { &["--force"] } else { &[] };
    let done = run_tool(PROGRAM, &[&words[..], more].concat());
    assert!(done.is_some() || force, "it is detached");
}

/// Number of writes that a device has completed.
fn completed_writes(device: &str) -> u64 {
    let stat = fs::read_to_string(format!("/sys/block/{}/stat", device.trim_start_matches("/dev/")));
    stat.ok().and_then(|stat| stat.split_ascii_whitespace().nth(4)?.parse().ok()).unwrap_or(0)
}

/// Writes a file, syncs it, and starts fio beside it; then `kill_process` kills the server or client.
fn write_until_killed(disk: &mut ServedArray, device: &str, mount: &str, kill_process: impl FnOnce(&mut ServedArray)) {
    let kept = format!("{mount}/kept");
    fs::write(&kept, vec![0xA5; 3_000_000]).expect("written");
    fs::File::open(&kept).and_then(|file| file.sync_all()).expect("synced");
    run_tool("sync", &["-f", mount]).expect("synced");
    let (folder, busy) = (format!("--directory={mount}"), disk.path("busy"));
    let words = ["--name=w", &folder, "--rw=randwrite", "--bs=4k-64k", "--size=32m", "--numjobs=2", "--fsync=8"];
    let log = format!("--output={}", busy.display());
    let enough = completed_writes(device) + 300;
    let fio = disk.bench.start_program("fio", &[&words[..], &["--time_based", "--runtime=60", &log]].concat());
    let fio = fio.expect("fio");
    // where others keep the machine busy, the writes of ten seconds are enough too
    let _ = wait_up_to_10_s(|| completed_writes(device) > enough);
    kill_process(disk);
    send_signal("-KILL", fio);
}

/// Verifies that the journal is replayed, the synced file is there, and the checker finds no error.
fn verify_filesystem(disk: &ServedArray, kind: &Filesystem, mount: &str) {
    let device = attach_device(disk).expect("attached");
    run_if_installed("mount", &[&device, mount]);
    let kept = fs::read(format!("{mount}/kept")).expect("kept");
    // recorders of other tests look at each filesystem, and make it busy for a moment
    let try_again = format!("for i in 1 2 3 4 5 6 7 8 9; do umount {mount} && exit; sleep 1; done; umount {mount}");
    run_if_installed("sh", &["-c", &try_again]);
    assert!(kept.len() == 3_000_000 && kept.iter().all(|byte| *byte == 0xA5), "{}", kind.name);
    let (program, more) = (kind.check_command[0], &kind.check_command[1..]);
    run_if_installed(program, &[more, &[&device]].concat());
    detach_devices(disk, false);
}

/// Kills a process in the middle of writes and verifies the filesystem; `None` where this machine cannot.
fn expect_survival(kind: &Filesystem, more: &[&str], kill_process: impl FnOnce(&mut ServedArray)) -> Option<()> {
    for program in [kind.make_command[0], "fio"] {
        let there = Command::new(program).arg("--version").output();
        if there.is_err() {
            report_skip(&format!("{program} is not installed"));
            return None;
        }
    }
    let mut disk = ServedArray::serve(&format!("{}-{}", kind.name, more.len()), more)?;
    let journal = journal_path(&disk);
    disk.bench.run_at_end(PROGRAM, &["disk", "detach", "--all", "--force", "--journal", &journal]);
    let mount = text(&disk.path("mount"));
    fs::create_dir(&mount).expect("a folder");
    let device = attach_device(&disk)?;
    run_tool(kind.make_command[0], &[&kind.make_command[1..], &[&device]].concat())?;
    run_tool("mount", &[&device, &mount])?;
    // mostly it is unmounted by then
    disk.bench.run_at_end("sh", &["-c", &format!("umount -l {mount} 2>/dev/null || true")]);
    write_until_killed(&mut disk, &device, &mount, kill_process);
    let _ = run_tool("umount", &["-l", &mount]);
    detach_devices(&disk, true);
    if !more.is_empty() {
        disk.restart_server();
    }
    verify_filesystem(&disk, kind, &mount);
    Some(())
}

/// Kills the FUSE process behind the device.
fn kill_clients(disk: &mut ServedArray) {
    let ids = find_processes(&["diskwright-file", &text(&disk.path("s"))]);
    assert_eq!(ids.len(), 1);
    ids.into_iter().for_each(|id| send_signal("-KILL", id));
}

#[test]
fn filesystems_survive_killed_clients() {
    for kind in &FILESYSTEMS {
        let _ = expect_survival(kind, &[], kill_clients);
    }
}

#[test]
fn filesystems_in_a_backing_file_survive_a_killed_server() {
    for kind in &FILESYSTEMS {
        let _ = expect_survival(kind, &["--backing", "FILE"], ServedArray::kill_server);
    }
}

/// A hundred requests at once, on a disk that hangs: all must reach the server.
#[test]
fn an_attached_device_keeps_the_requested_queue_depth_in_flight() {
    if Command::new("fio").arg("--version").output().is_err() {
        return report_skip("fio is not installed");
    }
    let Some(mut disk) = ServedArray::serve("depth", &[]) else { return };
    let journal = journal_path(&disk);
    disk.bench.run_at_end(PROGRAM, &["disk", "detach", "--all", "--force", "--journal", &journal]);
    let Some(device) = attach_device(&disk) else { return };
    let socket = text(&disk.path("s"));
    let order = |subcommand: &str| {
        for member in ["disk0", "disk1", "disk2"] {
            run_if_installed(PROGRAM, &["disk", subcommand, "--socket", &socket, member]).expect("done");
        }
    };
    order("hang");
    let file = format!("--filename={device}");
    let words = ["--name=d", &file, "--rw=randread", "--bs=4k", "--direct=1", "--ioengine=libaio", "--iodepth=100"];
    let log = format!("--output={}", disk.path("read").display());
    disk.bench.start_program("fio", &[&words[..], &["--number_ios=100", &log]].concat()).expect("fio");
    let all_there = wait_up_to_10_s(|| {
        let status = run_if_installed(PROGRAM, &["disk", "status", "--socket", &socket, "--json"]).expect("reported");
        let status: serde_json::Value = serde_json::from_str(&status).expect("JSON");
        status["under_way"] == 100
    });
    order("release");
    assert!(all_there.is_some());
    wait_up_to_10_s(|| fs::read_to_string(disk.path("read")).is_ok_and(|output| output.contains("READ: bw")))
        .expect("all are read");
    detach_devices(&disk, false);
}

/// `mkfs.ext4` first discards the whole device. A mechanical drive cannot discard, and writing 8.6 GB of zeros instead
/// takes ten minutes, so its array must not offer it.
#[test]
fn a_raid_5_of_mechanical_drives_is_formatted_in_seconds() {
    let flash = r#"
[[drive]]
name = "flash"
model = "intel-s3700-800"
"#;
    let disks = include_str!("../examples/systems/raid5-of-three.toml");
    for (name, system, trims) in [("disks", disks, false), ("flash", flash, true)] {
        let Some(mut disk) = ServedArray::serve_system(&format!("format-{name}"), system, &[]) else { return };
        let journal = text(&disk.path("journal"));
        disk.bench.run_at_end(PROGRAM, &["disk", "detach", "--all", "--force", "--journal", &journal]);
        let words = ["disk", "attach", &disk.uri(), "--json", "--by", "fuse", "--journal", &journal];
        let done = Command::new(PROGRAM).args(words).output().expect("runs");
        let wrong = String::from_utf8_lossy(&done.stderr);
        if !done.status.success() && (wrong.contains("root") || wrong.contains("does not work here")) {
            return report_skip(wrong.trim());
        }
        assert!(done.status.success(), "{wrong}");
        let attached: serde_json::Value = serde_json::from_slice(&done.stdout).expect("JSON");
        let device = attached["device"].as_str().expect("a device").to_owned();
        let queue = format!("/sys/block/{}/queue", device.trim_start_matches("/dev/"));
        let limit = fs::read_to_string(format!("{queue}/discard_max_bytes")).expect("a limit");
        assert_eq!(limit.trim() != "0", trims, "{name}: discard_max_bytes {limit}");
        let began = Instant::now();
        if run_if_installed("mkfs.ext4", &["-q", "-F", &device]).is_none() {
            return;
        }
        eprintln!("{name}: formatted in {:.1} s", began.elapsed().as_secs_f64());
        // discards served as writes took more than 600 s; the journal and tables alone take a few seconds
        assert!(began.elapsed() < Duration::from_secs(90), "{name}: {:?}", began.elapsed());
        run_if_installed("e2fsck", &["-f", "-n", &device]);
        if trims {
            // 800 GB: 195 million entries of the mapping table
            let began = Instant::now();
            run_if_installed("blkdiscard", &[&device]);
            assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
        } else if let Ok(done) = Command::new("blkdiscard").arg(&device).output() {
            assert!(!done.status.success(), "a disk with heads does not discard");
        }
        let done = Command::new(PROGRAM).args(["disk", "detach", &device, "--journal", &journal]).output();
        assert!(done.expect("runs").status.success());
    }
}

//! Other programs as clients of a served disk: fio with verification, the programs of libnbd, and filesystems whose
//! client or server is killed. Prints which programs are missing.

#![allow(clippy::disallowed_methods, reason = "a test waits for other processes")]

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::devices::{Bench, kill, processes, skip, tool, within};

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
struct Disk {
    bench: Bench,
    server: u32,
    more: Vec<String>,
}

impl Disk {
    /// Serves the RAID 5; `FILE` in an option stands for the path of its backing file.
    fn serve(test: &str, more: &[&str]) -> Option<Disk> {
        Disk::serve_system(test, RAID5, more)
    }

    fn serve_system(test: &str, system: &str, more: &[&str]) -> Option<Disk> {
        let mut bench = Bench::new(&format!("disk-{test}"))?;
        fs::write(bench.path("system.toml"), system).expect("written");
        let file = bench.path("content").display().to_string();
        let more: Vec<String> = more.iter().map(|word| word.replace("FILE", &file)).collect();
        let server = start(&mut bench, &more)?;
        Some(Disk { bench, server, more })
    }

    fn uri(&self) -> String {
        format!("nbd+unix:///?socket={}", self.bench.path("s").display())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.bench.path(name)
    }

    fn kill_server(&mut self) {
        kill("-KILL", self.server);
    }

    fn start_again(&mut self) {
        self.server = start(&mut self.bench, &self.more).expect("a server");
    }
}

/// Starts the server and waits until it listens; returns its process id.
fn start(bench: &mut Bench, more: &[String]) -> Option<u32> {
    let (system, socket) = (bench.path("system.toml").display().to_string(), bench.path("s"));
    let path = socket.display().to_string();
    let mut words = vec!["disk", &system, "--socket", &path];
    words.extend(more.iter().map(String::as_str));
    let server = bench.start(PROGRAM, &words)?;
    let answers = || std::os::unix::net::UnixStream::connect(&socket).is_ok();
    within(answers).expect("it serves");
    Some(server)
}

/// Standard output of a program that must succeed; `None` where it is not installed.
fn must(program: &str, arguments: &[&str]) -> Option<String> {
    let Ok(done) = Command::new(program).args(arguments).stdin(Stdio::null()).output() else {
        skip(&format!("{program} is not installed"));
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
    let Some(disk) = Disk::serve("fio", &[]) else { return };
    for (mix, sizes) in [("--rw=randwrite", "--bs=4k"), ("--rw=randrw", "--bsrange=512-64k")] {
        let uri = format!("--uri={}", disk.uri());
        let words = ["--name=v", "--ioengine=nbd", &uri, mix, sizes, "--size=24m", "--iodepth=32"];
        // fio would write its state of verification into the current folder
        let verify = ["--verify=crc32c", "--verify_fatal=1", "--randrepeat=0", "--verify_state_save=0"];
        if must("fio", &[&words[..], &verify].concat()).is_none() {
            return;
        }
    }
}

#[test]
fn nbdcopy_brings_back_what_it_took() {
    let Some(disk) = Disk::serve("nbdcopy", &[]) else { return };
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
        if must("nbdcopy", &[connections, "--flush", &text(&there), &disk.uri()]).is_none() {
            return;
        }
        let _ = fs::remove_file(&back);
        must("nbdcopy", &[connections, &disk.uri(), &text(&back)]).expect("copied");
        let found = fs::read(&back).expect("there");
        assert!(found[..data.len()] == data[..] && found[data.len()..].iter().all(|byte| *byte == 0));
    }
    let taken = fs::metadata(&back).expect("there").blocks() * 512;
    assert!(taken < 64 << 20, "holes come back as holes: {taken} bytes are taken");
    let map = must("nbdinfo", &["--map", &disk.uri()]).expect("told");
    assert!(map.contains("hole,zero") && map.contains("data"), "{map}");
}

#[test]
fn libnbds_shell_agrees() {
    let Some(disk) = Disk::serve("nbdsh", &[]) else { return };
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
    if tool("env", &[&shell[..], &["-c", "import nbd"]].concat()).is_some() {
        let run = format!("exec(open('{}').read())", text(&file));
        let _ = must("env", &[&shell[..], &["-u", &disk.uri(), "-c", &run]].concat());
    }
}

/// Commands that create and check a filesystem.
struct Kind {
    name: &'static str,
    make: &'static [&'static str],
    check: &'static [&'static str],
}

const KINDS: [Kind; 3] = [
    Kind { name: "ext4", make: &["mkfs.ext4", "-q", "-F"], check: &["e2fsck", "-f", "-n"] },
    Kind { name: "xfs", make: &["mkfs.xfs", "-q", "-f"], check: &["xfs_repair", "-n"] },
    Kind { name: "btrfs", make: &["mkfs.btrfs", "-q", "-f"], check: &["btrfs", "check", "--readonly"] },
];

fn attach(disk: &Disk) -> Option<String> {
    let done = tool(PROGRAM, &["disk", "attach", &disk.uri(), "--by", "fuse", "--json", "--journal", &journal(disk)])?;
    let attached: serde_json::Value = serde_json::from_str(&done).expect("JSON");
    Some(attached["device"].as_str().expect("a device").to_owned())
}

fn journal(disk: &Disk) -> String {
    text(&disk.path("journal"))
}

fn detach(disk: &Disk, force: bool) {
    let journal = journal(disk);
    let words = ["disk", "detach", "--all", "--journal", &journal];
    let more: &[&str] = if force { &["--force"] } else { &[] };
    let done = tool(PROGRAM, &[&words[..], more].concat());
    assert!(done.is_some() || force, "it is detached");
}

/// Number of writes that a device has completed.
fn writes(device: &str) -> u64 {
    let stat = fs::read_to_string(format!("/sys/block/{}/stat", device.trim_start_matches("/dev/")));
    stat.ok().and_then(|stat| stat.split_ascii_whitespace().nth(4)?.parse().ok()).unwrap_or(0)
}

/// Writes a file, syncs it, and starts fio beside it; then `kill_process` kills the server or client.
fn write_until_killed(disk: &mut Disk, device: &str, mount: &str, kill_process: impl FnOnce(&mut Disk)) {
    let kept = format!("{mount}/kept");
    fs::write(&kept, vec![0xA5; 3_000_000]).expect("written");
    fs::File::open(&kept).and_then(|file| file.sync_all()).expect("synced");
    tool("sync", &["-f", mount]).expect("synced");
    let (folder, busy) = (format!("--directory={mount}"), disk.path("busy"));
    let words = ["--name=w", &folder, "--rw=randwrite", "--bs=4k-64k", "--size=32m", "--numjobs=2", "--fsync=8"];
    let log = format!("--output={}", busy.display());
    let enough = writes(device) + 300;
    let fio = disk.bench.start("fio", &[&words[..], &["--time_based", "--runtime=60", &log]].concat());
    let fio = fio.expect("fio");
    // where others keep the machine busy, the writes of ten seconds are enough too
    let _ = within(|| writes(device) > enough);
    kill_process(disk);
    kill("-KILL", fio);
}

/// Verifies that the journal is replayed, the synced file is there, and the checker finds no error.
fn is_sound(disk: &Disk, kind: &Kind, mount: &str) {
    let device = attach(disk).expect("attached");
    must("mount", &[&device, mount]);
    let kept = fs::read(format!("{mount}/kept")).expect("kept");
    must("umount", &[mount]);
    assert!(kept.len() == 3_000_000 && kept.iter().all(|byte| *byte == 0xA5), "{}", kind.name);
    let (program, more) = (kind.check[0], &kind.check[1..]);
    must(program, &[more, &[&device]].concat());
    detach(disk, false);
}

/// Kills a process in the middle of writes and verifies the filesystem; `None` where this machine cannot.
fn survives(kind: &Kind, more: &[&str], kill_process: impl FnOnce(&mut Disk)) -> Option<()> {
    for program in [kind.make[0], "fio"] {
        let there = Command::new(program).arg("--version").output();
        if there.is_err() {
            skip(&format!("{program} is not installed"));
            return None;
        }
    }
    let mut disk = Disk::serve(&format!("{}-{}", kind.name, more.len()), more)?;
    let journal = journal(&disk);
    disk.bench.later(PROGRAM, &["disk", "detach", "--all", "--force", "--journal", &journal]);
    let mount = text(&disk.path("mount"));
    fs::create_dir(&mount).expect("a folder");
    let device = attach(&disk)?;
    tool(kind.make[0], &[&kind.make[1..], &[&device]].concat())?;
    tool("mount", &[&device, &mount])?;
    // mostly it is unmounted by then
    disk.bench.later("sh", &["-c", &format!("umount -l {mount} 2>/dev/null || true")]);
    write_until_killed(&mut disk, &device, &mount, kill_process);
    let _ = tool("umount", &["-l", &mount]);
    detach(&disk, true);
    if !more.is_empty() {
        disk.start_again();
    }
    is_sound(&disk, kind, &mount);
    Some(())
}

/// Kills the FUSE process behind the device.
fn kill_clients(disk: &mut Disk) {
    let ids = processes(&["diskwright-file", &text(&disk.path("s"))]);
    assert_eq!(ids.len(), 1);
    ids.into_iter().for_each(|id| kill("-KILL", id));
}

#[test]
fn file_systems_survive_the_death_of_their_clients() {
    for kind in &KINDS {
        let _ = survives(kind, &[], kill_clients);
    }
}

#[test]
fn file_systems_in_a_file_survive_the_death_of_the_server() {
    for kind in &KINDS {
        let _ = survives(kind, &["--backing", "FILE"], Disk::kill_server);
    }
}

/// A hundred requests at once, on a disk that hangs: all must reach the server.
#[test]
fn an_attached_device_has_as_many_requests_under_way_as_are_asked_for() {
    if Command::new("fio").arg("--version").output().is_err() {
        return skip("fio is not installed");
    }
    let Some(mut disk) = Disk::serve("depth", &[]) else { return };
    let journal = journal(&disk);
    disk.bench.later(PROGRAM, &["disk", "detach", "--all", "--force", "--journal", &journal]);
    let Some(device) = attach(&disk) else { return };
    let socket = text(&disk.path("s"));
    let order = |what: &str| {
        for member in ["disk0", "disk1", "disk2"] {
            must(PROGRAM, &["disk", what, "--socket", &socket, member]).expect("done");
        }
    };
    order("hang");
    let file = format!("--filename={device}");
    let words = ["--name=d", &file, "--rw=randread", "--bs=4k", "--direct=1", "--ioengine=libaio", "--iodepth=100"];
    let log = format!("--output={}", disk.path("read").display());
    disk.bench.start("fio", &[&words[..], &["--number_ios=100", &log]].concat()).expect("fio");
    let all_there = within(|| {
        let status = must(PROGRAM, &["disk", "status", "--socket", &socket, "--json"]).expect("told");
        let status: serde_json::Value = serde_json::from_str(&status).expect("JSON");
        status["under_way"] == 100
    });
    order("release");
    assert!(all_there.is_some());
    within(|| fs::read_to_string(disk.path("read")).is_ok_and(|said| said.contains("READ: bw"))).expect("all are read");
    detach(&disk, false);
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
        let Some(mut disk) = Disk::serve_system(&format!("format-{name}"), system, &[]) else { return };
        let journal = text(&disk.path("journal"));
        disk.bench.later(PROGRAM, &["disk", "detach", "--all", "--force", "--journal", &journal]);
        let words = ["disk", "attach", &disk.uri(), "--json", "--by", "fuse", "--journal", &journal];
        let done = Command::new(PROGRAM).args(words).output().expect("runs");
        let wrong = String::from_utf8_lossy(&done.stderr);
        if !done.status.success() && (wrong.contains("root") || wrong.contains("does not work here")) {
            return skip(wrong.trim());
        }
        assert!(done.status.success(), "{wrong}");
        let attached: serde_json::Value = serde_json::from_slice(&done.stdout).expect("JSON");
        let device = attached["device"].as_str().expect("a device").to_owned();
        let queue = format!("/sys/block/{}/queue", device.trim_start_matches("/dev/"));
        let limit = fs::read_to_string(format!("{queue}/discard_max_bytes")).expect("a limit");
        assert_eq!(limit.trim() != "0", trims, "{name}: discard_max_bytes {limit}");
        let began = Instant::now();
        if must("mkfs.ext4", &["-q", "-F", &device]).is_none() {
            return;
        }
        eprintln!("{name}: formatted in {:.1} s", began.elapsed().as_secs_f64());
        // discards served as writes took more than 600 s; the journal and tables alone take a few seconds
        assert!(began.elapsed() < Duration::from_secs(90), "{name}: {:?}", began.elapsed());
        must("e2fsck", &["-f", "-n", &device]);
        if trims {
            // 800 GB: 195 million entries of the mapping table
            let began = Instant::now();
            must("blkdiscard", &[&device]);
            assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
        } else if let Ok(done) = Command::new("blkdiscard").arg(&device).output() {
            assert!(!done.status.success(), "a disk with heads does not discard");
        }
        let done = Command::new(PROGRAM).args(["disk", "detach", &device, "--journal", &journal]).output();
        assert!(done.expect("runs").status.success());
    }
}

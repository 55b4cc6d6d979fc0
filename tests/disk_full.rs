//! A backing disk that is really full: clients are told so, nothing that was
//! acknowledged is lost, and writes go on when there is room again. Needs root
//! and file systems' programs; what is not there is said.

use crate::devices;

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use crate::devices::{Bench, skip, tool, within};
use diskwright_virtualdisk::nbd::client::{ClientError, ClientOptions, NbdClient};
use diskwright_virtualdisk::nbd::wire::{CommandFlags, ErrorCode};

const PROGRAM: &str = env!("CARGO_BIN_EXE_diskwright");

const RAID5: &str = r#"
[[drive]]
name = "disk"
count = 3
capacity = "1GB"
plain = { servers = 8, service = { constant_us = 20 } }

[[array]]
name = "data"
level = "raid5"
drives = "disk"
stripe_unit = "64KB"
"#;

/// Written at a time, bytes: a row and a half.
const PIECE: usize = 192 << 10;
/// Frees so much when it is removed, MiB.
const BALLAST: u64 = 8;

/// What is written as this piece: no two are alike, and no byte is zero.
fn piece(number: usize) -> Vec<u8> {
    let mut bytes = vec![0; PIECE];
    // eight at a time: hundreds of pieces are made and compared without optimization
    for (index, word) in bytes.chunks_exact_mut(8).enumerate() {
        let mixed = ((number * PIECE / 8 + index) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        word.copy_from_slice(&(mixed | 0x0101_0101_0101_0101).to_le_bytes());
    }
    bytes
}

fn place(number: usize) -> u64 {
    (number * PIECE) as u64 + 4096
}

fn greet(socket: &Path) -> Option<NbdClient<UnixStream>> {
    NbdClient::start(UnixStream::connect(socket).ok()?, "", ClientOptions::default()).ok()
}

fn connect(socket: &Path) -> NbdClient<UnixStream> {
    greet(socket).expect("the server goes on")
}

fn serve(bench: &mut Bench, content: &Path, socket: &Path) -> u32 {
    let (system, content) = (bench.path("system.toml").display().to_string(), content.display().to_string());
    let path = socket.display().to_string();
    let server = bench.start(PROGRAM, &["disk", &system, "--socket", &path, "--backing", &content]).expect("started");
    // before the file system goes
    bench.later("sh", &["-c", &format!("kill -9 {server} 2>/dev/null || true")]);
    within(|| greet(socket).is_some()).expect("it serves");
    server
}

/// A file system with little room, and in it a file that can be removed.
fn small(bench: &mut Bench, kind: &str) -> Option<(PathBuf, PathBuf)> {
    let mount = if kind == "tmpfs" {
        let point = bench.path("small");
        fs::create_dir(&point).expect("a mount point");
        let path = point.display().to_string();
        tool("mount", &["-t", kind, "-o", "size=48m", kind, &path])?;
        bench.later("umount", &[&path]);
        point
    } else {
        let device = bench.device("small.image", 64)?;
        let more: &[&str] = if kind == "btrfs" { &["-q", "--mixed"] } else { &["-q"] };
        tool(&format!("mkfs.{kind}"), &[more, &[&device]].concat())?;
        bench.mount(&device, "small", "rw")?
    };
    let ballast = mount.join("ballast");
    fs::write(&ballast, vec![1; (BALLAST << 20) as usize]).expect("room for the ballast");
    tool("sync", &["-f", &mount.display().to_string()])?;
    Some((mount, ballast))
}

/// Writes until there is no room: how many pieces were acknowledged.
fn fill(client: &mut NbdClient<UnixStream>) -> usize {
    for path in 0.. {
        match client.write(place(path), &piece(path), CommandFlags::FUA) {
            Ok(()) => assert!(path < 2000, "the disk is never full"),
            Err(ClientError::Failed { error, .. }) => {
                assert_eq!(error, ErrorCode::Nospc, "piece {path}");
                return path;
            }
            Err(error) => panic!("piece {path}: {error}"),
        }
    }
    0
}

/// Everything acknowledged is there; of the piece that was refused, each byte is old or new.
fn is_there(client: &mut NbdClient<UnixStream>, pieces: usize) {
    let mut back = vec![0; PIECE];
    for path in 0..pieces {
        client.read(place(path), &mut back).expect("read");
        assert!(back == piece(path), "piece {path} of {pieces}");
    }
    client.read(place(pieces), &mut back).expect("read");
    assert!(back.iter().zip(piece(pieces)).all(|(byte, new)| *byte == 0 || *byte == new), "piece {pieces}");
}

fn order(socket: &Path, words: &[&str]) {
    let path = socket.display().to_string();
    tool(PROGRAM, &[&["disk"], words, &["--socket", &path]].concat()).expect("obeyed");
}

/// `degraded`: a member has failed before; otherwise one fails when the disk is full.
fn full(kind: &str, degraded: bool) -> Option<()> {
    let mut bench = Bench::new(&format!("full-{kind}-{degraded}"))?;
    fs::write(bench.path("system.toml"), RAID5).expect("written");
    let (mount, ballast) = small(&mut bench, kind)?;
    let (content, socket) = (mount.join("content"), bench.path("s"));
    let server = serve(&mut bench, &content, &socket);
    if degraded {
        order(&socket, &["fail", "disk1"]);
    }
    let mut client = connect(&socket);
    let pieces = fill(&mut client);
    assert!(pieces > 40, "{kind}: {pieces} pieces fit");
    is_there(&mut client, pieces);
    let mut other = connect(&socket);
    is_there(&mut other, pieces);
    // killed while it is full, and begun again
    tool("kill", &["-9", &server.to_string()]).expect("killed");
    within(|| UnixStream::connect(&socket).is_err()).expect("it ends");
    serve(&mut bench, &content, &socket);
    let mut client = connect(&socket);
    is_there(&mut client, pieces);
    fs::remove_file(&ballast).expect("removed");
    tool("sync", &["-f", &mount.display().to_string()])?;
    let now = || client.write(place(pieces), &piece(pieces), CommandFlags::FUA).is_ok();
    within(now).expect("there is room again");
    client.flush().expect("flushed");
    if !degraded {
        // parity that went wrong would show now
        order(&socket, &["fail", "disk1"]);
    }
    is_there(&mut client, pieces + 1);
    order(&socket, &["stop"]);
    Some(())
}

#[test]
fn a_full_backing_disk_is_told_and_loses_nothing() {
    // a btrfs that is full takes no ledger either: with a member lost, a killed server's last row is torn there
    let cases = [("ext4", false), ("ext4", true), ("btrfs", false), ("tmpfs", false), ("tmpfs", true)];
    for (kind, degraded) in cases {
        eprintln!("{kind}, {}", if degraded { "a member lost" } else { "all well" });
        if full(kind, degraded).is_none() {
            skip(&format!("a full {kind}"));
        }
    }
}

/// Whatever it holds: a device is no file to be made a disk of.
#[test]
fn a_device_is_refused_as_backing() {
    let Some(mut bench) = Bench::new("disk-backing-device") else { return };
    fs::write(bench.path("system.toml"), RAID5).expect("written");
    let Some(device) = bench.device("device", 8) else { return };
    devices::put(&device, 0, b"precious");
    let before = devices::sum(&device);
    let (system, socket) = (bench.path("system.toml"), bench.path("s"));
    let mut command = std::process::Command::new(PROGRAM);
    command
        .arg("disk")
        .arg(&system)
        .arg("--socket")
        .arg(&socket)
        .args(["--backing", &device])
        .env("XDG_RUNTIME_DIR", bench.path("."));
    let done = command.output().expect("it runs");
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert_eq!(done.status.code(), Some(1), "{said}");
    assert!(said.contains(&device) && said.contains("not a regular file"), "{said}");
    assert_eq!(devices::sum(&device), before);
}

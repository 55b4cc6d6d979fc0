//! A backing file on a full filesystem: clients get "no space", no acknowledged write is lost, and writes succeed again
//! when there is room. Needs root and the programs of the filesystems; prints what is missing.

use crate::devices;

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use crate::devices::{Bench, report_skip, run_tool, wait_up_to_10_s};
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

/// Size of a write: one and a half rows of the array.
const PIECE_BYTES: usize = 192 << 10;
/// Size of the file that is removed to make room.
const BALLAST_MIB: u64 = 8;

/// Content of a piece: no two pieces are alike, and no byte is zero.
fn piece_content(number: usize) -> Vec<u8> {
    let mut bytes = vec![0; PIECE_BYTES];
    // eight at a time: hundreds of pieces are made and compared without optimization
    for (index, word) in bytes.chunks_exact_mut(8).enumerate() {
        let mixed = ((number * PIECE_BYTES / 8 + index) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        word.copy_from_slice(&(mixed | 0x0101_0101_0101_0101).to_le_bytes());
    }
    bytes
}

/// Offset of a piece in the export, bytes.
fn piece_offset(number: usize) -> u64 {
    (number * PIECE_BYTES) as u64 + 4096
}

/// Connects a client; `None` where nobody listens.
fn try_connect(socket: &Path) -> Option<NbdClient<UnixStream>> {
    NbdClient::start(UnixStream::connect(socket).ok()?, "", ClientOptions::default()).ok()
}

fn connect(socket: &Path) -> NbdClient<UnixStream> {
    try_connect(socket).expect("the server goes on")
}

/// Starts a server of the array and waits until it answers; returns its process id.
fn start_server(bench: &mut Bench, content: &Path, socket: &Path) -> u32 {
    let (system, content) = (bench.path("system.toml").display().to_string(), content.display().to_string());
    let path = socket.display().to_string();
    let server =
        bench.start_program(PROGRAM, &["disk", &system, "--socket", &path, "--backing", &content]).expect("started");
    // undone before the filesystem is unmounted
    bench.run_at_end("sh", &["-c", &format!("kill -9 {server} 2>/dev/null || true")]);
    wait_up_to_10_s(|| try_connect(socket).is_some()).expect("it serves");
    server
}

/// Mounts a small filesystem with a ballast file in it; returns the mount point and that file.
fn mount_small_filesystem(bench: &mut Bench, kind: &str) -> Option<(PathBuf, PathBuf)> {
    let mount = if kind == "tmpfs" {
        let point = bench.path("small");
        fs::create_dir(&point).expect("a mount point");
        let path = point.display().to_string();
        run_tool("mount", &["-t", kind, "-o", "size=48m", kind, &path])?;
        bench.run_at_end("umount", &[&path]);
        point
    } else {
        let device = bench.new_loop_device("small.image", 64)?;
        let more: &[&str] = if kind == "btrfs" { &["-q", "--mixed"] } else { &["-q"] };
        run_tool(&format!("mkfs.{kind}"), &[more, &[&device]].concat())?;
        bench.mount(&device, "small", "rw")?
    };
    let ballast = mount.join("ballast");
    fs::write(&ballast, vec![1; (BALLAST_MIB << 20) as usize]).expect("room for the ballast");
    run_tool("sync", &["-f", &mount.display().to_string()])?;
    Some((mount, ballast))
}

/// Writes pieces until there is no space; returns how many were acknowledged.
fn write_until_full(client: &mut NbdClient<UnixStream>) -> usize {
    for number in 0.. {
        match client.write(piece_offset(number), &piece_content(number), CommandFlags::FUA) {
            Ok(()) => assert!(number < 2000, "the disk is never full"),
            Err(ClientError::Failed { error, .. }) => {
                assert_eq!(error, ErrorCode::Nospc, "piece {number}");
                return number;
            }
            Err(error) => panic!("piece {number}: {error}"),
        }
    }
    0
}

/// Verifies that all acknowledged pieces are there and that each byte of the refused piece is the old or the new one.
fn verify_pieces(client: &mut NbdClient<UnixStream>, pieces: usize) {
    let mut back = vec![0; PIECE_BYTES];
    for number in 0..pieces {
        client.read(piece_offset(number), &mut back).expect("read");
        assert!(back == piece_content(number), "piece {number} of {pieces}");
    }
    client.read(piece_offset(pieces), &mut back).expect("read");
    assert!(back.iter().zip(piece_content(pieces)).all(|(byte, new)| *byte == 0 || *byte == new), "piece {pieces}");
}

/// Sends a command to the running server.
fn send_command(socket: &Path, words: &[&str]) {
    let path = socket.display().to_string();
    run_tool(PROGRAM, &[&["disk"], words, &["--socket", &path]].concat()).expect("obeyed");
}

/// Fills a backing file and checks what was acknowledged. With `degraded` a member fails at the start, otherwise after
/// there is room again. `None` where this machine cannot run the case.
fn run_full_disk_case(kind: &str, degraded: bool) -> Option<()> {
    let mut bench = Bench::new(&format!("full-{kind}-{degraded}"))?;
    fs::write(bench.path("system.toml"), RAID5).expect("written");
    let (mount, ballast) = mount_small_filesystem(&mut bench, kind)?;
    let (content, socket) = (mount.join("content"), bench.path("s"));
    let server = start_server(&mut bench, &content, &socket);
    if degraded {
        send_command(&socket, &["fail", "disk1"]);
    }
    let mut client = connect(&socket);
    let pieces = write_until_full(&mut client);
    assert!(pieces > 40, "{kind}: {pieces} pieces fit");
    verify_pieces(&mut client, pieces);
    let mut other = connect(&socket);
    verify_pieces(&mut other, pieces);
    // the server is killed while the filesystem is full, and started again
    run_tool("kill", &["-9", &server.to_string()]).expect("killed");
    wait_up_to_10_s(|| UnixStream::connect(&socket).is_err()).expect("it ends");
    start_server(&mut bench, &content, &socket);
    let mut client = connect(&socket);
    verify_pieces(&mut client, pieces);
    fs::remove_file(&ballast).expect("removed");
    run_tool("sync", &["-f", &mount.display().to_string()])?;
    let now = || client.write(piece_offset(pieces), &piece_content(pieces), CommandFlags::FUA).is_ok();
    wait_up_to_10_s(now).expect("there is room again");
    client.flush().expect("flushed");
    if !degraded {
        // parity that went wrong would show now
        send_command(&socket, &["fail", "disk1"]);
    }
    verify_pieces(&mut client, pieces + 1);
    send_command(&socket, &["stop"]);
    Some(())
}

#[test]
fn a_full_backing_disk_reports_no_space_and_loses_nothing() {
    // a full btrfs has no room for the ledger either: with a failed member, the last row of a killed server is torn
    // there, so that case is left out
    let cases = [("ext4", false), ("ext4", true), ("btrfs", false), ("tmpfs", false), ("tmpfs", true)];
    for (kind, degraded) in cases {
        eprintln!("{kind}, {}", if degraded { "a member lost" } else { "all well" });
        if run_full_disk_case(kind, degraded).is_none() {
            report_skip(&format!("a full {kind}"));
        }
    }
}

/// A device is no backing file, whatever its content.
#[test]
fn refuses_a_device_as_backing() {
    let Some(mut bench) = Bench::new("disk-backing-device") else { return };
    fs::write(bench.path("system.toml"), RAID5).expect("written");
    let Some(device) = bench.new_loop_device("device", 8) else { return };
    devices::write_at(&device, 0, b"precious");
    let before = devices::md5_sum(&device);
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
    let stderr = String::from_utf8_lossy(&done.stderr).into_owned();
    assert_eq!(done.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains(&device) && stderr.contains("not a regular file"), "{stderr}");
    assert_eq!(devices::md5_sum(&device), before);
}

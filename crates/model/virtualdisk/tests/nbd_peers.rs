//! The protocol between our own sides, and with libnbd's and nbdkit's programs
//! where they are installed.

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::nbd_server::Served;
use diskwright_virtualdisk::nbd::ProtocolError;
use diskwright_virtualdisk::nbd::client::{ClientError, ClientOptions, ClientRequest, NbdClient, list_exports};
use diskwright_virtualdisk::nbd::handshake::NbdExport;
use diskwright_virtualdisk::nbd::reply::NbdExtent;
use diskwright_virtualdisk::nbd::wire::{self, CommandFlags, ErrorCode, TransmissionFlags};

const NONE: CommandFlags = CommandFlags(0);
const SIMPLE: ClientOptions = ClientOptions { structured: false, block_status: false };

fn two_disks() -> Arc<Served> {
    let mut small = NbdExport::new("small", 1 << 20);
    small.description = "a small disk".into();
    let mut sealed = NbdExport::new("sealed", 3 << 12);
    sealed.flags = sealed.flags.with(TransmissionFlags::READ_ONLY);
    (sealed.min_block_bytes, sealed.preferred_block_bytes, sealed.max_request_bytes, sealed.block_status) =
        (512, 1024, 8192, false);
    Served::new(vec![small, sealed])
}

type Ended = JoinHandle<std::io::Result<Option<ProtocolError>>>;

/// Connects our client to our server.
fn connect_client_to_server(
    served: &Arc<Served>,
    export: &str,
    wishes: ClientOptions,
) -> (Result<NbdClient<UnixStream>, ClientError>, Ended) {
    let (here, there) = UnixStream::pair().expect("a pair");
    here.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
    let served = Arc::clone(served);
    let server = std::thread::spawn(move || served.serve(there));
    (NbdClient::start(here, export, wishes), server)
}

#[test]
fn client_and_server_negotiate() {
    for wishes in [ClientOptions::default(), SIMPLE] {
        let served = two_disks();
        let (client, server) = connect_client_to_server(&served, "", wishes);
        let mut client = client.expect("connected");
        let about = client.export_info().clone();
        assert_eq!(
            (about.bytes, about.min_block_bytes, about.preferred_block_bytes, about.max_request_bytes),
            (1 << 20, 1, 4096, 32 << 20)
        );
        assert_eq!(about.flags.has(TransmissionFlags::DF), wishes.structured);
        assert_eq!(about.context.is_some(), wishes.block_status);
        assert_eq!((about.name.as_deref(), about.description.as_deref()), (Some("small"), Some("a small disk")));
        client.write(10, b"hello", CommandFlags::FUA).expect("written");
        client.flush().expect("flushed");
        let mut back = [9; 7];
        client.read(9, &mut back).expect("read");
        assert_eq!(&back, b"\0hello\0");
        client.write_zeros(11, 2, CommandFlags::NO_HOLE).expect("zeroed");
        client.trim(14, 1).expect("trimmed");
        client.read(9, &mut back).expect("read");
        assert_eq!(&back, b"\0h\0\0l\0\0");
        if wishes.block_status {
            let extents = client.block_status(0, 1 << 20).expect("reported");
            let hole = NbdExtent { bytes: (1 << 20) - 4096, is_allocated: false };
            assert_eq!(extents, [NbdExtent { bytes: 4096, is_allocated: true }, hole]);
        } else {
            let refused = client.block_status(0, 4096).expect_err("not agreed");
            assert!(matches!(refused, ClientError::Failed { error: ErrorCode::Inval, .. }), "{refused}");
        }
        client.disconnect().expect("sent");
        assert_eq!(server.join().expect("no panic").expect("no error"), None);
    }
}

#[test]
fn matches_replies_of_many_requests_in_flight() {
    for wishes in [ClientOptions::default(), SIMPLE] {
        let served = two_disks();
        let (client, server) = connect_client_to_server(&served, "small", wishes);
        let mut client = client.expect("connected");
        let block = |position: u64| [position as u8 + 1; 512];
        for index in 0..64 {
            client.send_request(ClientRequest::Write { offset: index * 512, data: &block(index) }, NONE).expect("sent");
        }
        for _ in 0..64 {
            assert_eq!(client.receive_reply().expect("written").error, None);
        }
        let cookies: Vec<u64> = (0..64)
            .map(|index| {
                client.send_request(ClientRequest::Read { offset: index * 512, length: 512 }, NONE).expect("sent")
            })
            .collect();
        assert_eq!(client.in_flight(), 64);
        assert!(matches!(client.flush(), Err(ClientError::Busy(64))));
        for _ in 0..64 {
            let answer = client.receive_reply().expect("read");
            assert_eq!(answer.data, block(answer.offset / 512));
            assert!(cookies.contains(&answer.cookie));
        }
        drop(client);
        server.join().expect("no panic").expect("no error");
    }
}

#[test]
fn transfers_a_large_request() {
    let served = two_disks();
    let (client, _server) = connect_client_to_server(&served, "small", ClientOptions::default());
    let mut client = client.expect("connected");
    let data: Vec<u8> = (0..1 << 20).map(|offset: u32| (offset / 7) as u8).collect();
    client.write(0, &data, NONE).expect("written");
    let mut back = vec![0; 1 << 20];
    client.read(0, &mut back).expect("read");
    assert!(back == data);
}

#[test]
fn lists_and_opens_exports() {
    let served = two_disks();
    let (here, there) = UnixStream::pair().expect("a pair");
    let other = Arc::clone(&served);
    let server = std::thread::spawn(move || other.serve(there));
    let names: Vec<String> =
        list_exports(here).expect("listed").into_iter().map(|l| l.name + "/" + &l.description).collect();
    assert_eq!(names, ["small/a small disk", "sealed/"]);
    assert_eq!(server.join().expect("no panic").expect("no error"), Some(ProtocolError::Aborted));
    let (missing, _server) = connect_client_to_server(&served, "other", ClientOptions::default());
    let error = missing.expect_err("no such export");
    assert!(matches!(error, ClientError::Refused { error: wire::answer::UNKNOWN, .. }), "{error}");
    assert!(error.to_string().contains("small sealed"), "{error}");
}

#[test]
fn serves_a_read_only_export_with_other_block_sizes() {
    for wishes in [ClientOptions::default(), SIMPLE] {
        let served = two_disks();
        let (client, _server) = connect_client_to_server(&served, "sealed", wishes);
        let mut client = client.expect("connected");
        let about = client.export_info().clone();
        assert_eq!(
            (about.min_block_bytes, about.preferred_block_bytes, about.max_request_bytes, about.context),
            (512, 1024, 8192, None)
        );
        let mut failed = |ask| match client.send_and_receive(ask, NONE) {
            Err(ClientError::Failed { error, .. }) => error,
            other => panic!("{other:?}"),
        };
        let long = vec![1; 12 << 10];
        assert_eq!(failed(ClientRequest::Write { offset: 0, data: &long[..512] }), ErrorCode::Perm);
        let too_long = if wishes.structured { ErrorCode::Overflow } else { ErrorCode::Inval };
        assert_eq!(failed(ClientRequest::Read { offset: 0, length: 12 << 10 }), too_long);
        assert_eq!(failed(ClientRequest::Read { offset: 1, length: 512 }), ErrorCode::Inval);
        // its data is skipped, and the connection continues
        assert_eq!(failed(ClientRequest::Write { offset: 0, data: &long }), ErrorCode::Perm);
        client.read(512, &mut [0; 512]).expect("still there");
    }
}

/// Runs a program that has to succeed and returns its output; `None` if it is not installed.
fn run_program(program: &str, arguments: &[&str]) -> Option<String> {
    let done = Command::new("timeout").args(["-k", "5", "60", program]).args(arguments).output();
    let done = done.ok().filter(|done| done.status.code() != Some(127));
    let Some(done) = done else {
        eprintln!("skipped: {program} is not installed");
        return None;
    };
    let output = format!("{}{}", String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{program} {arguments:?}: {output}");
    Some(output)
}

fn uri(socket: &Path, export: &str) -> String {
    format!("nbd+unix:///{export}?socket={}", socket.display())
}

#[test]
fn nbdinfo_reads_our_exports() {
    let folder = tempfile::tempdir().expect("a folder");
    let served = two_disks();
    served.disks[0].lock().expect("no panic")[4096..8192].fill(1);
    let socket = served.listen(folder.path());
    let Some(output) = run_program("nbdinfo", &["--list", &uri(&socket, "")]) else { return };
    for wanted in ["newstyle-fixed", "export=\"small\"", "a small disk", "export=\"sealed\"", "base:allocation"] {
        assert!(output.contains(wanted), "{wanted} in {output}");
    }
    for (export, wanted) in [("", "1048576"), ("sealed", "12288")] {
        assert_eq!(run_program("nbdinfo", &["--size", &uri(&socket, export)]).expect("installed").trim(), wanted);
    }
    let map = run_program("nbdinfo", &["--map", &uri(&socket, "small")]).expect("installed");
    let words: Vec<&str> = map.split_whitespace().collect();
    let extents = ["0", "4096", "3", "hole,zero", "4096", "4096", "0", "data", "8192", "1040384", "3", "hole,zero"];
    assert_eq!(words, extents);
}

#[test]
fn nbdcopy_writes_and_reads_our_exports() {
    let folder = tempfile::tempdir().expect("a folder");
    let served = two_disks();
    let socket = served.listen(folder.path());
    let from = folder.path().join("from");
    let to = folder.path().join("to");
    let mut data: Vec<u8> = (0..1 << 20).map(|offset: u32| (offset.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    data[100_000..700_000].fill(0);
    std::fs::write(&from, &data).expect("written");
    let paths = [&from, &to].map(|path| path.to_str().expect("plain"));
    if run_program("nbdcopy", &["--flush", paths[0], &uri(&socket, "small")]).is_none() {
        return;
    }
    assert!(*served.disks[0].lock().expect("no panic") == data);
    run_program("nbdcopy", &[&uri(&socket, "small"), paths[1]]);
    assert!(std::fs::read(&to).expect("readable") == data);
}

/// Script for libnbd with its checks of requests turned off, so that the server's errors are seen.
const SHELL: &str = r#"
import sys
nbd = __import__("nbd")
def fails(name, what):
    try:
        what()
    except nbd.Error as error:
        assert error.errno == name, (error.errno, name, str(error))
        return
    raise AssertionError("no " + name)
h = nbd.NBD()
h.add_meta_context("base:allocation")
h.set_strict_mode(0)
h.connect_uri(sys.argv[1])
assert h.get_size() == 1048576 and h.get_structured_replies_negotiated()
h.pwrite(b"A" * 4096, 4096, nbd.CMD_FLAG_FUA)
assert h.pread(4098, 4095) == b"\0" + b"A" * 4096 + b"\0"
h.zero(100, 4096, nbd.CMD_FLAG_NO_HOLE)
h.trim(100, 4196)
h.cache(4096, 0)
h.flush()
assert h.pread(4096, 4096) == b"\0" * 200 + b"A" * 3896
found = []
h.block_status(1048576, 0, lambda context, offset, extents, error: found.append((context, extents)))
assert found == [("base:allocation", [4096, 3, 4096, 0, 1040384, 3])], found
found.clear()
h.block_status(1048576, 0, lambda context, offset, extents, error: found.append(extents), nbd.CMD_FLAG_REQ_ONE)
assert found == [[4096, 3]], found
whole = []
buffer = h.pread_structured(4096, 4096, lambda data, offset, status, error: whole.append((offset, status)),
                            nbd.CMD_FLAG_DF)
assert len(buffer) == 4096 and whole == [(4096, nbd.READ_DATA)], whole
fails("EINVAL", lambda: h.pread(512, 1048576))
fails("ENOSPC", lambda: h.pwrite(b"B" * 512, 1048575))
fails("ENOSPC", lambda: h.zero(512, 1048400))
fails("EINVAL", lambda: h.trim(512, 1048576))
fails("EINVAL", lambda: h.pread(512, 0, nbd.CMD_FLAG_REQ_ONE))
fails("EINVAL", lambda: h.zero(512, 0, nbd.CMD_FLAG_FAST_ZERO))
assert h.pread(4, 4294) == b"\0\0AA"
h.shutdown()
print("all well")
"#;

#[test]
fn nbdsh_accepts_our_replies() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = two_disks().listen(folder.path());
    // the module of the distribution's own python
    let known = Command::new("/usr/bin/python3").args(["-c", "import nbd"]).stderr(Stdio::null()).status();
    if !known.is_ok_and(|status| status.success()) {
        eprintln!("skipped: /usr/bin/python3 has no libnbd (package python3-libnbd)");
        return;
    }
    let output = run_program("/usr/bin/python3", &["-c", SHELL, &uri(&socket, "small")]).expect("installed");
    assert_eq!(output.trim(), "all well");
}

/// A running nbdkit, stopped on drop.
struct Nbdkit(Child);

impl Drop for Nbdkit {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start_nbdkit(socket: &Path, arguments: &[&str]) -> Option<Nbdkit> {
    let socket_of = ["--foreground", "--newstyle", "--unix"];
    let child = Command::new("nbdkit").args(socket_of).arg(socket).args(arguments).stderr(Stdio::null()).spawn();
    let Ok(child) = child else {
        eprintln!("skipped: nbdkit is not installed");
        return None;
    };
    Some(Nbdkit(child))
}

fn connected(socket: &Path) -> UnixStream {
    let start = Instant::now();
    loop {
        match UnixStream::connect(socket) {
            Ok(stream) => return stream,
            Err(error) if start.elapsed() > Duration::from_secs(30) => panic!("{}: {error}", socket.display()),
            Err(_) => std::thread::yield_now(),
        }
    }
}

#[test]
fn our_client_works_with_nbdkit() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("kit.sock");
    let Some(_kit) = start_nbdkit(&socket, &["memory", "1M"]) else { return };
    for wishes in [ClientOptions::default(), SIMPLE] {
        let mut client = NbdClient::start(connected(&socket), "", wishes).expect("connected");
        let about = client.export_info().clone();
        assert_eq!((about.bytes, about.structured), (1 << 20, wishes.structured));
        client.write(65_536, &[7; 1000], NONE).expect("written");
        let mut back = [1; 1002];
        client.read(65_535, &mut back).expect("read");
        assert!(back[0] == 0 && back[1001] == 0 && back[1..1001].iter().all(|byte| *byte == 7));
        if wishes.block_status {
            let extents = client.block_status(0, 1 << 20).expect("reported");
            assert_eq!(extents[0], NbdExtent { bytes: 65_536, is_allocated: false });
        }
        let mut cookies = Vec::new();
        for index in 0..64 {
            cookies.push(
                client.send_request(ClientRequest::Read { offset: 65_536 + index, length: 4096 }, NONE).expect("sent"),
            );
        }
        for _ in 0..64 {
            let answer = client.receive_reply().expect("read");
            let sevens = answer.data.iter().filter(|byte| **byte == 7).count() as u64;
            assert_eq!(sevens, 1000 - (answer.offset - 65_536));
            cookies.retain(|cookie| *cookie != answer.cookie);
        }
        assert!(cookies.is_empty());
        client.write_zeros(0, 1 << 20, NONE).expect("zeroed");
        client.flush().expect("flushed");
        client.disconnect().expect("sent");
    }
}

//! Misbehaving clients at the socket of a real server: well-behaved clients are still served,
//! memory stays bounded, and no client gets wrong data.

#![allow(clippy::disallowed_methods, reason = "a test waits for the server to notice")]

use crate::served;

use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::served::{Running, plain_drives, serve};
use diskwright_simulator::system::read;
use diskwright_virtualdisk::content::ContentBacking;
use diskwright_virtualdisk::nbd::client::{ClientError, ClientOptions, ClientRequest};
use diskwright_virtualdisk::nbd::request::NbdRequest;
use diskwright_virtualdisk::nbd::wire::{
    CommandFlags, ErrorCode, IHAVEOPT, NbdCommand, REQUEST_MAGIC, TransmissionFlags,
};
use diskwright_virtualdisk::server::DiskCommand;

const NONE: CommandFlags = CommandFlags(0);
const SIMPLE: ClientOptions = ClientOptions { structured: false, block_status: false };
const MIB: u64 = 1 << 20;

fn quick() -> Running {
    serve(plain_drives(1, 256 * MIB / 512, 64, 0), |_| {})
}

/// Asserts that other clients are served.
fn assert_serves(running: &Running) {
    let mut client = running.connect();
    client.write(8192, &[7; 4096], NONE).expect("written");
    let mut back = [0; 4096];
    client.read(8192, &mut back).expect("read");
    assert_eq!(back, [7; 4096]);
}

fn request_header(command: NbdCommand, offset: u64, length: u32) -> NbdRequest {
    NbdRequest { flags: NONE, command, cookie: 1, offset, length }
}

/// Returns true if the server closes the connection, after any output.
fn is_closed(mut stream: &UnixStream) -> bool {
    let mut all = Vec::new();
    match stream.read_to_end(&mut all) {
        Ok(_) => true,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    }
}

#[test]
fn closes_connections_that_do_not_speak_nbd() {
    let running = quick();
    let mut flags_nobody_offered = vec![0xff; 4];
    flags_nobody_offered.extend(IHAVEOPT.to_be_bytes());
    let greetings: [&[u8]; 3] = [b"GET / HTTP/1.1\r\n\r\nmore and more of it", &[0; 4096], &flags_nobody_offered];
    for greeting in greetings {
        let mut stream = running.stream();
        stream.write_all(greeting).expect("sent");
        assert!(is_closed(&stream), "{greeting:x?}");
    }
    // also once an export is open
    for bytes in [[0; 28], [0xff; 28]] {
        let client = running.open("", SIMPLE);
        client.stream().write_all(&bytes).expect("sent");
        assert!(is_closed(client.stream()));
    }
    let mut old = request_header(NbdCommand::Read, 0, 512).encode_header();
    old[..4].copy_from_slice(&(REQUEST_MAGIC + 1).to_be_bytes());
    let client = running.open("", SIMPLE);
    client.stream().write_all(&old).expect("sent");
    assert!(is_closed(client.stream()));
    assert_serves(&running);
}

#[test]
fn refuses_requests_beyond_the_disk_and_too_large_ones() {
    let running = quick();
    let mut client = running.connect();
    let end = 256 * MIB;
    let cases = [
        (NbdCommand::Read, end, 1),
        (NbdCommand::Read, end - 1, 2),
        (NbdCommand::Read, u64::MAX, 512),
        (NbdCommand::Read, u64::MAX - 511, 512),
        (NbdCommand::Trim, end - 512, 1024),
        (NbdCommand::WriteZeroes, u64::MAX - 100, u32::MAX),
        (NbdCommand::Read, 0, (64 << 20) - 512),
        (NbdCommand::Resize, 0, 4096),
        (NbdCommand::Unknown(99), 0, 4096),
        (NbdCommand::Read, 0, 0),
    ];
    for (command, offset, length) in cases {
        let failed =
            client.send_and_receive(ClientRequest::Other { command, offset, length }, NONE).expect_err("refused");
        assert!(matches!(failed, ClientError::Failed { .. }), "{command:?} {offset} {length}: {failed}");
    }
    let refused = client.write(end, &[1; 4096], NONE).expect_err("beyond the end");
    assert!(matches!(refused, ClientError::Failed { error: ErrorCode::Nospc, .. }), "{refused}");
    // its data arrives in pieces, of which the later ones would lie beyond the last address
    let refused = client.write(u64::MAX - 511, &vec![1; MIB as usize], NONE).expect_err("beyond all addresses");
    assert!(matches!(refused, ClientError::Failed { error: ErrorCode::Nospc, .. }), "{refused}");
    // a write that is too large is read and discarded; one far beyond any limit ends the connection
    let refused = client.write(0, &vec![1; (32 << 20) + 1], NONE).expect_err("too large");
    assert!(matches!(refused, ClientError::Failed { .. }), "{refused}");
    let mut first = [9; 512];
    client.read(0, &mut first).expect("the connection goes on");
    assert_eq!(first, [0; 512]);
    client.stream().write_all(&request_header(NbdCommand::Write, 0, u32::MAX).encode_header()).expect("sent");
    assert!(is_closed(client.stream()));
    assert_serves(&running);
}

#[test]
fn a_stalled_client_does_not_delay_others() {
    let running = quick();
    let silent: Vec<UnixStream> = (0..100).map(|_| running.stream()).collect();
    let half_heads: Vec<_> = (0..100)
        .map(|_| {
            let client = running.open("", SIMPLE);
            client.stream().write_all(&request_header(NbdCommand::Read, 0, 512).encode_header()[..13]).expect("sent");
            client
        })
        .collect();
    let half_writes: Vec<_> = (0..100)
        .map(|_| {
            let client = running.open("", SIMPLE);
            client.stream().write_all(&request_header(NbdCommand::Write, MIB, 8192).encode_header()).expect("sent");
            client.stream().write_all(&[1; 1000]).expect("sent");
            client
        })
        .collect();
    assert_serves(&running);
    // with a wrong length, the following bytes are data even if they look like a request
    let mut client = running.open("", SIMPLE);
    client.stream().write_all(&request_header(NbdCommand::Write, 2 * MIB, 4096).encode_header()).expect("sent");
    let mut data = request_header(NbdCommand::Trim, 0, 1 << 20).encode_header().to_vec();
    data.resize(4096, 0x55);
    client.stream().write_all(&data).expect("sent");
    let mut answer = [0; 16];
    client.stream().read_exact(&mut answer).expect("answered");
    assert_eq!(answer[4..8], [0; 4]);
    let mut back = vec![0; 4096];
    client.read(2 * MIB, &mut back).expect("read");
    assert!(back == data);
    drop((silent, half_heads, half_writes));
    assert_serves(&running);
}

#[test]
fn a_large_read_arrives_complete_in_pieces() {
    let running = quick();
    for wishes in [SIMPLE, ClientOptions::default()] {
        let mut client = running.open("", wishes);
        let data: Vec<u8> = (0..20 * MIB).map(|index| ((index / 5) ^ (index >> 13)) as u8).collect();
        client.write(12345, &data, NONE).expect("written");
        let mut back = vec![0; data.len()];
        client.read(12345, &mut back).expect("read");
        assert!(back == data);
        let asks = [CommandFlags::DF, NONE];
        for flags in asks.into_iter().filter(|flags| *flags == NONE || wishes.structured) {
            let ask = ClientRequest::Read { offset: 12345, length: data.len() as u32 };
            assert!(client.send_and_receive(ask, flags).expect("read").data == data);
        }
    }
}

#[test]
fn closes_clients_beyond_the_limit() {
    let running = quick();
    let held: Vec<_> = (0..2000).map_while(|_| UnixStream::connect(&running.path).ok()).collect();
    if held.len() < 2000 {
        eprintln!("skipped: {} files are too few here", held.len());
        return;
    }
    let one_more = running.stream();
    let ended = is_closed(&one_more) || held.iter().take(5).any(is_closed);
    assert!(ended);
    drop(held);
    std::thread::sleep(Duration::from_millis(300));
    assert_serves(&running);
}

#[test]
fn reports_a_full_backing_disk_and_loses_no_other_data() {
    let room = 64 * 4096 + (1 << 20);
    let running = serve(plain_drives(1, 256 * MIB / 512, 64, 0), |options| {
        options.backing = ContentBacking::Memory { max_bytes: Some(room) };
    });
    let mut client = running.connect();
    let mut written = Vec::new();
    let mut refused = 0;
    for index in 0..1000_u64 {
        match client.write(index * 4096, &[index as u8 | 1; 4096], NONE) {
            Ok(()) => written.push(index),
            Err(ClientError::Failed { error: ErrorCode::Nospc, .. }) => refused += 1,
            Err(other) => panic!("{other}"),
        }
    }
    assert!(written.len() > 64 && refused > 100, "{} written, {refused} refused", written.len());
    let mut back = [0; 4096];
    for index in 0..1000 {
        client.read(index * 4096, &mut back).expect("read");
        let is = if written.contains(&index) { index as u8 | 1 } else { 0 };
        assert_eq!(back, [is; 4096], "{index}");
    }
    client.trim(0, 32 * 4096).expect("trimmed");
    client.write(900 * 4096, &[3; 4096], NONE).expect("there is room again");
}

#[test]
fn forgets_clients_that_leave_with_requests_in_flight() {
    // 50 ms each
    let running = serve(plain_drives(1, 256 * MIB / 512, 4, 50_000_000), |_| {});
    for round in 0..20 {
        let mut client = running.connect();
        for index in 0..40 {
            client
                .send_request(ClientRequest::Write { offset: index * 4096, data: &[round; 4096] }, NONE)
                .expect("queued");
        }
        client.push().expect("sent");
    }
    // 800 requests at 80 a second: the model still executes those of closed connections, and nobody
    // gets their replies
    let mut client = running.connect();
    let status = running.send_command(&DiskCommand::Status).expect("a status");
    assert!(status["under_way"].as_u64().expect("a number") > 100, "{status}");
    assert_eq!(status["exports"][0]["clients"], 1, "{status}");
    client.send_request(ClientRequest::Read { offset: 0, length: 4096 }, NONE).expect("sent");
    assert_eq!(client.receive_reply().expect("its turn comes").data, [19; 4096]);
}

#[test]
fn a_client_that_shuts_down_its_output_gets_its_replies() {
    let running = serve(plain_drives(1, 256 * MIB / 512, 64, 5_000_000), |_| {});
    let mut client = running.connect();
    for index in 0..40 {
        client.send_request(ClientRequest::Read { offset: index * 4096, length: 4096 }, NONE).expect("queued");
    }
    client.push().expect("sent");
    client.stream().shutdown(std::net::Shutdown::Write).expect("half closed");
    for _ in 0..40 {
        assert_eq!(client.receive_reply().expect("answered").error, None);
    }
    assert!(matches!(client.receive_reply(), Err(ClientError::Closed(_))));
}

#[test]
fn clients_see_the_end_of_a_server_that_stops() {
    let running = serve(plain_drives(1, 256 * MIB / 512, 64, 500_000_000), |_| {});
    let mut client = running.connect();
    client.send_request(ClientRequest::Read { offset: 0, length: 4096 }, NONE).expect("queued");
    client.push().expect("sent");
    let path = running.path.clone();
    running.end().expect("it ends in order");
    assert!(client.receive_reply().is_err(), "nobody answers");
    assert!(!path.exists(), "its socket goes with it");
}

#[test]
fn only_this_user_can_connect_to_the_sockets() {
    let running = quick();
    for path in [&running.path, &running.control] {
        let mode = std::fs::metadata(path).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{}", path.display());
    }
}

#[test]
fn answers_or_closes_invalid_commands() {
    let running = quick();
    let lines: [&[u8]; 5] = [b"{}\n", b"\xff\xfe\n", b"[1,2\n", b"{\"do\":\"fail\",\"member\":\"nobody\"}\n", b"\n"];
    for line in lines {
        let mut stream = UnixStream::connect(&running.control).expect("served");
        stream.set_read_timeout(Some(served::REPLY_TIMEOUT)).expect("a timeout");
        stream.write_all(line).expect("sent");
        let mut answer = [0; 4096];
        let bytes = stream.read(&mut answer).expect("answered");
        assert!(String::from_utf8_lossy(&answer[..bytes]).contains("error"), "{line:x?}");
    }
    // a command without its end
    let mut stream = UnixStream::connect(&running.control).expect("served");
    stream.set_write_timeout(Some(served::REPLY_TIMEOUT)).expect("a timeout");
    let _ = stream.write_all(&vec![b'['; 4 << 20]);
    assert_serves(&running);
}

#[test]
fn a_disk_without_trim_refuses_it_and_continues() {
    let text = r#"
        [[drive]]
        name = "disk"
        count = 3
        model = "st34572w"
        [[array]]
        name = "data"
        level = "raid5"
        drives = "disk"
    "#;
    let system = read::read("test.toml", text, &[], &|_| Err("no files".into())).expect("valid").system;
    let running = serve(system, |_| {});
    let mut client = running.connect();
    assert!(!client.export_info().flags.has(TransmissionFlags::TRIM));
    assert!(client.export_info().flags.has(TransmissionFlags::WRITE_ZEROES));
    client.write(0, &[7; 4096], NONE).expect("written");
    // a client that ignored the flags: the protocol has an error for that
    let refused = client.trim(0, 1 << 30);
    assert!(matches!(refused, Err(ClientError::Failed { error: ErrorCode::Inval, .. })), "{refused:?}");
    let mut back = [0; 4096];
    client.read(0, &mut back).expect("the connection goes on");
    assert_eq!(back, [7; 4096], "nothing was forgotten");
}

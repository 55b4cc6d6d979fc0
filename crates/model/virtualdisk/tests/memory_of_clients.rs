//! Memory cost of clients: of those that read no replies, and of a thousand. It is a separate
//! program, because it measures the memory of the whole process.

use std::io::Write;

use crate::served::{Running, plain_drives, serve};
use diskwright_virtualdisk::nbd::client::{ClientOptions, ClientRequest};
use diskwright_virtualdisk::nbd::request::NbdRequest;
use diskwright_virtualdisk::nbd::wire::{CommandFlags, NbdCommand};
use diskwright_virtualdisk::server::DiskCommand;

const NONE: CommandFlags = CommandFlags(0);
const SIMPLE: ClientOptions = ClientOptions { structured: false, block_status: false };

fn quick() -> Running {
    serve(plain_drives(1, 1 << 19, 64, 0), |_| {})
}

fn assert_serves(running: &Running) {
    running.connect().write(8192, &[7; 4096], NONE).expect("written");
}

/// Returns the resident memory of this process, which includes the server.
fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).expect("a number") * 4096
}

/// Runs the cases one after the other, as they share the process.
#[test]
fn clients_cost_little_memory() {
    clients_that_do_not_read_cost_little_memory();
    a_thousand_clients_are_served();
}

fn clients_that_do_not_read_cost_little_memory() {
    let running = quick();
    assert_serves(&running);
    let before = resident_bytes();
    // each asks for up to 4096 times 32 MiB and reads nothing
    let greedy: Vec<_> = (0..50)
        .map(|_| {
            let client = running.open("", SIMPLE);
            client.stream().set_nonblocking(true).expect("nonblocking");
            let request = NbdRequest { flags: NONE, command: NbdCommand::Read, cookie: 1, offset: 0, length: 32 << 20 }
                .encode_header();
            let sent = (0..10_000).take_while(|_| client.stream().write(&request).is_ok_and(|n| n == 28)).count();
            assert!(sent >= 100, "{sent}");
            client
        })
        .collect();
    for _ in 0..10 {
        assert_serves(&running);
    }
    let grown = resident_bytes().saturating_sub(before) >> 20;
    assert!(grown < 150, "{grown} MiB for {} clients", greedy.len());
    drop(greedy);
    assert_serves(&running);
}

fn a_thousand_clients_are_served() {
    let running = quick();
    let mut clients: Vec<_> = (0..1000).map(|_| running.open("", SIMPLE)).collect();
    let before = resident_bytes();
    for _ in 0..3 {
        for (index, client) in (0..).zip(&mut clients) {
            client
                .send_request(ClientRequest::Write { offset: index * 4096, data: &[index as u8; 4096] }, NONE)
                .expect("queued");
            client.send_request(ClientRequest::Read { offset: index * 4096, length: 4096 }, NONE).expect("queued");
            client.push().expect("sent");
        }
        for client in &mut clients {
            assert_eq!(client.receive_reply().expect("written").error, None);
            assert_eq!(client.receive_reply().expect("read").error, None);
        }
    }
    for (index, client) in (0..).zip(&mut clients) {
        let mut back = [0; 4096];
        client.read(index * 4096, &mut back).expect("read");
        assert_eq!(back, [index as u8; 4096]);
    }
    // their own buffers of 256 KiB are the greater part
    let each = resident_bytes().saturating_sub(before) / 1000;
    assert!(each < 600 << 10, "{each} bytes for a client");
    let status = running.send_command(&DiskCommand::Status).expect("a status");
    assert_eq!(status["exports"][0]["clients"], 1000);
}

//! A client that sends options endlessly and reads no replies.

use std::io::{Error, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::served::{plain_drives, serve};
use diskwright_virtualdisk::nbd::wire::{IHAVEOPT, option};

#[test]
fn replies_to_a_flooding_client_are_bounded() {
    let running = serve(plain_drives(1, 1 << 17, 4, 0), |_| {});
    let refused = send_flood(running.stream()).expect("the server stops reading");
    assert!(matches!(refused.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{refused}");
    running.end().expect("ended well");
}

/// Sends 64 MiB of options, far more than kernel and server buffer; returns the error that ends it.
fn send_flood(mut stream: UnixStream) -> Option<Error> {
    stream.set_write_timeout(Some(Duration::from_secs(2))).expect("a timeout");
    stream.read_exact(&mut [0; 18]).expect("a greeting");
    stream.write_all(&[0, 0, 0, 3]).expect("sent");
    let list = [&IHAVEOPT.to_be_bytes()[..], &option::LIST.to_be_bytes(), &[0; 4]].concat().repeat(1 << 16);
    (0..64).find_map(|_| stream.write_all(&list).err())
}

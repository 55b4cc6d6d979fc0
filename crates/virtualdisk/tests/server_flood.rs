//! A client that asks without end and reads no answer.

use std::io::{Error, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use diskwright_simulator::system::read::read;
use diskwright_virtualdisk::content::Backing;
use diskwright_virtualdisk::nbd::wire::{IHAVEOPT, option};
use diskwright_virtualdisk::server::{Options, Place, Server};

const SYSTEM: &str = r#"
[[drive]]
name = "disk"
capacity = "64MB"
[drive.plain]
servers = 4
service = { constant_us = 0 }
"#;

#[test]
fn questions_are_not_kept_without_bound() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("s");
    let system = read("test.toml", SYSTEM, &[], &|_| Err("no files".into())).expect("a system").system;
    let options = Options {
        place: Place::Unix(socket.clone()),
        bytes: None,
        backing: Backing::Memory { most_bytes: None },
        speed: 1.0,
        every: Duration::from_secs(1),
        workloads: false,
    };
    let mut server = Server::new(system, &options).expect("served");
    let stop = Arc::new(AtomicBool::new(false));
    let done = Arc::clone(&stop);
    let client = std::thread::spawn(move || {
        let refused = flood(UnixStream::connect(&socket).expect("connected"));
        done.store(true, Ordering::Relaxed);
        refused
    });
    let ends = Instant::now() + Duration::from_secs(60);
    server.run(&stop, Some(ends), &mut |_| Ok(())).expect("ended well");
    let refused = client.join().expect("no panic").expect("the server stops reading");
    assert!(matches!(refused.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{refused}");
}

/// What ends 64 MiB of questions, far above what the kernel and the server hold.
fn flood(mut stream: UnixStream) -> Option<Error> {
    stream.set_write_timeout(Some(Duration::from_secs(2))).expect("a timeout");
    stream.read_exact(&mut [0; 18]).expect("a greeting");
    stream.write_all(&[0, 0, 0, 3]).expect("sent");
    let list = [&IHAVEOPT.to_be_bytes()[..], &option::LIST.to_be_bytes(), &[0; 4]].concat().repeat(1 << 16);
    (0..64).find_map(|_| stream.write_all(&list).err())
}

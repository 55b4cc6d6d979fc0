//! A server that is killed, and clients that end in the middle of a write: each sector has its old
//! or its new content, and acknowledged writes are present.
//!
//! The server is another process of this program, on a backing file, and is killed while writes of
//! several connections are in flight. `DISKWRIGHT_KILLS` sets the number of kills.

#![allow(clippy::disallowed_methods, reason = "a test waits for another process")]

use crate::served;

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::served::{REPLY_TIMEOUT, array, plain_drives, serve};
use diskwright_base::Rng;
use diskwright_simulator::ArrayLevel;
use diskwright_simulator::System;
use diskwright_virtualdisk::content::ContentBacking;
use diskwright_virtualdisk::nbd::client::{ClientOptions, ClientRequest, NbdClient};
use diskwright_virtualdisk::nbd::request::NbdRequest;
use diskwright_virtualdisk::nbd::wire::{self, CommandFlags};
use diskwright_virtualdisk::server::{DiskServer, ListenAddress};

const SECTOR: u64 = 512;
const WORDS: usize = SECTOR as usize / 8;
/// Number of sectors that are written; few, so that writes overlap.
const SECTORS: u64 = 4096;
/// Largest write, sectors.
const MAX_WRITE_SECTORS: u64 = 300;
const CONNECTIONS: u64 = 3;
const DEPTH: usize = 12;
/// Environment variables of the serving process: the kind of disk, and the folder.
const KIND: &str = "DISKWRIGHT_TEST_KIND";
const FOLDER: &str = "DISKWRIGHT_TEST_FOLDER";

const KINDS: [&str; 7] = ["drive", "raid1", "raid10", "raid5", "raid6", "raid5 degraded", "raid6 degraded"];

fn system(kind: &str) -> System {
    let of = |count, level| {
        let mut system = array(plain_drives(count, 2 * SECTORS, 16, 0), level);
        system.arrays[0].unit_blocks = 16;
        system
    };
    let mut system = match kind.split(' ').next() {
        Some("raid1") => of(2, ArrayLevel::Raid1),
        Some("raid10") => of(4, ArrayLevel::Raid10),
        Some("raid5") => of(3, ArrayLevel::Raid5),
        Some("raid6") => of(5, ArrayLevel::Raid6),
        _ => plain_drives(1, 2 * SECTORS, 16, 0),
    };
    if kind.ends_with("degraded") {
        system.arrays[0].failed = vec![1];
    }
    system
}

/// Returns the content that a write leaves in a sector; zeros for write 0.
fn pattern(write: u64, sector: u64) -> [u64; WORDS] {
    let mut words = [0; WORDS];
    if write > 0 {
        let mut rng = Rng::new(write, sector);
        words.iter_mut().for_each(|word| *word = rng.next_u64());
        words[0] = write;
    }
    words
}

fn data(write: u64, from: u64, sectors: u64) -> Vec<u8> {
    let words = (from..from + sectors).flat_map(|sector| pattern(write, sector));
    words.flat_map(u64::to_le_bytes).collect()
}

/// Returns the write whose content a sector has; `None` if it is of no single write.
fn find_write(found: &[u8], sector: u64) -> Option<u64> {
    let write = u64::from_le_bytes(*found.first_chunk()?);
    (data(write, sector, 1) == found).then_some(write)
}

/// A write, and the times of its start and its acknowledgment.
struct Sent {
    write: u64,
    from: u64,
    sectors: u64,
    begun: u64,
    acknowledged: Option<u64>,
    refused: bool,
}

impl Sent {
    fn covers(&self, sector: u64) -> bool {
        (self.from..self.from + self.sectors).contains(&sector)
    }
}

/// A server in another process.
struct ServerProcess {
    child: Child,
    socket: PathBuf,
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl ServerProcess {
    fn start(kind: &str, folder: &Path) -> ServerProcess {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(["kills::the_server_of_the_others", "--exact", "--nocapture"]).env(KIND, kind).env(FOLDER, folder);
        // the links of running servers go there too
        command.env("XDG_RUNTIME_DIR", folder).stdout(Stdio::null());
        ServerProcess { child: command.spawn().expect("started"), socket: folder.join("s") }
    }

    fn client(&mut self) -> NbdClient<UnixStream> {
        let begin = Instant::now();
        while begin.elapsed() < REPLY_TIMEOUT {
            if let Ok(stream) = UnixStream::connect(&self.socket)
                && stream.set_read_timeout(Some(REPLY_TIMEOUT)).is_ok()
                && let Ok(client) = NbdClient::start(stream, "", ClientOptions::default())
            {
                return client;
            }
            let ended = self.child.try_wait().expect("ours");
            assert!(ended.is_none(), "it does not serve: {ended:?}");
            std::thread::sleep(Duration::from_millis(2));
        }
        panic!("it does not serve")
    }
}

/// Not a test of its own: the code of the killed process.
#[test]
fn the_server_of_the_others() {
    let (Some(kind), Some(folder)) = (std::env::var(KIND).ok(), std::env::var_os(FOLDER).map(PathBuf::from)) else {
        return;
    };
    let mut options = served::options(ListenAddress::Unix(folder.join("s")));
    options.backing = ContentBacking::File(folder.join("content"));
    let mut server = DiskServer::new(system(&kind), &options).expect("served");
    // the parent kills it; if the parent dies, it ends by itself
    let ends = Instant::now() + REPLY_TIMEOUT;
    server.run(&AtomicBool::new(false), Some(ends), &mut |_| Ok(())).expect("ended well");
}

/// Writes until the connection ends; returns the writes sent.
fn write_until_closed(
    client: &mut NbdClient<UnixStream>,
    rng: &mut Rng,
    writes: &AtomicU64,
    clock: &AtomicU64,
) -> Vec<Sent> {
    let tick = || clock.fetch_add(1, Ordering::SeqCst);
    let (mut all, mut open) = (Vec::<Sent>::new(), Vec::<(u64, usize)>::new());
    loop {
        while open.len() < DEPTH {
            let max_sectors = [1, 8, 64, MAX_WRITE_SECTORS][rng.next_below(4) as usize];
            let sectors = 1 + rng.next_below(max_sectors);
            let (write, from) = (writes.fetch_add(1, Ordering::SeqCst), rng.next_below(SECTORS - sectors));
            let data = data(write, from, sectors);
            all.push(Sent { write, from, sectors, begun: tick(), acknowledged: None, refused: false });
            match client.send_request(ClientRequest::Write { offset: from * SECTOR, data: &data }, CommandFlags(0)) {
                Ok(cookie) => open.push((cookie, all.len() - 1)),
                Err(_) => return all,
            }
        }
        let Ok(answer) = client.receive_reply() else { return all };
        let (cookie, refused) = (answer.cookie, answer.error.is_some());
        let place = open.iter().position(|(sent, _)| *sent == cookie).expect("it was sent");
        let sent = &mut all[open.swap_remove(place).1];
        (sent.refused, sent.acknowledged) = (refused, Some(tick()).filter(|_| !refused));
    }
}

/// Starts a server, writes and kills it once.
fn run_round(kind: &str, folder: &Path, seed: u64, writes: &AtomicU64) -> Vec<Sent> {
    let mut other = ServerProcess::start(kind, folder);
    let clients: Vec<_> = (0..CONNECTIONS).map(|_| other.client()).collect();
    let clock = AtomicU64::new(1);
    let mut moment = Rng::new(seed, 1000);
    std::thread::scope(|scope| {
        let work = (0..).zip(clients).map(|(index, mut client)| {
            let (mut rng, clock) = (Rng::new(seed, index), &clock);
            scope.spawn(move || write_until_closed(&mut client, &mut rng, writes, clock))
        });
        let work: Vec<_> = work.collect();
        std::thread::sleep(Duration::from_micros(2000 + moment.next_below(60_000)));
        drop(other);
        work.into_iter().flat_map(|one| one.join().expect("no panic")).collect()
    })
}

/// Returns the faults after a kill, and updates the content of each sector.
fn check_disk(kind: &str, folder: &Path, before: &mut [u64], sent: &[Sent]) -> Vec<String> {
    let mut other = ServerProcess::start(kind, folder);
    let mut client = other.client();
    let mut wrong = Vec::new();
    for (sector, before) in (0..).zip(before.iter_mut()) {
        let mut found = [0; SECTOR as usize];
        if let Err(error) = client.read(sector * SECTOR, &mut found) {
            wrong.push(format!("sector {sector}: {error}"));
            continue;
        }
        let here: Vec<&Sent> = sent.iter().filter(|sent| sent.covers(sector)).collect();
        // a write must have been overwritten if it ended before another acknowledged write to the
        // sector began
        let gone = |end: u64| here.iter().any(|later| later.begun > end && later.acknowledged.is_some());
        match find_write(&found, sector) {
            None => {
                let write = u64::from_le_bytes(*found.first_chunk().expect("bytes"));
                let wanted = data(write, sector, 1);
                let index = found.iter().zip(&wanted).position(|(a, b)| a != b);
                wrong.push(format!("sector {sector}: torn at byte {index:?}"));
            }
            Some(write) => {
                let it = here.iter().find(|sent| sent.write == write);
                let right = match it {
                    Some(it) => it.acknowledged.is_none_or(|end| !gone(end)),
                    None => write == *before && !gone(0),
                };
                if !right {
                    wrong.push(format!("sector {sector}: of write {write}, and later ones were acknowledged"));
                }
                *before = write;
            }
        }
    }
    wrong
}

#[test]
fn a_killed_server_tears_no_sector_and_keeps_acknowledged_writes() {
    let kills = std::env::var("DISKWRIGHT_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(21);
    let writes = AtomicU64::new(1);
    let mut all_wrong = Vec::new();
    let (mut sent_in_all, mut acknowledged) = (0, 0);
    for (index, kind) in KINDS.iter().enumerate() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut before = vec![0; SECTORS as usize];
        for kill in (index..kills).step_by(KINDS.len()) {
            let sent = run_round(kind, folder.path(), kill as u64, &writes);
            sent_in_all += sent.len();
            acknowledged += sent.iter().filter(|sent| sent.acknowledged.is_some()).count();
            let mut wrong = check_disk(kind, folder.path(), &mut before, &sent);
            wrong.extend(sent.iter().filter(|sent| sent.refused).map(|sent| format!("write {} refused", sent.write)));
            all_wrong.extend(wrong.into_iter().map(|fault| format!("{kind}, kill {kill}: {fault}")));
        }
    }
    eprintln!("{kills} kills, {sent_in_all} writes, {acknowledged} acknowledged, {} wrong", all_wrong.len());
    assert!(acknowledged > kills, "hardly anything was written: the test does not test it");
    all_wrong.truncate(40);
    assert!(all_wrong.is_empty(), "{all_wrong:#?}");
}

/// A client that ends in the middle of a write, as a database in a crash test does.
#[test]
fn a_partly_received_write_leaves_whole_sectors() {
    for kind in KINDS {
        let running = serve(system(kind), |_| {});
        let mut check = running.connect();
        check.write(0, &data(1, 0, 16), CommandFlags(0)).expect("written");
        for (write, part) in (2..).zip([1, 511, 512, 513, 2148, 4095, 4097]) {
            let mut stream = running.connect().into_stream();
            let command = wire::NbdCommand::Write;
            let head = NbdRequest { flags: CommandFlags(0), command, cookie: 1, offset: SECTOR, length: 8192 - 1024 };
            stream.write_all(&head.encode_header()).expect("sent");
            stream.write_all(&data(write, 1, 14)[..part]).expect("sent");
            drop(stream);
            // earlier input has been processed when a later client is answered
            running.connect().flush().expect("flushed");
            let mut found = vec![0; 8192];
            check.read(0, &mut found).expect("read");
            let complete_sectors = part / SECTOR as usize;
            for (sector, found) in (0..).zip(found.chunks(SECTOR as usize)) {
                let of = find_write(found, sector).unwrap_or_else(|| panic!("{kind}, {part} bytes: {sector} is torn"));
                assert!(
                    of < write || sector >= 1 && sector <= complete_sectors as u64,
                    "{kind}, {part} bytes: {sector} of {of}"
                );
            }
        }
    }
}

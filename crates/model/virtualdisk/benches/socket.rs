//! Measures requests per second over a Unix socket with a model that costs nothing, beside nbdkit's
//! memory plug-in in the same run.
//!
//!     cargo bench -p diskwright-virtualdisk --bench socket
//!
//! `-- --beside PROGRAM` adds the server of another build of this program.
//!
//! The server is another process of this program (`--serve`), so that neither side shares the
//! other's process; both servers get the same client. With `--tiny`, and when `cargo test` runs it,
//! only a few requests are made, to check that it works; the numbers then mean nothing. Each line
//! has the median of rounds that alternate between the servers, and their range.

#![allow(clippy::disallowed_macros, reason = "a benchmark prints its table")]

#[path = "../tests/served/mod.rs"]
mod served;

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use diskwright_base::Rng;
use diskwright_virtualdisk::nbd::client::{ClientOptions, ClientRequest, NbdClient};
use diskwright_virtualdisk::nbd::wire::CommandFlags;
use diskwright_virtualdisk::server::{DiskServer, ListenAddress};

/// A gigabyte, blocks of 512 bytes.
const EXPORT_BLOCKS: u64 = 1 << 21;
const QUEUE: usize = 64;
const BLOCK: u64 = 4096;
/// Larger than one read of a socket returns.
const LONG: u64 = 256 << 10;
/// Part of the export that is used, bytes.
const USED_BYTES: u64 = 64 << 20;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let has = |wanted: &str| arguments.iter().any(|a| a == wanted);
    if let Some(index) = arguments.iter().position(|a| a == "--serve") {
        return serve(arguments.get(index + 1).expect("a socket"));
    }
    let tiny = has("--tiny") || !has("--bench");
    let (rounds, count) = if tiny { (1, 500) } else { (7, 400_000) };
    let folder = tempfile::tempdir().expect("a folder");
    let place = |name: &str| folder.path().join(name);
    let own = std::env::current_exe().expect("a program");
    let ours = place("ours");
    let mut servers =
        vec![("diskwright", ours.clone(), Process::start(Command::new(own).arg("--serve").arg(&ours)).expect("runs"))];
    let kit = place("kit");
    let start = Process::start(Command::new("nbdkit").args(["-f", "-U"]).arg(&kit).args(["memory", "1G"]));
    match start {
        Ok(process) => servers.push(("nbdkit memory", kit, process)),
        Err(error) => println!("skipped: nbdkit: {error}"),
    }
    if let Some(index) = arguments.iter().position(|a| a == "--beside") {
        let (other, socket) = (arguments.get(index + 1).expect("a program"), place("other"));
        let process = Process::start(Command::new(other).arg("--serve").arg(&socket)).expect("runs");
        servers.insert(1, ("the other build", socket, process));
    }
    println!("# requests a second over a Unix socket, queue {QUEUE}, {rounds} rounds of {count}, a tenth of long ones");
    let kinds = [(1, "reads", BLOCK), (1, "writes", BLOCK), (4, "reads", BLOCK), (4, "writes", BLOCK)];
    for (connections, kind, block) in kinds.into_iter().chain([(1, "writes", LONG), (4, "writes", LONG)]) {
        let count = if block == LONG { count / 10 } else { count };
        let mut rates = vec![Vec::new(); servers.len()];
        for round in 0..=rounds {
            for (index, (_, socket, _)) in servers.iter().enumerate() {
                let rate = measure_rate(socket, connections, (kind == "writes", block), count);
                // the first one fills the memory
                if round > 0 {
                    rates[index].push(rate);
                }
            }
        }
        for ((name, ..), mut rates) in servers.iter().zip(rates) {
            rates.sort_by(f64::total_cmp);
            let (median, min_rate, max_rate) = (rates[rates.len() / 2], rates[0], rates[rates.len() - 1]);
            let kib = block >> 10;
            println!(
                "{connections} x random {kind:<6} {kib:>3} KiB {name:<15} {median:>9.0} /s  \
                 ({min_rate:.0} to {max_rate:.0})"
            );
        }
    }
}

fn serve(socket: &str) {
    let options = served::options(ListenAddress::Unix(socket.into()));
    // the parent ends it; if the parent dies, it ends by itself
    let ends = Instant::now() + Duration::from_secs(600);
    let mut server = DiskServer::new(served::plain_drives(1, EXPORT_BLOCKS, 64, 0), &options).expect("served");
    server.run(&AtomicBool::new(false), Some(ends), &mut |_| Ok(())).expect("ended well");
}

/// A server process, ended on drop.
struct Process(Child);

impl Process {
    fn start(command: &mut Command) -> std::io::Result<Self> {
        command.stdout(Stdio::null()).spawn().map(Self)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn connected(socket: &PathBuf) -> UnixStream {
    let start = Instant::now();
    loop {
        match UnixStream::connect(socket) {
            Ok(stream) => return stream,
            Err(error) if start.elapsed() > Duration::from_secs(60) => panic!("{}: {error}", socket.display()),
            Err(_) => std::thread::yield_now(),
        }
    }
}

/// Returns the requests per second of a number of connections, each of which makes its share.
fn measure_rate(socket: &Path, connections: usize, kind: (bool, u64), count: usize) -> f64 {
    let socket = socket.to_path_buf();
    let clients: Vec<_> = (0..connections)
        .map(|_| NbdClient::start(connected(&socket), "", ClientOptions::default()).expect("connected"))
        .collect();
    let start = Instant::now();
    let work = clients.into_iter().zip(1..).map(|(mut client, seed)| {
        std::thread::spawn(move || {
            send_request(&mut client, seed, kind, count / connections);
            client.disconnect().expect("sent");
        })
    });
    let work: Vec<_> = work.collect();
    work.into_iter().for_each(|one| one.join().expect("no panic"));
    (count / connections * connections) as f64 / start.elapsed().as_secs_f64()
}

fn send_request(client: &mut NbdClient<UnixStream>, seed: u64, (writes, bytes): (bool, u64), count: usize) {
    let mut rng = Rng::new(seed, 0);
    let block = vec![seed as u8; bytes as usize];
    let (mut sent, mut answered) = (0, 0);
    while answered < count {
        while sent < count && client.in_flight() < QUEUE {
            let offset = rng.next_below(USED_BYTES / bytes) * bytes;
            let ask = if writes {
                ClientRequest::Write { offset, data: &block }
            } else {
                ClientRequest::Read { offset, length: bytes as u32 }
            };
            client.send_request(ask, CommandFlags(0)).expect("sent");
            sent += 1;
        }
        // replies that arrived together are processed together, and their successors sent together
        loop {
            assert_eq!(client.receive_reply().expect("an answer").error, None);
            answered += 1;
            if client.in_flight() == 0 || !client.has_more() {
                break;
            }
        }
    }
}

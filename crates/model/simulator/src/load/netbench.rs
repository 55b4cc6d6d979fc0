//! The disk mix of NetBench (Compaq 1997): clients of a file server, each with
//! a workspace of its own, each with one request at a time. What they ask for is
//! data (`netbench.toml`, with its source).
//!
//! Assumed, because nothing is known of it: a client's touched pages lie side by
//! side at the start of its workspace, the wanted ones scattered among them; a
//! flush writes through what the write before it left; what changes a directory
//! writes one page of 4 KiB of the file system's own at the start of the part.
//! Opening, closing and looking up files that are there costs the server
//! processor time ([`NetbenchSpec::compute`]) and no disk.

use diskwright_base::Rng;
use diskwright_base::toml_reader;
use diskwright_base::units::plural;
use diskwright_base::zipf::Zipf;
use serde::Deserialize;

use crate::Ns;
use crate::io::{BLOCK_BYTES, Io};
use crate::load::place::{Lengths, room, stretch};
use crate::load::tally::Operations;
use crate::load::{Cause, DurationDistribution, LoadError, LoadRequest, RequestSizes, TargetPart};

/// Blocks of a page of 4 KiB.
const PAGE: u64 = 8;
const MOST_CLIENTS: u32 = 1 << 20;
const READ: usize = 0;
const WRITE: usize = 1;
const DIRECTORY: usize = 2;

/// Clients of the disk mix.
#[derive(Clone, Debug, PartialEq)]
pub struct NetbenchSpec {
    /// How many.
    pub clients: u32,
    /// Workspace of each, bytes; Compaq 1997 has 15 MB.
    pub workspace_bytes: u64,
    /// Which target holds the workspaces.
    pub target: u16,
    /// The part of it in use.
    pub part: TargetPart,
    /// Whether clients keep what they read and write, so that the server sees only the rest.
    pub oplocks: bool,
    /// Before each request: the test's think time (0 in Compaq 1997), and what
    /// the client and the network take.
    pub think: DurationDistribution,
    /// Processor time of the server for each request.
    pub compute: DurationDistribution,
    /// Through the file cache, as a file server does.
    pub cached: bool,
    /// Ends when so many requests were made.
    pub most_operations: Option<u64>,
}

impl Default for NetbenchSpec {
    /// Compaq 1997's: a workspace of 15 MiB, MS-DOS clients, no think time; one client on the first target.
    fn default() -> NetbenchSpec {
        NetbenchSpec {
            clients: 1,
            workspace_bytes: 15 << 20,
            target: 0,
            part: TargetPart::All,
            oplocks: false,
            think: DurationDistribution::NONE,
            compute: DurationDistribution::NONE,
            cached: true,
            most_operations: None,
        }
    }
}

#[derive(Debug, Deserialize)]
struct NetbenchData {
    touched_pages: u64,
    plain: Capture,
    oplocks: Capture,
}

#[derive(Debug, Deserialize)]
struct Capture {
    reads: Vec<(u64, u64)>,
    writes: Vec<(u64, u64)>,
    reads_follow: f64,
    writes_follow: f64,
    theta: f64,
    flushes: u64,
    creates: u64,
    deletes: u64,
    renames: u64,
}

/// A run of the mix in progress.
#[derive(Clone, Debug)]
pub struct Netbench {
    spec: NetbenchSpec,
    first: u64,
    workspace: u64,
    pages: u64,
    /// From one rank's page to the next one's; shares no factor with their number, so that each is reached.
    step: u64,
    zipf: Zipf,
    lengths: [Lengths; 2],
    follow: [f64; 2],
    /// Shares of requests to directories, of writes among the others, of writes that are flushed.
    directory_share: f64,
    write_share: f64,
    flush_share: f64,
    clients: Vec<NetbenchClient>,
    operations: Vec<Operations>,
    over: u32,
    left: u64,
    dice: Rng,
}

#[derive(Clone, Copy, Debug, Default)]
struct NetbenchClient {
    began: Ns,
    class: u8,
    /// Where its last request ended, in its workspace.
    next: u64,
}

fn sum(sizes: &[(u64, u64)]) -> f64 {
    sizes.iter().map(|size| size.1 as f64).sum()
}

fn lengths(sizes: &[(u64, u64)]) -> Result<Lengths, LoadError> {
    let weighted = sizes.iter().map(|&(bytes, count)| (bytes, count as f64));
    Lengths::new(&RequestSizes::Weighted(weighted.collect()), "netbench")
}

impl Netbench {
    pub(super) fn new(spec: &NetbenchSpec, target_blocks: &[u64], dice: Rng) -> Result<Netbench, LoadError> {
        if !(1..=MOST_CLIENTS).contains(&spec.clients) {
            return Err(LoadError::new("clients", format!("{} clients; expected 1 to {MOST_CLIENTS}", spec.clients)));
        }
        spec.think.check("think")?;
        spec.compute.check("compute")?;
        let data: NetbenchData = toml_reader::read("netbench.toml", include_str!("netbench.toml"))
            .map_err(|error| LoadError::new("netbench.toml", error.to_string()))?;
        let room = room(spec.target, target_blocks, "target")?;
        let (first, blocks) = stretch(&spec.part, room)?;
        let workspace = spec.workspace_bytes / BLOCK_BYTES / PAGE * PAGE;
        let touched = data.touched_pages * PAGE;
        if workspace < touched {
            let why = format!("{} bytes; the mix needs {}", spec.workspace_bytes, touched * BLOCK_BYTES);
            return Err(LoadError::new("workspace_bytes", why));
        }
        // a page of the file system's own for each client, then the workspaces
        let needed = workspace.saturating_add(PAGE).saturating_mul(u64::from(spec.clients));
        if needed > blocks {
            let workspaces = plural(spec.clients, "workspace needs", "workspaces need");
            let why = format!("{workspaces} {needed} blocks; the area has {blocks}");
            return Err(LoadError::new("clients", why));
        }
        let capture = if spec.oplocks { &data.oplocks } else { &data.plain };
        let (reads, writes) = (sum(&capture.reads), sum(&capture.writes));
        let directory = (capture.creates + capture.deletes + capture.renames) as f64;
        Ok(Netbench {
            spec: spec.clone(),
            first,
            workspace,
            pages: data.touched_pages,
            step: coprime(data.touched_pages),
            zipf: Zipf::new(data.touched_pages, capture.theta),
            lengths: [lengths(&capture.reads)?, lengths(&capture.writes)?],
            follow: [capture.reads_follow, capture.writes_follow],
            directory_share: directory / (directory + reads + writes),
            write_share: writes / (reads + writes),
            flush_share: capture.flushes as f64 / writes,
            clients: vec![NetbenchClient::default(); spec.clients as usize],
            operations: ["read", "write", "directory"].map(Operations::new).into(),
            over: 0,
            left: spec.most_operations.unwrap_or(u64::MAX),
            dice,
        })
    }

    #[inline]
    pub(super) fn next(&mut self, now: Ns, who: u32, cause: Cause, asks: &mut Vec<LoadRequest>) {
        let Some(client) = self.clients.get(who as usize) else { return };
        if cause != Cause::Start {
            self.operations[usize::from(client.class)].done(client.began, now);
        }
        if self.left == 0 {
            self.over += 1;
            return;
        }
        self.left -= 1;
        let time = now.saturating_add(self.spec.think.draw_ns(&mut self.dice));
        let class = match () {
            () if self.dice.chance(self.directory_share) => DIRECTORY,
            () if self.dice.chance(self.write_share) => WRITE,
            () => READ,
        };
        let io = if class == DIRECTORY { self.directory(who) } else { self.data(class, who) };
        let durable = class == WRITE && self.dice.chance(self.flush_share);
        let client = &mut self.clients[who as usize];
        (client.began, client.class) = (time, class as u8);
        let operations = &mut self.operations[class].totals;
        operations.begun += 1;
        operations.requests += 1;
        operations.bytes += u64::from(io.blocks) * BLOCK_BYTES;
        let compute = self.spec.compute.draw_ns(&mut self.dice);
        let cached = self.spec.cached && !durable;
        asks.push(LoadRequest { compute, cached, ..LoadRequest::request(time, who, self.spec.target, io) });
    }

    fn directory(&self, who: u32) -> Io {
        Io::write(self.first + u64::from(who) * PAGE, PAGE as u32)
    }

    fn data(&mut self, class: usize, who: u32) -> Io {
        let blocks = self.lengths[class].draw(&mut self.dice);
        let after = self.clients[who as usize].next;
        let follows = self.dice.chance(self.follow[class]) && after + u64::from(blocks) <= self.workspace;
        let block = if follows { after } else { self.page().min(self.workspace - u64::from(blocks)) };
        self.clients[who as usize].next = block + u64::from(blocks);
        let spaces = self.first + u64::from(self.spec.clients) * PAGE;
        Io { first: spaces + u64::from(who) * self.workspace + block, blocks, write: class == WRITE }
    }

    /// First block of a page as it is wanted: ranks are dealt out over the touched pages.
    fn page(&mut self) -> u64 {
        self.zipf.draw(&mut self.dice) * self.step % self.pages * PAGE
    }

    pub(super) fn users(&self) -> u32 {
        self.spec.clients
    }

    pub(super) fn finished(&self) -> bool {
        self.over == self.spec.clients
    }

    pub(super) fn operations(&self) -> &[Operations] {
        &self.operations
    }

    pub(super) fn operations_mut(&mut self) -> &mut [Operations] {
        &mut self.operations
    }
}

/// A number near the golden section of another without a factor in common with it.
pub(super) fn coprime(of: u64) -> u64 {
    let divides = |mut a: u64, mut b: u64| {
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a == 1
    };
    let near = (of as f64 * 0.618) as u64;
    (near.max(1)..).find(|step| divides(*step, of)).unwrap_or(1)
}

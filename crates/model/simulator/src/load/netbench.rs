//! The disk mix of NetBench (Compaq 1997): clients of a file server, each with its own workspace, each with one
//! request at a time. The mix itself is data (`netbench.toml`, with its source).
//!
//! Assumed, because the source does not say: a client's touched pages lie side by side at the start of its
//! workspace, the popular ones scattered among them; a flush writes through the data of the write before it; a
//! change of a directory writes one 4 KiB page of the file system's metadata at the start of the part. Opening,
//! closing and looking up existing files costs the server processor time ([`NetbenchSpec::compute`]) and no disk.
//! processor time ([`NetbenchSpec::compute`]) and no disk.

use diskwright_base::Rng;
use diskwright_base::toml_reader;
use diskwright_base::units::format_count;
use diskwright_base::zipf::Zipf;
use serde::Deserialize;

use crate::Ns;
use crate::io::{BLOCK_BYTES, Io};
use crate::load::place::{Lengths, room, stretch};
use crate::load::tally::Operations;
use crate::load::{Cause, DurationDistribution, LoadError, LoadRequest, RequestSizes, TargetPart};

/// Blocks of a 4 KiB page.
const PAGE: u64 = 8;
const MOST_CLIENTS: u32 = 1 << 20;
const READ: usize = 0;
const WRITE: usize = 1;
const DIRECTORY: usize = 2;

/// Clients of the disk mix.
#[derive(Clone, Debug, PartialEq)]
pub struct NetbenchSpec {
    /// Number of clients.
    pub clients: u32,
    /// Workspace of each client, bytes; Compaq 1997 has 15 MB.
    pub workspace_bytes: u64,
    /// Index of the target that holds the workspaces.
    pub target: u16,
    /// Part of the target in use.
    pub part: TargetPart,
    /// True if clients cache their reads and writes (opportunistic locks), so that the server sees only the rest.
    pub oplocks: bool,
    /// Delay before each request: the test's think time (0 in Compaq 1997) plus the time of client and network.
    pub think: DurationDistribution,
    /// Processor time of the server for each request.
    pub compute: DurationDistribution,
    /// True if requests go through the file cache, as on a file server.
    pub cached: bool,
    /// Number of requests after which the load ends.
    pub most_operations: Option<u64>,
}

impl Default for NetbenchSpec {
    /// The settings of Compaq 1997: a workspace of 15 MiB, MS-DOS clients, no think time; one client on the first
    /// target.
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
    /// Distance between the pages of consecutive ranks; coprime to the number of pages, so that every page is reached.
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
    /// End of its last request, in its workspace.
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
    pub(super) fn new(spec: &NetbenchSpec, target_blocks: &[u64], rng: Rng) -> Result<Netbench, LoadError> {
        if !(1..=MOST_CLIENTS).contains(&spec.clients) {
            return Err(LoadError::new("clients", format!("{} clients; expected 1 to {MOST_CLIENTS}", spec.clients)));
        }
        spec.think.check("think")?;
        spec.compute.check("compute")?;
        let data: NetbenchData = toml_reader::read("netbench.toml", include_str!("netbench.toml"))
            .map_err(|error| LoadError::new("netbench.toml", error.to_string()))?;
        let size_blocks = room(spec.target, target_blocks, "target")?;
        let (first, blocks) = stretch(&spec.part, size_blocks)?;
        let workspace = spec.workspace_bytes / BLOCK_BYTES / PAGE * PAGE;
        let touched = data.touched_pages * PAGE;
        if workspace < touched {
            let why = format!("{} bytes; the mix needs {}", spec.workspace_bytes, touched * BLOCK_BYTES);
            return Err(LoadError::new("workspace_bytes", why));
        }
        // layout: one metadata page for each client, then the workspaces
        let needed = workspace.saturating_add(PAGE).saturating_mul(u64::from(spec.clients));
        if needed > blocks {
            let workspaces = format_count(spec.clients, "workspace needs", "workspaces need");
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
            dice: rng,
        })
    }

    #[inline]
    pub(super) fn next(&mut self, now: Ns, agent: u32, cause: Cause, requests: &mut Vec<LoadRequest>) {
        let Some(client) = self.clients.get(agent as usize) else { return };
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
            () if self.dice.next_bool(self.directory_share) => DIRECTORY,
            () if self.dice.next_bool(self.write_share) => WRITE,
            () => READ,
        };
        let io = if class == DIRECTORY { self.directory(agent) } else { self.data(class, agent) };
        let durable = class == WRITE && self.dice.next_bool(self.flush_share);
        let client = &mut self.clients[agent as usize];
        (client.began, client.class) = (time, class as u8);
        let operations = &mut self.operations[class].totals;
        operations.begun += 1;
        operations.requests += 1;
        operations.bytes += u64::from(io.blocks) * BLOCK_BYTES;
        let compute = self.spec.compute.draw_ns(&mut self.dice);
        let cached = self.spec.cached && !durable;
        requests.push(LoadRequest { compute, cached, ..LoadRequest::request(time, agent, self.spec.target, io) });
    }

    fn directory(&self, agent: u32) -> Io {
        Io::write(self.first + u64::from(agent) * PAGE, PAGE as u32)
    }

    fn data(&mut self, class: usize, agent: u32) -> Io {
        let blocks = self.lengths[class].draw(&mut self.dice);
        let after = self.clients[agent as usize].next;
        let follows = self.dice.next_bool(self.follow[class]) && after + u64::from(blocks) <= self.workspace;
        let block = if follows { after } else { self.page().min(self.workspace - u64::from(blocks)) };
        self.clients[agent as usize].next = block + u64::from(blocks);
        let spaces = self.first + u64::from(self.spec.clients) * PAGE;
        Io { first: spaces + u64::from(agent) * self.workspace + block, blocks, write: class == WRITE }
    }

    /// Draws the first block of a page by popularity: ranks are scattered over the touched pages.
    fn page(&mut self) -> u64 {
        self.zipf.draw_rank(&mut self.dice) * self.step % self.pages * PAGE
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

/// Returns a number near the golden section of `modulus` that is coprime to it.
pub(super) fn coprime(modulus: u64) -> u64 {
    let are_coprime = |mut a: u64, mut b: u64| {
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a == 1
    };
    let near = (modulus as f64 * 0.618) as u64;
    (near.max(1)..).find(|step| are_coprime(*step, modulus)).unwrap_or(1)
}

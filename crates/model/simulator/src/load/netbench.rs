//! The disk mix of NetBench (Compaq 1997): clients of a file server, each with its own workspace, each with one
//! request at a time. The mix itself is data (`netbench.toml`, with its source).
//!
//! The source does not say the following, so it is assumed: a client's touched pages lie side by side at the start of
//! its workspace, the popular ones scattered among them; a flush writes through the data of the write before it; a
//! change of a directory writes one 4 KiB page of the file system's metadata at the start of the part. Opening, closing
//! and looking up existing files costs the server processor time ([`NetbenchSpec::compute`]) but no disk I/O.

use diskwright_base::Rng;
use diskwright_base::toml_reader;
use diskwright_base::units::format_count;
use diskwright_base::zipf::Zipf;
use serde::Deserialize;

use crate::Ns;
use crate::io::{BLOCK_BYTES, Io};
use crate::load::operation_totals::Operations;
use crate::load::placement::{LengthDistribution, find_target_blocks, resolve_part};
use crate::load::{Cause, DurationDistribution, LoadError, LoadRequest, RequestSizes, TargetPart};

/// Blocks of a 4 KiB page.
const PAGE_BLOCKS: u64 = 8;
const MAX_CLIENTS: u32 = 1 << 20;
const READ_CLASS: usize = 0;
const WRITE_CLASS: usize = 1;
const DIRECTORY_CLASS: usize = 2;

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
    /// True if clients cache their reads and writes (opportunistic locks), so that the server sees only the others.
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
    first_block: u64,
    workspace_blocks: u64,
    touched_pages: u64,
    /// Distance between the pages of consecutive ranks; coprime to the number of pages, so that every page is reached.
    page_step: u64,
    zipf: Zipf,
    lengths: [LengthDistribution; 2],
    follow_shares: [f64; 2],
    /// Share of requests to directories.
    directory_share: f64,
    /// Share of writes among the other requests.
    write_share: f64,
    /// Share of these writes that are flushed.
    flush_share: f64,
    clients: Vec<NetbenchClient>,
    operations: Vec<Operations>,
    finished_clients: u32,
    requests_left: u64,
    rng: Rng,
}

#[derive(Clone, Copy, Debug, Default)]
struct NetbenchClient {
    begin_ns: Ns,
    class: u8,
    /// End of its last request, in its workspace.
    next_block: u64,
}

fn count_requests(sizes: &[(u64, u64)]) -> f64 {
    sizes.iter().map(|size| size.1 as f64).sum()
}

fn build_lengths(sizes: &[(u64, u64)]) -> Result<LengthDistribution, LoadError> {
    let weighted = sizes.iter().map(|&(bytes, count)| (bytes, count as f64));
    LengthDistribution::new(&RequestSizes::Weighted(weighted.collect()), "netbench")
}

impl Netbench {
    pub(super) fn new(spec: &NetbenchSpec, target_blocks: &[u64], rng: Rng) -> Result<Netbench, LoadError> {
        if !(1..=MAX_CLIENTS).contains(&spec.clients) {
            return Err(LoadError::new("clients", format!("{} clients; expected 1 to {MAX_CLIENTS}", spec.clients)));
        }
        spec.think.check_limits("think")?;
        spec.compute.check_limits("compute")?;
        let data: NetbenchData = toml_reader::read("netbench.toml", include_str!("netbench.toml"))
            .map_err(|error| LoadError::new("netbench.toml", error.to_string()))?;
        let size_blocks = find_target_blocks(spec.target, target_blocks, "target")?;
        let (first, blocks) = resolve_part(&spec.part, size_blocks)?;
        let workspace = spec.workspace_bytes / BLOCK_BYTES / PAGE_BLOCKS * PAGE_BLOCKS;
        let touched = data.touched_pages * PAGE_BLOCKS;
        if workspace < touched {
            let reason = format!("{} bytes; the mix needs {}", spec.workspace_bytes, touched * BLOCK_BYTES);
            return Err(LoadError::new("workspace_bytes", reason));
        }
        // layout: one metadata page for each client, then the workspaces
        let needed = workspace.saturating_add(PAGE_BLOCKS).saturating_mul(u64::from(spec.clients));
        if needed > blocks {
            let workspaces = format_count(spec.clients, "workspace needs", "workspaces need");
            let reason = format!("{workspaces} {needed} blocks; the area has {blocks}");
            return Err(LoadError::new("clients", reason));
        }
        let capture = if spec.oplocks { &data.oplocks } else { &data.plain };
        let (reads, writes) = (count_requests(&capture.reads), count_requests(&capture.writes));
        let directory = (capture.creates + capture.deletes + capture.renames) as f64;
        Ok(Netbench {
            spec: spec.clone(),
            first_block: first,
            workspace_blocks: workspace,
            touched_pages: data.touched_pages,
            page_step: coprime_near_golden_section(data.touched_pages),
            zipf: Zipf::new(data.touched_pages, capture.theta),
            lengths: [build_lengths(&capture.reads)?, build_lengths(&capture.writes)?],
            follow_shares: [capture.reads_follow, capture.writes_follow],
            directory_share: directory / (directory + reads + writes),
            write_share: writes / (reads + writes),
            flush_share: capture.flushes as f64 / writes,
            clients: vec![NetbenchClient::default(); spec.clients as usize],
            operations: ["read", "write", "directory"].map(Operations::new).into(),
            finished_clients: 0,
            requests_left: spec.most_operations.unwrap_or(u64::MAX),
            rng,
        })
    }

    #[inline]
    pub(super) fn next(&mut self, now: Ns, agent: u32, cause: Cause, requests: &mut Vec<LoadRequest>) {
        let Some(client) = self.clients.get(agent as usize) else { return };
        if cause != Cause::Start {
            self.operations[usize::from(client.class)].record_done(client.begin_ns, now);
        }
        if self.requests_left == 0 {
            self.finished_clients += 1;
            return;
        }
        self.requests_left -= 1;
        let time = now.saturating_add(self.spec.think.draw_ns(&mut self.rng));
        let class = if self.rng.next_bool(self.directory_share) {
            DIRECTORY_CLASS
        } else if self.rng.next_bool(self.write_share) {
            WRITE_CLASS
        } else {
            READ_CLASS
        };
        let io = if class == DIRECTORY_CLASS { self.directory_write(agent) } else { self.draw_transfer(class, agent) };
        let is_flushed = class == WRITE_CLASS && self.rng.next_bool(self.flush_share);
        let client = &mut self.clients[agent as usize];
        (client.begin_ns, client.class) = (time, class as u8);
        let operations = &mut self.operations[class].totals;
        operations.begun += 1;
        operations.requests += 1;
        operations.bytes += u64::from(io.blocks) * BLOCK_BYTES;
        let compute = self.spec.compute.draw_ns(&mut self.rng);
        let cached = self.spec.cached && !is_flushed;
        requests.push(LoadRequest {
            compute_ns: compute,
            cached,
            ..LoadRequest::awaited_io(time, agent, self.spec.target, io)
        });
    }

    fn directory_write(&self, agent: u32) -> Io {
        Io::write(self.first_block + u64::from(agent) * PAGE_BLOCKS, PAGE_BLOCKS as u32)
    }

    fn draw_transfer(&mut self, class: usize, agent: u32) -> Io {
        let blocks = self.lengths[class].draw(&mut self.rng);
        let after = self.clients[agent as usize].next_block;
        let follows =
            self.rng.next_bool(self.follow_shares[class]) && after + u64::from(blocks) <= self.workspace_blocks;
        let block = if follows { after } else { self.draw_page_block().min(self.workspace_blocks - u64::from(blocks)) };
        self.clients[agent as usize].next_block = block + u64::from(blocks);
        let workspaces_start = self.first_block + u64::from(self.spec.clients) * PAGE_BLOCKS;
        Io {
            first: workspaces_start + u64::from(agent) * self.workspace_blocks + block,
            blocks,
            write: class == WRITE_CLASS,
        }
    }

    /// Draws the first block of a page by popularity: ranks are scattered over the touched pages.
    fn draw_page_block(&mut self) -> u64 {
        self.zipf.draw_rank(&mut self.rng) * self.page_step % self.touched_pages * PAGE_BLOCKS
    }

    pub(super) fn user_count(&self) -> u32 {
        self.spec.clients
    }

    pub(super) fn is_finished(&self) -> bool {
        self.finished_clients == self.spec.clients
    }

    pub(super) fn operations(&self) -> &[Operations] {
        &self.operations
    }

    pub(super) fn operations_mut(&mut self) -> &mut [Operations] {
        &mut self.operations
    }
}

/// Returns a number near the golden section of `modulus` that is coprime to it.
pub(super) fn coprime_near_golden_section(modulus: u64) -> u64 {
    let are_coprime = |mut a: u64, mut b: u64| {
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a == 1
    };
    let golden = (modulus as f64 * 0.618) as u64;
    (golden.max(1)..).find(|step| are_coprime(*step, modulus)).unwrap_or(1)
}

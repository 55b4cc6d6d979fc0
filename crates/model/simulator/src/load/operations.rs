//! Execution of an operation, request by request: the transfers of its class one after another, the pieces of a
//! transfer in parallel.

use diskwright_base::Rng;

use crate::Ns;
use crate::io::{BLOCK_BYTES, Io};
use crate::load::placement::{LengthDistribution, PlaceGenerator, find_target_blocks, resolve_part};
use crate::load::{Cause, DurationDistribution, LoadError, LoadRequest, OperationClass, OperationTransfer, Operations};

/// Largest number of classes of a load, and of transfers of a class.
const MAX_CLASSES: usize = 1000;

/// Largest number of posted requests in flight; the load waits for further ones, as if buffers were full.
const MAX_POSTED_IN_FLIGHT: u32 = 1 << 16;

/// Flag in the agent number of a posted request, with which its issue and its completion are reported.
pub(super) const POSTED_FLAG: u32 = 1 << 31;

/// Classes of operations of a load, ready to draw from, with the counters of each.
#[derive(Clone, Debug)]
pub(super) struct OperationRunner {
    classes: Vec<Vec<TransferPlan>>,
    rounds: Vec<u32>,
    posted_in_flight: u32,
    pub(super) operations: Vec<Operations>,
}

/// A transfer, ready to draw from.
#[derive(Clone, Debug)]
struct TransferPlan {
    target: u16,
    places: PlaceGenerator,
    reads: LengthDistribution,
    writes: LengthDistribution,
    read_share: f64,
    total_blocks: Option<u64>,
    parallel: u32,
    pause: DurationDistribution,
    compute: DurationDistribution,
    cached: bool,
    posted: bool,
}

/// An operation in flight.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OperationFlight {
    pub(super) begin_ns: Ns,
    class: u16,
    transfer: u16,
    write: bool,
    /// Rounds left after this one.
    rounds_left: u32,
    /// Pieces in flight.
    pieces_in_flight: u32,
    /// First block of the next piece.
    next_block: u64,
    /// Blocks not yet requested.
    blocks_left: u64,
}

/// Time and agent of the next step of an operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct OperationTurn {
    pub(super) time: Ns,
    /// Agent that waits for the request.
    pub(super) agent: u32,
    /// User whose sequential stream is used.
    pub(super) user: u32,
}

impl OperationRunner {
    pub(super) fn new(
        classes: &[OperationClass],
        target_blocks: &[u64],
        users: u32,
    ) -> Result<OperationRunner, LoadError> {
        if classes.is_empty() || classes.len() > MAX_CLASSES {
            return Err(LoadError::new("classes", format!("{} classes; expected 1 to {MAX_CLASSES}", classes.len())));
        }
        let mut runner =
            OperationRunner { classes: Vec::new(), rounds: Vec::new(), posted_in_flight: 0, operations: Vec::new() };
        for class in classes {
            if class.transfers.is_empty() || class.transfers.len() > MAX_CLASSES || class.rounds == 0 {
                let reason =
                    format!("class `{}` needs 1 to {MAX_CLASSES} transfers and at least one round", class.name);
                return Err(LoadError::new("transfers", reason));
            }
            let plans = class.transfers.iter().map(|transfer| TransferPlan::new(transfer, target_blocks, users));
            runner.classes.push(plans.collect::<Result<_, _>>()?);
            runner.rounds.push(class.rounds);
            runner.operations.push(Operations::new(&class.name));
        }
        Ok(runner)
    }

    /// Begins an operation of a class and issues its first requests.
    #[inline]
    pub(super) fn begin_operation(
        &mut self,
        class: usize,
        turn: OperationTurn,
        rng: &mut Rng,
        requests: &mut Vec<LoadRequest>,
    ) -> OperationFlight {
        let mut flight = OperationFlight {
            begin_ns: turn.time,
            class: class as u16,
            rounds_left: self.rounds[class] - 1,
            ..OperationFlight::default()
        };
        self.operations[class].totals.begun += 1;
        self.begin_transfer(&mut flight, turn, rng, requests);
        flight
    }

    /// Continues an operation after one of its requests is done (or issued, if posted); returns true if that was its
    /// last request.
    #[inline]
    pub(super) fn continue_operation(
        &mut self,
        flight: &mut OperationFlight,
        turn: OperationTurn,
        rng: &mut Rng,
        requests: &mut Vec<LoadRequest>,
    ) -> bool {
        flight.pieces_in_flight = flight.pieces_in_flight.saturating_sub(1);
        if flight.blocks_left > 0 {
            self.issue_piece(flight, turn, rng, requests);
            return false;
        }
        if flight.pieces_in_flight > 0 {
            return false;
        }
        let class = usize::from(flight.class);
        flight.transfer += 1;
        if usize::from(flight.transfer) == self.classes[class].len() {
            if flight.rounds_left == 0 {
                self.operations[class].record_done(flight.begin_ns, turn.time);
                return true;
            }
            flight.rounds_left -= 1;
            flight.transfer = 0;
        }
        self.begin_transfer(flight, turn, rng, requests);
        false
    }

    /// Returns the agent that continues; `None` if a posted request is done, for which no agent waits.
    #[inline]
    pub(super) fn resolve_agent(&mut self, agent: u32, cause: Cause) -> Option<u32> {
        if agent & POSTED_FLAG != 0 && cause == Cause::Done {
            debug_assert!(self.posted_in_flight > 0, "a posted request completes that was not in flight");
            self.posted_in_flight -= 1;
            return None;
        }
        Some(agent & !POSTED_FLAG)
    }

    /// Counts an arrival that was turned away.
    pub(super) fn count_lost(&mut self, class: usize) {
        self.operations[class].totals.lost += 1;
    }

    fn begin_transfer(
        &mut self,
        flight: &mut OperationFlight,
        turn: OperationTurn,
        rng: &mut Rng,
        requests: &mut Vec<LoadRequest>,
    ) {
        let plan = &mut self.classes[usize::from(flight.class)][usize::from(flight.transfer)];
        flight.write = match plan.read_share {
            1.0 => false,
            0.0 => true,
            share => rng.next_f64() >= share,
        };
        match plan.total_blocks {
            None => {
                flight.blocks_left = u64::from(plan.lengths_for(flight.write).draw(rng));
                flight.next_block = plan.places.draw(turn.user, flight.blocks_left, rng);
                let blocks = flight.blocks_left as u32;
                self.issue_request(flight, blocks, turn, rng, requests);
            }
            Some(total) => {
                flight.blocks_left = total;
                flight.next_block = plan.places.draw(turn.user, total, rng);
                for _ in 0..plan.parallel {
                    if flight.blocks_left > 0 {
                        self.issue_piece(flight, turn, rng, requests);
                    }
                }
            }
        }
    }

    fn issue_piece(
        &mut self,
        flight: &mut OperationFlight,
        turn: OperationTurn,
        rng: &mut Rng,
        requests: &mut Vec<LoadRequest>,
    ) {
        let plan = &self.classes[usize::from(flight.class)][usize::from(flight.transfer)];
        let blocks = u64::from(plan.lengths_for(flight.write).draw(rng)).min(flight.blocks_left);
        self.issue_request(flight, blocks as u32, turn, rng, requests);
    }

    #[inline]
    fn issue_request(
        &mut self,
        flight: &mut OperationFlight,
        blocks: u32,
        turn: OperationTurn,
        rng: &mut Rng,
        requests: &mut Vec<LoadRequest>,
    ) {
        let plan = &self.classes[usize::from(flight.class)][usize::from(flight.transfer)];
        let start_ns = turn.time.saturating_add(plan.pause.draw_ns(rng));
        let compute = plan.compute.draw_ns(rng);
        let posted = plan.posted && self.posted_in_flight < MAX_POSTED_IN_FLIGHT;
        self.posted_in_flight += u32::from(posted);
        requests.push(LoadRequest {
            start_ns,
            agent: if posted { turn.agent | POSTED_FLAG } else { turn.agent },
            target: plan.target,
            io: Io { first: flight.next_block, blocks, write: flight.write },
            // if posting took no processor time, time would never pass: at least 1 ns
            compute_ns: if posted { compute.max(1) } else { compute },
            cached: plan.cached,
            report_issued: posted,
            report_done: true,
        });
        flight.next_block += u64::from(blocks);
        flight.blocks_left -= u64::from(blocks);
        flight.pieces_in_flight += 1;
        let totals = &mut self.operations[usize::from(flight.class)].totals;
        totals.requests += 1;
        totals.bytes += u64::from(blocks) * BLOCK_BYTES;
    }
}

impl TransferPlan {
    fn new(transfer: &OperationTransfer, target_blocks: &[u64], users: u32) -> Result<TransferPlan, LoadError> {
        let size_blocks = find_target_blocks(transfer.target, target_blocks, "target")?;
        let reads = LengthDistribution::new(&transfer.bytes, "bytes")?;
        let writes = match &transfer.write_bytes {
            Some(sizes) => LengthDistribution::new(sizes, "write_bytes")?,
            None => reads.clone(),
        };
        let total = match transfer.total_bytes {
            Some(bytes) if bytes == 0 || !bytes.is_multiple_of(BLOCK_BYTES) => {
                return Err(LoadError::new(
                    "total_bytes",
                    format!("{bytes} bytes; expected a multiple of 512 above 0"),
                ));
            }
            bytes => bytes.map(|bytes| bytes / BLOCK_BYTES),
        };
        if !(0.0..=1.0).contains(&transfer.read_share) {
            return Err(LoadError::new("read_share", format!("{}; expected a share from 0 to 1", transfer.read_share)));
        }
        if !(1..=65_536).contains(&transfer.parallel) {
            return Err(LoadError::new("parallel", "expected 1 to 65536 requests at a time"));
        }
        if !transfer.align_bytes.is_multiple_of(BLOCK_BYTES) {
            return Err(LoadError::new("align_bytes", "expected a multiple of 512 bytes"));
        }
        transfer.pause.check_limits("pause")?;
        transfer.compute.check_limits("compute")?;
        let longest = total.unwrap_or(u64::from(reads.max_blocks().max(writes.max_blocks())));
        let align = match transfer.align_bytes / BLOCK_BYTES {
            0 => u64::from(reads.min_blocks().min(writes.min_blocks())),
            blocks => blocks,
        };
        let area = resolve_part(&transfer.part, size_blocks)?;
        let places = PlaceGenerator::new(&transfer.access, area, align, longest, users)?;
        let OperationTransfer { target, read_share, parallel, pause, compute, cached, posted, .. } = *transfer;
        Ok(TransferPlan {
            target,
            places,
            reads,
            writes,
            read_share,
            total_blocks: total,
            parallel,
            pause,
            compute,
            cached,
            posted,
        })
    }

    #[inline]
    fn lengths_for(&self, write: bool) -> &LengthDistribution {
        if write { &self.writes } else { &self.reads }
    }
}

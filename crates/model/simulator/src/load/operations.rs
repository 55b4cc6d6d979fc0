//! Execution of an operation, request by request: the transfers of its class one after another, the pieces of a
//! transfer in parallel.

use diskwright_base::Rng;

use crate::Ns;
use crate::io::{BLOCK_BYTES, Io};
use crate::load::place::{Lengths, PlaceGenerator, room, stretch};
use crate::load::{Cause, DurationDistribution, LoadError, LoadRequest, OperationClass, OperationTransfer, Operations};

/// Largest number of classes of a load, and of transfers of a class.
const MOST: usize = 1000;

/// Largest number of posted requests in flight; the load waits for further ones, as when buffers are full.
const MOST_POSTED: u32 = 1 << 16;

/// Flag in the agent of a posted request, whose issue and completion are reported with it.
pub(super) const POSTED: u32 = 1 << 31;

/// Classes of operations of a load, ready to draw from, with the counters of each.
#[derive(Clone, Debug)]
pub(super) struct OperationBook {
    classes: Vec<Vec<TransferPlan>>,
    rounds: Vec<u32>,
    posted_out: u32,
    pub(super) operations: Vec<Operations>,
}

/// A transfer, ready to draw from.
#[derive(Clone, Debug)]
struct TransferPlan {
    target: u16,
    places: PlaceGenerator,
    reads: Lengths,
    writes: Lengths,
    read_share: f64,
    total: Option<u64>,
    parallel: u32,
    pause: DurationDistribution,
    compute: DurationDistribution,
    cached: bool,
    posted: bool,
}

/// An operation in flight.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OperationFlight {
    pub(super) began: Ns,
    class: u16,
    transfer: u16,
    write: bool,
    /// Rounds left after this one.
    rounds: u32,
    /// Pieces in flight.
    out: u32,
    /// First block of the next piece, and blocks not yet requested.
    next: u64,
    left: u64,
}

/// Time and agent of the next step of an operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct NextOperation {
    pub(super) at: Ns,
    /// Agent that waits for the request.
    pub(super) who: u32,
    /// User whose sequential stream is used.
    pub(super) user: u32,
}

impl OperationBook {
    pub(super) fn new(
        classes: &[OperationClass],
        target_blocks: &[u64],
        users: u32,
    ) -> Result<OperationBook, LoadError> {
        if classes.is_empty() || classes.len() > MOST {
            return Err(LoadError::new("classes", format!("{} classes; expected 1 to {MOST}", classes.len())));
        }
        let mut book = OperationBook { classes: Vec::new(), rounds: Vec::new(), posted_out: 0, operations: Vec::new() };
        for class in classes {
            if class.transfers.is_empty() || class.transfers.len() > MOST || class.rounds == 0 {
                let why = format!("class `{}` needs 1 to {MOST} transfers and at least one round", class.name);
                return Err(LoadError::new("transfers", why));
            }
            let plans = class.transfers.iter().map(|transfer| TransferPlan::new(transfer, target_blocks, users));
            book.classes.push(plans.collect::<Result<_, _>>()?);
            book.rounds.push(class.rounds);
            book.operations.push(Operations::new(&class.name));
        }
        Ok(book)
    }

    /// Begins an operation of a class and issues its first requests.
    #[inline]
    pub(super) fn begin(
        &mut self,
        class: usize,
        turn: NextOperation,
        rng: &mut Rng,
        requests: &mut Vec<LoadRequest>,
    ) -> OperationFlight {
        let mut flight = OperationFlight {
            began: turn.at,
            class: class as u16,
            rounds: self.rounds[class] - 1,
            ..OperationFlight::default()
        };
        self.operations[class].totals.begun += 1;
        self.transfer(&mut flight, turn, rng, requests);
        flight
    }

    /// Continues an operation after one of its requests is done (or issued, if posted); returns true if that was the
    /// last.
    #[inline]
    pub(super) fn go_on(
        &mut self,
        flight: &mut OperationFlight,
        turn: NextOperation,
        rng: &mut Rng,
        requests: &mut Vec<LoadRequest>,
    ) -> bool {
        flight.out = flight.out.saturating_sub(1);
        if flight.left > 0 {
            self.piece(flight, turn, rng, requests);
            return false;
        }
        if flight.out > 0 {
            return false;
        }
        let class = usize::from(flight.class);
        flight.transfer += 1;
        if usize::from(flight.transfer) == self.classes[class].len() {
            if flight.rounds == 0 {
                self.operations[class].done(flight.began, turn.at);
                return true;
            }
            flight.rounds -= 1;
            flight.transfer = 0;
        }
        self.transfer(flight, turn, rng, requests);
        false
    }

    /// Returns the agent that goes on; `None` where a posted request was completed, for which no agent waits.
    #[inline]
    pub(super) fn told(&mut self, agent: u32, cause: Cause) -> Option<u32> {
        if agent & POSTED != 0 && cause == Cause::Done {
            self.posted_out -= 1;
            return None;
        }
        Some(agent & !POSTED)
    }

    /// Counts an arrival that was turned away.
    pub(super) fn lost(&mut self, class: usize) {
        self.operations[class].totals.lost += 1;
    }

    fn transfer(
        &mut self,
        flight: &mut OperationFlight,
        turn: NextOperation,
        rng: &mut Rng,
        requests: &mut Vec<LoadRequest>,
    ) {
        let plan = &mut self.classes[usize::from(flight.class)][usize::from(flight.transfer)];
        flight.write = match plan.read_share {
            1.0 => false,
            0.0 => true,
            share => rng.next_f64() >= share,
        };
        match plan.total {
            None => {
                flight.left = u64::from(plan.lengths(flight.write).draw(rng));
                flight.next = plan.places.draw(turn.user, flight.left, rng);
                let blocks = flight.left as u32;
                self.ask(flight, blocks, turn, rng, requests);
            }
            Some(total) => {
                flight.left = total;
                flight.next = plan.places.draw(turn.user, total, rng);
                for _ in 0..work.parallel {
                    if flight.left > 0 {
                        self.piece(flight, turn, rng, requests);
                    }
                }
            }
        }
    }

    fn piece(
        &mut self,
        flight: &mut OperationFlight,
        turn: NextOperation,
        rng: &mut Rng,
        requests: &mut Vec<LoadRequest>,
    ) {
        let plan = &self.classes[usize::from(flight.class)][usize::from(flight.transfer)];
        let blocks = u64::from(plan.lengths(flight.write).draw(rng)).min(flight.left);
        self.ask(flight, blocks as u32, turn, rng, requests);
    }

    #[inline]
    fn ask(
        &mut self,
        flight: &mut OperationFlight,
        blocks: u32,
        turn: NextOperation,
        rng: &mut Rng,
        requests: &mut Vec<LoadRequest>,
    ) {
        let plan = &self.classes[usize::from(flight.class)][usize::from(flight.transfer)];
        let at = turn.at.saturating_add(plan.pause.draw_ns(rng));
        let compute = plan.compute.draw_ns(rng);
        let posted = plan.posted && self.posted_out < MOST_POSTED;
        self.posted_out += u32::from(posted);
        requests.push(LoadRequest {
            at,
            who: if posted { turn.who | POSTED } else { turn.who },
            target: plan.target,
            io: Io { first: flight.next, blocks, write: flight.write },
            // posting without any processor time would never let time pass: at least 1 ns
            compute: if posted { compute.max(1) } else { compute },
            cached: plan.cached,
            tell_issued: posted,
            wait: true,
        });
        flight.next += u64::from(blocks);
        flight.left -= u64::from(blocks);
        flight.out += 1;
        let totals = &mut self.operations[usize::from(flight.class)].totals;
        totals.requests += 1;
        totals.bytes += u64::from(blocks) * BLOCK_BYTES;
    }
}

impl TransferPlan {
    fn new(transfer: &OperationTransfer, target_blocks: &[u64], users: u32) -> Result<TransferPlan, LoadError> {
        let size_blocks = room(transfer.target, target_blocks, "target")?;
        let reads = Lengths::new(&transfer.bytes, "bytes")?;
        let writes = match &transfer.write_bytes {
            Some(sizes) => Lengths::new(sizes, "write_bytes")?,
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
        transfer.pause.check("pause")?;
        transfer.compute.check("compute")?;
        let longest = total.unwrap_or(u64::from(reads.most().max(writes.most())));
        let align = match transfer.align_bytes / BLOCK_BYTES {
            0 => u64::from(reads.least().min(writes.least())),
            blocks => blocks,
        };
        let area = stretch(&transfer.part, size_blocks)?;
        let places = PlaceGenerator::new(&transfer.access, area, align, longest, users)?;
        let OperationTransfer { target, read_share, parallel, pause, compute, cached, posted, .. } = *transfer;
        Ok(TransferPlan { target, places, reads, writes, read_share, total, parallel, pause, compute, cached, posted })
    }

    #[inline]
    fn lengths(&self, write: bool) -> &Lengths {
        if write { &self.writes } else { &self.reads }
    }
}

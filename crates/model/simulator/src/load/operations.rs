//! One operation, request by request: the transfers of its class one after
//! another, the pieces of a transfer side by side.

use diskwright_base::Rng;

use crate::Ns;
use crate::io::{BLOCK_BYTES, Io};
use crate::load::place::{Lengths, PlaceGenerator, room, stretch};
use crate::load::{Cause, DurationDistribution, LoadError, LoadRequest, OperationClass, OperationTransfer, Operations};

/// Most classes of a load and transfers of a class.
const MOST: usize = 1000;

/// Most posted requests under way; further ones are waited for, as when buffers are full.
const MOST_POSTED: u32 = 1 << 16;

/// Marks who is told of posted requests: that they are issued, and later done.
pub(super) const POSTED: u32 = 1 << 31;

/// Everything that can be done, ready to draw from.
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

/// An operation under way.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OperationFlight {
    pub(super) began: Ns,
    class: u16,
    transfer: u16,
    write: bool,
    /// Rounds still to come after this one.
    rounds: u32,
    /// Pieces under way.
    out: u32,
    /// Where the next piece begins, and blocks still to ask for.
    next: u64,
    left: u64,
}

/// For whom and when an operation goes on.
#[derive(Clone, Copy, Debug)]
pub(super) struct NextOperation {
    pub(super) at: Ns,
    /// Who is told.
    pub(super) who: u32,
    /// Whose stream is read.
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
            let works = class.transfers.iter().map(|transfer| TransferPlan::new(transfer, target_blocks, users));
            book.classes.push(works.collect::<Result<_, _>>()?);
            book.rounds.push(class.rounds);
            book.operations.push(Operations::new(&class.name));
        }
        Ok(book)
    }

    /// Begins an operation of a class.
    #[inline]
    pub(super) fn begin(
        &mut self,
        class: usize,
        turn: NextOperation,
        dice: &mut Rng,
        asks: &mut Vec<LoadRequest>,
    ) -> OperationFlight {
        let mut flight = OperationFlight {
            began: turn.at,
            class: class as u16,
            rounds: self.rounds[class] - 1,
            ..OperationFlight::default()
        };
        self.operations[class].totals.begun += 1;
        self.transfer(&mut flight, turn, dice, asks);
        flight
    }

    /// One of its requests is done (or issued, where nobody waits): true where that was the last.
    #[inline]
    pub(super) fn go_on(
        &mut self,
        flight: &mut OperationFlight,
        turn: NextOperation,
        dice: &mut Rng,
        asks: &mut Vec<LoadRequest>,
    ) -> bool {
        flight.out = flight.out.saturating_sub(1);
        if flight.left > 0 {
            self.piece(flight, turn, dice, asks);
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
        self.transfer(flight, turn, dice, asks);
        false
    }

    /// Who goes on; `None` where it was a posted request's end, for which nobody waits.
    #[inline]
    pub(super) fn told(&mut self, who: u32, cause: Cause) -> Option<u32> {
        if who & POSTED != 0 && cause == Cause::Done {
            self.posted_out -= 1;
            return None;
        }
        Some(who & !POSTED)
    }

    /// What came and was turned away.
    pub(super) fn lost(&mut self, class: usize) {
        self.operations[class].totals.lost += 1;
    }

    fn transfer(
        &mut self,
        flight: &mut OperationFlight,
        turn: NextOperation,
        dice: &mut Rng,
        asks: &mut Vec<LoadRequest>,
    ) {
        let work = &mut self.classes[usize::from(flight.class)][usize::from(flight.transfer)];
        flight.write = match work.read_share {
            1.0 => false,
            0.0 => true,
            share => dice.share() >= share,
        };
        match work.total {
            None => {
                flight.left = u64::from(work.lengths(flight.write).draw(dice));
                flight.next = work.places.draw(turn.user, flight.left, dice);
                let blocks = flight.left as u32;
                self.ask(flight, blocks, turn, dice, asks);
            }
            Some(total) => {
                flight.left = total;
                flight.next = work.places.draw(turn.user, total, dice);
                for _ in 0..work.parallel {
                    if flight.left > 0 {
                        self.piece(flight, turn, dice, asks);
                    }
                }
            }
        }
    }

    fn piece(
        &mut self,
        flight: &mut OperationFlight,
        turn: NextOperation,
        dice: &mut Rng,
        asks: &mut Vec<LoadRequest>,
    ) {
        let work = &self.classes[usize::from(flight.class)][usize::from(flight.transfer)];
        let blocks = u64::from(work.lengths(flight.write).draw(dice)).min(flight.left);
        self.ask(flight, blocks as u32, turn, dice, asks);
    }

    #[inline]
    fn ask(
        &mut self,
        flight: &mut OperationFlight,
        blocks: u32,
        turn: NextOperation,
        dice: &mut Rng,
        asks: &mut Vec<LoadRequest>,
    ) {
        let work = &self.classes[usize::from(flight.class)][usize::from(flight.transfer)];
        let at = turn.at.saturating_add(work.pause.draw_ns(dice));
        let compute = work.compute.draw_ns(dice);
        let posted = work.posted && self.posted_out < MOST_POSTED;
        self.posted_out += u32::from(posted);
        asks.push(LoadRequest {
            at,
            who: if posted { turn.who | POSTED } else { turn.who },
            target: work.target,
            io: Io { first: flight.next, blocks, write: flight.write },
            // who waits for nothing still lets time pass
            compute: if posted { compute.max(1) } else { compute },
            cached: work.cached,
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
        let room = room(transfer.target, target_blocks, "target")?;
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
        let stretch = stretch(&transfer.part, room)?;
        let places = PlaceGenerator::new(&transfer.access, stretch, align, longest, users)?;
        let OperationTransfer { target, read_share, parallel, pause, compute, cached, posted, .. } = *transfer;
        Ok(TransferPlan { target, places, reads, writes, read_share, total, parallel, pause, compute, cached, posted })
    }

    #[inline]
    fn lengths(&self, write: bool) -> &Lengths {
        if write { &self.writes } else { &self.reads }
    }
}

//! An SSD: channels, dies and planes behind a host interface, a write buffer,
//! a map in units with garbage collection, and, on some, a fast part of the flash.
//!
//! What a request needs is reserved when it comes, so that the moment at which
//! it is done is known at once. Dies serve reads in the order in which they
//! came; programs and erases stand in a second line of the same die, which
//! reads overtake (at the end of the running program, or by suspending it), and
//! which pays the time that reads took from it. Channels, link and processors
//! are lines of work that nobody can hold before his turn.
//!
//! What is left simple: reads find their data where writing the drive in order
//! would have put them; a read of what was never written takes as long as any;
//! one time to program and to read stands for all kinds of pages; no wear, no
//! retries, no refresh.

mod facts;
mod reads;
mod spec;
mod table;
mod writes;

use std::sync::Arc;

pub use spec::{FlashModel, FlashSpec, FlashTotals, Slc, Start};
use table::FlashMap;

use crate::Ns;
use crate::io::{BLOCK_BYTES, Io};

/// One die.
#[derive(Clone, Copy, Debug)]
struct Die {
    /// When its programs and erases are through.
    writes: Ns,
    /// The last erase.
    erase: (Ns, Ns),
    /// Pages programmed in the open blocks.
    programmed: u32,
    /// The row of pages in its registers.
    row: u64,
    /// When that came.
    row_at: Ns,
}

/// An SSD at work.
#[derive(Clone, Debug)]
pub struct FlashDevice {
    model: Arc<FlashModel>,
    /// When the processors, the two directions of the link and the channels have done what they were given.
    processor: Ns,
    link: [Ns; 2],
    channels: Vec<Ns>,
    dies: Vec<Die>,
    /// When each die (or each plane of it) has done its reads.
    readers: Vec<Ns>,
    buffer: writes::FlashBuffer,
    /// Where the next program goes.
    next_die: u32,
    /// Units that garbage collection still has to move.
    debt: f64,
    table: Option<Box<FlashMap>>,
    /// Bytes in the fast part of the flash.
    slc: f64,
    /// Bytes that went from there into the rest since the beginning.
    folded: f64,
    /// When all that was asked for is done.
    quiet: Ns,
    totals: FlashTotals,
}

/// Clearing one entry of the map takes so long. An assumption: no data sheet prints it. It is about one
/// access to the memory that the map is in; 8.6 GB in units of 4 KiB take 21 ms. Drives that were measured lie
/// between nothing and 10 ms for a command of any size (Purdea, "Measure the performance of the TRIM command",
/// purdea.ro/projects/trim_perf).
const TRIM_ENTRY: Ns = 10;

/// Time of so many bytes at a rate of [`spec::FlashModel`].
#[inline]
fn time(bytes: u64, byte: u64) -> Ns {
    (bytes * byte) >> 16
}

/// Work of this length joins a line at a moment; says when it is through.
#[inline]
fn join(line: &mut Ns, now: Ns, work: Ns) -> Ns {
    *line = (*line).max(now) + work;
    *line
}

impl FlashDevice {
    /// An SSD in the first state of its model, at rest.
    pub fn new(model: &Arc<FlashModel>) -> FlashDevice {
        let spec = model.spec();
        let dies = model.all_dies as usize;
        let readers = if spec.independent_planes { dies * spec.planes as usize } else { dies };
        // the dies' blocks are not all full at the same moment
        let die = |index: usize| Die {
            writes: 0,
            erase: (0, 0),
            programmed: (index as u64 * u64::from(spec.pages) / dies as u64) as u32,
            row: u64::MAX,
            row_at: 0,
        };
        FlashDevice {
            processor: 0,
            link: [0; 2],
            channels: vec![0; spec.channels as usize],
            dies: (0..dies).map(die).collect(),
            readers: vec![0; readers],
            buffer: writes::FlashBuffer::new(model),
            next_die: 0,
            debt: 0.0,
            table: None,
            slc: 0.0,
            folded: 0.0,
            quiet: 0,
            totals: FlashTotals { page: spec.page, ..FlashTotals::default() },
            model: Arc::clone(model),
        }
    }

    /// What it is.
    pub fn model(&self) -> &Arc<FlashModel> {
        &self.model
    }

    /// Requests that it takes at a time.
    pub fn slots(&self) -> u32 {
        self.model.slots()
    }

    /// Counts since the beginning.
    pub fn totals(&self) -> FlashTotals {
        self.totals
    }

    /// Dies, for shares of [`FlashTotals::die_busy_ns`].
    pub fn dies(&self) -> u32 {
        self.model.all_dies
    }

    /// Time that each of its parts was needed since the beginning, s: the drive's processor,
    /// the link to the host (each direction where it is duplex), the dies, the channels. A part
    /// that was needed as long as time went by is full. Dies and channels are shares of all.
    pub fn needed_s(&self) -> [f64; 5] {
        let (spec, totals) = (self.model.spec(), &self.totals);
        let commands = [spec.command_read, spec.command_write];
        let processor: f64 =
            commands.iter().zip(totals.requests).map(|(each, count)| *each as f64 * count as f64).sum();
        let link = totals.blocks.map(|blocks| blocks as f64 * BLOCK_BYTES as f64 / spec.link);
        let link = if spec.duplex { link } else { [link[0] + link[1] + processor * 1e-9, 0.0] };
        let dies = totals.die_busy_ns as f64 * 1e-9 / f64::from(self.model.all_dies.max(1));
        let pages = (totals.pages_read + totals.pages_programmed) as f64;
        let channels = pages * f64::from(spec.page) / (spec.channel * f64::from(spec.channels.max(1)));
        [processor * 1e-9, link[0], link[1], dies, channels]
    }

    /// The line on which commands are worked on: the processors, or a link that has both directions and
    /// the commands on it one after the other.
    #[inline]
    fn commands(&mut self) -> &mut Ns {
        if self.model.spec.duplex { &mut self.processor } else { &mut self.link[0] }
    }

    /// A command comes that moves so many bytes: when it is worked on, and when the link can have moved them.
    #[inline]
    fn command(&mut self, now: Ns, write: bool, bytes: u64) -> (Ns, Ns) {
        let spec = &self.model.spec;
        let work = if write { spec.command_write } else { spec.command_read };
        let line = if spec.duplex { usize::from(write) } else { 0 };
        let moves = time(bytes, self.model.link);
        let begin = join(self.commands(), now, work);
        (begin, join(&mut self.link[line], begin, moves))
    }

    /// All that was reported is to be in the flash: says when it is. A drive whose buffer outlives a
    /// loss of power, or that has none, answers as soon as it can. `now` never goes back.
    pub fn flush(&mut self, now: Ns) -> Ns {
        self.fold_while_idle(now);
        let work = self.model.spec.command_write;
        let begin = join(self.commands(), now, work);
        let kept = if self.model.spec.protected { begin } else { self.program_all(now, begin) };
        let done = begin.max(kept) + self.model.spec.latency_write;
        self.quiet = self.quiet.max(done);
        done
    }

    /// [`FlashDevice::trim`] as a request: a command, and [`TRIM_ENTRY`] for each unit of the map that it
    /// covers. Its processors take other commands meanwhile no sooner. `now` never goes back.
    pub fn trimmed(&mut self, now: Ns, io: &Io) -> Ns {
        self.fold_while_idle(now);
        self.trim(io);
        let units = u64::from(io.blocks) / u64::from(self.model.unit_blocks);
        let work = self.model.spec.command_write + units * TRIM_ENTRY;
        let done = join(self.commands(), now, work) + self.model.spec.latency_write;
        self.quiet = self.quiet.max(done);
        done
    }

    /// Takes a request, and says when it is done. `now` never goes back.
    #[inline]
    pub fn submit(&mut self, now: Ns, io: &Io) -> Ns {
        let all = self.model.blocks();
        let first = io.first.min(all - 1);
        let io = Io { first, blocks: u64::from(io.blocks.max(1)).min(all - first) as u32, write: io.write };
        self.fold_while_idle(now);
        self.totals.requests[usize::from(io.write)] += 1;
        self.totals.blocks[usize::from(io.write)] += u64::from(io.blocks);
        let done = if io.write { self.write(now, &io) } else { self.read(now, &io) };
        self.quiet = self.quiet.max(done);
        done
    }
}

#[cfg(test)]
mod tests;

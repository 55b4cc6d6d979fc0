//! Model of an SSD: channels, dies and planes behind a host interface, a write buffer, a map in units with garbage
//! collection, and, on some drives, an SLC cache.
//!
//! The resources of a request are reserved when it arrives, so that its completion time is known at once. Dies serve
//! reads in order of arrival. Programs and erases wait in a second queue of the same die; reads overtake them (at the
//! end of the running program, or by suspending it), and delay them by the time that the reads take. Channels, link and
//! processors are queues of work in order of arrival.
//!
//! Simplifications: reads find their data where writing the drive in order would have put it; a read of a block never
//! written takes as long as any other; one time to program and one to read hold for all kinds of pages; no wear, no
//! retries, no refresh.

mod characteristics;
mod flash_map;
mod reads;
mod spec;
mod writes;

use std::sync::Arc;

use flash_map::FlashMap;
pub use spec::{FlashModel, FlashSpec, FlashTotals, InitialState, SlcCache};

use crate::Ns;
use crate::io::{BLOCK_BYTES, Io};

/// Loaded row of a die whose registers hold no row.
const NO_ROW: u64 = u64::MAX;

/// State of a die.
#[derive(Clone, Copy, Debug)]
struct Die {
    /// Time at which its programs and erases are complete.
    writes_done_at: Ns,
    /// Start and end of the last erase.
    last_erase: (Ns, Ns),
    /// Pages programmed in the open blocks.
    pages_programmed: u32,
    /// Row of pages in its registers, or [`NO_ROW`].
    loaded_row: u64,
    /// Time at which that row was loaded.
    row_loaded_at: Ns,
}

/// An SSD with its state.
#[derive(Clone, Debug)]
pub struct FlashDevice {
    model: Arc<FlashModel>,
    /// Time at which the processors are free.
    processor_free_at: Ns,
    /// Time at which each direction of the link is free: reads, writes.
    link_free_at: [Ns; 2],
    /// Time at which each channel is free.
    channels_free_at: Vec<Ns>,
    dies: Vec<Die>,
    /// Time at which the reads of each die (or of each of its planes) are complete.
    reads_done_at: Vec<Ns>,
    buffer: writes::FlashBuffer,
    /// Die of the next program.
    next_die: u32,
    /// Units that garbage collection still has to move.
    gc_debt_units: f64,
    flash_map: Option<Box<FlashMap>>,
    /// Bytes in the SLC cache.
    slc_bytes: f64,
    /// Bytes folded from the SLC cache into the other flash since the beginning.
    folded_bytes: f64,
    /// Time at which all requests are complete.
    idle_from: Ns,
    totals: FlashTotals,
}

/// Time to clear one entry of the map. An assumption: no data sheet states it. It is about one access to the memory
/// of the map; 8.6 GB in units of 4 KiB take 21 ms. Measured drives take between nothing and 10 ms for a command of any
/// size (Purdea, "Measure the performance of the TRIM command", purdea.ro/projects/trim_perf).
const TRIM_ENTRY_NS: Ns = 10;

/// Returns the time of a number of bytes, given the time of a byte in 2^-16 ns as in [`spec::FlashModel`].
#[inline]
fn transfer_ns(bytes: u64, fixed_ns_per_byte: u64) -> Ns {
    (bytes * fixed_ns_per_byte) >> 16
}

/// Adds work at `now` to a queue that is free from `free_at` on, and returns when the work is complete.
#[inline]
fn enqueue_work(free_at: &mut Ns, now: Ns, work: Ns) -> Ns {
    *free_at = (*free_at).max(now) + work;
    *free_at
}

impl FlashDevice {
    /// Creates an idle SSD in the initial state of its model.
    pub fn new(model: &Arc<FlashModel>) -> FlashDevice {
        let spec = model.spec();
        let dies = model.die_count as usize;
        let readers = if spec.independent_planes { dies * spec.planes as usize } else { dies };
        // programmed pages are staggered, so that the dies' blocks do not all fill at the same time
        let die = |index: usize| Die {
            writes_done_at: 0,
            last_erase: (0, 0),
            pages_programmed: (index as u64 * u64::from(spec.pages_per_block) / dies as u64) as u32,
            loaded_row: NO_ROW,
            row_loaded_at: 0,
        };
        FlashDevice {
            processor_free_at: 0,
            link_free_at: [0; 2],
            channels_free_at: vec![0; spec.channels as usize],
            dies: (0..dies).map(die).collect(),
            reads_done_at: vec![0; readers],
            buffer: writes::FlashBuffer::new(model),
            next_die: 0,
            gc_debt_units: 0.0,
            flash_map: None,
            slc_bytes: 0.0,
            folded_bytes: 0.0,
            idle_from: 0,
            totals: FlashTotals { page_bytes: spec.page_bytes, ..FlashTotals::default() },
            model: Arc::clone(model),
        }
    }

    /// Model of the SSD.
    pub fn model(&self) -> &Arc<FlashModel> {
        &self.model
    }

    /// Number of requests that the SSD queues.
    pub fn queue_slots(&self) -> u32 {
        self.model.queue_slots()
    }

    /// Counts since the beginning.
    pub fn totals(&self) -> FlashTotals {
        self.totals
    }

    /// Number of dies, for shares of [`FlashTotals::die_busy_ns`].
    pub fn die_count(&self) -> u32 {
        self.model.die_count
    }

    /// Busy time of each part since the beginning, s: the drive's processor, the link to the host (each direction, if
    /// it is duplex), the dies, the channels. A part whose busy time equals the elapsed time is saturated. Times of
    /// dies and channels are averages over all of them.
    pub fn busy_times_s(&self) -> [f64; 5] {
        let (spec, totals) = (self.model.spec(), &self.totals);
        let commands = [spec.command_read, spec.command_write];
        let processor: f64 =
            commands.iter().zip(totals.requests).map(|(time, count)| *time as f64 * count as f64).sum();
        let link = totals.blocks.map(|blocks| blocks as f64 * BLOCK_BYTES as f64 / spec.link_bytes_per_s);
        let link = if spec.duplex { link } else { [link[0] + link[1] + processor * 1e-9, 0.0] };
        let dies = totals.die_busy_ns as f64 * 1e-9 / f64::from(self.model.die_count.max(1));
        let pages = (totals.pages_read + totals.pages_programmed) as f64;
        let channels =
            pages * f64::from(spec.page_bytes) / (spec.channel_bytes_per_s * f64::from(spec.channels.max(1)));
        [processor * 1e-9, link[0], link[1], dies, channels]
    }

    /// Time at which the queue that processes commands is free: that of the processors, or of a half-duplex link, which
    /// carries both directions and the commands one after the other.
    #[inline]
    fn command_free_at(&mut self) -> &mut Ns {
        if self.model.spec.duplex { &mut self.processor_free_at } else { &mut self.link_free_at[0] }
    }

    /// Queues a command that moves `bytes` bytes; returns when it is processed, and when the link can have moved them.
    #[inline]
    fn begin_command(&mut self, now: Ns, write: bool, bytes: u64) -> (Ns, Ns) {
        let spec = &self.model.spec;
        let work = if write { spec.command_write } else { spec.command_read };
        let direction = if spec.duplex { usize::from(write) } else { 0 };
        let transfer = transfer_ns(bytes, self.model.link_fixed_ns_per_byte);
        let begin = enqueue_work(self.command_free_at(), now, work);
        (begin, enqueue_work(&mut self.link_free_at[direction], begin, transfer))
    }

    /// Flushes all acknowledged writes to the flash, and returns when they are there. A drive whose buffer survives a
    /// power loss, or that has none, completes as soon as it can. `now` never goes back.
    pub fn submit_flush(&mut self, now: Ns) -> Ns {
        self.fold_while_idle(now);
        let work = self.model.spec.command_write;
        let begin = enqueue_work(self.command_free_at(), now, work);
        let durable_at = if self.model.spec.survives_power_loss { begin } else { self.program_buffer(now, begin) };
        let done = begin.max(durable_at) + self.model.spec.latency_write;
        self.idle_from = self.idle_from.max(done);
        done
    }

    /// Performs [`FlashDevice::trim_blocks`] as a request: a command, and [`TRIM_ENTRY_NS`] for each unit of the map
    /// that it covers, during which the processors take no other commands. `now` never goes back.
    pub fn submit_trim(&mut self, now: Ns, io: &Io) -> Ns {
        self.fold_while_idle(now);
        self.trim_blocks(io);
        let units = u64::from(io.blocks) / u64::from(self.model.unit_blocks);
        let work = self.model.spec.command_write + units * TRIM_ENTRY_NS;
        let done = enqueue_work(self.command_free_at(), now, work) + self.model.spec.latency_write;
        self.idle_from = self.idle_from.max(done);
        done
    }

    /// Submits a request, and returns when it is complete. `now` never goes back.
    #[inline]
    pub fn submit(&mut self, now: Ns, io: &Io) -> Ns {
        let capacity = self.model.capacity_blocks();
        let first = io.first.min(capacity - 1);
        let io = Io { first, blocks: u64::from(io.blocks.max(1)).min(capacity - first) as u32, write: io.write };
        self.fold_while_idle(now);
        self.totals.requests[usize::from(io.write)] += 1;
        self.totals.blocks[usize::from(io.write)] += u64::from(io.blocks);
        let done = if io.write { self.serve_write(now, &io) } else { self.serve_read(now, &io) };
        self.idle_from = self.idle_from.max(done);
        done
    }
}

#[cfg(test)]
mod tests;

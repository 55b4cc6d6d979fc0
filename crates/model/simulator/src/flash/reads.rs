//! Reads: choice of die and plane, waiting times, and transfer of the data.

use super::{FlashDevice, enqueue_work, transfer_ns};
use crate::Ns;
use crate::io::{BLOCK_BYTES, Io};

/// Smallest unit of error correction, bytes: less is not transferred from a page.
const CODEWORD_BYTES: u32 = 4096;

impl FlashDevice {
    /// Serves a read and returns when it is complete.
    pub(super) fn serve_read(&mut self, now: Ns, io: &Io) -> Ns {
        let model = std::sync::Arc::clone(&self.model);
        let bytes = u64::from(io.blocks) * BLOCK_BYTES;
        let (begin, sent) = self.begin_command(now, false, bytes);
        let unit_blocks = u64::from(model.unit_blocks);
        let page_units = u64::from(model.page_units);
        let (mut unit, end) = (io.first / unit_blocks, io.end().div_ceil(unit_blocks));
        let mut arrived = begin;
        let mut last = 0;
        self.buffer.release_programmed(now);
        while unit < end {
            let page = unit / page_units;
            let stop = ((page + 1) * page_units).min(end);
            let buffered = self.buffer.count_buffered(unit, stop);
            self.totals.buffer_units += buffered;
            if buffered < stop - unit {
                let blocks = io.end().min(stop * unit_blocks) - io.first.max(unit * unit_blocks);
                let bytes =
                    (blocks * BLOCK_BYTES).next_multiple_of(u64::from(model.spec.unit_bytes.min(CODEWORD_BYTES)));
                arrived = arrived.max(self.read_page(begin, page, bytes));
                last = bytes;
            }
            unit = stop;
        }
        // pages are sent to the host as they arrive; the last one cannot be sent before it has arrived
        sent.max(arrived + transfer_ns(last.min(bytes), model.link_fixed_ns_per_byte)) + model.spec.latency_read
    }

    /// Reads `bytes` bytes of a page; returns when they are in the controller.
    pub(super) fn read_page(&mut self, begin: Ns, page: u64, bytes: u64) -> Ns {
        let (spec, dies) = (&self.model.spec, u64::from(self.model.die_count));
        let row_of_dies = page / dies;
        let die_index = (page - row_of_dies * dies) as usize;
        let row = row_of_dies / u64::from(spec.planes);
        let plane = (row_of_dies - row * u64::from(spec.planes)) as usize;
        let reader = if spec.independent_planes { die_index * spec.planes as usize + plane } else { die_index };
        // a die without independent planes reads the pages of all planes of a row at once
        let tag = if spec.independent_planes { row_of_dies } else { row };
        let channel = die_index % self.channels_free_at.len();
        let die = &mut self.dies[die_index];
        let ready = if die.loaded_row == tag {
            die.row_loaded_at.max(begin)
        } else {
            let mut start = begin.max(self.reads_done_at[reader]);
            if die.writes_done_at > start {
                // the read overtakes waiting programs, but not the running one, of which this time remains
                let remaining = if start < die.last_erase.1 && start >= die.last_erase.0 {
                    die.last_erase.1 - start
                } else {
                    (die.writes_done_at - start) % spec.program_ns
                };
                start += spec.suspend_ns.map_or(remaining, |suspend| remaining.min(suspend));
                die.writes_done_at = die.writes_done_at.max(start) + spec.read_ns;
            }
            let ready = start + spec.read_ns;
            self.reads_done_at[reader] = ready;
            die.loaded_row = tag;
            die.row_loaded_at = ready;
            self.totals.pages_read += 1;
            // with independent planes, a plane's read occupies only a part of its die
            let planes = if spec.independent_planes { spec.planes.max(1) } else { 1 };
            self.totals.die_busy_ns += u128::from(spec.read_ns / Ns::from(planes));
            ready
        };
        let transfer = transfer_ns(bytes, self.model.channel_fixed_ns_per_byte);
        enqueue_work(&mut self.channels_free_at[channel], begin, transfer).max(ready + transfer)
    }
}

//! Reads: choice of die and plane, waiting times, and transfer of the data.

use super::{FlashDevice, join, time};
use crate::Ns;
use crate::io::{BLOCK_BYTES, Io};

/// Smallest unit of error correction, bytes: less is not transferred from a page.
const CODEWORD: u32 = 4096;

impl FlashDevice {
    /// Serves a read and returns when it is complete.
    pub(super) fn read(&mut self, now: Ns, io: &Io) -> Ns {
        let model = std::sync::Arc::clone(&self.model);
        let bytes = u64::from(io.blocks) * BLOCK_BYTES;
        let (begin, sent) = self.command(now, false, bytes);
        let unit_blocks = u64::from(model.unit_blocks);
        let page_units = u64::from(model.page_units);
        let (mut unit, end) = (io.first / unit_blocks, io.end().div_ceil(unit_blocks));
        let mut arrived = begin;
        let mut last = 0;
        self.buffer.drain(now);
        while unit < end {
            let page = unit / page_units;
            let stop = ((page + 1) * page_units).min(end);
            let buffered = self.buffer.holds(unit, stop);
            self.totals.buffer_units += buffered;
            if buffered < stop - unit {
                let blocks = io.end().min(stop * unit_blocks) - io.first.max(unit * unit_blocks);
                let bytes = (blocks * BLOCK_BYTES).next_multiple_of(u64::from(model.spec.unit.min(CODEWORD)));
                arrived = arrived.max(self.read_page(begin, page, bytes));
                last = bytes;
            }
            unit = stop;
        }
        // pages are sent to the host as they arrive; the last one cannot be sent before it has arrived
        sent.max(arrived + time(last.min(bytes), model.link)) + model.spec.latency_read
    }

    /// Reads `bytes` bytes of a page; returns when they are in the controller.
    pub(super) fn read_page(&mut self, begin: Ns, page: u64, bytes: u64) -> Ns {
        let (spec, all) = (&self.model.spec, u64::from(self.model.all_dies));
        let row_of_dies = page / all;
        let die_at = (page - row_of_dies * all) as usize;
        let row = row_of_dies / u64::from(spec.planes);
        let plane = (row_of_dies - row * u64::from(spec.planes)) as usize;
        let reader = if spec.independent_planes { die_at * spec.planes as usize + plane } else { die_at };
        // a die without independent planes reads the pages of all planes of a row at once
        let tag = if spec.independent_planes { row_of_dies } else { row };
        let channel = die_at % self.channels.len();
        let die = &mut self.dies[die_at];
        let ready = if die.row == tag {
            die.row_at.max(begin)
        } else {
            let mut start = begin.max(self.readers[reader]);
            if die.writes > start {
                // the read overtakes waiting programs, not the running one
                let runs = if start < die.erase.1 && start >= die.erase.0 {
                    die.erase.1 - start
                } else {
                    (die.writes - start) % spec.program
                };
                start += spec.suspend.map_or(runs, |suspend| runs.min(suspend));
                die.writes = die.writes.max(start) + spec.read;
            }
            let ready = start + spec.read;
            self.readers[reader] = ready;
            die.row = tag;
            die.row_at = ready;
            self.totals.pages_read += 1;
            // with independent planes, a plane's read occupies only a part of its die
            let planes = if spec.independent_planes { spec.planes.max(1) } else { 1 };
            self.totals.die_busy_ns += u128::from(spec.read / Ns::from(planes));
            ready
        };
        let transfer = time(bytes, self.model.channel);
        join(&mut self.channels[channel], begin, transfer).max(ready + transfer)
    }
}

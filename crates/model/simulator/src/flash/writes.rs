//! Writes: the buffer, programs, the work that garbage collection adds to them, and the SLC cache.

use std::collections::VecDeque;

use super::spec::FlashModel;
use super::{FlashDevice, enqueue_work, transfer_ns};
use crate::Ns;
use crate::io::{BLOCK_BYTES, Io};

/// Largest number of recent units whose numbers the buffer keeps, so that reads find them.
const MAX_RECENT_UNITS: u32 = 1 << 16;
/// Unit number of an empty entry among the recent units: no drive has it.
const NO_UNIT: u64 = u64::MAX;

/// Write buffer.
#[derive(Clone, Debug)]
pub(super) struct FlashBuffer {
    /// Capacity in units; 0 for no buffer.
    capacity_units: u32,
    /// Units in it.
    used_units: u32,
    /// Programs in flight in order of completion: completion time, and number of units.
    programs_in_flight: VecDeque<(Ns, u32)>,
    /// Units that wait for a program.
    pub(super) open_units: u32,
    /// Time at which the last of these units is complete.
    open_ready_at: Ns,
    /// Number of units ever written.
    units_written: u64,
    /// Small hash table of recent units with their sequence numbers; its length is a power of two, or 0.
    recent_units: Vec<(u64, u64)>,
}

impl FlashBuffer {
    /// Creates an empty buffer.
    pub fn new(model: &FlashModel) -> FlashBuffer {
        let table_len =
            if model.buffer_units == 0 { 0 } else { model.buffer_units.next_power_of_two().min(MAX_RECENT_UNITS) };
        FlashBuffer {
            capacity_units: model.buffer_units,
            used_units: 0,
            programs_in_flight: VecDeque::with_capacity((model.buffer_units / model.program_units.max(1)) as usize + 2),
            open_units: 0,
            open_ready_at: 0,
            units_written: 0,
            recent_units: vec![(NO_UNIT, 0); table_len as usize],
        }
    }

    /// Releases the space of programs completed by now.
    #[inline]
    pub fn release_programmed(&mut self, now: Ns) {
        while let Some(&(done, units)) = self.programs_in_flight.front() {
            if done > now {
                break;
            }
            self.used_units -= units;
            self.programs_in_flight.pop_front();
        }
    }

    /// Returns how many of the units are still in the buffer.
    #[inline]
    pub fn count_buffered(&self, from: u64, to: u64) -> u64 {
        if self.used_units == 0 {
            return 0;
        }
        let mask = self.recent_units.len() - 1;
        let oldest = self.units_written - u64::from(self.used_units);
        let is_buffered = |unit: &u64| {
            let (known_unit, number) = self.recent_units[*unit as usize & mask];
            known_unit == *unit && number >= oldest
        };
        (from..to).filter(is_buffered).count() as u64
    }

    /// Returns true for a unit that still waits for its program, so that another part of it can join.
    fn is_unit_open(&self, unit: u64) -> bool {
        if self.open_units == 0 || self.recent_units.is_empty() {
            return false;
        }
        let (known_unit, number) = self.recent_units[unit as usize & (self.recent_units.len() - 1)];
        known_unit == unit && number >= self.units_written - u64::from(self.open_units)
    }

    /// Returns when there is space for `units` more units, and releases the programs completed by then.
    fn wait_for_room(&mut self, units: u32) -> Ns {
        let mut last = 0;
        while self.used_units + units > self.capacity_units {
            let Some((done, freed)) = self.programs_in_flight.pop_front() else { break };
            self.used_units -= freed;
            last = done;
        }
        last
    }

    /// Adds a program in flight; its units leave the buffer at `end`, even before those of earlier programs.
    fn add_program(&mut self, end: Ns, units: u32) {
        let later = self.programs_in_flight.iter().rev().take_while(|(done, _)| *done > end).count();
        self.programs_in_flight.insert(self.programs_in_flight.len() - later, (end, units));
    }

    fn add_units(&mut self, unit: u64, units: u32, ready: Ns) {
        let mask = self.recent_units.len().wrapping_sub(1);
        for index in 0..u64::from(units) {
            if let Some(entry) = self.recent_units.get_mut((unit + index) as usize & mask) {
                *entry = (unit + index, self.units_written + index);
            }
        }
        self.units_written += u64::from(units);
        self.used_units += units;
        self.open_units += units;
        debug_assert!(u64::from(self.used_units) <= self.units_written, "more is buffered than was written");
        debug_assert!(self.open_units <= self.used_units, "a unit waits for its program outside the buffer");
        self.open_ready_at = self.open_ready_at.max(ready);
    }
}

/// Returns which unit of a group of `scale` units is kept in the scaled table.
#[inline]
fn sampled_unit(group: u64, scale: u64) -> u64 {
    let hash = (group ^ (group >> 29)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((u128::from(hash) * u128::from(scale)) >> 64) as u64
}

impl FlashDevice {
    /// Serves a write and returns when it is acknowledged.
    pub(super) fn serve_write(&mut self, now: Ns, io: &Io) -> Ns {
        let model = std::sync::Arc::clone(&self.model);
        let spec = &model.spec;
        let (begin, received_at) = self.begin_command(now, true, u64::from(io.blocks) * BLOCK_BYTES);
        let unit_blocks = u64::from(model.unit_blocks);
        let (mut unit, end) = (io.first / unit_blocks, io.end().div_ceil(unit_blocks));
        self.buffer.release_programmed(now);
        let complete = self.complete_partial_units(received_at, io, unit, end);
        if !io.first.is_multiple_of(unit_blocks) && self.buffer.is_unit_open(unit) {
            // the previous write contained the first part of this unit, and this write contains the others
            unit += 1;
        }
        self.sample_units(unit, end);
        let mut accepted = received_at;
        let mut programmed = received_at;
        while unit < end {
            // programs only when the next unit arrives: the last unit may still get its other parts
            if self.buffer.open_units == model.program_units {
                self.program_open_units(begin);
            }
            let units = u64::from(model.program_units - self.buffer.open_units).min(end - unit) as u32;
            if model.buffer_units > 0 {
                accepted = accepted.max(self.buffer.wait_for_room(units));
            }
            self.buffer.add_units(unit, units, complete.max(accepted));
            unit += u64::from(units);
            if model.buffer_units == 0 {
                programmed = programmed.max(self.program_open_units(begin));
            }
        }
        if model.buffer_units == 0 {
            self.buffer.release_programmed(Ns::MAX);
            return programmed + spec.latency_write;
        }
        accepted + spec.latency_write
    }

    /// Reads the units that a write covers only partly; returns when they are complete.
    fn complete_partial_units(&mut self, received_at: Ns, io: &Io, first: u64, end: u64) -> Ns {
        let unit_blocks = u64::from(self.model.unit_blocks);
        let page_units = u64::from(self.model.page_units);
        let unit_bytes = u64::from(self.model.spec.unit_bytes);
        let mut complete = received_at;
        let head = !io.first.is_multiple_of(unit_blocks);
        let tail = !io.end().is_multiple_of(unit_blocks) && (end - 1 > first || !head);
        for unit in [head.then_some(first), tail.then_some(end - 1)].into_iter().flatten() {
            self.totals.merged_units += 1;
            if self.buffer.count_buffered(unit, unit + 1) == 0 {
                complete = complete.max(self.read_page(received_at, unit / page_units, unit_bytes));
            }
        }
        complete
    }

    /// Writes those units to the scaled table that it samples.
    fn sample_units(&mut self, first: u64, end: u64) {
        let scale = self.model.units_per_sample;
        for group in first / scale..end.div_ceil(scale) {
            let unit = group * scale + sampled_unit(group, scale);
            if (first..end).contains(&unit) {
                let model = &self.model;
                self.flash_map.get_or_insert_with(|| Box::new(model.initial_map().clone())).write_unit(group as u32);
            }
        }
    }

    /// Invalidates blocks that the host no longer needs.
    pub fn trim_blocks(&mut self, io: &Io) {
        let unit_blocks = u64::from(self.model.unit_blocks);
        let capacity = self.model.capacity_blocks();
        // only units that are covered entirely
        let (first, end) = (io.first.min(capacity).div_ceil(unit_blocks), io.end().min(capacity) / unit_blocks);
        let scale = self.model.units_per_sample;
        for group in first / scale..end.div_ceil(scale) {
            let unit = group * scale + sampled_unit(group, scale);
            if (first..end).contains(&unit) {
                let model = &self.model;
                self.flash_map.get_or_insert_with(|| Box::new(model.initial_map().clone())).trim_unit(group as u32);
            }
        }
    }

    /// Programs everything in the buffer, including a last page that is not full; returns when it is done.
    pub(super) fn program_buffer(&mut self, now: Ns, begin: Ns) -> Ns {
        self.buffer.release_programmed(now);
        if self.buffer.open_units > 0 {
            self.program_open_units(begin);
        }
        self.buffer.programs_in_flight.iter().map(|(done, _)| *done).max().unwrap_or(begin)
    }

    /// Programs the open units of the buffer on the next die; returns when it is done.
    fn program_open_units(&mut self, begin: Ns) -> Ns {
        let model = std::sync::Arc::clone(&self.model);
        let spec = &model.spec;
        let bytes = u64::from(spec.page_bytes) * u64::from(spec.planes);
        let units = std::mem::take(&mut self.buffer.open_units);
        let ready = self.buffer.open_ready_at;
        let index = self.next_die as usize;
        self.next_die = (self.next_die + 1) % model.die_count;
        let transfer = transfer_ns(bytes, model.channel_fixed_ns_per_byte);
        let channel = index % self.channels_free_at.len();
        let transferred_at = enqueue_work(&mut self.channels_free_at[channel], begin, transfer).max(ready + transfer);
        let readers = self.reads_done_at.len() / self.dies.len();
        let reads = self.reads_done_at[index * readers..(index + 1) * readers].iter().copied().max().unwrap_or(0);
        let program = self.program_time(bytes as f64);
        let die = &mut self.dies[index];
        let end = transferred_at.max(die.writes_done_at).max(reads) + program;
        die.writes_done_at = end;
        die.loaded_row = super::NO_ROW;
        self.buffer.add_program(end, units);
        self.totals.die_busy_ns += u128::from(program);
        self.count_programs(index, 1);
        self.collect_garbage(begin, index, units);
        end
    }

    /// Counts pages programmed on a die, and erases if its blocks are full.
    fn count_programs(&mut self, index: usize, programs: u32) {
        let spec = &self.model.spec;
        self.totals.pages_programmed += u64::from(programs * spec.planes);
        let die = &mut self.dies[index];
        die.pages_programmed += programs;
        if die.pages_programmed >= spec.pages_per_block {
            die.pages_programmed -= spec.pages_per_block;
            die.last_erase = (die.writes_done_at, die.writes_done_at + spec.erase_ns);
            die.writes_done_at += spec.erase_ns;
            self.totals.erases += u64::from(spec.planes);
            self.totals.die_busy_ns += u128::from(spec.erase_ns);
        }
    }

    /// Performs the moves of garbage collection for `units` units written, by the ratio of the scaled table. They
    /// occupy the die of the program, so that the work is spread like the writes.
    fn collect_garbage(&mut self, begin: Ns, index: usize, units: u32) {
        let Some(table) = &self.flash_map else { return };
        let (ratio, valid) = (table.gc_ratio(), table.valid_share());
        self.gc_debt_units += f64::from(units) * ratio;
        let model = std::sync::Arc::clone(&self.model);
        let (spec, group) = (&model.spec, f64::from(model.program_units));
        if self.gc_debt_units < group {
            return;
        }
        // with a valid share v, a page of n units holds a valid unit with probability 1 - (1 - v)^n, and v n valid
        // units on average
        let n = f64::from(model.page_units);
        let reads_per_page = if valid > 0.0 { (1.0 - (1.0 - valid).powf(n)) / valid } else { 1.0 };
        let reads = (reads_per_page * f64::from(spec.planes)).ceil();
        let read_time = (spec.read_ns as f64 * reads_per_page) as Ns;
        let moved_bytes = u64::from(model.program_units) * u64::from(spec.unit_bytes);
        while self.gc_debt_units >= group {
            self.gc_debt_units -= group;
            let channel = index % self.channels_free_at.len();
            enqueue_work(
                &mut self.channels_free_at[channel],
                begin,
                2 * transfer_ns(moved_bytes, model.channel_fixed_ns_per_byte),
            );
            self.dies[index].writes_done_at += read_time + spec.program_ns;
            self.totals.pages_read += reads as u64;
            self.totals.pages_moved += u64::from(spec.planes);
            self.totals.die_busy_ns += u128::from(read_time + spec.program_ns);
            self.count_programs(index, 1);
        }
    }

    /// Returns the time of a program, which goes into the SLC cache while there is space.
    fn program_time(&mut self, bytes: f64) -> Ns {
        let spec = &self.model.spec;
        match spec.slc {
            Some(slc) if self.slc_bytes + bytes <= slc.bytes as f64 => {
                self.slc_bytes += bytes;
                self.totals.pages_programmed_slc += u64::from(spec.planes);
                slc.program_ns
            }
            _ => spec.program_ns,
        }
    }

    /// Folds the SLC cache for the idle time until now.
    pub(super) fn fold_while_idle(&mut self, now: Ns) {
        let Some(slc) = self.model.spec.slc else { return };
        if self.slc_bytes > 0.0 && now > self.idle_from {
            let bytes = (slc.fold_bytes_per_s * (now - self.idle_from) as f64 / 1e9).min(self.slc_bytes);
            self.slc_bytes -= bytes;
            // fractions of a page are carried over, because many short pauses add up to pages
            self.folded_bytes += bytes;
            let pages = (self.folded_bytes / f64::from(self.model.spec.page_bytes)) as u64;
            self.totals.pages_programmed += pages - self.totals.pages_folded;
            self.totals.pages_folded = pages;
        }
    }
}

//! Writes: the buffer, programs, the work that garbage collection adds to them, and the SLC cache.

use std::collections::VecDeque;

use super::spec::FlashModel;
use super::{FlashDevice, join, time};
use crate::Ns;
use crate::io::{BLOCK_BYTES, Io};

/// Largest number of units whose numbers the buffer remembers, so that reads find them.
const MOST_REMEMBERED: u32 = 1 << 16;

/// Write buffer.
#[derive(Clone, Debug)]
pub(super) struct FlashBuffer {
    /// Capacity in units; 0 for no buffer.
    room: u32,
    /// Units in it.
    used: u32,
    /// Programs in flight in order of completion: completion time, and number of units.
    programs: VecDeque<(Ns, u32)>,
    /// Units that wait for a program, and the time at which the last of them is complete.
    pub(super) open: u32,
    ready: Ns,
    /// Units ever written, and a small hash table of recent units with their sequence numbers.
    written: u64,
    recent: Vec<(u64, u64)>,
}

impl FlashBuffer {
    /// Creates an empty buffer.
    pub fn new(model: &FlashModel) -> FlashBuffer {
        let remembered = if model.buffer == 0 { 0 } else { model.buffer.next_power_of_two().min(MOST_REMEMBERED) };
        FlashBuffer {
            room: model.buffer,
            used: 0,
            programs: VecDeque::with_capacity((model.buffer / model.group.max(1)) as usize + 2),
            open: 0,
            ready: 0,
            written: 0,
            recent: vec![(u64::MAX, 0); remembered as usize],
        }
    }

    /// Releases the room of programs completed by now.
    #[inline]
    pub fn drain(&mut self, now: Ns) {
        while let Some(&(done, units)) = self.programs.front() {
            if done > now {
                break;
            }
            self.used -= units;
            self.programs.pop_front();
        }
    }

    /// Returns how many of the units are still in the buffer.
    #[inline]
    pub fn holds(&self, from: u64, to: u64) -> u64 {
        if self.used == 0 {
            return 0;
        }
        let mask = self.recent.len() - 1;
        let oldest = self.written - u64::from(self.used);
        let held = |unit: &u64| {
            let (of, number) = self.recent[*unit as usize & mask];
            of == *unit && number >= oldest
        };
        (from..to).filter(held).count() as u64
    }

    /// Returns true for a unit that still waits for its program, so that another part of it can join.
    fn is_open(&self, unit: u64) -> bool {
        if self.open == 0 || self.recent.is_empty() {
            return false;
        }
        let (of, number) = self.recent[unit as usize & (self.recent.len() - 1)];
        of == unit && number >= self.written - u64::from(self.open)
    }

    /// Returns when there is room for `units` more units, and releases the programs completed by then.
    fn room(&mut self, units: u32) -> Ns {
        let mut last = 0;
        while self.used + units > self.room {
            let Some((done, freed)) = self.programs.pop_front() else { break };
            self.used -= freed;
            last = done;
        }
        last
    }

    /// Adds a program in flight; its units leave the buffer at `end`, even before those of earlier programs.
    fn under_way(&mut self, end: Ns, units: u32) {
        let later = self.programs.iter().rev().take_while(|(done, _)| *done > end).count();
        self.programs.insert(self.programs.len() - later, (end, units));
    }

    fn add(&mut self, unit: u64, units: u32, ready: Ns) {
        let mask = self.recent.len().wrapping_sub(1);
        for index in 0..u64::from(units) {
            if let Some(place) = self.recent.get_mut((unit + index) as usize & mask) {
                *place = (unit + index, self.written + index);
            }
        }
        self.written += u64::from(units);
        self.used += units;
        self.open += units;
        self.ready = self.ready.max(ready);
    }
}

/// Returns which unit of a group of `scale` is kept in the scaled table.
#[inline]
fn kept(group: u64, scale: u64) -> u64 {
    let hash = (group ^ (group >> 29)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((u128::from(hash) * u128::from(scale)) >> 64) as u64
}

impl FlashDevice {
    /// Serves a write and returns when it is acknowledged.
    pub(super) fn write(&mut self, now: Ns, io: &Io) -> Ns {
        let model = std::sync::Arc::clone(&self.model);
        let spec = &model.spec;
        let (begin, came) = self.command(now, true, u64::from(io.blocks) * BLOCK_BYTES);
        let unit_blocks = u64::from(model.unit_blocks);
        let (mut unit, end) = (io.first / unit_blocks, io.end().div_ceil(unit_blocks));
        self.buffer.drain(now);
        let complete = self.complete(came, io, unit, end);
        if !io.first.is_multiple_of(unit_blocks) && self.buffer.is_open(unit) {
            // the rest of a unit of which the previous write contained a part
            unit += 1;
        }
        self.sample(unit, end);
        let mut accepted = came;
        let mut programmed = came;
        while unit < end {
            // programs only when the next unit arrives: the last one may still get its other parts
            if self.buffer.open == model.group {
                self.program(begin);
            }
            let units = u64::from(model.group - self.buffer.open).min(end - unit) as u32;
            if model.buffer > 0 {
                accepted = accepted.max(self.buffer.room(units));
            }
            self.buffer.add(unit, units, complete.max(accepted));
            unit += u64::from(units);
            if model.buffer == 0 {
                programmed = programmed.max(self.program(begin));
            }
        }
        if model.buffer == 0 {
            self.buffer.drain(Ns::MAX);
            return programmed + spec.latency_write;
        }
        accepted + spec.latency_write
    }

    /// Reads the units that a write covers only partly; returns when they are complete.
    fn complete(&mut self, came: Ns, io: &Io, first: u64, end: u64) -> Ns {
        let unit_blocks = u64::from(self.model.unit_blocks);
        let page_units = u64::from(self.model.page_units);
        let unit_bytes = u64::from(self.model.spec.unit);
        let mut complete = came;
        let head = !io.first.is_multiple_of(unit_blocks);
        let tail = !io.end().is_multiple_of(unit_blocks) && (end - 1 > first || !head);
        for unit in [head.then_some(first), tail.then_some(end - 1)].into_iter().flatten() {
            self.totals.merged_units += 1;
            if self.buffer.holds(unit, unit + 1) == 0 {
                complete = complete.max(self.read_page(came, unit / page_units, unit_bytes));
            }
        }
        complete
    }

    /// Writes those of the units that are sampled into the scaled table.
    fn sample(&mut self, first: u64, end: u64) {
        let scale = self.model.scale;
        for group in first / scale..end.div_ceil(scale) {
            let unit = group * scale + kept(group, scale);
            if (first..end).contains(&unit) {
                let model = &self.model;
                self.table.get_or_insert_with(|| Box::new(model.table().clone())).write(group as u32);
            }
        }
    }

    /// Invalidates blocks that the host no longer needs.
    pub fn trim(&mut self, io: &Io) {
        let unit_blocks = u64::from(self.model.unit_blocks);
        let all = self.model.blocks();
        // only units that are covered entirely
        let (first, end) = (io.first.min(all).div_ceil(unit_blocks), io.end().min(all) / unit_blocks);
        let scale = self.model.scale;
        for group in first / scale..end.div_ceil(scale) {
            let unit = group * scale + kept(group, scale);
            if (first..end).contains(&unit) {
                let model = &self.model;
                self.table.get_or_insert_with(|| Box::new(model.table().clone())).trim(group as u32);
            }
        }
    }

    /// Programs everything in the buffer, including a last page that is not full; returns when it is done.
    pub(super) fn program_all(&mut self, now: Ns, begin: Ns) -> Ns {
        self.buffer.drain(now);
        if self.buffer.open > 0 {
            self.program(begin);
        }
        self.buffer.programs.iter().map(|(done, _)| *done).max().unwrap_or(begin)
    }

    /// Programs the open units of the buffer on the next die; returns when it is done.
    fn program(&mut self, begin: Ns) -> Ns {
        let model = std::sync::Arc::clone(&self.model);
        let spec = &model.spec;
        let bytes = u64::from(spec.page) * u64::from(spec.planes);
        let units = std::mem::take(&mut self.buffer.open);
        let ready = self.buffer.ready;
        let index = self.next_die as usize;
        self.next_die = (self.next_die + 1) % model.all_dies;
        let transfer = time(bytes, model.channel);
        let channel = index % self.channels.len();
        let there = join(&mut self.channels[channel], begin, transfer).max(ready + transfer);
        let readers = self.readers.len() / self.dies.len();
        let reads = self.readers[index * readers..(index + 1) * readers].iter().copied().max().unwrap_or(0);
        let program = self.program_time(bytes as f64);
        let die = &mut self.dies[index];
        let end = there.max(die.writes).max(reads) + program;
        die.writes = end;
        die.row = u64::MAX;
        self.buffer.under_way(end, units);
        self.totals.die_busy_ns += u128::from(program);
        self.programmed(index, 1);
        self.collect(begin, index, units);
        end
    }

    /// Counts pages programmed on a die, and erases if its blocks are full.
    fn programmed(&mut self, index: usize, programs: u32) {
        let spec = &self.model.spec;
        self.totals.pages_programmed += u64::from(programs * spec.planes);
        let die = &mut self.dies[index];
        die.programmed += programs;
        if die.programmed >= spec.pages {
            die.programmed -= spec.pages;
            die.erase = (die.writes, die.writes + spec.erase);
            die.writes += spec.erase;
            self.totals.erases += u64::from(spec.planes);
            self.totals.die_busy_ns += u128::from(spec.erase);
        }
    }

    /// Does the moves of garbage collection for `units` units written, by the ratio of the scaled table; on the die of
    /// the program, so that the work is spread like the writes.
    fn collect(&mut self, begin: Ns, index: usize, units: u32) {
        let Some(table) = &self.table else { return };
        let (ratio, valid) = (table.ratio(), table.valid_share());
        self.debt += f64::from(units) * ratio;
        let model = std::sync::Arc::clone(&self.model);
        let (spec, group) = (&model.spec, f64::from(model.group));
        if self.debt < group {
            return;
        }
        // with a valid share v, a page of n units holds a valid unit with probability 1 - (1 - v)^n, and v n valid
        // units on average
        let n = f64::from(model.page_units);
        let each = if valid > 0.0 { (1.0 - (1.0 - valid).powf(n)) / valid } else { 1.0 };
        let reads = (each * f64::from(spec.planes)).ceil();
        let reading = (spec.read as f64 * each) as Ns;
        let moves = u64::from(model.group) * u64::from(spec.unit);
        while self.debt >= group {
            self.debt -= group;
            let channel = index % self.channels.len();
            join(&mut self.channels[channel], begin, 2 * time(moves, model.channel));
            self.dies[index].writes += reading + spec.program;
            self.totals.pages_read += reads as u64;
            self.totals.pages_moved += u64::from(spec.planes);
            self.totals.die_busy_ns += u128::from(reading + spec.program);
            self.programmed(index, 1);
        }
    }

    /// Returns the time of a program: in the SLC cache while there is room.
    fn program_time(&mut self, bytes: f64) -> Ns {
        let spec = &self.model.spec;
        match spec.slc {
            Some(slc) if self.slc + bytes <= slc.bytes as f64 => {
                self.slc += bytes;
                self.totals.pages_slc += u64::from(spec.planes);
                slc.program
            }
            _ => spec.program,
        }
    }

    /// Folds the SLC cache for the idle time until now.
    pub(super) fn fold_while_idle(&mut self, now: Ns) {
        let Some(slc) = self.model.spec.slc else { return };
        if self.slc > 0.0 && now > self.quiet {
            let bytes = (slc.fold * (now - self.quiet) as f64 / 1e9).min(self.slc);
            self.slc -= bytes;
            // fractions of a page are carried over, because many short pauses add up to pages
            self.folded += bytes;
            let pages = (self.folded / f64::from(self.model.spec.page)) as u64;
            self.totals.pages_programmed += pages - self.totals.pages_folded;
            self.totals.pages_folded = pages;
        }
    }
}

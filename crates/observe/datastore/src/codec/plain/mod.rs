//! Fast code of a block's numbers, for bulk imports. Each column is encoded
//! independently, and writing it takes little longer than copying it.
//!
//! The code: FF FF FF FF (never a length of the other code's head), the two columns
//! of the ticks' times as streams of numbers (`number_group`), then each column. A
//! column begins with a byte, whose low bits are its kind:
//!
//! - 0: every cell is +0; 1: every cell is one number, whose 8 bytes follow; 2: every
//!   cell is a gap;
//! - 3: whole numbers over a power of ten; a byte with the power follows;
//! - 4: numbers by their bits.
//!
//! Of kinds 3 and 4 only some cells are stored. Before them, bit sets
//! (`bit_positions`) tell which: one bit set for each of these bits of the byte that is 1.
//! 8: the cells that differ from the one before; 16: of these, the gaps (not stored);
//! 32: of the others, the cells that are +0 (not stored). The remaining cells are a
//! stream of numbers.

mod bit_positions;
mod number_group;

use std::ops::Range;

use diskwright_base::{Frame, Tick};

use super::block::{self, MAX_DECIMALS};
use crate::format::u32_at;
use crate::varint::ByteCursor;
use bit_positions::BitPositions;

/// First four bytes of this code.
const PLAIN_MARK: u32 = u32::MAX;

// The byte of a column: its kinds, the mask of the kind, and the flags.
const ZERO: u8 = 0;
const CONSTANT: u8 = 1;
const GAP: u8 = 2;
const WHOLE: u8 = 3;
const BITS: u8 = 4;
const KIND_MASK: u8 = 7;
const CHANGES_FLAG: u8 = 8;
const GAPS_FLAG: u8 = 16;
const ZEROS_FLAG: u8 = 32;

/// Number of cells that are sampled to guess a column's decimals.
const SAMPLE_CELLS: usize = 24;
/// Added to a number below 2^51, this leaves no bits for fractions, and so rounds it.
const ROUNDING_OFFSET: f64 = 6755399441055744.0;
const MAX_EXACT: f64 = (1u64 << 51) as f64;

/// Encoder and decoder, with reusable buffers.
#[derive(Debug, Default)]
pub(super) struct PlainCodec {
    times: [Vec<i64>; 2],
    cells: Vec<f64>,
    numbers: Vec<i64>,
    changes: BitPositions,
    gaps: BitPositions,
    zeros: BitPositions,
    ticks: Vec<Tick>,
}

/// Returns true if the code is one of this module.
pub(super) fn is_plain(code: &[u8]) -> bool {
    u32_at(code, 0) == Some(PLAIN_MARK)
}

/// Counts that decide how a column is encoded.
#[derive(Clone, Copy, Debug, Default)]
struct ColumnTraits {
    changes: usize,
    gaps: usize,
    zeros: usize,
}

/// Counts changes, gaps and zeros with loops that the compiler vectorizes.
fn survey_cells(cells: &[f64]) -> ColumnTraits {
    let mut traits = ColumnTraits::default();
    let changed = cells.windows(2).map(|pair| u64::from(pair[0] != pair[1])).sum::<u64>();
    let gaps = cells.iter().map(|cell| u64::from(cell.is_nan())).sum::<u64>();
    traits.gaps = gaps as usize;
    traits.zeros = cells.iter().map(|cell| u64::from(*cell == 0.0)).sum::<u64>() as usize;
    traits.changes = 1 + changed as usize;
    traits
}

/// Returns true if all cells have the same bits.
fn is_constant(cells: &[f64]) -> bool {
    let Some(first) = cells.first().map(|cell| cell.to_bits()) else { return true };
    // Chunks allow an early end: a column that changes usually changes early.
    cells.chunks(64).all(|chunk| chunk.iter().fold(0, |unlike, cell| unlike | (cell.to_bits() ^ first)) == 0)
}

impl PlainCodec {
    /// Appends the code of the cells of a frame in `range` (indices of ticks), with
    /// `ticks` as their times.
    pub fn encode(&mut self, frame: &Frame, range: Range<usize>, ticks: &[Tick], out: &mut Vec<u8>) {
        out.extend_from_slice(&PLAIN_MARK.to_le_bytes());
        block::split_times(ticks, &mut self.times);
        self.times.iter().for_each(|times| number_group::write_numbers(out, times, true));
        for column in 0..frame.schema().series.len() {
            self.put_column(&frame.column(column)[range.clone()], out);
        }
    }

    fn put_column(&mut self, cells: &[f64], out: &mut Vec<u8>) {
        if is_constant(cells) {
            let bits = cells.first().map_or(0, |cell| block::cell_bits(*cell));
            match (bits, f64::from_bits(bits).is_nan()) {
                (0, _) => out.push(ZERO),
                (_, true) => out.push(GAP),
                _ => {
                    out.push(CONSTANT);
                    out.extend_from_slice(&bits.to_le_bytes());
                }
            }
            return;
        }
        let traits = survey_cells(cells);
        if traits.gaps == cells.len() {
            return out.push(GAP);
        }
        let decimals = guess_decimals(cells);
        if let Some(decimals) = decimals
            && self.put_numbers(cells, traits, Some(decimals), out)
        {
            return;
        }
        self.put_numbers(cells, traits, None, out);
    }

    /// Appends a column as whole numbers over a power of ten, or by its bits.
    /// Returns false (and appends nothing) if the cells are not such numbers.
    fn put_numbers(&mut self, cells: &[f64], traits: ColumnTraits, decimals: Option<u32>, out: &mut Vec<u8>) -> bool {
        let start = out.len();
        // The bit set costs one bit per cell, which pays off if a sixth of the cells need not be stored.
        let marks_changes = (cells.len() - traits.changes.min(cells.len())) * 6 > cells.len();
        let marks_gaps = traits.gaps > 0;
        let marks_zeros = traits.zeros > 0 && decimals.is_none();
        let flag_if = |is_set, flag| if is_set { flag } else { 0 };
        let kind = if decimals.is_some() { WHOLE } else { BITS };
        out.push(
            kind | flag_if(marks_changes, CHANGES_FLAG)
                | flag_if(marks_gaps, GAPS_FLAG)
                | flag_if(marks_zeros, ZEROS_FLAG),
        );
        out.extend(decimals.map(|decimals| decimals as u8));
        let stored_cells = match marks_changes || marks_gaps || marks_zeros {
            true => {
                self.select_cells(cells, marks_changes, marks_gaps, marks_zeros, out);
                self.cells.as_slice()
            }
            false => cells,
        };
        self.numbers.clear();
        match decimals {
            Some(decimals) => {
                if !append_whole_numbers(stored_cells, decimals, &mut self.numbers) {
                    out.truncate(start);
                    return false;
                }
            }
            None => self.numbers.extend(stored_cells.iter().map(|cell| block::cell_bits(*cell) as i64)),
        }
        number_group::write_numbers(out, &self.numbers, decimals.is_some());
        true
    }

    /// Collects the cells to be stored, and writes which ones they are.
    fn select_cells(
        &mut self,
        cells: &[f64],
        marks_changes: bool,
        marks_gaps: bool,
        marks_zeros: bool,
        out: &mut Vec<u8>,
    ) {
        self.cells.clear();
        if marks_changes {
            let mut previous = 0;
            self.changes.set(cells.len(), |index| {
                let bits = block::cell_bits(cells[index]);
                let is_changed = bits != previous;
                previous = bits;
                is_changed
            });
            self.changes.write(out);
            append_marked(&self.changes, cells, &mut self.cells);
        } else {
            self.cells.extend_from_slice(cells);
        }
        if marks_gaps {
            self.gaps.set(self.cells.len(), |index| self.cells[index].is_nan());
            self.gaps.write(out);
            remove_marked(&self.gaps, &mut self.cells);
        }
        if marks_zeros {
            self.zeros.set(self.cells.len(), |index| self.cells[index].to_bits() == 0);
            self.zeros.write(out);
            remove_marked(&self.zeros, &mut self.cells);
        }
    }

    /// Fills the frame (whose schema and capacity are set) with `ticks` ticks
    /// from `first_ns` on. `None` if [`PlainCodec::encode`] cannot have written
    /// the code.
    pub fn decode(&mut self, code: &[u8], first_ns: i64, ticks: usize, frame: &mut Frame) -> Option<()> {
        let mut code = ByteCursor::new(code.get(4..)?);
        for times in &mut self.times {
            times.clear();
            times.resize(ticks, 0);
            number_group::read_numbers(&mut code, times)?;
        }
        block::join_times(first_ns, &self.times, &mut self.ticks);
        frame.set_ticks(&self.ticks);
        for column in 0..frame.schema().series.len() {
            self.read_column(&mut code, frame.column_mut(column))?;
        }
        code.is_empty().then_some(())
    }

    fn read_column(&mut self, code: &mut ByteCursor, cells: &mut [f64]) -> Option<()> {
        let head = code.read_byte()?;
        match (head & KIND_MASK, head) {
            (_, ZERO) => cells.fill(0.0),
            (_, GAP) => cells.fill(f64::NAN),
            (_, CONSTANT) => cells.fill(f64::from_bits(code.read_u64()?)),
            (WHOLE | BITS, _) if head & !(KIND_MASK | CHANGES_FLAG | GAPS_FLAG | ZEROS_FLAG) == 0 => {
                return self.read_numbers(code, head, cells);
            }
            _ => return None,
        }
        Some(())
    }

    fn read_numbers(&mut self, code: &mut ByteCursor, head: u8, cells: &mut [f64]) -> Option<()> {
        let decimals = if head & KIND_MASK == WHOLE { Some(u32::from(code.read_byte()?)) } else { None };
        let mut count = cells.len();
        if head & CHANGES_FLAG != 0 {
            self.changes.read(code, count)?;
            count = self.changes.count_ones();
        }
        let changed_cells = count;
        if head & GAPS_FLAG != 0 {
            self.gaps.read(code, count)?;
            count -= self.gaps.count_ones();
        }
        let present_cells = count;
        if head & ZEROS_FLAG != 0 {
            self.zeros.read(code, count)?;
            count -= self.zeros.count_ones();
        }
        self.numbers.clear();
        self.numbers.resize(count, 0);
        number_group::read_numbers(code, &mut self.numbers)?;
        if head & (CHANGES_FLAG | GAPS_FLAG | ZEROS_FLAG) == 0 {
            return numbers_to_cells(&self.numbers, decimals, cells);
        }
        self.cells.clear();
        self.cells.resize(count, 0.0);
        numbers_to_cells(&self.numbers, decimals, &mut self.cells)?;
        // In the reverse order of the encoder; each step works in place.
        if head & ZEROS_FLAG != 0 {
            spread_cells(&self.zeros, &mut self.cells, present_cells, 0.0);
        }
        if head & GAPS_FLAG != 0 {
            spread_cells(&self.gaps, &mut self.cells, changed_cells, f64::NAN);
        }
        debug_assert_eq!(self.cells.len(), changed_cells, "the cells that differ from the one before are here");
        if head & CHANGES_FLAG == 0 {
            cells.copy_from_slice(&self.cells);
            return Some(());
        }
        // Before the first change a cell is +0, as in the encoder.
        let mut stored_cells = self.cells.iter();
        let mut last = 0.0;
        self.changes.for_each_bit(|index, is_changed| {
            if is_changed {
                last = stored_cells.next().copied().unwrap_or(last);
            }
            cells[index] = last;
        });
        Some(())
    }
}

/// Appends the cells whose bit is set.
fn append_marked(marks: &BitPositions, cells: &[f64], out: &mut Vec<f64>) {
    let start = out.len();
    out.resize(start + cells.len(), 0.0);
    let kept = &mut out[start..];
    let mut count = 0;
    marks.for_each_bit(|index, bit| {
        // Written always, counted only if the bit is set: no branch to mispredict.
        kept[count] = cells[index];
        count += usize::from(bit);
    });
    out.truncate(start + count);
}

/// Removes the cells whose bit is set.
fn remove_marked(marks: &BitPositions, cells: &mut Vec<f64>) {
    let mut count = 0;
    marks.for_each_bit(|index, bit| {
        cells[count] = cells[index];
        count += usize::from(!bit);
    });
    cells.truncate(count);
}

/// Expands the cells to `length`: `filler` where a bit is set, else the next
/// cell. Works from the end, so that it can be done in place.
fn spread_cells(marks: &BitPositions, cells: &mut Vec<f64>, length: usize, filler: f64) {
    debug_assert_eq!(cells.len() + marks.count_ones(), length, "each bit that is not set has its cell");
    let mut source = cells.len();
    cells.resize(length, 0.0);
    marks.for_each_bit_reversed(|index, bit| {
        source -= usize::from(!bit);
        debug_assert!(source <= index, "a cell is not overwritten before it is moved");
        let cell = cells[source.min(length - 1)];
        cells[index] = if bit { filler } else { cell };
    });
}

/// Finds the smallest power of ten that makes whole numbers of a sample of the cells.
fn guess_decimals(cells: &[f64]) -> Option<u32> {
    let step = cells.len().div_ceil(SAMPLE_CELLS).max(1);
    let mut decimals = 0;
    for &cell in cells.iter().step_by(step).filter(|cell| !cell.is_nan()) {
        while as_whole_number(cell, block::power_of_ten(decimals)).is_none() {
            decimals += 1;
            if decimals > MAX_DECIMALS {
                return None;
            }
        }
    }
    Some(decimals)
}

/// Converts a cell to a whole number over `power`, if that reproduces it to the bit.
#[inline(always)]
fn as_whole_number(cell: f64, power: f64) -> Option<i64> {
    let shifted = cell * power + ROUNDING_OFFSET;
    let number = (shifted.to_bits() as i64).wrapping_sub(ROUNDING_OFFSET.to_bits() as i64);
    let restored = (shifted - ROUNDING_OFFSET) / power;
    let is_exact = restored.to_bits() == cell.to_bits() && (cell * power).abs() < MAX_EXACT;
    is_exact.then_some(number)
}

/// Appends the cells as whole numbers; returns false if one is not.
fn append_whole_numbers(cells: &[f64], decimals: u32, out: &mut Vec<i64>) -> bool {
    let power = block::power_of_ten(decimals);
    for chunk in cells.chunks(64) {
        let mut wrong_bits = 0;
        out.extend(chunk.iter().map(|&cell| {
            let product = if decimals == 0 { cell } else { cell * power };
            let shifted = product + ROUNDING_OFFSET;
            let rounded = shifted - ROUNDING_OFFSET;
            let restored = if decimals == 0 { rounded } else { rounded / power };
            wrong_bits |= restored.to_bits() ^ cell.to_bits() | u64::from(product.abs() >= MAX_EXACT);
            (shifted.to_bits() as i64).wrapping_sub(ROUNDING_OFFSET.to_bits() as i64)
        }));
        if wrong_bits != 0 {
            return false;
        }
    }
    true
}

/// Converts the numbers back to cells.
fn numbers_to_cells(numbers: &[i64], decimals: Option<u32>, cells: &mut [f64]) -> Option<()> {
    let pairs = cells.iter_mut().zip(numbers);
    match decimals {
        None => pairs.for_each(|(cell, number)| *cell = f64::from_bits(*number as u64)),
        Some(0) => pairs.for_each(|(cell, number)| *cell = *number as f64),
        Some(decimals @ 1..=MAX_DECIMALS) => {
            let power = block::power_of_ten(decimals);
            pairs.for_each(|(cell, number)| *cell = *number as f64 / power);
        }
        Some(_) => return None,
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use diskwright_base::{Schema, Series};

    use super::*;

    /// A frame with columns of every kind, some with gaps and zeros.
    fn frame_of_all_sorts() -> Frame {
        let series = |i: usize| Series { counter: format!("a.{i}"), instance: String::new(), scale: 1.0 };
        let mut frame = Frame::new(Arc::new(Schema::new((0..9).map(series).collect())), 150);
        for i in 0..150u64 {
            let noise = (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 11) as f64 / 1e11;
            let or = |every: u64, other: f64, cell: f64| if i % every == 3 { other } else { cell };
            let (gap, still) = (f64::NAN, (i / 40) as f64);
            let row = [0.0, 7.0, gap, i as f64, noise, or(9, gap, noise), or(5, 0.0, noise), or(30, gap, still), 0.25];
            frame.push(Tick { time_ns: 5 + i as i64 * 1000, elapsed_ns: 1000 }, &row);
        }
        frame
    }

    fn encode_frame(frame: &Frame) -> Vec<u8> {
        let mut code = Vec::new();
        PlainCodec::default().encode(frame, 0..frame.ticks().len(), frame.ticks(), &mut code);
        code
    }

    #[test]
    fn every_sort_of_column_round_trips() {
        let frame = frame_of_all_sorts();
        let code = encode_frame(&frame);
        assert!(is_plain(&code));
        let mut back = Frame::new(frame.schema().clone(), 150);
        assert_eq!(PlainCodec::default().decode(&code, 5, 150, &mut back), Some(()));
        assert_eq!(back.ticks(), frame.ticks());
        for column in 0..9 {
            let bits = |frame: &Frame| frame.column(column).iter().map(|c| block::cell_bits(*c)).collect::<Vec<_>>();
            assert_eq!(bits(&back), bits(&frame), "column {column}");
        }
    }

    #[test]
    fn no_code_makes_the_reader_panic_or_read_on() {
        let frame = frame_of_all_sorts();
        let code = encode_frame(&frame);
        let (mut plain, mut back) = (PlainCodec::default(), Frame::new(frame.schema().clone(), 150));
        for cut in 4..code.len() {
            assert_eq!(plain.decode(&code[..cut], 5, 150, &mut back), None, "cut at {cut}");
        }
        for index in 4..code.len() {
            for flip in [1, 0x80, 0xff] {
                let mut wrong = code.clone();
                wrong[index] ^= flip;
                let _ = plain.decode(&wrong, 5, 150, &mut back);
            }
        }
        for ticks in [1, 2, 149, 150] {
            let _ = plain.decode(&code, i64::MIN, ticks, &mut back);
        }
    }
}

//! A block: which columns there are to tell, and what is said of each before
//! the magnitudes.

use diskwright_base::Tick;

use super::bits::{BitReader, BitWriter};
use super::predict::{EXPONENTS, MOST_PARENTS, MOST_WHOLE, PredictorFactor};
use super::rare;
use super::relate::{Choice, GROUP};
use crate::bits::{unzigzag, zigzag};

/// What sort of column it is. The two columns of times come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ColumnEncoding {
    /// +0 all along.
    Zero,
    /// One whole number all along.
    Whole(i64),
    /// Any one number all along, by its bits.
    Bits(u64),
    /// A gap all along.
    Gap,
    /// Whole numbers (after a scaling by ten), told with the other such columns.
    Told,
    /// Bits, each with its difference from the one before.
    Raw,
}

/// What is said of a told column.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ColumnParameters {
    /// The numbers are these whole numbers over ten to this.
    pub decimals: u32,
    /// Differences are told, not the numbers themselves.
    pub differences: bool,
    /// The first number, where differences are told.
    pub start: i64,
    /// Where its gaps stand in the list of gaps.
    pub gaps: (usize, usize),
    /// Where its remains stand in the list of rare ones, where it is so told.
    pub rare: (usize, usize),
    pub choice: Choice,
}

/// Most decimals that are tried.
pub(super) const MOST_DECIMALS: u32 = 9;

/// Ten to the number of decimals.
pub(super) fn power_of_ten(decimals: u32) -> f64 {
    10u64.pow(decimals.min(MOST_DECIMALS)) as f64
}

/// A cell as a whole number, if it is one to the last bit.
fn whole(cell: f64) -> Option<i64> {
    let whole = cell as i64;
    ((whole as f64).to_bits() == cell.to_bits() && whole.unsigned_abs() <= MOST_WHOLE).then_some(whole)
}

/// A cell as a whole number over a power of ten, if that gives it back.
fn scaled(cell: f64, power: f64) -> Option<i64> {
    let whole = (cell * power).round() as i64;
    let same = (whole as f64 / power).to_bits() == cell.to_bits();
    (same && whole.unsigned_abs() <= MOST_WHOLE).then_some(whole)
}

/// What sort of column the cells make.
pub(super) fn kind(cells: &[f64]) -> ColumnEncoding {
    let first = cells.first().copied().unwrap_or(0.0);
    let constant = cells.iter().all(|cell| cell.to_bits() == first.to_bits());
    match () {
        () if cells.iter().all(|cell| cell.is_nan()) => ColumnEncoding::Gap,
        () if constant && first.to_bits() == 0 => ColumnEncoding::Zero,
        () if constant => whole(first).map_or(ColumnEncoding::Bits(first.to_bits()), ColumnEncoding::Whole),
        () => ColumnEncoding::Told,
    }
}

/// Appends the cells as whole numbers and their gaps as (first, length), and
/// gives the decimals; `None` (and nothing appended) when they are no such
/// numbers. In a gap stands the number before it.
pub(super) fn integers(cells: &[f64], out: &mut Vec<i64>, gaps: &mut Vec<(u32, u32)>) -> Option<u32> {
    let (numbers, gap_count) = (out.len(), gaps.len());
    for decimals in 0..=MOST_DECIMALS {
        let power = power_of_ten(decimals);
        let mut before = 0;
        let mut missing = 0;
        for &cell in cells {
            if cell.is_nan() {
                missing += 1;
                out.push(before);
                continue;
            }
            let number = if decimals == 0 { whole(cell) } else { scaled(cell, power) };
            let Some(number) = number else { break };
            if out.len() - numbers == missing {
                // Nothing but gaps so far: they get the first number.
                out[numbers..].fill(number);
            }
            before = number;
            out.push(number);
        }
        if out.len() - numbers == cells.len() {
            if missing > 0 {
                find_gaps(cells, gaps);
            }
            return Some(decimals);
        }
        out.truncate(numbers);
    }
    gaps.truncate(gap_count);
    None
}

fn find_gaps(cells: &[f64], gaps: &mut Vec<(u32, u32)>) {
    let mut before = false;
    for (row, cell) in (0u32..).zip(cells) {
        match (before, cell.is_nan(), gaps.last_mut()) {
            (true, true, Some((_, length))) => *length += 1,
            (_, true, _) => gaps.push((row, 1)),
            _ => {}
        }
        before = cell.is_nan();
    }
}

/// The times of the ticks as two columns: the covered time, and by how much
/// the wall clock's step differs from it (0 at the first tick).
pub(super) fn times(ticks: &[Tick], columns: &mut [Vec<i64>; 2]) {
    let [covered, strays] = columns;
    covered.clear();
    strays.clear();
    let mut before = ticks.first().map_or(0, |t| t.time_ns.wrapping_sub(t.elapsed_ns as i64));
    for tick in ticks {
        covered.push(tick.elapsed_ns as i64);
        strays.push(tick.time_ns.wrapping_sub(before).wrapping_sub(tick.elapsed_ns as i64));
        before = tick.time_ns;
    }
}

/// The way back.
pub(super) fn ticks(first_ns: i64, columns: &[Vec<i64>; 2], ticks: &mut Vec<Tick>) {
    let [covered, strays] = columns;
    ticks.clear();
    let mut before = first_ns.wrapping_sub(covered.first().copied().unwrap_or(0));
    for (covered, stray) in covered.iter().zip(strays) {
        before = before.wrapping_add(*covered).wrapping_add(*stray);
        ticks.push(Tick { time_ns: before, elapsed_ns: *covered as u64 });
    }
}

/// Writes what sort of column each is, with all that is said of it.
pub(super) fn put_columns(
    bits: &mut BitWriter,
    kinds: &[ColumnEncoding],
    lines: &[ColumnParameters],
    gaps: &[(u32, u32)],
    magnitudes: &[i64],
    raw: &mut dyn FnMut(usize, &mut BitWriter),
) {
    let ticks = magnitudes.len() / lines.len().max(1);
    let mut lines = lines.iter().zip(magnitudes.chunks_exact(ticks.max(1)));
    let mut column = 0;
    while column < kinds.len() {
        let zeros = kinds[column..].iter().take_while(|k| **k == ColumnEncoding::Zero).count();
        bits.put_gamma(zeros as u64);
        column += zeros;
        match kinds.get(column) {
            None | Some(ColumnEncoding::Zero) => {}
            Some(ColumnEncoding::Told) => {
                bits.put(0, 1);
                let (line, magnitudes) = lines.next().expect("a line for each told column");
                put_line(bits, line, gaps);
                if line.choice.rare {
                    rare::write(bits, magnitudes[1..].iter().map(|m| *m as u64));
                }
            }
            Some(ColumnEncoding::Whole(number)) => {
                bits.put(0b001, 3);
                bits.put_sized(zigzag(*number));
            }
            Some(ColumnEncoding::Bits(number)) => {
                bits.put(0b011, 3);
                bits.put(*number, 64);
            }
            Some(ColumnEncoding::Gap) => bits.put(0b101, 3),
            Some(ColumnEncoding::Raw) => {
                bits.put(0b111, 3);
                raw(column, bits);
            }
        }
        column += 1;
    }
}

/// Reads the sort of the next column after `zeros` more.
pub(super) fn take_kind(bits: &mut BitReader) -> Option<ColumnEncoding> {
    if !bits.take_bit() {
        return Some(ColumnEncoding::Told);
    }
    Some(match bits.take_few(2) {
        0b00 => ColumnEncoding::Whole(unzigzag(bits.take_sized()?)),
        0b01 => ColumnEncoding::Bits(bits.take(64)),
        0b10 => ColumnEncoding::Gap,
        _ => ColumnEncoding::Raw,
    })
}

fn put_line(bits: &mut BitWriter, line: &ColumnParameters, gaps: &[(u32, u32)]) {
    bits.put(u64::from(line.decimals > 0), 1);
    if line.decimals > 0 {
        bits.put(u64::from(line.decimals), 4);
    }
    let gaps = &gaps[line.gaps.0..line.gaps.1];
    bits.put(u64::from(!gaps.is_empty()), 1);
    if !gaps.is_empty() {
        bits.put_gamma(gaps.len() as u64);
        let mut end = 0;
        for (first, length) in gaps {
            bits.put_gamma(u64::from(first - end));
            bits.put_gamma(u64::from(*length));
            end = first + length;
        }
    }
    bits.put(u64::from(line.differences), 1);
    if line.differences {
        bits.put_sized(zigzag(line.start));
    }
    put_choice(bits, &line.choice);
}

/// Reads a told column's line; its gaps and rare remains are appended to the lists.
pub(super) fn take_line(
    bits: &mut BitReader,
    ticks: usize,
    gaps: &mut Vec<(u32, u32)>,
    remains: &mut Vec<(u32, u64)>,
) -> Option<ColumnParameters> {
    let mut line = ColumnParameters::default();
    if bits.take_bit() {
        line.decimals = bits.take_few(4) as u32;
    }
    line.gaps.0 = gaps.len();
    if bits.take_bit() {
        let mut end = 0;
        for _ in 0..bits.take_gamma()? {
            let first = bits.take_gamma()?.checked_add(end)?;
            let length = bits.take_gamma()?;
            end = first.checked_add(length)?;
            if end > ticks as u64 || length == 0 {
                return None;
            }
            gaps.push((first as u32, length as u32));
        }
    }
    line.gaps.1 = gaps.len();
    line.differences = bits.take_bit();
    if line.differences {
        line.start = unzigzag(bits.take_sized()?);
    }
    line.choice = take_choice(bits)?;
    line.rare.0 = remains.len();
    if line.choice.rare {
        rare::read(bits, ticks, remains)?;
    }
    line.rare.1 = remains.len();
    (line.decimals <= MOST_DECIMALS && !bits.is_overrun()).then_some(line)
}

fn put_choice(bits: &mut BitWriter, choice: &Choice) {
    bits.put(u64::from(choice.divisor > 1), 1);
    if choice.divisor > 1 {
        bits.put_sized(choice.divisor);
    }
    bits.put(u64::from(choice.smoothing), 3);
    bits.put(u64::from(choice.unsigned), 1);
    bits.put(u64::from(choice.rare), 1);
    if !choice.rare {
        bits.put(u64::from(choice.level), 6);
    }
    bits.put_sized(zigzag(choice.first));
    let parents = &choice.parents;
    bits.put(parents.count as u64, 3);
    for (column, factor) in parents.columns.iter().zip(&parents.factors).take(parents.count) {
        bits.put(u64::from(*column), GROUP.ilog2());
        match factor {
            PredictorFactor::Whole(whole) => {
                bits.put(0, 1);
                bits.put_gamma(zigzag(i64::from(*whole)));
            }
            PredictorFactor::Float(mantissa, exponent) => {
                bits.put(1, 1);
                bits.put(u64::from(*mantissa < 0), 1);
                bits.put(u64::from(mantissa.unsigned_abs()) & 0xff, 8);
                bits.put((exponent - EXPONENTS.start) as u64, 6);
            }
        }
    }
}

fn take_choice(bits: &mut BitReader) -> Option<Choice> {
    let divisor = if bits.take_bit() { bits.take_sized()? } else { 1 };
    let mut choice = Choice {
        divisor,
        smoothing: bits.take_few(3) as u32,
        unsigned: bits.take_bit(),
        rare: bits.take_bit(),
        ..Choice::default()
    };
    if !choice.rare {
        choice.level = bits.take_few(6) as u32;
    }
    choice.first = unzigzag(bits.take_sized()?);
    let count = bits.take_few(3) as usize;
    if count > MOST_PARENTS {
        return None;
    }
    choice.parents.count = count;
    for index in 0..count {
        choice.parents.columns[index] = bits.take_few(GROUP.ilog2()) as u8;
        choice.parents.factors[index] = match bits.take_bit() {
            false => PredictorFactor::Whole(i32::try_from(unzigzag(bits.take_gamma()?)).ok()?),
            true => {
                let negative = bits.take_bit();
                let mantissa = 256 + bits.take_few(8) as i32;
                let exponent = bits.take_few(6) as i32 + EXPONENTS.start;
                PredictorFactor::Float(if negative { -mantissa } else { mantissa }, exponent)
            }
        };
    }
    Some(choice)
}

/// Writes the bits of a column that is no column of whole numbers: each with
/// the stretch of bits in which it differs from the one before.
pub(super) fn put_raw(bits: &mut BitWriter, values: impl Iterator<Item = u64>) {
    let mut before = 0;
    for value in values {
        let change = value ^ before;
        before = value;
        bits.put(u64::from(change != 0), 1);
        if change != 0 {
            let (high, low) = (change.leading_zeros(), change.trailing_zeros());
            bits.put(u64::from(high), 6);
            bits.put(u64::from(low), 6);
            bits.put(change >> low, 64 - high - low);
        }
    }
}

/// The way back; false where the bits are none such.
pub(super) fn take_raw(bits: &mut BitReader, mut each: impl FnMut(u64), ticks: usize) -> bool {
    let mut before = 0;
    for _ in 0..ticks {
        if bits.take_bit() {
            let high = bits.take_few(6) as u32;
            let low = bits.take_few(6) as u32;
            if high + low >= 64 {
                return false;
            }
            before ^= bits.take(64 - high - low) << low;
        }
        each(before);
    }
    !bits.is_overrun()
}

/// Bits of a cell; every gap has the same.
pub(super) fn cell_bits(cell: f64) -> u64 {
    if cell.is_nan() { f64::NAN.to_bits() } else { cell.to_bits() }
}

//! Head of a block's code: the encoding of each column and its parameters, which
//! precede the magnitudes.

use diskwright_base::Tick;

use super::bit_stream::{BitReader, BitWriter};
use super::parent_search::{ColumnModel, MAX_GROUP_COLUMNS};
use super::predict::{EXPONENTS, MAX_EXACT_WHOLE, MAX_PARENTS, PredictorFactor};
use super::sparse;
use crate::varint::{unzigzag, zigzag};

/// Encoding of a column. The two columns of times come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ColumnEncoding {
    /// Every cell is +0.
    Zero,
    /// Every cell is this whole number.
    ConstantInteger(i64),
    /// Every cell has these bits.
    ConstantBits(u64),
    /// Every cell is a gap.
    AllGaps,
    /// Whole numbers (after scaling by a power of ten), encoded together with the other such columns.
    Integers,
    /// Bits, each as the difference from the one before.
    RawBits,
}

/// Parameters of a column of whole numbers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ColumnParameters {
    /// The cells are the whole numbers divided by ten to this power.
    pub decimals: u32,
    /// Differences are encoded, not the numbers themselves.
    pub differences: bool,
    /// The first number, if differences are encoded.
    pub first_value: i64,
    /// Range of its gaps in the list of all gaps.
    pub gap_range: (usize, usize),
    /// Range of its residuals in the list of sparse residuals, if it is encoded sparsely.
    pub sparse_range: (usize, usize),
    /// Prediction from other columns and from its own past.
    pub model: ColumnModel,
}

/// Largest number of decimals that is tried.
pub(super) const MAX_DECIMALS: u32 = 9;

/// Returns ten to the power of `decimals`.
pub(super) fn power_of_ten(decimals: u32) -> f64 {
    10u64.pow(decimals.min(MAX_DECIMALS)) as f64
}

/// Converts a cell to a whole number, if that is exact to the last bit.
fn as_whole_number(cell: f64) -> Option<i64> {
    let integer = cell as i64;
    ((integer as f64).to_bits() == cell.to_bits() && integer.unsigned_abs() <= MAX_EXACT_WHOLE).then_some(integer)
}

/// Converts a cell to a whole number over a power of ten, if that reproduces it exactly.
fn as_scaled_number(cell: f64, power: f64) -> Option<i64> {
    let integer = (cell * power).round() as i64;
    let is_exact = (integer as f64 / power).to_bits() == cell.to_bits();
    (is_exact && integer.unsigned_abs() <= MAX_EXACT_WHOLE).then_some(integer)
}

/// Chooses the encoding of a column's cells, without checking that they are whole numbers.
pub(super) fn classify_column(cells: &[f64]) -> ColumnEncoding {
    let first = cells.first().copied().unwrap_or(0.0);
    let is_constant = cells.iter().all(|cell| cell.to_bits() == first.to_bits());
    if cells.iter().all(|cell| cell.is_nan()) {
        ColumnEncoding::AllGaps
    } else if is_constant && first.to_bits() == 0 {
        ColumnEncoding::Zero
    } else if is_constant {
        as_whole_number(first).map_or(ColumnEncoding::ConstantBits(first.to_bits()), ColumnEncoding::ConstantInteger)
    } else {
        ColumnEncoding::Integers
    }
}

/// Appends the cells as whole numbers and their gaps as (first, length), and
/// returns the decimals; `None` (and nothing appended) if they are not whole
/// numbers over a power of ten. A gap gets the number before it.
pub(super) fn append_integers(cells: &[f64], out: &mut Vec<i64>, gaps: &mut Vec<(u32, u32)>) -> Option<u32> {
    let (start, gap_count) = (out.len(), gaps.len());
    for decimals in 0..=MAX_DECIMALS {
        let power = power_of_ten(decimals);
        let mut previous = 0;
        let mut gap_cells = 0;
        for &cell in cells {
            if cell.is_nan() {
                gap_cells += 1;
                out.push(previous);
                continue;
            }
            let number = if decimals == 0 { as_whole_number(cell) } else { as_scaled_number(cell, power) };
            let Some(number) = number else { break };
            if out.len() - start == gap_cells {
                // Only gaps so far: they get the first number.
                out[start..].fill(number);
            }
            previous = number;
            out.push(number);
        }
        if out.len() - start == cells.len() {
            if gap_cells > 0 {
                find_gaps(cells, gaps);
            }
            return Some(decimals);
        }
        out.truncate(start);
    }
    gaps.truncate(gap_count);
    None
}

fn find_gaps(cells: &[f64], gaps: &mut Vec<(u32, u32)>) {
    let mut follows_gap = false;
    for (row, cell) in (0u32..).zip(cells) {
        match (follows_gap, cell.is_nan(), gaps.last_mut()) {
            (true, true, Some((_, length))) => *length += 1,
            (_, true, _) => gaps.push((row, 1)),
            _ => {}
        }
        follows_gap = cell.is_nan();
    }
}

/// Splits the ticks' times into two columns: the elapsed time, and the deviation of
/// the wall clock's step from it (0 at the first tick).
pub(super) fn split_times(ticks: &[Tick], columns: &mut [Vec<i64>; 2]) {
    let [elapsed, deviations] = columns;
    elapsed.clear();
    deviations.clear();
    let mut previous_ns = ticks.first().map_or(0, |t| t.time_ns.wrapping_sub(t.elapsed_ns as i64));
    for tick in ticks {
        elapsed.push(tick.elapsed_ns as i64);
        deviations.push(tick.time_ns.wrapping_sub(previous_ns).wrapping_sub(tick.elapsed_ns as i64));
        previous_ns = tick.time_ns;
    }
}

/// Reverses [`split_times`].
pub(super) fn join_times(first_ns: i64, columns: &[Vec<i64>; 2], ticks: &mut Vec<Tick>) {
    let [elapsed, deviations] = columns;
    ticks.clear();
    let mut time_ns = first_ns.wrapping_sub(elapsed.first().copied().unwrap_or(0));
    for (elapsed, deviation) in elapsed.iter().zip(deviations) {
        time_ns = time_ns.wrapping_add(*elapsed).wrapping_add(*deviation);
        ticks.push(Tick { time_ns, elapsed_ns: *elapsed as u64 });
    }
}

/// Writes the encoding and the parameters of each column.
pub(super) fn put_columns(
    bits: &mut BitWriter,
    kinds: &[ColumnEncoding],
    parameters: &[ColumnParameters],
    gaps: &[(u32, u32)],
    magnitudes: &[i64],
    raw: &mut dyn FnMut(usize, &mut BitWriter),
) {
    let ticks = magnitudes.len() / parameters.len().max(1);
    let mut parameters = parameters.iter().zip(magnitudes.chunks_exact(ticks.max(1)));
    let mut column = 0;
    while column < kinds.len() {
        let zeros = kinds[column..].iter().take_while(|k| **k == ColumnEncoding::Zero).count();
        bits.put_gamma(zeros as u64);
        column += zeros;
        match kinds.get(column) {
            None | Some(ColumnEncoding::Zero) => {}
            Some(ColumnEncoding::Integers) => {
                bits.put_bits(0, 1);
                let (column_parameters, magnitudes) =
                    parameters.next().expect("parameters for each column of integers");
                put_parameters(bits, column_parameters, gaps);
                if column_parameters.model.sparse {
                    sparse::write(bits, magnitudes[1..].iter().map(|m| *m as u64));
                }
            }
            Some(ColumnEncoding::ConstantInteger(number)) => {
                bits.put_bits(0b001, 3);
                bits.put_sized(zigzag(*number));
            }
            Some(ColumnEncoding::ConstantBits(number)) => {
                bits.put_bits(0b011, 3);
                bits.put_bits(*number, 64);
            }
            Some(ColumnEncoding::AllGaps) => bits.put_bits(0b101, 3),
            Some(ColumnEncoding::RawBits) => {
                bits.put_bits(0b111, 3);
                raw(column, bits);
            }
        }
        column += 1;
    }
}

/// Reads the encoding of a column other than [`ColumnEncoding::Zero`].
pub(super) fn read_encoding(bits: &mut BitReader) -> Option<ColumnEncoding> {
    if !bits.read_bit() {
        return Some(ColumnEncoding::Integers);
    }
    Some(match bits.read_few_bits(2) {
        0b00 => ColumnEncoding::ConstantInteger(unzigzag(bits.read_sized()?)),
        0b01 => ColumnEncoding::ConstantBits(bits.read_bits(64)),
        0b10 => ColumnEncoding::AllGaps,
        _ => ColumnEncoding::RawBits,
    })
}

fn put_parameters(bits: &mut BitWriter, parameters: &ColumnParameters, gaps: &[(u32, u32)]) {
    bits.put_bits(u64::from(parameters.decimals > 0), 1);
    if parameters.decimals > 0 {
        bits.put_bits(u64::from(parameters.decimals), 4);
    }
    let gaps = &gaps[parameters.gap_range.0..parameters.gap_range.1];
    bits.put_bits(u64::from(!gaps.is_empty()), 1);
    if !gaps.is_empty() {
        bits.put_gamma(gaps.len() as u64);
        let mut end = 0;
        for (first, length) in gaps {
            bits.put_gamma(u64::from(first - end));
            bits.put_gamma(u64::from(*length));
            end = first + length;
        }
    }
    bits.put_bits(u64::from(parameters.differences), 1);
    if parameters.differences {
        bits.put_sized(zigzag(parameters.first_value));
    }
    put_model(bits, &parameters.model);
}

/// Reads the parameters of a column of whole numbers; appends its gaps and sparse residuals to the lists.
pub(super) fn read_parameters(
    bits: &mut BitReader,
    ticks: usize,
    gaps: &mut Vec<(u32, u32)>,
    residuals: &mut Vec<(u32, u64)>,
) -> Option<ColumnParameters> {
    let mut parameters = ColumnParameters::default();
    if bits.read_bit() {
        parameters.decimals = bits.read_few_bits(4) as u32;
    }
    parameters.gap_range.0 = gaps.len();
    if bits.read_bit() {
        let mut end = 0;
        for _ in 0..bits.read_gamma()? {
            let first = bits.read_gamma()?.checked_add(end)?;
            let length = bits.read_gamma()?;
            end = first.checked_add(length)?;
            if end > ticks as u64 || length == 0 {
                return None;
            }
            gaps.push((first as u32, length as u32));
        }
    }
    parameters.gap_range.1 = gaps.len();
    parameters.differences = bits.read_bit();
    if parameters.differences {
        parameters.first_value = unzigzag(bits.read_sized()?);
    }
    parameters.model = read_model(bits)?;
    parameters.sparse_range.0 = residuals.len();
    if parameters.model.sparse {
        sparse::read(bits, ticks, residuals)?;
    }
    parameters.sparse_range.1 = residuals.len();
    (parameters.decimals <= MAX_DECIMALS && !bits.is_overrun()).then_some(parameters)
}

fn put_model(bits: &mut BitWriter, model: &ColumnModel) {
    bits.put_bits(u64::from(model.divisor > 1), 1);
    if model.divisor > 1 {
        bits.put_sized(model.divisor);
    }
    bits.put_bits(u64::from(model.smoothing), 3);
    bits.put_bits(u64::from(model.unsigned), 1);
    bits.put_bits(u64::from(model.sparse), 1);
    if !model.sparse {
        bits.put_bits(u64::from(model.level), 6);
    }
    bits.put_sized(zigzag(model.first));
    let parents = &model.parents;
    bits.put_bits(parents.count as u64, 3);
    for (column, factor) in parents.columns.iter().zip(&parents.factors).take(parents.count) {
        bits.put_bits(u64::from(*column), MAX_GROUP_COLUMNS.ilog2());
        match factor {
            PredictorFactor::Whole(integer) => {
                bits.put_bits(0, 1);
                bits.put_gamma(zigzag(i64::from(*integer)));
            }
            PredictorFactor::Float(mantissa, exponent) => {
                bits.put_bits(1, 1);
                bits.put_bits(u64::from(*mantissa < 0), 1);
                bits.put_bits(u64::from(mantissa.unsigned_abs()) & 0xff, 8);
                bits.put_bits((exponent - EXPONENTS.start) as u64, 6);
            }
        }
    }
}

fn read_model(bits: &mut BitReader) -> Option<ColumnModel> {
    let divisor = if bits.read_bit() { bits.read_sized()? } else { 1 };
    let mut model = ColumnModel {
        divisor,
        smoothing: bits.read_few_bits(3) as u32,
        unsigned: bits.read_bit(),
        sparse: bits.read_bit(),
        ..ColumnModel::default()
    };
    if !model.sparse {
        model.level = bits.read_few_bits(6) as u32;
    }
    model.first = unzigzag(bits.read_sized()?);
    let count = bits.read_few_bits(3) as usize;
    if count > MAX_PARENTS {
        return None;
    }
    model.parents.count = count;
    for index in 0..count {
        model.parents.columns[index] = bits.read_few_bits(MAX_GROUP_COLUMNS.ilog2()) as u8;
        model.parents.factors[index] = match bits.read_bit() {
            false => PredictorFactor::Whole(i32::try_from(unzigzag(bits.read_gamma()?)).ok()?),
            true => {
                let negative = bits.read_bit();
                let mantissa = 256 + bits.read_few_bits(8) as i32;
                let exponent = bits.read_few_bits(6) as i32 + EXPONENTS.start;
                PredictorFactor::Float(if negative { -mantissa } else { mantissa }, exponent)
            }
        };
    }
    Some(model)
}

/// Writes the bits of a column that is not one of whole numbers: for each value,
/// the range of bits in which it differs from the one before.
pub(super) fn put_raw(bits: &mut BitWriter, values: impl Iterator<Item = u64>) {
    let mut previous = 0;
    for value in values {
        let change = value ^ previous;
        previous = value;
        bits.put_bits(u64::from(change != 0), 1);
        if change != 0 {
            let (high, low) = (change.leading_zeros(), change.trailing_zeros());
            bits.put_bits(u64::from(high), 6);
            bits.put_bits(u64::from(low), 6);
            bits.put_bits(change >> low, 64 - high - low);
        }
    }
}

/// Reverses [`put_raw`], calling `each` with every value; returns false if the bits are invalid.
pub(super) fn read_raw(bits: &mut BitReader, mut each: impl FnMut(u64), ticks: usize) -> bool {
    let mut previous = 0;
    for _ in 0..ticks {
        if bits.read_bit() {
            let high = bits.read_few_bits(6) as u32;
            let low = bits.read_few_bits(6) as u32;
            if high + low >= 64 {
                return false;
            }
            previous ^= bits.read_bits(64 - high - low) << low;
        }
        each(previous);
    }
    !bits.is_overrun()
}

/// Returns the bits of a cell; all gaps have the same.
pub(super) fn cell_bits(cell: f64) -> u64 {
    if cell.is_nan() { f64::NAN.to_bits() } else { cell.to_bits() }
}

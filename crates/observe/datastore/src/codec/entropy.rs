//! Entropy code of magnitudes: nearly as short as their recent past allows.
//!
//! Each column keeps a scale: a sliding mean of its magnitudes. The scale (by
//! octave) and whether the last two magnitudes were 0 choose one of
//! [`CONTEXTS`] fixed frequency tables. A magnitude is encoded as a symbol of that
//! table, which gives its size to half an octave, and its low bits unchanged. Above
//! a scale of about 16 the symbol is relative to the scale, so that one table
//! serves all larger scales.
//!
//! Symbols are written by asymmetric numeral systems (rANS), with four states in
//! turn, which are close to the ideal length even where a 0 costs a tenth of
//! a bit. The order is tick by tick across the columns, so that a decoder knows the
//! table of the next symbol before it has decoded this one.

use super::bit_stream::{BitReader, BitWriter};
use super::frequency_table::FREQUENCIES;

/// The frequencies of a table add up to two to this power.
pub(super) const PRECISION: u32 = 11;
pub(super) const SYMBOLS: usize = 32;
/// Levels of scale times histories of zeros.
pub(super) const CONTEXTS: usize = LEVELS * HISTORIES;
/// Number of allocated tables: a power of two, so that masked indices need no bounds check.
const PADDED_CONTEXTS: usize = CONTEXTS.next_power_of_two();
const LEVELS: usize = 10;
const HISTORIES: usize = 3;
/// Level from which on symbols are relative to the scale.
const RELATIVE_LEVEL: u8 = LEVELS as u8 - 1;
/// The symbol of a magnitude too large for its table.
const ESCAPE_SYMBOL: u8 = SYMBOLS as u8 - 1;
/// Largest magnitude that counts in the scale; larger ones count as this.
const MAX_MOVING_MAGNITUDE: u64 = 1 << 40;
/// Largest level that a scale can start with or reach.
pub(super) const MAX_LEVEL: u32 = 45;

/// A column's recent past.
#[derive(Clone, Copy, Debug)]
pub(super) struct ColumnHistory {
    /// Sixteen times the sliding mean of the magnitudes.
    mean: u64,
    /// 1 if the last magnitude was 0, else 0.
    zero: u8,
    context: u8,
    shift: u8,
}

impl ColumnHistory {
    /// Creates a history at a level, as if all earlier magnitudes had that size.
    pub fn new(level: u32) -> ColumnHistory {
        let mut history = ColumnHistory { mean: (1 << level.min(MAX_LEVEL)) & !1, zero: 0, context: 0, shift: 0 };
        history.update_context(0);
        history
    }

    /// Returns the level for a mean of magnitudes: the octave of sixteen times the mean.
    pub fn level_for_mean(mean: u64) -> u32 {
        (mean.min(MAX_MOVING_MAGNITUDE) * 16 + 1).ilog2()
    }

    /// Derives shift and context from the mean and from the last two magnitudes.
    #[inline(always)]
    fn update_context(&mut self, zero: u8) {
        let (context, shift) = CONTEXT_BY_LEVEL[(self.mean | 1).ilog2() as usize % 64];
        self.shift = shift;
        self.context = context + self.zero + zero;
        debug_assert!(usize::from(self.context) < CONTEXTS, "context {} of {CONTEXTS}", self.context);
        self.zero = zero;
    }

    /// Updates the history with the next magnitude.
    #[inline(always)]
    fn add_magnitude(&mut self, magnitude: u64) {
        let step = (magnitude.min(MAX_MOVING_MAGNITUDE) << 4) as i64 - self.mean as i64;
        self.mean = (self.mean as i64 + ((3 * step) >> 3)) as u64;
        // between the old mean and the magnitude, so neither below 0 nor above both
        debug_assert!(self.mean <= 1 << MAX_LEVEL, "a mean of {}", self.mean);
        self.update_context(u8::from(magnitude == 0));
    }
}

/// First context, and shift, of each level.
const CONTEXT_BY_LEVEL: [(u8, u8); 64] = {
    let mut table = [(0, 0); 64];
    let mut level = 0;
    while level < 64 {
        let absolute = if level < RELATIVE_LEVEL { level } else { RELATIVE_LEVEL };
        table[level as usize] = (absolute * HISTORIES as u8, level.saturating_sub(RELATIVE_LEVEL - 1));
        level += 1;
    }
    table
};

/// Returns a magnitude's symbol, and the number of low bits that follow unchanged.
#[inline(always)]
fn classify_magnitude(magnitude: u64, shift: u8) -> (u8, u32) {
    let relative = magnitude >> shift;
    let (bucket, low) = match relative {
        0..4 => (relative as u32, 0),
        _ => {
            let octave = relative.ilog2();
            (2 * octave + (relative >> (octave - 1) & 1) as u32, octave - 1)
        }
    };
    let symbol = bucket + u32::from(shift > 0 && magnitude > 0);
    let low = if magnitude == 0 { 0 } else { low + u32::from(shift) };
    (symbol.min(u32::from(ESCAPE_SYMBOL)) as u8, low)
}

/// Writes the low bits of a magnitude.
fn put_low_bits(bits: &mut BitWriter, magnitude: u64, symbol: u8, low: u32) {
    if symbol == ESCAPE_SYMBOL {
        let length = 64 - magnitude.leading_zeros();
        bits.put_bits(u64::from(length), 7);
        bits.put_bits(magnitude, length);
    } else {
        bits.put_bits(magnitude, low);
    }
}

/// Decoding data of a symbol in a context.
#[derive(Clone, Copy, Debug, Default)]
struct SymbolEntry {
    frequency: u16,
    first_slot: u16,
    /// First magnitude, before the shift.
    first: u16,
    /// Low bits, before the shift.
    low: u8,
    /// All ones if the shift's bits follow too, else 0.
    shifted: u8,
}

impl SymbolEntry {
    fn new(context: usize, symbol: usize, frequency: u16, first_slot: u16) -> SymbolEntry {
        let is_relative = context / HISTORIES >= usize::from(RELATIVE_LEVEL);
        let bucket = (symbol as u32).saturating_sub(u32::from(is_relative));
        let (first, low) = match bucket {
            0..4 => (bucket, 0),
            _ => ((2 + (bucket & 1)) << (bucket / 2 - 1), bucket as u8 / 2 - 1),
        };
        let shifted = if is_relative && symbol > 0 { 0xff } else { 0 };
        SymbolEntry { frequency, first_slot, first: first.min(u32::from(u16::MAX)) as u16, low, shifted }
    }
}

/// Reads the magnitude after an escape symbol. The reader is passed by value, so that its position stays in a
/// register.
#[cold]
fn read_escaped(mut bits: BitReader) -> (u64, BitReader) {
    let length = bits.read_few_bits(7) as u32;
    (bits.read_bits(length.min(64)), bits)
}

/// The frequency tables in the form that encoder and decoder use.
pub(super) struct FrequencyTables {
    /// Symbol of each slot.
    slots: Box<[[u8; 1 << PRECISION]; PADDED_CONTEXTS]>,
    entries: Box<[SymbolEntry; SYMBOLS * PADDED_CONTEXTS]>,
    /// Price of each symbol, in sixteenths of a bit.
    prices: [[u16; SYMBOLS]; PADDED_CONTEXTS],
}

impl FrequencyTables {
    /// Builds the tables from [`FREQUENCIES`].
    pub fn new() -> FrequencyTables {
        let mut slots = vec![[0u8; 1 << PRECISION]; PADDED_CONTEXTS];
        let mut entries = Box::new([SymbolEntry::default(); SYMBOLS * PADDED_CONTEXTS]);
        let mut prices = [[0; SYMBOLS]; PADDED_CONTEXTS];
        for (context, frequencies) in FREQUENCIES.iter().enumerate() {
            let mut first = 0;
            for (symbol, &frequency) in frequencies.iter().enumerate() {
                assert!(frequency > 0, "symbol {symbol} of context {context} can be written");
                let range = usize::from(first)..usize::from(first + frequency);
                slots[context][range].fill(symbol as u8);
                entries[context * SYMBOLS + symbol] = SymbolEntry::new(context, symbol, frequency, first);
                let share = f64::from(frequency) / f64::from(1 << PRECISION);
                prices[context][symbol] = (-share.log2() * 16.0).round() as u16;
                first += frequency;
            }
            assert_eq!(first, 1 << PRECISION, "frequencies of context {context}");
        }
        let slots: Box<[_; PADDED_CONTEXTS]> = slots.into_boxed_slice().try_into().expect("one for each context");
        FrequencyTables { slots, entries, prices }
    }

    /// Returns the price of magnitudes in sixteenths of a bit, or any number above `max_price`.
    pub fn price_magnitudes(&self, level: u32, magnitudes: &[u64], max_price: u64) -> u64 {
        let mut history = ColumnHistory::new(level);
        let mut sum = 0;
        for chunk in magnitudes.chunks(32) {
            for &magnitude in chunk {
                let (symbol, low) = classify_magnitude(magnitude, history.shift);
                let low = if symbol == ESCAPE_SYMBOL { 7 + 64 - magnitude.leading_zeros() } else { low };
                let price = self.prices[usize::from(history.context)][usize::from(symbol)];
                sum += u64::from(price) + u64::from(low) * 16;
                history.add_magnitude(magnitude);
            }
            if sum > max_price {
                break;
            }
        }
        sum
    }
}

/// Smallest state between symbols.
const MIN_STATE: u32 = 1 << 16;
const STATES: usize = 4;

/// Reusable buffers of the encoder.
#[derive(Debug, Default)]
pub(super) struct EntropyWriter {
    histories: Vec<ColumnHistory>,
    symbols: Vec<(u8, u8)>,
    words: Vec<u16>,
    bits: BitWriter,
}

impl EntropyWriter {
    /// Appends the magnitudes of columns, `ticks` per column, without the first
    /// of each. `columns` are the indices of the columns, with the level that each starts with.
    pub fn write(
        &mut self,
        tables: &FrequencyTables,
        columns: &[(usize, u32)],
        magnitudes: &[i64],
        ticks: usize,
        out: &mut Vec<u8>,
    ) {
        self.histories.clear();
        self.histories.extend(columns.iter().map(|(_, level)| ColumnHistory::new(*level)));
        self.symbols.clear();
        self.bits.clear();
        for tick in 1..ticks {
            for ((column, _), history) in columns.iter().zip(&mut self.histories) {
                let magnitude = magnitudes[column * ticks + tick] as u64;
                let (symbol, low) = classify_magnitude(magnitude, history.shift);
                self.symbols.push((history.context, symbol));
                put_low_bits(&mut self.bits, magnitude, symbol, low);
                history.add_magnitude(magnitude);
            }
        }
        self.write_symbols(tables, out);
        self.bits.finish(out);
    }

    /// Writes the symbols from last to first, because rANS reads in the reverse order of writing.
    fn write_symbols(&mut self, tables: &FrequencyTables, out: &mut Vec<u8>) {
        let mut states = [MIN_STATE; STATES];
        self.words.clear();
        assert!(self.symbols.is_empty() || !self.histories.is_empty(), "each symbol is one of a column");
        // symbols are tick by tick across the columns; each column has one of the states in turn
        for (index, &(context, symbol)) in self.symbols.iter().enumerate().rev() {
            let state = &mut states[index % self.histories.len() % STATES];
            let entry = &tables.entries[usize::from(context) * SYMBOLS + usize::from(symbol)];
            let frequency = u32::from(entry.frequency);
            let max_state = u64::from(frequency) << (32 - PRECISION);
            if u64::from(*state) >= max_state {
                self.words.push(*state as u16);
                *state >>= 16;
            }
            *state = (*state / frequency) << PRECISION | (*state % frequency + u32::from(entry.first_slot));
            debug_assert!(*state >= MIN_STATE, "the state {state} of a reader would be refilled once more");
        }
        out.extend_from_slice(&(self.words.len() as u32).to_le_bytes());
        states.iter().for_each(|state| out.extend_from_slice(&state.to_le_bytes()));
        self.words.iter().rev().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
    }
}

/// Words from which the states are refilled.
struct EntropyWords<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl EntropyWords<'_> {
    /// Refills the state from the next word if it is too low. There is no branch,
    /// because it could not be predicted. A damaged code can leave the state below
    /// [`MIN_STATE`] even so: the comparison with the last states finds that.
    #[inline(always)]
    fn fill_up(&mut self, state: u32) -> u32 {
        let word = match self.bytes.get(self.position..).and_then(|rest| rest.first_chunk::<2>()) {
            Some(word) => u32::from(u16::from_le_bytes(*word)),
            None => 0,
        };
        let low = u32::from(state < MIN_STATE);
        self.position += 2 * low as usize;
        state << (16 * low) | word & low.wrapping_neg()
    }
}

/// Reverses [`EntropyWriter::write`]: `magnitudes` gets the second and
/// later magnitudes of each column, tick by tick. `None` if the code is invalid.
pub(super) fn read_magnitudes(
    tables: &FrequencyTables,
    code: &[u8],
    histories: &mut [ColumnHistory],
    magnitudes: &mut [u64],
) -> Option<()> {
    let count = u32::from_le_bytes(code.get(..4)?.try_into().ok()?) as usize;
    let mut states = [0; STATES];
    for (state, bytes) in states.iter_mut().zip(code.get(4..4 + 4 * STATES)?.chunks_exact(4)) {
        *state = u32::from_le_bytes(bytes.try_into().ok()?);
    }
    let (words, low) = code[4 + 4 * STATES..].split_at_checked(count.checked_mul(2)?)?;
    let mut words = EntropyWords { bytes: words, position: 0 };
    let mut bits = BitReader::new(low);
    if !histories.is_empty() {
        let columns = histories.len();
        let (fours, rest) = histories.as_chunks_mut::<STATES>();
        for tick in magnitudes.chunks_exact_mut(columns) {
            let (out, out_rest) = tick.as_chunks_mut::<STATES>();
            let [mut a, mut b, mut c, mut d] = states;
            for (four, out) in fours.iter_mut().zip(out) {
                out[0] = read_magnitude(tables, &mut four[0], &mut a, &mut words, &mut bits);
                out[1] = read_magnitude(tables, &mut four[1], &mut b, &mut words, &mut bits);
                out[2] = read_magnitude(tables, &mut four[2], &mut c, &mut words, &mut bits);
                out[3] = read_magnitude(tables, &mut four[3], &mut d, &mut words, &mut bits);
            }
            states = [a, b, c, d];
            for ((history, out), state) in rest.iter_mut().zip(out_rest).zip(&mut states) {
                *out = read_magnitude(tables, history, state, &mut words, &mut bits);
            }
        }
    }
    let is_at_end = words.position == words.bytes.len() && !bits.is_overrun();
    (is_at_end && states == [MIN_STATE; STATES]).then_some(())
}

/// Decodes the next magnitude of a column.
#[inline(always)]
fn read_magnitude(
    tables: &FrequencyTables,
    history: &mut ColumnHistory,
    state: &mut u32,
    words: &mut EntropyWords,
    bits: &mut BitReader,
) -> u64 {
    let context = usize::from(history.context) % PADDED_CONTEXTS;
    let slot = *state & ((1 << PRECISION) - 1);
    let symbol = tables.slots[context][slot as usize];
    let entry = &tables.entries[context * SYMBOLS + usize::from(symbol) % SYMBOLS];
    debug_assert!(slot >= u32::from(entry.first_slot), "slot {slot} is one of symbol {symbol}");
    let next = u32::from(entry.frequency) * (*state >> PRECISION) + slot - u32::from(entry.first_slot);
    *state = words.fill_up(next);
    let magnitude = match symbol {
        ESCAPE_SYMBOL => {
            let magnitude;
            (magnitude, *bits) = read_escaped(*bits);
            magnitude
        }
        _ => {
            u64::from(entry.first) << history.shift
                | bits.read_few_bits(u32::from(entry.low + (history.shift & entry.shifted)))
        }
    };
    history.add_magnitude(magnitude);
    magnitude
}

/// Counts each symbol in its context, for training the tables.
#[cfg(test)]
pub(super) fn count_symbols(level: u32, magnitudes: &[u64], counts: &mut [[u64; SYMBOLS]; CONTEXTS]) {
    let mut history = ColumnHistory::new(level);
    for &magnitude in magnitudes {
        let (symbol, _) = classify_magnitude(magnitude, history.shift);
        counts[usize::from(history.context)][usize::from(symbol)] += 1;
        history.add_magnitude(magnitude);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn magnitudes_of_all_sizes_round_trip() {
        let tables = FrequencyTables::new();
        let ticks = 200;
        let mut random = 1u64;
        let mut magnitudes = Vec::new();
        for column in 0..13u32 {
            for tick in 0..ticks as u32 {
                random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let size = (column * 5 + if tick % 50 > 40 { 20 } else { 0 }).min(64);
                magnitudes.push(if size == 0 { 0 } else { ((random ^ random >> 29) >> (64 - size)) as i64 });
            }
        }
        let busy: Vec<(usize, u32)> = (0..13).filter(|c| *c != 5).map(|c| (c, c as u32 * 3)).collect();
        let mut code = Vec::new();
        EntropyWriter::default().write(&tables, &busy, &magnitudes, ticks, &mut code);
        let scales = || busy.iter().map(|(_, level)| ColumnHistory::new(*level)).collect::<Vec<ColumnHistory>>();
        let mut back = vec![0; 12 * (ticks - 1)];
        assert_eq!(read_magnitudes(&tables, &code, &mut scales(), &mut back), Some(()));
        for (index, (column, _)) in busy.iter().enumerate() {
            for tick in 1..ticks {
                assert_eq!(back[(tick - 1) * 12 + index], magnitudes[column * ticks + tick] as u64, "{column} {tick}");
            }
        }
        assert_eq!(read_magnitudes(&tables, &code[..code.len() - 9], &mut scales(), &mut back), None);
    }

    #[test]
    fn a_zero_among_zeros_costs_far_less_than_a_bit() {
        let tables = FrequencyTables::new();
        let bits = tables.price_magnitudes(0, &[0; 1000], u64::MAX) as f64 / 16.0;
        assert!(bits < 200.0, "{bits} bits");
    }
}

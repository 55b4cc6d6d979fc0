//! Compression of a block's numbers.
//!
//! Constant columns take a few bits. The others become whole numbers (scaled
//! by a power of ten where that is exact; other numbers are encoded by their
//! bits). Columns whose differences vary less are replaced by these. Then each column is predicted
//! from up to six others by fixed factors (`parent_search`), a sliding mean of
//! its own past is subtracted (`predict`), and the residuals are written in as
//! few bits as their recent sizes allow (`entropy`), or as a list of the few
//! that are not 0 (`sparse`).
//!
//! A bulk import must be faster: its blocks have the code of `plain`.
//!
//! The code: length of the head u32, the head (`block`), then the entropy
//! code. The two columns of the ticks' times come first and are encoded like
//! the others.

mod bit_stream;
mod block;
mod entropy;
mod frequency_table;
mod parent_search;
mod plain;
mod predict;
mod sparse;

use std::ops::Range;
use std::sync::LazyLock;

use diskwright_base::{Frame, Tick};

use crate::varint::unzigzag;
use bit_stream::{BitReader, BitWriter};
use block::{ColumnEncoding, ColumnParameters};
use entropy::{ColumnHistory, EntropyWriter, FrequencyTables};
use parent_search::{MAX_GROUP_COLUMNS, ModelSearch};
use predict::MAX_EXACT_WHOLE;

static TABLES: LazyLock<FrequencyTables> = LazyLock::new(FrequencyTables::new);

/// Number of columns of times, which precede those of the frame.
const TIME_COLUMNS: usize = 2;

/// Encoder of blocks, which reuses its memory.
#[derive(Debug, Default)]
pub(crate) struct Encoder {
    times: [Vec<i64>; TIME_COLUMNS],
    encodings: Vec<ColumnEncoding>,
    parameters: Vec<ColumnParameters>,
    gaps: Vec<(u32, u32)>,
    /// Whole numbers or differences of the `Integers` columns, one column after the
    /// other. After the search of a group, its magnitudes (as bits).
    forms: Vec<i64>,
    /// Magnitudes of one group.
    magnitudes: Vec<u64>,
    /// Columns in the entropy code, with the levels that they start with.
    entropy_columns: Vec<(usize, u32)>,
    search: ModelSearch,
    head: BitWriter,
    entropy: EntropyWriter,
    plain: plain::PlainCodec,
}

impl Encoder {
    /// Appends the code of a frame's ticks and cells.
    pub fn encode(&mut self, frame: &Frame, out: &mut Vec<u8>) {
        let ticks = frame.ticks().len();
        self.classify_columns(frame);
        let mut chosen = 0;
        for forms in self.forms.chunks_mut(MAX_GROUP_COLUMNS * ticks.max(1)) {
            self.magnitudes.resize(forms.len(), 0);
            self.search.choose_models(&TABLES, forms, ticks, &mut self.magnitudes, |model| {
                self.parameters[chosen].model = model;
                chosen += 1;
            });
            // The group's forms are not needed any more, so the magnitudes replace them to save memory.
            forms.iter_mut().zip(&self.magnitudes).for_each(|(form, magnitude)| *form = *magnitude as i64);
        }
        assert_eq!(chosen, self.parameters.len(), "each column of integers has its model");
        self.write_head(frame);
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        self.head.finish(out);
        let length = (out.len() - start - 4) as u32;
        out[start..start + 4].copy_from_slice(&length.to_le_bytes());
        self.entropy_columns.clear();
        let models = self.parameters.iter().map(|parameters| parameters.model).enumerate();
        self.entropy_columns
            .extend(models.filter(|(_, model)| !model.sparse).map(|(column, model)| (column, model.level)));
        self.entropy.write(&TABLES, &self.entropy_columns, &self.forms, ticks, out);
    }

    /// Appends the fast code of `plain` for the cells of the ticks in `range`;
    /// `ticks` are the times stored with them.
    pub fn encode_plain(&mut self, frame: &Frame, range: Range<usize>, ticks: &[Tick], out: &mut Vec<u8>) {
        self.plain.encode(frame, range, ticks, out);
    }

    /// Chooses the encoding of each column and collects the forms of the whole-number columns.
    fn classify_columns(&mut self, frame: &Frame) {
        block::split_times(frame.ticks(), &mut self.times);
        self.encodings.clear();
        self.parameters.clear();
        self.gaps.clear();
        self.forms.clear();
        // Untouched memory is never resident, while growing in steps would fragment the heap.
        self.forms.reserve((TIME_COLUMNS + frame.schema().series.len()) * frame.ticks().len());
        for index in 0..TIME_COLUMNS {
            let times = &self.times[index];
            let first = times.first().copied().unwrap_or(0);
            let kind = if times.iter().any(|t| t.unsigned_abs() > MAX_EXACT_WHOLE) {
                ColumnEncoding::RawBits
            } else if times.iter().all(|t| *t == 0) {
                ColumnEncoding::Zero
            } else if times.iter().all(|t| *t == first) {
                ColumnEncoding::ConstantInteger(first)
            } else {
                self.forms.extend_from_slice(times);
                ColumnEncoding::Integers
            };
            self.encodings.push(kind);
            if kind == ColumnEncoding::Integers {
                self.add_parameters(frame.ticks().len(), 0, 0);
            }
        }
        for column in 0..frame.schema().series.len() {
            let cells = frame.column(column);
            let mut kind = block::classify_column(cells);
            if kind == ColumnEncoding::Integers {
                let first_gap = self.gaps.len();
                match block::append_integers(cells, &mut self.forms, &mut self.gaps) {
                    Some(decimals) => self.add_parameters(cells.len(), decimals, first_gap),
                    None => kind = ColumnEncoding::RawBits,
                }
            }
            self.encodings.push(kind);
        }
    }

    /// Adds the parameters of the last column in `forms`, and replaces its numbers
    /// by their differences if those vary less.
    fn add_parameters(&mut self, ticks: usize, decimals: u32, first_gap: usize) {
        let position = self.forms.len() - ticks;
        let form = &mut self.forms[position..];
        let first_value = form[0];
        let mean = form.iter().map(|v| *v as f64).sum::<f64>() / ticks as f64;
        let spread: f64 = form.iter().map(|v| (*v as f64 - mean).powi(2)).sum();
        let steps: f64 = form.windows(2).map(|w| (w[1] as f64 - w[0] as f64).powi(2)).sum();
        let differences = steps < spread;
        if differences {
            predict::take_differences(form);
        }
        let gap_range = (first_gap, self.gaps.len());
        self.parameters.push(ColumnParameters {
            decimals,
            differences,
            first_value,
            gap_range,
            ..ColumnParameters::default()
        });
    }

    fn write_head(&mut self, frame: &Frame) {
        let times = &self.times;
        let mut raw = |column: usize, bits: &mut BitWriter| match column.checked_sub(TIME_COLUMNS) {
            None => block::put_raw(bits, times[column].iter().map(|t| *t as u64)),
            Some(column) => block::put_raw(bits, frame.column(column).iter().map(|c| block::cell_bits(*c))),
        };
        self.head.clear();
        block::put_columns(&mut self.head, &self.encodings, &self.parameters, &self.gaps, &self.forms, &mut raw);
    }
}

/// Decoder of blocks, which reuses its memory.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    times: [Vec<i64>; TIME_COLUMNS],
    ticks: Vec<Tick>,
    /// Index (counting the time columns) and parameters of each `Integers` column.
    parameters: Vec<(usize, ColumnParameters)>,
    gaps: Vec<(u32, u32)>,
    /// Index and magnitude of the nonzero residuals of sparse columns.
    sparse: Vec<(u32, u64)>,
    histories: Vec<ColumnHistory>,
    /// Magnitudes of the columns in the entropy code, tick by tick, without the first.
    magnitudes: Vec<u64>,
    forms: Vec<i64>,
    sums: Vec<f64>,
    predicted: Vec<i64>,
    order: Vec<usize>,
    /// Index of each `Integers` column among those in the entropy code.
    entropy_index: Vec<usize>,
    numbers: Vec<i64>,
    plain: plain::PlainCodec,
}

impl Decoder {
    /// Fills the frame (whose schema and capacity are set) with `ticks` ticks
    /// from `first_ns` on. `None` if no [`Encoder`] can have written the code.
    pub fn decode(&mut self, code: &[u8], first_ns: i64, ticks: usize, frame: &mut Frame) -> Option<()> {
        if plain::is_plain(code) {
            return self.plain.decode(code, first_ns, ticks, frame);
        }
        let length = crate::format::u32_at(code, 0)? as usize;
        let (head, entropy_code) = code[4..].split_at_checked(length)?;
        assert!(ticks > 0, "no block is without ticks (`BlockHead::parse`)");
        self.ticks.clear();
        self.ticks.resize(ticks, Tick::default());
        frame.set_ticks(&self.ticks);
        self.read_head(head, frame)?;
        self.histories.clear();
        let models = self.parameters.iter().map(|(_, parameters)| &parameters.model).filter(|model| !model.sparse);
        self.histories.extend(models.map(|model| ColumnHistory::new(model.level)));
        self.magnitudes.resize(self.histories.len() * (ticks - 1), 0);
        entropy::read_magnitudes(&TABLES, entropy_code, &mut self.histories, &mut self.magnitudes)?;
        self.rebuild_columns(ticks, frame)?;
        block::join_times(first_ns, &self.times, &mut self.ticks);
        frame.set_ticks(&self.ticks);
        Some(())
    }

    /// Reads the head; fills the columns that it determines completely.
    fn read_head(&mut self, head: &[u8], frame: &mut Frame) -> Option<()> {
        let ticks = self.ticks.len();
        let columns = TIME_COLUMNS + frame.schema().series.len();
        let mut bits = BitReader::new(head);
        self.parameters.clear();
        self.gaps.clear();
        self.sparse.clear();
        let mut column = 0;
        while column < columns {
            let zeros = usize::try_from(bits.read_gamma()?).ok()?;
            if zeros > columns - column {
                return None;
            }
            for zero in column..column + zeros {
                self.fill_constant(frame, zero, 0, 0.0);
            }
            column += zeros;
            if column == columns {
                break;
            }
            match block::read_encoding(&mut bits)? {
                ColumnEncoding::Integers => {
                    let parameters = block::read_parameters(&mut bits, ticks, &mut self.gaps, &mut self.sparse)?;
                    self.parameters.push((column, parameters));
                }
                ColumnEncoding::ConstantInteger(integer) => self.fill_constant(frame, column, integer, integer as f64),
                ColumnEncoding::ConstantBits(bits) => {
                    self.fill_constant(frame, column, bits as i64, f64::from_bits(bits))
                }
                ColumnEncoding::AllGaps => self.fill_constant(frame, column, 0, f64::NAN),
                _ => self.read_raw(&mut bits, frame, column)?,
            }
            column += 1;
        }
        Some(())
    }

    /// Fills a column with one value: `time` if it is a column of times, else `cell`.
    fn fill_constant(&mut self, frame: &mut Frame, column: usize, time: i64, cell: f64) {
        match column.checked_sub(TIME_COLUMNS) {
            None => {
                self.times[column].clear();
                self.times[column].resize(self.ticks.len(), time);
            }
            Some(column) => frame.column_mut(column).fill(cell),
        }
    }

    fn read_raw(&mut self, bits: &mut BitReader, frame: &mut Frame, column: usize) -> Option<()> {
        let ticks = self.ticks.len();
        let valid = match column.checked_sub(TIME_COLUMNS) {
            None => {
                let times = &mut self.times[column];
                times.clear();
                block::read_raw(bits, |bits| times.push(bits as i64), ticks)
            }
            Some(column) => {
                let mut cells = frame.column_mut(column).iter_mut();
                let each = |bits| {
                    if let Some(cell) = cells.next() {
                        *cell = f64::from_bits(bits);
                    }
                };
                block::read_raw(bits, each, ticks)
            }
        };
        valid.then_some(())
    }

    /// Computes the cells from the magnitudes, group by group, each column after its
    /// parents.
    fn rebuild_columns(&mut self, ticks: usize, frame: &mut Frame) -> Option<()> {
        self.forms.resize(self.parameters.len() * ticks, 0);
        self.sums.resize(ticks, 0.0);
        self.predicted.resize(ticks, 0);
        self.numbers.resize(ticks, 0);
        self.number_entropy_columns();
        for group in 0..self.parameters.len().div_ceil(MAX_GROUP_COLUMNS) {
            let range = group * MAX_GROUP_COLUMNS..self.parameters.len().min((group + 1) * MAX_GROUP_COLUMNS);
            order_by_parents(&self.parameters[range.clone()], &mut self.order)?;
            for index in 0..self.order.len() {
                let column = range.start + self.order[index];
                self.rebuild_column(range.start, column, ticks);
                self.store_column(column, ticks, frame);
            }
        }
        Some(())
    }

    /// Assigns each column its index in the entropy code.
    fn number_entropy_columns(&mut self) {
        self.entropy_index.clear();
        let mut next = 0;
        for (_, parameters) in &self.parameters {
            self.entropy_index.push(next);
            next += usize::from(!parameters.model.sparse);
        }
    }

    /// Computes the form of a column from its magnitudes, its past and its parents. `column` is its index among the
    /// `Integers` columns, and `group_start` that of the first column of its group.
    fn rebuild_column(&mut self, group_start: usize, column: usize, ticks: usize) {
        let (_, ColumnParameters { model, sparse_range, .. }) = self.parameters[column];
        let numbers = &mut self.numbers[..];
        numbers[0] = model.first;
        let signed = |magnitude| if model.unsigned { magnitude as i64 } else { unzigzag(magnitude) };
        if model.sparse {
            numbers[1..].fill(0);
            for &(index, magnitude) in &self.sparse[sparse_range.0..sparse_range.1] {
                numbers[1 + index as usize] = signed(magnitude);
            }
        } else {
            let index = self.entropy_index[column];
            debug_assert!(index < self.histories.len(), "a column in the entropy code has its history");
            let rows = self.magnitudes.chunks_exact(self.histories.len());
            let pairs = numbers[1..].iter_mut().zip(rows);
            match model.unsigned {
                true => pairs.for_each(|(number, row)| *number = row[index] as i64),
                false => pairs.for_each(|(number, row)| *number = unzigzag(row[index])),
            }
        }
        predict::unsmooth(numbers, model.smoothing);
        if model.divisor > 1 {
            numbers.iter_mut().for_each(|number| *number = number.wrapping_mul(model.divisor as i64));
        }
        if model.parents.count > 0 {
            predict::predict_from_parents(
                &model.parents,
                &self.forms[group_start * ticks..],
                &mut self.sums,
                &mut self.predicted,
            );
            for (number, predicted) in numbers.iter_mut().zip(&self.predicted) {
                *number = number.wrapping_add(*predicted);
            }
        }
        self.forms[column * ticks..(column + 1) * ticks].copy_from_slice(numbers);
    }

    /// Stores a decoded column in the frame or in the times. `integer_column` is its index among the `Integers`
    /// columns.
    fn store_column(&mut self, integer_column: usize, ticks: usize, frame: &mut Frame) {
        let (column, parameters) = self.parameters[integer_column];
        if parameters.differences {
            predict::accumulate_differences(&mut self.numbers, parameters.first_value);
        }
        let numbers = &self.numbers[..ticks];
        let Some(column) = column.checked_sub(TIME_COLUMNS) else {
            self.times[column].clear();
            self.times[column].extend_from_slice(numbers);
            return;
        };
        let cells = frame.column_mut(column);
        if parameters.decimals == 0 {
            cells.iter_mut().zip(numbers).for_each(|(cell, number)| *cell = *number as f64);
        } else {
            let power = block::power_of_ten(parameters.decimals);
            cells.iter_mut().zip(numbers).for_each(|(cell, number)| *cell = *number as f64 / power);
        }
        for (first, length) in &self.gaps[parameters.gap_range.0..parameters.gap_range.1] {
            let end = (first + length) as usize;
            debug_assert!(end <= cells.len(), "gaps end within the ticks (`read_parameters`)");
            cells[*first as usize..end].fill(f64::NAN);
        }
    }
}

/// Finds an order in which every column comes after its parents; `None` if they
/// form a cycle.
fn order_by_parents(columns: &[(usize, ColumnParameters)], order: &mut Vec<usize>) -> Option<()> {
    order.clear();
    let mut placed = [false; MAX_GROUP_COLUMNS];
    while order.len() < columns.len() {
        let placed_before = order.len();
        for (index, (_, parameters)) in columns.iter().enumerate() {
            let parents = &parameters.model.parents;
            let mut parent_columns = parents.columns[..parents.count].iter();
            if !placed[index] && parent_columns.all(|parent| placed[usize::from(*parent)]) {
                placed[index] = true;
                order.push(index);
            }
        }
        if order.len() == placed_before {
            return None;
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use entropy::{CONTEXTS, PRECISION, SYMBOLS};

    /// Prints the rows of `frequency_table.rs`, trained on the logs named in
    /// `DWLOG_TRAIN` (paths separated by colons):
    /// `cargo test -p diskwright-datastore --release -- --ignored --nocapture train`.
    #[test]
    #[ignore = "a tool, not a test"]
    fn train_frequency_table() {
        let paths = std::env::var("DWLOG_TRAIN").expect("DWLOG_TRAIN names logs");
        let mut counts = [[0; SYMBOLS]; CONTEXTS];
        for path in paths.split(':') {
            let mut reader = crate::LogReader::open(std::path::Path::new(path)).expect("a log");
            let (mut frame, mut encoder) = (Frame::default(), Encoder::default());
            while let Some(item) = reader.next(&mut frame).expect("readable") {
                if item == crate::LogItem::Frame {
                    encoder.encode(&frame, &mut Vec::new());
                    let columns = encoder.forms.chunks_exact(frame.ticks().len());
                    for (line, magnitudes) in encoder.parameters.iter().zip(columns).filter(|(l, _)| !l.model.sparse) {
                        let magnitudes: Vec<u64> = magnitudes.iter().map(|m| *m as u64).collect();
                        entropy::count_symbols(line.model.level, &magnitudes[1..], &mut counts);
                    }
                }
            }
        }
        let mut text = String::new();
        for row in counts {
            let row: Vec<String> = counts_to_frequencies(&row).iter().map(u16::to_string).collect();
            text += &format!("    [{},\n     {}],\n", row[..SYMBOLS / 2].join(", "), row[SYMBOLS / 2..].join(", "));
        }
        std::io::Write::write_all(&mut std::io::stdout(), text.as_bytes()).expect("a listener");
    }

    /// Prints the cost of each column of the logs in `DWLOG_TRAIN`, largest first.
    #[test]
    #[ignore = "a tool, not a test"]
    fn print_column_prices() {
        let paths = std::env::var("DWLOG_TRAIN").expect("DWLOG_TRAIN names logs");
        let mut costs = std::collections::BTreeMap::<String, (u64, usize)>::new();
        for path in paths.split(':') {
            let mut reader = crate::LogReader::open(std::path::Path::new(path)).expect("a log");
            let (mut frame, mut encoder) = (Frame::default(), Encoder::default());
            while let Some(item) = reader.next(&mut frame).expect("readable") {
                if item != crate::LogItem::Frame {
                    continue;
                }
                encoder.encode(&frame, &mut Vec::new());
                let integer_columns = encoder
                    .encodings
                    .iter()
                    .enumerate()
                    .filter(|(_, k)| **k == ColumnEncoding::Integers)
                    .map(|(c, _)| c);
                let columns = encoder.forms.chunks_exact(frame.ticks().len());
                for ((column, line), magnitudes) in integer_columns.zip(&encoder.parameters).zip(columns) {
                    let mut bits = BitWriter::default();
                    block::put_columns(
                        &mut bits,
                        &[ColumnEncoding::Integers],
                        &[*line],
                        &encoder.gaps,
                        magnitudes,
                        &mut |_, _| {},
                    );
                    let mut head = Vec::new();
                    bits.finish(&mut head);
                    let magnitudes: Vec<u64> = magnitudes.iter().map(|m| *m as u64).collect();
                    let price = || TABLES.price_magnitudes(line.model.level, &magnitudes[1..], u64::MAX);
                    let code = if line.model.sparse { 0 } else { price() };
                    let changed =
                        |c: usize| frame.column(c).windows(2).filter(|w| w[0].to_bits() != w[1].to_bits()).count();
                    let (name, changed) = match column.checked_sub(TIME_COLUMNS) {
                        None => (format!("time {column}"), 0),
                        Some(c) => {
                            let series = &frame.schema().series[c];
                            (format!("{} {}", series.counter, series.instance), changed(c))
                        }
                    };
                    let cost = costs.entry(name).or_default();
                    cost.0 += head.len() as u64 * 8 + code / 16;
                    cost.1 += changed;
                }
            }
        }
        let mut costs: Vec<_> = costs.into_iter().collect();
        costs.sort_by_key(|(_, (bits, _))| std::cmp::Reverse(*bits));
        let mut text = String::new();
        for (name, (bits, changed)) in costs {
            text += &format!(
                "{:8} bytes {changed:7} changed {:6.2} bits  {name}\n",
                bits / 8,
                bits as f64 / changed.max(1) as f64
            );
        }
        std::io::Write::write_all(&mut std::io::stdout(), text.as_bytes()).expect("a listener");
    }

    /// Converts counts to frequencies. They are smoothed over neighbours, so that
    /// unseen symbols near seen ones are not too rare.
    fn counts_to_frequencies(counts: &[u64; SYMBOLS]) -> [u16; SYMBOLS] {
        let near = |i: usize, by: usize| {
            let low = if i > by { counts[i - by] } else { 0 };
            (low + counts.get(i + by).copied().unwrap_or(0)) as f64
        };
        let soft = |i: usize| counts[i] as f64 + 0.1 * if i > 0 { near(i, 1) + 0.3 * near(i, 2) } else { 0.0 } + 0.3;
        let total: f64 = (0..SYMBOLS).map(soft).sum();
        let free_share = f64::from(1u32 << PRECISION) - SYMBOLS as f64;
        let mut shares = std::array::from_fn(|i| 1 + (soft(i) / total * free_share) as u16);
        let most_frequent = (0..SYMBOLS).max_by_key(|i| shares[*i]).expect("symbols");
        shares[most_frequent] += (1 << PRECISION) - shares.iter().sum::<u16>();
        shares
    }
}

//! Compression of a block's numbers.
//!
//! Constant columns take a few bits. The others become whole numbers (scaled
//! by a power of ten where that is exact; other numbers are encoded by their
//! bits). Of levels the differences are taken. Then each column is predicted
//! from up to six others by fixed factors (`parent_search`), a sliding mean of
//! its own past is subtracted (`predict`), and the remains are written in as
//! few bits as their recent sizes allow (`entropy`), or as a list of the few
//! that are not 0 (`sparse`).
//!
//! A bulk import must be faster: its blocks have the code of `plain`.
//!
//! The code: length of the head u32, the head (`block`), then the entropy
//! code. The two columns of the ticks' times come first and are encoded like
//! the others.

mod bits;
mod block;
mod entropy;
mod plain;
mod predict;
mod rare;
mod relate;
mod table;

use std::ops::Range;
use std::sync::LazyLock;

use diskwright_base::{Frame, Tick};

use crate::bits::unzigzag;
use bits::{BitReader, BitWriter};
use block::{ColumnEncoding, ColumnParameters};
use entropy::{ColumnHistory, EntropyWriter, Tables};
use predict::MOST_WHOLE;
use relate::{GROUP, Search};

static TABLES: LazyLock<Tables> = LazyLock::new(Tables::new);

/// Number of columns of times, which precede those of the frame.
const TIMES: usize = 2;

/// Encoder of blocks, which reuses its memory.
#[derive(Debug, Default)]
pub(crate) struct Encoder {
    times: [Vec<i64>; TIMES],
    kinds: Vec<ColumnEncoding>,
    lines: Vec<ColumnParameters>,
    gaps: Vec<(u32, u32)>,
    /// Whole numbers or differences of the `Integers` columns, one column after the
    /// other. After the search of a group, its magnitudes (as bits).
    forms: Vec<i64>,
    /// Magnitudes of one group.
    magnitudes: Vec<u64>,
    /// Columns in the entropy code, with the levels that they start with.
    busy: Vec<(usize, u32)>,
    search: Search,
    head: BitWriter,
    entropy: EntropyWriter,
    plain: plain::PlainScratch,
}

impl Encoder {
    /// Appends the code of a frame's ticks and cells.
    pub fn encode(&mut self, frame: &Frame, out: &mut Vec<u8>) {
        let ticks = frame.ticks().len();
        self.collect(frame);
        let mut line = 0;
        for forms in self.forms.chunks_mut(GROUP * ticks.max(1)) {
            self.magnitudes.resize(forms.len(), 0);
            self.search.group(&TABLES, forms, ticks, &mut self.magnitudes, |choice| {
                self.lines[line].choice = choice;
                line += 1;
            });
            // The group's forms are not needed any more, so the magnitudes replace them to save memory.
            forms.iter_mut().zip(&self.magnitudes).for_each(|(form, magnitude)| *form = *magnitude as i64);
        }
        assert_eq!(line, self.lines.len(), "each busy column has its parameters");
        self.write_head(frame);
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        self.head.finish(out);
        let length = (out.len() - start - 4) as u32;
        out[start..start + 4].copy_from_slice(&length.to_le_bytes());
        self.busy.clear();
        let choices = self.lines.iter().map(|line| line.choice).enumerate();
        self.busy.extend(choices.filter(|(_, c)| !c.rare).map(|(column, c)| (column, c.level)));
        self.entropy.write(&TABLES, &self.busy, &self.forms, ticks, out);
    }

    /// Appends the fast code of `plain` for the cells of the ticks in `range`;
    /// `ticks` are the times stored with them.
    pub fn encode_plain(&mut self, frame: &Frame, range: Range<usize>, ticks: &[Tick], out: &mut Vec<u8>) {
        self.plain.encode(frame, range, ticks, out);
    }

    /// Chooses the encoding of each column and collects the forms of the whole-number columns.
    fn collect(&mut self, frame: &Frame) {
        block::times(frame.ticks(), &mut self.times);
        self.kinds.clear();
        self.lines.clear();
        self.gaps.clear();
        self.forms.clear();
        // Untouched memory is never resident, while growing in steps would fragment the heap.
        self.forms.reserve((TIMES + frame.schema().series.len()) * frame.ticks().len());
        for index in 0..TIMES {
            let times = &self.times[index];
            let first = times.first().copied().unwrap_or(0);
            let kind = if times.iter().any(|t| t.unsigned_abs() > MOST_WHOLE) {
                ColumnEncoding::Raw
            } else if times.iter().all(|t| *t == 0) {
                ColumnEncoding::Zero
            } else if times.iter().all(|t| *t == first) {
                ColumnEncoding::Whole(first)
            } else {
                self.forms.extend_from_slice(times);
                ColumnEncoding::Told
            };
            self.kinds.push(kind);
            if kind == ColumnEncoding::Told {
                self.add_line(frame.ticks().len(), 0, 0);
            }
        }
        for column in 0..frame.schema().series.len() {
            let cells = frame.column(column);
            let mut kind = block::kind(cells);
            if kind == ColumnEncoding::Told {
                let gaps = self.gaps.len();
                match block::integers(cells, &mut self.forms, &mut self.gaps) {
                    Some(decimals) => self.add_line(cells.len(), decimals, gaps),
                    None => kind = ColumnEncoding::Raw,
                }
            }
            self.kinds.push(kind);
        }
    }

    /// Adds the parameters of the last column in `forms`, and replaces its numbers
    /// by their differences if those vary less.
    fn add_line(&mut self, ticks: usize, decimals: u32, gaps: usize) {
        let position = self.forms.len() - ticks;
        let form = &mut self.forms[position..];
        let start = form[0];
        let mean = form.iter().map(|v| *v as f64).sum::<f64>() / ticks as f64;
        let spread: f64 = form.iter().map(|v| (*v as f64 - mean).powi(2)).sum();
        let steps: f64 = form.windows(2).map(|w| (w[1] as f64 - w[0] as f64).powi(2)).sum();
        let differences = steps < spread;
        if differences {
            predict::difference(form);
        }
        let gaps = (gaps, self.gaps.len());
        self.lines.push(ColumnParameters { decimals, differences, start, gaps, ..ColumnParameters::default() });
    }

    fn write_head(&mut self, frame: &Frame) {
        let times = &self.times;
        let mut raw = |column: usize, bits: &mut BitWriter| match column.checked_sub(TIMES) {
            None => block::put_raw(bits, times[column].iter().map(|t| *t as u64)),
            Some(column) => block::put_raw(bits, frame.column(column).iter().map(|c| block::cell_bits(*c))),
        };
        self.head.clear();
        block::put_columns(&mut self.head, &self.kinds, &self.lines, &self.gaps, &self.forms, &mut raw);
    }
}

/// Decoder of blocks, which reuses its memory.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    times: [Vec<i64>; TIMES],
    ticks: Vec<Tick>,
    /// Index (counting the time columns) and parameters of each `Integers` column.
    lines: Vec<(usize, ColumnParameters)>,
    gaps: Vec<(u32, u32)>,
    /// Index and magnitude of the nonzero remains of sparse columns.
    rare: Vec<(u32, u64)>,
    scales: Vec<ColumnHistory>,
    /// Magnitudes of the columns in the entropy code, tick by tick, without the first.
    magnitudes: Vec<u64>,
    forms: Vec<i64>,
    sums: Vec<f64>,
    told: Vec<i64>,
    order: Vec<usize>,
    /// Index of each `Integers` column among those in the entropy code.
    busy: Vec<usize>,
    numbers: Vec<i64>,
    plain: plain::PlainScratch,
}

impl Decoder {
    /// Fills the frame (whose schema and capacity are set) with `ticks` ticks
    /// from `first_ns` on. `None` if no [`Encoder`] can have written the code.
    pub fn decode(&mut self, code: &[u8], first_ns: i64, ticks: usize, frame: &mut Frame) -> Option<()> {
        if plain::is_plain(code) {
            return self.plain.decode(code, first_ns, ticks, frame);
        }
        let length = crate::format::u32_at(code, 0)? as usize;
        let (head, rest) = code[4..].split_at_checked(length)?;
        self.ticks.clear();
        self.ticks.resize(ticks, Tick::default());
        frame.set_ticks(&self.ticks);
        self.take_head(head, frame)?;
        self.scales.clear();
        let busy = self.lines.iter().filter(|(_, line)| !line.choice.rare);
        self.scales.extend(busy.map(|(_, line)| ColumnHistory::new(line.choice.level)));
        self.magnitudes.resize(self.scales.len() * (ticks - 1), 0);
        entropy::read(&TABLES, rest, &mut self.scales, &mut self.magnitudes)?;
        self.tell_all(ticks, frame)?;
        block::ticks(first_ns, &self.times, &mut self.ticks);
        frame.set_ticks(&self.ticks);
        Some(())
    }

    /// Reads the head; fills the columns that it determines completely.
    fn take_head(&mut self, head: &[u8], frame: &mut Frame) -> Option<()> {
        let ticks = self.ticks.len();
        let columns = TIMES + frame.schema().series.len();
        let mut bits = BitReader::new(head);
        self.lines.clear();
        self.gaps.clear();
        self.rare.clear();
        let mut column = 0;
        while column < columns {
            let zeros = usize::try_from(bits.take_gamma()?).ok()?;
            if zeros > columns - column {
                return None;
            }
            for zero in column..column + zeros {
                self.fill(frame, zero, 0, 0.0);
            }
            column += zeros;
            if column == columns {
                break;
            }
            match block::take_kind(&mut bits)? {
                ColumnEncoding::Told => {
                    let line = block::take_line(&mut bits, ticks, &mut self.gaps, &mut self.rare)?;
                    self.lines.push((column, line));
                }
                ColumnEncoding::Whole(whole) => self.fill(frame, column, whole, whole as f64),
                ColumnEncoding::Bits(bits) => self.fill(frame, column, bits as i64, f64::from_bits(bits)),
                ColumnEncoding::Gap => self.fill(frame, column, 0, f64::NAN),
                _ => self.take_raw(&mut bits, frame, column)?,
            }
            column += 1;
        }
        Some(())
    }

    /// Fills a column with one value: `time` if it is a column of times, else `cell`.
    fn fill(&mut self, frame: &mut Frame, column: usize, time: i64, cell: f64) {
        match column.checked_sub(TIMES) {
            None => {
                self.times[column].clear();
                self.times[column].resize(self.ticks.len(), time);
            }
            Some(column) => frame.column_mut(column).fill(cell),
        }
    }

    fn take_raw(&mut self, bits: &mut BitReader, frame: &mut Frame, column: usize) -> Option<()> {
        let ticks = self.ticks.len();
        let valid = match column.checked_sub(TIMES) {
            None => {
                let times = &mut self.times[column];
                times.clear();
                block::take_raw(bits, |bits| times.push(bits as i64), ticks)
            }
            Some(column) => {
                let mut cells = frame.column_mut(column).iter_mut();
                let each = |bits| {
                    if let Some(cell) = cells.next() {
                        *cell = f64::from_bits(bits);
                    }
                };
                block::take_raw(bits, each, ticks)
            }
        };
        valid.then_some(())
    }

    /// Computes the cells from the magnitudes, group by group, each column after its
    /// parents.
    fn tell_all(&mut self, ticks: usize, frame: &mut Frame) -> Option<()> {
        self.forms.resize(self.lines.len() * ticks, 0);
        self.sums.resize(ticks, 0.0);
        self.told.resize(ticks, 0);
        self.numbers.resize(ticks, 0);
        self.places();
        for group in 0..self.lines.len().div_ceil(GROUP) {
            let lines = group * GROUP..self.lines.len().min((group + 1) * GROUP);
            arrange(&self.lines[lines.clone()], &mut self.order)?;
            for index in 0..self.order.len() {
                let line = lines.start + self.order[index];
                self.tell_column(lines.start, line, ticks);
                self.place(line, ticks, frame);
            }
        }
        Some(())
    }

    /// Assigns each column its index in the entropy code.
    fn places(&mut self) {
        self.busy.clear();
        let mut next = 0;
        for (_, line) in &self.lines {
            self.busy.push(next);
            next += usize::from(!line.choice.rare);
        }
    }

    /// Computes the form of a column from its magnitudes, its past and its parents.
    fn tell_column(&mut self, group: usize, line: usize, ticks: usize) {
        let (_, ColumnParameters { choice, rare, .. }) = self.lines[line];
        let numbers = &mut self.numbers[..];
        numbers[0] = choice.first;
        let signed = |magnitude| if choice.unsigned { magnitude as i64 } else { unzigzag(magnitude) };
        if choice.rare {
            numbers[1..].fill(0);
            for &(index, magnitude) in &self.rare[rare.0..rare.1] {
                numbers[1 + index as usize] = signed(magnitude);
            }
        } else {
            let index = self.busy[line];
            let ticks = self.magnitudes.chunks_exact(self.scales.len());
            let column = numbers[1..].iter_mut().zip(ticks);
            match choice.unsigned {
                true => column.for_each(|(number, tick)| *number = tick[index] as i64),
                false => column.for_each(|(number, tick)| *number = unzigzag(tick[index])),
            }
        }
        predict::unsmooth(numbers, choice.smoothing);
        if choice.divisor > 1 {
            numbers.iter_mut().for_each(|number| *number = number.wrapping_mul(choice.divisor as i64));
        }
        if choice.parents.count > 0 {
            predict::tell(&choice.parents, &self.forms[group * ticks..], &mut self.sums, &mut self.told);
            for (number, told) in numbers.iter_mut().zip(&self.told) {
                *number = number.wrapping_add(*told);
            }
        }
        self.forms[line * ticks..(line + 1) * ticks].copy_from_slice(numbers);
    }

    /// Stores a decoded column in the frame or in the times.
    fn place(&mut self, line: usize, ticks: usize, frame: &mut Frame) {
        let (column, line) = self.lines[line];
        if line.differences {
            predict::accumulate(&mut self.numbers, line.start);
        }
        let numbers = &self.numbers[..ticks];
        let Some(column) = column.checked_sub(TIMES) else {
            self.times[column].clear();
            self.times[column].extend_from_slice(numbers);
            return;
        };
        let cells = frame.column_mut(column);
        if line.decimals == 0 {
            cells.iter_mut().zip(numbers).for_each(|(cell, number)| *cell = *number as f64);
        } else {
            let power = block::power_of_ten(line.decimals);
            cells.iter_mut().zip(numbers).for_each(|(cell, number)| *cell = *number as f64 / power);
        }
        for (first, length) in &self.gaps[line.gaps.0..line.gaps.1] {
            cells[*first as usize..(first + length) as usize].fill(f64::NAN);
        }
    }
}

/// Finds an order in which every column comes after its parents; `None` if they
/// form a cycle.
fn arrange(lines: &[(usize, ColumnParameters)], order: &mut Vec<usize>) -> Option<()> {
    order.clear();
    let mut placed = [false; GROUP];
    while order.len() < lines.len() {
        let before = order.len();
        for (index, (_, line)) in lines.iter().enumerate() {
            let parents = &line.choice.parents;
            let mut needed = parents.columns[..parents.count].iter();
            if !placed[index] && needed.all(|parent| placed[usize::from(*parent)]) {
                placed[index] = true;
                order.push(index);
            }
        }
        if order.len() == before {
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
    fn train() {
        let paths = std::env::var("DWLOG_TRAIN").expect("DWLOG_TRAIN names logs");
        let mut counts = [[0; SYMBOLS]; CONTEXTS];
        for path in paths.split(':') {
            let mut reader = crate::LogReader::open(std::path::Path::new(path)).expect("a log");
            let (mut frame, mut encoder) = (Frame::default(), Encoder::default());
            while let Some(item) = reader.next(&mut frame).expect("readable") {
                if item == crate::LogItem::Frame {
                    encoder.encode(&frame, &mut Vec::new());
                    let columns = encoder.forms.chunks_exact(frame.ticks().len());
                    for (line, magnitudes) in encoder.lines.iter().zip(columns).filter(|(l, _)| !l.choice.rare) {
                        let magnitudes: Vec<u64> = magnitudes.iter().map(|m| *m as u64).collect();
                        entropy::count(line.choice.level, &magnitudes[1..], &mut counts);
                    }
                }
            }
        }
        let mut text = String::new();
        for row in counts {
            let row: Vec<String> = share_out(&row).iter().map(u16::to_string).collect();
            text += &format!("    [{},\n     {}],\n", row[..SYMBOLS / 2].join(", "), row[SYMBOLS / 2..].join(", "));
        }
        std::io::Write::write_all(&mut std::io::stdout(), text.as_bytes()).expect("a listener");
    }

    /// Prints the cost of each column of the logs in `DWLOG_TRAIN`, largest first.
    #[test]
    #[ignore = "a tool, not a test"]
    fn prices() {
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
                let integer_columns =
                    encoder.kinds.iter().enumerate().filter(|(_, k)| **k == ColumnEncoding::Told).map(|(c, _)| c);
                let columns = encoder.forms.chunks_exact(frame.ticks().len());
                for ((column, line), magnitudes) in integer_columns.zip(&encoder.lines).zip(columns) {
                    let mut bits = BitWriter::default();
                    block::put_columns(
                        &mut bits,
                        &[ColumnEncoding::Told],
                        &[*line],
                        &encoder.gaps,
                        magnitudes,
                        &mut |_, _| {},
                    );
                    let mut head = Vec::new();
                    bits.finish(&mut head);
                    let magnitudes: Vec<u64> = magnitudes.iter().map(|m| *m as u64).collect();
                    let code = match line.choice.rare {
                        true => 0,
                        false => TABLES.price(line.choice.level, &magnitudes[1..], u64::MAX),
                    };
                    let changed =
                        |c: usize| frame.column(c).windows(2).filter(|w| w[0].to_bits() != w[1].to_bits()).count();
                    let (name, changed) = match column.checked_sub(TIMES) {
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
    fn share_out(counts: &[u64; SYMBOLS]) -> [u16; SYMBOLS] {
        let near = |i: usize, by: usize| {
            let low = if i > by { counts[i - by] } else { 0 };
            (low + counts.get(i + by).copied().unwrap_or(0)) as f64
        };
        let soft = |i: usize| counts[i] as f64 + 0.1 * if i > 0 { near(i, 1) + 0.3 * near(i, 2) } else { 0.0 } + 0.3;
        let total: f64 = (0..SYMBOLS).map(soft).sum();
        let whole = f64::from(1u32 << PRECISION) - SYMBOLS as f64;
        let mut shares = std::array::from_fn(|i| 1 + (soft(i) / total * whole) as u16);
        let most = (0..SYMBOLS).max_by_key(|i| shares[*i]).expect("symbols");
        shares[most] += (1 << PRECISION) - shares.iter().sum::<u16>();
        shares
    }
}

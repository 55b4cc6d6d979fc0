//! Reader of a file: headers, rows, time, and reports of oddities; the result is frames.

use std::io::{self, Read};
use std::sync::Arc;

use diskwright_base::{Frame, Note, Tick, Topology};

use crate::daylight_clock::DaylightClock;
use crate::nt::{self, processes::NtProcesses};
use crate::shared_stamps::{SPREAD_NOTE, SharedStamps};
use crate::{FrameBatch, LogError, LogOptions, TimeBasis};

use super::clock::{self, PerfmonClock, PerfmonDateOrder};
use super::columns::PerfmonColumns;
use super::header::{self, PerfmonHeader};
use super::line_buffer::LineBuffer;
use super::rows::{self, Dialect, RowOddities};

/// Approximate size of a frame, cells: small enough for the second-level cache.
const FRAME_CELLS: usize = 1 << 16;
/// Most columns of a log: as many as ours has series.
const MAX_COLUMNS: usize = 1 << 17;
/// Largest number of ticks in a frame.
const MAX_FRAME_TICKS: usize = 4096;
/// Rows that are transposed into columns at once: as many cells as fill a cache line.
const ROWS_PER_TURN: usize = 8;

/// Reads one file.
pub(super) struct PerfmonReader<'a, 'b> {
    file: String,
    options: &'a LogOptions,
    batch: &'a mut FrameBatch<'b>,
    /// Number of the line that is read, from 1.
    line_number: u64,
    log: Option<PerfmonLog>,
    /// Local time less UTC of the last header that gave it, seconds.
    offset_s: Option<i32>,
    /// The machine that is read, once it is known.
    host: Option<String>,
    /// Set below the header of another machine.
    is_other_host: bool,
    daylight: DaylightClock,
    /// Topology that was sent last.
    last_topology: Option<Topology>,
    unmeasured_disks: nt::UnmeasuredDisks,
    /// Remarks that limit certainty; they are sent with the next tick.
    warnings: Vec<String>,
}

/// A header and the state of reading below it.
struct PerfmonLog {
    columns: PerfmonColumns,
    title: String,
    names: Vec<String>,
    /// Detected at the first row.
    dialect: Option<Dialect>,
    separator: u8,
    clock: PerfmonClock,
    /// Rows that share a time.
    stamps: SharedStamps,
    offset_s: i32,
    frame: Frame,
    frame_capacity: usize,
    /// The last few rows, not yet in the frame.
    rows: Vec<f64>,
    ticks: Vec<Tick>,
    processes: NtProcesses,
    has_negative: bool,
}

impl<'a, 'b> PerfmonReader<'a, 'b> {
    /// Makes a reader that has not read a header yet.
    pub fn new(file: &str, options: &'a LogOptions, batch: &'a mut FrameBatch<'b>) -> PerfmonReader<'a, 'b> {
        PerfmonReader {
            file: file.to_owned(),
            options,
            batch,
            line_number: 1,
            log: None,
            offset_s: None,
            host: options.host.clone(),
            is_other_host: false,
            daylight: DaylightClock::default(),
            last_topology: None,
            unmeasured_disks: nt::UnmeasuredDisks::default(),
            warnings: Vec::new(),
        }
    }

    /// Reads to the end.
    ///
    /// # Errors
    /// When reading fails, no zone is known, or the host is not in it.
    /// Ticks that were read before have gone to the batch.
    pub fn read_all(&mut self, from: &mut dyn Read) -> Result<(), LogError> {
        let mut buffer = LineBuffer::new();
        let end = loop {
            match buffer.fill_lines(from) {
                Ok(true) => {}
                Ok(false) => break Ok(()),
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    break Err(LogError::broken(&self.file, format!("line {}", self.line_number), error.to_string()));
                }
                Err(error) => break Err(LogError::io(&self.file, error)),
            }
            let (bytes, mut position, end) = buffer.complete_lines();
            while position < end && !self.batch.is_stopped() {
                position = match self.log.take() {
                    None => self.read_header(bytes, position)?,
                    Some(mut log) => {
                        let is_unfinished = buffer.has_unfinished_line();
                        let next = self.read_rows(&mut log, bytes, position, end, is_unfinished);
                        if next < end && !self.batch.is_stopped() {
                            // another header
                            self.flush_frame(&mut log);
                            let header_end = self.read_header(bytes, next)?;
                            if !self.is_other_host {
                                self.log.get_or_insert(log);
                            }
                            header_end
                        } else {
                            self.log = Some(log);
                            next
                        }
                    }
                };
            }
            if self.batch.is_stopped() {
                return Ok(());
            }
            buffer.consume_until(position);
        };
        if let Some(mut log) = self.log.take() {
            self.flush_frame(&mut log);
        }
        end
    }

    /// Reads a line where a header should stand. Returns the index behind it.
    fn read_header(&mut self, bytes: &[u8], position: usize) -> Result<usize, LogError> {
        let end = end_of_line(bytes, position);
        let line = header::strip_line_end(&bytes[position..end]);
        let number = self.line_number;
        self.line_number += 1;
        if line.trim_ascii().is_empty() || (self.is_other_host && !header::is_header(line)) {
            return Ok(end);
        }
        let cells = header::count_cells(line);
        if cells > MAX_COLUMNS {
            let because = format!(
                "a heading of {cells} columns; the limit is {MAX_COLUMNS}: take fewer counters, or split the columns"
            );
            return Err(LogError::broken(&self.file, format!("line {number}"), because));
        }
        let Some(header) = PerfmonHeader::parse(line) else {
            self.batch.add_skip(format!("line {number}"), "no header, and none before it");
            return Ok(end);
        };
        let offset_s = self.options.utc_offset_s.or(header.offset_s).or(self.offset_s);
        let offset_s = offset_s.unwrap_or_else(|| {
            let title = shorten_text(&header.title);
            self.warnings.push(format!(
                "its header names no time zone (\"{title}\"): its times are taken as UTC (--utc-offset sets another \
                 offset); times of day may be shifted, but durations are right"
            ));
            self.batch.note_time_basis(TimeBasis::NoZone);
            0
        });
        self.offset_s = Some(offset_s);
        if let (Some(charset), 0) = (header.guessed_charset, header.known_names) {
            let text = format!("the file does not say its code page; its names were read as {}", charset.name());
            self.warnings.push(text);
        }
        let columns = match PerfmonColumns::from_header(&header, self.host.as_deref(), self.batch) {
            Ok(columns) => columns,
            Err(because) if self.batch.has_ticks() => {
                self.batch.add_skip(format!("line {number}"), format!("a log of another machine: {because}"));
                self.is_other_host = true;
                return Ok(end);
            }
            Err(because) => return Err(LogError::broken(&self.file, format!("line {number}"), because)),
        };
        self.is_other_host = false;
        if !columns.host.is_empty() {
            self.host = Some(columns.host.clone());
        }
        self.log = Some(PerfmonLog::new(columns, header, offset_s));
        Ok(end)
    }

    /// Reads rows until the piece ends or another header comes; returns the index there.
    fn read_rows(
        &mut self,
        log: &mut PerfmonLog,
        bytes: &[u8],
        mut position: usize,
        end: usize,
        is_unfinished: bool,
    ) -> usize {
        let dialect = match log.dialect {
            Some(dialect) => dialect,
            None => self.detect_dialect(log, &bytes[position..end]),
        };
        while position < end {
            let (field, next) = first_field(bytes, position, dialect.separator);
            let Some(time_ns) = log.clock.read_time(field) else {
                let row_end = end_of_line(bytes, position);
                if header::is_header(&bytes[position..row_end]) || field == log.title.as_bytes() {
                    return position;
                }
                self.report_no_sample(bytes, position, row_end, is_unfinished && row_end == end);
                position = row_end;
                continue;
            };
            let time_ns = log.stamps.spread(time_ns);
            let Some(tick) = self.resolve_tick(log, time_ns) else {
                self.line_number += 1;
                position = end_of_line(bytes, position);
                continue;
            };
            let mut oddities = RowOddities::default();
            let columns = log.columns.known.len();
            let start = log.ticks.len() % ROWS_PER_TURN * columns;
            debug_assert!(log.ticks.len() < log.frame_capacity, "a full frame was flushed");
            debug_assert_eq!(log.rows.len(), ROWS_PER_TURN * columns, "there is space for the last few rows");
            let row = &mut log.rows[start..start + columns];
            let row_end = rows::read_row(dialect, bytes, next, &log.columns.runs, row, &mut oddities);
            debug_assert!(row_end >= position + 2, "a row has a time and an end");
            log.has_negative |= oddities.has_negative;
            let is_cut = is_unfinished && row_end == end;
            if is_cut && bytes[row_end - 2] == dialect.separator && row.last().is_some_and(|c| c.is_nan()) {
                oddities.missing = oddities.missing.max(1);
            }
            oddities.is_cut |= is_cut && bytes[position..row_end].trim_ascii_end().last() != Some(&b'"');
            if !oddities.is_none() {
                self.report_oddities(log, start, &oddities, is_cut, bytes[row_end - 2] == b'"');
            }
            log.ticks.push(tick);
            if log.ticks.len().is_multiple_of(ROWS_PER_TURN) {
                log.transpose_rows(ROWS_PER_TURN);
            }
            self.line_number += 1;
            position = row_end;
            if log.ticks.len() == log.frame_capacity {
                self.flush_frame(log);
                if self.batch.is_stopped() {
                    return end;
                }
            }
        }
        position
    }

    /// Detects the dialect of the rows from those at hand.
    fn detect_dialect(&mut self, log: &mut PerfmonLog, rows: &[u8]) -> Dialect {
        let lines = || rows.split(|b| *b == b'\n').take(1000);
        let evidence = clock::detect_date_order(lines().map(|line| first_field(line, 0, log.separator).0));
        if evidence.is_guess {
            let text = "this file does not show which is day and which is month; dates were read as month/day/year";
            self.warnings.push(text.into());
        }
        log.clock = PerfmonClock::new(evidence.order, log.offset_s);
        let times = lines().filter_map(|line| log.clock.read_time(first_field(line, 0, log.separator).0));
        log.stamps = SharedStamps::detect(times);
        if log.stamps.is_shared() {
            self.warnings.push(SPREAD_NOTE.into());
        }
        let point = if lines().any(|line| has_comma_numbers(line, log.separator)) { b',' } else { b'.' };
        let dialect = Dialect { separator: log.separator, decimal_point: point };
        log.dialect = Some(dialect);
        let columns = log.columns.known.len();
        // an odd number of cache lines, so that columns do not compete for the same few sets of the cache
        log.frame_capacity = (FRAME_CELLS / columns.max(1)).min(MAX_FRAME_TICKS - ROWS_PER_TURN) / (2 * ROWS_PER_TURN)
            * (2 * ROWS_PER_TURN)
            + ROWS_PER_TURN;
        assert!(
            log.frame_capacity <= MAX_FRAME_TICKS && log.frame_capacity.is_multiple_of(ROWS_PER_TURN),
            "a frame of {} ticks is filled by whole turns",
            log.frame_capacity
        );
        log.rows = vec![f64::NAN; ROWS_PER_TURN * columns];
        log.frame.reset(Arc::clone(&log.columns.schema), log.frame_capacity);
        dialect
    }

    /// Resolves time and length of a row, after changes of the clocks.
    fn resolve_tick(&mut self, log: &mut PerfmonLog, time_ns: i64) -> Option<Tick> {
        if self.daylight.is_out_of_step(time_ns) {
            // notes about the jump must follow the ticks before it
            self.flush_frame(log);
        }
        let local_ns = time_ns.saturating_add(i64::from(log.offset_s) * 1_000_000_000);
        let now = self.daylight.resolve_time(time_ns, local_ns, self.batch);
        self.batch.resolve_tick(now, None)
    }

    fn flush_frame(&mut self, log: &mut PerfmonLog) {
        let Some(first) = log.ticks.first().copied() else { return };
        log.transpose_rows(log.ticks.len() % ROWS_PER_TURN);
        let topology = log.columns.topology();
        if self.last_topology.as_ref() != Some(&topology) {
            self.batch.push_topology(first.time_ns, &topology);
            self.last_topology = Some(topology);
        }
        log.frame.set_ticks(&log.ticks);
        log.ticks.clear();
        if std::mem::take(&mut log.has_negative) {
            self.drop_negatives(log);
        }
        if self.unmeasured_disks.clear_zeros(&mut log.frame) {
            self.warnings.push(nt::UNMEASURED_DISKS.into());
        }
        for text in self.warnings.drain(..) {
            self.batch.push_note(Note::new(first.time_ns, Note::WARNING, text));
        }
        nt::fill_products(&mut log.frame, &log.columns.products);
        if let Some(sum) = &log.columns.interrupts {
            nt::fill_sum(&mut log.frame, sum);
        }
        self.batch.push_frame(&log.frame);
        for note in log.processes.add_frame(&log.frame) {
            self.batch.push_note(note);
        }
        log.frame.clear();
    }

    /// Replaces negative values by gaps: Windows writes -1 and less for a value that it could not compute.
    fn drop_negatives(&mut self, log: &mut PerfmonLog) {
        for (column, _) in log.columns.known.iter().enumerate().filter(|(_, known)| **known) {
            let cells = log.frame.column_mut(column);
            for cell in cells.iter_mut().filter(|c| **c < 0.0) {
                *cell = f64::NAN;
                let name = &log.names[column];
                self.batch.add_skip(name.as_str(), "a value below zero, which this counter cannot have");
            }
        }
    }

    /// Reports a line that does not begin with a time.
    fn report_no_sample(&mut self, bytes: &[u8], position: usize, end: usize, is_cut: bool) {
        let line = header::strip_line_end(&bytes[position..end]);
        if is_cut && line.first() == Some(&b'"') {
            self.batch.add_skip(
                format!("line {}", self.line_number),
                "the last line is incomplete; none of it could be read",
            );
        } else if !line.trim_ascii().is_empty() {
            let text = shorten_text(&String::from_utf8_lossy(&line[..line.len().min(200)]));
            self.batch
                .add_skip(format!("line {} ({text})", self.line_number), "not a sample: it does not begin with a time");
        }
        self.line_number += 1;
    }

    /// Reports the oddities of a row, whose cells begin at `row` of the last few.
    fn report_oddities(
        &mut self,
        log: &mut PerfmonLog,
        row: usize,
        oddities: &RowOddities,
        is_cut: bool,
        is_closed: bool,
    ) {
        let line = self.line_number;
        let columns = log.columns.known.len();
        assert!(oddities.missing <= columns, "a row lacks {} of {columns} columns", oddities.missing);
        let filled = columns - oddities.missing;
        if (oddities.missing > 0 || oddities.is_cut) && is_cut {
            // without a closing quote it is unknown how many digits the last number had
            if let (false, Some(column)) = (is_closed, filled.checked_sub(1)) {
                log.rows[row + column] = f64::NAN;
            }
            let context = format!("line {line}, column {}", filled + 2);
            self.batch.add_skip(context, "the last line is incomplete; its complete cells were read");
        } else if oddities.is_cut {
            self.batch.add_skip(format!("line {line}"), "a quote is not closed; the rest of the row becomes gaps");
        } else if oddities.missing > 0 {
            let context = format!("line {line}, column {}", filled + 2);
            self.batch.add_skip(context, "a row has fewer fields than the header; the missing ones are gaps");
        }
        if oddities.has_surplus {
            self.batch.add_skip(format!("line {line}"), "a row has more fields than the header; they are left out");
        }
        for column in &oddities.text_columns {
            let name = log.names.get(*column).map_or("", String::as_str);
            let context = format!("line {line}, column {} ({name}): {}", column + 2, oddities.first_text);
            self.batch.add_skip(context, "not a number");
        }
    }
}

impl PerfmonLog {
    /// Transposes the last `count` rows into the frame's columns.
    fn transpose_rows(&mut self, count: usize) {
        let columns = self.columns.known.len();
        let first = self.ticks.len() - count;
        if count == 0 || columns == 0 {
            return;
        }
        debug_assert!(count <= ROWS_PER_TURN, "{count} rows of the last {ROWS_PER_TURN}");
        debug_assert!(
            self.frame.capacity() == self.frame_capacity && self.ticks.len() <= self.frame_capacity,
            "a column of the frame has {} cells, {} of {} ticks are filled",
            self.frame.capacity(),
            self.ticks.len(),
            self.frame_capacity
        );
        for (column, cells) in self.frame.cells_mut().chunks_exact_mut(self.frame_capacity).take(columns).enumerate() {
            let rows = self.rows[column..].iter().step_by(columns);
            for (cell, value) in cells[first..first + count].iter_mut().zip(rows) {
                *cell = *value;
            }
        }
    }

    fn new(columns: PerfmonColumns, header: PerfmonHeader, offset_s: i32) -> PerfmonLog {
        let processes = NtProcesses::for_schema(&columns.schema);
        let names: Vec<String> =
            columns.schema.series.iter().map(|s| format!("{} {}", s.counter, s.instance)).collect();
        PerfmonLog {
            columns,
            title: header.title,
            names,
            dialect: None,
            separator: header.separator,
            clock: PerfmonClock::new(PerfmonDateOrder::MonthDay, offset_s),
            stamps: SharedStamps::default(),
            offset_s,
            frame: Frame::default(),
            frame_capacity: 1,
            rows: Vec::new(),
            ticks: Vec::new(),
            processes,
            has_negative: false,
        }
    }
}

/// Returns the index behind the line that begins at `position`.
fn end_of_line(bytes: &[u8], position: usize) -> usize {
    memchr::memchr(b'\n', &bytes[position..]).map_or(bytes.len(), |n| position + n + 1)
}

/// Returns the first field of a row without quotes, and the index of the second.
#[inline]
fn first_field(bytes: &[u8], start: usize, separator: u8) -> (&[u8], usize) {
    if let Some(usual) = bytes.get(start..start + 26)
        && (usual[0], usual[24], usual[25]) == (b'"', b'"', separator)
    {
        return (&usual[1..24], start + 26);
    }
    // the line may be indented
    let start = start + bytes[start..].iter().take_while(|b| matches!(b, b' ' | b'\t')).count();
    let rest = &bytes[start..];
    let end = rest.iter().position(|b| *b == separator || *b == b'\n').unwrap_or(rest.len());
    let field = header::strip_line_end(&rest[..end]);
    let bare = field.strip_prefix(b"\"").map_or(field, |f| f.strip_suffix(b"\"").unwrap_or(f));
    let next = if rest.get(end) == Some(&separator) { end + 1 } else { end };
    (bare, start + next)
}

/// Returns true if a field behind the first is a number with a decimal comma.
fn has_comma_numbers(line: &[u8], separator: u8) -> bool {
    let is_comma_number = |field: &[u8]| {
        let mut parts = field.split(|b| *b == b',');
        let (Some(integer), Some(fraction), None) = (parts.next(), parts.next(), parts.next()) else { return false };
        let integer = integer.strip_prefix(b"-").unwrap_or(integer);
        let starts_with_digit = |part: &[u8]| part.first().is_some_and(u8::is_ascii_digit);
        starts_with_digit(fraction) && starts_with_digit(integer) && integer.iter().all(u8::is_ascii_digit)
    };
    if separator == b',' {
        return line.split(|b| *b == b'"').skip(2).any(is_comma_number);
    }
    line.split(|b| *b == separator).skip(1).any(|field| is_comma_number(field.trim_ascii().trim_ascii_start()))
}

/// Shortens text to fit into a message.
fn shorten_text(text: &str) -> String {
    let mut letters = text.chars();
    let start: String = letters.by_ref().take(60).collect();
    if letters.next().is_some() { format!("{start}…") } else { start }
}

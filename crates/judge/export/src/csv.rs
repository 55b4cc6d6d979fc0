//! CSV by RFC 4180: lines end in CR LF, and cells that contain a comma, a quote or a
//! line end are quoted. A gap is an empty cell.

use diskwright_base::text::quote_csv_cell;

use crate::counting_writer::CountingWriter;
use crate::number;
use crate::timestamp::TimeFormatter;
use crate::{ExportBatch, ExportColumn, ExportError, ExportSink, ExportTally};

/// Appends a number as a cell: the shortest text that is read back to the same bits, or nothing for a gap.
#[inline]
pub fn write_csv_number(out: &mut Vec<u8>, value: f64) {
    if value.is_nan() {
        return;
    }
    if value.is_infinite() {
        return out.extend_from_slice(if value > 0.0 { b"inf" } else { b"-inf" });
    }
    number::write_number(out, value);
}

/// Appends a tick's cells, each after a comma: an empty cell for a gap or a missing column.
#[inline]
pub fn write_csv_cells<'a>(out: &mut Vec<u8>, columns: impl IntoIterator<Item = Option<&'a [f64]>>, index: usize) {
    for column in columns {
        out.push(b',');
        if let Some(values) = column {
            write_csv_number(out, values[index]);
        }
    }
}

/// Sink of one line per tick: `time`, then one cell per series.
pub(crate) struct CsvWideSink {
    out: CountingWriter,
    clock: TimeFormatter,
    columns: usize,
    tally: ExportTally,
}

impl CsvWideSink {
    /// Writes the heading: the time, then a field for each column.
    pub fn new(columns: &[ExportColumn], mut out: CountingWriter) -> Result<CsvWideSink, ExportError> {
        out.buffer.extend_from_slice(b"time");
        for column in columns {
            out.buffer.push(b',');
            out.buffer.extend_from_slice(quote_csv_cell(&column.name()).as_bytes());
        }
        out.buffer.extend_from_slice(b"\r\n");
        Ok(CsvWideSink { out, clock: TimeFormatter::default(), columns: columns.len(), tally: ExportTally::default() })
    }
}

impl ExportSink for CsvWideSink {
    fn wanted_columns(&self, _pass: usize) -> Vec<usize> {
        (0..self.columns).collect()
    }

    fn write(&mut self, batch: &ExportBatch<'_>) -> Result<(), ExportError> {
        let mut columns = batch.values.iter().flatten();
        debug_assert!(columns.all(|column| column.len() == batch.ticks.len()), "a value for each tick");
        for (index, tick) in batch.ticks.iter().enumerate() {
            let text = &mut self.out.buffer;
            self.clock.write_time(text, tick.time_ns);
            write_csv_cells(text, batch.values.iter().copied(), index);
            text.extend_from_slice(b"\r\n");
            self.out.write_full_chunk()?;
        }
        self.tally.rows += batch.ticks.len() as u64;
        batch.values.iter().flatten().for_each(|values| self.tally.count_values(values));
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<ExportTally, ExportError> {
        self.tally.bytes = self.out.finish_output()?;
        Ok(self.tally)
    }
}

/// Sink of one line per tick and series: `time,counter,instance,unit,value`.
pub(crate) struct CsvLongSink {
    out: CountingWriter,
    clock: TimeFormatter,
    /// `,counter,instance,unit,` of each column.
    middles: Vec<Vec<u8>>,
    tally: ExportTally,
}

impl CsvLongSink {
    /// Writes the heading of rows that each hold one value.
    pub fn new(columns: &[ExportColumn], mut out: CountingWriter) -> Result<CsvLongSink, ExportError> {
        out.buffer.extend_from_slice(b"time,counter,instance,unit,value\r\n");
        let middle = |column: &ExportColumn| {
            let mut middle = vec![b','];
            for part in [&column.counter, &column.instance, &column.unit] {
                middle.extend_from_slice(quote_csv_cell(part).as_bytes());
                middle.push(b',');
            }
            middle
        };
        let middles = columns.iter().map(middle).collect();
        Ok(CsvLongSink { out, clock: TimeFormatter::default(), middles, tally: ExportTally::default() })
    }
}

impl ExportSink for CsvLongSink {
    fn wanted_columns(&self, _pass: usize) -> Vec<usize> {
        (0..self.middles.len()).collect()
    }

    fn write(&mut self, batch: &ExportBatch<'_>) -> Result<(), ExportError> {
        let mut time = Vec::new();
        for (index, tick) in batch.ticks.iter().enumerate() {
            time.clear();
            self.clock.write_time(&mut time, tick.time_ns);
            for (values, middle) in batch.values.iter().zip(&self.middles) {
                let Some(values) = values else { continue };
                let text = &mut self.out.buffer;
                text.extend_from_slice(&time);
                text.extend_from_slice(middle);
                write_csv_number(text, values[index]);
                text.extend_from_slice(b"\r\n");
                self.out.write_full_chunk()?;
            }
        }
        for values in batch.values.iter().flatten() {
            self.tally.rows += values.len() as u64;
            self.tally.count_values(values);
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<ExportTally, ExportError> {
        self.tally.bytes = self.out.finish_output()?;
        Ok(self.tally)
    }
}

//! JSON lines: one object per tick, with `time` and one member per series. Gaps,
//! missing series, and infinities (which JSON cannot represent) are
//! `null`.

use crate::counting_writer::CountingWriter;
use crate::number;
use crate::timestamp::TimeFormatter;
use crate::{ExportBatch, ExportColumn, ExportError, ExportSink, ExportTally};

/// Sink of JSON objects.
pub(crate) struct JsonLines {
    out: CountingWriter,
    clock: TimeFormatter,
    /// `,"name":` of each column.
    keys: Vec<Vec<u8>>,
    tally: ExportTally,
}

impl JsonLines {
    /// Creates the sink; each line of it names the columns that have a value.
    pub fn new(columns: &[ExportColumn], out: CountingWriter) -> JsonLines {
        let name = |column: &ExportColumn| serde_json::Value::from(column.name()).to_string();
        let key =
            |column: &ExportColumn| format!(",{}:", diskwright_base::text::escape_json(&name(column))).into_bytes();
        JsonLines {
            out,
            clock: TimeFormatter::default(),
            keys: columns.iter().map(key).collect(),
            tally: ExportTally::default(),
        }
    }
}

impl ExportSink for JsonLines {
    fn wanted_columns(&self, _pass: usize) -> Vec<usize> {
        (0..self.keys.len()).collect()
    }

    fn write(&mut self, batch: &ExportBatch<'_>) -> Result<(), ExportError> {
        for (index, tick) in batch.ticks.iter().enumerate() {
            let text = &mut self.out.buffer;
            text.extend_from_slice(b"{\"time\":\"");
            self.clock.write_time(text, tick.time_ns);
            text.push(b'"');
            for (values, key) in batch.values.iter().zip(&self.keys) {
                text.extend_from_slice(key);
                match values.map(|values| values[index]).filter(|value| value.is_finite()) {
                    Some(value) => number::write_number(text, value),
                    None => text.extend_from_slice(b"null"),
                }
            }
            text.extend_from_slice(b"}\n");
            self.out.write_full_chunk()?;
        }
        self.tally.rows += batch.ticks.len() as u64;
        for values in batch.values.iter().flatten() {
            let written = values.iter().filter(|value| value.is_finite()).count() as u64;
            self.tally.values += written;
            self.tally.gaps += values.len() as u64 - written;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<ExportTally, ExportError> {
        self.tally.bytes = self.out.finish_output()?;
        Ok(self.tally)
    }
}

//! JSON lines: an object a tick, `time` and then a member a series. A gap, a
//! series that is not there, and an infinity (which JSON has no word for) are
//! `null`.

use crate::number;
use crate::output::Out;
use crate::time::Clock;
use crate::{Batch, Column, ExportError, Sink, Tally};

/// Writes the objects.
pub(crate) struct JsonLines {
    out: Out,
    clock: Clock,
    /// `,"name":` of each column.
    keys: Vec<Vec<u8>>,
    tally: Tally,
}

impl JsonLines {
    pub fn new(columns: &[Column], out: Out) -> JsonLines {
        let key = |column: &Column| format!(",{}:", serde_json::Value::from(column.name())).into_bytes();
        JsonLines { out, clock: Clock::default(), keys: columns.iter().map(key).collect(), tally: Tally::default() }
    }
}

impl Sink for JsonLines {
    fn wanted(&self, _pass: usize) -> Vec<usize> {
        (0..self.keys.len()).collect()
    }

    fn write(&mut self, batch: &Batch<'_>) -> Result<(), ExportError> {
        for (at, tick) in batch.ticks.iter().enumerate() {
            let text = &mut self.out.text;
            text.extend_from_slice(b"{\"time\":\"");
            self.clock.put(text, tick.time_ns);
            text.push(b'"');
            for (values, key) in batch.values.iter().zip(&self.keys) {
                text.extend_from_slice(key);
                match values.map(|values| values[at]).filter(|value| value.is_finite()) {
                    Some(value) => number::put(text, value),
                    None => text.extend_from_slice(b"null"),
                }
            }
            text.extend_from_slice(b"}\n");
            self.out.pass_on()?;
        }
        self.tally.rows += batch.ticks.len() as u64;
        batch.values.iter().flatten().for_each(|values| self.tally.count(values));
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<Tally, ExportError> {
        self.tally.bytes = self.out.end()?;
        Ok(self.tally)
    }
}

//! A tick's row of counters by name, for readers of text whose values do not depend on the tick before.

use std::collections::HashMap;
use std::sync::Arc;

use diskwright_base::{Schema, Series};

use crate::batch::FrameBatch;

/// Largest number of series of one log.
const MAX_SERIES: usize = 200_000;

/// The row of the tick that is being read.
#[derive(Default)]
pub(crate) struct LevelRow {
    by_name: HashMap<String, usize>,
    series: Vec<Series>,
    schema: Arc<Schema>,
    row: Vec<f64>,
    key: String,
}

impl LevelRow {
    /// Sets a value in the counter's unit; of two values for one counter the first counts.
    pub(crate) fn put_value(&mut self, counter: &str, instance: &str, value: f64) {
        self.put_object_value("", counter, instance, value);
    }

    /// Sets a value in place of one that is set.
    pub(crate) fn replace_value(&mut self, counter: &str, instance: &str, value: f64) {
        if let Some(column) = self.by_name.get(&format!("{counter}\0{instance}")) {
            self.row[*column] = f64::NAN;
        }
        self.put_value(counter, instance, value);
    }

    /// As [`LevelRow::put_value`], for a counter whose name comes in two parts (`physical_disk.` and `busy`).
    pub(crate) fn put_object_value(&mut self, object: &str, counter: &str, instance: &str, value: f64) {
        self.key.clear();
        for part in [object, counter, "\0", instance] {
            self.key.push_str(part);
        }
        let column = match self.by_name.get(&self.key) {
            Some(&column) => column,
            None if self.series.len() >= MAX_SERIES => return,
            None => {
                self.series.push(Series {
                    counter: format!("{object}{counter}"),
                    instance: instance.to_owned(),
                    scale: 1.0,
                });
                self.by_name.insert(self.key.clone(), self.row.len());
                self.row.push(f64::NAN);
                self.row.len() - 1
            }
        };
        if self.row[column].is_nan() {
            self.row[column] = value;
        }
    }

    /// Returns the value of a counter in this row.
    pub(crate) fn counter_value(&self, counter: &str, instance: &str) -> Option<f64> {
        let column = *self.by_name.get(&format!("{counter}\0{instance}"))?;
        Some(self.row[column]).filter(|value| !value.is_nan())
    }

    /// Adds the row to the batch as a tick, and clears it.
    pub(crate) fn emit_tick(&mut self, batch: &mut FrameBatch<'_>, time_ns: i64, elapsed_ns: Option<u64>) {
        if self.schema.series.len() != self.series.len() {
            self.schema = Arc::new(Schema::new(self.series.clone()));
        }
        if !self.series.is_empty() {
            batch.push_tick(&self.schema, time_ns, elapsed_ns, &self.row);
        }
        self.clear();
    }

    /// Series of the row's values.
    pub(crate) fn series(&self) -> &[Series] {
        &self.series
    }

    /// Values of the row; `NaN` if there is none.
    pub(crate) fn values(&self) -> &[f64] {
        &self.row
    }

    /// Takes the row's values, to be put back later with [`LevelRow::replace_values`].
    pub(crate) fn take_values(&mut self) -> Vec<f64> {
        let values = self.row.clone();
        self.clear();
        values
    }

    /// Replaces the row's values by values that were taken; series that came later are gaps. Returns the values before.
    pub(crate) fn replace_values(&mut self, values: &[f64]) -> Vec<f64> {
        let before = self.take_values();
        self.row[..values.len()].copy_from_slice(values);
        before
    }

    /// Forgets the row's values.
    pub(crate) fn clear(&mut self) {
        self.row.fill(f64::NAN);
    }
}

//! The last tick of the window: what is so now, where a mean over the window says what was.

use std::sync::Arc;

use diskwright_base::{Frame, Schema};

/// Cells of the last tick.
#[derive(Clone, Debug, Default)]
pub(crate) struct LatestRow {
    schema: Arc<Schema>,
    cells: Vec<f64>,
}

impl LatestRow {
    /// Keeps the last tick of a frame.
    pub fn keep_last(&mut self, frame: &Frame) {
        let Some(tick) = frame.ticks().len().checked_sub(1) else { return };
        if !Arc::ptr_eq(&self.schema, frame.schema()) {
            self.schema = Arc::clone(frame.schema());
        }
        self.cells.clear();
        self.cells.extend((0..self.schema.series.len()).map(|column| frame.column(column)[tick]));
    }

    /// A stored value, in the unit of its counter. `None` where the last tick has none: what it is about may be gone.
    pub fn value(&self, counter: &str, instance: &str) -> Option<f64> {
        let column = self.schema.column(counter, instance)?;
        let value = self.cells.get(column)? * self.schema.series[column].scale;
        value.is_finite().then_some(value)
    }
}

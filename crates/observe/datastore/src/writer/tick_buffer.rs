//! Buffer of the ticks of the next block. When devices appear or disappear, the
//! block does not end: it gets the columns of both schemas, and the ticks of each
//! schema become a part of it.

use std::sync::Arc;

use diskwright_base::{Frame, Schema, Tick};

use crate::format::{MAX_BLOCK_PARTS, MAX_BUFFERED_CELLS};
use crate::schema::StoredSchema;
use crate::union::ColumnUnion;

/// Ticks with one schema.
#[derive(Debug)]
pub(super) struct SchemaTicks {
    pub schema_id: u64,
    pub ticks: usize,
    series: Arc<Schema>,
}

/// A tick in the form in which it was pushed.
pub(super) type BufferedTick = (Arc<Schema>, Tick, Vec<f64>);

/// The buffered ticks.
#[derive(Debug, Default)]
pub(super) struct TickBuffer {
    /// Ticks and cells, with the union of the parts' columns.
    frame: Frame,
    parts: Vec<SchemaTicks>,
    /// Indices of the current schema's columns in the union; `None` if
    /// the schema has all columns of the union, in order.
    columns: Option<Vec<usize>>,
    row: Vec<f64>,
    max_ticks: usize,
}

impl TickBuffer {
    /// Creates a buffer for blocks of at most `max_ticks` ticks.
    pub fn new(max_ticks: usize) -> TickBuffer {
        TickBuffer { max_ticks, ..TickBuffer::default() }
    }

    /// The ticks and cells, with the union of the columns.
    pub fn frame(&self) -> &Frame {
        &self.frame
    }

    /// The parts; some may have no tick.
    pub fn parts(&self) -> &[SchemaTicks] {
        &self.parts
    }

    /// Schemas of the parts, including parts without a tick; none if the buffer is empty.
    pub fn buffered_schemas(&self) -> impl Iterator<Item = &Arc<Schema>> {
        self.parts.iter().filter(move |_| !self.frame.is_empty()).map(|part| &part.series)
    }

    /// Returns true if the block must be written first: it is full, or time goes back.
    pub fn must_flush_before(&self, tick: &Tick) -> bool {
        self.frame.is_full() || self.frame.ticks().last().is_some_and(|last| tick.time_ns < last.time_ns)
    }

    /// Sets the schema of the next ticks. Returns false if the block must be
    /// written first.
    pub fn set_schema(&mut self, stored: &StoredSchema) -> bool {
        if self.parts.last().is_some_and(|part| part.schema_id == stored.id) {
            return true;
        }
        if self.frame.is_empty() {
            let max_ticks = self.max_ticks.min(MAX_BUFFERED_CELLS / stored.schema.series.len().max(1));
            self.frame.reset(stored.schema.clone(), max_ticks);
            self.columns = None;
            self.parts.clear();
        } else if !self.widen_columns(stored) {
            return false;
        }
        self.parts.push(SchemaTicks { schema_id: stored.id, ticks: 0, series: stored.schema.clone() });
        assert!(self.parts.len() <= MAX_BLOCK_PARTS, "a block of {} schemas", self.parts.len());
        true
    }

    /// Adds the columns that only `stored` has to the buffered ticks; returns false if the block
    /// would become too wide.
    fn widen_columns(&mut self, stored: &StoredSchema) -> bool {
        let old_schema = self.frame.schema().clone();
        let series = &stored.schema.series;
        let mut union = ColumnUnion::default();
        union.add_series(&old_schema.series);
        let columns = union.add_series(series);
        let combined = Schema::new(union.series.into_iter().cloned().collect());
        let buffered_ticks = self.frame.ticks().len();
        let max_ticks = self.max_ticks.min(MAX_BUFFERED_CELLS / combined.series.len().max(1));
        // A block with the columns of two different machines would have no benefit.
        let is_similar = combined.series.len() <= 2 * series.len().max(1);
        if self.parts.len() == MAX_BLOCK_PARTS || max_ticks <= buffered_ticks || !is_similar {
            return false;
        }
        let mut widened = Frame::new(Arc::new(combined), max_ticks);
        widened.set_ticks(self.frame.ticks());
        for column in 0..widened.schema().series.len() {
            match column < old_schema.series.len() {
                true => widened.column_mut(column).copy_from_slice(self.frame.column(column)),
                false => widened.column_mut(column).fill(f64::NAN),
            }
        }
        self.frame = widened;
        self.columns = Some(columns);
        true
    }

    /// Adds a tick with the current schema.
    pub fn push(&mut self, tick: Tick, row: &[f64]) {
        match &self.columns {
            None => self.frame.push(tick, row),
            Some(columns) => {
                self.row.clear();
                self.row.resize(self.frame.schema().series.len(), f64::NAN);
                for (&column, &cell) in columns.iter().zip(row) {
                    self.row[column] = cell;
                }
                self.frame.push(tick, &self.row);
            }
        }
        if let Some(part) = self.parts.last_mut() {
            part.ticks += 1;
        }
        debug_assert!(self.parts_cover_ticks(), "each tick belongs to one schema");
    }

    /// Returns true if the parts have as many ticks as the frame.
    fn parts_cover_ticks(&self) -> bool {
        self.parts.iter().map(|part| part.ticks).sum::<usize>() == self.frame.ticks().len()
    }

    /// Returns the buffered ticks in the form in which they were pushed.
    pub fn to_pushed_ticks(&self) -> Vec<BufferedTick> {
        let mut union = ColumnUnion::default();
        let mut ticks = self.frame.ticks().iter().enumerate();
        let mut pushed = Vec::new();
        for part in &self.parts {
            let columns = union.add_series(&part.series.series);
            for (index, tick) in ticks.by_ref().take(part.ticks) {
                let row = columns.iter().map(|column| self.frame.column(*column)[index]).collect();
                pushed.push((part.series.clone(), *tick, row));
            }
        }
        pushed
    }

    /// Returns true if the current schema's columns are those of all buffered ticks.
    pub fn has_one_schema(&self) -> bool {
        self.columns.is_none()
    }

    /// Number of ticks that still fit.
    pub fn free_ticks(&self) -> usize {
        self.frame.capacity() - self.frame.ticks().len()
    }

    /// Adds ticks with the current schema, column by column.
    pub fn append_frame(&mut self, source: &Frame, range: std::ops::Range<usize>) {
        if let Some(part) = self.parts.last_mut() {
            part.ticks += range.len();
        }
        self.frame.append_ticks(source, range);
        debug_assert!(self.parts_cover_ticks(), "each tick belongs to one schema");
    }

    /// Removes the ticks, and the columns of earlier schemas.
    pub fn clear(&mut self) {
        self.frame.clear();
        match self.parts.len() {
            1 => self.parts[0].ticks = 0,
            _ => self.parts.clear(),
        }
    }
}

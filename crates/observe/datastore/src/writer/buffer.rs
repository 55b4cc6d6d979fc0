//! The ticks that wait to become a block. When devices come or go while they
//! wait, the block does not end: it gets the columns of both schemas, and the
//! ticks of each schema make a part of it.

use std::sync::Arc;

use diskwright_base::{Frame, Schema, Tick};

use crate::format::{MOST_HELD, MOST_PARTS};
use crate::schema::StoredSchema;
use crate::union::Union;

/// Ticks under one schema.
#[derive(Debug)]
pub(super) struct SchemaTicks {
    pub schema: u64,
    pub ticks: usize,
    series: Arc<Schema>,
}

/// A tick as it was pushed.
pub(super) type BufferedTick = (Arc<Schema>, Tick, Vec<f64>);

/// The waiting ticks.
#[derive(Debug, Default)]
pub(super) struct TickBuffer {
    /// Under the union of the parts' schemas.
    frame: Frame,
    parts: Vec<SchemaTicks>,
    /// Where the present schema's columns stand in the union; `None` where
    /// they are the union.
    columns: Option<Vec<usize>>,
    row: Vec<f64>,
    most_ticks: usize,
}

impl TickBuffer {
    /// A buffer for blocks of `most_ticks`.
    pub fn new(most_ticks: usize) -> TickBuffer {
        TickBuffer { most_ticks, ..TickBuffer::default() }
    }

    /// The ticks and cells under the union.
    pub fn frame(&self) -> &Frame {
        &self.frame
    }

    /// The parts, some of which may have got no tick.
    pub fn parts(&self) -> &[SchemaTicks] {
        &self.parts
    }

    /// Schemas that the waiting ticks follow, those of parts without a tick among them; none where no tick waits.
    pub fn held_schemas(&self) -> impl Iterator<Item = &Arc<Schema>> {
        self.parts.iter().filter(move |_| !self.frame.is_empty()).map(|part| &part.series)
    }

    /// True when the block should be written first: no tick fits, or time falls.
    pub fn is_done_before(&self, tick: &Tick) -> bool {
        self.frame.is_full() || self.frame.ticks().last().is_some_and(|last| tick.time_ns < last.time_ns)
    }

    /// Takes the schema of the ticks to come. False when the block should be
    /// written first.
    pub fn adopt(&mut self, stored: &StoredSchema) -> bool {
        if self.parts.last().is_some_and(|part| part.schema == stored.id) {
            return true;
        }
        if self.frame.is_empty() {
            let ticks = self.most_ticks.min(MOST_HELD / stored.schema.series.len().max(1));
            self.frame.reset(stored.schema.clone(), ticks);
            self.columns = None;
            self.parts.clear();
        } else if !self.widen(stored) {
            return false;
        }
        self.parts.push(SchemaTicks { schema: stored.id, ticks: 0, series: stored.schema.clone() });
        assert!(self.parts.len() <= MOST_PARTS, "a block of {} schemas", self.parts.len());
        true
    }

    /// Gives the waiting ticks the columns that only `stored` has.
    fn widen(&mut self, stored: &StoredSchema) -> bool {
        let before = self.frame.schema().clone();
        let series = &stored.schema.series;
        let mut union = Union::default();
        union.join(&before.series);
        let columns = union.join(series);
        let all = Schema::new(union.series.into_iter().cloned().collect());
        let held = self.frame.ticks().len();
        let ticks = self.most_ticks.min(MOST_HELD / all.series.len().max(1));
        // Two machines' worth of columns in one block would help nobody.
        let alike = all.series.len() <= 2 * series.len().max(1);
        if self.parts.len() == MOST_PARTS || ticks <= held || !alike {
            return false;
        }
        let mut wide = Frame::new(Arc::new(all), ticks);
        wide.set_ticks(self.frame.ticks());
        for column in 0..wide.schema().series.len() {
            match column < before.series.len() {
                true => wide.column_mut(column).copy_from_slice(self.frame.column(column)),
                false => wide.column_mut(column).fill(f64::NAN),
            }
        }
        self.frame = wide;
        self.columns = Some(columns);
        true
    }

    /// Adds a tick under the present schema.
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
        debug_assert!(self.is_divided(), "each tick belongs to one schema");
    }

    fn is_divided(&self) -> bool {
        self.parts.iter().map(|part| part.ticks).sum::<usize>() == self.frame.ticks().len()
    }

    /// The waiting ticks as they were pushed.
    pub fn pushed(&self) -> Vec<BufferedTick> {
        let mut union = Union::default();
        let mut ticks = self.frame.ticks().iter().enumerate();
        let mut pushed = Vec::new();
        for part in &self.parts {
            let columns = union.join(&part.series.series);
            for (index, tick) in ticks.by_ref().take(part.ticks) {
                let row = columns.iter().map(|column| self.frame.column(*column)[index]).collect();
                pushed.push((part.series.clone(), *tick, row));
            }
        }
        pushed
    }

    /// True where the present schema's columns are those of the waiting ticks.
    pub fn is_uniform(&self) -> bool {
        self.columns.is_none()
    }

    /// Ticks that still fit.
    pub fn room(&self) -> usize {
        self.frame.capacity() - self.frame.ticks().len()
    }

    /// Adds ticks under the present schema, column by column.
    pub fn append(&mut self, from: &Frame, range: std::ops::Range<usize>) {
        if let Some(part) = self.parts.last_mut() {
            part.ticks += range.len();
        }
        self.frame.append(from, range);
        debug_assert!(self.is_divided(), "each tick belongs to one schema");
    }

    /// Forgets the ticks, and the columns of schemas that have passed.
    pub fn clear(&mut self) {
        self.frame.clear();
        match self.parts.len() {
            1 => self.parts[0].ticks = 0,
            _ => self.parts.clear(),
        }
    }
}

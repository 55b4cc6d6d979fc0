//! State of each number from dump to dump, and the row computed from it.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use diskwright_base::{Schema, Series};

use diskwright_base::diskstats::{COMPLETED_POSITIONS, IN_FLIGHT_POSITION};

use super::columns::{DumpColumn, DumpRule, STALLED_INDEX};

/// Placeholder for a number that was not in the dump.
const ABSENT: u64 = u64::MAX;
/// Largest number of numbers that are followed; further ones are left out.
const MAX_CELLS: usize = 200_000;
/// Shortest interval for which a number of whole seconds is accurate enough.
const MIN_SECONDS_INTERVAL_NS: u64 = 30_000_000_000;

/// Tool that a cell is filled from, of those that show the same numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DumpFamily {
    /// A file of the kernel.
    Kernel,
    /// vmstat's options.
    Vmstat,
}

struct DumpCell {
    column: DumpColumn,
    current: u64,
    previous: u64,
}

struct DumpGroup {
    cells: Range<usize>,
    family: DumpFamily,
    is_disk: bool,
}

/// Faults in the numbers of a dump.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DumpTrouble {
    /// Number of groups whose numbers can be compared with those of the dump before.
    pub(super) compared: usize,
    /// Number of groups in which a number went back.
    pub(super) restarted: usize,
}

/// All numbers of a log.
#[derive(Default)]
pub(super) struct DumpCells {
    groups: Vec<DumpGroup>,
    by_name: HashMap<(&'static str, String), usize>,
    cells: Vec<DumpCell>,
    series: Vec<Series>,
    schema: Arc<Schema>,
    row: Vec<f64>,
}

impl DumpCells {
    /// Finds or makes the group of an instance; `None` if there are too many, or if another tool supplies the
    /// same numbers.
    pub(super) fn find_group(&mut self, columns: &[DumpColumn], instance: &str, family: DumpFamily) -> Option<usize> {
        let first = columns.first()?.counter;
        let mut known = columns.iter().filter_map(|c| self.by_name.get(&(c.counter, instance.to_owned())));
        if let Some(&group) = known.next() {
            let is_same_source = self.groups[group].family == family
                && self.cells[self.groups[group].cells.start].column.counter == first;
            return is_same_source.then_some(group);
        }
        if self.cells.len() + columns.len() > MAX_CELLS {
            return None;
        }
        let first_cell = self.cells.len();
        for column in columns {
            let counter = column.counter.to_owned();
            self.series.push(Series { counter, instance: instance.to_owned(), scale: column.scale });
            self.cells.push(DumpCell { column: *column, current: ABSENT, previous: ABSENT });
            self.by_name.insert((column.counter, instance.to_owned()), self.groups.len());
        }
        let is_disk = columns.len() > 1 && !first.starts_with("processor.");
        self.groups.push(DumpGroup { cells: first_cell..self.cells.len(), family, is_disk });
        Some(self.groups.len() - 1)
    }

    /// Sets a group's numbers; a number that is set already is added to.
    pub(super) fn add_numbers(&mut self, group: usize, numbers: impl Iterator<Item = Option<u64>>) {
        for (cell, number) in self.cells[self.groups[group].cells.clone()].iter_mut().zip(numbers) {
            let Some(number) = number else { continue };
            cell.current = if cell.current == ABSENT { number } else { cell.current.wrapping_add(number) };
        }
    }

    /// Returns the number of a counter of this dump, in its unit.
    pub(super) fn counter_value(&self, counter: &'static str, instance: &str) -> Option<f64> {
        let group = *self.by_name.get(&(counter, instance.to_owned()))?;
        let mut cells = self.cells[self.groups[group].cells.clone()].iter();
        let cell = cells.find(|cell| cell.column.counter == counter)?;
        (cell.current != ABSENT).then_some(cell.current as f64 * cell.column.scale)
    }

    /// Returns the growth of a counter since the dump before, in its unit.
    pub(super) fn counter_growth(&self, counter: &'static str, instance: &str) -> Option<f64> {
        let group = *self.by_name.get(&(counter, instance.to_owned()))?;
        let mut cells = self.cells[self.groups[group].cells.clone()].iter();
        let cell = cells.find(|cell| cell.column.counter == counter)?;
        let growth = cell.current.checked_sub(cell.previous)?;
        (cell.current != ABSENT).then_some(growth as f64 * cell.column.scale)
    }

    /// Builds the row of the dump that ends here; `since_ns` is the time since the one before.
    pub(super) fn build_row(&mut self, since_ns: u64) -> (Arc<Schema>, &[f64], DumpTrouble) {
        if self.schema.series.len() != self.series.len() {
            self.schema = Arc::new(Schema::new(self.series.clone()));
        }
        self.row.clear();
        let mut trouble = DumpTrouble::default();
        for group in &self.groups {
            let cells = &self.cells[group.cells.clone()];
            let row_start = self.row.len();
            let (mut went_back, mut compared) = (false, false);
            for cell in cells {
                let value = cell_value(cell, since_ns);
                compared |= cell.column.rule == DumpRule::Added && cell.current != ABSENT && cell.previous != ABSENT;
                went_back |= value.is_none();
                self.row.push(value.unwrap_or(f64::NAN));
            }
            trouble.compared += usize::from(compared);
            trouble.restarted += usize::from(went_back);
            let row = &mut self.row[row_start..];
            if group.is_disk && went_back {
                // another device got its name: no difference is valid
                let is_difference = |cell: &DumpCell| cell.column.rule != DumpRule::Level;
                let differences = row.iter_mut().zip(cells).filter(|(_, cell)| is_difference(cell));
                differences.for_each(|(value, _)| *value = f64::NAN);
            }
            if row.len() > STALLED_INDEX {
                row[STALLED_INDEX] = stalled_value(row);
            }
        }
        (Arc::clone(&self.schema), &self.row, trouble)
    }

    /// Makes the totals of this dump count from 0, where they began.
    pub(super) fn begin_at_zero(&mut self) {
        self.cells.iter_mut().for_each(|cell| cell.previous = 0);
    }

    /// Advances to the next dump.
    pub(super) fn advance_dump(&mut self) {
        for cell in &mut self.cells {
            (cell.previous, cell.current) = (cell.current, ABSENT);
        }
    }

    /// Forgets the numbers of this dump, and keeps those of the one before.
    pub(super) fn drop_dump(&mut self) {
        self.cells.iter_mut().for_each(|cell| cell.current = ABSENT);
    }
}

/// Computes a cell's value: `NaN` if it cannot be known, `None` if its number went back.
fn cell_value(cell: &DumpCell, since_ns: u64) -> Option<f64> {
    let DumpCell { column, current: now, previous: before } = *cell;
    if now == ABSENT || column.rule == DumpRule::Stall {
        return Some(f64::NAN);
    }
    if column.rule == DumpRule::Level {
        return Some(now as f64);
    }
    if before == ABSENT
        || since_ns == 0
        || (column.rule == DumpRule::AddedSeconds && since_ns < MIN_SECONDS_INTERVAL_NS)
    {
        return Some(f64::NAN);
    }
    if now >= before {
        return Some((now - before) as f64);
    }
    let wrapped = (1_u64 << 32).checked_sub(before).map(|until_wrap| until_wrap + now);
    wrapped.filter(|added| column.rule == DumpRule::Added32 && *added < 1 << 31).map(|added| added as f64)
}

/// Returns 1 if requests are in flight and none completed, else 0.
fn stalled_value(row: &[f64]) -> f64 {
    let completed = COMPLETED_POSITIONS
        .iter()
        .skip(1)
        .fold(row[COMPLETED_POSITIONS[0]], |sum, index| sum + if row[*index].is_nan() { 0.0 } else { row[*index] });
    match row[IN_FLIGHT_POSITION] {
        in_flight if in_flight.is_nan() || completed.is_nan() => f64::NAN,
        in_flight if in_flight > 0.0 && completed == 0.0 => 1.0,
        _ => 0.0,
    }
}

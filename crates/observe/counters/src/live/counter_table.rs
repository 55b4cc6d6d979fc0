//! Conversion of the kernel's running numbers to cells. Only this module handles wraps, resets, backward steps, and
//! instances that appear and disappear.
//!
//! A source fills a [`CounterTable`] with the values that it read, one row per instance; then
//! [`CounterTable::compute_cells`] computes the cells. A total's cell is its increase since the tick before. Where that
//! increase is unknown (first reading, a reset, a number that went backwards, a missed tick), the cell is `NaN`. After
//! a missed tick, the increase would cover more time than the tick.
//!
//! A column is part of the schema from the first time an instance has a value in it. A field that this kernel lacks is
//! therefore absent from the schema, not an endless gap.

use diskwright_base::{Note, Series};

use super::tick_context::TickContext;

/// Marks a value that was not read.
pub(crate) const ABSENT: u64 = u64::MAX;

/// Rule by which a raw number becomes a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CellRule {
    /// The number itself.
    Level,
    /// The increase of a number of 64 bits, which never wraps.
    Total,
    /// The increase of a number that the kernel prints with 32 bits.
    Total32,
    /// The increase of a sum of 32-bit numbers, each of which wraps separately.
    Sum32,
    /// The source computes the cell.
    Computed,
}

/// A column of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TableColumn {
    /// Counter id.
    pub counter: &'static str,
    /// Factor from the cell to the counter's unit.
    pub scale: f64,
    /// Rule by which the cell is computed.
    pub rule: CellRule,
}

/// Creates a column of a level.
pub(crate) const fn level_column(counter: &'static str, scale: f64) -> TableColumn {
    TableColumn { counter, scale, rule: CellRule::Level }
}

/// Creates a column of a total of 64 bits.
pub(crate) const fn total_column(counter: &'static str, scale: f64) -> TableColumn {
    TableColumn { counter, scale, rule: CellRule::Total }
}

/// Creates a column of a total that wraps at 32 bits.
pub(crate) const fn total32_column(counter: &'static str, scale: f64) -> TableColumn {
    TableColumn { counter, scale, rule: CellRule::Total32 }
}

/// Creates a column of a sum of numbers that wrap at 32 bits each.
pub(crate) const fn sum32_column(counter: &'static str) -> TableColumn {
    TableColumn { counter, scale: 1.0, rule: CellRule::Sum32 }
}

/// Returns the index of a counter's column, for constants: a counter without a column fails the build.
pub(crate) const fn column_index(columns: &[TableColumn], counter: &str) -> usize {
    let mut index = 0;
    while index < columns.len() {
        if is_same_text(columns[index].counter.as_bytes(), counter.as_bytes()) {
            return index;
        }
        index += 1;
    }
    panic!("no column has this counter")
}

/// Compares texts; `==` cannot be used in constants.
const fn is_same_text(left: &[u8], right: &[u8]) -> bool {
    let mut index = 0;
    while index < left.len() && index < right.len() && left[index] == right[index] {
        index += 1;
    }
    index == left.len() && index == right.len()
}

/// Meaning, for its row, of a number that went backwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CounterReset {
    /// The instance restarted: no total of the row can be compared.
    WholeRow,
    /// Only this number is unsteady (as idle and iowait are); the others are valid.
    OneNumber,
}

#[derive(Debug)]
struct TableRow {
    name: String,
    seen: bool,
    gone: bool,
}

/// Rows of instances, columns of counters.
#[derive(Debug)]
pub(crate) struct CounterTable {
    instance_kind: &'static str,
    columns: Vec<TableColumn>,
    reset_rule: CounterReset,
    rows: Vec<TableRow>,
    /// Numbers of this tick, row after row. The next three lists have the same order.
    current: Vec<u64>,
    /// Numbers of the tick before.
    previous: Vec<u64>,
    cells: Vec<f64>,
    /// Cells that are part of the schema.
    shown: Vec<bool>,
    /// Indices of the shown cells; brought up to date by [`CounterTable::take_changed`].
    order: Vec<usize>,
    /// The set of shown cells has changed since the last [`CounterTable::take_changed`].
    changed: bool,
}

impl CounterTable {
    /// An empty table; the first argument names the kind of instance in notes (`disk`, `processor`).
    pub fn new(instance_kind: &'static str, columns: &[TableColumn], reset_rule: CounterReset) -> CounterTable {
        CounterTable {
            instance_kind,
            columns: columns.to_vec(),
            reset_rule,
            rows: Vec::new(),
            current: Vec::new(),
            previous: Vec::new(),
            cells: Vec::new(),
            shown: Vec::new(),
            order: Vec::new(),
            changed: false,
        }
    }

    /// A table whose only instance has no name.
    pub fn single_row(columns: &[TableColumn]) -> CounterTable {
        let mut table = CounterTable::new("", columns, CounterReset::OneNumber);
        table.row_or_insert("");
        table
    }

    /// Starts a tick: clears its values and marks all rows as unseen.
    pub fn begin_tick(&mut self) {
        self.current.fill(ABSENT);
        for row in &mut self.rows {
            row.seen = false;
        }
    }

    /// Returns the row of an instance; adds it if there is none.
    pub fn row_or_insert(&mut self, name: &str) -> usize {
        if let Some(row) = self.find_row(name) {
            return row;
        }
        self.rows.push(TableRow { name: name.to_owned(), seen: false, gone: false });
        let cells = self.rows.len() * self.columns.len();
        self.current.resize(cells, ABSENT);
        self.previous.resize(cells, ABSENT);
        self.cells.resize(cells, f64::NAN);
        self.shown.resize(cells, false);
        self.assert_shape();
        self.rows.len() - 1
    }

    /// Asserts that every list has an entry for each column of each row.
    fn assert_shape(&self) {
        let lengths = [self.current.len(), self.previous.len(), self.cells.len(), self.shown.len()];
        let (rows, columns) = (self.rows.len(), self.columns.len());
        debug_assert!(lengths == [rows * columns; 4], "{rows} rows of {columns} columns: {lengths:?}");
    }

    /// Returns the row of an instance, if there is one.
    pub fn find_row(&self, name: &str) -> Option<usize> {
        self.rows.iter().position(|r| r.name == name)
    }

    /// Returns true if row `index` is that of the instance.
    pub fn is_row(&self, index: usize, name: &[u8]) -> bool {
        self.rows.get(index).is_some_and(|r| r.name.as_bytes() == name)
    }

    /// Returns the raw numbers of a row at this tick.
    pub fn row(&self, row: usize) -> &[u64] {
        let width = self.columns.len();
        &self.current[row * width..(row + 1) * width]
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns the raw numbers of a row, to be filled; marks the row as seen.
    pub fn row_mut(&mut self, row: usize) -> &mut [u64] {
        self.rows[row].seen = true;
        let width = self.columns.len();
        &mut self.current[row * width..(row + 1) * width]
    }

    /// Makes the totals of the next tick gaps: the next values cannot be compared with the previous ones.
    pub fn forget_previous(&mut self) {
        self.previous.fill(ABSENT);
    }

    /// Makes the totals of one row gaps at the next tick.
    pub fn forget_previous_of(&mut self, row: usize) {
        let width = self.columns.len();
        self.previous[row * width..(row + 1) * width].fill(ABSENT);
    }

    /// Sets the previous value of a number, for a new row whose start value is known.
    pub fn set_previous(&mut self, row: usize, column: usize, value: u64) {
        self.previous[row * self.columns.len() + column] = value;
    }

    /// Returns true if the instance was absent at the last tick.
    pub fn is_gone(&self, row: usize) -> bool {
        self.rows[row].gone
    }

    /// Returns true if any instance was absent at the last tick.
    pub fn any_gone(&self) -> bool {
        self.rows.iter().any(|r| r.gone)
    }

    /// Returns true if the cell is part of the schema.
    pub fn is_shown(&self, row: usize, column: usize) -> bool {
        self.shown[row * self.columns.len() + column]
    }

    /// Computes the cells from the values that were filled in.
    pub fn compute_cells(&mut self, context: &mut TickContext) {
        self.assert_shape();
        for row in 0..self.rows.len() {
            if self.rows[row].seen {
                self.compute_row(row, context);
            } else {
                self.blank_missing_row(row, context);
            }
        }
        self.previous.copy_from_slice(&self.current);
    }

    fn blank_missing_row(&mut self, row: usize, context: &mut TickContext) {
        let width = self.columns.len();
        self.cells[row * width..(row + 1) * width].fill(f64::NAN);
        let entry = &mut self.rows[row];
        if !entry.gone {
            entry.gone = true;
            if !entry.name.is_empty() {
                let (kind, name) = (self.instance_kind, &entry.name);
                context.notes.push(context.time_ns, Note::GAP, format!("{kind} {name} is gone"));
            }
        }
    }

    fn compute_row(&mut self, row: usize, context: &mut TickContext) {
        if self.rows[row].gone {
            self.rows[row].gone = false;
            if !self.rows[row].name.is_empty() {
                let text = format!("{} {} is back", self.instance_kind, self.rows[row].name);
                context.notes.push(context.time_ns, Note::GAP, text);
            }
        }
        let width = self.columns.len();
        let mut backwards: Option<(usize, CellRule)> = None;
        for (c, column) in self.columns.iter().enumerate() {
            let i = row * width + c;
            let (now, before) = (self.current[i], self.previous[i]);
            if now == ABSENT {
                self.cells[i] = f64::NAN;
                continue;
            }
            if !self.shown[i] && column.rule != CellRule::Computed {
                self.shown[i] = true;
                self.changed = true;
            }
            self.cells[i] = match column.rule {
                CellRule::Level => now as f64,
                CellRule::Computed => f64::NAN,
                _ if before == ABSENT => f64::NAN,
                rule => increase_between(rule, before, now).map_or_else(
                    || {
                        // of several backward numbers, a total proves a restart; a time may just be unsteady
                        if backwards
                            .is_none_or(|(_, noted_rule)| noted_rule != CellRule::Total && rule == CellRule::Total)
                        {
                            backwards = Some((c, rule));
                        }
                        f64::NAN
                    },
                    |n| n as f64,
                ),
            };
        }
        if let Some((column, rule)) = backwards {
            self.handle_backwards_total(row, column, rule, context);
        }
    }

    fn handle_backwards_total(&mut self, row: usize, column: usize, rule: CellRule, context: &mut TickContext) {
        let has_restarted =
            self.reset_rule == CounterReset::WholeRow && matches!(rule, CellRule::Total | CellRule::Sum32);
        if has_restarted {
            let width = self.columns.len();
            for (c, column) in self.columns.iter().enumerate() {
                if column.rule != CellRule::Level {
                    self.cells[row * width + c] = f64::NAN;
                }
            }
        }
        let (counter, name) = (self.columns[column].counter, &self.rows[row].name);
        let key: &str = if has_restarted { name } else { counter };
        context.notes.push_limited(context.time_ns, Note::GAP, key, || {
            let owner = if name.is_empty() { String::new() } else { format!(" of {name}") };
            let consequence = if has_restarted {
                "; it restarted, so it has no value for this tick"
            } else {
                ": no value for this tick"
            };
            format!("{counter}{owner} went backwards{consequence}")
        });
    }

    /// Makes every cell a gap, because nothing could be read at this tick. The totals of the next tick are gaps, too.
    pub fn blank_all(&mut self) {
        self.cells.fill(f64::NAN);
        self.current.fill(ABSENT);
        self.previous.fill(ABSENT);
    }

    /// A cell after [`CounterTable::compute_cells`].
    pub fn cell(&self, row: usize, column: usize) -> f64 {
        self.cells[row * self.columns.len() + column]
    }

    /// Sets the cell of a [`CellRule::Computed`] column, after [`CounterTable::compute_cells`].
    pub fn set_cell(&mut self, row: usize, column: usize, value: f64) {
        let i = row * self.columns.len() + column;
        self.cells[i] = value;
        if !self.shown[i] {
            self.shown[i] = true;
            self.changed = true;
        }
    }

    /// Drops the rows for which `keep` returns false; it gets the name, and whether the instance was absent at the last
    /// tick. Row numbers change.
    pub fn retain_rows(&mut self, keep: impl Fn(&str, bool) -> bool) {
        let width = self.columns.len();
        for row in (0..self.rows.len()).rev() {
            if keep(&self.rows[row].name, self.rows[row].gone) {
                continue;
            }
            self.changed = true;
            self.rows.remove(row);
            let range = row * width..(row + 1) * width;
            self.current.drain(range.clone());
            self.previous.drain(range.clone());
            self.cells.drain(range.clone());
            self.shown.drain(range);
        }
        self.assert_shape();
        // return the memory of many removed rows
        if self.rows.capacity() / 4 > self.rows.len() {
            self.rows.shrink_to_fit();
            self.current.shrink_to_fit();
            self.previous.shrink_to_fit();
            self.cells.shrink_to_fit();
            self.shown.shrink_to_fit();
            self.order.shrink_to_fit();
        }
    }

    /// Returns true once after the shown columns changed, and updates their order.
    pub fn take_changed(&mut self) -> bool {
        if self.changed {
            self.order = (0..self.shown.len()).filter(|&i| self.shown[i]).collect();
        }
        std::mem::take(&mut self.changed)
    }

    /// Appends the series of the shown cells, in the order of [`CounterTable::append_cells`].
    pub fn append_series(&self, out: &mut Vec<Series>) {
        debug_assert!(!self.changed, "the order is that of the cells before a change");
        let width = self.columns.len();
        out.extend(self.order.iter().map(|&i| {
            let column = &self.columns[i % width];
            Series { counter: column.counter.into(), instance: self.rows[i / width].name.clone(), scale: column.scale }
        }));
    }

    /// Appends the shown cells.
    pub fn append_cells(&self, out: &mut Vec<f64>) {
        debug_assert!(!self.changed, "the order is that of the cells before a change");
        if self.order.len() == self.cells.len() {
            out.extend_from_slice(&self.cells);
        } else {
            out.extend(self.order.iter().map(|&i| self.cells[i]));
        }
    }
}

/// Increase between two readings; `None` where the number went backwards.
fn increase_between(rule: CellRule, before: u64, now: u64) -> Option<u64> {
    const HALF_RANGE: u64 = 1 << 31;
    let wrapped = u64::from((now as u32).wrapping_sub(before as u32));
    match rule {
        CellRule::Sum32 => (wrapped < HALF_RANGE).then_some(wrapped),
        _ if now >= before => Some(now - before),
        // only a number above half of the range can have wrapped; a lower one is unsteady, or was reset
        CellRule::Total32 => (before >> 32 == 0 && before >= HALF_RANGE && wrapped < HALF_RANGE).then_some(wrapped),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn increases_handle_wraps_and_resets() {
        let wrap = u64::from(u32::MAX);
        for (rule, before, now, expected) in [
            (CellRule::Total, 5, 9, Some(4)),
            (CellRule::Total, 9, 5, None),
            (CellRule::Total, wrap, 5, None),
            (CellRule::Total32, wrap, 5, Some(6)),
            (CellRule::Total32, 5, wrap, Some(wrap - 5)),
            // reset, or unsteady
            (CellRule::Total32, 5000, 4999, None),
            (CellRule::Total32, 1000, 5, None),
            (CellRule::Total32, (1 << 31) + 5, (1 << 31) + 4, None),
            // a kernel that prints more than 32 bits does not wrap there
            (CellRule::Total32, wrap + 10, 5, None),
            (CellRule::Total32, wrap + 10, wrap + 12, Some(2)),
            (CellRule::Sum32, 5, 9, Some(4)),
            (CellRule::Sum32, wrap - 1, 9, Some(11)),
            (CellRule::Sum32, 9, 5, None),
        ] {
            assert_eq!(increase_between(rule, before, now), expected, "{rule:?} {before} {now}");
        }
    }
}

//! From the kernel's running numbers to cells: the one place where wraps,
//! resets, steps backwards and instances that come and go are settled.
//!
//! A source fills a [`CounterTable`] with what it read, a row an instance; then
//! [`CounterTable::settle`] makes the cells. A total's cell is what was added since
//! the tick before. Where that cannot be known (first sight, a reset, a number
//! that went backwards, a tick that was missed) the cell is `NaN`: over a
//! missed tick the sum would be of more time than the tick covers.
//!
//! A column is part of the schema from the first moment an instance has a
//! value there, so that a field which this kernel lacks is absent rather than
//! an endless gap.

use diskwright_base::{Note, Series};

use super::moment::TickContext;

/// Stands for a value that was not read.
pub(crate) const ABSENT: u64 = u64::MAX;

/// How a raw number becomes a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CellRule {
    /// The number itself.
    Level,
    /// What was added; 64 bits never wrap.
    Total,
    /// What was added to a number that the kernel prints with 32 bits.
    Total32,
    /// What was added to a sum of 32-bit numbers, each of which wraps by itself.
    Sum32,
    /// The source computes it.
    Computed,
}

/// A column of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TableColumn {
    /// Counter id.
    pub counter: &'static str,
    /// Cell times this is the counter's unit.
    pub scale: f64,
    /// How the cell is made.
    pub rule: CellRule,
}

/// A level.
pub(crate) const fn level(counter: &'static str, scale: f64) -> TableColumn {
    TableColumn { counter, scale, rule: CellRule::Level }
}

/// A total of 64 bits.
pub(crate) const fn total(counter: &'static str, scale: f64) -> TableColumn {
    TableColumn { counter, scale, rule: CellRule::Total }
}

/// A total that wraps at 32 bits.
pub(crate) const fn total32(counter: &'static str, scale: f64) -> TableColumn {
    TableColumn { counter, scale, rule: CellRule::Total32 }
}

/// A total of numbers that wrap at 32 bits each.
pub(crate) const fn sum32(counter: &'static str) -> TableColumn {
    TableColumn { counter, scale: 1.0, rule: CellRule::Sum32 }
}

/// What a number that went backwards says of its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CounterReset {
    /// The instance began anew: nothing in the row can be compared.
    RowBeganAnew,
    /// This one number is unsteady (idle and iowait are); the others hold.
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
    what: &'static str,
    columns: Vec<TableColumn>,
    backwards: CounterReset,
    rows: Vec<TableRow>,
    now: Vec<u64>,
    before: Vec<u64>,
    cells: Vec<f64>,
    shown: Vec<bool>,
    order: Vec<usize>,
    changed: bool,
}

impl CounterTable {
    /// An empty table; `what` names an instance in notes (`disk`, `processor`).
    pub fn new(what: &'static str, columns: &[TableColumn], backwards: CounterReset) -> CounterTable {
        CounterTable {
            what,
            columns: columns.to_vec(),
            backwards,
            rows: Vec::new(),
            now: Vec::new(),
            before: Vec::new(),
            cells: Vec::new(),
            shown: Vec::new(),
            order: Vec::new(),
            changed: false,
        }
    }

    /// A table whose only instance has no name.
    pub fn single(columns: &[TableColumn]) -> CounterTable {
        let mut table = CounterTable::new("", columns, CounterReset::OneNumber);
        table.row("");
        table
    }

    /// Forgets what this tick brought so far.
    pub fn begin(&mut self) {
        self.now.fill(ABSENT);
        for row in &mut self.rows {
            row.seen = false;
        }
    }

    /// The row of an instance, made where there is none.
    pub fn row(&mut self, name: &str) -> usize {
        if let Some(row) = self.find(name) {
            return row;
        }
        self.rows.push(TableRow { name: name.to_owned(), seen: false, gone: false });
        let cells = self.rows.len() * self.columns.len();
        self.now.resize(cells, ABSENT);
        self.before.resize(cells, ABSENT);
        self.cells.resize(cells, f64::NAN);
        self.shown.resize(cells, false);
        self.rows.len() - 1
    }

    /// The row of an instance.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.rows.iter().position(|r| r.name == name)
    }

    /// True where row `at` is that of the instance.
    pub fn is_row(&self, index: usize, name: &[u8]) -> bool {
        self.rows.get(index).is_some_and(|r| r.name.as_bytes() == name)
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// The raw numbers of a row, to be filled; the row counts as seen.
    pub fn fill(&mut self, row: usize) -> &mut [u64] {
        self.rows[row].seen = true;
        let width = self.columns.len();
        &mut self.now[row * width..(row + 1) * width]
    }

    /// Makes the totals of the next tick gaps: what was read before cannot be
    /// compared with what comes.
    pub fn forget(&mut self) {
        self.before.fill(ABSENT);
    }

    /// The same for one row.
    pub fn forget_row(&mut self, row: usize) {
        let width = self.columns.len();
        self.before[row * width..(row + 1) * width].fill(ABSENT);
    }

    /// Says what a number was at the tick before, of a row that is new and whose begin is known.
    pub fn know_before(&mut self, row: usize, column: usize, value: u64) {
        self.before[row * self.columns.len() + column] = value;
    }

    /// True where the instance was not there at the last tick.
    pub fn is_gone(&self, row: usize) -> bool {
        self.rows[row].gone
    }

    /// True where any instance was not there at the last tick.
    pub fn any_gone(&self) -> bool {
        self.rows.iter().any(|r| r.gone)
    }

    /// True where the cell is part of the schema.
    pub fn is_shown(&self, row: usize, column: usize) -> bool {
        self.shown[row * self.columns.len() + column]
    }

    /// Makes the cells from what was filled in.
    pub fn settle(&mut self, context: &mut TickContext) {
        for row in 0..self.rows.len() {
            if self.rows[row].seen {
                self.settle_row(row, context);
            } else {
                self.settle_gone(row, context);
            }
        }
        self.before.copy_from_slice(&self.now);
    }

    fn settle_gone(&mut self, row: usize, context: &mut TickContext) {
        let width = self.columns.len();
        self.cells[row * width..(row + 1) * width].fill(f64::NAN);
        let entry = &mut self.rows[row];
        if !entry.gone {
            entry.gone = true;
            if !entry.name.is_empty() {
                let (what, name) = (self.what, &entry.name);
                context.notes.push(context.time_ns, Note::GAP, format!("{what} {name} is gone"));
            }
        }
    }

    fn settle_row(&mut self, row: usize, context: &mut TickContext) {
        if self.rows[row].gone {
            self.rows[row].gone = false;
            if !self.rows[row].name.is_empty() {
                let text = format!("{} {} is back", self.what, self.rows[row].name);
                context.notes.push(context.time_ns, Note::GAP, text);
            }
        }
        let width = self.columns.len();
        let mut wrong: Option<(usize, CellRule)> = None;
        for (c, column) in self.columns.iter().enumerate() {
            let i = row * width + c;
            let (now, before) = (self.now[i], self.before[i]);
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
                rule => added(rule, before, now).map_or_else(
                    || {
                        // of several, a total says that the instance began anew; a time may only be unsteady
                        if wrong.is_none_or(|(_, known)| known != CellRule::Total && rule == CellRule::Total) {
                            wrong = Some((c, rule));
                        }
                        f64::NAN
                    },
                    |n| n as f64,
                ),
            };
        }
        if let Some((column, rule)) = wrong {
            self.went_backwards(row, column, rule, context);
        }
    }

    fn went_backwards(&mut self, row: usize, column: usize, rule: CellRule, context: &mut TickContext) {
        let anew = self.backwards == CounterReset::RowBeganAnew && matches!(rule, CellRule::Total | CellRule::Sum32);
        if anew {
            let width = self.columns.len();
            for (c, column) in self.columns.iter().enumerate() {
                if column.rule != CellRule::Level {
                    self.cells[row * width + c] = f64::NAN;
                }
            }
        }
        let (counter, name) = (self.columns[column].counter, &self.rows[row].name);
        let key: &str = if anew { name } else { counter };
        context.notes.limited(context.time_ns, Note::GAP, key, || {
            let of = if name.is_empty() { String::new() } else { format!(" of {name}") };
            let then =
                if anew { "; it restarted, so it has no value for this tick" } else { ": no value for this tick" };
            format!("{counter}{of} went backwards{then}")
        });
    }

    /// Nothing could be read at this tick: every cell is a gap, and so are
    /// the totals of the next one.
    pub fn gap(&mut self) {
        self.cells.fill(f64::NAN);
        self.now.fill(ABSENT);
        self.before.fill(ABSENT);
    }

    /// A cell after [`CounterTable::settle`].
    pub fn cell(&self, row: usize, column: usize) -> f64 {
        self.cells[row * self.columns.len() + column]
    }

    /// Sets a computed cell after [`CounterTable::settle`].
    pub fn compute(&mut self, row: usize, column: usize, value: f64) {
        let i = row * self.columns.len() + column;
        self.cells[i] = value;
        if !self.shown[i] {
            self.shown[i] = true;
            self.changed = true;
        }
    }

    /// Drops the rows that `keep` refuses. Row numbers change.
    pub fn retain(&mut self, keep: impl Fn(&str, bool) -> bool) {
        let width = self.columns.len();
        for row in (0..self.rows.len()).rev() {
            if keep(&self.rows[row].name, self.rows[row].gone) {
                continue;
            }
            self.changed = true;
            self.rows.remove(row);
            let range = row * width..(row + 1) * width;
            self.now.drain(range.clone());
            self.before.drain(range.clone());
            self.cells.drain(range.clone());
            self.shown.drain(range);
        }
        // the memory of many that went goes back
        if self.rows.capacity() / 4 > self.rows.len() {
            self.rows.shrink_to_fit();
            self.now.shrink_to_fit();
            self.before.shrink_to_fit();
            self.cells.shrink_to_fit();
            self.shown.shrink_to_fit();
            self.order.shrink_to_fit();
        }
    }

    /// True once after the shown columns changed.
    pub fn take_changed(&mut self) -> bool {
        if self.changed {
            self.order = (0..self.shown.len()).filter(|&i| self.shown[i]).collect();
        }
        std::mem::take(&mut self.changed)
    }

    /// Adds its series, in the order of its cells.
    pub fn series(&self, out: &mut Vec<Series>) {
        let width = self.columns.len();
        out.extend(self.order.iter().map(|&i| {
            let column = &self.columns[i % width];
            Series { counter: column.counter.into(), instance: self.rows[i / width].name.clone(), scale: column.scale }
        }));
    }

    /// Adds its cells.
    pub fn cells(&self, out: &mut Vec<f64>) {
        if self.order.len() == self.cells.len() {
            out.extend_from_slice(&self.cells);
        } else {
            out.extend(self.order.iter().map(|&i| self.cells[i]));
        }
    }
}

/// What was added between two readings; `None` where the number went backwards.
fn added(rule: CellRule, before: u64, now: u64) -> Option<u64> {
    const HALF: u64 = 1 << 31;
    let around = u64::from((now as u32).wrapping_sub(before as u32));
    match rule {
        CellRule::Sum32 => (around < HALF).then_some(around),
        _ if now >= before => Some(now - before),
        // Only a number that was high can have wrapped. A low one that went
        // back is a small unsteadiness, or began anew.
        CellRule::Total32 => (before >> 32 == 0 && before >= HALF && around < HALF).then_some(around),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_added() {
        let wrap = u64::from(u32::MAX);
        for (rule, before, now, expected) in [
            (CellRule::Total, 5, 9, Some(4)),
            (CellRule::Total, 9, 5, None),
            (CellRule::Total, wrap, 5, None),
            (CellRule::Total32, wrap, 5, Some(6)),
            (CellRule::Total32, 5, wrap, Some(wrap - 5)),
            // began anew, or unsteady
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
            assert_eq!(added(rule, before, now), expected, "{rule:?} {before} {now}");
        }
    }
}

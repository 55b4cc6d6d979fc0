//! The row of a tick: columns by counter and instance, and what no value can
//! be. What cannot be becomes a gap and is told.

use std::collections::HashMap;
use std::sync::Arc;

use diskwright_base::{Catalogue, CounterKind, Schema, Series};

use super::names::ColumnTarget;
use crate::batch::FrameBatch;
use crate::plausible::share_fault;

/// Series of one log at most.
const MOST_SERIES: usize = 200_000;
/// No rate, size or share is larger.
const MOST_VALUE: f64 = 1e18;
/// A share of time up to here is one that was measured over a little more than
/// its interval, and is cut at 1; a larger one cannot be.
const MOST_SHARE: f64 = 1.25;
/// Shares of a processor may add up to so much; tools round each of them.
const MOST_SUM: f64 = 1.1;
/// Shares of a processor that add up to less than this are none: it was off,
/// or nothing was counted.
const LEAST_SUM: f64 = 0.01;

/// Shares of a processor that add up to all of its time.
const SHARES: [&str; 9] = ["user", "nice", "system", "privileged", "iowait", "irq", "softirq", "steal", "idle"];

/// A counter as the product of two others of its instance.
const PRODUCTS: [(&str, &str, &str); 4] = [
    ("physical_disk.avg_read_queue_length", "physical_disk.reads_per_s", "physical_disk.avg_s_per_read"),
    ("physical_disk.avg_write_queue_length", "physical_disk.writes_per_s", "physical_disk.avg_s_per_write"),
    ("logical_disk.avg_read_queue_length", "logical_disk.reads_per_s", "logical_disk.avg_s_per_read"),
    ("logical_disk.avg_write_queue_length", "logical_disk.writes_per_s", "logical_disk.avg_s_per_write"),
];

/// A cell that comes from others: their sum or product, each times its scale.
#[derive(Clone, Debug)]
struct RowFormula {
    column: u32,
    parts: Vec<(u32, f64)>,
    is_product: bool,
}

/// What a cell can be, in the log's unit.
#[derive(Clone, Copy, Debug)]
struct ValueRange {
    least: f64,
    most: f64,
    /// A share of time is cut at this.
    cut: f64,
}

/// Holds the columns of a log and the values of a tick.
pub(crate) struct TickRow {
    by_target: HashMap<(String, String), u32>,
    series: Vec<Series>,
    ranges: Vec<ValueRange>,
    schema: Arc<Schema>,
    formulas: Vec<RowFormula>,
    /// Columns that make up a processor's time, idle last, and whether they are shares of it.
    shares: Vec<(Vec<u32>, bool)>,
    is_stale: bool,
    is_full: bool,
    /// The values; `NaN` is a gap.
    pub cells: Vec<f64>,
}

impl TickRow {
    /// Without columns.
    pub fn new() -> TickRow {
        TickRow {
            by_target: HashMap::new(),
            series: Vec::new(),
            ranges: Vec::new(),
            schema: Arc::default(),
            formulas: Vec::new(),
            shares: Vec::new(),
            is_stale: false,
            is_full: false,
            cells: Vec::new(),
        }
    }

    /// The column of a counter; a new one where there was none. `times` brings
    /// its values to the counter's unit. `None` where there are too many, or
    /// where the counter came with another unit.
    pub fn column(&mut self, counter: &str, instance: &str, times: f64) -> Option<u32> {
        let key = (counter.to_owned(), instance.to_owned());
        if let Some(&column) = self.by_target.get(&key) {
            return (self.series[column as usize].scale == times).then_some(column);
        }
        if self.series.len() >= MOST_SERIES {
            self.is_full = true;
            return None;
        }
        let column = self.series.len() as u32;
        self.series.push(Series { counter: key.0.clone(), instance: key.1.clone(), scale: times });
        self.ranges.push(ValueRange::of(counter, times));
        self.by_target.insert(key, column);
        self.cells.push(f64::NAN);
        self.is_stale = true;
        Some(column)
    }

    /// The column of a target.
    pub fn target(&mut self, target: &ColumnTarget) -> Option<u32> {
        self.column(&target.counter, &target.instance, target.times)
    }

    /// A column that is the sum of others of its unit, where the log does not bring it.
    pub fn sum(&mut self, counter: &str, instance: &str, times: f64, parts: &[u32]) {
        if self.find(counter, instance).is_some() {
            return;
        }
        let scales: Vec<(u32, f64)> = parts.iter().map(|&p| (p, self.series[p as usize].scale / times)).collect();
        if let Some(column) = self.column(counter, instance, times) {
            self.formulas.push(RowFormula { column, parts: scales, is_product: false });
        }
    }

    /// A column that is there.
    pub fn find(&self, counter: &str, instance: &str) -> Option<u32> {
        self.by_target.get(&(counter.to_owned(), instance.to_owned())).copied()
    }

    /// The value of a column of the tick that is being filled, in the counter's unit.
    pub fn value(&self, counter: &str, instance: &str) -> Option<f64> {
        let column = self.find(counter, instance)? as usize;
        let value = self.cells[column] * self.series[column].scale;
        (!value.is_nan()).then_some(value)
    }

    /// The counter of a column, and what its cells are multiplied by.
    pub fn unit(&self, column: u32) -> (&str, f64) {
        let series = &self.series[column as usize];
        (&series.counter, series.scale)
    }

    /// True where the tick has no value.
    pub fn is_empty(&self) -> bool {
        self.cells.iter().all(|v| v.is_nan())
    }

    /// Forgets the tick's values.
    pub fn clear(&mut self) {
        self.cells.fill(f64::NAN);
    }

    /// Hands the row over as a tick, and clears it. `at` is the tick's place in
    /// the log, for what is left out.
    pub fn emit(
        &mut self,
        batch: &mut FrameBatch<'_>,
        time_ns: i64,
        elapsed_ns: Option<u64>,
        context: &dyn Fn() -> String,
    ) {
        if self.is_stale {
            self.settle(batch);
        }
        if self.series.is_empty() {
            return;
        }
        self.check(batch, context);
        for formula in &self.formulas {
            if self.cells[formula.column as usize].is_nan() {
                let values = formula.parts.iter().map(|(part, times)| self.cells[*part as usize] * times);
                self.cells[formula.column as usize] = if formula.is_product { values.product() } else { values.sum() };
            }
        }
        batch.tick(&self.schema, time_ns, elapsed_ns, &self.cells);
        self.clear();
    }

    fn check(&mut self, batch: &mut FrameBatch<'_>, context: &dyn Fn() -> String) {
        let outside = |(v, r): (&f64, &ValueRange)| *v < r.least || *v > r.cut;
        if self.cells.iter().zip(&self.ranges).any(outside) {
            self.mend(batch, context);
        }
        for (group, is_share) in &self.shares {
            let has_idle = group.last().is_some_and(|&idle| !self.cells[idle as usize].is_nan());
            let scale = self.series[group[0] as usize].scale;
            let shares = group.iter().map(|&c| self.cells[c as usize] * scale);
            // seconds of a tick are none but where all are 0
            let sum = if *is_share { LEAST_SUM..=MOST_SUM } else { 0.0..=f64::INFINITY };
            let Some(fault) = share_fault(shares, f64::INFINITY, sum).filter(|_| has_idle) else { continue };
            batch.skip(context(), fault.words());
            group.iter().for_each(|&c| self.cells[c as usize] = f64::NAN);
        }
    }

    #[cold]
    fn mend(&mut self, batch: &mut FrameBatch<'_>, context: &dyn Fn() -> String) {
        for ((value, range), series) in self.cells.iter_mut().zip(&self.ranges).zip(&self.series) {
            if *value < range.least || *value > range.most {
                let (counter, instance) = (&series.counter, &series.instance);
                batch.skip(context(), format!("an impossible value: {counter} {instance}").trim_end().to_owned());
                *value = f64::NAN;
            } else if *value > range.cut {
                *value = range.cut;
            }
        }
    }

    /// Makes the schema, with formulas for what the log gives in parts.
    fn settle(&mut self, batch: &mut FrameBatch<'_>) {
        if std::mem::take(&mut self.is_full) {
            batch.skip("later columns", "too many series for one log");
        }
        for index in 0..self.series.len() {
            let one = self.series[index].clone();
            for (made, first, second) in PRODUCTS.into_iter().filter(|(_, first, _)| *first == one.counter) {
                let (Some(a), Some(b)) = (self.find(first, &one.instance), self.find(second, &one.instance)) else {
                    continue;
                };
                if self.find(made, &one.instance).is_none()
                    && let Some(column) = self.column(made, &one.instance, 1.0)
                {
                    let parts = vec![(a, one.scale), (b, self.series[b as usize].scale)];
                    self.formulas.push(RowFormula { column, parts, is_product: true });
                }
            }
        }
        self.shares.clear();
        for (suffix, idle) in [("", "processor.idle"), ("_s", "processor.idle_s")] {
            for one in self.series.iter().filter(|s| s.counter == idle) {
                let of = |name: &str| self.find(&format!("processor.{name}{suffix}"), &one.instance);
                self.shares.push((SHARES.into_iter().filter_map(of).collect(), suffix.is_empty()));
            }
        }
        self.shares.retain(|(group, _)| group.len() > 1);
        self.is_stale = false;
        self.schema = Arc::new(Schema::new(self.series.clone()));
    }
}

impl ValueRange {
    fn of(counter: &str, times: f64) -> ValueRange {
        let most = MOST_VALUE / times;
        match Catalogue::builtin().get(counter) {
            None => ValueRange { least: -most, most, cut: most },
            Some(c) if c.kind == CounterKind::BusyFraction => {
                ValueRange { least: 0.0, most: MOST_SHARE / times, cut: 1.0 / times }
            }
            Some(_) => ValueRange { least: 0.0, most, cut: most },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use super::*;
    use crate::{LogPiece, ReadSummary};

    /// Emits one tick of these cells; what arrived by counter, and the summary.
    fn emitted(cells: &[(&str, &str, f64, f64)]) -> (HashMap<String, f64>, ReadSummary) {
        let mut found = HashMap::new();
        let mut sink = |piece: LogPiece<'_>| {
            if let LogPiece::Frame(frame) = piece {
                for (index, series) in frame.schema().series.iter().enumerate() {
                    found.insert(series.counter.clone(), frame.column(index)[0] * series.scale);
                }
            }
            ControlFlow::Continue(())
        };
        let mut batch = FrameBatch::new("test", &mut sink);
        let mut row = TickRow::new();
        for (counter, instance, times, value) in cells {
            let column = row.column(counter, instance, *times).unwrap() as usize;
            row.cells[column] = *value;
        }
        row.emit(&mut batch, 1, None, &|| "line 1".into());
        let summary = batch.finish("file").unwrap();
        (found, summary)
    }

    #[test]
    fn what_cannot_be_is_a_gap_and_is_told() {
        let (found, summary) = emitted(&[
            ("physical_disk.reads_per_s", "sda", 1.0, -1.0),
            ("physical_disk.busy", "sda", 0.01, 103.0),
            ("physical_disk.idle", "sda", 0.01, 3e9),
            ("foreign.x.y", "", 1.0, -4.0),
        ]);
        assert!(found["physical_disk.reads_per_s"].is_nan() && found["physical_disk.idle"].is_nan());
        assert_eq!((found["physical_disk.busy"], found["foreign.x.y"]), (1.0, -4.0));
        let told: Vec<_> = summary.skipped.iter().map(|s| s.because.as_str()).collect();
        let cannot = "an impossible value: physical_disk.";
        assert_eq!(told, [format!("{cannot}reads_per_s sda"), format!("{cannot}idle sda")]);
    }

    #[test]
    fn shares_that_do_not_add_up_are_gaps() {
        for (user, idle, kept) in [(30.0, 70.0, true), (0.0, 0.0, false), (60.0, 70.0, false), (4.0, 100.0, true)] {
            let (found, summary) =
                emitted(&[("processor.user", "cpu0", 0.01, user), ("processor.idle", "cpu0", 0.01, idle)]);
            assert_eq!(!found["processor.user"].is_nan(), kept, "{user} and {idle}");
            assert_eq!(summary.skipped.is_empty(), kept, "{user} and {idle}");
        }
        // without idle nothing says that they should
        assert_eq!(emitted(&[("processor.user", "_total", 0.01, 0.0)]).0["processor.user"], 0.0);
    }

    #[test]
    fn what_comes_in_parts_is_computed() {
        let (found, _) = emitted(&[
            ("physical_disk.reads_per_s", "sda", 1.0, 50.0),
            ("physical_disk.avg_s_per_read", "sda", 0.001, 20.0),
        ]);
        assert_eq!(found["physical_disk.avg_read_queue_length"], 1.0);
    }

    #[test]
    fn a_counter_has_one_unit() {
        let mut row = TickRow::new();
        let first = row.column("physical_disk.busy", "sda", 0.01);
        assert_eq!(
            (row.column("physical_disk.busy", "sda", 0.01), row.column("physical_disk.busy", "sda", 1.0)),
            (first, None)
        );
        assert!(row.is_empty());
    }
}

//! Row of a tick: columns by counter and instance, and checks for impossible values, which become gaps and are
//! reported.

use std::collections::HashMap;
use std::sync::Arc;

use diskwright_base::counter_ids::{logical_disk, physical_disk, processor};
use diskwright_base::{Catalogue, CounterKind, Schema, Series};

use super::tool_names::ColumnTarget;
use crate::batch::FrameBatch;
use crate::value_limits::find_share_fault;

/// Largest number of series of one log.
const MAX_SERIES: usize = 200_000;
/// Largest possible rate, size or share.
const MAX_VALUE: f64 = 1e18;
/// Largest share of time that may be measured over a little more than its interval, and is cut at 1; a larger one is
/// impossible.
const MAX_SHARE: f64 = 1.25;
/// Largest sum of a processor's shares; tools round each of them.
const MAX_SHARE_SUM: f64 = 1.1;
/// Smallest sum of a processor's shares; below it the processor was off, or nothing was counted.
const MIN_SHARE_SUM: f64 = 0.01;

/// Shares of a processor that add up to all of its time.
const PROCESSOR_SHARES: [&str; 9] =
    ["user", "nice", "system", "privileged", "iowait", "irq", "softirq", "steal", "idle"];

/// Counters that are the product of two others of their instance.
const PRODUCTS: [(&str, &str, &str); 4] = [
    (physical_disk::AVG_READ_QUEUE_LENGTH, physical_disk::READS_PER_S, physical_disk::AVG_S_PER_READ),
    (physical_disk::AVG_WRITE_QUEUE_LENGTH, physical_disk::WRITES_PER_S, physical_disk::AVG_S_PER_WRITE),
    (logical_disk::AVG_READ_QUEUE_LENGTH, logical_disk::READS_PER_S, logical_disk::AVG_S_PER_READ),
    (logical_disk::AVG_WRITE_QUEUE_LENGTH, logical_disk::WRITES_PER_S, logical_disk::AVG_S_PER_WRITE),
];

/// A cell that is computed from others: their sum or product, each multiplied by its scale.
#[derive(Clone, Debug)]
struct RowFormula {
    column: u32,
    parts: Vec<(u32, f64)>,
    is_product: bool,
}

/// Possible values of a cell, in the log's unit.
#[derive(Clone, Copy, Debug)]
struct ValueRange {
    min: f64,
    max: f64,
    /// Larger shares of time are cut at this.
    clamp_to: f64,
}

/// Holds the columns of a log and the values of a tick.
pub(crate) struct TickRow {
    columns_by_target: HashMap<(String, String), u32>,
    series: Vec<Series>,
    ranges: Vec<ValueRange>,
    schema: Arc<Schema>,
    formulas: Vec<RowFormula>,
    /// Columns that make up a processor's time, idle last, and whether they are shares of it.
    shares: Vec<(Vec<u32>, bool)>,
    is_stale: bool,
    has_too_many_series: bool,
    /// Values; `NaN` is a gap.
    pub cells: Vec<f64>,
}

impl TickRow {
    /// Makes a row without columns.
    pub fn new() -> TickRow {
        TickRow {
            columns_by_target: HashMap::new(),
            series: Vec::new(),
            ranges: Vec::new(),
            schema: Arc::default(),
            formulas: Vec::new(),
            shares: Vec::new(),
            is_stale: false,
            has_too_many_series: false,
            cells: Vec::new(),
        }
    }

    /// Returns the column of a counter, which is added if there is none. `scale` is the factor from its values to
    /// the counter's unit. `None` if there are too many series, or if the counter has a column with another unit.
    pub fn find_or_add_column(&mut self, counter: &str, instance: &str, scale: f64) -> Option<u32> {
        let key = (counter.to_owned(), instance.to_owned());
        if let Some(&column) = self.columns_by_target.get(&key) {
            return (self.series[column as usize].scale == scale).then_some(column);
        }
        if self.series.len() >= MAX_SERIES {
            self.has_too_many_series = true;
            return None;
        }
        let column = self.series.len() as u32;
        self.series.push(Series { counter: key.0.clone(), instance: key.1.clone(), scale });
        self.ranges.push(ValueRange::for_counter(counter, scale));
        self.columns_by_target.insert(key, column);
        self.cells.push(f64::NAN);
        self.is_stale = true;
        Some(column)
    }

    /// Returns the column of a target.
    pub fn target_column(&mut self, target: &ColumnTarget) -> Option<u32> {
        self.find_or_add_column(&target.counter, &target.instance, target.scale)
    }

    /// Adds a column that is the sum of others of its unit, if the log does not have it.
    pub fn add_sum_column(&mut self, counter: &str, instance: &str, scale: f64, parts: &[u32]) {
        if self.find_column(counter, instance).is_some() {
            return;
        }
        let scales: Vec<(u32, f64)> = parts.iter().map(|&p| (p, self.series[p as usize].scale / scale)).collect();
        if let Some(column) = self.find_or_add_column(counter, instance, scale) {
            self.formulas.push(RowFormula { column, parts: scales, is_product: false });
        }
    }

    /// Finds an existing column.
    pub fn find_column(&self, counter: &str, instance: &str) -> Option<u32> {
        self.columns_by_target.get(&(counter.to_owned(), instance.to_owned())).copied()
    }

    /// Returns the value of a column of the current tick, in the counter's unit.
    pub fn cell_value(&self, counter: &str, instance: &str) -> Option<f64> {
        let column = self.find_column(counter, instance)? as usize;
        let value = self.cells[column] * self.series[column].scale;
        (!value.is_nan()).then_some(value)
    }

    /// Returns the counter of a column, and the factor from its cells to the counter's unit.
    pub fn counter_unit(&self, column: u32) -> (&str, f64) {
        let series = &self.series[column as usize];
        (&series.counter, series.scale)
    }

    /// Returns true if the tick has no value.
    pub fn is_empty(&self) -> bool {
        self.cells.iter().all(|v| v.is_nan())
    }

    /// Forgets the tick's values.
    pub fn clear(&mut self) {
        self.cells.fill(f64::NAN);
    }

    /// Emits the row as a tick, and clears it. `context` returns the tick's place in the log, for reports.
    pub fn emit_tick(
        &mut self,
        batch: &mut FrameBatch<'_>,
        time_ns: i64,
        elapsed_ns: Option<u64>,
        context: &dyn Fn() -> String,
    ) {
        if self.is_stale {
            self.refresh_schema(batch);
        }
        if self.series.is_empty() {
            return;
        }
        self.check_cells(batch, context);
        for formula in &self.formulas {
            if self.cells[formula.column as usize].is_nan() {
                let values = formula.parts.iter().map(|(part, scale)| self.cells[*part as usize] * scale);
                self.cells[formula.column as usize] = if formula.is_product { values.product() } else { values.sum() };
            }
        }
        batch.push_tick(&self.schema, time_ns, elapsed_ns, &self.cells);
        self.clear();
    }

    fn check_cells(&mut self, batch: &mut FrameBatch<'_>, context: &dyn Fn() -> String) {
        let is_outside = |(v, r): (&f64, &ValueRange)| *v < r.min || *v > r.clamp_to;
        if self.cells.iter().zip(&self.ranges).any(is_outside) {
            self.repair_cells(batch, context);
        }
        for (group, is_share) in &self.shares {
            let has_idle = group.last().is_some_and(|&idle| !self.cells[idle as usize].is_nan());
            let scale = self.series[group[0] as usize].scale;
            let shares = group.iter().map(|&c| self.cells[c as usize] * scale);
            // seconds of a tick are only faulty if all are 0
            let sum = if *is_share { MIN_SHARE_SUM..=MAX_SHARE_SUM } else { 0.0..=f64::INFINITY };
            let Some(fault) = find_share_fault(shares, f64::INFINITY, sum).filter(|_| has_idle) else { continue };
            batch.add_skip(context(), fault.to_reason());
            group.iter().for_each(|&c| self.cells[c as usize] = f64::NAN);
        }
    }

    #[cold]
    fn repair_cells(&mut self, batch: &mut FrameBatch<'_>, context: &dyn Fn() -> String) {
        for ((value, range), series) in self.cells.iter_mut().zip(&self.ranges).zip(&self.series) {
            if *value < range.min || *value > range.max {
                let (counter, instance) = (&series.counter, &series.instance);
                batch.add_skip(context(), format!("an impossible value: {counter} {instance}").trim_end().to_owned());
                *value = f64::NAN;
            } else if *value > range.clamp_to {
                *value = range.clamp_to;
            }
        }
    }

    /// Builds the schema, with formulas for the series that the log gives in parts.
    fn refresh_schema(&mut self, batch: &mut FrameBatch<'_>) {
        if std::mem::take(&mut self.has_too_many_series) {
            batch.add_skip("later columns", "too many series for one log");
        }
        for index in 0..self.series.len() {
            let base = self.series[index].clone();
            for (result, first, second) in PRODUCTS.into_iter().filter(|(_, first, _)| *first == base.counter) {
                let (Some(a), Some(b)) =
                    (self.find_column(first, &base.instance), self.find_column(second, &base.instance))
                else {
                    continue;
                };
                if self.find_column(result, &base.instance).is_none()
                    && let Some(column) = self.find_or_add_column(result, &base.instance, 1.0)
                {
                    let parts = vec![(a, base.scale), (b, self.series[b as usize].scale)];
                    self.formulas.push(RowFormula { column, parts, is_product: true });
                }
            }
        }
        self.shares.clear();
        for (suffix, idle) in [("", processor::IDLE), ("_s", processor::IDLE_S)] {
            for base in self.series.iter().filter(|s| s.counter == idle) {
                let share_column = |name: &str| self.find_column(&format!("processor.{name}{suffix}"), &base.instance);
                self.shares.push((PROCESSOR_SHARES.into_iter().filter_map(share_column).collect(), suffix.is_empty()));
            }
        }
        self.shares.retain(|(group, _)| group.len() > 1);
        self.is_stale = false;
        self.schema = Arc::new(Schema::new(self.series.clone()));
    }
}

impl ValueRange {
    fn for_counter(counter: &str, scale: f64) -> ValueRange {
        let max = MAX_VALUE / scale;
        match Catalogue::builtin().get(counter) {
            None => ValueRange { min: -max, max, clamp_to: max },
            Some(c) if c.kind == CounterKind::BusyFraction => {
                ValueRange { min: 0.0, max: MAX_SHARE / scale, clamp_to: 1.0 / scale }
            }
            Some(_) => ValueRange { min: 0.0, max, clamp_to: max },
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
            let column = row.find_or_add_column(counter, instance, *times).unwrap() as usize;
            row.cells[column] = *value;
        }
        row.emit_tick(&mut batch, 1, None, &|| "line 1".into());
        let summary = batch.finish("file").unwrap();
        (found, summary)
    }

    #[test]
    fn impossible_values_are_gaps_and_reported() {
        let (found, summary) = emitted(&[
            ("physical_disk.reads_per_s", "sda", 1.0, -1.0),
            ("physical_disk.busy", "sda", 0.01, 103.0),
            ("physical_disk.idle", "sda", 0.01, 3e9),
            ("foreign.x.y", "", 1.0, -4.0),
        ]);
        assert!(found["physical_disk.reads_per_s"].is_nan() && found["physical_disk.idle"].is_nan());
        assert_eq!((found["physical_disk.busy"], found["foreign.x.y"]), (1.0, -4.0));
        let reasons: Vec<_> = summary.skipped.iter().map(|s| s.reason.as_str()).collect();
        let cannot = "an impossible value: physical_disk.";
        assert_eq!(reasons, [format!("{cannot}reads_per_s sda"), format!("{cannot}idle sda")]);
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
    fn computes_series_that_come_in_parts() {
        let (found, _) = emitted(&[
            ("physical_disk.reads_per_s", "sda", 1.0, 50.0),
            ("physical_disk.avg_s_per_read", "sda", 0.001, 20.0),
        ]);
        assert_eq!(found["physical_disk.avg_read_queue_length"], 1.0);
    }

    #[test]
    fn a_counter_has_one_unit() {
        let mut row = TickRow::new();
        let first = row.find_or_add_column("physical_disk.busy", "sda", 0.01);
        assert_eq!(
            (
                row.find_or_add_column("physical_disk.busy", "sda", 0.01),
                row.find_or_add_column("physical_disk.busy", "sda", 1.0)
            ),
            (first, None)
        );
        assert!(row.is_empty());
    }
}

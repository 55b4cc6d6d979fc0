//! Computation of a counter's values from stored series. A [`CounterPlan`] determines once per
//! schema which columns a counter of an instance comes from; then it computes
//! the value of every tick, or summarizes a range of ticks as one value with the
//! weights that the counter's kind demands.

mod columnar;

use crate::catalogue::{Catalogue, Counter, CounterKind, Formula, FormulaDivisor};
use crate::frame::{Frame, Schema, Tick};

/// Computation of one counter of one instance from the columns of a schema.
#[derive(Clone, Debug)]
pub struct CounterPlan {
    /// Columns that are added, each with its factor.
    terms: Vec<(usize, f64)>,
    divisor: PlanDivisor,
    complement: bool,
    cap: f64,
    kind: CounterKind,
    /// True if the divisor or weight is a rate: then the weight of a tick also has its length as a factor.
    has_rate_weight: bool,
}

/// Divisor of a plan's terms. A column comes with its factor.
#[derive(Clone, Debug)]
enum PlanDivisor {
    /// The sum is the value of the tick.
    Nothing,
    Time,
    Columns(Vec<(usize, f64)>),
    /// The sum of the columns, times the seconds of the tick (an amount is compared with a limit per second).
    ColumnsAndTime(Vec<(usize, f64)>),
    /// No division: the columns give only the value's weight in a mean.
    Weight(Vec<(usize, f64)>),
}

/// Summary of a range of ticks. Summaries of the same plan are combined with
/// [`CounterSummary::merge_summary`]; splitting a range loses nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CounterSummary {
    /// Weighted sum of the values (or the plain sum, for a total).
    pub numerator: f64,
    /// Sum of the weights: seconds or operations.
    pub denominator: f64,
    /// Ticks that had a value.
    pub ticks: u64,
    /// Smallest value of a tick.
    pub min: Option<f64>,
    /// Largest value of a tick.
    pub max: Option<f64>,
}

impl CounterSummary {
    /// Adds the summary of another range.
    pub fn merge_summary(&mut self, other: &CounterSummary) {
        self.numerator += other.numerator;
        self.denominator += other.denominator;
        self.ticks += other.ticks;
        self.min = combine_options(self.min, other.min, f64::min);
        self.max = combine_options(self.max, other.max, f64::max);
    }
}

fn combine_options(a: Option<f64>, b: Option<f64>, pick: fn(f64, f64) -> f64) -> Option<f64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(pick(a, b)),
        (a, b) => a.or(b),
    }
}

/// Length of a tick, seconds; `NaN` for the first, which covers no known time.
fn tick_seconds(tick: &Tick) -> f64 {
    if tick.elapsed_ns == 0 { f64::NAN } else { tick.elapsed_ns as f64 * 1e-9 }
}

/// Weight of a tick of this many seconds: a tick of unknown length has a value, so it gets a negligible weight.
fn tick_weight(seconds: f64) -> f64 {
    if seconds.is_nan() { 1e-9 } else { seconds }
}

impl CounterPlan {
    /// Finds the columns for a counter of an instance; `None` where the
    /// schema lacks them. Ready-made cells come before formulas.
    pub fn resolve_counter(
        catalogue: &Catalogue,
        schema: &Schema,
        counter: &str,
        instance: &str,
    ) -> Option<CounterPlan> {
        let entry = catalogue.get(counter)?;
        match schema.column(counter, instance) {
            Some(column) => Some(CounterPlan::from_stored_column(catalogue, schema, entry, column, instance)),
            None => entry
                .derive
                .iter()
                .find_map(|formula| CounterPlan::from_formula(catalogue, entry.kind, formula, schema, instance)),
        }
    }

    /// The plan of a series that the catalogue does not know: its cells unchanged, as a level.
    pub fn for_foreign_series(schema: &Schema, counter: &str, instance: &str) -> Option<CounterPlan> {
        let column = schema.column(counter, instance)?;
        Some(CounterPlan {
            terms: vec![(column, schema.series[column].scale)],
            divisor: PlanDivisor::Nothing,
            complement: false,
            cap: f64::INFINITY,
            kind: CounterKind::Level,
            has_rate_weight: false,
        })
    }

    fn from_stored_column(
        catalogue: &Catalogue,
        schema: &Schema,
        entry: &Counter,
        column: usize,
        instance: &str,
    ) -> CounterPlan {
        let weight = match (entry.kind, entry.weight.as_deref()) {
            (CounterKind::AveragePerOperation, Some(weight)) => weight_columns(catalogue, schema, weight, instance),
            _ => None,
        };
        let (divisor, has_rate_weight) = match weight {
            Some((columns, has_rate_weight)) => (PlanDivisor::Weight(columns), has_rate_weight),
            None => (PlanDivisor::Nothing, false),
        };
        CounterPlan {
            terms: vec![(column, schema.series[column].scale)],
            divisor,
            complement: false,
            cap: f64::INFINITY,
            kind: entry.kind,
            has_rate_weight,
        }
    }

    fn from_formula(
        catalogue: &Catalogue,
        kind: CounterKind,
        formula: &Formula,
        schema: &Schema,
        instance: &str,
    ) -> Option<CounterPlan> {
        let mut terms = series_terms(schema, &formula.sum, instance)?;
        terms.extend(formula.optional.iter().filter_map(|id| series_term(schema, id, instance)));
        let minus = series_terms(schema, &formula.minus, instance)?;
        terms.extend(minus.into_iter().map(|(column, scale)| (column, -scale)));
        for (_, scale) in &mut terms {
            *scale *= formula.times;
        }
        let mut has_rate_weight = false;
        let divisor = match &formula.per {
            FormulaDivisor::Nothing => PlanDivisor::Nothing,
            FormulaDivisor::Time(_) => PlanDivisor::Time,
            FormulaDivisor::Counters(ids) => {
                let columns: Vec<_> = ids.iter().filter_map(|id| series_term(schema, id, instance)).collect();
                if columns.is_empty() {
                    return None;
                }
                has_rate_weight =
                    kind == CounterKind::AveragePerOperation && ids.iter().any(|id| is_rate(catalogue, id));
                if formula.per_second { PlanDivisor::ColumnsAndTime(columns) } else { PlanDivisor::Columns(columns) }
            }
        };
        Some(CounterPlan {
            terms,
            divisor,
            complement: formula.complement,
            cap: formula.cap.unwrap_or(f64::INFINITY),
            kind,
            has_rate_weight,
        })
    }

    /// The columns that the plan reads.
    pub fn columns(&self) -> impl Iterator<Item = usize> {
        let divisor: &[(usize, f64)] = match &self.divisor {
            PlanDivisor::Columns(columns) | PlanDivisor::ColumnsAndTime(columns) | PlanDivisor::Weight(columns) => {
                columns
            }
            PlanDivisor::Nothing | PlanDivisor::Time => &[],
        };
        self.terms.iter().chain(divisor).map(|(column, _)| *column)
    }

    /// The counter's kind.
    pub fn kind(&self) -> CounterKind {
        self.kind
    }

    /// Computes the value at every tick of the frame into `out`: `NaN` at a gap,
    /// and for an average where no operation happened.
    pub fn compute_values(&self, frame: &Frame, out: &mut Vec<f64>) {
        out.clear();
        out.resize(frame.ticks().len(), 0.0);
        add_columns(frame, &self.terms, out);
        match &self.divisor {
            PlanDivisor::Nothing | PlanDivisor::Weight(_) => {}
            PlanDivisor::Time => {
                for (value, tick) in out.iter_mut().zip(frame.ticks()) {
                    *value /= tick_seconds(tick);
                }
            }
            PlanDivisor::Columns(columns) | PlanDivisor::ColumnsAndTime(columns) => {
                let divides_by_time = matches!(self.divisor, PlanDivisor::ColumnsAndTime(_));
                for (index, value) in out.iter_mut().enumerate() {
                    let mut divisor: f64 = columns.iter().map(|&(c, scale)| frame.column(c)[index] * scale).sum();
                    if divides_by_time {
                        divisor *= tick_seconds(&frame.ticks()[index]);
                    }
                    *value = if divisor > 0.0 { *value / divisor } else { f64::NAN };
                }
            }
        }
        if self.complement || self.cap.is_finite() {
            for value in out.iter_mut() {
                *value = self.apply_limits(*value);
            }
        }
    }

    /// Returns true if ticks are weighted by time, not by their divisor: ratios of levels (share of memory in use), and
    /// shares of time, because in some ticks the kernel counts more or less processor time than they are long.
    fn is_time_weighted(&self) -> bool {
        matches!(self.kind, CounterKind::Level | CounterKind::BusyFraction)
    }

    /// Limits a tick's numerator to what its value in [`CounterPlan::compute_values`] allows, so that the mean is that
    /// of the values shown tick by tick.
    fn clamp_numerator(&self, numerator: f64, denominator: f64) -> f64 {
        if denominator <= 0.0 || !(self.complement || self.cap.is_finite()) {
            return numerator;
        }
        let value = self.apply_limits(numerator / denominator);
        (if self.complement { 1.0 - value } else { value }) * denominator
    }

    /// Applies complement and cap to a value.
    fn apply_limits(&self, value: f64) -> f64 {
        // comparisons keep a gap (NaN), which f64::min and f64::max would replace
        let value = match 1.0 - value {
            _ if !self.complement => value,
            complement if complement < 0.0 => 0.0,
            complement => complement,
        };
        if value > self.cap { self.cap } else { value }
    }

    /// Summarizes the ticks for which `keep` returns true. It sums the numerators and
    /// denominators of the values, so that averages come out weighted.
    pub fn summarise_ticks(&self, frame: &Frame, keep: impl Fn(usize) -> bool) -> CounterSummary {
        let mut sum = CounterSummary::default();
        for (index, tick) in frame.ticks().iter().enumerate() {
            if !keep(index) {
                continue;
            }
            let sum_cells =
                |columns: &[(usize, f64)]| -> f64 { columns.iter().map(|&(c, s)| frame.column(c)[index] * s).sum() };
            let terms_sum = sum_cells(&self.terms);
            let seconds = tick_seconds(tick);
            let (numerator, denominator, value) = match &self.divisor {
                PlanDivisor::Nothing if self.kind == CounterKind::Total => (terms_sum, 1.0, terms_sum),
                PlanDivisor::Nothing => {
                    let weight = tick_weight(seconds);
                    (terms_sum * weight, weight, terms_sum)
                }
                PlanDivisor::Time => (terms_sum, seconds, terms_sum / seconds),
                PlanDivisor::Columns(columns) => {
                    let operations = sum_cells(columns);
                    let weight = match self.kind {
                        _ if operations <= 0.0 => 0.0,
                        _ if self.is_time_weighted() => tick_weight(seconds) / operations,
                        _ if self.has_rate_weight => seconds,
                        _ => 1.0,
                    };
                    let value = if operations <= 0.0 { f64::NAN } else { terms_sum / operations };
                    (terms_sum * weight, operations * weight, value)
                }
                PlanDivisor::ColumnsAndTime(columns) => {
                    let share = terms_sum / sum_cells(columns);
                    (share, seconds, share / seconds)
                }
                PlanDivisor::Weight(columns) => {
                    let weight = sum_cells(columns) * if self.has_rate_weight { seconds } else { 1.0 };
                    (terms_sum * weight, weight, terms_sum)
                }
            };
            if numerator.is_nan() || denominator.is_nan() {
                continue;
            }
            sum.numerator += self.clamp_numerator(numerator, denominator);
            sum.denominator += denominator;
            sum.ticks += 1;
            if !value.is_nan() {
                let value = Some(self.apply_limits(value));
                sum.min = combine_options(sum.min, value, f64::min);
                sum.max = combine_options(sum.max, value, f64::max);
            }
        }
        sum
    }

    /// The single value of a summary; `None` where nothing was measured.
    pub fn summary_value(&self, sum: &CounterSummary) -> Option<f64> {
        if sum.ticks == 0 || sum.denominator <= 0.0 {
            return None;
        }
        let value = if self.kind == CounterKind::Total { sum.numerator } else { sum.numerator / sum.denominator };
        Some(self.apply_limits(value))
    }
}

fn series_term(schema: &Schema, counter: &str, instance: &str) -> Option<(usize, f64)> {
    let column = schema.column(counter, instance)?;
    Some((column, schema.series[column].scale))
}

fn series_terms(schema: &Schema, counters: &[String], instance: &str) -> Option<Vec<(usize, f64)>> {
    counters.iter().map(|id| series_term(schema, id, instance)).collect()
}

fn is_rate(catalogue: &Catalogue, counter: &str) -> bool {
    catalogue.get(counter).is_some_and(|c| c.kind == CounterKind::Rate)
}

/// Returns the columns that weight an average (the weight itself, or the columns it is
/// computed from), and true if they are rates.
fn weight_columns(
    catalogue: &Catalogue,
    schema: &Schema,
    weight: &str,
    instance: &str,
) -> Option<(Vec<(usize, f64)>, bool)> {
    if let Some(column) = series_term(schema, weight, instance) {
        return Some((vec![column], is_rate(catalogue, weight)));
    }
    // a difference of rates is left out: it is not a sum of columns
    let mut formulas = catalogue.get(weight)?.derive.iter().filter(|formula| formula.minus.is_empty());
    formulas.find_map(|formula| {
        let columns = series_terms(schema, &formula.sum, instance)?;
        Some((columns, formula.sum.iter().any(|id| is_rate(catalogue, id))))
    })
}

fn add_columns(frame: &Frame, columns: &[(usize, f64)], out: &mut [f64]) {
    for &(column, scale) in columns {
        for (value, cell) in out.iter_mut().zip(frame.column(column)) {
            *value += cell * scale;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Series;
    use std::sync::Arc;

    /// Two ticks of 1 s and 3 s: 10 reads of 5 ms, then 90 reads of 1 ms.
    fn frame() -> Frame {
        let series = |counter: &str, scale| Series { counter: counter.into(), instance: "sda".into(), scale };
        let schema = Schema::new(vec![
            series("physical_disk.reads", 1.0),
            series("physical_disk.read_time_s", 1e-3),
            series("physical_disk.weighted_time_s", 1e-3),
        ]);
        let mut frame = Frame::new(Arc::new(schema), 4);
        frame.push(Tick { time_ns: 1, elapsed_ns: 1_000_000_000 }, &[10.0, 50.0, 50.0]);
        frame.push(Tick { time_ns: 4, elapsed_ns: 3_000_000_000 }, &[90.0, 90.0, 90.0]);
        frame
    }

    fn plan(counter: &str) -> CounterPlan {
        CounterPlan::resolve_counter(Catalogue::builtin(), frame().schema(), counter, "sda").unwrap()
    }

    #[test]
    fn averages_are_weighted_by_operations_and_levels_by_time() {
        let mut values = Vec::new();
        let latency = plan("physical_disk.avg_s_per_read");
        latency.compute_values(&frame(), &mut values);
        assert!((values[0] - 0.005).abs() < 1e-12 && (values[1] - 0.001).abs() < 1e-12);
        let sum = latency.summarise_ticks(&frame(), |_| true);
        assert!((latency.summary_value(&sum).unwrap() - 0.0014).abs() < 1e-12);
        let queue = plan("physical_disk.avg_queue_length");
        let sum = queue.summarise_ticks(&frame(), |_| true);
        assert!((queue.summary_value(&sum).unwrap() - 0.14 / 4.0).abs() < 1e-12);
        assert_eq!(sum.max, Some(0.05));
    }

    #[test]
    fn a_gap_is_neither_a_zero_nor_a_part_of_the_mean() {
        let mut frame = frame();
        frame.push(Tick { time_ns: 5, elapsed_ns: 1_000_000_000 }, &[f64::NAN; 3]);
        let queue = plan("physical_disk.avg_queue_length");
        let mut values = Vec::new();
        queue.compute_values(&frame, &mut values);
        assert!(values[2].is_nan());
        assert_eq!(queue.summarise_ticks(&frame, |_| true).ticks, 2);
        assert_eq!(queue.summary_value(&queue.summarise_ticks(&frame, |index| index == 2)), None);
    }

    /// Ticks of 1 s and 3 s of series that have ready-made cells.
    fn ready_made(series: &[(&str, f64, f64)]) -> Frame {
        let of = |s: &(&str, f64, f64)| Series { counter: s.0.into(), instance: "sda".into(), scale: 1.0 };
        let mut frame = Frame::new(Arc::new(Schema::new(series.iter().map(of).collect())), 2);
        let row = |second: bool| series.iter().map(|s| if second { s.2 } else { s.1 }).collect::<Vec<f64>>();
        frame.push(Tick { time_ns: 1, elapsed_ns: 1_000_000_000 }, &row(false));
        frame.push(Tick { time_ns: 4, elapsed_ns: 3_000_000_000 }, &row(true));
        frame
    }

    fn mean(frame: &Frame, counter: &str) -> f64 {
        let plan = CounterPlan::resolve_counter(Catalogue::builtin(), frame.schema(), counter, "sda").unwrap();
        plan.summary_value(&plan.summarise_ticks(frame, |_| true)).unwrap()
    }

    #[test]
    fn a_rate_weights_a_tick_by_its_length_too() {
        let reads = ("physical_disk.reads_per_s", 10.0, 10.0);
        let frame = ready_made(&[("physical_disk.avg_s_per_read", 0.004, 0.008), reads]);
        // 10 reads of 4 ms, 30 reads of 8 ms
        assert!((mean(&frame, "physical_disk.avg_s_per_read") - 0.007).abs() < 1e-12);
        let frame = ready_made(&[("physical_disk.avg_read_queue_length", 0.04, 0.08), reads]);
        assert!((mean(&frame, "physical_disk.avg_s_per_read") - 0.007).abs() < 1e-12);
    }

    #[test]
    fn an_amount_stands_against_a_limit_a_second() {
        let frame = ready_made(&[("cgroup.reads", 50.0, 300.0), ("cgroup.read_limit_per_s", 100.0, 100.0)]);
        let plan = CounterPlan::resolve_counter(Catalogue::builtin(), frame.schema(), "cgroup.read_limit_used", "sda")
            .unwrap();
        let mut values = Vec::new();
        plan.compute_values(&frame, &mut values);
        assert_eq!(values, [0.5, 1.0]);
        assert!((mean(&frame, "cgroup.read_limit_used") - 3.5 / 4.0).abs() < 1e-12);
    }

    #[test]
    fn a_complement_is_never_below_zero_and_keeps_gaps() {
        let frame = ready_made(&[("physical_disk.busy", 1.002, f64::NAN)]);
        let plan =
            CounterPlan::resolve_counter(Catalogue::builtin(), frame.schema(), "physical_disk.idle", "sda").unwrap();
        let mut values = Vec::new();
        plan.compute_values(&frame, &mut values);
        assert_eq!(values[0], 0.0);
        assert!(values[1].is_nan());
    }

    #[test]
    fn a_counter_missing_from_the_schema_is_not_resolved() {
        let frame = frame();
        let missing =
            CounterPlan::resolve_counter(Catalogue::builtin(), frame.schema(), "physical_disk.avg_queue_length", "sdb");
        assert!(missing.is_none());
    }
}

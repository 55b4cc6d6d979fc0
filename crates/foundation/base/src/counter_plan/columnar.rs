//! Evaluation of a plan over a range of ticks: values and weights are computed in flat loops that the compiler
//! vectorizes.

use std::ops::Range;

use super::{CounterPlan, PlanDivisor};
use crate::frame::Frame;

impl CounterPlan {
    /// Computes the value at each tick of `range` and its weight in a mean over
    /// ticks. The weight is `NaN` where there is a gap or the tick's length is
    /// unknown; it is 0, and the value `NaN`, where no operation happened to
    /// average. A total is weighted by its seconds.
    ///
    /// `seconds` has the length of each tick of the range, `NaN` where unknown.
    ///
    /// # Panics
    /// When the slices differ in length from the range, or the range exceeds
    /// the frame.
    pub fn compute_weighted_values(
        &self,
        frame: &Frame,
        range: Range<usize>,
        seconds: &[f64],
        values: &mut [f64],
        weights: &mut [f64],
    ) {
        assert!(range.len() == seconds.len() && range.len() == values.len() && range.len() == weights.len());
        sum_columns(frame, &self.terms, &range, values);
        let has_rate_weight = self.has_rate_weight;
        match &self.divisor {
            PlanDivisor::Nothing => {
                update_pairs(values, weights, seconds, |numerator, _, time| (numerator, time + nan_for_gap(numerator)))
            }
            PlanDivisor::Time => update_pairs(values, weights, seconds, |numerator, _, time| {
                (numerator / time, time + nan_for_gap(numerator))
            }),
            PlanDivisor::Columns(columns) => {
                sum_columns(frame, columns, &range, weights);
                if self.is_time_weighted() {
                    update_pairs(values, weights, seconds, |numerator, divisor, time| {
                        weighted_quotient(numerator, divisor, time, time)
                    });
                } else if has_rate_weight {
                    update_pairs(values, weights, seconds, |numerator, divisor, time| {
                        weighted_quotient(numerator, divisor, divisor * time, time)
                    });
                } else {
                    update_pairs(values, weights, seconds, |numerator, divisor, time| {
                        weighted_quotient(numerator, divisor, divisor, time)
                    });
                }
            }
            PlanDivisor::ColumnsAndTime(columns) => {
                sum_columns(frame, columns, &range, weights);
                update_pairs(values, weights, seconds, |numerator, divisor, time| {
                    weighted_quotient(numerator / time, divisor, time, time)
                });
            }
            PlanDivisor::Weight(columns) => {
                sum_columns(frame, columns, &range, weights);
                update_pairs(values, weights, seconds, |numerator, divisor, time| {
                    let weight = if has_rate_weight { divisor * time } else { divisor };
                    let value = if weight > 0.0 { numerator } else { f64::NAN };
                    (value, weight + nan_for_gap(numerator) + nan_for_gap(time))
                });
            }
        }
        if self.complement || self.cap.is_finite() {
            for value in values {
                *value = self.apply_limits(*value);
            }
        }
    }

    /// Returns the same plan for another schema: column `c` of this plan's schema
    /// is column `columns[c]` there.
    pub fn with_columns_renumbered(mut self, columns: &[usize]) -> CounterPlan {
        let divisor: &mut [(usize, f64)] = match &mut self.divisor {
            PlanDivisor::Columns(terms) | PlanDivisor::ColumnsAndTime(terms) | PlanDivisor::Weight(terms) => terms,
            PlanDivisor::Nothing | PlanDivisor::Time => &mut [],
        };
        for (column, _) in self.terms.iter_mut().chain(divisor) {
            *column = columns[*column];
        }
        self
    }
}

/// 0 for a number and `NaN` for a gap; added to a weight, it marks the weight as a gap too.
#[inline(always)]
fn nan_for_gap(x: f64) -> f64 {
    x * 0.0
}

#[inline(always)]
fn weighted_quotient(numerator: f64, divisor: f64, weight: f64, time: f64) -> (f64, f64) {
    let has_operations = divisor > 0.0;
    let value = if has_operations { numerator / divisor } else { f64::NAN };
    let weight = if has_operations { weight } else { 0.0 };
    (value, weight + nan_for_gap(numerator) + nan_for_gap(divisor) + nan_for_gap(time))
}

#[inline(always)]
fn update_pairs(
    values: &mut [f64],
    weights: &mut [f64],
    seconds: &[f64],
    update: impl Fn(f64, f64, f64) -> (f64, f64),
) {
    for ((value, weight), &time) in values.iter_mut().zip(weights).zip(seconds) {
        (*value, *weight) = update(*value, *weight, time);
    }
}

fn sum_columns(frame: &Frame, columns: &[(usize, f64)], range: &Range<usize>, out: &mut [f64]) {
    let cells = |column: usize| &frame.column(column)[range.clone()];
    match columns {
        [] => out.fill(0.0),
        [(column, scale)] => {
            for (sum, cell) in out.iter_mut().zip(cells(*column)) {
                *sum = cell * scale;
            }
        }
        // the first two in one pass, which also overwrites `out`
        [(a, scale_a), (b, scale_b), later @ ..] => {
            for ((sum, cell_a), cell_b) in out.iter_mut().zip(cells(*a)).zip(cells(*b)) {
                *sum = cell_a * scale_a + cell_b * scale_b;
            }
            for (column, scale) in later {
                for (sum, cell) in out.iter_mut().zip(cells(*column)) {
                    *sum += cell * scale;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::catalogue::Catalogue;
    use crate::frame::{Schema, Series, Tick};

    /// Four ticks: 10 reads of 5 ms in 1 s, 90 of 1 ms in 3 s, none, a gap.
    fn frame() -> Frame {
        let series = |counter: &str, scale| Series { counter: counter.into(), instance: "sda".into(), scale };
        let schema = Schema::new(vec![
            series("physical_disk.reads", 1.0),
            series("physical_disk.writes", 1.0),
            series("physical_disk.read_time_s", 1e-3),
            series("physical_disk.write_time_s", 1e-3),
            series("physical_disk.weighted_time_s", 1e-3),
            series("physical_disk.busy_time_s", 1e-3),
        ]);
        let mut frame = Frame::new(Arc::new(schema), 8);
        let second = 1_000_000_000;
        frame.push(Tick { time_ns: 0, elapsed_ns: 0 }, &[5.0; 6]);
        frame.push(Tick { time_ns: 1, elapsed_ns: second }, &[10.0, 0.0, 50.0, 0.0, 50.0, 50.0]);
        frame.push(Tick { time_ns: 4, elapsed_ns: 3 * second }, &[90.0, 0.0, 90.0, 0.0, 90.0, 90.0]);
        frame.push(Tick { time_ns: 5, elapsed_ns: second }, &[0.0; 6]);
        frame.push(Tick { time_ns: 6, elapsed_ns: second }, &[f64::NAN; 6]);
        frame
    }

    const SECONDS: [f64; 5] = [f64::NAN, 1.0, 3.0, 1.0, 1.0];

    #[test]
    fn weighted_sums_are_those_of_the_summary() {
        let frame = frame();
        for counter in ["avg_s_per_transfer", "avg_queue_length", "busy", "idle", "reads_per_s", "disk_time_nt"] {
            let id = format!("physical_disk.{counter}");
            let plan = CounterPlan::resolve_counter(Catalogue::builtin(), frame.schema(), &id, "sda").unwrap();
            let (mut values, mut weights) = ([9.0; 5], [9.0; 5]);
            plan.compute_weighted_values(&frame, 0..5, &SECONDS, &mut values, &mut weights);
            assert!(weights[0].is_nan() && weights[4].is_nan(), "{counter}: {weights:?}");
            let (mut sum, mut weight) = (0.0, 0.0);
            for (v, w) in values.iter().zip(weights).filter(|(_, w)| *w > 0.0) {
                sum += v * w;
                weight += w;
            }
            let expected = plan.summary_value(&plan.summarise_ticks(&frame, |index| index > 0)).unwrap();
            assert!((sum / weight - expected).abs() < 1e-12, "{counter}: {} is not {expected}", sum / weight);
        }
    }

    #[test]
    fn an_idle_tick_is_not_a_gap() {
        let frame = frame();
        let plan = CounterPlan::resolve_counter(
            Catalogue::builtin(),
            frame.schema(),
            "physical_disk.avg_s_per_transfer",
            "sda",
        );
        let (mut values, mut weights) = ([9.0; 2], [9.0; 2]);
        plan.unwrap().compute_weighted_values(&frame, 2..4, &SECONDS[2..4], &mut values, &mut weights);
        assert!((values[0] - 0.001).abs() < 1e-12 && values[1].is_nan());
        assert_eq!(weights, [90.0, 0.0]);
    }
}

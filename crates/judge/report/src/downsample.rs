//! Downsampling of a log of any length to a fixed number of buckets, in constant
//! memory. Means are weighted as the counter's kind requires: each bucket sums
//! numerators and denominators ([`CounterSummary`]) and divides once.

use std::sync::Arc;

use diskwright_base::catalogue::display_unit;
use diskwright_base::{Catalogue, CounterKind, CounterPlan, CounterSummary, Frame, Schema, Tick};

/// Values of a counter over one time interval of a chart; `NaN` without data.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChartBucket {
    /// Smallest value of a tick.
    pub min: f64,
    /// Mean, weighted by time or operations.
    pub mean: f64,
    /// Largest value of a tick.
    pub max: f64,
    /// Share of the bucket's time that is not covered by ticks with a value.
    pub gap_share: f64,
    /// Weight of the mean in a mean over buckets: seconds or operations.
    pub weight: f64,
}

impl ChartBucket {
    /// A bucket without data.
    pub const GAP: ChartBucket =
        ChartBucket { min: f64::NAN, mean: f64::NAN, max: f64::NAN, gap_share: 1.0, weight: 0.0 };

    /// Makes a bucket of one value, with weight 1; `None` makes a gap.
    pub fn from_value(value: Option<f64>) -> ChartBucket {
        value.map_or(ChartBucket::GAP, |v| ChartBucket { min: v, mean: v, max: v, gap_share: 0.0, weight: 1.0 })
    }

    /// Returns true if there is no value: nothing was recorded, or there was nothing
    /// to average.
    pub fn is_gap(&self) -> bool {
        self.mean.is_nan()
    }

    /// Returns true if there is no value because nothing was recorded.
    pub fn is_unrecorded(&self) -> bool {
        self.is_gap() && self.gap_share > 0.999
    }
}

/// Sums frames into buckets for several counters at once.
pub struct Downsampler {
    catalogue: &'static Catalogue,
    from_ns: i64,
    to_ns: i64,
    count: usize,
    whole_ticks: bool,
    schema: Option<Arc<Schema>>,
    lines: Vec<DownsampleLine>,
    /// Buckets of the current frame's ticks; kept to reuse its memory.
    runs: Vec<TickRun>,
    values: Vec<f64>,
}

/// A followed counter of one instance, with its buckets.
struct DownsampleLine {
    counter: String,
    instance: String,
    plan: Option<CounterPlan>,
    /// Plan of the last schema that had the counter; it divides the sums at the end.
    final_plan: Option<CounterPlan>,
    cells: Vec<DownsampleCell>,
}

#[derive(Clone, Copy, Default)]
struct DownsampleCell {
    sum: CounterSummary,
    covered_ns: f64,
}

/// Consecutive ticks that lie wholly in one bucket, or the part of a single tick
/// that lies in it.
struct TickRun {
    ticks: std::ops::Range<usize>,
    bucket: usize,
    /// Share of the tick that lies in the bucket.
    share: f64,
    covered_ns: f64,
    /// True for so small a part of a tick that its value is ignored for the bucket's
    /// minimum and maximum: ticks are not exact to the microsecond, but buckets are
    /// evenly spaced.
    is_sliver: bool,
}

impl Downsampler {
    /// Prepares `count` buckets over the window from `from_ns` to `to_ns` (nanoseconds
    /// since 1970 UTC) for the wanted counters and instances.
    pub fn new(from_ns: i64, to_ns: i64, count: usize, wanted: &[(String, String)]) -> Downsampler {
        let count = count.max(1);
        let line = |(counter, instance): &(String, String)| DownsampleLine {
            counter: counter.clone(),
            instance: instance.clone(),
            plan: None,
            final_plan: None,
            cells: vec![DownsampleCell::default(); count],
        };
        Downsampler {
            catalogue: Catalogue::builtin(),
            from_ns,
            to_ns: to_ns.max(from_ns + 1),
            count,
            whole_ticks: false,
            schema: None,
            lines: wanted.iter().map(line).collect(),
            runs: Vec::new(),
            values: Vec::new(),
        }
    }

    /// Sets whether the log is read from its beginning. Its first tick began before the window and then counts whole,
    /// so that the means equal those of a verdict.
    pub fn from_beginning(self, whole_ticks: bool) -> Downsampler {
        Downsampler { whole_ticks, ..self }
    }

    /// Adds the frame's ticks. A tick covers the time before its time stamp; one
    /// longer than a bucket is spread over several.
    pub fn push(&mut self, frame: &Frame) {
        self.resolve_plans(frame.schema());
        self.assign_buckets(frame.ticks());
        for line in &mut self.lines {
            let Some(plan) = &line.plan else { continue };
            if plan.kind() == CounterKind::Total {
                plan.compute_values(frame, &mut self.values);
            }
            for run in &self.runs {
                let sum = sum_range(plan, frame, run.ticks.clone(), &self.values);
                let cell = &mut line.cells[run.bucket];
                let (numerator, denominator) = (sum.numerator * run.share, sum.denominator * run.share);
                let mut bucket_sum = CounterSummary { numerator, denominator, ..sum };
                if run.is_sliver {
                    (bucket_sum.min, bucket_sum.max) = (None, None);
                }
                cell.sum.merge_summary(&bucket_sum);
                cell.covered_ns += run.covered_ns * sum.ticks as f64 / run.ticks.len() as f64;
            }
        }
    }

    /// Assigns the ticks to buckets.
    fn assign_buckets(&mut self, ticks: &[Tick]) {
        let mut runs = std::mem::take(&mut self.runs);
        runs.clear();
        for (index, tick) in ticks.iter().enumerate() {
            self.assign_tick(index, tick, &mut runs);
        }
        self.runs = runs;
    }

    /// Assigns one tick to the buckets that it overlaps.
    fn assign_tick(&self, index: usize, tick: &Tick, runs: &mut Vec<TickRun>) {
        let width_ns = self.to_ns.saturating_sub(self.from_ns) as f64 / self.count as f64;
        // whole nanoseconds since 1970 are more than a float has digits for
        let end = tick.time_ns.saturating_sub(self.from_ns) as f64 / width_ns;
        let length = tick.elapsed_ns as f64 / width_ns;
        let length = if self.whole_ticks && end >= 0.0 { length.min(end) } else { length };
        let start = end - length;
        if length == 0.0 {
            // the tick covers no time of the window, but a level still has a value at its time
            if (0.0..=self.count as f64).contains(&end) {
                let bucket = (end as usize).min(self.count - 1);
                runs.push(TickRun { ticks: index..index + 1, bucket, share: 1.0, covered_ns: 0.0, is_sliver: false });
            }
            return;
        }
        let first = start.max(0.0).floor() as usize;
        let last = (end.ceil().max(0.0) as usize).min(self.count);
        for bucket in first..last {
            let inside = end.min(bucket as f64 + 1.0) - start.max(bucket as f64);
            // less than a billionth beyond the edge is rounding, not a second bucket
            let share = if inside > length * (1.0 - 1e-9) { 1.0 } else { inside / length };
            if share < 1e-9 {
                continue;
            }
            let covered_ns = inside * width_ns;
            match runs.last_mut() {
                // whole ticks of one bucket are summed together
                Some(run) if run.bucket == bucket && run.share == 1.0 && share == 1.0 && run.ticks.end == index => {
                    run.ticks.end += 1;
                    run.covered_ns += covered_ns;
                }
                _ => runs.push(TickRun {
                    ticks: index..index + 1,
                    bucket,
                    share,
                    covered_ns,
                    is_sliver: share < 0.1 && inside < 0.1,
                }),
            }
        }
    }

    /// Looks the columns up again if the schema has changed.
    fn resolve_plans(&mut self, schema: &Arc<Schema>) {
        let is_same = self.schema.as_ref().is_some_and(|s| Arc::ptr_eq(s, schema) || s == schema);
        if is_same {
            return;
        }
        for line in &mut self.lines {
            line.plan = CounterPlan::resolve_counter(self.catalogue, schema, &line.counter, &line.instance)
                .or_else(|| CounterPlan::for_foreign_series(schema, &line.counter, &line.instance));
            if line.plan.is_some() {
                line.final_plan = line.plan.clone();
            }
        }
        self.schema = Some(schema.clone());
    }

    /// Returns the buckets of each wanted counter, in the order of `wanted`. Totals
    /// are given per second, so that the width of a bucket does not matter.
    pub fn finish(self) -> Vec<Vec<ChartBucket>> {
        let width_ns = self.to_ns.saturating_sub(self.from_ns) as f64 / self.count as f64;
        let bucket = |plan: &CounterPlan, cell: &DownsampleCell| {
            let sum = &cell.sum;
            let value = match plan.kind() {
                CounterKind::Total => (sum.denominator > 0.0).then(|| sum.numerator / sum.denominator),
                _ => plan.summary_value(sum),
            };
            let gap_share = (1.0 - cell.covered_ns / width_ns).clamp(0.0, 1.0);
            let Some(mean) = value else { return ChartBucket { gap_share, ..ChartBucket::GAP } };
            let (min_value, max_value) = (sum.min.unwrap_or(mean), sum.max.unwrap_or(mean));
            ChartBucket { min: min_value, mean, max: max_value, gap_share, weight: sum.denominator }
        };
        let line = |line: DownsampleLine| match &line.final_plan {
            Some(plan) => line.cells.iter().map(|cell| bucket(plan, cell)).collect(),
            None => vec![ChartBucket::GAP; self.count],
        };
        self.lines.into_iter().map(line).collect()
    }
}

/// Sums a range of ticks as the plan does, except that totals become rates per second.
fn sum_range(plan: &CounterPlan, frame: &Frame, range: std::ops::Range<usize>, values: &[f64]) -> CounterSummary {
    if plan.kind() != CounterKind::Total {
        return plan.summarise_ticks(frame, |index| range.contains(&index));
    }
    let mut sum = CounterSummary::default();
    for index in range {
        let (value, seconds) = (values[index], frame.ticks()[index].elapsed_ns as f64 * 1e-9);
        if value.is_nan() || seconds == 0.0 {
            continue;
        }
        let rate = Some(value / seconds);
        sum.merge_summary(&CounterSummary { numerator: value, denominator: seconds, ticks: 1, min: rate, max: rate });
    }
    sum
}

/// Returns the unit in which screens show a counter's buckets; totals are given per second.
pub fn bucket_unit(catalogue: &Catalogue, counter: &str) -> String {
    match catalogue.get(counter) {
        Some(entry) if entry.kind == CounterKind::Total => match entry.unit.as_str() {
            "count" => "per_s".into(),
            unit => format!("{unit}_per_s"),
        },
        Some(entry) => display_unit(counter, &entry.unit).to_owned(),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use diskwright_base::Series;

    const SECOND_NS: i64 = 1_000_000_000;

    fn sample_schema() -> Arc<Schema> {
        let series = |counter: &str, scale| Series { counter: counter.into(), instance: "sda".into(), scale };
        Arc::new(Schema::new(vec![
            series("physical_disk.reads", 1.0),
            series("physical_disk.read_time_s", 1e-3),
            series("physical_disk.weighted_time_s", 1e-3),
        ]))
    }

    /// Ticks of the given lengths, one after another from 0.
    fn sample_frame(rows: &[(f64, [f64; 3])]) -> Frame {
        let mut frame = Frame::new(sample_schema(), rows.len());
        let mut time_s = 0.0;
        for (length_s, row) in rows {
            time_s += length_s;
            let tick = Tick { time_ns: (time_s * 1e9) as i64, elapsed_ns: (length_s * 1e9) as u64 };
            frame.push(tick, row);
        }
        frame
    }

    fn downsample_frame(frames: &[Frame], to_s: i64, count: usize, counter: &str) -> Vec<ChartBucket> {
        let wanted = [(format!("physical_disk.{counter}"), "sda".to_owned())];
        let mut downsampler = Downsampler::new(0, to_s * SECOND_NS, count, &wanted);
        for frame in frames {
            downsampler.push(frame);
        }
        downsampler.finish().remove(0)
    }

    fn assert_near(value: f64, expected: f64) {
        assert!((value - expected).abs() <= 1e-9 * expected.abs().max(1e-3), "{value} is not {expected}");
    }

    #[test]
    fn averages_are_weighted_by_operations() {
        let rows = [(1.0, [10.0, 50.0, 50.0]), (1.0, [90.0, 90.0, 90.0])];
        let buckets = downsample_frame(&[sample_frame(&rows)], 2, 1, "avg_s_per_read");
        assert_near(buckets[0].mean, 0.0014);
        assert_near(buckets[0].min, 0.001);
        assert_near(buckets[0].max, 0.005);
        assert_near(buckets[0].gap_share, 0.0);
    }

    #[test]
    fn a_long_tick_is_spread_and_nothing_is_counted_twice() {
        // ticks of 1, 4 and 1 seconds over three buckets of 2 seconds
        let rows = [(1.0, [10.0, 0.0, 100.0]), (4.0, [40.0, 0.0, 800.0]), (1.0, [10.0, 0.0, 300.0])];
        let queue = downsample_frame(&[sample_frame(&rows)], 6, 3, "avg_queue_length");
        assert_near(queue[0].mean, 0.15);
        assert_near(queue[1].mean, 0.2);
        assert_near(queue[2].mean, 0.25);
        assert!(queue.iter().all(|b| b.gap_share < 1e-9));
        let reads = downsample_frame(&[sample_frame(&rows)], 6, 3, "reads");
        assert_near(reads.iter().map(|b| b.mean * 2.0).sum(), 60.0);
    }

    #[test]
    fn a_gap_is_kept_as_a_gap() {
        let gap = [f64::NAN; 3];
        let rows = [(1.0, [1.0; 3]), (1.0, gap), (1.0, gap), (1.0, gap), (1.0, [5.0; 3])];
        let buckets = downsample_frame(&[sample_frame(&rows)], 6, 3, "reads");
        assert_near(buckets[0].mean, 1.0);
        assert_near(buckets[0].gap_share, 0.5);
        assert!(buckets[1].is_gap());
        assert_near(buckets[1].gap_share, 1.0);
        assert_near(buckets[2].mean, 5.0);
        assert_near(buckets[2].gap_share, 0.5); // the log ends a second early
    }

    #[test]
    fn ticks_without_operations_are_not_unrecorded() {
        let rows = [(1.0, [10.0, 50.0, 50.0]), (1.0, [0.0; 3]), (1.0, [f64::NAN; 3])];
        let buckets = downsample_frame(&[sample_frame(&rows)], 3, 3, "avg_s_per_read");
        assert!(!buckets[0].is_gap());
        assert!(buckets[1].is_gap() && !buckets[1].is_unrecorded());
        assert!(buckets[2].is_unrecorded());
    }

    #[test]
    fn frames_may_be_cut_anywhere() {
        let rows: Vec<(f64, [f64; 3])> = (0..100)
            .map(|i| (0.7 + f64::from(i % 5) * 0.1, [f64::from(i), f64::from(i * 2), f64::from(i * i)]))
            .collect();
        let uncut = sample_frame(&rows);
        let pieces: Vec<Frame> = [0..13, 13..14, 14..77, 77..100]
            .into_iter()
            .map(|range| {
                let mut piece = uncut.clone();
                piece.keep_ticks(range);
                piece
            })
            .collect();
        for counter in ["reads", "avg_queue_length", "avg_s_per_read"] {
            let (one, many) = (
                downsample_frame(std::slice::from_ref(&uncut), 85, 7, counter),
                downsample_frame(&pieces, 85, 7, counter),
            );
            for (a, b) in one.iter().zip(&many) {
                assert_near(a.mean, b.mean);
                assert_eq!((a.min, a.max), (b.min, b.max));
            }
        }
    }

    #[test]
    fn ticks_outside_the_window_do_not_count_and_unknown_counters_are_gaps() {
        let rows = [(1.0, [1.0; 3]), (1.0, [2.0; 3]), (1.0, [9.0; 3])];
        let wanted = [("physical_disk.reads".into(), "sda".into()), ("physical_disk.reads".into(), "sdz".into())];
        let mut downsampler = Downsampler::new(SECOND_NS, 2 * SECOND_NS, 1, &wanted);
        downsampler.push(&sample_frame(&rows));
        let lines = downsampler.finish();
        assert_near(lines[0][0].mean, 2.0);
        assert!(lines[1][0].is_gap());
    }

    #[test]
    fn first_tick_counts_whole_when_read_from_the_beginning() {
        // the first tick ends where the window begins, or within it
        let rows = [(1.0, [10.0; 3]), (2.0, [40.0; 3]), (1.0, [10.0; 3])];
        let wanted = [("physical_disk.reads".into(), "sda".into())];
        for (from_s, expected) in [(1.0, 15.0), (2.0, 50.0 / 3.0)] {
            let from_ns = (from_s * 1e9) as i64;
            let mut downsampler = Downsampler::new(from_ns, 4 * SECOND_NS, 3, &wanted).from_beginning(true);
            let mut read = sample_frame(&rows);
            let first = read.ticks().iter().position(|t| t.time_ns >= from_ns).expect("inside");
            read.keep_ticks(first..3);
            downsampler.push(&read);
            let line = crate::ChartLine { instance: "sda".into(), buckets: downsampler.finish().remove(0) };
            assert_near(line.summary().expect("measured").1, expected);
        }
    }

    #[test]
    fn totals_are_given_per_second() {
        let catalogue = Catalogue::builtin();
        assert_eq!(bucket_unit(catalogue, "physical_disk.reads"), "per_s");
        assert_eq!(bucket_unit(catalogue, "physical_disk.avg_queue_length"), "requests");
    }
}

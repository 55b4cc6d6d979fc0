//! Percentiles, tails and modes of recorded latency distributions as ordinary columns of each device, for rules,
//! charts and comparisons, in place of the hundreds of step columns.
//!
//! The figures at a tick cover the minute before it, because a tick of a slow disk has too few requests for any
//! percentile. Reads, synchronous writes and flushes are separate classes; no thread waits for the other requests.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use crate::frame::{Frame, Schema, Series};
use crate::latency::{BUCKET_COUNT, LatencyHistogram};
use crate::latency_series::{
    LatencyColumns, LatencyGroup, LatencyOperation, histogram_from_steps, is_latency_step, step_middle_ns,
};

/// Time that percentiles cover.
const MINUTE_NS: u64 = 60_000_000_000;
/// Multiple of the median from which a request belongs to the tail. Garbage collection, retries and stalls take
/// 10 to 1,000 times a usual request (Dean and Barroso, *The Tail at Scale*, CACM 56, 2013, section 1).
const TAIL_RATIO: f64 = 10.0;
/// Fewest requests from which tails and modes are reported.
const MIN_REQUESTS: u64 = 100;
/// Fewest requests of a tail.
const MIN_TAIL_REQUESTS: u64 = 5;
/// Fewest requests in the bin that is the peak of a mode.
const MIN_MODE_PEAK: u64 = 10;
/// Smallest share of all requests that is a mode.
const MIN_MODE_SHARE: f64 = 0.05;
/// Steps in a bin of the search for modes: a quarter of a doubling.
const BIN_STEPS: usize = 4;
/// Fewest bins between the peaks of two modes: two doublings.
const MIN_MODE_DISTANCE_BINS: usize = 8;
/// Largest number of requests in the valley between two modes, as a share of those in the second peak.
const MAX_VALLEY_SHARE: f64 = 0.1;

/// Counters made for each class of requests, after the class name.
const FIGURES: [&str; 6] =
    ["latency_p50_s", "latency_p99_s", "latency_longest_s", "tail_time_share", "tail_mean_s", "mode_ratio"];
/// The classes and their operations.
const CLASSES: [(&str, &[LatencyOperation]); 3] = [
    ("read", &[LatencyOperation::Read]),
    ("sync_write", &[LatencyOperation::SyncWrite]),
    ("flush", &[LatencyOperation::Flush]),
];

/// Ids of the counters that a view makes.
pub fn counter_ids() -> impl Iterator<Item = String> {
    CLASSES.iter().flat_map(|(class, _)| FIGURES.iter().map(move |figure| format!("physical_disk.{class}_{figure}")))
}

/// Requests of one class on one device over the last minute.
struct MinuteWindow {
    ticks: VecDeque<(u64, Vec<(usize, u64)>)>,
    elapsed_ns: u64,
    counts: Vec<u64>,
    count: u64,
}

impl MinuteWindow {
    fn new() -> MinuteWindow {
        MinuteWindow { ticks: VecDeque::new(), elapsed_ns: 0, counts: vec![0; BUCKET_COUNT], count: 0 }
    }

    fn push(&mut self, elapsed_ns: u64, steps: Vec<(usize, u64)>) {
        for (step, count) in &steps {
            self.counts[*step] += count;
            self.count += count;
        }
        self.ticks.push_back((elapsed_ns, steps));
        self.elapsed_ns += elapsed_ns;
        // the newest tick stays, however long it is
        while self.ticks.len() > 1 && self.elapsed_ns > MINUTE_NS {
            let Some((elapsed_ns, steps)) = self.ticks.pop_front() else { break };
            self.elapsed_ns -= elapsed_ns;
            for (step, count) in steps {
                self.counts[step] -= count;
                self.count -= count;
            }
        }
    }

    /// Figures in the order of [`FIGURES`]; `NaN` where there are too few requests.
    fn compute_figures(&self) -> [f64; FIGURES.len()] {
        if self.count == 0 {
            return [f64::NAN; FIGURES.len()];
        }
        let steps: Vec<(usize, u64)> = self.counts.iter().copied().enumerate().filter(|(_, n)| *n > 0).collect();
        let histogram = histogram_from_steps(&steps);
        let seconds = |ns: Option<f64>| ns.map_or(f64::NAN, |ns| ns / 1e9);
        let tail = latency_tail(&histogram);
        [
            seconds(histogram.percentile_ns(0.5)),
            seconds(histogram.percentile_ns(0.99)),
            seconds(histogram.longest_ns().map(|ns| ns as f64)),
            tail.map_or(f64::NAN, |tail| tail.time_share),
            seconds(tail.and_then(|tail| tail.mean_ns)),
            mode_ratio(&self.counts, self.count).unwrap_or(f64::NAN),
        ]
    }
}

/// Requests that took ten times the median and more.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LatencyTail {
    /// Their share of the total time of all requests; 0 where they are too few to be a tail.
    pub time_share: f64,
    /// Their mean latency, nanoseconds.
    pub mean_ns: Option<f64>,
}

/// Returns the tail of a distribution; `None` for fewer than 100 requests.
pub fn latency_tail(histogram: &LatencyHistogram) -> Option<LatencyTail> {
    let median = histogram.percentile_ns(0.5).filter(|_| histogram.count() >= MIN_REQUESTS)?;
    let (mut slow, mut slow_ns, mut all_ns) = (0, 0.0, 0.0);
    for (step, count) in histogram.nonempty_buckets() {
        let ns = step_middle_ns(step) * count as f64;
        all_ns += ns;
        if step_middle_ns(step) >= TAIL_RATIO * median {
            slow += count;
            slow_ns += ns;
        }
    }
    if slow < MIN_TAIL_REQUESTS {
        return Some(LatencyTail { time_share: 0.0, mean_ns: None });
    }
    Some(LatencyTail { time_share: slow_ns / all_ns, mean_ns: Some(slow_ns / slow as f64) })
}

/// Latency ratio of the slower to the faster of two groups of requests: 1 where there is one group. Two
/// groups have peaks at least two doublings apart with a valley between, and at least a twentieth of the requests each.
/// `None` for fewer than 100 requests.
fn mode_ratio(counts: &[u64], total_count: u64) -> Option<f64> {
    if total_count < MIN_REQUESTS {
        return None;
    }
    let bins: Vec<u64> = counts.chunks(BIN_STEPS).map(|steps| steps.iter().sum()).collect();
    let highest_bin = |range: std::ops::Range<usize>| range.max_by_key(|bin| bins[*bin]).filter(|bin| bins[*bin] > 0);
    let peak = highest_bin(0..bins.len())?;
    let above = highest_bin((peak + MIN_MODE_DISTANCE_BINS).min(bins.len())..bins.len());
    let below = highest_bin(0..(peak + 1).saturating_sub(MIN_MODE_DISTANCE_BINS));
    // both peaks, if the second one is that of a mode
    let mode_pair = |second: usize| {
        let (low, high) = (peak.min(second), peak.max(second));
        let valley = (low + 1..high).min_by_key(|bin| bins[*bin])?;
        let group: u64 = if second > peak { bins[valley..].iter().sum() } else { bins[..valley].iter().sum() };
        // with few requests some bins are empty by chance
        let is_peak = bins[second] >= MIN_MODE_PEAK && bins[valley] as f64 <= MAX_VALLEY_SHARE * bins[second] as f64;
        (is_peak && group as f64 >= MIN_MODE_SHARE * total_count as f64).then_some((low, high))
    };
    let ratio = |(low, high): (usize, usize)| step_middle_ns(high * BIN_STEPS) / step_middle_ns(low * BIN_STEPS);
    let ratios = [above, below].into_iter().flatten().filter_map(mode_pair).map(ratio);
    Some(ratios.fold(1.0, f64::max))
}

/// Converts frames with steps to frames with percentiles. State is carried from frame to frame.
#[derive(Default)]
pub struct LatencyView {
    source: Option<Arc<Schema>>,
    columns: LatencyColumns,
    /// Source columns that are copied.
    kept_columns: Vec<usize>,
    /// Device and class of each set of figures.
    figure_keys: Vec<(String, usize)>,
    schema: Arc<Schema>,
    windows: HashMap<(String, usize), MinuteWindow>,
    without_figures: bool,
}

impl LatencyView {
    /// Creates a view that only drops the step columns, for readers that use none of the figures.
    pub fn without_figures() -> LatencyView {
        LatencyView { without_figures: true, ..LatencyView::default() }
    }

    /// Returns the frame with figures in place of steps; `None` where it has no distributions and can be used as is.
    pub fn view_frame(&mut self, frame: &Frame) -> Option<Frame> {
        if !self.source.as_ref().is_some_and(|known| Arc::ptr_eq(known, frame.schema())) {
            self.prepare_schema(frame.schema());
        }
        if self.columns.groups.is_empty() {
            self.windows.clear();
            return None;
        }
        let mut out = Frame::new(Arc::clone(&self.schema), frame.ticks().len());
        out.set_ticks(frame.ticks());
        for (column, source_column) in self.kept_columns.iter().enumerate() {
            out.column_mut(column).copy_from_slice(frame.column(*source_column));
        }
        for (key_index, key) in self.figure_keys.iter().enumerate() {
            let groups: Vec<&LatencyGroup> = self.columns.groups.iter().filter(|g| is_in_class(g, key)).collect();
            let window = self.windows.entry(key.clone()).or_insert_with(MinuteWindow::new);
            let first_column = self.kept_columns.len() + key_index * FIGURES.len();
            for (index, tick) in frame.ticks().iter().enumerate() {
                let has_value =
                    groups.iter().any(|g| g.columns.iter().any(|(column, _)| !frame.column(*column)[index].is_nan()));
                let steps = groups.iter().flat_map(|g| g.sum_steps(frame, index..index + 1)).collect();
                window.push(tick.elapsed_ns, steps);
                let figures = if has_value { window.compute_figures() } else { [f64::NAN; FIGURES.len()] };
                for (figure, value) in figures.into_iter().enumerate() {
                    out.column_mut(first_column + figure)[index] = value;
                }
            }
        }
        Some(out)
    }

    fn prepare_schema(&mut self, schema: &Arc<Schema>) {
        self.source = Some(Arc::clone(schema));
        self.columns = LatencyColumns::from_schema(schema);
        let is_kept = |column: &usize| !is_latency_step(&schema.series[*column].counter);
        self.kept_columns = (0..schema.series.len()).filter(is_kept).collect();
        self.figure_keys.clear();
        let groups_with_figures = if self.without_figures { [].as_slice() } else { &self.columns.groups };
        for group in groups_with_figures {
            let class = CLASSES.iter().position(|(_, operations)| operations.contains(&group.operation));
            let key = class.map(|class| (group.device.clone(), class));
            self.figure_keys.extend(key.filter(|key| !self.figure_keys.contains(key)));
        }
        self.windows.retain(|key, _| self.figure_keys.contains(key));
        let mut series: Vec<Series> = self.kept_columns.iter().map(|column| schema.series[*column].clone()).collect();
        for (device, class) in &self.figure_keys {
            series.extend(FIGURES.iter().map(|figure| Series {
                counter: format!("physical_disk.{}_{figure}", CLASSES[*class].0),
                instance: device.clone(),
                scale: 1.0,
            }));
        }
        // steps come and go with every block: an unchanged schema spares readers a new lookup of columns
        if self.schema.series != series {
            self.schema = Arc::new(Schema::new(series));
        }
    }
}

fn is_in_class(group: &LatencyGroup, (device, class): &(String, usize)) -> bool {
    group.device == *device && CLASSES[*class].1.contains(&group.operation)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::Catalogue;
    use crate::frame::Tick;
    use crate::latency::bucket_index;
    use crate::latency_series::LatencyTable;

    const MS: u64 = 1_000_000;

    fn histogram(values: impl Iterator<Item = u64>) -> LatencyHistogram {
        let mut histogram = LatencyHistogram::default();
        values.for_each(|ns| histogram.record(ns));
        histogram
    }

    fn ratio_of(values: impl Iterator<Item = u64>) -> Option<f64> {
        let all = histogram(values);
        let mut counts = vec![0; BUCKET_COUNT];
        all.nonempty_buckets().for_each(|(step, count)| counts[step] = count);
        mode_ratio(&counts, all.count())
    }

    /// A frame of one tick with a request in one step, and a plain counter.
    fn with_step(ns: u64) -> Frame {
        let (mut table, mut series, mut cells) = (LatencyTable::default(), vec![], vec![]);
        table.add_requests("sda", LatencyOperation::Read, [(bucket_index(ns), 1)].into_iter());
        table.append_series(&mut series);
        series.push(Series { counter: "physical_disk.reads".into(), instance: "sda".into(), scale: 1.0 });
        table.drain_cells(&mut cells);
        cells.push(7.0);
        let mut frame = Frame::new(Arc::new(Schema::new(series)), 1);
        frame.push(Tick { time_ns: 1, elapsed_ns: 1_000_000_000 }, &cells);
        frame
    }

    #[test]
    fn a_view_without_figures_keeps_the_other_columns_in_one_schema() {
        let mut view = LatencyView::without_figures();
        let seen = [MS, 40 * MS].map(|ns| view.view_frame(&with_step(ns)).expect("distributions"));
        assert!(Arc::ptr_eq(seen[0].schema(), seen[1].schema()));
        assert_eq!(seen[1].schema().series.len(), 1);
        assert_eq!((seen[0].column(0), seen[1].column(0)), (&[7.0][..], &[7.0][..]));
        // with figures too, who reads on sees no new columns
        let mut view = LatencyView::default();
        let seen = [MS, 40 * MS].map(|ns| view.view_frame(&with_step(ns)).expect("distributions"));
        assert!(Arc::ptr_eq(seen[0].schema(), seen[1].schema()));
    }

    #[test]
    fn every_figure_is_in_the_catalogue() {
        counter_ids().for_each(|id| assert!(Catalogue::builtin().get(&id).is_some(), "{id}"));
    }

    /// One in 200 takes 500 ms, the others 4 ms: 0.5 * 500 of 0.5 * 500 + 99.5 * 4 is 38.6 % of the time.
    #[test]
    fn a_tail_is_measured_by_its_share_of_time() {
        let found = latency_tail(&histogram((0..2000).map(|n| if n % 200 == 0 { 500 * MS } else { 4 * MS }))).unwrap();
        assert!((found.time_share - 0.386).abs() < 0.02, "{found:?}");
        assert!((found.mean_ns.unwrap() / 5e8 - 1.0).abs() < 0.032);
        // nine times the median is no tail, and neither are four requests
        let none = LatencyTail { time_share: 0.0, mean_ns: None };
        assert_eq!(
            latency_tail(&histogram((0..2000).map(|n| if n % 200 == 0 { 36 * MS } else { 4 * MS }))),
            Some(none)
        );
        assert_eq!(
            latency_tail(&histogram((0..2000).map(|n| if n % 500 == 0 { 500 * MS } else { 4 * MS }))),
            Some(none)
        );
        assert_eq!(latency_tail(&histogram((0..99).map(|_| MS))), None);
    }

    #[test]
    fn two_modes_are_distinguished_from_one_wide_mode() {
        let two = ratio_of((0..1000).map(|n| if n % 10 == 0 { 12 * MS + n * 1000 } else { MS + n * 500 })).unwrap();
        assert!((6.0..14.0).contains(&two), "{two}");
        // even over three doublings, with no valley
        assert_eq!(ratio_of((0..4000).map(|n| MS + n * 2000)), Some(1.0));
        // too near, too few, too rare
        assert_eq!(ratio_of((0..1000).map(|n| if n % 2 == 0 { MS } else { 3 * MS })), Some(1.0));
        assert_eq!(ratio_of((0..1000).map(|n| if n % 25 == 0 { 50 * MS } else { MS })), Some(1.0));
        // a twentieth, spread so thin that it has no peak
        assert_eq!(ratio_of((0..400).map(|n| if n % 20 == 0 { (20 + 9 * n) * MS } else { MS })), Some(1.0));
        assert_eq!(ratio_of((0..99).map(|n| if n % 2 == 0 { MS } else { 50 * MS })), None);
    }

    /// 80 ms lie in the step from 79.7 to 83.9. Ticks of 10 s: the minute forgets the slow ones when they are six
    /// ticks old.
    #[test]
    fn figures_cover_the_last_minute_and_replace_the_steps() {
        let (mut view, mut table) = (LatencyView::default(), LatencyTable::default());
        let mut medians = Vec::new();
        for tick in 0..10u64 {
            let ns = if tick < 2 { 80 * MS } else { MS };
            table.add_requests(
                "sda",
                LatencyOperation::SyncWrite,
                [(bucket_index(ns), if tick < 2 { 900 } else { 100 })].into_iter(),
            );
            let (mut series, mut cells) = (vec![], vec![]);
            table.append_series(&mut series);
            series.push(Series { counter: "physical_disk.reads".into(), instance: "sda".into(), scale: 1.0 });
            table.drain_cells(&mut cells);
            cells.push(7.0);
            let mut frame = Frame::new(Arc::new(Schema::new(series)), 1);
            frame.push(Tick { time_ns: tick as i64 * 10_000_000_000, elapsed_ns: 10_000_000_000 }, &cells);
            let seen = view.view_frame(&frame).expect("distributions");
            assert!(seen.schema().series.iter().all(|s| !is_latency_step(&s.counter)));
            let value = |counter: &str| seen.column(seen.schema().column(counter, "sda").unwrap())[0];
            assert_eq!(value("physical_disk.reads"), 7.0);
            medians.push((value("physical_disk.sync_write_latency_p50_s") * 1000.0).round());
        }
        assert_eq!(medians, [82.0, 82.0, 82.0, 82.0, 82.0, 82.0, 82.0, 1.0, 1.0, 1.0]);
        let plain = Frame::new(Arc::new(Schema::new(vec![])), 1);
        assert!(view.view_frame(&plain).is_none());
    }
}

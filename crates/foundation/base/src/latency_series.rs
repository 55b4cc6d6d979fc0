//! Distributions of latency as series of a frame: one series per device, operation and step.
//!
//! A cell is the number of requests that ended in the tick with a latency of that step, so that
//! distributions of any stretch of time, or of several devices, are sums of cells. The counter is the
//! operation (`request_latency.reads`), and the instance is the device and the lower edge of the step in
//! nanoseconds (`sda@1088`). A doubling (16 steps) has series from the first request that falls into it
//! until none did for ten minutes of ticks; a device without requests has none.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::counter_ids::request_latency;
use crate::frame::{Frame, Schema, Series};
use crate::latency::{BUCKET_BITS, BUCKET_COUNT, LatencyHistogram, bucket_edges, bucket_index};

/// Kind of request whose latency is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LatencyOperation {
    /// Data from the device.
    Read,
    /// Data to the device that no thread waits for.
    Write,
    /// Data to the device that a thread waits for.
    SyncWrite,
    /// Flush of the device's write cache.
    Flush,
    /// Discard (trim) of a range.
    Discard,
}

impl LatencyOperation {
    /// All operations, in the order of their discriminants.
    pub const ALL: [LatencyOperation; 5] = [
        LatencyOperation::Read,
        LatencyOperation::Write,
        LatencyOperation::SyncWrite,
        LatencyOperation::Flush,
        LatencyOperation::Discard,
    ];

    /// Id of the counter that holds its requests.
    pub fn counter_id(self) -> &'static str {
        match self {
            LatencyOperation::Read => request_latency::READS,
            LatencyOperation::Write => request_latency::WRITES,
            LatencyOperation::SyncWrite => request_latency::SYNC_WRITES,
            LatencyOperation::Flush => request_latency::FLUSHES,
            LatencyOperation::Discard => request_latency::DISCARDS,
        }
    }

    /// Name in JSON and in labels.
    pub fn name(self) -> &'static str {
        match self {
            LatencyOperation::Read => "read",
            LatencyOperation::Write => "write",
            LatencyOperation::SyncWrite => "sync_write",
            LatencyOperation::Flush => "flush",
            LatencyOperation::Discard => "discard",
        }
    }

    /// Name on the screen.
    pub fn title(self) -> &'static str {
        match self {
            LatencyOperation::SyncWrite => "sync write",
            operation => operation.name(),
        }
    }
}

/// Returns true for the counters of single latency steps.
pub fn is_latency_step(counter: &str) -> bool {
    counter.starts_with("request_latency.")
}

/// Returns operation, device and step of a latency series; `None` for any other series.
pub fn parse_step_series(series: &Series) -> Option<(LatencyOperation, &str, usize)> {
    let operation = LatencyOperation::ALL.into_iter().find(|o| o.counter_id() == series.counter)?;
    let (device, edge) = series.instance.rsplit_once('@')?;
    let edge: u64 = edge.parse().ok()?;
    let step = bucket_index(edge);
    (bucket_edges(step).0 == edge).then_some((operation, device, step))
}

/// The columns of one operation on one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LatencyGroup {
    /// The device.
    pub device: String,
    /// The operation.
    pub operation: LatencyOperation,
    /// Column and step.
    pub columns: Vec<(usize, usize)>,
}

/// The latency columns of a schema, grouped into distributions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LatencyColumns {
    /// By device and operation.
    pub groups: Vec<LatencyGroup>,
}

impl LatencyColumns {
    /// Finds the distributions of a schema.
    pub fn from_schema(schema: &Schema) -> LatencyColumns {
        let mut groups: BTreeMap<(&str, LatencyOperation), Vec<(usize, usize)>> = BTreeMap::new();
        for (column, series) in schema.series.iter().enumerate() {
            if let Some((operation, device, step)) = parse_step_series(series) {
                groups.entry((device, operation)).or_default().push((column, step));
            }
        }
        let group = |((device, operation), columns): ((&str, LatencyOperation), _)| LatencyGroup {
            device: device.to_owned(),
            operation,
            columns,
        };
        LatencyColumns { groups: groups.into_iter().map(group).collect() }
    }
}

impl LatencyGroup {
    /// Sums each step over these ticks and returns the nonzero ones as (step, count). A gap adds nothing.
    pub fn sum_steps(&self, frame: &Frame, range: Range<usize>) -> Vec<(usize, u64)> {
        let sum_cells =
            |column: usize| frame.column(column)[range.clone()].iter().filter(|cell| **cell > 0.0).sum::<f64>();
        let counted = self.columns.iter().map(|&(column, step)| (step, sum_cells(column) as u64));
        counted.filter(|(_, count)| *count > 0).collect()
    }

    /// Distribution over these ticks; its mean is that of the steps' middles, and the longest is the upper edge of
    /// the highest step.
    pub fn histogram(&self, frame: &Frame, range: Range<usize>) -> LatencyHistogram {
        histogram_from_steps(&self.sum_steps(frame, range))
    }
}

/// Builds a distribution of which only the step counts are known.
pub fn histogram_from_steps(steps: &[(usize, u64)]) -> LatencyHistogram {
    let sum = steps.iter().map(|(step, count)| step_middle_ns(*step) * *count as f64).sum::<f64>();
    let longest = steps.iter().map(|(step, _)| *step).max().map_or(0, |step| bucket_edges(step).1.saturating_sub(1));
    let mut histogram = LatencyHistogram::default();
    histogram.add_buckets(steps.iter().copied(), sum as u64, longest);
    histogram
}

/// Middle of a step, nanoseconds; the last step is unbounded and counts with its lower edge.
pub fn step_middle_ns(step: usize) -> f64 {
    let (from, to) = bucket_edges(step);
    if step >= BUCKET_COUNT - 1 { from as f64 } else { (from + to) as f64 / 2.0 }
}

/// Number of doublings, with one for shorter and one for longer latencies.
const DOUBLING_COUNT: usize = ((BUCKET_COUNT - 2) >> BUCKET_BITS) + 2;
/// Ticks without a request after which a doubling may be dropped.
const IDLE_TICKS: u32 = 600;

/// Doubling that a step is in: the first step and the last have one of their own.
fn doubling_of_step(step: usize) -> usize {
    debug_assert!(step < BUCKET_COUNT, "step {step} of {BUCKET_COUNT}");
    if step == 0 { 0 } else { ((step - 1) >> BUCKET_BITS) + 1 }
}

#[derive(Debug)]
struct LatencyRow {
    counts: Vec<u64>,
    /// Ticks since a request fell into each shown doubling; `None` for a doubling that has no series.
    idle: [Option<u32>; DOUBLING_COUNT],
}

/// Collects the latency counts of the current tick and the series that hold them.
#[derive(Debug, Default)]
pub struct LatencyTable {
    rows: BTreeMap<(String, LatencyOperation), LatencyRow>,
    changed: bool,
}

impl LatencyTable {
    /// Adds requests to the current tick.
    pub fn add_requests(
        &mut self,
        device: &str,
        operation: LatencyOperation,
        steps: impl Iterator<Item = (usize, u64)>,
    ) {
        let mut steps = steps.filter(|(_, count)| *count > 0).peekable();
        if steps.peek().is_none() {
            return;
        }
        let new_row = || LatencyRow { counts: vec![0; BUCKET_COUNT], idle: [None; DOUBLING_COUNT] };
        let row = self.rows.entry((device.to_owned(), operation)).or_insert_with(new_row);
        for (step, count) in steps {
            row.counts[step] += count;
            self.changed |= row.idle[doubling_of_step(step)].replace(0).is_none();
        }
    }

    /// Drops the devices for which `keep` returns false.
    pub fn retain_devices(&mut self, keep: impl Fn(&str) -> bool) {
        let rows_before = self.rows.len();
        self.rows.retain(|(device, _), _| keep(device));
        self.changed |= self.rows.len() != rows_before;
    }

    /// Returns true once after series were added or removed.
    pub fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    fn shown_steps(&self) -> impl Iterator<Item = (&(String, LatencyOperation), usize, u64)> + '_ {
        let steps_of_row = |(key, row): (_, &'_ LatencyRow)| {
            let counts = row.counts.clone();
            let idle = row.idle;
            (0..BUCKET_COUNT)
                .filter(move |step| idle[doubling_of_step(*step)].is_some())
                .map(move |step| (key, step, counts[step]))
        };
        self.rows.iter().flat_map(steps_of_row)
    }

    /// Appends the series, in the order of [`LatencyTable::drain_cells`].
    pub fn append_series(&self, out: &mut Vec<Series>) {
        out.extend(self.shown_steps().map(|((device, operation), step, _)| Series {
            counter: operation.counter_id().to_owned(),
            instance: format!("{device}@{}", bucket_edges(step).0),
            scale: 1.0,
        }));
    }

    /// Appends the cells of the tick, resets the counts and so begins the next tick.
    pub fn drain_cells(&mut self, out: &mut Vec<f64>) {
        out.extend(self.shown_steps().map(|(_, _, count)| count as f64));
        for row in self.rows.values_mut() {
            row.counts.fill(0);
            row.idle.iter_mut().flatten().for_each(|ticks| *ticks = ticks.saturating_add(1));
        }
        self.prune_idle_doublings();
    }

    /// Drops doublings that have been idle for long, once they are over a third of all: each change costs a new schema.
    fn prune_idle_doublings(&mut self) {
        let ages = || self.rows.values().flat_map(|row| row.idle.iter().flatten());
        let (shown, idle) = (ages().count(), ages().filter(|ticks| **ticks > IDLE_TICKS).count());
        if idle * 3 <= shown || idle == 0 {
            return;
        }
        for row in self.rows.values_mut() {
            row.idle.iter_mut().filter(|ticks| ticks.is_some_and(|t| t > IDLE_TICKS)).for_each(|ticks| *ticks = None);
        }
        self.rows.retain(|_, row| row.idle.iter().any(Option::is_some));
        self.changed = true;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::frame::Tick;

    fn frame_of(table: &mut LatencyTable) -> Frame {
        let (mut series, mut cells) = (Vec::new(), Vec::new());
        table.append_series(&mut series);
        table.drain_cells(&mut cells);
        let mut frame = Frame::new(Arc::new(Schema::new(series)), 1);
        frame.push(Tick { time_ns: 1, elapsed_ns: 1 }, &cells);
        frame
    }

    #[test]
    fn distributions_survive_a_round_trip_through_a_frame() {
        let mut table = LatencyTable::default();
        let mut truth = LatencyHistogram::default();
        (0..5000u64).for_each(|n| truth.record(n * n * 40));
        table.add_requests("sd@a", LatencyOperation::Read, truth.nonempty_buckets());
        table.add_requests("sd@a", LatencyOperation::Flush, [(bucket_index(5_000_000), 3)].into_iter());
        assert!(table.take_changed() && !table.take_changed());
        let frame = frame_of(&mut table);
        let found = LatencyColumns::from_schema(frame.schema());
        let names: Vec<_> = found.groups.iter().map(|g| (g.device.as_str(), g.operation)).collect();
        assert_eq!(names, [("sd@a", LatencyOperation::Read), ("sd@a", LatencyOperation::Flush)]);
        let read = found.groups[0].histogram(&frame, 0..1);
        assert_eq!(read.nonempty_buckets().collect::<Vec<_>>(), truth.nonempty_buckets().collect::<Vec<_>>());
        assert!((read.mean_ns().unwrap() / truth.mean_ns().unwrap() - 1.0).abs() < 0.01);
        // 3 flushes in the step of 5 ms: 4.98 to 5.24 ms
        assert_eq!(found.groups[1].sum_steps(&frame, 0..1), [(bucket_index(5_000_000), 3)]);
        // the next tick begins at zero, with the same series
        let next = frame_of(&mut table);
        assert!(!table.take_changed() && next.schema() == frame.schema());
        assert_eq!(found.groups[0].histogram(&next, 0..1).count(), 0);
    }

    #[test]
    fn doublings_appear_when_needed_and_are_dropped_when_many_are_idle() {
        let mut table = LatencyTable::default();
        let width = |table: &LatencyTable| {
            let mut series = Vec::new();
            table.append_series(&mut series);
            series.len()
        };
        table.add_requests(
            "a",
            LatencyOperation::Read,
            [(bucket_index(3000), 1), (bucket_index(9_000_000), 1)].into_iter(),
        );
        table.add_requests("b", LatencyOperation::Write, [(0, 1), (BUCKET_COUNT - 1, 1)].into_iter());
        assert_eq!(width(&table), 16 + 16 + 1 + 1);
        table.take_changed();
        for _ in 0..IDLE_TICKS + 2 {
            table.add_requests("a", LatencyOperation::Read, [(bucket_index(3000), 1)].into_iter());
            table.drain_cells(&mut Vec::new());
        }
        assert!(table.take_changed());
        assert_eq!(width(&table), 16);
        table.retain_devices(|device| device != "a");
        assert!(table.take_changed());
        assert_eq!(width(&table), 0);
    }

    #[test]
    fn other_series_names_are_not_parsed() {
        let series =
            |counter: &str, instance: &str| Series { counter: counter.into(), instance: instance.into(), scale: 1.0 };
        assert_eq!(
            parse_step_series(&series("request_latency.reads", "sda@1088")),
            Some((LatencyOperation::Read, "sda", 2))
        );
        for (counter, instance) in [
            ("request_latency.reads", "sda"),
            ("request_latency.reads", "sda@1089"),
            ("request_latency.reads", "sda@-1"),
            ("request_latency.other", "sda@1088"),
            ("physical_disk.reads", "sda@1088"),
        ] {
            assert_eq!(parse_step_series(&series(counter, instance)), None, "{counter} {instance}");
        }
    }
}

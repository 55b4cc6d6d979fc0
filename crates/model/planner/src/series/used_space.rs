//! Follows the filesystems of a log: the space in use over time, and the last size and space of each.

use diskwright_base::counter_ids::logical_disk;
use diskwright_base::{Catalogue, CounterPlan, Frame, Schema};

use super::LoadSeries;
use super::space::FilesystemSpace;

/// Maximum number of kept points of the used space.
const MAX_USED_POINTS: usize = 4096;
/// Why a second view of a filesystem does not count.
const SEEN_TWICE: &str = "another view of a filesystem that counts";
/// Share of a filesystem by which two views of it, read one after the other, may differ.
const MAX_VIEW_DIFFERENCE: f64 = 1e-3;

/// Plans for computing the space of a filesystem.
pub(super) struct SpacePlans {
    /// Index of the filesystem among the series' filesystems.
    index: usize,
    /// True if its space is part of the load's.
    counts: bool,
    /// True if its device is one of the load.
    is_placed: bool,
    total: CounterPlan,
    used: UsedPlan,
}

/// Plan for computing the bytes in use.
enum UsedPlan {
    Counter(CounterPlan),
    /// The size without the free space, in logs that have no more: what is reserved for root is then in use.
    NotFree(CounterPlan),
}

impl UsedPlan {
    /// Computes the bytes in use at each tick of a frame, with the sizes at these ticks.
    fn compute_values(&self, frame: &Frame, total: &[f64]) -> Vec<f64> {
        let mut values = Vec::new();
        match self {
            UsedPlan::Counter(used) => used.compute_values(frame, &mut values),
            UsedPlan::NotFree(free) => {
                free.compute_values(frame, &mut values);
                for (value, total) in values.iter_mut().zip(total) {
                    *value = total - *value;
                }
            }
        }
        values
    }
}

/// Collects the space of filesystems from frames.
#[derive(Default)]
pub(super) struct SpaceCollector {
    /// Size and used space of each filesystem of the schema, as last seen.
    now: Vec<(f64, f64)>,
    every_ns: i64,
}

impl SpaceCollector {
    /// Plans the space of the filesystems of a new schema.
    pub fn plan_filesystems(
        &mut self,
        series: &mut LoadSeries,
        schema: &Schema,
        filesystems: Vec<FilesystemSpace>,
    ) -> Vec<SpacePlans> {
        let plan = |id: &str, mount: &str| CounterPlan::resolve_counter(Catalogue::builtin(), schema, id, mount);
        let mut planned: Vec<SpacePlans> = Vec::new();
        for filesystem in filesystems {
            let total = plan(logical_disk::TOTAL_BYTES, &filesystem.mount);
            let used = plan(logical_disk::USED_BYTES, &filesystem.mount).map(UsedPlan::Counter);
            let used = used.or_else(|| plan(logical_disk::FREE_BYTES, &filesystem.mount).map(UsedPlan::NotFree));
            let Some((total, used)) = total.zip(used) else { continue };
            let (counts, is_placed) = (filesystem.because.is_none(), !filesystem.fronts.is_empty());
            planned.push(SpacePlans { index: index_of(series, filesystem), counts, is_placed, total, used });
        }
        if !planned.is_empty() {
            for (index, filesystem) in series.filesystems.iter_mut().enumerate() {
                if !planned.iter().any(|plans| plans.index == index) {
                    filesystem.because.get_or_insert("not mounted at the end of the log");
                }
            }
        }
        self.now = vec![(f64::NAN, f64::NAN); planned.len()];
        planned
    }

    /// Samples the used space of the filesystems that count at intervals, and the last size and space of each.
    pub fn read_frame(&mut self, series: &mut LoadSeries, frame: &Frame, planned: &[SpacePlans]) {
        if planned.is_empty() {
            return;
        }
        let mut total = Vec::new();
        let mut rows: Vec<Vec<(f64, f64)>> = Vec::new();
        for plans in planned {
            plans.total.compute_values(frame, &mut total);
            let used = plans.used.compute_values(frame, &total);
            rows.push(total.iter().copied().zip(used).collect());
        }
        for (index, tick) in frame.ticks().iter().enumerate() {
            for (now, row) in self.now.iter_mut().zip(&rows) {
                *now = if row[index].1.is_nan() { *now } else { row[index] };
            }
            if series.used_space.last().is_none_or(|(t, _)| tick.time_ns - t >= self.every_ns) {
                self.add_point(series, tick.time_ns, planned);
            }
        }
        for (number, (plans, now)) in planned.iter().zip(&self.now).enumerate() {
            let filesystem = &mut series.filesystems[plans.index];
            if !now.1.is_nan() {
                (filesystem.total_bytes, filesystem.used_bytes) = *now;
            }
            if self.is_seen_twice(planned, number) {
                filesystem.because = Some(SEEN_TWICE);
            }
        }
    }

    /// Adds the sum of the filesystems that count, each once, if all are known.
    fn add_point(&mut self, series: &mut LoadSeries, time_ns: i64, planned: &[SpacePlans]) {
        let counts = |number: &usize| planned[*number].counts && !self.is_seen_twice(planned, *number);
        let counted: Vec<f64> = (0..planned.len()).filter(counts).map(|number| self.now[number].1).collect();
        let sum: f64 = counted.iter().sum();
        if !counted.is_empty() && !sum.is_nan() {
            series.used_space.push((time_ns, sum));
        }
        if series.used_space.len() >= MAX_USED_POINTS {
            let mut calls = 0;
            series.used_space.retain(|_| {
                calls += 1;
                calls % 2 == 1
            });
            // as far apart as the remaining points, so that every part of the log has the same weight
            let ends = series.used_space.first().zip(series.used_space.last());
            let span_ns = ends.map_or(0, |((first, _), (last, _))| last - first);
            self.every_ns = self.every_ns.max(span_ns / series.used_space.len().max(1) as i64);
        }
    }

    /// True for a filesystem of unknown place with the size and space of another whose place is known: a container's
    /// root is a view of the filesystem below it.
    fn is_seen_twice(&self, planned: &[SpacePlans], number: usize) -> bool {
        let (total, used) = self.now[number];
        let is_same = |(plans, (other_total, other_used)): (&SpacePlans, &(f64, f64))| {
            plans.is_placed && *other_total == total && (other_used - used).abs() <= MAX_VIEW_DIFFERENCE * total
        };
        !planned[number].is_placed && planned.iter().zip(&self.now).any(is_same)
    }
}

/// Returns the index of a filesystem among those of the series, which it joins.
fn index_of(series: &mut LoadSeries, filesystem: FilesystemSpace) -> usize {
    let known = &mut series.filesystems;
    match known.iter().position(|other| other.mount == filesystem.mount && other.device == filesystem.device) {
        Some(index) => {
            (known[index].because, known[index].fronts) = (filesystem.because, filesystem.fronts);
            index
        }
        None => {
            known.push(filesystem);
            known.len() - 1
        }
    }
}

//! Columns that series of metrics are stored in.

use std::collections::HashMap;

use diskwright_base::counter_ids::physical_disk;
use diskwright_base::{Schema, Series};

use super::metric_names::{MetricSource, MetricVocabulary};

/// Target of a series' value.
#[derive(Clone, Debug)]
pub struct SeriesTarget {
    /// Column.
    pub column: usize,
    /// Mapping from the value to the cell.
    pub source: &'static MetricSource,
}

/// Columns, in the order in which their first series appeared.
#[derive(Clone, Debug, Default)]
pub struct SeriesTargets {
    series: Vec<Series>,
    /// Metric that fills the column; empty if several do.
    metrics: Vec<String>,
    column_indexes: HashMap<(String, String), usize>,
    stall_columns: Vec<StallColumns>,
}

/// Columns of a disk that show whether it was stalled.
#[derive(Clone, Debug)]
struct StallColumns {
    in_flight: usize,
    completed: Vec<usize>,
    column: usize,
}

const STALLED: &str = physical_disk::STALLED;
const IN_FLIGHT: &str = physical_disk::CURRENT_QUEUE_LENGTH;
const COMPLETED: [&str; 4] =
    [physical_disk::READS, physical_disk::WRITES, physical_disk::DISCARDS, physical_disk::FLUSHES];

impl SeriesTargets {
    /// Returns the columns of a series; new ones are made as needed. It is empty if the vocabulary does not know the
    /// series, or if another metric supplies the same counter already.
    pub fn find_targets<'a>(&mut self, metric: &str, label: impl Fn(&str) -> Option<&'a str>) -> Vec<SeriesTarget> {
        let mut targets = Vec::new();
        for source in MetricVocabulary::builtin().sources_of(metric) {
            let Some(instance) = source.map_instance(&label) else { continue };
            let supplier = if source.is_part { "" } else { metric };
            let next = self.series.len();
            let column = *self.column_indexes.entry((source.counter.clone(), instance.clone())).or_insert(next);
            if column == next {
                self.series.push(Series { counter: source.counter.clone(), instance, scale: source.scale });
                self.metrics.push(supplier.to_owned());
            }
            if self.metrics[column] == supplier {
                targets.push(SeriesTarget { column, source });
            }
        }
        targets
    }

    /// Returns a column under a name that no metric of the vocabulary has.
    pub fn foreign_column(&mut self, counter: String, instance: String) -> usize {
        let next = self.series.len();
        let column = *self.column_indexes.entry((counter.clone(), instance.clone())).or_insert(next);
        if column == next {
            self.series.push(Series { counter, instance, scale: 1.0 });
            self.metrics.push(String::new());
        }
        column
    }

    /// Number of columns so far.
    pub fn len(&self) -> usize {
        self.series.len()
    }

    /// Returns true if there is no column.
    pub fn is_empty(&self) -> bool {
        self.series.is_empty()
    }

    /// Finds the column of a counter's instance.
    pub fn find_column(&self, counter: &str, instance: &str) -> Option<usize> {
        self.column_indexes.get(&(counter.to_owned(), instance.to_owned())).copied()
    }

    /// Iterates over the instances that have this counter.
    pub fn counter_instances<'a>(&'a self, counter: &'a str) -> impl Iterator<Item = &'a str> {
        self.series.iter().filter(move |s| s.counter == counter).map(|s| s.instance.as_str())
    }

    /// Builds the schema, with a column for stalls where a disk shows its requests in flight and those completed. It
    /// must be built again when columns were added.
    pub fn build_schema(&mut self) -> Schema {
        let disks: Vec<String> = self.counter_instances(IN_FLIGHT).map(str::to_owned).collect();
        for disk in disks {
            let has_column = self.find_column(STALLED, &disk).is_some();
            let (Some(in_flight), Some(_)) =
                (self.find_column(IN_FLIGHT, &disk), self.find_column(COMPLETED[0], &disk))
            else {
                continue;
            };
            let completed = COMPLETED.iter().filter_map(|c| self.find_column(c, &disk)).collect();
            if !has_column {
                let column = self.foreign_column(STALLED.to_owned(), disk);
                self.stall_columns.push(StallColumns { in_flight, completed, column });
            }
        }
        Schema::new(self.series.clone())
    }

    /// Fills the columns for stalls: requests in flight, and none completed.
    pub fn fill_stalls(&self, row: &mut [f64]) {
        for stall in &self.stall_columns {
            let in_flight = row[stall.in_flight];
            // kernels without discards or flushes have gaps there, which add nothing; a gap of the reads makes the
            // result a gap
            let mut completed = row[stall.completed[0]];
            for &column in &stall.completed[1..] {
                completed += if row[column].is_nan() { 0.0 } else { row[column] };
            }
            row[stall.column] = if in_flight.is_nan() || completed.is_nan() {
                f64::NAN
            } else if in_flight > 0.0 && completed == 0.0 {
                1.0
            } else {
                0.0
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(targets: &mut SeriesTargets, metric: &str, labels: &[(&str, &'static str)]) -> Vec<usize> {
        let label = |name: &str| labels.iter().find(|(n, _)| *n == name).map(|(_, v)| *v);
        targets.find_targets(metric, label).iter().map(|p| p.column).collect()
    }

    #[test]
    fn two_metrics_of_one_measure_fill_one_column_once() {
        let mut targets = SeriesTargets::default();
        let disk = [("disk", "0")];
        assert_eq!(places(&mut targets, "windows_physical_disk_read_latency_seconds_total", &disk), [0]);
        assert!(places(&mut targets, "windows_physical_disk_read_seconds_total", &disk).is_empty());
        // several parts of one counter share a column
        assert_eq!(places(&mut targets, "node_vmstat_pgsteal_kswapd", &[]), [1]);
        assert_eq!(places(&mut targets, "node_vmstat_pgsteal_direct", &[]), [1]);
    }

    #[test]
    fn a_disk_that_holds_requests_and_completes_none_is_stalled() {
        let mut targets = SeriesTargets::default();
        let disk = [("device", "sda")];
        for metric in ["node_disk_io_now", "node_disk_reads_completed_total", "node_disk_writes_completed_total"] {
            places(&mut targets, metric, &disk);
        }
        assert_eq!(targets.build_schema().column(STALLED, "sda"), Some(3));
        assert_eq!(targets.build_schema().series.len(), 4);
        for (row, stalled) in [([2.0, 0.0, 0.0], 1.0), ([2.0, 0.0, 5.0], 0.0), ([0.0, 0.0, 0.0], 0.0)] {
            let mut row = [row[0], row[1], row[2], f64::NAN];
            targets.fill_stalls(&mut row);
            assert_eq!(row[3], stalled);
        }
    }
}

//! Latency distributions as classic histograms of Prometheus. Each bucket is a separate series, so the buckets are
//! coarser than the steps of a log: their edges are 1.024 us times a power of two.

use diskwright_base::latency::{MAX_LATENCY_BITS, MIN_LATENCY_BITS};
use diskwright_base::latency_series::{parse_step_series, step_middle_ns};
use diskwright_base::{LatencyOperation, Schema};

use crate::feed::SeriesName;

/// Name of the metric family; the names of its series end in `_bucket`, `_sum` and `_count`.
pub(crate) const FAMILY: &str = "diskwright_request_latency_seconds";
const HELP: &str = "Latency of single requests that were traced, from the first one that the kernel reports.";
/// Number of upper edges: 2^10 to 2^36 nanoseconds, and infinity.
const EDGE_COUNT: usize = (MAX_LATENCY_BITS - MIN_LATENCY_BITS) as usize + 2;

/// Requests of one operation on one device since the feed began.
#[derive(Debug)]
struct LatencyTotals {
    device: String,
    operation: LatencyOperation,
    /// Number of requests of each bucket: longer than the previous edge, but not longer than the edge of the bucket.
    buckets: [u64; EDGE_COUNT],
    sum_s: f64,
}

/// Latency totals of all devices and operations. Like all totals, they stay once they were seen.
#[derive(Debug, Default)]
pub(crate) struct LatencyFeed {
    totals: Vec<LatencyTotals>,
    /// Columns with latencies: the column, the index in `totals`, and the step.
    columns: Vec<(usize, usize, usize)>,
}

/// Returns the bucket of a step. No step extends across an edge.
fn bucket_of_step(step: usize) -> usize {
    if step == 0 { 0 } else { (step - 1) / 16 + 1 }
}

impl LatencyFeed {
    /// Sets the schema of the next ticks.
    pub fn set_schema(&mut self, schema: &Schema) {
        self.columns.clear();
        for (column, series) in schema.series.iter().enumerate() {
            let Some((operation, device, step)) = parse_step_series(series) else { continue };
            let known = self.totals.iter().position(|t| t.device == device && t.operation == operation);
            let index = known.unwrap_or_else(|| {
                let device = device.to_owned();
                self.totals.push(LatencyTotals { device, operation, buckets: [0; EDGE_COUNT], sum_s: 0.0 });
                self.totals.len() - 1
            });
            self.columns.push((column, index, step));
        }
    }

    /// Adds a tick's row. A gap adds nothing.
    pub fn add_tick(&mut self, row: &[f64]) {
        for &(column, index, step) in &self.columns {
            let count = row[column];
            if count > 0.0 {
                let totals = &mut self.totals[index];
                totals.buckets[bucket_of_step(step)] += count as u64;
                totals.sum_s += count * step_middle_ns(step) / 1e9;
            }
        }
    }

    /// Names of the series, in the order of [`LatencyFeed::values`].
    pub fn series_names(&self) -> Vec<SeriesName> {
        let new_name = |ending: &str, totals: &LatencyTotals, edge: Option<String>| {
            let mut labels = vec![("device".to_owned(), totals.device.clone())];
            labels.extend(edge.map(|edge| ("le".to_owned(), edge)));
            labels.push(("operation".to_owned(), totals.operation.name().to_owned()));
            SeriesName { metric: format!("{FAMILY}{ending}"), labels, help: HELP.into(), is_total: true }
        };
        let edge = |index: usize| match index {
            index if index + 1 == EDGE_COUNT => "+Inf".to_owned(),
            index => format!("{}", (1u64 << (MIN_LATENCY_BITS as usize + index)) as f64 / 1e9),
        };
        let buckets = self
            .totals
            .iter()
            .flat_map(|t| (0..EDGE_COUNT).map(move |index| new_name("_bucket", t, Some(edge(index)))));
        let sums = self.totals.iter().map(|t| new_name("_sum", t, None));
        let counts = self.totals.iter().map(|t| new_name("_count", t, None));
        buckets.chain(sums).chain(counts).collect()
    }

    /// Value of each series: buckets are cumulative, as Prometheus requires.
    pub fn values(&self) -> impl Iterator<Item = f64> + '_ {
        let cumulative_buckets = |totals: &LatencyTotals| {
            let mut sum = 0;
            totals.buckets.map(|count| {
                sum += count;
                sum as f64
            })
        };
        let count = |totals: &LatencyTotals| totals.buckets.iter().sum::<u64>() as f64;
        let buckets = self.totals.iter().flat_map(cumulative_buckets);
        buckets.chain(self.totals.iter().map(|t| t.sum_s)).chain(self.totals.iter().map(count))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use diskwright_base::Tick;
    use diskwright_base::latency::bucket_index;
    use diskwright_base::latency_series::LatencyTable;

    use crate::feed::{SeriesFeed, metrics_page};

    use super::*;

    /// Three reads of 5 ms (between 4.194304 and 8.388608 ms) and one of 100 s.
    #[test]
    fn a_page_has_one_histogram_with_growing_buckets() {
        let (mut feed, mut table) = (SeriesFeed::new(), LatencyTable::default());
        for _ in 0..2 {
            table.add_requests(
                "sda",
                LatencyOperation::Read,
                [(bucket_index(5_000_000), 3), (bucket_index(u64::MAX), 1)].into_iter(),
            );
            let (mut series, mut row) = (Vec::new(), Vec::new());
            table.append_series(&mut series);
            table.drain_cells(&mut row);
            feed.add_tick(Tick { time_ns: 1_000_000, elapsed_ns: 1 }, &Arc::new(Schema::new(series)), &row);
        }
        let page = metrics_page(feed.snapshot());
        let lines: Vec<&str> = page.lines().filter(|line| line.contains(FAMILY)).collect();
        assert_eq!(lines[1], format!("# TYPE {FAMILY} histogram"));
        assert_eq!(lines.iter().filter(|line| line.starts_with('#')).count(), 2, "{page}");
        let bucket = |edge: &str, count: u64| {
            let line = format!("{FAMILY}_bucket{{device=\"sda\",le=\"{edge}\",operation=\"read\"}} {count}");
            assert!(lines.contains(&line.as_str()), "{line}\n{page}");
        };
        bucket("0.000001024", 0);
        bucket("0.004194304", 0);
        bucket("0.008388608", 6);
        bucket("68.719476736", 6);
        bucket("+Inf", 8);
        assert!(lines.contains(&format!("{FAMILY}_count{{device=\"sda\",operation=\"read\"}} 8").as_str()));
        assert!(!page.contains("sda@"));
    }
}

//! Histograms of flushes to disk that programs export: their median and 99th percentile are latencies of a disk. The
//! buckets of a single page count since the program started; those of two pages, what came between.

use diskwright_base::counter_ids::physical_disk;

use super::series_targets::SeriesTargets;

/// Metrics, and the name of the disk that they tell of.
const HISTOGRAMS: [(&str, &str); 2] = [
    ("etcd_disk_wal_fsync_duration_seconds_bucket", "disk of etcd's log"),
    ("etcd_debugging_disk_wal_fsync_duration_seconds_bucket", "disk of etcd's log"),
];
/// Fewest flushes that show a 99th percentile.
const MIN_FLUSHES: f64 = 1000.0;

/// Buckets of one disk.
#[derive(Debug)]
struct FlushHistogram {
    disk: &'static str,
    /// Columns of the median and of the 99th percentile.
    columns: [usize; 2],
    /// Upper bound of each bucket, seconds, and its series.
    buckets: Vec<(f64, usize)>,
}

/// All such histograms of the pages.
#[derive(Debug, Default)]
pub(super) struct FlushHistograms(Vec<FlushHistogram>);

impl FlushHistograms {
    /// Adds a series if it is a bucket; `bound` is its label `le`.
    pub fn learn_series(&mut self, metric: &str, bound: Option<&str>, series: usize, targets: &mut SeriesTargets) {
        let Some((_, disk)) = HISTOGRAMS.iter().find(|(known, _)| *known == metric) else { return };
        let Some(bound) = bound.and_then(|text| text.trim_start_matches('+').parse::<f64>().ok()) else { return };
        let place = self.0.iter().position(|histogram| histogram.disk == *disk).unwrap_or_else(|| {
            let counters = [physical_disk::SYNC_WRITE_LATENCY_P50_S, physical_disk::SYNC_WRITE_LATENCY_P99_S];
            let columns = counters.map(|counter| targets.foreign_column(counter.to_owned(), (*disk).to_owned()));
            self.0.push(FlushHistogram { disk, columns, buckets: Vec::new() });
            self.0.len() - 1
        });
        self.0[place].buckets.push((bound, series));
    }

    /// Puts the percentiles into a row. `count_of` tells how many flushes a series counts.
    pub fn put_percentiles(&self, row: &mut [f64], count_of: impl Fn(usize) -> f64) {
        for histogram in &self.0 {
            // of several programs with such buckets, all flushes
            let mut sums: Vec<(f64, f64)> = Vec::new();
            for (bound, series) in &histogram.buckets {
                match sums.iter_mut().find(|(known, _)| known == bound) {
                    Some((_, sum)) => *sum += count_of(*series),
                    None => sums.push((*bound, count_of(*series))),
                }
            }
            sums.sort_by(|a, b| a.0.total_cmp(&b.0));
            for (column, share) in histogram.columns.into_iter().zip([0.5, 0.99]) {
                if let Some(seconds) = find_percentile(&sums, share) {
                    row[column] = seconds;
                }
            }
        }
    }
}

/// Value below which a share of all lies, by cumulative buckets in their order; within a bucket they are taken to be
/// spread evenly. `None` with too few, and where the last bound is reached.
fn find_percentile(buckets: &[(f64, f64)], share: f64) -> Option<f64> {
    let total = buckets.last()?.1;
    if buckets.iter().any(|(_, count)| count.is_nan()) || total < MIN_FLUSHES {
        return None;
    }
    let wanted = total * share;
    let place = buckets.iter().position(|(_, count)| *count >= wanted)?;
    let (lower, before) = place.checked_sub(1).map_or((0.0, 0.0), |previous| buckets[previous]);
    let (upper, count) = buckets[place];
    let is_open = !upper.is_finite();
    Some(if is_open { lower } else { lower + (upper - lower) * (wanted - before) / (count - before).max(1.0) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_lie_within_their_bucket() {
        let buckets = [(0.001, 1000.0), (0.01, 1900.0), (0.1, 2000.0), (f64::INFINITY, 2000.0)];
        assert_eq!(find_percentile(&buckets, 0.5), Some(0.001));
        let high = find_percentile(&buckets, 0.99).unwrap();
        assert!((high - 0.082).abs() < 1e-9, "{high}");
        // what lies above all bounds is at least the last
        assert_eq!(find_percentile(&[(0.1, 10.0), (f64::INFINITY, 2000.0)], 0.5), Some(0.1));
        assert_eq!(find_percentile(&[(0.1, 10.0), (f64::INFINITY, 20.0)], 0.5), None);
        assert_eq!(find_percentile(&[], 0.5), None);
    }
}

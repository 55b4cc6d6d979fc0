//! Models that predict the gain of a change. Both scale measured values, and are fitted only to the log at hand.

use serde::Serialize;

use crate::host_load::SequentialReads;

/// Predicted gain of a change.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ExpectedGain {
    /// The prediction in a sentence.
    pub text: String,
    /// Factor by which the work gets faster, or the wait shorter.
    pub factor: f64,
    /// The model, and its inputs.
    pub basis: String,
}

/// A sequential reader through the page cache, whose rate the read-ahead window limits.
///
/// The kernel keeps one or two windows in flight (mm/readahead.c: the next window is sent when the
/// first page of the last one is touched), so at a fixed number of windows the rate is
/// `windows x window / response` (Little's law), and never above what the device transfers.
/// The response of a request of `s` bytes is `latency + s / rate`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReadAheadModel {
    /// Time of a request without its transfer, s.
    pub latency_s: f64,
    /// Rate of the transfer, bytes per second.
    pub bytes_per_s: f64,
    /// Rate that the reader has reached, bytes per second of busy time.
    pub reached_bytes_per_s: f64,
    /// Mean size of the reader's reads, bytes.
    pub read_bytes: f64,
}

/// Minimum ratio of sizes for a line through them to be meaningful.
const MIN_SIZE_RATIO: f64 = 2.0;
/// Minimum share of the variance that a fit must explain.
const MIN_EXPLAINED_VARIANCE: f64 = 0.8;

impl ReadAheadModel {
    /// Builds the model for a disk with a known rate, from the mean size, response time and reached rate of its reads;
    /// `None` if the response time is shorter than the transfer alone.
    #[must_use]
    pub fn with_rate(bytes_per_s: f64, read_bytes: f64, response_s: f64, reached: f64) -> Option<ReadAheadModel> {
        let latency_s = response_s - read_bytes / bytes_per_s;
        (latency_s > 0.0 && reached > 0.0).then_some(ReadAheadModel {
            latency_s,
            bytes_per_s,
            reached_bytes_per_s: reached,
            read_bytes,
        })
    }

    /// Fits the model to reads of several sizes: the least-squares line of response over size.
    #[must_use]
    pub fn fit_to_reads(points: &[SequentialReads], read_bytes: f64, reached: f64) -> Option<ReadAheadModel> {
        let points = points.iter().filter(|p| p.reads > 0.0).map(|p| (p.reads, p.bytes_per_read(), p.read_s / p.reads));
        // number, mean size and mean response time of the reads of each tick
        let points: Vec<(f64, f64, f64)> = points.collect();
        let smallest = points.iter().map(|p| p.1).fold(f64::INFINITY, f64::min);
        let largest = points.iter().map(|p| p.1).fold(0.0, f64::max);
        if points.len() < 4 || largest < MIN_SIZE_RATIO * smallest {
            return None;
        }
        let weight: f64 = points.iter().map(|p| p.0).sum();
        let mean =
            |value: &dyn Fn(&(f64, f64, f64)) -> f64| points.iter().map(|p| p.0 * value(p)).sum::<f64>() / weight;
        let (size, time) = (mean(&|p| p.1), mean(&|p| p.2));
        let covariance = mean(&|p| (p.1 - size) * (p.2 - time));
        let size_variance = mean(&|p| (p.1 - size).powi(2));
        let time_variance = mean(&|p| (p.2 - time).powi(2));
        let slope = covariance / size_variance;
        let latency_s = time - slope * size;
        let explained = covariance * covariance / (size_variance * time_variance);
        let is_meaningful = slope > 0.0 && latency_s > 0.0 && reached > 0.0 && explained >= MIN_EXPLAINED_VARIANCE;
        is_meaningful.then_some(ReadAheadModel {
            latency_s,
            bytes_per_s: 1.0 / slope,
            reached_bytes_per_s: reached,
            read_bytes,
        })
    }

    /// Factor by which the reader gets faster with another window, at least 1; requests grow with the window up to
    /// `max_request`. All sizes in bytes.
    #[must_use]
    pub fn speedup(&self, window_before: f64, window_after: f64, max_request: f64) -> f64 {
        let response = |bytes: f64| self.latency_s + bytes / self.bytes_per_s;
        let size_ratio = window_after.min(max_request) / window_before.min(max_request);
        let by_windows =
            window_after / window_before * response(self.read_bytes) / response(self.read_bytes * size_ratio);
        by_windows.min(self.bytes_per_s / self.reached_bytes_per_s).max(1.0)
    }
}

/// Writes in a device's queue that a commit has to wait for.
///
/// The bytes in flight never exceed what the page cache may hold dirty and under writeback. A single writer of much
/// data is throttled half way between the middle of the two limits and the upper one (mm/page-writeback.c, set point),
/// at `3/4 limit + 1/4 background limit`. Bytes in flight are written at the measured rate, so a commit waits for bytes
/// over rate, and its wait shrinks as the bytes do. `mq-deadline` sends `fifo_batch` neighboring writes and then checks
/// the oldest request, so a commit waits for one such batch at most.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QueuedWrites {
    /// Bytes written per second while writes queued.
    pub bytes_per_s: f64,
    /// Bytes in flight while writes queued.
    pub in_flight_bytes: f64,
    /// Bytes that the scheduler sends before it considers a commit; `None` if it keeps the order.
    pub batch_bytes: Option<f64>,
}

impl QueuedWrites {
    /// Maximum bytes in flight under an upper and a background limit, bytes.
    #[must_use]
    pub fn max_in_flight_bytes(limit: f64, background: f64) -> f64 {
        0.75 * limit + 0.25 * background
    }

    /// Bytes that a commit waits for, with this many in flight.
    #[must_use]
    pub fn bytes_before_commit(&self, in_flight: f64) -> f64 {
        self.batch_bytes.map_or(in_flight, |batch| in_flight.min(batch))
    }

    /// Factor by which a commit's wait gets shorter under these limits.
    #[must_use]
    pub fn wait_reduction(&self, limit: f64, background: f64) -> f64 {
        (self.bytes_before_commit(self.in_flight_bytes)
            / self.bytes_before_commit(QueuedWrites::max_in_flight_bytes(limit, background)))
        .max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 128 KiB at 5 ms and 100 MB/s take 6.31 ms; two windows in flight bring 41.5 MB/s. A window of 1 MiB takes
    /// 15.5 ms as one request: 8 windows' bytes in 2.45 times the time are 3.26 times as fast, but the device's
    /// 100 MB/s allow 2.41 times.
    #[test]
    fn wider_window_gains_at_most_the_device_rate() {
        let window = 131_072.0;
        let response = 0.005 + window / 100e6;
        let reached = 2.0 * window / response;
        let model = ReadAheadModel::with_rate(100e6, window, response, reached).unwrap();
        assert!((model.latency_s - 0.005).abs() < 1e-12);
        assert!((reached - 41.5e6).abs() < 0.1e6);
        let factor = model.speedup(window, 8.0 * window, 1_310_720.0);
        assert!((factor - 100e6 / reached).abs() < 1e-9 && (factor - 2.41).abs() < 0.01, "{factor}");
        // twice the window: 2 x 6.31 / 7.62
        assert!((model.speedup(window, 2.0 * window, 1_310_720.0) - 1.656).abs() < 0.01);
        // requests that cannot grow: the same response, twice the bytes
        assert!((model.speedup(window, 2.0 * window, window) - 2.0).abs() < 1e-9);
    }

    #[test]
    fn fits_latency_and_rate_to_reads_of_several_sizes() {
        let point_in = |reads: f64, bytes: f64, read_s: f64| SequentialReads {
            reads,
            bytes: reads * bytes,
            read_s: reads * read_s,
            busy_s: reads * read_s,
        };
        let point = |reads: f64, bytes: f64| point_in(reads, bytes, 0.002 + bytes / 50e6);
        let points = [point(10.0, 4096.0), point(20.0, 131_072.0), point(5.0, 65_536.0), point(9.0, 131_072.0)];
        let model = ReadAheadModel::fit_to_reads(&points, 131_072.0, 20e6).unwrap();
        assert!((model.latency_s - 0.002).abs() < 1e-9 && (model.bytes_per_s - 50e6).abs() < 1.0);
        let one_size = [point(10.0, 131_072.0); 5];
        assert_eq!(ReadAheadModel::fit_to_reads(&one_size, 131_072.0, 20e6), None);
        // not a line: the time does not grow with the size
        let noise = [(4096.0, 0.01), (8192.0, 0.001), (65_536.0, 0.02), (131_072.0, 0.002)]
            .map(|(bytes, read_s)| point_in(1.0, bytes, read_s));
        assert_eq!(ReadAheadModel::fit_to_reads(&noise, 131_072.0, 20e6), None);
    }

    /// 160 MB in flight at 20 MB/s are 8 s of waiting. Limits of 40 and 10 MB hold 32.5 MB: 4.9 times less.
    #[test]
    fn commit_waits_for_bytes_in_flight() {
        let writes = QueuedWrites { bytes_per_s: 20e6, in_flight_bytes: 160e6, batch_bytes: None };
        assert!((writes.wait_reduction(40e6, 10e6) - 160.0 / 32.5).abs() < 1e-9);
        assert_eq!(QueuedWrites { in_flight_bytes: 1e6, ..writes }.wait_reduction(40e6, 10e6), 1.0);
        // 16 writes of 1.28 MB are 20.5 MB: less than the limits hold, so they have no effect
        assert_eq!(QueuedWrites { batch_bytes: Some(16.0 * 1.28e6), ..writes }.wait_reduction(40e6, 10e6), 1.0);
        assert!(
            (QueuedWrites { batch_bytes: Some(80e6), ..writes }.wait_reduction(40e6, 10e6) - 80.0 / 32.5).abs() < 1e-9
        );
    }
}

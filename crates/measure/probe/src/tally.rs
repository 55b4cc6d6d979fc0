//! Counts of a worker during a run.

use diskwright_base::Histogram;

/// Length of a slice of the measured time, nanoseconds.
pub const SLICE_NS: u64 = 100_000_000;

/// Counts of one direction.
#[derive(Clone, Debug, Default)]
pub struct DirectionTally {
    /// Requests completed while measuring.
    pub requests: u64,
    /// Bytes that they transferred.
    pub bytes: u64,
    /// Their latency, nanoseconds.
    pub latency: Histogram,
}

/// Counts of one worker.
#[derive(Clone, Debug, Default)]
pub struct WorkerTally {
    /// Reads.
    pub reads: DirectionTally,
    /// Writes.
    pub writes: DirectionTally,
    /// Requests and bytes in each slice of the measured time.
    pub slices: Vec<(u64, u64)>,
    /// Error numbers of failed requests, with the number of requests that failed with each.
    pub errors: Vec<(i32, u64)>,
    /// Requests that transferred less than requested.
    pub short: u64,
    /// Longest time in which a worker got no completion while it had requests in flight,
    /// nanoseconds.
    pub longest_silence_ns: u64,
    /// Requests that an open loop sent late because no slot was free.
    pub late: u64,
    /// Requests of an open loop that were due and never sent because no slot was free.
    pub unsent: u64,
    /// Delay between the due time and the start of requests of open loops and users, as far as it
    /// was caused by the probe itself: late wake-ups, and work on other requests. Nanoseconds.
    pub lateness: Histogram,
    /// Requests that were retried after a temporary error.
    pub retried: u64,
    /// Measured time, by the worker's own clock, nanoseconds.
    pub measured_ns: u64,
    /// Latency of a response that was slower than the limit for a device in use, nanoseconds.
    pub braked_ns: Option<u64>,
    /// Requests that were abandoned while in flight.
    pub unanswered: u64,
    /// Time for which the oldest abandoned request had been in flight, nanoseconds.
    pub unanswered_ns: u64,
}

impl WorkerTally {
    /// Records a completion; `offset_ns` is the time since measuring began.
    #[inline]
    pub fn record_completion(&mut self, write: bool, bytes: u32, latency_ns: u64, offset_ns: u64) {
        let side = if write { &mut self.writes } else { &mut self.reads };
        side.requests += 1;
        side.bytes += u64::from(bytes);
        side.latency.record(latency_ns);
        let slice = (offset_ns / SLICE_NS) as usize;
        if slice >= self.slices.len() {
            self.slices.resize(slice + 1, (0, 0));
        }
        let (slice_requests, slice_bytes) = &mut self.slices[slice];
        *slice_requests += 1;
        *slice_bytes += u64::from(bytes);
    }

    /// Records a failed request.
    pub fn record_error(&mut self, number: i32) {
        match self.errors.iter_mut().find(|(n, _)| *n == number) {
            Some((_, count)) => *count += 1,
            None => self.errors.push((number, 1)),
        }
    }

    /// Returns the number of failed requests.
    pub fn failed_requests(&self) -> u64 {
        self.errors.iter().map(|(_, count)| count).sum()
    }

    /// Adds the counts of another worker, which ran at the same time.
    pub fn merge_worker(&mut self, other: &WorkerTally) {
        for (mine, theirs) in [(&mut self.reads, &other.reads), (&mut self.writes, &other.writes)] {
            mine.requests += theirs.requests;
            mine.bytes += theirs.bytes;
            mine.latency.merge(&theirs.latency);
        }
        let length = self.slices.len().max(other.slices.len());
        self.slices.resize(length, (0, 0));
        for (mine, theirs) in self.slices.iter_mut().zip(&other.slices) {
            mine.0 += theirs.0;
            mine.1 += theirs.1;
        }
        for &(number, count) in &other.errors {
            match self.errors.iter_mut().find(|(n, _)| *n == number) {
                Some((_, mine)) => *mine += count,
                None => self.errors.push((number, count)),
            }
        }
        self.short += other.short;
        self.longest_silence_ns = self.longest_silence_ns.max(other.longest_silence_ns);
        self.late += other.late;
        self.unsent += other.unsent;
        self.lateness.merge(&other.lateness);
        self.retried += other.retried;
        self.measured_ns = self.measured_ns.max(other.measured_ns);
        self.braked_ns = self.braked_ns.max(other.braked_ns);
        self.unanswered += other.unanswered;
        self.unanswered_ns = self.unanswered_ns.max(other.unanswered_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use diskwright_base::Rng;

    #[test]
    fn percentiles_up_to_99_999_are_within_a_bucket_of_the_exact_ones() {
        // 2 million latencies: most around 80 us, one of a hundred some ms, one of 20,000 a stall
        let (mut rng, mut tally) = (Rng::new(5, 0), WorkerTally::default());
        let mut exact: Vec<u64> = (0..2_000_000)
            .map(|i| match i {
                _ if i % 20_000 == 0 => 1_000_000_000 + rng.next_below(1_000_000_000),
                _ if i % 100 == 0 => (2e6 * rng.draw_normal().exp()) as u64,
                _ => (8e4 * (0.3 * rng.draw_normal()).exp()) as u64,
            })
            .collect();
        exact.iter().for_each(|latency| tally.record_completion(false, 4096, *latency, 0));
        exact.sort_unstable();
        for share in [0.5, 0.95, 0.99, 0.999, 0.9999, 0.99999] {
            let truth = exact[(share * exact.len() as f64).ceil() as usize - 1] as f64;
            let found = tally.reads.latency.quantile(share).unwrap();
            // 64 steps a doubling: the middle of a step is at most 1/128 off
            assert!((found / truth - 1.0).abs() <= 1.0 / 128.0, "{share}: {found} for {truth}");
        }
    }
}

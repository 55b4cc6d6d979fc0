//! Batches of response times, for the confidence intervals of means.

use diskwright_base::Histogram;

use crate::confidence::{self, Interval};

/// Largest number of batches; beyond it, neighbors are merged. A few long batches are less correlated.
const MAX_BATCHES: usize = 32;

/// Response times of equal periods (batches) of a run, for the confidence interval of a mean. The number of batches is
/// bounded, so memory does not grow with the run.
#[derive(Clone, Debug, Default)]
pub(super) struct Batches {
    /// Intervals per batch.
    batch_intervals: usize,
    intervals: usize,
    /// By load, then batch.
    loads: Vec<Vec<ResponseSum>>,
    /// By load: the responses of the current interval at the previous call.
    previous: Vec<ResponseSum>,
}

/// The sum of response times, and their number.
#[derive(Clone, Copy, Debug, Default)]
struct ResponseSum {
    sum_ns: u128,
    count: u64,
}

impl ResponseSum {
    fn add(self, other: ResponseSum) -> ResponseSum {
        ResponseSum { sum_ns: self.sum_ns + other.sum_ns, count: self.count + other.count }
    }
}

impl Batches {
    /// Adds an interval, given the responses of each load since the last [`Batches::restart_interval`].
    pub fn add_interval<'a>(&mut self, loads: impl ExactSizeIterator<Item = &'a Histogram>) {
        self.loads.resize(loads.len(), Vec::new());
        self.previous.resize(loads.len(), ResponseSum::default());
        self.batch_intervals = self.batch_intervals.max(1);
        let begins_batch = self.intervals.is_multiple_of(self.batch_intervals);
        if begins_batch && self.loads.first().is_some_and(|batches| batches.len() == MAX_BATCHES) {
            for batches in &mut self.loads {
                let merge = |pair: &[ResponseSum]| pair.iter().copied().fold(ResponseSum::default(), ResponseSum::add);
                *batches = batches.chunks(2).map(merge).collect();
            }
            self.batch_intervals *= 2;
        }
        for ((batches, before), responses) in self.loads.iter_mut().zip(&mut self.previous).zip(loads) {
            if begins_batch {
                batches.push(ResponseSum::default());
            }
            let now = ResponseSum { sum_ns: responses.sum(), count: responses.count() };
            debug_assert!(now.count >= before.count, "responses were cleared within an interval");
            if let Some(last) = batches.last_mut() {
                last.sum_ns += now.sum_ns - before.sum_ns;
                last.count += now.count - before.count;
            }
            *before = now;
        }
        self.intervals += 1;
    }

    /// Resets the previous values after the interval's responses were cleared.
    pub fn restart_interval(&mut self) {
        self.previous.fill(ResponseSum::default());
    }

    /// Mean response time of a load, s. Batches without requests are left out; the last one counts if it is complete.
    pub fn mean_response(&self, load: usize) -> Option<Interval> {
        let complete = self.intervals / self.batch_intervals.max(1);
        let batches = self.loads.get(load)?.iter().take(complete).filter(|batch| batch.count > 0);
        let stretches: Vec<(f64, f64)> =
            batches.map(|batch| (batch.sum_ns as f64 * 1e-9, batch.count as f64)).collect();
        confidence::interval_from_stretches(&stretches)
    }
}

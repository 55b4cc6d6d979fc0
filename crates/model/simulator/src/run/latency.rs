//! Response times of drives and arrays in the latency steps of a traced machine, interval by interval, so that a
//! simulated server has the same distributions as a real one. Recorded only if samples are taken.

use diskwright_base::LatencyOperation;
use diskwright_base::latency::{BUCKET_COUNT, bucket_index};

use crate::Ns;

/// Requests of one operation on one disk in an interval, by latency step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskLatency {
    /// The drive or array.
    pub disk: String,
    /// The operation. Simulated writes count as synchronous, because programs wait for all that reach a disk.
    pub operation: LatencyOperation,
    /// Steps with requests, and their counts.
    pub steps: Vec<(usize, u64)>,
}

/// One disk's response times of the current interval.
#[derive(Clone, Debug, Default)]
pub(super) struct ResponseSteps {
    /// True if samples are taken.
    pub is_enabled: bool,
    /// By operation; empty until the first request.
    counts: [Vec<u64>; LatencyOperation::ALL.len()],
}

impl ResponseSteps {
    /// Counts a response, if samples are taken.
    #[inline]
    pub fn record_response(&mut self, operation: LatencyOperation, response: Ns) {
        if self.is_enabled {
            self.count_response(operation, response);
        }
    }

    fn count_response(&mut self, operation: LatencyOperation, response: Ns) {
        let counts = &mut self.counts[operation as usize];
        if counts.is_empty() {
            counts.resize(BUCKET_COUNT, 0);
        }
        counts[bucket_index(response)] += 1;
    }

    /// Sets all counts to 0.
    pub fn clear(&mut self) {
        self.counts.iter_mut().for_each(|counts| counts.fill(0));
    }

    /// Returns the distributions as those of a disk with this name.
    pub fn disk_latencies(&self, disk: &str) -> impl Iterator<Item = DiskLatency> {
        LatencyOperation::ALL.into_iter().filter_map(move |operation| {
            let counts = self.counts[operation as usize].iter().copied().enumerate();
            let steps: Vec<(usize, u64)> = counts.filter(|(_, count)| *count > 0).collect();
            (!steps.is_empty()).then(|| DiskLatency { disk: disk.to_owned(), operation, steps })
        })
    }
}

/// Returns the operation of a transfer.
pub(super) fn transfer_operation(is_write: bool) -> LatencyOperation {
    if is_write { LatencyOperation::SyncWrite } else { LatencyOperation::Read }
}

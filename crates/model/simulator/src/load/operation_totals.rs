//! Completed operations of a load, with their response times.

use diskwright_base::Histogram;

use crate::Ns;

/// Operations of one class.
#[derive(Clone, Debug)]
pub struct Operations {
    /// Name of the class.
    pub name: String,
    /// Running sums; the difference between the sums at two times is a sample.
    pub totals: OperationTotals,
    /// Response times, ns: from issue in a closed load, from arrival in an open one.
    pub responses: Histogram,
    /// Parts of the work with a beginning and an end, such as the passes of a sort.
    pub spans: Vec<LoadSpan>,
}

/// Running sums over the operations of a class.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OperationTotals {
    /// Operations begun.
    pub begun: u64,
    /// Operations done.
    pub done: u64,
    /// Arrivals turned away because too many operations were in flight (open loads).
    pub lost: u64,
    /// Requests of the operations begun.
    pub requests: u64,
    /// Bytes those requests moved.
    pub bytes: u64,
    /// Sum of response times of the operations done, ns.
    pub total_response_ns: u128,
}

impl OperationTotals {
    /// Returns the difference to the totals of an earlier time.
    pub fn added_since(&self, earlier: &OperationTotals) -> OperationTotals {
        OperationTotals {
            begun: self.begun.saturating_sub(earlier.begun),
            done: self.done.saturating_sub(earlier.done),
            lost: self.lost.saturating_sub(earlier.lost),
            requests: self.requests.saturating_sub(earlier.requests),
            bytes: self.bytes.saturating_sub(earlier.bytes),
            total_response_ns: self.total_response_ns.saturating_sub(earlier.total_response_ns),
        }
    }

    /// Mean response time, s; NaN if no operation was done.
    pub fn mean_response_s(&self) -> f64 {
        self.total_response_ns as f64 * 1e-9 / self.done as f64
    }
}

/// Phase of a load's work, such as a pass of a sort.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadSpan {
    /// Name of the phase.
    pub name: String,
    /// Start time.
    pub from: Ns,
    /// End time.
    pub to: Ns,
}

impl Operations {
    pub(super) fn new(name: &str) -> Operations {
        Operations {
            name: name.to_owned(),
            totals: OperationTotals::default(),
            responses: Histogram::new(),
            spans: Vec::new(),
        }
    }

    #[inline]
    pub(super) fn record_done(&mut self, began: Ns, now: Ns) {
        let response = now.saturating_sub(began);
        self.totals.done += 1;
        self.totals.total_response_ns += u128::from(response);
        self.responses.record(response);
    }

    pub(super) fn reset_counters(&mut self) {
        self.totals = OperationTotals::default();
        self.responses.clear();
    }
}

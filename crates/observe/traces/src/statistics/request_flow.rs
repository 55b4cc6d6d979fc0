//! Requests over time: arrivals, rates, and requests in flight.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use diskwright_base::{Histogram, Request};

/// One second, nanoseconds.
const SECOND_NS: u64 = 1_000_000_000;

/// Arrivals, rates and requests in flight of a trace.
#[derive(Clone, Debug, Default)]
pub struct RequestFlow {
    /// Earliest arrival, nanoseconds on the trace's clock.
    pub from_ns: Option<i64>,
    /// Last arrival or completion, nanoseconds on the trace's clock.
    pub to_ns: Option<i64>,
    /// Intervals between arrivals, nanoseconds.
    pub interarrival_ns: Histogram,
    /// Coefficient of variation of the intervals (standard deviation over mean): 0 for regular arrivals, 1 for random
    /// arrivals, more for bursts.
    pub variation: Option<f64>,
    /// Requests per second from the first arrival to the end; `None` if all have the same time.
    pub requests_per_s: Option<f64>,
    /// Largest number of arrivals in one second; seconds are counted from the first arrival. A request that stands in
    /// the trace behind arrivals of a later second counts in no second.
    pub peak_per_s: u64,
    /// Number of the second with the peak; 0 is the first.
    pub peak_second: u64,
    /// Mean number of requests in flight from the first arrival to the end, of those whose completion is known.
    pub mean_in_flight: Option<f64>,
    /// Largest number of requests in flight; `None` if no completion is known, or if there were more than are followed.
    pub max_in_flight: Option<u64>,
    /// Share of the time with at least one request in flight.
    pub busy_share: Option<f64>,
    /// Number of requests whose completion is known.
    pub completed: u64,
}

impl RequestFlow {
    /// Returns the time from the first arrival to the end, seconds.
    pub fn duration_s(&self) -> f64 {
        let span = self.from_ns.zip(self.to_ns).map_or(0, |(from, to)| to.saturating_sub(from));
        span as f64 / SECOND_NS as f64
    }
}

/// Collector of a [`RequestFlow`].
pub(super) struct FlowGatherer {
    requests: u64,
    /// Arrival of the first request of the trace, from which seconds are counted.
    first_ns: Option<i64>,
    from_ns: i64,
    to_ns: i64,
    last_ns: i64,
    interarrival_ns: Histogram,
    /// Sum of the squares of the intervals between arrivals, seconds squared.
    squares: f64,
    /// Number of the current second, and the arrivals in it.
    second: u64,
    second_arrivals: u64,
    /// Largest number of arrivals in a second, and the number of that second.
    peak: (u64, u64),
    completed: u64,
    /// Sum of the response times.
    in_flight_ns: u128,
    /// Completions of the requests in flight, earliest first.
    completions: BinaryHeap<Reverse<i64>>,
    max_in_flight: usize,
    max_followed: usize,
    /// Time with at least one request in flight.
    busy_ns: u64,
    /// Latest completion so far.
    busy_until_ns: i64,
}

impl FlowGatherer {
    /// Creates a collector that follows at most `max_followed` requests in flight.
    pub(super) fn new(max_followed: usize) -> FlowGatherer {
        FlowGatherer {
            requests: 0,
            first_ns: None,
            from_ns: i64::MAX,
            to_ns: i64::MIN,
            last_ns: i64::MIN,
            interarrival_ns: Histogram::new(),
            squares: 0.0,
            second: 0,
            second_arrivals: 0,
            peak: (0, 0),
            completed: 0,
            in_flight_ns: 0,
            completions: BinaryHeap::new(),
            max_in_flight: 0,
            max_followed,
            busy_ns: 0,
            busy_until_ns: i64::MIN,
        }
    }

    pub(super) fn push(&mut self, request: &Request) {
        let arrival_ns = request.arrival_ns;
        self.requests += 1;
        let first_ns = *self.first_ns.get_or_insert(arrival_ns);
        if self.requests > 1
            && let Ok(interval_ns) = u64::try_from(arrival_ns.saturating_sub(self.last_ns))
        {
            self.interarrival_ns.record(interval_ns);
            self.squares += (interval_ns as f64 / SECOND_NS as f64).powi(2);
        }
        self.last_ns = self.last_ns.max(arrival_ns);
        self.from_ns = self.from_ns.min(arrival_ns);
        self.to_ns = self.to_ns.max(arrival_ns);
        let second = u64::try_from(arrival_ns.saturating_sub(first_ns)).ok().map(|ns| ns / SECOND_NS);
        if second > Some(self.second) {
            self.end_second();
            self.second = second.unwrap_or_default();
        }
        // an arrival after those of a later second must not count in that second
        self.second_arrivals += u64::from(second == Some(self.second));
        if let Some((completion_ns, response_ns)) = request.completion_time_ns().zip(request.response_ns()) {
            self.add_completion(arrival_ns, completion_ns, response_ns);
        }
    }

    fn end_second(&mut self) {
        if self.second_arrivals > self.peak.0 {
            self.peak = (self.second_arrivals, self.second);
        }
        self.second_arrivals = 0;
    }

    fn add_completion(&mut self, arrival_ns: i64, completion_ns: i64, response_ns: u64) {
        self.completed += 1;
        self.to_ns = self.to_ns.max(completion_ns);
        self.in_flight_ns += u128::from(response_ns);
        let newly_busy_ns = completion_ns.saturating_sub(arrival_ns.max(self.busy_until_ns));
        self.busy_ns += u64::try_from(newly_busy_ns).unwrap_or(0);
        self.busy_until_ns = self.busy_until_ns.max(completion_ns);
        while self.completions.peek().is_some_and(|Reverse(done_ns)| *done_ns <= arrival_ns) {
            self.completions.pop();
        }
        if self.completions.len() < self.max_followed {
            self.completions.push(Reverse(completion_ns));
        }
        self.max_in_flight = self.max_in_flight.max(self.completions.len());
    }

    pub(super) fn finish(mut self) -> RequestFlow {
        self.end_second();
        let from_ns = self.first_ns.map(|_| self.from_ns);
        let span_ns = from_ns.map_or(0, |from| self.to_ns.saturating_sub(from));
        let seconds = span_ns as f64 / SECOND_NS as f64;
        let per_second = |amount: f64| (seconds > 0.0).then(|| amount / seconds);
        let if_completed = |value: Option<f64>| value.filter(|_| self.completed > 0);
        RequestFlow {
            from_ns,
            to_ns: from_ns.map(|_| self.to_ns),
            variation: self.interarrival_variation(),
            interarrival_ns: self.interarrival_ns,
            requests_per_s: per_second(self.requests as f64),
            peak_per_s: self.peak.0,
            peak_second: self.peak.1,
            mean_in_flight: if_completed(per_second(self.in_flight_ns as f64 / SECOND_NS as f64)),
            max_in_flight: (self.completed > 0 && self.max_in_flight < self.max_followed)
                .then_some(self.max_in_flight as u64),
            busy_share: if_completed(per_second(self.busy_ns as f64 / SECOND_NS as f64)),
            completed: self.completed,
        }
    }

    fn interarrival_variation(&self) -> Option<f64> {
        let count = self.interarrival_ns.count() as f64;
        let mean = self.interarrival_ns.mean()? / SECOND_NS as f64;
        if mean <= 0.0 {
            return None;
        }
        // rounding can give a slightly negative variance for regular arrivals
        Some((self.squares / count - mean * mean).max(0.0).sqrt() / mean)
    }
}

#[cfg(test)]
mod tests {
    use diskwright_base::Operation;

    use super::*;

    fn gather_flow(requests: &[(i64, i64)]) -> RequestFlow {
        let mut gather = FlowGatherer::new(8);
        for (arrival_ns, completion_ns) in requests {
            let request = Request::new(*arrival_ns, 0, Operation::Read, 0, 512);
            gather.push(&Request { completion_ns: *completion_ns, ..request });
        }
        gather.finish()
    }

    #[test]
    fn in_flight_and_busy_match_a_hand_calculation() {
        // 0 to 4 s and 1 to 3 s, nothing to 6 s, then one to 10 s
        let s = 1_000_000_000;
        let flow = gather_flow(&[(0, 4 * s), (s, 3 * s), (6 * s, 10 * s)]);
        assert_eq!((flow.mean_in_flight, flow.max_in_flight), (Some(1.0), Some(2)));
        assert_eq!((flow.busy_share, flow.requests_per_s, flow.duration_s()), (Some(0.8), Some(0.3), 10.0));
        assert_eq!((flow.peak_per_s, flow.peak_second), (1, 0));
    }

    #[test]
    fn a_request_that_ends_when_another_arrives_does_not_overlap_it() {
        assert_eq!(gather_flow(&[(0, 5), (5, 9)]).max_in_flight, Some(1));
    }

    #[test]
    fn variation_distinguishes_regular_arrivals_from_bursts() {
        let tick: Vec<(i64, i64)> = (0..100).map(|i| (i * 1000, Request::UNKNOWN_NS)).collect();
        let even = gather_flow(&tick);
        assert!(even.variation.is_some_and(|v| v < 1e-6));
        assert_eq!((even.mean_in_flight, even.max_in_flight, even.busy_share), (None, None, None));
        let bursts: Vec<(i64, i64)> = (0..100).map(|i| (i / 10 * 1_000_000 + i % 10, Request::UNKNOWN_NS)).collect();
        assert!(gather_flow(&bursts).variation.is_some_and(|v| v > 2.0));
    }

    #[test]
    fn the_peak_is_the_busiest_second() {
        let s = 1_000_000_000;
        let request = |ns: i64| (ns, Request::UNKNOWN_NS);
        let flow = gather_flow(&[request(0), request(5 * s), request(5 * s + 1), request(6 * s - 1), request(6 * s)]);
        assert_eq!((flow.peak_per_s, flow.peak_second), (3, 5));
    }

    #[test]
    fn earlier_arrivals_extend_the_time_but_make_no_peak() {
        let s = 1_000_000_000;
        let arrival = |ns: i64| (ns, Request::UNKNOWN_NS);
        // two seconds with a request each, then 50 of the 25 seconds before them, half a second apart
        let earlier = (0..50).map(|i| arrival(s / 2 * i));
        let flow = gather_flow(&[arrival(30 * s), arrival(31 * s)].into_iter().chain(earlier).collect::<Vec<_>>());
        assert_eq!((flow.from_ns, flow.duration_s(), flow.requests_per_s), (Some(0), 31.0, Some(52.0 / 31.0)));
        assert_eq!(flow.peak_per_s, 1);
    }

    #[test]
    fn the_maximum_is_unknown_beyond_the_limit() {
        let crowd: Vec<(i64, i64)> = (0..20).map(|i| (i, 1000)).collect();
        let flow = gather_flow(&crowd);
        assert_eq!(flow.max_in_flight, None);
        assert!(flow.mean_in_flight.is_some_and(|mean| mean > 19.0));
    }

    #[test]
    fn a_clock_that_goes_back_gives_finite_results() {
        let flow = gather_flow(&[(100, 50), (i64::MAX, i64::MAX), (0, 10), (i64::MIN + 1, 7)]);
        assert_eq!(flow.completed, 2);
        assert!(flow.busy_share.is_some_and(f64::is_finite));
    }
}

//! Detects sequential requests, also in interleaved streams.

use diskwright_base::Histogram;

/// Largest number of streams that are followed at once on a device. A request that begins where a stream ended
/// continues it; any other request begins a new stream, which replaces the least recently used one.
pub const MAX_STREAMS: usize = 32;
/// End of a stream that does not exist: no request begins there.
const NO_STREAM: u64 = u64::MAX;

/// A row of consecutive requests.
#[derive(Clone, Copy, Default)]
struct TraceStream {
    requests: u64,
    bytes: u64,
    /// Number of the request that last continued it.
    last_used: u64,
}

/// The streams of a device.
pub(super) struct TraceStreams {
    /// End of each stream, or [`NO_STREAM`]; stored separately, because all are searched for each request.
    ends: [u64; MAX_STREAMS],
    streams: [TraceStream; MAX_STREAMS],
    /// End of the previous request, bytes.
    last_end: Option<u64>,
    /// Number of requests so far.
    clock: u64,
    /// Number of requests that had a previous request.
    followers: u64,
    /// Number of requests that begin where the previous one ended.
    pub(super) follows_previous: u64,
    /// Number of requests that begin where any stream ended.
    pub(super) follows_stream: u64,
    /// Number of seeks that were forward.
    forward: u64,
    pub(super) run_requests: Histogram,
    pub(super) run_bytes: Histogram,
    pub(super) seek_bytes: Histogram,
}

impl TraceStreams {
    pub(super) fn new() -> TraceStreams {
        TraceStreams {
            ends: [NO_STREAM; MAX_STREAMS],
            streams: [TraceStream::default(); MAX_STREAMS],
            last_end: None,
            clock: 0,
            followers: 0,
            follows_previous: 0,
            follows_stream: 0,
            forward: 0,
            run_requests: Histogram::new(),
            run_bytes: Histogram::new(),
            seek_bytes: Histogram::new(),
        }
    }

    /// Adds a request from one offset to another, bytes.
    pub(super) fn push(&mut self, from: u64, to: u64) {
        if let Some(last) = self.last_end {
            self.followers += 1;
            if from == last {
                self.follows_previous += 1;
            } else {
                self.seek_bytes.record(from.abs_diff(last));
                self.forward += u64::from(from > last);
            }
        }
        self.last_end = Some(to);
        self.clock += 1;
        let stream = match self.ends.iter().position(|end| *end == from) {
            Some(stream) => {
                self.follows_stream += 1;
                stream
            }
            None => self.begin_stream(),
        };
        self.ends[stream] = to;
        let TraceStream { requests, bytes, last_used } = &mut self.streams[stream];
        *requests += 1;
        *bytes = bytes.saturating_add(to - from);
        *last_used = self.clock;
    }

    /// Ends the least recently used stream and returns its index.
    fn begin_stream(&mut self) -> usize {
        let oldest = (0..MAX_STREAMS).min_by_key(|&s| self.streams[s].last_used).unwrap_or(0);
        self.end_stream(oldest);
        oldest
    }

    fn end_stream(&mut self, stream: usize) {
        let TraceStream { requests, bytes, .. } = std::mem::take(&mut self.streams[stream]);
        if requests > 0 {
            self.run_requests.record(requests);
            self.run_bytes.record(bytes);
        }
        self.ends[stream] = NO_STREAM;
    }

    pub(super) fn end_all_streams(&mut self) {
        (0..MAX_STREAMS).for_each(|stream| self.end_stream(stream));
    }

    pub(super) fn merge_streams(&mut self, other: &TraceStreams) {
        self.followers += other.followers;
        self.follows_previous += other.follows_previous;
        self.follows_stream += other.follows_stream;
        self.forward += other.forward;
        self.run_requests.merge(&other.run_requests);
        self.run_bytes.merge(&other.run_bytes);
        self.seek_bytes.merge(&other.seek_bytes);
    }

    /// Returns `count` as a share of the requests that had a previous request.
    pub(super) fn share_of_followers(&self, count: u64) -> Option<f64> {
        (self.followers > 0).then(|| count as f64 / self.followers as f64)
    }

    pub(super) fn seeks_forward(&self) -> Option<f64> {
        (!self.seek_bytes.is_empty()).then(|| self.forward as f64 / self.seek_bytes.count() as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn follow_requests(requests: &[(u64, u64)]) -> TraceStreams {
        let mut streams = TraceStreams::new();
        requests.iter().for_each(|(from, to)| streams.push(*from, *to));
        streams.end_all_streams();
        streams
    }

    #[test]
    fn consecutive_requests_are_one_run() {
        let streams = follow_requests(&[(0, 10), (10, 20), (20, 30), (100, 110)]);
        assert_eq!(
            (streams.share_of_followers(streams.follows_previous), streams.share_of_followers(streams.follows_stream)),
            (Some(2.0 / 3.0), Some(2.0 / 3.0))
        );
        assert_eq!((streams.run_requests.count(), streams.run_requests.max()), (2, Some(3)));
        assert_eq!((streams.run_bytes.max(), streams.seek_bytes.sum()), (Some(30), 70));
        assert_eq!(streams.seeks_forward(), Some(1.0));
    }

    #[test]
    fn interleaved_streams_are_sequential_only_as_streams() {
        let turns: Vec<(u64, u64)> = (0..10).flat_map(|i| [(i, i + 1), (1000 + i, 1001 + i)]).collect();
        let streams = follow_requests(&turns);
        assert_eq!((streams.follows_previous, streams.follows_stream), (0, 18));
        assert_eq!((streams.run_requests.count(), streams.run_requests.min()), (2, Some(10)));
        assert_eq!(streams.seeks_forward(), Some(10.0 / 19.0));
    }

    #[test]
    fn too_many_streams_look_random() {
        let turns: Vec<(u64, u64)> =
            (0..10).flat_map(|i| (0..=MAX_STREAMS as u64).map(move |s| (s * 1000 + i, s * 1000 + i + 1))).collect();
        assert_eq!(follow_requests(&turns).follows_stream, 0);
        assert_eq!(follow_requests(&[(5, 6)]).share_of_followers(0), None);
    }
}

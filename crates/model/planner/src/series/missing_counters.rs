//! Completes the counters of a device that a log lacks from those that it has: rates from queue and response time,
//! bytes from sizes, reads and writes from what is counted together. What was assumed is kept, for the answer to name.

use std::collections::BTreeSet;

/// Share of reads where a log does not separate reads and writes at all: that of office file service, as in the file
/// server of NT Magazine 1998 (126 of 199) and the NetBench mix of `probe`.
const ASSUMED_READ_SHARE: f64 = 2.0 / 3.0;

/// A way in which values were completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Completion {
    /// Requests are the queue over the response time.
    RequestsByLittlesLaw,
    /// Reads and writes are shares of the requests, by their bytes.
    SplitByBytes,
    /// By the time that disks spend on either.
    SplitByQueue,
    /// By [`ASSUMED_READ_SHARE`].
    SplitByAssumption,
    /// Reads and writes have the same size.
    EqualSizes,
}

impl Completion {
    /// Fields of the demand that it affects.
    pub fn fields(self) -> &'static [&'static str] {
        match self {
            Completion::EqualSizes => &["read_size_bytes", "write_size_bytes"],
            _ => &["reads_per_s", "writes_per_s"],
        }
    }

    /// What was assumed.
    pub fn text(self) -> &'static str {
        match self {
            Completion::RequestsByLittlesLaw => {
                "the log counts no requests; they are the average queue over the seconds per transfer (Little's law)"
            }
            Completion::SplitByBytes => {
                "the log counts reads and writes together, perhaps with discards; split by their bytes"
            }
            Completion::SplitByQueue => {
                "the log counts reads and writes together; split by the queues of reads and writes"
            }
            Completion::SplitByAssumption => {
                "the log counts reads and writes together; two thirds reads are assumed, as on the file server of NT \
                 Magazine 1998: record Disk Reads/sec and Disk Writes/sec"
            }
            Completion::EqualSizes => {
                "the log does not show the sizes of reads and of writes; both have the size of all requests"
            }
        }
    }
}

/// Values of a device by counter, a row of ticks each; a counter that the log lacks has `None`.
pub struct CounterRows<'a> {
    /// Reads per second.
    pub reads: &'a mut Option<Vec<f64>>,
    /// Writes per second.
    pub writes: &'a mut Option<Vec<f64>>,
    /// Requests of both kinds per second.
    pub transfers: &'a mut Option<Vec<f64>>,
    /// Bytes per second, read.
    pub read_bytes: &'a mut Option<Vec<f64>>,
    /// Bytes per second, written.
    pub write_bytes: &'a mut Option<Vec<f64>>,
    /// Bytes per second of both kinds.
    pub bytes: &'a Option<Vec<f64>>,
    /// Sizes of reads, writes and all requests, bytes.
    pub sizes: [&'a Option<Vec<f64>>; 3],
    /// Queues of reads, writes and all requests.
    pub queues: [&'a Option<Vec<f64>>; 3],
    /// Seconds per request.
    pub response: &'a Option<Vec<f64>>,
}

impl CounterRows<'_> {
    /// Fills the rows that can be computed from others.
    pub fn complete(self, done: &mut BTreeSet<Completion>) {
        let CounterRows { reads, writes, transfers, read_bytes, write_bytes, bytes, sizes, queues, response } = self;
        if reads.is_none() && writes.is_none() {
            if transfers.is_none() {
                *transfers = combine(queues[2], response, requests_by_littles_law);
                if transfers.is_some() {
                    done.insert(Completion::RequestsByLittlesLaw);
                }
            }
            if let Some(all) = transfers {
                let by_bytes = share_of(read_bytes, write_bytes);
                let by_queue = share_of(queues[0], queues[1]);
                let (share, how) = match (by_bytes, by_queue) {
                    (Some(share), _) => (share, Completion::SplitByBytes),
                    (None, Some(share)) => (share, Completion::SplitByQueue),
                    (None, None) => (vec![ASSUMED_READ_SHARE; all.len()], Completion::SplitByAssumption),
                };
                done.insert(how);
                *reads = Some(all.iter().zip(&share).map(|(all, share)| all * share).collect());
                *writes = Some(all.iter().zip(&share).map(|(all, share)| all * (1.0 - share)).collect());
            }
        }
        complete_bytes(read_bytes, reads, sizes[0]);
        complete_bytes(write_bytes, writes, sizes[1]);
        if read_bytes.is_some() || write_bytes.is_some() {
            return;
        }
        // a derived total may itself need reads and writes, so a size is the second choice
        let size =
            combine(bytes, &sum_of(reads, writes), |bytes, count| if count == 0.0 { 0.0 } else { bytes / count });
        let Some(size) = size.or_else(|| sizes[2].clone()) else { return };
        done.insert(Completion::EqualSizes);
        let size = Some(size);
        complete_bytes(read_bytes, reads, &size);
        complete_bytes(write_bytes, writes, &size);
    }
}

/// Requests per second from a queue and the seconds of a request. A queue whose requests take no time is a gap: the log
/// contradicts itself.
fn requests_by_littles_law(queue: f64, seconds: f64) -> f64 {
    if queue == 0.0 {
        0.0
    } else if seconds > 0.0 {
        queue / seconds
    } else {
        f64::NAN
    }
}

/// Bytes of requests, where the log has their rate and size.
fn complete_bytes(bytes: &mut Option<Vec<f64>>, count: &Option<Vec<f64>>, size: &Option<Vec<f64>>) {
    if bytes.is_none() {
        // the size of no request is unknown, its bytes are not
        *bytes = combine(count, size, |count, size| if count == 0.0 { 0.0 } else { count * size });
    }
}

fn sum_of(first: &Option<Vec<f64>>, second: &Option<Vec<f64>>) -> Option<Vec<f64>> {
    combine(first, second, |a, b| a + b)
}

/// Share of the first in both, tick by tick; 0 where both are 0.
fn share_of(first: &Option<Vec<f64>>, second: &Option<Vec<f64>>) -> Option<Vec<f64>> {
    combine(first, second, |a, b| if a + b > 0.0 { a / (a + b) } else { 0.0 * (a + b) })
}

fn combine(first: &Option<Vec<f64>>, second: &Option<Vec<f64>>, value: fn(f64, f64) -> f64) -> Option<Vec<f64>> {
    let (first, second) = (first.as_ref()?, second.as_ref()?);
    debug_assert_eq!(first.len(), second.len(), "rows of one frame");
    Some(first.iter().zip(second).map(|(a, b)| value(*a, *b)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows that a test gives by name; all others are missing.
    #[derive(Default)]
    struct Rows {
        reads: Option<Vec<f64>>,
        writes: Option<Vec<f64>>,
        transfers: Option<Vec<f64>>,
        read_bytes: Option<Vec<f64>>,
        write_bytes: Option<Vec<f64>>,
        bytes: Option<Vec<f64>>,
        sizes: [Option<Vec<f64>>; 3],
        queues: [Option<Vec<f64>>; 3],
        response: Option<Vec<f64>>,
    }

    impl Rows {
        fn complete(&mut self) -> Vec<Completion> {
            let mut done = BTreeSet::new();
            let rows = CounterRows {
                reads: &mut self.reads,
                writes: &mut self.writes,
                transfers: &mut self.transfers,
                read_bytes: &mut self.read_bytes,
                write_bytes: &mut self.write_bytes,
                bytes: &self.bytes,
                sizes: self.sizes.each_ref(),
                queues: self.queues.each_ref(),
                response: &self.response,
            };
            rows.complete(&mut done);
            done.into_iter().collect()
        }
    }

    #[test]
    fn total_bytes_are_divided_by_requests() {
        let mut rows = Rows { reads: Some(vec![30.0, 0.0]), writes: Some(vec![10.0, 0.0]), ..Rows::default() };
        rows.bytes = Some(vec![400_000.0, 0.0]);
        assert_eq!(rows.complete(), [Completion::EqualSizes]);
        assert_eq!((rows.read_bytes, rows.write_bytes), (Some(vec![300_000.0, 0.0]), Some(vec![100_000.0, 0.0])));
    }

    #[test]
    fn requests_are_the_queue_over_the_response_time() {
        // NT Magazine 1998: sixteen in flight, 0.121 s each are 132 a second
        let mut rows = Rows { response: Some(vec![0.121]), ..Rows::default() };
        rows.queues[2] = Some(vec![16.0]);
        rows.bytes = Some(vec![132.0 * 8192.0]);
        let expected = [Completion::RequestsByLittlesLaw, Completion::SplitByAssumption, Completion::EqualSizes];
        assert_eq!(rows.complete(), expected);
        let (reads, writes) = (rows.reads.unwrap()[0], rows.writes.unwrap()[0]);
        assert!((reads + writes - 132.2).abs() < 0.1 && (reads - 2.0 * writes).abs() < 1e-9, "{reads} {writes}");
    }

    #[test]
    fn reads_and_writes_are_split_by_what_the_log_has() {
        let mut rows = Rows { transfers: Some(vec![100.0]), ..Rows::default() };
        rows.queues = [Some(vec![3.0]), Some(vec![1.0]), None];
        assert_eq!(rows.complete(), [Completion::SplitByQueue]);
        assert_eq!((rows.reads.unwrap(), rows.writes.unwrap()), (vec![75.0], vec![25.0]));
        let mut rows = Rows { transfers: Some(vec![100.0]), ..Rows::default() };
        (rows.read_bytes, rows.write_bytes) = (Some(vec![1e6]), Some(vec![4e6]));
        assert_eq!(rows.complete(), [Completion::SplitByBytes]);
        assert_eq!((rows.reads.unwrap(), rows.writes.unwrap()), (vec![20.0], vec![80.0]));
    }

    #[test]
    fn sizes_of_reads_and_writes_give_their_bytes() {
        let mut rows = Rows { reads: Some(vec![10.0]), writes: Some(vec![0.0]), ..Rows::default() };
        // the size of no write is a gap
        rows.sizes = [Some(vec![4096.0]), Some(vec![f64::NAN]), None];
        assert_eq!(rows.complete(), []);
        assert_eq!((rows.read_bytes.unwrap(), rows.write_bytes.unwrap()), (vec![40_960.0], vec![0.0]));
    }

    #[test]
    fn a_queue_whose_requests_take_no_time_is_a_gap() {
        let mut rows = Rows { response: Some(vec![0.0, 0.0]), ..Rows::default() };
        rows.queues[2] = Some(vec![3.0, 0.0]);
        rows.complete();
        let reads = rows.reads.unwrap();
        assert!(reads[0].is_nan() && reads[1] == 0.0, "{reads:?}");
    }

    #[test]
    fn gaps_stay_gaps_and_nothing_is_made_of_nothing() {
        let mut rows = Rows { transfers: Some(vec![f64::NAN]), bytes: Some(vec![1e6]), ..Rows::default() };
        rows.complete();
        assert!(rows.reads.unwrap()[0].is_nan() && rows.read_bytes.unwrap()[0].is_nan());
        let mut rows = Rows { bytes: Some(vec![1e6]), ..Rows::default() };
        assert_eq!(rows.complete(), []);
        assert_eq!((rows.reads, rows.read_bytes), (None, None));
    }
}

//! Data that a recorder keeps for each interval: latency distributions by device and operation, and sums that the
//! kernel's own counters lack (time in each stage, sequential requests, reads during flushes, requesting threads).

use std::collections::{HashMap, VecDeque};

use diskwright_base::LatencyOperation;
use diskwright_base::latency::{BUCKET_COUNT, bucket_index};

use crate::event::TracedOperation;
use crate::pairing::TracedRequest;
use crate::summary::CountedRequests;

/// Largest number of completed reads that are remembered: a flush that completes later may have begun before they
/// ended.
const MAX_REMEMBERED_READS: usize = 4096;
/// Largest number of pairs of thread and operation that are distinguished on a device.
const MAX_REQUESTERS: usize = 128;

/// Returns the operation as it is recorded; `None` for a caller's flush: the device's flush is recorded
/// instead.
pub fn recorded_operation(operation: TracedOperation) -> Option<LatencyOperation> {
    match operation {
        TracedOperation::Read => Some(LatencyOperation::Read),
        TracedOperation::Write => Some(LatencyOperation::Write),
        TracedOperation::SyncWrite => Some(LatencyOperation::SyncWrite),
        TracedOperation::Flush => Some(LatencyOperation::Flush),
        TracedOperation::Discard => Some(LatencyOperation::Discard),
        TracedOperation::FlushCall => None,
    }
}

/// Number of requests and their total time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CountAndTime {
    /// Number of requests.
    pub count: u64,
    /// Their total time, nanoseconds.
    pub ns: u64,
}

impl CountAndTime {
    fn add_duration(&mut self, ns: u64) {
        self.count += 1;
        self.ns += ns;
    }

    fn merge(&mut self, other: CountAndTime) {
        self.count += other.count;
        self.ns += other.ns;
    }
}

/// Sums that are known only if single requests are traced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SingleRequestSums {
    /// Time of waiting for a tag in the queue, nanoseconds.
    pub tag_wait_ns: u64,
    /// Requests whose position could be compared with that of the previous one.
    pub comparable: u64,
    /// Those that began where the previous one ended.
    pub sequential: u64,
    /// Reads that were in flight during a flush.
    pub during_flush: CountAndTime,
    /// The other reads.
    pub outside_flush: CountAndTime,
}

impl SingleRequestSums {
    fn merge(&mut self, other: &SingleRequestSums) {
        self.tag_wait_ns += other.tag_wait_ns;
        self.comparable += other.comparable;
        self.sequential += other.sequential;
        self.during_flush.merge(other.during_flush);
        self.outside_flush.merge(other.outside_flush);
    }
}

/// Requests of a thread to a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequesterSums {
    /// Name of the thread.
    pub comm: [u8; 16],
    /// Number of requests.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Their time at the device, nanoseconds.
    pub device_ns: u64,
}

/// A device in an interval.
#[derive(Clone, Debug, Default)]
pub struct DeviceInterval {
    /// Number of requests by operation and bucket of latency.
    pub steps: HashMap<LatencyOperation, Box<[u64]>>,
    /// Number of requests that completed.
    pub requests: u64,
    /// Total time at the driver and the device, nanoseconds.
    pub device_ns: u64,
    /// Total time before the device, nanoseconds.
    pub before_ns: u64,
    /// For some requests the two times are not known separately: both sums lack them.
    pub is_unsplit: bool,
    /// `None` if the kernel counts requests, so that single ones are not visible.
    pub singles: Option<SingleRequestSums>,
    /// Sums by thread and operation.
    pub requesters: HashMap<(i32, TracedOperation), RequesterSums>,
}

impl DeviceInterval {
    fn steps_mut(&mut self, operation: LatencyOperation) -> &mut [u64] {
        self.steps.entry(operation).or_insert_with(|| vec![0; BUCKET_COUNT].into_boxed_slice())
    }

    /// Adds a later interval.
    pub fn merge(&mut self, other: DeviceInterval) {
        for (operation, steps) in other.steps {
            self.steps_mut(operation).iter_mut().zip(&steps).for_each(|(sum, count)| *sum += count);
        }
        self.requests += other.requests;
        self.device_ns += other.device_ns;
        self.before_ns += other.before_ns;
        self.is_unsplit |= other.is_unsplit;
        if let Some(singles) = other.singles {
            self.singles.get_or_insert_default().merge(&singles);
        }
        for (key, sums) in other.requesters {
            self.add_requester(key, &sums);
        }
    }

    fn add_requester(&mut self, mut key: (i32, TracedOperation), sums: &RequesterSums) {
        if self.requesters.len() >= MAX_REQUESTERS && !self.requesters.contains_key(&key) {
            key.0 = 0;
        }
        let requester = self.requesters.entry(key).or_default();
        requester.comm = if key.0 == 0 { [0; 16] } else { sums.comm };
        requester.requests += sums.requests;
        requester.bytes += sums.bytes;
        requester.device_ns += sums.device_ns;
    }
}

/// State of a device that is kept from one interval to the next.
#[derive(Default)]
struct DeviceHistory {
    /// Sector after the last read, and after the last write.
    ends: [Option<u64>; 2],
    /// Time at which the last flush completed.
    flushed_ns: Option<u64>,
    /// End and duration, nanoseconds, of reads that no flush has claimed.
    reads: VecDeque<(u64, u64)>,
    /// Reads that a flush claimed but that are still in a sum of reads outside of flushes.
    claimed: CountAndTime,
}

/// Collects intervals.
#[derive(Default)]
pub struct IntervalCollector {
    devices: HashMap<u32, DeviceInterval>,
    histories: HashMap<u32, DeviceHistory>,
}

impl IntervalCollector {
    /// Adds a request.
    pub fn add_request(&mut self, request: &TracedRequest) {
        let Some(operation) = recorded_operation(request.operation) else { return };
        let history = self.histories.entry(request.device).or_default();
        let device = self.devices.entry(request.device).or_default();
        let latency = request.latency_ns();
        let at_device_ns = request.device_ns().unwrap_or(latency);
        device.steps_mut(operation)[bucket_index(latency)] += 1;
        device.requests += 1;
        device.device_ns += at_device_ns;
        device.before_ns += latency.saturating_sub(at_device_ns);
        let singles = device.singles.get_or_insert_default();
        singles.tag_wait_ns += request.queue_ns().unwrap_or(0);
        history.compare_position(request, singles);
        match operation {
            LatencyOperation::Read => history.add_read(request, singles),
            LatencyOperation::Flush => history.add_flush(request, singles),
            _ => {}
        }
        let bytes = u64::from(request.sectors) * 512;
        let sums = RequesterSums { comm: request.comm, requests: 1, bytes, device_ns: at_device_ns };
        device.add_requester((request.pid, request.operation), &sums);
    }

    /// Adds requests that were counted in the kernel; `is_split` if it counts the time at the device separately.
    pub fn add_counted(&mut self, device: u32, operation: TracedOperation, counted: &CountedRequests, is_split: bool) {
        let Some(operation) = recorded_operation(operation) else { return };
        let device = self.devices.entry(device).or_default();
        let steps = device.steps_mut(operation);
        counted.latency.iter().for_each(|(step, count)| steps[*step] += count);
        device.requests += counted.latency.iter().map(|(_, count)| count).sum::<u64>();
        device.is_unsplit |= !is_split;
        if !is_split {
            return;
        }
        // for a device without requests the whole latency counts as the device's
        let at_device_ns = if counted.device.is_empty() { counted.latency_ns } else { counted.device_ns };
        device.device_ns += at_device_ns;
        device.before_ns += counted.latency_ns.saturating_sub(at_device_ns);
    }

    /// Removes and returns the data since the last call, by the kernel's device number.
    pub fn take_intervals(&mut self) -> HashMap<u32, DeviceInterval> {
        std::mem::take(&mut self.devices)
    }
}

impl DeviceHistory {
    /// Counts whether a request begins where the previous one of its direction ended.
    fn compare_position(&mut self, request: &TracedRequest, singles: &mut SingleRequestSums) {
        let direction = match request.operation {
            TracedOperation::Read => 0,
            TracedOperation::Write | TracedOperation::SyncWrite => 1,
            _ => return,
        };
        if request.sectors == 0 {
            return;
        }
        if let Some(end) = self.ends[direction].replace(request.sector.saturating_add(u64::from(request.sectors))) {
            singles.comparable += 1;
            singles.sequential += u64::from(end == request.sector);
        }
    }

    /// Adds a read. One that began before the last flush completed was concurrent with it. A flush that is still in
    /// flight is not known yet: the read counts as outside until the flush completes and claims it.
    fn add_read(&mut self, request: &TracedRequest, singles: &mut SingleRequestSums) {
        let ns = request.latency_ns();
        if self.flushed_ns.is_some_and(|flushed| request.arrived_ns() < flushed) {
            singles.during_flush.add_duration(ns);
            return;
        }
        singles.outside_flush.add_duration(ns);
        self.subtract_claimed(singles);
        if self.reads.len() == MAX_REMEMBERED_READS {
            self.reads.pop_front();
        }
        self.reads.push_back((request.done_ns, ns));
    }

    /// Adds a flush. It claims the reads that ended after it began.
    fn add_flush(&mut self, request: &TracedRequest, singles: &mut SingleRequestSums) {
        let begin = request.issued_ns.unwrap_or_else(|| request.arrived_ns());
        // reads are sorted by their ends: the newest are last
        while self.reads.back().is_some_and(|(done, _)| *done > begin) {
            let Some((_, ns)) = self.reads.pop_back() else { break };
            singles.during_flush.add_duration(ns);
            self.claimed.add_duration(ns);
        }
        self.subtract_claimed(singles);
        self.flushed_ns = Some(request.done_ns);
    }

    /// Subtracts claimed reads from those outside of flushes. Reads of an interval that was already taken are
    /// subtracted from later ones, so that the sums over a longer time are right.
    fn subtract_claimed(&mut self, singles: &mut SingleRequestSums) {
        let outside = &mut singles.outside_flush;
        let (count, ns) = (self.claimed.count.min(outside.count), self.claimed.ns.min(outside.ns));
        (outside.count, outside.ns) = (outside.count - count, outside.ns - ns);
        (self.claimed.count, self.claimed.ns) = (self.claimed.count - count, self.claimed.ns - ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn request(operation: TracedOperation, sector: u64, from_ms: u64, done_ms: u64) -> TracedRequest {
        TracedRequest {
            device: 1,
            operation,
            sector,
            sectors: if operation == TracedOperation::Flush { 0 } else { 8 },
            queued_ns: Some(from_ms * MS),
            started_ns: Some(from_ms * MS + 1000),
            issued_ns: Some(from_ms * MS + 5000),
            done_ns: done_ms * MS,
            depth: 1,
            requeues: 0,
            pid: 7,
            comm: *b"db\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
            error: 0,
        }
    }

    /// A flush from 10 to 30 ms: the read from 5 to 15 and that from 12 to 31 are beside it; those from 0 to 4 and
    /// from 32 to 33 are not.
    #[test]
    fn reads_are_counted_by_a_concurrent_flush() {
        use TracedOperation::{Flush, Read};
        let mut collector = IntervalCollector::default();
        for (operation, from, done) in [(Read, 0, 4), (Read, 5, 15), (Flush, 10, 30), (Read, 12, 31), (Read, 32, 33)] {
            collector.add_request(&request(operation, 0, from, done));
        }
        let device = collector.take_intervals().remove(&1).expect("the device");
        let singles = device.singles.expect("single requests");
        assert_eq!(singles.during_flush, CountAndTime { count: 2, ns: 29 * MS });
        assert_eq!(singles.outside_flush, CountAndTime { count: 2, ns: 5 * MS });
        assert_eq!((device.requests, device.steps[&LatencyOperation::Read].iter().sum::<u64>()), (5, 4));
        // 1 us for the place and 4 in the scheduler, of each
        assert_eq!((device.before_ns, singles.tag_wait_ns), (25_000, 5_000));
        assert!(collector.take_intervals().is_empty());
    }

    #[test]
    fn a_flush_claims_reads_of_an_interval_that_was_taken() {
        use TracedOperation::{Flush, Read};
        let mut collector = IntervalCollector::default();
        collector.add_request(&request(Read, 0, 10, 20));
        let mut sum = collector.take_intervals().remove(&1).expect("the device");
        collector.add_request(&request(Flush, 0, 5, 40));
        collector.add_request(&request(Read, 0, 50, 53));
        collector.add_request(&request(Read, 0, 60, 74));
        sum.merge(collector.take_intervals().remove(&1).expect("the device"));
        let singles = sum.singles.expect("single requests");
        assert_eq!(singles.during_flush, CountAndTime { count: 1, ns: 10 * MS });
        assert_eq!(singles.outside_flush, CountAndTime { count: 2, ns: 17 * MS });
    }

    #[test]
    fn order_continues_over_intervals_separately_for_reads_and_writes() {
        use TracedOperation::{Read, SyncWrite, Write};
        let mut collector = IntervalCollector::default();
        collector.add_request(&request(Read, 0, 0, 1));
        collector.add_request(&request(Write, 800, 0, 1));
        let mut sum = collector.take_intervals().remove(&1).expect("the device");
        collector.add_request(&request(Read, 8, 1, 2));
        collector.add_request(&request(SyncWrite, 808, 1, 2));
        collector.add_request(&request(Read, 8000, 2, 3));
        sum.merge(collector.take_intervals().remove(&1).expect("the device"));
        let singles = sum.singles.expect("single requests");
        assert_eq!((singles.comparable, singles.sequential, sum.requests), (3, 2, 5));
        assert_eq!(sum.requesters[&(7, Read)].requests, 3);
    }

    #[test]
    fn what_the_kernel_counted_has_no_single_requests() {
        let mut collector = IntervalCollector::default();
        let counted = CountedRequests {
            latency: vec![(3, 5)],
            device: vec![(2, 5)],
            latency_ns: 6000,
            device_ns: 5000,
            ..CountedRequests::default()
        };
        collector.add_counted(1, TracedOperation::Read, &counted, true);
        collector.add_counted(1, TracedOperation::FlushCall, &counted, true);
        let device = collector.take_intervals().remove(&1).expect("the device");
        assert_eq!((device.requests, device.device_ns, device.before_ns), (5, 5000, 1000));
        assert!(device.singles.is_none() && device.requesters.is_empty() && !device.is_unsplit);
        // what is not known apart is not taken for the device's
        collector.add_counted(1, TracedOperation::Read, &counted, true);
        collector.add_counted(1, TracedOperation::Read, &counted, false);
        let device = collector.take_intervals().remove(&1).expect("the device");
        assert_eq!((device.requests, device.device_ns, device.is_unsplit), (10, 5000, true));
    }
}

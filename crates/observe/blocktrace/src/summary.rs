//! Sums of requests by device and operation: number, time in each stage, size, distance, requests in flight. Also the
//! slowest requests, the requesting threads, and latency over time.

use std::collections::HashMap;

use crate::event::TracedOperation;
use crate::latency::{LatencyHistogram, MAX_LATENCY_BITS, MIN_LATENCY_BITS, bucket_edges};
use crate::pairing::TracedRequest;

/// Largest number of requests that are listed as the slowest.
const MAX_SLOWEST: usize = 20;
/// Largest number of triples of device, thread and operation that are distinguished; more threads are counted together.
const MAX_REQUESTERS: usize = 4096;
/// Rows of a heat map: one per doubling of latency, one below, and one above them.
pub const HEAT_ROWS: usize = (MAX_LATENCY_BITS - MIN_LATENCY_BITS) as usize + 2;
/// Largest number of columns of a heat map; over a longer time, columns get wider.
const MAX_COLUMNS: usize = 512;
/// Number of size classes: up to 512 B, 1 KiB, …, 1 GiB and more.
pub const SIZE_CLASSES: usize = 22;

/// The requests of one operation on one device.
#[derive(Clone, Debug, Default)]
pub struct OperationSummary {
    /// Requests that completed.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Requests that failed.
    pub errors: u64,
    /// Time from the first known event of a request to its end.
    pub latency: LatencyHistogram,
    /// Wait for a tag in the queue.
    pub queue: LatencyHistogram,
    /// Wait in the scheduler and in the submitter's batch.
    pub scheduler: LatencyHistogram,
    /// Time at the driver and the device.
    pub device: LatencyHistogram,
    /// Requests by size class.
    pub sizes: [u64; SIZE_CLASSES],
    /// Requests that began where the previous one ended.
    pub sequential: u64,
    /// Requests whose position could be compared with that of the previous one.
    pub comparable: u64,
    /// Sum, over the comparable requests, of the distance between the end of the previous request and this one, bytes.
    pub distance_bytes: u128,
    /// Sum, over the issued requests, of the number of requests at the driver when it was issued, itself included.
    pub depth_sum: u64,
    /// Number of issued requests.
    pub depth_count: u64,
    /// Largest number of requests at the driver.
    pub max_depth: u32,
    /// Sector after the previous request.
    end: Option<u64>,
}

/// Returns the class of a size: the index of the smallest power of two that is not less, from 512 B on.
pub fn size_class(bytes: u64) -> usize {
    let power = bytes.max(1).next_power_of_two().trailing_zeros() as usize;
    power.saturating_sub(9).min(SIZE_CLASSES - 1)
}

impl OperationSummary {
    fn add_request(&mut self, request: &TracedRequest) {
        let bytes = u64::from(request.sectors) * 512;
        self.requests += 1;
        self.bytes += bytes;
        self.errors += u64::from(request.error != 0);
        self.latency.record(request.latency_ns());
        request.queue_ns().into_iter().for_each(|ns| self.queue.record(ns));
        request.scheduler_ns().into_iter().for_each(|ns| self.scheduler.record(ns));
        request.device_ns().into_iter().for_each(|ns| self.device.record(ns));
        if request.depth > 0 {
            self.depth_sum += u64::from(request.depth);
            self.depth_count += 1;
            self.max_depth = self.max_depth.max(request.depth);
        }
        if request.sectors == 0 {
            return;
        }
        self.sizes[size_class(bytes)] += 1;
        if let Some(end) = self.end.replace(request.sector.saturating_add(u64::from(request.sectors))) {
            self.comparable += 1;
            self.sequential += u64::from(end == request.sector);
            if end != request.sector {
                self.distance_bytes += u128::from(end.abs_diff(request.sector)) * 512;
            }
        }
    }

    /// Share of requests that began where the previous one, in order of completion, ended.
    pub fn sequential_share(&self) -> Option<f64> {
        (self.comparable > 0).then(|| self.sequential as f64 / self.comparable as f64)
    }

    /// Mean distance of requests that did not begin where the previous one ended, bytes.
    pub fn mean_distance_bytes(&self) -> Option<f64> {
        let distant = self.comparable - self.sequential;
        (distant > 0).then(|| self.distance_bytes as f64 / distant as f64)
    }

    /// Mean number of requests at the driver when a request was issued, itself included.
    pub fn mean_depth(&self) -> Option<f64> {
        (self.depth_count > 0).then(|| self.depth_sum as f64 / self.depth_count as f64)
    }
}

/// Requests of a thread to a device with one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequesterSummary {
    /// The disk.
    pub device: u32,
    /// Id of the thread; 0 stands for threads beyond the limit, or unknown ones.
    pub pid: i32,
    /// Its name.
    pub comm: [u8; 16],
    /// The operation.
    pub operation: TracedOperation,
    /// Number of requests.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Sum of their times at the device, nanoseconds.
    pub device_ns: u64,
}

/// Latency over time: requests by time and doubling of latency.
#[derive(Clone, Debug)]
pub struct HeatMap {
    /// Start of the first column, nanoseconds.
    pub from_ns: u64,
    /// Width of a column, nanoseconds.
    pub column_ns: u64,
    columns: Vec<[u32; HEAT_ROWS]>,
}

/// Returns the row of a latency: 0 is below 1.024 us, 1 up to 2.048 us, …
pub fn heat_row(ns: u64) -> usize {
    if ns < 1 << MIN_LATENCY_BITS {
        return 0;
    }
    ((63 - ns.leading_zeros()).min(MAX_LATENCY_BITS) - MIN_LATENCY_BITS + 1) as usize
}

impl HeatMap {
    /// Creates a map that begins at a time; columns are this wide until there are too many.
    pub fn new(from_ns: u64, column_ns: u64) -> HeatMap {
        HeatMap { from_ns, column_ns: column_ns.max(1), columns: Vec::new() }
    }

    /// The columns, oldest first: requests by row.
    pub fn columns(&self) -> &[[u32; HEAT_ROWS]] {
        &self.columns
    }

    /// Counts requests that completed at `done_ns`, with latencies of this row.
    pub fn add_requests(&mut self, done_ns: u64, row: usize, count: u64) {
        let mut column = (done_ns.saturating_sub(self.from_ns) / self.column_ns) as usize;
        while column >= MAX_COLUMNS {
            self.double_column_width();
            column /= 2;
        }
        if column >= self.columns.len() {
            self.columns.resize(column + 1, [0; HEAT_ROWS]);
        }
        let cell = &mut self.columns[column][row.min(HEAT_ROWS - 1)];
        *cell = cell.saturating_add(u32::try_from(count).unwrap_or(u32::MAX));
    }

    fn double_column_width(&mut self) {
        self.column_ns = self.column_ns.saturating_mul(2);
        let add_pair = |pair: &[[u32; HEAT_ROWS]]| {
            let mut sum = pair[0];
            for (cell, second) in sum.iter_mut().zip(pair.get(1).into_iter().flatten()) {
                *cell = cell.saturating_add(*second);
            }
            sum
        };
        self.columns = self.columns.chunks(2).map(add_pair).collect();
    }
}

/// All sums of the requests of a period.
#[derive(Clone, Debug)]
pub struct RequestSummary {
    operations: HashMap<(u32, TracedOperation), OperationSummary>,
    heat_maps: HashMap<(u32, TracedOperation), HeatMap>,
    requesters: HashMap<(u32, i32, TracedOperation), RequesterSummary>,
    slowest: Vec<TracedRequest>,
    from_ns: u64,
    column_ns: u64,
}

impl RequestSummary {
    /// Creates an empty summary that begins at a time; heat maps have columns of this width at first.
    pub fn new(from_ns: u64, column_ns: u64) -> RequestSummary {
        RequestSummary {
            operations: HashMap::new(),
            heat_maps: HashMap::new(),
            requesters: HashMap::new(),
            slowest: Vec::new(),
            from_ns,
            column_ns,
        }
    }

    /// Adds a request.
    pub fn add_request(&mut self, request: &TracedRequest) {
        let key = (request.device, request.operation);
        self.operations.entry(key).or_default().add_request(request);
        self.heat_map(key).add_requests(request.done_ns, heat_row(request.latency_ns()), 1);
        self.add_requester(request);
        let latency = request.latency_ns();
        if self.slowest.len() < MAX_SLOWEST || self.slowest.last().is_some_and(|last| last.latency_ns() < latency) {
            let index = self.slowest.partition_point(|slower| slower.latency_ns() >= latency);
            self.slowest.insert(index, *request);
            self.slowest.truncate(MAX_SLOWEST);
        }
    }

    /// Adds requests that were counted in the kernel. In the heat map they count as completed at `done_ns`.
    pub fn add_counted(&mut self, device: u32, operation: TracedOperation, done_ns: u64, counted: &CountedRequests) {
        let sum = self.operations.entry((device, operation)).or_default();
        let requests: u64 = counted.latency.iter().map(|(_, count)| count).sum();
        sum.requests += requests;
        sum.bytes += counted.bytes;
        sum.errors += counted.errors;
        sum.latency.add_buckets(counted.latency.iter().copied(), counted.latency_ns, counted.longest_ns);
        let device_buckets = counted.device.iter().copied();
        sum.device.add_buckets(device_buckets, counted.device_ns, counted.longest_device_ns);
        let map = self.heat_map((device, operation));
        for (step, count) in &counted.latency {
            map.add_requests(done_ns, heat_row(bucket_edges(*step).0), *count);
        }
    }

    fn heat_map(&mut self, key: (u32, TracedOperation)) -> &mut HeatMap {
        let (from_ns, column_ns) = (self.from_ns, self.column_ns);
        self.heat_maps.entry(key).or_insert_with(|| HeatMap::new(from_ns, column_ns))
    }

    fn add_requester(&mut self, request: &TracedRequest) {
        let mut pid = request.pid;
        if self.requesters.len() >= MAX_REQUESTERS
            && !self.requesters.contains_key(&(request.device, pid, request.operation))
        {
            pid = 0;
        }
        let key = (request.device, pid, request.operation);
        let fresh = RequesterSummary {
            device: request.device,
            pid,
            comm: if pid == 0 { [0; 16] } else { request.comm },
            operation: request.operation,
            requests: 0,
            bytes: 0,
            device_ns: 0,
        };
        let requester = self.requesters.entry(key).or_insert(fresh);
        requester.requests += 1;
        requester.bytes += u64::from(request.sectors) * 512;
        requester.device_ns = requester.device_ns.saturating_add(request.device_ns().unwrap_or(0));
    }

    /// The devices that had requests, in order of their numbers.
    pub fn devices(&self) -> Vec<u32> {
        let mut devices: Vec<u32> = self.operations.keys().map(|(device, _)| *device).collect();
        devices.sort_unstable();
        devices.dedup();
        devices
    }

    /// Sums of one operation on one device; `None` where there was no request.
    pub fn find_operation(&self, device: u32, operation: TracedOperation) -> Option<&OperationSummary> {
        self.operations.get(&(device, operation))
    }

    /// Latency over time of one operation on one device.
    pub fn find_heat_map(&self, device: u32, operation: TracedOperation) -> Option<&HeatMap> {
        self.heat_maps.get(&(device, operation))
    }

    /// The slowest requests, the slowest first.
    pub fn slowest(&self) -> &[TracedRequest] {
        &self.slowest
    }

    /// Threads with requests to a device, most time at the device first, then most requests.
    pub fn requesters(&self, device: u32) -> Vec<RequesterSummary> {
        let mut requesters: Vec<RequesterSummary> =
            self.requesters.values().filter(|r| r.device == device).copied().collect();
        requesters.sort_by_key(|r| (std::cmp::Reverse((r.device_ns, r.requests)), r.pid, r.operation));
        requesters
    }
}

/// Requests that were counted in the kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CountedRequests {
    /// Number of requests by bucket of latency.
    pub latency: Vec<(usize, u64)>,
    /// Number of requests by bucket of time at the device.
    pub device: Vec<(usize, u64)>,
    /// Sum of the latencies, nanoseconds.
    pub latency_ns: u64,
    /// Sum of the times at the device, nanoseconds.
    pub device_ns: u64,
    /// Longest latency, nanoseconds.
    pub longest_ns: u64,
    /// Longest time at the device, nanoseconds.
    pub longest_device_ns: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Requests that failed.
    pub errors: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(sector: u64, sectors: u32, from: u64, done: u64) -> TracedRequest {
        TracedRequest {
            device: 1,
            operation: TracedOperation::Read,
            sector,
            sectors,
            queued_ns: Some(from),
            started_ns: Some(from + 10),
            issued_ns: Some(from + 110),
            done_ns: done,
            depth: 2,
            requeues: 0,
            pid: 7,
            comm: *b"reader\0\0\0\0\0\0\0\0\0\0",
            error: 0,
        }
    }

    #[test]
    fn positions_sizes_depths_and_stages_are_summed() {
        let mut summary = RequestSummary::new(0, 1_000_000);
        summary.add_request(&request(0, 8, 0, 10_110));
        summary.add_request(&request(8, 8, 0, 20_110));
        summary.add_request(&request(1016, 16, 0, 30_110));
        let sum = summary.find_operation(1, TracedOperation::Read).expect("reads");
        assert_eq!((sum.requests, sum.bytes, sum.sequential, sum.comparable), (3, 16_384, 1, 2));
        assert_eq!(sum.sequential_share(), Some(0.5));
        // from the end at 16 to 1016: 1000 sectors
        assert_eq!(sum.mean_distance_bytes(), Some(512_000.0));
        assert_eq!((sum.mean_depth(), sum.max_depth), (Some(2.0), 2));
        assert_eq!((sum.sizes[size_class(4096)], sum.sizes[size_class(8192)]), (2, 1));
        assert_eq!((sum.device.mean_ns(), sum.scheduler.mean_ns()), (Some(20_000.0), Some(100.0)));
        assert_eq!((sum.queue.mean_ns(), sum.latency.longest_ns()), (Some(10.0), Some(30_110)));
        assert_eq!(
            summary.slowest().iter().map(TracedRequest::latency_ns).collect::<Vec<_>>(),
            [30_110, 20_110, 10_110]
        );
        let askers = summary.requesters(1);
        assert_eq!((askers.len(), askers[0].pid, askers[0].requests, askers[0].device_ns), (1, 7, 3, 60_000));
        assert_eq!(summary.devices(), [1]);
        assert!(summary.find_operation(1, TracedOperation::Write).is_none());
    }

    #[test]
    fn sizes_fall_into_the_smallest_power_of_two_that_holds_them() {
        let class = |bytes| size_class(bytes);
        assert_eq!((class(0), class(512), class(513), class(4096), class(4097)), (0, 0, 1, 3, 4));
        assert_eq!(class(u64::MAX >> 1), SIZE_CLASSES - 1);
    }

    #[test]
    fn a_heat_map_widens_and_keeps_its_counts() {
        let mut map = HeatMap::new(1000, 10);
        for n in 0..10_000u64 {
            map.add_requests(1000 + n * 10, (n % 3) as usize, 1);
        }
        assert!(map.columns().len() <= MAX_COLUMNS);
        assert_eq!(map.column_ns, 320);
        let sum = |row: usize| map.columns().iter().map(|c| u64::from(c[row])).sum::<u64>();
        assert_eq!((sum(0), sum(1), sum(2), sum(3)), (3334, 3333, 3333, 0));
        assert_eq!((heat_row(0), heat_row(1024), heat_row(2047), heat_row(2048)), (0, 1, 1, 2));
        assert_eq!((heat_row((1 << 36) - 1), heat_row(u64::MAX)), (HEAT_ROWS - 2, HEAT_ROWS - 1));
    }

    #[test]
    fn the_slowest_are_kept_in_order_regardless_of_arrival() {
        let mut summary = RequestSummary::new(0, 1);
        for n in 0..1000u64 {
            summary.add_request(&request(0, 8, 0, 1_000 + n * 7919 % 1000));
        }
        let latencies: Vec<u64> = summary.slowest().iter().map(TracedRequest::latency_ns).collect();
        assert_eq!(latencies, (0..20).map(|n| 1999 - n).collect::<Vec<_>>());
    }
}

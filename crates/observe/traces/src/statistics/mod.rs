//! Statistics of requests, in one pass and bounded memory.
//!
//! Statistics are collected for each device and summed up for all devices. Only what depends on the common clock
//! (arrivals, peak, requests in flight) is collected separately for all devices.

mod device_gatherer;
mod footprint;
mod request_flow;
mod sizes;
mod streams;

use diskwright_base::{Histogram, Operation, Request};

use device_gatherer::DeviceGatherer;
pub use footprint::{Footprint, HOT_SHARES};
pub use request_flow::RequestFlow;
pub use sizes::SizeCounts;
pub use streams::MAX_STREAMS;

/// Largest number of devices with separate statistics; further devices count only in the sum.
pub const MAX_DEVICES: usize = 128;

/// Collector of the statistics of requests.
pub struct Statistics {
    devices: Vec<Option<Box<DeviceGatherer>>>,
    /// All devices beyond [`MAX_DEVICES`] together.
    further_devices: Option<Box<DeviceGatherer>>,
    device_count: usize,
    /// Requests of all devices over time.
    common_flow: request_flow::FlowGatherer,
}

/// Statistics of the requests of one device, or of all.
#[derive(Clone, Debug)]
pub struct RequestStatistics {
    /// Name of the device; empty for all of them.
    pub name: String,
    /// Number of requests.
    pub requests: u64,
    /// Requests and bytes of each operation, in the order of [`Operation::ALL`].
    pub operations: [RequestAmount; 4],
    /// Sizes of reads and writes.
    pub sizes: SizeCounts,
    /// Share of reads and writes that begin where the previous one on the same
    /// device ended.
    pub sequential: Option<f64>,
    /// Share of reads and writes that begin where one of the last [`MAX_STREAMS`] streams ended.
    pub sequential_in_streams: Option<f64>,
    /// Number of consecutive requests in a stream before it ends; 1 is a single
    /// request.
    pub run_requests: Histogram,
    /// Bytes of the consecutive requests of a stream.
    pub run_bytes: Histogram,
    /// Distance from the end of a request to the beginning of the next request to the device, in either direction,
    /// bytes; adjacent requests are left out.
    pub seek_bytes: Histogram,
    /// Share of these distances that are forward.
    pub seeks_forward: Option<f64>,
    /// Time from arrival to issue, nanoseconds.
    pub queue_ns: Histogram,
    /// Time from issue to completion, nanoseconds.
    pub service_ns: Histogram,
    /// Time from arrival to completion of all requests, nanoseconds.
    pub response_ns: Histogram,
    /// Time from arrival to completion of reads, nanoseconds.
    pub read_response_ns: Histogram,
    /// Time from arrival to completion of writes, nanoseconds.
    pub write_response_ns: Histogram,
    /// Arrivals, rates and requests in flight.
    pub flow: RequestFlow,
    /// Part of the disk that reads and writes access.
    pub footprint: Footprint,
}

/// A number of requests and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestAmount {
    /// Number of requests.
    pub requests: u64,
    /// Sum of their lengths, bytes.
    pub bytes: u64,
}

impl RequestStatistics {
    /// Returns requests and bytes of an operation.
    pub fn operation_amount(&self, operation: Operation) -> RequestAmount {
        self.operations[operation as usize]
    }

    /// Returns the share of reads among reads and writes.
    pub fn read_share(&self) -> Option<f64> {
        let (reads, writes) =
            (self.operation_amount(Operation::Read).requests, self.operation_amount(Operation::Write).requests);
        (reads + writes > 0).then(|| reads as f64 / (reads + writes) as f64)
    }

    /// Returns the number of bytes read and written.
    pub fn total_bytes(&self) -> u64 {
        self.operation_amount(Operation::Read).bytes.saturating_add(self.operation_amount(Operation::Write).bytes)
    }
}

/// Statistics of all requests, and of each device.
#[derive(Clone, Debug)]
pub struct TraceReport {
    /// All devices together.
    pub all: RequestStatistics,
    /// Each device with requests, in the order of the trace's list; at
    /// most [`MAX_DEVICES`].
    pub devices: Vec<RequestStatistics>,
    /// Number of requests of further devices, which count only in `all`.
    pub further_device_requests: u64,
}

impl Default for Statistics {
    fn default() -> Statistics {
        Statistics::new()
    }
}

impl Statistics {
    /// Creates a collector without requests.
    pub fn new() -> Statistics {
        Statistics {
            devices: Vec::new(),
            further_devices: None,
            device_count: 0,
            common_flow: request_flow::FlowGatherer::new(1 << 18),
        }
    }

    /// Adds a request. Requests should come in order of arrival; a request that is out of order counts, but not its
    /// interval to the previous request.
    pub fn push(&mut self, request: &Request) {
        let device = usize::from(request.device);
        if self.devices.len() <= device {
            self.devices.resize_with(device + 1, || None);
        }
        if self.devices[device].is_none() && self.device_count < MAX_DEVICES {
            self.device_count += 1;
            self.devices[device] = Some(Box::new(DeviceGatherer::new()));
        }
        let gatherer = match &mut self.devices[device] {
            Some(gatherer) => gatherer,
            None => self.further_devices.get_or_insert_with(|| Box::new(DeviceGatherer::new())),
        };
        gatherer.push(request);
        self.common_flow.push(request);
    }

    /// Computes the statistics. `names` are the devices' names, by number.
    pub fn finish(self, names: &[String]) -> TraceReport {
        let name = |device: usize| names.get(device).cloned().unwrap_or_else(|| device.to_string());
        let mut all = DeviceGatherer::new();
        let mut devices = Vec::new();
        for (device, gatherer) in self.devices.into_iter().enumerate() {
            if let Some(gatherer) = gatherer {
                let gatherer = gatherer.end_streams();
                all.merge_gatherer(&gatherer);
                devices.push(gatherer.into_statistics(name(device)));
            }
        }
        let further_devices = self.further_devices.map(|gatherer| gatherer.discard_streams());
        let further_device_requests = further_devices.as_ref().map_or(0, |gatherer| gatherer.requests);
        if let Some(further_devices) = further_devices {
            all.merge_gatherer(&further_devices);
        }
        let mut all = all.into_statistics(String::new());
        all.flow = self.common_flow.finish();
        TraceReport { all, devices, further_device_requests }
    }

    /// Computes the statistics of these requests.
    pub fn from_requests(requests: impl IntoIterator<Item = Request>, names: &[String]) -> TraceReport {
        let mut statistics = Statistics::new();
        requests.into_iter().for_each(|request| statistics.push(&request));
        statistics.finish(names)
    }
}

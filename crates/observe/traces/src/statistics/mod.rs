//! Statistics of requests, in one pass and bounded memory.
//!
//! Statistics are collected per device; those of all devices are the sum,
//! except what depends on the common clock (arrivals, peak, requests in
//! flight), which is collected twice.

mod flow;
mod footprint;
mod gather;
mod sizes;
mod streams;

use diskwright_base::{Histogram, Operation, Request};

pub use flow::RequestFlow;
pub use footprint::{Footprint, HOT_SHARES};
use gather::DeviceGatherer;
pub use sizes::SizeCounts;
pub use streams::STREAMS;

/// Largest number of devices with separate statistics; further ones count only in the sum.
pub const MOST_DEVICES: usize = 128;

/// Collector of the statistics of requests.
pub struct Statistics {
    devices: Vec<Option<Box<DeviceGatherer>>>,
    /// Devices beyond [`MOST_DEVICES`], together.
    rest: Option<Box<DeviceGatherer>>,
    known: usize,
    common: flow::FlowGatherer,
}

/// Statistics of the requests of one device, or of all.
#[derive(Clone, Debug)]
pub struct Figures {
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
    /// Share that begin where one of the last [`STREAMS`] streams ended.
    pub sequential_in_streams: Option<f64>,
    /// Number of consecutive requests in a stream before it ends; 1 is a single
    /// request.
    pub run_requests: Histogram,
    /// Bytes of the consecutive requests of a stream.
    pub run_bytes: Histogram,
    /// Distance from the end of a request to the beginning of the next on the
    /// device, in either direction, bytes; without adjacent requests.
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
    /// Their lengths added up, bytes.
    pub bytes: u64,
}

impl Figures {
    /// Returns requests and bytes of an operation.
    pub fn of(&self, operation: Operation) -> RequestAmount {
        self.operations[operation as usize]
    }

    /// Returns the share of reads among reads and writes.
    pub fn read_share(&self) -> Option<f64> {
        let (reads, writes) = (self.of(Operation::Read).requests, self.of(Operation::Write).requests);
        (reads + writes > 0).then(|| reads as f64 / (reads + writes) as f64)
    }

    /// Returns the number of bytes read and written.
    pub fn bytes(&self) -> u64 {
        self.of(Operation::Read).bytes.saturating_add(self.of(Operation::Write).bytes)
    }
}

/// Statistics of all requests, and of each device.
#[derive(Clone, Debug)]
pub struct TraceReport {
    /// All devices together.
    pub all: Figures,
    /// Each device with requests, in the order of the trace's list; at
    /// most [`MOST_DEVICES`].
    pub devices: Vec<Figures>,
    /// Number of requests of further devices, which count only in `all`.
    pub of_further_devices: u64,
}

impl Default for Statistics {
    fn default() -> Statistics {
        Statistics::new()
    }
}

impl Statistics {
    /// Creates a collector without requests.
    pub fn new() -> Statistics {
        Statistics { devices: Vec::new(), rest: None, known: 0, common: flow::FlowGatherer::new(1 << 18) }
    }

    /// Adds a request. Requests come in order of arrival; one that is out of order
    /// counts, but not its interval to the previous one.
    pub fn push(&mut self, request: &Request) {
        let device = usize::from(request.device);
        if self.devices.len() <= device {
            self.devices.resize_with(device + 1, || None);
        }
        if self.devices[device].is_none() && self.known < MOST_DEVICES {
            self.known += 1;
            self.devices[device] = Some(Box::new(DeviceGatherer::new()));
        }
        let gather = match &mut self.devices[device] {
            Some(gather) => gather,
            None => self.rest.get_or_insert_with(|| Box::new(DeviceGatherer::new())),
        };
        gather.push(request);
        self.common.push(request);
    }

    /// Computes the statistics. `names` are the devices' names, by number.
    pub fn finish(self, names: &[String]) -> TraceReport {
        let name = |device: usize| names.get(device).cloned().unwrap_or_else(|| device.to_string());
        let mut all = DeviceGatherer::new();
        let mut devices = Vec::new();
        for (device, gather) in self.devices.into_iter().enumerate() {
            if let Some(gather) = gather {
                let gather = gather.end();
                all.add(&gather);
                devices.push(gather.figures(name(device)));
            }
        }
        let rest = self.rest.map(|gather| gather.end_apart());
        let of_further_devices = rest.as_ref().map_or(0, |gather| gather.requests);
        if let Some(rest) = rest {
            all.add(&rest);
        }
        let mut all = all.figures(String::new());
        all.flow = self.common.finish();
        TraceReport { all, devices, of_further_devices }
    }

    /// Computes the statistics of these requests.
    pub fn of(requests: impl IntoIterator<Item = Request>, names: &[String]) -> TraceReport {
        let mut statistics = Statistics::new();
        requests.into_iter().for_each(|request| statistics.push(&request));
        statistics.finish(names)
    }
}

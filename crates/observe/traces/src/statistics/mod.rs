//! What a stream of requests is like, in one pass and bounded memory.
//!
//! Each device is gathered on its own; all of them together are the sum of
//! the devices, but for what depends on their common clock (arrivals, peak,
//! outstanding), which is gathered twice.

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

/// Devices that are gathered one by one; further ones count in the sum only.
pub const MOST_DEVICES: usize = 128;

/// Gathers requests.
pub struct Statistics {
    devices: Vec<Option<Box<DeviceGatherer>>>,
    /// Devices beyond [`MOST_DEVICES`], in one.
    rest: Option<Box<DeviceGatherer>>,
    known: usize,
    common: flow::FlowGatherer,
}

/// What requests of one device, or of all, are like.
#[derive(Clone, Debug)]
pub struct Figures {
    /// The device; empty for all of them.
    pub name: String,
    /// Requests.
    pub requests: u64,
    /// Requests and bytes of each operation, in the order of [`Operation::ALL`].
    pub operations: [RequestAmount; 4],
    /// How large reads and writes are.
    pub sizes: SizeCounts,
    /// Share of reads and writes that begin where the one before on the same
    /// device ended.
    pub sequential: Option<f64>,
    /// Share that begin where one of the last [`STREAMS`] streams ended.
    pub sequential_in_streams: Option<f64>,
    /// Requests one after the other in a stream before it is left; 1 is a
    /// request that nothing followed.
    pub run_requests: Histogram,
    /// Bytes of such a run.
    pub run_bytes: Histogram,
    /// Bytes from the end of a request to the beginning of the next on the
    /// device, in either direction, where they do not touch.
    pub seek_bytes: Histogram,
    /// Share of these that go forward.
    pub seeks_forward: Option<f64>,
    /// Arrival to issue, nanoseconds.
    pub queue_ns: Histogram,
    /// Issue to completion, nanoseconds.
    pub service_ns: Histogram,
    /// Arrival to completion, nanoseconds, of everything.
    pub response_ns: Histogram,
    /// The same of reads.
    pub read_response_ns: Histogram,
    /// The same of writes.
    pub write_response_ns: Histogram,
    /// Arrivals, rates and what is outstanding.
    pub flow: RequestFlow,
    /// What reads and writes touch.
    pub footprint: Footprint,
}

/// A number of requests and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestAmount {
    /// Requests.
    pub requests: u64,
    /// Their lengths added up, bytes.
    pub bytes: u64,
}

impl Figures {
    /// Requests and bytes of an operation.
    pub fn of(&self, operation: Operation) -> RequestAmount {
        self.operations[operation as usize]
    }

    /// Share of reads among reads and writes.
    pub fn read_share(&self) -> Option<f64> {
        let (reads, writes) = (self.of(Operation::Read).requests, self.of(Operation::Write).requests);
        (reads + writes > 0).then(|| reads as f64 / (reads + writes) as f64)
    }

    /// Bytes read and written.
    pub fn bytes(&self) -> u64 {
        self.of(Operation::Read).bytes.saturating_add(self.of(Operation::Write).bytes)
    }
}

/// All requests, and those of each device.
#[derive(Clone, Debug)]
pub struct TraceReport {
    /// All devices together.
    pub all: Figures,
    /// Each device that had a request, in the order of the trace's list; at
    /// most [`MOST_DEVICES`].
    pub devices: Vec<Figures>,
    /// Requests of further devices, which are in `all` only.
    pub of_further_devices: u64,
}

impl Default for Statistics {
    fn default() -> Statistics {
        Statistics::new()
    }
}

impl Statistics {
    /// Nothing gathered.
    pub fn new() -> Statistics {
        Statistics { devices: Vec::new(), rest: None, known: 0, common: flow::FlowGatherer::new(1 << 18) }
    }

    /// Gathers a request. They come in order of arrival; one that does not
    /// counts, but not its distance in time from the one before.
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

    /// Sums up. `names` are the devices' names, by number.
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

    /// Statistics of requests that are at hand.
    pub fn of(requests: impl IntoIterator<Item = Request>, names: &[String]) -> TraceReport {
        let mut statistics = Statistics::new();
        requests.into_iter().for_each(|request| statistics.push(&request));
        statistics.finish(names)
    }
}

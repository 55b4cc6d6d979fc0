//! Collector of the statistics of one device.

use diskwright_base::{Histogram, Operation, Request};

use super::footprint::BlockFollower;
use super::sizes::SizeCounts;
use super::streams::TraceStreams;
use super::{RequestAmount, RequestStatistics, request_flow};

/// Counts of one device's requests so far.
pub(super) struct DeviceGatherer {
    pub(super) requests: u64,
    operations: [RequestAmount; 4],
    sizes: SizeCounts,
    streams: TraceStreams,
    queue_ns: Histogram,
    service_ns: Histogram,
    response_ns: Histogram,
    read_response_ns: Histogram,
    write_response_ns: Histogram,
    flow: request_flow::FlowGatherer,
    accessed_blocks: BlockFollower,
}

impl DeviceGatherer {
    pub(super) fn new() -> DeviceGatherer {
        DeviceGatherer {
            requests: 0,
            operations: [RequestAmount::default(); 4],
            sizes: SizeCounts::default(),
            streams: TraceStreams::new(),
            queue_ns: Histogram::new(),
            service_ns: Histogram::new(),
            response_ns: Histogram::new(),
            read_response_ns: Histogram::new(),
            write_response_ns: Histogram::new(),
            flow: request_flow::FlowGatherer::new(1 << 16),
            accessed_blocks: BlockFollower::new(),
        }
    }

    pub(super) fn push(&mut self, request: &Request) {
        self.requests += 1;
        let amount = &mut self.operations[request.operation as usize];
        amount.requests += 1;
        amount.bytes = amount.bytes.saturating_add(u64::from(request.length_bytes));
        if request.operation.moves_data() {
            self.sizes.push(request.length_bytes, request.operation);
            self.streams.push(request.offset_bytes, request.end_bytes());
            self.accessed_blocks.push(request.device, request.offset_bytes, request.length_bytes);
        }
        self.queue_ns.record_many(request.queue_ns().unwrap_or(0), request.queue_ns().is_some().into());
        self.service_ns.record_many(request.service_ns().unwrap_or(0), request.service_ns().is_some().into());
        if let Some(response) = request.response_ns() {
            self.response_ns.record(response);
            match request.operation {
                Operation::Read => self.read_response_ns.record(response),
                Operation::Write => self.write_response_ns.record(response),
                Operation::Flush | Operation::Discard => {}
            }
        }
        self.flow.push(request);
    }

    /// Ends the streams after the last request.
    pub(super) fn end_streams(mut self) -> DeviceGatherer {
        self.streams.end_all_streams();
        self
    }

    /// Discards the streams, which mean nothing for requests of several devices.
    pub(super) fn discard_streams(mut self) -> DeviceGatherer {
        self.streams = TraceStreams::new();
        self
    }

    /// Adds the counts of another device, except those that depend on time.
    pub(super) fn merge_gatherer(&mut self, other: &DeviceGatherer) {
        self.requests += other.requests;
        for (sum, amount) in self.operations.iter_mut().zip(&other.operations) {
            sum.requests += amount.requests;
            sum.bytes = sum.bytes.saturating_add(amount.bytes);
        }
        self.sizes.merge_counts(&other.sizes);
        self.streams.merge_streams(&other.streams);
        self.queue_ns.merge(&other.queue_ns);
        self.service_ns.merge(&other.service_ns);
        self.response_ns.merge(&other.response_ns);
        self.read_response_ns.merge(&other.read_response_ns);
        self.write_response_ns.merge(&other.write_response_ns);
        self.accessed_blocks.merge_follower(&other.accessed_blocks);
    }

    pub(super) fn into_statistics(self, name: String) -> RequestStatistics {
        let streams = self.streams;
        RequestStatistics {
            name,
            requests: self.requests,
            operations: self.operations,
            sizes: self.sizes,
            sequential: streams.share_of_followers(streams.follows_previous),
            sequential_in_streams: streams.share_of_followers(streams.follows_stream),
            seeks_forward: streams.seeks_forward(),
            run_requests: streams.run_requests,
            run_bytes: streams.run_bytes,
            seek_bytes: streams.seek_bytes,
            queue_ns: self.queue_ns,
            service_ns: self.service_ns,
            response_ns: self.response_ns,
            read_response_ns: self.read_response_ns,
            write_response_ns: self.write_response_ns,
            flow: self.flow.finish(),
            footprint: self.accessed_blocks.footprint(),
        }
    }
}

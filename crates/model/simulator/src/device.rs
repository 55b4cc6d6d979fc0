//! The end point of all requests: a device of one of the simulated kinds.

use std::sync::Arc;

use crate::drive;
use crate::flash::FlashModel;
use crate::io::{BLOCK_BYTES, transfer_time_ns};
use crate::service_time::ServiceTimeDistribution;
use crate::volume::VolumeSpec;

/// The unchanging part of a device; devices of one kind share it.
#[derive(Clone, Debug)]
pub enum DeviceModel {
    /// A mechanical drive. It holds up to [`drive::Model::queue_slots`] requests and serves one of them at a time, in
    /// the order of [`drive::Model::queue_policy`].
    Mechanical(Arc<drive::Model>),
    /// An SSD.
    Flash(Arc<FlashModel>),
    /// A cloud volume.
    Volume(Arc<VolumeSpec>),
    /// Servers with a service time and nothing else, for comparison with queueing theory.
    Plain(Arc<PlainSpec>),
}

/// A number of equal servers with one queue.
#[derive(Clone, Debug, PartialEq)]
pub struct PlainSpec {
    /// Its name.
    pub name: String,
    /// Capacity in blocks of 512 bytes.
    pub blocks: u64,
    /// Number of servers.
    pub servers: u32,
    /// Service time of a request of any kind.
    pub service: ServiceTimeDistribution,
    /// Transfer rate of each server, bytes/s; the transfer adds to the service time. Infinite if size does not matter.
    pub bytes_per_s: f64,
}

impl DeviceModel {
    /// Its name.
    pub fn name(&self) -> &str {
        match self {
            DeviceModel::Mechanical(model) => model.name(),
            DeviceModel::Flash(model) => model.name(),
            DeviceModel::Volume(spec) => &spec.name,
            DeviceModel::Plain(spec) => &spec.name,
        }
    }

    /// Returns the same device on a channel with this rate, bytes/s: a mechanical drive sends its blocks at the slower
    /// rate of the channel and its own interface.
    pub fn with_channel_rate(&self, rate: Option<u64>) -> DeviceModel {
        let block = rate.map_or(0, |rate| transfer_time_ns(BLOCK_BYTES, rate.max(1)));
        match self {
            DeviceModel::Mechanical(model) if block > model.channel().read_block.min(model.channel().write_block) => {
                DeviceModel::Mechanical(Arc::new(model.with_channel_block_time(block)))
            }
            other => other.clone(),
        }
    }

    /// Capacity in blocks of 512 bytes.
    pub fn block_count(&self) -> u64 {
        match self {
            DeviceModel::Mechanical(model) => model.capacity_blocks(),
            DeviceModel::Flash(model) => model.capacity_blocks(),
            DeviceModel::Volume(spec) => spec.blocks,
            DeviceModel::Plain(spec) => spec.blocks,
        }
    }

    /// Number of requests that the device accepts before further ones wait outside.
    pub fn slot_count(&self) -> u32 {
        match self {
            DeviceModel::Mechanical(model) => model.queue_slots(),
            DeviceModel::Flash(model) => model.queue_slots(),
            DeviceModel::Volume(spec) => spec.slots,
            DeviceModel::Plain(spec) => spec.servers,
        }
    }
}

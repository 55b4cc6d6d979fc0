//! Whatever requests end at: one of the kinds of devices that are simulated.

use std::sync::Arc;

use crate::drive;
use crate::flash::FlashModel;
use crate::io::{BLOCK_BYTES, transfer_time};
use crate::spread::ServiceTimeDistribution;
use crate::volume::VolumeSpec;

/// A device, as far as it never changes; those of one kind share it.
#[derive(Clone, Debug)]
pub enum DeviceModel {
    /// A mechanical drive. It holds up to [`drive::Model::slots`] requests and serves one of them
    /// at a time, in the order of [`drive::Model::policy`].
    Mechanical(Arc<drive::Model>),
    /// An SSD.
    Flash(Arc<FlashModel>),
    /// A cloud volume.
    Volume(Arc<VolumeSpec>),
    /// Servers with a time of service and nothing else, for queueing truth.
    Plain(Arc<PlainSpec>),
}

/// So many equal servers with one queue.
#[derive(Clone, Debug, PartialEq)]
pub struct PlainSpec {
    /// What it is called.
    pub name: String,
    /// Blocks of 512 bytes that it holds.
    pub blocks: u64,
    /// Servers.
    pub servers: u32,
    /// Time of a request, whatever it is.
    pub service: ServiceTimeDistribution,
    /// Bytes a second of each server, on top of that time; infinite where size does not matter.
    pub bytes_per_s: f64,
}

impl DeviceModel {
    /// What it is called.
    pub fn name(&self) -> &str {
        match self {
            DeviceModel::Mechanical(model) => model.name(),
            DeviceModel::Flash(model) => model.name(),
            DeviceModel::Volume(spec) => &spec.name,
            DeviceModel::Plain(spec) => &spec.name,
        }
    }

    /// The same on a channel of so many bytes a second: a mechanical drive sends its blocks no faster than
    /// the slower one of the channel and its own interface.
    pub fn on_channel(&self, rate: Option<u64>) -> DeviceModel {
        let block = rate.map_or(0, |rate| transfer_time(BLOCK_BYTES, rate.max(1)));
        match self {
            DeviceModel::Mechanical(model) if block > model.channel().read_block.min(model.channel().write_block) => {
                DeviceModel::Mechanical(Arc::new(model.on_channel(block)))
            }
            other => other.clone(),
        }
    }

    /// Blocks of 512 bytes that it holds.
    pub fn blocks(&self) -> u64 {
        match self {
            DeviceModel::Mechanical(model) => model.blocks(),
            DeviceModel::Flash(model) => model.blocks(),
            DeviceModel::Volume(spec) => spec.blocks,
            DeviceModel::Plain(spec) => spec.blocks,
        }
    }

    /// Requests that it takes before the others wait outside.
    pub fn slots(&self) -> u32 {
        match self {
            DeviceModel::Mechanical(model) => model.slots(),
            DeviceModel::Flash(model) => model.slots(),
            DeviceModel::Volume(spec) => spec.slots,
            DeviceModel::Plain(spec) => spec.servers,
        }
    }
}

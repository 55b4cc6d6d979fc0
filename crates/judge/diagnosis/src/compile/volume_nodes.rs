//! Nodes for the load of cloud volumes and of their instance as a share of what the provider allows.

use diskwright_base::Device;
use diskwright_base::cloud_volume::{REQUEST_BYTES, RateCap};

use crate::compile::node_builder::{NodeBuilder, RuleScope};
use crate::sums::{NodeId, ProgramNode, VolumeLoad, VolumeNodes};

/// Counters of a load: reads, bytes read, writes and bytes written per second.
pub(crate) const LOAD_COUNTERS: [&str; 4] = ["reads_per_s", "read_bytes_per_s", "writes_per_s", "write_bytes_per_s"];
/// Counters of a load of which a log tells no direction; they count as reads.
pub(crate) const PLAIN_COUNTERS: [&str; 2] = ["transfers_per_s", "bytes_per_s"];

impl<'a> NodeBuilder<'a> {
    /// Load of a volume as a share of its limits, those of its bursts or of its baseline.
    pub(crate) fn volume_use(&mut self, scope: &RuleScope<'a>, limit: fn(RateCap) -> f64) -> Option<NodeId> {
        let device = self.schema_index.find_device(scope.instance())?;
        let volume = device.cloud_volume.as_ref().filter(|volume| volume.is_possible())?;
        let load = self.volume_load(device)?;
        let limits = [volume.requests, volume.bytes].map(limit);
        Some(self.push_volume_use(&device.name, VolumeNodes { volumes: vec![load], limits }))
    }

    /// Load of all volumes of the instance as a share of its limits, those of its bursts or of its baseline.
    pub(crate) fn instance_use(&mut self, limit: fn(RateCap) -> f64) -> Option<NodeId> {
        let topology = self.schema_index.topology?;
        let limits = topology.cloud_instance.as_ref()?.caps()?.map(limit);
        let volumes: Vec<VolumeLoad> = topology.cloud_volumes().filter_map(|device| self.volume_load(device)).collect();
        (!volumes.is_empty()).then(|| self.push_volume_use("the instance", VolumeNodes { volumes, limits }))
    }

    fn push_volume_use(&mut self, name: &str, nodes: VolumeNodes) -> NodeId {
        // the limits are part of the key: a later note may bring others
        self.push(format!("volume use@{name} {nodes:?}"), ProgramNode::VolumeUse(Box::new(nodes)))
    }

    fn volume_load(&mut self, device: &'a Device) -> Option<VolumeLoad> {
        let mut node = |name: &str| self.counter_node(&format!("physical_disk.{name}"), &device.name);
        let split = LOAD_COUNTERS.map(&mut node);
        let plain = PLAIN_COUNTERS.map(&mut node);
        let nodes = match (split, plain) {
            ([Some(reads), Some(read_bytes), Some(writes), Some(write_bytes)], _) => {
                [reads, read_bytes, writes, write_bytes]
            }
            (_, [Some(transfers), Some(bytes)]) => {
                let nothing = self.push_constant(0.0);
                [transfers, bytes, nothing, nothing]
            }
            _ => return None,
        };
        let volume = device.cloud_volume.as_ref().filter(|volume| volume.is_possible());
        Some(VolumeLoad {
            nodes,
            request_bytes: volume.map_or(REQUEST_BYTES, |volume| volume.request_bytes) as f64,
            write_cost: volume.map_or(1.0, |volume| volume.write_cost),
        })
    }
}

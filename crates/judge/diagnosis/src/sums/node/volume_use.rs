//! Load of cloud volumes as a share of what their provider allows.

use diskwright_base::cloud_volume::counted_requests;

use crate::sums::node::{Chunk, NodeColumn, NodeColumns, NodeId, clear_weights_of_nan, pass_gap};

/// Volumes, and the limits for them together.
#[derive(Clone, Debug)]
pub(crate) struct VolumeNodes {
    pub volumes: Vec<VolumeLoad>,
    /// Requests and bytes per second that are allowed.
    pub limits: [f64; 2],
}

/// The load of a volume, and how its provider counts it.
#[derive(Clone, Debug)]
pub(crate) struct VolumeLoad {
    /// Reads, bytes read, writes and bytes written per second.
    pub nodes: [NodeId; 4],
    /// Largest request that counts as one, bytes.
    pub request_bytes: f64,
    /// Requests that a write counts for.
    pub write_cost: f64,
}

impl VolumeNodes {
    /// Nodes that this one reads.
    pub fn operands(&self) -> impl Iterator<Item = NodeId> {
        self.volumes.iter().flat_map(|volume| volume.nodes)
    }
}

/// Requests and bytes per second that a provider counts, of reads, bytes read, writes and bytes written per second.
pub(crate) fn counted_load(values: [f64; 4], request_bytes: f64, write_cost: f64) -> [f64; 2] {
    let [reads, read_bytes, writes, write_bytes] = values;
    let requests = counted_requests(reads, read_bytes, request_bytes)
        + write_cost * counted_requests(writes, write_bytes, request_bytes);
    [requests, read_bytes + write_bytes]
}

impl NodeColumns<'_> {
    /// Computes the share of the limits that is used: that of requests or that of bytes, whichever is larger.
    pub(super) fn compare_with_volume_limits(&self, measured: &VolumeNodes, chunk: &Chunk<'_>, out: &mut NodeColumn) {
        for tick in 0..chunk.len() {
            let (mut sums, mut gaps) = ([0.0; 2], 0.0);
            for volume in &measured.volumes {
                let columns = volume.nodes.map(|node| self.node_column(node));
                gaps += columns.iter().map(|column| pass_gap(column.weights[tick])).sum::<f64>();
                let load =
                    counted_load(columns.map(|column| column.values[tick]), volume.request_bytes, volume.write_cost);
                sums = [sums[0] + load[0], sums[1] + load[1]];
            }
            let [requests, bytes] = [sums[0] / measured.limits[0], sums[1] / measured.limits[1]];
            out.values[tick] = if bytes > requests { bytes } else { requests };
            out.weights[tick] = chunk.seconds[tick] + gaps;
        }
        clear_weights_of_nan(out);
    }
}

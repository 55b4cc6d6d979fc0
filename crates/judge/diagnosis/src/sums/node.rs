//! Computes quantities as columns. A program for a schema is a list of nodes, each computed from cells or from earlier
//! nodes, a chunk of ticks at a time.
//!
//! A node gives two columns: values, and weights for means over ticks. A weight of `NaN` is a gap. A weight of 0 means
//! that there was no event to measure (no reads, no read latency); the value is then `NaN` and no comparison holds.
//! [`pass_gap`] passes a gap on.

pub(crate) mod volume_use;

use std::ops::Range;

use diskwright_base::{CounterPlan, Frame};

use crate::rules::{DeviceCeiling, DeviceLoad};
use volume_use::VolumeNodes;

/// Position of a node in its program.
pub(crate) type NodeId = usize;

/// Number of ticks that are evaluated at a time: few enough that the columns of one instance stay in the first-level
/// cache.
pub(crate) const CHUNK_TICKS: usize = 256;

/// A computed quantity.
#[derive(Clone, Debug)]
pub(crate) enum ProgramNode {
    /// A counter of an instance. A total has the weight 1 at each tick, so that it adds up.
    Counter { plan: CounterPlan, is_total: bool },
    /// The same value at every tick.
    Constant(f64),
    /// Sum over instances.
    Sum(Vec<NodeId>),
    /// Mean over instances.
    Mean(Vec<NodeId>),
    /// Mean over instances, each with its own weight.
    Weighted(Vec<NodeId>),
    /// Largest of the instances.
    Max(Vec<NodeId>),
    /// `(first + plus - minus) * times / over / per`.
    Formula(Box<Formula>),
    /// Operations per second on each member of an array (NT Magazine 1998).
    MemberLoad { reads: NodeId, writes: NodeId, factor: f64, members: f64 },
    /// The median of an array's members and its neighbors, for [`ProgramNode::MemberRatio`]; members of less weight
    /// than `min_weight` do not count.
    MemberMedian { members: Vec<NodeId>, min_weight: f64 },
    /// A member's value divided by the median of the other members, or by `floor` if that is larger.
    MemberRatio { own: NodeId, median: NodeId, floor: f64, min_weight: f64 },
    /// A disk's latency divided by that of the slowest other disk with the same rate; twins are latency and rate.
    TwinRatio { own_latency: NodeId, own_rate: NodeId, twins: Vec<(NodeId, NodeId)> },
    /// 1 where the node is above 0, else 0.
    Positive(NodeId),
    /// 1 at ticks at which none of the nodes has a value, else 0.
    NoneKnown(Vec<NodeId>),
    /// A device's load compared with its measured ceiling.
    CeilingUse(Box<CeilingNodes>),
    /// Load of cloud volumes as a share of their limits.
    VolumeUse(Box<VolumeNodes>),
    /// Share of disks' traffic that is swapping.
    SwapShare(Box<SwapNodes>),
    /// A part over its total, from 0 to 1; 0 where the total is 0.
    Share { part: NodeId, total: NodeId },
}

/// Smallest rate of a disk that is compared with others, transfers per second.
const MIN_TWIN_RATE: f64 = 5.0;
/// Difference up to which two rates count as the same load.
const MAX_TWIN_DIFFERENCE: f64 = 0.1;

/// A device's load, and its measured ceiling.
#[derive(Clone, Debug)]
pub(crate) struct CeilingNodes {
    pub reads: NodeId,
    pub writes: NodeId,
    pub read_bytes: NodeId,
    pub write_bytes: NodeId,
    /// Seconds per transfer, to compare with the latency at queue depth 1; `None` to compute the share of the ceiling.
    pub latency: Option<NodeId>,
    pub ceiling: DeviceCeiling,
}

/// Swap traffic, and the traffic of the disks that it may go to. Counters that the log lacks are `None`.
#[derive(Clone, Debug)]
pub(crate) struct SwapNodes {
    pub pages_in: Option<NodeId>,
    pub pages_out: Option<NodeId>,
    pub faults: Option<NodeId>,
    pub bytes: Option<NodeId>,
    pub transfers: Option<NodeId>,
    /// Bytes per second that go to zram.
    pub in_memory: Option<NodeId>,
    /// Page size of the machine, bytes.
    pub page_bytes: f64,
}

impl SwapNodes {
    fn node_ids(&self) -> [Option<NodeId>; 6] {
        [self.pages_in, self.pages_out, self.faults, self.bytes, self.transfers, self.in_memory]
    }

    /// The share at a tick, of the values in the order of [`SwapNodes::node_ids`].
    fn swap_share(&self, values: [Option<f64>; 6]) -> f64 {
        let [pages_in, pages_out, faults, bytes, transfers, in_memory] = values;
        let (pages_in, pages_out) = (pages_in.unwrap_or(0.0), pages_out.unwrap_or(0.0));
        let swapped_bytes = (pages_in + pages_out) * self.page_bytes;
        let on_disk = (swapped_bytes - in_memory.unwrap_or(0.0)).max(0.0);
        let by_bytes = bytes.filter(|b| *b > 0.0).map_or(0.0, |bytes| on_disk / bytes);
        // a swap-in reads a cluster of eight pages by default; a swap-out is written in batches of 32 pages
        let reads = faults.map_or(pages_in / 8.0, |faults| faults.min(pages_in));
        let requests = (reads + pages_out / 32.0) * if swapped_bytes > 0.0 { on_disk / swapped_bytes } else { 0.0 };
        let by_requests = transfers.filter(|t| *t > 0.0).map_or(0.0, |transfers| requests / transfers);
        by_bytes.max(by_requests).min(1.0)
    }
}

/// A rule's quantity: `(first + plus - minus) * times / over / per`.
#[derive(Clone, Debug)]
pub(crate) struct Formula {
    pub first: NodeId,
    pub plus: Vec<NodeId>,
    pub minus: Vec<NodeId>,
    pub times: NodeFactor,
    pub over: NodeFactor,
    pub per: NodeFactor,
}

/// A factor or divisor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum NodeFactor {
    /// No factor.
    One,
    Number(f64),
    Node(NodeId),
}

impl NodeFactor {
    fn node_id(&self) -> Option<NodeId> {
        match self {
            NodeFactor::Node(id) => Some(*id),
            _ => None,
        }
    }
}

impl ProgramNode {
    /// Nodes that this one reads.
    pub fn operands(&self) -> Vec<NodeId> {
        match self {
            ProgramNode::Counter { .. } | ProgramNode::Constant(_) => Vec::new(),
            ProgramNode::Sum(ids)
            | ProgramNode::Mean(ids)
            | ProgramNode::Weighted(ids)
            | ProgramNode::Max(ids)
            | ProgramNode::NoneKnown(ids) => ids.clone(),
            ProgramNode::Formula(f) => {
                let factors = [f.times, f.over, f.per].into_iter().filter_map(|f| f.node_id());
                let sums = f.plus.iter().chain(&f.minus).copied();
                std::iter::once(f.first).chain(sums).chain(factors).collect()
            }
            ProgramNode::MemberLoad { reads, writes, .. } => vec![*reads, *writes],
            ProgramNode::MemberMedian { members, .. } => members.clone(),
            ProgramNode::MemberRatio { own, median, .. } => vec![*own, *median],
            ProgramNode::TwinRatio { own_latency, own_rate, twins } => {
                twins.iter().flat_map(|(latency, rate)| [*latency, *rate]).chain([*own_latency, *own_rate]).collect()
            }
            ProgramNode::Positive(id) => vec![*id],
            ProgramNode::CeilingUse(m) => {
                [m.reads, m.writes, m.read_bytes, m.write_bytes].into_iter().chain(m.latency).collect()
            }
            ProgramNode::VolumeUse(measured) => measured.operands().collect(),
            ProgramNode::SwapShare(swapping) => swapping.node_ids().into_iter().flatten().collect(),
            ProgramNode::Share { part, total } => vec![*part, *total],
        }
    }
}

/// A range of a frame's ticks under evaluation.
pub(crate) struct Chunk<'a> {
    pub frame: &'a Frame,
    /// Positions in the frame.
    pub range: Range<usize>,
    /// Length of each tick, `NaN` where unknown.
    pub seconds: &'a [f64],
}

impl Chunk<'_> {
    /// Number of ticks.
    pub fn len(&self) -> usize {
        self.range.len()
    }
}

/// Columns of a node for the chunk under evaluation.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeColumn {
    pub values: Vec<f64>,
    pub weights: Vec<f64>,
    /// Filled only by [`ProgramNode::MemberMedian`], whose values and weights are gaps.
    members: MemberMedians,
    /// True where any weight is a gap.
    pub gap: bool,
}

/// Values around the median of an array's members at each tick; `NaN` where too few of them count.
#[derive(Clone, Debug, Default)]
struct MemberMedians {
    /// The greatest value below the median.
    below: Vec<f64>,
    /// The median where the number of members is odd, else `NaN`.
    middle: Vec<f64>,
    /// The least value above the median.
    above: Vec<f64>,
    /// Scratch space.
    sorted: Vec<f64>,
}

impl MemberMedians {
    /// The median of the members without the one that has this value. It follows from the median of all members and the
    /// neighbors of that median.
    fn median_without(&self, value: f64, tick: usize) -> f64 {
        let (below, middle, above) = (self.below[tick], self.middle[tick], self.above[tick]);
        if middle.is_nan() {
            if value <= below { above } else { below }
        } else if value < middle {
            (middle + above) / 2.0
        } else if value > middle {
            (below + middle) / 2.0
        } else {
            (below + above) / 2.0
        }
    }
}

impl NodeColumn {
    fn resize_columns(&mut self, len: usize) {
        self.values.resize(len, 0.0);
        self.weights.resize(len, 0.0);
    }
}

/// Columns of all nodes: that of `node` is `slots[slot_of[node]]`.
pub(crate) struct NodeColumns<'a> {
    pub slot_of: &'a [usize],
    pub slots: &'a mut [NodeColumn],
}

impl NodeColumns<'_> {
    /// Columns of a node.
    pub fn node_column(&self, node: NodeId) -> &NodeColumn {
        &self.slots[self.slot_of[node]]
    }

    /// Computes a node whose operands have been computed.
    pub fn evaluate_node(&mut self, id: NodeId, node: &ProgramNode, chunk: &Chunk<'_>) {
        let mut out = std::mem::take(&mut self.slots[self.slot_of[id]]);
        out.resize_columns(chunk.len());
        self.compute_node(node, chunk, &mut out);
        out.gap = has_gap(&out.weights);
        self.slots[self.slot_of[id]] = out;
    }

    fn compute_node(&self, node: &ProgramNode, chunk: &Chunk<'_>, out: &mut NodeColumn) {
        match node {
            ProgramNode::Counter { plan, is_total } => {
                plan.compute_weighted_values(
                    chunk.frame,
                    chunk.range.clone(),
                    chunk.seconds,
                    &mut out.values,
                    &mut out.weights,
                );
                if *is_total {
                    out.weights.iter_mut().for_each(|w| *w = pass_gap(*w) + 1.0);
                }
            }
            ProgramNode::Constant(value) => {
                out.values.fill(*value);
                out.weights.copy_from_slice(chunk.seconds);
            }
            ProgramNode::Sum(ids) => self.sum_nodes(ids, 1.0, chunk, out),
            ProgramNode::Mean(ids) => self.sum_nodes(ids, 1.0 / ids.len().max(1) as f64, chunk, out),
            ProgramNode::Weighted(ids) => self.weighted_mean(ids, out),
            ProgramNode::Max(ids) => self.max_nodes(ids, chunk, out),
            ProgramNode::Formula(formula) => self.compute_formula(formula, chunk, out),
            ProgramNode::MemberLoad { reads, writes, factor, members } => {
                let (reads, writes) = (self.node_column(*reads), self.node_column(*writes));
                for tick in 0..chunk.len() {
                    out.values[tick] = (reads.values[tick] + factor * writes.values[tick]) / members;
                    out.weights[tick] = chunk.seconds[tick] + pass_gap(reads.weights[tick] + writes.weights[tick]);
                }
            }
            ProgramNode::MemberMedian { members, min_weight } => self.find_member_median(members, *min_weight, out),
            ProgramNode::MemberRatio { own, median, floor, min_weight } => {
                self.ratio_to_member_median((*own, *median), *floor, *min_weight, chunk, out)
            }
            ProgramNode::TwinRatio { own_latency, own_rate, twins } => {
                self.ratio_to_twins((*own_latency, *own_rate), twins, chunk, out)
            }
            ProgramNode::Positive(id) => {
                let column = self.node_column(*id);
                for tick in 0..chunk.len() {
                    out.values[tick] = if column.values[tick] > 0.0 { 1.0 } else { 0.0 };
                    out.weights[tick] = column.weights[tick];
                }
            }
            ProgramNode::NoneKnown(ids) => self.mark_unknown(ids, chunk, out),
            ProgramNode::CeilingUse(measured) => self.compare_with_ceiling(measured, chunk, out),
            ProgramNode::VolumeUse(measured) => self.compare_with_volume_limits(measured, chunk, out),
            ProgramNode::SwapShare(swapping) => self.compute_swap_share(swapping, chunk, out),
            ProgramNode::Share { part, total } => {
                let (part, total) = (self.node_column(*part), self.node_column(*total));
                for tick in 0..chunk.len() {
                    let share = part.values[tick] / total.values[tick];
                    let share = if share > 1.0 { 1.0 } else { share };
                    out.values[tick] = if total.values[tick] > 0.0 { share } else { 0.0 };
                    out.weights[tick] = chunk.seconds[tick] + pass_gap(part.weights[tick] + total.weights[tick]);
                }
            }
        }
    }

    fn mark_unknown(&self, ids: &[NodeId], chunk: &Chunk<'_>, out: &mut NodeColumn) {
        for tick in 0..chunk.len() {
            let is_unknown = ids.iter().all(|id| self.node_column(*id).weights[tick].is_nan());
            out.values[tick] = f64::from(u8::from(is_unknown));
        }
        out.weights.copy_from_slice(chunk.seconds);
    }

    fn compute_swap_share(&self, swapping: &SwapNodes, chunk: &Chunk<'_>, out: &mut NodeColumn) {
        let columns = swapping.node_ids().map(|node| node.map(|node| self.node_column(node)));
        for tick in 0..chunk.len() {
            out.values[tick] = swapping.swap_share(columns.map(|slot| slot.map(|slot| slot.values[tick])));
            let gaps: f64 = columns.iter().flatten().map(|slot| pass_gap(slot.weights[tick])).sum();
            out.weights[tick] = chunk.seconds[tick] + gaps;
        }
    }

    fn ratio_to_twins(
        &self,
        own: (NodeId, NodeId),
        twins: &[(NodeId, NodeId)],
        chunk: &Chunk<'_>,
        out: &mut NodeColumn,
    ) {
        let (latency, rate) = (self.node_column(own.0), self.node_column(own.1));
        for tick in 0..chunk.len() {
            let own_rate = rate.values[tick];
            let is_twin =
                |other: f64| own_rate >= MIN_TWIN_RATE && (other / own_rate - 1.0).abs() <= MAX_TWIN_DIFFERENCE;
            let latencies = twins.iter().filter(|(_, rate)| is_twin(self.node_column(*rate).values[tick]));
            let slowest = latencies.map(|(twin, _)| self.node_column(*twin).values[tick]).fold(0.0, f64::max);
            out.values[tick] = latency.values[tick] / slowest;
            out.weights[tick] =
                if slowest > 0.0 { chunk.seconds[tick] + pass_gap(latency.weights[tick]) } else { f64::NAN };
        }
        clear_weights_of_nan(out);
    }

    fn compare_with_ceiling(&self, measured: &CeilingNodes, chunk: &Chunk<'_>, out: &mut NodeColumn) {
        let CeilingNodes { reads, writes, read_bytes, write_bytes, latency, ceiling } = measured;
        let column = |node: &NodeId| self.node_column(*node);
        let (reads, writes) = (column(reads), column(writes));
        let (read_bytes, write_bytes) = (column(read_bytes), column(write_bytes));
        let latency = latency.as_ref().map(column);
        for tick in 0..chunk.len() {
            let load = DeviceLoad {
                reads_per_s: reads.values[tick],
                writes_per_s: writes.values[tick],
                read_bytes_per_s: read_bytes.values[tick],
                write_bytes_per_s: write_bytes.values[tick],
            };
            out.values[tick] = match latency {
                Some(latency) => latency.values[tick] / ceiling.standalone_s(&load),
                None => ceiling.used_share(&load),
            };
            let gaps =
                reads.weights[tick] + writes.weights[tick] + read_bytes.weights[tick] + write_bytes.weights[tick];
            out.weights[tick] = chunk.seconds[tick] + pass_gap(gaps);
        }
        clear_weights_of_nan(out);
    }

    fn sum_nodes(&self, ids: &[NodeId], factor: f64, chunk: &Chunk<'_>, out: &mut NodeColumn) {
        out.values.fill(0.0);
        out.weights.copy_from_slice(chunk.seconds);
        for &id in ids {
            let slot = self.node_column(id);
            for ((sum, weight), (v, w)) in
                out.values.iter_mut().zip(&mut out.weights).zip(slot.values.iter().zip(&slot.weights))
            {
                *sum += v * factor;
                *weight += pass_gap(*w);
            }
        }
        // an instance without operations makes the sum `NaN`
        clear_weights_of_nan(out);
    }

    fn weighted_mean(&self, ids: &[NodeId], out: &mut NodeColumn) {
        out.values.fill(0.0);
        out.weights.fill(0.0);
        for &id in ids {
            let slot = self.node_column(id);
            for ((sum, weight), (v, w)) in
                out.values.iter_mut().zip(&mut out.weights).zip(slot.values.iter().zip(&slot.weights))
            {
                *sum += if *w > 0.0 { v * w } else { 0.0 };
                *weight += w;
            }
        }
        for (value, weight) in out.values.iter_mut().zip(&out.weights) {
            *value = if *weight > 0.0 { *value / *weight } else { f64::NAN };
        }
    }

    fn max_nodes(&self, ids: &[NodeId], chunk: &Chunk<'_>, out: &mut NodeColumn) {
        out.values.fill(f64::NEG_INFINITY);
        out.weights.copy_from_slice(chunk.seconds);
        for &id in ids {
            let slot = self.node_column(id);
            for ((largest, weight), (v, w)) in
                out.values.iter_mut().zip(&mut out.weights).zip(slot.values.iter().zip(&slot.weights))
            {
                *largest = if v > largest { *v } else { *largest };
                *weight += pass_gap(*w);
            }
        }
        out.values.iter_mut().filter(|v| **v == f64::NEG_INFINITY).for_each(|v| *v = f64::NAN);
        clear_weights_of_nan(out);
    }

    fn compute_formula(&self, formula: &Formula, chunk: &Chunk<'_>, out: &mut NodeColumn) {
        let first = self.node_column(formula.first);
        out.values.copy_from_slice(&first.values);
        let is_plain_sum = formula.plus.is_empty() && formula.minus.is_empty() && formula.times == NodeFactor::One;
        let keeps_weight = is_plain_sum && formula.over == NodeFactor::One;
        if keeps_weight {
            out.weights.copy_from_slice(&first.weights);
        } else {
            for ((weight, w), time) in out.weights.iter_mut().zip(&first.weights).zip(chunk.seconds) {
                *weight = time + pass_gap(*w);
            }
        }
        for &id in &formula.plus {
            self.apply_operand(id, out, |value, operand| value + operand);
        }
        for &id in &formula.minus {
            self.apply_operand(id, out, |value, operand| value - operand);
        }
        if !formula.minus.is_empty() {
            // a difference is never below 0; written as a comparison because `max` would replace a NaN
            out.values.iter_mut().for_each(|v| *v = if *v < 0.0 { 0.0 } else { *v });
        }
        match formula.times {
            NodeFactor::One => {}
            NodeFactor::Number(number) => out.values.iter_mut().for_each(|v| *v *= number),
            NodeFactor::Node(id) => self.apply_operand(id, out, |value, operand| value * operand),
        }
        match formula.over {
            NodeFactor::One => {}
            NodeFactor::Number(number) => out.values.iter_mut().for_each(|v| *v /= number),
            NodeFactor::Node(id) => {
                self.apply_operand(id, out, divide_or_nan);
                // weighted by the divisor, the mean of the ratios is the ratio of the means
                for (weight, divisor) in out.weights.iter_mut().zip(&self.node_column(id).values) {
                    *weight = if *divisor > 0.0 { *weight * divisor } else { pass_gap(*weight) };
                }
            }
        }
        match formula.per {
            NodeFactor::One => {}
            NodeFactor::Number(number) => out.values.iter_mut().for_each(|v| *v /= number),
            NodeFactor::Node(id) => self.apply_operand(id, out, divide_or_nan),
        }
        clear_weights_of_nan(out);
    }

    fn apply_operand(&self, id: NodeId, out: &mut NodeColumn, combine: impl Fn(f64, f64) -> f64) {
        let slot = self.node_column(id);
        for ((value, weight), (v, w)) in
            out.values.iter_mut().zip(&mut out.weights).zip(slot.values.iter().zip(&slot.weights))
        {
            *value = combine(*value, *v);
            *weight += pass_gap(*w);
        }
    }

    /// Finds the members around the median of each tick.
    fn find_member_median(&self, members: &[NodeId], min_weight: f64, out: &mut NodeColumn) {
        out.values.fill(f64::NAN);
        out.weights.fill(f64::NAN);
        let MemberMedians { below, middle, above, sorted } = &mut out.members;
        for list in [&mut *below, &mut *middle, &mut *above] {
            list.clear();
            list.resize(out.values.len(), f64::NAN);
        }
        for tick in 0..out.values.len() {
            sorted.clear();
            let counted = members.iter().map(|&id| self.node_column(id)).filter(|s| s.weights[tick] >= min_weight);
            sorted.extend(counted.map(|s| s.values[tick]).filter(|v| !v.is_nan()));
            sorted.sort_unstable_by(f64::total_cmp);
            let (count, half) = (sorted.len(), sorted.len() / 2);
            // at least two members, and at least half of a member's peers, must count
            if count < 2 || 2 * (count - 1) < members.len() - 1 {
                continue;
            }
            below[tick] = sorted[half - 1];
            if count % 2 == 0 {
                above[tick] = sorted[half];
            } else {
                (middle[tick], above[tick]) = (sorted[half], sorted[half + 1]);
                assert!(below[tick] <= middle[tick] && middle[tick] <= above[tick], "the median lies between both");
            }
            assert!(below[tick] <= above[tick], "neighbors of a median are in order");
        }
    }

    fn ratio_to_member_median(
        &self,
        (own, median): (NodeId, NodeId),
        floor: f64,
        min_weight: f64,
        chunk: &Chunk<'_>,
        out: &mut NodeColumn,
    ) {
        let (own, members) = (self.node_column(own), &self.node_column(median).members);
        for tick in 0..chunk.len() {
            let (value, weight) = (own.values[tick], own.weights[tick]);
            let others = members.median_without(value, tick);
            let is_known = weight >= min_weight && !others.is_nan();
            let divisor = if others < floor { floor } else { others };
            out.values[tick] = if is_known { value / divisor } else { f64::NAN };
            out.weights[tick] = if is_known { chunk.seconds[tick] } else { pass_gap(weight) };
        }
    }
}

/// `NaN` for the weight of a gap, else 0. Added to another weight, a `NaN` makes that a gap too.
#[inline(always)]
pub(crate) fn pass_gap(weight: f64) -> f64 {
    weight * 0.0
}

/// `a / b`; `NaN` where `b` is not above 0.
fn divide_or_nan(a: f64, b: f64) -> f64 {
    if b > 0.0 { a / b } else { f64::NAN }
}

/// Sets the weight to 0 where the value is `NaN`; a gap stays a gap.
pub(crate) fn clear_weights_of_nan(out: &mut NodeColumn) {
    for (value, weight) in out.values.iter().zip(&mut out.weights) {
        *weight = if value.is_nan() { pass_gap(*weight) } else { *weight };
    }
}

/// True where any weight is a gap. Without early exit, so that the compiler vectorizes it.
fn has_gap(weights: &[f64]) -> bool {
    weights.iter().fold(false, |any, w| any | w.is_nan())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 40 pages in and 60 out a second, in 80 requests of which 30 were faults: all of the bytes, with pages of 64 KiB.
    #[test]
    fn large_pages_are_more_of_the_traffic() {
        let share = |page_bytes: f64| {
            let (pages_in, pages_out, faults) = (None, None, None);
            let (bytes, transfers, in_memory) = (None, None, None);
            let nodes = SwapNodes { pages_in, pages_out, faults, bytes, transfers, in_memory, page_bytes };
            nodes.swap_share([Some(40.0), Some(60.0), Some(30.0), Some(100.0 * 65_536.0), Some(80.0), None])
        };
        assert_eq!(share(65_536.0), 1.0);
        assert!(share(4096.0) < 0.5, "{}", share(4096.0));
    }
}

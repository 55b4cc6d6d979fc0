//! Walks from a device or file down to what it lies on, and up again to everything on the same
//! bytes.

use std::collections::{HashSet, VecDeque};
use std::ops::Range;

use crate::device_graph::{DeviceGraph, LayerKind, Slice, StorageNode, WHOLE_RANGE};

/// A device or file that shares bytes with the target.
#[derive(Debug)]
pub(crate) struct WalkStep {
    pub node: StorageNode,
    bytes: Range<u64>,
    /// The target stands on it, not the other way round.
    pub is_below: bool,
    /// The previous step, and a clause about the connection.
    previous: Option<(usize, String)>,
    /// It stands on something below the target, not on the target.
    is_beside: bool,
    /// It holds what it stands on, which is itself a use. A loop device holds nothing: one on the
    /// target is a use all the same, one beside it is none.
    pub is_use: bool,
    /// It is behind a loop device, which does not claim it.
    pub is_below_loop: bool,
}

/// Finds all nodes that share bytes with a target, the target first, each once.
pub(crate) fn find_related_nodes(graph: &DeviceGraph, target: StorageNode) -> Vec<WalkStep> {
    let mut steps = vec![WalkStep {
        node: target,
        bytes: WHOLE_RANGE,
        is_below: false,
        previous: None,
        is_beside: false,
        is_use: false,
        is_below_loop: false,
    }];
    walk_down(graph, &mut steps);
    walk_up(graph, &mut steps);
    let mut seen = HashSet::new();
    // the steps before a dropped one are never dropped themselves: a node's first step is on its
    // shortest path
    let first: Vec<usize> = (0..steps.len()).filter(|index| seen.insert(steps[*index].node)).collect();
    keep_steps(steps, &first)
}

/// Keeps only these steps; paths use the first step of each node.
fn keep_steps(steps: Vec<WalkStep>, first: &[usize]) -> Vec<WalkStep> {
    let nodes: Vec<StorageNode> = steps.iter().map(|step| step.node).collect();
    let place = |old: usize| first.iter().position(|index| nodes[*index] == nodes[old]).unwrap_or(0);
    let wanted: HashSet<usize> = first.iter().copied().collect();
    let kept = steps.into_iter().enumerate().filter(|(index, _)| wanted.contains(index));
    kept.map(|(_, step)| WalkStep { previous: step.previous.map(|(old, words)| (place(old), words)), ..step }).collect()
}

fn walk_down(graph: &DeviceGraph, steps: &mut Vec<WalkStep>) {
    let mut seen = HashSet::from([(steps[0].node, 0, u64::MAX)]);
    let mut queue = VecDeque::from([0]);
    while let Some(index) = queue.pop_front() {
        let StorageNode::Device(number) = steps[index].node else { continue };
        let Some(device) = graph.devices.get(&number) else { continue };
        for slice in device.below.iter().filter(|slice| !slice.is_isolated) {
            let Some(bytes) = slice.map_down(&steps[index].bytes) else { continue };
            if !seen.insert((slice.node, bytes.start, bytes.end)) {
                continue;
            }
            let (upper, lower) = (&device.name, graph.name(slice.node));
            let clause = match (device.kind, slice.node) {
                (LayerKind::Partition, _) => format!("{upper} is a part of {lower}"),
                (_, StorageNode::File(_)) if slice.is_uncertain => format!("{upper} may use the file {lower}"),
                (_, StorageNode::File(_)) => format!("{upper} uses the file {lower}"),
                _ => format!("{upper} is built on {lower}"),
            };
            queue.push_back(steps.len());
            steps.push(WalkStep {
                node: slice.node,
                bytes,
                is_below: true,
                previous: Some((index, clause)),
                is_beside: false,
                is_use: false,
                is_below_loop: device.kind == LayerKind::Loop,
            });
        }
    }
}

fn walk_up(graph: &DeviceGraph, steps: &mut Vec<WalkStep>) {
    let below: HashSet<StorageNode> = steps.iter().map(|step| step.node).collect();
    let mut seen = HashSet::new();
    let mut queue: VecDeque<usize> = (0..steps.len()).collect();
    while let Some(index) = queue.pop_front() {
        for (number, slice) in graph.slices_above(steps[index].node) {
            let node = StorageNode::Device(number);
            // skip the target's own path down, and nodes that are isolated from it
            if below.contains(&node) || (slice.is_isolated && steps[index].is_below) {
                continue;
            }
            let Some(bytes) = slice.map_up(&steps[index].bytes) else { continue };
            if !seen.insert((node, bytes.start, bytes.end)) {
                continue;
            }
            let kind = graph.devices[&number].kind;
            let clause = describe_upper_link(graph, &steps[index], number, slice);
            let is_beside = steps[index].is_below || steps[index].is_beside;
            queue.push_back(steps.len());
            steps.push(WalkStep {
                node,
                bytes,
                is_below: false,
                previous: Some((index, clause)),
                is_beside,
                is_use: kind == LayerKind::Other || (kind == LayerKind::Loop && !is_beside),
                is_below_loop: false,
            });
        }
    }
}

/// Describes how an upper device is connected with a step; empty for a partition, whose name shows
/// it.
fn describe_upper_link(graph: &DeviceGraph, lower: &WalkStep, upper: (u64, u64), slice: &Slice) -> String {
    let device = &graph.devices[&upper];
    let upper = &device.name;
    match (lower.node, device.kind) {
        (_, LayerKind::Partition) => String::new(),
        (StorageNode::File(_), _) if slice.is_uncertain => {
            let subject = if lower.previous.is_none() { "it" } else { "which" };
            format!("{subject} may be the file behind {upper}, to which no path leads any more")
        }
        (StorageNode::File(_), _) if lower.previous.is_none() => format!("it is the disk behind {upper}"),
        (StorageNode::File(_), _) => format!("which is also behind {upper}"),
        (node, LayerKind::Loop) => format!("{} is below {upper}", graph.name(node)),
        (node, LayerKind::Other) => format!("{} is held by {upper}", graph.name(node)),
    }
}

/// Describes how a step is connected with the target, in clauses; empty for itself and its
/// partitions.
pub(crate) fn path_clauses(steps: &[WalkStep], index: usize) -> Vec<String> {
    let (mut found, mut next) = (Vec::new(), Some(index));
    // a path is at most as long as the stack of devices; a cycle is a broken description
    for _ in 0..steps.len() {
        let Some((previous, clause)) = next.and_then(|index| steps[index].previous.as_ref()) else { break };
        found.push(clause.clone());
        next = Some(*previous);
    }
    found.reverse();
    found.retain(|clause| !clause.is_empty());
    found
}

//! Walks from a device or file down to all that it lies on, and up again to everything on the same
//! bytes.

use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::Range;

use crate::device_graph::{DeviceGraph, LayerKind, Slice, StorageNode, WHOLE_RANGE};
use crate::node::DeviceNumber;

/// A device or file that shares bytes with the target.
#[derive(Debug)]
pub(crate) struct WalkStep {
    pub node: StorageNode,
    /// Bytes of the node that the target shares.
    bytes: Range<u64>,
    /// The target stands on it, not the other way round.
    pub is_below: bool,
    /// The step from which it was reached; `None` for the target.
    previous: Option<PreviousStep>,
    /// It stands on something below the target, not on the target itself.
    is_beside: bool,
    /// It counts as a use even if nothing else uses it: a device that claims the node below it, or a
    /// loop device on the target. A loop device claims nothing, so one beside the target is no use.
    pub is_use: bool,
    /// It is the backing file or device of a loop device, which does not claim it.
    pub is_below_loop: bool,
}

/// The step from which another was reached, and how both are connected.
#[derive(Debug)]
struct PreviousStep {
    /// Index in the list of steps; smaller than that of the step itself.
    index: usize,
    /// `None` if the name of the step shows the connection.
    clause: Option<Clause>,
}

/// A clause of a sentence about a use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Clause {
    pub text: String,
    /// It begins with "which" and continues the clause before it.
    pub is_relative: bool,
}

impl Clause {
    pub(crate) fn main(text: String) -> Clause {
        Clause { text, is_relative: false }
    }

    fn relative(predicate: &str) -> Clause {
        Clause { text: format!("which {predicate}"), is_relative: true }
    }
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
    // a node's first step is on its shortest path
    let first_steps: Vec<usize> = (0..steps.len()).filter(|index| seen.insert(steps[*index].node)).collect();
    let steps = keep_steps(steps, &first_steps);
    for (index, step) in steps.iter().enumerate() {
        assert!(step.previous.as_ref().is_none_or(|p| p.index < index), "a path leads back to the target");
    }
    steps
}

/// Keeps only the first step of each node, in their order. A path through a dropped step then leads
/// through the first step of the same node.
fn keep_steps(steps: Vec<WalkStep>, first_steps: &[usize]) -> Vec<WalkStep> {
    let new_indices: HashMap<StorageNode, usize> =
        first_steps.iter().enumerate().map(|(new, old)| (steps[*old].node, new)).collect();
    let nodes: Vec<StorageNode> = steps.iter().map(|step| step.node).collect();
    let kept_indices: HashSet<usize> = first_steps.iter().copied().collect();
    let mut kept = Vec::with_capacity(first_steps.len());
    for (index, mut step) in steps.into_iter().enumerate() {
        if !kept_indices.contains(&index) {
            continue;
        }
        if let Some(previous) = &mut step.previous {
            previous.index = new_indices[&nodes[previous.index]];
        }
        kept.push(step);
    }
    kept
}

/// Adds a step for each node below the target, nearest first.
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
                previous: Some(PreviousStep { index, clause: Some(Clause::main(clause)) }),
                is_beside: false,
                is_use: false,
                is_below_loop: device.kind == LayerKind::Loop,
            });
        }
    }
}

/// Adds a step for each device that stands on the target or on a node below it.
fn walk_up(graph: &DeviceGraph, steps: &mut Vec<WalkStep>) {
    let below: HashSet<StorageNode> = steps.iter().map(|step| step.node).collect();
    let mut seen = HashSet::new();
    let mut queue: VecDeque<usize> = (0..steps.len()).collect();
    while let Some(index) = queue.pop_front() {
        for (number, slice) in graph.slices_above(steps[index].node) {
            let node = StorageNode::Device(number);
            // skip the nodes between the target and this step, and devices that are isolated from the target
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
                previous: Some(PreviousStep { index, clause }),
                is_beside,
                is_use: kind == LayerKind::Other || (kind == LayerKind::Loop && !is_beside),
                is_below_loop: false,
            });
        }
    }
}

/// Describes how an upper device is connected with a step; `None` for a partition, whose name shows
/// it.
fn describe_upper_link(graph: &DeviceGraph, lower: &WalkStep, upper: DeviceNumber, slice: &Slice) -> Option<Clause> {
    let device = &graph.devices[&upper];
    let upper = &device.name;
    let is_target = lower.previous.is_none();
    let clause = match (lower.node, device.kind) {
        (_, LayerKind::Partition) => return None,
        (StorageNode::File(_), _) if slice.is_uncertain => {
            let predicate = format!("may be the file behind {upper}, to which no path leads any more");
            if is_target { Clause::main(format!("it {predicate}")) } else { Clause::relative(&predicate) }
        }
        (StorageNode::File(_), _) if is_target => Clause::main(format!("it is the disk behind {upper}")),
        (StorageNode::File(_), _) => Clause::relative(&format!("is also behind {upper}")),
        (node, LayerKind::Loop) => Clause::main(format!("{} is below {upper}", graph.name(node))),
        (node, LayerKind::Other) => Clause::main(format!("{} is held by {upper}", graph.name(node))),
    };
    Some(clause)
}

/// Describes how a step is connected with the target, in clauses; empty for the target and its
/// partitions.
pub(crate) fn path_clauses(steps: &[WalkStep], index: usize) -> Vec<Clause> {
    let mut found = Vec::new();
    let mut step = &steps[index];
    // the loop ends, because each step's previous one has a smaller index
    while let Some(previous) = &step.previous {
        found.extend(previous.clause.clone());
        step = &steps[previous.index];
    }
    found.reverse();
    found
}

//! The order in which a program's nodes are computed, and the slots of their columns.

use std::collections::BTreeSet;

use crate::compile::rule_program::{JudgeProgram, ProgramGroup};
use crate::sums::{LimitPlan, NodeId, ProgramNode};

/// The groups that read a node.
#[derive(Clone, Copy, PartialEq)]
enum NodeOwner {
    Nobody,
    Group(usize),
    /// Several groups.
    Shared,
}

impl NodeOwner {
    fn with_reader(self, group: usize) -> NodeOwner {
        match self {
            NodeOwner::Nobody => NodeOwner::Group(group),
            NodeOwner::Group(owner) if owner == group => self,
            NodeOwner::Group(_) | NodeOwner::Shared => NodeOwner::Shared,
        }
    }
}

/// Determines the order of evaluation, the shared nodes, and the slots. A shared node has a slot of its own; the slots
/// of all other nodes are reused from group to group.
pub(super) fn assign_slots(nodes: Vec<ProgramNode>, mut groups: Vec<ProgramGroup>) -> JudgeProgram {
    let mut owner = vec![NodeOwner::Nobody; nodes.len()];
    let mut eager: Vec<Vec<NodeId>> = Vec::new();
    let mut lazy: Vec<Vec<Vec<NodeId>>> = Vec::new();
    for (index, group) in groups.iter().enumerate() {
        let order = evaluation_order(&nodes, eager_roots(group));
        let lazy_orders: Vec<Vec<NodeId>> = group
            .progress_plans
            .iter()
            .map(|s| evaluation_order(&nodes, s.evidence.iter().map(|(_, node)| *node)))
            .collect();
        for &node in order.iter().chain(lazy_orders.iter().flatten()) {
            owner[node] = owner[node].with_reader(index);
        }
        eager.push(order);
        lazy.push(lazy_orders);
    }
    let mut program = JudgeProgram { slot_of: vec![0; nodes.len()], ..JudgeProgram::default() };
    for (node, owner) in owner.iter().enumerate() {
        if *owner == NodeOwner::Shared {
            program.slot_of[node] = program.slot_count;
            program.slot_count += 1;
        }
    }
    let shared_slots = program.slot_count;
    let mut is_shared_eager = vec![false; nodes.len()];
    for order in &eager {
        for &node in order {
            if owner[node] == NodeOwner::Shared && !is_shared_eager[node] {
                is_shared_eager[node] = true;
                program.shared.push(node);
            }
        }
    }
    for ((group, order), lazy_orders) in groups.iter_mut().zip(eager).zip(lazy) {
        group.order = order.into_iter().filter(|&node| owner[node] != NodeOwner::Shared).collect();
        let mut next = shared_slots;
        let mut placed: Vec<NodeId> = Vec::new();
        for &node in group.order.iter().chain(lazy_orders.iter().flatten()) {
            if owner[node] != NodeOwner::Shared && !placed.contains(&node) {
                placed.push(node);
                program.slot_of[node] = next;
                next += 1;
            }
        }
        for (plan, order) in group.progress_plans.iter_mut().zip(lazy_orders) {
            plan.lazy = order.into_iter().filter(|n| !group.order.contains(n) && !is_shared_eager[*n]).collect();
        }
        program.slot_count = program.slot_count.max(next);
    }
    program.nodes = nodes;
    program.groups = groups;
    program
}

/// Nodes that a group needs at every chunk.
fn eager_roots(group: &ProgramGroup) -> impl Iterator<Item = NodeId> {
    let tracks = group.tracks.iter().chain(&group.changes).map(|(node, _)| *node);
    let statistics = group.statistics.iter().flat_map(|s| [s.queue, s.value]);
    let windows = group.progress_plans.iter().flat_map(|s| &s.window);
    let means = windows.flat_map(|w| w.means.iter().map(|(_, node)| *node).chain(w.spread));
    let conditions = group.progress_plans.iter().flat_map(|s| s.all.iter().chain(&s.any));
    let compared = conditions.flat_map(|c| {
        let limit = if let LimitPlan::Node(node, _) = c.limit { Some(node) } else { None };
        std::iter::once(c.node).chain(limit)
    });
    tracks.chain(statistics).chain(means).chain(compared)
}

/// The nodes and all nodes that they read, operands first, each once.
fn evaluation_order(nodes: &[ProgramNode], roots: impl Iterator<Item = NodeId>) -> Vec<NodeId> {
    let mut order: Vec<NodeId> = Vec::new();
    let mut seen: BTreeSet<NodeId> = BTreeSet::new();
    // a node has a larger number than its operands, so ascending numbers are an order of evaluation
    let mut pending: Vec<NodeId> = roots.collect();
    while let Some(node) = pending.pop() {
        if seen.insert(node) {
            pending.extend(nodes[node].operands());
        }
    }
    order.extend(seen);
    order
}

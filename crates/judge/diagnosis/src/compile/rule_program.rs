//! Compiles the rules of all packs for one schema: the nodes to compute, their order, and the states that they feed.

use diskwright_base::Topology;
use diskwright_base::counter_ids::{cgroup, interrupts, memory, paging, physical_disk, pressure, processor, system};
use std::collections::{BTreeSet, HashMap};

use crate::compile::logical_stand_ins::{may_stand_in, on_logical_disks};
use crate::compile::node_builder::{Absence, NodeBuilder, RuleScope};
use crate::compile::node_slots::assign_slots;
use crate::compile::rule_scopes::RuleScopes;
use crate::compile::schema_index::{SchemaIndex, split_cgroup_device};
use crate::rules::{
    Absent, Condition, ConditionSpan, InstanceFilter, Operand, Pack, Pseudo, Rule, RuleCounter, RuleLimit,
    SPINDLES_COUNTER,
};
use crate::sums::{
    ChangeReference, ConditionPlan, ConditionState, EvidenceState, HeldTimes, LaneSums, LimitPlan, NodeFactor, NodeId,
    OperandState, PagingTracks, ProgramNode, ProgressPlan, RuleProgress, States, WindowPlan,
};

/// A program for a schema.
#[derive(Clone, Debug, Default)]
pub(crate) struct JudgeProgram {
    pub nodes: Vec<ProgramNode>,
    /// For each node, the slot that holds its columns.
    pub slot_of: Vec<usize>,
    pub slot_count: usize,
    /// Nodes that several groups read, computed first.
    pub shared: Vec<NodeId>,
    pub groups: Vec<ProgramGroup>,
}

/// Everything that is judged at one scope, with the nodes that only this group reads.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProgramGroup {
    /// Nodes in the order of evaluation.
    pub order: Vec<NodeId>,
    /// Nodes, and the tracks that they feed.
    pub tracks: Vec<(NodeId, usize)>,
    /// Nodes, and the series of changes that they feed.
    pub changes: Vec<(NodeId, usize)>,
    pub statistics: Vec<StatisticPlan>,
    pub progress_plans: Vec<ProgressPlan>,
}

/// Nodes of a schema that feed a statistic.
#[derive(Clone, Debug)]
pub(crate) struct StatisticPlan {
    pub state: usize,
    pub queue: NodeId,
    pub value: NodeId,
}

/// Counters of the machine that affect any verdict: its confidence, and which trouble can be the reason for another.
const CONFIDENCE_COUNTERS: [&str; 23] = [
    memory::FREE_BYTES,
    memory::TOTAL_BYTES,
    processor::STEAL,
    processor::USER,
    processor::NICE,
    processor::SYSTEM,
    "processors",
    pressure::IO_SOME,
    pressure::MEMORY_SOME,
    pressure::CPU_SOME,
    processor::IOWAIT,
    processor::BUSY,
    processor::INTERRUPT,
    interrupts::TOTAL_PER_S,
    interrupts::DISK_SHARE,
    system::BLOCKED,
    system::RUNNING,
    paging::SWAP_IN_PAGES_PER_S,
    // memory of the kernel, which no process shows
    memory::POOL_NONPAGED_BYTES,
    memory::POOL_PAGED_BYTES,
    memory::SLAB_BYTES,
    memory::SLAB_RECLAIMABLE_BYTES,
    memory::SHARED_BYTES,
];

/// Largest number of pairs of cgroup and device whose bytes are summed, to find out which cgroup uses a disk.
pub(crate) const MAX_CGROUPS: usize = 256;
/// Largest number of disks whose share of paging is followed.
const MAX_PAGED_DISKS: usize = 64;
const PHYSICAL_DISK: &str = "physical_disk";
/// Objects that a machine may not have, so that a log without them lacks nothing.
const OPTIONAL_OBJECTS: [&str; 8] =
    ["array", "channel", "controller", "database", "hardware", "network_filesystem", "nfs_server", "path"];

/// Options of the caller on which the program depends.
pub(crate) struct ProgramOptions<'a> {
    pub role: Option<&'a str>,
    /// True where start and end of the window are known beforehand.
    pub knows_window: bool,
    /// True where changes of level are looked for.
    pub finds_changes: bool,
}

/// Compiles the program for a schema and finds or creates the states that it feeds.
pub(crate) fn compile_rules(
    packs: &[Pack],
    schema_index: &SchemaIndex<'_>,
    options: &ProgramOptions<'_>,
    states: &mut States,
) -> JudgeProgram {
    let mut program_builder = ProgramBuilder {
        builder: NodeBuilder::new(schema_index),
        states,
        knows_window: options.knows_window,
        groups: Vec::new(),
        group_of: HashMap::new(),
        fed_tracks: BTreeSet::new(),
        scopes: RuleScopes::default(),
    };
    for (pack, rules) in packs.iter().enumerate() {
        for (index, rule) in rules.rules.iter().enumerate() {
            if rule.is_for_role(options.role) {
                program_builder.add_rule(pack, index, rule, rules.stand_ins);
            }
        }
    }
    program_builder.add_confidence_tracks();
    if options.finds_changes {
        program_builder.add_change_series();
    }
    let ProgramBuilder { builder, groups, .. } = program_builder;
    assign_slots(builder.nodes, groups)
}

/// A rule to be compiled, and the key of its states.
struct RuleRequest<'r> {
    pack: usize,
    index: usize,
    rule: &'r Rule,
    stands_in: bool,
}

pub(super) struct ProgramBuilder<'a, 's> {
    pub(super) builder: NodeBuilder<'a>,
    pub(super) states: &'s mut States,
    knows_window: bool,
    groups: Vec<ProgramGroup>,
    group_of: HashMap<String, usize>,
    /// Tracks that a group feeds already.
    fed_tracks: BTreeSet<usize>,
    scopes: RuleScopes<'a>,
}

impl<'a> ProgramBuilder<'a, '_> {
    fn add_rule(&mut self, pack: usize, index: usize, rule: &Rule, stand_ins: bool) {
        let topology = self.builder.schema_index.topology;
        if rule.needs_ceiling() && self.builder.schema_index.ceilings.is_empty()
            || rule.needs_volume_limits() && !topology.is_some_and(Topology::has_volume_limits)
        {
            return;
        }
        if !rule.without.is_empty() {
            let scopes = self.scopes.of_rule(self.builder.schema_index, rule);
            let never_applies =
                !scopes.is_empty() && scopes.iter().all(|(scope, _)| self.has_any(&rule.without, scope));
            self.states.rules[pack][index].not_for_this_log = never_applies;
            if never_applies {
                return;
            }
        }
        let request = RuleRequest { pack, index, rule, stands_in: false };
        let (mut judged, mut missing) = self.add_rule_at_all_scopes(&request);
        let has_object = rule.object == "machine" || !self.builder.schema_index.instances(&rule.object).is_empty();
        // A machine without arrays or network mounts has nothing to judge there, and no tool shows the busy time of a
        // real machine's controller or channel. But a log without any disks cannot be judged by its disks.
        if !has_object && !OPTIONAL_OBJECTS.contains(&rule.object.as_str()) {
            missing.extend(rule.conditions().flat_map(|c| c.quantity.counters()).map(|name| name.id.clone()));
        }
        if rule.absent == Absent::Inapplicable && has_object {
            missing.clear();
        }
        // another tool's log does not show which disks are arrays either
        if !judged && has_object && rule.which == InstanceFilter::Set && self.builder.schema_index.hides_spindles() {
            missing.insert(SPINDLES_COUNTER.to_owned());
        }
        if stand_ins && !judged && missing.iter().any(|counter| may_stand_in(counter)) {
            judged = self.add_stand_in(pack, index, rule);
        }
        // a log lacks nothing without the facts that only some tools print
        if !has_object && rule.optional && rule.absent == Absent::Inapplicable {
            missing.clear();
        }
        let state = &mut self.states.rules[pack][index];
        state.judged |= judged;
        state.missing.append(&mut missing);
    }

    /// Compiles a rule at all scopes. Returns true if it can be judged anywhere, and the counters missing elsewhere.
    fn add_rule_at_all_scopes(&mut self, request: &RuleRequest<'_>) -> (bool, BTreeSet<String>) {
        let mut judged = false;
        let mut missing: BTreeSet<String> = BTreeSet::new();
        // what one instance lacks, all of its shape lack: a log may have a hundred thousand
        let mut is_unjudged = vec![false; self.builder.schema_index.shape_count()];
        for (scope, shape) in self.scopes.of_rule(self.builder.schema_index, request.rule).iter() {
            if shape.is_some_and(|shape| is_unjudged[shape]) {
                continue;
            }
            if !self.has_any(&request.rule.without, scope) {
                match self.add_rule_at_scope(request, scope) {
                    Ok(()) => {
                        judged = true;
                        continue;
                    }
                    Err(Absence::Missing(counter)) => {
                        missing.insert(counter);
                        missing.append(&mut self.missing_counters(request.rule, scope));
                    }
                    Err(Absence::Nowhere) => {}
                }
            }
            if let Some(shape) = shape {
                is_unjudged[*shape] = true;
            }
        }
        (judged, missing)
    }

    /// True where the log has one of these counters.
    fn has_any(&mut self, names: &[RuleCounter], scope: &RuleScope<'a>) -> bool {
        names.iter().any(|name| self.builder.resolve_counter(name, scope).is_ok())
    }

    /// All counters that a rule lacks at a scope, so that all of them can be recorded next time.
    fn missing_counters(&mut self, rule: &Rule, scope: &RuleScope<'a>) -> BTreeSet<String> {
        let mut missing_in = |condition: &Condition| -> BTreeSet<String> {
            let limit = match &condition.limit {
                RuleLimit::Counter { counter, .. } => Some(counter),
                RuleLimit::Number(_) | RuleLimit::EachDisk { .. } => None,
            };
            // values of the whole window are computed from counters that other conditions name
            let names = condition.quantity.counters().chain(limit).filter(|name| !name.is_window_value());
            let missing_counter = |name: &RuleCounter| match self.builder.resolve_counter(name, scope) {
                Err(Absence::Missing(counter)) => Some(counter),
                _ => None,
            };
            let mut found: BTreeSet<String> = names.filter_map(missing_counter).collect();
            if let Err(Absence::Missing(members)) = self.builder.divisor_factor(condition.quantity.per, scope) {
                found.insert(members);
            }
            found
        };
        let mut lacking: BTreeSet<String> = rule.all.iter().flat_map(&mut missing_in).collect();
        let alternatives: Vec<BTreeSet<String>> = rule.any.iter().map(missing_in).collect();
        // one condition of `any` is enough to judge
        if alternatives.iter().all(|missing| !missing.is_empty()) {
            lacking.extend(alternatives.into_iter().flatten());
        }
        lacking
    }

    /// Compiles the rule for logical disks, where the log lacks the counters of physical ones.
    fn add_stand_in(&mut self, pack: usize, index: usize, rule: &Rule) -> bool {
        let Some(rewritten) = on_logical_disks(rule) else { return false };
        let (judged, _) = self.add_rule_at_all_scopes(&RuleRequest { pack, index, rule: &rewritten, stands_in: true });
        if judged {
            self.states.stand_ins.insert((pack, index), rewritten);
        }
        judged
    }

    /// Compiles a rule at one scope. The error is the reason why it cannot be judged there.
    fn add_rule_at_scope(&mut self, request: &RuleRequest<'_>, scope: &RuleScope<'a>) -> Result<(), Absence> {
        let rule = request.rule;
        let mut group = ProgramGroup::default();
        let mut plan = ProgressPlan {
            state: 0,
            all: Vec::new(),
            any: Vec::new(),
            window: Vec::new(),
            evidence: Vec::new(),
            lazy: Vec::new(),
        };
        let mut conditions = vec![ConditionState::default(); rule.all.len() + rule.any.len()];
        for (index, condition) in rule.all.iter().enumerate() {
            if condition.is_window_value() {
                let window = self.plan_window_condition(index, condition, scope, &mut conditions[index], &mut group)?;
                plan.window.push(window);
            } else {
                plan.all.push(self.plan_condition(index, condition, scope, &mut conditions[index], &mut group)?);
            }
        }
        let mut absence = None;
        for (index, condition) in rule.any.iter().enumerate() {
            let index = rule.all.len() + index;
            match self.plan_condition(index, condition, scope, &mut conditions[index], &mut group) {
                Ok(condition) => plan.any.push(condition),
                Err(missing) => absence = Some(missing),
            }
        }
        // one condition of `any` is enough to judge
        if let (true, Some(missing)) = (plan.any.is_empty(), absence) {
            return Err(missing);
        }
        let mut evidence = Vec::new();
        for (position, name) in rule.evidence.iter().enumerate() {
            match name.pseudo.filter(|p| p.is_window_value()) {
                Some(kind) => {
                    let statistic = self.add_statistic(kind, scope, &mut group);
                    evidence.push(
                        statistic.map_or(
                            EvidenceState::Mean(LaneSums::default(), f64::NEG_INFINITY),
                            EvidenceState::Statistic,
                        ),
                    );
                }
                None => {
                    if let Ok(node) = self.builder.resolve_counter(name, scope) {
                        plan.evidence.push((position, node));
                    }
                    evidence.push(EvidenceState::Mean(LaneSums::default(), f64::NEG_INFINITY));
                }
            }
        }
        plan.state = self.progress_state(request, scope, conditions, evidence);
        group.progress_plans.push(plan);
        self.merge_group(scope, group);
        Ok(())
    }

    /// Index of the state of a rule at a scope; created where the instance is new.
    fn progress_state(
        &mut self,
        request: &RuleRequest<'_>,
        scope: &RuleScope<'_>,
        conditions: Vec<ConditionState>,
        evidence: Vec<EvidenceState>,
    ) -> usize {
        let RuleRequest { pack, index: rule, stands_in, .. } = *request;
        // combined instances share one state, whichever instances there are at the moment
        let key = match scope {
            RuleScope::Combined(..) if stands_in => "stands in".into(),
            RuleScope::Combined(..) => String::new(),
            RuleScope::Machine if stands_in => "stands in".into(),
            other => other.key(),
        };
        let create = || {
            let mut progress = RuleProgress::new(pack, rule, scope.instance(), conditions, evidence);
            progress.stands_in = stands_in;
            // only the first pack has phases, as it has trends
            progress.held_times = (pack == 0).then(HeldTimes::default);
            progress
        };
        self.states.progress_index((pack, rule, key), create)
    }

    /// Adds what a rule needs at a scope to the group of that scope.
    pub(super) fn merge_group(&mut self, scope: &RuleScope<'_>, part: ProgramGroup) {
        let next = self.groups.len();
        let number = *self.group_of.entry(scope.key()).or_insert(next);
        if number == next {
            self.groups.push(ProgramGroup::default());
        }
        let group = &mut self.groups[number];
        for (node, track) in part.tracks {
            // a track is fed only once, however many groups read it
            if self.fed_tracks.insert(track) {
                group.tracks.push((node, track));
            }
        }
        for plan in part.statistics {
            if !group.statistics.iter().any(|s| s.state == plan.state) {
                group.statistics.push(plan);
            }
        }
        group.progress_plans.extend(part.progress_plans);
        group.changes.extend(part.changes);
    }

    fn track_node(&mut self, node: NodeId, group: &mut ProgramGroup) -> usize {
        let key = self.builder.keys[node].clone();
        let track = self.states.track_index(&key);
        group.tracks.push((node, track));
        track
    }

    fn plan_condition(
        &mut self,
        index: usize,
        condition: &Condition,
        scope: &RuleScope<'a>,
        state: &mut ConditionState,
        group: &mut ProgramGroup,
    ) -> Result<ConditionPlan, Absence> {
        let node = self.builder.quantity_node(&condition.quantity, scope)?;
        let limit = match &condition.limit {
            RuleLimit::Number(number) => LimitPlan::Number(*number),
            RuleLimit::EachDisk { each_disk } => {
                // where the log does not tell the disks behind a device, it is one
                let disks = self.builder.spindle_count(scope).unwrap_or(1.0);
                state.disks = Some(disks);
                LimitPlan::Number(each_disk * disks)
            }
            RuleLimit::Counter { counter, times } => {
                LimitPlan::Node(self.builder.resolve_counter(counter, scope)?, *times)
            }
        };
        let change = match condition.over {
            ConditionSpan::Change { share } if self.knows_window => Some(ChangeReference::FirstPart(share)),
            ConditionSpan::Change { .. } => return Err(Absence::Missing("length of the window".into())),
            ConditionSpan::Step => Some(ChangeReference::Previous),
            ConditionSpan::Norm => Some(ChangeReference::Norm),
            ConditionSpan::RunsOut => Some(ChangeReference::Depletion),
            _ => None,
        };
        state.known = true;
        state.adds_up = matches!(self.builder.nodes[node], ProgramNode::Counter { is_total: true, .. });
        state.track = Some(self.track_node(node, group));
        if let LimitPlan::Node(id, _) = limit {
            state.limit_track = Some(self.track_node(id, group));
        }
        Ok(ConditionPlan { index, node, compare: condition.compare, limit, change })
    }

    fn plan_window_condition(
        &mut self,
        index: usize,
        condition: &Condition,
        scope: &RuleScope<'a>,
        state: &mut ConditionState,
        group: &mut ProgramGroup,
    ) -> Result<WindowPlan, Absence> {
        state.known = true;
        let quantity = &condition.quantity;
        if matches!(condition.over, ConditionSpan::Steadiness | ConditionSpan::Trend) {
            let node = self.builder.quantity_node(quantity, scope)?;
            state.track = Some(self.track_node(node, group));
            return Ok(WindowPlan { index, spread: Some(node), means: Vec::new() });
        }
        let mut plan = WindowPlan { index, spread: None, means: Vec::new() };
        let first = self.plan_operand(&Operand::Counter(quantity.counter.clone()), 0, scope, &mut plan, group)?;
        let times = quantity.times.as_ref().map(|o| self.plan_operand(o, 1, scope, &mut plan, group)).transpose()?;
        let over = quantity.over.as_ref().map(|o| self.plan_operand(o, 2, scope, &mut plan, group)).transpose()?;
        let per = match self.builder.divisor_factor(quantity.per, scope)? {
            NodeFactor::One => OperandState::Number(1.0),
            NodeFactor::Number(number) => OperandState::Number(number),
            NodeFactor::Node(node) => {
                plan.means.push((3, node));
                OperandState::Mean(LaneSums::default())
            }
        };
        let one = OperandState::Number(1.0);
        let operands = [first, times.unwrap_or(one.clone()), over.unwrap_or(one), per];
        state.operands = Some(Box::new(operands));
        Ok(plan)
    }

    fn plan_operand(
        &mut self,
        operand: &Operand,
        position: usize,
        scope: &RuleScope<'a>,
        plan: &mut WindowPlan,
        group: &mut ProgramGroup,
    ) -> Result<OperandState, Absence> {
        let name = match operand {
            Operand::Number(number) => return Ok(OperandState::Number(*number)),
            Operand::Counter(name) => name,
        };
        match name.pseudo.filter(|p| p.is_window_value()) {
            Some(kind) => Ok(OperandState::Statistic(self.add_statistic(kind, scope, group)?)),
            None => {
                plan.means.push((position, self.builder.resolve_counter(name, scope)?));
                Ok(OperandState::Mean(LaneSums::default()))
            }
        }
    }

    /// Adds the counters that affect the confidence of every verdict, whichever rules there are.
    fn add_confidence_tracks(&mut self) {
        for sign in CONFIDENCE_COUNTERS {
            let Ok(name) = RuleCounter::resolve_name("machine", sign) else { continue };
            if let Ok(node) = self.builder.resolve_counter(&name, &RuleScope::Machine) {
                let mut group = ProgramGroup::default();
                let track = self.track_node(node, &mut group);
                self.states.confidence_tracks.insert(sign, track);
                self.merge_group(&RuleScope::Machine, group);
            }
        }
        self.add_cgroup_tracks();
        self.add_paging_tracks();
        self.states.has_pressure |= !self.builder.schema_index.instances("pressure").is_empty();
    }

    /// Adds tracks of the bytes of cgroups on each device, to find out which cgroup uses a disk.
    fn add_cgroup_tracks(&mut self) {
        let schema_index = self.builder.schema_index;
        for instance in schema_index.instances("cgroup").iter().copied().filter(|i| split_cgroup_device(i).is_some()) {
            let known = self.states.cgroup_tracks.contains_key(instance);
            if !known && self.states.cgroup_tracks.len() >= MAX_CGROUPS {
                continue;
            }
            let mut group = ProgramGroup::default();
            let counters = [cgroup::READ_BYTES_PER_S, cgroup::WRITE_BYTES_PER_S];
            let nodes: Vec<NodeId> = counters.iter().filter_map(|c| self.builder.counter_node(c, instance)).collect();
            let tracks: Vec<usize> = nodes.into_iter().map(|node| self.track_node(node, &mut group)).collect();
            self.states.cgroup_tracks.insert(instance.to_owned(), tracks);
            self.merge_group(&RuleScope::Instance("cgroup", instance), group);
        }
    }

    /// Adds tracks of the share of each disk's work that is paging, to find out which disks a shortage of memory
    /// explains. Only a topology tells where the swap space is.
    fn add_paging_tracks(&mut self) {
        let schema_index = self.builder.schema_index;
        let disks = schema_index.disks();
        if schema_index.topology.is_none() || disks.len() > MAX_PAGED_DISKS {
            return;
        }
        for disk in disks {
            let scope = RuleScope::Instance(PHYSICAL_DISK, disk);
            let swapping = match self.builder.swap_share(&scope) {
                Ok(node) => Some(node),
                Err(Absence::Nowhere) => None,
                Err(Absence::Missing(_)) => continue,
            };
            let Some(refaults) = self.builder.refault_share_of(disk) else { continue };
            let Some(read) = self.builder.counter_node(physical_disk::READ_BYTES_PER_S, disk) else { continue };
            let mut group = ProgramGroup::default();
            let shares = swapping.into_iter().chain([refaults]);
            let shares = shares.map(|node| self.track_node(node, &mut group)).collect();
            let read_bytes = self.track_node(read, &mut group);
            self.states.paging_tracks.insert((*disk).to_owned(), PagingTracks { shares, read_bytes });
            self.merge_group(&scope, group);
        }
    }

    fn add_statistic(
        &mut self,
        kind: Pseudo,
        scope: &RuleScope<'a>,
        group: &mut ProgramGroup,
    ) -> Result<usize, Absence> {
        let value = match kind {
            Pseudo::LightLoad => "avg_s_per_transfer",
            Pseudo::LightLoadBytes => "avg_bytes_per_transfer",
            _ => "transfers_per_s",
        };
        let mut node = |short: &str| {
            let name =
                RuleCounter::resolve_name(PHYSICAL_DISK, short).map_err(|_| Absence::Missing(short.to_owned()))?;
            self.builder.resolve_counter(&name, scope)
        };
        let (queue, value) = (node("avg_queue_length")?, node(value)?);
        let state = self.states.statistic_index(kind, scope.key());
        group.statistics.push(StatisticPlan { state, queue, value });
        Ok(state)
    }
}

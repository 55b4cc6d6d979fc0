//! Builds the nodes that compute a rule's counters at the instance for which the rule is judged.

use std::collections::{HashMap, HashSet};

use diskwright_base::arithmetic::member_load;
use diskwright_base::catalogue::OverInstances;
use diskwright_base::counter_ids::{array, memory, physical_disk, pressure, processor, system};
use diskwright_base::{Catalogue, Ceiling, CounterKind, DeviceClass, RaidLevel};

use crate::compile::schema_index::{SchemaIndex, instance_aggregation, split_cgroup_device};
use crate::rules::{DeviceCeiling, Operand, Pseudo, QuantityDivisor, RuleCounter, RuleQuantity, SPINDLES_COUNTER};
use crate::sums::{CeilingNodes, Formula, NodeFactor, NodeId, ProgramNode};

/// Scope at which a rule is judged.
#[derive(Clone, Debug)]
pub(crate) enum RuleScope<'a> {
    /// The whole machine.
    Machine,
    /// One instance of an object.
    Instance(&'a str, &'a str),
    /// An array, by the name it has as a device.
    Array(&'a str),
    /// The sum or mean over instances of an object.
    Combined(&'a str, Vec<&'a str>),
}

impl RuleScope<'_> {
    /// Name of the instance in findings; empty for the machine and for combined instances.
    pub fn instance(&self) -> &str {
        match self {
            RuleScope::Instance(_, instance) | RuleScope::Array(instance) => instance,
            RuleScope::Machine | RuleScope::Combined(..) => "",
        }
    }

    fn object(&self) -> &str {
        match self {
            RuleScope::Machine => "machine",
            RuleScope::Array(_) => "physical_disk",
            RuleScope::Instance(object, _) | RuleScope::Combined(object, _) => object,
        }
    }

    /// Text that identifies this scope.
    pub fn key(&self) -> String {
        match self {
            RuleScope::Machine => String::new(),
            RuleScope::Instance(object, instance) => format!("{object}:{instance}"),
            RuleScope::Array(array) => format!("set:{array}"),
            RuleScope::Combined(object, instances) => format!("{object}:{}", instances.join("+")),
        }
    }
}

/// Reason why a counter is unavailable at a scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Absence {
    /// The log lacks this counter.
    Missing(String),
    /// The quantity does not exist at this scope (such as the array above a disk that is in no array).
    Nowhere,
}

/// Smallest number of operations in a tick for a meaningful latency.
const MIN_OPERATIONS: f64 = 5.0;
/// Floor of the other members' median latency, seconds: a smaller median does not enlarge the ratio.
const MIN_MEDIAN_LATENCY_S: f64 = 20e-6;
/// Largest number of other disks with which one is compared.
const MAX_TWINS: usize = 63;
/// Floor of the other members' median queue, requests.
const MIN_MEDIAN_QUEUE: f64 = 0.05;

/// Builds the nodes of a program; equal nodes are built once.
pub(crate) struct NodeBuilder<'a> {
    pub schema_index: &'a SchemaIndex<'a>,
    pub nodes: Vec<ProgramNode>,
    /// Text that identifies each node. It is the same in every program, so that states are found by it.
    pub keys: Vec<String>,
    ids: HashMap<String, NodeId>,
    /// Keys of unavailable counters, because many rules look up the same ones.
    absent: HashSet<String>,
    /// Nodes of totals, by counter: a rule may read one at each of many instances.
    totals: HashMap<String, Option<NodeId>>,
    /// Reused buffer for the key of a lookup.
    key: String,
}

impl<'a> NodeBuilder<'a> {
    /// Creates a builder without nodes.
    pub fn new(schema_index: &'a SchemaIndex<'a>) -> NodeBuilder<'a> {
        NodeBuilder {
            schema_index,
            nodes: Vec::new(),
            keys: Vec::new(),
            ids: HashMap::new(),
            absent: HashSet::new(),
            totals: HashMap::new(),
            key: String::new(),
        }
    }

    pub(crate) fn push(&mut self, key: String, node: ProgramNode) -> NodeId {
        if let Some(&id) = self.ids.get(&key) {
            return id;
        }
        self.nodes.push(node);
        self.keys.push(key.clone());
        self.ids.insert(key, self.nodes.len() - 1);
        self.nodes.len() - 1
    }

    pub(crate) fn push_constant(&mut self, value: f64) -> NodeId {
        self.push(format!("={value}"), ProgramNode::Constant(value))
    }

    /// Node of a counter of one instance; `None` where the log lacks it.
    pub fn counter_node(&mut self, counter: &str, instance: &str) -> Option<NodeId> {
        self.key.clear();
        [counter, "@", instance].iter().for_each(|part| self.key.push_str(part));
        if let Some(&id) = self.ids.get(&self.key) {
            return Some(id);
        }
        if self.absent.contains(&self.key) {
            return None;
        }
        let Some(plan) = self.schema_index.plan_counter(counter, instance) else {
            self.absent.insert(self.key.clone());
            return None;
        };
        let is_total = plan.kind() == CounterKind::Total;
        Some(self.push(self.key.clone(), ProgramNode::Counter { plan, is_total }))
    }

    /// Node of a counter over several instances, combined as the catalogue says.
    pub fn combined_node(&mut self, counter: &str, instances: &[&str]) -> Option<NodeId> {
        let nodes: Vec<NodeId> = instances.iter().filter_map(|i| self.counter_node(counter, i)).collect();
        let node = match (nodes.as_slice(), instance_aggregation(counter)) {
            ([], _) => return None,
            ([only], _) => return Some(*only),
            (_, OverInstances::Sum) => ProgramNode::Sum(nodes),
            (_, OverInstances::Mean) => ProgramNode::Mean(nodes),
            (_, OverInstances::Weighted) => ProgramNode::Weighted(nodes),
            (_, OverInstances::Max) => ProgramNode::Max(nodes),
            (_, OverInstances::None) => return None,
        };
        Some(self.push(format!("{counter}@{}", instances.join("+")), node))
    }

    /// Node of a counter's only instance, or of its total.
    pub(crate) fn total_node(&mut self, counter: &str) -> Option<NodeId> {
        if let Some(known) = self.totals.get(counter) {
            return *known;
        }
        let object = counter.split_once('.').map_or("", |(object, _)| object);
        let instances = self.schema_index.representative_instances(object);
        let sum = self.combined_node(counter, &instances);
        let own_total = || self.schema_index.own_total(object);
        let total = sum.or_else(|| own_total().and_then(|total| self.counter_node(counter, total)));
        self.totals.insert(counter.to_owned(), total);
        total
    }

    /// Node of a counter of an array. Counts of requests and bytes are those of the array itself, if it is a device
    /// that counts them; queues and latencies are those of its members.
    fn array_node(&mut self, counter: &str, set: &'a str) -> Option<NodeId> {
        let members = self.schema_index.measured_members(set);
        let entry = Catalogue::builtin().get(counter)?;
        let counts_requests = matches!(entry.kind, CounterKind::Rate | CounterKind::Total) || entry.unit == "bytes";
        if counts_requests {
            self.counter_node(counter, set).or_else(|| self.combined_node(counter, &members))
        } else {
            self.combined_node(counter, &members).or_else(|| self.counter_node(counter, set))
        }
    }

    /// Node of a rule's counter at a scope.
    pub fn resolve_counter(&mut self, name: &RuleCounter, scope: &RuleScope<'a>) -> Result<NodeId, Absence> {
        if let Some(pseudo) = name.pseudo {
            return self.pseudo_node(pseudo, scope, &name.id);
        }
        let found = if name.object == scope.object() {
            match scope {
                RuleScope::Machine => None,
                RuleScope::Instance(_, instance) => {
                    // a cgroup has two instances: `path@device` for its I/O on a device, and `path` for the rest
                    let group = split_cgroup_device(instance).map(|(path, _)| path).filter(|_| name.object == "cgroup");
                    self.counter_node(&name.id, instance).or_else(|| self.counter_node(&name.id, group?))
                }
                RuleScope::Array(set) => self.array_node(&name.id, set),
                RuleScope::Combined(_, instances) => self.combined_node(&name.id, instances),
            }
        } else {
            match scope {
                RuleScope::Instance(object, instance) if name.object == "physical_disk" => {
                    match self.schema_index.disks_below(object, instance) {
                        disks if disks.is_empty() => self.total_node(&name.id),
                        disks => self.combined_node(&name.id, &disks),
                    }
                }
                _ => self.total_node(&name.id),
            }
        };
        found.ok_or_else(|| Absence::Missing(name.id.clone()))
    }

    /// Node of a rule's quantity at a scope.
    pub fn quantity_node(&mut self, quantity: &RuleQuantity, scope: &RuleScope<'a>) -> Result<NodeId, Absence> {
        let first = self.resolve_counter(&quantity.counter, scope)?;
        if quantity.is_plain() && quantity.per.is_none() {
            return Ok(first);
        }
        let formula = Formula {
            first,
            plus: quantity.plus.iter().map(|n| self.resolve_counter(n, scope)).collect::<Result<_, _>>()?,
            minus: quantity.minus.iter().map(|n| self.resolve_counter(n, scope)).collect::<Result<_, _>>()?,
            times: self.operand_factor(quantity.times.as_ref(), scope)?,
            over: self.operand_factor(quantity.over.as_ref(), scope)?,
            per: self.divisor_factor(quantity.per, scope)?,
        };
        if formula.per == NodeFactor::Number(1.0) && quantity.is_plain() {
            return Ok(first);
        }
        Ok(self.push(format!("{}@{}", quantity.formula_text(), scope.key()), ProgramNode::Formula(Box::new(formula))))
    }

    fn operand_factor(&mut self, operand: Option<&Operand>, scope: &RuleScope<'a>) -> Result<NodeFactor, Absence> {
        Ok(match operand {
            None => NodeFactor::One,
            Some(Operand::Number(number)) => NodeFactor::Number(*number),
            Some(Operand::Counter(name)) => NodeFactor::Node(self.resolve_counter(name, scope)?),
        })
    }

    /// Divisor that `per` stands for.
    pub fn divisor_factor(
        &mut self,
        per: Option<QuantityDivisor>,
        scope: &RuleScope<'a>,
    ) -> Result<NodeFactor, Absence> {
        Ok(match per {
            None => NodeFactor::One,
            Some(QuantityDivisor::Spindle) => NodeFactor::Number(self.spindle_count(scope)?),
            Some(QuantityDivisor::Processor) => match self.processors_node() {
                Some(id) => match self.nodes[id] {
                    ProgramNode::Constant(number) => NodeFactor::Number(number),
                    _ => NodeFactor::Node(id),
                },
                None => return Err(Absence::Missing(system::PROCESSORS.into())),
            },
        })
    }

    /// Disks behind a scope, at least 1; absent where the log does not tell.
    pub fn spindle_count(&self, scope: &RuleScope<'a>) -> Result<f64, Absence> {
        let count_of = |device: &str| self.schema_index.spindle_count(device);
        let sum_over = |devices: &[&str]| devices.iter().map(|d| count_of(d)).sum::<Option<usize>>();
        let count = match scope {
            RuleScope::Machine => sum_over(self.schema_index.disks()),
            RuleScope::Combined(_, instances) => sum_over(instances),
            RuleScope::Array(device) | RuleScope::Instance("physical_disk" | "array", device) => count_of(device),
            RuleScope::Instance("logical_disk", letter) => self.schema_index.drive_spindle_count(letter),
            RuleScope::Instance(object, instance) => sum_over(&self.schema_index.disks_below(object, instance)),
        };
        count.map(|count| count.max(1) as f64).ok_or_else(|| Absence::Missing(SPINDLES_COUNTER.into()))
    }

    fn processors_node(&mut self) -> Option<NodeId> {
        match self.schema_index.topology {
            Some(topology) if topology.processors > 0 => Some(self.push_constant(f64::from(topology.processors))),
            _ => {
                let instance_count = self
                    .schema_index
                    .instances("processor")
                    .iter()
                    .filter(|i| !i.eq_ignore_ascii_case("_total"))
                    .count();
                let counted = self.total_node(system::PROCESSORS);
                counted.or_else(|| (instance_count > 0).then(|| self.push_constant(instance_count as f64)))
            }
        }
    }

    fn pseudo_node(&mut self, pseudo: Pseudo, scope: &RuleScope<'a>, id: &str) -> Result<NodeId, Absence> {
        let missing = || Absence::Missing(id.to_owned());
        match pseudo {
            Pseudo::Spindles => {
                let count = self.spindle_count(scope)?;
                Ok(self.push_constant(count))
            }
            Pseudo::Processors => self.processors_node().ok_or_else(missing),
            Pseudo::MemoryBytes => match self.schema_index.topology {
                Some(t) if t.memory_bytes > 0 => Ok(self.push_constant(t.memory_bytes as f64)),
                _ => self.total_node(memory::TOTAL_BYTES).ok_or_else(missing),
            },
            Pseudo::BackEndLoad => self.back_end_load(scope, false).ok_or_else(missing),
            Pseudo::MemberLoad => {
                let counted = self.counted_member_load(scope);
                counted.or_else(|| self.back_end_load(scope, true)).ok_or_else(missing)
            }
            Pseudo::CeilingRequests => self.ceiling_constant(scope, |c| c.requests_per_s).ok_or_else(missing),
            Pseudo::CeilingBytes => self.ceiling_constant(scope, |c| c.bytes_per_s).ok_or_else(missing),
            Pseudo::CeilingKnee => self.ceiling_constant(scope, |c| c.knee_depth).ok_or_else(missing),
            Pseudo::CeilingFirm => {
                self.ceiling_constant(scope, |c| Some(f64::from(u8::from(c.is_firm())))).ok_or_else(missing)
            }
            Pseudo::CeilingUsed => self.ceiling_use_node(scope, false).ok_or_else(missing),
            Pseudo::CeilingLatency => self.ceiling_use_node(scope, true).ok_or_else(missing),
            Pseudo::VolumeUsed => self.volume_use(scope, |cap| cap.burst).ok_or_else(missing),
            Pseudo::VolumeBaselineUsed => self.volume_use(scope, |cap| cap.baseline).ok_or_else(missing),
            Pseudo::InstanceUsed => self.instance_use(|cap| cap.burst).ok_or_else(missing),
            Pseudo::InstanceBaselineUsed => self.instance_use(|cap| cap.baseline).ok_or_else(missing),
            Pseudo::LinkUsed => self.link_used(scope).ok_or_else(missing),
            Pseudo::MemberLatencyRatio => self.member_ratio(scope, true),
            Pseudo::MemberQueueRatio => self.member_ratio(scope, false),
            Pseudo::TwinLatencyRatio => self.twin_latency_ratio(scope),
            Pseudo::Background => self.background_node(scope).ok_or_else(missing),
            Pseudo::BackgroundShare => self.background_share(scope),
            Pseudo::Waiting => self.waiting_node().ok_or_else(missing),
            Pseudo::WaitingUnseen => Ok(self.waiting_unseen(scope)),
            Pseudo::SwapInMemory => self.swap_in_memory().ok_or_else(missing),
            Pseudo::SwapShare => self.swap_share(scope),
            Pseudo::PageShare => self.page_share(scope),
            Pseudo::RefaultShare => self.refault_share(),
            Pseudo::PagingUnseen => Ok(self.paging_unseen()),
            Pseudo::DisksUnseen => Ok(self.disks_unseen()),
            // known only at the end of the window; see `ProgramBuilder::plan_operand`
            Pseudo::LightLoad | Pseudo::LightLoadBytes | Pseudo::BusySteadiness => Err(missing()),
            // only alerts have these
            Pseudo::VerdictConfidence | Pseudo::AnyVerdictConfidence | Pseudo::TicksOverdue | Pseudo::Events => {
                Err(missing())
            }
        }
    }

    /// Constant 1 where no counter of the log shows who waits, else 0: many Windows logs have only a disk's total
    /// queue.
    fn waiting_unseen(&mut self, scope: &RuleScope<'a>) -> NodeId {
        let mut shows_waiting = |object: &str, device: &str| {
            let mut has = |name: &str| self.counter_node(&format!("{object}.{name}"), device).is_some();
            has("avg_read_queue_length") || (has("avg_s_per_read") && has("reads_per_s"))
        };
        let is_seen = match scope {
            RuleScope::Instance(object, device) => shows_waiting(object, device),
            RuleScope::Array(device) => shows_waiting("physical_disk", device),
            RuleScope::Machine | RuleScope::Combined(..) => true,
        };
        let has_pressure = self.total_node(pressure::IO_SOME).is_some();
        self.push_constant(f64::from(u8::from(!is_seen && !has_pressure)))
    }

    fn mean_transfers(&mut self, disks: &[&str]) -> Option<NodeId> {
        let nodes: Vec<NodeId> =
            disks.iter().filter_map(|d| self.counter_node(physical_disk::TRANSFERS_PER_S, d)).collect();
        (!nodes.is_empty()).then(|| self.push(format!("load@{}", disks.join("+")), ProgramNode::Mean(nodes)))
    }

    /// Mean transfers of an array's members by their own counters; `None` where one of them is not in the log.
    fn counted_member_load(&mut self, scope: &RuleScope<'a>) -> Option<NodeId> {
        let (RuleScope::Array(device) | RuleScope::Instance(_, device)) = scope else { return None };
        let set = self.schema_index.find_device(device).filter(|d| d.level.is_some())?;
        let members = self.schema_index.measured_members(&set.name);
        let are_all_measured = self.schema_index.spindle_count(&set.name) == Some(members.len());
        let are_counted = members.iter().all(|d| self.counter_node(physical_disk::TRANSFERS_PER_S, d).is_some());
        if are_all_measured && are_counted { self.mean_transfers(&members) } else { None }
    }

    /// Node of the operations per second on each disk; with `is_software`, as a software array does them: with the
    /// fewest operations.
    fn back_end_load(&mut self, scope: &RuleScope<'a>, is_software: bool) -> Option<NodeId> {
        match scope {
            RuleScope::Machine => {
                let schema_index = self.schema_index;
                self.mean_transfers(schema_index.disks())
            }
            RuleScope::Combined(_, disks) => self.mean_transfers(disks),
            RuleScope::Instance(_, device) | RuleScope::Array(device) => {
                let set = self.schema_index.find_device(device).filter(|d| d.level.is_some());
                let object = if scope.object() == "logical_disk" { "logical_disk" } else { "physical_disk" };
                let mut own = |name: &str| self.counter_node(&format!("{object}.{name}"), device);
                let Some(set) = set else { return own("transfers_per_s") };
                let (reads, writes, transfers) = (own("reads_per_s"), own("writes_per_s"), own("transfers_per_s"));
                let level = set.level.unwrap_or(RaidLevel::Linear);
                let count = self.schema_index.spindle_count(&set.name).unwrap_or(1);
                let (reads, writes) = match (reads, writes) {
                    (Some(reads), Some(writes)) => (reads, writes),
                    _ if object == "physical_disk" && self.schema_index.measured_members(&set.name) != [*device] => {
                        return self.mean_transfers(&self.schema_index.measured_members(&set.name));
                    }
                    // one device with several disks behind it: where a write costs more than a read, the load on the
                    // disks is unknown without their shares
                    _ if level.write_factor(count) == 1.0 => (transfers?, self.push_constant(0.0)),
                    _ => return None,
                };
                // the published arithmetic, applied to one write per second
                let published = member_load(level, count, 0.0, 1.0) * count as f64;
                // a software array with parity reconstructs where that reads less: as many operations as members
                let has_parity = matches!(level, RaidLevel::Raid4 | RaidLevel::Raid5 | RaidLevel::Raid6);
                let factor = if is_software && has_parity { published.min(count as f64) } else { published };
                let load = ProgramNode::MemberLoad { reads, writes, factor, members: count as f64 };
                Some(self.push(format!("load {factor}@{device}"), load))
            }
        }
    }

    /// Node of a value of the ceiling that a probe measured of a device.
    fn ceiling_constant(
        &mut self,
        scope: &RuleScope<'a>,
        ceiling_value: fn(&Ceiling) -> Option<f64>,
    ) -> Option<NodeId> {
        let device = scope.instance();
        let value = self.schema_index.ceilings.iter().find(|c| c.device == device).and_then(ceiling_value)?;
        Some(self.push_constant(value))
    }

    /// Node that compares a device's own counts with its ceilings. An array has such a node only if it counts its own
    /// requests, because its members count others.
    fn ceiling_use_node(&mut self, scope: &RuleScope<'a>, latency: bool) -> Option<NodeId> {
        let device = scope.instance();
        let ceiling = DeviceCeiling::for_device(
            self.schema_index.ceilings.iter().find(|c| c.device == device)?,
            self.schema_index.device_class(device),
        );
        let mut device_node = |name: &str| self.counter_node(&format!("physical_disk.{name}"), device);
        let measured = CeilingNodes {
            reads: device_node("reads_per_s")?,
            writes: device_node("writes_per_s")?,
            read_bytes: device_node("read_bytes_per_s")?,
            write_bytes: device_node("write_bytes_per_s")?,
            latency: if latency { Some(device_node("avg_s_per_transfer")?) } else { None },
            ceiling,
        };
        let value_kind = if latency { "latency" } else { "used" };
        // the ceiling is part of the key: a later note may bring another one
        let key = format!("ceiling {value_kind}@{device} {ceiling:?}");
        Some(self.push(key, ProgramNode::CeilingUse(Box::new(measured))))
    }

    fn link_used(&mut self, scope: &RuleScope<'a>) -> Option<NodeId> {
        let device = scope.instance();
        let speed = self.schema_index.find_device(device)?.link_bytes_per_s.filter(|s| *s > 0.0)?;
        let bytes = self.link_bytes_node(device)?;
        let formula = Formula {
            first: bytes,
            plus: Vec::new(),
            minus: Vec::new(),
            times: NodeFactor::One,
            over: NodeFactor::Number(speed),
            per: NodeFactor::One,
        };
        Some(self.push(format!("link@{device}"), ProgramNode::Formula(Box::new(formula))))
    }

    /// Node of the bytes on a device's link: on a full-duplex link the busier direction, else both.
    fn link_bytes_node(&mut self, device: &str) -> Option<NodeId> {
        let both = self.counter_node(physical_disk::BYTES_PER_S, device);
        let known = self.schema_index.find_device(device);
        let path = known.and_then(|d| d.path.as_deref()).unwrap_or_default();
        let is_full_duplex = known.is_some_and(|d| d.class == DeviceClass::Nvme)
            || path.split('/').any(|part| part.starts_with("port-") || part.starts_with("rport-"));
        let mut device_node = |name: &str| self.counter_node(&format!("physical_disk.{name}"), device);
        match (is_full_duplex, device_node("read_bytes_per_s"), device_node("write_bytes_per_s")) {
            (true, Some(read), Some(written)) => {
                Some(self.push(format!("busier direction@{device}"), ProgramNode::Max(vec![read, written])))
            }
            _ => both,
        }
    }

    fn member_ratio(&mut self, scope: &RuleScope<'a>, latency: bool) -> Result<NodeId, Absence> {
        let device = scope.instance();
        let set = self.schema_index.array_over(device).filter(|set| *set != device).ok_or(Absence::Nowhere)?;
        let (counter, floor, min_weight) = if latency {
            (physical_disk::AVG_S_PER_TRANSFER, MIN_MEDIAN_LATENCY_S, MIN_OPERATIONS)
        } else {
            (physical_disk::AVG_QUEUE_LENGTH, MIN_MEDIAN_QUEUE, f64::MIN_POSITIVE)
        };
        let missing = || Absence::Missing(counter.to_owned());
        let own = self.counter_node(counter, device).ok_or_else(missing)?;
        let members = self.schema_index.measured_members(set);
        let members: Vec<NodeId> = members.iter().filter_map(|m| self.counter_node(counter, m)).collect();
        let median = self.push(format!("median {counter}@{set}"), ProgramNode::MemberMedian { members, min_weight });
        let ratio = ProgramNode::MemberRatio { own, median, floor, min_weight };
        Ok(self.push(format!("ratio {counter}@{device}"), ratio))
    }

    /// Latency of a disk over that of disks with the same load; members of arrays have a rule of their own.
    fn twin_latency_ratio(&mut self, scope: &RuleScope<'a>) -> Result<NodeId, Absence> {
        let device = scope.instance();
        let others: Vec<&'a str> = self.schema_index.disks().iter().copied().filter(|disk| *disk != device).collect();
        if self.schema_index.array_over(device).is_some() || !(1..=MAX_TWINS).contains(&others.len()) {
            return Err(Absence::Nowhere);
        }
        let (latency, rate) = (physical_disk::AVG_S_PER_TRANSFER, physical_disk::TRANSFERS_PER_S);
        let missing = |counter: &str| Absence::Missing(counter.to_owned());
        let own_latency = self.counter_node(latency, device).ok_or_else(|| missing(latency))?;
        let own_rate = self.counter_node(rate, device).ok_or_else(|| missing(rate))?;
        let twin = |other: &&str| Some((self.counter_node(latency, other)?, self.counter_node(rate, other)?));
        let twins = others.iter().filter_map(twin).collect();
        Ok(self.push(format!("twin ratio@{device}"), ProgramNode::TwinRatio { own_latency, own_rate, twins }))
    }

    /// Arrays whose background work affects a scope.
    fn affecting_arrays(&self, scope: &RuleScope<'a>) -> Vec<&'a str> {
        let Some(topology) = self.schema_index.topology else { return self.schema_index.instances("array").to_vec() };
        let sets = topology.devices.iter().filter(|d| d.level.is_some());
        match scope {
            RuleScope::Machine | RuleScope::Combined(..) => sets.map(|d| d.name.as_str()).collect(),
            RuleScope::Instance(_, device) | RuleScope::Array(device) => {
                sets.filter(|d| topology.stands_on(&d.name, device)).map(|d| d.name.as_str()).collect()
            }
        }
    }

    fn background_node(&mut self, scope: &RuleScope<'a>) -> Option<NodeId> {
        let arrays = self.affecting_arrays(scope);
        let measured: Vec<NodeId> = arrays.iter().filter_map(|a| self.counter_node(array::BACKGROUND, a)).collect();
        if !measured.is_empty() {
            return Some(self.push(format!("background@{}", arrays.join("+")), ProgramNode::Max(measured)));
        }
        let topology = self.schema_index.topology?;
        let is_running = arrays.iter().any(|a| topology.find_device(a).is_some_and(|d| d.background.is_some()));
        Some(self.push_constant(if is_running { 1.0 } else { 0.0 }))
    }

    fn background_share(&mut self, scope: &RuleScope<'a>) -> Result<NodeId, Absence> {
        let arrays = self.affecting_arrays(scope);
        let sync = array::SYNC_BYTES_PER_S;
        let measured: Vec<NodeId> = arrays.iter().filter_map(|a| self.counter_node(sync, a)).collect();
        if measured.is_empty() {
            // a disk outside of arrays has no background work; an array without the counter hides it
            return if arrays.is_empty() { Ok(self.push_constant(0.0)) } else { Err(Absence::Missing(sync.into())) };
        }
        let bytes = physical_disk::BYTES_PER_S;
        let missing = || Absence::Missing(bytes.to_owned());
        let total = match scope {
            RuleScope::Array(set) => self.array_node(bytes, set),
            _ => self.counter_node(bytes, scope.instance()),
        };
        let total = total.ok_or_else(missing)?;
        let part = self.push(format!("sync@{}", arrays.join("+")), ProgramNode::Max(measured));
        Ok(self.push(format!("background share@{}", scope.key()), ProgramNode::Share { part, total }))
    }

    fn waiting_node(&mut self) -> Option<NodeId> {
        if let Some(pressure) = self.total_node(pressure::IO_SOME) {
            return Some(pressure);
        }
        match self.total_node(system::BLOCKED) {
            Some(blocked) => Some(self.push("waiting@".into(), ProgramNode::Positive(blocked))),
            None => self.total_node(processor::IOWAIT),
        }
    }

    fn swap_in_memory(&mut self) -> Option<NodeId> {
        let topology = self.schema_index.topology?;
        let total: u64 = topology.swaps.iter().map(|s| s.bytes).sum();
        let in_memory =
            topology.swaps.iter().filter(|s| self.schema_index.device_class(&s.device) == DeviceClass::Memory);
        let in_memory: u64 = in_memory.map(|s| s.bytes).sum();
        let share = if total == 0 { 0.0 } else { in_memory as f64 / total as f64 };
        Some(self.push_constant(share))
    }
}

//! Which trouble can be the reason for another: they share a disk, or one is a shortage of memory and the other is what
//! paging does.

use std::collections::HashMap;

use diskwright_base::counter_ids::{memory, processor};
use diskwright_base::{Device, DeviceClass, Topology};

use crate::answer::blame::database_blame::is_idle_lock_holder;
use crate::answer::rule_outcome::{RuleOutcome, leading_condition};
use crate::answer::verdict::Finding;
use crate::compile::{cgroup_path, is_in_cgroup, split_cgroup_device};
use crate::rules::{Bottleneck, Rule};
use crate::run::Observation;

/// Counter of the processor share of the busiest thread.
pub(crate) const BUSIEST_THREAD_COUNTER: &str = "system.busiest_thread";
/// Prefix of the counters of a cgroup's processor quota.
pub(crate) const CPU_QUOTA_PREFIX: &str = "cgroup.cpu_";
/// Smallest free share of memory at which the kernel frees none for the machine as a whole: it begins when free memory
/// sinks below a mark of a few percent (Linux Documentation/admin-guide/sysctl/vm.rst, watermark_scale_factor).
const MIN_FREE_SHARE: f64 = 0.1;
/// Objects of rules that need special treatment.
pub(crate) const PHYSICAL_DISK: &str = "physical_disk";
pub(crate) const CGROUP: &str = "cgroup";
pub(crate) const MACHINE: &str = "machine";
/// Smallest share of all processor time in programs at which the processors are full whatever the kernel does for
/// memory. Our choice.
const MIN_OWN_PROCESSOR_SHARE: f64 = 0.8;

/// What relations of a window's troubles depend on.
pub(crate) struct Relations<'a> {
    pub observed: &'a Observation,
    /// The cgroups that are short of memory, where the machine as a whole is not: most of what it shows of a shortage
    /// is theirs. Empty otherwise.
    starved_groups: Vec<&'a str>,
    /// What lies under each device, searched once: a log may have thousands of disks, and pairs of them are compared.
    ends: HashMap<&'a str, DeviceEnds<'a>>,
}

/// What lies at the end of a device: its leaves, and its disks.
struct DeviceEnds<'a> {
    leaves: Vec<&'a str>,
    disks: Vec<&'a str>,
}

impl<'a> Relations<'a> {
    /// Relations of a window, by the outcomes of its rules.
    pub fn new(observed: &'a Observation, outcomes: &[RuleOutcome<'a>]) -> Relations<'a> {
        let free = observed.mean_sign(memory::FREE_BYTES).zip(observed.mean_sign(memory::TOTAL_BYTES));
        let is_starved =
            |o: &&RuleOutcome<'_>| o.holds && o.rule.bottleneck == Bottleneck::Memory && o.rule.object == CGROUP;
        let starved_groups = match free {
            Some((free, total)) if free >= MIN_FREE_SHARE * total => {
                outcomes.iter().filter(is_starved).map(|o| o.progress.instance.as_str()).collect()
            }
            _ => Vec::new(),
        };
        let devices = observed.topology.iter().flat_map(|topology| topology.devices.iter().map(move |d| (topology, d)));
        let ends = |(topology, device): (&'a Topology, &'a Device)| {
            let name = device.name.as_str();
            (name, DeviceEnds { leaves: topology.leaves_under(name), disks: topology.disks_under(name) })
        };
        Relations { observed, starved_groups, ends: devices.map(ends).collect() }
    }

    /// True where a shortage of memory that the machine shows is not why this disk is busy.
    fn does_not_page_to(&self, disk: &str) -> bool {
        let groups = self.starved_groups.as_slice();
        let avoid_disk = || groups.iter().all(|group| self.observed.cgroup_avoids_disk(group, disk));
        !self.observed.may_be_paging(disk)
            || !groups.is_empty() && (avoid_disk() || self.observed.is_read_by_others(disk, groups))
    }
}

/// What a rule blames, and where.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Blame<'a> {
    bottleneck: Bottleneck,
    object: &'a str,
    instance: &'a str,
    /// Id of the leading counter.
    counter: &'a str,
}

impl<'a> Blame<'a> {
    /// What a finding blames.
    pub fn of_finding(finding: &'a Finding) -> Blame<'a> {
        let Finding { bottleneck, object, instance, counter, .. } = finding;
        Blame { bottleneck: *bottleneck, object, instance, counter }
    }

    /// What a rule blames at an instance, whether it holds there or not.
    pub fn of_outcome(outcome: &RuleOutcome<'a>) -> Blame<'a> {
        let rule = outcome.rule;
        let counter = rule.conditions().nth(leading_condition(rule, outcome.progress));
        Blame {
            bottleneck: rule.bottleneck,
            object: &rule.object,
            instance: &outcome.progress.instance,
            counter: counter.map_or("", |condition| &condition.quantity.counter.id),
        }
    }

    /// The bottleneck that is blamed.
    pub fn bottleneck(self) -> Bottleneck {
        self.bottleneck
    }

    fn is_processor_quota(self) -> bool {
        self.counter.starts_with(CPU_QUOTA_PREFIX)
    }
}

/// True where one outcome can be the reason for another. Rules on the same object explain each other only at the same
/// instance. Otherwise the two must have a disk in common. A shortage of memory explains only what paging can do.
pub(crate) fn can_explain(relations: &Relations<'_>, other: &RuleOutcome<'_>, outcome: &RuleOutcome<'_>) -> bool {
    if are_judged_alike(other.rule, outcome.rule) && other.progress.instance != outcome.progress.instance {
        return false;
    }
    are_related(relations, other, outcome)
        && !is_unrelated(relations, Blame::of_outcome(other), Blame::of_outcome(outcome))
}

/// True for two rules that are judged at the same instances.
pub(crate) fn are_judged_alike(one: &Rule, other: &Rule) -> bool {
    one.object == other.object && one.which == other.which
}

/// False for rules on disks and arrays whose instances have no disk in common.
pub(crate) fn are_related(relations: &Relations<'_>, one: &RuleOutcome<'_>, other: &RuleOutcome<'_>) -> bool {
    let are_disks = [one, other].iter().all(|outcome| outcome.rule.object == PHYSICAL_DISK);
    !are_disks || have_common_disk(relations, &one.progress.instance, &other.progress.instance)
}

/// False for two devices that are known to have no disk in common; an empty name stands for all devices.
fn have_common_disk(relations: &Relations<'_>, a: &str, b: &str) -> bool {
    if a == b || a.is_empty() || b.is_empty() {
        return true;
    }
    let Some((a_ends, b_ends)) = relations.ends.get(a).zip(relations.ends.get(b)) else { return true };
    let stands_on = |upper: &DeviceEnds<'_>, lower: &str| upper.leaves.contains(&lower) || upper.disks.contains(&lower);
    a_ends.disks.iter().any(|disk| stands_on(b_ends, disk)) || stands_on(a_ends, b)
}

/// True for a shortage of memory or a limit that is known not to be why something else is short: memory of a cgroup
/// that does not use the disk, paging that does not reach it, a limit on requests to another disk, a processor quota
/// beside a disk, or paging beside processors that programs fill by themselves.
pub(crate) fn is_unrelated(relations: &Relations<'_>, cause: Blame<'_>, effect: Blame<'_>) -> bool {
    match (cause.bottleneck, effect.bottleneck) {
        (Bottleneck::Memory, Bottleneck::Cpu) if effect.counter != BUSIEST_THREAD_COUNTER => {
            let share = |counter| relations.observed.mean_sign(counter).unwrap_or(0.0);
            share(processor::USER) + share(processor::NICE) >= MIN_OWN_PROCESSOR_SHARE
        }
        (Bottleneck::Memory, _) if effect.object == PHYSICAL_DISK && effect.bottleneck != Bottleneck::Memory => {
            match cause.object {
                CGROUP => {
                    let (observed, group) = (relations.observed, cause.instance);
                    observed.cgroup_avoids_disk(group, effect.instance)
                        || observed.is_read_by_others(effect.instance, &[group])
                }
                MACHINE => relations.does_not_page_to(effect.instance),
                _ => false,
            }
        }
        (Bottleneck::Throttle, _) if cause.object == CGROUP && effect.object == PHYSICAL_DISK => {
            let is_other_disk = |(_, device): (&str, &str)| !have_common_disk(relations, device, effect.instance);
            cause.is_processor_quota() || split_cgroup_device(cause.instance).is_some_and(is_other_disk)
        }
        _ => false,
    }
}

/// True for a finding on a cgroup that cannot be why a disk is busy, by what the kernel counts for each device.
pub(crate) fn is_unrelated_to_disk(relations: &Relations<'_>, group: &RuleOutcome<'_>, disk: &RuleOutcome<'_>) -> bool {
    let (group, disk) = (Blame::of_outcome(group), Blame::of_outcome(disk));
    let are_group_and_disk = group.object == CGROUP && disk.object == PHYSICAL_DISK;
    are_group_and_disk
        && match group.bottleneck {
            Bottleneck::Memory => relations.observed.cgroup_avoids_disk(group.instance, disk.instance),
            _ => is_unrelated(relations, group, disk),
        }
}

/// True for a shortage of memory or a limit in a cgroup, which may or may not be why others wait.
pub(crate) fn is_shortage(outcome: &RuleOutcome<'_>) -> bool {
    match outcome.rule.bottleneck {
        Bottleneck::Memory => true,
        Bottleneck::Throttle => outcome.rule.object == CGROUP,
        _ => false,
    }
}

/// True where memory is short only in cgroups, and a disk that none of them uses is blamed too: then paging does not
/// explain that disk.
pub(crate) fn is_memory_unrelated_to_disk<'a: 'b, 'b>(
    outcomes: impl Iterator<Item = &'b RuleOutcome<'a>> + Clone,
    is_unrelated: impl Fn(&RuleOutcome<'_>, &RuleOutcome<'_>) -> bool,
) -> bool {
    let blaming = |bottleneck: Bottleneck| {
        outcomes.clone().filter(move |o| o.rule.bottleneck == bottleneck && o.rule.weight > 0.0)
    };
    blaming(Bottleneck::Memory).next().is_some()
        && blaming(Bottleneck::Disk).any(|disk| blaming(Bottleneck::Memory).all(|memory| is_unrelated(memory, disk)))
}

/// True where taking away what one finding blames might take away the other, too. What is not known to be apart counts
/// as linked, so that a consequence is not called a bottleneck of its own.
pub(crate) fn are_linked(relations: &Relations<'_>, one: Blame<'_>, other: Blame<'_>) -> bool {
    use Bottleneck::{Channel, Controller, Cpu, Disk, Memory, Network, Throttle};
    // a pair is the same whichever comes first
    let (a, b) = if other.bottleneck < one.bottleneck { (other, one) } else { (one, other) };
    // who holds a lock and waits for nothing but a client is held up by nothing of the machine, and holds up nothing
    // but sessions
    if is_idle_lock_holder(one.counter) != is_idle_lock_holder(other.counter) {
        return one.object == other.object && one.instance == other.instance;
    }
    match (a.bottleneck, b.bottleneck) {
        (Memory, Memory) => a.object != CGROUP || b.object != CGROUP || are_same_branch(a.instance, b.instance),
        (Memory, Throttle) => match (a.object, b.object) {
            _ if b.object != CGROUP => true,
            (CGROUP, _) => are_same_branch(a.instance, b.instance),
            _ => !b.is_processor_quota(),
        },
        (Memory, Network) => false,
        (Memory, _) => !is_unrelated(relations, a, b),
        (Disk, Disk) => share_disks(relations, a.instance, b.instance),
        (Disk, Cpu) => false,
        (Disk, Throttle) => !is_unrelated(relations, b, a) && may_share_disk(relations, a, b),
        (Disk, Network) => a.object != PHYSICAL_DISK || is_behind_network(relations, a.instance),
        (Cpu, Channel | Controller | Network | Throttle) => false,
        (Throttle, Throttle) => a.object != CGROUP || b.object != CGROUP || are_same_branch(a.instance, b.instance),
        (Network, Throttle) => false,
        _ => true,
    }
}

/// True where requests to a disk may go over the network.
fn is_behind_network(relations: &Relations<'_>, disk: &str) -> bool {
    let device = relations.observed.topology.as_ref().and_then(|topology| topology.find_device(disk));
    device.is_none_or(|device| device.class == DeviceClass::Network)
}

/// True where one cgroup is the other, or lies below it.
fn are_same_branch(one: &str, other: &str) -> bool {
    let (one, other) = (cgroup_path(one), cgroup_path(other));
    is_in_cgroup(one, other) || is_in_cgroup(other, one)
}

/// True where two disks have a disk in common or are members of one array.
fn share_disks(relations: &Relations<'_>, one: &str, other: &str) -> bool {
    have_common_disk(relations, one, other)
        || relations
            .observed
            .topology
            .as_ref()
            .is_none_or(|topology| topology.arrays_over(one).iter().any(|array| topology.stands_on(&array.name, other)))
}

/// True where a limit may be one on the requests to this disk.
fn may_share_disk(relations: &Relations<'_>, disk: Blame<'_>, limit: Blame<'_>) -> bool {
    let limited = match limit.object {
        PHYSICAL_DISK => limit.instance,
        CGROUP => split_cgroup_device(limit.instance).map_or("", |(_, device)| device),
        _ => "",
    };
    have_common_disk(relations, disk.instance, limited)
}

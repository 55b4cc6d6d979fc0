//! Facts with which commands against a bottleneck are filled: processes, unit, group and disk, and values for limits.

use diskwright_base::counter_ids::{cgroup, memory, processor};
use diskwright_base::process_place::host_unit_of_cgroup;

use crate::answer::blame::acting_processes::ActingProcesses;
use crate::answer::blame::database_blame::add_database_facts;
use crate::answer::blame::relations::{CGROUP, MACHINE, PHYSICAL_DISK};
use crate::answer::verdict::{Culprit, Finding};
use crate::compile::cgroup_path;
use crate::rules::{ActionFacts, LoadFacts, honors_priorities, is_batch_program, is_server_program};
use crate::run::Observation;

/// Smallest rate that is worth a limit, bytes per second.
const MIN_LIMITED_RATE: f64 = 1e5;
/// Niceness that no program can exceed.
const MAX_NICE: i32 = 19;
const MIB: f64 = 1_048_576.0;

/// Longest time after the end of the window at which a process of the window may be acted on: later, its id may be that
/// of another.
const MAX_ACTING_AGE_NS: i64 = 600_000_000_000;

/// Facts about the leading finding of a bottleneck and the processes that make up the bulk of what it blames.
pub(crate) fn action_facts(
    observed: &Observation,
    leading: &Finding,
    culprits: &[Culprit],
    load: &LoadFacts<'_>,
) -> ActionFacts {
    let mut facts = ActionFacts::new();
    if leading.object == PHYSICAL_DISK && !leading.instance.is_empty() {
        facts.insert("device", leading.instance.clone());
        let device = observed.topology.as_ref().and_then(|topology| topology.find_device(&leading.instance));
        let scheduler = device.and_then(|device| device.scheduler.as_deref());
        if scheduler.is_some_and(honors_priorities) {
            facts.insert("priorities", String::new());
        }
    }
    let is_recent = observed.age_ns().is_none_or(|age| age <= MAX_ACTING_AGE_NS);
    add_database_facts(&mut facts, observed, leading);
    if !is_recent {
        facts.remove("lock_holder");
    }
    if let Some(acting) = ActingProcesses::find_acting(culprits, leading.bottleneck) {
        add_program(&mut facts, acting.leading, load);
        facts.insert("name", acting.name_text());
        if acting.leaves_others {
            facts.insert("several", String::new());
        }
        if is_recent {
            facts.extend(acting.process_facts());
        }
    }
    if leading.counter == processor::BUSY && leading.object == MACHINE {
        facts.insert("crowded", String::new());
    }
    if leading.object == CGROUP {
        let path = cgroup_path(&leading.instance);
        facts.insert("group", path.to_owned());
        // a limit of a group inside a unit is not that of the unit
        match host_unit_of_cgroup(path).filter(|unit| path.rsplit('/').next() == Some(*unit)) {
            Some(unit) => facts.insert("unit", unit.to_owned()),
            None => facts.remove("unit"),
        };
        add_memory_limit(&mut facts, observed, leading);
    }
    facts
}

/// Adds what is known of the first program that acts; those beside it are of the same kind.
fn add_program(facts: &mut ActionFacts, program: &Culprit, load: &LoadFacts<'_>) {
    facts.extend(program.nice.map(|nice| ("nice", nice.to_string())));
    if program.nice.is_none_or(|nice| nice < MAX_NICE) {
        facts.insert("urgent", String::new());
    }
    if is_batch_program(&program.name) {
        facts.insert("batch", String::new());
    }
    if is_server_program(&program.name) {
        facts.insert("server", String::new());
    }
    if program.realtime_priority.is_some() {
        facts.insert("realtime", String::new());
    }
    if !matches!(program.cgroup.as_str(), "" | "/") {
        facts.insert("group", program.cgroup.clone());
    }
    facts.extend(host_unit_of_cgroup(&program.cgroup).map(|unit| ("unit", unit.to_owned())));
    // what a process writes into memory faster than the disk takes it is no rate of the disk
    let of_disk = |own: Option<f64>, disk: Option<f64>| own.map(|own| disk.map_or(own, |disk| own.min(disk)) / 2.0);
    let half_read = of_disk(program.read_bytes_per_s, load.read_bytes_per_s);
    let half_write = of_disk(program.write_bytes_per_s, load.write_bytes_per_s);
    for (fact, rate) in [("half_read", half_read), ("half_write", half_write)] {
        facts.extend(rate.filter(|rate| *rate >= MIN_LIMITED_RATE).map(|rate| (fact, format!("{rate:.0}"))));
    }
}

/// Adds the memory limit of the finding's cgroup and half as much again, where the machine has that much to spare.
fn add_memory_limit(facts: &mut ActionFacts, observed: &Observation, leading: &Finding) {
    let value = |counter: &str| leading.evidence.iter().find(|e| e.counter == counter).and_then(|e| e.value);
    let available = value(memory::AVAILABLE_FRACTION).zip(observed.mean_sign(memory::TOTAL_BYTES));
    let Some(((fraction, total), limit)) = available.zip(value(cgroup::MEMORY_LIMIT_BYTES)) else { return };
    // a mean of equal values may be above them by a rounding error
    let limit = limit.round();
    let more = (limit * 1.5 / MIB).ceil() * MIB;
    // a tenth of the machine's memory stays free
    if limit > 0.0 && more - limit <= fraction * total - total / 10.0 {
        facts.insert("limit", format!("{limit:.0}"));
        facts.insert("more", format!("{more:.0}"));
        // only version 2 counts the pressure of a group
        let version = if value(cgroup::MEMORY_SOME).is_some() { "unified" } else { "legacy" };
        facts.insert(version, String::new());
    }
}

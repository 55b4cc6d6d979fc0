//! Facts with which commands against a bottleneck are filled: processes, unit, group and disk, and values for limits.

use diskwright_base::catalogue::display_unit;
use diskwright_base::counter_ids::{cgroup, memory, processor};
use diskwright_base::process_place::host_unit_of_cgroup;
use diskwright_base::units::format_value;

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
/// Smallest growth of a memory limit that is worth trying, as a factor, and room beyond what the group has in memory
/// and in swap. Ours.
const MIN_LIMIT_GROWTH: f64 = 1.5;
const MEMORY_MARGIN: f64 = 0.1;

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
        add_memory_limit(&mut facts, observed, leading, path);
        add_io_limit(&mut facts, observed, leading, path);
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

/// Adds the present memory limit of the finding's cgroup, and one that its pages in memory and in swap fit into, half
/// as much again at least, where the machine has that much to spare. A group that is gone has no limit to raise.
fn add_memory_limit(facts: &mut ActionFacts, observed: &Observation, leading: &Finding, path: &str) {
    let value = |counter: &str| leading.evidence.iter().find(|e| e.counter == counter).and_then(|e| e.value);
    let available = value(memory::AVAILABLE_FRACTION).zip(observed.mean_sign(memory::TOTAL_BYTES));
    let limit = observed.latest.value(cgroup::MEMORY_LIMIT_BYTES, path);
    let Some(((fraction, total), limit)) = available.zip(limit) else { return };
    let swapped = observed.latest.value(cgroup::SWAP_BYTES, path).unwrap_or(0.0);
    let needed = (limit + swapped) * (1.0 + MEMORY_MARGIN);
    let more = (needed.max(limit * MIN_LIMIT_GROWTH) / MIB).ceil() * MIB;
    // a tenth of the machine's memory stays free
    if limit > 0.0 && more - limit <= fraction * total - total / 10.0 {
        facts.insert("limit", format!("{limit:.0}"));
        facts.insert("more", format!("{more:.0}"));
        facts.insert("more_size", format_value(more, display_unit(cgroup::MEMORY_LIMIT_BYTES, "bytes")));
        // only version 2 counts the pressure of a group
        let version = if value(cgroup::MEMORY_SOME).is_some() { "unified" } else { "legacy" };
        facts.insert(version, String::new());
    }
}

/// A limit of I/O: the counter that shows how much of it is used, the limit's own counter, the key in io.max of version
/// 2, and the file of version 1.
const IO_LIMITS: [(&str, &str, &str, &str); 4] = [
    (cgroup::READ_LIMIT_USED, cgroup::READ_LIMIT_PER_S, "riops", "read_iops_device"),
    (cgroup::WRITE_LIMIT_USED, cgroup::WRITE_LIMIT_PER_S, "wiops", "write_iops_device"),
    (cgroup::READ_BYTES_LIMIT_USED, cgroup::READ_LIMIT_BYTES_PER_S, "rbps", "read_bps_device"),
    (cgroup::WRITE_BYTES_LIMIT_USED, cgroup::WRITE_LIMIT_BYTES_PER_S, "wbps", "write_bps_device"),
];

/// Adds the present limit of I/O that the finding is about, and twice as much.
fn add_io_limit(facts: &mut ActionFacts, observed: &Observation, leading: &Finding, path: &str) {
    let Some((_, counter, key, file)) = IO_LIMITS.iter().find(|(used, ..)| *used == leading.counter) else { return };
    let Some((_, device)) = leading.instance.rsplit_once('@') else { return };
    let Some(limit) = observed.latest.value(counter, &leading.instance).filter(|limit| *limit > 0.0) else { return };
    facts.insert("device", device.to_owned());
    facts.insert("io_limit", format!("{limit:.0}"));
    facts.insert("twice", format!("{:.0}", 2.0 * limit));
    facts.insert("io_key", (*key).to_owned());
    facts.insert("io_file", (*file).to_owned());
    // only version 2 counts the pressure of a group
    let is_unified = observed.latest.value(cgroup::IO_SOME_S, path).is_some();
    facts.insert(if is_unified { "unified" } else { "legacy" }, String::new());
}

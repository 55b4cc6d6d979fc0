//! The processes and cgroups that cause what a finding blames.

use crate::answer::blame::database_blame::{add_statements, is_about_lock, lock_culprits};
use crate::answer::blame::relations::{BUSIEST_THREAD_COUNTER, CGROUP, CPU_QUOTA_PREFIX, PHYSICAL_DISK};
use crate::answer::blame::unlisted::unlisted_activity;
use crate::answer::verdict::{Culprit, Finding};
use crate::compile::cgroup_path;
use crate::culprits::BlamedDisk;
use crate::rules::{Bottleneck, LoadFacts};
use crate::run::Observation;

/// Counter of the processors that real-time tasks use.
const REALTIME_COUNTER: &str = "system.realtime_processors";
/// Counter of the processors that the kernel's threads for memory use.
const RECLAIM_COUNTER: &str = "system.reclaim_processors";

/// Culprits of a bottleneck, and a sentence on what none of the listed processes did.
pub(crate) fn find_culprits(
    observed: &Observation,
    leading: &Finding,
    load: &LoadFacts<'_>,
) -> (Vec<Culprit>, Option<String>) {
    if is_about_lock(leading) {
        return (lock_culprits(observed, leading), None);
    }
    let mut culprits = rank_culprits(observed, leading, load);
    add_statements(observed, &mut culprits);
    let unlisted = unlisted_activity(observed, leading, load, &culprits);
    (culprits, unlisted)
}

/// Culprits of a bottleneck, by its leading finding; for a blamed disk those that use it, as far as the log shows.
fn rank_culprits(observed: &Observation, leading: &Finding, load: &LoadFacts<'_>) -> Vec<Culprit> {
    match leading.counter.as_str() {
        BUSIEST_THREAD_COUNTER => return observed.culprits.with_busiest_threads(),
        RECLAIM_COUNTER => return observed.culprits.of_reclaim_threads(),
        REALTIME_COUNTER => return observed.culprits.of_realtime_class(),
        _ => {}
    }
    let cgroup = (leading.object == CGROUP).then(|| cgroup_path(&leading.instance));
    let is_disk = leading.object == PHYSICAL_DISK && leading.bottleneck != Bottleneck::Memory;
    let blamed = if is_disk { blamed_disk(observed, leading, load) } else { None };
    // a quota of processor time holds back processes that compute, not those that use disks
    let is_quota = leading.counter.starts_with(CPU_QUOTA_PREFIX);
    let bottleneck = if is_quota { Bottleneck::Cpu } else { leading.bottleneck };
    let disk_writes = load.write_bytes_per_s.filter(|_| is_disk);
    observed.culprits.for_loaded_disk(bottleneck, cgroup, blamed.as_ref(), disk_writes)
}

/// The disk of a finding with its rates; `None` where it is the only one.
fn blamed_disk(observed: &Observation, finding: &Finding, load: &LoadFacts<'_>) -> Option<BlamedDisk> {
    // a stalled disk moves nothing, so its rates do not limit how much a process can have done on it
    let moves = [load.read_bytes_per_s, load.write_bytes_per_s].iter().flatten().any(|bytes| *bytes > 0.0);
    (observed.disk_count() > 1).then(|| BlamedDisk {
        name: finding.instance.clone(),
        read_bytes_per_s: load.read_bytes_per_s.filter(|_| moves),
        write_bytes_per_s: load.write_bytes_per_s.filter(|_| moves),
        cgroup_shares: observed.cgroup_shares_on(&finding.instance),
    })
}

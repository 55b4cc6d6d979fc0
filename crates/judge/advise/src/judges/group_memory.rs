//! Memory of a cgroup: its limit, and in version 1 its own swappiness.

use diskwright_base::counter_ids::{cgroup, memory, paging};
use diskwright_base::text::quote_for_shell;

use super::limits::{group_file, missing_group_file, named_count};
use super::memory::{NOTABLE_SWAPPED_PAGES_PER_S, good_swappiness, swaps_to_memory};
use super::{absent_or_unknown, format_bytes, format_percent, shorten_text};
use crate::check::{CheckOutcome, Proposal};
use crate::host_facts::HostFacts;
use crate::host_tree::first_number;

/// In version 1, this limit or a higher one means no limit: the kernel shows the largest number of pages.
const NO_LIMIT_BYTES: f64 = 9e18;
const MIB: f64 = 1_048_576.0;

/// A limit on a group's memory.
struct MemoryLimit {
    /// Name of its file.
    file: &'static str,
    /// The file, below the root; `None` where only the counters show the limit.
    path: Option<String>,
    bytes: f64,
}

/// A file of a cgroup of version 1, below the root.
fn legacy_path(group: &str, file: &str) -> String {
    format!("sys/fs/cgroup/memory{}/{file}", group.trim_end_matches('/'))
}

/// The limits on a group's memory that are set: by its files, else by the counters of the log.
fn memory_limits(host: &HostFacts, group: &str) -> Vec<MemoryLimit> {
    let unified = |file: &str| format!("sys/fs/cgroup{}/{file}", group.trim_end_matches('/'));
    let files = [
        ("memory.high", unified("memory.high")),
        ("memory.max", unified("memory.max")),
        ("memory.limit_in_bytes", legacy_path(group, "memory.limit_in_bytes")),
    ];
    let is_set = |bytes: &f64| *bytes < NO_LIMIT_BYTES;
    let of_files: Vec<MemoryLimit> = files
        .into_iter()
        .filter_map(|(file, path)| {
            let bytes = host.tree.number_in(&path).filter(is_set)?;
            Some(MemoryLimit { file, path: Some(path), bytes })
        })
        .collect();
    if !of_files.is_empty() {
        return of_files;
    }
    let counted = [("the upper limit", cgroup::MEMORY_HIGH_BYTES), ("the limit", cgroup::MEMORY_LIMIT_BYTES)];
    let of_counter = |(file, counter): (&'static str, &str)| {
        let bytes = host.load.as_ref()?.mean_of(counter, group).filter(is_set)?;
        Some(MemoryLimit { file, path: None, bytes })
    };
    counted.into_iter().filter_map(of_counter).collect()
}

/// The group's own swappiness, which only version 1 has.
fn own_swappiness(host: &HostFacts, group: &str) -> Option<f64> {
    host.tree.number_in(&legacy_path(group, "memory.swappiness"))
}

/// What to do about a group that waits for memory at its limit; `None` where no limit of it is known.
fn propose_memory(host: &HostFacts, group: &str) -> Option<Proposal> {
    let limits = memory_limits(host, group);
    let limit_texts: Vec<String> =
        limits.iter().map(|limit| format!("{} is {}", limit.file, format_bytes(limit.bytes))).collect();
    let tightest = limits.iter().min_by(|a, b| a.bytes.total_cmp(&b.bytes))?;
    let own = own_swappiness(host, group).map_or_else(String::new, |now| {
        format!("; its memory.swappiness is {now:.0}, and vm.swappiness of the host has no effect on it")
    });
    let mut proposal = Proposal::new(format!("{}: its programs need more{own}", limit_texts.join(", ")))
        .with_good("a limit above the memory that its programs use repeatedly");
    let waited = host.load.as_ref().and_then(|load| load.mean_of(cgroup::MEMORY_SOME, group));
    let waited = waited.filter(|share| *share >= 0.01);
    let evidence =
        waited.map(|share| (format!("its tasks waited for memory {} of the time", format_percent(share)), share));
    proposal = proposal.with_evidence(evidence.or(Some(("the log shows that it is short of memory".into(), 0.5))));
    if let (Some(path), Some(more)) = (&tightest.path, raised_limit(host, tightest.bytes)) {
        let path = quote_for_shell(&format!("/{path}"));
        proposal.apply = Some(format!("echo {more:.0} > {path}"));
        proposal.undo = Some(format!("echo {:.0} > {path}", tightest.bytes));
    }
    Some(proposal)
}

/// A limit half as large again, if the machine has that much memory available and keeps a tenth of its memory.
fn raised_limit(host: &HostFacts, limit_bytes: f64) -> Option<f64> {
    let available = host.load.as_ref()?.mean_of(memory::AVAILABLE_FRACTION, "")?;
    let total = host.memory_bytes()?;
    let more = (limit_bytes * 1.5 / MIB).ceil() * MIB;
    (more - limit_bytes <= available * total - total / 10.0).then_some(more)
}

/// Judges the memory limit of a cgroup.
pub(super) fn judge_group_memory(host: &HostFacts, group: &str) -> CheckOutcome {
    if let Some(proposal) = host.is_short_of_memory(group).then(|| propose_memory(host, group)).flatten() {
        return proposal.into_outcome();
    }
    let Some(text) = group_file(host, group, "memory.events") else {
        return missing_group_file(host, group, "memory.events");
    };
    let Some(limit_hits) = named_count(text, "max") else {
        return CheckOutcome::Unknown(format!("/sys/fs/cgroup{group}/memory.events has no line `max`"));
    };
    let killed = named_count(text, "oom_kill").unwrap_or(0.0);
    let limit = group_file(host, group, "memory.max");
    // the count includes processes killed in child groups, or because the whole host lacked memory; the cgroup's own
    // limit must have been reached
    if killed == 0.0 || limit_hits == 0.0 || limit == Some("max") {
        return CheckOutcome::Good;
    }
    let limit = limit.map_or_else(
        || "not readable".to_owned(),
        |text| first_number(text).map_or_else(|| shorten_text(text), format_bytes),
    );
    let text =
        format!("the kernel killed {killed:.0} of its processes, and it reached its limit {limit_hits:.0} times");
    Proposal::new(format!("{text} since it was created; memory.max is {limit}")).into_outcome()
}

/// Judges the swappiness of a group of version 1 that is short of memory.
pub(super) fn judge_group_swappiness(host: &HostFacts, group: &str) -> CheckOutcome {
    if !host.is_short_of_memory(group) || host.topology.swaps.is_empty() || swaps_to_memory(host) {
        return CheckOutcome::Absent;
    }
    let path = legacy_path(group, "memory.swappiness");
    let Some(now) = own_swappiness(host, group) else { return absent_or_unknown(host, &path) };
    let swapped = host.load.as_ref().and_then(|load| load.mean_of(paging::SWAP_IN_PAGES_PER_S, "")).unwrap_or(0.0);
    let good = good_swappiness(host);
    if swapped < NOTABLE_SWAPPED_PAGES_PER_S || now <= good {
        return CheckOutcome::Good;
    }
    let evidence = (format!("{swapped:.0} pages per second were swapped in"), (swapped / 1000.0).min(1.0));
    let mut proposal = Proposal::new(format!("memory.swappiness of the group is {now:.0}"));
    proposal.writes = vec![(path, format!("{good:.0}"))];
    proposal.with_good(format!("{good:.0}")).with_evidence(Some(evidence)).into_outcome()
}

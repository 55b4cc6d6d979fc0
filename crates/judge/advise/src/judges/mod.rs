//! Checks that a limit cannot express: one function for each, found by the check's id.
//!
//! A function reports the observed value and a good value; the table has the reason, the risk and the proof.

mod fragmentation;
mod group_memory;
mod health;
mod host;
mod limits;
mod link;
mod memory;
mod paths;
mod power;
mod processors;
mod queue;
mod read_ahead;
mod stack;

use crate::check::{AdviceSeverity, CheckOutcome, Proposal};
use crate::host_facts::HostFacts;
use crate::host_tree::TreeGap;
use diskwright_base::counter_ids::processor;

/// Function that judges one instance of a host.
pub(crate) type CheckJudge = fn(&HostFacts, &str) -> CheckOutcome;

/// The functions, by check id.
pub(crate) const JUDGES: &[(&str, CheckJudge)] = &[
    ("queue.scheduler", queue::judge_scheduler),
    ("queue.read-ahead", read_ahead::judge_read_ahead),
    ("queue.requests", queue::judge_requests),
    ("queue.request-size", queue::judge_request_size),
    ("queue.write-throttling", queue::judge_write_throttling),
    ("queue.write-cache", queue::judge_write_cache),
    ("queue.rotational", queue::judge_rotational),
    ("queue.depth", queue::judge_depth),
    ("queue.timeout", queue::judge_timeout),
    ("queue.zoned", queue::judge_zoned),
    ("queue.actuators", queue::judge_actuators),
    ("filesystem.space", host::judge_space),
    ("filesystem.inodes", host::judge_inodes),
    ("filesystem.barriers", host::judge_barriers),
    ("filesystem.access-times", host::judge_access_times),
    ("alignment.partition", host::judge_partition),
    ("link.pcie", host::judge_pcie),
    ("filesystem.fragmentation", fragmentation::judge_fragmentation),
    ("power.supplies", power::judge_supplies),
    ("clock.source", host::judge_clock),
    ("link.sata", link::judge_sata),
    ("link.usb", link::judge_usb),
    ("link.power", link::judge_power),
    ("processor.governor", link::judge_governor),
    ("limit.aio", limits::judge_aio),
    ("limit.files", limits::judge_files),
    ("limit.group-processors", limits::judge_group_processors),
    ("limit.group-memory", group_memory::judge_group_memory),
    ("host.pressure", limits::judge_pressure),
    ("filesystem.ext4-errors", limits::judge_ext4_errors),
    ("filesystem.btrfs-errors", limits::judge_btrfs_errors),
    ("filesystem.trim", limits::judge_trim),
    ("array.discard", limits::judge_array_discard),
    ("mapped.discard", limits::judge_mapped_discard),
    ("array.scrub", limits::judge_scrub),
    ("path.count", limits::judge_paths),
    ("array.threads", limits::judge_threads),
    ("queue.processors", queue::judge_processors),
    ("link.usb-driver", paths::judge_usb_driver),
    ("link.sas", paths::judge_sas),
    ("link.sas-errors", paths::judge_sas_errors),
    ("path.nvme", paths::judge_nvme),
    ("alignment.array", stack::judge_array_alignment),
    ("alignment.mapped", stack::judge_mapped_alignment),
    ("mapped.snapshot", stack::judge_snapshot),
    ("mapped.crypt-sectors", stack::judge_crypt_sectors),
    ("array.stripe-cache", stack::judge_stripe_cache),
    ("filesystem.xfs-unmount", stack::judge_xfs_unmount),
    (processor::IDLE, processors::judge_idle),
    ("interrupts.spread", processors::judge_interrupts),
    ("health.media", health::judge_media),
    ("health.link", health::judge_link),
    ("health.wear", health::judge_wear),
    ("health.temperature", health::judge_temperature),
    ("memory.dirty-limits", memory::judge_dirty_limits),
    ("memory.removable", memory::judge_removable),
    ("memory.swappiness", memory::judge_swappiness),
    ("memory.group-swappiness", group_memory::judge_group_swappiness),
    ("memory.swap-placement", memory::judge_swap_placement),
    ("memory.huge-pages", memory::judge_huge_pages),
    ("memory.reserve", memory::judge_reserve),
];

/// Finds the function of a check without a limit.
pub(crate) fn find_judge(id: &str) -> CheckJudge {
    JUDGES.iter().find(|(known, _)| *known == id).map_or_else(|| panic!("no function judges {id}"), |(_, judge)| *judge)
}

/// Adds evidence from a log to the finding that a limit is not met.
pub(crate) fn add_limit_evidence(id: &str, host: &HostFacts, instance: &str, proposal: Proposal) -> CheckOutcome {
    match id {
        "queue.nomerges" => queue::judge_nomerges(host, instance, proposal),
        "queue.iostats" => queue::judge_iostats(host, instance, proposal),
        _ => proposal.into_outcome(),
    }
}

/// Returns the outcome for a file that is missing or not understood: why the check could not be made.
pub(crate) fn unknown_fact(host: &HostFacts, path: &str) -> CheckOutcome {
    if !host.has_facts {
        return CheckOutcome::Unknown("the log has no facts about the host".into());
    }
    CheckOutcome::Unknown(match host.tree.text_of(path) {
        Err(TreeGap::Refused(because)) => format!("/{path}: {because}"),
        Err(TreeGap::Absent) => format!("/{path} is missing or unreadable"),
        Ok("") => format!("/{path} is empty"),
        Ok(text) => format!("/{path} contains `{}`, which is not understood", shorten_text(text)),
    })
}

/// Returns the outcome for a file that not every host has: a host without it has nothing to judge.
pub(crate) fn absent_or_unknown(host: &HostFacts, path: &str) -> CheckOutcome {
    match host.tree.text_of(path) {
        Err(TreeGap::Absent) if host.has_facts => CheckOutcome::Absent,
        _ => unknown_fact(host, path),
    }
}

/// Shortens a text from outside to its first line, of at most 60 characters.
pub(crate) fn shorten_text(text: &str) -> String {
    let line = text.trim().lines().next().unwrap_or_default();
    let shortened: String = line.chars().take(60).collect();
    if shortened.len() < text.trim().len() { shortened + "..." } else { shortened }
}

/// Formats `37 %`.
pub(crate) fn format_percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}

/// Formats a fill level, which reads 100 % only if everything is used.
pub(crate) fn format_fill_level(share: f64) -> String {
    if share <= 0.99 || share >= 1.0 {
        return format_percent(share);
    }
    format!("{} %", diskwright_base::units::format_significant((share * 1000.0).floor() / 10.0))
}

/// Formats bytes with a unit: `1.5 GiB`.
pub(crate) fn format_bytes(value: f64) -> String {
    diskwright_base::units::format_value(value, "bytes")
}

/// Formats bytes per second with a unit.
pub(crate) fn format_rate(value: f64) -> String {
    diskwright_base::units::format_value(value, "bytes_per_s")
}

/// Lowers the severity to info if the proposal has no evidence from a log.
pub(crate) fn lower_to_info(proposal: Proposal) -> Proposal {
    match proposal.evidence {
        Some(_) => proposal,
        None => proposal.with_severity(AdviceSeverity::Info),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::CHECKS;

    #[test]
    fn every_check_has_a_limit_or_a_judge_and_no_judge_is_unused() {
        for check in CHECKS.iter() {
            let judged = JUDGES.iter().filter(|(id, _)| *id == check.id).count();
            assert_eq!(judged, usize::from(check.limit.is_none()), "{}", check.id);
        }
        for (id, _) in JUDGES {
            assert!(CHECKS.iter().any(|check| check.id == *id), "{id} is in no table");
        }
    }
}

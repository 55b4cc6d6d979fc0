//! Checks that a limit cannot express: one function each, with the check's name.
//!
//! A function reports the observed value and a good one; the table has the reason, the risk and the proof.

mod health;
mod host;
mod limits;
mod link;
mod memory;
mod paths;
mod processors;
mod queue;
mod stack;

use crate::check::{AdviceSeverity, CheckOutcome, Proposal};
use crate::scene::HostScene;
use crate::tree::TreeGap;

/// Judges one instance.
pub(crate) type CheckJudge = fn(&HostScene, &str) -> CheckOutcome;

/// The functions, by check id.
pub(crate) const JUDGES: &[(&str, CheckJudge)] = &[
    ("queue.scheduler", queue::scheduler),
    ("queue.read-ahead", queue::read_ahead),
    ("queue.requests", queue::requests),
    ("queue.request-size", queue::request_size),
    ("queue.write-throttling", queue::write_throttling),
    ("queue.write-cache", queue::write_cache),
    ("queue.rotational", queue::rotational),
    ("queue.depth", queue::depth),
    ("queue.timeout", queue::timeout),
    ("queue.zoned", queue::zoned),
    ("queue.actuators", queue::actuators),
    ("filesystem.space", host::space),
    ("filesystem.inodes", host::inodes),
    ("filesystem.barriers", host::barriers),
    ("filesystem.access-times", host::access_times),
    ("alignment.partition", host::partition),
    ("link.pcie", host::pcie),
    ("clock.source", host::clock),
    ("link.sata", link::sata),
    ("link.usb", link::usb),
    ("link.power", link::power),
    ("processor.governor", link::governor),
    ("limit.aio", limits::aio),
    ("limit.files", limits::files),
    ("limit.group-processors", limits::group_processors),
    ("limit.group-memory", limits::group_memory),
    ("host.pressure", limits::pressure),
    ("filesystem.ext4-errors", limits::ext4_errors),
    ("filesystem.btrfs-errors", limits::btrfs_errors),
    ("filesystem.trim", limits::trim),
    ("array.discard", limits::array_discard),
    ("mapped.discard", limits::mapped_discard),
    ("array.scrub", limits::scrub),
    ("path.count", limits::paths),
    ("array.threads", limits::threads),
    ("queue.processors", queue::processors),
    ("link.usb-driver", paths::usb_driver),
    ("link.sas", paths::sas),
    ("link.sas-errors", paths::sas_errors),
    ("path.nvme", paths::nvme),
    ("alignment.array", stack::array_alignment),
    ("alignment.mapped", stack::mapped_alignment),
    ("mapped.snapshot", stack::snapshot),
    ("mapped.crypt-sectors", stack::crypt_sectors),
    ("array.stripe-cache", stack::stripe_cache),
    ("filesystem.xfs-unmount", stack::xfs_unmount),
    ("processor.idle", processors::idle),
    ("interrupts.spread", processors::interrupts),
    ("health.media", health::media),
    ("health.link", health::link),
    ("health.wear", health::wear),
    ("health.temperature", health::temperature),
    ("memory.dirty-limits", memory::dirty_limits),
    ("memory.removable", memory::removable),
    ("memory.swappiness", memory::swappiness),
    ("memory.swap-placement", memory::swap_placement),
    ("memory.huge-pages", memory::huge_pages),
    ("memory.reserve", memory::reserve),
];

/// Finds the function of a check without a limit.
pub(crate) fn find(id: &str) -> CheckJudge {
    JUDGES.iter().find(|(known, _)| *known == id).map_or_else(|| panic!("no function judges {id}"), |(_, judge)| *judge)
}

/// Adds evidence from a log to a limit that is not met.
pub(crate) fn evidence_of(id: &str, scene: &HostScene, instance: &str, proposal: Proposal) -> CheckOutcome {
    match id {
        "queue.nomerges" => queue::nomerges(scene, instance, proposal),
        "queue.iostats" => queue::iostats(scene, instance, proposal),
        _ => proposal.propose(),
    }
}

/// Outcome for a file that is missing or not understood: in a log without facts, or on a kernel without it.
pub(crate) fn unknown(scene: &HostScene, path: &str) -> CheckOutcome {
    if !scene.has_facts {
        return CheckOutcome::Unknown("the log has no facts about the host".into());
    }
    CheckOutcome::Unknown(match scene.tree.text(path) {
        Err(TreeGap::Refused(because)) => format!("/{path}: {because}"),
        Err(TreeGap::Absent) => format!("/{path} is missing or unreadable"),
        Ok("") => format!("/{path} is empty"),
        Ok(text) => format!("/{path} contains `{}`, which is not understood", shown(text)),
    })
}

/// Outcome for a file that not every host has: without it there is nothing to judge.
pub(crate) fn absent_or_unknown(scene: &HostScene, path: &str) -> CheckOutcome {
    match scene.tree.text(path) {
        Err(TreeGap::Absent) if scene.has_facts => CheckOutcome::Absent,
        _ => unknown(scene, path),
    }
}

/// Shortens a text from outside to what fits into a sentence.
pub(crate) fn shown(text: &str) -> String {
    let line = text.trim().lines().next().unwrap_or_default();
    let cut: String = line.chars().take(60).collect();
    if cut.len() < text.trim().len() { cut + "..." } else { cut }
}

/// Formats `37 %`.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}

/// Formats a fill level: it is below 100 % until everything is used.
pub(crate) fn filled(share: f64) -> String {
    if share <= 0.99 || share >= 1.0 {
        return percent(share);
    }
    format!("{} %", diskwright_base::units::format_significant((share * 1000.0).floor() / 10.0))
}

/// Formats bytes for people.
pub(crate) fn bytes(value: f64) -> String {
    diskwright_base::units::format_value(value, "bytes")
}

/// Formats bytes per second for people.
pub(crate) fn rate(value: f64) -> String {
    diskwright_base::units::format_value(value, "bytes_per_s")
}

/// Lowers the severity to info if nothing in a log shows that the finding matters.
pub(crate) fn only_info(proposal: Proposal) -> Proposal {
    match proposal.evidence {
        Some(_) => proposal,
        None => proposal.severity(AdviceSeverity::Info),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::CHECKS;

    #[test]
    fn every_check_has_a_limit_or_a_function_and_no_function_is_left_over() {
        for check in CHECKS.iter() {
            let judged = JUDGES.iter().filter(|(id, _)| *id == check.id).count();
            assert_eq!(judged, usize::from(check.limit.is_none()), "{}", check.id);
        }
        for (id, _) in JUDGES {
            assert!(CHECKS.iter().any(|check| check.id == *id), "{id} is in no table");
        }
    }
}

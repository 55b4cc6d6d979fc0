//! Remarks on measured ceilings: the origin of a limit, and disks whose ceiling is missing or old.

use diskwright_base::text::quote_for_shell;
use diskwright_base::timestamp::parse_leading_day;
use diskwright_base::{Ceiling, DeviceClass};

use crate::answer::verdict::Evidence;
use crate::rules::{DeviceCeiling, DeviceLoad, LogOrigin, Pseudo, Rule};
use crate::run::Observation;

/// Age in days after which a measurement is called old. Our choice: flash wears and fills, volumes are resized,
/// firmware and kernels change within half a year.
const MAX_AGE_DAYS: i64 = 180;

/// Date part of an RFC 3339 time.
fn date_part(time: &str) -> &str {
    time.get(..10).unwrap_or(time)
}

/// Origin of a finding's limit, where a probe measured it: the load while the rule held, the ceilings, and the day of
/// the measurement.
pub(crate) fn measured_limit_text(
    observed: &Observation,
    rule: &Rule,
    instance: &str,
    evidence: &[Evidence],
) -> Option<String> {
    let reads_ceiling =
        rule.conditions().flat_map(|c| c.quantity.counters()).any(|n| n.pseudo == Some(Pseudo::CeilingUsed));
    let ceiling = observed.ceilings.iter().find(|c| c.device == instance).filter(|_| reads_ceiling)?;
    let class =
        observed.topology.as_ref().and_then(|t| t.find_device(instance)).map_or(DeviceClass::Unknown, |d| d.class);
    let value = |name: &str| {
        let found = evidence.iter().find(|e| e.counter.strip_prefix("physical_disk.") == Some(name));
        found.and_then(|e| e.value).unwrap_or(0.0)
    };
    let load = DeviceLoad {
        reads_per_s: value("reads_per_s"),
        writes_per_s: value("writes_per_s"),
        read_bytes_per_s: value("read_bytes_per_s"),
        write_bytes_per_s: value("write_bytes_per_s"),
    };
    let bound = if ceiling.is_firm() { "most" } else { "least" };
    let load_text = DeviceCeiling::for_device(ceiling, class).describe_load(&load, bound);
    let reasons = if ceiling.is_firm() { String::new() } else { format!(" ({})", ceiling.at_least.join("; ")) };
    (!load_text.is_empty())
        .then(|| format!("{load_text}, measured by probe on {}{reasons}", date_part(&ceiling.measured)))
}

/// Remarks on the ceilings of these disks: on a missing ceiling with the command that measures it, and on old ceilings.
pub(crate) fn describe_ceilings(observed: &Observation, disks: &[&str]) -> Vec<String> {
    let mut list = Vec::new();
    let mut unmeasured: Vec<&str> = Vec::new();
    for &disk in disks {
        match observed.ceilings.iter().find(|c| c.device == disk) {
            None => unmeasured.push(disk),
            Some(ceiling) => list.extend(age_remark(observed, ceiling)),
        }
    }
    list.extend(unmeasured.first().and_then(|disk| measuring_remark(observed, disk, unmeasured.len() - 1)));
    list
}

/// Remark on a ceiling that was measured long before the window.
fn age_remark(observed: &Observation, ceiling: &Ceiling) -> Option<String> {
    let days = observed.window.to_ns / 86_400_000_000_000 - parse_leading_day(&ceiling.measured)?;
    (days > MAX_AGE_DAYS).then(|| {
        format!(
            "the maximum of {} was measured {days} days earlier, on {}: disks change, so measure it again with \
             `diskwright probe quick`",
            ceiling.device,
            date_part(&ceiling.measured)
        )
    })
}

/// Remark with the command that measures a disk; only for our own recordings, since another tool's log may come from
/// another machine.
fn measuring_remark(observed: &Observation, disk: &str, other_disks: usize) -> Option<String> {
    let topology = observed.topology.as_ref().filter(|_| observed.notes.source == LogOrigin::Live)?;
    topology.find_device(disk)?;
    let uses_disk = |device: &str| topology.stands_on(device, disk);
    let mounted =
        topology.filesystems.iter().filter(|f| uses_disk(&f.device)).map(|f| f.mount.trim_end_matches('/')).min();
    let target = match mounted {
        Some(mount) => quote_for_shell(&format!("{mount}/probe.dat")),
        None => format!("/dev/{disk} --live"),
    };
    let more = if other_disks == 0 { String::new() } else { format!(" (and {other_disks} more)") };
    Some(format!("{disk} has no measured maximum{more}; measure it with `diskwright probe quick {target}`"))
}

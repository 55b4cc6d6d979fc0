//! Health of drives, from the log. Only the increase of an error count matters, not its total.

use diskwright_base::DeviceClass;

use super::{format_fill_level, format_percent};
use crate::check::{AdviceSeverity, CheckOutcome, Proposal};
use crate::drive_health::HealthLoad;
use crate::host_facts::HostFacts;

/// Returns a drive's health in the log, or the outcome of a check if it is not known.
fn drive_health<'a>(host: &'a HostFacts, disk: &str) -> Result<&'a HealthLoad, Box<CheckOutcome>> {
    // the device behind a virtual or remote disk is hidden
    if matches!(host.device_class(disk), DeviceClass::Virtual | DeviceClass::Network) {
        return Err(Box::new(CheckOutcome::Absent));
    }
    let unknown = |because: &str| Box::new(CheckOutcome::Unknown(because.to_owned()));
    let Some(load) = &host.load else { return Err(unknown("the health of drives is judged from a log")) };
    load.health.get(disk).ok_or_else(|| unknown("the log has nothing about the health of this drive"))
}

/// Returns a value, or the outcome of a check if this drive does not report it.
fn known_value<T>(value: Option<T>, value_name: &str) -> Result<T, Box<CheckOutcome>> {
    value.ok_or_else(|| Box::new(CheckOutcome::Unknown(format!("the drive does not report {value_name}"))))
}

/// Returns the outcome of either branch.
fn merge_outcomes(outcome: Result<CheckOutcome, Box<CheckOutcome>>) -> CheckOutcome {
    outcome.unwrap_or_else(|outcome| *outcome)
}

fn format_count(count: f64, one: &str, many: &str) -> String {
    if count == 1.0 { format!("1 {one}") } else { format!("{count:.0} {many}") }
}

/// Judges media errors and pending sectors.
pub(super) fn judge_media(host: &HostFacts, disk: &str) -> CheckOutcome {
    merge_outcomes(drive_health(host, disk).and_then(|health| {
        if health.failing == Some(1.0) {
            let proposal = Proposal::new("the drive itself reports that it is failing");
            return Ok(proposal.with_severity(AdviceSeverity::Critical).into_outcome());
        }
        let errors = known_value(health.media_errors.or(health.pending_sectors), "media errors")?;
        let (new_errors, pending) = (health.media_errors.unwrap_or(0.0), health.pending_sectors.unwrap_or(0.0));
        if errors == 0.0 && pending == 0.0 {
            return Ok(CheckOutcome::Good);
        }
        let mut seen = Vec::new();
        if new_errors > 0.0 {
            seen.push(format_count(new_errors, "new media error", "new media errors") + " in the log");
        }
        if pending > 0.0 {
            seen.push(format_count(pending, "sector", "sectors") + " could not be read when last tried");
        }
        let proposal = Proposal::new(seen.join("; "));
        // unreadable sectors that existed all the time are no warning sign, and can be rewritten
        if new_errors == 0.0 && health.first_pending_sectors.is_some_and(|first| pending <= first) {
            let apply = Some(OLD_SECTORS_ADVICE.replace("{instance}", disk));
            return Ok(Proposal { apply, ..proposal }.with_severity(AdviceSeverity::Warning).into_outcome());
        }
        Ok(proposal.into_outcome())
    }))
}

const OLD_SECTORS_ADVICE: &str = "Back up {instance}. Then check its array, or read the whole disk, so that the \
                           sectors are \
                           rewritten. Replace the disk if their number grows.";

/// Judges transmission errors.
pub(super) fn judge_link(host: &HostFacts, disk: &str) -> CheckOutcome {
    merge_outcomes(drive_health(host, disk).and_then(|health| {
        let errors = known_value(health.link_errors, "link errors")?;
        if errors == 0.0 {
            return Ok(CheckOutcome::Good);
        }
        Ok(Proposal::new(format_count(errors, "new error", "new errors") + " between drive and host in the log")
            .into_outcome())
    }))
}

const DAY_S: f64 = 86_400.0;
/// A drive that wears out within half a year, s, is reported: that leaves time for a purchase. Our choice.
const SOON_WORN_OUT_S: f64 = 182.0 * DAY_S;

/// Judges the wear of flash.
pub(super) fn judge_wear(host: &HostFacts, disk: &str) -> CheckOutcome {
    merge_outcomes(drive_health(host, disk).and_then(|health| {
        let wear = known_value(health.wear, "its wear")?;
        // drives report whole percents: a rise of less than two percent gives no reliable rate
        let rate = health.wear_rise.filter(|(_, rise)| *rise >= 0.0195).map(|(seconds, rise)| rise / seconds);
        let remaining_s = rate.map(|rate| (1.0 - wear).max(0.0) / rate);
        if wear < 0.9 && remaining_s.is_none_or(|seconds| seconds > SOON_WORN_OUT_S) {
            return Ok(CheckOutcome::Good);
        }
        let days = remaining_s.map(|seconds| format_count((seconds / DAY_S).round(), "day", "days"));
        let forecast = days.map_or(String::new(), |days| format!("; at the log's rate the rest lasts {days}"));
        Ok(Proposal::new(format!("{} of the rated life used{forecast}", format_fill_level(wear))).into_outcome())
    }))
}

/// Judges the temperature.
pub(super) fn judge_temperature(host: &HostFacts, disk: &str) -> CheckOutcome {
    merge_outcomes(drive_health(host, disk).and_then(|health| {
        let (hottest, limit) = known_value(health.max_temperature_and_limit, "a temperature and its limit")?;
        let share = health.hot_share.unwrap_or(0.0);
        if hottest < limit {
            return Ok(CheckOutcome::Good);
        }
        let evidence = (format!("{} of the time at or above its limit", format_percent(share)), share);
        let seen = format!("up to {hottest:.0} degrees; the drive's own limit is {limit:.0}");
        Ok(Proposal::new(seen).with_evidence(Some(evidence)).into_outcome())
    }))
}

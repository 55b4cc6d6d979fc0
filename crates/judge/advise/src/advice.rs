//! All checks of one host: items worth changing, in the order of their expected benefit here.

use diskwright_base::text::{quote_always, quote_for_shell};
use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::check::{AdviceSeverity, CHECKS, ChangeRisk, CheckLimit, CheckObject, CheckOutcome, HostCheck, Proposal};
use crate::gain::ExpectedGain;
use crate::host_facts::{HostFacts, sysfs_name};
use crate::judges;

/// A setting to be written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, serde::Deserialize)]
pub struct SettingWrite {
    /// The file, from the root on: `/sys/block/sda/queue/scheduler`.
    pub path: String,
    /// Its current content; empty if unknown.
    pub before: String,
    /// The content to write.
    pub after: String,
}

/// An item worth changing.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AdviceItem {
    /// Id of the check, followed by `@` and the instance unless it is the host: `queue.scheduler@sda`.
    pub id: String,
    /// Id of the check.
    pub check: String,
    /// The instance; empty for the host.
    pub instance: String,
    /// Severity of leaving it unchanged.
    pub severity: AdviceSeverity,
    /// Setting or state that is checked.
    pub what: String,
    /// Observed value.
    pub seen: String,
    /// Good value.
    pub good: String,
    /// Evidence in the log; `None` without a log, or if it shows nothing.
    pub evidence: Option<String>,
    /// Share of time or work that the evidence concerns.
    pub evidence_share: Option<f64>,
    /// The bottleneck of the log on which the setting bears, such as `disk sda`; `None` if there is none, or no log.
    pub bears_on: Option<String>,
    /// Gain that a model predicts.
    pub gain: Option<ExpectedGain>,
    /// Reason for the advice.
    pub reason: String,
    /// Source of the advice.
    pub source: String,
    /// Risk of the change.
    pub risk: ChangeRisk,
    /// Possible harm of the change.
    pub risk_text: String,
    /// Command that changes it now, or an instruction.
    pub apply: String,
    /// Command that reverts it; `None` if nothing is written.
    pub undo: Option<String>,
    /// Line that makes it permanent, and the file for it.
    pub lasting: Option<String>,
    /// True if `--apply` may change it.
    pub harmless: bool,
    /// How to prove the effect with `compare`.
    pub verify: String,
    /// Files to write.
    pub writes: Vec<SettingWrite>,
}

/// A check that could not be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnknownCheck {
    /// Id, as of an item.
    pub id: String,
    /// Why it could not be made.
    pub because: String,
    /// How to obtain the missing facts.
    pub reach: String,
}

/// Result of all checks.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct HostAdvice {
    /// Items worth changing, the most worthwhile first.
    pub items: Vec<AdviceItem>,
    /// Checks that could not be made.
    pub unknown: Vec<UnknownCheck>,
    /// Number of checks of instances without findings.
    pub well: usize,
    /// Items that were dropped in favor of another item that writes the same file.
    #[serde(skip)]
    pub dropped: Vec<AdviceItem>,
}

/// Runs all checks on a host.
#[must_use]
pub fn advise(host: &HostFacts) -> HostAdvice {
    let mut advice = HostAdvice::default();
    for check in CHECKS.iter() {
        if !check.roles.is_empty() && !check.roles.contains(&host.role) {
            continue;
        }
        for instance in host.check_instances(check.object) {
            let id = if instance.is_empty() { check.id.clone() } else { format!("{}@{instance}", check.id) };
            match evaluate_check(check, host, &instance) {
                CheckOutcome::Absent => {}
                CheckOutcome::Good => advice.well += 1,
                CheckOutcome::Unknown(because) => {
                    advice.unknown.push(UnknownCheck { id, because, reach: check.reach.clone() });
                }
                CheckOutcome::Proposed(proposal) => advice.items.push(new_item(check, host, &instance, id, *proposal)),
            }
        }
    }
    if host.has_facts && host.check_instances(CheckObject::Disk).is_empty() {
        let because = host.tree.unreadable.get("sys/block").cloned().unwrap_or_else(|| "it shows no disk".into());
        let reach = "If the host has disks, run `advise` on it, outside of containers, as root.".into();
        advice.unknown.push(UnknownCheck { id: "disks".into(), because: format!("/sys/block: {because}"), reach });
    }
    advice.items.sort_by(|a, b| rank_value(b).total_cmp(&rank_value(a)).then_with(|| a.id.cmp(&b.id)));
    advice.dropped = drop_conflicting(&mut advice.items);
    advice
}

/// Runs one check on one instance.
pub(crate) fn evaluate_check(check: &HostCheck, host: &HostFacts, instance: &str) -> CheckOutcome {
    match (&check.file, &check.limit) {
        (Some(file), Some(limit)) => evaluate_limit(check, host, instance, file, limit),
        _ => judges::find_judge(&check.id)(host, instance),
    }
}

fn evaluate_limit(check: &HostCheck, host: &HostFacts, instance: &str, file: &str, limit: &CheckLimit) -> CheckOutcome {
    let path = fill_instance(file, instance);
    // a host without any facts cannot be judged; a host that only lacks this file lacks the checked feature
    let Some(text) = host.tree.get(&path).map(active_choice) else { return judges::absent_or_unknown(host, &path) };
    match limit.is_met_by(text, &check.others) {
        Some(true) => CheckOutcome::Good,
        None => judges::unknown_fact(host, &path),
        Some(false) => {
            let mut proposal = Proposal::new(format!("{} is {}", last_component(&path), judges::shorten_text(text)));
            proposal.value = check.value.clone();
            judges::add_limit_evidence(&check.id, host, instance, proposal)
        }
    }
}

fn last_component(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Replaces `{instance}`; sysfs writes an exclamation mark for a slash.
fn fill_instance(template: &str, instance: &str) -> String {
    template.replace("{instance}", &sysfs_name(instance))
}

/// Returns the choice in brackets of `none [mq-deadline] kyber`, or any other text unchanged.
pub(crate) fn active_choice(text: &str) -> &str {
    let choice = text.split_once('[').and_then(|(_, tail)| tail.split_once(']')).map(|(choice, _)| choice);
    choice.unwrap_or(text).trim()
}

/// Returns shell commands that write settings; `value` chooses the content to write.
fn write_commands<'a>(writes: &'a [SettingWrite], value: impl Fn(&'a SettingWrite) -> &'a str) -> String {
    let command =
        |write: &'a SettingWrite| format!("echo {} > {}", quote_always(value(write)), quote_for_shell(&write.path));
    writes.iter().map(command).collect::<Vec<_>>().join("; ")
}

fn new_item(check: &HostCheck, host: &HostFacts, instance: &str, id: String, proposal: Proposal) -> AdviceItem {
    let writes = setting_writes(check, host, instance, &proposal);
    let fill = |template: &String| template.replace("{instance}", &quote_for_shell(instance));
    let or_from_table =
        |proposed: Option<String>, table: &Option<String>| proposed.or_else(|| table.as_ref().map(fill));
    // the previous content of a setting may be unknown
    let can_be_undone = !writes.is_empty() && writes.iter().all(|write| !write.before.is_empty());
    let (apply, undo) = if writes.is_empty() {
        // the table's undo command does not undo another command
        let undo = if proposal.apply.is_some() { proposal.undo } else { or_from_table(proposal.undo, &check.undo) };
        (or_from_table(proposal.apply, &check.apply).unwrap_or_default(), undo)
    } else {
        let (apply_writes, undo_writes) = (apply_order(&writes), undo_order(&writes));
        let apply = write_commands(&apply_writes, |write| &write.after);
        let undo = write_commands(&undo_writes, |write| &write.before);
        (proposal.apply.unwrap_or(apply), proposal.undo.or(Some(undo).filter(|_| can_be_undone)))
    };
    let lasting = (!writes.is_empty()).then(|| proposal.lasting.unwrap_or_else(|| lasting_instructions(host, &writes)));
    let (evidence, evidence_share) = proposal.evidence.unzip();
    AdviceItem {
        id,
        check: check.id.clone(),
        instance: instance.to_owned(),
        severity: proposal.severity.unwrap_or(check.severity),
        what: check.what.clone(),
        seen: proposal.seen,
        good: proposal.good.unwrap_or_else(|| check.good.clone()),
        evidence,
        evidence_share,
        bears_on: None,
        gain: proposal.gain,
        reason: check.reason.clone(),
        source: check.source.clone(),
        risk: check.risk,
        risk_text: check.risk_text.clone(),
        apply,
        undo,
        lasting,
        harmless: check.harmless && can_be_undone,
        verify: check.verify.clone(),
        writes,
    }
}

fn setting_writes(check: &HostCheck, host: &HostFacts, instance: &str, proposal: &Proposal) -> Vec<SettingWrite> {
    let new_write = |path: &str, after: &str| {
        let before = active_choice(host.tree.get(path).unwrap_or_default()).to_owned();
        SettingWrite { path: format!("/{path}"), before, after: after.to_owned() }
    };
    if !proposal.writes.is_empty() {
        return proposal.writes.iter().map(|(path, after)| new_write(path, after)).collect();
    }
    match (&check.knob, &proposal.value) {
        (Some(knob), Some(value)) => vec![new_write(&fill_instance(knob, instance), value)],
        _ => Vec::new(),
    }
}

/// Returns true for an unused dirty limit. These limits come in pairs, bytes and share of memory, of which the unused
/// one reads 0. Writing that 0 would set a limit of nothing; writing the other one makes it 0 anyway.
fn is_unused_dirty_limit(path: &str, value: &str) -> bool {
    path.starts_with("/proc/sys/vm/dirty") && value == "0"
}

/// Returns the writes that make a change, in order.
pub(crate) fn apply_order(writes: &[SettingWrite]) -> Vec<SettingWrite> {
    writes.iter().filter(|write| !is_unused_dirty_limit(&write.path, &write.after)).cloned().collect()
}

/// Returns the writes that revert a change, in order.
pub(crate) fn undo_order(writes: &[SettingWrite]) -> Vec<SettingWrite> {
    writes.iter().filter(|write| !is_unused_dirty_limit(&write.path, &write.before)).cloned().collect()
}

/// Describes how to make a setting permanent.
fn lasting_instructions(host: &HostFacts, writes: &[SettingWrite]) -> String {
    let sysctl_line = |write: &SettingWrite| {
        let name = write.path.strip_prefix("/proc/sys/")?.replace('/', ".");
        Some(format!("{name} = {}", write.after))
    };
    let lines: Vec<String> = apply_order(writes).iter().filter_map(sysctl_line).collect();
    if !lines.is_empty() {
        return format!("/etc/sysctl.d/90-advice.conf: {}", join_instructions(&lines));
    }
    if !host.may_have_systemd() {
        return format!(
            "at each start, for example in /etc/rc.local: {}",
            write_commands(writes, |write| &write.after)
        );
    }
    let mut rules: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for write in writes {
        let Some((disk, file)) = write.path.strip_prefix("/sys/block/").and_then(|path| path.split_once('/')) else {
            let files: Vec<String> = writes.iter().map(|w| format!("w {} - - - - {}", w.path, w.after)).collect();
            return format!("/etc/tmpfiles.d/advice.conf: {}", join_instructions(&files));
        };
        rules.entry(disk).or_default().push(format!("ATTR{{{file}}}=\"{}\"", write.after));
    }
    // udev writes the slash of a name unchanged
    let udev_rule = |(disk, attributes): (&&str, &Vec<String>)| {
        let name = disk.replace('!', "/");
        format!("ACTION==\"add|change\", KERNEL==\"{name}\", {}", attributes.join(", "))
    };
    let lines: Vec<String> = rules.iter().map(udev_rule).collect();
    // users choose the names of md arrays; those of other devices may change
    let unstable_names: Vec<&str> = rules.into_keys().filter(|disk| !disk.starts_with("md")).collect();
    let hint = match unstable_names.is_empty() {
        true => String::new(),
        false => format!(
            " (a restart can give {} another name; to be sure, match {} instead)",
            unstable_names.join(" and ").replace('!', "/"),
            if unstable_names.iter().all(|disk| disk.starts_with("dm-")) { "ENV{DM_NAME}" } else { "ENV{ID_SERIAL}" }
        ),
    };
    format!("/etc/udev/rules.d/90-advice.rules: {}{hint}", join_instructions(&lines))
}

/// Returns a single line unchanged; several lines become one text that begins with their number.
fn join_instructions(lines: &[String]) -> String {
    match lines {
        [line] => line.clone(),
        _ => format!("{} lines: `{}`", lines.len(), lines.join("` and `")),
    }
}

/// Rank of an item: its severity, the share of the recorded time that it concerns, the predicted gain, and the risk.
/// Without evidence an item ranks low, but endangered data always comes first.
pub(crate) fn rank_value(item: &AdviceItem) -> f64 {
    let severity = match item.severity {
        AdviceSeverity::Critical => 1000.0,
        AdviceSeverity::Warning => 30.0,
        AdviceSeverity::Notice => 10.0,
        AdviceSeverity::Info => 1.0,
    };
    let evidence = item.evidence_share.map_or(0.3, |share| 1.0 + 2.0 * share.clamp(0.0, 1.0));
    let gain = item.gain.as_ref().map_or(1.0, |gain| gain.factor.clamp(1.0, 5.0));
    let risk = match item.risk {
        // endangered data has priority even if the repair needs care
        _ if item.severity == AdviceSeverity::Critical => 1.0,
        ChangeRisk::Low => 1.0,
        ChangeRisk::Medium => 1.5,
        ChangeRisk::High => 2.0,
    };
    severity * evidence * gain / risk
}

/// Keeps only the more worthwhile of two items that write one file; the items must be sorted by rank. Returns the
/// dropped items.
fn drop_conflicting(items: &mut Vec<AdviceItem>) -> Vec<AdviceItem> {
    let mut written_paths: BTreeSet<String> = BTreeSet::new();
    let (kept, dropped) = std::mem::take(items).into_iter().partition(|item| {
        let is_free = item.writes.iter().all(|write| !written_paths.contains(&write.path));
        if is_free {
            written_paths.extend(item.writes.iter().map(|write| write.path.clone()));
        }
        is_free
    });
    *items = kept;
    dropped
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// An item of a check, on a host without facts.
    pub(crate) fn made_up_item(check: &str, instance: &str, severity: AdviceSeverity) -> AdviceItem {
        let check = CHECKS.iter().find(|known| known.id == check).expect("a check");
        let host =
            HostFacts::from_facts(crate::host_tree::HostTree::default(), diskwright_base::Topology::default(), None);
        let id = if instance.is_empty() { check.id.clone() } else { format!("{}@{instance}", check.id) };
        new_item(check, &host, instance, id, Proposal::new("made up").with_severity(severity))
    }

    fn item_that_writes(id: &str, after: &str, severity: AdviceSeverity) -> AdviceItem {
        let check = CHECKS.iter().find(|check| check.id == id).expect("a check");
        let host =
            HostFacts::from_facts(crate::host_tree::HostTree::default(), diskwright_base::Topology::default(), None);
        let mut proposal = Proposal::new("made up").with_severity(severity);
        proposal.writes = vec![("sys/block/sda/queue/read_ahead_kb".into(), after.into())];
        new_item(check, &host, "sda", format!("{id}@sda"), proposal)
    }

    /// sysfs writes an exclamation mark for the slash, and udev's name contains the slash (systemd, sd-device.c).
    #[test]
    fn udev_rule_names_the_device_with_its_slash() {
        let host =
            HostFacts::from_facts(crate::host_tree::HostTree::default(), diskwright_base::Topology::default(), None);
        let path = "/sys/block/cciss!c0d0/queue/iostats".into();
        let rule = lasting_instructions(&host, &[SettingWrite { path, before: "0".into(), after: "1".into() }]);
        assert!(rule.contains("KERNEL==\"cciss/c0d0\", ATTR{queue/iostats}=\"1\""), "{rule}");
    }

    #[test]
    fn keeps_the_more_worthwhile_of_two_items_on_one_file_and_reports_the_other() {
        let mut items = vec![
            item_that_writes("queue.scheduler", "4096", AdviceSeverity::Warning),
            item_that_writes("queue.read-ahead", "128", AdviceSeverity::Info),
        ];
        let dropped = drop_conflicting(&mut items);
        let ids = |items: &[AdviceItem]| items.iter().map(|item| item.id.clone()).collect::<Vec<_>>();
        assert_eq!(
            (ids(&items), ids(&dropped)),
            (vec!["queue.scheduler@sda".into()], vec!["queue.read-ahead@sda".into()])
        );
        assert_eq!(dropped[0].writes[0].after, "128");
    }
}

//! What a log shows: the counters behind its judgement, the disk that is fuller than the others, and the commands that
//! would show the rest.

use std::collections::{BTreeMap, BTreeSet};

use diskwright_base::counter_ids::physical_disk;
use diskwright_base::timestamp::format_rfc3339;

use crate::answer::confidence::FIRST_SUSPECTS;
use crate::answer::rule_outcome::{RuleOutcome, window_value};
use crate::answer::verdict::{Finding, LogRemark, ProgramActivity, WatchWindow};
use crate::rules::{Bottleneck, BottleneckProof, LogOrigin, NextCommand, Rule, Severity};
use crate::run::{NoteCount, Observation};

/// Ids of the counters that the judged rules had values of, with the mean of each that a condition compares by itself.
pub(crate) fn seen_counters<'a>(
    observed: &Observation,
    outcomes: &[RuleOutcome<'a>],
) -> BTreeMap<&'a str, Option<f64>> {
    let mut seen = BTreeMap::new();
    for outcome in outcomes.iter().filter(|outcome| outcome.share.is_some()) {
        for (condition, state) in outcome.rule.conditions().zip(&outcome.progress.conditions) {
            if let Some(measured) = window_value(observed, condition, state) {
                let quantity = &condition.quantity;
                let is_plain = quantity.counters().count() == 1 && quantity.per.is_none();
                let mean = seen.entry(quantity.counter.id.as_str()).or_insert(None);
                *mean = mean.or(is_plain.then_some(measured.value));
            }
        }
    }
    seen
}

/// What programs do where nothing is blamed. The commands are those of Linux: another system gets the words alone.
pub(crate) fn program_activities(observed: &Observation, bottleneck: Bottleneck) -> Vec<ProgramActivity> {
    if bottleneck.blames() {
        return Vec::new();
    }
    let is_linux = !matches!(observed.notes.source, LogOrigin::Perfmon | LogOrigin::Unix);
    observed.culprits.program_activities(is_linux)
}

/// Commands that would tell what a log leaves open: where nothing is blamed, the evidence that it lacks; else the disk
/// and the program. Our own logs have what there is.
pub(crate) fn next_commands(
    observed: &Observation,
    bottleneck: Bottleneck,
    is_of_machine: bool,
    has_program: bool,
    seen: &BTreeMap<&str, Option<f64>>,
) -> Vec<NextCommand> {
    let source = observed.notes.source;
    let mut list: Vec<NextCommand> = Vec::new();
    if source == LogOrigin::Live {
        return list;
    }
    if !bottleneck.blames() {
        let is_lacking = |suspect: Bottleneck, proof: &BottleneckProof| {
            !proof.is_answered_by(seen) && (suspect == Bottleneck::Disk || !has_machine_counters(observed, proof))
        };
        let lacking = FIRST_SUSPECTS
            .into_iter()
            .filter_map(|suspect| BottleneckProof::for_bottleneck(suspect).filter(|proof| is_lacking(suspect, proof)));
        for next in lacking.map(|proof| proof.evidence_command(source)) {
            match list.iter_mut().find(|known| known.command == next.command) {
                Some(known) => known.shows = format!("{} and {}", known.shows, next.shows),
                None => list.push(next),
            }
        }
        return list;
    }
    let Some(proof) = BottleneckProof::for_bottleneck(bottleneck) else { return list };
    if bottleneck == Bottleneck::Disk && is_of_machine {
        list.push(proof.evidence_command(source));
    }
    if !has_program {
        list.push(proof.program_command(source));
    }
    list
}

/// True where the log has the counters of a proof, though no rule could be judged by them: recording them again would
/// tell nothing new.
fn has_machine_counters(observed: &Observation, proof: &BottleneckProof) -> bool {
    let series = observed.schema.iter().flat_map(|schema| &schema.series);
    let counters: BTreeMap<&str, Option<f64>> = series.map(|series| (series.counter.as_str(), None)).collect();
    proof.is_given_by(&counters)
}

/// Largest number of disks, and of facts, that a sentence names.
const MAX_NAMED: usize = 6;

/// Names the disks that a rule on the machine is about; empty for other rules.
pub(crate) fn shown_disks_text(rule: &Rule, outcomes: &[RuleOutcome<'_>]) -> String {
    let is_of_disks = |object: &str| object == "physical_disk";
    let is_about_disks = rule.all.iter().any(|condition| is_of_disks(&condition.quantity.counter.object));
    if rule.object != "machine" || !is_about_disks {
        return String::new();
    }
    let of_disks = outcomes.iter().filter(|outcome| is_of_disks(&outcome.rule.object));
    let names: BTreeSet<&str> =
        of_disks.map(|o| o.progress.instance.as_str()).filter(|name| !name.is_empty()).collect();
    let shown: Vec<&str> = names.iter().copied().take(MAX_NAMED).collect();
    match names.len() - shown.len() {
        _ if shown.is_empty() => String::new(),
        0 => format!(" Disks shown: {}.", shown.join(", ")),
        more => format!(" Disks shown: {} and {more} more.", shown.join(", ")),
    }
}

/// Names what is wrong though it limits nothing that the log shows: a full filesystem, an array that does not run.
pub(crate) fn serious_facts_text(findings: &[Finding]) -> String {
    let is_serious = |f: &&Finding| f.severity == Severity::Critical && f.bottleneck == Bottleneck::None;
    let text = |f: &Finding| match f.instance.as_str() {
        "" => f.title.clone(),
        instance => format!("{instance}: {}", f.title),
    };
    let texts: Vec<String> = findings.iter().filter(is_serious).take(MAX_NAMED).map(text).collect();
    if texts.is_empty() { String::new() } else { format!(" But see to this: {}.", texts.join("; ")) }
}

/// Busy share by which a disk must exceed the first one to be named before it.
const MIN_BUSIER: f64 = 0.3;
/// Ratio of queues from which on a disk is named before the first one.
const MIN_LONGER_QUEUE: f64 = 2.0;

/// Puts the finding on a full disk before one on a disk that is idle much of the time. Without pressure, nothing shows
/// that tasks wait for the idle one.
pub(crate) fn put_fullest_disk_first(findings: &mut [Finding]) {
    let is_on_disk = |f: &Finding| f.bottleneck == Bottleneck::Disk && f.object == "physical_disk";
    let Some(first) = findings.iter().position(is_on_disk) else { return };
    let load = |f: &Finding| {
        Some((evidence_value(f, physical_disk::BUSY)?, evidence_value(f, physical_disk::AVG_QUEUE_LENGTH)?))
    };
    let Some((busy, queue)) = load(&findings[first]) else { return };
    let is_fuller = |index: &usize| {
        let fuller = |(b, q): (f64, f64)| b >= busy + MIN_BUSIER && q >= queue * MIN_LONGER_QUEUE;
        is_on_disk(&findings[*index]) && load(&findings[*index]).is_some_and(fuller)
    };
    if let Some(fuller) = (first + 1..findings.len()).find(is_fuller) {
        findings[first..=fuller].rotate_right(1);
    }
}

fn evidence_value(finding: &Finding, counter: &str) -> Option<f64> {
    if finding.counter == counter {
        return Some(finding.value);
    }
    finding.evidence.iter().find(|e| e.counter == counter).and_then(|e| e.value)
}

pub(crate) fn log_remarks(observed: &Observation) -> Vec<LogRemark> {
    let remark = |r: &NoteCount| LogRemark {
        time: format_rfc3339(r.time_ns),
        kind: r.kind.clone(),
        text: r.text.clone(),
        times: r.times,
    };
    observed.notes.remarks.iter().chain(&observed.notes.bookmarks).map(remark).collect()
}

pub(crate) fn watch_window(observed: &Observation) -> WatchWindow {
    WatchWindow {
        from: format_rfc3339(observed.window.from_ns),
        to: format_rfc3339(observed.window.to_ns),
        seconds: observed.window.seconds(),
        ticks: observed.window.ticks,
        gaps: observed.notes.gaps,
        ticks_missed: observed.notes.missed_ticks,
        reports: observed.report_count(),
        is_dated: observed.is_dated(),
    }
}

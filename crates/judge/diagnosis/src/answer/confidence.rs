//! Confidence of a verdict, and the limits of its certainty.

use std::collections::BTreeMap;

use diskwright_base::counter_ids::{pressure, processor, system};
use diskwright_base::units::{format_count, format_value};
use diskwright_base::{Note, RecordingCost, Topology};

use crate::answer::evidence_seen::seen_counters;
use crate::answer::interrupt_limits::interrupts_text;
use crate::answer::rule_outcome::RuleOutcome;
use crate::answer::sentences::describe_near_miss;
use crate::answer::verdict::{Finding, UnjudgedRule};
use crate::rules::{Bottleneck, BottleneckProof, LogOrigin, Rule};
use crate::run::Observation;
use crate::sums::RuleState;

/// Id of the pack that the evidence in `rules/record.toml` is for.
pub(crate) const DEFAULT_PACK: &str = "default";
/// Share of steal time above which latencies and processor figures are uncertain.
const MAX_STEAL_SHARE: f64 = 0.05;
/// Smallest number of ticks of a window that is not called short.
const MIN_TICKS: u64 = 10;
/// Largest number of missing counters that a sentence lists.
const MAX_LISTED: usize = 4;

/// Limits of the certainty, a sentence each.
pub(crate) fn certainty_limits(
    observed: &Observation,
    pack: usize,
    unjudged: &[UnjudgedRule],
    bottleneck: Bottleneck,
) -> Vec<String> {
    let mut list = Vec::new();
    let rules: Vec<&Rule> = active_rules(observed, pack).collect();
    list.extend(window_limits(observed, &rules));
    if let Some(steal) = mean_steal_share(observed).filter(|s| *s > MAX_STEAL_SHARE) {
        let steal = format_value(steal, "fraction");
        list.push(format!(
            "the hypervisor withheld {steal} of the processor time: latencies and processor figures are uncertain"
        ));
    }
    if observed.window.ticks > 0 && !observed.states.has_pressure {
        list.push(match observed.notes.source {
            LogOrigin::Perfmon => "Windows does not count how long programs wait; waiting is inferred".into(),
            _ => "the log has no pressure data; waiting is inferred".into(),
        });
    }
    // for Windows, texts and commands have words of their own
    if observed.notes.source == LogOrigin::Unix {
        list.push("the commands in the advice are for Linux; use the equivalent tools of your system".into());
    }
    list.extend(interrupts_text(observed));
    list.extend(stand_ins_text(observed, pack));
    if observed.notes.gaps > 0 {
        list.push(format!("the log has {}", format_count(observed.notes.gaps, "gap", "gaps")));
    }
    if observed.notes.missed_ticks > 0 {
        let missed = format_count(observed.notes.missed_ticks, "tick was", "ticks were");
        list.push(format!("{missed} due and missed: the recorder was stopped or got no processor in time"));
    }
    list.extend(recording_cost_text(&observed.notes.cost));
    if observed.notes.remarks.iter().any(|r| r.kind == Note::CLOCK) {
        list.push("the clock was stepped or the machine slept during the window".into());
    }
    for suspect in unjudged_suspects(observed, pack, unjudged, bottleneck) {
        let missing: Vec<&str> =
            unjudged.iter().filter(|u| u.bottleneck == suspect).flat_map(|u| &u.missing).map(String::as_str).collect();
        list.push(format!("{} could not be judged: {} missing", suspect.name(), first_few(&missing)));
    }
    if let (Bottleneck::None, Some((_, waited))) = (bottleneck, strongest_waiting(observed)) {
        list.push(format!("no rule explains why {waited}"));
    }
    list.extend(unreadable_processes_text(observed));
    if observed.states.forgotten > 0 {
        list.push(
            "too many instances appeared and disappeared to keep all; those dropped did not affect the verdict".into(),
        );
    }
    list
}

/// Sentence on what recording itself cost, if it cost enough to show in the figures.
fn recording_cost_text(cost: &RecordingCost) -> Option<String> {
    let share = cost.processor_share().filter(|_| cost.is_notable())?;
    let memory = cost.resident_bytes.map_or(String::new(), |bytes| format!(" and {}", format_value(bytes, "bytes")));
    Some(format!(
        "recording itself took {} of one processor{memory}: figures of processors and memory include it",
        format_value(share, "fraction")
    ))
}

/// Sentences on a window that is short, or whose length is unknown.
fn window_limits(observed: &Observation, rules: &[&Rule]) -> Vec<String> {
    let ticks = observed.window.ticks;
    if observed.report_count().is_some() {
        let few = if ticks < MIN_TICKS { "; a longer run says more" } else { "" };
        let reports = format_count(ticks, "report", "reports");
        return vec![format!("the log has no times: how long its {reports} took is unknown{few}")];
    }
    let few = || format!("the window has only {}", format_count(ticks, "tick", "ticks"));
    let few = (ticks < MIN_TICKS).then(few);
    short_window(rules, observed.window.seconds()).into_iter().chain(few).collect()
}

/// Sentence on a window that is shorter than rules normally need.
fn short_window(rules: &[&Rule], seconds: f64) -> Option<String> {
    let longest = rules.iter().map(|r| r.sustained.longest_s()).fold(0.0, f64::max);
    let count = rules.iter().filter(|r| r.sustained.longest_s() > seconds / 2.0).count();
    let (longest, window) = (format_value(longest, "s"), format_value(seconds, "s"));
    let need = match count {
        0 => return None,
        1 => format!("one rule normally has to hold for {longest}"),
        _ => format!("{count} rules normally have to hold for up to {longest}"),
    };
    Some(format!("the window of {window} is short: {need}; rules were accepted after half of it"))
}

/// Sentence on processes whose I/O was unreadable.
fn unreadable_processes_text(observed: &Observation) -> Option<String> {
    match observed.culprits.unreadable {
        0 => None,
        1 => Some("the I/O of one process was unreadable; the list of processes may be incomplete".into()),
        count => Some(format!("the I/O of {count} processes was unreadable; the list of processes may be incomplete")),
    }
}

/// Rules of a pack that apply: those that need a ceiling or the limits of a cloud only where these are known, those on
/// optional objects only where they were judged.
pub(crate) fn active_rules(observed: &Observation, pack: usize) -> impl Iterator<Item = &Rule> {
    let has_ceilings = !observed.ceilings.is_empty();
    let has_volume_limits = observed.topology.as_ref().is_some_and(Topology::has_volume_limits);
    let has_facts = move |rule: &Rule| {
        (has_ceilings || !rule.needs_ceiling()) && (has_volume_limits || !rule.needs_volume_limits())
    };
    let rules = observed.packs[pack].rules.iter().zip(&observed.states.rules[pack]);
    // the absence of network mounts makes a verdict neither more nor less certain
    let is_present = |rule: &Rule, judged: bool| judged || !OPTIONAL_OBJECTS.contains(&rule.object.as_str());
    let active = rules.filter(move |(rule, state)| has_facts(rule) && is_present(rule, state.judged));
    active.map(|(rule, _)| rule)
}

/// Sentence on rules that were judged by logical disks for lack of physical ones.
fn stand_ins_text(observed: &Observation, pack: usize) -> Option<String> {
    let rules = observed.states.stand_ins.keys().filter(|(stand_in_pack, _)| *stand_in_pack == pack).count();
    let rules = match rules {
        0 => return None,
        1 => "a rule was".to_owned(),
        n => format!("{n} rules were"),
    };
    Some(format!(
        "{rules} judged by logical disks, because the log lacks counters of physical disks; drive letters may share \
         a disk, and an array looks like one disk"
    ))
}

/// Lists the first different names, and the number of the others.
fn first_few(names: &[&str]) -> String {
    let mut distinct: Vec<&str> = Vec::new();
    for name in names {
        if !distinct.contains(name) {
            distinct.push(name);
        }
    }
    let more = distinct.len().saturating_sub(MAX_LISTED);
    distinct.truncate(MAX_LISTED);
    let text = distinct.join(", ");
    if more > 0 { format!("{text} and {more} more") } else { text }
}

/// Mean share of processor time that the hypervisor withheld.
fn mean_steal_share(observed: &Observation) -> Option<f64> {
    observed.mean_sign(processor::STEAL)
}

/// Mean number of processors; two where it is unknown.
fn processor_count(observed: &Observation) -> f64 {
    observed.mean_sign("processors").unwrap_or(2.0).max(1.0)
}

/// Bottlenecks that are suspected before this one, and none of whose blaming rules could be judged.
fn unjudged_suspects(
    observed: &Observation,
    pack: usize,
    unjudged: &[UnjudgedRule],
    bottleneck: Bottleneck,
) -> Vec<Bottleneck> {
    let suspected = Bottleneck::ALL.into_iter().filter(|b| *b < bottleneck && b.blames());
    let is_unjudged = |suspect: &Bottleneck| {
        let blaming = active_rules(observed, pack).filter(|r| r.bottleneck == *suspect && r.weight > 0.0);
        let mut blaming = blaming.peekable();
        blaming.peek().is_some() && blaming.all(|r| unjudged.iter().any(|u| u.rule == r.id))
    };
    suspected.filter(is_unjudged).collect()
}

/// Share, by weight, of a bottleneck's rules that could not be judged.
fn share_unjudged(observed: &Observation, pack: usize, suspect: Bottleneck, unjudged: &[UnjudgedRule]) -> f64 {
    let is_unjudged = |rule: &Rule| unjudged.iter().any(|u| u.rule == rule.id);
    let is_judged = |rule: &Rule| {
        let mut rule_states = observed.packs[pack].rules.iter().zip(&observed.states.rules[pack]);
        rule_states.any(|(other, state)| std::ptr::eq(other, rule) && state.judged)
    };
    let is_of_this_log = |rule: &&Rule| !rule.optional || is_unjudged(rule) || is_judged(rule);
    let blaming = || active_rules(observed, pack).filter(|r| r.bottleneck == suspect).filter(is_of_this_log);
    let total_weight: f64 = blaming().map(|r| r.weight).sum();
    let unjudged_weight: f64 = blaming().filter(|r| is_unjudged(r)).map(|r| r.weight).sum();
    if total_weight > 0.0 { unjudged_weight / total_weight } else { 0.0 }
}

/// Share of a document's rules on disks that a log may leave unjudged where it rules the disk out.
const MAX_UNJUDGED_SHARE: f64 = 0.5;

/// True where a document's pack lacks most of what it judges disks by: it has not looked at them. The default pack has
/// evidence of its own, [`BottleneckProof`].
pub(crate) fn has_unjudged_disks(observed: &Observation, pack: usize, unjudged: &[UnjudgedRule]) -> bool {
    observed.packs[pack].id != DEFAULT_PACK
        && share_unjudged(observed, pack, Bottleneck::Disk, unjudged) > MAX_UNJUDGED_SHARE
}

/// Number of rules of a pack that could be judged at any instance.
pub(crate) fn judged_rule_count(observed: &Observation, pack: usize) -> usize {
    observed.states.rules[pack].iter().filter(|state| state.judged).count()
}

/// Share, by weight, of the blaming rules that could be judged; rules for other kinds of logs do not count.
fn share_judged(observed: &Observation, pack: usize, unjudged: &[UnjudgedRule]) -> f64 {
    let rule_states = || observed.packs[pack].rules.iter().zip(&observed.states.rules[pack]);
    let rules = || rule_states().filter(|(r, _)| r.bottleneck.blames());
    let is_unjudged = |rule: &Rule| unjudged.iter().any(|u| u.rule == rule.id);
    let judged_weight: f64 = rules().filter(|(r, state)| state.judged && !is_unjudged(r)).map(|(r, _)| r.weight).sum();
    let unjudged_weight: f64 = rules().filter(|(r, _)| is_unjudged(r)).map(|(r, _)| r.weight).sum();
    let total_weight = judged_weight + unjudged_weight;
    if total_weight > 0.0 { judged_weight / total_weight } else { 1.0 }
}

/// Objects that most machines lack: a log without them lacks nothing.
const OPTIONAL_OBJECTS: [&str; 5] = ["database", "hardware", "network_filesystem", "nfs_server", "path"];

/// Smallest share of judged rules for the answer "no bottleneck".
const MIN_JUDGED_SHARE: f64 = 0.1;
/// Suspects of which at least one must have been judged for the answer "no bottleneck".
pub(super) const FIRST_SUSPECTS: [Bottleneck; 3] = [Bottleneck::Memory, Bottleneck::Disk, Bottleneck::Cpu];

/// True where the log does not allow the answer "no bottleneck": too few rules could be judged, or one found something
/// that the log cannot decide.
pub(crate) fn is_inconclusive(
    observed: &Observation,
    pack: usize,
    findings: &[Finding],
    unjudged: &[UnjudgedRule],
    outcomes: &[RuleOutcome<'_>],
) -> bool {
    let is_of_one_part = clears_only_part(observed, outcomes);
    observed.window.elapsed_ns == 0
        || (observed.notes.lacks_disk_rows && !waits_for_no_disk(observed))
        || (share_judged(observed, pack, unjudged) < MIN_JUDGED_SHARE
            && !is_of_one_part
            && !shows_idle_machine(observed, pack)
            && !clears_first_suspects(observed, pack))
        // pressure counts every wait, whatever it is for
        || (!observed.states.has_pressure && !is_of_one_part && has_no_judged_suspect(observed, pack))
        || findings.iter().any(|f| f.bottleneck == Bottleneck::Unknown)
}

/// Largest number of processors that wait for I/O, on average, at which no disk is waited for.
const MAX_WAITING_PROCESSORS: f64 = 0.02;

/// True where processors are seen to idle, and hardly ever for want of a disk, whichever disks the log leaves out.
fn waits_for_no_disk(observed: &Observation) -> bool {
    let mean = |name: &str| observed.mean_sign(name);
    let processors = processor_count(observed);
    mean(processor::IOWAIT).is_some_and(|share| share * processors <= MAX_WAITING_PROCESSORS)
        && mean(system::BLOCKED).is_none_or(|tasks| tasks <= MAX_IDLE_BLOCKED)
}

/// Beginnings of counters that tell about one part of a machine: who shows nothing else asks about that part.
const PARTS: [&str; 7] =
    ["array.", "cgroup.", "controller.", "memory.", "network.", "network_filesystem.", "processor.frequency"];
/// Closeness to its limit from which on a part is not called healthy.
const MAX_CLEARED_CLOSENESS: f64 = 0.4;

/// True where a log shows nothing but one part of the machine (the quota of a cgroup, a controller, an array), and all
/// that it shows is far from its limits.
fn clears_only_part(observed: &Observation, outcomes: &[RuleOutcome<'_>]) -> bool {
    if observed.notes.source == LogOrigin::Live {
        return false;
    }
    let seen = seen_counters(observed, outcomes);
    let is_one_part = |part: &&str| !seen.is_empty() && seen.keys().all(|counter| counter.starts_with(*part));
    let judged = || outcomes.iter().filter(|o| o.rule.weight > 0.0 && o.rule.bottleneck.blames() && o.share.is_some());
    let is_far = |outcome: &RuleOutcome<'_>| {
        describe_near_miss(observed, outcome).is_some_and(|near| near.closeness < MAX_CLEARED_CLOSENESS)
    };
    PARTS.iter().any(is_one_part) && judged().next().is_some() && judged().all(is_far)
}

/// Largest mean share of iowait, and largest mean number of blocked tasks, at which nothing is seen to wait for I/O.
const MAX_IDLE_IOWAIT: f64 = 0.05;
const MAX_IDLE_BLOCKED: f64 = 0.5;

/// True where a log of few counters still shows that tasks neither compute all of the time nor wait for I/O.
fn shows_idle_machine(observed: &Observation, pack: usize) -> bool {
    let mean = |name: &str| observed.mean_sign(name);
    let is_judged = |(rule, state): (&Rule, &RuleState)| rule.bottleneck == Bottleneck::Cpu && state.judged;
    let mut rule_states = observed.packs[pack].rules.iter().zip(&observed.states.rules[pack]);
    mean(processor::IOWAIT).is_some_and(|share| share <= MAX_IDLE_IOWAIT)
        && mean(system::BLOCKED).is_none_or(|tasks| tasks <= MAX_IDLE_BLOCKED)
        && rule_states.any(is_judged)
}

/// Largest grade of waiting at which a log of few counters may be called healthy.
const MAX_HEALTHY_WAITING: f64 = 0.5;

/// True where rules on each of the first suspects could be judged, and tasks are not seen to wait for long.
fn clears_first_suspects(observed: &Observation, pack: usize) -> bool {
    let rule_states = || observed.packs[pack].rules.iter().zip(&observed.states.rules[pack]);
    let is_judged = |suspect: &Bottleneck| {
        rule_states().any(|(rule, state)| rule.weight > 0.0 && rule.bottleneck == *suspect && state.judged)
    };
    FIRST_SUSPECTS.iter().all(is_judged)
        && strongest_waiting(observed).is_none_or(|(grade, _)| grade < MAX_HEALTHY_WAITING)
}

/// True where the pack has rules on the first suspects and none of them could be judged.
fn has_no_judged_suspect(observed: &Observation, pack: usize) -> bool {
    let rules = || {
        let rule_states = observed.packs[pack].rules.iter().zip(&observed.states.rules[pack]);
        rule_states.filter(|(rule, _)| rule.weight > 0.0 && FIRST_SUSPECTS.contains(&rule.bottleneck))
    };
    rules().next().is_some() && !rules().any(|(_, state)| state.judged)
}

/// Number of processors of a log that does not tell it, where one task of many must not be missed.
const MANY_PROCESSORS: f64 = 16.0;
/// Number of processors that wait for I/O, on average, from which on somebody may wait for a disk all of the time.
const MAX_UNSEEN_WAITING: f64 = 0.25;

/// True where pages are read at a rate that makes memory the first suspect (NT Resource Kit, Disk Bottlenecks and
/// Memory: more than five a second), and no counter shows whether memory is short.
pub(crate) fn may_hide_paging(seen: &BTreeMap<&str, Option<f64>>) -> bool {
    const SUSPECT_PAGE_READS_PER_S: f64 = 5.0;
    let levels =
        ["memory.available_bytes", "memory.available_fraction", "pressure.memory_some", "paging.refaults_per_s"];
    let is_read = |mean: &Option<f64>| mean.is_some_and(|mean| mean >= SUSPECT_PAGE_READS_PER_S);
    seen.get("paging.page_reads_per_s").is_some_and(is_read) && !levels.iter().any(|level| seen.contains_key(level))
}

/// True where a mean of all processors may hide a task that waits for a disk, in a log without disks and tasks.
pub(crate) fn may_hide_waiting(observed: &Observation, seen: &BTreeMap<&str, Option<f64>>) -> bool {
    let mean = |name: &str| observed.mean_sign(name);
    let shows_disks =
        seen.keys().any(|counter| counter.starts_with("physical_disk.") || counter.starts_with("logical_disk."));
    let processors = mean("processors").unwrap_or(MANY_PROCESSORS);
    !shows_disks
        && !observed.states.has_pressure
        && mean(system::BLOCKED).is_none_or(|tasks| tasks > MAX_UNSEEN_WAITING)
        && mean(processor::IOWAIT).is_some_and(|share| share * processors > MAX_UNSEEN_WAITING)
}

/// Smallest share of waiting that needs an explanation.
const MIN_WAITING_SHARE: f64 = 0.02;

/// The strongest sign that tasks wait: its grade from 0 to 1, and a text. Where no rule blames anything, the waiting is
/// unexplained.
pub(crate) fn strongest_waiting(observed: &Observation) -> Option<(f64, String)> {
    let mean = |name: &str| observed.mean_sign(name);
    let processors = processor_count(observed);
    let percent = |share: f64| format_value(share, "fraction");
    let sign = |name: &str, grade: fn(f64, f64) -> f64, words: &dyn Fn(f64) -> String| {
        let value = mean(name)?;
        let grade = grade(value, processors).clamp(0.0, 1.0);
        (grade >= MIN_WAITING_SHARE).then(|| (grade, words(value)))
    };
    let found = [
        sign(pressure::IO_SOME, |v, _| v, &|v| format!("tasks waited for I/O for {} of the time", percent(v))),
        sign(pressure::MEMORY_SOME, |v, _| v, &|v| format!("tasks waited for memory for {} of the time", percent(v))),
        sign(pressure::CPU_SOME, |v, _| 0.7 * (v - 0.1), &|v| {
            format!("tasks waited for a processor for {} of the time", percent(v))
        }),
        sign(processor::IOWAIT, |v, n| v * n, &|v| format!("processors were in iowait for {} of the time", percent(v))),
        sign(system::BLOCKED, |v, _| v / 2.0, &|v| format!("tasks were blocked ({} on average)", format_value(v, ""))),
        sign(system::RUNNING, |v, n| v / n - 1.0, &|v| {
            format!("tasks were runnable ({} on average)", format_value(v, ""))
        }),
    ];
    found.into_iter().flatten().max_by(|a, b| a.0.total_cmp(&b.0))
}

/// A bottleneck whose confidence is asked for, or none.
pub(crate) struct Strength<'a> {
    pub bottleneck: Bottleneck,
    /// Its score.
    pub score: f64,
    /// Score of the strongest other bottleneck that was not blamed beside it.
    pub rival: f64,
    /// Rules that point at it.
    pub rules: Vec<&'a str>,
}

/// Confidence from 0 to 1: the strength of the bottleneck and its margin over what was not blamed, lowered by few
/// ticks, by suspects that could not be judged, by steal time and by gaps.
pub(crate) fn verdict_confidence(
    observed: &Observation,
    pack: usize,
    strength: &Strength<'_>,
    unjudged: &[UnjudgedRule],
    seen: &BTreeMap<&str, Option<f64>>,
) -> f64 {
    if observed.window.elapsed_ns == 0 {
        return 0.0;
    }
    let Strength { bottleneck, score, rival, .. } = *strength;
    let ticks = match bottleneck {
        // three quiet seconds say little, however many ticks they have
        Bottleneck::None => observed.window.ticks.min(observed.window.seconds().ceil() as u64),
        _ if leads_with_lasting_rule(observed, pack, &strength.rules) => u64::MAX,
        _ => observed.window.ticks,
    };
    let mut confidence =
        remaining_confidence(observed, pack, bottleneck, unjudged) * score_confidence(bottleneck, score, rival, ticks);
    if observed.packs[pack].id == DEFAULT_PACK {
        confidence *= evidence_factor(observed, bottleneck, seen);
    }
    if bottleneck == Bottleneck::None {
        if let Some((grade, _)) = strongest_waiting(observed) {
            confidence *= 1.0 - 0.8 * grade.powf(0.7);
        }
        // limited by the share of judged rules: 0 where no rule could be judged
        confidence = confidence.min(share_judged(observed, pack, unjudged).max(0.0).sqrt());
    }
    confidence = confidence.min(largest_confidence(observed, pack, &strength.rules));
    round_confidence(confidence)
}

/// Factors for suspects that could not be excluded: memory where a disk is blamed, and each where nothing is.
const UNPROVED_MEMORY: f64 = 0.75;
const UNPROVED_SUSPECT: f64 = 0.8;
/// Factor for a disk that is blamed without a look at how busy it is.
const UNSEEN_BUSY: f64 = 0.8;

/// Factor from 0 to 1 by which evidence that a log of another tool does not hold lowers the confidence.
fn evidence_factor(observed: &Observation, bottleneck: Bottleneck, seen: &BTreeMap<&str, Option<f64>>) -> f64 {
    if observed.notes.source == LogOrigin::Live || observed.states.has_pressure {
        return 1.0;
    }
    let is_proved =
        |suspect: Bottleneck| BottleneckProof::for_bottleneck(suspect).is_none_or(|proof| proof.is_answered_by(seen));
    match bottleneck {
        Bottleneck::None => {
            let unproved = FIRST_SUSPECTS.into_iter().filter(|suspect| !is_proved(*suspect)).count();
            UNPROVED_SUSPECT.powi(unproved as i32)
        }
        Bottleneck::Disk if seen.keys().any(|counter| counter.starts_with("physical_disk.")) => {
            let memory = if is_proved(Bottleneck::Memory) { 1.0 } else { UNPROVED_MEMORY };
            let has_busy =
                ["physical_disk.busy", "physical_disk.utilisation"].iter().any(|name| seen.contains_key(name));
            memory * if has_busy { 1.0 } else { UNSEEN_BUSY }
        }
        Bottleneck::Disk if seen.contains_key(processor::IOWAIT) && !is_proved(Bottleneck::Memory) => UNPROVED_MEMORY,
        _ => 1.0,
    }
}

/// True where the rule that counts most for a bottleneck is on a state that one look shows.
fn leads_with_lasting_rule(observed: &Observation, pack: usize, rules: &[&str]) -> bool {
    let rules = rules.iter().filter_map(|id| observed.packs[pack].find_rule(id));
    rules.max_by(|a, b| a.weight.total_cmp(&b.weight)).is_some_and(|rule| rule.lasting)
}

/// Largest confidence that these rules allow.
fn largest_confidence(observed: &Observation, pack: usize, rules: &[&str]) -> f64 {
    let allowed = rules.iter().filter_map(|id| observed.packs[pack].find_rule(id)).map(|rule| rule.confidence);
    allowed.reduce(f64::max).unwrap_or(1.0)
}

/// Rounds off the last bits, which depend on how a log is cut into frames.
pub(crate) fn round_confidence(confidence: f64) -> f64 {
    (confidence.clamp(0.0, 1.0) * 1e6).round() / 1e6
}

/// Confidence from the scores alone, over this number of ticks.
pub(crate) fn score_confidence(bottleneck: Bottleneck, score: f64, rival: f64, ticks: u64) -> f64 {
    let ticks = ticks as f64;
    let certainty = match bottleneck {
        Bottleneck::Unknown => 0.0,
        // the closer a bottleneck came to being blamed, the lower the confidence
        Bottleneck::None => 0.95 - 0.6 * rival.min(1.0),
        _ => {
            let strength = score.min(1.0);
            let margin = ((strength - rival) / strength).clamp(0.0, 1.0);
            strength.sqrt() * (0.75 + 0.22 * margin)
        }
    };
    certainty * ticks / (ticks + 2.0)
}

/// Factor from 0 to 1 by which unjudged suspects, steal time and gaps lower the confidence.
pub(crate) fn remaining_confidence(
    observed: &Observation,
    pack: usize,
    bottleneck: Bottleneck,
    unjudged: &[UnjudgedRule],
) -> f64 {
    let mut factor = 1.0;
    for suspect in Bottleneck::ALL.into_iter().filter(|b| *b < bottleneck && b.blames()) {
        // memory must be ruled out first, so an unjudged memory weighs most
        let weight = if suspect == Bottleneck::Memory { 0.25 } else { 0.05 };
        factor *= 1.0 - weight * share_unjudged(observed, pack, suspect, unjudged);
    }
    if mean_steal_share(observed).is_some_and(|s| s > MAX_STEAL_SHARE) {
        factor *= 0.85;
    }
    if observed.notes.gaps > 0 {
        factor *= 0.95;
    }
    factor
}

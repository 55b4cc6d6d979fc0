//! What began within the window and lasts to its end: a job that starts while somebody watches. Judged over the whole
//! window, it is hidden by the calm before.
//!
//! Rules that blame the same are judged together, because a load that grows passes from one to the next: first requests
//! come one at a time, then they queue. The moment is where the share of time for which any of them held changed most.
//! The time since must be as long as a rule asks for, which is not halved as in a short window; one of them must hold
//! for half of it and up to its end. They must have held much less before, and what comes and goes is nothing that
//! began. What the other rules show from then on may explain it.

use std::collections::{BTreeMap, BTreeSet};

use crate::answer::blame::all_bottlenecks::{FoundBottleneck, find_bottlenecks, keep_unlinked};
use crate::answer::blame::explanations::separate_explained;
use crate::answer::blame::relations::Relations;
use crate::answer::ranking::{choose_bottleneck, rank_bottlenecks, rule_score};
use crate::answer::rule_outcome::{RuleOutcome, build_finding};
use crate::answer::verdict::{Finding, Rank, Verdict};
use crate::changes::Change;
use crate::rules::{Bottleneck, Severity};
use crate::run::Observation;
use diskwright_base::timestamp::{format_rfc3339, parse_rfc3339};

/// Shortest time since the moment, seconds, as of a phase; some rules ask for more.
const MIN_STRETCH_S: f64 = 10.0;
/// Smallest number of ticks since the moment.
const MIN_TICKS: u64 = 3;
/// Smallest share of the time since at which a rule must have held, where the rule itself requires less.
const MIN_SHARE: f64 = 0.5;
/// Largest share before the moment, as a part of the share since.
const MAX_SHARE_BEFORE: f64 = 1.0 / 3.0;
/// Longest stretch before the moment, as a part of the time held since: what came and went is no beginning.
const MAX_STRETCH_BEFORE: f64 = 0.5;
/// A stretch goes on over breaks of so many parts of the window.
const MAX_BREAK_PARTS: usize = 2;
/// Longest time and largest number of ticks at the end of the window at which a rule that lasts need not hold.
const MAX_LULL_S: f64 = 10.0;
const MAX_LULL_TICKS: f64 = 3.0;
/// A rule that asks for less than this share is about moments.
const BRIEF_SHARE: f64 = 0.2;
/// Largest number of moments that are judged.
const MAX_MOMENTS: usize = 8;

/// Rules that blame the same, and hold from a part of the window to its end.
struct Onset {
    /// Positions of their outcomes.
    outcomes: Vec<usize>,
    part: usize,
    score: f64,
}

/// The parts of the window, and how long each rule held in them.
struct PartTimes {
    /// Seconds before each part, and before the end.
    before_s: Vec<f64>,
    /// Ticks before each part, and before the end.
    ticks_before: Vec<u64>,
}

/// What a pack decides on a window.
pub(crate) struct Decision {
    /// Those of the bottleneck first.
    pub findings: Vec<Finding>,
    pub ranking: Vec<Rank>,
    pub bottleneck: Bottleneck,
    pub bottlenecks: Vec<FoundBottleneck>,
}

impl Decision {
    /// The same with what began within the window, lasts, and is linked with nothing that the window as a whole shows.
    /// It comes behind that.
    pub fn with_latest(
        mut self,
        relations: &Relations<'_>,
        outcomes: &[RuleOutcome<'_>],
        is_memory_unrelated: bool,
    ) -> Decision {
        let latest = find_latest(relations, outcomes);
        let began = latest.iter().filter_map(|o| build_finding(relations.observed, o)).collect();
        let began = keep_unlinked(relations, &self.findings, &self.bottlenecks, began);
        if began.is_empty() {
            return self;
        }
        self.findings.extend(began);
        let score = |f: &Finding| rule_score(f.weight, f.share);
        self.ranking = rank_bottlenecks(self.findings.iter().map(|f| (f.bottleneck, f.rule.as_str(), score(f))));
        if !self.bottleneck.blames() {
            self.bottleneck = choose_bottleneck(&self.ranking, is_memory_unrelated);
        }
        self.findings.sort_by_key(|f| f.bottleneck != self.bottleneck);
        self.bottlenecks = find_bottlenecks(relations, &self.findings, self.bottleneck);
        self
    }
}

/// Finds the rules that blame something since a moment in the window, and not in the window as a whole: their outcomes
/// since then, strongest first.
fn find_latest<'a>(relations: &Relations<'_>, outcomes: &[RuleOutcome<'a>]) -> Vec<RuleOutcome<'a>> {
    let observed = relations.observed;
    // reports without times, and logs side by side, have no moments
    if observed.window.elapsed_ns == 0 || observed.report_count().is_some() || observed.notes.source_count > 1 {
        return Vec::new();
    }
    let parts = PartTimes::new(observed);
    let mut onsets: Vec<Onset> =
        group_by_blame(outcomes).into_iter().filter_map(|group| parts.find_onset(observed, outcomes, group)).collect();
    onsets.sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| a.outcomes.cmp(&b.outcomes)));
    let mut moments: Vec<usize> = Vec::new();
    for onset in &onsets {
        if !moments.contains(&onset.part) && moments.len() < MAX_MOMENTS {
            moments.push(onset.part);
        }
    }
    let mut found: Vec<RuleOutcome<'a>> = Vec::new();
    for moment in moments {
        let since: Vec<RuleOutcome<'a>> = outcomes.iter().map(|o| parts.judge_since(observed, o, moment)).collect();
        let (unexplained, _) = separate_explained(relations, &since);
        for index in onsets.iter().filter(|onset| onset.part == moment).flat_map(|onset| &onset.outcomes) {
            let own = &since[*index];
            if unexplained.iter().any(|o| std::ptr::eq(*o, own)) {
                found.push(own.clone());
            }
        }
    }
    let score = |o: &RuleOutcome<'_>| rule_score(o.rule.weight, o.share.unwrap_or(0.0));
    found.sort_by(|a, b| score(b).total_cmp(&score(a)));
    found
}

/// Positions of the outcomes that may begin within the window, by what they blame; nothing of what a rule blames over
/// the whole window.
fn group_by_blame(outcomes: &[RuleOutcome<'_>]) -> Vec<Vec<usize>> {
    let mut groups: BTreeMap<(Bottleneck, &str), Vec<usize>> = BTreeMap::new();
    let mut known: BTreeSet<(Bottleneck, &str)> = BTreeSet::new();
    for (index, outcome) in outcomes.iter().enumerate() {
        let (rule, progress) = (outcome.rule, outcome.progress);
        if !rule.bottleneck.blames() || rule.weight <= 0.0 || rule.severity == Severity::Info {
            continue;
        }
        let blame = (rule.bottleneck, progress.instance.as_str());
        if outcome.holds {
            known.insert(blame);
        } else if outcome.holds_over_window && rule.sustained.times <= 1 && progress.held_ns > 0 {
            groups.entry(blame).or_default().push(index);
        }
    }
    groups.into_iter().filter(|(blame, _)| !known.contains(blame)).map(|(_, group)| group).collect()
}

impl PartTimes {
    fn new(observed: &Observation) -> PartTimes {
        let (mut before_s, mut ticks_before) = (vec![0.0], vec![0]);
        for (index, part) in observed.grid.parts.iter().enumerate() {
            before_s.push(before_s[index] + part.elapsed_ns as f64 / 1e9);
            ticks_before.push(ticks_before[index] + part.ticks);
        }
        PartTimes { before_s, ticks_before }
    }

    fn count(&self) -> usize {
        self.before_s.len() - 1
    }

    /// Length of a part, or of some parts, seconds.
    fn seconds(&self, from: usize, to: usize) -> f64 {
        self.before_s[to] - self.before_s[from]
    }

    /// Finds since when rules that do not hold over the window hold to its end.
    fn find_onset(&self, observed: &Observation, outcomes: &[RuleOutcome<'_>], group: Vec<usize>) -> Option<Onset> {
        let last_ns = group.iter().map(|index| outcomes[*index].progress.last_ns).max()?;
        if !lasts_to_the_end(observed, last_ns) {
            return None;
        }
        let mut held = vec![0.0_f64; self.count()];
        for times in group.iter().filter_map(|index| outcomes[*index].progress.held_times.as_ref()) {
            let of_rule = times.held_seconds(&observed.grid);
            held.iter_mut().zip(of_rule).for_each(|(held, of_rule)| *held = held.max(of_rule));
        }
        let part = self.find_step(&held)?;
        let (held_since, held_before) = (held[part..].iter().sum::<f64>(), held[..part].iter().sum::<f64>());
        let share = held_since / self.seconds(part, self.count());
        let share_before = held_before / self.seconds(0, part);
        let ticks = self.ticks_before[self.count()] - self.ticks_before[part];
        let has_begun = ticks >= MIN_TICKS
            && share >= MIN_SHARE
            && share_before <= MAX_SHARE_BEFORE * share
            && self.longest_stretch_s(&held[..part]) <= MAX_STRETCH_BEFORE * held_since;
        let is_long = |index: &usize| self.has_lasted(&outcomes[*index], part);
        let long: Vec<usize> = group.into_iter().filter(is_long).collect();
        let weight = long.iter().map(|index| outcomes[*index].rule.weight).fold(0.0, f64::max);
        (has_begun && !long.is_empty()).then(|| Onset { outcomes: long, part, score: rule_score(weight, share) })
    }

    /// True where the time since a part of the window is as long as a rule asks for.
    fn has_lasted(&self, outcome: &RuleOutcome<'_>, part: usize) -> bool {
        let needed_s = outcome.rule.sustained.longest_s().max(MIN_STRETCH_S);
        // by clocks that tick a little early, ten seconds may be less
        self.seconds(part, self.count()) >= 0.98 * needed_s
    }

    /// The part from which on a rule held most above its mean: there the sum of what it held less its mean is lowest.
    /// `None` where that is the first.
    fn find_step(&self, held: &[f64]) -> Option<usize> {
        let total_s = self.seconds(0, self.count());
        let mean = held.iter().sum::<f64>() / total_s.max(1e-9);
        let (mut sum, mut lowest, mut step) = (0.0, 0.0, 0);
        for (part, held_s) in held.iter().enumerate() {
            if sum < lowest - 1e-9 {
                (lowest, step) = (sum, part);
            }
            sum += held_s - mean * self.seconds(part, part + 1);
        }
        (step > 0).then_some(step)
    }

    /// The longest stretch for which a rule held in some first parts of the window, short breaks included.
    fn longest_stretch_s(&self, held: &[f64]) -> f64 {
        let (mut longest, mut begin, mut last) = (0.0, None, 0);
        for (part, held_s) in held.iter().enumerate() {
            if *held_s < self.seconds(part, part + 1) / 2.0 {
                continue;
            }
            let goes_on = begin.is_some() && part - last <= MAX_BREAK_PARTS + 1;
            let from = if goes_on { begin.unwrap_or(part) } else { part };
            (begin, last) = (Some(from), part);
            longest = f64::max(longest, self.seconds(from, part + 1));
        }
        longest
    }

    /// A rule judged from a part of the window to its end.
    fn judge_since<'a>(&self, observed: &Observation, outcome: &RuleOutcome<'a>, part: usize) -> RuleOutcome<'a> {
        let sustained = &outcome.rule.sustained;
        let judged_s = self.seconds(part, self.count());
        let held = outcome.progress.held_times.as_ref().map(|times| times.held_seconds(&observed.grid));
        let share = held.map(|held| held[part..].iter().sum::<f64>() / judged_s.max(1e-9));
        let is_brief = sustained.share < BRIEF_SHARE;
        let is_held = share.is_some_and(|share| share >= sustained.share - 1e-9 && share > 0.0);
        RuleOutcome {
            share,
            judged_s,
            // a rule of moments that held in the window explains what it explains there
            holds: outcome.holds_over_window && is_held || outcome.holds && is_brief,
            since_ns: Some(observed.grid.parts[part].from_ns),
            ..outcome.clone()
        }
    }
}

/// True where a rule held up to the end of the window, but for a moment.
fn lasts_to_the_end(observed: &Observation, last_ns: i64) -> bool {
    let tick_s = observed.window.seconds() / observed.window.ticks.max(1) as f64;
    let lull_s = (observed.window.to_ns.saturating_sub(last_ns)) as f64 / 1e9;
    lull_s < (MAX_LULL_TICKS * tick_s).min(MAX_LULL_S) - 1e-9 || lull_s <= 0.0
}

/// Largest distance of a step from the moment since which a rule holds, nanoseconds.
const MAX_STEP_DISTANCE_NS: i64 = 15_000_000_000;
/// Largest part of the time for which a rule held that lies before a step which began it.
const MAX_HELD_BEFORE: f64 = 0.1;

/// Sets when each bottleneck began: at the step of its levels, which is known best; without one, since its rule holds.
pub(crate) fn set_beginnings(verdict: &mut Verdict) {
    for listed in &mut verdict.bottlenecks {
        let Some(leading) = listed.positions.first().map(|position| &verdict.findings[*position]) else { continue };
        let is_step = |change: &&Change| {
            let lasts = change.is_rise() && change.until_ns.is_none();
            lasts && change.bears_on(listed.bottleneck, &listed.instance) && can_begin_at(leading, change.time_ns)
        };
        let height = |change: &Change| change.after / change.before.max(change.after / 100.0);
        let steps = verdict.changes.iter().filter(is_step);
        let step = steps.max_by(|a, b| height(a).total_cmp(&height(b)));
        listed.since = step.map(|change| format_rfc3339(change.time_ns)).or_else(|| leading.since.clone());
    }
}

/// True where a finding can have begun with a step: near the moment since which its rule holds, or where it hardly held
/// before.
fn can_begin_at(finding: &Finding, step_ns: i64) -> bool {
    if let Some(since_ns) = finding.since.as_deref().and_then(parse_rfc3339) {
        return since_ns.saturating_sub(step_ns).abs() <= MAX_STEP_DISTANCE_NS;
    }
    let length_s = |until_ns: i64| -> f64 {
        let stretches = finding.stretches.iter().filter_map(|s| parse_rfc3339(&s.from).zip(parse_rfc3339(&s.to)));
        stretches.map(|(from, to)| (to.min(until_ns).saturating_sub(from)).max(0) as f64 / 1e9).sum()
    };
    let whole_s = length_s(i64::MAX);
    whole_s > 0.0 && length_s(step_ns) <= MAX_HELD_BEFORE * whole_s
}

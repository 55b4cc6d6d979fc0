//! All bottlenecks of a window: the one blamed first, and each that would be left if the others were taken away.

use std::collections::BTreeMap;

use crate::answer::blame::database_blame::is_about_lock;
use crate::answer::blame::relations::{Blame, Relations, are_linked};
use crate::answer::ranking::rule_score;
use crate::answer::verdict::Finding;
use crate::rules::{Bottleneck, Severity};

/// Smallest score of a bottleneck beside the first. More than it takes to be blamed alone: of two troubles, the smaller
/// one is seldom worth a change.
pub(crate) const MIN_FURTHER_SCORE: f64 = 0.5;
/// Largest number of findings of a bottleneck that are compared: a log of many disks has as many, the strongest first.
const MAX_COMPARED: usize = 1_000;
/// Largest number of bottlenecks that are listed.
const MAX_BOTTLENECKS: usize = 5;
/// Smallest number of bottlenecks by one rule that are told as one. Our choice: two are still told apart.
const MIN_ALIKE: usize = 3;
/// Largest number of instances that are named beside the first.
const MAX_NAMED: usize = 4;

/// A bottleneck, and the findings that point at it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FoundBottleneck {
    pub bottleneck: Bottleneck,
    /// Positions of its findings, the leading one first.
    pub findings: Vec<usize>,
}

impl FoundBottleneck {
    /// Score of its strongest rule, plus a tenth of the score of each further rule, as in the ranking.
    pub fn score(&self, findings: &[Finding]) -> f64 {
        let mut by_rule: BTreeMap<&str, f64> = BTreeMap::new();
        for finding in self.findings.iter().map(|index| &findings[*index]) {
            let best = by_rule.entry(&finding.rule).or_default();
            *best = best.max(rule_score(finding.weight, finding.share));
        }
        let best = by_rule.values().copied().fold(0.0, f64::max);
        best + (by_rule.values().sum::<f64>() - best) / 10.0
    }
}

/// What may be a bottleneck: a finding, or a rule that holds in a part of the window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Suspect<'a> {
    pub blame: Blame<'a>,
    pub severity: Severity,
    /// Score of the rule by the share of time for which it held; 0 for one that blames nothing.
    pub score: f64,
    /// True where it is about a lock.
    pub is_lock: bool,
}

impl<'a> Suspect<'a> {
    fn of_finding(finding: &'a Finding) -> Suspect<'a> {
        Suspect {
            blame: Blame::of_finding(finding),
            severity: finding.severity,
            score: rule_score(finding.weight, finding.share),
            is_lock: is_about_lock(finding),
        }
    }

    /// True for one that makes a bottleneck beside another. A pattern of requests holds nobody back while something
    /// else does.
    fn is_further(&self) -> bool {
        self.severity > Severity::Info
            && (self.blame.bottleneck() != Bottleneck::Application || self.is_lock)
            && self.score >= MIN_FURTHER_SCORE
    }
}

/// Finds all bottlenecks. `findings` are sorted, those of the chosen bottleneck first. Each further one must be strong,
/// and nothing that is listed before it may be its reason; what may be joins none of them.
pub(crate) fn find_bottlenecks(
    relations: &Relations<'_>,
    findings: &[Finding],
    chosen: Bottleneck,
) -> Vec<FoundBottleneck> {
    if !chosen.blames() {
        return Vec::new();
    }
    let suspects: Vec<Suspect<'_>> = findings.iter().map(Suspect::of_finding).collect();
    let groups = join_alike(findings, group_suspects(relations, &suspects));
    let list: Vec<FoundBottleneck> = groups
        .into_iter()
        .map(|group| FoundBottleneck { bottleneck: findings[group[0]].bottleneck, findings: group })
        .collect();
    assert!(
        list.first().is_none_or(|first| first.bottleneck == chosen),
        "findings of the chosen bottleneck come first"
    );
    list
}

/// Joins bottlenecks that one rule finds at many instances, such as 24 equal disks: they are one trouble, and the first
/// of them stands for all.
fn join_alike(findings: &[Finding], mut groups: Vec<Vec<usize>>) -> Vec<Vec<usize>> {
    let leading_rule = |group: &[usize]| findings[group[0]].rule.as_str();
    let mut first = 0;
    while first < groups.len() {
        let rule = leading_rule(&groups[first]);
        let count = groups.iter().filter(|group| leading_rule(group) == rule).count();
        if count >= MIN_ALIKE {
            let later = groups.split_off(first + 1);
            let (alike, others): (Vec<_>, Vec<_>) = later.into_iter().partition(|group| leading_rule(group) == rule);
            groups[first].extend(alike.into_iter().flatten());
            groups.extend(others);
            // more of them than could be listed
            let is_new = |index: &usize| findings[*index].rule == rule && !groups.iter().flatten().any(|i| i == index);
            let unlisted: Vec<usize> = (0..findings.len().min(MAX_COMPARED)).filter(is_new).collect();
            groups[first].extend(unlisted);
        }
        first += 1;
    }
    groups
}

/// Sentence on the further instances that a bottleneck stands for; empty where there are none.
pub(crate) fn alike_text(findings: &[Finding], found: &FoundBottleneck) -> String {
    let leading = &findings[found.findings[0]];
    let same_rule = found.findings.iter().map(|index| &findings[*index]).filter(|f| f.rule == leading.rule);
    let others: Vec<&str> = same_rule.map(|f| f.instance.as_str()).filter(|i| *i != leading.instance).collect();
    if others.len() + 1 < MIN_ALIKE {
        return String::new();
    }
    let named = others[..others.len().min(MAX_NAMED)].join(", ");
    let more = match others.len().saturating_sub(MAX_NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(" The same holds for {} others: {named}{more}.", others.len())
}

/// Groups suspects by the bottleneck that they make, given by position; the first that blames something leads.
pub(crate) fn group_suspects(relations: &Relations<'_>, suspects: &[Suspect<'_>]) -> Vec<Vec<usize>> {
    let mut list: Vec<Vec<usize>> = Vec::new();
    let mut compared: BTreeMap<Bottleneck, usize> = BTreeMap::new();
    for (index, suspect) in suspects.iter().enumerate() {
        let bottleneck = suspect.blame.bottleneck();
        if !bottleneck.blames() || suspect.score <= 0.0 {
            continue;
        }
        let count = compared.entry(bottleneck).or_default();
        *count += 1;
        if *count > MAX_COMPARED {
            continue;
        }
        let is_linked = |known: &Vec<usize>| are_linked(relations, suspects[known[0]].blame, suspect.blame);
        match list.iter().position(is_linked) {
            Some(known) if suspects[list[known][0]].blame.bottleneck() == bottleneck => list[known].push(index),
            Some(_) => {}
            None if list.is_empty() || suspect.is_further() && list.len() < MAX_BOTTLENECKS => list.push(vec![index]),
            None => {}
        }
    }
    list
}

/// The findings that make a bottleneck of their own beside those that are listed; each further one may be linked with
/// others of these.
pub(crate) fn keep_unlinked(
    relations: &Relations<'_>,
    findings: &[Finding],
    listed: &[FoundBottleneck],
    mut new: Vec<Finding>,
) -> Vec<Finding> {
    new.retain(|finding| {
        let suspect = Suspect::of_finding(finding);
        let is_linked = |known: &FoundBottleneck| {
            are_linked(relations, Blame::of_finding(&findings[known.findings[0]]), suspect.blame)
        };
        suspect.is_further() && !listed.iter().any(is_linked)
    });
    new
}

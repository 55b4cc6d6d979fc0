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
    let groups = group_suspects(relations, &suspects);
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

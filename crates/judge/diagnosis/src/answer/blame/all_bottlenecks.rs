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

/// Finds all bottlenecks. `findings` are sorted, those of the chosen bottleneck first. Each further one must be strong,
/// and nothing that is listed before it may be its reason; what may be joins none of them.
pub(crate) fn find_bottlenecks(
    relations: &Relations<'_>,
    findings: &[Finding],
    chosen: Bottleneck,
) -> Vec<FoundBottleneck> {
    let mut list: Vec<FoundBottleneck> = Vec::new();
    if !chosen.blames() {
        return list;
    }
    let is_linked = |one: usize, other: usize| {
        are_linked(relations, Blame::of_finding(&findings[one]), Blame::of_finding(&findings[other]))
    };
    let blaming = findings.iter().enumerate().filter(|(_, f)| f.bottleneck.blames() && f.weight > 0.0);
    let mut compared: BTreeMap<Bottleneck, usize> = BTreeMap::new();
    for (index, finding) in blaming {
        let count = compared.entry(finding.bottleneck).or_default();
        *count += 1;
        if *count > MAX_COMPARED {
            continue;
        }
        match list.iter().position(|known| is_linked(known.findings[0], index)) {
            Some(known) if list[known].bottleneck == finding.bottleneck => list[known].findings.push(index),
            Some(_) => {}
            None if list.is_empty() || is_further(finding) && list.len() < MAX_BOTTLENECKS => {
                list.push(FoundBottleneck { bottleneck: finding.bottleneck, findings: vec![index] });
            }
            None => {}
        }
    }
    assert!(
        list.first().is_none_or(|first| first.bottleneck == chosen),
        "findings of the chosen bottleneck come first"
    );
    list
}

/// True for a finding that makes a bottleneck beside another. A pattern of requests holds nobody back while something
/// else does.
fn is_further(finding: &Finding) -> bool {
    finding.severity > Severity::Info
        && (finding.bottleneck != Bottleneck::Application || is_about_lock(finding))
        && rule_score(finding.weight, finding.share) >= MIN_FURTHER_SCORE
}

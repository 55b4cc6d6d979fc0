//! Ranks bottlenecks by their findings and chooses one.
//!
//! The score of a finding is its rule's weight, a quarter of which counts by the share of time for which the rule held.
//! The score of a bottleneck is that of its strongest finding, plus a tenth of the score of each further rule. The
//! bottleneck with the best score is blamed, with two exceptions that come from the documents: memory wins over disk
//! unless it is less than half as strong, because paging looks like a slow disk (but not the paging of a cgroup that
//! does not use the disk); and among nearly equal scores, the order of suspicion decides.

use std::collections::BTreeMap;

use crate::answer::verdict::{PhaseBottleneck, Rank, UnjudgedRule};
use crate::rules::Bottleneck;
use crate::run::Observation;

/// Smallest score of a blamed bottleneck.
pub(crate) const MIN_SCORE: f64 = 0.35;
/// Memory is chosen before the disk down to this ratio of their scores.
const MIN_MEMORY_RATIO: f64 = 0.5;
/// Scores within this share of each other count as equal.
const TIE_SHARE: f64 = 0.02;

/// The verdict on the whole window, as the phases need it.
pub(crate) struct WindowVerdict<'a> {
    pub bottleneck: Bottleneck,
    pub instance: &'a str,
    pub confidence: f64,
    pub unjudged: &'a [UnjudgedRule],
    /// Id and title of the rule of the first finding; `None` where nothing is blamed.
    pub leading_rule: Option<(&'a str, &'a str)>,
    /// The further bottlenecks.
    pub also: &'a [PhaseBottleneck],
    /// When bottlenecks began that last to the end of the window, nanoseconds since 1970.
    pub began_ns: Vec<i64>,
}

/// Score of a rule of this weight that held for this share of the time.
pub(crate) fn rule_score(weight: f64, share: f64) -> f64 {
    weight * (0.75 + 0.25 * share)
}

/// Ranks the bottlenecks by the rules that point at them, given with their scores; best first.
pub(crate) fn rank_bottlenecks<'a>(rules: impl Iterator<Item = (Bottleneck, &'a str, f64)>) -> Vec<Rank> {
    let mut by_bottleneck: BTreeMap<Bottleneck, BTreeMap<&str, f64>> = BTreeMap::new();
    for (bottleneck, rule, score) in rules.filter(|(bottleneck, ..)| bottleneck.blames()) {
        let best = by_bottleneck.entry(bottleneck).or_default().entry(rule).or_insert(0.0);
        *best = best.max(score);
    }
    let rank = |(bottleneck, rules): (Bottleneck, BTreeMap<&str, f64>)| {
        let mut rules: Vec<(&str, f64)> = rules.into_iter().collect();
        rules.sort_by(|a, b| b.1.total_cmp(&a.1));
        let further: f64 = rules.iter().skip(1).map(|(_, score)| score / 10.0).sum();
        let score = rules.first().map_or(0.0, |(_, score)| *score) + further;
        Rank { bottleneck, score, findings: rules.into_iter().map(|(rule, _)| rule.to_owned()).collect() }
    };
    let mut ranking: Vec<Rank> = by_bottleneck.into_iter().map(rank).collect();
    // stable, so that equals stay in the order of suspicion
    ranking.sort_by(|a, b| b.score.total_cmp(&a.score));
    ranking
}

/// Chooses the bottleneck to blame; with `is_memory_unrelated`, the shortage of memory cannot be why the disk is busy.
pub(crate) fn choose_bottleneck(ranking: &[Rank], is_memory_unrelated: bool) -> Bottleneck {
    let Some(best) = ranking.first().filter(|r| r.score >= MIN_SCORE) else { return Bottleneck::None };
    let memory = ranking.iter().find(|r| r.bottleneck == Bottleneck::Memory);
    if best.bottleneck == Bottleneck::Disk
        && !is_memory_unrelated
        && memory.is_some_and(|m| m.score >= MIN_MEMORY_RATIO * best.score && m.score >= MIN_SCORE)
    {
        return Bottleneck::Memory;
    }
    let equals = ranking.iter().filter(|r| r.score >= best.score * (1.0 - TIE_SHARE));
    equals.map(|r| r.bottleneck).min().unwrap_or(best.bottleneck)
}

/// Instance of a bottleneck: the array, where the rule held at all of its members. `held_at` are all instances at which
/// it held.
pub(crate) fn bottleneck_instance(
    observed: &Observation,
    bottleneck: Bottleneck,
    object: &str,
    instance: &str,
    held_at: Vec<&str>,
) -> String {
    // a shortage of memory belongs to the machine, whichever disk shows it
    let is_of_machine = bottleneck == Bottleneck::Memory && matches!(object, "physical_disk" | "logical_disk");
    // the total instance of a log stands for the machine
    if is_of_machine || instance.eq_ignore_ascii_case("_total") {
        return String::new();
    }
    let Some(topology) = observed.topology.as_ref().filter(|_| object == "physical_disk") else {
        return instance.to_owned();
    };
    let mut arrays = topology.arrays_over(instance).into_iter();
    let array = arrays.find(|array| {
        let members = topology.disks_under(&array.name);
        members.len() > 1 && members.iter().all(|m| held_at.contains(m))
    });
    array.map_or_else(|| instance.to_owned(), |array| array.name.clone())
}

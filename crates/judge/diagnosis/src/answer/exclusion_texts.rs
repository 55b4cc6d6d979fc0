//! Reasons why a bottleneck was not chosen: others scored more, or its rules did not hold.

use std::collections::BTreeMap;

use crate::answer::ranking::MIN_SCORE;
use crate::answer::rule_outcome::RuleOutcome;
use crate::answer::sentences::{NearMiss, describe_near_miss};
use crate::answer::verdict::Rank;
use crate::rules::Bottleneck;
use crate::run::Observation;

/// Largest number of rules named when a bottleneck is ruled out.
const MAX_REASONS: usize = 3;

/// Reason why a bottleneck was not chosen although rules that point at it held.
pub(crate) fn weaker_reason(rank: &Rank, ranking: &[Rank], chosen: Bottleneck, is_memory_unrelated: bool) -> String {
    let rules = rank.findings.join(", ");
    // not always the best score: memory is chosen before a stronger disk, and of equal scores the first suspect
    let chosen_score = ranking.iter().find(|r| r.bottleneck == chosen).map_or(0.0, |r| r.score);
    match chosen {
        Bottleneck::None | Bottleneck::Unknown => {
            format!("too weak to blame: {rules} ({:.2}, at least {MIN_SCORE} needed)", rank.score)
        }
        Bottleneck::Memory if rank.bottleneck == Bottleneck::Disk && is_memory_unrelated => {
            format!("a separate bottleneck: the memory-starved cgroup hardly uses this disk: {rules}")
        }
        Bottleneck::Memory if rank.bottleneck == Bottleneck::Disk => {
            format!("paging causes the same symptoms: {rules} held too, but memory is judged first")
        }
        Bottleneck::Memory if rank.bottleneck == Bottleneck::Cpu => {
            format!("paging may be what they do: {rules} held too, and programs take less than 80 % of them")
        }
        _ if rank.score >= chosen_score => {
            format!("{} is judged first: {rules} held too ({:.2} against {chosen_score:.2})", chosen.name(), rank.score)
        }
        _ => format!("weaker than {}: {rules} ({:.2} against {chosen_score:.2})", chosen.name(), rank.score),
    }
}

/// Text that names the rules that came nearest to holding, each with the condition that failed; `None` where the window
/// was too short for any of them.
pub(crate) fn nearest_rules_text(observed: &Observation, judged: &[&RuleOutcome<'_>]) -> Option<String> {
    let mut by_rule: BTreeMap<usize, NearMiss> = BTreeMap::new();
    for outcome in judged {
        let Some(near_miss) = describe_near_miss(observed, outcome) else { continue };
        match by_rule.get(&outcome.rule_index) {
            Some(known) if known.closeness >= near_miss.closeness => {}
            _ => {
                by_rule.insert(outcome.rule_index, near_miss);
            }
        }
    }
    let mut near_misses: Vec<NearMiss> = by_rule.into_values().collect();
    let had_only_unknowns = !near_misses.is_empty() && near_misses.iter().all(|miss| miss.is_unknown);
    near_misses.retain(|miss| !miss.is_unknown);
    near_misses.sort_by(|a, b| b.closeness.total_cmp(&a.closeness));
    let mut chosen: Vec<NearMiss> = Vec::new();
    for near_miss in near_misses {
        if chosen.len() < MAX_REASONS && !chosen.iter().any(|t| t.subject == near_miss.subject) {
            chosen.push(near_miss);
        }
    }
    let texts: Vec<String> = chosen.into_iter().map(|t| t.text).collect();
    match texts.is_empty() {
        true if had_only_unknowns => None,
        true => Some("no rule came near it".into()),
        false => Some(texts.join("; ")),
    }
}

#[cfg(test)]
mod tests {
    use super::{Bottleneck, Rank, weaker_reason};

    #[test]
    fn a_bottleneck_stronger_than_the_answer_is_not_called_weaker() {
        let rank = |bottleneck, score, rule: &str| Rank { bottleneck, score, findings: vec![rule.to_owned()] };
        // memory is the answer though the disk scores higher and the processors score between them
        let ranking = [
            rank(Bottleneck::Disk, 0.9, "disk.saturated"),
            rank(Bottleneck::Cpu, 0.6, "cpu.full"),
            rank(Bottleneck::Memory, 0.5, "memory.paging"),
            rank(Bottleneck::Network, 0.4, "network.full"),
        ];
        assert_eq!(crate::answer::ranking::choose_bottleneck(&ranking, false), Bottleneck::Memory);
        let reason = |index: usize| weaker_reason(&ranking[index], &ranking, Bottleneck::Memory, false);
        assert_eq!(
            reason(1),
            "paging may be what they do: cpu.full held too, and programs take less than 80 % of them"
        );
        assert_eq!(reason(3), "weaker than memory: network.full (0.40 against 0.50)");
    }
}

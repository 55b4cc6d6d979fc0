//! Episodes: rules that blame something and held long enough at one time, but not for their share of the window.

use diskwright_base::timestamp::format_rfc3339;

use crate::answer::blame::explanations::OutcomesByRule;
use crate::answer::blame::relations::{Relations, can_explain};
use crate::answer::rule_outcome::RuleOutcome;
use crate::answer::verdict::{Episode, Finding};

/// Shortest episode, seconds.
const MIN_EPISODE_S: f64 = 60.0;

/// Finds episodes: rules that blame something and held long enough at one time, but not for their share of the window,
/// as in a bad hour of a quiet day. What lasts to the end of the window is a finding instead.
pub(crate) fn find_episodes(
    relations: &Relations<'_>,
    outcomes: &[RuleOutcome<'_>],
    findings: &[Finding],
) -> Vec<Episode> {
    let by_rule = OutcomesByRule::new(outcomes.iter());
    let stretch_s = |o: &RuleOutcome<'_>| o.progress.longest_ns as f64 / 1e9;
    let is_episode = |o: &&RuleOutcome<'_>| {
        let is_judged_by_tick = o.rule.all.iter().all(|c| !c.is_window_value());
        let is_long = stretch_s(o) >= o.rule.sustained.longest_s().max(MIN_EPISODE_S);
        let explains = |other: &&RuleOutcome<'_>| longest_spans_overlap(o, other) && can_explain(relations, other, o);
        let is_explained =
            || o.rule.none.iter().any(|id| by_rule.possible_explanations(id, o).any(|other| explains(&other)));
        let is_finding = || {
            let is_same = |f: &Finding| f.rule == o.rule.id && f.instance == o.progress.instance;
            findings.iter().any(is_same)
        };
        !o.holds && o.rule.weight > 0.0 && is_judged_by_tick && is_long && !is_finding() && !is_explained()
    };
    let mut reported: Vec<&RuleOutcome<'_>> = outcomes.iter().filter(is_episode).collect();
    reported.sort_by_key(|o| std::cmp::Reverse(o.progress.longest_ns));
    let episode = |o: &&RuleOutcome<'_>| Episode {
        rule: o.rule.id.clone(),
        title: o.rule.title.clone(),
        bottleneck: o.rule.bottleneck,
        object: o.rule.object.clone(),
        instance: o.progress.instance.clone(),
        share: o.share.unwrap_or(0.0),
        judged_s: o.progress.judged_ns as f64 / 1e9,
        longest_s: stretch_s(o),
        from: format_rfc3339(o.progress.longest_span.0),
        to: format_rfc3339(o.progress.longest_span.1),
    };
    reported.iter().map(episode).collect()
}

/// True where the longest stretches of two outcomes overlap for most of the first one's time.
fn longest_spans_overlap(first: &RuleOutcome<'_>, second: &RuleOutcome<'_>) -> bool {
    let ((from, to), (second_from, second_to)) = (first.progress.longest_span, second.progress.longest_span);
    (to.min(second_to) - from.max(second_from)).saturating_mul(2) > to - from
}

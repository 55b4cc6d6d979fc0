//! Chooses the quantities that trends are computed for, the limit of each, and the order of trends.

use std::collections::BTreeMap;

use super::{Trend, TrendShape};
use crate::rules::{Condition, ConditionSpan, Rule, RuleLimit};
use crate::run::Observation;
use crate::sums::BucketPoint;

/// A condition of a rule at an instance.
#[derive(Clone, Debug)]
pub(crate) struct TrendCondition<'a> {
    pub rule: &'a Rule,
    pub condition: &'a Condition,
    /// The limit; where it is a counter, its mean over the window.
    pub limit: f64,
    /// True for the leading condition of its rule: the first of `all`, or any of `any` where there is no `all`.
    pub is_leading: bool,
}

impl TrendCondition<'_> {
    /// True where the condition holds at a value.
    pub fn holds(&self, value: f64) -> bool {
        self.condition.compare.holds(value, self.limit)
    }

    /// True where the condition does not hold yet and the slope leads towards its limit.
    fn leads_to_limit(&self, now: f64, slope: f64) -> bool {
        !self.holds(now) && if self.condition.compare.is_upper() { slope > 0.0 } else { slope < 0.0 }
    }
}

/// A quantity at an instance, with all conditions on it.
pub(crate) struct TrendSubject<'a> {
    pub instance: String,
    /// The quantity over time.
    pub filled: Vec<BucketPoint>,
    judged: Vec<TrendCondition<'a>>,
}

impl<'a> TrendSubject<'a> {
    /// The condition to report. Preferred are conditions to whose limit the slope leads, then those that do not hold
    /// yet, those that lead their rule, and those whose rule has a weight; among equals, the nearest limit.
    pub fn next_condition(&self, now: f64, slope: f64) -> &TrendCondition<'a> {
        let preference =
            |j: &TrendCondition<'_>| (j.leads_to_limit(now, slope), !j.holds(now), j.is_leading, j.rule.weight > 0.0);
        let better = |a: &&TrendCondition<'_>, b: &&TrendCondition<'_>| {
            let nearer = (b.limit - now).abs().total_cmp(&(a.limit - now).abs());
            preference(a).cmp(&preference(b)).then(nearer)
        };
        // `judged` is never empty; reversed, because `max_by` returns the last of equals
        self.judged.iter().rev().max_by(better).unwrap_or(&self.judged[0])
    }
}

/// The quantities that a pack's rules judge at each tick, each once.
pub(crate) fn trend_subjects(observed: &Observation, pack: usize) -> Vec<TrendSubject<'_>> {
    let mut by_track: BTreeMap<usize, (Option<&str>, Vec<TrendCondition<'_>>)> = BTreeMap::new();
    for progress in observed.states.progress.iter().filter(|s| s.pack == pack) {
        let rule = observed.rule_for_progress(progress);
        for (index, condition) in rule.conditions().enumerate() {
            let state = &progress.conditions[index];
            // an amount per tick depends on the tick's length, which may change
            let is_judged_by_tick =
                condition.over == ConditionSpan::Tick && !condition.is_window_value() && !state.adds_up;
            let track = state.track.filter(|_| is_judged_by_tick);
            let (Some(track), Some(limit)) = (track, limit_value(observed, condition, state)) else {
                continue;
            };
            let is_rules_object = condition.quantity.counter.object == rule.object;
            let (instance, judged) = by_track.entry(track).or_default();
            if is_rules_object {
                *instance = Some(&progress.instance);
            }
            let is_leading = index == 0 || rule.all.is_empty();
            if !judged.iter().any(|j| j.rule.id == rule.id && j.condition == condition) {
                judged.push(TrendCondition { rule, condition, limit, is_leading });
            }
        }
    }
    let filled = |track: usize| observed.states.tracks[track].buckets.as_ref().map(|b| b.filled_buckets());
    let subject = |(track, (instance, judged)): (usize, (Option<&str>, Vec<_>))| {
        Some(TrendSubject { instance: instance.unwrap_or_default().to_owned(), filled: filled(track)?, judged })
    };
    by_track.into_iter().filter_map(subject).collect()
}

fn limit_value(observed: &Observation, condition: &Condition, state: &crate::sums::ConditionState) -> Option<f64> {
    let limit = match &condition.limit {
        RuleLimit::Number(number) => *number,
        RuleLimit::EachDisk { each_disk } => each_disk * state.disks(),
        RuleLimit::Counter { times, .. } => observed.states.tracks[state.limit_track?].mean()? * times,
    };
    limit.is_finite().then_some(limit)
}

/// Sort key: important trends first, the next to cross a limit before the others, then steps, lines and rhythms; by
/// name among equals.
pub(crate) fn sort_key(trend: &Trend) -> (bool, bool, String, u8, String, String) {
    let kind = match trend.shape {
        TrendShape::Step => 0,
        TrendShape::Line => 1,
        TrendShape::Flat if trend.rhythm.is_some() => 2,
        TrendShape::Flat => 3,
    };
    let crosses = trend.crosses.clone().filter(|_| trend.matters);
    let when = crosses.clone().unwrap_or_default();
    (!trend.matters, crosses.is_none(), when, kind, trend.counter.clone(), trend.instance.clone())
}

//! Decides from the collected progress whether a rule held at an instance, and builds the finding.

use crate::answer::limits::ceiling_remarks::measured_limit_text;
use crate::answer::limits::volume_use::volume_limit_text;
use crate::answer::verdict::{Evidence, Finding, HoldInterval};
use crate::rules::{Condition, ConditionSpan, Rule, RuleCounter, RuleLimit};
use crate::run::Observation;
use crate::sums::{ConditionState, EvidenceState, OperandState, RuleProgress};
use diskwright_base::timestamp::format_rfc3339;

/// Outcome of a rule at an instance.
#[derive(Clone, Debug)]
pub(crate) struct RuleOutcome<'a> {
    pub rule: &'a Rule,
    pub rule_index: usize,
    pub progress: &'a RuleProgress,
    /// Share of the judged time at which it held; `None` where nothing could be judged.
    pub share: Option<f64>,
    /// Seconds for which it had to hold.
    pub needed_s: f64,
    /// The judged time, seconds.
    pub judged_s: f64,
    /// True where its conditions on the whole window hold.
    pub holds_over_window: bool,
    /// True where it held often enough, and its conditions on the whole window hold.
    pub holds: bool,
    /// Where it is judged only from a moment in the window to its end: that moment, nanoseconds since 1970.
    pub since_ns: Option<i64>,
}

/// A condition's value over the window, and what it was compared with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ConditionValue {
    pub value: f64,
    pub limit: f64,
}

/// Outcomes of all rules of a pack at all instances, in the rules' order.
pub(crate) fn rule_outcomes(observed: &Observation, pack: usize) -> Vec<RuleOutcome<'_>> {
    let of_pack = observed.states.progress.iter().filter(|progress| progress.pack == pack);
    let mut list: Vec<RuleOutcome> =
        of_pack.map(|progress| rule_outcome(observed, observed.rule_for_progress(progress), progress)).collect();
    list.sort_by_key(|o| o.rule_index);
    list
}

fn rule_outcome<'a>(observed: &'a Observation, rule: &'a Rule, progress: &'a RuleProgress) -> RuleOutcome<'a> {
    // of logs laid side by side, each covers only a part of the window
    let covers_part = observed.notes.source_count > 1 && !observed.states.has_pressure;
    let covered_s = if covers_part { progress.judged_ns as f64 * 1e-9 } else { observed.window.seconds() };
    let half_s = covered_s / 2.0;
    let needed_s = rule.sustained.longest_s().min(half_s);
    let share = (progress.judged_ns > 0).then(|| progress.held_ns as f64 / progress.judged_ns as f64);
    let is_often_enough = share.is_some_and(|share| share >= rule.sustained.share - 1e-9);
    // a nanosecond of tolerance for the rounding of the cap
    let has_lasted = |ns: u64, required_s: f64| ns > 0 && ns as f64 / 1e9 >= required_s.min(half_s) - 1e-9;
    let is_long_enough = has_lasted(progress.held_ns, rule.sustained.at_least_s)
        && has_lasted(progress.longest_ns, rule.sustained.in_a_row_s);
    let is_repeated = progress.runs >= rule.sustained.times;
    let mut window_conditions = rule.all.iter().enumerate().filter(|(_, c)| c.is_window_value());
    let holds_over_window = window_conditions.all(|(index, condition)| {
        whole_window_value(observed, condition, &progress.conditions[index])
            .is_some_and(|m| condition.compare.holds(m.value, m.limit))
    });
    RuleOutcome {
        rule,
        rule_index: progress.rule,
        progress,
        share,
        needed_s,
        judged_s: progress.judged_ns as f64 / 1e9,
        holds_over_window,
        since_ns: None,
        holds: is_often_enough && is_long_enough && holds_over_window && is_repeated,
    }
}

/// Means of a condition's quantity and limit over the window, whether the rule held or not.
pub(crate) fn window_value(
    observed: &Observation,
    condition: &Condition,
    state: &ConditionState,
) -> Option<ConditionValue> {
    if condition.is_window_value() {
        return whole_window_value(observed, condition, state);
    }
    let tracks = &observed.states.tracks;
    let mean = tracks[state.track?].mean()?;
    let value = match condition.over {
        ConditionSpan::Change { .. } => mean / state.baseline.sums.mean().filter(|base| *base != 0.0)?,
        // over a whole window, rises and falls from tick to tick cancel out
        ConditionSpan::Step => 1.0,
        ConditionSpan::Norm | ConditionSpan::RunsOut => return None,
        _ => mean,
    };
    let limit = match &condition.limit {
        RuleLimit::Number(number) => *number,
        RuleLimit::EachDisk { each_disk } => each_disk * state.disks(),
        RuleLimit::Counter { times, .. } => tracks[state.limit_track?].mean()? * times,
    };
    Some(ConditionValue { value, limit })
}

/// Means of a condition's quantity and limit over the ticks at which the rule held.
fn held_value(observed: &Observation, condition: &Condition, state: &ConditionState) -> Option<ConditionValue> {
    if condition.is_window_value() {
        return whole_window_value(observed, condition, state);
    }
    let value = if state.adds_up { state.value.weighted_sum() } else { state.value.mean()? };
    let limit = match &condition.limit {
        RuleLimit::Number(number) => *number,
        RuleLimit::EachDisk { each_disk } => each_disk * state.disks(),
        RuleLimit::Counter { times, .. } => state.limit.mean()? * times,
    };
    Some(ConditionValue { value, limit })
}

/// Value and limit of a condition on the whole window.
fn whole_window_value(observed: &Observation, condition: &Condition, state: &ConditionState) -> Option<ConditionValue> {
    let RuleLimit::Number(limit) = condition.limit else { return None };
    let value = match condition.over {
        ConditionSpan::Steadiness => state.spread.coefficient_of_variation()?,
        ConditionSpan::Trend => state.spread.relative_slope_per_day()?,
        _ => {
            let [first, times, over, per] = &**state.operands.as_ref()?;
            let operand_value = |operand: &OperandState| match operand {
                OperandState::Number(number) => Some(*number),
                OperandState::Mean(sums) => sums.mean(),
                OperandState::Statistic(index) => observed.states.statistics[*index].value(),
            };
            operand_value(first)? * operand_value(times)? / operand_value(over)? / operand_value(per)?
        }
    };
    value.is_finite().then_some(ConditionValue { value, limit })
}

/// Position of the condition that a finding reports: the first that is compared at each tick; for a rule of `any` only,
/// the one that held longest.
pub(crate) fn leading_condition(rule: &Rule, progress: &RuleProgress) -> usize {
    let in_all = rule.all.iter().position(|c| !c.is_window_value());
    let held_longest = || {
        let any = rule.all.len()..rule.all.len() + rule.any.len();
        // `max_by_key` returns the last of equals; reversed, that is the first
        any.rev().max_by_key(|index| progress.conditions[*index].held_ns)
    };
    in_all.or_else(held_longest).unwrap_or(0)
}

/// Builds the finding of an outcome that holds. `None` where a number is unknown, which does not happen for a rule that
/// held.
pub(crate) fn build_finding(observed: &Observation, outcome: &RuleOutcome<'_>) -> Option<Finding> {
    let (rule, progress) = (outcome.rule, outcome.progress);
    let index = leading_condition(rule, progress);
    let condition = rule.conditions().nth(index)?;
    let state = &progress.conditions[index];
    let ConditionValue { value, limit } = held_value(observed, condition, state)?;
    let evidence = collect_evidence(observed, rule, progress);
    Some(Finding {
        rule: rule.id.clone(),
        title: rule.title.clone(),
        bottleneck: rule.bottleneck,
        severity: rule.severity,
        weight: rule.weight,
        object: rule.object.clone(),
        instance: progress.instance.clone(),
        counter: condition.quantity.counter.id.clone(),
        quantity: condition.quantity_text(),
        value,
        compare: condition.compare.name(),
        limit,
        unit: condition.unit(),
        limit_disks: state.disks.filter(|disks| *disks > 1.0),
        limit_from: measured_limit_text(observed, rule, &progress.instance, &evidence)
            .or_else(|| volume_limit_text(observed, rule, &progress.instance)),
        share: outcome.share?,
        value_share: value_share(outcome, state),
        judged_s: outcome.judged_s,
        since: outcome.since_ns.map(format_rfc3339),
        mean: window_value(observed, condition, state).map(|m| round_mean(m.value)),
        seconds: progress.held_ns as f64 / 1e9,
        times: progress.runs,
        stretches: progress.stretches.intervals().iter().map(|(from, to)| hold_interval(*from, *to)).collect(),
        longest_from: format_rfc3339(progress.longest_span.0),
        longest_s: progress.longest_ns as f64 / 1e9,
        from: format_rfc3339(progress.first_ns),
        to: format_rfc3339(progress.last_ns),
        explain: rule.explain_for(observed.notes.source).to_owned(),
        source: rule.source.clone(),
        evidence,
        advice: rule.advice.clone(),
        series: state.track.map_or_else(Vec::new, |track| observed.states.tracks[track].part_means()),
    })
}

/// Share of the judged time in which both the rule and its leading condition held; `None` if it is not less than the
/// share of the rule. It is less if a rule has alternatives, because each alternative holds at its own times. For a
/// finding since a moment within the window, the ratio of the two shares is assumed to be that of the whole window.
fn value_share(outcome: &RuleOutcome<'_>, state: &ConditionState) -> Option<f64> {
    let rule_ns = outcome.progress.held_ns;
    // a condition on the whole window does not hold at single times
    let is_part = state.held_ns > 0 && state.held_ns < rule_ns;
    is_part.then(|| outcome.share.unwrap_or(0.0) * state.held_ns as f64 / rule_ns as f64)
}

/// Rounds off the last bits of a mean over the window: it is summed part by part, so they depend on how a log is cut
/// into frames.
fn round_mean(value: f64) -> f64 {
    format!("{value:.10e}").parse().unwrap_or(value)
}

fn hold_interval(from_ns: i64, to_ns: i64) -> HoldInterval {
    HoldInterval { from: format_rfc3339(from_ns), to: format_rfc3339(to_ns) }
}

fn collect_evidence(observed: &Observation, rule: &Rule, progress: &RuleProgress) -> Vec<Evidence> {
    let mean_and_max = |state: &EvidenceState| match state {
        EvidenceState::Mean(sums, max_value) => {
            (sums.mean(), Some(*max_value).filter(|max_value| max_value.is_finite()))
        }
        EvidenceState::Statistic(index) => (observed.states.statistics[*index].value(), None),
    };
    let evidence = |(name, state): (&RuleCounter, &EvidenceState)| {
        let (value, max) = mean_and_max(state);
        Evidence { counter: name.id.clone(), value, max, unit: name.unit.clone() }
    };
    rule.evidence.iter().zip(&progress.evidence).map(evidence).collect()
}

//! Texts of an alert: the verdict's sentence, culprits and next step where the verdict blames the same bottleneck, else
//! those of the rule.

use diskwright_base::Tick;
use diskwright_base::timestamp::format_rfc3339;
use diskwright_base::units::format_value;
use diskwright_diagnosis::pseudo_counters::Pseudo;
use diskwright_diagnosis::recording_hints::LogOrigin;
use diskwright_diagnosis::verdict::VerdictBottleneck;
use diskwright_diagnosis::{Bottleneck, Pack, Rule, Verdict};

use super::alert::{Alert, AlertPeak, SCHEMA};
use super::engine::AlertChange;
use super::hold_tracker::HoldTracker;

/// Keys of a verdict's bottlenecks, such as `disk:sda`, each with its confidence.
pub(crate) fn verdict_keys(verdict: &Verdict) -> Vec<(String, f64)> {
    verdict.bottlenecks.iter().map(|listed| (bottleneck_key(listed), listed.confidence)).collect()
}

fn bottleneck_key(listed: &VerdictBottleneck) -> String {
    format!("{}:{}", listed.bottleneck.name(), listed.instance)
}

/// Bottleneck and instance that an alert of a rule points at: those of the verdict, for a rule on it. `key` is that of
/// the rule's tracker.
pub(crate) fn alert_target(rule: &Rule, key: &str, verdict: Option<&Verdict>) -> (Bottleneck, String) {
    match verdict.and_then(|verdict| find_bottleneck(verdict, key)) {
        Some(listed) if reads_verdict(rule) => (listed.bottleneck, listed.instance.clone()),
        _ => (rule.bottleneck, key.to_owned()),
    }
}

/// The bottleneck of a key.
fn find_bottleneck<'v>(verdict: &'v Verdict, key: &str) -> Option<&'v VerdictBottleneck> {
    verdict.bottlenecks.iter().find(|listed| bottleneck_key(listed) == key)
}

fn reads_verdict(rule: &Rule) -> bool {
    rule.conditions().any(|condition| condition.quantity.counter.pseudo == Some(Pseudo::VerdictConfidence))
}

/// Finds the entry of a verdict about this bottleneck and instance. The whole machine is related to each of its
/// instances.
pub(crate) fn find_listed<'v>(
    verdict: &'v Verdict,
    (bottleneck, instance): (Bottleneck, &str),
) -> Option<&'v VerdictBottleneck> {
    let has_same_target = |listed: &&VerdictBottleneck| {
        let is_related = listed.instance == instance || listed.instance.is_empty() || instance.is_empty();
        listed.bottleneck == bottleneck && bottleneck.blames() && is_related
    };
    verdict.bottlenecks.iter().find(has_same_target)
}

/// Builds the alert that a rule raises on a bottleneck and instance; see [`alert_target`].
pub(crate) fn build_alert(
    pack: &Pack,
    rule: &Rule,
    ((bottleneck, instance), tracker): ((Bottleneck, String), &HoldTracker),
    verdict: Option<&Verdict>,
    now_ns: i64,
) -> Alert {
    let begin_ns = tracker.holds_since.unwrap_or(now_ns);
    let listed = verdict.and_then(|verdict| find_listed(verdict, (bottleneck, &instance)));
    let peak = rule_peak(rule, tracker, now_ns);
    let next_step = next_step((pack, rule), verdict, (bottleneck, &instance)).unwrap_or_default();
    Alert {
        schema: SCHEMA.to_owned(),
        id: rule.id.clone(),
        severity: rule.severity,
        bottleneck,
        begin: format_rfc3339(begin_ns),
        end: None,
        begin_ns,
        end_ns: None,
        raised_ns: now_ns,
        sentence: listed.map_or_else(|| rule_sentence(rule, &instance, &peak), |listed| listed.sentence.clone()),
        also: Vec::new(),
        alternated: Vec::new(),
        culprits: listed.map(|listed| listed.culprits.clone()).unwrap_or_default(),
        next_step,
        instance,
        peak,
    }
}

/// Adds another rule of the same cause to an alert; returns the change, or `None` where the alert already had the rule.
/// A more severe rule replaces the alert's sentence, peak and next step. The next step is the first remedy of the
/// verdict's entry, or if there is none, of the rule.
pub(crate) fn join_alert(
    alert: &mut Alert,
    (pack, rule): (&Pack, &Rule),
    (instance, tracker): (&str, &HoldTracker),
    (verdict, bottleneck): (Option<&Verdict>, Bottleneck),
    now_ns: i64,
) -> Option<AlertChange> {
    let is_new = alert.id != rule.id && !alert.also.contains(&rule.id);
    if is_new {
        alert.also.push(rule.id.clone());
    }
    if rule.severity <= alert.severity {
        return is_new.then_some(AlertChange::Also);
    }
    alert.severity = rule.severity;
    alert.peak = rule_peak(rule, tracker, now_ns);
    alert.sentence = rule_sentence(rule, instance, &alert.peak);
    if let Some(next_step) = next_step((pack, rule), verdict, (bottleneck, instance)) {
        alert.next_step = next_step;
    }
    Some(AlertChange::Worse)
}

/// Replaces the texts of an alert on pressure by those of the alert about its cause; id, instance and times stay.
pub(crate) fn take_over_cause(alert: &mut Alert, known: Alert) {
    alert.also.push(known.id);
    alert.severity = alert.severity.max(known.severity);
    alert.bottleneck = known.bottleneck;
    alert.sentence = known.sentence;
    alert.culprits = known.culprits;
    alert.next_step = known.next_step;
}

/// The first remedy of the verdict's entry on a target, or else the first that the rule names, in the words of the
/// system that the log is of.
fn next_step((pack, rule): (&Pack, &Rule), verdict: Option<&Verdict>, target: (Bottleneck, &str)) -> Option<String> {
    let listed = verdict.and_then(|verdict| find_listed(verdict, target));
    if let Some(advice) = listed.and_then(|listed| listed.advice.first()) {
        return Some(advice.sentence());
    }
    let source = verdict.map_or(LogOrigin::Live, |verdict| verdict.missing.source);
    let advice = pack.advice.iter().find(|advice| rule.advice.first() == Some(&advice.id))?;
    advice.for_system(source).map(|advice| advice.sentence())
}

/// Sentence of a rule that no verdict explains: `sda: it stalls (physical_disk.stalled 100 %, limit 50 %)`.
fn rule_sentence(rule: &Rule, instance: &str, peak: &AlertPeak) -> String {
    let subject = if instance.is_empty() { String::new() } else { format!("{instance}: ") };
    let value = peak.value.map_or_else(|| "not measured".to_owned(), |value| format_value(value, peak.display_unit()));
    let limit =
        peak.limit.map_or_else(String::new, |limit| format!(", limit {}", format_value(limit, peak.display_unit())));
    format!("{subject}{} ({} {value}{limit})", rule.title, peak.quantity)
}

/// The worst value since the rule holds, or else the newest one.
fn rule_peak(rule: &Rule, tracker: &HoldTracker, now_ns: i64) -> AlertPeak {
    let newest = || tracker.lead.map_or((0, f64::NAN, now_ns), |(position, value)| (position, value, now_ns));
    let (position, value, time_ns) = tracker.worst.unwrap_or_else(newest);
    let parts = rule.conditions().nth(position).map(diskwright_diagnosis::rule::Condition::display_parts);
    let (quantity, limit, unit) = parts.unwrap_or_default();
    AlertPeak { quantity, value: value.is_finite().then_some(value), limit, unit, time: format_rfc3339(time_ns) }
}

/// Updates the alert's worst value with the rule's newest one.
pub(crate) fn update_peak(alert: &mut Alert, rule: &Rule, tracker: &HoldTracker, last: Option<Tick>) {
    let Some((position, value)) = tracker.lead.filter(|(_, value)| value.is_finite()) else { return };
    let Some(condition) = rule.conditions().nth(position) else { return };
    // another condition of the rule may lead now; its value is of another quantity
    if condition.display_parts().0 != alert.peak.quantity {
        return;
    }
    let is_worse = |known: f64| if condition.compare.is_upper() { value > known } else { value < known };
    if alert.peak.value.is_none_or(is_worse)
        && let Some(tick) = last
    {
        alert.peak.value = Some(value);
        alert.peak.time = format_rfc3339(tick.time_ns);
    }
}

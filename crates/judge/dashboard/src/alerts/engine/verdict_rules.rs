//! Rules on the verdict: each bottleneck that lasts by itself, and several that alternate.

use diskwright_base::Tick;
use diskwright_diagnosis::pseudo_counters::Pseudo;
use diskwright_diagnosis::{Bottleneck, Rule, RuleTick, Verdict};

use super::super::alert::{Alert, AlternatedBottleneck};
use super::super::hold_tracker::HoldTracker;
use super::super::{alert_text, blame_history};
use super::{AlertEngine, FORGET_AFTER_TICKS, reads_pseudo, rule_holds};

/// True for rules on the verdict.
pub(super) fn reads_verdict(rule: &Rule) -> bool {
    reads_pseudo(rule, Pseudo::VerdictConfidence) || alternates(rule)
}

/// True for rules on whatever the verdicts blame.
pub(super) fn alternates(rule: &Rule) -> bool {
    reads_pseudo(rule, Pseudo::AnyVerdictConfidence)
}

impl AlertEngine {
    /// Judges the rules whose first condition is on the verdict: with one tracker for each bottleneck and device, or
    /// with one for whatever is blamed.
    pub(super) fn judge_verdict_rules(&mut self, tick: &Tick) {
        let verdict_rules: Vec<usize> =
            (0..self.rules.len()).filter(|rule| reads_verdict(&self.rules[*rule])).collect();
        let waits: Vec<Option<bool>> = verdict_rules.iter().map(|rule| self.read_waits(*rule, tick)).collect();
        // verdicts are most of the engine's cost, so no verdict is made that no rule would use
        let is_wanted = waits.iter().any(|waits| *waits != Some(false));
        if is_wanted {
            let interval_ns = i64::try_from(tick.elapsed_ns).unwrap_or(i64::MAX);
            if self.verdicts.judge_if_due(&self.recent, tick.time_ns, interval_ns) {
                self.blames.add_verdict(tick.time_ns, self.verdicts.verdict.as_ref());
            }
        }
        for (index, waits) in verdict_rules.into_iter().zip(waits) {
            let verdict = self.verdicts.verdict.as_ref().filter(|_| is_wanted);
            let blamed = verdict.filter(|verdict| verdict.bottleneck.blames());
            // an inefficient pattern of requests is an alert only where tasks are known to wait
            let is_pattern = blamed.is_some_and(|verdict| verdict.bottleneck == Bottleneck::Application);
            let counts = waits.unwrap_or(!is_pattern);
            let values = if alternates(&self.rules[index]) {
                vec![(String::new(), self.blames.highest_confidence(tick.time_ns))]
            } else {
                // each bottleneck is followed by itself, so that two that take turns at the top both last
                blamed.map_or_else(Vec::new, alert_text::verdict_keys)
            };
            self.track_verdict_rule(index, tick, &values, counts);
            self.forget_blamed(index, tick);
        }
    }

    /// Feeds the trackers of a rule on the verdict, and of its clearing condition; a key that is not among the values
    /// has the value 0, and so have all where nobody waits.
    fn track_verdict_rule(&mut self, index: usize, tick: &Tick, values: &[(String, f64)], counts: bool) {
        for rule_index in [Some(index), self.clear_rules[index]].into_iter().flatten() {
            for (key, _) in values {
                self.trackers[rule_index].entry(key.clone()).or_default();
            }
            let rule = &self.monitor.pack().rules[rule_index];
            for (instance, tracker) in &mut self.trackers[rule_index] {
                let known = values.iter().find(|(key, _)| counts && key == instance);
                let value = known.map_or(0.0, |(_, confidence)| *confidence);
                let holds = Some(rule_holds(rule, value));
                let rule_tick = RuleTick { rule: rule_index, instance, holds, lead: Some((0, value)) };
                tracker.add_tick(tick, rule_tick, self.tick_number);
            }
        }
    }

    /// True where tasks wait as a rule's other conditions ask: now, or at half of the ticks that the verdict is on, so
    /// that a lull of a second ends nothing. `None` where the log lacks the counters of all these conditions.
    fn read_waits(&mut self, rule: usize, tick: &Tick) -> Option<bool> {
        let tracker = self.trackers[self.companion_rules[rule]?].get("")?;
        let waits = tracker.holds_since.is_some();
        let meter = self.waits.entry(rule).or_default();
        Some(meter.add_tick(tick, waits))
    }

    /// What alternated while a rule held; empty where it was one bottleneck that lasted.
    pub(super) fn find_alternated(&self, rule: &Rule, tracker: &HoldTracker) -> Vec<AlternatedBottleneck> {
        let since_ns = tracker.holds_since.filter(|_| alternates(rule));
        since_ns.map_or_else(Vec::new, |since_ns| self.blames.find_alternated(since_ns))
    }

    /// Drops trackers of devices that no verdict has blamed for long: cgroups and volumes come and go for weeks.
    fn forget_blamed(&mut self, index: usize, tick: &Tick) {
        let after_ns =
            i64::try_from(tick.elapsed_ns).unwrap_or(i64::MAX).saturating_mul(FORGET_AFTER_TICKS.cast_signed());
        let is_open = |instance: &str| {
            self.open.iter().any(|open| open.members.iter().any(|(rule, known)| *rule == index && known == instance))
        };
        let is_old = |(instance, tracker): &(&String, &HoldTracker)| {
            tracker.failed_for(after_ns, tick.time_ns) && !is_open(instance)
        };
        let old: Vec<String> = self.trackers[index].iter().filter(is_old).map(|(key, _)| key.clone()).collect();
        for instance in old {
            self.trackers[index].remove(&instance);
            self.clear_rules[index].and_then(|clear| self.trackers[clear].remove(&instance));
        }
    }
}

/// Makes the alert of a rule one about all that alternated, with the culprits of all.
pub(super) fn describe_alternation(
    alert: &mut Alert,
    alternated: Vec<AlternatedBottleneck>,
    verdict: Option<&Verdict>,
    now_ns: i64,
) {
    let seconds = now_ns.saturating_sub(alert.begin_ns) as f64 * 1e-9;
    alert.sentence = blame_history::alternation_sentence(&alternated, seconds);
    alert.alternated = alternated;
    let Some(verdict) = verdict else { return };
    alert.culprits.clone_from(&verdict.culprits);
    if let Some(advice) = verdict.advice.first() {
        alert.next_step = advice.sentence();
    }
}

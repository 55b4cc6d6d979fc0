//! Rules on pressure: they show that tasks wait, not why. If the verdict or an open alert names the cause, the pressure
//! raises an alert about that cause, with its remedy.

use diskwright_diagnosis::{Bottleneck, Rule};

use super::super::alert_text;
use super::{AlertChange, AlertEngine, AlertEvent};

/// True for rules on the pressure of the machine.
pub(super) fn reads_pressure(rule: &Rule) -> bool {
    rule.all.first().is_some_and(|condition| condition.quantity.counter.object == "pressure")
}

/// Bottlenecks that can cause the pressure of a rule. Nothing else causes memory pressure, and busy processors make no
/// task wait for a disk.
fn possible_causes(rule: &Rule) -> &'static [Bottleneck] {
    match rule.bottleneck {
        _ if !reads_pressure(rule) => &[],
        Bottleneck::Disk => &[
            Bottleneck::Memory,
            Bottleneck::Throttle,
            Bottleneck::Controller,
            Bottleneck::Channel,
            Bottleneck::Network,
            Bottleneck::Application,
        ],
        Bottleneck::Cpu => &[Bottleneck::Interrupts, Bottleneck::Throttle],
        _ => &[],
    }
}

impl AlertEngine {
    /// Bottleneck and instance that an alert of a rule points at.
    pub(super) fn find_target(&self, rule: &Rule, key: &str) -> (Bottleneck, String) {
        match self.find_cause_of_pressure(rule) {
            // the whole machine waits
            Some(cause) => (cause, String::new()),
            None => alert_text::alert_target(rule, key, self.verdicts.verdict.as_ref()),
        }
    }

    /// The bottleneck that causes a pressure: one that the verdict blames, else one that an open alert blames. `None`
    /// if the verdict or an alert blames the rule's own bottleneck.
    fn find_cause_of_pressure(&self, rule: &Rule) -> Option<Bottleneck> {
        let causes = possible_causes(rule);
        if causes.is_empty() || self.blames_now(rule.bottleneck) {
            return None;
        }
        let blamed = self.verdicts.verdict.iter().flat_map(|verdict| &verdict.bottlenecks).map(|one| one.bottleneck);
        let of_alerts = self.open.iter().map(|open| open.alert.bottleneck);
        blamed.chain(of_alerts).find(|bottleneck| causes.contains(bottleneck))
    }

    /// True if the last verdict blames a bottleneck, or if an open alert does and its cause is proved.
    fn blames_now(&self, bottleneck: Bottleneck) -> bool {
        let verdict = self.verdicts.verdict.as_ref();
        let is_listed =
            verdict.is_some_and(|verdict| verdict.bottlenecks.iter().any(|one| one.bottleneck == bottleneck));
        let is_open = self.open.iter().any(|open| {
            let is_proved = open.members.iter().any(|(rule, _)| !reads_pressure(&self.rules[*rule]));
            is_proved && open.alert.bottleneck == bottleneck
        });
        is_listed || is_open
    }

    /// If a rule names the cause of a pressure that already has an open alert, names the cause in that alert instead of
    /// raising a second one. `None` if there is no such alert.
    pub(super) fn explain_pressure(&mut self, index: usize, key: &str, now_ns: i64) -> Option<AlertEvent> {
        let rule = &self.rules[index];
        let (bottleneck, instance) = alert_text::alert_target(rule, key, self.verdicts.verdict.as_ref());
        let verdict = self.verdicts.verdict.as_ref();
        let is_listed = verdict.is_some_and(|known| alert_text::find_listed(known, (bottleneck, &instance)).is_some());
        if !is_listed && !reads_pressure(rule) {
            return None;
        }
        let position = self.open.iter().position(|open| {
            let is_explained = |(member, _): &(usize, String)| {
                let pressure = &self.rules[*member];
                possible_causes(pressure).contains(&bottleneck) && !self.blames_now(pressure.bottleneck)
            };
            open.members.iter().all(is_explained)
        })?;
        let tracker = self.trackers[index].get(key)?;
        let known =
            alert_text::build_alert(self.monitor.pack(), rule, ((bottleneck, instance), tracker), verdict, now_ns);
        let open = &mut self.open[position];
        open.causes.push(bottleneck.name().to_owned());
        // the peak stays that of the pressure, whose rule comes first
        open.members.push((index, key.to_owned()));
        alert_text::take_over_cause(&mut open.alert, known);
        Some(AlertEvent { change: AlertChange::Worse, alert: open.alert.clone(), time_ns: now_ns })
    }
}

//! An alert that lasts, and the rules that share it.

use diskwright_diagnosis::{Bottleneck, Pack, Rule, Verdict};

use super::super::alert::{Alert, AlternatedBottleneck};
use super::super::alert_text;
use super::super::hold_tracker::HoldTracker;
use super::{AlertChange, AlertEvent};

/// An alert that lasts.
pub(super) struct OpenAlert {
    pub alert: Alert,
    /// The names of its bottlenecks, or the rule's id where it blames none; rules of the same cause share the alert.
    pub causes: Vec<String>,
    /// Rules, by position, and the instances at which they hold.
    pub members: Vec<(usize, String)>,
    /// Time at which the alert was last written to the log, nanoseconds since 1970 UTC.
    pub stated_ns: i64,
}

/// Where the texts of alerts come from.
pub(super) struct RuleTexts<'a> {
    /// The monitor's pack, which begins with the alerts.
    pub pack: &'a Pack,
    pub verdict: Option<&'a Verdict>,
    pub now_ns: i64,
}

impl OpenAlert {
    /// Adds a rule of the same cause, at the key of its tracker; returns the change, if there is any.
    pub fn join_rule(
        &mut self,
        texts: &RuleTexts<'_>,
        (index, key): (usize, String),
        (bottleneck, instance): (Bottleneck, String),
        tracker: &HoldTracker,
    ) -> Option<AlertEvent> {
        let blamed = (texts.verdict, bottleneck);
        let rule = (texts.pack, &texts.pack.rules[index]);
        let change = alert_text::join_alert(&mut self.alert, rule, (&instance, tracker), blamed, texts.now_ns);
        // the most severe rule comes first: its worst value is the alert's peak
        let position = if change == Some(AlertChange::Worse) { 0 } else { self.members.len() };
        self.members.insert(position, (index, key));
        change.map(|change| AlertEvent { change, alert: self.alert.clone(), time_ns: texts.now_ns })
    }
}

/// The causes of an alert: the names of its bottlenecks, or the rule's id where it blames none.
pub(super) fn name_causes(rule: &Rule, bottleneck: Bottleneck, alternated: &[AlternatedBottleneck]) -> Vec<String> {
    match alternated {
        [] if bottleneck.blames() => vec![bottleneck.name().to_owned()],
        [] => vec![rule.id.clone()],
        list => list.iter().map(|one| one.bottleneck.name().to_owned()).collect(),
    }
}

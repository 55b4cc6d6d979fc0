//! Alerts about events: which of them came with a tick, and the words of the newest one.

use diskwright_base::{EventKind, Note};
use diskwright_diagnosis::pseudo_counters::Pseudo;
use diskwright_diagnosis::{Rule, Verdict};

use super::alert::Alert;

/// Time by which an event may come before the tick at which its alert began, nanoseconds: a recorder may be late.
const MARGIN_NS: i64 = 3_000_000_000;

/// Kinds of the events that notes told since the last tick.
#[derive(Default)]
pub(crate) struct TickEvents(Vec<EventKind>);

impl TickEvents {
    /// Adds a note, if it is one of an event.
    pub fn add_note(&mut self, note: &Note) {
        if note.kind == Note::EVENT {
            self.0.extend(note.read_event().map(|event| event.kind));
        }
    }

    /// Number of events of a rule's kind; `None` for a rule that is not about notes of events.
    pub fn count_for(&self, rule: &Rule) -> Option<f64> {
        let reads_events = rule.all.first().is_some_and(|c| c.quantity.counter.pseudo == Some(Pseudo::Events));
        let kind = rule.alert.as_ref().filter(|_| reads_events)?.event?;
        Some(self.0.iter().filter(|known| **known == kind).count() as f64)
    }

    /// Forgets the events after their tick.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

/// Says in an alert what the newest event of its rule's kind was: who was killed, in which group, at which limit.
pub(crate) fn tell_event(alert: &mut Alert, rule: &Rule, verdict: Option<&Verdict>) {
    let Some(kind) = rule.alert.as_ref().and_then(|terms| terms.event) else { return };
    let is_of_alert = |time_ns: i64| time_ns >= alert.begin_ns.saturating_sub(MARGIN_NS);
    let mut events = verdict.into_iter().flat_map(|verdict| verdict.events.iter().rev());
    if let Some(event) = events.find(|event| event.kind == kind && event.time_ns.is_none_or(is_of_alert)) {
        alert.sentence.clone_from(&event.sentence);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use diskwright_base::{Frame, HostEvent, Schema, Series, Tick};
    use diskwright_diagnosis::packs;

    use super::*;
    use crate::alerts::{AlertChange, AlertEngine, rules};

    const SECOND: i64 = 1_000_000_000;

    /// Sentences of the alerts that begin, by id, where a note of an event comes at the twentieth second.
    fn alerts_of(event: Option<HostEvent>, kills: f64) -> Vec<(String, String)> {
        let judging = packs::builtin_pack("default").expect("our pack").expect("is right");
        let mut engine = AlertEngine::new(rules::builtin_alerts(), judging, Vec::new());
        let series = Series { counter: "paging.oom_kills".into(), instance: String::new(), scale: 1.0 };
        let schema = Arc::new(Schema::new(vec![series]));
        let mut found = Vec::new();
        for second in 1_001..1_040 {
            let time_ns = second * SECOND;
            let is_moment = second == 1_020;
            if let Some(event) = event.as_ref().filter(|_| is_moment) {
                engine.add_note(&Note::event(time_ns, &HostEvent { time_ns: Some(time_ns), ..event.clone() }));
            }
            let mut frame = Frame::new(schema.clone(), 1);
            frame.push(Tick { time_ns, elapsed_ns: SECOND as u64 }, &[if is_moment { kills } else { 0.0 }]);
            let begun = engine.add_tick(&frame, 0).into_iter().filter(|event| event.change == AlertChange::Begin);
            found.extend(begun.map(|event| (event.alert.id, event.alert.sentence)));
        }
        found
    }

    #[test]
    fn an_alert_says_who_was_killed_and_in_which_group() {
        let event = HostEvent {
            victim: Some("web".into()),
            pid: Some(71),
            group: Some("/app".into()),
            limit_bytes: Some(8 << 20),
            ..HostEvent::new(EventKind::OomKill, "Killed process 71 (web)")
        };
        let [(id, sentence)] = alerts_of(Some(event), 1.0).try_into().unwrap();
        assert_eq!(id, "memory.killed");
        assert!(sentence.contains("web (71) in /app") && sentence.contains("limit of 8"), "{sentence}");
        assert_eq!(alerts_of(None, 1.0).len(), 1, "counters alone");
        assert_eq!(alerts_of(None, 0.0), []);
    }

    #[test]
    fn filesystems_that_turn_read_only_and_disks_that_fail_are_alerts() {
        for (kind, id) in [(EventKind::ReadOnly, "filesystem.read-only"), (EventKind::DeviceFailed, "disk.failed")] {
            let event = HostEvent { victim: Some("sdg".into()), ..HostEvent::new(kind, "the kernel says so") };
            let [(found, sentence)] = alerts_of(Some(event), 0.0).try_into().unwrap();
            assert_eq!(found, id);
            assert!(sentence.contains("sdg"), "{sentence}");
        }
    }
}

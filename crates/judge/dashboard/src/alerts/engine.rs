//! Turns ticks into alerts. A rule that holds for its hold time raises one; rules of the same cause share it; it ends
//! when all of them have cleared, and then its cause is silenced for a while. All times are those of the ticks, so that
//! a log gives the same alerts as the live machine.

use std::collections::BTreeMap;

use diskwright_base::{Ceiling, Frame, Note, Tick};
use diskwright_diagnosis::pseudo_counters::Pseudo;
use diskwright_diagnosis::{Pack, Rule, RuleMonitor, RuleTick};

mod open_alert;
mod pressure_rules;
mod verdict_rules;

use open_alert::{OpenAlert, RuleTexts};

use super::alert::{Alert, RESTATE_INTERVAL_NS};
use super::alert_text;
use super::blame_history::{BlameHistory, WaitMeter};
use super::event_alerts::{TickEvents, tell_event};
use super::hold_tracker::HoldTracker;
use super::recent_verdict::RecentVerdict;
use super::silenced_cause::SilencedCause;
use crate::history::RecentHistory;

/// Largest number of alerts that are open at the same time.
const MAX_OPEN_ALERTS: usize = 32;
/// Number of ticks after which a vanished instance is dropped.
const FORGET_AFTER_TICKS: u64 = 600;
/// Number of usual intervals without a tick after which ticks are overdue.
const OVERDUE_INTERVALS: i64 = 3;
/// Largest memory of the ticks that verdicts need, bytes.
const MAX_RECENT_BYTES: usize = 64 << 20;

/// Change of an alert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlertChange {
    /// It was raised.
    Begin,
    /// A further rule of the same cause holds, which is not more severe; nobody is notified.
    Also,
    /// A more severe rule of the same cause holds, or the cause of a pressure became known; the alert takes over the
    /// severity and sentence of that rule or cause.
    Worse,
    /// It lasts; nobody is notified.
    Still,
    /// It has ended.
    End,
}

/// An alert when it is raised, while it lasts, and when it ends.
#[derive(Clone, Debug, PartialEq)]
pub struct AlertEvent {
    /// The change.
    pub change: AlertChange,
    /// The alert in its new state.
    pub alert: Alert,
    /// Time of the change, nanoseconds since 1970 UTC.
    pub time_ns: i64,
}

impl AlertChange {
    /// True where people are notified.
    pub fn notifies_people(self) -> bool {
        matches!(self, AlertChange::Begin | AlertChange::Worse | AlertChange::End)
    }

    /// True where a rule raised the alert or joined it.
    pub fn is_new(self) -> bool {
        matches!(self, AlertChange::Begin | AlertChange::Also | AlertChange::Worse)
    }
}

impl AlertEvent {
    /// The note for the log.
    pub fn to_log_note(&self) -> Note {
        self.alert.to_log_note(self.time_ns)
    }
}

/// Raises, updates and ends alerts.
pub struct AlertEngine {
    /// Judges the rules, followed by their companions and clearing conditions as further rules.
    monitor: RuleMonitor,
    /// The alerts; the monitor's pack begins with them.
    rules: Vec<Rule>,
    /// For each rule, the position of its clearing conditions in the monitor's pack.
    clear_rules: Vec<Option<usize>>,
    /// For each rule on the verdict, the position in the monitor's pack of a rule made of its other conditions (its
    /// companion).
    companion_rules: Vec<Option<usize>>,
    /// By position in the monitor's pack, then by instance.
    trackers: Vec<BTreeMap<String, HoldTracker>>,
    open: Vec<OpenAlert>,
    silenced: Vec<SilencedCause>,
    verdicts: RecentVerdict,
    /// What the last verdicts blamed.
    blames: BlameHistory,
    /// For each rule on the verdict, whether tasks waited lately.
    waits: BTreeMap<usize, WaitMeter>,
    recent: RecentHistory,
    tick_events: TickEvents,
    last: Option<Tick>,
    tick_number: u64,
    /// The clock was stepped, or the machine slept, since the last tick.
    clock_moved: bool,
    /// A note says that the recorder did not sample, although the next tick covers that time.
    gap_noted: bool,
    /// Time at which a recorder exited cleanly; a log's note of it may come before its ticks.
    ended_ns: Option<i64>,
    /// The recording should have no breaks.
    expects_ticks: bool,
}

impl AlertEngine {
    /// Creates an engine. `alerts` are its rules; the verdict by the pack `judging` names culprits and next steps.
    pub fn new(alerts: Pack, judging: Pack, ceilings: Vec<Ceiling>) -> AlertEngine {
        let rules = alerts.rules.clone();
        let mut watched = alerts;
        let (mut clear_rules, mut companion_rules) = (Vec::new(), Vec::new());
        for rule in &rules {
            let other_conditions =
                || Rule { id: format!("{}.companion", rule.id), all: rule.all[1..].to_vec(), ..rule.clone() };
            let companion =
                verdict_rules::reads_verdict(rule).then(other_conditions).filter(|rule| rule.conditions().count() > 0);
            companion_rules.push(companion.is_some().then_some(watched.rules.len()));
            watched.rules.extend(companion);
            let clear = rule.alert.as_ref().map(|terms| terms.clear.clone()).unwrap_or_default();
            clear_rules.push((!clear.is_empty()).then_some(watched.rules.len()));
            if !clear.is_empty() {
                let id = format!("{}.clear", rule.id);
                watched.rules.push(Rule { id, all: clear, any: Vec::new(), ..rule.clone() });
            }
        }
        assert!([clear_rules.len(), companion_rules.len()] == [rules.len(); 2], "an entry for each alert rule");
        let further = clear_rules.iter().chain(&companion_rules).flatten();
        assert!(further.copied().all(|index| (rules.len()..watched.rules.len()).contains(&index)), "after the alerts");
        AlertEngine {
            trackers: vec![BTreeMap::new(); watched.rules.len()],
            monitor: RuleMonitor::new(watched, ceilings.clone()),
            rules,
            clear_rules,
            companion_rules,
            open: Vec::new(),
            silenced: Vec::new(),
            verdicts: RecentVerdict::new(judging, ceilings),
            blames: BlameHistory::default(),
            waits: BTreeMap::new(),
            recent: RecentHistory::new(MAX_RECENT_BYTES),
            tick_events: TickEvents::default(),
            last: None,
            tick_number: 0,
            clock_moved: false,
            gap_noted: false,
            ended_ns: None,
            expects_ticks: true,
        }
    }

    /// Ignores pauses between ticks: another tool's log often has only occasional reports.
    pub fn expect_pauses(&mut self) {
        self.expects_ticks = false;
    }

    /// Notes that the recorder exited cleanly: until another one continues, no tick is missing.
    pub fn recorder_ended(&mut self) {
        self.ended_ns = self.last.map(|last| last.time_ns);
    }

    /// The alert rules, followed by their companions and clearing conditions.
    pub fn pack(&self) -> &Pack {
        self.monitor.pack()
    }

    /// The open alerts.
    pub fn open(&self) -> impl Iterator<Item = &Alert> {
        self.open.iter().map(|open| &open.alert)
    }

    /// Adds a note; notes come before the tick that they belong to.
    pub fn add_note(&mut self, note: &Note) {
        self.clock_moved |= note.kind == Note::CLOCK;
        self.gap_noted |= note.kind == Note::GAP;
        if note.kind == Note::END {
            self.ended_ns = Some(note.time_ns);
        }
        self.tick_events.add_note(note);
        self.monitor.add_note(note);
        self.recent.add_note(note.clone());
    }

    /// Adds every tick of a frame and calls `each` for every change.
    pub fn add_frame(&mut self, frame: &Frame, each: &mut dyn FnMut(AlertEvent)) {
        for index in 0..frame.ticks().len() {
            self.add_tick(frame, index).into_iter().for_each(&mut *each);
        }
    }

    /// Adds tick number `index` of a frame and returns the changes.
    pub fn add_tick(&mut self, frame: &Frame, index: usize) -> Vec<AlertEvent> {
        let tick = frame.ticks()[index];
        self.tick_number += 1;
        let mut events = Vec::new();
        self.check_arrival(&tick, &mut events);
        self.store_tick(frame, index, &tick);
        let AlertEngine { monitor, trackers, tick_number: number, clear_rules, .. } = self;
        monitor.judge_tick(frame, index, &mut |rule_tick: RuleTick<'_>| {
            let trackers = &mut trackers[rule_tick.rule];
            if !trackers.contains_key(rule_tick.instance) {
                trackers.insert(rule_tick.instance.to_owned(), HoldTracker::default());
            }
            let Some(tracker) = trackers.get_mut(rule_tick.instance) else { return };
            if clear_rules.contains(&Some(rule_tick.rule)) {
                tracker.add_clearing_tick(&tick, rule_tick, *number);
            } else {
                tracker.add_tick(&tick, rule_tick, *number);
            }
        });
        self.judge_verdict_rules(&tick);
        self.judge_event_rules(&tick);
        self.drop_vanished(&tick);
        self.last = Some(tick);
        self.update_alerts(tick.time_ns, &mut events);
        self.clock_moved = false;
        self.gap_noted = false;
        events
    }

    /// Checks for overdue ticks while no tick comes; returns the changes.
    pub fn check_clock(&mut self, now_ns: i64) -> Vec<AlertEvent> {
        let mut events = Vec::new();
        if let Some(last) = self.last {
            self.judge_overdue(last, now_ns);
            self.update_alerts(now_ns, &mut events);
        }
        events
    }

    /// Handles the arrival of a tick: a clock that was set back, overdue ticks, pauses.
    ///
    /// A tick covers the time since its start, so if it is late, ticks were overdue only until that start; if a gap was
    /// noted, until its end. Nothing was overdue if the clock moved or the machine was suspended.
    fn check_arrival(&mut self, tick: &Tick, events: &mut Vec<AlertEvent>) {
        let Some(last) = self.last else { return };
        let begin_ns = if self.gap_noted { tick.time_ns } else { tick.start_ns() };
        // logs round the times of ticks to microseconds, so the last tick may lie after the note
        let is_between = |ended_ns: i64| (last.start_ns()..=begin_ns.max(last.time_ns)).contains(&ended_ns);
        let has_ended = self.ended_ns.is_some_and(is_between);
        if tick.time_ns <= last.time_ns {
            self.trackers
                .iter_mut()
                .flat_map(BTreeMap::values_mut)
                .for_each(|tracker| tracker.set_back(tick.start_ns()));
            self.set_back(last.time_ns.saturating_sub(tick.start_ns()));
        } else if !self.clock_moved && !has_ended {
            self.judge_overdue(last, begin_ns);
            self.update_alerts(tick.time_ns, events);
        }
        let pause_ns = begin_ns.saturating_sub(last.time_ns);
        if pause_ns > 0 {
            self.trackers.iter_mut().flat_map(BTreeMap::values_mut).for_each(|tracker| tracker.add_pause(pause_ns));
        }
        for (trackers, _) in
            self.trackers.iter_mut().zip(&self.rules).filter(|(_, rule)| reads_pseudo(rule, Pseudo::TicksOverdue))
        {
            trackers.values_mut().for_each(|tracker| tracker.mark_failed(tick.time_ns));
        }
    }

    /// Moves the kept times of silences and notes after the clock was set back by `back_ns`.
    fn set_back(&mut self, back_ns: i64) {
        for silenced in &mut self.silenced {
            silenced.until_ns = silenced.until_ns.saturating_sub(back_ns);
        }
        for open in &mut self.open {
            open.stated_ns = open.stated_ns.saturating_sub(back_ns);
        }
        self.blames.clear();
        self.waits.clear();
    }

    /// Judges the rules on overdue ticks.
    fn judge_overdue(&mut self, last: Tick, now_ns: i64) {
        if !self.expects_ticks {
            return;
        }
        let usual_ns = i64::try_from(last.elapsed_ns).unwrap_or(i64::MAX).saturating_mul(OVERDUE_INTERVALS);
        let overdue_s = (now_ns - last.time_ns).saturating_sub(usual_ns).max(0) as f64 * 1e-9;
        for index in 0..self.rules.len() {
            if reads_pseudo(&self.rules[index], Pseudo::TicksOverdue) && rule_holds(&self.rules[index], overdue_s) {
                let tracker = self.trackers[index].entry(String::new()).or_default();
                tracker.last_tick_number = self.tick_number;
                tracker.mark_held((last.time_ns, now_ns), Some((0, overdue_s)));
            }
        }
    }

    /// Judges the rules on events.
    fn judge_event_rules(&mut self, tick: &Tick) {
        for (index, rule) in self.rules.iter().enumerate() {
            let Some(count) = self.tick_events.count_for(rule) else { continue };
            let (holds, lead) = (Some(rule_holds(rule, count)), Some((0, count)));
            let rule_tick = RuleTick { rule: index, instance: "", holds, lead };
            self.trackers[index].entry(String::new()).or_default().add_tick(tick, rule_tick, self.tick_number);
        }
        self.tick_events.clear();
    }

    /// Stores a tick for as long as verdicts need it.
    fn store_tick(&mut self, frame: &Frame, index: usize, tick: &Tick) {
        let row: Vec<f64> = (0..frame.schema().series.len()).map(|column| frame.column(column)[index]).collect();
        self.recent.push(frame.schema(), *tick, &row);
        let interval_ns = i64::try_from(tick.elapsed_ns).unwrap_or(i64::MAX);
        self.recent.forget_before(tick.time_ns.saturating_sub(RecentVerdict::needed_ns(interval_ns)));
    }

    /// Marks rules at vanished instances as not holding, and drops them after a while.
    fn drop_vanished(&mut self, tick: &Tick) {
        let number = self.tick_number;
        let is_open = |rule_index: usize, instance: &str| {
            self.open.iter().any(|open| open.members.iter().any(|(rule, i)| *rule == rule_index && i == instance))
        };
        for (rule, trackers) in self.trackers.iter_mut().enumerate() {
            trackers.retain(|instance, tracker| {
                number - tracker.last_tick_number < FORGET_AFTER_TICKS || is_open(rule, instance)
            });
            trackers
                .values_mut()
                .filter(|tracker| tracker.last_tick_number < number)
                .for_each(|tracker| tracker.mark_failed(tick.start_ns()));
        }
    }

    /// Raises, keeps and ends alerts by the state of the trackers.
    fn update_alerts(&mut self, now_ns: i64, events: &mut Vec<AlertEvent>) {
        self.silenced.retain(|silenced| silenced.until_ns > now_ns);
        for (rule, trackers) in self.rules.iter().zip(&mut self.trackers) {
            trackers.values_mut().for_each(|tracker| tracker.keep_worst(rule, now_ns));
        }
        for rule in 0..self.rules.len() {
            let hold_ns = self.rules[rule].alert.as_ref().map_or(0, |terms| seconds_to_ns(terms.hold_s));
            let is_due = |(_, tracker): &(&String, &HoldTracker)| tracker.held_for(hold_ns);
            let due: Vec<String> = self.trackers[rule].iter().filter(is_due).map(|(key, _)| key.clone()).collect();
            due.into_iter().for_each(|instance| self.raise_alert(rule, instance, now_ns, events));
        }
        self.update_peaks();
        let mut lasting = Vec::new();
        for mut open in std::mem::take(&mut self.open) {
            if let Some(end_ns) = self.find_end_ns(&open, now_ns) {
                open.alert.end_at(end_ns);
                self.silence_cause(&open, now_ns);
                events.push(AlertEvent { change: AlertChange::End, alert: open.alert, time_ns: now_ns });
                continue;
            }
            if now_ns - open.stated_ns >= RESTATE_INTERVAL_NS {
                open.stated_ns = now_ns;
                events.push(AlertEvent { change: AlertChange::Still, alert: open.alert.clone(), time_ns: now_ns });
            }
            lasting.push(open);
        }
        self.open = lasting;
    }

    /// Raises an alert, or adds the rule to the open alert of its cause. `key` is that of the rule's tracker: an
    /// instance or, for a rule on the verdict, the verdict's key.
    fn raise_alert(&mut self, index: usize, key: String, now_ns: i64, events: &mut Vec<AlertEvent>) {
        if self.open.iter().any(|open| open.members.iter().any(|(rule, i)| *rule == index && *i == key)) {
            return;
        }
        let rule = &self.rules[index];
        // pressure shows that tasks wait, and the verdict shows why
        if pressure_rules::reads_pressure(rule) {
            renew_verdict(&mut self.verdicts, &self.recent, rule, self.last, now_ns);
        }
        let alternated =
            self.trackers[index].get(&key).map(|tracker| self.find_alternated(rule, tracker)).unwrap_or_default();
        // one bottleneck that lasted is the alert of another rule
        if verdict_rules::alternates(rule) && alternated.is_empty() {
            return;
        }
        let (bottleneck, instance) = match alternated.first() {
            Some(most) => (most.bottleneck, String::new()),
            None => self.find_target(rule, &key),
        };
        let causes = open_alert::name_causes(rule, bottleneck, &alternated);
        let has_cause = |others: &[String]| causes.iter().any(|cause| others.contains(cause));
        // an alert on the whole machine is related to each of its instances
        let is_related = |other: &str| other == instance || other.is_empty() || instance.is_empty();
        // a rule that is set aside by an open alert's rule has the same cause
        let shared = self.open.iter_mut().find(|open| {
            (has_cause(&open.causes) || rule.none.contains(&open.alert.id)) && is_related(&open.alert.instance)
        });
        // what alternates with an open alert's bottleneck is told there already
        if shared.is_some() && verdict_rules::alternates(rule) {
            return;
        }
        if let Some(open) = shared {
            let tracker = self.trackers[index].get(&key).copied().unwrap_or_default();
            let texts = RuleTexts { pack: self.monitor.pack(), verdict: self.verdicts.verdict.as_ref(), now_ns };
            events.extend(open.join_rule(&texts, (index, key), (bottleneck, instance), &tracker));
            return;
        }
        if let Some(event) = self.explain_pressure(index, &key, now_ns) {
            events.push(event);
            return;
        }
        let rule = &self.rules[index];
        let is_silent = self.silenced.iter().any(|silenced| {
            has_cause(&silenced.causes) && is_related(&silenced.instance) && silenced.covers_rule(index, rule.severity)
        });
        if is_silent || self.open.len() >= MAX_OPEN_ALERTS {
            return;
        }
        let Some(tracker) = self.trackers[index].get(&key) else { return };
        renew_verdict(&mut self.verdicts, &self.recent, rule, self.last, now_ns);
        let verdict = self.verdicts.verdict.as_ref();
        let target = (bottleneck, instance);
        let mut alert = alert_text::build_alert(self.monitor.pack(), rule, (target, tracker), verdict, now_ns);
        if !alternated.is_empty() {
            verdict_rules::describe_alternation(&mut alert, alternated, verdict, now_ns);
        }
        tell_event(&mut alert, rule, verdict);
        events.push(AlertEvent { change: AlertChange::Begin, alert: alert.clone(), time_ns: now_ns });
        self.open.push(OpenAlert { alert, causes, members: vec![(index, key)], stated_ns: now_ns });
    }

    /// Updates the worst value of each open alert by its first rule, which is the most severe one.
    fn update_peaks(&mut self) {
        for open in &mut self.open {
            let Some((index, instance)) = open.members.first() else { continue };
            let Some(tracker) = self.trackers[*index].get(instance).filter(|tracker| tracker.holds_since.is_some())
            else {
                continue;
            };
            alert_text::update_peak(&mut open.alert, &self.rules[*index], tracker, self.last);
        }
    }

    /// Time at which the last rule of an alert cleared; `None` until all have been clear for their hold times.
    fn find_end_ns(&self, open: &OpenAlert, now_ns: i64) -> Option<i64> {
        let mut end_ns = open.alert.begin_ns;
        // no state is known after the last tick
        let known_until_ns = self.last.map_or(now_ns, |last| last.time_ns.min(now_ns));
        for (rule, instance) in &open.members {
            let clear_hold_ns = seconds_to_ns(self.rules[*rule].alert.as_ref()?.clear_hold_s);
            let cleared = match self.clear_rules[*rule] {
                Some(clear) => {
                    let tracker = self.trackers[clear].get(instance);
                    tracker.filter(|tracker| tracker.held_for(clear_hold_ns)).and_then(|tracker| tracker.holds_since)
                }
                None => None,
            };
            // a vanished device has no clearing condition any more
            let tracker = self.trackers[*rule].get(instance);
            let is_gone = tracker.is_none_or(|tracker| tracker.last_tick_number + 1 < self.tick_number);
            let fails_since = |tracker: &HoldTracker| {
                tracker.fails_since.filter(|_| tracker.failed_for(clear_hold_ns, known_until_ns))
            };
            let failed = tracker.map_or(Some(now_ns), fails_since);
            let since = if self.clear_rules[*rule].is_some() && !is_gone { cleared } else { failed };
            end_ns = end_ns.max(since?);
        }
        Some(end_ns)
    }

    /// Silences the cause of an alert that has ended, for the longest silence of its rules.
    fn silence_cause(&mut self, open: &OpenAlert, now_ns: i64) {
        let rule_silence_s =
            |(rule, _): &(usize, String)| self.rules[*rule].alert.as_ref().map_or(0.0, |terms| terms.silence_s);
        let silence_s = open.members.iter().map(rule_silence_s).fold(0.0, f64::max);
        if silence_s > 0.0 {
            self.silenced.push(SilencedCause {
                causes: open.causes.clone(),
                instance: open.alert.instance.clone(),
                rules: open.members.iter().map(|(rule, _)| *rule).collect(),
                severity: open.alert.severity,
                until_ns: now_ns + seconds_to_ns(silence_s),
            });
        }
    }
}

/// Judges again before an alert of a rule is told: at once for an event, and not at all for a rule on the verdict.
fn renew_verdict(verdicts: &mut RecentVerdict, recent: &RecentHistory, rule: &Rule, last: Option<Tick>, now_ns: i64) {
    let interval_ns = last.map_or(0, |tick| i64::try_from(tick.elapsed_ns).unwrap_or(i64::MAX));
    if rule.alert.as_ref().is_some_and(|terms| terms.event.is_some()) {
        verdicts.judge_now(recent, now_ns, interval_ns);
    } else if !verdict_rules::reads_verdict(rule) && !reads_pseudo(rule, Pseudo::TicksOverdue) {
        verdicts.judge_if_due(recent, now_ns, interval_ns);
    }
}

/// True where the rule's first condition is on this pseudo counter, which only the engine knows. By convention of
/// `rules/alerts.toml`, a condition on such a counter comes first.
fn reads_pseudo(rule: &Rule, pseudo: Pseudo) -> bool {
    rule.all.first().is_some_and(|condition| condition.quantity.counter.pseudo == Some(pseudo))
}

/// True where the first condition of a rule holds at this value.
fn rule_holds(rule: &Rule, value: f64) -> bool {
    let holds = |condition: &diskwright_diagnosis::rule::Condition| {
        condition.fixed_limit().is_some_and(|limit| condition.compare.holds(value, limit))
    };
    rule.all.first().is_some_and(holds)
}

fn seconds_to_ns(seconds: f64) -> i64 {
    (seconds * 1e9) as i64
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use diskwright_base::{LogPiece, Schema, Series};
    use diskwright_diagnosis::packs;

    use super::*;
    use crate::alerts::rules;
    use crate::history::History;

    #[test]
    fn forgets_devices_that_no_verdict_has_blamed_for_long() {
        let judging = packs::builtin_pack("default").expect("our pack").expect("is right");
        let mut engine = AlertEngine::new(rules::builtin_alerts(), judging, Vec::new());
        let of_verdict = |rule: &Rule| reads_pseudo(rule, Pseudo::VerdictConfidence);
        let index = engine.rules.iter().position(of_verdict).expect("a rule on the verdict");
        let clear = engine.clear_rules[index].expect("it has a clearing limit");
        for lanes in [index, clear] {
            engine.trackers[lanes].insert("disk:dm-7".to_owned(), HoldTracker::default());
        }
        let series = Series { counter: "pressure.io_some_s".into(), instance: String::new(), scale: 1.0 };
        let schema = Arc::new(Schema::new(vec![series]));
        for second in 1..=FORGET_AFTER_TICKS.cast_signed() + 1 {
            let mut frame = Frame::new(schema.clone(), 1);
            frame.push(Tick { time_ns: second * 1_000_000_000, elapsed_ns: 1_000_000_000 }, &[0.0]);
            engine.add_tick(&frame, 0);
        }
        assert!([index, clear].iter().all(|lanes| !engine.trackers[*lanes].contains_key("disk:dm-7")));
    }

    #[test]
    fn verdicts_know_the_topology_after_the_clock_was_set_back() {
        let judging = packs::builtin_pack("default").expect("our pack").expect("is right");
        let mut engine = AlertEngine::new(rules::builtin_alerts(), judging, Vec::new());
        let series = Series { counter: "pressure.io_some_s".into(), instance: String::new(), scale: 1.0 };
        let schema = Arc::new(Schema::new(vec![series]));
        engine.add_note(&Note::new(1_000_000_000_000, Note::TOPOLOGY, "{}"));
        for second in (1_001..1_050).chain(501..510) {
            let mut frame = Frame::new(schema.clone(), 1);
            frame.push(Tick { time_ns: second * 1_000_000_000, elapsed_ns: 1_000_000_000 }, &[0.0]);
            engine.add_tick(&frame, 0);
        }
        let mut found = Vec::new();
        let each = &mut |piece: LogPiece<'_>| match piece {
            LogPiece::Frame(frame) => found.push(format!("{} ticks", frame.ticks().len())),
            LogPiece::Note(note) => found.push(note.kind),
        };
        engine.recent.read(501_000_000_000, 509_000_000_000, each).expect("memory can be read");
        assert_eq!(found, [Note::TOPOLOGY, "9 ticks"]);
    }
}

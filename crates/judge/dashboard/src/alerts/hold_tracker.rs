//! Tracks for how long a rule has held at an instance, or has not.

use diskwright_base::Tick;
use diskwright_diagnosis::{Rule, RuleTick};

/// Times since which a rule holds at an instance, or does not.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct HoldTracker {
    /// Start of the first of the ticks at which it has held without a break; `None` while it does not hold.
    pub holds_since: Option<i64>,
    /// End of the last tick at which it held; unknown time after it does not count as hold time.
    pub held_until: i64,
    /// Start of the first of the ticks at which it has not held without a break; `None` while it holds.
    pub fails_since: Option<i64>,
    /// Time without ticks since then, which does not count, nanoseconds.
    pub paused_ns: i64,
    /// Position and value of the leading condition at the last tick at which the rule held.
    pub lead: Option<(usize, f64)>,
    /// The worst value since the rule holds, of the condition that led first: the condition's position, the value, and
    /// its time.
    pub worst: Option<(usize, f64, i64)>,
    /// Number of the last tick at which the instance existed.
    pub last_tick_number: u64,
}

impl HoldTracker {
    /// Adds a tick; one at which the rule could not be judged changes nothing.
    pub fn add_tick(&mut self, tick: &Tick, rule_tick: RuleTick<'_>, number: u64) {
        self.last_tick_number = number;
        match rule_tick.holds {
            Some(true) => self.mark_held((tick.start_ns(), tick.time_ns), rule_tick.lead),
            Some(false) => self.mark_failed(tick.start_ns()),
            None => {}
        }
        assert!(self.holds_since.is_none() || self.fails_since.is_none(), "a rule holds or does not: {self:?}");
    }

    /// Adds a tick of a clearing condition. The condition also holds where its quantity has no value because nothing
    /// happened (no reads, so no latency): requests that do not happen slow down nobody.
    pub fn add_clearing_tick(&mut self, tick: &Tick, rule_tick: RuleTick<'_>, number: u64) {
        let is_idle = rule_tick.holds == Some(false) && rule_tick.lead.is_none();
        self.add_tick(tick, if is_idle { RuleTick { holds: Some(true), ..rule_tick } } else { rule_tick }, number);
    }

    /// Records that it holds until `until_ns`: since `since_ns`, or since earlier where it already held.
    pub fn mark_held(&mut self, (since_ns, until_ns): (i64, i64), lead: Option<(usize, f64)>) {
        if self.holds_since.is_none() {
            (self.holds_since, self.paused_ns, self.worst) = (Some(since_ns), 0, None);
        }
        self.held_until = until_ns;
        self.fails_since = None;
        self.lead = lead;
    }

    /// Records that it does not hold: since `since_ns`, or since earlier where it already did not.
    pub fn mark_failed(&mut self, since_ns: i64) {
        if self.fails_since.is_none() {
            (self.fails_since, self.paused_ns) = (Some(since_ns), 0);
        }
        self.holds_since = None;
    }

    /// Adds a time without ticks, in which the state of the rule is unknown.
    pub fn add_pause(&mut self, pause_ns: i64) {
        self.paused_ns = self.paused_ns.saturating_add(pause_ns);
    }

    /// True where it held for at least `hold_ns` without a break.
    pub fn held_for(&self, hold_ns: i64) -> bool {
        self.holds_since.is_some_and(|since| self.held_until - since - self.paused_ns >= hold_ns)
    }

    /// True where it did not hold for at least `hold_ns` until `until_ns`, the end of a tick.
    pub fn failed_for(&self, hold_ns: i64, until_ns: i64) -> bool {
        self.fails_since.is_some_and(|since| until_ns - since - self.paused_ns >= hold_ns)
    }

    /// Keeps the worst value since the rule holds. The value of another condition than the first is ignored, because it
    /// is of another quantity.
    pub fn keep_worst(&mut self, rule: &Rule, time_ns: i64) {
        let lead = self.lead.filter(|(_, value)| self.holds_since.is_some() && value.is_finite());
        let Some((position, value)) = lead else { return };
        let Some(condition) = rule.conditions().nth(position) else { return };
        let is_worse = |known: f64| if condition.compare.is_upper() { value > known } else { value < known };
        if self.worst.is_none_or(|(first, known, _)| first == position && is_worse(known)) {
            self.worst = Some((position, value, time_ns));
        }
    }

    /// Moves later times to `time_ns` after the clock was set back.
    pub fn set_back(&mut self, time_ns: i64) {
        for since in [&mut self.holds_since, &mut self.fails_since].into_iter().flatten() {
            *since = (*since).min(time_ns);
        }
        self.held_until = self.held_until.min(time_ns);
        self.paused_ns = 0;
    }
}

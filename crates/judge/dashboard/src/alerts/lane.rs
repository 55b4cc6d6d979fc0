//! One rule at one instance, from tick to tick.

use diskwright_base::Tick;
use diskwright_diagnosis::{Rule, RuleTick};

/// Since when a rule holds at an instance, or does not.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct RuleLane {
    /// Start of the first tick at which it holds without a break.
    pub holds_since: Option<i64>,
    /// End of the last tick at which it held: time of which nothing is known after it proves nothing.
    pub held_until: i64,
    /// The same as `holds_since` of its not holding.
    pub fails_since: Option<i64>,
    /// Time without ticks since it holds, or does not: nothing was measured in it.
    pub paused_ns: i64,
    /// The leading condition's position and value at the last tick at which it held.
    pub lead: Option<(usize, f64)>,
    /// The worst value since it holds, of the condition that led first: its position, the value, and when.
    pub worst: Option<(usize, f64, i64)>,
    /// The number of the last tick at which the instance was there.
    pub seen: u64,
}

impl RuleLane {
    /// Takes in a tick. One that cannot tell changes nothing.
    pub fn tick(&mut self, tick: &Tick, told: RuleTick<'_>, number: u64) {
        self.seen = number;
        match told.holds {
            Some(true) => self.holds((tick.start_ns(), tick.time_ns), told.lead),
            Some(false) => self.fails(tick.start_ns()),
            None => {}
        }
        assert!(self.holds_since.is_none() || self.fails_since.is_none(), "a rule holds or does not: {self:?}");
    }

    /// Takes in a tick of a clearing condition. Where its quantity has no value, because nothing happened (no reads, no
    /// latency), it holds: nobody can be slowed by what does not happen.
    pub fn clearing_tick(&mut self, tick: &Tick, told: RuleTick<'_>, number: u64) {
        let is_idle = told.holds == Some(false) && told.lead.is_none();
        self.tick(tick, if is_idle { RuleTick { holds: Some(true), ..told } } else { told }, number);
    }

    /// It holds from one moment, or an earlier one, to another.
    pub fn holds(&mut self, (since_ns, until_ns): (i64, i64), lead: Option<(usize, f64)>) {
        if self.holds_since.is_none() {
            (self.holds_since, self.paused_ns, self.worst) = (Some(since_ns), 0, None);
        }
        self.held_until = until_ns;
        self.fails_since = None;
        self.lead = lead;
    }

    /// It does not hold.
    pub fn fails(&mut self, since_ns: i64) {
        if self.fails_since.is_none() {
            (self.fails_since, self.paused_ns) = (Some(since_ns), 0);
        }
        self.holds_since = None;
    }

    /// No tick came for so long: a rule was not seen to hold then, nor not to.
    pub fn pauses(&mut self, pause_ns: i64) {
        self.paused_ns = self.paused_ns.saturating_add(pause_ns);
    }

    /// True where it held for so long without a break.
    pub fn held_for(&self, hold_ns: i64) -> bool {
        self.holds_since.is_some_and(|since| self.held_until - since - self.paused_ns >= hold_ns)
    }

    /// True where it did not hold for so long until a moment, which is the end of a tick.
    pub fn failed_for(&self, hold_ns: i64, until_ns: i64) -> bool {
        self.fails_since.is_some_and(|since| until_ns - since - self.paused_ns >= hold_ns)
    }

    /// Remembers the worst value since it holds. Where another condition leads now, its value is of something else.
    pub fn keep_worst(&mut self, rule: &Rule, time_ns: i64) {
        let lead = self.lead.filter(|(_, value)| self.holds_since.is_some() && value.is_finite());
        let Some((position, value)) = lead else { return };
        let Some(condition) = rule.conditions().nth(position) else { return };
        let is_worse = |known: f64| if condition.compare.is_upper() { value > known } else { value < known };
        if self.worst.is_none_or(|(first, known, _)| first == position && is_worse(known)) {
            self.worst = Some((position, value, time_ns));
        }
    }

    /// The clock was set back: what began later begins now.
    pub fn set_back(&mut self, time_ns: i64) {
        for since in [&mut self.holds_since, &mut self.fails_since].into_iter().flatten() {
            *since = (*since).min(time_ns);
        }
        self.held_until = self.held_until.min(time_ns);
        self.paused_ns = 0;
    }
}

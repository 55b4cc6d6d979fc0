//! Budget of a trace: it traces less when it costs too much, and more again when the load has gone.

use crate::cost::TraceCost;

/// Shortest window over which the cost is compared with the budget.
const WINDOW_NS: u64 = 1_000_000_000;
/// Share of the budget below which a window is calm: then twice as much may be traced after enough calm windows.
const CALM: f64 = 1.0 / 3.0;
/// Calm windows that are required at first, and the most; the number doubles each time that more turned out to be too
/// much.
const PATIENCE: u32 = 30;
const MOST_PATIENCE: u32 = 3600;

/// Advice for the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BudgetAdvice {
    /// Trace fewer events.
    Less,
    /// Trace more events.
    More,
    /// The excess does not come from events (starting, drawing); reported once.
    NotByEvents,
}

/// Compares the cost with the budget, window by window.
#[derive(Clone, Debug, Default)]
pub(crate) struct BudgetKeeper {
    before: TraceCost,
    calm: u32,
    patience: u32,
    /// The last change was to trace more.
    has_grown: bool,
    is_spent: bool,
}

impl BudgetKeeper {
    /// Returns true if a window has ended.
    pub fn is_due(&self, elapsed_ns: u64) -> bool {
        elapsed_ns.saturating_sub(self.before.elapsed_ns) >= WINDOW_NS
    }

    /// Returns true the first time that the trace cannot be reduced any further.
    pub fn is_first_spent(&mut self) -> bool {
        !std::mem::replace(&mut self.is_spent, true)
    }

    /// Returns the window that ends now and the advice for it; `None` if nothing should change. `reading_ns` is the
    /// cost of an event in this process.
    pub fn advise(&mut self, cost: TraceCost, budget: f64, reading_ns: f64) -> Option<(TraceCost, BudgetAdvice)> {
        let window = cost.since(&self.before);
        self.before = cost;
        let share = window.share()?;
        if share > budget {
            self.calm = 0;
            let of_events = window.kernel_ns + window.events as f64 * reading_ns;
            if of_events <= 0.5 * window.elapsed_ns as f64 * window.processors as f64 * budget {
                return self.is_first_spent().then_some((window, BudgetAdvice::NotByEvents));
            }
            if std::mem::take(&mut self.has_grown) {
                self.patience = self.patience.saturating_mul(2).min(MOST_PATIENCE);
            }
            return Some((window, BudgetAdvice::Less));
        }
        self.calm = if share < budget * CALM { self.calm + 1 } else { 0 };
        self.patience = self.patience.max(PATIENCE);
        if self.calm < self.patience {
            return None;
        }
        if std::mem::replace(&mut self.has_grown, true) {
            // the previous increase was not too much; a later burst has another cause
            self.patience = PATIENCE;
        }
        self.calm = 0;
        Some((window, BudgetAdvice::More))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// Adds a second in which the kernel's side took this share of one processor.
    fn second(keeper: &mut BudgetKeeper, cost: &mut TraceCost, share: f64) -> Option<BudgetAdvice> {
        cost.elapsed_ns += SECOND;
        cost.kernel_ns += share * SECOND as f64;
        assert!(keeper.is_due(cost.elapsed_ns));
        keeper.advise(*cost, 0.01, 0.0).map(|(_, advice)| advice)
    }

    #[test]
    fn less_at_once_and_more_after_half_a_minute() {
        let (mut keeper, mut cost) = (BudgetKeeper::default(), TraceCost { processors: 1, ..TraceCost::default() });
        assert!(!keeper.is_due(SECOND - 1));
        assert_eq!(second(&mut keeper, &mut cost, 0.011), Some(BudgetAdvice::Less));
        for _ in 0..29 {
            assert_eq!(second(&mut keeper, &mut cost, 0.003), None);
        }
        assert_eq!(second(&mut keeper, &mut cost, 0.003), Some(BudgetAdvice::More));
        // it was too much: twice as long the next time
        assert_eq!(second(&mut keeper, &mut cost, 0.02), Some(BudgetAdvice::Less));
        let calm = (0..60).find(|_| second(&mut keeper, &mut cost, 0.001) == Some(BudgetAdvice::More));
        assert_eq!(calm, Some(59));
        // within the budget, but not far below
        assert!((0..500).all(|_| second(&mut keeper, &mut cost, 0.005).is_none()));
    }

    #[test]
    fn a_burst_long_after_is_no_sign_that_more_was_too_much() {
        let (mut keeper, mut cost) = (BudgetKeeper::default(), TraceCost { processors: 1, ..TraceCost::default() });
        for burst in 0..8 {
            assert_eq!(second(&mut keeper, &mut cost, 0.011), Some(BudgetAdvice::Less));
            let more = (0..600).filter(|_| second(&mut keeper, &mut cost, 0.001) == Some(BudgetAdvice::More)).count();
            assert!(more >= 9, "burst {burst}: {more} times in ten minutes of calm");
        }
    }

    #[test]
    fn what_is_not_of_events_is_told_once() {
        let (mut keeper, mut cost) = (BudgetKeeper::default(), TraceCost { processors: 1, ..TraceCost::default() });
        let mut busy = || {
            (cost.elapsed_ns, cost.reader_ns) = (cost.elapsed_ns + SECOND, cost.reader_ns + SECOND / 50);
            keeper.advise(cost, 0.01, 0.0).map(|(_, advice)| advice)
        };
        assert_eq!((busy(), busy()), (Some(BudgetAdvice::NotByEvents), None));
    }
}

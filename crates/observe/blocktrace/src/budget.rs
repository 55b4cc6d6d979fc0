//! Budget of a trace: the trace records less while it costs too much, and more again once the load has fallen.

use crate::trace_cost::TraceCost;

/// Shortest window over which the cost is compared with the budget.
const MIN_WINDOW_NS: u64 = 1_000_000_000;
/// A window is calm if its cost is below this share of the budget: after enough calm windows, twice as much may be
/// traced.
const CALM_SHARE: f64 = 1.0 / 3.0;
/// Fewer events help only if the events cost more than this share of the budget.
const MIN_EVENT_SHARE: f64 = 0.5;
/// Initial and maximum number of calm windows before an increase. The number doubles after each increase that
/// exceeded the budget.
const MIN_BACKOFF_WINDOWS: u32 = 30;
const MAX_BACKOFF_WINDOWS: u32 = 3600;

/// Advice for the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BudgetAdvice {
    /// Trace fewer events.
    Less,
    /// Trace more events.
    More,
    /// Something other than events costs too much (starting, drawing); reported once.
    OtherCost,
}

/// Compares the cost with the budget, window by window.
#[derive(Clone, Debug)]
pub(crate) struct BudgetKeeper {
    last_cost: TraceCost,
    calm_windows: u32,
    /// Calm windows that are required before the next increase.
    backoff_windows: u32,
    /// The last change was to trace more.
    has_grown: bool,
    /// The trace cannot be reduced any further, and this was reported.
    is_spent: bool,
}

impl Default for BudgetKeeper {
    fn default() -> BudgetKeeper {
        BudgetKeeper {
            last_cost: TraceCost::default(),
            calm_windows: 0,
            backoff_windows: MIN_BACKOFF_WINDOWS,
            has_grown: false,
            is_spent: false,
        }
    }
}

impl BudgetKeeper {
    /// Returns true if a window has ended.
    pub fn is_due(&self, elapsed_ns: u64) -> bool {
        elapsed_ns.saturating_sub(self.last_cost.elapsed_ns) >= MIN_WINDOW_NS
    }

    /// Notes that the trace cannot be reduced any further; returns true the first time.
    pub fn mark_spent(&mut self) -> bool {
        let is_first = !self.is_spent;
        self.is_spent = true;
        is_first
    }

    /// Returns the window that ends now and the advice for it; `None` if nothing should change. `reading_ns` is the
    /// cost of an event in this process.
    pub fn advise_window(
        &mut self,
        cost: TraceCost,
        budget: f64,
        reading_ns: f64,
    ) -> Option<(TraceCost, BudgetAdvice)> {
        let window = cost.difference_since(&self.last_cost);
        self.last_cost = cost;
        let share = window.processor_share()?;
        let advice = if share > budget {
            self.advise_over_budget(&window, budget, reading_ns)
        } else {
            self.advise_within_budget(share < budget * CALM_SHARE)
        };
        advice.map(|advice| (window, advice))
    }

    fn advise_over_budget(&mut self, window: &TraceCost, budget: f64, reading_ns: f64) -> Option<BudgetAdvice> {
        self.calm_windows = 0;
        let events_ns = window.kernel_ns + window.events as f64 * reading_ns;
        let budget_ns = window.elapsed_ns as f64 * window.processors as f64 * budget;
        if events_ns <= MIN_EVENT_SHARE * budget_ns {
            let is_first = self.mark_spent();
            return is_first.then_some(BudgetAdvice::OtherCost);
        }
        if self.has_grown {
            self.backoff_windows = self.backoff_windows.saturating_mul(2).min(MAX_BACKOFF_WINDOWS);
        }
        self.has_grown = false;
        Some(BudgetAdvice::Less)
    }

    fn advise_within_budget(&mut self, is_calm: bool) -> Option<BudgetAdvice> {
        self.calm_windows = if is_calm { self.calm_windows + 1 } else { 0 };
        if self.calm_windows < self.backoff_windows {
            return None;
        }
        if self.has_grown {
            // the previous increase was not too much; a later burst has another cause
            self.backoff_windows = MIN_BACKOFF_WINDOWS;
        }
        self.has_grown = true;
        self.calm_windows = 0;
        Some(BudgetAdvice::More)
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
        keeper.advise_window(*cost, 0.01, 0.0).map(|(_, advice)| advice)
    }

    #[test]
    fn the_trace_is_reduced_at_once_and_extended_after_half_a_minute() {
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
    fn a_late_burst_does_not_extend_the_backoff() {
        let (mut keeper, mut cost) = (BudgetKeeper::default(), TraceCost { processors: 1, ..TraceCost::default() });
        for burst in 0..8 {
            assert_eq!(second(&mut keeper, &mut cost, 0.011), Some(BudgetAdvice::Less));
            let more = (0..600).filter(|_| second(&mut keeper, &mut cost, 0.001) == Some(BudgetAdvice::More)).count();
            assert!(more >= 9, "burst {burst}: {more} times in ten minutes of calm");
        }
    }

    #[test]
    fn cost_not_caused_by_events_is_reported_once() {
        let (mut keeper, mut cost) = (BudgetKeeper::default(), TraceCost { processors: 1, ..TraceCost::default() });
        let mut busy = || {
            (cost.elapsed_ns, cost.reader_ns) = (cost.elapsed_ns + SECOND, cost.reader_ns + SECOND / 50);
            keeper.advise_window(cost, 0.01, 0.0).map(|(_, advice)| advice)
        };
        assert_eq!((busy(), busy()), (Some(BudgetAdvice::OtherCost), None));
    }
}

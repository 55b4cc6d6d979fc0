//! Names the program that grows where memory runs out.

use super::trend::{Trend, TrendShape};
use crate::run::Observation;

/// Share of all growth from which a program is named.
const MIN_GROWTH_SHARE: f64 = 0.25;

/// True where the machine's memory will reach a limit soon if it goes on as in the window.
pub(crate) fn runs_out_of_memory(trends: &[Trend]) -> bool {
    trends.iter().any(|trend| is_of_memory(trend) && trend.crosses.is_some())
}

/// True for a trend of the machine's memory that matters.
fn is_of_memory(trend: &Trend) -> bool {
    let is_memory = trend.counter.starts_with("memory.") && trend.instance.is_empty();
    is_memory && trend.matters && trend.shape == TrendShape::Line
}

/// Adds the program whose memory grew most to trends of the machine's memory towards a limit.
pub(crate) fn name_growing_programs(observed: &Observation, trends: &mut [Trend]) {
    let mut trends = trends.iter_mut().filter(|trend| is_of_memory(trend)).peekable();
    if trends.peek().is_none() {
        return;
    }
    let growing = observed.culprits.growing_program(MIN_GROWTH_SHARE);
    trends.for_each(|trend| trend.growing.clone_from(&growing));
}

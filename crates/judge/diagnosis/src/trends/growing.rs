//! Names what grows where memory runs out: a program, or memory of the kernel, which no program shows.

use diskwright_base::counter_ids::memory;

use super::DAY_S;
use super::trend::{Trend, TrendShape};
use crate::culprits::{Culprit, GrowingProgram};
use crate::run::Observation;

/// Share of all growth of programs from which one is named.
const MIN_GROWTH_SHARE: f64 = 0.25;
/// Share of what the machine lost from which its reason is named: what grew by less explains nothing. Our choice.
const MIN_LOST_SHARE: f64 = 0.25;
/// `kind` of a culprit that is memory of the kernel.
pub(crate) const KERNEL_KIND: &str = "kernel";

/// Memory that no program shows: name, the counter of its size, and the counter of the part that the kernel gives back.
const KERNEL_AREAS: [(&str, &str, Option<&str>); 4] = [
    ("the nonpaged pool (drivers and the kernel)", memory::POOL_NONPAGED_BYTES, None),
    ("the paged pool (drivers and the kernel)", memory::POOL_PAGED_BYTES, None),
    ("memory of the kernel (slab)", memory::SLAB_BYTES, Some(memory::SLAB_RECLAIMABLE_BYTES)),
    ("shared memory and tmpfs", memory::SHARED_BYTES, None),
];

/// True where the machine's memory will reach a limit soon if it goes on as in the window.
pub(crate) fn runs_out_of_memory(trends: &[Trend]) -> bool {
    trends.iter().any(|trend| is_of_memory(trend) && trend.crosses.is_some())
}

/// True for a trend of the machine's memory that matters.
fn is_of_memory(trend: &Trend) -> bool {
    let is_memory = trend.counter.starts_with("memory.") && trend.instance.is_empty();
    is_memory && trend.matters && trend.shape == TrendShape::Line
}

/// Adds what grew most to trends of the machine's memory towards a limit.
pub(crate) fn name_growing_programs(observed: &Observation, trends: &mut [Trend]) {
    let window_days = (observed.window.to_ns - observed.window.from_ns) as f64 / 1e9 / DAY_S;
    for trend in trends.iter_mut().filter(|trend| is_of_memory(trend)) {
        let lost_bytes = lost_per_day(observed, trend).map_or(0.0, |bytes| bytes * window_days);
        let least = MIN_LOST_SHARE * lost_bytes;
        let program = observed.culprits.growing_program(MIN_GROWTH_SHARE, least);
        let area = growing_area(observed, lost_bytes).filter(|area| growth(area) >= least.max(1.0));
        trend.growing = program.into_iter().chain(area).max_by(|a, b| growth(a).total_cmp(&growth(b)));
    }
}

/// Bytes of available memory that a trend loses a day; `None` for a trend of anything else.
fn lost_per_day(observed: &Observation, trend: &Trend) -> Option<f64> {
    let unit = match trend.counter.as_str() {
        memory::AVAILABLE_BYTES => 1.0,
        memory::AVAILABLE_FRACTION => observed.mean_sign(memory::TOTAL_BYTES)?,
        _ => return None,
    };
    Some((-trend.slope_per_day * unit).max(0.0))
}

fn growth(growing: &GrowingProgram) -> f64 {
    growing.to_bytes - growing.from_bytes
}

/// The memory of the kernel that grew most.
fn growing_area(observed: &Observation, lost_bytes: f64) -> Option<GrowingProgram> {
    let grown = KERNEL_AREAS.iter().filter_map(|(name, counter, given_back)| {
        let (mut from_bytes, mut to_bytes) = observed.ends_of_sign(counter)?;
        if let Some((first, last)) = given_back.and_then(|counter| observed.ends_of_sign(counter)) {
            (from_bytes, to_bytes) = (from_bytes - first, to_bytes - last);
        }
        let share = (lost_bytes > 0.0).then(|| ((to_bytes - from_bytes) / lost_bytes).clamp(0.0, 1.0));
        let culprit = Culprit { kind: KERNEL_KIND.into(), name: (*name).into(), share, ..Culprit::default() };
        Some(GrowingProgram { culprit, from_bytes, to_bytes })
    });
    grown.max_by(|a, b| growth(a).total_cmp(&growth(b)))
}

//! Cost of tracing: the processor time of the reading thread, which is measured, and that of the kernel, which is
//! estimated as the number of events times a calibrated time. The calibration times the event `task_rename`, which a
//! thread causes by setting its name to the name it has: a tracepoint that copies text, like those of the block layer
//! (the kernel's samples time it too).

use rustix::thread::{name, set_name};
use rustix::time::{ClockId, clock_gettime};

use crate::tracefs::{TraceInstance, TracefsError};

/// Event that is timed.
pub(crate) const CALIBRATION_EVENT: &str = "task/task_rename";
/// Assumed cost of an event if it cannot be timed, nanoseconds (CONFIG_TRACEPOINT_BENCHMARK's text: 273 to
/// 316 once memory is warm).
pub(crate) const ASSUMED_EVENT_NS: f64 = 300.0;
/// Events in a round of the calibration, and number of rounds. The shortest round counts: it was least disturbed.
const EVENTS_PER_ROUND: u64 = 1000;
const CALIBRATION_ROUNDS: usize = 3;

/// Processor time of the calling thread, which must be the reading thread, nanoseconds.
pub(crate) fn thread_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    (time.tv_sec.max(0) as u64) * 1_000_000_000 + time.tv_nsec.max(0) as u64
}

/// Measures the processor time of a [`CALIBRATION_EVENT`] and of the call that causes it, nanoseconds.
pub(crate) fn time_renames() -> std::io::Result<f64> {
    let thread_name = name()?;
    let mut shortest_ns = f64::INFINITY;
    for _ in 0..CALIBRATION_ROUNDS {
        let start_ns = thread_cpu_ns();
        for _ in 0..EVENTS_PER_ROUND {
            set_name(&thread_name)?;
        }
        shortest_ns = shortest_ns.min((thread_cpu_ns() - start_ns) as f64 / EVENTS_PER_ROUND as f64);
    }
    Ok(shortest_ns)
}

/// Cost of an event in the kernel, nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RecordCost {
    /// Cost of an event that is kept in our buffers.
    pub kept_ns: f64,
    /// Cost of an event that a filter drops.
    pub dropped_ns: f64,
}

impl RecordCost {
    pub(crate) const ASSUMED: RecordCost = RecordCost { kept_ns: ASSUMED_EVENT_NS, dropped_ns: ASSUMED_EVENT_NS };
}

/// Times events in our instance, before any other event is enabled in it.
pub(crate) fn calibrate_events(instance: &mut TraceInstance) -> Result<RecordCost, TracefsError> {
    let refused = |error| TracefsError::Refused { file: CALIBRATION_EVENT.into(), error };
    let bare_ns = time_renames().map_err(refused)?;
    instance.start()?;
    instance.enable_event(CALIBRATION_EVENT, None)?;
    let kept_ns = time_renames().map_err(refused)?;
    // this filter drops every event: the idle thread, whose id is 0, causes none
    instance.set_filter(CALIBRATION_EVENT, Some("pid == 0"))?;
    let dropped_ns = time_renames().map_err(refused)?;
    instance.disable_event(CALIBRATION_EVENT)?;
    instance.set_filter(CALIBRATION_EVENT, None)?;
    Ok(RecordCost {
        kept_ns: plausible_or_assumed(kept_ns - bare_ns),
        dropped_ns: plausible_or_assumed(dropped_ns - bare_ns),
    })
}

/// Smallest plausible cost of an event, nanoseconds: on a busy machine the time without events may come out longer than
/// with them.
const MIN_EVENT_NS: f64 = 5.0;

/// Returns a measured cost, or the assumed cost if the measurement is implausible.
pub(crate) fn plausible_or_assumed(measured_ns: f64) -> f64 {
    if measured_ns >= MIN_EVENT_NS { measured_ns } else { ASSUMED_EVENT_NS }
}

/// Cost of tracing over a period.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TraceCost {
    /// Length of the period, nanoseconds.
    pub elapsed_ns: u64,
    /// Events that the kernel delivered, or runs of its programs.
    pub events: u64,
    /// Processor time of the reading thread, nanoseconds.
    pub reader_ns: u64,
    /// Processor time of the kernel's side, nanoseconds: events times the calibrated cost.
    pub kernel_ns: f64,
    /// Number of processors of the machine.
    pub processors: usize,
}

impl TraceCost {
    /// Share of all processors' time; `None` for an empty period.
    pub fn processor_share(&self) -> Option<f64> {
        let available_ns = self.elapsed_ns as f64 * self.processors.max(1) as f64;
        (available_ns > 0.0).then(|| (self.reader_ns as f64 + self.kernel_ns) / available_ns)
    }

    /// Events per second; `None` for an empty period.
    pub fn events_per_s(&self) -> Option<f64> {
        (self.elapsed_ns > 0).then(|| self.events as f64 * 1e9 / self.elapsed_ns as f64)
    }

    /// Returns the cost since an earlier state.
    pub fn difference_since(&self, before: &TraceCost) -> TraceCost {
        TraceCost {
            elapsed_ns: self.elapsed_ns.saturating_sub(before.elapsed_ns),
            events: self.events.saturating_sub(before.events),
            reader_ns: self.reader_ns.saturating_sub(before.reader_ns),
            kernel_ns: (self.kernel_ns - before.kernel_ns).max(0.0),
            processors: self.processors,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 10 ms of reading and 100,000 events of 200 ns in a second of two processors: 30 ms of 2 s.
    #[test]
    fn an_implausible_cost_is_replaced() {
        assert_eq!(
            [-40.0, 0.0, 4.9, 5.0, 310.0].map(plausible_or_assumed),
            [ASSUMED_EVENT_NS, ASSUMED_EVENT_NS, ASSUMED_EVENT_NS, 5.0, 310.0]
        );
    }

    #[test]
    fn a_share_is_of_all_processors() {
        let cost = TraceCost {
            elapsed_ns: 1_000_000_000,
            events: 100_000,
            reader_ns: 10_000_000,
            kernel_ns: 20_000_000.0,
            processors: 2,
        };
        assert_eq!((cost.processor_share(), cost.events_per_s()), (Some(0.015), Some(100_000.0)));
        assert_eq!(cost.difference_since(&cost).processor_share(), None);
        assert_eq!(TraceCost::default().events_per_s(), None);
    }
}

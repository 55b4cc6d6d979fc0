//! What tracing costs: processor time of the reading thread, which is read, and of the kernel's side,
//! which is calibrated: so many events by so many nanoseconds.

use std::io::Write;

use rustix::time::{ClockId, clock_gettime};

use crate::tracefs::{TraceInstance, TracefsError};

/// Records that are timed.
const ROUNDS: u64 = 2000;
/// As long as a block event.
const RECORD: &[u8] = b"calibration of what a record of this length costs..";

/// Processor time of this thread, which is the one that reads, nanoseconds.
pub(crate) fn thread_ns() -> u64 {
    nanoseconds(ClockId::ThreadCPUTime)
}

fn nanoseconds(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    (time.tv_sec.max(0) as u64) * 1_000_000_000 + time.tv_nsec.max(0) as u64
}

/// What a record in our own buffers costs, nanoseconds of processor time: a text of an event's length
/// put there, less a text put nowhere. The tracepoint's own work (copying fields) is not in it.
pub(crate) fn calibrate(instance: &TraceInstance) -> Result<f64, TracefsError> {
    let refused = |what: &str, error| TracefsError::Refused { what: what.into(), error };
    let mut nowhere = std::fs::OpenOptions::new().write(true).open("/dev/null").map_err(|e| refused("/dev/null", e))?;
    let mut marker = instance.marker()?;
    let time = |file: &mut std::fs::File| -> Result<f64, TracefsError> {
        let before = nanoseconds(ClockId::ThreadCPUTime);
        for _ in 0..ROUNDS {
            file.write_all(RECORD).map_err(|e| refused("trace_marker", e))?;
        }
        Ok((nanoseconds(ClockId::ThreadCPUTime) - before) as f64 / ROUNDS as f64)
    };
    // the first writes pay for cold memory
    time(&mut marker)?;
    let (record, call) = (time(&mut marker)?, time(&mut nowhere)?);
    Ok((record - call).max(0.0))
}

/// The cost of a stretch of time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TraceCost {
    /// How long it was, nanoseconds.
    pub elapsed_ns: u64,
    /// Events that the kernel handed over, or runs of its programs.
    pub events: u64,
    /// Processor time of the reading thread, nanoseconds.
    pub reader_ns: u64,
    /// Processor time of the kernel's side, nanoseconds: events by the calibrated cost.
    pub kernel_ns: f64,
    /// Processors of the machine.
    pub processors: usize,
}

impl TraceCost {
    /// Share of all processors' time; `None` of no time.
    pub fn share(&self) -> Option<f64> {
        let all = self.elapsed_ns as f64 * self.processors.max(1) as f64;
        (all > 0.0).then(|| (self.reader_ns as f64 + self.kernel_ns) / all)
    }

    /// Events a second.
    pub fn events_per_s(&self) -> Option<f64> {
        (self.elapsed_ns > 0).then(|| self.events as f64 * 1e9 / self.elapsed_ns as f64)
    }

    /// What came since.
    pub fn since(&self, before: &TraceCost) -> TraceCost {
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
    fn a_share_is_of_all_processors() {
        let cost = TraceCost {
            elapsed_ns: 1_000_000_000,
            events: 100_000,
            reader_ns: 10_000_000,
            kernel_ns: 20_000_000.0,
            processors: 2,
        };
        assert_eq!((cost.share(), cost.events_per_s()), (Some(0.015), Some(100_000.0)));
        assert_eq!(cost.since(&cost).share(), None);
        assert_eq!(TraceCost::default().events_per_s(), None);
    }
}

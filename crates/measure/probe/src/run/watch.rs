//! Processor time and the kernel's counts while a run measures.

use std::time::{Duration, Instant};

use diskwright_counters::live::{Roots, Sampler, SamplerOptions as LiveOptions, SystemClock};
use rustix::time::{ClockId, clock_gettime};

use super::{Kernel, RunOutcome};

/// Interval of progress reports.
const BEAT: Duration = Duration::from_millis(200);

/// Records processor time and the kernel's counts when measuring begins and ends.
pub(super) struct RunWatch {
    sampler: Sampler,
    begun: Option<(Instant, Duration)>,
    ended: Option<(Instant, Duration)>,
    kernel: Kernel,
}

/// Returns the time, and the processor time of all threads of this process so far, including those
/// that the kernel keeps for its rings (`iou-wrk`).
fn processor_time() -> (Instant, Duration) {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    (Instant::now(), Duration::new(time.tv_sec.max(0) as u64, time.tv_nsec.max(0) as u32))
}

impl RunWatch {
    pub(super) fn start() -> RunWatch {
        let options = LiveOptions { processes: false, filesystems: false, cgroups: false, ..LiveOptions::default() };
        let sampler = Sampler::new(Roots::default(), Box::new(SystemClock), options);
        RunWatch { sampler, begun: None, ended: None, kernel: Kernel::default() }
    }

    /// Returns how long to wait until the next boundary or progress report.
    pub(super) fn nap(&self, now: Duration, measure_from: Duration, measure_until: Duration) -> Duration {
        let next = if self.begun.is_none() { measure_from } else { measure_until };
        next.saturating_sub(now).min(BEAT).max(Duration::from_millis(1))
    }

    pub(super) fn look(&mut self, now: Duration, measure_from: Duration, measure_until: Duration) {
        if self.begun.is_none() && now >= measure_from {
            self.sampler.tick();
            self.begun = Some(processor_time());
        }
        if self.begun.is_some() && self.ended.is_none() && now >= measure_until {
            self.end();
        }
    }

    fn end(&mut self) {
        self.ended = Some(processor_time());
        self.sampler.tick();
        let (schema, row) = (self.sampler.schema(), self.sampler.row());
        let of = |counter: &str| {
            let column = schema.column(counter, "")?;
            Some(row[column] * schema.series[column].scale).filter(|v| v.is_finite())
        };
        let disk = || Some(of("interrupts.total")? - of("interrupts.clock")? - of("interrupts.network")?);
        self.kernel = Kernel {
            seconds: self.sampler.tick_stamp().elapsed_ns as f64 * 1e-9,
            interrupts: disk(),
            all_interrupts: of("interrupts.total"),
            context_switches: of("system.context_switches"),
        };
    }

    pub(super) fn finish(mut self, outcome: &mut RunOutcome) {
        if self.begun.is_some() && self.ended.is_none() {
            self.end();
        }
        outcome.cpu_s = match (self.begun, self.ended) {
            // the readings may be a little apart from the run: the difference between them is
            // treated as a rate
            (Some((from, begun)), Some((until, ended))) if until > from => {
                let share = outcome.seconds / until.duration_since(from).as_secs_f64();
                ended.saturating_sub(begun).as_secs_f64() * share
            }
            _ => f64::NAN,
        };
        outcome.kernel = self.kernel;
    }
}

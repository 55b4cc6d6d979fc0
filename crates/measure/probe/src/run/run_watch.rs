//! Processor time and the kernel's counts while a run measures.

use std::time::{Duration, Instant};

use diskwright_base::counter_ids::{interrupts, system};
use diskwright_counters::live::{Roots, Sampler, SamplerOptions as LiveOptions, SystemClock};
use rustix::time::{ClockId, clock_gettime};

use super::{KernelCounts, RunOutcome};

/// Interval between reports of progress.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);

/// Processor time of this process, and when it was read.
#[derive(Clone, Copy)]
struct CpuReading {
    time: Instant,
    cpu_time: Duration,
}

/// Records processor time and the kernel's counts when measuring begins and ends.
pub(super) struct RunWatch {
    sampler: Sampler,
    /// Reading when measuring began.
    started: Option<CpuReading>,
    /// Reading when measuring ended.
    ended: Option<CpuReading>,
    /// Counts between the two readings.
    kernel: KernelCounts,
}

/// Reads the processor time of all threads of this process so far, including those that the kernel
/// keeps for its rings (`iou-wrk`).
fn read_cpu_time() -> CpuReading {
    let spent = clock_gettime(ClockId::ProcessCPUTime);
    let cpu_time = Duration::new(spent.tv_sec.max(0) as u64, spent.tv_nsec.max(0) as u32);
    CpuReading { time: Instant::now(), cpu_time }
}

impl RunWatch {
    pub(super) fn start() -> RunWatch {
        let options = LiveOptions { processes: false, filesystems: false, cgroups: false, ..LiveOptions::default() };
        let sampler = Sampler::new(Roots::default(), Box::new(SystemClock), options);
        RunWatch { sampler, started: None, ended: None, kernel: KernelCounts::default() }
    }

    /// Returns the time until measuring begins or ends, or until the next report of progress.
    pub(super) fn time_to_next_boundary(
        &self,
        now: Duration,
        measure_from: Duration,
        measure_until: Duration,
    ) -> Duration {
        let next = if self.started.is_none() { measure_from } else { measure_until };
        next.saturating_sub(now).min(PROGRESS_INTERVAL).max(Duration::from_millis(1))
    }

    /// Takes the readings at the begin and end of measuring, once `now` has reached them.
    pub(super) fn update_boundaries(&mut self, now: Duration, measure_from: Duration, measure_until: Duration) {
        if self.started.is_none() && now >= measure_from {
            self.sampler.tick();
            self.started = Some(read_cpu_time());
        }
        if self.started.is_some() && self.ended.is_none() && now >= measure_until {
            self.record_end();
        }
    }

    fn record_end(&mut self) {
        self.ended = Some(read_cpu_time());
        self.sampler.tick();
        let (schema, row) = (self.sampler.schema(), self.sampler.row());
        let increase_of = |counter: &str| {
            let column = schema.column(counter, "")?;
            Some(row[column] * schema.series[column].scale).filter(|v| v.is_finite())
        };
        let other_interrupts = || {
            Some(increase_of(interrupts::TOTAL)? - increase_of(interrupts::CLOCK)? - increase_of(interrupts::NETWORK)?)
        };
        self.kernel = KernelCounts {
            seconds: self.sampler.tick_stamp().elapsed_ns as f64 * 1e-9,
            interrupts: other_interrupts(),
            all_interrupts: increase_of(interrupts::TOTAL),
            context_switches: increase_of(system::CONTEXT_SWITCHES),
        };
    }

    /// Sets processor time and the kernel's counts of an outcome, whose measured time is known.
    pub(super) fn fill_outcome(mut self, outcome: &mut RunOutcome) {
        if self.started.is_some() && self.ended.is_none() {
            self.record_end();
        }
        outcome.cpu_s = match (self.started, self.ended) {
            // the readings may be taken a little before or after the run's boundaries, so they are
            // used as a rate
            (Some(start), Some(end)) if end.time > start.time => {
                let share = outcome.seconds / end.time.duration_since(start.time).as_secs_f64();
                end.cpu_time.saturating_sub(start.cpu_time).as_secs_f64() * share
            }
            _ => f64::NAN,
        };
        outcome.kernel = self.kernel;
    }
}

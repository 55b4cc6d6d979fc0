//! Time of a thread's steps: elapsed time and processor time. Their difference is the time that the thread waited.

use std::ops::AddAssign;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

/// Returns the processor time of the calling thread.
#[must_use]
pub fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let nanoseconds = u32::try_from(time.tv_nsec).unwrap_or(0);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), nanoseconds)
}

/// Time of one kind of step, summed over all threads that did it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct StepTime {
    /// Bytes read or written.
    pub bytes: u64,
    /// Requests to the filesystem.
    pub requests: u64,
    /// Sum of the threads' elapsed times, s: two threads that read for a second count as two seconds.
    pub thread_s: f64,
    /// Processor time within that time, s.
    pub cpu_s: f64,
}

impl StepTime {
    /// Time that the threads waited: for a disk, a lock, or a processor in use by others, s.
    #[must_use]
    pub fn waiting_s(&self) -> f64 {
        (self.thread_s - self.cpu_s).max(0.0)
    }

    /// Converts a step of one thread for which all threads of its stage wait: each of them takes as long.
    #[must_use]
    pub fn while_others_wait(self, threads: usize) -> StepTime {
        StepTime { thread_s: self.thread_s * threads as f64, ..self }
    }

    /// Returns the time without that of a part that is counted elsewhere; bytes and requests are counted with that
    /// part.
    #[must_use]
    pub fn minus_part(&self, part: &StepTime) -> StepTime {
        let subtract = |total: f64, part: f64| (total - part).max(0.0);
        let (thread_s, cpu_s) = (subtract(self.thread_s, part.thread_s), subtract(self.cpu_s, part.cpu_s));
        StepTime { bytes: 0, requests: 0, thread_s, cpu_s }
    }

    /// Runs a step that moves bytes, and adds its time; the step returns the number of bytes.
    ///
    /// # Errors
    /// Those of the step.
    pub fn time_io<E>(&mut self, step: impl FnOnce() -> Result<usize, E>) -> Result<usize, E> {
        let timer = StepTimer::start();
        let result = step();
        timer.stop(self);
        self.requests += 1;
        if let Ok(bytes) = result {
            self.bytes += bytes as u64;
        }
        result
    }

    /// Runs a step that only computes, and adds its time.
    pub fn time_compute<T>(&mut self, step: impl FnOnce() -> T) -> T {
        let timer = StepTimer::start();
        let result = step();
        timer.stop(self);
        result
    }
}

impl AddAssign for StepTime {
    fn add_assign(&mut self, other: StepTime) {
        self.bytes += other.bytes;
        self.requests += other.requests;
        self.thread_s += other.thread_s;
        self.cpu_s += other.cpu_s;
    }
}

/// Timer of a running step.
struct StepTimer {
    started: Instant,
    cpu_at_start: Duration,
}

impl StepTimer {
    fn start() -> StepTimer {
        StepTimer { started: Instant::now(), cpu_at_start: thread_time() }
    }

    /// Adds the time since the start to `sum`.
    fn stop(self, sum: &mut StepTime) {
        sum.thread_s += self.started.elapsed().as_secs_f64();
        sum.cpu_s += thread_time().saturating_sub(self.cpu_at_start).as_secs_f64();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleep_is_waiting_and_work_is_not() {
        let mut step = StepTime::default();
        let nap = rustix::time::Timespec { tv_sec: 0, tv_nsec: 30_000_000 };
        let _ = step.time_compute(|| rustix::thread::nanosleep(&nap));
        assert!(step.waiting_s() >= 0.025 && step.cpu_s < step.thread_s / 2.0, "{step:?}");
        let mut work = StepTime::default();
        let sum =
            work.time_compute(|| (0..std::hint::black_box(20_000_000_u64)).fold(0, |a, b| a ^ std::hint::black_box(b)));
        assert!(sum < 1 << 40 && work.cpu_s > 0.0, "{work:?}");
        let moved: Result<usize, ()> = work.time_io(|| Ok(7));
        assert_eq!((moved, work.bytes, work.requests), (Ok(7), 7, 1));
        step += work;
        assert_eq!(step.bytes, 7);
    }
}

//! Workers pinned to a processor. If a class has one worker per processor, a worker that moves leaves one processor
//! idle, and another processor has two workers. Threads that wake each other lose time if they are on two processors.

use std::io;
use std::iter::repeat_n;
use std::thread::ThreadId;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::WorkStep;

/// Processor of a worker: a single one, or any if the kernel does not list them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct WorkerCpu(Option<usize>);

/// Returns each processor that this program may use, `repetitions` times. A mask (`taskset`) or a cpuset may restrict
/// the processors.
pub(super) fn cpus_repeated(repetitions: usize) -> Vec<WorkerCpu> {
    let Ok(allowed) = sched_getaffinity(None) else {
        // the host has more processors than a `CpuSet` can hold
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        return vec![WorkerCpu(None); repetitions * processors];
    };
    let processors = (0..CpuSet::MAX_CPU).filter(|processor| allowed.is_set(*processor));
    processors.flat_map(|processor| repeat_n(WorkerCpu(Some(processor)), repetitions)).collect()
}

/// Returns a processor for each of `workers` workers, spread over the allowed ones. There may be fewer workers than
/// processors, because processor time may be limited.
pub(super) fn spread_workers(workers: usize) -> impl Iterator<Item = WorkerCpu> {
    cpus_repeated(1).into_iter().cycle().take(workers)
}

impl WorkerCpu {
    /// Pins the calling thread to the processor.
    pub(super) fn pin_current_thread(self) -> io::Result<()> {
        let Some(processor) = self.0 else { return Ok(()) };
        let mut only = CpuSet::new();
        only.set(processor);
        Ok(sched_setaffinity(None, &only)?)
    }

    /// Wraps a step so that it pins the thread that runs it: each phase of a load has its own threads.
    pub(super) fn pin_steps(self, mut step: WorkStep) -> WorkStep {
        let mut pinned: Option<ThreadId> = None;
        Box::new(move || {
            let current = std::thread::current().id();
            if pinned != Some(current) {
                self.pin_current_thread()
                    .map_err(crate::io_error("processor".as_ref(), "a thread cannot stay on it"))?;
                pinned = Some(current);
            }
            step()
        })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::{Arc, Mutex};
    use std::thread;

    use super::*;

    /// Returns the processors on which the calling thread may run.
    pub(in crate::loads) fn allowed_here() -> Vec<usize> {
        let set = sched_getaffinity(None).unwrap();
        (0..CpuSet::MAX_CPU).filter(|processor| set.is_set(*processor)).collect()
    }

    #[test]
    fn each_thread_that_runs_a_step_is_pinned_to_the_workers_processor() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let all = allowed_here();
        let mut steps: Vec<WorkStep> =
            spread_workers(all.len()).map(|place| place.pin_steps(recording_step(&seen))).collect();
        // a measurement and the load itself run in different threads
        for _ in 0..2 {
            for step in &mut steps {
                thread::scope(|scope| scope.spawn(|| (step().unwrap(), step().unwrap())).join().unwrap());
            }
        }
        let expected: Vec<Vec<usize>> =
            [&all[..], &all[..]].concat().iter().flat_map(|one| [vec![*one], vec![*one]]).collect();
        assert_eq!(*seen.lock().unwrap(), expected);
        assert_eq!(allowed_here(), all, "a thread that takes no steps may run anywhere");
    }

    fn recording_step(seen: &Arc<Mutex<Vec<Vec<usize>>>>) -> WorkStep {
        let seen = Arc::clone(seen);
        Box::new(move || {
            seen.lock().unwrap().push(allowed_here());
            Ok(1.0)
        })
    }

    #[test]
    fn only_allowed_processors_are_used() {
        let last = *allowed_here().last().unwrap();
        let there = WorkerCpu(Some(last));
        let (few, pairs) = thread::spawn(move || {
            // as `taskset` does before it starts a program
            there.pin_current_thread().unwrap();
            (spread_workers(3).collect::<Vec<_>>(), cpus_repeated(2))
        })
        .join()
        .unwrap();
        assert_eq!((few, pairs), (vec![there; 3], vec![there; 2]));
    }
}

//! Loads on processors: threads that compute. Their unit is processor time, so that 100 % is known. Processor time that
//! other programs use is missing in the reached share.

use std::hint::black_box;

use diskwright_workload::clock::thread_time;

use super::affinity::{WorkerCpu, spread_workers};
use super::{FullLevel, LoadOptions, StressLoad, WorkStep};
use crate::StressError;
use crate::class::StressClass;

/// Rounds per step; they take a few tenths of a millisecond.
const ROUNDS_PER_STEP: u64 = 200_000;

/// Makes the load of one computing thread per processor.
pub(super) fn all_processors_load(_: &StressClass, options: &LoadOptions) -> Result<StressLoad, StressError> {
    let worker = |(cpu, seed): (WorkerCpu, u64)| cpu.pin_steps(compute_step(seed));
    let workers = spread_workers(options.processors).zip(0..).map(worker).collect();
    Ok(StressLoad::new(workers, FullLevel::KnownRate(options.processors as f64)))
}

/// Makes the load of one computing thread, which may run on any processor.
pub(super) fn one_thread_load(_: &StressClass, _: &LoadOptions) -> Result<StressLoad, StressError> {
    Ok(StressLoad::new(vec![compute_step(0)], FullLevel::KnownRate(1.0)))
}

fn compute_step(seed: u64) -> WorkStep {
    let mut state = seed.wrapping_mul(2) + 1;
    Box::new(move || {
        let started = thread_time();
        for _ in 0..ROUNDS_PER_STEP {
            // xorshift64 (Marsaglia 2003)
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
        }
        black_box(state);
        Ok(thread_time().saturating_sub(started).as_secs_f64())
    })
}

//! Loads on processors: threads that compute. Their unit is processor time, so that 100 % is known: processor time used
//! by others is missing in the reached share.

use std::hint::black_box;

use diskwright_workload::clock::thread_time;

use super::affinity::{WorkerPlace, places};
use super::{LoadMost, LoadOptions, StressLoad, WorkStep};
use crate::StressError;
use crate::class::StressClass;

/// Rounds per step: some tenths of a millisecond.
const ROUNDS: u64 = 200_000;

/// Makes the load of one computing thread per processor.
pub(super) fn all(_: &StressClass, options: &LoadOptions) -> Result<StressLoad, StressError> {
    let worker = |(place, worker): (WorkerPlace, u64)| place.keep(computing(worker));
    let workers = places(options.processors).zip(0..).map(worker).collect();
    Ok(StressLoad::new(workers, LoadMost::Known(options.processors as f64)))
}

/// Makes the load of one computing thread, which may run on any processor.
pub(super) fn one(_: &StressClass, _: &LoadOptions) -> Result<StressLoad, StressError> {
    Ok(StressLoad::new(vec![computing(0)], LoadMost::Known(1.0)))
}

fn computing(seed: u64) -> WorkStep {
    let mut state = seed.wrapping_mul(2) + 1;
    Box::new(move || {
        let started = thread_time();
        for _ in 0..ROUNDS {
            // xorshift64 (Marsaglia 2003)
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
        }
        black_box(state);
        Ok(thread_time().saturating_sub(started).as_secs_f64())
    })
}

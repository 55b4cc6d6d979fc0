//! Loads on kernel services: context switches, locks, completions, open files.

use std::fs::{self, File};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use diskwright_probe::engine::ring::NopRing;
use rustix::io::{read, write};
use rustix::pipe::pipe;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::affinity::{WorkerCpu, cpus_repeated, spread_workers};
use super::{FullLevel, LoadOptions, StressLoad, WorkStep};
use crate::class::StressClass;
use crate::{StressError, io_error};

/// Round trips per step.
const ROUND_TRIPS_PER_STEP: usize = 16;
/// Completions processed together.
const COMPLETION_BATCH: u32 = 32;
/// Time for which a lock is held.
const LOCK_HOLD_TIME: Duration = Duration::from_millis(5);
/// Descriptors that stay free for the rest of the program.
const RESERVED_FILES: u64 = 64;
/// Largest number of files opened.
const MAX_FILES: u64 = 1 << 17;

fn pipe_error<E: Into<std::io::Error>>(error: E) -> StressError {
    io_error(Path::new("pipe"), "failed")(error)
}

/// Pairs of threads per processor that wake each other over pipes. Unpinned pairs often have their two threads on
/// different processors, each of which idles a fifth of the time until the other's wake-up arrives.
const PAIRS_PER_PROCESSOR: usize = 2;

/// Makes the load of context switches, with so many pairs that each processor always has a thread to switch to.
pub(super) fn context_switch_load(_: &StressClass, _: &LoadOptions) -> Result<StressLoad, StressError> {
    let pairs = cpus_repeated(PAIRS_PER_PROCESSOR).into_iter().map(ping_pong_step);
    Ok(StressLoad::new(pairs.collect::<Result<_, _>>()?, FullLevel::Measured))
}

/// Returns a step that sends a byte to a thread of the same processor, and waits for it to come back.
fn ping_pong_step(cpu: WorkerCpu) -> Result<WorkStep, StressError> {
    let (peer_input, our_output) = pipe().map_err(pipe_error)?;
    let (our_input, peer_output) = pipe().map_err(pipe_error)?;
    // the peer thread ends when our ends of the pipes are closed
    let echo = move || {
        let mut byte = [0];
        if cpu.pin_current_thread().is_ok() {
            while read(&peer_input, &mut byte).is_ok_and(|bytes| bytes > 0) && write(&peer_output, &byte).is_ok() {}
        }
    };
    std::thread::Builder::new().spawn(echo).map_err(crate::thread_error)?;
    Ok(cpu.pin_steps(Box::new(move || {
        let mut byte = [1];
        for _ in 0..ROUND_TRIPS_PER_STEP {
            write(&our_output, &byte).map_err(pipe_error)?;
            read(&our_input, &mut byte).map_err(pipe_error)?;
        }
        // a round trip is two switches
        Ok(2.0 * ROUND_TRIPS_PER_STEP as f64)
    })))
}

/// Makes the load of lock contention: threads take turns on one lock whose holder sleeps, without using the host.
pub(super) fn lock_load(_: &StressClass, _: &LoadOptions) -> Result<StressLoad, StressError> {
    let lock = Arc::new(Mutex::new(()));
    let worker = |_| -> WorkStep {
        let lock = Arc::clone(&lock);
        Box::new(move || {
            let guard = lock.lock().unwrap_or_else(PoisonError::into_inner);
            let start = Instant::now();
            crate::run::sleep_for(LOCK_HOLD_TIME);
            drop(guard);
            Ok(start.elapsed().as_secs_f64())
        })
    };
    Ok(StressLoad::new((0..24).map(worker).collect(), FullLevel::KnownRate(1.0)))
}

/// Makes the load of completions: one ring per processor with no-op requests, so that only submission and completion
/// remain.
pub(super) fn completion_load(_: &StressClass, options: &LoadOptions) -> Result<StressLoad, StressError> {
    let failed = |error| StressError::Unavailable(format!("no io_uring: {error}"));
    drop(NopRing::new(COMPLETION_BATCH).map_err(failed)?);
    let worker = |cpu: WorkerCpu| -> WorkStep {
        // a ring accepts requests only from the thread that created it, so each thread that runs the step has its own
        let mut thread_and_ring: Option<(ThreadId, NopRing)> = None;
        cpu.pin_steps(Box::new(move || {
            let current = std::thread::current().id();
            let usable = thread_and_ring.take().filter(|(thread, _)| *thread == current);
            let (_, ring) = thread_and_ring.insert(match usable {
                Some(usable) => usable,
                None => (current, NopRing::new(COMPLETION_BATCH).map_err(failed)?),
            });
            Ok(ring.run_batch().map_err(io_error(Path::new("io_uring"), "failed"))? as f64)
        }))
    };
    Ok(StressLoad::new(spread_workers(options.processors.max(1)).map(worker).collect(), FullLevel::Measured))
}

/// Returns how many more files all programs together may open, from the kernel's count (`/proc/sys/fs/file-nr`).
fn files_left(count: &str) -> Option<u64> {
    let mut words = count.split_whitespace().map(str::parse::<u64>);
    let (open, _, max) = (words.next()?.ok()?, words.next()?, words.next()?.ok()?);
    Some(max.saturating_sub(open))
}

/// Makes the load of open files: opens a share of the allowed descriptors, and keeps closing and opening one.
pub(super) fn descriptor_load(_: &StressClass, options: &LoadOptions) -> Result<StressLoad, StressError> {
    let limit = getrlimit(Resource::Nofile);
    let system = fs::read_to_string("/proc/sys/fs/file-nr").ok().and_then(|text| files_left(&text));
    // at most half of what the system allows, so that other programs can still open files
    let max_files = limit.maximum.unwrap_or(MAX_FILES).min(MAX_FILES).min(system.map_or(MAX_FILES, |left| left / 2));
    let raised = Rlimit { current: Some(max_files), maximum: limit.maximum };
    setrlimit(Resource::Nofile, raised).map_err(io_error(Path::new("descriptors"), "the limit cannot be raised"))?;
    let path: &'static Path = Path::new("/dev/null");
    let open = move || File::open(path).map_err(io_error(path, "no more files can be opened"));
    let count = (max_files.saturating_sub(RESERVED_FILES) as f64 * options.share) as u64;
    let mut files = (0..count).map(|_| open()).collect::<Result<Vec<_>, _>>()?;
    let reached_share = files.len() as f64 / max_files.saturating_sub(RESERVED_FILES).max(1) as f64;
    let step: WorkStep = Box::new(move || {
        drop(files.pop());
        files.push(open()?);
        crate::run::sleep_for(Duration::from_millis(5));
        Ok(1.0)
    });
    Ok(StressLoad::new(vec![step], FullLevel::Filled(Box::new(move || reached_share))))
}

#[cfg(test)]
mod tests {
    #[test]
    fn files_of_the_whole_system_are_counted() {
        assert_eq!(super::files_left("1200\t0\t9000\n"), Some(7800));
        assert_eq!((super::files_left("9\t0\t5\n"), super::files_left("")), (Some(0), None));
    }
}

//! Running a load: first as fast as possible, to measure the maximum, then at a share of it.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::Builder;
use std::time::{Duration, Instant};

use rustix::thread::{Timespec, nanosleep};
use serde::{Deserialize, Serialize};

use crate::StressError;
use crate::loads::{FullLevel, StressLoad, WorkStep};
use crate::pace::WorkPace;

/// Duration of a measurement.
const MEASUREMENT_TIME: Duration = Duration::from_secs(1);
/// Measurements are repeated until two in sequence differ by less than this share: pages touched for the first time are
/// fast, and a disk may slow down.
const SETTLED_SHARE: f64 = 0.05;
/// Largest number of measurements.
const MAX_MEASUREMENTS: usize = 8;
/// Duration of the trial of each number of workers.
const TRIAL_TIME: Duration = Duration::from_millis(600);
/// Smallest gain for which the number of workers is doubled.
const MIN_GAIN_OF_DOUBLING: f64 = 1.05;

/// Maximum of a load, and the number of workers that reach it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadMaximum {
    /// Units per second at 100 %.
    #[serde(rename = "most")]
    pub max_per_s: f64,
    /// Number of workers.
    pub workers: usize,
}

/// Result of a load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadOutcome {
    /// Units per second.
    pub per_s: f64,
    /// Share of the maximum.
    #[serde(rename = "reached")]
    pub reached_share: f64,
    /// Elapsed time, s.
    pub wall_s: f64,
}

/// Sleeps for a time; a signal may end the sleep early.
pub fn sleep_for(time: Duration) {
    if let Ok(time) = Timespec::try_from(time) {
        let _ = nanosleep(&time);
    }
}

/// Measures the maximum of a load.
///
/// # Errors
/// Those of the workers.
pub fn measure_maximum(load: &mut StressLoad, stop: &AtomicBool) -> Result<LoadMaximum, StressError> {
    let max_workers = load.workers.len();
    let mut workers = max_workers;
    match &load.full_level {
        FullLevel::KnownRate(max_per_s) => return Ok(LoadMaximum { max_per_s: *max_per_s, workers }),
        FullLevel::Filled(_) => return Ok(LoadMaximum { max_per_s: 1.0, workers }),
        FullLevel::Measured => {}
        FullLevel::MeasuredByDoubling => {
            workers = max_workers.min(4);
            let mut best_per_s = measure_unlimited(&mut load.workers[..workers], TRIAL_TIME, stop)?;
            while workers < max_workers {
                let doubled = (2 * workers).min(max_workers);
                let per_s = measure_unlimited(&mut load.workers[..doubled], TRIAL_TIME, stop)?;
                if per_s < best_per_s * MIN_GAIN_OF_DOUBLING {
                    break;
                }
                (workers, best_per_s) = (doubled, per_s);
            }
        }
    }
    measure_unlimited(&mut load.workers[..workers], load.warm_up, stop)?;
    let max_per_s = measure_until_settled(|| measure_unlimited(&mut load.workers[..workers], MEASUREMENT_TIME, stop))?;
    if max_per_s <= 0.0 && !stop.load(Ordering::Relaxed) {
        return Err(StressError::Unavailable("the load did nothing in two seconds".into()));
    }
    Ok(LoadMaximum { max_per_s, workers })
}

/// Repeats a measurement, and returns the mean of the first two in sequence that agree, or of the last two.
fn measure_until_settled(mut measure: impl FnMut() -> Result<f64, StressError>) -> Result<f64, StressError> {
    let mut previous = measure()?;
    for _ in 2..MAX_MEASUREMENTS {
        let current = measure()?;
        if (current - previous).abs() <= SETTLED_SHARE * previous {
            return Ok((previous + current) / 2.0);
        }
        previous = current;
    }
    Ok((previous + measure()?) / 2.0)
}

/// Runs workers as fast as possible, and returns the units that they do together in a second.
fn measure_unlimited(workers: &mut [WorkStep], duration: Duration, stop: &AtomicBool) -> Result<f64, StressError> {
    let (done, wall) = run_workers(workers, WorkPace::UNLIMITED, duration, stop)?;
    Ok(done / wall.as_secs_f64())
}

/// Runs a load at a share of its maximum.
///
/// # Errors
/// Those of the workers.
pub fn run_at_share(
    load: &mut StressLoad,
    scale: LoadMaximum,
    share: f64,
    duration: Duration,
    stop: &AtomicBool,
) -> Result<LoadOutcome, StressError> {
    let is_filled = matches!(load.full_level, FullLevel::Filled(_));
    let pace = if is_filled { WorkPace::UNLIMITED } else { WorkPace::at_share(share * scale.max_per_s, share) };
    let (done, wall) = run_workers(&mut load.workers[..scale.workers], pace, duration, stop)?;
    let wall_s = wall.as_secs_f64();
    let rate = match &load.full_level {
        FullLevel::Filled(filled) => filled(),
        _ => done / wall_s,
    };
    Ok(LoadOutcome { per_s: rate, reached_share: rate / scale.max_per_s, wall_s })
}

/// Units done by all workers together. They share one schedule, so that fast workers make up for slow ones.
#[derive(Default)]
struct SharedTotal(AtomicU64);

impl SharedTotal {
    fn add_units(&self, units: f64) {
        let sum = |bits| Some((f64::from_bits(bits) + units).to_bits());
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum);
    }

    fn get(&self) -> f64 {
        f64::from_bits(self.0.load(Ordering::Relaxed))
    }
}

/// Runs workers in parallel, and returns the units that they did together, and the elapsed time.
fn run_workers(
    workers: &mut [WorkStep],
    pace: WorkPace,
    duration: Duration,
    stop: &AtomicBool,
) -> Result<(f64, Duration), StressError> {
    run_workers_in(Builder::new, workers, pace, duration, stop)
}

/// Does what [`run_workers`] does, in threads that `new_thread` configures.
fn run_workers_in(
    new_thread: fn() -> Builder,
    workers: &mut [WorkStep],
    pace: WorkPace,
    duration: Duration,
    stop: &AtomicBool,
) -> Result<(f64, Duration), StressError> {
    let (total, failure) = (SharedTotal::default(), Mutex::new(None));
    let is_over = AtomicBool::new(false);
    let started = Instant::now();
    let fail = |error: StressError| {
        is_over.store(true, Ordering::Relaxed);
        failure.lock().unwrap_or_else(std::sync::PoisonError::into_inner).get_or_insert(error);
    };
    std::thread::scope(|scope| {
        for step in workers {
            let thread = new_thread().spawn_scoped(scope, || {
                let must_end =
                    || started.elapsed() >= duration || stop.load(Ordering::Relaxed) || is_over.load(Ordering::Relaxed);
                if let Err(error) = run_worker(step, pace, started, &total, &must_end) {
                    fail(error);
                }
            });
            if let Err(error) = thread {
                fail(crate::thread_error(error));
                break;
            }
        }
    });
    let wall = started.elapsed();
    if let Some(error) = failure.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner) {
        return Err(error);
    }
    Ok((total.get(), wall))
}

/// Does steps of one worker until `must_end` returns true.
fn run_worker(
    step: &mut WorkStep,
    pace: WorkPace,
    started: Instant,
    total: &SharedTotal,
    must_end: &dyn Fn() -> bool,
) -> Result<(), StressError> {
    let mut last_units = 0.0;
    while !must_end() {
        // a step starts when half of it is due: then the mean of a few large steps is right
        match pace.rest_before_step(total.get() + last_units / 2.0, started.elapsed()) {
            Some(time) => sleep_for(time),
            None => {
                let expected = if pace.counts_started_steps { last_units } else { 0.0 };
                total.add_units(expected);
                last_units = step()?;
                total.add_units(last_units - expected);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn sleeping_load(workers: usize, full_level: FullLevel) -> StressLoad {
        let step = || -> WorkStep {
            Box::new(|| {
                sleep_for(Duration::from_millis(1));
                Ok(1.0)
            })
        };
        StressLoad { workers: (0..workers).map(|_| step()).collect(), full_level, warm_up: Duration::ZERO }
    }

    #[test]
    fn a_known_maximum_is_not_measured_and_a_share_of_it_is_held() {
        let stop = AtomicBool::new(false);
        let mut load = sleeping_load(2, FullLevel::KnownRate(100.0));
        let scale = measure_maximum(&mut load, &stop).unwrap();
        assert_eq!(scale, LoadMaximum { max_per_s: 100.0, workers: 2 });
        let outcome = run_at_share(&mut load, scale, 0.5, Duration::from_millis(400), &stop).unwrap();
        // 20 steps are due; at most those and one step per worker are done, however slow the host
        assert!(outcome.per_s * outcome.wall_s <= 22.5 && outcome.per_s > 0.0, "{outcome:?}");
    }

    /// For example, pages that were never swapped out are touched fast.
    #[test]
    fn the_maximum_is_measured_after_the_warm_up() {
        let mut load = sleeping_load(1, FullLevel::Measured);
        load.warm_up = Duration::from_millis(1500);
        // 1 ms per step for the first second of work, then 20 ms
        let mut worked = Duration::ZERO;
        load.workers[0] = Box::new(move || {
            let long = if worked < Duration::from_secs(1) { 1 } else { 20 };
            let started = Instant::now();
            sleep_for(Duration::from_millis(long));
            worked += started.elapsed();
            Ok(1.0)
        });
        let scale = measure_maximum(&mut load, &AtomicBool::new(false)).unwrap();
        // at first it is many hundreds per second; a busy host does less than 50
        assert!(scale.max_per_s > 0.0 && scale.max_per_s <= 51.0, "{scale:?}");
    }

    #[test]
    fn the_maximum_is_where_measurements_settle() {
        let measured = |values: &[f64]| {
            let mut values = values.iter().copied();
            let max_per_s = measure_until_settled(|| Ok(values.next().unwrap())).unwrap();
            (max_per_s, values.len())
        };
        // fast at first
        assert_eq!(measured(&[107.0, 60.0, 43.0, 44.0, 1.0]), (43.5, 1));
        assert_eq!(measured(&[100.0, 104.0, 1.0]), (102.0, 1));
        // it never settles: the mean of the last two
        assert_eq!(measured(&[1.0, 2.0, 1.0, 2.0, 1.0, 2.0, 1.0, 3.0, 9.0]), (2.0, 1));
        // zero is a valid result
        assert_eq!(measured(&[0.0, 0.0, 1.0]), (0.0, 1));
    }

    #[test]
    fn a_worker_rests_when_all_together_are_ahead() {
        let steps = |done: f64| {
            let total = SharedTotal::default();
            total.add_units(done);
            let started = Instant::now();
            let must_end = || started.elapsed() >= Duration::from_millis(30) || total.get() > done + 9.0;
            let mut step: WorkStep = Box::new(|| Ok(1.0));
            run_worker(&mut step, WorkPace::at_share(100.0, 0.5), started - Duration::from_secs(1), &total, &must_end)
                .unwrap();
            total.get() - done
        };
        // after a second 100 are due: the others are far ahead, or have done nothing
        assert_eq!((steps(1e9), steps(0.0)), (0.0, 10.0));
    }

    #[test]
    fn below_the_maximum_a_step_counts_from_its_start() {
        let seen_by_others = |pace: WorkPace| {
            let (total, seen) = (Arc::new(SharedTotal::default()), Arc::new(Mutex::new(Vec::new())));
            let (their_total, their_seen) = (Arc::clone(&total), Arc::clone(&seen));
            let mut step: WorkStep = Box::new(move || {
                their_seen.lock().unwrap().push(their_total.get());
                Ok(1.0)
            });
            let started = Instant::now() - Duration::from_secs(1);
            run_worker(&mut step, pace, started, &total, &|| total.get() >= 3.0).unwrap();
            assert_eq!(total.get(), 3.0);
            seen.lock().unwrap().clone()
        };
        // the size of steps is known after the first
        assert_eq!(seen_by_others(WorkPace::at_share(1e9, 0.5)), [0.0, 2.0, 3.0]);
        assert_eq!(seen_by_others(WorkPace::at_share(1e9, 1.0)), [0.0, 1.0, 2.0]);
        assert_eq!(seen_by_others(WorkPace::UNLIMITED), [0.0, 1.0, 2.0]);
    }

    #[test]
    fn a_filled_share_counts_and_a_failed_worker_ends_all() {
        let stop = AtomicBool::new(false);
        let mut filled = sleeping_load(1, FullLevel::Filled(Box::new(|| 0.9)));
        let one = LoadMaximum { max_per_s: 1.0, workers: 1 };
        let outcome = run_at_share(&mut filled, one, 0.9, Duration::from_millis(20), &stop).unwrap();
        assert_eq!((outcome.per_s, outcome.reached_share), (0.9, 0.9));
        let mut broken = sleeping_load(1, FullLevel::Measured);
        broken.workers.push(Box::new(|| Err(StressError::Unavailable("gone".into()))));
        let started = Instant::now();
        let two = LoadMaximum { max_per_s: 1.0, workers: 2 };
        assert!(run_at_share(&mut broken, two, 1.0, Duration::from_secs(600), &stop).is_err());
        assert!(started.elapsed() < Duration::from_secs(60));
    }

    /// No host has enough memory for a stack of this size.
    #[test]
    fn reports_why_a_thread_cannot_be_started() {
        let mut workers = sleeping_load(2, FullLevel::Measured).workers;
        let new = || Builder::new().stack_size(1 << 50);
        let outcome =
            run_workers_in(new, &mut workers, WorkPace::UNLIMITED, Duration::from_secs(600), &AtomicBool::new(false));
        let message = outcome.unwrap_err().to_string();
        assert!(message.starts_with("threads: no more can be started: "), "{message}");
    }

    #[test]
    fn a_stop_ends_a_load() {
        let stop = AtomicBool::new(true);
        let two = LoadMaximum { max_per_s: 1.0, workers: 2 };
        let outcome =
            run_at_share(&mut sleeping_load(2, FullLevel::Measured), two, 1.0, Duration::from_secs(600), &stop)
                .unwrap();
        assert!(outcome.wall_s < 60.0);
    }
}

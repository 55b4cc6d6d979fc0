//! A load made to run: first as fast as it goes, to know the most, then at a share of that.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::thread::{Timespec, nanosleep};
use serde::{Deserialize, Serialize};

use crate::StressError;
use crate::loads::{LoadMost, StressLoad, WorkStep};
use crate::pace::WorkPace;

/// How long a load runs as fast as it goes before that is measured, and how long it is measured.
const WARM_UP: Duration = Duration::from_millis(500);
const MEASURED: Duration = Duration::from_secs(2);
/// How long each number of workers is tried.
const TRIED: Duration = Duration::from_millis(600);
/// More workers are worth having where twice as many bring so much more.
const WORTH: f64 = 1.05;

/// What the most is, and by how many workers it is reached.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadScale {
    /// Units a second at 100 %.
    pub most: f64,
    /// Workers.
    pub workers: usize,
}

/// What came out of a load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadOutcome {
    /// Units a second.
    pub per_s: f64,
    /// Of the most.
    pub reached: f64,
    /// Seconds.
    pub wall_s: f64,
}

/// Sleeps; a signal ends it early.
pub fn rest(time: Duration) {
    if let Ok(time) = Timespec::try_from(time) {
        let _ = nanosleep(&time);
    }
}

/// Finds the most.
///
/// # Errors
/// Those of the workers.
pub fn scale(load: &mut StressLoad, stop: &AtomicBool) -> Result<LoadScale, StressError> {
    let all = load.workers.len();
    let mut workers = all;
    match &load.most {
        LoadMost::Known(most) => return Ok(LoadScale { most: *most, workers }),
        LoadMost::Filled(_) => return Ok(LoadScale { most: 1.0, workers }),
        LoadMost::Measured => {}
        LoadMost::MeasuredByDoubling => {
            workers = all.min(4);
            let mut best = as_fast_as_it_goes(&mut load.workers[..workers], TRIED, stop)?;
            while workers < all {
                let more = (2 * workers).min(all);
                let found = as_fast_as_it_goes(&mut load.workers[..more], TRIED, stop)?;
                if found < best * WORTH {
                    break;
                }
                (workers, best) = (more, found);
            }
        }
    }
    as_fast_as_it_goes(&mut load.workers[..workers], WARM_UP, stop)?;
    let most = as_fast_as_it_goes(&mut load.workers[..workers], MEASURED, stop)?;
    if most <= 0.0 && !stop.load(Ordering::Relaxed) {
        return Err(StressError::Unavailable("the load did nothing in two seconds".into()));
    }
    Ok(LoadScale { most, workers })
}

fn as_fast_as_it_goes(workers: &mut [WorkStep], lasts: Duration, stop: &AtomicBool) -> Result<f64, StressError> {
    let (done, wall) = work(workers, WorkPace { per_s: f64::INFINITY }, lasts, stop)?;
    Ok(done / wall.as_secs_f64())
}

/// Holds a share of the most.
///
/// # Errors
/// Those of the workers.
pub fn hold(
    load: &mut StressLoad,
    scale: LoadScale,
    share: f64,
    lasts: Duration,
    stop: &AtomicBool,
) -> Result<LoadOutcome, StressError> {
    let per_worker = share * scale.most / scale.workers as f64;
    let per_s = if matches!(load.most, LoadMost::Filled(_)) { f64::INFINITY } else { per_worker };
    let (done, wall) = work(&mut load.workers[..scale.workers], WorkPace { per_s }, lasts, stop)?;
    let wall_s = wall.as_secs_f64();
    let rate = match &load.most {
        LoadMost::Filled(filled) => filled(),
        _ => done / wall_s,
    };
    Ok(LoadOutcome { per_s: rate, reached: rate / scale.most, wall_s })
}

/// Lets workers work side by side, and gives what they did together and how long that was.
fn work(
    workers: &mut [WorkStep],
    pace: WorkPace,
    lasts: Duration,
    stop: &AtomicBool,
) -> Result<(f64, Duration), StressError> {
    let (total, failure) = (Mutex::new(0.0), Mutex::new(None));
    let is_over = AtomicBool::new(false);
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for step in workers {
            scope.spawn(|| {
                let result =
                    one(step, pace, begun, lasts, &|| stop.load(Ordering::Relaxed) || is_over.load(Ordering::Relaxed));
                match result {
                    Ok(done) => *total.lock().unwrap_or_else(std::sync::PoisonError::into_inner) += done,
                    Err(error) => {
                        is_over.store(true, Ordering::Relaxed);
                        failure.lock().unwrap_or_else(std::sync::PoisonError::into_inner).get_or_insert(error);
                    }
                }
            });
        }
    });
    let wall = begun.elapsed();
    if let Some(error) = failure.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner) {
        return Err(error);
    }
    Ok((total.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner), wall))
}

fn one(
    step: &mut WorkStep,
    pace: WorkPace,
    begun: Instant,
    lasts: Duration,
    is_over: &dyn Fn() -> bool,
) -> Result<f64, StressError> {
    let (mut done, mut last) = (0.0, 0.0);
    loop {
        let elapsed = begun.elapsed();
        if elapsed >= lasts || is_over() {
            return Ok(done);
        }
        // half a step early as often as half a step late: the mean of few large steps is right as well
        match pace.rest(done + last / 2.0, elapsed) {
            Some(time) => rest(time),
            None => {
                last = step()?;
                done += last;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(workers: usize, most: LoadMost) -> StressLoad {
        let step = || -> WorkStep {
            Box::new(|| {
                rest(Duration::from_millis(1));
                Ok(1.0)
            })
        };
        StressLoad { workers: (0..workers).map(|_| step()).collect(), most }
    }

    #[test]
    fn a_known_most_is_not_measured_and_a_share_of_it_is_held() {
        let stop = AtomicBool::new(false);
        let mut load = load(2, LoadMost::Known(100.0));
        let scale = scale(&mut load, &stop).unwrap();
        assert_eq!(scale, LoadScale { most: 100.0, workers: 2 });
        let outcome = hold(&mut load, scale, 0.5, Duration::from_millis(400), &stop).unwrap();
        // 20 steps are due; more than those and a step of each worker cannot be, however late the machine
        assert!(outcome.per_s * outcome.wall_s <= 22.5 && outcome.per_s > 0.0, "{outcome:?}");
    }

    #[test]
    fn what_is_filled_counts_as_full_and_a_failed_worker_ends_all() {
        let stop = AtomicBool::new(false);
        let mut filled = load(1, LoadMost::Filled(Box::new(|| 0.9)));
        let one = LoadScale { most: 1.0, workers: 1 };
        let outcome = hold(&mut filled, one, 0.9, Duration::from_millis(20), &stop).unwrap();
        assert_eq!((outcome.per_s, outcome.reached), (0.9, 0.9));
        let mut broken = load(1, LoadMost::Measured);
        broken.workers.push(Box::new(|| Err(StressError::Unavailable("gone".into()))));
        let begun = Instant::now();
        let two = LoadScale { most: 1.0, workers: 2 };
        assert!(hold(&mut broken, two, 1.0, Duration::from_secs(600), &stop).is_err());
        assert!(begun.elapsed() < Duration::from_secs(60));
    }

    #[test]
    fn a_stop_ends_a_load() {
        let stop = AtomicBool::new(true);
        let two = LoadScale { most: 1.0, workers: 2 };
        let outcome = hold(&mut load(2, LoadMost::Measured), two, 1.0, Duration::from_secs(600), &stop).unwrap();
        assert!(outcome.wall_s < 60.0);
    }
}

//! Users who run operations, and their latencies. A user of a closed load thinks, starts an operation, waits for it and
//! thinks again; latency counts from the start. With a rate, operations are due at times that no completion delays
//! (with exponential gaps from a seed), and latency counts from the due time: a late completion delays the operations
//! behind it, and their latencies show that.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use diskwright_base::{Histogram, Rng};
use rustix::thread::nanosleep;
use serde::Serialize;

use crate::{WorkError, check_stop, thread_error};

/// Largest rate, operations per second: due times are whole nanoseconds.
const MAX_RATE_PER_S: f64 = 1e9;
/// Number of operations not started above which their number is calculated from the rate, not drawn one by one.
const MAX_DRAWN_NOT_STARTED: f64 = 1e6;
/// Interval at which a waiting user checks whether to stop.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Number, pace and duration of users.
#[derive(Clone, Debug)]
pub struct UserOptions {
    /// Number of concurrent users, each a thread.
    pub users: usize,
    /// Mean think time between the end of an operation and the next operation (exponential).
    pub mean_think_time: Duration,
    /// Operations due per second, of all users together; `None` if completions set the pace.
    pub rate_per_s: Option<f64>,
    /// Duration of the run.
    pub duration: Duration,
    /// Seed of operations and pauses.
    pub seed: u64,
}

/// A workload: the operations that users run.
pub trait Work: Sync {
    /// State of a user.
    type User: Send;

    /// Names of the operations, in the order of their numbers.
    fn operation_names(&self) -> &'static [&'static str];

    /// Creates a user, before anything is measured.
    ///
    /// # Errors
    /// When its files cannot be opened.
    fn create_user(&self, number: usize) -> Result<Self::User, WorkError>;

    /// Runs one operation; returns its number, and the bytes of files that it read or wrote.
    ///
    /// # Errors
    /// When a file fails, or its content is wrong.
    fn run_operation(&self, user: &mut Self::User, rng: &mut Rng) -> Result<(usize, u64), WorkError>;

    /// Reads back the data that only this user knows, after the measurement, and checks them.
    ///
    /// # Errors
    /// When data are not as they were written.
    fn verify_user(&self, _: Self::User, _: &AtomicBool) -> Result<(), WorkError> {
        Ok(())
    }
}

/// Mean, percentiles and maximum of latencies, s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct LatencySummary {
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// Longest latency.
    pub max: f64,
}

impl LatencySummary {
    /// Summarizes a histogram of nanoseconds; `None` if it is empty.
    #[must_use]
    pub fn from_histogram(histogram: &Histogram) -> Option<LatencySummary> {
        let quantile = |share: f64| histogram.quantile(share).map(|ns| ns / 1e9);
        Some(LatencySummary {
            mean: histogram.mean()? / 1e9,
            p50: quantile(0.5)?,
            p95: quantile(0.95)?,
            p99: quantile(0.99)?,
            p999: quantile(0.999)?,
            max: histogram.max()? as f64 / 1e9,
        })
    }
}

/// Result of one kind of operation, over all users.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OperationOutcome {
    /// Name of the operation.
    pub operation: &'static str,
    /// Number of operations done.
    pub done: u64,
    /// Operations per second.
    pub per_s: f64,
    /// Bytes of files read or written.
    pub bytes: u64,
    /// Latency from the due time (with a rate) or from the start to the end; `None` if no operation was done.
    pub latency_s: Option<LatencySummary>,
}

/// Result of a run over all users.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct UserOutcome {
    /// Time from the start of the first user to the end of the last user, s.
    pub wall_s: f64,
    /// Processor time of the users' threads, s.
    pub cpu_s: f64,
    /// Number of operations that were due but not started when the time was over; no latency includes them.
    #[serde(rename = "left")]
    pub not_started: u64,
    /// Results by kind of operation.
    pub operations: Vec<OperationOutcome>,
}

/// Progress and stop flag of a run, shared with its caller.
#[derive(Clone, Debug, Default)]
pub struct RunControl {
    /// Number of operations done.
    pub done: Arc<AtomicU64>,
    /// Set to stop the run.
    pub stop: Arc<AtomicBool>,
}

/// Measurements of one user.
struct UserResult {
    /// Latencies by operation, nanoseconds.
    histograms: Vec<Histogram>,
    /// Bytes by operation.
    bytes: Vec<u64>,
    cpu_time: Duration,
    not_started: u64,
}

impl UserOptions {
    /// Checks the options.
    ///
    /// # Errors
    /// Says which option is impossible.
    pub fn check_limits(&self) -> Result<(), WorkError> {
        if !(1..=4096).contains(&self.users) {
            return Err(WorkError::Usage(format!("{} users; expected 1 to 4096", self.users)));
        }
        match self.rate_per_s {
            Some(rate) if !(rate > 0.0 && rate <= MAX_RATE_PER_S) => Err(WorkError::Usage(format!(
                "a rate of {rate} operations a second; expected a number above 0 and up to {MAX_RATE_PER_S}"
            ))),
            _ => Ok(()),
        }
    }
}

/// Runs users for the duration in the options.
///
/// # Errors
/// The first error of a user, which ends the run for all.
pub fn run<W: Work>(work: &W, options: &UserOptions, control: &RunControl) -> Result<UserOutcome, WorkError> {
    options.check_limits()?;
    let users = (0..options.users).map(|number| work.create_user(number)).collect::<Result<Vec<_>, _>>()?;
    let (started, has_failed) = (Instant::now(), AtomicBool::new(false));
    let results = std::thread::scope(|scope| {
        let (options, has_failed) = (&options, &has_failed);
        let start_user = move |(number, user): (usize, W::User)| {
            let thread = std::thread::Builder::new().spawn_scoped(scope, move || {
                let result = UserLoop { work, options, control, started, has_failed }.run(number, user);
                has_failed.fetch_or(result.is_err(), Ordering::Relaxed);
                result
            });
            has_failed.fetch_or(thread.is_err(), Ordering::Relaxed);
            thread.map_err(thread_error)
        };
        let threads: Vec<_> = users.into_iter().enumerate().map(start_user).collect();
        let join = |thread: Result<std::thread::ScopedJoinHandle<'_, _>, WorkError>| {
            thread.and_then(|thread| thread.join().expect("a user's thread"))
        };
        threads.into_iter().map(join).collect::<Vec<Result<(UserResult, W::User), WorkError>>>()
    });
    let wall_s = started.elapsed().as_secs_f64();
    let (results, users): (Vec<_>, Vec<_>) = results.into_iter().collect::<Result<Vec<_>, _>>()?.into_iter().unzip();
    check_stop(&control.stop)?;
    users.into_iter().try_for_each(|user| work.verify_user(user, &control.stop))?;
    Ok(summarize_results(work.operation_names(), &results, wall_s))
}

fn summarize_results(names: &'static [&'static str], results: &[UserResult], wall_s: f64) -> UserOutcome {
    let summarize_operation = |(number, name): (usize, &&'static str)| {
        let mut histogram = Histogram::new();
        results.iter().for_each(|result| histogram.merge(&result.histograms[number]));
        OperationOutcome {
            operation: name,
            done: histogram.count(),
            per_s: histogram.count() as f64 / wall_s,
            bytes: results.iter().map(|result| result.bytes[number]).sum(),
            latency_s: LatencySummary::from_histogram(&histogram),
        }
    };
    UserOutcome {
        wall_s,
        cpu_s: results.iter().map(|result| result.cpu_time.as_secs_f64()).sum(),
        not_started: results.iter().map(|result| result.not_started).sum(),
        operations: names.iter().enumerate().map(summarize_operation).collect(),
    }
}

/// Loop of one user.
struct UserLoop<'a, W> {
    work: &'a W,
    options: &'a UserOptions,
    control: &'a RunControl,
    started: Instant,
    /// Another user has failed.
    has_failed: &'a AtomicBool,
}

impl<W: Work> UserLoop<'_, W> {
    fn run(&self, number: usize, mut user: W::User) -> Result<(UserResult, W::User), WorkError> {
        // without timer slack, a sleep ends when an operation is due, not up to 50 us later, which would add to latency
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let kinds = self.work.operation_names().len();
        let (mut histograms, mut bytes) = (vec![Histogram::new(); kinds], vec![0; kinds]);
        // operations and pauses of a user are drawn independently
        let mut rng = Rng::new(self.options.seed, 2 * number as u64);
        let mut pause_rng = Rng::new(self.options.seed, 2 * number as u64 + 1);
        let (cpu_at_start, mut due) = (crate::clock::thread_time(), self.started);
        loop {
            let latency_start = self.wait_for_next(&mut due, &mut pause_rng);
            if self.is_over() || latency_start >= self.started + self.options.duration {
                break;
            }
            let (kind, moved_bytes) = self.work.run_operation(&mut user, &mut rng)?;
            assert!(kind < kinds, "an operation without a name");
            histograms[kind].record(u64::try_from(latency_start.elapsed().as_nanos()).unwrap_or(u64::MAX));
            bytes[kind] += moved_bytes;
            self.control.done.fetch_add(1, Ordering::Relaxed);
        }
        let cpu_time = crate::clock::thread_time().saturating_sub(cpu_at_start);
        let not_started = self.count_not_started(due, &mut pause_rng);
        Ok((UserResult { histograms, bytes, cpu_time, not_started }, user))
    }

    fn is_over(&self) -> bool {
        let has_ended = self.started.elapsed() >= self.options.duration;
        has_ended || self.control.stop.load(Ordering::Relaxed) || self.has_failed.load(Ordering::Relaxed)
    }

    /// Waits until the next operation, and returns the time from which its latency counts.
    fn wait_for_next(&self, due: &mut Instant, rng: &mut Rng) -> Instant {
        let Some(gap) = self.draw_gap(rng) else {
            let think_s = self.options.mean_think_time.as_secs_f64();
            if think_s > 0.0 {
                self.sleep_until(Instant::now() + self.draw_pause(rng, think_s));
            }
            return Instant::now();
        };
        *due += gap;
        self.sleep_until(*due);
        *due
    }

    /// Draws the time between two due operations of one user; `None` if completions set the pace.
    fn draw_gap(&self, rng: &mut Rng) -> Option<Duration> {
        let rate = self.options.rate_per_s? / self.options.users as f64;
        Some(self.draw_pause(rng, 1.0 / rate))
    }

    /// Draws an exponential pause with this mean in seconds, limited to slightly more than the duration of the run.
    fn draw_pause(&self, rng: &mut Rng, mean_s: f64) -> Duration {
        let max_s = self.options.duration.as_secs_f64() + 1.0;
        Duration::from_secs_f64(rng.draw_exponential(mean_s).min(max_s))
    }

    /// Sleeps until a time, or until the run is over.
    fn sleep_until(&self, due: Instant) {
        while !self.is_over() {
            let pause = due.saturating_duration_since(Instant::now()).min(STOP_CHECK_INTERVAL);
            if pause.is_zero() {
                return;
            }
            let time = rustix::time::Timespec { tv_sec: 0, tv_nsec: i64::from(pause.subsec_nanos()) };
            // a signal may end the sleep early, which the loop handles
            let _ = nanosleep(&time);
        }
    }

    /// Counts operations that were due within the duration and were not started.
    fn count_not_started(&self, mut due: Instant, rng: &mut Rng) -> u64 {
        let end = self.started + self.options.duration;
        if self.options.rate_per_s.is_none() || due >= end {
            return 0;
        }
        let rate = self.options.rate_per_s.unwrap_or_default() / self.options.users as f64;
        let expected = rate * (end - due).as_secs_f64();
        if expected > MAX_DRAWN_NOT_STARTED {
            // the standard deviation of a drawn number would be below a thousandth of it
            return expected as u64;
        }
        let mut not_started = 0;
        while due < end {
            not_started += 1;
            due += self.draw_gap(rng).unwrap_or(self.options.duration);
        }
        not_started
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A workload whose operations take the usual time, except for the third of each user.
    struct SlowThirdOperation {
        usual: Duration,
        third: Duration,
    }

    impl Work for SlowThirdOperation {
        type User = u32;

        fn operation_names(&self) -> &'static [&'static str] {
            &["slow"]
        }

        fn create_user(&self, _: usize) -> Result<u32, WorkError> {
            Ok(0)
        }

        fn run_operation(&self, user: &mut u32, _: &mut Rng) -> Result<(usize, u64), WorkError> {
            *user += 1;
            let time = if *user == 3 { self.third } else { self.usual };
            let _ = nanosleep(&rustix::time::Timespec { tv_sec: 0, tv_nsec: time.as_nanos() as i64 });
            Ok((0, 10))
        }
    }

    fn options(users: usize, rate: Option<f64>) -> UserOptions {
        UserOptions {
            users,
            mean_think_time: Duration::ZERO,
            rate_per_s: rate,
            duration: Duration::from_millis(600),
            seed: 1,
        }
    }

    #[test]
    fn a_stall_delays_all_operations_due_meanwhile() {
        let work = SlowThirdOperation { usual: Duration::from_micros(100), third: Duration::from_millis(300) };
        let paced = run(&work, &options(1, Some(200.0)), &RunControl::default()).unwrap();
        let closed = run(&work, &options(1, None), &RunControl::default()).unwrap();
        let latency = |outcome: &UserOutcome| outcome.operations[0].latency_s.unwrap();
        // about 60 of 120 operations were due during the stall and waited 150 ms on average
        assert!(latency(&paced).mean > 0.03, "{paced:?}");
        assert!(latency(&closed).p50 < 0.03 && latency(&closed).max >= 0.3, "{closed:?}");
        assert!(paced.operations[0].done > 60 && paced.operations[0].bytes == 10 * paced.operations[0].done);
    }

    #[test]
    fn counts_operations_due_and_not_started() {
        let work = SlowThirdOperation { usual: Duration::from_millis(20), third: Duration::from_millis(20) };
        let paced = run(&work, &options(2, Some(1000.0)), &RunControl::default()).unwrap();
        let all = paced.operations[0].done + paced.not_started;
        assert!((450..=750).contains(&all) && paced.not_started > 300, "{paced:?}");
    }

    #[test]
    fn stops_on_request_and_rejects_impossible_options() {
        let watch = RunControl::default();
        watch.stop.store(true, Ordering::Relaxed);
        let work = SlowThirdOperation { usual: Duration::ZERO, third: Duration::ZERO };
        assert!(matches!(run(&work, &options(3, None), &watch), Err(WorkError::Stopped)));
        for wrong in [options(0, None), options(4097, None), options(1, Some(0.0)), options(1, Some(f64::NAN))] {
            assert!(matches!(run(&work, &wrong, &RunControl::default()), Err(WorkError::Usage(_))));
        }
        assert!(
            options(1, Some(f64::INFINITY)).check_limits().is_err() && options(1, Some(1e9)).check_limits().is_ok()
        );
    }

    #[test]
    fn pauses_and_rates_of_any_size_end_with_the_work() {
        let work = SlowThirdOperation { usual: Duration::from_millis(1), third: Duration::from_millis(1) };
        let think = UserOptions { mean_think_time: Duration::from_secs(8_640_000_000), ..options(2, None) };
        assert_eq!(run(&work, &think, &RunControl::default()).unwrap().operations[0].done, 0);
        let rare = run(&work, &options(2, Some(f64::MIN_POSITIVE)), &RunControl::default()).unwrap();
        assert_eq!((rare.operations[0].done, rare.not_started), (0, 0));
        let often = run(&work, &options(2, Some(1e9)), &RunControl::default()).unwrap();
        // 600 million were due
        let all = (often.operations[0].done + often.not_started) as f64;
        assert!((all / 6e8 - 1.0).abs() < 0.01, "{often:?}");
    }

    /// A workload whose second user fails the verification.
    struct FailingVerification;

    impl Work for FailingVerification {
        type User = u32;

        fn operation_names(&self) -> &'static [&'static str] {
            &["put"]
        }

        fn create_user(&self, number: usize) -> Result<u32, WorkError> {
            Ok(number as u32)
        }

        fn run_operation(&self, _: &mut u32, _: &mut Rng) -> Result<(usize, u64), WorkError> {
            Ok((0, 0))
        }

        fn verify_user(&self, user: u32, _: &AtomicBool) -> Result<(), WorkError> {
            if user == 1 { Err(WorkError::VerificationFailed("lost".into())) } else { Ok(()) }
        }
    }

    #[test]
    fn verifies_each_user_at_the_end() {
        let short = |users| UserOptions { duration: Duration::from_millis(5), ..options(users, None) };
        assert!(run(&FailingVerification, &short(1), &RunControl::default()).is_ok());
        assert!(matches!(
            run(&FailingVerification, &short(3), &RunControl::default()),
            Err(WorkError::VerificationFailed(_))
        ));
    }
}

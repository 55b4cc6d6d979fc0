//! Users who run operations, and their latencies. A user of a closed load thinks, starts an operation, waits for it and
//! thinks again; latency counts from the start. With a rate, operations are due at times that no completion delays
//! (exponential gaps, a seed), and latency counts from the time an operation was due: a late completion delays the
//! operations behind it, and the latencies show that.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use diskwright_base::{Histogram, Rng};
use rustix::thread::nanosleep;
use serde::Serialize;

use crate::{WorkError, go_on, no_thread};

/// Largest rate, operations per second: due times are whole nanoseconds.
const MOST_RATE: f64 = 1e9;
/// Above this number, operations not started are calculated from the rate and not drawn one by one.
const MANY: f64 = 1e6;
/// Interval of checking whether to stop.
const NAP: Duration = Duration::from_millis(50);

/// Number, pace and duration of users.
#[derive(Clone, Debug)]
pub struct UserOptions {
    /// Number of concurrent users, each a thread.
    pub users: usize,
    /// Mean think time between an operation's end and the next operation (exponential).
    pub think: Duration,
    /// Operations due per second, of all users together; None: completions set the pace.
    pub rate: Option<f64>,
    /// Duration of the run.
    pub lasts: Duration,
    /// Seed.
    pub seed: u64,
}

/// A workload: the operations that users run.
pub trait Work: Sync {
    /// State of a user.
    type User: Send;

    /// Names of the operations, in the order of their numbers.
    fn operations(&self) -> &'static [&'static str];

    /// Creates a user, before anything is measured.
    ///
    /// # Errors
    /// When its files cannot be opened.
    fn user(&self, number: usize) -> Result<Self::User, WorkError>;

    /// Runs one operation; returns its number, and the bytes of files that it read or wrote.
    ///
    /// # Errors
    /// When a file fails, or its content is wrong.
    fn operate(&self, user: &mut Self::User, rng: &mut Rng) -> Result<(usize, u64), WorkError>;

    /// Reads back and checks data that only this user knows, after the measurement.
    ///
    /// # Errors
    /// Data that is not as it was written.
    fn read_back(&self, _: Self::User, _: &AtomicBool) -> Result<(), WorkError> {
        Ok(())
    }
}

/// Percentiles of a time, s.
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
    /// Longest.
    pub max: f64,
}

impl LatencySummary {
    /// Summarizes a histogram of nanoseconds; None if it is empty.
    #[must_use]
    pub fn of(histogram: &Histogram) -> Option<LatencySummary> {
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
    /// Latency from the due time (with a rate) or from the start to the end; None if no operation was done.
    pub latency_s: Option<LatencySummary>,
}

/// Result of a run over all users.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct UserOutcome {
    /// Time from the first user's start to the last one's end, s.
    pub wall_s: f64,
    /// Processor time of the users' threads, s.
    pub cpu_s: f64,
    /// Operations that were due and not started when the time was over; no latency includes them.
    #[serde(rename = "left")]
    pub left: u64,
    /// Results by kind of operation.
    pub operations: Vec<OperationOutcome>,
}

/// Progress and stop flag of a run, shared with its caller.
#[derive(Clone, Debug, Default)]
pub struct UserWatch {
    /// Number of operations done.
    pub done: Arc<AtomicU64>,
    /// Set to stop the run.
    pub stop: Arc<AtomicBool>,
}

/// Measurements of one user.
struct UserResult {
    histograms: Vec<Histogram>,
    bytes: Vec<u64>,
    cpu: Duration,
    left: u64,
}

impl UserOptions {
    /// Checks the options.
    ///
    /// # Errors
    /// A sentence about the impossible option.
    pub fn check(&self) -> Result<(), WorkError> {
        if !(1..=4096).contains(&self.users) {
            return Err(WorkError::Usage(format!("{} users; expected 1 to 4096", self.users)));
        }
        match self.rate {
            Some(rate) if !(rate > 0.0 && rate <= MOST_RATE) => Err(WorkError::Usage(format!(
                "a rate of {rate} operations a second; expected a number above 0 and up to {MOST_RATE}"
            ))),
            _ => Ok(()),
        }
    }
}

/// Runs users for the duration in the options.
///
/// # Errors
/// The first error of a user, which ends the run for all.
pub fn run<W: Work>(work: &W, options: &UserOptions, watch: &UserWatch) -> Result<UserOutcome, WorkError> {
    options.check()?;
    let users = (0..options.users).map(|number| work.user(number)).collect::<Result<Vec<_>, _>>()?;
    let (begun, failed) = (Instant::now(), AtomicBool::new(false));
    let results = std::thread::scope(|scope| {
        let (options, failed) = (&options, &failed);
        let start = move |(number, user): (usize, W::User)| {
            let thread = std::thread::Builder::new().spawn_scoped(scope, move || {
                let result = UserLoop { work, options, watch, begun, failed }.run(number, user);
                failed.fetch_or(result.is_err(), Ordering::Relaxed);
                result
            });
            failed.fetch_or(thread.is_err(), Ordering::Relaxed);
            thread.map_err(no_thread)
        };
        let threads: Vec<_> = users.into_iter().enumerate().map(start).collect();
        let join = |thread: Result<std::thread::ScopedJoinHandle<'_, _>, WorkError>| {
            thread.and_then(|thread| thread.join().expect("a user's thread"))
        };
        threads.into_iter().map(join).collect::<Vec<Result<(UserResult, W::User), WorkError>>>()
    });
    let wall_s = begun.elapsed().as_secs_f64();
    let (results, users): (Vec<_>, Vec<_>) = results.into_iter().collect::<Result<Vec<_>, _>>()?.into_iter().unzip();
    go_on(&watch.stop)?;
    users.into_iter().try_for_each(|user| work.read_back(user, &watch.stop))?;
    Ok(outcome(work.operations(), &results, wall_s))
}

fn outcome(names: &'static [&'static str], results: &[UserResult], wall_s: f64) -> UserOutcome {
    let operation = |(number, name): (usize, &&'static str)| {
        let mut all = Histogram::new();
        results.iter().for_each(|result| all.merge(&result.histograms[number]));
        OperationOutcome {
            operation: name,
            done: all.count(),
            per_s: all.count() as f64 / wall_s,
            bytes: results.iter().map(|result| result.bytes[number]).sum(),
            latency_s: LatencySummary::of(&all),
        }
    };
    UserOutcome {
        wall_s,
        cpu_s: results.iter().map(|result| result.cpu.as_secs_f64()).sum(),
        left: results.iter().map(|result| result.left).sum(),
        operations: names.iter().enumerate().map(operation).collect(),
    }
}

/// Loop of one user.
struct UserLoop<'a, W> {
    work: &'a W,
    options: &'a UserOptions,
    watch: &'a UserWatch,
    begun: Instant,
    failed: &'a AtomicBool,
}

impl<W: Work> UserLoop<'_, W> {
    fn run(&self, number: usize, mut user: W::User) -> Result<(UserResult, W::User), WorkError> {
        // without slack, sleep ends when an operation is due, and not up to 50 us later, which would count as latency
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let kinds = self.work.operations().len();
        let (mut histograms, mut bytes) = (vec![Histogram::new(); kinds], vec![0; kinds]);
        // operations and pauses of a user draw independently
        let (mut rng, mut pauses) =
            (Rng::new(self.options.seed, 2 * number as u64), Rng::new(self.options.seed, 2 * number as u64 + 1));
        let (cpu, mut due) = (crate::clock::thread_time(), self.begun);
        loop {
            let from = self.next(&mut due, &mut pauses);
            if self.is_over() || from >= self.begun + self.options.lasts {
                break;
            }
            let (kind, moved) = self.work.operate(&mut user, &mut rng)?;
            assert!(kind < kinds, "an operation without a name");
            histograms[kind].record(u64::try_from(from.elapsed().as_nanos()).unwrap_or(u64::MAX));
            bytes[kind] += moved;
            self.watch.done.fetch_add(1, Ordering::Relaxed);
        }
        let cpu = crate::clock::thread_time().saturating_sub(cpu);
        Ok((UserResult { histograms, bytes, cpu, left: self.left(due, &mut pauses) }, user))
    }

    fn is_over(&self) -> bool {
        let ended = self.begun.elapsed() >= self.options.lasts;
        ended || self.watch.stop.load(Ordering::Relaxed) || self.failed.load(Ordering::Relaxed)
    }

    /// Waits until the next operation, and returns the time from which its latency counts.
    fn next(&self, due: &mut Instant, pauses: &mut Rng) -> Instant {
        let Some(gap) = self.gap(pauses) else {
            let think = self.options.think.as_secs_f64();
            if think > 0.0 {
                self.sleep_until(Instant::now() + self.pause(pauses, think));
            }
            return Instant::now();
        };
        *due += gap;
        self.sleep_until(*due);
        *due
    }

    /// Draws the time between two due operations of one user; None if completions set the pace.
    fn gap(&self, pauses: &mut Rng) -> Option<Duration> {
        let rate = self.options.rate? / self.options.users as f64;
        Some(self.pause(pauses, 1.0 / rate))
    }

    /// Draws an exponential pause with a mean in seconds, cut off beyond the run's duration.
    fn pause(&self, pauses: &mut Rng, mean_s: f64) -> Duration {
        let longest = self.options.lasts.as_secs_f64() + 1.0;
        Duration::from_secs_f64(pauses.draw_exponential(mean_s).min(longest))
    }

    fn sleep_until(&self, due: Instant) {
        while !self.is_over() {
            let left = due.saturating_duration_since(Instant::now()).min(NAP);
            if left.is_zero() {
                return;
            }
            let time = rustix::time::Timespec { tv_sec: 0, tv_nsec: i64::from(left.subsec_nanos()) };
            // a signal may end the sleep early, which the loop handles
            let _ = nanosleep(&time);
        }
    }

    /// Counts operations that were due within the duration and were not started.
    fn left(&self, mut due: Instant, pauses: &mut Rng) -> u64 {
        let end = self.begun + self.options.lasts;
        if self.options.rate.is_none() || due >= end {
            return 0;
        }
        let rate = self.options.rate.unwrap_or_default() / self.options.users as f64;
        let expected = rate * (end - due).as_secs_f64();
        if expected > MANY {
            // the standard deviation of a drawn count would be below a thousandth
            return expected as u64;
        }
        let mut left = 0;
        while due < end {
            left += 1;
            due += self.gap(pauses).unwrap_or(self.options.lasts);
        }
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A workload whose operations take the usual time, except for the third of each user.
    struct Slow {
        usual: Duration,
        third: Duration,
    }

    impl Work for Slow {
        type User = u32;

        fn operations(&self) -> &'static [&'static str] {
            &["slow"]
        }

        fn user(&self, _: usize) -> Result<u32, WorkError> {
            Ok(0)
        }

        fn operate(&self, user: &mut u32, _: &mut Rng) -> Result<(usize, u64), WorkError> {
            *user += 1;
            let time = if *user == 3 { self.third } else { self.usual };
            let _ = nanosleep(&rustix::time::Timespec { tv_sec: 0, tv_nsec: time.as_nanos() as i64 });
            Ok((0, 10))
        }
    }

    fn options(users: usize, rate: Option<f64>) -> UserOptions {
        UserOptions { users, think: Duration::ZERO, rate, lasts: Duration::from_millis(600), seed: 1 }
    }

    #[test]
    fn a_stall_is_seen_by_all_that_were_due_meanwhile() {
        let work = Slow { usual: Duration::from_micros(100), third: Duration::from_millis(300) };
        let paced = run(&work, &options(1, Some(200.0)), &UserWatch::default()).unwrap();
        let closed = run(&work, &options(1, None), &UserWatch::default()).unwrap();
        let latency = |outcome: &UserOutcome| outcome.operations[0].latency_s.unwrap();
        // about 60 of 120 operations were due during the stall and waited 150 ms on average
        assert!(latency(&paced).mean > 0.03, "{paced:?}");
        assert!(latency(&closed).p50 < 0.03 && latency(&closed).max >= 0.3, "{closed:?}");
        assert!(paced.operations[0].done > 60 && paced.operations[0].bytes == 10 * paced.operations[0].done);
    }

    #[test]
    fn what_was_due_and_not_done_is_counted() {
        let work = Slow { usual: Duration::from_millis(20), third: Duration::from_millis(20) };
        let paced = run(&work, &options(2, Some(1000.0)), &UserWatch::default()).unwrap();
        let all = paced.operations[0].done + paced.left;
        assert!((450..=750).contains(&all) && paced.left > 300, "{paced:?}");
    }

    #[test]
    fn who_stops_it_is_heard_and_nonsense_refused() {
        let watch = UserWatch::default();
        watch.stop.store(true, Ordering::Relaxed);
        let work = Slow { usual: Duration::ZERO, third: Duration::ZERO };
        assert!(matches!(run(&work, &options(3, None), &watch), Err(WorkError::Stopped)));
        for wrong in [options(0, None), options(4097, None), options(1, Some(0.0)), options(1, Some(f64::NAN))] {
            assert!(matches!(run(&work, &wrong, &UserWatch::default()), Err(WorkError::Usage(_))));
        }
        assert!(options(1, Some(f64::INFINITY)).check().is_err() && options(1, Some(1e9)).check().is_ok());
    }

    #[test]
    fn pauses_and_rates_of_any_size_end_with_the_work() {
        let work = Slow { usual: Duration::from_millis(1), third: Duration::from_millis(1) };
        let think = UserOptions { think: Duration::from_secs(8_640_000_000), ..options(2, None) };
        assert_eq!(run(&work, &think, &UserWatch::default()).unwrap().operations[0].done, 0);
        let rare = run(&work, &options(2, Some(f64::MIN_POSITIVE)), &UserWatch::default()).unwrap();
        assert_eq!((rare.operations[0].done, rare.left), (0, 0));
        let often = run(&work, &options(2, Some(1e9)), &UserWatch::default()).unwrap();
        // 600 million were due
        let all = (often.operations[0].done + often.left) as f64;
        assert!((all / 6e8 - 1.0).abs() < 0.01, "{often:?}");
    }

    /// A workload whose second user fails the verification.
    struct Forgetful;

    impl Work for Forgetful {
        type User = u32;

        fn operations(&self) -> &'static [&'static str] {
            &["put"]
        }

        fn user(&self, number: usize) -> Result<u32, WorkError> {
            Ok(number as u32)
        }

        fn operate(&self, _: &mut u32, _: &mut Rng) -> Result<(usize, u64), WorkError> {
            Ok((0, 0))
        }

        fn read_back(&self, user: u32, _: &AtomicBool) -> Result<(), WorkError> {
            if user == 1 { Err(WorkError::Wrong("lost".into())) } else { Ok(()) }
        }
    }

    #[test]
    fn what_each_user_wrote_is_read_back_at_the_end() {
        let short = |users| UserOptions { lasts: Duration::from_millis(5), ..options(users, None) };
        assert!(run(&Forgetful, &short(1), &UserWatch::default()).is_ok());
        assert!(matches!(run(&Forgetful, &short(3), &UserWatch::default()), Err(WorkError::Wrong(_))));
    }
}

//! Times work: the same amount each time, by one thread or by several that begin at the same
//! moment.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::BaselineError;
use crate::figure::{FigureDefinition, FigureKind};
use crate::machine::WorkingSizes;
use crate::work_kernel::ThreadShare;

/// Duration and result of some work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WorkTime {
    /// Time from the start of the first thread to the end of the last thread, s.
    pub seconds: f64,
    /// Units of all threads.
    pub units: f64,
    /// Sum of the threads' results; the same for the same rounds.
    pub checksum: u64,
}

impl WorkTime {
    /// Returns the value of the figure.
    #[must_use]
    pub fn figure_value(&self, kind: FigureKind, threads: usize) -> f64 {
        match kind {
            FigureKind::Rate => self.units / self.seconds,
            // each thread did its share of the units
            FigureKind::Time => self.seconds / (self.units / threads as f64),
        }
    }
}

/// Time and result of one thread.
struct ThreadTime {
    start: Instant,
    end: Instant,
    units: f64,
    checksum: u64,
}

/// Gate at which threads wait for each other, so that all begin at one moment. A barrier would wait
/// forever for a thread that the system did not start.
struct StartGate {
    /// Number of threads that have not arrived yet.
    missing_threads: Mutex<usize>,
    complete: Condvar,
}

impl StartGate {
    fn new(threads: usize) -> StartGate {
        StartGate { missing_threads: Mutex::new(threads), complete: Condvar::new() }
    }

    /// Counts a thread that has arrived, or that will never arrive.
    fn arrive(&self) {
        let mut missing = self.missing_threads.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(*missing > 0, "more threads arrived than were expected");
        *missing -= 1;
        if *missing == 0 {
            self.complete.notify_all();
        }
    }

    /// Arrives and waits for all others.
    fn wait(&self) {
        self.arrive();
        let missing = self.missing_threads.lock().unwrap_or_else(PoisonError::into_inner);
        let _all = self.complete.wait_while(missing, |missing| *missing > 0).unwrap_or_else(PoisonError::into_inner);
    }
}

/// Times rounds of work in each of some threads. A tenth as many rounds run before as a warm-up and
/// are not counted.
///
/// # Errors
/// Those of the work.
pub fn time_rounds(
    figure: &FigureDefinition,
    sizes: &WorkingSizes,
    threads: usize,
    rounds: u64,
) -> Result<WorkTime, BaselineError> {
    let (gate, has_failed) = (StartGate::new(threads), AtomicBool::new(false));
    let run_thread = |index: usize| {
        let share = ThreadShare { index, threads };
        let prepared = (figure.make_kernel)(sizes, share).and_then(|mut kernel| {
            (kernel.run_rounds)((rounds / 10).max(1))?;
            Ok(kernel)
        });
        has_failed.fetch_or(prepared.is_err(), Ordering::SeqCst);
        gate.wait();
        let mut kernel = prepared?;
        if has_failed.load(Ordering::SeqCst) {
            // the thread that failed reports the reason
            return Err(BaselineError::Stopped);
        }
        let start = Instant::now();
        let checksum = (kernel.run_rounds)(rounds)?;
        Ok(ThreadTime { start, end: Instant::now(), units: kernel.units_per_round * rounds as f64, checksum })
    };
    let results: Vec<Result<ThreadTime, BaselineError>> = std::thread::scope(|scope| {
        let run_thread = &run_thread;
        let start_thread = |index: usize| {
            let thread = std::thread::Builder::new().spawn_scoped(scope, move || run_thread(index));
            if thread.is_err() {
                has_failed.store(true, Ordering::SeqCst);
                gate.arrive();
            }
            thread.map_err(|error| BaselineError::Unsupported(format!("{threads} threads cannot be started: {error}")))
        };
        let handles: Vec<_> = (0..threads).map(start_thread).collect();
        let panic_error = |_| Err(BaselineError::Unsupported("a thread of the measurement ended".into()));
        handles.into_iter().map(|thread| thread.and_then(|t| t.join().unwrap_or_else(panic_error))).collect()
    });
    let (thread_times, errors): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
    let mut errors: Vec<BaselineError> = errors.into_iter().filter_map(Result::err).collect();
    errors.sort_by_key(|error| matches!(error, BaselineError::Stopped));
    if let Some(error) = errors.into_iter().next() {
        return Err(error);
    }
    let thread_times: Vec<ThreadTime> = thread_times.into_iter().flatten().collect();
    let start = thread_times.iter().map(|thread| thread.start).min();
    let end = thread_times.iter().map(|thread| thread.end).max();
    let elapsed = end.zip(start).map_or(Duration::ZERO, |(end, start)| end - start);
    Ok(WorkTime {
        seconds: elapsed.as_secs_f64().max(1e-9),
        units: thread_times.iter().map(|thread| thread.units).sum(),
        checksum: thread_times.iter().fold(0, |sum, thread| sum.wrapping_add(thread.checksum)),
    })
}

/// Returns the number of rounds for each thread that takes about the target duration. The trial
/// runs warm the machine up, too.
///
/// # Errors
/// Those of the work.
pub fn calibrate_rounds(
    figure: &FigureDefinition,
    sizes: &WorkingSizes,
    threads: usize,
    target: Duration,
) -> Result<u64, BaselineError> {
    let target_s = target.as_secs_f64();
    let mut rounds = 1u64;
    loop {
        let seconds = time_rounds(figure, sizes, threads, rounds)?.seconds;
        if seconds >= target_s / 8.0 || rounds >= 1 << 40 {
            return Ok(((rounds as f64 * target_s / seconds).round() as u64).max(1));
        }
        let growth = (target_s / 4.0 / seconds).clamp(2.0, 64.0);
        rounds = (rounds as f64 * growth).ceil() as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::{FIGURES, ThreadCounts, find_definition};
    use crate::work_kernel::WorkKernel;

    fn sizes() -> WorkingSizes {
        WorkingSizes { array_bytes: 1 << 20, all_threads_bytes: 1 << 20, available_bytes: 1 << 40 }
    }

    /// Each figure works, with each of its thread counts, and the same work gives the same sum.
    #[test]
    fn every_figure_can_be_timed() {
        for figure in FIGURES {
            let threads = if figure.thread_counts == ThreadCounts::One { 1 } else { 3 };
            let once = match time_rounds(figure, &sizes(), threads, 2) {
                Err(BaselineError::Unsupported(_)) if figure.id == "kernel.wake" => continue,
                other => other.unwrap_or_else(|error| panic!("{}: {error}", figure.id)),
            };
            let again = time_rounds(figure, &sizes(), threads, 2).expect(figure.id);
            assert_eq!((once.units, once.checksum), (again.units, again.checksum), "{}", figure.id);
            let value = once.figure_value(figure.kind, threads);
            assert!(value.is_finite() && value > 0.0, "{}: {value}", figure.id);
        }
    }

    #[test]
    fn rates_add_up_and_times_are_of_one_thread() {
        let two = WorkTime { seconds: 2.0, units: 8.0, checksum: 0 };
        assert_eq!((two.figure_value(FigureKind::Rate, 2), two.figure_value(FigureKind::Time, 2)), (4.0, 0.5));
    }

    /// Calibration increases the rounds until they take as long as they should; only their ratio is
    /// judged here.
    #[test]
    fn calibration_asks_for_more_rounds_of_longer_work() {
        let figure = find_definition("processor.integer").expect("known");
        let rounds =
            |milliseconds| calibrate_rounds(figure, &sizes(), 1, Duration::from_millis(milliseconds)).expect("timed");
        assert!(rounds(100) > rounds(5));
    }

    #[test]
    fn threads_begin_when_the_last_has_come_or_was_not_started() {
        let gate = StartGate::new(3);
        std::thread::scope(|scope| {
            let two = [(); 2].map(|()| scope.spawn(|| gate.wait()));
            // the third thread, which the system refuses
            gate.arrive();
            two.into_iter().for_each(|thread| thread.join().expect("ended"));
        });
        assert_eq!(*gate.missing_threads.lock().expect("free"), 0);
    }

    #[test]
    fn a_failing_thread_ends_the_measurement_with_its_reason() {
        fn make(_: &WorkingSizes, share: ThreadShare) -> Result<WorkKernel, BaselineError> {
            if share.index == 1 {
                return Err(BaselineError::Unsupported("no".into()));
            }
            Ok(WorkKernel { run_rounds: Box::new(Ok), units_per_round: 1.0, is_repeatable: true })
        }
        let figure = FigureDefinition { make_kernel: make, ..*find_definition("processor.integer").expect("known") };
        let error = time_rounds(&figure, &sizes(), 3, 1).expect_err("one cannot");
        assert_eq!(error.to_string(), "no");
    }
}

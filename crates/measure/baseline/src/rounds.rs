//! Measures all figures several times, round by round, so that a disturbance of some seconds
//! affects one value of each figure and not all values of one. The median counts; a figure whose
//! values spread too wide is refused.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::circumstances::CircumstanceWatch;
use crate::document::{FigureResult, SkippedFigure};
use crate::figure::{FigureDefinition, ThreadCounts};
use crate::machine::WorkingSizes;
use crate::{BaselineError, timing};

/// Largest spread of a valid figure, as a share of its median.
pub const WIDEST: f64 = 0.05;
/// The scaling curve goes to at least this many threads: InfoStor 1999 printed up to 32.
const SCALING_THREADS: usize = 32;

/// Plan of a measurement: figures, number and duration of values.
#[derive(Clone)]
pub struct BaselinePlan {
    /// Figures with their thread counts.
    pub items: Vec<PlannedFigure>,
    /// Duration of one value.
    pub target: Duration,
    /// Values of each figure.
    pub repeats: usize,
    /// Largest number of additional values for figures that spread too wide.
    pub more: usize,
    /// No additional values are measured after this time.
    pub budget: Duration,
}

/// A figure with a number of threads.
#[derive(Clone, Copy)]
pub struct PlannedFigure {
    /// The figure.
    pub figure: &'static FigureDefinition,
    /// Threads.
    pub threads: usize,
}

/// Returns the thread counts of a figure on a machine with a number of processors.
#[must_use]
pub fn thread_counts(counts: ThreadCounts, processors: usize) -> Vec<usize> {
    let mut list = match counts {
        ThreadCounts::One => vec![1],
        ThreadCounts::OneAndAll => vec![1, processors],
        ThreadCounts::Scaling => {
            let max_threads = (2 * processors).max(SCALING_THREADS);
            let powers = (0..).map(|power| 1usize << power).take_while(|count| *count <= max_threads);
            powers.chain([processors]).collect()
        }
    };
    list.sort_unstable();
    list.dedup();
    list
}

impl BaselinePlan {
    /// Plans a complete baseline of some figures.
    #[must_use]
    pub fn full(figures: &[&'static FigureDefinition], processors: usize) -> BaselinePlan {
        let counts = |figure: &&'static FigureDefinition| {
            let figure = *figure;
            thread_counts(figure.counts, processors).into_iter().map(move |threads| PlannedFigure { figure, threads })
        };
        let target = Duration::from_millis(350);
        let budget = Duration::from_secs(120);
        BaselinePlan { items: figures.iter().flat_map(counts).collect(), target, repeats: 5, more: 4, budget }
    }

    /// Plans a check of some seconds: one thread, short values.
    #[must_use]
    pub fn check(figures: &[&'static FigureDefinition]) -> BaselinePlan {
        let items = figures.iter().map(|figure| PlannedFigure { figure, threads: 1 }).collect();
        let (target, budget) = (Duration::from_millis(50), Duration::from_secs(10));
        BaselinePlan { items, target, repeats: 5, more: 2, budget }
    }

    /// Returns the number of values that will be measured, including calibrations.
    #[must_use]
    pub fn steps(&self) -> u64 {
        (self.items.len() * (self.repeats + 1)) as u64
    }
}

/// Measured figures, and those that had to be skipped.
pub type MeasuredFigures = (Vec<FigureResult>, Vec<SkippedFigure>);

/// A figure that is being measured.
struct OngoingFigure {
    planned: PlannedFigure,
    rounds: u64,
    sum: Option<u64>,
    values: Vec<f64>,
}

impl OngoingFigure {
    /// Measures one more value; fails if the work gives another sum than before.
    fn measure(&mut self, sizes: &WorkingSizes) -> Result<(), BaselineError> {
        let PlannedFigure { figure, threads } = self.planned;
        let done = timing::time(figure, sizes, threads, self.rounds)?;
        if *self.sum.get_or_insert(done.sum) != done.sum {
            return Err(BaselineError::Wrong { figure: figure.id });
        }
        self.values.push(done.value(figure.kind, threads));
        Ok(())
    }

    /// Judges the values measured so far.
    fn result(&self) -> FigureResult {
        FigureResult::of(self.planned.figure, self.planned.threads, &self.values)
    }
}

/// Measures all figures of a plan. `progress` is called after each value; `watch` samples once a
/// round.
///
/// # Errors
/// When it was stopped, the system refused something that it had allowed before, or the same work
/// gave two results.
pub fn measure(
    plan: &BaselinePlan,
    sizes: &WorkingSizes,
    watch: &mut CircumstanceWatch<'_>,
    stop: &AtomicBool,
    progress: &dyn Fn(u64),
) -> Result<MeasuredFigures, BaselineError> {
    let start = Instant::now();
    let go_on = || if stop.load(Ordering::Relaxed) { Err(BaselineError::Stopped) } else { Ok(()) };
    let (mut ongoing, mut skipped) = (Vec::new(), Vec::new());
    for planned in plan.items.iter().copied() {
        go_on()?;
        match timing::calibrate(planned.figure, sizes, planned.threads, plan.target) {
            Ok(rounds) => ongoing.push(OngoingFigure { planned, rounds, sum: None, values: Vec::new() }),
            // a refusal that concerns one figure (no loopback device, a call that a sandbox lacks)
            // does not end the others
            Err(error @ (BaselineError::Cannot(_) | BaselineError::Io { .. })) => {
                let (id, because) = (planned.figure.id.into(), error.to_string());
                skipped.push(SkippedFigure { id, threads: planned.threads, because });
            }
            Err(error) => return Err(error),
        }
        progress(1);
    }
    for _ in 0..plan.repeats {
        watch.look();
        for figure in &mut ongoing {
            go_on()?;
            figure.measure(sizes)?;
            progress(1);
        }
    }
    for _ in 0..plan.more {
        for figure in ongoing.iter_mut().filter(|figure| figure.result().refused.is_some()) {
            go_on()?;
            if start.elapsed() < plan.budget {
                figure.measure(sizes)?;
            }
        }
    }
    Ok((ongoing.iter().map(OngoingFigure::result).collect(), skipped))
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use super::*;
    use crate::figure::{FigureKind, chosen};
    use crate::kernel::{ThreadShare, WorkKernel};

    #[test]
    fn threads_go_beyond_the_processors() {
        assert_eq!(thread_counts(ThreadCounts::Scaling, 2), [1, 2, 4, 8, 16, 32]);
        assert_eq!(thread_counts(ThreadCounts::Scaling, 24), [1, 2, 4, 8, 16, 24, 32]);
        assert_eq!(thread_counts(ThreadCounts::Scaling, 48).last(), Some(&64));
        assert_eq!(thread_counts(ThreadCounts::OneAndAll, 1), [1]);
    }

    #[test]
    fn each_figure_gets_its_values_and_a_stop_ends_it() {
        let plan = BaselinePlan {
            target: Duration::from_micros(200),
            repeats: 3,
            more: 0,
            ..BaselinePlan::check(&chosen("processor"))
        };
        let sizes = WorkingSizes { array_bytes: 1 << 16, all_bytes: 1 << 16, available_bytes: 1 << 40 };
        let root = std::path::Path::new("/");
        let (mut watch, stop) = (CircumstanceWatch::start(root), AtomicBool::new(false));
        let done = std::cell::Cell::new(0);
        let count = |more| done.set(done.get() + more);
        let (figures, skipped) = measure(&plan, &sizes, &mut watch, &stop, &count).expect("measured");
        assert_eq!((figures.len(), skipped.len(), done.get()), (5, 0, plan.steps()));
        assert!(figures.iter().all(|figure| figure.values.len() == 3 && figure.values.iter().all(|v| *v > 0.0)));
        stop.store(true, Ordering::Relaxed);
        let stopped = measure(&plan, &sizes, &mut watch, &stop, &count);
        assert!(matches!(stopped, Err(BaselineError::Stopped)));
    }

    #[test]
    fn what_cannot_be_measured_is_skipped_with_its_reason() {
        let plan =
            BaselinePlan { target: Duration::from_micros(100), ..BaselinePlan::check(&chosen("memory.latency.256M")) };
        let sizes = WorkingSizes { array_bytes: 1 << 16, all_bytes: 1 << 16, available_bytes: 1 << 20 };
        let mut watch = CircumstanceWatch::start(std::path::Path::new("/"));
        let (figures, skipped) = measure(&plan, &sizes, &mut watch, &AtomicBool::new(false), &|_| {}).expect("done");
        assert!(figures.is_empty() && skipped[0].because.contains("memory"), "{skipped:?}");
    }

    #[test]
    fn what_the_system_refuses_is_skipped_and_the_others_are_measured() {
        fn make(_: &WorkingSizes, _: ThreadShare) -> Result<WorkKernel, BaselineError> {
            Err(crate::io("connecting over the loopback device")(std::io::Error::from(ErrorKind::NetworkUnreachable)))
        }
        static REFUSED: FigureDefinition = FigureDefinition {
            id: "network.loopback",
            title: "loopback TCP",
            unit: "bytes_per_s",
            kind: FigureKind::Rate,
            counts: ThreadCounts::One,
            method: 1,
            make,
        };
        let mut figures = chosen("kernel.system_call");
        figures.insert(0, &REFUSED);
        let plan = BaselinePlan { target: Duration::from_micros(100), ..BaselinePlan::check(&figures) };
        let mut watch = CircumstanceWatch::start(std::path::Path::new("/"));
        let sizes = WorkingSizes::default();
        let (figures, skipped) = measure(&plan, &sizes, &mut watch, &AtomicBool::new(false), &|_| {}).expect("done");
        assert_eq!((figures.len(), figures[0].id.as_str()), (1, "kernel.system_call"));
        assert!(skipped[0].because.starts_with("connecting over the loopback device: "), "{skipped:?}");
    }
}

//! Measures all figures several times, round by round, so that a disturbance of some seconds
//! affects one value of each figure and not all values of one. The median counts; a figure whose
//! values spread too widely is refused.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::circumstances::CircumstanceWatch;
use crate::document::{FigureResult, SkippedFigure};
use crate::figure::{FigureDefinition, ThreadCounts};
use crate::machine::WorkingSizes;
use crate::{BaselineError, timing};

/// Largest spread of a valid figure, as a share of its median.
pub const MAX_SPREAD: f64 = 0.05;
/// The scaling curve goes to at least this many threads: InfoStor 1999 published up to 32.
const MIN_SCALING_THREADS: usize = 32;

/// Plan of a measurement: figures, number and duration of values.
#[derive(Clone)]
pub struct BaselinePlan {
    /// Figures with their thread counts.
    pub planned_figures: Vec<PlannedFigure>,
    /// Duration of one value.
    pub value_duration: Duration,
    /// Number of values of each figure.
    pub values_per_figure: usize,
    /// Largest number of additional values for figures that spread too widely.
    pub max_extra_values: usize,
    /// No additional values are measured after this time.
    pub time_budget: Duration,
}

/// A figure with a number of threads.
#[derive(Clone, Copy)]
pub struct PlannedFigure {
    /// The figure.
    pub figure: &'static FigureDefinition,
    /// Number of threads.
    pub threads: usize,
}

/// Returns the thread counts of a figure on a machine with a number of processors.
#[must_use]
pub fn thread_counts(counts: ThreadCounts, processors: usize) -> Vec<usize> {
    let mut list = match counts {
        ThreadCounts::One => vec![1],
        ThreadCounts::OneAndAll => vec![1, processors],
        ThreadCounts::Scaling => {
            let max_threads = (2 * processors).max(MIN_SCALING_THREADS);
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
    pub fn full_baseline(figures: &[&'static FigureDefinition], processors: usize) -> BaselinePlan {
        let planned = |figure: &&'static FigureDefinition| {
            let figure = *figure;
            thread_counts(figure.thread_counts, processors)
                .into_iter()
                .map(move |threads| PlannedFigure { figure, threads })
        };
        BaselinePlan {
            planned_figures: figures.iter().flat_map(planned).collect(),
            value_duration: Duration::from_millis(350),
            values_per_figure: 5,
            max_extra_values: 4,
            time_budget: Duration::from_secs(120),
        }
    }

    /// Plans a check of some seconds: one thread, short values.
    #[must_use]
    pub fn quick_check(figures: &[&'static FigureDefinition]) -> BaselinePlan {
        BaselinePlan {
            planned_figures: figures.iter().map(|figure| PlannedFigure { figure, threads: 1 }).collect(),
            value_duration: Duration::from_millis(50),
            values_per_figure: 5,
            max_extra_values: 2,
            time_budget: Duration::from_secs(10),
        }
    }

    /// Returns the number of values that will be measured, including calibrations.
    #[must_use]
    pub fn step_count(&self) -> u64 {
        (self.planned_figures.len() * (self.values_per_figure + 1)) as u64
    }
}

/// Measured figures, and those that had to be skipped.
pub type MeasuredFigures = (Vec<FigureResult>, Vec<SkippedFigure>);

/// A figure that is being measured.
struct OngoingFigure {
    planned: PlannedFigure,
    rounds: u64,
    checksum: Option<u64>,
    values: Vec<f64>,
}

impl OngoingFigure {
    /// Measures one more value; fails if the work gives a different checksum than before.
    fn measure_value(&mut self, sizes: &WorkingSizes) -> Result<(), BaselineError> {
        let PlannedFigure { figure, threads } = self.planned;
        let work_time = timing::time_rounds(figure, sizes, threads, self.rounds)?;
        if *self.checksum.get_or_insert(work_time.checksum) != work_time.checksum {
            return Err(BaselineError::InconsistentResult { figure: figure.id });
        }
        self.values.push(work_time.figure_value(figure.kind, threads));
        Ok(())
    }

    /// Judges the values measured so far.
    fn to_result(&self) -> FigureResult {
        FigureResult::from_values(self.planned.figure, self.planned.threads, &self.values)
    }
}

/// Measures all figures of a plan. `progress` is called after each value; `watch` samples once a
/// round.
///
/// # Errors
/// When it was stopped, the system refused something that it had allowed before, or the same work
/// gave two results.
pub fn measure_figures(
    plan: &BaselinePlan,
    sizes: &WorkingSizes,
    watch: &mut CircumstanceWatch<'_>,
    stop: &AtomicBool,
    progress: &dyn Fn(u64),
) -> Result<MeasuredFigures, BaselineError> {
    let start = Instant::now();
    let check_stop = || if stop.load(Ordering::Relaxed) { Err(BaselineError::Stopped) } else { Ok(()) };
    let (mut ongoing, mut skipped) = (Vec::new(), Vec::new());
    for planned in plan.planned_figures.iter().copied() {
        check_stop()?;
        match timing::calibrate_rounds(planned.figure, sizes, planned.threads, plan.value_duration) {
            Ok(rounds) => ongoing.push(OngoingFigure { planned, rounds, checksum: None, values: Vec::new() }),
            // a refusal that concerns one figure (no loopback device, a call that a sandbox lacks)
            // does not end the others
            Err(error @ (BaselineError::Unsupported(_) | BaselineError::Io { .. })) => {
                let (id, because) = (planned.figure.id.into(), error.to_string());
                skipped.push(SkippedFigure { id, threads: planned.threads, because });
            }
            Err(error) => return Err(error),
        }
        progress(1);
    }
    for _ in 0..plan.values_per_figure {
        watch.sample();
        for figure in &mut ongoing {
            check_stop()?;
            figure.measure_value(sizes)?;
            progress(1);
        }
    }
    for _ in 0..plan.max_extra_values {
        for figure in ongoing.iter_mut().filter(|figure| figure.to_result().refused.is_some()) {
            check_stop()?;
            if start.elapsed() < plan.time_budget {
                figure.measure_value(sizes)?;
            }
        }
    }
    Ok((ongoing.iter().map(OngoingFigure::to_result).collect(), skipped))
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use super::*;
    use crate::figure::{FigureKind, select_figures};
    use crate::work_kernel::{ThreadShare, WorkKernel};

    #[test]
    fn scaling_threads_exceed_the_processors() {
        assert_eq!(thread_counts(ThreadCounts::Scaling, 2), [1, 2, 4, 8, 16, 32]);
        assert_eq!(thread_counts(ThreadCounts::Scaling, 24), [1, 2, 4, 8, 16, 24, 32]);
        assert_eq!(thread_counts(ThreadCounts::Scaling, 48).last(), Some(&64));
        assert_eq!(thread_counts(ThreadCounts::OneAndAll, 1), [1]);
    }

    #[test]
    fn measures_each_figure_and_stops_on_request() {
        let plan = BaselinePlan {
            value_duration: Duration::from_micros(200),
            values_per_figure: 3,
            max_extra_values: 0,
            ..BaselinePlan::quick_check(&select_figures("processor"))
        };
        let sizes = WorkingSizes { array_bytes: 1 << 16, all_threads_bytes: 1 << 16, available_bytes: 1 << 40 };
        let root = std::path::Path::new("/");
        let (mut watch, stop) = (CircumstanceWatch::start(root), AtomicBool::new(false));
        let done = std::cell::Cell::new(0);
        let count = |more| done.set(done.get() + more);
        let (figures, skipped) = measure_figures(&plan, &sizes, &mut watch, &stop, &count).expect("measured");
        assert_eq!((figures.len(), skipped.len(), done.get()), (5, 0, plan.step_count()));
        assert!(figures.iter().all(|figure| figure.values.len() == 3 && figure.values.iter().all(|v| *v > 0.0)));
        stop.store(true, Ordering::Relaxed);
        let stopped = measure_figures(&plan, &sizes, &mut watch, &stop, &count);
        assert!(matches!(stopped, Err(BaselineError::Stopped)));
    }

    #[test]
    fn skips_unsupported_figures_with_a_reason() {
        let plan = BaselinePlan {
            value_duration: Duration::from_micros(100),
            ..BaselinePlan::quick_check(&select_figures("memory.latency.256M"))
        };
        let sizes = WorkingSizes { array_bytes: 1 << 16, all_threads_bytes: 1 << 16, available_bytes: 1 << 20 };
        let mut watch = CircumstanceWatch::start(std::path::Path::new("/"));
        let (figures, skipped) =
            measure_figures(&plan, &sizes, &mut watch, &AtomicBool::new(false), &|_| {}).expect("done");
        assert!(figures.is_empty() && skipped[0].because.contains("memory"), "{skipped:?}");
    }

    #[test]
    fn skips_figures_that_the_system_refuses() {
        fn make(_: &WorkingSizes, _: ThreadShare) -> Result<WorkKernel, BaselineError> {
            Err(crate::io_error("connecting over the loopback device")(std::io::Error::from(
                ErrorKind::NetworkUnreachable,
            )))
        }
        static REFUSED: FigureDefinition = FigureDefinition {
            id: "network.loopback",
            title: "loopback TCP",
            unit: "bytes_per_s",
            kind: FigureKind::Rate,
            thread_counts: ThreadCounts::One,
            method: 1,
            make_kernel: make,
        };
        let mut figures = select_figures("kernel.system_call");
        figures.insert(0, &REFUSED);
        let plan = BaselinePlan { value_duration: Duration::from_micros(100), ..BaselinePlan::quick_check(&figures) };
        let mut watch = CircumstanceWatch::start(std::path::Path::new("/"));
        let sizes = WorkingSizes::default();
        let (figures, skipped) =
            measure_figures(&plan, &sizes, &mut watch, &AtomicBool::new(false), &|_| {}).expect("done");
        assert_eq!((figures.len(), figures[0].id.as_str()), (1, "kernel.system_call"));
        assert!(skipped[0].because.starts_with("connecting over the loopback device: "), "{skipped:?}");
    }
}

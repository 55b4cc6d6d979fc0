//! A trace of this machine from beginning to end: which way requests are seen, what that costs,
//! and what is done where it costs too much.

use std::collections::{HashMap, HashSet};

use crate::cost::{self, TraceCost};
use crate::devices::BlockDeviceNames;
use crate::diskstats::{self, RequestTotals};
use crate::event::{BlockEvent, BlockEventKind, EventTable};
use crate::interval::{DeviceInterval, IntervalCollector};
use crate::kernel::{KernelCountError, KernelCountLoss, KernelCounter, ProgramTimer};
use crate::pairing::{PairingCounts, RequestPairing, TracedRequest};
use crate::reader::{EventReader, KernelFilter, MOST_SAMPLE, ReadingCounts};
use crate::summary::RequestSummary;
use crate::tracefs::{TraceLoss, Tracefs, TracefsError};

/// Events of a request that nothing merges: queue, start, issue, completion; and one more for splits and such.
const EVENTS_A_REQUEST: f64 = 5.0;
/// What decoding and pairing an event takes before it is measured, nanoseconds.
const READING_NS: f64 = 250.0;
/// The budget is held against at least so much time.
const WINDOW_NS: u64 = 1_000_000_000;

/// Which way requests are seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MethodChoice {
    /// Whichever suits the rate of requests.
    #[default]
    Auto,
    /// Every event, by tracefs.
    Tracefs,
    /// Histograms in the kernel, by BPF.
    Bpf,
}

/// What to trace and how.
#[derive(Clone, Debug)]
pub struct SessionOptions {
    /// Disks; empty is all of them.
    pub disks: Vec<u32>,
    /// Which way.
    pub method: MethodChoice,
    /// Share of all processors' time that may be used.
    pub budget: f64,
    /// Single events are wanted (for a file).
    pub needs_events: bool,
    /// Width of a heat map's column, nanoseconds.
    pub column_ns: u64,
}

/// Why a trace cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// Of tracefs, which both ways need.
    #[error(transparent)]
    Tracefs(#[from] TracefsError),
    /// Of the program in the kernel.
    #[error(transparent)]
    Kernel(#[from] KernelCountError),
}

enum TraceMethod {
    Tracefs { reader: Box<EventReader>, pairing: Box<RequestPairing>, record_ns: f64 },
    Bpf { counter: Box<KernelCounter>, run: ProgramRuns },
}

/// How long programs run and how often, by the kernel's own measurement over the first second.
#[derive(Default)]
struct ProgramRuns {
    timer: Option<ProgramTimer>,
    run_ns: f64,
    runs_a_request: f64,
    requests: u64,
}

/// A running trace.
pub struct TraceSession {
    method: TraceMethod,
    options: SessionOptions,
    tracefs: Tracefs,
    events: EventTable,
    /// Names of devices.
    pub names: BlockDeviceNames,
    /// All requests since the start.
    pub summary: RequestSummary,
    /// For a recorder: what came since it was last taken.
    intervals: Option<IntervalCollector>,
    sample: u32,
    from_ns: u64,
    now_ns: u64,
    totals: HashMap<u32, RequestTotals>,
    reader_from_ns: u64,
    cost_before: TraceCost,
    /// Cost of a method that was given up.
    spent: TraceCost,
    lost_before: u64,
    /// What should be known beside the result: what was chosen, and where it was stepped down.
    pub remarks: Vec<String>,
    is_spent: bool,
    /// Asked for once: the answer takes reading several files.
    processors: usize,
}

impl TraceSession {
    /// Begins at a moment of the monotonic clock. `requests_per_s` is what is asked of the disks, by
    /// which a method is chosen.
    ///
    /// # Errors
    /// When the kernel refuses, or cannot.
    pub fn start(options: SessionOptions, requests_per_s: f64, now_ns: u64) -> Result<TraceSession, SessionError> {
        let tracefs = Tracefs::open()?;
        let (events, unusable) = tracefs.events()?;
        let mut remarks: Vec<String> = unusable.iter().map(ToString::to_string).collect();
        let swept = tracefs.sweep();
        if swept > 0 {
            remarks.push(format!("removed {swept} trace instances that killed processes had left"));
        }
        let mut names = BlockDeviceNames::default();
        let wants_kernel = match options.method {
            MethodChoice::Bpf => true,
            MethodChoice::Tracefs => false,
            MethodChoice::Auto => !options.needs_events && expected_share(requests_per_s) > options.budget,
        };
        let method = match wants_kernel.then(|| start_bpf(&options, &events, &mut names, 0)) {
            Some(Ok(method)) => method,
            Some(Err(error)) if options.method == MethodChoice::Bpf => return Err(error.into()),
            Some(Err(error)) => {
                remarks.push(format!("no histograms in the kernel ({error}): every event is read instead"));
                start_tracefs(&options, &tracefs, &mut names)?
            }
            None => start_tracefs(&options, &tracefs, &mut names)?,
        };
        let summary = RequestSummary::new(now_ns, options.column_ns);
        Ok(TraceSession {
            method,
            options,
            tracefs,
            events,
            names,
            summary,
            intervals: None,
            sample: 0,
            from_ns: now_ns,
            now_ns,
            totals: diskstats::read(),
            reader_from_ns: cost::thread_ns(),
            cost_before: TraceCost::default(),
            spent: TraceCost::default(),
            lost_before: 0,
            remarks,
            is_spent: false,
            processors: std::thread::available_parallelism().map_or(1, usize::from),
        })
    }

    /// Collects intervals from now on, instead of one sum.
    pub fn keep_intervals(&mut self) {
        self.intervals = Some(IntervalCollector::default());
    }

    /// What came since the last time, by the kernel's number of the device; nothing unless intervals are kept.
    pub fn take_interval(&mut self) -> HashMap<u32, DeviceInterval> {
        self.intervals.as_mut().map(IntervalCollector::take).unwrap_or_default()
    }

    /// `tracefs` or `bpf`.
    pub fn method(&self) -> &'static str {
        match self.method {
            TraceMethod::Tracefs { .. } => "tracefs",
            TraceMethod::Bpf { .. } => "bpf",
        }
    }

    /// Whether the kernel tells when a request starts (6.5 and later); else it is its first place in a queue.
    pub fn has_start(&self) -> bool {
        self.events.layout(BlockEventKind::Start).is_some()
    }

    /// One of so many places is traced.
    pub fn sampled(&self) -> u64 {
        1 << self.sample
    }

    /// Reads what there is; events are shown to `each` too.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn poll(&mut self, now_ns: u64, each: &mut dyn FnMut(&BlockEvent)) -> Result<(), SessionError> {
        self.now_ns = now_ns;
        let (summary, intervals) = (&mut self.summary, &mut self.intervals);
        let mut add = |request: &TracedRequest| match intervals {
            Some(intervals) => intervals.add(request),
            None => summary.add(request),
        };
        match &mut self.method {
            TraceMethod::Tracefs { reader, pairing, .. } => {
                reader.read(now_ns, |event| {
                    each(event);
                    pairing.event(event, &mut |request| add(&request));
                })?;
            }
            TraceMethod::Bpf { counter, run } => {
                for (device, operation, counted) in counter.read() {
                    run.requests += counted.latency.iter().map(|(_, count)| count).sum::<u64>();
                    match intervals {
                        Some(intervals) => intervals.add_counted(device, operation, &counted),
                        None => summary.add_counted(device, operation, now_ns.saturating_sub(1), &counted),
                    }
                }
                run.read(counter);
            }
        }
        Ok(())
    }

    /// Reads the last events and stops.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn finish(&mut self, now_ns: u64, each: &mut dyn FnMut(&BlockEvent)) -> Result<(), SessionError> {
        self.poll(now_ns, each)?;
        let summary = &mut self.summary;
        if let TraceMethod::Tracefs { reader, pairing, .. } = &mut self.method {
            reader.finish(|event| {
                each(event);
                pairing.event(event, &mut |request| summary.add(&request));
            })?;
        }
        Ok(())
    }

    /// Holds the cost since the last time against the budget, and does less where it is above.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn hold_budget(&mut self) -> Result<(), SessionError> {
        let cost = self.cost();
        let window = cost.since(&self.cost_before);
        if window.elapsed_ns < WINDOW_NS {
            return Ok(());
        }
        self.cost_before = cost;
        let Some(share) = window.share().filter(|share| *share > self.options.budget) else { return Ok(()) };
        // what is above the budget without events (starting, drawing) does not get less by fewer of them
        let of_events = window.kernel_ns + window.events as f64 * self.reading_ns();
        let is_of_events = of_events > 0.5 * window.elapsed_ns as f64 * window.processors as f64 * self.options.budget;
        let at = (self.now_ns - self.from_ns) as f64 / 1e9;
        let over = format!(
            "at {at:.0} s tracing took {:.2} % of the processors, more than the budget of {} %",
            share * 100.0,
            self.options.budget * 100.0
        );
        let is_auto = self.options.method == MethodChoice::Auto && !self.options.needs_events;
        if is_auto
            && is_of_events
            && matches!(self.method, TraceMethod::Tracefs { .. })
            && let Ok(method) = start_bpf(&self.options, &self.events, &mut self.names, 0)
        {
            self.step_to(method);
            self.remarks.push(format!("{over}: from there on the kernel keeps histograms (bpf)"));
            return Ok(());
        }
        if is_of_events && self.sample < MOST_SAMPLE {
            self.sample_to(self.sample + 1)?;
            self.remarks.push(format!("{over}: from there on 1 of {} places is traced", self.sampled()));
        } else if !self.is_spent {
            self.is_spent = true;
            let why =
                if is_of_events { "the thinnest sample is not thin enough" } else { "fewer events would not help" };
            self.remarks.push(format!("{over}: {why}"));
        }
        Ok(())
    }

    /// What an event costs this process, nanoseconds: histograms are read at the same cost whatever they hold.
    fn reading_ns(&self) -> f64 {
        match self.method {
            TraceMethod::Tracefs { .. } => READING_NS,
            TraceMethod::Bpf { .. } => 0.0,
        }
    }

    fn step_to(&mut self, method: TraceMethod) {
        let mut cost = self.cost();
        // time and processor time go on; events and the kernel's part begin anew
        (cost.elapsed_ns, cost.reader_ns) = (0, 0);
        self.lost_before = self.loss().total();
        self.spent = cost;
        self.method = method;
    }

    fn sample_to(&mut self, sample: u32) -> Result<(), SessionError> {
        self.sample = sample;
        let mut filter = kernel_filter(&self.options, &mut self.names);
        filter.sample = sample;
        match &mut self.method {
            TraceMethod::Tracefs { reader, pairing, .. } => {
                reader.filter(&filter)?;
                pairing.sample(filter.mask());
            }
            TraceMethod::Bpf { counter, .. } => counter.sample(&self.events, &mut self.names, filter.mask())?,
        }
        Ok(())
    }

    /// What it cost so far.
    pub fn cost(&self) -> TraceCost {
        let (events, event_ns) = match &self.method {
            TraceMethod::Tracefs { reader, record_ns, .. } => (reader.counts().events, *record_ns),
            TraceMethod::Bpf { run, .. } => ((run.requests as f64 * run.runs_a_request) as u64, run.run_ns),
        };
        TraceCost {
            elapsed_ns: self.now_ns - self.from_ns,
            events: self.spent.events + events,
            reader_ns: cost::thread_ns() - self.reader_from_ns,
            kernel_ns: self.spent.kernel_ns + events as f64 * event_ns,
            processors: self.processors,
        }
    }

    /// What an event or run costs in the kernel, nanoseconds, as calibrated.
    pub fn event_ns(&self) -> f64 {
        match &self.method {
            TraceMethod::Tracefs { record_ns, .. } => *record_ns,
            TraceMethod::Bpf { run, .. } => run.run_ns,
        }
    }

    /// Events that the kernel lost.
    pub fn loss(&self) -> TraceLoss {
        match &self.method {
            TraceMethod::Tracefs { reader, .. } => reader.loss(),
            TraceMethod::Bpf { counter, .. } => {
                TraceLoss { overrun: 0, dropped: self.lost_before + counter.loss().no_room }
            }
        }
    }

    /// What was read, and what did not come out as whole requests; `None` where the kernel counts.
    pub fn counts(&self) -> Option<(ReadingCounts, PairingCounts)> {
        match &self.method {
            TraceMethod::Tracefs { reader, pairing, .. } => Some((reader.counts(), pairing.counts)),
            TraceMethod::Bpf { .. } => None,
        }
    }

    /// What the program in the kernel could not count.
    pub fn kernel_loss(&self) -> Option<KernelCountLoss> {
        match &self.method {
            TraceMethod::Bpf { counter, .. } => Some(counter.loss()),
            TraceMethod::Tracefs { .. } => None,
        }
    }

    /// Requests that have begun and are not done.
    pub fn unfinished(&self) -> Option<usize> {
        match &self.method {
            TraceMethod::Tracefs { pairing, .. } => Some(pairing.unfinished()),
            TraceMethod::Bpf { .. } => None,
        }
    }

    /// What the kernel counted of a device since the start, traced or not.
    pub fn counted_by_kernel(&self, device: u32, now: &HashMap<u32, RequestTotals>) -> Option<RequestTotals> {
        Some(now.get(&device)?.since(self.totals.get(&device).copied().unwrap_or_default()))
    }

    /// The tracing filesystem.
    pub fn tracefs(&self) -> &Tracefs {
        &self.tracefs
    }
}

impl ProgramRuns {
    /// Takes the kernel's measurement until there is enough of it, then switches it off.
    fn read(&mut self, counter: &KernelCounter) {
        let Some((run_ns, runs)) = self.timer.as_ref().map(|timer| timer.read(counter)) else { return };
        if runs > 0 && self.requests > 0 {
            self.run_ns = run_ns as f64 / runs as f64;
            self.runs_a_request = runs as f64 / self.requests as f64;
        }
        if self.requests > 1000 {
            self.timer = None;
        }
    }
}

/// The share of all processors that reading every event would take.
fn expected_share(requests_per_s: f64) -> f64 {
    let processors = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    // the kernel's part of an event is about as much as ours
    requests_per_s * EVENTS_A_REQUEST * 2.0 * READING_NS / 1e9 / processors
}

fn kernel_filter(options: &SessionOptions, names: &mut BlockDeviceNames) -> KernelFilter {
    let parts: Vec<u32> = options.disks.iter().flat_map(|disk| names.partitions(*disk)).collect();
    KernelFilter { devices: options.disks.iter().copied().chain(parts).collect(), sample: 0 }
}

fn start_tracefs(
    options: &SessionOptions,
    tracefs: &Tracefs,
    names: &mut BlockDeviceNames,
) -> Result<TraceMethod, SessionError> {
    use BlockEventKind::{
        BackMerge, BioComplete, Complete, FrontMerge, GetRequest, Issue, Queue, Remap, RequestMerge, Requeue, Split,
        Start,
    };
    let (table, _) = tracefs.events()?;
    let has_start = table.layout(Start).is_some();
    let start = if has_start { Start } else { GetRequest };
    let kinds =
        [Queue, start, Issue, Complete, Requeue, BackMerge, FrontMerge, RequestMerge, BioComplete, Remap, Split];
    let (reader, record_ns) = EventReader::start_calibrated(tracefs, &kinds, &kernel_filter(options, names))?;
    let only: HashSet<u32> = options.disks.iter().copied().collect();
    let pairing = RequestPairing::new(has_start, (!only.is_empty()).then_some(only));
    Ok(TraceMethod::Tracefs { reader: Box::new(reader), pairing: Box::new(pairing), record_ns })
}

fn start_bpf(
    options: &SessionOptions,
    events: &EventTable,
    names: &mut BlockDeviceNames,
    mask: u64,
) -> Result<TraceMethod, KernelCountError> {
    let disks = if options.disks.is_empty() { names.disks() } else { options.disks.clone() };
    let mut counter = KernelCounter::start(events, names, &disks, mask)?;
    // what ended while programs were attached one by one
    counter.read();
    let run = ProgramRuns { timer: ProgramTimer::start(), ..ProgramRuns::default() };
    Ok(TraceMethod::Bpf { counter: Box::new(counter), run })
}

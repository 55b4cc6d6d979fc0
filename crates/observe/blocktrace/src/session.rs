//! A trace of this machine's requests: chooses the method, watches its cost, and traces less if it costs too much.

use std::collections::HashMap;

use crate::budget::{BudgetAdvice, BudgetKeeper};
use crate::devices::BlockDeviceNames;
use crate::dirty_pages::DirtyPages;
use crate::diskstats::{self, RequestTotals};
use crate::event::{BlockEvent, BlockEventKind, EventTable};
use crate::interval::{DeviceInterval, IntervalCollector};
use crate::kernel::{KernelCountError, KernelCountLoss, ProgramTimer};
use crate::pairing::{PairingCounts, TracedRequest};
use crate::reader::{MAX_SAMPLE_BITS, ReadingCounts};
use crate::summary::RequestSummary;
use crate::trace_cost::{self, TraceCost};
use crate::trace_method::{
    ASSUMED_READING_NS, EVENTS_PER_REQUEST, MIN_TIMED_REQUESTS, RunningMethod, TraceMethod, expected_share,
    kernel_filter, start_bpf, start_tracefs,
};
use crate::tracefs::{TraceLoss, Tracefs, TracefsError};

/// Method of tracing requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MethodChoice {
    /// The method that suits the rate of requests.
    #[default]
    Auto,
    /// Every event, by tracefs.
    Tracefs,
    /// Histograms in the kernel, by BPF.
    Bpf,
}

/// Options of a trace.
#[derive(Clone, Debug)]
pub struct SessionOptions {
    /// Disks; empty means all of them.
    pub disks: Vec<u32>,
    /// Method of tracing.
    pub method: MethodChoice,
    /// Largest share of all processors' time that tracing may use.
    pub budget: f64,
    /// Every event is needed (to write a file).
    pub needs_events: bool,
    /// Width of a heat map's column, nanoseconds.
    pub column_ns: u64,
}

/// Reason why a trace cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// Failure of tracefs, which both methods need.
    #[error(transparent)]
    Tracefs(#[from] TracefsError),
    /// Failure of the program in the kernel.
    #[error(transparent)]
    Kernel(#[from] KernelCountError),
}

/// State at the start of a segment: a part of the trace with one method and one sample.
#[derive(Default)]
struct TraceSegment {
    /// The kernel's counts.
    totals: HashMap<u32, RequestTotals>,
    /// Events of requests that were read.
    events: u64,
    /// Events of dirtied pages that were read.
    dirtied: u64,
}

impl TraceSegment {
    fn start_segment(counts: ReadingCounts) -> TraceSegment {
        TraceSegment { totals: diskstats::read_totals(), events: counts.events, dirtied: counts.dirtied }
    }

    /// Number of events of requests, and of dirtied pages, read in the segment. Sampling drops only the former.
    fn events_since_start(&self, counts: ReadingCounts) -> [u64; 2] {
        [counts.events.saturating_sub(self.events), counts.dirtied.saturating_sub(self.dirtied)]
    }
}

/// A running trace.
pub struct TraceSession {
    method: RunningMethod,
    options: SessionOptions,
    tracefs: Tracefs,
    events: EventTable,
    /// Names of devices.
    pub names: BlockDeviceNames,
    /// All requests since the start.
    pub summary: RequestSummary,
    /// For a recorder: data since the last call of [`TraceSession::take_interval`].
    intervals: Option<IntervalCollector>,
    /// log2 of the sampling ratio.
    sample_bits: u32,
    /// Start of the trace, nanoseconds on the monotonic clock.
    from_ns: u64,
    /// Time of the last reading.
    now_ns: u64,
    /// Disks whose requests are traced.
    disks: Vec<u32>,
    /// The kernel's counts at the start.
    totals: HashMap<u32, RequestTotals>,
    segment: TraceSegment,
    /// Events per request while every event is read.
    events_per_request: f64,
    /// Processor time of the reading thread at the start, nanoseconds.
    reader_from_ns: u64,
    budget_keeper: BudgetKeeper,
    /// Cost of earlier segments.
    earlier_cost: TraceCost,
    /// Events that earlier methods lost.
    lost_before: u64,
    /// Remarks for the user: the method chosen, and each reduction.
    pub remarks: Vec<String>,
    /// Number of processors, read once because that means reading several files.
    processors: usize,
}

impl TraceSession {
    /// Starts a trace at `now_ns` on the monotonic clock. The method is chosen by `requests_per_s`, the rate of
    /// requests to the disks.
    ///
    /// # Errors
    /// When the kernel refuses, or lacks the feature.
    pub fn start(options: SessionOptions, requests_per_s: f64, now_ns: u64) -> Result<TraceSession, SessionError> {
        let tracefs = Tracefs::open()?;
        let (events, unusable) = tracefs.read_event_table()?;
        let mut remarks: Vec<String> = unusable.iter().map(ToString::to_string).collect();
        let removed = tracefs.remove_stale_instances();
        match removed {
            0 => {}
            1 => remarks.push("removed a trace instance left behind by a killed process".into()),
            _ => remarks.push(format!("removed {removed} trace instances left behind by killed processes")),
        }
        let mut names = BlockDeviceNames::default();
        let disks = if options.disks.is_empty() { names.disks() } else { options.disks.clone() };
        let wants_kernel = match options.method {
            MethodChoice::Bpf => true,
            MethodChoice::Tracefs => false,
            MethodChoice::Auto => !options.needs_events && expected_share(requests_per_s) > options.budget,
        };
        let bpf_start = wants_kernel.then(|| start_bpf(&disks, &tracefs, &events, &mut names, &mut remarks));
        let method = match bpf_start {
            Some(Ok(method)) => method,
            Some(Err(error)) if options.method == MethodChoice::Bpf => return Err(error.into()),
            Some(Err(error)) => {
                remarks.push(format!("kernel histograms are not available ({error}); reading every event instead"));
                start_tracefs(&options, &tracefs, &mut names, &mut remarks)?
            }
            None => start_tracefs(&options, &tracefs, &mut names, &mut remarks)?,
        };
        let totals = diskstats::read_totals();
        let summary = RequestSummary::new(now_ns, options.column_ns);
        Ok(TraceSession {
            method,
            options,
            tracefs,
            events,
            names,
            summary,
            intervals: None,
            sample_bits: 0,
            from_ns: now_ns,
            now_ns,
            disks,
            segment: TraceSegment { totals: totals.clone(), ..TraceSegment::default() },
            totals,
            events_per_request: EVENTS_PER_REQUEST,
            reader_from_ns: trace_cost::thread_cpu_ns(),
            budget_keeper: BudgetKeeper::default(),
            earlier_cost: TraceCost::default(),
            lost_before: 0,
            remarks,
            processors: std::thread::available_parallelism().map_or(1, usize::from),
        })
    }

    /// Collects the data of each interval from now on, instead of adding to `summary`.
    pub fn keep_intervals(&mut self) {
        self.intervals = Some(IntervalCollector::default());
    }

    /// Removes and returns the data since the last call, by the kernel's device number; empty unless
    /// [`TraceSession::keep_intervals`] was called.
    pub fn take_interval(&mut self) -> HashMap<u32, DeviceInterval> {
        self.intervals.as_mut().map(IntervalCollector::take_intervals).unwrap_or_default()
    }

    /// Returns the method that is used now.
    pub fn method(&self) -> TraceMethod {
        match self.method {
            RunningMethod::Tracefs { .. } => TraceMethod::Tracefs,
            RunningMethod::Bpf { .. } => TraceMethod::Bpf,
        }
    }

    /// Returns true if the kernel reports the start of a request (6.5 and later); else its first event in a queue
    /// counts as the start.
    pub fn has_start(&self) -> bool {
        self.events.find_layout(BlockEventKind::Start).is_some()
    }

    /// Sampling ratio: one of this many address ranges is traced.
    pub fn sample_divisor(&self) -> u64 {
        1 << self.sample_bits
    }

    /// Reads pending events or counts; events are passed to `each` too.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn poll(&mut self, now_ns: u64, each: &mut dyn FnMut(&BlockEvent)) -> Result<(), SessionError> {
        self.now_ns = now_ns;
        let is_timed = matches!(&self.method, RunningMethod::Bpf { run, .. } if run.timer.is_some());
        let requests = if is_timed { self.counted_requests() } else { 0 };
        let (summary, intervals) = (&mut self.summary, &mut self.intervals);
        let mut add = |request: &TracedRequest| match intervals {
            Some(intervals) => intervals.add_request(request),
            None => summary.add_request(request),
        };
        match &mut self.method {
            RunningMethod::Tracefs { reader, pairing, .. } => {
                let losses = reader.counts().pages_after_loss;
                reader.read(now_ns, |event| {
                    each(event);
                    pairing.handle_event(event, &mut |request| add(&request));
                })?;
                if reader.counts().pages_after_loss > losses {
                    pairing.note_loss(now_ns);
                }
                pairing.give_up_lost(now_ns);
            }
            RunningMethod::Bpf { counter, run } => {
                let is_split = !counter.is_reduced();
                for (device, operation, counted) in counter.read() {
                    match intervals {
                        Some(intervals) => intervals.add_counted(device, operation, &counted, is_split),
                        None => summary.add_counted(device, operation, now_ns.saturating_sub(1), &counted),
                    }
                }
                run.read(counter, requests);
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
        if let RunningMethod::Tracefs { reader, pairing, .. } = &mut self.method {
            reader.finish(|event| {
                each(event);
                pairing.handle_event(event, &mut |request| summary.add_request(&request));
            })?;
        }
        Ok(())
    }

    /// Compares the cost since the last call with the budget: traces less if it is above, and more again if it has been
    /// far below for long.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn enforce_budget(&mut self) -> Result<(), SessionError> {
        if !self.budget_keeper.is_due(self.now_ns - self.from_ns) {
            return Ok(());
        }
        let cost = self.cost();
        let Some((window, advice)) =
            self.budget_keeper.advise_window(cost, self.options.budget, self.event_reading_ns())
        else {
            return Ok(());
        };
        let seconds = (self.now_ns - self.from_ns) as f64 / 1e9;
        let share = window.processor_share().unwrap_or(0.0) * 100.0;
        let budget = self.options.budget * 100.0;
        match advice {
            BudgetAdvice::Less => {
                let reason = format!(
                    "at {seconds:.0} s tracing took {share:.2} % of the processors, more than the budget of {budget} %"
                );
                self.reduce_tracing(&reason)
            }
            BudgetAdvice::More => {
                let reason = format!("at {seconds:.0} s tracing took {share:.2} % of the processors");
                self.extend_tracing(&reason, &window)
            }
            BudgetAdvice::OtherCost => {
                self.remarks.push(format!(
                    "at {seconds:.0} s tracing took {share:.2} % of the processors, more than the budget of {budget} \
                     %; fewer events would not help"
                ));
                Ok(())
            }
        }
    }

    /// Returns true if the method may change while the trace runs.
    fn is_auto(&self) -> bool {
        self.options.method == MethodChoice::Auto && !self.options.needs_events
    }

    /// Traces less. Gives up the least detail first: dirtied pages, single events, separate times; then takes a smaller
    /// sample.
    fn reduce_tracing(&mut self, reason: &str) -> Result<(), SessionError> {
        if let RunningMethod::Tracefs { reader, .. } = &mut self.method {
            let counts = reader.counts();
            if counts.dirtied > counts.events && reader.stop_dirty_pages()? {
                self.remarks.push(format!("{reason}: from then on, who dirties pages is not traced"));
                return Ok(());
            }
            if self.is_auto()
                && let Ok(method) =
                    start_bpf(&self.disks, &self.tracefs, &self.events, &mut self.names, &mut self.remarks)
            {
                self.switch_method(method);
                self.remarks.push(format!("{reason}: from then on, the kernel keeps histograms (bpf)"));
                return Ok(());
            }
        }
        if let RunningMethod::Bpf { counter, .. } = &self.method
            && !counter.is_reduced()
            && counter.has_requests()
        {
            let limitation = if counter.is_typed() {
                "the time at the device is not separate"
            } else {
                "latency counts from the issue, without the wait before it"
            };
            self.set_reduced(true)?;
            self.remarks.push(format!("{reason}: from then on, {limitation}"));
        } else if self.sample_bits < MAX_SAMPLE_BITS {
            self.set_sample(self.sample_bits + 1)?;
            self.remarks
                .push(format!("{reason}: from then on, 1 of {} address ranges is traced", self.sample_divisor()));
        } else if self.budget_keeper.mark_spent() {
            self.remarks.push(format!("{reason}: even the smallest sample is too much"));
        }
        Ok(())
    }

    /// Undoes one reduction, the last first.
    fn extend_tracing(&mut self, reason: &str, window: &TraceCost) -> Result<(), SessionError> {
        if self.sample_bits > 0 {
            self.set_sample(self.sample_bits - 1)?;
            let ranges = if self.sample_bits == 0 {
                "all ranges are".into()
            } else {
                format!("1 of {} is", self.sample_divisor())
            };
            self.remarks.push(format!("{reason}: from then on, {ranges} traced again"));
            return Ok(());
        }
        if let RunningMethod::Bpf { counter, .. } = &self.method
            && counter.is_reduced()
        {
            self.set_reduced(false)?;
            self.remarks.push(format!("{reason}: from then on, the time before and at the device is known again"));
            return Ok(());
        }
        let RunningMethod::Bpf { run, .. } = &self.method else { return Ok(()) };
        let requests = window.events as f64 / run.runs_per_request.max(1.0);
        let rate = requests / (window.elapsed_ns as f64 / 1e9);
        if self.is_auto() && expected_share(rate) * 2.0 < self.options.budget {
            let method = start_tracefs(&self.options, &self.tracefs, &mut self.names, &mut self.remarks)?;
            self.switch_method(method);
            self.remarks.push(format!("{reason}: from then on, every event is read again (tracefs)"));
        }
        Ok(())
    }

    /// Cost of an event in this process, nanoseconds; 0 for histograms, whose reading costs the same for any number of
    /// events.
    fn event_reading_ns(&self) -> f64 {
        match self.method {
            RunningMethod::Tracefs { .. } => ASSUMED_READING_NS,
            RunningMethod::Bpf { .. } => 0.0,
        }
    }

    /// Closes the segment, adds up its cost, and starts the counts of the next segment, which may have another method.
    fn start_next_segment(&mut self, method: Option<RunningMethod>) {
        let mut cost = self.cost();
        // elapsed time and processor time are not counted by segment; events and the kernel's time are
        (cost.elapsed_ns, cost.reader_ns) = (0, 0);
        let requests = self.counted_requests();
        self.earlier_cost = cost;
        if let (RunningMethod::Tracefs { reader, .. }, 0) = (&self.method, self.sample_bits)
            && requests > MIN_TIMED_REQUESTS
        {
            self.events_per_request = self.segment.events_since_start(reader.counts())[0] as f64 / requests as f64;
        }
        if let Some(method) = method {
            self.lost_before = self.loss().total();
            self.method = method;
        }
        self.segment = TraceSegment::start_segment(self.counts().map(|(reading, _)| reading).unwrap_or_default());
    }

    fn switch_method(&mut self, method: RunningMethod) {
        self.start_next_segment(Some(method));
    }

    /// Returns true if the kernel's programs are reduced: the time at the device, or the time before it, is unknown.
    pub fn is_reduced(&self) -> bool {
        matches!(&self.method, RunningMethod::Bpf { counter, .. } if counter.is_reduced())
    }

    /// Returns true if the kernel's programs read requests themselves (typed tracepoints), false if they read events;
    /// `None` if none runs.
    pub fn reads_requests(&self) -> Option<bool> {
        match &self.method {
            RunningMethod::Bpf { counter, .. } => Some(counter.is_typed()),
            RunningMethod::Tracefs { .. } => None,
        }
    }

    /// Returns true if histograms in the kernel lack the time before the issue.
    pub fn is_from_issue(&self) -> bool {
        matches!(&self.method, RunningMethod::Bpf { counter, .. } if counter.is_reduced() && !counter.is_typed())
    }

    fn set_reduced(&mut self, is_reduced: bool) -> Result<(), SessionError> {
        let RunningMethod::Bpf { counter, .. } = &mut self.method else { return Ok(()) };
        counter.set_sampling(&self.events, &mut self.names, 0, is_reduced)?;
        self.restart_program_timing();
        Ok(())
    }

    fn set_sample(&mut self, sample_bits: u32) -> Result<(), SessionError> {
        let mut filter = kernel_filter(&self.options, &mut self.names);
        filter.sample_bits = sample_bits;
        match &mut self.method {
            RunningMethod::Tracefs { reader, pairing, .. } => {
                reader.set_filter(&filter)?;
                pairing.forget_unsampled(filter.sector_mask());
                self.start_next_segment(None);
            }
            RunningMethod::Bpf { counter, .. } => {
                let is_reduced = counter.is_reduced();
                counter.set_sampling(&self.events, &mut self.names, filter.sector_mask(), is_reduced)?;
                self.restart_program_timing();
            }
        }
        self.sample_bits = sample_bits;
        Ok(())
    }

    /// Starts a new segment after programs were attached, because many requests may complete meanwhile, and restarts
    /// the timing of the programs.
    fn restart_program_timing(&mut self) {
        self.start_next_segment(None);
        if let RunningMethod::Bpf { run, .. } = &mut self.method {
            run.timer = ProgramTimer::start();
        }
    }

    /// Number of requests to the traced disks that the kernel counted in this segment, sampled or not.
    fn counted_requests(&self) -> u64 {
        diskstats::requests_since(&diskstats::read_totals(), &self.segment.totals, &self.disks)
    }

    /// Cost of the trace so far.
    pub fn cost(&self) -> TraceCost {
        let requests = self.counted_requests() as f64;
        let (events, kernel_ns) = match &self.method {
            RunningMethod::Tracefs { reader, record, .. } => {
                let [request_events, dirtied] =
                    self.segment.events_since_start(reader.counts()).map(|events| events as f64);
                let all_events = if self.sample_bits > 0 { requests * self.events_per_request } else { request_events };
                let kept = request_events + dirtied;
                (kept, kept * record.kept_ns + (all_events - request_events).max(0.0) * record.dropped_ns)
            }
            RunningMethod::Bpf { run, .. } => {
                let runs = requests * run.runs_per_request;
                (runs, runs * (run.entry_ns + run.run_ns))
            }
        };
        TraceCost {
            elapsed_ns: self.now_ns - self.from_ns,
            events: self.earlier_cost.events + events as u64,
            reader_ns: trace_cost::thread_cpu_ns() - self.reader_from_ns,
            kernel_ns: self.earlier_cost.kernel_ns + kernel_ns,
            processors: self.processors,
        }
    }

    /// Calibrated cost of an event or a run in the kernel, nanoseconds.
    pub fn event_ns(&self) -> f64 {
        match &self.method {
            RunningMethod::Tracefs { record, .. } => record.kept_ns,
            RunningMethod::Bpf { run, .. } => run.entry_ns + run.run_ns,
        }
    }

    /// Pages dirtied by each thread since the start or since they were last taken; `None` if the kernel counts.
    pub fn dirty_pages(&self) -> Option<&DirtyPages> {
        match &self.method {
            RunningMethod::Tracefs { reader, .. } => Some(reader.dirty_pages()),
            RunningMethod::Bpf { .. } => None,
        }
    }

    /// Removes and returns the dirtied pages.
    pub fn take_dirtied(&mut self) -> DirtyPages {
        match &mut self.method {
            RunningMethod::Tracefs { reader, .. } => reader.take_dirtied(),
            RunningMethod::Bpf { .. } => DirtyPages::default(),
        }
    }

    /// Events that the kernel lost.
    pub fn loss(&self) -> TraceLoss {
        let mut loss = match &self.method {
            RunningMethod::Tracefs { reader, .. } => reader.loss(),
            RunningMethod::Bpf { counter, .. } => {
                let loss = counter.loss();
                TraceLoss { dropped: loss.no_room + loss.missed, ..TraceLoss::default() }
            }
        };
        loss.dropped += self.lost_before;
        loss
    }

    /// Counts of events read, and of those that gave no complete request; `None` if the kernel counts.
    pub fn counts(&self) -> Option<(ReadingCounts, PairingCounts)> {
        match &self.method {
            RunningMethod::Tracefs { reader, pairing, .. } => Some((reader.counts(), pairing.counts)),
            RunningMethod::Bpf { .. } => None,
        }
    }

    /// Requests that the program in the kernel could not count; `None` if no program runs.
    pub fn kernel_loss(&self) -> Option<KernelCountLoss> {
        match &self.method {
            RunningMethod::Bpf { counter, .. } => Some(counter.loss()),
            RunningMethod::Tracefs { .. } => None,
        }
    }

    /// Number of requests in flight; `None` if the kernel counts.
    pub fn unfinished_count(&self) -> Option<usize> {
        match &self.method {
            RunningMethod::Tracefs { pairing, .. } => Some(pairing.unfinished_count()),
            RunningMethod::Bpf { .. } => None,
        }
    }

    /// The requests in flight, as if they completed now, the oldest first; empty if the kernel counts.
    pub fn unfinished_requests(&self) -> Vec<TracedRequest> {
        let RunningMethod::Tracefs { pairing, .. } = &self.method else { return Vec::new() };
        let mut requests = pairing.unfinished_at(self.now_ns);
        requests.sort_by_key(TracedRequest::arrived_ns);
        requests
    }

    /// Requests of a device that the kernel counted from the start of the trace to `now`, traced or not; `None` if the
    /// device is gone or its number now belongs to another device.
    pub fn counted_by_kernel(&self, device: u32, now: &HashMap<u32, RequestTotals>) -> Option<RequestTotals> {
        now.get(&device)?.difference_since(self.totals.get(&device).copied().unwrap_or_default())
    }

    /// The tracing filesystem.
    pub fn tracefs(&self) -> &Tracefs {
        &self.tracefs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten million pages were dirtied before the segment began, and a million events of requests read in it.
    #[test]
    fn dirtied_pages_do_not_count_as_request_events() {
        let counts = |events, dirtied| ReadingCounts { events, dirtied, ..ReadingCounts::default() };
        let segment = TraceSegment::start_segment(counts(2_000_000, 10_000_000));
        assert_eq!(segment.events_since_start(counts(3_000_000, 10_000_007)), [1_000_000, 7]);
    }
}

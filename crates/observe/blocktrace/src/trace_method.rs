//! The two methods of tracing requests, and their start.

use std::collections::HashSet;

use diskwright_base::units::format_count;

use crate::devices::BlockDeviceNames;
use crate::event::{BlockEventKind, EventTable};
use crate::kernel::{KernelCountError, KernelCounter, ProgramTimer};
use crate::pairing::RequestPairing;
use crate::reader::{EventReader, KernelFilter};
use crate::session::{SessionError, SessionOptions};
use crate::trace_cost::{self, RecordCost};
use crate::tracefs::Tracefs;

/// Assumed number of events per request: queue, start, issue and completion; and one more, for splits and remaps.
pub(crate) const EVENTS_PER_REQUEST: f64 = 5.0;
/// Assumed time to decode and pair an event, nanoseconds.
pub(crate) const ASSUMED_READING_NS: f64 = 250.0;
/// Number of requests after which the kernel stops timing its programs.
pub(crate) const MIN_TIMED_REQUESTS: u64 = 5000;

/// A method of tracing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceMethod {
    /// Every event is read.
    Tracefs,
    /// Programs in the kernel count.
    Bpf,
}

impl TraceMethod {
    /// Returns its name on the command line and in documents.
    pub fn name(self) -> &'static str {
        match self {
            TraceMethod::Tracefs => "tracefs",
            TraceMethod::Bpf => "bpf",
        }
    }
}

/// A running method.
pub(crate) enum RunningMethod {
    Tracefs { reader: Box<EventReader>, pairing: Box<RequestPairing>, record: RecordCost },
    Bpf { counter: Box<KernelCounter>, run: ProgramRuns },
}

/// Duration and number of runs of the programs, as the kernel measures them over some requests.
#[derive(Default)]
pub(crate) struct ProgramRuns {
    pub timer: Option<ProgramTimer>,
    /// Cost of entering a program, as calibrated, nanoseconds.
    pub entry_ns: f64,
    /// Mean duration of a run, nanoseconds.
    pub run_ns: f64,
    /// Runs per request, sampled or not.
    pub runs_per_request: f64,
}

impl ProgramRuns {
    /// Reads the kernel's measurement, and ends it once it covers enough requests. `requests` is the number of all
    /// requests since the programs started.
    pub fn read(&mut self, counter: &KernelCounter, requests: u64) {
        let Some((run_ns, runs)) = self.timer.as_ref().map(|timer| timer.read(counter)) else { return };
        if runs > 0 && requests > 0 {
            self.run_ns = run_ns as f64 / runs as f64;
            self.runs_per_request = runs as f64 / requests as f64;
        }
        if requests > MIN_TIMED_REQUESTS {
            self.timer = None;
        }
    }
}

/// Estimates the share of all processors that reading every event would take.
pub(crate) fn expected_share(requests_per_s: f64) -> f64 {
    let processors = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    // an event costs about as much in the kernel as in this process
    requests_per_s * EVENTS_PER_REQUEST * 2.0 * ASSUMED_READING_NS / 1e9 / processors
}

/// Returns the filter for the traced disks, their partitions and hidden paths, without sampling.
pub(crate) fn kernel_filter(options: &SessionOptions, names: &mut BlockDeviceNames) -> KernelFilter {
    let mut devices = options.disks.clone();
    for disk in &options.disks {
        devices.extend(names.partitions(*disk));
        devices.extend(names.multipath_paths(*disk));
    }
    KernelFilter { devices, sample_bits: 0 }
}

/// Starts reading every event.
pub(crate) fn start_tracefs(
    options: &SessionOptions,
    tracefs: &Tracefs,
    names: &mut BlockDeviceNames,
    remarks: &mut Vec<String>,
) -> Result<RunningMethod, SessionError> {
    use BlockEventKind::{
        BackMerge, BioComplete, Complete, FrontMerge, GetRequest, Issue, Queue, Remap, RequestMerge, Requeue, Split,
        Start,
    };
    let (table, _) = tracefs.read_event_table()?;
    let has_start = table.find_layout(Start).is_some();
    let start = if has_start { Start } else { GetRequest };
    let kinds =
        [Queue, start, Issue, Complete, Requeue, BackMerge, FrontMerge, RequestMerge, BioComplete, Remap, Split];
    let (reader, record) = EventReader::start_calibrated(tracefs, &kinds, &kernel_filter(options, names))?;
    let record = record.unwrap_or_else(|error| {
        remarks.push(assumed_cost_remark(&error));
        RecordCost::ASSUMED
    });
    let disks: HashSet<u32> = options.disks.iter().copied().collect();
    let pairing = RequestPairing::new(has_start, (!disks.is_empty()).then_some(disks));
    Ok(RunningMethod::Tracefs { reader: Box::new(reader), pairing: Box::new(pairing), record })
}

pub(crate) fn assumed_cost_remark(error: &dyn std::fmt::Display) -> String {
    format!(
        "what an event costs in the kernel could not be timed ({error}): {} ns are assumed",
        trace_cost::ASSUMED_EVENT_NS
    )
}

/// Starts the programs in the kernel.
pub(crate) fn start_bpf(
    disks: &[u32],
    tracefs: &Tracefs,
    events: &EventTable,
    names: &mut BlockDeviceNames,
    remarks: &mut Vec<String>,
) -> Result<RunningMethod, KernelCountError> {
    let tracepoint = tracefs
        .read_text(&format!("events/{}/id", trace_cost::CALIBRATION_EVENT))
        .ok()
        .and_then(|id| id.trim().parse().ok());
    let mut counter = KernelCounter::start(events, names, disks, 0)?;
    let tracepoint = tracepoint.ok_or(KernelCountError::Layout(trace_cost::CALIBRATION_EVENT));
    let entry_ns = tracepoint.and_then(|tracepoint| counter.entry_ns(tracepoint));
    if let Some(refusal) = &counter.refusal {
        remarks.push(format!("programs read events, which costs more: requests themselves were refused ({refusal})"));
    }
    let entry_ns = entry_ns.unwrap_or_else(|error| {
        remarks.push(assumed_cost_remark(&error));
        trace_cost::ASSUMED_EVENT_NS
    });
    if counter.left_out > 0 {
        let devices = format_count(counter.left_out, "device is", "devices are");
        remarks.push(format!("{devices} more than the program counts: name those to trace"));
    }
    // discards requests that ended while programs were attached one by one
    counter.read();
    let run = ProgramRuns { timer: ProgramTimer::start(), entry_ns, ..ProgramRuns::default() };
    Ok(RunningMethod::Bpf { counter: Box::new(counter), run })
}

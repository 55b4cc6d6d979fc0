//! The two ways in which requests are seen, and how each begins.

use std::collections::HashSet;

use diskwright_base::units::plural;

use crate::cost::{self, RecordCost};
use crate::devices::BlockDeviceNames;
use crate::event::{BlockEventKind, EventTable};
use crate::kernel::{KernelCountError, KernelCounter, ProgramTimer};
use crate::pairing::RequestPairing;
use crate::reader::{EventReader, KernelFilter};
use crate::session::{SessionError, SessionOptions};
use crate::tracefs::Tracefs;

/// Events of a request that nothing merges: queue, start, issue, completion; and one more for splits and such.
pub(crate) const EVENTS_A_REQUEST: f64 = 5.0;
/// What decoding and pairing an event takes before it is measured, nanoseconds.
pub(crate) const READING_NS: f64 = 250.0;
/// Requests over which the kernel times its programs.
pub(crate) const TIMED: u64 = 5000;

/// A way that has begun.
pub(crate) enum TraceMethod {
    Tracefs { reader: Box<EventReader>, pairing: Box<RequestPairing>, record: RecordCost },
    Bpf { counter: Box<KernelCounter>, run: ProgramRuns },
}

/// How long programs run and how often, by the kernel's own measurement over some requests.
#[derive(Default)]
pub(crate) struct ProgramRuns {
    pub timer: Option<ProgramTimer>,
    /// The tracepoint's own work, as calibrated.
    pub entry_ns: f64,
    pub run_ns: f64,
    /// Of all requests, in the sample or not.
    pub runs_a_request: f64,
}

impl ProgramRuns {
    /// Takes the kernel's measurement until there is enough of it, then switches it off. `asked` are all requests
    /// since the programs began.
    pub fn read(&mut self, counter: &KernelCounter, asked: u64) {
        let Some((run_ns, runs)) = self.timer.as_ref().map(|timer| timer.read(counter)) else { return };
        if runs > 0 && asked > 0 {
            self.run_ns = run_ns as f64 / runs as f64;
            self.runs_a_request = runs as f64 / asked as f64;
        }
        if asked > TIMED {
            self.timer = None;
        }
    }
}

/// The share of all processors that reading every event would take.
pub(crate) fn expected_share(requests_per_s: f64) -> f64 {
    let processors = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    // the kernel's part of an event is about as much as ours
    requests_per_s * EVENTS_A_REQUEST * 2.0 * READING_NS / 1e9 / processors
}

pub(crate) fn kernel_filter(options: &SessionOptions, names: &mut BlockDeviceNames) -> KernelFilter {
    let mut devices = options.disks.clone();
    for disk in &options.disks {
        devices.extend(names.partitions(*disk));
        devices.extend(names.paths(*disk));
    }
    KernelFilter { devices, sample: 0 }
}

pub(crate) fn start_tracefs(
    options: &SessionOptions,
    tracefs: &Tracefs,
    names: &mut BlockDeviceNames,
    remarks: &mut Vec<String>,
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
    let (reader, record) = EventReader::start_calibrated(tracefs, &kinds, &kernel_filter(options, names))?;
    let record = record.unwrap_or_else(|error| {
        remarks.push(assumed(&error));
        RecordCost::ASSUMED
    });
    let only: HashSet<u32> = options.disks.iter().copied().collect();
    let pairing = RequestPairing::new(has_start, (!only.is_empty()).then_some(only));
    Ok(TraceMethod::Tracefs { reader: Box::new(reader), pairing: Box::new(pairing), record })
}

pub(crate) fn assumed(error: &dyn std::fmt::Display) -> String {
    format!("what an event costs in the kernel could not be timed ({error}): {} ns are assumed", cost::ASSUMED_NS)
}

pub(crate) fn start_bpf(
    disks: &[u32],
    tracefs: &Tracefs,
    events: &EventTable,
    names: &mut BlockDeviceNames,
    remarks: &mut Vec<String>,
) -> Result<TraceMethod, KernelCountError> {
    let number = tracefs.text(&format!("events/{}/id", cost::CALIBRATED)).ok().and_then(|id| id.trim().parse().ok());
    let mut counter = KernelCounter::start(events, names, disks, 0)?;
    let number = number.ok_or(KernelCountError::Layout(cost::CALIBRATED));
    let entry_ns = number.and_then(|number| counter.entry_ns(number));
    if let Some(refusal) = &counter.refusal {
        remarks.push(format!("programs read events, which costs more: requests themselves were refused ({refusal})"));
    }
    let entry_ns = entry_ns.unwrap_or_else(|error| {
        remarks.push(assumed(&error));
        cost::ASSUMED_NS
    });
    if counter.left_out > 0 {
        let devices = plural(counter.left_out, "device is", "devices are");
        remarks.push(format!("{devices} more than the program counts: name those to trace"));
    }
    // what ended while programs were attached one by one
    counter.read();
    let run = ProgramRuns { timer: ProgramTimer::start(), entry_ns, ..ProgramRuns::default() };
    Ok(TraceMethod::Bpf { counter: Box::new(counter), run })
}

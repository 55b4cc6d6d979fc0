//! `--capture` of `record`, `watch` and `serve`: what will be gone is saved at the beginning of an alert, as a note for
//! the log or for the history in memory. A thread waits for alerts; other processes of this program read the files
//! that may hang and trace single requests. The sampler never waits for any of them.

mod answer;
pub mod moment;
mod trace_answer;

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use clap::Args;
use diskwright_base::Note;
use diskwright_base::byte_size::parse_memory_size;
use diskwright_base::capture::{CAPTURE_SCHEMA, MissingPart, MomentCapture};
use diskwright_base::timestamp::format_rfc3339;
use diskwright_base::units::parse_duration;
use diskwright_dashboard::alerts::{AlertChange, AlertEvent};

use super::{Failure, output};
use answer::{Answer, wait_for_answers};

/// Seconds of requests that are traced.
const TRACE_S: u64 = 5;
/// Time for all of a capture. A tracer that starts on a busy machine takes seconds.
const MAX_TIME: Duration = Duration::from_secs(20);
/// Time for a process that was asked to end.
const MAX_END_TIME: Duration = Duration::from_secs(2);
/// Largest number of processes whose open files are read.
const MAX_CULPRITS: usize = 6;
/// A day, for the limit of captures.
const DAY_NS: i64 = 86_400_000_000_000;

/// Options of captures.
#[derive(Args, Clone)]
#[command(next_help_heading = "Captures")]
pub struct CaptureArguments {
    /// Save what will be gone when an alert begins: stacks of blocked tasks, open files of the culprits, five seconds
    /// of traced requests, who holds the memory; `record` then raises alerts, too
    #[arg(long)]
    capture: bool,
    /// Shortest time between two captures
    #[arg(long, default_value = "5m", value_parser = parse_duration, value_name = "DURATION", requires = "capture")]
    capture_every: Duration,
    /// Most captures within 24 hours
    #[arg(long, default_value_t = 24, value_name = "NUMBER", requires = "capture")]
    capture_per_day: u16,
    /// Largest size of a capture in the log or in memory
    #[arg(long, default_value = "256K", value_parser = parse_size, value_name = "SIZE", requires = "capture")]
    capture_size: u64,
}

/// Parses a size between 4 KiB and 4 MiB.
fn parse_size(text: &str) -> Result<u64, String> {
    let bytes = parse_memory_size(text).map_err(|error| error.to_string())?;
    if (4 << 10..=4 << 20).contains(&bytes) { Ok(bytes) } else { Err("expected 4K to 4M".to_owned()) }
}

impl CaptureArguments {
    /// True if captures are requested.
    pub fn is_given(&self) -> bool {
        self.capture
    }

    /// Refuses captures for logs and metric stores: their machine may be another one, and its moment is over.
    pub fn refuse_for_logs(&self) -> Result<(), Failure> {
        match self.capture {
            true => Err(Failure::Usage(
                "--capture saves evidence of this machine, live; for a log, use it where it is recorded: `record DIR \
                 --capture`"
                    .into(),
            )),
            false => Ok(()),
        }
    }
}

/// An alert that began.
#[derive(Clone)]
struct CaptureRequest {
    alert: String,
    instance: String,
    /// Processes that the alert blames.
    pids: Vec<u32>,
    time_ns: i64,
}

/// Decides when to capture: bounded in rate.
struct CaptureSchedule {
    interval_ns: i64,
    per_day: usize,
    /// Times of the captures of the last day.
    times_ns: VecDeque<i64>,
}

impl CaptureSchedule {
    fn new(arguments: &CaptureArguments) -> CaptureSchedule {
        CaptureSchedule {
            interval_ns: i64::try_from(arguments.capture_every.as_nanos()).unwrap_or(i64::MAX),
            per_day: arguments.capture_per_day.into(),
            times_ns: VecDeque::new(),
        }
    }

    /// True if a capture may begin now; it then counts.
    fn take_turn(&mut self, now_ns: i64) -> bool {
        // a clock that was set back forgets what then lies in the future
        self.times_ns.retain(|time_ns| (0..DAY_NS).contains(&now_ns.saturating_sub(*time_ns)));
        let is_early = self.times_ns.back().is_some_and(|last| now_ns - last < self.interval_ns);
        if is_early || self.times_ns.len() >= self.per_day {
            return false;
        }
        self.times_ns.push_back(now_ns);
        true
    }
}

/// The thread that captures for a sampler of this machine.
pub struct CaptureThread {
    schedule: CaptureSchedule,
    requests: Option<SyncSender<CaptureRequest>>,
    notes: Arc<Mutex<Vec<Note>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl CaptureThread {
    /// Starts the thread if captures are requested.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start_if_given(arguments: &CaptureArguments) -> io::Result<Option<CaptureThread>> {
        arguments.is_given().then(|| CaptureThread::start(arguments)).transpose()
    }

    /// Starts the thread for a live view, which goes on without it after a warning.
    pub fn start_or_warn(arguments: &CaptureArguments) -> Option<CaptureThread> {
        CaptureThread::start_if_given(arguments).unwrap_or_else(|error| {
            output::print_warning(format_args!("no captures are made: {error}"));
            None
        })
    }

    fn start(arguments: &CaptureArguments) -> io::Result<CaptureThread> {
        let (notes, stop) = (Arc::<Mutex<Vec<Note>>>::default(), Arc::new(AtomicBool::new(false)));
        // one capture waits at most: the schedule leaves minutes between two
        let (sender, receiver) = mpsc::sync_channel(1);
        let worker = CaptureWorker {
            notes: Arc::clone(&notes),
            stop: Arc::clone(&stop),
            max_bytes: usize::try_from(arguments.capture_size).unwrap_or(usize::MAX),
        };
        let thread = std::thread::Builder::new()
            .name("capture".into())
            .stack_size(crate::commands::process_limits::SMALL_STACK_BYTES)
            .spawn(move || worker.serve_requests(&receiver))?;
        let (schedule, thread) = (CaptureSchedule::new(arguments), Some(thread));
        Ok(CaptureThread { schedule, requests: Some(sender), notes, stop, thread })
    }

    /// Begins a capture if an alert began and the schedule allows one. It never waits.
    pub fn handle_events(&mut self, events: &[AlertEvent]) {
        let is_beginning = |event: &&AlertEvent| {
            matches!(event.change, AlertChange::Begin | AlertChange::Worse) && event.alert.bottleneck.blames()
        };
        let Some(event) = events.iter().find(is_beginning) else { return };
        if !self.schedule.take_turn(event.time_ns) {
            return;
        }
        let alert = &event.alert;
        let request = CaptureRequest {
            alert: alert.id.clone(),
            instance: alert.instance.clone(),
            pids: alert.culprits.iter().filter_map(|culprit| culprit.pid).take(MAX_CULPRITS).collect(),
            time_ns: event.time_ns,
        };
        // a capture that takes its time keeps the next one from beginning
        let _ = self.requests.as_ref().map(|requests| requests.try_send(request));
    }

    /// Returns the captures that are complete.
    pub fn take_notes(&self) -> Vec<Note> {
        std::mem::take(&mut self.notes.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Ends the thread; a capture that is not complete is saved as far as it is.
    pub fn finish(mut self) -> Vec<Note> {
        self.end_thread();
        self.take_notes()
    }

    fn end_thread(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.requests = None;
        if let Some(thread) = self.thread.take() {
            // the thread waits for nothing longer than the interval of its checks
            let _ = thread.join();
        }
    }
}

impl Drop for CaptureThread {
    fn drop(&mut self) {
        self.end_thread();
    }
}

struct CaptureWorker {
    notes: Arc<Mutex<Vec<Note>>>,
    stop: Arc<AtomicBool>,
    max_bytes: usize,
}

impl CaptureWorker {
    fn serve_requests(&self, requests: &Receiver<CaptureRequest>) {
        for request in requests {
            let capture = self.capture_moment(&request);
            let note = Note::new(request.time_ns, Note::CAPTURE, capture.to_bounded_json(self.max_bytes));
            self.notes.lock().unwrap_or_else(PoisonError::into_inner).push(note);
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
        }
    }

    fn capture_moment(&self, request: &CaptureRequest) -> MomentCapture {
        let begin = Instant::now();
        let pids = request.pids.iter().map(u32::to_string);
        let mut moment = Answer::start("capture-moment", pids.collect());
        let mut trace = Answer::start("trace", vec!["--for".into(), format!("{TRACE_S}s"), "--json".into()]);
        let is_over = || begin.elapsed() > MAX_TIME || self.stop.load(Ordering::Relaxed);
        let mut asked: Option<Instant> = None;
        while moment.is_open() || trace.is_open() {
            wait_for_answers(&[&moment, &trace]);
            moment.read_available();
            trace.read_available();
            // a trace that is asked to end cleans up and tells what it has
            if asked.is_none() && is_over() {
                moment.ask_to_end();
                trace.ask_to_end();
                asked = Some(Instant::now());
            }
            if asked.is_some_and(|asked| asked.elapsed() > MAX_END_TIME) {
                break;
            }
        }
        let mut capture = MomentCapture::default();
        // each line has a part, so that what was read before a file hung is not lost
        let (parts, error) = moment.finish(MAX_TIME);
        for part in parts.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()) {
            merge_part(&mut capture, part);
        }
        capture.missing.extend(error.map(|because| MissingPart { what: "blocked tasks and files".into(), because }));
        let (trace, error) = trace.finish(MAX_TIME);
        match trace_answer::parse_trace(&trace) {
            Some(requests) => capture.requests = Some(requests),
            None => {
                let because = error.unwrap_or_else(|| "the trace ended without an answer".into());
                capture.missing.push(MissingPart { what: "requests".into(), because });
            }
        }
        capture.schema = CAPTURE_SCHEMA.into();
        capture.time = format_rfc3339(request.time_ns);
        (capture.alert, capture.instance) = (request.alert.clone(), request.instance.clone());
        capture.took_s = begin.elapsed().as_secs_f64();
        capture
    }
}

/// Takes what a part has.
fn merge_part(capture: &mut MomentCapture, part: MomentCapture) {
    if part.blocked.looked_at > 0 {
        capture.blocked = part.blocked;
    }
    capture.open_files.extend(part.open_files);
    capture.memory_groups.extend(part.memory_groups);
    capture.memory_processes.extend(part.memory_processes);
    capture.missing.extend(part.missing);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule() -> CaptureSchedule {
        CaptureSchedule { interval_ns: 300_000_000_000, per_day: 3, times_ns: VecDeque::new() }
    }

    #[test]
    fn captures_are_bounded_in_rate() {
        let minute = 60_000_000_000;
        let mut schedule = schedule();
        let taken: Vec<i64> = (0..60).filter(|number| schedule.take_turn(number * minute)).collect();
        assert_eq!(taken, [0, 5, 10], "one in five minutes, three a day");
        assert!(!schedule.take_turn(DAY_NS - 1) && schedule.take_turn(DAY_NS));
        // the clock was set back by an hour
        assert!(schedule.take_turn(DAY_NS - 60 * minute));
    }

    #[test]
    fn parts_are_merged_and_a_size_has_bounds() {
        let mut capture = MomentCapture::default();
        let part = |text: &str| serde_json::from_str::<MomentCapture>(text).expect("a part");
        merge_part(&mut capture, part(r#"{"blocked": {"looked_at": 9, "count": 2}}"#));
        merge_part(&mut capture, part(r#"{"missing": [{"what": "stacks", "because": "no"}]}"#));
        assert_eq!((capture.blocked.count, capture.missing.len()), (2, 1));
        assert_eq!(parse_size("256K"), Ok(256 << 10));
        assert!(parse_size("1K").is_err() && parse_size("1G").is_err() && parse_size("x").is_err());
    }
}

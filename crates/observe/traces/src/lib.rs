//! Traces of disk requests.
//!
//! [`open`] recognizes a trace by its content and returns its requests as an iterator, in order of arrival and in
//! constant memory (except for requests in flight). [`statistics::Statistics`] aggregates them. Each format is a file
//! in `formats/`. Formats with one line or record per request share one engine (`line_trace.rs`); formats with several
//! events per request share another (`event_trace.rs`, `matcher.rs`).
//!
//! Unreadable parts are skipped, and reported by [`Trace::summary`] with location and reason. An error ends the trace
//! only if the system cannot read a file.

mod error;
mod event_trace;
mod events;
mod file_sets;
mod formats;
mod line_trace;
mod matcher;
mod remaps;
mod sorter;
pub mod statistics;
mod summary;
mod text_fields;
pub mod ticks;
mod trace_bytes;

use std::path::PathBuf;

use diskwright_base::Request;
pub use diskwright_logs::{InputHead, LogInput};

pub use error::TraceError;
use event_trace::EventTrace;
use formats::TraceShape;
pub use formats::{CSV_HEADING, FORMATS, TraceFormat, ambiguous_formats, recognise_format, write_csv_line};
use line_trace::LineTrace;
pub use statistics::Statistics;
pub use summary::{PassedOn, Skip, TraceSummary};
use trace_bytes::TraceBytes;

/// Engine that reads the trace's format.
enum TraceEngine {
    Lines(Box<LineTrace>),
    Events(Box<EventTrace>),
}

/// A trace being read: an iterator of requests.
pub struct Trace {
    format: &'static TraceFormat,
    files: Vec<String>,
    engine: TraceEngine,
    requests: u64,
    out_of_order: u64,
    /// First arrival, and last arrival or completion.
    span_ns: Option<(i64, i64)>,
    /// Latest arrival so far.
    last_ns: i64,
    /// An error ended the trace.
    has_failed: bool,
    /// Assumption about something that the trace does not specify.
    assumption: Option<String>,
}

/// Opens the files of one trace, all of one format; `-` is standard input. One
/// `NAME.blktrace.CPU` opens the files of all processors.
///
/// # Errors
/// When a file cannot be opened, is not a trace, or has another format than the others.
pub fn open(paths: &[PathBuf]) -> Result<Trace, TraceError> {
    let inputs =
        file_sets::expand_file_sets(paths).iter().map(|path| LogInput::open(path)).collect::<Result<Vec<_>, _>>()?;
    from_inputs(inputs)
}

/// Opens the files of one trace as this format, without examining them.
///
/// # Errors
/// When a file cannot be opened, or there is none.
pub fn open_with_format(paths: &[PathBuf], format: &'static TraceFormat) -> Result<Trace, TraceError> {
    let inputs =
        file_sets::expand_file_sets(paths).iter().map(|path| LogInput::open(path)).collect::<Result<Vec<_>, _>>()?;
    if inputs.is_empty() { Err(TraceError::None) } else { Ok(with_format(format, inputs)) }
}

/// Reads open files as one trace, and recognizes its format.
///
/// # Errors
/// When a file is not a trace, or has another format than the others.
pub fn from_inputs(inputs: Vec<LogInput>) -> Result<Trace, TraceError> {
    let mut format_and_file: Option<(&'static TraceFormat, String)> = None;
    let mut assumption = None;
    for input in &inputs {
        // the file of an idle processor is empty
        if input.head().bytes.is_empty() && inputs.len() > 1 {
            continue;
        }
        let file = || input.name().to_owned();
        let unknown =
            || TraceError::Unknown { file: file(), known: FORMATS.iter().map(|f| f.id).collect::<Vec<_>>().join(", ") };
        let format = match (recognise_format(&input.head()), formats::ambiguous_formats(&input.head())) {
            (Some(format), _) => format,
            (None, Some([one, other])) => return Err(TraceError::Ambiguous { file: file(), one, other }),
            (None, None) => return Err(unknown()),
        };
        assumption = assumption.or_else(|| formats::describe_assumption(format, &input.head()));
        match &format_and_file {
            Some((known_format, _)) if known_format.id == format.id => {}
            None => format_and_file = Some((format, file())),
            Some((known_format, known_file)) => {
                let (other_file, other_format) = (known_file.clone(), known_format.id);
                return Err(TraceError::Mixed { file: file(), format: format.id, other_file, other_format });
            }
        }
    }
    let (format, _) = format_and_file.ok_or(TraceError::None)?;
    Ok(Trace { assumption, ..with_format(format, inputs) })
}

/// Reads open files as one trace of this format, without examining them.
pub fn with_format(format: &'static TraceFormat, inputs: Vec<LogInput>) -> Trace {
    let files = inputs.iter().map(|input| input.name().to_owned()).collect();
    let bytes = inputs.into_iter().map(TraceBytes::new).collect();
    let engine = match format.shape {
        TraceShape::Lines(parse) => TraceEngine::Lines(Box::new(LineTrace::new(parse, bytes))),
        TraceShape::Fixed(records) => TraceEngine::Lines(Box::new(LineTrace::from_records(records, bytes))),
        TraceShape::EventRecords => TraceEngine::Events(Box::new(EventTrace::new(bytes, false))),
        TraceShape::EventLines => TraceEngine::Events(Box::new(EventTrace::new(bytes, true))),
    };
    Trace {
        format,
        files,
        engine,
        requests: 0,
        out_of_order: 0,
        span_ns: None,
        last_ns: i64::MIN,
        has_failed: false,
        assumption: None,
    }
}

/// Smallest time that counts as a time of day in a trace whose times may also count from its start: the year 1990, in
/// nanoseconds since 1970. No trace lasts twenty years.
const MIN_WALL_CLOCK_NS: i64 = 631_152_000_000_000_000;

impl Trace {
    /// Makes the trace return a request that a device passed on to another at each of these devices. Otherwise it
    /// counts once, at the last device.
    pub fn with_every_layer(mut self) -> Trace {
        if let TraceEngine::Events(events) = &mut self.engine {
            events.matcher.every_layer = true;
        }
        self
    }

    /// Format of the trace.
    pub fn format(&self) -> &'static TraceFormat {
        self.format
    }

    /// Names of the devices seen so far, by [`Request::device`].
    pub fn devices(&self) -> &[String] {
        match &self.engine {
            TraceEngine::Lines(lines) => lines.devices.names(),
            TraceEngine::Events(events) => events.matcher.devices.names(),
        }
    }

    /// Returns the summary of what has been read so far.
    pub fn summary(&self) -> TraceSummary {
        let (skips, unfinished, without_arrival, has_wall_clock) = match &self.engine {
            TraceEngine::Lines(lines) => (vec![&lines.skips], 0, 0, false),
            TraceEngine::Events(events) => {
                let matcher = &events.matcher;
                let skips = vec![&events.skips, &matcher.skips];
                (skips, matcher.unfinished, matcher.without_arrival, events.has_wall_clock())
            }
        };
        let passed_on = match &self.engine {
            TraceEngine::Lines(_) => Vec::new(),
            TraceEngine::Events(events) => events.matcher.passed_on(),
        };
        // the times of our own CSV may be of either kind
        let is_csv_of_day =
            self.format.id == "requests-csv" && self.span_ns.is_some_and(|(from, _)| from > MIN_WALL_CLOCK_NS);
        TraceSummary {
            format: self.format.id,
            files: self.files.clone(),
            requests: self.requests,
            unfinished,
            without_arrival,
            out_of_order: self.out_of_order,
            passed_on,
            assumed: self.assumption.clone(),
            skipped: skips.into_iter().flat_map(|s| s.clone().into_list()).collect(),
            devices: self.devices().to_vec(),
            wall_clock: self.format.wall_clock || has_wall_clock || is_csv_of_day,
            from_ns: self.span_ns.map(|(from, _)| from),
            to_ns: self.span_ns.map(|(_, to)| to),
        }
    }

    fn count_request(&mut self, request: &Request) {
        self.requests += 1;
        if request.arrival_ns < self.last_ns {
            self.out_of_order += 1;
        }
        self.last_ns = self.last_ns.max(request.arrival_ns);
        let end = request.completion_time_ns().unwrap_or(request.arrival_ns).max(request.arrival_ns);
        let (from, to) = self.span_ns.unwrap_or((request.arrival_ns, end));
        self.span_ns = Some((from.min(request.arrival_ns), to.max(end)));
    }
}

impl Iterator for Trace {
    type Item = Result<Request, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_failed {
            return None;
        }
        let next = match &mut self.engine {
            TraceEngine::Lines(lines) => lines.next(),
            TraceEngine::Events(events) => events.next(),
        };
        match next {
            Ok(request) => {
                let request = request?;
                self.count_request(&request);
                Some(Ok(request))
            }
            Err(error) => {
                self.has_failed = true;
                Some(Err(error))
            }
        }
    }
}

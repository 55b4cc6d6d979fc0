//! Traces of disk requests.
//!
//! [`open`] recognises a trace by its content and returns its requests as an
//! iterator, in order of arrival and in constant memory (except for requests
//! in flight). [`statistics::Statistics`] aggregates them. Each format is one
//! file in `formats/`; those with one line or record per request share one engine
//! (`line_trace.rs`), those with several events per request another
//! (`event_trace.rs`, `matcher.rs`).
//!
//! Unreadable parts are skipped, and reported by [`Trace::summary`] with place
//! and reason; an error ends the trace only if the system cannot read a file.

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
    span_ns: Option<(i64, i64)>,
    last_ns: i64,
    failed: bool,
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

/// Opens the files of one trace as this format, without recognising it.
///
/// # Errors
/// When a file cannot be opened, or there is none.
pub fn open_with_format(paths: &[PathBuf], format: &'static TraceFormat) -> Result<Trace, TraceError> {
    let inputs =
        file_sets::expand_file_sets(paths).iter().map(|path| LogInput::open(path)).collect::<Result<Vec<_>, _>>()?;
    if inputs.is_empty() { Err(TraceError::None) } else { Ok(with_format(format, inputs)) }
}

/// Reads open files as one trace, and recognises its format.
///
/// # Errors
/// When one is not a trace, or has another format than the others.
pub fn from_inputs(inputs: Vec<LogInput>) -> Result<Trace, TraceError> {
    let mut found: Option<(&'static TraceFormat, String)> = None;
    let mut assumed = None;
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
        assumed = assumed.or_else(|| formats::describe_assumption(format, &input.head()));
        match &found {
            Some((other, _)) if other.id == format.id => {}
            None => found = Some((format, file())),
            Some((other, other_file)) => {
                let (other_file, other_format) = (other_file.clone(), other.id);
                return Err(TraceError::Mixed { file: file(), format: format.id, other_file, other_format });
            }
        }
    }
    let (format, _) = found.ok_or(TraceError::None)?;
    Ok(Trace { assumption: assumed, ..with_format(format, inputs) })
}

/// Reads open files as this format, without recognising it.
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
        failed: false,
        assumption: None,
    }
}

/// Smallest time that is taken as a time of day in traces that may contain either:
/// 1990, nanoseconds since 1970. No trace lasts twenty years.
const MIN_WALL_CLOCK_NS: i64 = 631_152_000_000_000_000;

impl Trace {
    /// Returns a request that a device passed on to another at each of them.
    /// Without this it counts once, at the last one.
    pub fn with_every_layer(mut self) -> Trace {
        if let TraceEngine::Events(records) = &mut self.engine {
            records.matcher.every_layer = true;
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
            TraceEngine::Events(records) => records.matcher.devices.names(),
        }
    }

    /// Returns the summary of the trace, as far as it was read.
    pub fn summary(&self) -> TraceSummary {
        let (skips, unfinished, without_arrival, known_wall_clock) = match &self.engine {
            TraceEngine::Lines(lines) => (vec![&lines.skips], 0, 0, false),
            TraceEngine::Events(records) => {
                let matcher = &records.matcher;
                let skips = vec![&records.skips, &matcher.skips];
                (skips, matcher.unfinished, matcher.without_arrival, records.has_wall_clock())
            }
        };
        let passed_on = match &self.engine {
            TraceEngine::Lines(_) => Vec::new(),
            TraceEngine::Events(records) => records.matcher.passed_on(),
        };
        let in_csv = self.format.id == "requests-csv" && self.span_ns.is_some_and(|(from, _)| from > MIN_WALL_CLOCK_NS);
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
            wall_clock: self.format.wall_clock || known_wall_clock || in_csv,
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
        if self.failed {
            return None;
        }
        let next = match &mut self.engine {
            TraceEngine::Lines(lines) => lines.next(),
            TraceEngine::Events(records) => records.next(),
        };
        match next {
            Ok(request) => {
                let request = request?;
                self.count_request(&request);
                Some(Ok(request))
            }
            Err(error) => {
                self.failed = true;
                Some(Err(error))
            }
        }
    }
}

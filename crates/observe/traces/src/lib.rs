//! Request traces: what was asked of disks, request by request.
//!
//! [`open`] recognises a trace by its content and gives its requests as an
//! iterator, in order of arrival and in constant memory (but for requests
//! under way). [`statistics::Statistics`] sums them up. Each format is one
//! file in `formats/`; those with a line a request share one engine
//! (`lines.rs`), those with several events a request another (`records.rs`,
//! `matching.rs`).
//!
//! What cannot be read is skipped, and told by [`Trace::summary`] with place
//! and reason; an error ends the trace only where the system refuses to read.

mod bytes;
mod error;
mod events;
mod files;
mod formats;
mod lines;
mod matching;
mod order;
mod records;
mod remaps;
pub mod statistics;
mod summary;
mod text;
pub mod ticks;

use std::path::PathBuf;

use diskwright_base::Request;
pub use diskwright_logs::{InputHead, LogInput};

use bytes::TraceBytes;
pub use error::TraceError;
use formats::TraceShape;
pub use formats::{CSV_HEADING, FORMATS, TraceFormat, ambiguous, csv_line, recognise};
use lines::LineTrace;
use records::EventTrace;
pub use statistics::Statistics;
pub use summary::{PassedOn, Skip, TraceSummary};

enum TraceEngine {
    Lines(Box<LineTrace>),
    Records(Box<EventTrace>),
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
    assumed: Option<String>,
}

/// Opens the files of one trace, all of one format; `-` is standard input. Of
/// `NAME.blktrace.CPU` any one brings the files of all processors.
///
/// # Errors
/// When a file cannot be opened, is no trace, or is of another format than the others.
pub fn open(paths: &[PathBuf]) -> Result<Trace, TraceError> {
    let inputs = files::whole_sets(paths).iter().map(|path| LogInput::open(path)).collect::<Result<Vec<_>, _>>()?;
    from_inputs(inputs)
}

/// Opens the files of one trace as this format, whatever they begin with.
///
/// # Errors
/// When a file cannot be opened, or there is none.
pub fn open_as(paths: &[PathBuf], format: &'static TraceFormat) -> Result<Trace, TraceError> {
    let inputs = files::whole_sets(paths).iter().map(|path| LogInput::open(path)).collect::<Result<Vec<_>, _>>()?;
    if inputs.is_empty() { Err(TraceError::None) } else { Ok(with_format(format, inputs)) }
}

/// The same of files that are open.
///
/// # Errors
/// When one is no trace, or of another format than the others.
pub fn from_inputs(inputs: Vec<LogInput>) -> Result<Trace, TraceError> {
    let mut found: Option<(&'static TraceFormat, String)> = None;
    let mut assumed = None;
    for input in &inputs {
        // a processor that did nothing leaves an empty file
        if input.head().bytes.is_empty() && inputs.len() > 1 {
            continue;
        }
        let file = || input.name().to_owned();
        let unknown =
            || TraceError::Unknown { file: file(), known: FORMATS.iter().map(|f| f.id).collect::<Vec<_>>().join(", ") };
        let format = match (recognise(&input.head()), formats::ambiguous(&input.head())) {
            (Some(format), _) => format,
            (None, Some([one, other])) => return Err(TraceError::Ambiguous { file: file(), one, other }),
            (None, None) => return Err(unknown()),
        };
        assumed = assumed.or_else(|| formats::assumption(format, &input.head()));
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
    Ok(Trace { assumed, ..with_format(format, inputs) })
}

/// Reads inputs as a format, whatever they begin with.
pub fn with_format(format: &'static TraceFormat, inputs: Vec<LogInput>) -> Trace {
    let files = inputs.iter().map(|input| input.name().to_owned()).collect();
    let bytes = inputs.into_iter().map(TraceBytes::new).collect();
    let engine = match format.shape {
        TraceShape::Lines(parse) => TraceEngine::Lines(Box::new(LineTrace::new(parse, bytes))),
        TraceShape::Fixed(records) => TraceEngine::Lines(Box::new(LineTrace::of_records(records, bytes))),
        TraceShape::Records => TraceEngine::Records(Box::new(EventTrace::new(bytes, false))),
        TraceShape::EventLines => TraceEngine::Records(Box::new(EventTrace::new(bytes, true))),
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
        assumed: None,
    }
}

/// From here on a moment is taken for the time of day in traces that may hold
/// either: 1990, nanoseconds since 1970. No trace lasts twenty years.
const A_DAY_NS: i64 = 631_152_000_000_000_000;

impl Trace {
    /// Hands out a request that a device passed on to another at each of them.
    /// Without this it counts once, at the last one.
    pub fn every_layer(mut self) -> Trace {
        if let TraceEngine::Records(records) = &mut self.engine {
            records.matcher.every_layer = true;
        }
        self
    }

    /// The format.
    pub fn format(&self) -> &'static TraceFormat {
        self.format
    }

    /// Names of the devices seen so far, by [`Request::device`].
    pub fn devices(&self) -> &[String] {
        match &self.engine {
            TraceEngine::Lines(lines) => lines.devices.names(),
            TraceEngine::Records(records) => records.matcher.devices.names(),
        }
    }

    /// What the trace turned out to be, as far as it was read.
    pub fn summary(&self) -> TraceSummary {
        let (skips, unfinished, without_arrival, told) = match &self.engine {
            TraceEngine::Lines(lines) => (vec![&lines.skips], 0, 0, false),
            TraceEngine::Records(records) => {
                let matcher = &records.matcher;
                let skips = vec![&records.skips, &matcher.skips];
                (skips, matcher.unfinished, matcher.without_arrival, records.wall_clock())
            }
        };
        let passed_on = match &self.engine {
            TraceEngine::Lines(_) => Vec::new(),
            TraceEngine::Records(records) => records.matcher.passed_on(),
        };
        let of_day = self.format.id == "requests-csv" && self.span_ns.is_some_and(|(from, _)| from > A_DAY_NS);
        TraceSummary {
            format: self.format.id,
            files: self.files.clone(),
            requests: self.requests,
            unfinished,
            without_arrival,
            out_of_order: self.out_of_order,
            passed_on,
            assumed: self.assumed.clone(),
            skipped: skips.into_iter().flat_map(|s| s.clone().finish()).collect(),
            devices: self.devices().to_vec(),
            wall_clock: self.format.wall_clock || told || of_day,
            from_ns: self.span_ns.map(|(from, _)| from),
            to_ns: self.span_ns.map(|(_, to)| to),
        }
    }

    fn count(&mut self, request: &Request) {
        self.requests += 1;
        if request.arrival_ns < self.last_ns {
            self.out_of_order += 1;
        }
        self.last_ns = self.last_ns.max(request.arrival_ns);
        let end = request.completed().unwrap_or(request.arrival_ns).max(request.arrival_ns);
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
            TraceEngine::Records(records) => records.next(),
        };
        match next {
            Ok(request) => {
                let request = request?;
                self.count(&request);
                Some(Ok(request))
            }
            Err(error) => {
                self.failed = true;
                Some(Err(error))
            }
        }
    }
}

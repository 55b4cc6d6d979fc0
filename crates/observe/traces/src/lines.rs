//! Traces with one request per line, or per record of fixed length. Several files are read side by side, and their
//! requests are returned in order of arrival.

use diskwright_base::Request;
use diskwright_logs::Skips;

use crate::TraceError;
use crate::bytes::{TraceBytes, TraceLine};
use crate::order::Sorter;
use crate::summary::DeviceTable;

/// Number of requests buffered for sorting by arrival. Traces that log a request
/// at its completion are out of order by the requests in flight.
const WINDOW: usize = 4096;

/// Parser of one line. `Ok(None)` is a line without a request (blank, heading);
/// an error is the reason why the line is skipped.
pub(crate) type LineParser = fn(&[u8], &mut Context<'_>) -> Result<Option<Request>, &'static str>;

/// Binary records of fixed length, one request each.
#[derive(Clone, Copy)]
pub(crate) struct FixedRecords {
    /// Determines the length of a record from the beginning of the file, bytes.
    pub(crate) length: fn(&[u8]) -> usize,
    /// Returns true if these bytes are a record.
    pub(crate) is_record: fn(&[u8]) -> bool,
    pub(crate) parse: LineParser,
}

/// Number of bytes from which the length of a file's records is determined.
const BEGIN: usize = 4096;

/// State of the file and the trace that a line is parsed with.
pub(crate) struct Context<'a> {
    pub(crate) devices: &'a mut DeviceTable,
    /// Time passed from one line to the next, nanoseconds.
    pub(crate) clock_ns: &'a mut i64,
    /// The file's name without folder and extensions.
    pub(crate) stem: &'a str,
}

/// One file of the trace.
struct LineFile {
    bytes: TraceBytes,
    stem: String,
    clock_ns: i64,
    waiting: Sorter<Request>,
    ended: bool,
    /// Length of its records, once it is known, bytes.
    length: Option<usize>,
}

/// Form of a request in the file.
#[derive(Clone, Copy)]
enum RequestUnit {
    Line(LineParser),
    Record(FixedRecords),
}

/// Reader of the files of one trace with one request per line or record.
pub(crate) struct LineTrace {
    unit: RequestUnit,
    files: Vec<LineFile>,
    pub(crate) devices: DeviceTable,
    pub(crate) skips: Skips,
}

impl LineTrace {
    pub(crate) fn new(parse: LineParser, files: Vec<TraceBytes>) -> LineTrace {
        LineTrace::of(RequestUnit::Line(parse), files)
    }

    pub(crate) fn of_records(records: FixedRecords, files: Vec<TraceBytes>) -> LineTrace {
        LineTrace::of(RequestUnit::Record(records), files)
    }

    fn of(unit: RequestUnit, files: Vec<TraceBytes>) -> LineTrace {
        let file = |bytes: TraceBytes| {
            let stem = stem(bytes.name());
            LineFile { bytes, stem, clock_ns: 0, waiting: Sorter::new(WINDOW), ended: false, length: None }
        };
        let files = files.into_iter().map(file).collect();
        LineTrace { unit, files, devices: DeviceTable::default(), skips: Skips::default() }
    }

    /// Returns the earliest request of all files.
    pub(crate) fn next(&mut self) -> Result<Option<Request>, TraceError> {
        for file in 0..self.files.len() {
            while !self.files[file].ended && !self.files[file].waiting.is_full() {
                match self.unit {
                    RequestUnit::Line(parse) => self.fill(file, parse)?,
                    RequestUnit::Record(records) => self.fill_record(file, &records)?,
                }
            }
        }
        let first = (0..self.files.len()).filter_map(|f| Some((self.files[f].waiting.first()?, f))).min();
        Ok(first.and_then(|(_, file)| self.files[file].waiting.pop()).map(|(_, request)| request))
    }

    /// Reads one line of a file.
    fn fill(&mut self, file: usize, parse: LineParser) -> Result<(), TraceError> {
        let LineFile { bytes, stem, clock_ns, waiting, ended, .. } = &mut self.files[file];
        let Some(line) = bytes.line()? else {
            *ended = true;
            return Ok(());
        };
        let read = match line {
            TraceLine::Whole(line) => parse(line, &mut Context { devices: &mut self.devices, clock_ns, stem }),
            TraceLine::TooLong => Err("a line longer than 256 KiB"),
        };
        match read {
            Ok(Some(request)) => waiting.push(request.arrival_ns, request),
            Ok(None) => {}
            Err(because) => self.skips.add_skip(bytes.line_place(), because),
        }
        Ok(())
    }

    /// Reads one record of a file.
    fn fill_record(&mut self, file: usize, records: &FixedRecords) -> Result<(), TraceError> {
        let LineFile { bytes, stem, clock_ns, waiting, ended, length } = &mut self.files[file];
        if length.is_none() {
            bytes.need(BEGIN)?;
        }
        let length = *length.get_or_insert_with(|| (records.length)(bytes.have()));
        let place = |bytes: &TraceBytes| format!("{}: byte {}", bytes.name(), bytes.offset());
        if !bytes.need(length)? {
            *ended = true;
            if !bytes.have().is_empty() {
                self.skips.add_skip(place(bytes), "the file ends within a record");
            }
            return Ok(());
        }
        if !(records.is_record)(&bytes.have()[..length]) {
            self.skips.add_skip(place(bytes), "bytes that are not a record, up to the next record");
            return find_record(bytes, length, records.is_record);
        }
        let mut context = Context { devices: &mut self.devices, clock_ns, stem };
        match (records.parse)(&bytes.have()[..length], &mut context) {
            Ok(Some(request)) => waiting.push(request.arrival_ns, request),
            Ok(None) => {}
            Err(because) => self.skips.add_skip(place(bytes), because),
        }
        bytes.pass(length);
        Ok(())
    }
}

/// Skips bytes until two consecutive records follow, or one that ends the file.
fn find_record(bytes: &mut TraceBytes, length: usize, is_record: fn(&[u8]) -> bool) -> Result<(), TraceError> {
    loop {
        bytes.pass(1);
        let more = bytes.need(2 * length)?;
        let have = bytes.have();
        if have.len() < length {
            return Ok(());
        }
        let next = have.get(length..2 * length);
        if is_record(&have[..length]) && next.map_or(!more, is_record) {
            return Ok(());
        }
    }
}

/// Returns a file's name without folder and extensions: `atlas_III` for `a/atlas_III.trace`.
pub(crate) fn stem(name: &str) -> String {
    let file = name.rsplit('/').next().unwrap_or(name);
    let stem = file.split('.').next().unwrap_or(file);
    if stem.is_empty() { file.to_owned() } else { stem.to_owned() }
}

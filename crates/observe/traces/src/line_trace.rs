//! Traces with one request per line, or per record of fixed length. Several files are read side by side, and their
//! requests are returned in order of arrival.

use diskwright_base::Request;
use diskwright_logs::Skips;

use crate::TraceError;
use crate::sorter::Sorter;
use crate::summary::DeviceTable;
use crate::trace_bytes::{TraceBytes, TraceLine};

/// Number of requests buffered for sorting by arrival. Traces that log a request
/// at its completion are out of order by the requests in flight.
const SORT_WINDOW_REQUESTS: usize = 4096;

/// Parser of one line. `Ok(None)` is a line without a request (blank, heading);
/// an error is the reason why the line is skipped.
pub(crate) type LineParser = fn(&[u8], &mut LineContext<'_>) -> Result<Option<Request>, &'static str>;

/// Binary records of fixed length, one request each.
#[derive(Clone, Copy)]
pub(crate) struct FixedRecords {
    /// Determines the length of a record from the beginning of the file, bytes.
    pub(crate) record_bytes: fn(&[u8]) -> usize,
    /// Returns true if these bytes are a record.
    pub(crate) is_record: fn(&[u8]) -> bool,
    pub(crate) parse: LineParser,
}

/// Number of bytes from which the length of a file's records is determined.
const LENGTH_PROBE_BYTES: usize = 4096;

/// State of the file and the trace that a line is parsed with.
pub(crate) struct LineContext<'a> {
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
    sorter: Sorter<Request>,
    ended: bool,
    /// Length of its records, once it is known, bytes.
    record_bytes: Option<usize>,
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
        LineTrace::with_unit(RequestUnit::Line(parse), files)
    }

    pub(crate) fn from_records(records: FixedRecords, files: Vec<TraceBytes>) -> LineTrace {
        LineTrace::with_unit(RequestUnit::Record(records), files)
    }

    fn with_unit(unit: RequestUnit, files: Vec<TraceBytes>) -> LineTrace {
        let file = |bytes: TraceBytes| {
            let stem = file_stem(bytes.name());
            LineFile {
                bytes,
                stem,
                clock_ns: 0,
                sorter: Sorter::new(SORT_WINDOW_REQUESTS),
                ended: false,
                record_bytes: None,
            }
        };
        let files = files.into_iter().map(file).collect();
        LineTrace { unit, files, devices: DeviceTable::default(), skips: Skips::default() }
    }

    /// Returns the earliest request of all files.
    pub(crate) fn next(&mut self) -> Result<Option<Request>, TraceError> {
        for file in 0..self.files.len() {
            while !self.files[file].ended && !self.files[file].sorter.is_full() {
                match self.unit {
                    RequestUnit::Line(parse) => self.read_line(file, parse)?,
                    RequestUnit::Record(records) => self.read_record(file, &records)?,
                }
            }
        }
        let first = (0..self.files.len()).filter_map(|f| Some((self.files[f].sorter.first_time_ns()?, f))).min();
        Ok(first.and_then(|(_, file)| self.files[file].sorter.pop()).map(|(_, request)| request))
    }

    /// Reads one line of a file.
    fn read_line(&mut self, file: usize, parse: LineParser) -> Result<(), TraceError> {
        let LineFile { bytes, stem, clock_ns, sorter: waiting, ended, .. } = &mut self.files[file];
        let Some(line) = bytes.next_line()? else {
            *ended = true;
            return Ok(());
        };
        let read = match line {
            TraceLine::Complete(line) => parse(line, &mut LineContext { devices: &mut self.devices, clock_ns, stem }),
            TraceLine::TooLong => Err("a line longer than 256 KiB"),
        };
        match read {
            Ok(Some(request)) => waiting.push(request.arrival_ns, request),
            Ok(None) => {}
            Err(because) => self.skips.add_skip(bytes.line_location(), because),
        }
        Ok(())
    }

    /// Reads one record of a file.
    fn read_record(&mut self, file: usize, records: &FixedRecords) -> Result<(), TraceError> {
        let LineFile { bytes, stem, clock_ns, sorter: waiting, ended, record_bytes: length } = &mut self.files[file];
        if length.is_none() {
            bytes.ensure_available(LENGTH_PROBE_BYTES)?;
        }
        let length = *length.get_or_insert_with(|| (records.record_bytes)(bytes.unread_bytes()));
        let place = |bytes: &TraceBytes| format!("{}: byte {}", bytes.name(), bytes.offset());
        if !bytes.ensure_available(length)? {
            *ended = true;
            if !bytes.unread_bytes().is_empty() {
                self.skips.add_skip(place(bytes), "the file ends within a record");
            }
            return Ok(());
        }
        if !(records.is_record)(&bytes.unread_bytes()[..length]) {
            self.skips.add_skip(place(bytes), "bytes that are not a record, up to the next record");
            return skip_to_record(bytes, length, records.is_record);
        }
        let mut context = LineContext { devices: &mut self.devices, clock_ns, stem };
        match (records.parse)(&bytes.unread_bytes()[..length], &mut context) {
            Ok(Some(request)) => waiting.push(request.arrival_ns, request),
            Ok(None) => {}
            Err(because) => self.skips.add_skip(place(bytes), because),
        }
        bytes.skip_bytes(length);
        Ok(())
    }
}

/// Skips bytes until two consecutive records follow, or one that ends the file.
fn skip_to_record(bytes: &mut TraceBytes, length: usize, is_record: fn(&[u8]) -> bool) -> Result<(), TraceError> {
    loop {
        bytes.skip_bytes(1);
        let more = bytes.ensure_available(2 * length)?;
        let have = bytes.unread_bytes();
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
pub(crate) fn file_stem(name: &str) -> String {
    let file = name.rsplit('/').next().unwrap_or(name);
    let stem = file.split('.').next().unwrap_or(file);
    if stem.is_empty() { file.to_owned() } else { stem.to_owned() }
}

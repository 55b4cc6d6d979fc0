//! Traces with one request per line, or per record of fixed length. Several files are read side by side, and their
//! requests are returned in order of arrival.

use diskwright_base::Request;
use diskwright_logs::Skips;

use crate::TraceError;
use crate::sorter::Sorter;
use crate::summary::DeviceTable;
use crate::trace_bytes::{TraceBytes, TraceLine};

/// Number of requests buffered to sort them by arrival. In traces that log a request at its completion, it stands
/// behind requests that arrived later.
const SORT_WINDOW_REQUESTS: usize = 4096;

/// Parser of one line or record. It returns `Ok(None)` for a line without a request (blank, heading), and the reason
/// for a line that is skipped.
pub(crate) type LineParser = fn(&[u8], &mut LineContext<'_>) -> Result<Option<Request>, &'static str>;

/// Binary records of fixed length, one request each.
#[derive(Clone, Copy)]
pub(crate) struct FixedRecords {
    /// Determines the length of a record, bytes, from the beginning of the file.
    pub(crate) record_bytes: fn(&[u8]) -> usize,
    /// Returns true if these bytes are a record.
    pub(crate) is_record: fn(&[u8]) -> bool,
    pub(crate) parse: LineParser,
}

/// Number of bytes from which the length of a file's records is determined.
const LENGTH_PROBE_BYTES: usize = 4096;

/// State of the trace and of the file, for the parser of a line.
pub(crate) struct LineContext<'a> {
    pub(crate) devices: &'a mut DeviceTable,
    /// Time that a parser keeps from one line to the next, nanoseconds; 0 at the first line.
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
    /// The whole file was read.
    is_at_end: bool,
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
        let new_file = |bytes: TraceBytes| {
            let stem = file_stem(bytes.name());
            LineFile {
                bytes,
                stem,
                clock_ns: 0,
                sorter: Sorter::new(SORT_WINDOW_REQUESTS),
                is_at_end: false,
                record_bytes: None,
            }
        };
        let files = files.into_iter().map(new_file).collect();
        LineTrace { unit, files, devices: DeviceTable::default(), skips: Skips::default() }
    }

    /// Returns the earliest request of all files.
    pub(crate) fn next(&mut self) -> Result<Option<Request>, TraceError> {
        for file in 0..self.files.len() {
            while !self.files[file].is_at_end && !self.files[file].sorter.is_full() {
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
        let LineFile { bytes, stem, clock_ns, sorter, is_at_end, .. } = &mut self.files[file];
        let Some(line) = bytes.next_line()? else {
            *is_at_end = true;
            return Ok(());
        };
        let parsed = match line {
            TraceLine::Complete(line) => parse(line, &mut LineContext { devices: &mut self.devices, clock_ns, stem }),
            TraceLine::TooLong => Err("a line longer than 256 KiB"),
        };
        match parsed {
            Ok(Some(request)) => sorter.push(request.arrival_ns, request),
            Ok(None) => {}
            Err(because) => self.skips.add_skip(bytes.line_location(), because),
        }
        Ok(())
    }

    /// Reads one record of a file.
    fn read_record(&mut self, file: usize, records: &FixedRecords) -> Result<(), TraceError> {
        let LineFile { bytes, stem, clock_ns, sorter, is_at_end, record_bytes } = &mut self.files[file];
        if record_bytes.is_none() {
            bytes.ensure_available(LENGTH_PROBE_BYTES)?;
        }
        let length = *record_bytes.get_or_insert_with(|| (records.record_bytes)(bytes.unread_bytes()));
        let location = |bytes: &TraceBytes| format!("{}: byte {}", bytes.name(), bytes.offset());
        if !bytes.ensure_available(length)? {
            *is_at_end = true;
            if !bytes.unread_bytes().is_empty() {
                self.skips.add_skip(location(bytes), "the file ends within a record");
            }
            return Ok(());
        }
        if !(records.is_record)(&bytes.unread_bytes()[..length]) {
            self.skips.add_skip(location(bytes), "bytes that are not a record, up to the next record");
            return skip_to_record(bytes, length, records.is_record);
        }
        let mut context = LineContext { devices: &mut self.devices, clock_ns, stem };
        match (records.parse)(&bytes.unread_bytes()[..length], &mut context) {
            Ok(Some(request)) => sorter.push(request.arrival_ns, request),
            Ok(None) => {}
            Err(because) => self.skips.add_skip(location(bytes), because),
        }
        bytes.skip_bytes(length);
        Ok(())
    }
}

/// Skips bytes until two consecutive records follow, or one record that ends the file.
fn skip_to_record(bytes: &mut TraceBytes, length: usize, is_record: fn(&[u8]) -> bool) -> Result<(), TraceError> {
    loop {
        bytes.skip_bytes(1);
        let has_second = bytes.ensure_available(2 * length)?;
        let unread = bytes.unread_bytes();
        if unread.len() < length {
            return Ok(());
        }
        let second = unread.get(length..2 * length);
        if is_record(&unread[..length]) && second.map_or(!has_second, is_record) {
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

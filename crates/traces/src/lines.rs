//! Traces with a request a line: several files are read side by side and their
//! requests handed out in order of arrival.

use diskwright_base::Request;
use diskwright_logs::Skips;

use crate::TraceError;
use crate::bytes::{TraceBytes, TraceLine};
use crate::order::Sorter;
use crate::summary::DeviceTable;

/// Requests that are held to put them in order of arrival. Traces that log a
/// request when it is done stand out of order by what was under way.
const WINDOW: usize = 4096;

/// Reads one line. `Ok(None)` is a line without a request (blank, heading);
/// an error says why the line is left out.
pub(crate) type LineParser = fn(&[u8], &mut Context<'_>) -> Result<Option<Request>, &'static str>;

/// What a line is read with.
pub(crate) struct Context<'a> {
    pub(crate) devices: &'a mut DeviceTable,
    /// A moment that one line leaves to the next, nanoseconds.
    pub(crate) clock_ns: &'a mut i64,
    /// The file's name without folder and ending.
    pub(crate) stem: &'a str,
}

struct LineFile {
    bytes: TraceBytes,
    stem: String,
    clock_ns: i64,
    waiting: Sorter<Request>,
    ended: bool,
}

/// Files of one trace, with a request a line.
pub(crate) struct LineTrace {
    parse: LineParser,
    files: Vec<LineFile>,
    pub(crate) devices: DeviceTable,
    pub(crate) skips: Skips,
}

impl LineTrace {
    pub(crate) fn new(parse: LineParser, files: Vec<TraceBytes>) -> LineTrace {
        let file = |bytes: TraceBytes| {
            let stem = stem(bytes.name());
            LineFile { bytes, stem, clock_ns: 0, waiting: Sorter::new(WINDOW), ended: false }
        };
        let files = files.into_iter().map(file).collect();
        LineTrace { parse, files, devices: DeviceTable::default(), skips: Skips::default() }
    }

    /// The next request of all files.
    pub(crate) fn next(&mut self) -> Result<Option<Request>, TraceError> {
        for file in 0..self.files.len() {
            while !self.files[file].ended && !self.files[file].waiting.is_full() {
                self.fill(file)?;
            }
        }
        let first = (0..self.files.len()).filter_map(|f| Some((self.files[f].waiting.first()?, f))).min();
        Ok(first.and_then(|(_, file)| self.files[file].waiting.pop()).map(|(_, request)| request))
    }

    /// Reads a line of a file.
    fn fill(&mut self, file: usize) -> Result<(), TraceError> {
        let LineFile { bytes, stem, clock_ns, waiting, ended } = &mut self.files[file];
        let Some(line) = bytes.line()? else {
            *ended = true;
            return Ok(());
        };
        let read = match line {
            TraceLine::Whole(line) => (self.parse)(line, &mut Context { devices: &mut self.devices, clock_ns, stem }),
            TraceLine::TooLong => Err("a line longer than 256 KiB"),
        };
        match read {
            Ok(Some(request)) => waiting.push(request.arrival_ns, request),
            Ok(None) => {}
            Err(because) => self.skips.add(bytes.line_place(), because),
        }
        Ok(())
    }
}

/// A file's name without its folder and endings: `atlas_III` of `a/atlas_III.trace`.
pub(crate) fn stem(name: &str) -> String {
    let file = name.rsplit('/').next().unwrap_or(name);
    let stem = file.split('.').next().unwrap_or(file);
    if stem.is_empty() { file.to_owned() } else { stem.to_owned() }
}

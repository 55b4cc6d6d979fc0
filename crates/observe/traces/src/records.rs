//! Traces of events: binary records of several processors, or lines of text, are
//! sorted by time and built into requests.

use diskwright_base::Request;
use diskwright_logs::Skips;

use crate::TraceError;
use crate::bytes::{TraceBytes, TraceLine};
use crate::events::TraceEvent;
use crate::formats::{BlktraceHeader, BlktraceRecord, MAGIC_BYTES, Meaning, blkparse_line, header};
use crate::matching::Matcher;
use crate::order::Sorter;

/// Number of events buffered for sorting one of several files: each is nearly in order.
const WINDOW: usize = 4096;
/// Number of events buffered for sorting a single stream, in which the processors' buffers
/// (512 KiB, about eleven thousand events) come one after the other.
const STREAM_WINDOW: usize = 1 << 17;
/// Largest head of a record, bytes.
const HEAD: usize = 64;

/// One file of the trace.
struct EventFile {
    bytes: TraceBytes,
    waiting: Sorter<TraceEvent>,
    ended: bool,
}

/// Reader of the files of one trace with several events per request.
pub(crate) struct EventTrace {
    files: Vec<EventFile>,
    text: bool,
    pub(crate) matcher: Matcher,
    pub(crate) skips: Skips,
    /// Number added to the events' times, nanoseconds; set with the first event.
    shift_ns: Option<i64>,
    /// Time of day less the events' time, nanoseconds, if the trace contains it.
    day_ns: Option<i64>,
}

impl EventTrace {
    pub(crate) fn new(files: Vec<TraceBytes>, text: bool) -> EventTrace {
        let window = if files.len() == 1 && !text { STREAM_WINDOW } else { WINDOW };
        let file = |bytes| EventFile { bytes, waiting: Sorter::new(window), ended: false };
        let files = files.into_iter().map(file).collect();
        let (matcher, skips) = (Matcher::default(), Skips::default());
        EventTrace { files, text, matcher, skips, shift_ns: text.then_some(0), day_ns: None }
    }

    /// Returns true if the trace contains the time of day.
    pub(crate) fn wall_clock(&self) -> bool {
        self.day_ns.is_some()
    }

    /// Returns the next request.
    pub(crate) fn next(&mut self) -> Result<Option<Request>, TraceError> {
        loop {
            if let Some(request) = self.matcher.pop() {
                return Ok(Some(request));
            }
            let Some((time_ns, event)) = self.next_event()? else {
                self.matcher.end();
                return Ok(self.matcher.pop());
            };
            // without a time of day, the clock begins at the first event
            let shift = *self.shift_ns.get_or_insert(self.day_ns.unwrap_or(-time_ns));
            self.matcher.event(time_ns.saturating_add(shift), &event);
        }
    }

    /// Returns the earliest event of all files with its time.
    fn next_event(&mut self) -> Result<Option<(i64, TraceEvent)>, TraceError> {
        for file in 0..self.files.len() {
            while !self.files[file].ended && !self.files[file].waiting.is_full() {
                if self.text { self.fill_line(file)? } else { self.fill_record(file)? }
            }
        }
        if self.files.len() == 1 {
            return Ok(self.files[0].waiting.pop());
        }
        let first = (0..self.files.len()).filter_map(|f| Some((self.files[f].waiting.first()?, f))).min();
        Ok(first.and_then(|(_, file)| self.files[file].waiting.pop()))
    }

    /// Reads one line of a file.
    fn fill_line(&mut self, file: usize) -> Result<(), TraceError> {
        let EventFile { bytes, waiting, ended } = &mut self.files[file];
        let read = match bytes.line()? {
            None => {
                *ended = true;
                return Ok(());
            }
            Some(TraceLine::Whole(line)) => blkparse_line(line),
            Some(TraceLine::TooLong) => Err("a line longer than 256 KiB"),
        };
        match read {
            Ok(Some((time_ns, event))) => waiting.push(time_ns, event),
            Ok(None) => {}
            Err(because) => self.skips.add_skip(bytes.line_place(), because),
        }
        Ok(())
    }

    /// Reads one record of a file.
    fn fill_record(&mut self, file: usize) -> Result<(), TraceError> {
        let EventFile { bytes, waiting, ended } = &mut self.files[file];
        if !bytes.need(HEAD)? && bytes.have().is_empty() {
            *ended = true;
            return Ok(());
        }
        let BlktraceHeader::Record { big_endian, version, length } = header(bytes.have()) else {
            return self.find_record(file);
        };
        let record = BlktraceRecord::read(bytes.have(), big_endian, version).filter(|_| bytes.have().len() >= length);
        let Some(record) = record else { return self.cut(file) };
        let total_bytes = length + usize::from(record.more);
        if !bytes.need(total_bytes)? {
            return self.cut(file);
        }
        // a wrong length would skip good records, so another record must follow
        let followed_by_record = record.more == 0 || !bytes.need(total_bytes + MAGIC_BYTES)? || {
            matches!(header(&bytes.have()[total_bytes..]), BlktraceHeader::Record { .. })
        };
        let place = || format!("{}: byte {}", bytes.name(), bytes.offset());
        match (record.meaning(&bytes.have()[length..total_bytes]), i64::try_from(record.time_ns)) {
            (Meaning::Event(event), Ok(time_ns)) => waiting.push(time_ns, event),
            (Meaning::Event(_), Err(_)) => self.skips.add_skip(place(), "a time out of range"),
            (Meaning::Unusable(because), _) => self.skips.add_skip(place(), because),
            (Meaning::WallClock(now), Ok(time_ns)) => {
                if self.shift_ns.is_none() && self.day_ns.is_none() {
                    self.day_ns = now.checked_sub(time_ns);
                }
            }
            (Meaning::WallClock(_) | Meaning::Nothing, _) => {}
        }
        bytes.pass(if followed_by_record { total_bytes } else { length });
        Ok(())
    }

    /// Ends a file that ends within a record, and counts that.
    fn cut(&mut self, file: usize) -> Result<(), TraceError> {
        let EventFile { bytes, ended, .. } = &mut self.files[file];
        let place = format!("{}: byte {}", bytes.name(), bytes.offset());
        self.skips.add_skip(place, "the file ends within a record");
        *ended = true;
        Ok(())
    }

    /// Skips bytes that are not a record, up to the next record.
    fn find_record(&mut self, file: usize) -> Result<(), TraceError> {
        let EventFile { bytes, ended, .. } = &mut self.files[file];
        let place = format!("{}: byte {}", bytes.name(), bytes.offset());
        self.skips.add_skip(place, "bytes that are not a record, up to the next record");
        loop {
            let have = bytes.have();
            let found =
                (1..have.len()).find(|position| matches!(header(&have[*position..]), BlktraceHeader::Record { .. }));
            let keep = have.len().min(MAGIC_BYTES - 1);
            let (length, more) = (have.len(), found.is_none());
            bytes.pass(found.unwrap_or(length - keep));
            if !more {
                return Ok(());
            }
            if !bytes.need(HEAD)? && bytes.have().len() <= keep {
                bytes.pass(keep);
                *ended = true;
                return Ok(());
            }
        }
    }
}

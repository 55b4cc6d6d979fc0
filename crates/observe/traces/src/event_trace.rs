//! Traces of events: binary records of several processors, or lines of text, are
//! sorted by time and built into requests.

use diskwright_base::Request;
use diskwright_logs::Skips;

use crate::TraceError;
use crate::events::TraceEvent;
use crate::formats::{BlktraceHeader, BlktraceRecord, MAGIC_BYTES, RecordMeaning, blkparse_line, read_header};
use crate::matcher::Matcher;
use crate::sorter::Sorter;
use crate::trace_bytes::{TraceBytes, TraceLine};

/// Number of events buffered for sorting one of several files: each is nearly in order.
const FILE_WINDOW_EVENTS: usize = 4096;
/// Number of events buffered for sorting a single stream, in which the processors' buffers
/// (512 KiB, about eleven thousand events) come one after the other.
const STREAM_WINDOW_EVENTS: usize = 1 << 17;
/// Largest head of a record, bytes.
const MAX_HEAD_BYTES: usize = 64;

/// One file of the trace.
struct EventFile {
    bytes: TraceBytes,
    sorter: Sorter<TraceEvent>,
    ended: bool,
}

/// Reader of the files of one trace with several events per request.
pub(crate) struct EventTrace {
    files: Vec<EventFile>,
    is_text: bool,
    pub(crate) matcher: Matcher,
    pub(crate) skips: Skips,
    /// Number added to the events' times, nanoseconds; set with the first event.
    shift_ns: Option<i64>,
    /// Time of day less the events' time, nanoseconds, if the trace contains it.
    wall_clock_offset_ns: Option<i64>,
}

impl EventTrace {
    pub(crate) fn new(files: Vec<TraceBytes>, text: bool) -> EventTrace {
        let window = if files.len() == 1 && !text { STREAM_WINDOW_EVENTS } else { FILE_WINDOW_EVENTS };
        let file = |bytes| EventFile { bytes, sorter: Sorter::new(window), ended: false };
        let files = files.into_iter().map(file).collect();
        let (matcher, skips) = (Matcher::default(), Skips::default());
        EventTrace { files, is_text: text, matcher, skips, shift_ns: text.then_some(0), wall_clock_offset_ns: None }
    }

    /// Returns true if the trace contains the time of day.
    pub(crate) fn has_wall_clock(&self) -> bool {
        self.wall_clock_offset_ns.is_some()
    }

    /// Returns the next request.
    pub(crate) fn next(&mut self) -> Result<Option<Request>, TraceError> {
        loop {
            if let Some(request) = self.matcher.pop() {
                return Ok(Some(request));
            }
            let Some((time_ns, event)) = self.next_event()? else {
                self.matcher.end_events();
                return Ok(self.matcher.pop());
            };
            // without a time of day, the clock begins at the first event
            let shift = *self.shift_ns.get_or_insert(self.wall_clock_offset_ns.unwrap_or(-time_ns));
            self.matcher.push_event(time_ns.saturating_add(shift), &event);
        }
    }

    /// Returns the earliest event of all files with its time.
    fn next_event(&mut self) -> Result<Option<(i64, TraceEvent)>, TraceError> {
        for file in 0..self.files.len() {
            while !self.files[file].ended && !self.files[file].sorter.is_full() {
                if self.is_text { self.read_line(file)? } else { self.read_record(file)? }
            }
        }
        if self.files.len() == 1 {
            return Ok(self.files[0].sorter.pop());
        }
        let first = (0..self.files.len()).filter_map(|f| Some((self.files[f].sorter.first_time_ns()?, f))).min();
        Ok(first.and_then(|(_, file)| self.files[file].sorter.pop()))
    }

    /// Reads one line of a file.
    fn read_line(&mut self, file: usize) -> Result<(), TraceError> {
        let EventFile { bytes, sorter: waiting, ended } = &mut self.files[file];
        let read = match bytes.next_line()? {
            None => {
                *ended = true;
                return Ok(());
            }
            Some(TraceLine::Complete(line)) => blkparse_line(line),
            Some(TraceLine::TooLong) => Err("a line longer than 256 KiB"),
        };
        match read {
            Ok(Some((time_ns, event))) => waiting.push(time_ns, event),
            Ok(None) => {}
            Err(because) => self.skips.add_skip(bytes.line_location(), because),
        }
        Ok(())
    }

    /// Reads one record of a file.
    fn read_record(&mut self, file: usize) -> Result<(), TraceError> {
        let EventFile { bytes, sorter: waiting, ended } = &mut self.files[file];
        if !bytes.ensure_available(MAX_HEAD_BYTES)? && bytes.unread_bytes().is_empty() {
            *ended = true;
            return Ok(());
        }
        let BlktraceHeader::Record { big_endian, version, length } = read_header(bytes.unread_bytes()) else {
            return self.skip_to_record(file);
        };
        let record = BlktraceRecord::read(bytes.unread_bytes(), big_endian, version)
            .filter(|_| bytes.unread_bytes().len() >= length);
        let Some(record) = record else { return self.end_within_record(file) };
        let total_bytes = length + usize::from(record.extra_bytes);
        if !bytes.ensure_available(total_bytes)? {
            return self.end_within_record(file);
        }
        // a wrong length would skip good records, so another record must follow
        let followed_by_record = record.extra_bytes == 0 || !bytes.ensure_available(total_bytes + MAGIC_BYTES)? || {
            matches!(read_header(&bytes.unread_bytes()[total_bytes..]), BlktraceHeader::Record { .. })
        };
        let place = || format!("{}: byte {}", bytes.name(), bytes.offset());
        match (record.interpret_record(&bytes.unread_bytes()[length..total_bytes]), i64::try_from(record.time_ns)) {
            (RecordMeaning::Event(event), Ok(time_ns)) => waiting.push(time_ns, event),
            (RecordMeaning::Event(_), Err(_)) => self.skips.add_skip(place(), "a time out of range"),
            (RecordMeaning::Unusable(because), _) => self.skips.add_skip(place(), because),
            (RecordMeaning::WallClock(now), Ok(time_ns)) => {
                if self.shift_ns.is_none() && self.wall_clock_offset_ns.is_none() {
                    self.wall_clock_offset_ns = now.checked_sub(time_ns);
                }
            }
            (RecordMeaning::WallClock(_) | RecordMeaning::Nothing, _) => {}
        }
        bytes.skip_bytes(if followed_by_record { total_bytes } else { length });
        Ok(())
    }

    /// Ends a file that ends within a record, and counts that.
    fn end_within_record(&mut self, file: usize) -> Result<(), TraceError> {
        let EventFile { bytes, ended, .. } = &mut self.files[file];
        let place = format!("{}: byte {}", bytes.name(), bytes.offset());
        self.skips.add_skip(place, "the file ends within a record");
        *ended = true;
        Ok(())
    }

    /// Skips bytes that are not a record, up to the next record.
    fn skip_to_record(&mut self, file: usize) -> Result<(), TraceError> {
        let EventFile { bytes, ended, .. } = &mut self.files[file];
        let place = format!("{}: byte {}", bytes.name(), bytes.offset());
        self.skips.add_skip(place, "bytes that are not a record, up to the next record");
        loop {
            let have = bytes.unread_bytes();
            let found = (1..have.len())
                .find(|position| matches!(read_header(&have[*position..]), BlktraceHeader::Record { .. }));
            let keep = have.len().min(MAGIC_BYTES - 1);
            let (length, more) = (have.len(), found.is_none());
            bytes.skip_bytes(found.unwrap_or(length - keep));
            if !more {
                return Ok(());
            }
            if !bytes.ensure_available(MAX_HEAD_BYTES)? && bytes.unread_bytes().len() <= keep {
                bytes.skip_bytes(keep);
                *ended = true;
                return Ok(());
            }
        }
    }
}

//! Traces of events. Binary records of several processors, or lines of text, are sorted by time and built into
//! requests.

use diskwright_base::Request;
use diskwright_logs::Skips;

use crate::TraceError;
use crate::events::TraceEvent;
use crate::formats::{BlktraceHeader, BlktraceRecord, MAGIC_BYTES, RecordMeaning, blkparse_line, read_header};
use crate::matcher::Matcher;
use crate::sorter::Sorter;
use crate::trace_bytes::{TraceBytes, TraceLine};

/// Number of events buffered to sort one of several files, each of which is nearly in order.
const FILE_WINDOW_EVENTS: usize = 4096;
/// Number of events buffered to sort a single stream, in which the buffers of the processors (512 KiB, about eleven
/// thousand events) follow one another.
const STREAM_WINDOW_EVENTS: usize = 1 << 17;
/// Largest head of a record, bytes.
const MAX_HEAD_BYTES: usize = 64;

/// One file of the trace.
struct EventFile {
    bytes: TraceBytes,
    sorter: Sorter<TraceEvent>,
    /// The whole file was read.
    is_at_end: bool,
}

/// Reader of the files of one trace with several events per request.
pub(crate) struct EventTrace {
    files: Vec<EventFile>,
    is_text: bool,
    pub(crate) matcher: Matcher,
    pub(crate) skips: Skips,
    /// Number added to the events' times, nanoseconds; set with the first event.
    shift_ns: Option<i64>,
    /// Time of day minus the events' time, nanoseconds, if the trace contains the time of day.
    wall_clock_offset_ns: Option<i64>,
}

impl EventTrace {
    pub(crate) fn new(files: Vec<TraceBytes>, is_text: bool) -> EventTrace {
        let window = if files.len() == 1 && !is_text { STREAM_WINDOW_EVENTS } else { FILE_WINDOW_EVENTS };
        let new_file = |bytes| EventFile { bytes, sorter: Sorter::new(window), is_at_end: false };
        let files = files.into_iter().map(new_file).collect();
        let (matcher, skips) = (Matcher::default(), Skips::default());
        EventTrace { files, is_text, matcher, skips, shift_ns: is_text.then_some(0), wall_clock_offset_ns: None }
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
            let shift_ns = *self.shift_ns.get_or_insert(self.wall_clock_offset_ns.unwrap_or(-time_ns));
            self.matcher.push_event(time_ns.saturating_add(shift_ns), &event);
        }
    }

    /// Returns the earliest event of all files with its time.
    fn next_event(&mut self) -> Result<Option<(i64, TraceEvent)>, TraceError> {
        for file in 0..self.files.len() {
            while !self.files[file].is_at_end && !self.files[file].sorter.is_full() {
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
        let EventFile { bytes, sorter, is_at_end } = &mut self.files[file];
        let parsed = match bytes.next_line()? {
            None => {
                *is_at_end = true;
                return Ok(());
            }
            Some(TraceLine::Complete(line)) => blkparse_line(line),
            Some(TraceLine::TooLong) => Err("a line longer than 256 KiB"),
        };
        match parsed {
            Ok(Some((time_ns, event))) => sorter.push(time_ns, event),
            Ok(None) => {}
            Err(because) => self.skips.add_skip(bytes.line_location(), because),
        }
        Ok(())
    }

    /// Reads one record of a file.
    fn read_record(&mut self, file: usize) -> Result<(), TraceError> {
        let EventFile { bytes, sorter, is_at_end } = &mut self.files[file];
        if !bytes.ensure_available(MAX_HEAD_BYTES)? && bytes.unread_bytes().is_empty() {
            *is_at_end = true;
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
        // a wrong length would skip good records: the bytes after the head are skipped only if a record follows them
        let is_length_plausible = record.extra_bytes == 0 || !bytes.ensure_available(total_bytes + MAGIC_BYTES)? || {
            matches!(read_header(&bytes.unread_bytes()[total_bytes..]), BlktraceHeader::Record { .. })
        };
        let location = || format!("{}: byte {}", bytes.name(), bytes.offset());
        match (record.interpret_record(&bytes.unread_bytes()[length..total_bytes]), i64::try_from(record.time_ns)) {
            (RecordMeaning::Event(event), Ok(time_ns)) => sorter.push(time_ns, event),
            (RecordMeaning::Event(_), Err(_)) => self.skips.add_skip(location(), "a time out of range"),
            (RecordMeaning::Unusable(because), _) => self.skips.add_skip(location(), because),
            (RecordMeaning::WallClock(now), Ok(time_ns)) => {
                if self.shift_ns.is_none() && self.wall_clock_offset_ns.is_none() {
                    self.wall_clock_offset_ns = now.checked_sub(time_ns);
                }
            }
            (RecordMeaning::WallClock(_) | RecordMeaning::Nothing, _) => {}
        }
        bytes.skip_bytes(if is_length_plausible { total_bytes } else { length });
        Ok(())
    }

    /// Ends the reading of a file whose last record is truncated, and counts a skip.
    fn end_within_record(&mut self, file: usize) -> Result<(), TraceError> {
        let EventFile { bytes, is_at_end, .. } = &mut self.files[file];
        let location = format!("{}: byte {}", bytes.name(), bytes.offset());
        self.skips.add_skip(location, "the file ends within a record");
        *is_at_end = true;
        Ok(())
    }

    /// Skips bytes that are not a record, up to the next record.
    fn skip_to_record(&mut self, file: usize) -> Result<(), TraceError> {
        let EventFile { bytes, is_at_end, .. } = &mut self.files[file];
        let location = format!("{}: byte {}", bytes.name(), bytes.offset());
        self.skips.add_skip(location, "bytes that are not a record, up to the next record");
        loop {
            let unread = bytes.unread_bytes();
            let next_record = (1..unread.len())
                .find(|position| matches!(read_header(&unread[*position..]), BlktraceHeader::Record { .. }));
            if let Some(position) = next_record {
                bytes.skip_bytes(position);
                return Ok(());
            }
            // the last bytes may be the beginning of a header
            let kept_bytes = unread.len().min(MAGIC_BYTES - 1);
            let skipped_bytes = unread.len() - kept_bytes;
            bytes.skip_bytes(skipped_bytes);
            if !bytes.ensure_available(MAX_HEAD_BYTES)? && bytes.unread_bytes().len() <= kept_bytes {
                bytes.skip_bytes(kept_bytes);
                *is_at_end = true;
                return Ok(());
            }
        }
    }
}

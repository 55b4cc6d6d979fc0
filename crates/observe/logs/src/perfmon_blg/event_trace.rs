//! Event trace that Windows wrote: buffers of one size, events in them (WMI_BUFFER_HEADER, EVENT_TRACE_HEADER and
//! TRACE_LOGFILE_HEADER of the Windows SDK), and long events cut into parts.

use std::collections::HashMap;
use std::io::{self, Read};

use super::byte_view::ByteView;
use crate::Skips;

/// Header of a buffer, bytes.
const BUFFER_HEADER_BYTES: usize = 0x48;
/// Header of an event, bytes.
const EVENT_HEADER_BYTES: usize = 0x30;
/// Offset of an event's own content: behind its header, the log's id and the part numbers.
const CONTENT_OFFSET: usize = 0x48;
/// Largest buffer.
const MAX_BUFFER_BYTES: usize = 16 << 20;
/// Largest event joined from its parts.
const MAX_EVENT_BYTES: usize = 64 << 20;
/// Id of the provider of performance counter events, in the byte order of the file.
const PROVIDER: [u8; 16] =
    [0xb3, 0x3b, 0x3f, 0x93, 0x3e, 0x94, 0x0d, 0x49, 0x9c, 0xed, 0x3c, 0xbb, 0x14, 0xc1, 0x44, 0x79];

/// Kind of an event with a counter list.
pub(super) const COUNTER_LIST_EVENT: u8 = 0x20;
/// Kind of an event with a sample.
pub(super) const SAMPLE_EVENT: u8 = 0x22;
/// Kind of an event with a summary of the log's content, written at its end.
pub(super) const SUMMARY_EVENT: u8 = 0x23;
/// Kind of an event with numbers and names.
pub(super) const NAMES_EVENT: u8 = 0x24;

/// Properties of the file, from its first event.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BlgHeader {
    pub buffer_bytes: usize,
    /// Start of the log, 100 ns since 1601, UTC.
    pub start: u64,
    /// UTC less local time, minutes, without and with daylight saving.
    pub bias_minutes: (i32, i32),
}

/// Reads the file's header; `None` if it does not begin an event trace.
pub(super) fn read_header(head: &[u8]) -> Option<BlgHeader> {
    let bytes = ByteView(head);
    let buffer_bytes = bytes.read_size(0)?;
    let event = bytes.tail(BUFFER_HEADER_BYTES)?;
    // a system event of the 32-bit or the 64-bit kind
    let is_system = matches!(event.0.get(2..4)?, [1 | 2, 0xc0]) && event.read_u16(6) == Some(0);
    let header = event.tail(32)?;
    if !is_system || header.read_size(0) != Some(buffer_bytes) || !(4096..=MAX_BUFFER_BYTES).contains(&buffer_bytes) {
        return None;
    }
    let pointer_bytes = match header.read_u32(44)? {
        4 => 4,
        8 => 8,
        _ => return None,
    };
    let zone = 56 + 2 * pointer_bytes;
    let (bias, daylight) = (header.read_i32(zone)?, header.read_i32(zone + 168)?);
    let standard = header.read_i32(zone + 84)?;
    let boot = (zone + 172).next_multiple_of(8);
    let bias = (bias.saturating_add(standard), bias.saturating_add(daylight));
    Some(BlgHeader { buffer_bytes, start: header.read_u64(boot + 16)?, bias_minutes: bias })
}

/// An event, joined from its parts.
pub(super) struct BlgEvent {
    pub kind: u8,
    /// Local time, 100 ns since 1601.
    pub time: u64,
    /// Offset of its first part in the file.
    pub offset: u64,
    pub content: Vec<u8>,
}

/// Reads a file event by event.
pub(super) struct BlgTrace<R> {
    inner: R,
    buffer_bytes: usize,
    buffer: Vec<u8>,
    /// Offset of the buffer in the file.
    buffer_offset: u64,
    /// Index of the next event in the buffer.
    next_index: usize,
    /// Index behind the events in the buffer.
    events_end: usize,
    /// By kind: the number of the last part so far, and the event joined from the parts.
    parts: HashMap<u8, (u32, BlgEvent)>,
}

impl<R: Read> BlgTrace<R> {
    /// Makes a reader of the trace's buffers.
    pub fn new(inner: R, header: &BlgHeader) -> BlgTrace<R> {
        let parts = HashMap::new();
        BlgTrace {
            inner,
            buffer_bytes: header.buffer_bytes,
            buffer: Vec::new(),
            buffer_offset: 0,
            next_index: 0,
            events_end: 0,
            parts,
        }
    }

    /// Returns the next event of performance counters; `None` at the end.
    pub fn next_event(&mut self, skips: &mut Skips) -> io::Result<Option<BlgEvent>> {
        loop {
            while self.next_index + 8 <= self.events_end {
                if let Some(event) = self.read_event(skips) {
                    return Ok(Some(event));
                }
            }
            if !self.fill_buffer(skips)? {
                for (_, (_, event)) in self.parts.drain() {
                    skips.add_skip(format!("byte {}", event.offset), "the file ends inside an event of several parts");
                }
                return Ok(None);
            }
        }
    }

    fn fill_buffer(&mut self, skips: &mut Skips) -> io::Result<bool> {
        self.buffer_offset += self.buffer.len() as u64;
        self.buffer.clear();
        let read_bytes = (&mut self.inner).take(self.buffer_bytes as u64).read_to_end(&mut self.buffer)?;
        (self.next_index, self.events_end) = (BUFFER_HEADER_BYTES, 0);
        if read_bytes == 0 {
            return Ok(false);
        }
        let context = || format!("byte {}", self.buffer_offset);
        let Some(used) =
            ByteView(&self.buffer).read_size(0x30).filter(|u| (BUFFER_HEADER_BYTES..=self.buffer_bytes).contains(u))
        else {
            skips.add_skip(context(), "a buffer that is truncated or does not state its length");
            return Ok(true);
        };
        if used > read_bytes {
            skips.add_skip(context(), "the file ends inside a buffer");
        }
        self.events_end = used.min(read_bytes);
        Ok(true)
    }

    /// Advances over one event. Returns it if it is complete and of performance counters.
    fn read_event(&mut self, skips: &mut Skips) -> Option<BlgEvent> {
        let (start, end) = (self.next_index, self.events_end);
        let offset = self.buffer_offset + start as u64;
        let context = || format!("byte {offset}");
        let bytes = ByteView(&self.buffer[start..end]);
        let (kind, flags) = (*bytes.0.get(2)?, *bytes.0.get(3)?);
        let is_system = flags == 0xc0 && matches!(kind, 1..=4);
        let size = usize::from(bytes.read_u16(if is_system { 4 } else { 0 })?);
        if size < 8 || size > bytes.0.len() {
            let is_filler = matches!(size, 0 | 0xffff);
            if !is_filler {
                skips.add_skip(context(), "an event of impossible length; the rest of its buffer is not read");
            }
            self.next_index = end;
            return None;
        }
        self.next_index = start + size.next_multiple_of(8);
        if is_system {
            return None;
        }
        let event = bytes.slice(0, size)?;
        let is_counter_event = matches!(kind, 0x0a | 0x14) && event.0.get(24..40) == Some(&PROVIDER);
        if !is_counter_event || size < CONTENT_OFFSET {
            skips.add_skip(context(), "events that are not of performance counters");
            return None;
        }
        let (part, part_count) = (event.read_u32(EVENT_HEADER_BYTES + 16)?, event.read_u32(EVENT_HEADER_BYTES + 20)?);
        let event_part = BlgEvent {
            kind: event.0[4],
            time: event.read_u64(16)?,
            offset,
            content: event.0[CONTENT_OFFSET..].to_vec(),
        };
        self.join_parts(event_part, part, part_count, skips)
    }

    /// Joins the parts of an event; returns it with its last part.
    fn join_parts(&mut self, event: BlgEvent, part: u32, part_count: u32, skips: &mut Skips) -> Option<BlgEvent> {
        if event.kind == NAMES_EVENT || (part, part_count) == (1, 1) {
            return Some(event);
        }
        let kind = event.kind;
        let context = format!("byte {}", event.offset);
        let (count, joined) = match self.parts.remove(&kind) {
            None if part == 1 => (1, event),
            Some((before, mut joined)) if part == before + 1 && joined.time == event.time => {
                if joined.content.len() + event.content.len() > MAX_EVENT_BYTES {
                    skips.add_skip(context, "an event of impossible size");
                    return None;
                }
                joined.content.extend_from_slice(&event.content);
                (part, joined)
            }
            Some((_, joined)) => {
                skips.add_skip(format!("byte {}", joined.offset), "an event that lacks parts");
                if part != 1 {
                    return None;
                }
                (1, event)
            }
            None => {
                skips.add_skip(context, "an event that lacks parts");
                return None;
            }
        };
        if count == part_count {
            return Some(joined);
        }
        self.parts.insert(kind, (count, joined));
        None
    }
}

//! Event trace that Windows wrote: buffers of one size, events in them (WMI_BUFFER_HEADER, EVENT_TRACE_HEADER and
//! TRACE_LOGFILE_HEADER of the Windows SDK), and long events cut into parts.

use std::collections::HashMap;
use std::io::{self, Read};

use super::bytes::ByteView;
use crate::Skips;

/// Header of a buffer, bytes.
const BUFFER_HEADER: usize = 0x48;
/// Header of an event, bytes.
const EVENT_HEADER: usize = 0x30;
/// Offset of an event's own content: behind its header, the log's id and the part numbers.
const CONTENT: usize = 0x48;
/// Largest buffer.
const MOST_BUFFER: usize = 16 << 20;
/// Largest event joined from its parts.
const MOST_EVENT: usize = 64 << 20;
/// Id of the provider of performance counter events, in the byte order of the file.
const PROVIDER: [u8; 16] =
    [0xb3, 0x3b, 0x3f, 0x93, 0x3e, 0x94, 0x0d, 0x49, 0x9c, 0xed, 0x3c, 0xbb, 0x14, 0xc1, 0x44, 0x79];

/// Kind of an event with a counter list.
pub(super) const COUNTERS: u8 = 0x20;
/// Kind of an event with a sample.
pub(super) const DATA: u8 = 0x22;
/// Kind of an event with a summary of the log's content, written at its end.
pub(super) const CATALOGUE: u8 = 0x23;
/// Kind of an event with numbers and names.
pub(super) const NAMES: u8 = 0x24;

/// Properties of the file, from its first event.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BlgHeader {
    pub buffer: usize,
    /// Start of the log, 100 ns since 1601, UTC.
    pub start: u64,
    /// UTC less local time, minutes, without and with daylight saving.
    pub bias: (i32, i32),
}

/// Reads the file's header; `None` where it does not begin an event trace.
pub(super) fn header(head: &[u8]) -> Option<BlgHeader> {
    let bytes = ByteView(head);
    let buffer = bytes.size(0)?;
    let event = bytes.from(BUFFER_HEADER)?;
    // a system event of the 32-bit or the 64-bit kind
    let is_system = matches!(event.0.get(2..4)?, [1 | 2, 0xc0]) && event.u16(6) == Some(0);
    let header = event.from(32)?;
    if !is_system || header.size(0) != Some(buffer) || !(4096..=MOST_BUFFER).contains(&buffer) {
        return None;
    }
    let pointer = match header.u32(44)? {
        4 => 4,
        8 => 8,
        _ => return None,
    };
    let zone = 56 + 2 * pointer;
    let (bias, daylight) = (header.i32(zone)?, header.i32(zone + 168)?);
    let standard = header.i32(zone + 84)?;
    let boot = (zone + 172).next_multiple_of(8);
    let bias = (bias.saturating_add(standard), bias.saturating_add(daylight));
    Some(BlgHeader { buffer, start: header.u64(boot + 16)?, bias })
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
    size: usize,
    buffer: Vec<u8>,
    /// Offset of the buffer in the file.
    from: u64,
    /// Index of the next event in the buffer.
    next: usize,
    /// Index behind the events in the buffer.
    end: usize,
    parts: HashMap<u8, (u32, BlgEvent)>,
}

impl<R: Read> BlgTrace<R> {
    /// Makes a reader of the trace's buffers.
    pub fn new(inner: R, header: &BlgHeader) -> BlgTrace<R> {
        let parts = HashMap::new();
        BlgTrace { inner, size: header.buffer, buffer: Vec::new(), from: 0, next: 0, end: 0, parts }
    }

    /// Returns the next event of performance counters; `None` at the end.
    pub fn next(&mut self, skips: &mut Skips) -> io::Result<Option<BlgEvent>> {
        loop {
            while self.next + 8 <= self.end {
                if let Some(event) = self.event(skips) {
                    return Ok(Some(event));
                }
            }
            if !self.fill(skips)? {
                for (_, (_, event)) in self.parts.drain() {
                    skips.add(format!("byte {}", event.offset), "the file ends inside an event of several parts");
                }
                return Ok(None);
            }
        }
    }

    fn fill(&mut self, skips: &mut Skips) -> io::Result<bool> {
        self.from += self.buffer.len() as u64;
        self.buffer.clear();
        let got = (&mut self.inner).take(self.size as u64).read_to_end(&mut self.buffer)?;
        (self.next, self.end) = (BUFFER_HEADER, 0);
        if got == 0 {
            return Ok(false);
        }
        let context = || format!("byte {}", self.from);
        let Some(used) = ByteView(&self.buffer).size(0x30).filter(|u| (BUFFER_HEADER..=self.size).contains(u)) else {
            skips.add(context(), "a buffer that is truncated or does not state its length");
            return Ok(true);
        };
        if used > got {
            skips.add(context(), "the file ends inside a buffer");
        }
        self.end = used.min(got);
        Ok(true)
    }

    /// Advances over one event. Returns it where it is complete and of performance counters.
    fn event(&mut self, skips: &mut Skips) -> Option<BlgEvent> {
        let (from, end) = (self.next, self.end);
        let offset = self.from + from as u64;
        let here = || format!("byte {offset}");
        let bytes = ByteView(&self.buffer[from..end]);
        let (kind, flags) = (*bytes.0.get(2)?, *bytes.0.get(3)?);
        let is_system = flags == 0xc0 && matches!(kind, 1..=4);
        let size = usize::from(bytes.u16(if is_system { 4 } else { 0 })?);
        if size < 8 || size > bytes.0.len() {
            let is_filler = matches!(size, 0 | 0xffff);
            if !is_filler {
                skips.add(here(), "an event of impossible length; the rest of its buffer is not read");
            }
            self.next = end;
            return None;
        }
        self.next = from + size.next_multiple_of(8);
        if is_system {
            return None;
        }
        let event = bytes.part(0, size)?;
        let is_ours = matches!(kind, 0x0a | 0x14) && event.0.get(24..40) == Some(&PROVIDER);
        if !is_ours || size < CONTENT {
            skips.add(here(), "events that are not of performance counters");
            return None;
        }
        let (part, part_count) = (event.u32(EVENT_HEADER + 16)?, event.u32(EVENT_HEADER + 20)?);
        let found = BlgEvent { kind: event.0[4], time: event.u64(16)?, offset, content: event.0[CONTENT..].to_vec() };
        self.join(found, part, part_count, skips)
    }

    /// Joins the parts of an event; returns it with its last part.
    fn join(&mut self, event: BlgEvent, part: u32, part_count: u32, skips: &mut Skips) -> Option<BlgEvent> {
        if event.kind == NAMES || (part, part_count) == (1, 1) {
            return Some(event);
        }
        let kind = event.kind;
        let here = format!("byte {}", event.offset);
        let (count, joined) = match self.parts.remove(&kind) {
            None if part == 1 => (1, event),
            Some((before, mut joined)) if part == before + 1 && joined.time == event.time => {
                if joined.content.len() + event.content.len() > MOST_EVENT {
                    skips.add(here, "an event of impossible size");
                    return None;
                }
                joined.content.extend_from_slice(&event.content);
                (part, joined)
            }
            Some((_, joined)) => {
                skips.add(format!("byte {}", joined.offset), "an event that lacks parts");
                if part != 1 {
                    return None;
                }
                (1, event)
            }
            None => {
                skips.add(here, "an event that lacks parts");
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

//! The file as Windows event tracing writes it: buffers of one size, events in
//! them (WMI_BUFFER_HEADER, EVENT_TRACE_HEADER and TRACE_LOGFILE_HEADER of the
//! Windows SDK), and long events cut into parts.

use std::collections::HashMap;
use std::io::{self, Read};

use super::bytes::ByteView;
use crate::Skips;

/// Header of a buffer, bytes.
const BUFFER_HEADER: usize = 0x48;
/// Header of an event, bytes.
const EVENT_HEADER: usize = 0x30;
/// Where an event's own content begins: behind its header, the log's id and the parts.
const CONTENT: usize = 0x48;
/// A buffer is no larger.
const MOST_BUFFER: usize = 16 << 20;
/// An event put together of its parts is no larger.
const MOST_EVENT: usize = 64 << 20;
/// The provider of performance counter events, as its bytes lie in the file.
const PROVIDER: [u8; 16] =
    [0xb3, 0x3b, 0x3f, 0x93, 0x3e, 0x94, 0x0d, 0x49, 0x9c, 0xed, 0x3c, 0xbb, 0x14, 0xc1, 0x44, 0x79];

/// Kinds of events.
pub(super) const COUNTERS: u8 = 0x20;
/// A sample.
pub(super) const DATA: u8 = 0x22;
/// What the log held, written at its end.
pub(super) const CATALOGUE: u8 = 0x23;
/// Numbers and names.
pub(super) const NAMES: u8 = 0x24;

/// What the first event tells of the file.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BlgHeader {
    pub buffer: usize,
    /// When it was begun, 100 ns since 1601, UTC.
    pub start: u64,
    /// UTC less local time, minutes, without and with daylight saving.
    pub bias: (i32, i32),
}

/// Reads the file's header; `None` where the beginning is of no event trace.
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

/// An event, put together.
pub(super) struct BlgEvent {
    pub kind: u8,
    /// Local time, 100 ns since 1601.
    pub time: u64,
    /// Where its first part begins in the file.
    pub offset: u64,
    pub content: Vec<u8>,
}

/// Walks through a file.
pub(super) struct BlgTrace<R> {
    inner: R,
    size: usize,
    buffer: Vec<u8>,
    /// Where the buffer begins in the file.
    from: u64,
    /// Next event in the buffer.
    next: usize,
    /// End of the events in the buffer.
    end: usize,
    parts: HashMap<u8, (u32, BlgEvent)>,
}

impl<R: Read> BlgTrace<R> {
    pub fn new(inner: R, header: &BlgHeader) -> BlgTrace<R> {
        let parts = HashMap::new();
        BlgTrace { inner, size: header.buffer, buffer: Vec::new(), from: 0, next: 0, end: 0, parts }
    }

    /// The next event of performance counters; `None` at the end.
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

    /// Goes over one event. Gives it where it is one of ours and whole.
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
        let (part, of) = (event.u32(EVENT_HEADER + 16)?, event.u32(EVENT_HEADER + 20)?);
        let found = BlgEvent { kind: event.0[4], time: event.u64(16)?, offset, content: event.0[CONTENT..].to_vec() };
        self.join(found, part, of, skips)
    }

    /// Puts parts together; gives the event when the last has come.
    fn join(&mut self, event: BlgEvent, part: u32, of: u32, skips: &mut Skips) -> Option<BlgEvent> {
        if event.kind == NAMES || (part, of) == (1, 1) {
            return Some(event);
        }
        let kind = event.kind;
        let here = format!("byte {}", event.offset);
        let (count, whole) = match self.parts.remove(&kind) {
            None if part == 1 => (1, event),
            Some((before, mut whole)) if part == before + 1 && whole.time == event.time => {
                if whole.content.len() + event.content.len() > MOST_EVENT {
                    skips.add(here, "an event of impossible size");
                    return None;
                }
                whole.content.extend_from_slice(&event.content);
                (part, whole)
            }
            Some((_, whole)) => {
                skips.add(format!("byte {}", whole.offset), "an event that lacks parts");
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
        if count == of {
            return Some(whole);
        }
        self.parts.insert(kind, (count, whole));
        None
    }
}

//! Replies to requests, as a server sends them.

use std::io::{Read, Write};

use super::{ClientError, ClientSlot, NbdClient};
use crate::nbd::MessageReader;
use crate::nbd::reply::NbdExtent;
use crate::nbd::wire::{self, ErrorCode, NbdCommand, chunk, extent};

/// Largest number of disjoint parts of a read; a reply with more is rejected.
const MAX_READ_PIECES: usize = 65_536;

/// Largest number of chunks of a reply; 64 MiB in chunks of 512 bytes are half as many.
const MAX_REPLY_CHUNKS: usize = 262_144;

/// A completed request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommandResult<'a> {
    /// The cookie that [`NbdClient::send_request`] returned.
    pub cookie: u64,
    /// The command.
    pub command: NbdCommand,
    /// First byte.
    pub offset: u64,
    /// Length, bytes.
    pub length: u32,
    /// Error and the server's message, if the request failed.
    pub error: Option<(ErrorCode, &'a str)>,
    /// Data that was read; empty for all other commands and after an error.
    pub data: &'a [u8],
    /// Extents that block status reports.
    pub extents: &'a [NbdExtent],
}

impl<S: Read + Write> NbdClient<S> {
    /// Sends the queued requests and waits for the next completion of any request.
    ///
    /// # Errors
    /// Errors of the connection and violations of the protocol; after either, the client cannot be used
    /// any more. A failed request is a result, not an error.
    pub fn receive_reply(&mut self) -> Result<CommandResult<'_>, ClientError> {
        self.push()?;
        let index = loop {
            match self.receive_message() {
                Ok(None) => {}
                Ok(Some(end)) => break end,
                Err(error) => {
                    self.has_failed = true;
                    return Err(error);
                }
            }
        };
        self.free.push(index as u32);
        let slot = &mut self.slots[index];
        slot.busy = false;
        let read = slot.command == Some(NbdCommand::Read) && slot.error.is_none();
        Ok(CommandResult {
            cookie: u64::from(slot.generation) << 32 | index as u64,
            command: slot.command.unwrap_or(NbdCommand::Unknown(u16::MAX)),
            offset: slot.offset,
            length: slot.length,
            error: slot.error.map(|error| (error, slot.message.as_str())),
            data: if read { &slot.data[..slot.length as usize] } else { &[] },
            extents: if slot.error.is_none() { &slot.extents } else { &[] },
        })
    }

    /// Receives one message; returns the slot of the request that it completes.
    fn receive_message(&mut self) -> Result<Option<usize>, ClientError> {
        let magic: [u8; 4] = self.input.read_array(&mut self.stream, "a reply")?;
        match u32::from_be_bytes(magic) {
            wire::SIMPLE_REPLY_MAGIC => self.receive_simple_reply().map(Some),
            wire::STRUCTURED_REPLY_MAGIC if self.export_info.structured => self.receive_chunk(),
            wire::STRUCTURED_REPLY_MAGIC => {
                Err(protocol_error("it sends a structured reply, which was not negotiated"))
            }
            other => Err(protocol_error(&format!("a reply begins with {other:#010x}"))),
        }
    }

    fn receive_simple_reply(&mut self) -> Result<usize, ClientError> {
        let head: [u8; 12] = self.input.read_array(&mut self.stream, "a reply")?;
        let mut rest = MessageReader(&head);
        let (error, cookie) = (rest.u32().unwrap_or(0), rest.u64().unwrap_or(0));
        let index = self.find_slot(cookie)?;
        let slot = &mut self.slots[index];
        let is_block_status = slot.command == Some(NbdCommand::BlockStatus);
        let has_data = is_block_status || slot.command == Some(NbdCommand::Read);
        if has_data && self.export_info.structured {
            return Err(protocol_error(&format!(
                "it sends a simple reply to {:?}, not a structured one",
                slot.command
            )));
        }
        if error != 0 {
            slot.error = Some(ErrorCode::from_code(error));
        } else if is_block_status {
            return Err(protocol_error("a block status is empty"));
        } else if has_data {
            let data = &mut slot.data[..slot.length as usize];
            self.input.read_into(&mut self.stream, data, "the data of a read")?;
        }
        Ok(index)
    }

    fn receive_chunk(&mut self) -> Result<Option<usize>, ClientError> {
        let head: [u8; 16] = self.input.read_array(&mut self.stream, "a chunk's header")?;
        let mut rest = MessageReader(&head);
        let (flags, kind) = (rest.u16().unwrap_or(0), rest.u16().unwrap_or(0));
        let (cookie, length) = (rest.u64().unwrap_or(0), rest.u32().unwrap_or(0));
        let index = self.find_slot(cookie)?;
        self.slots[index].chunks += 1;
        if self.slots[index].chunks > MAX_REPLY_CHUNKS {
            return Err(protocol_error("a reply has too many chunks"));
        }
        let is_last = flags & chunk::DONE != 0;
        match kind {
            chunk::NONE if length == 0 && is_last => {}
            chunk::OFFSET_DATA if length > 8 => self.receive_data(index, length - 8)?,
            chunk::OFFSET_HOLE if length == 12 => self.receive_hole(index)?,
            chunk::BLOCK_STATUS if length >= 12 && length % 8 == 4 => {
                self.receive_block_status(index, (length - 4) / 8)?
            }
            kind if kind & chunk::ERRORS != 0 => self.receive_error(index, kind, length)?,
            _ => return Err(protocol_error(&format!("a chunk of type {kind} has {length} bytes"))),
        }
        let slot = &self.slots[index];
        if is_last && slot.error.is_none() {
            check_complete(slot)?;
        }
        Ok(is_last.then_some(index))
    }

    fn find_slot(&self, cookie: u64) -> Result<usize, ClientError> {
        let index = (cookie & u64::from(u32::MAX)) as usize;
        let slot = self.slots.get(index).filter(|slot| slot.busy && u64::from(slot.generation) == cookie >> 32);
        slot.map(|_| index)
            .ok_or_else(|| protocol_error(&format!("it replies to {cookie:#x}, which was not requested")))
    }

    fn receive_data(&mut self, index: usize, length: u32) -> Result<(), ClientError> {
        let offset = u64::from_be_bytes(self.input.read_array(&mut self.stream, "a chunk's offset")?);
        let slot = &mut self.slots[index];
        let start = record_coverage(slot, offset, length)? as usize;
        let data = &mut slot.data[start..start + length as usize];
        self.input.read_into(&mut self.stream, data, "the data of a read")
    }

    fn receive_hole(&mut self, index: usize) -> Result<(), ClientError> {
        let offset = u64::from_be_bytes(self.input.read_array(&mut self.stream, "a hole's offset")?);
        let length = u32::from_be_bytes(self.input.read_array(&mut self.stream, "a hole's length")?);
        let slot = &mut self.slots[index];
        let start = record_coverage(slot, offset, length)? as usize;
        slot.data[start..start + length as usize].fill(0);
        Ok(())
    }

    fn receive_block_status(&mut self, index: usize, count: u32) -> Result<(), ClientError> {
        let slot = &mut self.slots[index];
        if slot.command != Some(NbdCommand::BlockStatus) || !slot.extents.is_empty() {
            return Err(protocol_error("it sends a block status that was not requested"));
        }
        if count as usize > wire::MAX_EXTENTS {
            return Err(protocol_error(&format!("a block status has {count} extents")));
        }
        let context = u32::from_be_bytes(self.input.read_array(&mut self.stream, "a metadata context")?);
        if Some(context) != self.export_info.context {
            return Err(protocol_error(&format!("a block status is of context {context}, which was not selected")));
        }
        for _ in 0..count {
            let bytes = u32::from_be_bytes(self.input.read_array(&mut self.stream, "an extent")?);
            let flags = u32::from_be_bytes(self.input.read_array(&mut self.stream, "an extent")?);
            if bytes == 0 {
                return Err(protocol_error("an extent is empty"));
            }
            slot.extents.push(NbdExtent { bytes: u64::from(bytes), is_allocated: flags & extent::HOLE == 0 });
        }
        Ok(())
    }

    fn receive_error(&mut self, index: usize, kind: u16, length: u32) -> Result<(), ClientError> {
        if length as usize > 2 * wire::MAX_STRING_BYTES {
            return Err(protocol_error(&format!("an error has {length} bytes")));
        }
        let data = self.input.read_bytes(&mut self.stream, length as usize, "an error")?;
        let mut rest = MessageReader(data);
        let parsed =
            rest.u32().zip(rest.u16()).and_then(|(error, bytes)| Some((error, rest.take_bytes(bytes.into())?)));
        let Some((error, message)) = parsed.filter(|(error, _)| *error != 0) else {
            return Err(protocol_error(&format!("an error chunk of type {kind:#x} holds no error")));
        };
        let slot = &mut self.slots[index];
        if slot.error.is_none() {
            slot.error = Some(ErrorCode::from_code(error));
            slot.message = String::from_utf8_lossy(message).into_owned();
        }
        Ok(())
    }
}

/// Records a part of a read, and returns its position within the read.
fn record_coverage(slot: &mut ClientSlot, offset: u64, length: u32) -> Result<u32, ClientError> {
    let fits = |start: &u64| start.checked_add(length.into()).is_some_and(|end| end <= slot.length.into());
    let position = offset.checked_sub(slot.offset).filter(fits);
    let Some(start) = position.filter(|_| slot.command == Some(NbdCommand::Read) && length > 0) else {
        return Err(protocol_error(&format!("it sends {length} bytes at {offset}, which were not requested")));
    };
    // both are at most the length of the read, which is a u32
    let (start, end) = (start as u32, start as u32 + length);
    let index = slot.covered.partition_point(|(_, part_end)| *part_end < start);
    let touching = |part: Option<&(u32, u32)>| part.copied().filter(|(first, last)| *first <= end && *last >= start);
    let overlaps = |(first, last): (u32, u32)| first < end && last > start;
    // the parts before `index` end before the start; of the others, only the first two can touch without overlapping
    let (left, right) = (touching(slot.covered.get(index)), touching(slot.covered.get(index + 1)));
    if left.is_some_and(overlaps) || right.is_some_and(overlaps) {
        return Err(protocol_error(&format!("its {length} bytes at {offset} overlap earlier ones")));
    }
    let joined = [left, right].into_iter().flatten().fold((start, end), |(a, b), (c, d)| (a.min(c), b.max(d)));
    let replaced = usize::from(left.is_some()) + usize::from(right.is_some());
    slot.covered.splice(index..index + replaced, [joined]);
    // only the parts next to the changed one can be out of order
    let neighbors = &slot.covered[index.saturating_sub(1)..(index + 2).min(slot.covered.len())];
    debug_assert!(neighbors.is_sorted_by(|a, b| a.1 < b.0), "the parts {neighbors:?} of a read overlap or touch");
    if slot.covered.len() > MAX_READ_PIECES {
        return Err(protocol_error("a read has too many pieces"));
    }
    Ok(start)
}

/// Checks that a reply without an error covers the whole request.
fn check_complete(slot: &ClientSlot) -> Result<(), ClientError> {
    match slot.command {
        Some(NbdCommand::Read) if slot.length > 0 && slot.covered != [(0, slot.length)] => {
            Err(protocol_error("a read succeeds without all of its data"))
        }
        Some(NbdCommand::BlockStatus) if slot.extents.is_empty() => Err(protocol_error("a block status is empty")),
        _ => Ok(()),
    }
}

fn protocol_error(message: &str) -> ClientError {
    ClientError::ProtocolViolation(message.to_owned())
}

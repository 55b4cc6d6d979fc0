//! Replies to requests, appended to the output. Nothing else is allocated.

use super::handshake::{NbdSession, short};
use super::request::NbdRequest;
use super::wire::{self, CommandFlags, ErrorCode, chunk, extent};

/// Appends a success reply without data, for all commands but reads and block status.
pub fn done(output: &mut Vec<u8>, cookie: u64) {
    simple(output, cookie, 0);
}

/// Appends an error reply. With structured replies the message is sent along.
pub fn error(output: &mut Vec<u8>, session: &NbdSession, cookie: u64, error: ErrorCode, message: &str) {
    if !session.structured {
        return simple(output, cookie, error.code());
    }
    let message = short(message);
    head(output, chunk::DONE, chunk::ERROR, cookie, 6 + message.len() as u32);
    output.extend_from_slice(&error.code().to_be_bytes());
    // a string is 4096 bytes at most
    output.extend_from_slice(&(message.len() as u16).to_be_bytes());
    output.extend_from_slice(message.as_bytes());
}

/// Appends the complete reply to a read except its data: the caller appends [`NbdRequest::length`]
/// bytes. Until then a failed read can be undone by truncating the output to its former length, and
/// answered with [`error`].
pub fn read_head(output: &mut Vec<u8>, session: &NbdSession, request: &NbdRequest) {
    if session.structured {
        data_head(output, request.cookie, request.offset, request.length, true);
    } else {
        simple(output, request.cookie, 0);
    }
}

/// Appends the header of a piece of a structured read: `length` bytes from `offset` (of the export)
/// have to follow. The reply is complete after the `last` piece.
pub fn data_head(output: &mut Vec<u8>, cookie: u64, offset: u64, length: u32, last: bool) {
    let flags = if last { chunk::DONE } else { 0 };
    head(output, flags, chunk::OFFSET_DATA, cookie, length.saturating_add(8));
    output.extend_from_slice(&offset.to_be_bytes());
}

/// Extent of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NbdExtent {
    /// Length, bytes.
    pub bytes: u64,
    /// It is allocated; unallocated extents read as zeros.
    pub allocated: bool,
}

/// Appends the reply to [`super::wire::NbdCommand::BlockStatus`]. `extents` begin at the request's
/// offset; adjacent equal ones are merged, and they are cut at the request's end. They may cover
/// less than was requested: the client then asks again for the rest. If there are none at all,
/// everything counts as allocated.
pub fn block_status(output: &mut Vec<u8>, request: &NbdRequest, extents: impl IntoIterator<Item = NbdExtent>) {
    let start = output.len();
    head(output, chunk::DONE, chunk::BLOCK_STATUS, request.cookie, 0);
    output.extend_from_slice(&wire::ALLOCATION_CONTEXT.to_be_bytes());
    let max_extents = if request.flags.has(CommandFlags::REQ_ONE) { 1 } else { wire::MOST_EXTENTS };
    let (mut extent_count, mut rest, mut current) = (0, request.length, (0_u32, true));
    let mut append_extent = |output: &mut Vec<u8>, (bytes, allocated): (u32, bool)| {
        output.extend_from_slice(&bytes.to_be_bytes());
        output.extend_from_slice(&(if allocated { 0 } else { extent::HOLE | extent::ZERO }).to_be_bytes());
        extent_count += 1;
        extent_count
    };
    for next in extents {
        let bytes = u32::try_from(next.bytes).unwrap_or(u32::MAX).min(rest);
        rest -= bytes;
        if current.0 > 0 && bytes > 0 && current.1 != next.allocated {
            if append_extent(output, current) == max_extents {
                current.0 = 0;
                break;
            }
            current = (bytes, next.allocated);
        } else if bytes > 0 {
            current = (current.0 + bytes, next.allocated);
        }
        if rest == 0 {
            break;
        }
    }
    if current.0 > 0 {
        append_extent(output, current);
    } else if output.len() == start + 24 {
        append_extent(output, (request.length, true));
    }
    let length = (output.len() - start - 20) as u32;
    output[start + 16..start + 20].copy_from_slice(&length.to_be_bytes());
}

fn simple(output: &mut Vec<u8>, cookie: u64, error: u32) {
    let mut all = [0; 16];
    all[..4].copy_from_slice(&wire::SIMPLE_REPLY_MAGIC.to_be_bytes());
    all[4..8].copy_from_slice(&error.to_be_bytes());
    all[8..].copy_from_slice(&cookie.to_be_bytes());
    output.extend_from_slice(&all);
}

fn head(output: &mut Vec<u8>, flags: u16, kind: u16, cookie: u64, length: u32) {
    let mut all = [0; 20];
    all[..4].copy_from_slice(&wire::STRUCTURED_REPLY_MAGIC.to_be_bytes());
    all[4..6].copy_from_slice(&flags.to_be_bytes());
    all[6..8].copy_from_slice(&kind.to_be_bytes());
    all[8..16].copy_from_slice(&cookie.to_be_bytes());
    all[16..].copy_from_slice(&length.to_be_bytes());
    output.extend_from_slice(&all);
}

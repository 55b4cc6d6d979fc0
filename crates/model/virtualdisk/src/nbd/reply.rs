//! Replies to requests. They are appended to the output, without further allocations.

use super::handshake::{NbdSession, truncate_string};
use super::request::NbdRequest;
use super::wire::{self, CommandFlags, ErrorCode, chunk, extent};

/// Appends a success reply without data, for all commands but reads and block status.
pub fn append_success(output: &mut Vec<u8>, cookie: u64) {
    append_simple_reply(output, cookie, 0);
}

/// Appends an error reply. With structured replies the message is sent along.
pub fn append_error(output: &mut Vec<u8>, session: &NbdSession, cookie: u64, error: ErrorCode, message: &str) {
    if !session.structured {
        return append_simple_reply(output, cookie, error.code());
    }
    let message = truncate_string(message);
    append_chunk_header(output, chunk::DONE, chunk::ERROR, cookie, 6 + message.len() as u32);
    output.extend_from_slice(&error.code().to_be_bytes());
    // a string is 4096 bytes at most
    output.extend_from_slice(&(message.len() as u16).to_be_bytes());
    output.extend_from_slice(message.as_bytes());
}

/// Appends the complete reply to a read except its data: the caller appends [`NbdRequest::length`]
/// bytes. Until then a failed read can be undone by truncating the output to its former length, and
/// answered with [`append_error`].
pub fn append_read_header(output: &mut Vec<u8>, session: &NbdSession, request: &NbdRequest) {
    if session.structured {
        append_data_header(output, request.cookie, request.offset, request.length, true);
    } else {
        append_simple_reply(output, request.cookie, 0);
    }
}

/// Appends the header of a piece of a structured read: `length` bytes from `offset` (of the export)
/// have to follow. The reply is complete after the `last` piece.
pub fn append_data_header(output: &mut Vec<u8>, cookie: u64, offset: u64, length: u32, last: bool) {
    let flags = if last { chunk::DONE } else { 0 };
    append_chunk_header(output, flags, chunk::OFFSET_DATA, cookie, length.saturating_add(8));
    output.extend_from_slice(&offset.to_be_bytes());
}

/// Extent of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NbdExtent {
    /// Length, bytes.
    pub bytes: u64,
    /// It is allocated; unallocated extents read as zeros.
    pub is_allocated: bool,
}

/// Appends the reply to [`super::wire::NbdCommand::BlockStatus`]. `extents` begin at the request's
/// offset. Adjacent equal extents are merged, and the last one is cut off at the request's end. They may
/// cover less than was requested: the client then requests the remainder. Without extents, the whole
/// request counts as allocated.
pub fn append_block_status(output: &mut Vec<u8>, request: &NbdRequest, extents: impl IntoIterator<Item = NbdExtent>) {
    let start = output.len();
    append_chunk_header(output, chunk::DONE, chunk::BLOCK_STATUS, request.cookie, 0);
    output.extend_from_slice(&wire::ALLOCATION_CONTEXT.to_be_bytes());
    let max_extents = if request.flags.has(CommandFlags::REQ_ONE) { 1 } else { wire::MAX_EXTENTS };
    let (mut extent_count, mut rest, mut current) = (0, request.length, (0_u32, true));
    let mut covered_bytes = 0_u64;
    let mut append_extent = |output: &mut Vec<u8>, (bytes, allocated): (u32, bool)| {
        covered_bytes += u64::from(bytes);
        output.extend_from_slice(&bytes.to_be_bytes());
        output.extend_from_slice(&(if allocated { 0 } else { extent::HOLE | extent::ZERO }).to_be_bytes());
        extent_count += 1;
        extent_count
    };
    for next in extents {
        let bytes = u32::try_from(next.bytes).unwrap_or(u32::MAX).min(rest);
        rest -= bytes;
        if current.0 > 0 && bytes > 0 && current.1 != next.is_allocated {
            if append_extent(output, current) == max_extents {
                current.0 = 0;
                break;
            }
            current = (bytes, next.is_allocated);
        } else if bytes > 0 {
            current = (current.0 + bytes, next.is_allocated);
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
    debug_assert!(covered_bytes <= request.length.into(), "extents of {covered_bytes} of {} bytes", request.length);
    // the last four of the header's 20 bytes are the length of what follows
    let length = (output.len() - start - 20) as u32;
    output[start + 16..start + 20].copy_from_slice(&length.to_be_bytes());
}

fn append_simple_reply(output: &mut Vec<u8>, cookie: u64, error: u32) {
    let mut head = [0; 16];
    head[..4].copy_from_slice(&wire::SIMPLE_REPLY_MAGIC.to_be_bytes());
    head[4..8].copy_from_slice(&error.to_be_bytes());
    head[8..].copy_from_slice(&cookie.to_be_bytes());
    output.extend_from_slice(&head);
}

fn append_chunk_header(output: &mut Vec<u8>, flags: u16, kind: u16, cookie: u64, length: u32) {
    let mut head = [0; 20];
    head[..4].copy_from_slice(&wire::STRUCTURED_REPLY_MAGIC.to_be_bytes());
    head[4..6].copy_from_slice(&flags.to_be_bytes());
    head[6..8].copy_from_slice(&kind.to_be_bytes());
    head[8..16].copy_from_slice(&cookie.to_be_bytes());
    head[16..].copy_from_slice(&length.to_be_bytes());
    output.extend_from_slice(&head);
}

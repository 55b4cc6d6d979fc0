//! Requests of a client, and the checks that they have to pass.

use super::ProtocolError;
use super::handshake::{NbdExport, NbdSession};
use super::wire::{self, CommandFlags, ErrorCode, NbdCommand, TransmissionFlags};

/// Largest amount of data of a refused write that is read and discarded, bytes. For more, the
/// connection is closed.
pub const MAX_SKIPPED_BYTES: u32 = 64 << 20;

/// Header of a request, as it was received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NbdRequest {
    /// Flags of the command.
    pub flags: CommandFlags,
    /// The command.
    pub command: NbdCommand,
    /// The client's identifier for it, which the reply repeats.
    pub cookie: u64,
    /// First byte.
    pub offset: u64,
    /// Length, bytes.
    pub length: u32,
}

impl NbdRequest {
    /// Returns the number of data bytes that follow the header.
    #[must_use]
    pub const fn payload_bytes(&self) -> u32 {
        if matches!(self.command, NbdCommand::Write) { self.length } else { 0 }
    }

    /// Encodes the header for sending.
    #[must_use]
    pub fn encode_header(&self) -> [u8; wire::REQUEST_BYTES] {
        let mut head = [0; wire::REQUEST_BYTES];
        head[..4].copy_from_slice(&wire::REQUEST_MAGIC.to_be_bytes());
        head[4..6].copy_from_slice(&self.flags.0.to_be_bytes());
        head[6..8].copy_from_slice(&self.command.code().to_be_bytes());
        head[8..16].copy_from_slice(&self.cookie.to_be_bytes());
        head[16..24].copy_from_slice(&self.offset.to_be_bytes());
        head[24..].copy_from_slice(&self.length.to_be_bytes());
        head
    }
}

/// Result of parsing the front of the input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestParse {
    /// An incomplete header: at least this many bytes are missing.
    Need(usize),
    /// A header of [`wire::REQUEST_BYTES`]; a write's data follows.
    Request(NbdRequest),
    /// Not a request: the connection has to be closed.
    Broken(ProtocolError),
}

/// Parses the header at the front of `input`.
#[must_use]
pub fn parse(input: &[u8]) -> RequestParse {
    if let Some(magic) = input.first_chunk() {
        let found = u32::from_be_bytes(*magic);
        if found != wire::REQUEST_MAGIC {
            return RequestParse::Broken(ProtocolError::RequestMagic { found });
        }
    }
    let Some(head) = input.first_chunk::<{ wire::REQUEST_BYTES }>() else {
        return RequestParse::Need(wire::REQUEST_BYTES - input.len());
    };
    let [_, _, _, _, f0, f1, c0, c1, rest @ ..] = *head;
    let [k0, k1, k2, k3, k4, k5, k6, k7, o0, o1, o2, o3, o4, o5, o6, o7, l0, l1, l2, l3] = rest;
    RequestParse::Request(NbdRequest {
        flags: CommandFlags(u16::from_be_bytes([f0, f1])),
        command: NbdCommand::from_code(u16::from_be_bytes([c0, c1])),
        cookie: u64::from_be_bytes([k0, k1, k2, k3, k4, k5, k6, k7]),
        offset: u64::from_be_bytes([o0, o1, o2, o3, o4, o5, o6, o7]),
        length: u32::from_be_bytes([l0, l1, l2, l3]),
    })
}

/// Decision on a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestCheck {
    /// It lies within the export and may be executed.
    Do,
    /// It is answered with this error. The connection continues after [`NbdRequest::payload_bytes`]
    /// bytes, which are read and discarded.
    Refuse(ErrorCode, &'static str),
    /// Requests in flight are answered; then the connection is closed.
    Disconnect,
    /// The connection is closed at once.
    Close(ProtocolError),
}

/// Checks a request against the export and the session.
#[must_use]
pub fn check_request(request: &NbdRequest, export: &NbdExport, session: &NbdSession) -> RequestCheck {
    if request.payload_bytes() > MAX_SKIPPED_BYTES && request.payload_bytes() > export.max_request_bytes {
        return RequestCheck::Close(ProtocolError::Flood { length: request.length, max_bytes: MAX_SKIPPED_BYTES });
    }
    if request.command == NbdCommand::Disconnect {
        return RequestCheck::Disconnect;
    }
    let flags = export.flags_for(session.structured);
    let refused = check_command(request, flags, session)
        .or_else(|| check_range(request, export))
        .or_else(|| check_length(request, export, session));
    refused.map_or(RequestCheck::Do, |(error, because)| RequestCheck::Refuse(error, because))
}

type RequestRefusal = Option<(ErrorCode, &'static str)>;

/// Checks that command and flags were offered.
fn check_command(request: &NbdRequest, flags: TransmissionFlags, session: &NbdSession) -> RequestRefusal {
    use TransmissionFlags as Has;
    let (is_offered, allowed_flags) = match request.command {
        NbdCommand::Read => (true, if flags.has(Has::DF) { CommandFlags::DF } else { CommandFlags(0) }),
        NbdCommand::Write => (true, CommandFlags(0)),
        NbdCommand::Flush => (flags.has(Has::FLUSH), CommandFlags(0)),
        NbdCommand::Trim => (flags.has(Has::TRIM), CommandFlags(0)),
        NbdCommand::Cache => (flags.has(Has::CACHE), CommandFlags(0)),
        NbdCommand::WriteZeroes => {
            let fast = if flags.has(Has::FAST_ZERO) { CommandFlags::FAST_ZERO } else { CommandFlags(0) };
            (flags.has(Has::WRITE_ZEROES), fast.with(CommandFlags::NO_HOLE))
        }
        NbdCommand::BlockStatus => (session.block_status, CommandFlags::REQ_ONE),
        NbdCommand::Resize => return Some((ErrorCode::Inval, "an export cannot be resized")),
        NbdCommand::Disconnect | NbdCommand::Unknown(_) => return Some((ErrorCode::Inval, "the command is unknown")),
    };
    if !is_offered {
        let because = match request.command {
            NbdCommand::BlockStatus => "base:allocation was not selected for this export",
            _ => "the command was not offered",
        };
        return Some((ErrorCode::Inval, because));
    }
    // the protocol permits FUA on any command
    let allowed_flags = if flags.has(Has::FUA) { allowed_flags.with(CommandFlags::FUA) } else { allowed_flags };
    if !allowed_flags.has(request.flags) {
        return Some((ErrorCode::Inval, "a flag does not belong to the command or was not offered"));
    }
    let changes = matches!(request.command, NbdCommand::Write | NbdCommand::Trim | NbdCommand::WriteZeroes);
    (changes && flags.has(Has::READ_ONLY)).then_some((ErrorCode::Perm, "the export is read-only"))
}

/// Checks that the request lies within the export.
fn check_range(request: &NbdRequest, export: &NbdExport) -> RequestRefusal {
    if request.command == NbdCommand::Flush {
        let has_range = request.offset != 0 || request.length != 0;
        return has_range.then_some((ErrorCode::Inval, "a flush must have no offset and no length"));
    }
    if request.length == 0 {
        return Some((ErrorCode::Inval, "the request has no bytes"));
    }
    let end = request.offset.checked_add(u64::from(request.length));
    if end.is_none_or(|end| end > export.bytes) {
        let writes = matches!(request.command, NbdCommand::Write | NbdCommand::WriteZeroes);
        let error = if writes { ErrorCode::Nospc } else { ErrorCode::Inval };
        return Some((error, "beyond the end of the export"));
    }
    let block = u64::from(export.min_block_bytes.max(1));
    let is_aligned = request.offset.is_multiple_of(block) && u64::from(request.length).is_multiple_of(block);
    (!is_aligned && !export.allows_unaligned)
        .then_some((ErrorCode::Inval, "offset or length is not a multiple of the smallest block"))
}

/// Checks that the data are short enough. A request without data may have any length.
fn check_length(request: &NbdRequest, export: &NbdExport, session: &NbdSession) -> RequestRefusal {
    let has_data = matches!(request.command, NbdCommand::Read | NbdCommand::Write);
    if !has_data || request.length <= export.max_request_bytes {
        return None;
    }
    // the protocol allows this error for reads only with structured replies
    let is_structured_read = session.structured && request.command == NbdCommand::Read;
    let error = if is_structured_read { ErrorCode::Overflow } else { ErrorCode::Inval };
    Some((error, "longer than the largest request"))
}

//! Server side of the negotiation, from the greeting to the choice of an export.

use super::wire::{self, TransmissionFlags, answer, info, option};
use super::{Exports, MessageReader, ProtocolError};

/// Largest amount of unread replies, bytes: no further option is processed until the client has
/// read them.
const MAX_UNREAD_BYTES: usize = 256 << 10;

/// An export as a server offers it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NbdExport {
    /// Name by which a client opens it; at most 4096 bytes are sent.
    pub name: String,
    /// Description for users; at most 4096 bytes are sent.
    pub description: String,
    /// Size, bytes.
    pub bytes: u64,
    /// Its capabilities. [`TransmissionFlags::DF`] is set only after structured replies were
    /// negotiated.
    pub flags: TransmissionFlags,
    /// Smallest block: requests are multiples of this, bytes; a power of two up to 65,536.
    pub min_block_bytes: u32,
    /// Unaligned requests are executed, too, because not all clients honor the smallest block.
    pub allows_unaligned: bool,
    /// Preferred block: requests should be multiples of this, bytes; a power of two from 512 on.
    pub preferred_block_bytes: u32,
    /// Largest read or write, bytes.
    pub max_request_bytes: u32,
    /// Clients can select `base:allocation`.
    pub block_status: bool,
}

impl NbdExport {
    /// Creates an export that can be read, written, flushed, trimmed and zeroed over several
    /// connections, with requests of any size up to 32 MiB.
    #[must_use]
    pub fn new(name: &str, bytes: u64) -> Self {
        use TransmissionFlags as Flag;
        let flags = [Flag::FLUSH, Flag::FUA, Flag::TRIM, Flag::WRITE_ZEROES, Flag::MULTI_CONN, Flag::CACHE];
        Self {
            name: name.to_owned(),
            description: String::new(),
            bytes,
            flags: flags.into_iter().fold(Flag::HAS_FLAGS, Flag::with),
            min_block_bytes: 1,
            allows_unaligned: false,
            preferred_block_bytes: 4096,
            max_request_bytes: wire::DEFAULT_MAX_REQUEST_BYTES,
            block_status: true,
        }
    }

    /// Returns the flags for a client that has negotiated structured replies, or has not.
    #[must_use]
    pub fn flags_for(&self, structured: bool) -> TransmissionFlags {
        let flags = self.flags.with(TransmissionFlags::HAS_FLAGS);
        if structured { flags.with(TransmissionFlags::DF) } else { flags.without(TransmissionFlags::DF) }
    }
}

/// Result of the negotiation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NbdSession {
    /// Index of the export in [`Exports::list`].
    pub export: usize,
    /// Reads are answered in chunks.
    pub structured: bool,
    /// `base:allocation` was selected for the export, as [`wire::ALLOCATION_CONTEXT`].
    pub block_status: bool,
}

/// State of a handshake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HandshakeState {
    /// More bytes are needed, or the output has to be sent first: if input is left over, call again
    /// once the output is written.
    More,
    /// The negotiation is complete; the remaining bytes are requests.
    Ready(NbdSession),
    /// The output has to be sent and the connection closed. [`ProtocolError::Aborted`] means that
    /// the client requested it.
    Close(ProtocolError),
}

/// Result of processing some input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandshakeProgress {
    /// Bytes consumed. The caller passes the remaining bytes again, followed by new input.
    pub consumed: usize,
    /// State after that input.
    pub state: HandshakeState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HandshakeStep {
    Flags,
    Options,
    Over,
}

/// Negotiation of one connection. It buffers no input: the caller passes unconsumed bytes again.
#[derive(Debug, Clone)]
pub struct Handshake {
    step: HandshakeStep,
    /// The client wants no 124 zeroes after `NBD_OPT_EXPORT_NAME`.
    no_zeroes: bool,
    /// Structured replies were negotiated.
    structured: bool,
    /// The export for which `base:allocation` was selected.
    context: Option<usize>,
    /// Bytes to discard of an option that was refused for its length.
    skip: usize,
}

/// Outcome of an option.
enum OptionOutcome {
    Next,
    Ready(usize),
    Close(ProtocolError),
}

impl Handshake {
    /// Starts a handshake; the greeting is appended to `output`.
    #[must_use]
    pub fn start(output: &mut Vec<u8>) -> Self {
        output.extend_from_slice(&wire::NBDMAGIC.to_be_bytes());
        output.extend_from_slice(&wire::IHAVEOPT.to_be_bytes());
        output.extend_from_slice(&(wire::FIXED_NEWSTYLE | wire::NO_ZEROES).to_be_bytes());
        Self { step: HandshakeStep::Flags, no_zeroes: false, structured: false, context: None, skip: 0 }
    }

    /// Processes input from the client. Replies are appended to `output`, at most about 256 KiB
    /// before the server has to send them.
    pub fn process_input(&mut self, exports: &Exports, input: &[u8], output: &mut Vec<u8>) -> HandshakeProgress {
        let mut consumed = 0;
        loop {
            let rest = &input[consumed..];
            let processed = match self.step {
                HandshakeStep::Over => {
                    return HandshakeProgress { consumed, state: HandshakeState::Close(ProtocolError::Over) };
                }
                HandshakeStep::Flags => self.client_flags(rest),
                HandshakeStep::Options if self.skip > 0 => {
                    let skipped = self.skip.min(rest.len());
                    self.skip -= skipped;
                    Ok((skipped > 0).then_some((skipped, OptionOutcome::Next)))
                }
                HandshakeStep::Options if output.len() > MAX_UNREAD_BYTES => Ok(None),
                HandshakeStep::Options => self.process_option(exports, rest, output),
            };
            let state = match processed {
                Ok(None) => HandshakeState::More,
                Ok(Some((bytes, outcome))) => {
                    consumed += bytes;
                    match outcome {
                        OptionOutcome::Next => continue,
                        OptionOutcome::Ready(export) => HandshakeState::Ready(self.make_session(export)),
                        OptionOutcome::Close(why) => HandshakeState::Close(why),
                    }
                }
                Err(why) => HandshakeState::Close(why),
            };
            if state != HandshakeState::More {
                self.step = HandshakeStep::Over;
            }
            return HandshakeProgress { consumed, state };
        }
    }

    fn make_session(&self, export: usize) -> NbdSession {
        NbdSession { export, structured: self.structured, block_status: self.context == Some(export) }
    }

    fn client_flags(&mut self, input: &[u8]) -> Result<Option<(usize, OptionOutcome)>, ProtocolError> {
        let Some(flags) = MessageReader(input).u32() else { return Ok(None) };
        // a client without the first flag is not rejected: it sends only `NBD_OPT_EXPORT_NAME`
        if flags & !u32::from(wire::FIXED_NEWSTYLE | wire::NO_ZEROES) != 0 {
            return Err(ProtocolError::ClientFlags(flags));
        }
        self.no_zeroes = flags & u32::from(wire::NO_ZEROES) != 0;
        self.step = HandshakeStep::Options;
        Ok(Some((4, OptionOutcome::Next)))
    }

    /// Processes one option if all of it has arrived.
    fn process_option(
        &mut self,
        exports: &Exports,
        input: &[u8],
        output: &mut Vec<u8>,
    ) -> Result<Option<(usize, OptionOutcome)>, ProtocolError> {
        // check the magic number as it arrives: a peer that speaks another protocol may wait for an
        // answer before it sends 16 bytes
        let magic = wire::IHAVEOPT.to_be_bytes();
        let seen = &input[..input.len().min(8)];
        if !magic.starts_with(seen) {
            let found = seen.iter().fold(0, |found, byte| found << 8 | u64::from(*byte));
            return Err(ProtocolError::OptionMagic { found });
        }
        let mut rest = MessageReader(input);
        let (Some(_), Some(option), Some(length)) = (rest.u64(), rest.u32(), rest.u32()) else { return Ok(None) };
        if length > wire::MAX_OPTION_BYTES {
            if option == option::EXPORT_NAME {
                return Err(ProtocolError::UnknownExport(format!("a name of {length} bytes")));
            }
            self.skip = length as usize;
            if option == option::SET_META_CONTEXT {
                self.context = None;
            }
            let outcome = if option == option::ABORT { answer_abort(output) } else { OptionOutcome::Next };
            if matches!(outcome, OptionOutcome::Next) {
                let message = format!("the option has {length} bytes; the limit is {}", wire::MAX_OPTION_BYTES);
                refuse_option(output, option, answer::TOO_BIG, &message);
            }
            return Ok(Some((16, outcome)));
        }
        let Some(data) = rest.take_bytes(length as usize) else { return Ok(None) };
        Ok(Some((16 + data.len(), self.answer_option(exports, option, data, output))))
    }

    fn answer_option(
        &mut self,
        exports: &Exports,
        option_code: u32,
        data: &[u8],
        output: &mut Vec<u8>,
    ) -> OptionOutcome {
        match option_code {
            option::EXPORT_NAME => return self.answer_export_name(exports, data, output),
            option::ABORT => return answer_abort(output),
            option::LIST if data.is_empty() => answer_list(exports, output),
            option::STRUCTURED_REPLY if data.is_empty() => {
                self.structured = true;
                append_reply(output, option_code, answer::ACK, &[]);
            }
            option::LIST | option::STRUCTURED_REPLY | option::STARTTLS if !data.is_empty() => {
                refuse_option(output, option_code, answer::INVALID, "this option takes no data");
            }
            option::STARTTLS => {
                refuse_option(output, option_code, answer::POLICY, "no TLS; use the Unix socket or a tunnel")
            }
            option::INFO | option::GO => return self.answer_go(exports, option_code, data, output),
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT => {
                self.answer_contexts(exports, option_code, data, output)
            }
            _ => refuse_option(output, option_code, answer::UNSUPPORTED, "the option is not supported"),
        }
        OptionOutcome::Next
    }

    fn answer_export_name(&self, exports: &Exports, name: &[u8], output: &mut Vec<u8>) -> OptionOutcome {
        let Some((index, export)) = find_export(exports, name) else {
            let name = String::from_utf8_lossy(&name[..name.len().min(wire::MAX_STRING_BYTES)]).into_owned();
            return OptionOutcome::Close(ProtocolError::UnknownExport(name));
        };
        output.extend_from_slice(&export.bytes.to_be_bytes());
        output.extend_from_slice(&export.flags_for(self.structured).0.to_be_bytes());
        if !self.no_zeroes {
            output.extend_from_slice(&[0; 124]);
        }
        OptionOutcome::Ready(index)
    }

    fn answer_go(&self, exports: &Exports, option_code: u32, data: &[u8], output: &mut Vec<u8>) -> OptionOutcome {
        let Some((name, info_types)) = parse_go_request(data) else {
            refuse_option(output, option_code, answer::INVALID, "lengths in this option do not match its own");
            return OptionOutcome::Next;
        };
        let Some((index, export)) = find_export(exports, name) else {
            refuse_unknown_export(exports, option_code, name, output);
            return OptionOutcome::Next;
        };
        let wants = |info_type: u16| info_types.chunks_exact(2).any(|info| info == info_type.to_be_bytes());
        let flags = export.flags_for(self.structured).0;
        send_information(output, option_code, info::EXPORT, &[&export.bytes.to_be_bytes(), &flags.to_be_bytes()]);
        if wants(info::NAME) {
            send_information(output, option_code, info::NAME, &[truncate_string(&export.name).as_bytes()]);
        }
        if wants(info::DESCRIPTION) {
            send_information(
                output,
                option_code,
                info::DESCRIPTION,
                &[truncate_string(&export.description).as_bytes()],
            );
        }
        if wants(info::BLOCK_SIZE) {
            let sizes =
                [export.min_block_bytes, export.preferred_block_bytes, export.max_request_bytes].map(u32::to_be_bytes);
            send_information(output, option_code, info::BLOCK_SIZE, &[sizes.as_flattened()]);
        }
        append_reply(output, option_code, answer::ACK, &[]);
        if option_code == option::GO { OptionOutcome::Ready(index) } else { OptionOutcome::Next }
    }

    fn answer_contexts(&mut self, exports: &Exports, option_code: u32, data: &[u8], output: &mut Vec<u8>) {
        let is_selection = option_code == option::SET_META_CONTEXT;
        if is_selection {
            // an earlier selection is dropped even if this one fails
            self.context = None;
        }
        if !self.structured {
            return refuse_option(output, option_code, answer::INVALID, "negotiate structured replies first");
        }
        let Some((name, count, is_queried)) = parse_context_queries(data, is_selection) else {
            return refuse_option(output, option_code, answer::INVALID, "lengths in this option do not match its own");
        };
        let Some((index, export)) = find_export(exports, name) else {
            return refuse_unknown_export(exports, option_code, name, output);
        };
        if export.block_status && (is_queried || count == 0 && !is_selection) {
            let id = if is_selection { wire::ALLOCATION_CONTEXT } else { 0 };
            append_reply(output, option_code, answer::META_CONTEXT, &[&id.to_be_bytes(), wire::ALLOCATION.as_bytes()]);
            self.context = if is_selection { Some(index) } else { self.context };
        }
        append_reply(output, option_code, answer::ACK, &[]);
    }
}

fn find_export<'a>(exports: &'a Exports, name: &[u8]) -> Option<(usize, &'a NbdExport)> {
    let index = exports.find_by_name(name)?;
    Some((index, exports.list.get(index)?))
}

/// Splits the data of INFO and GO into the export's name and the list of requested information, two
/// bytes each.
fn parse_go_request(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut rest = MessageReader(data);
    let name = rest.take_string()?;
    let count = rest.u16()?;
    (rest.0.len() == 2 * usize::from(count)).then_some((name, rest.0))
}

/// Parses the name of the export, the number of queries, and whether a query matches
/// `base:allocation`.
fn parse_context_queries(data: &[u8], is_selection: bool) -> Option<(&[u8], u32, bool)> {
    let mut rest = MessageReader(data);
    let (name, count) = (rest.take_string()?, rest.u32()?);
    let mut is_queried = false;
    // each query takes at least four bytes, so that a count that is too large ends with the data
    for _ in 0..count {
        let query = rest.take_string()?;
        is_queried |= query == wire::ALLOCATION.as_bytes() || (!is_selection && query == b"base:");
    }
    rest.0.is_empty().then_some((name, count, is_queried))
}

fn answer_list(exports: &Exports, output: &mut Vec<u8>) {
    for export in &exports.list {
        let (name, description) = (truncate_string(&export.name), truncate_string(&export.description));
        let length = (name.len() as u32).to_be_bytes();
        append_reply(output, option::LIST, answer::SERVER, &[&length, name.as_bytes(), description.as_bytes()]);
    }
    append_reply(output, option::LIST, answer::ACK, &[]);
}

fn answer_abort(output: &mut Vec<u8>) -> OptionOutcome {
    append_reply(output, option::ABORT, answer::ACK, &[]);
    OptionOutcome::Close(ProtocolError::Aborted)
}

fn refuse_unknown_export(exports: &Exports, option_code: u32, name: &[u8], output: &mut Vec<u8>) {
    let name = String::from_utf8_lossy(&name[..name.len().min(64)]).into_owned();
    let mut message = format!("no export {name:?} here; available:");
    for export in exports.list.iter().take(20) {
        message += &format!(" {}", export.name);
    }
    refuse_option(output, option_code, answer::UNKNOWN, &message);
}

/// Appends one item of information, of at most two parts.
fn send_information(output: &mut Vec<u8>, option_code: u32, info_type: u16, parts: &[&[u8]]) {
    let info_type = info_type.to_be_bytes();
    let mut item: [&[u8]; 3] = [&info_type, &[], &[]];
    for (slot, part) in item[1..].iter_mut().zip(parts) {
        *slot = part;
    }
    append_reply(output, option_code, answer::INFO, &item);
}

fn refuse_option(output: &mut Vec<u8>, option_code: u32, error: u32, message: &str) {
    append_reply(output, option_code, error, &[truncate_string(message).as_bytes()]);
}

fn append_reply(output: &mut Vec<u8>, option_code: u32, kind: u32, parts: &[&[u8]]) {
    // at most two strings of 4 KiB and a few numbers
    let length = parts.iter().map(|part| part.len()).sum::<usize>() as u32;
    output.extend_from_slice(&wire::OPTION_REPLY_MAGIC.to_be_bytes());
    output.extend_from_slice(&option_code.to_be_bytes());
    output.extend_from_slice(&kind.to_be_bytes());
    output.extend_from_slice(&length.to_be_bytes());
    parts.iter().for_each(|part| output.extend_from_slice(part));
}

/// Cuts a string off at the longest length that the protocol allows.
pub(super) fn truncate_string(text: &str) -> &str {
    let mut end = text.len().min(wire::MAX_STRING_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

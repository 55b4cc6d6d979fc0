//! Client side of the negotiation.

use std::io::{Read, Write};

use super::input::InputBuffer;
use super::{ClientError, ExportInfo, option_error_text};
use crate::nbd::MessageReader;
use crate::nbd::wire::{self, TransmissionFlags, answer, info, option};

/// Longest reply to an option that is accepted, bytes; a valid one has two strings and some numbers.
const MAX_REPLY_BYTES: u32 = 64 << 10;
/// Largest number of replies to one option that is accepted.
const MAX_REPLIES: usize = 10_000;

/// Features to negotiate for an export; a server may refuse them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientOptions {
    /// Reads answered in chunks.
    pub structured: bool,
    /// Block status, which needs structured replies.
    pub block_status: bool,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self { structured: true, block_status: true }
    }
}

/// An export as a server lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportListing {
    /// Name by which it is opened.
    pub name: String,
    /// Description for users.
    pub description: String,
}

/// Lists the exports of a server; this ends the connection.
///
/// # Errors
/// Errors of the connection, [`ClientError::Refused`], and violations of the protocol by the
/// server.
pub fn list_exports(stream: impl Read + Write) -> Result<Vec<ExportListing>, ClientError> {
    let mut negotiation = Negotiation { stream, input: &mut InputBuffer::default() };
    if negotiation.read_greeting()? & wire::FIXED_NEWSTYLE == 0 {
        return Err(ClientError::NoNbd("its handshake flags do not include fixed newstyle".into()));
    }
    let mut found = Vec::new();
    negotiation.query_option(option::LIST, "NBD_OPT_LIST", &[], |kind, data| {
        let mut rest = MessageReader(data);
        let name = rest.take_string().filter(|_| kind == answer::SERVER);
        let name = name.ok_or_else(|| protocol_error("its reply to NBD_OPT_LIST is not an export"))?;
        found.push(ExportListing { name: decode_text(name), description: decode_text(rest.0) });
        Ok(())
    })?;
    // the list is complete, so the reply to the abort does not matter
    let _ = negotiation.query_option(option::ABORT, "NBD_OPT_ABORT", &[], |_, _| Ok(()));
    Ok(found)
}

/// Negotiates an export.
pub(super) fn negotiate_export<S: Read + Write>(
    stream: &mut S,
    input: &mut InputBuffer,
    export: &str,
    options: ClientOptions,
) -> Result<ExportInfo, ClientError> {
    if export.len() > wire::MAX_STRING_BYTES {
        let message = format!("its name has {} bytes; the limit is 4096", export.len());
        return Err(ClientError::Refused { option: "the export", error: answer::TOO_BIG, message });
    }
    let mut negotiation = Negotiation { stream, input };
    let flags = negotiation.read_greeting()?;
    let mut export_info = ExportInfo {
        bytes: 0,
        flags: TransmissionFlags(0),
        min_block_bytes: 1,
        preferred_block_bytes: 4096,
        max_request_bytes: wire::DEFAULT_MAX_REQUEST_BYTES,
        name: None,
        description: None,
        structured: false,
        context: None,
    };
    if flags & wire::FIXED_NEWSTYLE == 0 {
        return negotiation.select_export_name(export, flags, export_info);
    }
    if options.structured {
        export_info.structured =
            negotiation.query_optional(option::STRUCTURED_REPLY, "NBD_OPT_STRUCTURED_REPLY", &[], |_, _| {
                Err(protocol_error("its reply to NBD_OPT_STRUCTURED_REPLY is neither yes nor no"))
            })?;
    }
    if export_info.structured && options.block_status {
        export_info.context = negotiation.select_context(export)?;
    }
    let mut has_size = false;
    let mut data = encode_string(export);
    data.extend_from_slice(&3_u16.to_be_bytes());
    for info_type in [info::NAME, info::DESCRIPTION, info::BLOCK_SIZE] {
        data.extend_from_slice(&info_type.to_be_bytes());
    }
    let result = negotiation.query_option(option::GO, "NBD_OPT_GO", &data, |kind, data| {
        has_size |= apply_information(kind, data, &mut export_info)?;
        Ok(())
    });
    match result {
        Err(ClientError::Refused { error: answer::UNSUPPORTED, .. }) => {
            negotiation.select_export_name(export, flags, export_info)
        }
        Err(error) => Err(error),
        Ok(()) if !has_size => Err(protocol_error("NBD_OPT_GO succeeds without the export's size")),
        Ok(()) => Ok(export_info),
    }
}

/// Stores one item of information; returns true if it contained size and flags.
fn apply_information(kind: u32, data: &[u8], export_info: &mut ExportInfo) -> Result<bool, ClientError> {
    let mut rest = MessageReader(data);
    let info_type = rest.u16().filter(|_| kind == answer::INFO);
    let info_type = info_type.ok_or_else(|| protocol_error("its reply to NBD_OPT_GO is not NBD_REP_INFO"))?;
    match info_type {
        info::EXPORT => {
            let size_and_flags = rest.u64().zip(rest.u16()).filter(|_| rest.0.is_empty());
            let (bytes, flags) =
                size_and_flags.ok_or_else(|| protocol_error("NBD_INFO_EXPORT has the wrong length"))?;
            (export_info.bytes, export_info.flags) = (bytes, TransmissionFlags(flags));
            return Ok(true);
        }
        info::NAME => export_info.name = Some(decode_text(rest.0)),
        info::DESCRIPTION => export_info.description = Some(decode_text(rest.0)),
        info::BLOCK_SIZE => {
            let sizes = [rest.u32(), rest.u32(), rest.u32()];
            let [Some(minimum), Some(preferred), Some(largest)] = sizes else {
                return Err(protocol_error("NBD_INFO_BLOCK_SIZE has the wrong length"));
            };
            let is_valid = minimum.is_power_of_two()
                && minimum <= 1 << 16
                && preferred.is_power_of_two()
                && preferred >= minimum.max(512)
                && largest >= preferred;
            if !is_valid {
                return Err(protocol_error(&format!(
                    "invalid block sizes of {minimum}, {preferred} and at most {largest} bytes"
                )));
            }
            (export_info.min_block_bytes, export_info.preferred_block_bytes, export_info.max_request_bytes) =
                (minimum, preferred, largest);
        }
        _ => {}
    }
    Ok(false)
}

struct Negotiation<'a, S> {
    stream: S,
    input: &'a mut InputBuffer,
}

impl<S: Read + Write> Negotiation<'_, S> {
    /// Reads the server's greeting, answers it, and returns the agreed flags.
    fn read_greeting(&mut self) -> Result<u16, ClientError> {
        let greeting: [u8; 18] = self.input.read_array(&mut self.stream, "a greeting")?;
        let mut rest = MessageReader(&greeting);
        let (first, second, flags) = (rest.u64(), rest.u64(), rest.u16().unwrap_or(0));
        if first != Some(wire::NBDMAGIC) {
            let start = String::from_utf8_lossy(&greeting[..8]).into_owned();
            return Err(ClientError::NoNbd(format!("it begins with {start:?}")));
        }
        if second != Some(wire::IHAVEOPT) {
            return Err(ClientError::NoNbd("it uses oldstyle negotiation".into()));
        }
        let common = flags & (wire::FIXED_NEWSTYLE | wire::NO_ZEROES);
        self.stream.write_all(&u32::from(common).to_be_bytes())?;
        Ok(common)
    }

    fn send_option(&mut self, option: u32, data: &[u8]) -> Result<(), ClientError> {
        let mut message = wire::IHAVEOPT.to_be_bytes().to_vec();
        message.extend_from_slice(&option.to_be_bytes());
        // the length fits: data are names and a few numbers
        message.extend_from_slice(&(data.len() as u32).to_be_bytes());
        message.extend_from_slice(data);
        self.stream.write_all(&message)?;
        Ok(self.stream.flush()?)
    }

    /// Sends an option, and passes each reply before the final acknowledgement to `handle_reply`.
    fn query_option(
        &mut self,
        option: u32,
        name: &'static str,
        data: &[u8],
        mut handle_reply: impl FnMut(u32, &[u8]) -> Result<(), ClientError>,
    ) -> Result<(), ClientError> {
        self.send_option(option, data)?;
        for _ in 0..MAX_REPLIES {
            let head: [u8; 20] = self.input.read_array(&mut self.stream, "a reply to an option")?;
            let mut rest = MessageReader(&head);
            if rest.u64() != Some(wire::OPTION_REPLY_MAGIC) || rest.u32() != Some(option) {
                return Err(protocol_error(&format!("its reply to {name} has the wrong header")));
            }
            let (kind, length) = (rest.u32().unwrap_or(0), rest.u32().unwrap_or(0));
            if length > MAX_REPLY_BYTES {
                return Err(protocol_error(&format!("its reply to {name} has {length} bytes")));
            }
            let data = self.input.read_bytes(&mut self.stream, length as usize, "a reply to an option")?;
            if kind & answer::ERROR != 0 {
                let message = if data.is_empty() { option_error_text(kind).to_owned() } else { decode_text(data) };
                return Err(ClientError::Refused { option: name, error: kind, message });
            }
            if kind == answer::ACK {
                return Ok(());
            }
            handle_reply(kind, data)?;
        }
        Err(protocol_error(&format!("it sends more than {MAX_REPLIES} replies to {name}")))
    }

    /// Works like [`Self::query_option`], but a refusal is not an error.
    fn query_optional(
        &mut self,
        option: u32,
        name: &'static str,
        data: &[u8],
        handle_reply: impl FnMut(u32, &[u8]) -> Result<(), ClientError>,
    ) -> Result<bool, ClientError> {
        match self.query_option(option, name, data, handle_reply) {
            Ok(()) => Ok(true),
            Err(ClientError::Refused { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn select_context(&mut self, export: &str) -> Result<Option<u32>, ClientError> {
        let mut data = encode_string(export);
        data.extend_from_slice(&1_u32.to_be_bytes());
        data.extend_from_slice(&encode_string(wire::ALLOCATION));
        let mut found = None;
        let selected =
            self.query_optional(option::SET_META_CONTEXT, "NBD_OPT_SET_META_CONTEXT", &data, |kind, data| {
                let mut rest = MessageReader(data);
                let id = rest.u32().filter(|_| kind == answer::META_CONTEXT && rest.0 == wire::ALLOCATION.as_bytes());
                found = Some(id.ok_or_else(|| protocol_error("it selects a metadata context that was not requested"))?);
                Ok(())
            })?;
        Ok(found.filter(|_| selected))
    }

    fn select_export_name(
        &mut self,
        export: &str,
        flags: u16,
        mut export_info: ExportInfo,
    ) -> Result<ExportInfo, ClientError> {
        self.send_option(option::EXPORT_NAME, export.as_bytes())?;
        let reply: [u8; 10] = self.input.read_array(&mut self.stream, "the export's size (does the export exist?)")?;
        let mut rest = MessageReader(&reply);
        export_info.bytes = rest.u64().unwrap_or(0);
        export_info.flags = TransmissionFlags(rest.u16().unwrap_or(0));
        if flags & wire::NO_ZEROES == 0 {
            self.input.read_bytes(&mut self.stream, 124, "124 zeroes after the export's size")?;
        }
        Ok(export_info)
    }
}

/// Encodes a string preceded by its length.
fn encode_string(text: &str) -> Vec<u8> {
    [&(text.len() as u32).to_be_bytes(), text.as_bytes()].concat()
}

fn decode_text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(wire::MAX_STRING_BYTES)]).into_owned()
}

fn protocol_error(message: &str) -> ClientError {
    ClientError::ProtocolViolation(message.to_owned())
}

//! A small blocking client with many requests in flight, for tests, benchmarks and attaching. It
//! checks everything that a server sends.
//!
//! It runs over a [`std::os::unix::net::UnixStream`] or [`std::net::TcpStream`], on which the caller
//! sets timeouts. A client that sends faster than it receives can deadlock with a server that waits for
//! it to receive. So keep the data in flight in *both* directions below the size of both ends' buffers
//! (64 writes of 4 KiB are far below), or alternate between large writes and large reads.

mod input;
mod negotiation;
mod receive;

pub use negotiation::{ClientOptions, ExportListing, list_exports};
pub use receive::CommandResult;

use std::io::{Read, Write};

use super::reply::NbdExtent;
use super::request::NbdRequest;
use super::wire::{self, CommandFlags, ErrorCode, NbdCommand, TransmissionFlags};
use input::InputBuffer;

/// Amount of queued output from which on it is sent without a call of `push`, bytes.
const OUTPUT_FLUSH_BYTES: usize = 128 << 10;
/// Longest read for which memory is allocated, bytes.
const MAX_REQUEST_BYTES: u32 = 64 << 20;

/// Error of the connection or of a request.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The connection fails.
    #[error("connection to the NBD server: {0}")]
    Io(#[from] std::io::Error),
    /// The server closed the connection in the middle.
    #[error("the NBD server closed the connection while {0} was expected")]
    Closed(&'static str),
    /// The other side speaks another protocol, or a version of NBD that is too old.
    #[error("not an NBD server with fixed newstyle negotiation: {0}")]
    NoNbd(String),
    /// The server broke the protocol.
    #[error("the NBD server violates the protocol: {0}")]
    ProtocolViolation(String),
    /// An option was refused.
    #[error("the NBD server refuses {option}: {message} (error {error:#x})")]
    Refused {
        /// Name of the option.
        option: &'static str,
        /// One of [`wire::answer`].
        error: u32,
        /// Message of the server, or else the meaning of the number.
        message: String,
    },
    /// A request was answered with an error.
    #[error("{command:?} of {length} bytes at {offset}: {error}{colon}{message}", colon = colon(message))]
    Failed {
        /// The command.
        command: NbdCommand,
        /// First byte.
        offset: u64,
        /// Length, bytes.
        length: u32,
        /// Error code.
        error: ErrorCode,
        /// Message of the server, empty if it sent none.
        message: String,
    },
    /// A call that waits for its own reply, while other requests are in flight.
    #[error("{0} requests are in flight; their replies would be lost")]
    Busy(usize),
    /// A request that exceeds the size limit.
    #[error("a request of {0} bytes; the limit is 64 MiB")]
    TooLong(u64),
    /// A call after an error that ended the connection.
    #[error("the connection has already failed")]
    Over,
}

/// Properties of the export as the server reported them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportInfo {
    /// Its size, bytes.
    pub bytes: u64,
    /// Its capabilities.
    pub flags: TransmissionFlags,
    /// Smallest block: requests are multiples of this, bytes; 1 if the server did not report it.
    pub min_block_bytes: u32,
    /// Preferred block: requests should be multiples of this, bytes; 4096 if the server did not
    /// report it.
    pub preferred_block_bytes: u32,
    /// Largest request with data, bytes; 32 MiB if the server did not report it.
    pub max_request_bytes: u32,
    /// Its canonical name, if the server reported it.
    pub name: Option<String>,
    /// Description for users, if the server reported it.
    pub description: Option<String>,
    /// Reads are answered in chunks.
    pub structured: bool,
    /// The id of `base:allocation`, if selected.
    pub context: Option<u32>,
}

/// A request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientRequest<'a> {
    /// `length` bytes from `offset`.
    Read {
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u32,
    },
    /// Writes `data` at `offset`.
    Write {
        /// First byte.
        offset: u64,
        /// Data to write.
        data: &'a [u8],
    },
    /// Brings all acknowledged writes to stable media.
    Flush,
    /// A command with neither data nor reply data: trim, cache, write zeroes; or block status.
    Other {
        /// The command.
        command: NbdCommand,
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u32,
    },
}

impl ClientRequest<'_> {
    pub(crate) fn command_parts(&self) -> Result<(NbdCommand, u64, u32), ClientError> {
        let (command, offset, length) = match *self {
            Self::Read { offset, length } => (NbdCommand::Read, offset, u64::from(length)),
            Self::Write { offset, data } => (NbdCommand::Write, offset, data.len() as u64),
            Self::Flush => (NbdCommand::Flush, 0, 0),
            Self::Other { command, offset, length } => return Ok((command, offset, length)),
        };
        let short = u32::try_from(length).ok().filter(|short| *short <= MAX_REQUEST_BYTES);
        Ok((command, offset, short.ok_or(ClientError::TooLong(length))?))
    }
}

/// A request in flight, or a free slot for one.
#[derive(Debug, Default)]
struct ClientSlot {
    busy: bool,
    /// Number of its requests so far, a part of the cookie: a late second reply does not match the next
    /// request in this slot.
    generation: u32,
    command: Option<NbdCommand>,
    offset: u64,
    length: u32,
    data: Vec<u8>,
    /// Parts of a read that arrived (start and end within the read), sorted and disjoint.
    covered: Vec<(u32, u32)>,
    /// Number of chunks that arrived for it.
    chunks: usize,
    error: Option<ErrorCode>,
    message: String,
    extents: Vec<NbdExtent>,
}

/// A connection to one export.
#[derive(Debug)]
pub struct NbdClient<S> {
    stream: S,
    export_info: ExportInfo,
    input: InputBuffer,
    output: Vec<u8>,
    slots: Vec<ClientSlot>,
    free: Vec<u32>,
    has_failed: bool,
}

impl<S: Read + Write> NbdClient<S> {
    /// Negotiates an export.
    ///
    /// # Errors
    /// Errors of the connection, [`ClientError::Refused`] if there is no such export, and
    /// violations of the protocol by the server.
    pub fn start(mut stream: S, export: &str, options: ClientOptions) -> Result<Self, ClientError> {
        let mut input = InputBuffer::default();
        let export_info = negotiation::negotiate_export(&mut stream, &mut input, export, options)?;
        let output = Vec::with_capacity(OUTPUT_FLUSH_BYTES);
        Ok(Self { stream, export_info, input, output, slots: Vec::new(), free: Vec::new(), has_failed: false })
    }

    /// Returns the properties of the export as the server reported them.
    #[must_use]
    pub fn export_info(&self) -> &ExportInfo {
        &self.export_info
    }

    /// Returns the connection, for its timeouts.
    #[must_use]
    pub fn stream(&self) -> &S {
        &self.stream
    }

    /// Returns the bare connection, for a caller that continues the protocol itself; nothing may be
    /// in flight.
    #[must_use]
    pub fn into_stream(self) -> S {
        self.stream
    }

    /// Returns the number of requests in flight.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Returns true if unprocessed bytes are buffered: [`Self::receive_reply`] may not have to wait.
    #[must_use]
    pub fn has_more(&self) -> bool {
        !self.input.is_empty()
    }

    /// Queues a request; [`Self::push`] and [`Self::receive_reply`] send the queue. Returns the cookie
    /// that the reply will have.
    ///
    /// # Errors
    /// [`ClientError::TooLong`], and errors of the connection when much was queued.
    pub fn send_request(&mut self, client_request: ClientRequest<'_>, flags: CommandFlags) -> Result<u64, ClientError> {
        if self.has_failed {
            return Err(ClientError::Over);
        }
        let (command, offset, length) = client_request.command_parts()?;
        let cookie = self.take_slot(command, offset, length);
        let request = NbdRequest { flags, command, cookie, offset, length };
        self.output.extend_from_slice(&request.encode_header());
        if let ClientRequest::Write { data, .. } = client_request {
            if data.len() < OUTPUT_FLUSH_BYTES {
                self.output.extend_from_slice(data);
            } else {
                self.push()?;
                self.write_stream(|stream| stream.write_all(data))?;
            }
        }
        if self.output.len() >= OUTPUT_FLUSH_BYTES {
            self.push()?;
        }
        Ok(cookie)
    }

    /// Sends the queued requests.
    ///
    /// # Errors
    /// Errors of the connection.
    pub fn push(&mut self) -> Result<(), ClientError> {
        if self.has_failed {
            return Err(ClientError::Over);
        }
        if self.output.is_empty() {
            return Ok(());
        }
        let output = std::mem::take(&mut self.output);
        self.write_stream(|stream| stream.write_all(&output))?;
        self.output = output;
        self.output.clear();
        Ok(())
    }

    /// Ends the connection as the protocol demands.
    ///
    /// # Errors
    /// Errors of the connection.
    pub fn disconnect(mut self) -> Result<S, ClientError> {
        let command = NbdCommand::Disconnect;
        let request = NbdRequest { flags: CommandFlags(0), command, cookie: 0, offset: 0, length: 0 };
        self.output.extend_from_slice(&request.encode_header());
        self.push()?;
        Ok(self.stream)
    }

    /// Reads from `offset` into `data`, with nothing else in flight.
    ///
    /// # Errors
    /// [`ClientError::Failed`] if the server replies with an error, [`ClientError::Busy`], and errors of
    /// the connection.
    pub fn read(&mut self, offset: u64, data: &mut [u8]) -> Result<(), ClientError> {
        let length = u32::try_from(data.len()).unwrap_or(u32::MAX);
        let reply = self.send_and_receive(ClientRequest::Read { offset, length }, CommandFlags(0))?;
        // the reply has as many bytes as were requested
        reply.data.iter().zip(data).for_each(|(from, to)| *to = *from);
        Ok(())
    }

    /// Writes `data` to `offset`, with nothing else in flight.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn write(&mut self, offset: u64, data: &[u8], flags: CommandFlags) -> Result<(), ClientError> {
        self.send_and_receive(ClientRequest::Write { offset, data }, flags).map(drop)
    }

    /// Flushes, with nothing else in flight.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn flush(&mut self) -> Result<(), ClientError> {
        self.send_and_receive(ClientRequest::Flush, CommandFlags(0)).map(drop)
    }

    /// Trims, with nothing else in flight.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn trim(&mut self, offset: u64, length: u32) -> Result<(), ClientError> {
        self.send_and_receive(ClientRequest::Other { command: NbdCommand::Trim, offset, length }, CommandFlags(0))
            .map(drop)
    }

    /// Writes zeroes, with nothing else in flight.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn write_zeros(&mut self, offset: u64, length: u32, flags: CommandFlags) -> Result<(), ClientError> {
        self.send_and_receive(ClientRequest::Other { command: NbdCommand::WriteZeroes, offset, length }, flags)
            .map(drop)
    }

    /// Returns the extents from `offset` on, with nothing else in flight; the server may report
    /// less or more than was requested.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn block_status(&mut self, offset: u64, length: u32) -> Result<Vec<NbdExtent>, ClientError> {
        let request = ClientRequest::Other { command: NbdCommand::BlockStatus, offset, length };
        self.send_and_receive(request, CommandFlags(0)).map(|reply| reply.extents.to_vec())
    }

    /// Sends one request and waits for its reply.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn send_and_receive(
        &mut self,
        client_request: ClientRequest<'_>,
        flags: CommandFlags,
    ) -> Result<CommandResult<'_>, ClientError> {
        if self.in_flight() > 0 {
            return Err(ClientError::Busy(self.in_flight()));
        }
        self.send_request(client_request, flags)?;
        let result = self.receive_reply()?;
        let Some((error, message)) = result.error else { return Ok(result) };
        let message = message.to_owned();
        let (command, offset, length) = (result.command, result.offset, result.length);
        Err(ClientError::Failed { command, offset, length, error, message })
    }

    fn write_stream(&mut self, write: impl FnOnce(&mut S) -> std::io::Result<()>) -> Result<(), ClientError> {
        let written = write(&mut self.stream).and_then(|()| self.stream.flush());
        written.map_err(|error| {
            self.has_failed = true;
            ClientError::Io(error)
        })
    }

    fn take_slot(&mut self, command: NbdCommand, offset: u64, length: u32) -> u64 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(ClientSlot::default());
            (self.slots.len() - 1) as u32
        });
        let slot = &mut self.slots[index as usize];
        slot.busy = true;
        slot.generation = slot.generation.wrapping_add(1);
        (slot.command, slot.offset, slot.length) = (Some(command), offset, length);
        (slot.error, slot.chunks) = (None, 0);
        slot.covered.clear();
        slot.extents.clear();
        slot.message.clear();
        if command == NbdCommand::Read && slot.data.len() < length as usize {
            slot.data.resize(length as usize, 0);
        }
        u64::from(slot.generation) << 32 | u64::from(index)
    }
}

fn colon(message: &str) -> &'static str {
    if message.is_empty() { "" } else { ": " }
}

/// Returns the meaning of an option's error, for servers that send no message.
fn option_error_text(error: u32) -> &'static str {
    match error {
        wire::answer::UNSUPPORTED => "not supported",
        wire::answer::POLICY => "not allowed",
        wire::answer::INVALID => "invalid",
        wire::answer::TLS_REQUIRED => "TLS is required, but not supported here",
        wire::answer::UNKNOWN => "no such export",
        wire::answer::SHUTDOWN => "the server shuts down",
        wire::answer::BLOCK_SIZE_REQUIRED => "block sizes must be requested",
        wire::answer::TOO_BIG => "too big",
        _ => "unknown error",
    }
}

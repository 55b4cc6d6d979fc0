//! A small blocking client with many requests in flight, for tests, benchmarks
//! and attaching. It believes nothing that a server says.
//!
//! Over a [`std::os::unix::net::UnixStream`] or [`std::net::TcpStream`];
//! timeouts are set there. A client that sends faster than it receives waits
//! for the server, which may wait for it: keep the data of what is in flight in
//! *both* directions below what the two ends hold (64 writes of 4 KiB are far
//! below), or send large writes and large reads in turns.

mod greet;
mod input;
mod receive;

pub use greet::{ClientOptions, ExportListing, list};
pub use receive::CommandResult;

use std::io::{Read, Write};

use super::reply::NbdExtent;
use super::request::NbdRequest;
use super::wire::{self, CommandFlags, ErrorCode, NbdCommand, TransmissionFlags};
use input::InputBuffer;

/// Output that is sent without being asked to, bytes.
const ENOUGH: usize = 128 << 10;
/// Longest read that memory is taken for, bytes.
const LONGEST_READ: u32 = 64 << 20;

/// Why a client gave up, or its request failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The connection fails.
    #[error("connection to the NBD server: {0}")]
    Io(#[from] std::io::Error),
    /// The server closed the connection in the middle.
    #[error("the NBD server closed the connection while {0} was expected")]
    Closed(&'static str),
    /// The other side speaks something else, or an NBD that is too old.
    #[error("not an NBD server with fixed newstyle negotiation: {0}")]
    NoNbd(String),
    /// The server broke the protocol.
    #[error("the NBD server violates the protocol: {0}")]
    Lie(String),
    /// An option was refused.
    #[error("the NBD server refuses {option}: {message} (error {error:#x})")]
    Refused {
        /// The option.
        option: &'static str,
        /// One of [`wire::answer`].
        error: u32,
        /// What the server says, or what the number means.
        message: String,
    },
    /// A request was answered with an error.
    #[error("{command:?} of {length} bytes at {offset}: {error}{colon}{message}", colon = colon(message))]
    Failed {
        /// What was asked for.
        command: NbdCommand,
        /// Where.
        offset: u64,
        /// How much.
        length: u32,
        /// What went wrong.
        error: ErrorCode,
        /// What the server says about it, if anything.
        message: String,
    },
    /// A call that waits for its own answer, while others are in flight.
    #[error("{0} requests are in flight; their replies would be lost")]
    Busy(usize),
    /// A request that no message can hold.
    #[error("a request of {0} bytes; the limit is 64 MiB")]
    TooLong(u64),
    /// A call after an error that ended the connection.
    #[error("the connection has already failed")]
    Over,
}

/// What the server told of the export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportInfo {
    /// Its size, bytes.
    pub bytes: u64,
    /// What it can do.
    pub flags: TransmissionFlags,
    /// Requests are multiples of this, bytes; 1 where nothing was told.
    pub minimum: u32,
    /// Requests should be multiples of this, bytes; 4096 where nothing was told.
    pub preferred: u32,
    /// Most bytes of a request with data; 32 MiB where nothing was told.
    pub largest: u32,
    /// Its canonical name, if told.
    pub name: Option<String>,
    /// For people, if told.
    pub description: Option<String>,
    /// Whether reads are answered in chunks.
    pub structured: bool,
    /// The id of `base:allocation`, if selected.
    pub context: Option<u32>,
}

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientRequest<'a> {
    /// `length` bytes from `offset`.
    Read {
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u32,
    },
    /// The data, to `offset`.
    Write {
        /// First byte.
        offset: u64,
        /// What is written.
        data: &'a [u8],
    },
    /// What was answered shall be on stable media.
    Flush,
    /// A command with neither data nor answer but success:
    /// trim, cache, write zeroes; or block status.
    Other {
        /// Which.
        command: NbdCommand,
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u32,
    },
}

impl ClientRequest<'_> {
    pub(crate) fn parts(&self) -> Result<(NbdCommand, u64, u32), ClientError> {
        let (command, offset, length) = match *self {
            Self::Read { offset, length } => (NbdCommand::Read, offset, u64::from(length)),
            Self::Write { offset, data } => (NbdCommand::Write, offset, data.len() as u64),
            Self::Flush => (NbdCommand::Flush, 0, 0),
            Self::Other { command, offset, length } => return Ok((command, offset, length)),
        };
        let short = u32::try_from(length).ok().filter(|short| *short <= LONGEST_READ);
        Ok((command, offset, short.ok_or(ClientError::TooLong(length))?))
    }
}

/// A request in flight, or the place of one.
#[derive(Debug, Default)]
struct ClientSlot {
    busy: bool,
    /// Of its cookie; a late second answer does not meet the next request.
    generation: u32,
    command: Option<NbdCommand>,
    offset: u64,
    length: u32,
    data: Vec<u8>,
    /// Parts of a read that arrived, in order, apart from one another.
    covered: Vec<(u32, u32)>,
    /// That arrived for it.
    chunks: usize,
    error: Option<ErrorCode>,
    message: String,
    extents: Vec<NbdExtent>,
}

/// A connection to one export.
#[derive(Debug)]
pub struct NbdClient<S> {
    stream: S,
    about: ExportInfo,
    input: InputBuffer,
    output: Vec<u8>,
    slots: Vec<ClientSlot>,
    free: Vec<u32>,
    over: bool,
}

impl<S: Read + Write> NbdClient<S> {
    /// Chooses an export.
    ///
    /// # Errors
    /// The connection's, [`ClientError::Refused`] where there is no such export,
    /// and what a server should not say.
    pub fn start(mut stream: S, export: &str, wishes: ClientOptions) -> Result<Self, ClientError> {
        let mut input = InputBuffer::default();
        let about = greet::go(&mut stream, &mut input, export, wishes)?;
        let output = Vec::with_capacity(ENOUGH);
        Ok(Self { stream, about, input, output, slots: Vec::new(), free: Vec::new(), over: false })
    }

    /// What the server told of the export.
    #[must_use]
    pub fn about(&self) -> &ExportInfo {
        &self.about
    }

    /// The connection, for its timeouts.
    #[must_use]
    pub fn stream(&self) -> &S {
        &self.stream
    }

    /// The connection alone, for who speaks the rest himself; nothing may be in flight.
    #[must_use]
    pub fn into_stream(self) -> S {
        self.stream
    }

    /// Requests without an answer so far.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether bytes lie here that have not been looked at: [`Self::receive`]
    /// may not have to wait.
    #[must_use]
    pub fn has_more(&self) -> bool {
        !self.input.is_empty()
    }

    /// Queues a request; [`Self::push`] and [`Self::receive`] send what is
    /// queued. Gives the cookie that its answer will bear.
    ///
    /// # Errors
    /// [`ClientError::TooLong`], and the connection's when much was queued.
    pub fn send(&mut self, ask: ClientRequest<'_>, flags: CommandFlags) -> Result<u64, ClientError> {
        if self.over {
            return Err(ClientError::Over);
        }
        let (command, offset, length) = ask.parts()?;
        let cookie = self.slot(command, offset, length);
        let request = NbdRequest { flags, command, cookie, offset, length };
        self.output.extend_from_slice(&request.head());
        if let ClientRequest::Write { data, .. } = ask {
            if data.len() < ENOUGH {
                self.output.extend_from_slice(data);
            } else {
                self.push()?;
                self.write_out(|stream| stream.write_all(data))?;
            }
        }
        if self.output.len() >= ENOUGH {
            self.push()?;
        }
        Ok(cookie)
    }

    /// Sends what is queued.
    ///
    /// # Errors
    /// The connection's.
    pub fn push(&mut self) -> Result<(), ClientError> {
        if self.over {
            return Err(ClientError::Over);
        }
        if self.output.is_empty() {
            return Ok(());
        }
        let output = std::mem::take(&mut self.output);
        self.write_out(|stream| stream.write_all(&output))?;
        self.output = output;
        self.output.clear();
        Ok(())
    }

    /// Ends the connection as the protocol wants it.
    ///
    /// # Errors
    /// The connection's.
    pub fn disconnect(mut self) -> Result<S, ClientError> {
        let command = NbdCommand::Disconnect;
        let request = NbdRequest { flags: CommandFlags(0), command, cookie: 0, offset: 0, length: 0 };
        self.output.extend_from_slice(&request.head());
        self.push()?;
        Ok(self.stream)
    }

    /// Fills `data` from `offset`, with nothing else in flight.
    ///
    /// # Errors
    /// [`ClientError::Failed`] where the server says so, [`ClientError::Busy`].
    pub fn read(&mut self, offset: u64, data: &mut [u8]) -> Result<(), ClientError> {
        let length = u32::try_from(data.len()).unwrap_or(u32::MAX);
        let answer = self.once(ClientRequest::Read { offset, length }, CommandFlags(0))?;
        // `receive` gives as many bytes as were asked for
        answer.data.iter().zip(data).for_each(|(from, to)| *to = *from);
        Ok(())
    }

    /// Writes `data` to `offset`, with nothing else in flight.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn write(&mut self, offset: u64, data: &[u8], flags: CommandFlags) -> Result<(), ClientError> {
        self.once(ClientRequest::Write { offset, data }, flags).map(drop)
    }

    /// A flush, with nothing else in flight.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn flush(&mut self) -> Result<(), ClientError> {
        self.once(ClientRequest::Flush, CommandFlags(0)).map(drop)
    }

    /// Trims, with nothing else in flight.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn trim(&mut self, offset: u64, length: u32) -> Result<(), ClientError> {
        self.once(ClientRequest::Other { command: NbdCommand::Trim, offset, length }, CommandFlags(0)).map(drop)
    }

    /// Writes zeroes, with nothing else in flight.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn zero(&mut self, offset: u64, length: u32, flags: CommandFlags) -> Result<(), ClientError> {
        self.once(ClientRequest::Other { command: NbdCommand::WriteZeroes, offset, length }, flags).map(drop)
    }

    /// What lies from `offset` on, with nothing else in flight; the server may
    /// tell of less or more than was asked for.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn block_status(&mut self, offset: u64, length: u32) -> Result<Vec<NbdExtent>, ClientError> {
        let ask = ClientRequest::Other { command: NbdCommand::BlockStatus, offset, length };
        self.once(ask, CommandFlags(0)).map(|answer| answer.extents.to_vec())
    }

    /// One request and its answer.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn once(&mut self, ask: ClientRequest<'_>, flags: CommandFlags) -> Result<CommandResult<'_>, ClientError> {
        if self.in_flight() > 0 {
            return Err(ClientError::Busy(self.in_flight()));
        }
        self.send(ask, flags)?;
        let answer = self.receive()?;
        let Some((error, message)) = answer.error else { return Ok(answer) };
        let message = message.to_owned();
        let (command, offset, length) = (answer.command, answer.offset, answer.length);
        Err(ClientError::Failed { command, offset, length, error, message })
    }

    fn write_out(&mut self, write: impl FnOnce(&mut S) -> std::io::Result<()>) -> Result<(), ClientError> {
        let written = write(&mut self.stream).and_then(|()| self.stream.flush());
        written.map_err(|error| {
            self.over = true;
            ClientError::Io(error)
        })
    }

    fn slot(&mut self, command: NbdCommand, offset: u64, length: u32) -> u64 {
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

/// What an error of an option means where the server says nothing.
fn meaning(error: u32) -> &'static str {
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

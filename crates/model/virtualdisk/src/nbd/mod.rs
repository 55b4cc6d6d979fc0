//! The NBD protocol, fixed newstyle, without sockets: bytes in, bytes out.
//!
//! Follows <https://github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md> (public domain);
//! the constants in [`wire`] keep its names.
//!
//! A server's connection is a [`handshake::Handshake`] until that returns
//! [`handshake::HandshakeState::Ready`]. From then on [`request::parse`], [`request::check`] and
//! the functions of [`reply`] handle its requests; they keep no state. [`client`] is the other
//! side, for tests, benchmarks and attaching.

pub mod client;
pub mod handshake;
pub mod reply;
pub mod request;
pub mod wire;

use handshake::NbdExport;

/// Reason why a connection has to end: the other side does not speak the protocol, or its request can
/// only be answered by closing the connection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// The client flags contain some that were not offered.
    #[error("client flags {0:#x} include some that were not offered; known are 1 (fixed newstyle) and 2 (no zeroes)")]
    ClientFlags(u32),
    /// An option that does not begin with the magic number.
    #[error("an option begins with {found:#x}; expected IHAVEOPT (0x49484156454f5054)")]
    OptionMagic {
        /// The magic number that was received, as far as it arrived.
        found: u64,
    },
    /// A request that does not begin with the magic number.
    #[error("a request begins with {found:#010x}; expected 0x25609513")]
    RequestMagic {
        /// The magic number that was received.
        found: u32,
    },
    /// `NBD_OPT_EXPORT_NAME` for an export that is not served: that option has no error reply.
    #[error("NBD_OPT_EXPORT_NAME names {0:?}, which is not served here")]
    UnknownExport(String),
    /// A write whose data would take too long to skip.
    #[error("a write of {length} bytes is too long; at most {max_bytes} are read before a refusal")]
    Flood {
        /// Length of the write, bytes.
        length: u32,
        /// Largest write whose data are skipped, bytes.
        max_bytes: u32,
    },
    /// The client ended the negotiation properly.
    #[error("the client ended the negotiation (NBD_OPT_ABORT)")]
    Aborted,
    /// Input after the handshake has ended.
    #[error("the handshake is over")]
    Over,
}

/// All exports that a server offers.
#[derive(Debug, Clone, Default)]
pub struct Exports {
    /// The exports in the order in which they are listed.
    pub list: Vec<NbdExport>,
    /// Index of the export with the empty name.
    pub default: Option<usize>,
}

impl Exports {
    /// Returns the index of the export that a client means by `name`.
    #[must_use]
    pub fn find_by_name(&self, name: &[u8]) -> Option<usize> {
        let named = self.list.iter().position(|export| export.name.as_bytes() == name);
        if name.is_empty() { named.or(self.default.filter(|index| *index < self.list.len())) } else { named }
    }
}

/// The part of a message that is not decoded yet; numbers are big-endian.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MessageReader<'a>(pub &'a [u8]);

impl<'a> MessageReader<'a> {
    pub(crate) fn take_bytes(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(bytes)?;
        self.0 = tail;
        Some(head)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        let (head, tail) = self.0.split_first_chunk()?;
        self.0 = tail;
        Some(u16::from_be_bytes(*head))
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        let (head, tail) = self.0.split_first_chunk()?;
        self.0 = tail;
        Some(u32::from_be_bytes(*head))
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        let (head, tail) = self.0.split_first_chunk()?;
        self.0 = tail;
        Some(u64::from_be_bytes(*head))
    }

    /// Takes a string that is preceded by its length in 32 bits.
    pub(crate) fn take_string(&mut self) -> Option<&'a [u8]> {
        let bytes = self.u32()?;
        self.take_bytes(usize::try_from(bytes).ok()?)
    }
}

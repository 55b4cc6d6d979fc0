//! Constants of the protocol. Everything on the wire is big-endian.

/// First word of a server, "NBDMAGIC".
pub const NBDMAGIC: u64 = 0x4e42_444d_4147_4943;
/// Second word of a newstyle server and first of each option, "IHAVEOPT".
pub const IHAVEOPT: u64 = 0x4948_4156_454f_5054;
/// First word of each answer to an option.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// First word of a request.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// First word of a simple reply.
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// First word of a chunk of a structured reply.
pub const STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;

/// Handshake flag of server and client: options are answered.
pub const FIXED_NEWSTYLE: u16 = 1;
/// Handshake flag of server and client: no 124 zeroes after `NBD_OPT_EXPORT_NAME`.
pub const NO_ZEROES: u16 = 2;

/// Longest string that the protocol allows, bytes.
pub const MAX_STRING_BYTES: usize = 4096;
/// Longest option that is processed, bytes; longer ones are skipped and refused.
pub const MAX_OPTION_BYTES: u32 = 64 << 10;
/// Size of a request's header, bytes.
pub const REQUEST_BYTES: usize = 28;
/// Largest payload that both sides accept unless they negotiated another limit, bytes.
pub const DEFAULT_MAX_REQUEST_BYTES: u32 = 32 << 20;
/// Id of the context `base:allocation` after its selection; the server chooses it.
pub const ALLOCATION_CONTEXT: u32 = 1;
/// The only metadata context that the protocol itself defines.
pub const ALLOCATION: &str = "base:allocation";
/// Largest number of descriptors in a chunk of block status.
pub const MAX_EXTENTS: usize = 1 << 20;

/// Options of the handshake.
pub mod option {
    /// Chooses an export. Its only error reply is the end of the connection.
    pub const EXPORT_NAME: u32 = 1;
    /// Ends the negotiation.
    pub const ABORT: u32 = 2;
    /// Asks for the names of the exports.
    pub const LIST: u32 = 3;
    /// Asks for TLS.
    pub const STARTTLS: u32 = 5;
    /// Asks about an export.
    pub const INFO: u32 = 6;
    /// Chooses an export.
    pub const GO: u32 = 7;
    /// Asks for structured replies.
    pub const STRUCTURED_REPLY: u32 = 8;
    /// Asks for the metadata contexts that block status can report.
    pub const LIST_META_CONTEXT: u32 = 9;
    /// Selects the metadata contexts that block status reports.
    pub const SET_META_CONTEXT: u32 = 10;
    /// Asks for 64-bit lengths, an experiment.
    pub const EXTENDED_HEADERS: u32 = 11;
}

/// Answers to options.
pub mod answer {
    /// Done.
    pub const ACK: u32 = 1;
    /// The name and description of an export.
    pub const SERVER: u32 = 2;
    /// An aspect of an export, see [`super::info`].
    pub const INFO: u32 = 3;
    /// A metadata context.
    pub const META_CONTEXT: u32 = 4;
    /// Bit of every error.
    pub const ERROR: u32 = 1 << 31;
    /// The option is unknown.
    pub const UNSUPPORTED: u32 = ERROR + 1;
    /// The option is known and not allowed.
    pub const POLICY: u32 = ERROR + 2;
    /// The option makes no sense.
    pub const INVALID: u32 = ERROR + 3;
    /// TLS has to be negotiated first.
    pub const TLS_REQUIRED: u32 = ERROR + 5;
    /// No such export.
    pub const UNKNOWN: u32 = ERROR + 6;
    /// The server shuts down.
    pub const SHUTDOWN: u32 = ERROR + 7;
    /// The client has to ask for the block sizes.
    pub const BLOCK_SIZE_REQUIRED: u32 = ERROR + 8;
    /// The option or its answer is too long.
    pub const TOO_BIG: u32 = ERROR + 9;
}

/// Aspects of an export.
pub mod info {
    /// Size and flags.
    pub const EXPORT: u16 = 0;
    /// The canonical name.
    pub const NAME: u16 = 1;
    /// A description for users.
    pub const DESCRIPTION: u16 = 2;
    /// Smallest, preferred and largest request.
    pub const BLOCK_SIZE: u16 = 3;
}

/// Types of the chunks of a structured reply.
pub mod chunk {
    /// Flag of a reply's last chunk.
    pub const DONE: u16 = 1;
    /// Nothing.
    pub const NONE: u16 = 0;
    /// An offset, and the data that follow it.
    pub const OFFSET_DATA: u16 = 1;
    /// Offset and length of zeroes.
    pub const OFFSET_HOLE: u16 = 2;
    /// Descriptors of a metadata context.
    pub const BLOCK_STATUS: u16 = 5;
    /// Bit of every error.
    pub const ERRORS: u16 = 1 << 15;
    /// An error.
    pub const ERROR: u16 = ERRORS + 1;
    /// An error and its offset.
    pub const ERROR_OFFSET: u16 = ERRORS + 2;
}

/// Defines a set of flags, each by the number of its bit, with the usual operations.
macro_rules! flags {
    ($(#[$about:meta])* $name:ident { $($(#[$what:meta])* $flag:ident = $bit:literal;)* }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
        pub struct $name(
            /// The flags as one number.
            pub u16,
        );

        impl $name {
            $($(#[$what])* pub const $flag: Self = Self(1 << $bit);)*

            /// Returns true if all flags of `other` are set.
            #[must_use]
            pub const fn has(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }

            /// Returns the union of both sets.
            #[must_use]
            pub const fn with(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }

            /// Returns these flags without those of `other`.
            #[must_use]
            pub const fn without(self, other: Self) -> Self {
                Self(self.0 & !other.0)
            }
        }
    };
}

flags! {
    /// Capabilities of an export.
    TransmissionFlags {
        /// Always set.
        HAS_FLAGS = 0;
        /// Writes, trims and zeroing are refused.
        READ_ONLY = 1;
        /// Supports [`NbdCommand::Flush`].
        FLUSH = 2;
        /// Supports [`CommandFlags::FUA`].
        FUA = 3;
        /// It is a rotating disk.
        ROTATIONAL = 4;
        /// Supports [`NbdCommand::Trim`].
        TRIM = 5;
        /// Supports [`NbdCommand::WriteZeroes`].
        WRITE_ZEROES = 6;
        /// Supports [`CommandFlags::DF`]; the handshake sets it after structured replies were negotiated.
        DF = 7;
        /// A flush also covers the writes of other connections.
        MULTI_CONN = 8;
        /// Resizing, an experiment.
        RESIZE = 9;
        /// Supports [`NbdCommand::Cache`].
        CACHE = 10;
        /// Supports [`CommandFlags::FAST_ZERO`].
        FAST_ZERO = 11;
    }
}

flags! {
    /// Flags of a request's command.
    CommandFlags {
        /// The reply is sent only when the written data would survive a loss of power.
        FUA = 0;
        /// The zeroed range has to stay allocated.
        NO_HOLE = 1;
        /// The data have to arrive in one chunk.
        DF = 2;
        /// One extent is enough.
        REQ_ONE = 3;
        /// The range is zeroed only if that is faster than writing zeros.
        FAST_ZERO = 4;
    }
}

/// Command of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NbdCommand {
    /// Reads data.
    Read,
    /// Writes the data that follows.
    Write,
    /// Ends the connection, without a reply.
    Disconnect,
    /// Brings all acknowledged writes to stable media.
    Flush,
    /// Discards data that is no longer needed.
    Trim,
    /// Announces that the data will be needed.
    Cache,
    /// Writes zeros without sending them.
    WriteZeroes,
    /// Asks for the allocation of extents.
    BlockStatus,
    /// Changes the size, an experiment.
    Resize,
    /// Any other number.
    Unknown(u16),
}

impl NbdCommand {
    /// Returns the command with a number.
    #[must_use]
    pub const fn from_code(code: u16) -> Self {
        match code {
            0 => Self::Read,
            1 => Self::Write,
            2 => Self::Disconnect,
            3 => Self::Flush,
            4 => Self::Trim,
            5 => Self::Cache,
            6 => Self::WriteZeroes,
            7 => Self::BlockStatus,
            8 => Self::Resize,
            other => Self::Unknown(other),
        }
    }

    /// Its number.
    #[must_use]
    pub const fn code(self) -> u16 {
        match self {
            Self::Read => 0,
            Self::Write => 1,
            Self::Disconnect => 2,
            Self::Flush => 3,
            Self::Trim => 4,
            Self::Cache => 5,
            Self::WriteZeroes => 6,
            Self::BlockStatus => 7,
            Self::Resize => 8,
            Self::Unknown(code) => code,
        }
    }
}

/// Reason why a request failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum ErrorCode {
    /// Not permitted: a write to a read-only export.
    #[error("not permitted (EPERM)")]
    Perm,
    /// The medium fails.
    #[error("input/output error (EIO)")]
    Io,
    /// No memory.
    #[error("out of memory (ENOMEM)")]
    Mem,
    /// The request makes no sense.
    #[error("invalid request (EINVAL)")]
    Inval,
    /// A write beyond the end, or a backing disk that is full.
    #[error("no space left (ENOSPC)")]
    Nospc,
    /// The request is too long.
    #[error("too large (EOVERFLOW)")]
    Overflow,
    /// Zeroing would not be faster than a write.
    #[error("not supported (ENOTSUP)")]
    Notsup,
    /// The server shuts down.
    #[error("the server shuts down (ESHUTDOWN)")]
    Shutdown,
}

impl ErrorCode {
    /// Its number.
    #[must_use]
    pub const fn code(self) -> u32 {
        match self {
            Self::Perm => 1,
            Self::Io => 5,
            Self::Mem => 12,
            Self::Inval => 22,
            Self::Nospc => 28,
            Self::Overflow => 75,
            Self::Notsup => 95,
            Self::Shutdown => 108,
        }
    }

    /// Returns the error with a number other than 0. A number that the protocol does not define counts as
    /// [`Self::Inval`], as the protocol demands.
    #[must_use]
    pub const fn from_code(code: u32) -> Self {
        match code {
            1 => Self::Perm,
            5 => Self::Io,
            12 => Self::Mem,
            28 => Self::Nospc,
            75 => Self::Overflow,
            95 => Self::Notsup,
            108 => Self::Shutdown,
            _ => Self::Inval,
        }
    }
}

/// Flags of an extent in `base:allocation`.
pub mod extent {
    /// Nothing is allocated.
    pub const HOLE: u32 = 1;
    /// It reads as zeroes.
    pub const ZERO: u32 = 2;
}

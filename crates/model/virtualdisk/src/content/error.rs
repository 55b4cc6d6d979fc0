//! Errors of a disk's content.

use std::io;
use std::path::PathBuf;

use diskwright_simulator::array::ArrayError;
use thiserror::Error;

/// Reason for which content cannot be created.
#[derive(Debug, Error)]
pub enum ContentError {
    /// An invalid array.
    #[error("array `{array}`: {reason}")]
    Array {
        /// Name of the array.
        array: String,
        /// Reason for which it is invalid.
        reason: ArrayError,
    },
    /// A drive in two arrays, or twice in one.
    #[error("drive `{drive}` is used in array `{array}` and elsewhere; its data would be written twice")]
    Shared {
        /// The drive.
        drive: String,
        /// The array that comes second.
        array: String,
    },
    /// An array that cannot be brought into its initial state.
    #[error("array `{array}`: {reason}")]
    InitialState {
        /// Name of the array.
        array: String,
        /// The error.
        reason: AccessError,
    },
    /// More than can be addressed.
    #[error("the drives together are larger than a file can be (2^62 bytes)")]
    TooLarge,
    /// No memory for the tables of the pages.
    #[error("not enough memory for the tables of {0} bytes of drives")]
    NoMemory(u64),
    /// A backing file that cannot be opened, created or resized.
    #[error("{}: {operation}: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Failed operation.
        operation: &'static str,
        /// Error of the kernel.
        reason: io::Error,
    },
    /// A backing file that another server has open.
    #[error("{}: another virtual disk has it open", .0.display())]
    InUse(PathBuf),
    /// A backing file that something else uses.
    #[error(transparent)]
    Refused(#[from] diskwright_guard::Refusal),
    /// A file with data that no virtual disk wrote.
    #[error(
        "{path}: it contains data and is not a backing file of a virtual disk; give a new file, or mark it as one and \
         keep its data: setfattr -n user.diskwright.disk -v 1 {path}", path = .0.display()
    )]
    NotOurs(PathBuf),
    /// A backing file with other arrays.
    #[error(
        "{}: {difference}; it belongs to another system: name another file, or remove it to start over",
        path.display()
    )]
    OtherArrays {
        /// The file.
        path: PathBuf,
        /// The difference.
        difference: String,
    },
    /// A backing file of another size.
    #[error(
        "{}: it has {found} bytes, but these drives need {expected}; it belongs to another system: \
         name another file, or remove it to start over", path.display()
    )]
    OtherSize {
        /// The file.
        path: PathBuf,
        /// Its size, bytes.
        found: u64,
        /// Expected size, bytes.
        expected: u64,
    },
}

/// Reason for which a request for content cannot be served.
#[derive(Debug, Error)]
pub enum AccessError {
    /// Beyond the end.
    #[error("bytes {from} to {to} are beyond the end, at byte {bytes}")]
    OutOfRange {
        /// First byte.
        from: u64,
        /// The byte after the last.
        to: u64,
        /// Size, bytes.
        bytes: u64,
    },
    /// No array or drive with that number, or a drive that belongs to an array.
    #[error("no disk of that number, or it is a member of an array")]
    NoSuchTarget,
    /// No array or member with that number.
    #[error("no array or member of that number")]
    NoSuchMember,
    /// The backing disk, or the memory that content may use, is full.
    #[error("no space left in the backing store")]
    NoSpace,
    /// Too many members failed.
    #[error("too many members have failed: these bytes are lost")]
    LostData,
    /// A write failed half-way and could not be undone: the parity of this row may be wrong, so
    /// nothing is computed from it.
    #[error("the parity of stripe {0} is not valid after a failed write")]
    Torn(u64),
    /// Error of the backing file.
    #[error("backing file: {0}")]
    Io(io::Error),
}

/// Converts an error of the kernel: a full disk, an exceeded quota and a file size limit all mean
/// no space.
impl From<io::Error> for AccessError {
    fn from(error: io::Error) -> AccessError {
        if is_full(&error) { AccessError::NoSpace } else { AccessError::Io(error) }
    }
}

/// Returns true if the error means that the backing disk has no space.
pub(super) fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

/// A failed write, with the number of bytes written before.
#[derive(Debug)]
pub(super) struct ShortWrite {
    pub written_bytes: usize,
    pub reason: AccessError,
}

impl From<ShortWrite> for AccessError {
    fn from(short: ShortWrite) -> AccessError {
        short.reason
    }
}

//! Counters of requests, and of the mechanics of drives.

use crate::Ns;
use crate::drive::{CacheOutcome, ServiceBreakdown};
use crate::io::{BLOCK_BYTES, Io};

/// Counters besides [`crate::station::StationTotals`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoCounts {
    /// Reads done.
    pub reads: u64,
    /// Writes done.
    pub writes: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// Sum of the response times of the reads, ns.
    pub read_ns: u64,
    /// Sum of the response times of the writes, ns.
    pub write_ns: u64,
    /// Flushes completed by a drive.
    pub flushes: u64,
    /// Sum of the response times of the flushes, ns.
    pub flush_ns: u64,
    /// Seek time, ns.
    pub seek_ns: u64,
    /// Rotational latency, ns.
    pub rotation_ns: u64,
    /// Media transfer time, ns.
    pub media_ns: u64,
    /// Requests served or accepted by the drive's own cache.
    pub hits: u64,
}

impl IoCounts {
    /// Adds a completed transfer.
    #[inline]
    pub(super) fn add_transfer(&mut self, io: &Io, response: Ns) {
        let bytes = u64::from(io.blocks) * BLOCK_BYTES;
        if io.write {
            self.writes += 1;
            self.bytes_written += bytes;
            self.write_ns += response;
        } else {
            self.reads += 1;
            self.bytes_read += bytes;
            self.read_ns += response;
        }
    }

    /// Adds the parts of a mechanical service.
    #[inline]
    pub(super) fn add_service(&mut self, service: &ServiceBreakdown) {
        self.seek_ns += service.seek;
        self.rotation_ns += service.rotation;
        self.media_ns += service.media;
        self.hits += u64::from(service.outcome != CacheOutcome::Miss);
    }

    /// Returns the difference from an earlier snapshot.
    pub fn delta_since(&self, earlier: &IoCounts) -> IoCounts {
        IoCounts {
            reads: self.reads - earlier.reads,
            writes: self.writes - earlier.writes,
            bytes_read: self.bytes_read - earlier.bytes_read,
            bytes_written: self.bytes_written - earlier.bytes_written,
            read_ns: self.read_ns - earlier.read_ns,
            write_ns: self.write_ns - earlier.write_ns,
            flushes: self.flushes - earlier.flushes,
            flush_ns: self.flush_ns - earlier.flush_ns,
            seek_ns: self.seek_ns - earlier.seek_ns,
            rotation_ns: self.rotation_ns - earlier.rotation_ns,
            media_ns: self.media_ns - earlier.media_ns,
            hits: self.hits - earlier.hits,
        }
    }

    /// Requests completed.
    pub fn request_count(&self) -> u64 {
        self.reads + self.writes
    }

    /// Bytes read and written.
    pub fn byte_count(&self) -> u64 {
        self.bytes_read + self.bytes_written
    }
}

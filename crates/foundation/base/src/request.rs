//! One request to a disk with its arrival, issue and completion times and its position. A
//! request trace is a stream of these; a simulated host generates them too.

use std::fmt;

/// Kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Operation {
    /// Data from the disk.
    Read,
    /// Data to the disk.
    Write,
    /// Makes the contents of the disk's cache durable; has no position and no length.
    Flush,
    /// Lets the disk discard a range (trim, unmap).
    Discard,
}

impl Operation {
    /// All operations, in the order of their discriminants.
    pub const ALL: [Operation; 4] = [Operation::Read, Operation::Write, Operation::Flush, Operation::Discard];

    /// `read`, `write`, `flush` or `discard`.
    pub fn name(self) -> &'static str {
        ["read", "write", "flush", "discard"][self as usize]
    }

    /// Returns the operation with this [`Operation::name`].
    pub fn from_name(name: &str) -> Option<Operation> {
        Operation::ALL.into_iter().find(|o| o.name() == name)
    }

    /// Returns true if data move between host and disk.
    pub fn moves_data(self) -> bool {
        matches!(self, Operation::Read | Operation::Write)
    }
}

/// One request. Times are nanoseconds on one clock for a whole trace: since
/// 1970 UTC where the trace knows the time of day, otherwise since its start.
///
/// Its size is kept to 40 bytes, because traces hold many millions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Time at which it entered the queue, nanoseconds.
    pub arrival_ns: i64,
    /// Time at which it was issued to the device, nanoseconds, or [`Request::UNKNOWN_NS`].
    pub issued_ns: i64,
    /// Time at which it completed, nanoseconds, or [`Request::UNKNOWN_NS`].
    pub completion_ns: i64,
    /// First byte on the device.
    pub offset_bytes: u64,
    /// Length, bytes.
    pub length_bytes: u32,
    /// Position of the device in the trace's list of devices.
    pub device: u16,
    /// Kind of the request.
    pub operation: Operation,
}

impl Request {
    /// Stands for a time that was not traced.
    pub const UNKNOWN_NS: i64 = i64::MIN;

    /// A request of which only the arrival is known.
    pub fn new(arrival_ns: i64, device: u16, operation: Operation, offset_bytes: u64, length_bytes: u32) -> Request {
        Request {
            arrival_ns,
            issued_ns: Request::UNKNOWN_NS,
            completion_ns: Request::UNKNOWN_NS,
            offset_bytes,
            length_bytes,
            device,
            operation,
        }
    }

    /// Time at which it was issued to the device, nanoseconds, if known.
    pub fn issue_time_ns(&self) -> Option<i64> {
        (self.issued_ns != Request::UNKNOWN_NS).then_some(self.issued_ns)
    }

    /// Time at which it completed, nanoseconds, if known.
    pub fn completion_time_ns(&self) -> Option<i64> {
        (self.completion_ns != Request::UNKNOWN_NS).then_some(self.completion_ns)
    }

    /// The byte after its last one.
    pub fn end_bytes(&self) -> u64 {
        self.offset_bytes.saturating_add(u64::from(self.length_bytes))
    }

    /// Queue time in the host, from arrival to issue, nanoseconds.
    pub fn queue_ns(&self) -> Option<u64> {
        self.issue_time_ns().and_then(|issued| elapsed_between(self.arrival_ns, issued))
    }

    /// Service time of the device, from issue to completion, nanoseconds.
    pub fn service_ns(&self) -> Option<u64> {
        self.issue_time_ns().zip(self.completion_time_ns()).and_then(|(issued, done)| elapsed_between(issued, done))
    }

    /// Response time as the requester sees it, from arrival to completion, nanoseconds.
    pub fn response_ns(&self) -> Option<u64> {
        self.completion_time_ns().and_then(|done| elapsed_between(self.arrival_ns, done))
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Request { arrival_ns, device, offset_bytes, length_bytes, operation, .. } = self;
        write!(f, "{} of {length_bytes} B at {offset_bytes} of device {device}, {arrival_ns} ns", operation.name())
    }
}

/// Time from one timestamp to a later one; `None` where the clock went back.
fn elapsed_between(from: i64, to: i64) -> Option<u64> {
    to.checked_sub(from).and_then(|ns| u64::try_from(ns).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_small() {
        assert_eq!(std::mem::size_of::<Request>(), 40);
    }

    #[test]
    fn queue_service_and_response_times_follow_from_timestamps() {
        let mut request = Request::new(1000, 0, Operation::Read, 4096, 512);
        assert_eq!((request.queue_ns(), request.service_ns(), request.response_ns()), (None, None, None));
        request.completion_ns = 5000;
        assert_eq!((request.service_ns(), request.response_ns()), (None, Some(4000)));
        request.issued_ns = 2000;
        assert_eq!((request.queue_ns(), request.service_ns()), (Some(1000), Some(3000)));
        assert_eq!(request.end_bytes(), 4608);
    }

    #[test]
    fn a_clock_that_went_back_gives_no_time() {
        let mut request = Request::new(1000, 0, Operation::Write, u64::MAX, u32::MAX);
        request.completion_ns = 999;
        assert_eq!(request.response_ns(), None);
        (request.arrival_ns, request.completion_ns) = (i64::MIN + 1, i64::MAX);
        assert_eq!(request.response_ns(), None);
        assert_eq!(request.end_bytes(), u64::MAX);
    }

    #[test]
    fn operations_have_names() {
        for operation in Operation::ALL {
            assert_eq!(Operation::from_name(operation.name()), Some(operation));
            assert_eq!(Operation::ALL[operation as usize], operation);
        }
        assert_eq!(Operation::from_name("verify"), None);
    }
}

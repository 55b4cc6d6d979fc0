//! I/O engines, which submit requests to a target: an io_uring ring, plain threads if there is no
//! ring, and a fake engine for tests. An engine belongs to one worker, and has one file.

pub mod fake;
pub mod ring;
pub mod threads;

#[cfg(test)]
mod tests;

use std::io;

/// Kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Read into the slot's buffer.
    Read,
    /// Write the slot's buffer.
    Write,
    /// fdatasync.
    Fdatasync,
    /// fsync.
    Fsync,
}

/// A request of a slot. The slot determines the buffer, and identifies the completion. A slot has one
/// request at a time.
#[derive(Clone, Copy, Debug)]
pub struct Op {
    /// Slot, below the engine's number of slots.
    pub slot: u32,
    /// Kind of the operation.
    pub action: Action,
    /// First byte.
    pub offset: u64,
    /// Length, bytes; 0 for a sync.
    pub length: u32,
}

/// A completed request.
#[derive(Clone, Copy, Debug)]
pub struct Completion {
    /// Slot of the request.
    pub slot: u32,
    /// Bytes transferred, or the negative error number.
    pub result: i32,
}

/// Condition that ends a wait for completions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitFor {
    /// Do not wait.
    Nothing,
    /// Wait for one completion.
    One,
    /// Wait for one completion or until this time of [`IoEngine::now`].
    Until(u64),
}

/// Interface between the worker loops and an engine.
pub trait IoEngine {
    /// Returns the nanoseconds since the engine's start, by a monotonic clock.
    fn now(&self) -> u64;

    /// Adds a request to the batch that the next [`IoEngine::submit_and_wait`] submits.
    fn queue_op(&mut self, op: Op);

    /// Submits the batch, waits, and adds the completions to `done`.
    ///
    /// # Errors
    /// If the engine itself fails; a request's error is in its completion.
    fn submit_and_wait(&mut self, wait: WaitFor, done: &mut Vec<Completion>) -> io::Result<()>;

    /// Returns whether [`IoEngine::submit_and_wait`] may block until a completion arrives, even if
    /// `wait` ends earlier.
    fn may_block(&self) -> bool {
        false
    }

    /// Consumes `ns` nanoseconds of this thread's processor time: the work of a program between its
    /// requests.
    fn consume_cpu(&mut self, ns: u64) {
        let cpu_time_ns = || {
            let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
            time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
        };
        let begin = cpu_time_ns();
        while cpu_time_ns().wrapping_sub(begin) < ns {
            std::hint::spin_loop();
        }
    }
}

/// Slots and buffers of an engine.
#[derive(Clone, Copy, Debug)]
pub struct BufferSpec {
    /// Number of slots: requests in flight at once.
    pub slots: u32,
    /// Largest request, bytes.
    pub max_request_bytes: u32,
    /// Seed of the data to write.
    pub seed: u64,
    /// There will be writes, so buffers are filled with incompressible data.
    pub writes: bool,
}

/// Alignment of buffers, bytes: enough for any sector or page.
const BUFFER_ALIGN_BYTES: usize = 4096;
/// Largest memory for the buffers of one run, bytes.
pub const MAX_BUFFER_BYTES: u64 = 1 << 30;

impl BufferSpec {
    /// Returns the distance between the buffers of two slots, bytes.
    fn slot_stride_bytes(&self) -> usize {
        (self.max_request_bytes as usize).next_multiple_of(BUFFER_ALIGN_BYTES).max(BUFFER_ALIGN_BYTES)
    }

    /// Reduces the number of slots until the buffers fit into `memory_bytes` and there are at most
    /// `max_slots`. Returns a sentence about the reduction, if there was one.
    pub fn fit_to_limits(&mut self, memory_bytes: u64, max_slots: u32) -> Option<String> {
        let (requested, stride_bytes) = (self.slots, self.slot_stride_bytes() as u64);
        let memory_slots = u32::try_from(memory_bytes / stride_bytes).unwrap_or(u32::MAX).max(1);
        self.slots = requested.min(memory_slots).min(max_slots);
        let because = if memory_slots < max_slots {
            format!("buffers of {} bytes may take {} MiB", self.max_request_bytes, memory_bytes >> 20)
        } else {
            format!("the engine serves at most {max_slots} per worker")
        };
        (self.slots < requested)
            .then(|| format!("at most {} of {requested} requests per worker were in flight: {because}", self.slots))
    }
}

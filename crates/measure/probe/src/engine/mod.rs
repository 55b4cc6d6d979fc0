//! Engines: how requests reach a target. One an io_uring ring, one plain
//! threads where there is no ring, one made up for tests. An engine belongs to
//! one thread and one set of files; the loops in `drive` feed it.

pub mod fake;
pub mod ring;
pub mod threads;

#[cfg(test)]
mod tests;

use std::io;

/// What to do.
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

/// One request, made from a slot: its buffer, and its number in the answer. A
/// slot has one request at a time.
#[derive(Clone, Copy, Debug)]
pub struct Op {
    /// Slot, below the engine's number of slots.
    pub slot: u32,
    /// What to do.
    pub action: Action,
    /// First byte.
    pub offset: u64,
    /// Bytes; 0 for a sync.
    pub length: u32,
}

/// An answer.
#[derive(Clone, Copy, Debug)]
pub struct Completion {
    /// Slot of the request.
    pub slot: u32,
    /// Bytes moved, or the negative error number.
    pub result: i32,
}

/// How long a turn waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnWait {
    /// Not at all.
    Nothing,
    /// Until one answer has come.
    One,
    /// Until one answer has come or this moment of [`IoEngine::now`].
    Until(u64),
}

/// What the loops need of an engine.
pub trait IoEngine {
    /// Nanoseconds since the engine was made, by a clock that never steps.
    fn now(&self) -> u64;

    /// Adds a request to the batch that the next turn hands over.
    fn put(&mut self, op: Op);

    /// Hands the batch over, waits, and adds the answers to `done`.
    ///
    /// # Errors
    /// When the engine itself fails; a request's error is in its answer.
    fn turn(&mut self, wait: TurnWait, done: &mut Vec<Completion>) -> io::Result<()>;

    /// Whether a turn may last until an answer comes, whatever it was told to wait for.
    fn blocks(&self) -> bool {
        false
    }

    /// Takes so many nanoseconds of this thread's processor time: what a
    /// program does between its requests.
    fn compute(&mut self, ns: u64) {
        let spent = || {
            let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
            time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
        };
        let begin = spent();
        while spent().wrapping_sub(begin) < ns {
            std::hint::spin_loop();
        }
    }
}

/// Slots and buffers of an engine.
#[derive(Clone, Copy, Debug)]
pub struct BufferSpec {
    /// Requests at once.
    pub slots: u32,
    /// Largest request, bytes.
    pub largest: u32,
    /// Seed of what is written.
    pub seed: u64,
    /// Something will be written, so buffers are filled with what cannot be made smaller.
    pub writes: bool,
}

/// Buffers start at multiples of this, bytes: enough for any sector or page.
const ALIGN: usize = 4096;
/// Most memory that buffers of one run take, bytes.
pub const MOST_MEMORY: u64 = 1 << 30;

impl BufferSpec {
    /// Bytes from one slot's buffer to the next.
    fn step(&self) -> usize {
        (self.largest as usize).next_multiple_of(ALIGN).max(ALIGN)
    }

    /// Takes slots away until the buffers fit into memory and the engine's
    /// `most` is kept; says so in a sentence where any had to go.
    pub fn fit(&mut self, memory: u64, most: u32) -> Option<String> {
        let (asked, step) = (self.slots, self.step() as u64);
        let by_memory = u32::try_from(memory / step).unwrap_or(u32::MAX).max(1);
        self.slots = asked.min(by_memory).min(most);
        let because = if by_memory < most {
            format!("buffers of {} bytes may take {} MiB", self.largest, memory >> 20)
        } else {
            format!("the engine serves at most {most} per worker")
        };
        (self.slots < asked)
            .then(|| format!("at most {} of {asked} requests per worker were in flight: {because}", self.slots))
    }
}

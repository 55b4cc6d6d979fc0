//! The io_uring engine: registered file, registered buffers, one system call
//! for a whole batch of requests and answers.
//!
//! This is the one file with unsafe code. What keeps it sound: the buffers
//! live as long as the ring (`Ring` owns both and drains the ring before it
//! frees them), and a slot's buffer belongs to the kernel from `put` until its
//! answer; nothing here reads a buffer at all, and only `put` writes one.
#![allow(unsafe_code, reason = "the kernel reads and writes our memory; see above")]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::time::{Duration, Instant};

use io_uring::types::{Fixed, FsyncFlags, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode, squeue};

use super::{ALIGN, Action, BufferSpec, Completion, IoEngine, Op, TurnWait};
use diskwright_base::Rng;

/// Largest submission queue that kernels accept, entries.
const MOST_ENTRIES: u32 = 32_768;
/// Largest completion queue that kernels accept, entries.
const MOST_ANSWERS: u32 = 65_536;
/// If memory is short, the queues are halved down to this.
const LEAST_ENTRIES: u32 = 16;

/// One allocation for all slots.
struct Buffers {
    start: NonNull<u8>,
    layout: Layout,
    step: usize,
    /// The kernel may still write to it, so it must never be freed.
    lent: bool,
}

// SAFETY: it is plain memory with one owner.
unsafe impl Send for Buffers {}

impl Buffers {
    fn new(spec: &BufferSpec) -> io::Result<Buffers> {
        let step = spec.step();
        let total_bytes = step.checked_mul(spec.slots as usize).ok_or(io::ErrorKind::OutOfMemory)?;
        let layout = Layout::from_size_align(total_bytes.max(ALIGN), ALIGN).map_err(|_| io::ErrorKind::OutOfMemory)?;
        // SAFETY: the layout is not empty.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or(io::ErrorKind::OutOfMemory)?;
        let mut buffers = Buffers { start, layout, step, lent: false };
        let mut rng = Rng::new(spec.seed, u64::MAX);
        if spec.writes {
            // incompressible, so that no device makes it smaller
            for word in buffers.bytes().chunks_exact_mut(8) {
                word.copy_from_slice(&rng.next_u64().to_ne_bytes());
            }
        } else {
            // so that no request has to wait for its memory
            buffers.bytes().iter_mut().step_by(ALIGN).for_each(|byte| *byte = 1);
        }
        Ok(buffers)
    }

    /// Returns the whole allocation, before the kernel has any of it.
    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the allocation is ours, this long, and initialised.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.layout.size()) }
    }

    fn of(&self, slot: u32) -> *mut u8 {
        // SAFETY: callers keep slot below the number that was allocated.
        unsafe { self.start.as_ptr().add(self.step * slot as usize) }
    }

    /// Makes each page of a write different from every other, so that no device can deduplicate it.
    /// The kernel does not use the slot's buffer at this time.
    fn stamp(&self, slot: u32, length: u32, stamp: u64) {
        for index in (0..length as usize).step_by(ALIGN) {
            // SAFETY: within the slot's buffer, which is used nowhere else now; 8 bytes fit because
            // lengths are at least 8 here and strides are aligned.
            unsafe { self.of(slot).add(index).cast::<u64>().write_unaligned(stamp ^ index as u64) }
        }
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        if !self.lent {
            // SAFETY: allocated with this layout, and freed once.
            unsafe { dealloc(self.start.as_ptr(), self.layout) }
        }
    }
}

/// The io_uring engine. Fields are dropped in order: the ring before the buffers.
pub struct Ring {
    ring: IoUring,
    buffers: Buffers,
    _file: OwnedFd,
    slots: u32,
    in_flight: u32,
    waiting: u32,
    fixed: bool,
    /// Requests that found the queue full, to be submitted by the next call.
    over: VecDeque<squeue::Entry>,
    notes: Vec<String>,
    stamp: u64,
    start: Instant,
}

/// Builds a ring for `slots` requests, with every option that makes it cheap on one thread and that
/// this kernel supports.
fn build(slots: u32) -> io::Result<IoUring> {
    let most = slots.clamp(2, MOST_ANSWERS).next_power_of_two();
    shrinking(most.min(MOST_ENTRIES), |entries| {
        // completions that find the queue full wait in the kernel
        let answers = (2 * entries).max(most >> (most.min(MOST_ENTRIES) / entries).ilog2());
        let mut best = IoUring::builder();
        best.setup_cqsize(answers).setup_single_issuer().setup_defer_taskrun();
        // kernels before 6.1 know neither of the two
        best.build(entries).or_else(|_| IoUring::builder().setup_cqsize(answers).build(entries))
    })
}

/// Halves the size as long as making something fails for lack of memory.
fn shrinking<T>(mut entries: u32, mut make: impl FnMut(u32) -> io::Result<T>) -> io::Result<T> {
    loop {
        match make(entries) {
            Err(e) if e.raw_os_error() == Some(libc::ENOMEM) && entries > LEAST_ENTRIES => entries /= 2,
            made => return made,
        }
    }
}

impl Ring {
    /// Creates a ring on a file.
    ///
    /// # Errors
    /// If the kernel has no io_uring, or forbids it; use [`super::threads`] then.
    pub fn new(file: OwnedFd, spec: &BufferSpec, start: Instant) -> io::Result<Ring> {
        Ring::with_queue(file, spec, start, spec.slots)
    }

    /// Creates a ring whose queue holds `queue` requests; those that do not fit are submitted
    /// later.
    pub(super) fn with_queue(file: OwnedFd, spec: &BufferSpec, start: Instant, queue: u32) -> io::Result<Ring> {
        let ring = build(queue)?;
        ring.submitter().register_files(&[file.as_raw_fd()])?;
        let buffers = Buffers::new(spec)?;
        let registered = register(&ring, &buffers, spec.slots);
        let fixed = registered.is_ok();
        let cost = |e| format!("buffers are not registered ({e}), so each request costs more");
        let notes = registered.err().map(cost).into_iter().collect();
        let (slots, stamp, over) = (spec.slots, spec.seed, VecDeque::new());
        Ok(Ring { ring, buffers, _file: file, slots, in_flight: 0, waiting: 0, fixed, over, notes, stamp, start })
    }

    /// Returns sentences about what limits the engine.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Adds an entry to the queue; returns false if it is full.
    fn push(&mut self, entry: &squeue::Entry) -> bool {
        // SAFETY: the buffer and the file live as long as the ring, and the
        // slot has no other request.
        let pushed = unsafe { self.ring.submission().push(entry) }.is_ok();
        self.waiting += u32::from(pushed);
        pushed
    }

    /// Submits requests that found the queue full, as many as the kernel accepts now.
    fn hand_over_rest(&mut self, done: &mut Vec<Completion>) -> io::Result<()> {
        while !self.over.is_empty() {
            self.enter(0, None)?;
            let (left, came) = (self.over.len(), self.take(done));
            while let Some(entry) = self.over.pop_front() {
                if !self.push(&entry) {
                    self.over.push_front(entry);
                    break;
                }
            }
            if left == self.over.len() && came == 0 {
                break;
            }
        }
        Ok(())
    }

    /// Takes the completions that have arrived; returns their number.
    fn take(&mut self, done: &mut Vec<Completion>) -> u32 {
        let before = done.len();
        done.extend(self.ring.completion().map(|c| Completion { slot: c.user_data() as u32, result: c.result() }));
        let came = (done.len() - before) as u32;
        self.in_flight -= came;
        came
    }

    fn entry(&self, op: &Op) -> squeue::Entry {
        let (buffer, file) = (self.buffers.of(op.slot), Fixed(0));
        let entry = match op.action {
            Action::Read if self.fixed => opcode::ReadFixed::new(file, buffer, op.length, 0).offset(op.offset).build(),
            Action::Write if self.fixed => {
                opcode::WriteFixed::new(file, buffer, op.length, 0).offset(op.offset).build()
            }
            Action::Read => opcode::Read::new(file, buffer, op.length).offset(op.offset).build(),
            Action::Write => opcode::Write::new(file, buffer, op.length).offset(op.offset).build(),
            Action::Fdatasync => opcode::Fsync::new(file).flags(FsyncFlags::DATASYNC).build(),
            Action::Fsync => opcode::Fsync::new(file).build(),
        };
        entry.user_data(u64::from(op.slot))
    }

    /// Makes one system call: submits the queue and waits for `min_completions`.
    fn enter(&mut self, min_completions: usize, until: Option<u64>) -> io::Result<()> {
        let result = match until {
            None if min_completions == 0 && self.waiting == 0 => return Ok(()),
            None => self.ring.submit_and_wait(min_completions),
            Some(until) => {
                let left = until.saturating_sub(self.now());
                let time = Timespec::new().sec(left / 1_000_000_000).nsec((left % 1_000_000_000) as u32);
                self.ring.submitter().submit_with_args(min_completions, &SubmitArgs::new().timespec(&time))
            }
        };
        match result {
            Ok(taken) => self.waiting -= (taken as u32).min(self.waiting),
            // the time is up, a signal came, or the kernel is short for a moment: take the
            // completions that are there
            Err(e) if matches!(e.raw_os_error(), Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN)) => {
                self.waiting = self.ring.submission().len() as u32;
            }
            Err(e) => return Err(e),
        }
        Ok(())
    }
}

/// Returns whether this kernel allows a ring.
pub fn is_there() -> bool {
    build(1).is_ok()
}

/// Registers all buffers as one; the limit on locked memory may forbid it.
fn register(ring: &IoUring, buffers: &Buffers, slots: u32) -> io::Result<()> {
    let whole = libc::iovec { iov_base: buffers.start.as_ptr().cast(), iov_len: buffers.step * slots as usize };
    // SAFETY: the memory lives as long as the ring.
    unsafe { ring.submitter().register_buffers(&[whole]) }
}

impl IoEngine for Ring {
    #[inline]
    fn now(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    #[inline]
    fn put(&mut self, op: Op) {
        assert!(op.slot < self.slots && op.length as usize <= self.buffers.step, "slot and length fit");
        if op.action == Action::Write {
            self.stamp = self.stamp.wrapping_add(0x9e37_79b9_7f4a_7c15);
            self.buffers.stamp(op.slot, op.length, self.stamp);
        }
        let entry = self.entry(&op);
        if !self.push(&entry) {
            self.over.push_back(entry);
        }
        self.in_flight += 1;
    }

    #[inline]
    fn turn(&mut self, wait: TurnWait, done: &mut Vec<Completion>) -> io::Result<()> {
        self.hand_over_rest(done)?;
        match wait {
            // completions that came while the overflow was submitted are enough
            _ if !done.is_empty() => self.enter(0, None)?,
            TurnWait::Nothing => self.enter(0, None)?,
            // one is enough to go on, and all that have arrived are taken: waiting for more would
            // save a little processor time and delay the first
            TurnWait::One => self.enter(self.in_flight.min(1) as usize, None)?,
            TurnWait::Until(until) => self.enter(1, Some(until))?,
        }
        self.take(done);
        Ok(())
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // the kernel must be done with the buffers before they go
        let mut rest = Vec::new();
        while self.in_flight > 0 {
            if self.turn(TurnWait::One, &mut rest).is_err() {
                // the ring is gone: leaking the memory is better than lending it out again
                self.buffers.lent = true;
                return;
            }
            rest.clear();
        }
        // the kernel tears a ring down in the background; until then the file would be in use, and
        // its filesystem could not be unmounted
        let _ = self.ring.submitter().unregister_files();
    }
}

/// A ring whose requests do nothing: measures the cost of the ring alone.
pub struct IdleRing {
    ring: IoUring,
    batch: u32,
}

impl IdleRing {
    /// Creates a ring that submits `batch` requests at a time.
    ///
    /// # Errors
    /// If there is no ring.
    pub fn new(batch: u32) -> io::Result<IdleRing> {
        let batch = batch.max(1);
        Ok(IdleRing { ring: build(batch)?, batch })
    }

    /// Submits a batch, waits for all of it, and returns the number of completions.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn turn(&mut self) -> io::Result<u64> {
        let entry = opcode::Nop::new().build();
        for _ in 0..self.batch {
            // SAFETY: a no-op entry refers to no memory.
            let pushed = unsafe { self.ring.submission().push(&entry) };
            assert!(pushed.is_ok(), "the ring has room for a batch");
        }
        self.ring.submit_and_wait(self.batch as usize)?;
        Ok(self.ring.completion().count() as u64)
    }
}

/// Makes requests that do nothing, `batch` at a time on a new ring, for about `lasts`. Returns
/// their number and the time that they took.
///
/// # Errors
/// If there is no ring.
pub fn do_nothing(batch: u32, lasts: Duration) -> io::Result<(u64, Duration)> {
    let mut ring = IdleRing::new(batch)?;
    let (start, mut count) = (Instant::now(), 0);
    while start.elapsed() < lasts {
        count += ring.turn()?;
    }
    Ok((count, start.elapsed()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_are_halved_while_memory_is_short() {
        let short = |entries: u32, room: u32| {
            let mut tried = Vec::new();
            let made = shrinking(entries, |entries| {
                tried.push(entries);
                if entries > room { Err(io::Error::from_raw_os_error(libc::ENOMEM)) } else { Ok(entries) }
            });
            (made.ok(), tried)
        };
        assert_eq!(short(128, 1000), (Some(128), vec![128]));
        assert_eq!(short(128, 40), (Some(32), vec![128, 64, 32]));
        assert_eq!(short(64, 1), (None, vec![64, 32, 16]));
        let forbidden = shrinking(64, |_| io::Result::<u32>::Err(io::ErrorKind::PermissionDenied.into()));
        assert_eq!(forbidden.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }
}

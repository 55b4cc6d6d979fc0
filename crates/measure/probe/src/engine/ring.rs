//! The io_uring engine: a registered file, registered buffers, and one system
//! call for a whole batch of requests and completions.
//!
//! This is the only file of the crate with unsafe code. It is sound because the
//! buffers live as long as the ring (`Ring` owns both, and waits for all requests
//! before it frees the buffers), and because a slot's buffer belongs to the kernel
//! from `queue_op` until its completion: no code here reads a buffer, and only
//! `queue_op` writes to one, before it passes the request on.
#![allow(unsafe_code, reason = "the kernel reads and writes our memory; see above")]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::time::{Duration, Instant};

use io_uring::types::{Fixed, FsyncFlags, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode, squeue};

use super::{Action, BUFFER_ALIGN_BYTES, BufferSpec, Completion, IoEngine, Op, WaitFor};
use diskwright_base::Rng;

/// Largest submission queue that kernels accept, entries.
const MAX_SUBMISSION_ENTRIES: u32 = 32_768;
/// Largest completion queue that kernels accept, entries.
const MAX_COMPLETION_ENTRIES: u32 = 65_536;
/// Smallest submission queue to which a ring is reduced if memory is short, entries.
const MIN_ENTRIES: u32 = 16;

/// One allocation for all slots.
struct Buffers {
    start: NonNull<u8>,
    layout: Layout,
    stride_bytes: usize,
    /// The kernel may still write to it, so it must never be freed.
    lent_to_kernel: bool,
}

// SAFETY: it is plain memory with one owner.
unsafe impl Send for Buffers {}

impl Buffers {
    fn new(spec: &BufferSpec) -> io::Result<Buffers> {
        let stride_bytes = spec.slot_stride_bytes();
        let total_bytes = stride_bytes.checked_mul(spec.slots as usize).ok_or(io::ErrorKind::OutOfMemory)?;
        let layout = Layout::from_size_align(total_bytes.max(BUFFER_ALIGN_BYTES), BUFFER_ALIGN_BYTES)
            .map_err(|_| io::ErrorKind::OutOfMemory)?;
        // SAFETY: the layout is not empty.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or(io::ErrorKind::OutOfMemory)?;
        let mut buffers = Buffers { start, layout, stride_bytes, lent_to_kernel: false };
        let mut rng = Rng::new(spec.seed, u64::MAX);
        if spec.writes {
            // random data, so that no device can compress them
            for word in buffers.as_mut_bytes().chunks_exact_mut(8) {
                word.copy_from_slice(&rng.next_u64().to_ne_bytes());
            }
        } else {
            // touch each page now, so that no request has to wait for its memory
            buffers.as_mut_bytes().iter_mut().step_by(BUFFER_ALIGN_BYTES).for_each(|byte| *byte = 1);
        }
        Ok(buffers)
    }

    /// Returns the whole allocation; only before any request is queued.
    fn as_mut_bytes(&mut self) -> &mut [u8] {
        // SAFETY: the allocation is ours, has this length, and is initialized.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.layout.size()) }
    }

    fn slot_ptr(&self, slot: u32) -> *mut u8 {
        // SAFETY: callers keep slot below the number that was allocated.
        unsafe { self.start.as_ptr().add(self.stride_bytes * slot as usize) }
    }

    /// Makes each page of a write different from all others, so that no device can deduplicate it. The
    /// kernel must not be using the slot's buffer.
    fn stamp_pages(&self, slot: u32, length: u32, stamp: u64) {
        for index in (0..length as usize).step_by(BUFFER_ALIGN_BYTES) {
            // SAFETY: within the slot's buffer, which is used nowhere else now; 8 bytes fit because
            // lengths are at least 8 here and strides are aligned.
            unsafe { self.slot_ptr(slot).add(index).cast::<u64>().write_unaligned(stamp ^ index as u64) }
        }
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        if !self.lent_to_kernel {
            // SAFETY: allocated with this layout, and freed once.
            unsafe { dealloc(self.start.as_ptr(), self.layout) }
        }
    }
}

/// The io_uring engine. Fields are dropped in their order: the ring before the buffers.
pub struct Ring {
    ring: IoUring,
    buffers: Buffers,
    _file: OwnedFd,
    slots: u32,
    in_flight: u32,
    /// Requests in the submission queue that the kernel has not taken yet.
    queued: u32,
    /// The buffers are registered with the kernel.
    has_fixed_buffers: bool,
    /// Requests that found the queue full, to be submitted by the next call.
    overflow: VecDeque<squeue::Entry>,
    notes: Vec<String>,
    /// Stamp of the pages of the last write.
    stamp: u64,
    start: Instant,
}

/// Builds a ring for `slots` requests, with the options that make it cheap on one thread, if this
/// kernel supports them.
fn build_ring(slots: u32) -> io::Result<IoUring> {
    let entry_count = slots.clamp(2, MAX_COMPLETION_ENTRIES).next_power_of_two();
    halve_while_out_of_memory(entry_count.min(MAX_SUBMISSION_ENTRIES), |entries| {
        // the completion queue is halved as often as the submission queue; completions that find it full wait in
        // the kernel
        let halvings = (entry_count.min(MAX_SUBMISSION_ENTRIES) / entries).ilog2();
        let completion_entries = (2 * entries).max(entry_count >> halvings);
        let mut best = IoUring::builder();
        best.setup_cqsize(completion_entries).setup_single_issuer().setup_defer_taskrun();
        // kernels before 6.1 do not have both options
        best.build(entries).or_else(|_| IoUring::builder().setup_cqsize(completion_entries).build(entries))
    })
}

/// Calls `build` with half as many entries each time as long as it fails for lack of memory.
fn halve_while_out_of_memory<T>(mut entries: u32, mut build: impl FnMut(u32) -> io::Result<T>) -> io::Result<T> {
    loop {
        match build(entries) {
            Err(e) if e.raw_os_error() == Some(libc::ENOMEM) && entries > MIN_ENTRIES => entries /= 2,
            result => return result,
        }
    }
}

impl Ring {
    /// Creates a ring on a file.
    ///
    /// # Errors
    /// If the kernel has no io_uring, or forbids it; use [`super::threads`] then.
    pub fn new(file: OwnedFd, spec: &BufferSpec, start: Instant) -> io::Result<Ring> {
        Ring::with_queue_size(file, spec, start, spec.slots)
    }

    /// Creates a ring whose queue holds `queue_entries` requests; those that do not fit are submitted
    /// later.
    pub(super) fn with_queue_size(
        file: OwnedFd,
        spec: &BufferSpec,
        start: Instant,
        queue_entries: u32,
    ) -> io::Result<Ring> {
        let ring = build_ring(queue_entries)?;
        ring.submitter().register_files(&[file.as_raw_fd()])?;
        let buffers = Buffers::new(spec)?;
        let registered = register_all_buffers(&ring, &buffers, spec.slots);
        let has_fixed_buffers = registered.is_ok();
        let note = |e| format!("buffers are not registered ({e}), so each request costs more");
        let notes = registered.err().map(note).into_iter().collect();
        Ok(Ring {
            ring,
            buffers,
            _file: file,
            slots: spec.slots,
            in_flight: 0,
            queued: 0,
            has_fixed_buffers,
            overflow: VecDeque::new(),
            notes,
            stamp: spec.seed,
            start,
        })
    }

    /// Returns sentences about what limits the engine.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Adds an entry to the submission queue; returns false if the queue is full.
    fn push(&mut self, entry: &squeue::Entry) -> bool {
        // SAFETY: the buffer and the file live as long as the ring, and the slot has no other request.
        let pushed = unsafe { self.ring.submission().push(entry) }.is_ok();
        self.queued += u32::from(pushed);
        pushed
    }

    /// Submits the requests that found the queue full, as many as the kernel accepts now.
    fn submit_overflow(&mut self, done: &mut Vec<Completion>) -> io::Result<()> {
        while !self.overflow.is_empty() {
            self.io_uring_enter(0, None)?;
            let (remaining, completed) = (self.overflow.len(), self.reap_completions(done));
            while let Some(entry) = self.overflow.pop_front() {
                if !self.push(&entry) {
                    self.overflow.push_front(entry);
                    break;
                }
            }
            if remaining == self.overflow.len() && completed == 0 {
                break;
            }
        }
        Ok(())
    }

    /// Takes the completions that have arrived; returns their number.
    fn reap_completions(&mut self, done: &mut Vec<Completion>) -> u32 {
        let before = done.len();
        done.extend(self.ring.completion().map(|c| Completion { slot: c.user_data() as u32, result: c.result() }));
        let count = (done.len() - before) as u32;
        self.in_flight -= count;
        count
    }

    fn build_entry(&self, op: &Op) -> squeue::Entry {
        let (buffer, file) = (self.buffers.slot_ptr(op.slot), Fixed(0));
        let entry = match op.action {
            Action::Read if self.has_fixed_buffers => {
                opcode::ReadFixed::new(file, buffer, op.length, 0).offset(op.offset).build()
            }
            Action::Write if self.has_fixed_buffers => {
                opcode::WriteFixed::new(file, buffer, op.length, 0).offset(op.offset).build()
            }
            Action::Read => opcode::Read::new(file, buffer, op.length).offset(op.offset).build(),
            Action::Write => opcode::Write::new(file, buffer, op.length).offset(op.offset).build(),
            Action::Fdatasync => opcode::Fsync::new(file).flags(FsyncFlags::DATASYNC).build(),
            Action::Fsync => opcode::Fsync::new(file).build(),
        };
        entry.user_data(u64::from(op.slot))
    }

    /// Makes one system call: submits the queue, and waits for `min_completions` or until a time of
    /// [`IoEngine::now`].
    fn io_uring_enter(&mut self, min_completions: usize, until: Option<u64>) -> io::Result<()> {
        let result = match until {
            None if min_completions == 0 && self.queued == 0 => return Ok(()),
            None => self.ring.submit_and_wait(min_completions),
            Some(until) => {
                let left_ns = until.saturating_sub(self.now());
                let time = Timespec::new().sec(left_ns / 1_000_000_000).nsec((left_ns % 1_000_000_000) as u32);
                self.ring.submitter().submit_with_args(min_completions, &SubmitArgs::new().timespec(&time))
            }
        };
        match result {
            Ok(taken) => self.queued -= (taken as u32).min(self.queued),
            // the time is over, a signal arrived, or the kernel is short of memory for a moment: the
            // caller takes the completions that have arrived
            Err(e) if matches!(e.raw_os_error(), Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN)) => {
                self.queued = self.ring.submission().len() as u32;
            }
            Err(e) => return Err(e),
        }
        Ok(())
    }
}

/// Returns whether this kernel allows a ring.
pub fn has_io_uring() -> bool {
    build_ring(1).is_ok()
}

/// Registers all buffers as one; the limit on locked memory may forbid it.
fn register_all_buffers(ring: &IoUring, buffers: &Buffers, slots: u32) -> io::Result<()> {
    let all_buffers =
        libc::iovec { iov_base: buffers.start.as_ptr().cast(), iov_len: buffers.stride_bytes * slots as usize };
    // SAFETY: the memory lives as long as the ring.
    unsafe { ring.submitter().register_buffers(&[all_buffers]) }
}

impl IoEngine for Ring {
    #[inline]
    fn now(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    #[inline]
    fn queue_op(&mut self, op: Op) {
        assert!(op.slot < self.slots && op.length as usize <= self.buffers.stride_bytes, "slot and length fit");
        if op.action == Action::Write {
            self.stamp = self.stamp.wrapping_add(0x9e37_79b9_7f4a_7c15);
            self.buffers.stamp_pages(op.slot, op.length, self.stamp);
        }
        let entry = self.build_entry(&op);
        if !self.push(&entry) {
            self.overflow.push_back(entry);
        }
        self.in_flight += 1;
    }

    #[inline]
    fn submit_and_wait(&mut self, wait: WaitFor, done: &mut Vec<Completion>) -> io::Result<()> {
        self.submit_overflow(done)?;
        match wait {
            // completions arrived while the overflow was submitted: no need to wait
            _ if !done.is_empty() => self.io_uring_enter(0, None)?,
            WaitFor::Nothing => self.io_uring_enter(0, None)?,
            // waiting for more than one completion would save a little processor time, but delay the
            // first
            WaitFor::One => self.io_uring_enter(self.in_flight.min(1) as usize, None)?,
            WaitFor::Until(until) => self.io_uring_enter(1, Some(until))?,
        }
        self.reap_completions(done);
        Ok(())
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // the kernel must be done with the buffers before they are freed
        let mut completions = Vec::new();
        while self.in_flight > 0 {
            if self.submit_and_wait(WaitFor::One, &mut completions).is_err() {
                // the ring is broken: leak the memory, because the kernel may still write to it
                self.buffers.lent_to_kernel = true;
                return;
            }
            completions.clear();
        }
        // the kernel removes a ring in the background; until then a registered file would be in use,
        // and its filesystem could not be unmounted
        let _ = self.ring.submitter().unregister_files();
    }
}

/// A ring whose requests do nothing: measures the cost of the ring alone.
pub struct NopRing {
    ring: IoUring,
    batch: u32,
}

impl NopRing {
    /// Creates a ring that submits `batch` requests at a time.
    ///
    /// # Errors
    /// If there is no ring.
    pub fn new(batch: u32) -> io::Result<NopRing> {
        let batch = batch.max(1);
        Ok(NopRing { ring: build_ring(batch)?, batch })
    }

    /// Submits a batch, waits for all of it, and returns the number of completions.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn run_batch(&mut self) -> io::Result<u64> {
        let entry = opcode::Nop::new().build();
        for _ in 0..self.batch {
            // SAFETY: a no-op entry refers to no memory.
            let pushed = unsafe { self.ring.submission().push(&entry) };
            assert!(pushed.is_ok(), "the queue holds a batch");
        }
        self.ring.submit_and_wait(self.batch as usize)?;
        Ok(self.ring.completion().count() as u64)
    }
}

/// Sends requests that do nothing, `batch` at a time on a new ring, for about `duration`. Returns
/// their number and the elapsed time.
///
/// # Errors
/// If there is no ring.
pub fn run_no_ops(batch: u32, duration: Duration) -> io::Result<(u64, Duration)> {
    let mut ring = NopRing::new(batch)?;
    let (start, mut count) = (Instant::now(), 0);
    while start.elapsed() < duration {
        count += ring.run_batch()?;
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
            let made = halve_while_out_of_memory(entries, |entries| {
                tried.push(entries);
                if entries > room { Err(io::Error::from_raw_os_error(libc::ENOMEM)) } else { Ok(entries) }
            });
            (made.ok(), tried)
        };
        assert_eq!(short(128, 1000), (Some(128), vec![128]));
        assert_eq!(short(128, 40), (Some(32), vec![128, 64, 32]));
        assert_eq!(short(64, 1), (None, vec![64, 32, 16]));
        let forbidden =
            halve_while_out_of_memory(64, |_| io::Result::<u32>::Err(io::ErrorKind::PermissionDenied.into()));
        assert_eq!(forbidden.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }
}

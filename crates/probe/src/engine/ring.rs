//! The io_uring engine: registered file, registered buffers, one system call
//! for a whole batch of requests and answers.
//!
//! This is the one file with unsafe code. What keeps it sound: the buffers
//! live as long as the ring (`Ring` owns both and drains the ring before it
//! frees them), and a slot's buffer belongs to the kernel from `put` until its
//! answer; nothing here reads a buffer at all, and only `put` writes one.
#![allow(unsafe_code, reason = "the kernel reads and writes our memory; see above")]

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::time::{Duration, Instant};

use io_uring::types::{Fixed, FsyncFlags, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode, squeue};

use super::{Action, Done, Engine, Op, Room, Wait};
use crate::draw::Dice;

/// Buffers start at multiples of this, bytes: enough for any sector or page.
const ALIGN: usize = 4096;
/// Most memory that is pinned for the kernel, bytes; above, buffers are plain.
const MOST_PINNED: usize = 1 << 30;

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
    fn new(room: &Room) -> io::Result<Buffers> {
        let step = (room.largest as usize).next_multiple_of(ALIGN).max(ALIGN);
        let whole = step.checked_mul(room.slots as usize).ok_or(io::ErrorKind::OutOfMemory)?;
        let layout = Layout::from_size_align(whole.max(ALIGN), ALIGN).map_err(|_| io::ErrorKind::OutOfMemory)?;
        // SAFETY: the layout is not empty.
        let Some(start) = NonNull::new(unsafe { alloc_zeroed(layout) }) else { handle_alloc_error(layout) };
        let mut buffers = Buffers { start, layout, step, lent: false };
        let mut dice = Dice::new(room.seed, u64::MAX);
        // incompressible, so that no device makes it smaller
        for word in buffers.bytes().chunks_exact_mut(8) {
            word.copy_from_slice(&dice.bits().to_ne_bytes());
        }
        Ok(buffers)
    }

    /// All of it, before the kernel has any of it.
    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the allocation is ours, this long, and initialised.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.layout.size()) }
    }

    fn of(&self, slot: u32) -> *mut u8 {
        // SAFETY: callers keep slot below the number that was allocated.
        unsafe { self.start.as_ptr().add(self.step * slot as usize) }
    }

    /// Makes each page of a write different from every other, so that no
    /// device stores it once. The slot's buffer is not the kernel's now.
    fn stamp(&self, slot: u32, length: u32, stamp: u64) {
        for at in (0..length as usize).step_by(ALIGN) {
            // SAFETY: within the slot's buffer, which nobody else has; 8 bytes
            // fit because lengths are at least 8 here and steps are aligned.
            unsafe { self.of(slot).add(at).cast::<u64>().write_unaligned(stamp ^ at as u64) }
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

/// The engine. Fields are dropped in order: the ring before the buffers.
pub struct Ring {
    ring: IoUring,
    buffers: Buffers,
    _file: OwnedFd,
    slots: u32,
    in_flight: u32,
    waiting: u32,
    fixed: bool,
    stamp: u64,
    start: Instant,
}

/// A ring with all that makes it cheap on one thread and that this kernel knows.
fn build(entries: u32) -> io::Result<IoUring> {
    let mut best = IoUring::builder();
    best.setup_single_issuer().setup_defer_taskrun();
    // kernels before 6.1 know neither
    best.build(entries).or_else(|_| IoUring::builder().build(entries))
}

impl Ring {
    /// A ring on a file.
    ///
    /// # Errors
    /// Where the kernel has no io_uring, or forbids it; use [`super::threads`] then.
    pub fn new(file: OwnedFd, room: &Room, start: Instant) -> io::Result<Ring> {
        let entries = room.slots.next_power_of_two().clamp(2, 32_768);
        let ring = build(entries)?;
        ring.submitter().register_files(&[file.as_raw_fd()])?;
        let buffers = Buffers::new(room)?;
        let fixed = buffers.layout.size() <= MOST_PINNED && register(&ring, &buffers, room.slots);
        let (slots, stamp) = (room.slots, room.seed);
        Ok(Ring { ring, buffers, _file: file, slots, in_flight: 0, waiting: 0, fixed, stamp, start })
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

    /// One system call: hands over what waits, and waits for `answers`.
    fn enter(&mut self, answers: usize, until: Option<u64>) -> io::Result<()> {
        let result = match until {
            None if answers == 0 && self.waiting == 0 => return Ok(()),
            None => self.ring.submit_and_wait(answers),
            Some(until) => {
                let left = until.saturating_sub(self.now());
                let time = Timespec::new().sec(left / 1_000_000_000).nsec((left % 1_000_000_000) as u32);
                self.ring.submitter().submit_with_args(answers, &SubmitArgs::new().timespec(&time))
            }
        };
        match result {
            Ok(taken) => self.waiting -= (taken as u32).min(self.waiting),
            // the time was up, a signal came, or the kernel is short for a moment: look at what has come
            Err(e) if matches!(e.raw_os_error(), Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN)) => {
                self.waiting = self.ring.submission().len() as u32;
            }
            Err(e) => return Err(e),
        }
        Ok(())
    }
}

/// Registers all buffers as one; false where the limit on locked memory forbids it.
fn register(ring: &IoUring, buffers: &Buffers, slots: u32) -> bool {
    let whole = libc::iovec { iov_base: buffers.start.as_ptr().cast(), iov_len: buffers.step * slots as usize };
    // SAFETY: the memory lives as long as the ring.
    unsafe { ring.submitter().register_buffers(&[whole]).is_ok() }
}

impl Engine for Ring {
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
        // SAFETY: the buffer and the file live as long as the ring, and the
        // slot has no other request.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        // there are as many entries as slots
        assert!(pushed.is_ok(), "the ring has room for every slot");
        self.waiting += 1;
        self.in_flight += 1;
    }

    #[inline]
    fn turn(&mut self, wait: Wait, done: &mut Vec<Done>) -> io::Result<()> {
        match wait {
            Wait::Nothing => self.enter(0, None)?,
            Wait::One => self.enter(self.in_flight.min(1) as usize, None)?,
            Wait::Until(until) => self.enter(1, Some(until))?,
        }
        let before = done.len();
        done.extend(self.ring.completion().map(|c| Done { slot: c.user_data() as u32, result: c.result() }));
        self.in_flight -= (done.len() - before) as u32;
        Ok(())
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // the kernel must be done with the buffers before they go
        let mut rest = Vec::new();
        while self.in_flight > 0 {
            if self.turn(Wait::One, &mut rest).is_err() {
                // the ring is gone: leaking the memory is better than lending it out again
                self.buffers.lent = true;
                return;
            }
            rest.clear();
        }
    }
}

/// Requests that do nothing, `batch` at a time on a ring of their own, for
/// about so long: what a ring costs by itself. Gives how many there were, and
/// the time they took.
///
/// # Errors
/// Where there is no ring.
pub fn do_nothing(batch: u32, lasts: Duration) -> io::Result<(u64, Duration)> {
    let mut ring = build(batch.max(1))?;
    let entry = opcode::Nop::new().build();
    let (start, mut count) = (Instant::now(), 0);
    while start.elapsed() < lasts {
        for _ in 0..batch.max(1) {
            // SAFETY: such an entry speaks of no memory.
            let pushed = unsafe { ring.submission().push(&entry) };
            assert!(pushed.is_ok(), "the ring has room for a batch");
        }
        ring.submit_and_wait(batch as usize)?;
        count += ring.completion().count() as u64;
    }
    Ok((count, start.elapsed()))
}

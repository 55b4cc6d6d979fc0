//! The fallback where io_uring is off: one thread a slot, each with one plain
//! system call at a time (preadv2 and pwritev2 by way of pread and pwrite).
//! A request costs two switches of threads more than on a ring, so what it
//! measures of fast devices is this engine's limit; results say which engine ran.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::{Action, Done, Engine, Op, Room, Wait};
use crate::draw::Dice;

/// Direct I/O wants buffers that start at multiples of this, bytes.
const ALIGN: usize = 4096;

/// The engine.
pub struct Threads {
    to: Vec<Sender<Op>>,
    answers: Receiver<Done>,
    workers: Vec<JoinHandle<()>>,
    in_flight: u32,
    start: Instant,
}

impl Threads {
    /// Threads on a file.
    ///
    /// # Errors
    /// When the system gives no more threads.
    pub fn new(file: OwnedFd, room: &Room, start: Instant) -> io::Result<Threads> {
        let file = Arc::new(file);
        let (answer, answers) = channel();
        let mut engine = Threads { to: Vec::new(), answers, workers: Vec::new(), in_flight: 0, start };
        for slot in 0..room.slots {
            let (to, orders) = channel();
            let (file, answer, room) = (Arc::clone(&file), answer.clone(), *room);
            let work = move || work(&file, &orders, &answer, &room, slot);
            engine.workers.push(std::thread::Builder::new().name(format!("probe-{slot}")).spawn(work)?);
            engine.to.push(to);
        }
        Ok(engine)
    }

    fn take(&mut self, first: Option<Done>, done: &mut Vec<Done>) {
        let before = done.len();
        done.extend(first);
        done.extend(self.answers.try_iter());
        self.in_flight -= (done.len() - before) as u32;
    }
}

/// A worker: one request after the other until the engine is dropped.
fn work(file: &OwnedFd, orders: &Receiver<Op>, answer: &Sender<Done>, room: &Room, slot: u32) {
    let mut memory = vec![0u8; room.largest as usize + ALIGN];
    let from = memory.as_ptr().align_offset(ALIGN).min(ALIGN);
    let buffer = &mut memory[from..from + room.largest as usize];
    let mut dice = Dice::new(room.seed, u64::from(slot));
    for word in buffer.chunks_exact_mut(8) {
        word.copy_from_slice(&dice.bits().to_ne_bytes());
    }
    for op in orders {
        let part = &mut buffer[..op.length as usize];
        let moved = match op.action {
            Action::Read => rustix::io::pread(file, &mut *part, op.offset),
            Action::Write => {
                for page in part.chunks_mut(ALIGN).filter(|p| p.len() >= 8) {
                    page[..8].copy_from_slice(&dice.bits().to_ne_bytes());
                }
                rustix::io::pwrite(file, part, op.offset)
            }
            Action::Fdatasync => rustix::fs::fdatasync(file).map(|()| 0),
            Action::Fsync => rustix::fs::fsync(file).map(|()| 0),
        };
        let result = moved.map_or_else(|e| -e.raw_os_error(), |bytes| i32::try_from(bytes).unwrap_or(i32::MAX));
        if answer.send(Done { slot: op.slot, result }).is_err() {
            return;
        }
    }
}

impl Engine for Threads {
    fn now(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    fn put(&mut self, op: Op) {
        self.in_flight += 1;
        // a worker ends only when the engine goes
        let sent = self.to[op.slot as usize].send(op);
        assert!(sent.is_ok(), "a worker is gone");
    }

    fn turn(&mut self, wait: Wait, done: &mut Vec<Done>) -> io::Result<()> {
        let gone = || io::Error::other("a worker is gone");
        let first = match wait {
            Wait::Nothing => None,
            Wait::One if self.in_flight == 0 => None,
            Wait::One => Some(self.answers.recv().map_err(|_| gone())?),
            Wait::Until(until) => {
                let left = Duration::from_nanos(until.saturating_sub(self.now()));
                match self.answers.recv_timeout(left) {
                    Ok(answer) => Some(answer),
                    Err(RecvTimeoutError::Timeout) => None,
                    Err(RecvTimeoutError::Disconnected) => return Err(gone()),
                }
            }
        };
        self.take(first, done);
        Ok(())
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.to.clear();
        for worker in self.workers.drain(..) {
            // a worker that panicked has said so already
            let _ = worker.join();
        }
    }
}

//! The fallback where io_uring is off: one thread a slot, each with one plain
//! system call at a time (preadv2, pwritev2). A single slot needs no thread:
//! its requests are made by the lane itself. With more, a request costs the
//! hand-over to a thread and back beside its own, so what this engine measures
//! of fast devices is its own limit; results say which engine ran.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::io::{Errno, ReadWriteFlags, preadv2, pwritev2};

use super::{ALIGN, Action, BufferSpec, Completion, IoEngine, Op, TurnWait};
use diskwright_base::Rng;

/// Threads at most.
pub const MOST: u32 = 512;
/// Who waits looks so often whether the workers are still there.
const LOOK: Duration = Duration::from_secs(1);

/// The engine.
pub struct ThreadEngine {
    orders: Vec<Arc<SubmitSlot>>,
    answers: Arc<CompletionQueue>,
    workers: Vec<JoinHandle<()>>,
    /// Makes the requests itself where there is one slot only, and what is to be made.
    alone: Option<(ThreadWorker, Option<Op>)>,
    in_flight: u32,
    notes: Vec<String>,
    start: Instant,
}

/// Where a worker finds its next request.
#[derive(Default)]
struct SubmitSlot {
    order: Mutex<WorkerCommand>,
    bell: Condvar,
}

#[derive(Default)]
enum WorkerCommand {
    #[default]
    None,
    Op(Op),
    GoHome,
}

/// Where workers put their answers.
#[derive(Default)]
struct CompletionQueue {
    inside: Mutex<CompletionState>,
    bell: Condvar,
}

#[derive(Default)]
struct CompletionState {
    answers: Vec<Completion>,
    /// Somebody sleeps until there is one: ringing costs a system call.
    awaited: bool,
}

/// A worker that panicked leaves nothing half done behind these locks.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ThreadEngine {
    /// Threads on a file; fewer than asked for where the system gives no more.
    ///
    /// # Errors
    /// When the system gives not even one.
    pub fn new(file: OwnedFd, room: &BufferSpec, start: Instant) -> io::Result<ThreadEngine> {
        let (file, answers) = (Arc::new(file), Arc::new(CompletionQueue::default()));
        let (orders, workers, notes) = (Vec::new(), Vec::new(), Vec::new());
        let mut engine = ThreadEngine { orders, answers, workers, alone: None, in_flight: 0, notes, start };
        if room.slots == 1 {
            engine.alone = Some((ThreadWorker::new(file, room, 0), None));
            return Ok(engine);
        }
        for slot in 0..room.slots {
            let desk = Arc::new(SubmitSlot::default());
            let (file, room, own, answers) = (Arc::clone(&file), *room, Arc::clone(&desk), Arc::clone(&engine.answers));
            let work = move || work(ThreadWorker::new(file, &room, slot), &own, &answers);
            match std::thread::Builder::new().name(format!("probe-{slot}")).spawn(work) {
                Ok(worker) => engine.workers.push(worker),
                Err(error) if slot == 0 => return Err(error),
                Err(error) => {
                    let asked = room.slots;
                    engine
                        .notes
                        .push(format!("only {slot} of {asked} requests fit in flight: no more threads ({error})"));
                    break;
                }
            }
            engine.orders.push(desk);
        }
        Ok(engine)
    }

    /// Requests at once.
    pub fn slots(&self) -> u32 {
        self.orders.len().max(1) as u32
    }

    /// What keeps it from what was asked, in sentences.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Waits for an answer, at most up to a moment, and takes all there are.
    fn collect(&mut self, wait: TurnWait, done: &mut Vec<Completion>) -> io::Result<()> {
        let mut inside = lock(&self.answers.inside);
        while inside.answers.is_empty() {
            let left = match wait {
                TurnWait::Nothing => break,
                TurnWait::One if self.in_flight == 0 => break,
                TurnWait::One => LOOK,
                TurnWait::Until(until) => Duration::from_nanos(until.saturating_sub(self.now())).min(LOOK),
            };
            if left.is_zero() {
                break;
            }
            inside.awaited = true;
            inside = self.answers.bell.wait_timeout(inside, left).unwrap_or_else(PoisonError::into_inner).0;
            if inside.answers.is_empty() && self.workers.iter().any(JoinHandle::is_finished) {
                return Err(io::Error::other("a worker is gone"));
            }
        }
        inside.awaited = false;
        self.in_flight -= inside.answers.len() as u32;
        done.append(&mut inside.answers);
        Ok(())
    }
}

/// One who makes requests one at a time.
struct ThreadWorker {
    file: Arc<OwnedFd>,
    memory: Vec<u8>,
    from: usize,
    dice: Rng,
}

impl ThreadWorker {
    fn new(file: Arc<OwnedFd>, room: &BufferSpec, slot: u32) -> ThreadWorker {
        let mut memory = vec![0u8; room.largest as usize + ALIGN];
        let from = memory.as_ptr().align_offset(ALIGN).min(ALIGN);
        let mut dice = Rng::new(room.seed, u64::from(slot));
        // touched before it is measured, and incompressible
        for word in memory[from..].chunks_exact_mut(8) {
            word.copy_from_slice(&dice.bits().to_ne_bytes());
        }
        ThreadWorker { file, memory, from, dice }
    }

    /// Makes a request; a signal in between does not count.
    fn make(&mut self, op: &Op) -> Completion {
        let moved = loop {
            match self.once(op) {
                Err(Errno::INTR) => {}
                moved => break moved,
            }
        };
        let result = moved.map_or_else(|e| -e.raw_os_error(), |bytes| i32::try_from(bytes).unwrap_or(i32::MAX));
        Completion { slot: op.slot, result }
    }

    fn once(&mut self, op: &Op) -> rustix::io::Result<usize> {
        let part = &mut self.memory[self.from..self.from + op.length as usize];
        let flags = ReadWriteFlags::empty();
        match op.action {
            Action::Read => preadv2(&self.file, &mut [IoSliceMut::new(part)], op.offset, flags),
            Action::Write => {
                for page in part.chunks_mut(ALIGN).filter(|p| p.len() >= 8) {
                    page[..8].copy_from_slice(&self.dice.bits().to_ne_bytes());
                }
                pwritev2(&self.file, &[IoSlice::new(part)], op.offset, flags)
            }
            Action::Fdatasync => rustix::fs::fdatasync(&self.file).map(|()| 0),
            Action::Fsync => rustix::fs::fsync(&self.file).map(|()| 0),
        }
    }
}

/// A worker's day: one request after the other until the engine is dropped.
fn work(mut worker: ThreadWorker, desk: &SubmitSlot, answers: &CompletionQueue) {
    loop {
        let mut order = lock(&desk.order);
        let op = loop {
            match std::mem::take(&mut *order) {
                WorkerCommand::Op(op) => break op,
                WorkerCommand::GoHome => return,
                WorkerCommand::None => order = desk.bell.wait(order).unwrap_or_else(PoisonError::into_inner),
            }
        };
        drop(order);
        let done = worker.make(&op);
        let mut inside = lock(&answers.inside);
        inside.answers.push(done);
        let ring = std::mem::take(&mut inside.awaited);
        drop(inside);
        if ring {
            answers.bell.notify_one();
        }
    }
}

impl IoEngine for ThreadEngine {
    fn now(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    fn blocks(&self) -> bool {
        self.alone.is_some()
    }

    fn put(&mut self, op: Op) {
        self.in_flight += 1;
        if let Some((_, next)) = &mut self.alone {
            *next = Some(op);
            return;
        }
        let desk = &self.orders[op.slot as usize];
        *lock(&desk.order) = WorkerCommand::Op(op);
        desk.bell.notify_one();
    }

    fn turn(&mut self, wait: TurnWait, done: &mut Vec<Completion>) -> io::Result<()> {
        if let Some((worker, next)) = &mut self.alone
            && let Some(op) = next.take()
        {
            done.push(worker.make(&op));
            self.in_flight -= 1;
            return Ok(());
        }
        self.collect(wait, done)
    }
}

impl Drop for ThreadEngine {
    fn drop(&mut self) {
        for desk in &self.orders {
            *lock(&desk.order) = WorkerCommand::GoHome;
            desk.bell.notify_one();
        }
        for worker in self.workers.drain(..) {
            // a worker that panicked has said so already
            let _ = worker.join();
        }
    }
}

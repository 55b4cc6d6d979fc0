//! The fallback if io_uring is off: one thread per slot, each with one plain system call at a time
//! (preadv2, pwritev2). A single slot needs no thread: the worker makes its requests itself. With
//! more slots, a request also costs the hand-over to a thread and back, so on fast devices this
//! engine measures its own limit; results name the engine that ran.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::io::{Errno, ReadWriteFlags, preadv2, pwritev2};

use super::{ALIGN, Action, BufferSpec, Completion, IoEngine, Op, TurnWait};
use diskwright_base::Rng;

/// Largest number of threads.
pub const MOST: u32 = 512;
/// Interval at which a waiting engine checks that its workers are alive.
const LOOK: Duration = Duration::from_secs(1);

/// The engine of plain threads.
pub struct ThreadEngine {
    orders: Vec<Arc<SubmitSlot>>,
    answers: Arc<CompletionQueue>,
    workers: Vec<JoinHandle<()>>,
    /// Makes the requests without a thread if there is one slot only; with it the operation to
    /// make.
    alone: Option<(ThreadWorker, Option<Op>)>,
    in_flight: u32,
    notes: Vec<String>,
    start: Instant,
}

/// Hands the next request to a worker.
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

/// Collects the completions of all workers.
#[derive(Default)]
struct CompletionQueue {
    inside: Mutex<CompletionState>,
    bell: Condvar,
}

#[derive(Default)]
struct CompletionState {
    answers: Vec<Completion>,
    /// The engine sleeps until a completion arrives: notifying costs a system call.
    awaited: bool,
}

/// Locks a mutex. A worker that panicked leaves nothing half done behind these locks, so poison is
/// ignored.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ThreadEngine {
    /// Starts threads on a file; fewer than requested if the system gives no more.
    ///
    /// # Errors
    /// When the system does not give even one.
    pub fn new(file: OwnedFd, spec: &BufferSpec, start: Instant) -> io::Result<ThreadEngine> {
        let (file, answers) = (Arc::new(file), Arc::new(CompletionQueue::default()));
        let (orders, workers, notes) = (Vec::new(), Vec::new(), Vec::new());
        let mut engine = ThreadEngine { orders, answers, workers, alone: None, in_flight: 0, notes, start };
        if spec.slots == 1 {
            engine.alone = Some((ThreadWorker::new(file, spec, 0), None));
            return Ok(engine);
        }
        for slot in 0..spec.slots {
            let slot_state = Arc::new(SubmitSlot::default());
            let (file, spec, worker_slot, answers) =
                (Arc::clone(&file), *spec, Arc::clone(&slot_state), Arc::clone(&engine.answers));
            let work = move || work(ThreadWorker::new(file, &spec, slot), &worker_slot, &answers);
            match std::thread::Builder::new().name(format!("probe-{slot}")).spawn(work) {
                Ok(worker) => engine.workers.push(worker),
                Err(error) if slot == 0 => return Err(error),
                Err(error) => {
                    let requested = spec.slots;
                    engine
                        .notes
                        .push(format!("only {slot} of {requested} requests fit in flight: no more threads ({error})"));
                    break;
                }
            }
            engine.orders.push(slot_state);
        }
        Ok(engine)
    }

    /// Number of slots: requests in flight at once.
    pub fn slots(&self) -> u32 {
        self.orders.len().max(1) as u32
    }

    /// Returns sentences about what keeps it from the requested number of slots.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Waits for a completion as `wait` says, and takes all that are there.
    fn collect(&mut self, wait: TurnWait, done: &mut Vec<Completion>) -> io::Result<()> {
        let mut state = lock(&self.answers.inside);
        while state.answers.is_empty() {
            let left = match wait {
                TurnWait::Nothing => break,
                TurnWait::One if self.in_flight == 0 => break,
                TurnWait::One => LOOK,
                TurnWait::Until(until) => Duration::from_nanos(until.saturating_sub(self.now())).min(LOOK),
            };
            if left.is_zero() {
                break;
            }
            state.awaited = true;
            state = self.answers.bell.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
            if state.answers.is_empty() && self.workers.iter().any(JoinHandle::is_finished) {
                return Err(io::Error::other("a worker is gone"));
            }
        }
        state.awaited = false;
        self.in_flight -= state.answers.len() as u32;
        done.append(&mut state.answers);
        Ok(())
    }
}

/// Makes requests one at a time.
struct ThreadWorker {
    file: Arc<OwnedFd>,
    memory: Vec<u8>,
    from: usize,
    dice: Rng,
}

impl ThreadWorker {
    fn new(file: Arc<OwnedFd>, spec: &BufferSpec, slot: u32) -> ThreadWorker {
        let mut memory = vec![0u8; spec.largest as usize + ALIGN];
        let buffer_start = memory.as_ptr().align_offset(ALIGN).min(ALIGN);
        let mut rng = Rng::new(spec.seed, u64::from(slot));
        // touched before measuring begins, and incompressible
        for word in memory[buffer_start..].chunks_exact_mut(8) {
            word.copy_from_slice(&rng.next_u64().to_ne_bytes());
        }
        ThreadWorker { file, memory, from: buffer_start, dice: rng }
    }

    /// Makes a request, again after an interrupting signal.
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
                    page[..8].copy_from_slice(&self.dice.next_u64().to_ne_bytes());
                }
                pwritev2(&self.file, &[IoSlice::new(part)], op.offset, flags)
            }
            Action::Fdatasync => rustix::fs::fdatasync(&self.file).map(|()| 0),
            Action::Fsync => rustix::fs::fsync(&self.file).map(|()| 0),
        }
    }
}

/// Serves the requests of one slot until the engine is dropped.
fn work(mut worker: ThreadWorker, slot: &SubmitSlot, answers: &CompletionQueue) {
    loop {
        let mut order = lock(&slot.order);
        let op = loop {
            match std::mem::take(&mut *order) {
                WorkerCommand::Op(op) => break op,
                WorkerCommand::GoHome => return,
                WorkerCommand::None => order = slot.bell.wait(order).unwrap_or_else(PoisonError::into_inner),
            }
        };
        drop(order);
        let done = worker.make(&op);
        let mut state = lock(&answers.inside);
        state.answers.push(done);
        let ring = std::mem::take(&mut state.awaited);
        drop(state);
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
            // a worker that panicked has already printed its message
            let _ = worker.join();
        }
    }
}

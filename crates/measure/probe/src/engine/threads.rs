//! The fallback if there is no io_uring: one thread per slot, each with one plain system call at a
//! time (preadv2, pwritev2). A single slot needs no thread: the worker makes the system calls itself.
//! With more slots, a request also costs the hand-over to a thread and back, so on fast devices this
//! engine measures its own limit. Results therefore name the engine that ran.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::io::{Errno, ReadWriteFlags, preadv2, pwritev2};

use super::{Action, BUFFER_ALIGN_BYTES, BufferSpec, Completion, IoEngine, Op, WaitFor};
use diskwright_base::Rng;

/// Largest number of threads.
pub const MAX_THREADS: u32 = 512;
/// Interval at which a waiting engine checks that its threads are alive.
const WORKER_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The engine of plain threads.
pub struct ThreadEngine {
    submit_slots: Vec<Arc<SubmitSlot>>,
    completions: Arc<CompletionQueue>,
    workers: Vec<JoinHandle<()>>,
    /// If there is only one slot: makes the requests without a thread; and the request that it is to
    /// make next.
    inline_worker: Option<(ThreadWorker, Option<Op>)>,
    in_flight: u32,
    notes: Vec<String>,
    start: Instant,
}

/// Passes the next request to a thread.
#[derive(Default)]
struct SubmitSlot {
    command: Mutex<WorkerCommand>,
    wakeup: Condvar,
}

#[derive(Default)]
enum WorkerCommand {
    #[default]
    None,
    Op(Op),
    Shutdown,
}

/// Collects the completions of all threads.
#[derive(Default)]
struct CompletionQueue {
    state: Mutex<CompletionState>,
    wakeup: Condvar,
}

#[derive(Default)]
struct CompletionState {
    completions: Vec<Completion>,
    /// The engine waits for a completion. Only then is it notified, because that costs a system call.
    has_waiter: bool,
}

/// Locks a mutex. Poison is ignored, because a thread that panics leaves no data half changed.
fn lock_ignoring_poison<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ThreadEngine {
    /// Starts threads on a file; fewer than requested if the system does not permit more.
    ///
    /// # Errors
    /// If not even one thread can be started.
    pub fn new(file: OwnedFd, spec: &BufferSpec, start: Instant) -> io::Result<ThreadEngine> {
        let file = Arc::new(file);
        let mut engine = ThreadEngine {
            submit_slots: Vec::new(),
            completions: Arc::default(),
            workers: Vec::new(),
            inline_worker: None,
            in_flight: 0,
            notes: Vec::new(),
            start,
        };
        if spec.slots == 1 {
            engine.inline_worker = Some((ThreadWorker::new(file, spec, 0), None));
            return Ok(engine);
        }
        for slot in 0..spec.slots {
            let submit_slot = Arc::new(SubmitSlot::default());
            let (file, thread_spec) = (Arc::clone(&file), *spec);
            let (thread_slot, completions) = (Arc::clone(&submit_slot), Arc::clone(&engine.completions));
            let serve = move || serve_slot(ThreadWorker::new(file, &thread_spec, slot), &thread_slot, &completions);
            match std::thread::Builder::new().name(format!("probe-{slot}")).spawn(serve) {
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
            engine.submit_slots.push(submit_slot);
        }
        Ok(engine)
    }

    /// Number of slots: requests in flight at once.
    pub fn slot_count(&self) -> u32 {
        self.submit_slots.len().max(1) as u32
    }

    /// Returns sentences about why it has fewer slots than requested.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Waits as `wait` says, and takes all completions that have arrived.
    fn collect_completions(&mut self, wait: WaitFor, done: &mut Vec<Completion>) -> io::Result<()> {
        let mut state = lock_ignoring_poison(&self.completions.state);
        while state.completions.is_empty() {
            let timeout = match wait {
                WaitFor::Nothing => break,
                WaitFor::One if self.in_flight == 0 => break,
                WaitFor::One => WORKER_CHECK_INTERVAL,
                WaitFor::Until(until) => {
                    Duration::from_nanos(until.saturating_sub(self.now())).min(WORKER_CHECK_INTERVAL)
                }
            };
            if timeout.is_zero() {
                break;
            }
            state.has_waiter = true;
            state = self.completions.wakeup.wait_timeout(state, timeout).unwrap_or_else(PoisonError::into_inner).0;
            if state.completions.is_empty() && self.workers.iter().any(JoinHandle::is_finished) {
                return Err(io::Error::other("a worker is gone"));
            }
        }
        state.has_waiter = false;
        self.in_flight -= state.completions.len() as u32;
        done.append(&mut state.completions);
        Ok(())
    }
}

/// Makes requests one at a time.
struct ThreadWorker {
    file: Arc<OwnedFd>,
    memory: Vec<u8>,
    buffer_start: usize,
    rng: Rng,
}

impl ThreadWorker {
    fn new(file: Arc<OwnedFd>, spec: &BufferSpec, slot: u32) -> ThreadWorker {
        let mut memory = vec![0u8; spec.max_request_bytes as usize + BUFFER_ALIGN_BYTES];
        let buffer_start = memory.as_ptr().align_offset(BUFFER_ALIGN_BYTES).min(BUFFER_ALIGN_BYTES);
        let mut rng = Rng::new(spec.seed, u64::from(slot));
        // touched before measuring begins, and incompressible
        for word in memory[buffer_start..].chunks_exact_mut(8) {
            word.copy_from_slice(&rng.next_u64().to_ne_bytes());
        }
        ThreadWorker { file, memory, buffer_start, rng }
    }

    /// Makes a request; repeats it if a signal interrupted it.
    fn run_op(&mut self, op: &Op) -> Completion {
        let transferred = loop {
            match self.try_op(op) {
                Err(Errno::INTR) => {}
                result => break result,
            }
        };
        let result = transferred.map_or_else(|e| -e.raw_os_error(), |bytes| i32::try_from(bytes).unwrap_or(i32::MAX));
        Completion { slot: op.slot, result }
    }

    fn try_op(&mut self, op: &Op) -> rustix::io::Result<usize> {
        let buffer = &mut self.memory[self.buffer_start..self.buffer_start + op.length as usize];
        let flags = ReadWriteFlags::empty();
        match op.action {
            Action::Read => preadv2(&self.file, &mut [IoSliceMut::new(buffer)], op.offset, flags),
            Action::Write => {
                // each page differs from all others, so that no device can deduplicate it
                for page in buffer.chunks_mut(BUFFER_ALIGN_BYTES).filter(|p| p.len() >= 8) {
                    page[..8].copy_from_slice(&self.rng.next_u64().to_ne_bytes());
                }
                pwritev2(&self.file, &[IoSlice::new(buffer)], op.offset, flags)
            }
            Action::Fdatasync => rustix::fs::fdatasync(&self.file).map(|()| 0),
            Action::Fsync => rustix::fs::fsync(&self.file).map(|()| 0),
        }
    }
}

/// Serves the requests of one slot until the engine is dropped.
fn serve_slot(mut worker: ThreadWorker, slot: &SubmitSlot, completions: &CompletionQueue) {
    loop {
        let mut command = lock_ignoring_poison(&slot.command);
        let op = loop {
            match std::mem::take(&mut *command) {
                WorkerCommand::Op(op) => break op,
                WorkerCommand::Shutdown => return,
                WorkerCommand::None => command = slot.wakeup.wait(command).unwrap_or_else(PoisonError::into_inner),
            }
        };
        drop(command);
        let completion = worker.run_op(&op);
        let mut state = lock_ignoring_poison(&completions.state);
        state.completions.push(completion);
        let had_waiter = std::mem::take(&mut state.has_waiter);
        drop(state);
        if had_waiter {
            completions.wakeup.notify_one();
        }
    }
}

impl IoEngine for ThreadEngine {
    fn now(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    fn may_block(&self) -> bool {
        self.inline_worker.is_some()
    }

    fn queue_op(&mut self, op: Op) {
        self.in_flight += 1;
        if let Some((_, next)) = &mut self.inline_worker {
            *next = Some(op);
            return;
        }
        let submit_slot = &self.submit_slots[op.slot as usize];
        *lock_ignoring_poison(&submit_slot.command) = WorkerCommand::Op(op);
        submit_slot.wakeup.notify_one();
    }

    fn submit_and_wait(&mut self, wait: WaitFor, done: &mut Vec<Completion>) -> io::Result<()> {
        if let Some((worker, next)) = &mut self.inline_worker
            && let Some(op) = next.take()
        {
            done.push(worker.run_op(&op));
            self.in_flight -= 1;
            return Ok(());
        }
        self.collect_completions(wait, done)
    }
}

impl Drop for ThreadEngine {
    fn drop(&mut self) {
        for submit_slot in &self.submit_slots {
            *lock_ignoring_poison(&submit_slot.command) = WorkerCommand::Shutdown;
            submit_slot.wakeup.notify_one();
        }
        for worker in self.workers.drain(..) {
            // a worker that panicked has already printed its message
            let _ = worker.join();
        }
    }
}

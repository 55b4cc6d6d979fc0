//! Cost of kernel operations: a system call, a switch between threads, a wake-up on another
//! processor, a page fault (after lmbench, McVoy and Staelin 1996).

use std::hint::black_box;
use std::io::{PipeReader, PipeWriter, Read, Write, pipe};
use std::thread::JoinHandle;

use rustix::thread::{CpuSet, disable_transparent_huge_pages, sched_getaffinity, sched_setaffinity};

use crate::machine::WorkingSizes;
use crate::work_kernel::{ThreadShare, WorkKernel};
use crate::{BaselineError, io_error};

/// Makes the system call kernel: it gets the parent's process id, a call that does nothing else.
pub fn make_system_call_kernel(_: &WorkingSizes, _: ThreadShare) -> Result<WorkKernel, BaselineError> {
    const CALLS_PER_ROUND: u64 = 1024;
    let work = |rounds: u64| {
        for _ in 0..rounds * CALLS_PER_ROUND {
            black_box(rustix::process::getppid());
        }
        Ok(rounds)
    };
    Ok(WorkKernel { run_rounds: Box::new(work), units_per_round: CALLS_PER_ROUND as f64, is_repeatable: true })
}

/// Makes the context switch kernel: two threads on one processor send each other a byte through
/// pipes; each message is a switch, a write and a read.
pub fn make_context_switch_kernel(_: &WorkingSizes, _: ThreadShare) -> Result<WorkKernel, BaselineError> {
    let processors = allowed_processors()?;
    make_message_kernel(processors[0], processors[0])
}

/// Makes the wake-up kernel: like the context switch kernel, but between two processors. A message wakes a thread on
/// the other processor, which may have to leave an idle state.
pub fn make_wake_up_kernel(_: &WorkingSizes, _: ThreadShare) -> Result<WorkKernel, BaselineError> {
    let processors = allowed_processors()?;
    match processors.as_slice() {
        [first, .., last] => make_message_kernel(*first, *last),
        _ => Err(BaselineError::Unsupported("this machine lets the program use one processor only".into())),
    }
}

/// Returns the processors that this program may use; at least one.
fn allowed_processors() -> Result<Vec<usize>, BaselineError> {
    let set = sched_getaffinity(None).map_err(io_error("asking for the allowed processors"))?;
    let processors: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|processor| set.is_set(*processor)).collect();
    if processors.is_empty() {
        Err(BaselineError::Unsupported("no processor is allowed".into()))
    } else {
        Ok(processors)
    }
}

/// Pins this thread to a processor.
fn pin_to_processor(processor: usize) -> Result<(), BaselineError> {
    let mut set = CpuSet::new();
    set.set(processor);
    sched_setaffinity(None, &set).map_err(io_error("keeping a thread on a processor"))
}

/// Our ends of two pipes, and the thread that answers.
struct EchoThread {
    request_pipe: Option<PipeWriter>,
    reply_pipe: PipeReader,
    thread: Option<JoinHandle<()>>,
}

impl Drop for EchoThread {
    fn drop(&mut self) {
        // closing the pipe ends the other thread
        self.request_pipe = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Makes a kernel that exchanges messages between threads on two processors.
fn make_message_kernel(processor: usize, echo_processor: usize) -> Result<WorkKernel, BaselineError> {
    let (mut echo_reader, request_pipe) = pipe().map_err(io_error("making a pipe"))?;
    let (reply_pipe, mut echo_writer) = pipe().map_err(io_error("making a pipe"))?;
    let body = move || {
        let mut byte = [0u8];
        let pinned = pin_to_processor(echo_processor).is_ok();
        while pinned && matches!(echo_reader.read(&mut byte), Ok(1)) {
            if echo_writer.write_all(&byte).is_err() {
                break;
            }
        }
    };
    let thread = std::thread::Builder::new().name("echo".into()).spawn(body).map_err(io_error("starting a thread"))?;
    let mut echo = EchoThread { request_pipe: Some(request_pipe), reply_pipe, thread: Some(thread) };
    let work = move |rounds: u64| {
        pin_to_processor(processor)?;
        for _ in 0..rounds {
            let mut byte = [1u8];
            if let Some(request_pipe) = &mut echo.request_pipe {
                request_pipe.write_all(&byte).map_err(io_error("writing to a pipe"))?;
            }
            if echo.reply_pipe.read(&mut byte).map_err(io_error("reading from a pipe"))? != 1 {
                return Err(BaselineError::Unsupported("the other thread could not be kept on its processor".into()));
            }
        }
        Ok(rounds)
    };
    // a round has two messages: there and back
    Ok(WorkKernel { run_rounds: Box::new(work), units_per_round: 2.0, is_repeatable: true })
}

/// Makes the page fault kernel: it writes a byte to each 4 KiB of fresh memory, which costs a mapping, its faults,
/// zeroed pages, and its removal. Huge pages are off during the work, so that each fault brings one page. The threads
/// share an address space, as those of a program do.
pub fn make_page_fault_kernel(sizes: &WorkingSizes, share: ThreadShare) -> Result<WorkKernel, BaselineError> {
    const FRESH_BYTES: usize = 64 << 20;
    const PAGE_BYTES: usize = 4096;
    // all threads have their pages at the same time
    if (FRESH_BYTES as u64).saturating_mul(share.threads as u64) > sizes.available_bytes / 4 {
        let message = "fresh pages of 64 MiB for each thread are more than a quarter of the available memory";
        return Err(BaselineError::Unsupported(message.into()));
    }
    if rustix::param::page_size() != PAGE_BYTES {
        return Err(BaselineError::Unsupported("pages of this kernel are not of 4 KiB".into()));
    }
    let huge_pages_off = HugePagesOff::acquire()?;
    let work = move |rounds: u64| {
        // moves the guard into the closure
        let _guard = &huge_pages_off;
        for _ in 0..rounds {
            // an allocation of this size is mapped anew each time and returned to the kernel
            let mut fresh = vec![0u8; FRESH_BYTES];
            for page in fresh.chunks_mut(PAGE_BYTES) {
                page[0] = 1;
            }
            black_box(&mut fresh);
        }
        Ok(rounds)
    };
    Ok(WorkKernel {
        run_rounds: Box::new(work),
        units_per_round: (FRESH_BYTES / PAGE_BYTES) as f64,
        is_repeatable: true,
    })
}

/// Turns huge pages off for this program while a value of this type lives.
struct HugePagesOff;

/// Number of values that live; threads create and drop their values at different times.
static HUGE_PAGES_OFF_USERS: std::sync::Mutex<usize> = std::sync::Mutex::new(0);

impl HugePagesOff {
    /// Turns huge pages off if this is the first user.
    fn acquire() -> Result<HugePagesOff, BaselineError> {
        let mut users = HUGE_PAGES_OFF_USERS.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if *users == 0 {
            disable_transparent_huge_pages(true).map_err(io_error("turning huge pages off"))?;
        }
        *users += 1;
        Ok(HugePagesOff)
    }
}

impl Drop for HugePagesOff {
    fn drop(&mut self) {
        let mut users = HUGE_PAGES_OFF_USERS.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        debug_assert!(*users > 0, "dropped more often than acquired");
        *users -= 1;
        if *users == 0 {
            let _ = disable_transparent_huge_pages(false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::thread::transparent_huge_pages_are_disabled;

    #[test]
    fn messages_go_there_and_back_and_the_thread_ends() {
        let share = ThreadShare { index: 0, threads: 1 };
        std::thread::spawn(move || {
            let mut kernel = make_context_switch_kernel(&WorkingSizes::default(), share).expect("made");
            assert_eq!((kernel.run_rounds)(100).expect("sent"), 100);
        })
        .join()
        .expect("ended");
    }

    /// 32 threads would use 2 GiB at the same time.
    #[test]
    fn fresh_pages_of_all_threads_must_fit_into_memory() {
        let sizes = WorkingSizes { array_bytes: 1 << 20, all_threads_bytes: 1 << 20, available_bytes: 1 << 30 };
        let refused = make_page_fault_kernel(&sizes, ThreadShare { index: 0, threads: 32 });
        assert!(matches!(refused, Err(BaselineError::Unsupported(_))));
    }

    #[test]
    fn huge_pages_are_off_only_during_the_work() {
        let sizes = WorkingSizes { array_bytes: 1 << 20, all_threads_bytes: 1 << 20, available_bytes: 1 << 40 };
        let share = ThreadShare { index: 0, threads: 2 };
        let before = transparent_huge_pages_are_disabled().expect("asked");
        let mut kernels = [
            make_page_fault_kernel(&sizes, share).expect("made"),
            make_page_fault_kernel(&sizes, share).expect("made"),
        ];
        assert_eq!((kernels[0].run_rounds)(1).expect("touched"), 1);
        assert!(transparent_huge_pages_are_disabled().expect("asked"));
        drop(kernels);
        assert_eq!(transparent_huge_pages_are_disabled().expect("asked"), before);
    }
}

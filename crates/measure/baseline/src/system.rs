//! Cost of kernel operations: a system call, a switch between threads, a wake-up on another
//! processor, a page fault (after lmbench, McVoy and Staelin 1996).

use std::hint::black_box;
use std::io::{PipeReader, PipeWriter, Read, Write, pipe};
use std::thread::JoinHandle;

use rustix::thread::{CpuSet, disable_transparent_huge_pages, sched_getaffinity, sched_setaffinity};

use crate::kernel::{ThreadShare, WorkKernel};
use crate::machine::WorkingSizes;
use crate::{BaselineError, io};

/// Makes the system call kernel: it gets the parent's process id, a call that does nothing else.
pub fn system_call(_: &WorkingSizes, _: ThreadShare) -> Result<WorkKernel, BaselineError> {
    const CALLS: u64 = 1024;
    let work = |rounds: u64| {
        for _ in 0..rounds * CALLS {
            black_box(rustix::process::getppid());
        }
        Ok(rounds)
    };
    Ok(WorkKernel { work: Box::new(work), units: CALLS as f64, is_repeatable: true })
}

/// Makes the context switch kernel: two threads on one processor send each other a byte through
/// pipes; each message is a switch, a write and a read.
pub fn context_switch(_: &WorkingSizes, _: ThreadShare) -> Result<WorkKernel, BaselineError> {
    let processors = allowed()?;
    messages(processors[0], processors[0])
}

/// Makes the wake-up kernel, the same between two processors: a message wakes a thread on the other
/// one, which may have to leave an idle state.
pub fn wake(_: &WorkingSizes, _: ThreadShare) -> Result<WorkKernel, BaselineError> {
    let processors = allowed()?;
    match processors.as_slice() {
        [here, .., elsewhere] => messages(*here, *elsewhere),
        _ => Err(BaselineError::Cannot("this machine lets the program use one processor only".into())),
    }
}

/// Returns the processors that this program may use; at least one.
fn allowed() -> Result<Vec<usize>, BaselineError> {
    let set = sched_getaffinity(None).map_err(io("asking for the allowed processors"))?;
    let found: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|processor| set.is_set(*processor)).collect();
    if found.is_empty() { Err(BaselineError::Cannot("no processor is allowed".into())) } else { Ok(found) }
}

/// Pins this thread to a processor.
fn stay_on(processor: usize) -> Result<(), BaselineError> {
    let mut set = CpuSet::new();
    set.set(processor);
    sched_setaffinity(None, &set).map_err(io("keeping a thread on a processor"))
}

/// Ends of two pipes and the thread that answers.
struct Echo {
    to: Option<PipeWriter>,
    from: PipeReader,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Echo {
    fn drop(&mut self) {
        // closing the pipe ends the other thread
        self.to = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Makes a kernel that exchanges messages between threads on two processors.
fn messages(here: usize, there: usize) -> Result<WorkKernel, BaselineError> {
    let ((mut their_end, to), (from, mut answer)) =
        (pipe().map_err(io("making a pipe"))?, pipe().map_err(io("making a pipe"))?);
    let body = move || {
        let mut byte = [0u8];
        let pinned = stay_on(there).is_ok();
        while pinned && matches!(their_end.read(&mut byte), Ok(1)) {
            if answer.write_all(&byte).is_err() {
                break;
            }
        }
    };
    let thread = std::thread::Builder::new().name("echo".into()).spawn(body).map_err(io("starting a thread"))?;
    let mut echo = Echo { to: Some(to), from, thread: Some(thread) };
    let work = move |rounds: u64| {
        stay_on(here)?;
        for _ in 0..rounds {
            let mut byte = [1u8];
            if let Some(to) = &mut echo.to {
                to.write_all(&byte).map_err(io("writing to a pipe"))?;
            }
            if echo.from.read(&mut byte).map_err(io("reading from a pipe"))? != 1 {
                return Err(BaselineError::Cannot("the other thread could not be kept on its processor".into()));
            }
        }
        Ok(rounds)
    };
    // a round has two messages: there and back
    Ok(WorkKernel { work: Box::new(work), units: 2.0, is_repeatable: true })
}

/// Makes the page fault kernel: it writes a byte to each 4 KiB of fresh memory: a mapping, its
/// faults, its zeroed pages and its removal. Huge pages are off during the work, so that each fault
/// is of one page. The threads share an address space, as those of a program do.
pub fn page_fault(sizes: &WorkingSizes, share: ThreadShare) -> Result<WorkKernel, BaselineError> {
    const BYTES: usize = 64 << 20;
    const PAGE: usize = 4096;
    // all threads have their pages at the same time
    if (BYTES as u64).saturating_mul(share.threads as u64) > sizes.available_bytes / 4 {
        let why = "fresh pages of 64 MiB for each thread are more than a quarter of the available memory";
        return Err(BaselineError::Cannot(why.into()));
    }
    if rustix::param::page_size() != PAGE {
        return Err(BaselineError::Cannot("pages of this kernel are not of 4 KiB".into()));
    }
    let off = SmallPages::start()?;
    let work = move |rounds: u64| {
        let _off = &off;
        for _ in 0..rounds {
            // an allocation of this size is mapped anew each time and returned to the kernel
            let mut fresh = vec![0u8; BYTES];
            for page in fresh.chunks_mut(PAGE) {
                page[0] = 1;
            }
            black_box(&mut fresh);
        }
        Ok(rounds)
    };
    Ok(WorkKernel { work: Box::new(work), units: (BYTES / PAGE) as f64, is_repeatable: true })
}

/// Turns huge pages off for this program while a value of this type lives.
struct SmallPages;

/// Number of live values: threads create and drop theirs at different times.
static SMALL_PAGES: std::sync::Mutex<usize> = std::sync::Mutex::new(0);

impl SmallPages {
    /// Turns huge pages off if this is the first user.
    fn start() -> Result<SmallPages, BaselineError> {
        let mut users = SMALL_PAGES.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if *users == 0 {
            disable_transparent_huge_pages(true).map_err(io("turning huge pages off"))?;
        }
        *users += 1;
        Ok(SmallPages)
    }
}

impl Drop for SmallPages {
    fn drop(&mut self) {
        let mut users = SMALL_PAGES.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
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
            let mut kernel = context_switch(&WorkingSizes::default(), share).expect("made");
            assert_eq!((kernel.work)(100).expect("sent"), 100);
        })
        .join()
        .expect("ended");
    }

    /// 32 threads would use 2 GiB at the same time.
    #[test]
    fn fresh_pages_of_all_threads_must_fit_into_memory() {
        let sizes = WorkingSizes { array_bytes: 1 << 20, all_bytes: 1 << 20, available_bytes: 1 << 30 };
        let refused = page_fault(&sizes, ThreadShare { index: 0, threads: 32 });
        assert!(matches!(refused, Err(BaselineError::Cannot(_))));
    }

    #[test]
    fn huge_pages_are_off_only_meanwhile() {
        let sizes = WorkingSizes { array_bytes: 1 << 20, all_bytes: 1 << 20, available_bytes: 1 << 40 };
        let share = ThreadShare { index: 0, threads: 2 };
        let before = transparent_huge_pages_are_disabled().expect("asked");
        let mut kernels = [page_fault(&sizes, share).expect("made"), page_fault(&sizes, share).expect("made")];
        assert_eq!((kernels[0].work)(1).expect("touched"), 1);
        assert!(transparent_huge_pages_are_disabled().expect("asked"));
        drop(kernels);
        assert_eq!(transparent_huge_pages_are_disabled().expect("asked"), before);
    }
}

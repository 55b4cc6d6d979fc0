//! Scheduling priority of the threads that sample: before all other programs for a bounded share of a processor, else
//! real-time, else by its nice value.
//!
//! A nice value alone is not enough. Beside threads that switch 1.5 million times a second, Linux 6.18 let a sleeper of
//! nice -10 wait for up to 27 s; a real-time thread was never more than 0.3 ms late (docs/stress.md). But a real-time
//! thread of the lowest priority waits for ever beside others of higher priority that never sleep. Threads with a
//! deadline (`SCHED_DEADLINE`) come before all of them, and the kernel holds them to their budget.

use rustix::process::{geteuid, getpriority_process, setpriority_process};

/// Nice value of the sampling threads; other programs have 0.
pub const SAMPLER_NICE: i32 = -10;
/// The lowest real-time priority: above all ordinary programs, below every other real-time one.
const MIN_REAL_TIME_PRIORITY: i32 = 1;
/// Period of the budgets, nanoseconds.
const PERIOD_NS: u64 = 100_000_000;

/// Work of a thread, which decides its budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadRole {
    /// Reads the kernel's files.
    Reader,
    /// Keeps the time of the ticks, and passes on the values that were read.
    Pacer,
}

impl ThreadRole {
    /// Largest processor time in each [`PERIOD_NS`], nanoseconds. A sampler has one reader, with a pacer on each side:
    /// together 30 % of one processor.
    fn budget_ns(self) -> u64 {
        match self {
            ThreadRole::Reader => 20_000_000,
            ThreadRole::Pacer => 5_000_000,
        }
    }
}

/// While this guard lives, its thread is scheduled before others, so that a fully loaded machine is sampled on time.
/// Only root may raise the priority; for other users nothing changes.
#[derive(Debug)]
#[must_use = "the priority ends when the guard is dropped"]
pub struct PriorityGuard(Option<RaisedPriority>);

/// The change that was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RaisedPriority {
    /// An ordinary thread got a deadline and a budget.
    Deadline,
    /// An ordinary thread became a real-time one.
    RealTime,
    /// The nice value before it was lowered.
    Nice(i32),
}

impl PriorityGuard {
    /// Raises the priority of this thread, as far as the kernel allows.
    pub fn raise_priority(role: ThreadRole) -> PriorityGuard {
        if !geteuid().is_root() || !has_ordinary_policy() {
            return PriorityGuard(None);
        }
        // refused in a set of processors, and where all bandwidth is given away
        if set_policy(0, Policy::Deadline { budget_ns: role.budget_ns() }) {
            return PriorityGuard(Some(RaisedPriority::Deadline));
        }
        if set_policy(0, Policy::RealTime) {
            return PriorityGuard(Some(RaisedPriority::RealTime));
        }
        let nice = getpriority_process(None).ok().filter(|nice| *nice > SAMPLER_NICE);
        PriorityGuard(nice.filter(|_| setpriority_process(None, SAMPLER_NICE).is_ok()).map(RaisedPriority::Nice))
    }
}

impl Drop for PriorityGuard {
    fn drop(&mut self) {
        match self.0 {
            Some(RaisedPriority::Deadline | RaisedPriority::RealTime) => {
                set_policy(0, Policy::Ordinary);
            }
            Some(RaisedPriority::Nice(nice)) => {
                let _ = setpriority_process(None, nice);
            }
            None => {}
        }
    }
}

/// Gives another thread of this process the ordinary policy: a thread that hangs would keep its budget from others.
pub(crate) fn lower_priority(tid: i32) {
    // 0 would be the calling thread
    if tid > 0 && geteuid().is_root() {
        set_policy(tid, Policy::Ordinary);
    }
}

/// True unless somebody chose another scheduling policy for this thread.
#[allow(unsafe_code, reason = "no crate in use has sched_getscheduler as a safe call")]
fn has_ordinary_policy() -> bool {
    // SAFETY: the call takes an integer; 0 means the calling thread. musl's own function is a stub that always fails.
    let policy = unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) };
    policy == libc::c_long::from(libc::SCHED_OTHER)
}

/// A scheduling policy.
#[derive(Clone, Copy)]
enum Policy {
    Ordinary,
    RealTime,
    Deadline { budget_ns: u64 },
}

/// `struct sched_attr` of linux/sched/types.h, in its first version.
#[repr(C)]
#[derive(Default)]
struct SchedulingAttributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime_ns: u64,
    deadline_ns: u64,
    period_ns: u64,
}

/// `SCHED_FLAG_RESET_ON_FORK` of linux/sched.h: threads and programs that the thread starts are ordinary.
const RESET_ON_FORK: u64 = 1;

/// Sets the policy of a thread; 0 is the calling thread. Returns false if the kernel refuses. For real-time and
/// ordinary threads, the kernel reserves a share of each second (`kernel.sched_rt_runtime_us`, the fair server).
#[allow(unsafe_code, reason = "no crate in use has sched_setattr as a safe call")]
fn set_policy(tid: i32, policy: Policy) -> bool {
    let mut attributes = SchedulingAttributes { size: 48, flags: RESET_ON_FORK, ..Default::default() };
    match policy {
        Policy::Ordinary => (attributes.policy, attributes.flags) = (libc::SCHED_OTHER as u32, 0),
        Policy::RealTime => {
            (attributes.policy, attributes.priority) = (libc::SCHED_RR as u32, MIN_REAL_TIME_PRIORITY as u32);
        }
        Policy::Deadline { budget_ns } => {
            attributes.policy = libc::SCHED_DEADLINE as u32;
            (attributes.runtime_ns, attributes.deadline_ns, attributes.period_ns) = (budget_ns, PERIOD_NS, PERIOD_NS);
        }
    }
    // SAFETY: the kernel reads `size` bytes at the pointer, which is the whole structure, and lives until it returns.
    unsafe { libc::syscall(libc::SYS_sched_setattr, tid, &raw const attributes, 0) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structure_has_the_size_that_the_kernel_expects() {
        assert_eq!(size_of::<SchedulingAttributes>(), 48);
    }

    #[test]
    fn raises_priority_while_the_guard_lives() {
        // policies and nice values belong to threads, so other tests are not affected
        let nice = || getpriority_process(None).unwrap();
        let (before, ordinary) = (nice(), has_ordinary_policy());
        let first = PriorityGuard::raise_priority(ThreadRole::Pacer);
        match first.0 {
            Some(RaisedPriority::Deadline | RaisedPriority::RealTime) => {
                assert!(!has_ordinary_policy());
                // its children are ordinary, and a raised thread stays raised
                assert!(std::thread::spawn(has_ordinary_policy).join().unwrap());
                drop(PriorityGuard::raise_priority(ThreadRole::Reader));
                assert!(!has_ordinary_policy());
            }
            Some(RaisedPriority::Nice(was)) => assert_eq!((nice(), was), (SAMPLER_NICE, before)),
            None => assert!(!geteuid().is_root() || !ordinary || before <= SAMPLER_NICE || nice() == before),
        }
        drop(first);
        assert_eq!((nice(), has_ordinary_policy()), (before, ordinary));
    }
}

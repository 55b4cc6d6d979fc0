//! Scheduling priority of the sampling thread: real-time, else by its nice value.
//!
//! A nice value alone is not enough. Beside threads that switch 1.5 million times a second, Linux 6.18 let a sleeper of
//! nice -10 wait for up to 27 s; a real-time thread was never more than 0.3 ms late (docs/stress.md).

use rustix::process::{geteuid, getpriority_process, setpriority_process};

/// Nice value of the sampling thread; other programs have 0.
pub const SAMPLER_NICE: i32 = -10;
/// The lowest real-time priority: above all ordinary programs, below every other real-time one.
const MIN_REAL_TIME_PRIORITY: i32 = 1;

/// While this lives, its thread is scheduled before others, so that a fully loaded machine is sampled on time. Only
/// root may raise the priority; for other users nothing changes.
#[derive(Debug)]
#[must_use = "it ends when dropped"]
pub struct PriorityGuard(Option<RaisedPriority>);

/// The change that was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RaisedPriority {
    /// An ordinary thread became a real-time one.
    RealTime,
    /// The nice value before it was lowered.
    Nice(i32),
}

impl PriorityGuard {
    /// Raises the priority of this thread, as far as it is allowed.
    pub fn raise_priority() -> PriorityGuard {
        if !geteuid().is_root() || !has_ordinary_policy() {
            return PriorityGuard(None);
        }
        if set_real_time_policy(true) {
            return PriorityGuard(Some(RaisedPriority::RealTime));
        }
        let nice = getpriority_process(None).ok().filter(|nice| *nice > SAMPLER_NICE);
        PriorityGuard(nice.filter(|_| setpriority_process(None, SAMPLER_NICE).is_ok()).map(RaisedPriority::Nice))
    }
}

impl Drop for PriorityGuard {
    fn drop(&mut self) {
        match self.0 {
            Some(RaisedPriority::RealTime) => {
                set_real_time_policy(false);
            }
            Some(RaisedPriority::Nice(nice)) => {
                let _ = setpriority_process(None, nice);
            }
            None => {}
        }
    }
}

/// True unless somebody chose another scheduling policy for this thread.
#[allow(unsafe_code, reason = "no crate in use has sched_getscheduler as a safe call")]
fn has_ordinary_policy() -> bool {
    // SAFETY: the call takes an integer; 0 means the calling thread. musl's own function is a stub that always fails.
    let policy = unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) };
    policy == libc::c_long::from(libc::SCHED_OTHER)
}

/// Makes this thread real-time or ordinary; false if the kernel refuses. Threads and programs that it starts are
/// ordinary, and the kernel reserves a share of each second for others (`kernel.sched_rt_runtime_us`).
#[allow(unsafe_code, reason = "no crate in use has sched_setscheduler as a safe call")]
fn set_real_time_policy(is_real_time: bool) -> bool {
    let (policy, priority) = match is_real_time {
        true => (libc::SCHED_RR | libc::SCHED_RESET_ON_FORK, MIN_REAL_TIME_PRIORITY),
        false => (libc::SCHED_OTHER, 0),
    };
    // the kernel's structure is this one integer; musl's `sched_param` has more fields
    let parameter: libc::c_int = priority;
    // SAFETY: 0 means the calling thread; the kernel reads one integer at the pointer, which lives until it returns.
    unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &raw const parameter) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raises_priority_while_the_guard_lives() {
        // policies and nice values belong to threads, so other tests are not affected
        let nice = || getpriority_process(None).unwrap();
        let (before, ordinary) = (nice(), has_ordinary_policy());
        let first = PriorityGuard::raise_priority();
        match first.0 {
            Some(RaisedPriority::RealTime) => {
                assert!(!has_ordinary_policy());
                // its children are ordinary, and a raised thread stays raised
                assert!(std::thread::spawn(has_ordinary_policy).join().unwrap());
                drop(PriorityGuard::raise_priority());
                assert!(!has_ordinary_policy());
            }
            Some(RaisedPriority::Nice(was)) => assert_eq!((nice(), was), (SAMPLER_NICE, before)),
            None => assert!(!geteuid().is_root() || !ordinary || before <= SAMPLER_NICE || nice() == before),
        }
        drop(first);
        assert_eq!((nice(), has_ordinary_policy()), (before, ordinary));
    }
}

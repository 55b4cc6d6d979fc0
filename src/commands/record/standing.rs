//! How a recorder stands among the programs of its machine: it has to go on when
//! memory and processors run short, for that is what it is to record. Root may ask
//! the kernel for that; other users record as any program does.

use std::fs;

use rustix::mm::{MlockAllFlags, mlockall, munlockall};
use rustix::process::{geteuid, getpriority_process, setpriority_process};

use crate::commands::priority::NICE;

/// Added to the score by which the kernel chooses whom to kill when memory ends; -1000 is never.
const SCORE: &str = "-800";

/// Has large buffers go back to the kernel when they are freed. By itself the C library keeps memory of up to 64 MiB
/// once a buffer of half that size was freed, and none of it goes back while memory is locked. To be called before
/// there are threads.
#[cfg(target_env = "gnu")]
#[allow(unsafe_code, reason = "no crate has mallopt as a safe call")]
pub fn give_back() {
    const LARGE: i32 = 128 << 10;
    // SAFETY: mallopt takes two integers and touches no memory of ours; there is no other thread yet.
    unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE) };
}

/// Other C libraries give back what is freed.
#[cfg(not(target_env = "gnu"))]
pub fn give_back() {}

/// Ticks between the end of a wide row and the trim: the log's thread has let go of it by then.
const SETTLED: u32 = 30;

/// Sees when a machine has lost half of its devices and more.
#[derive(Default)]
pub struct DeviceLossWatch {
    most: usize,
    ticks: u32,
}

impl DeviceLossWatch {
    /// Takes in the width of a tick's row. True when what the others needed should go back.
    pub fn is_due(&mut self, series: usize) -> bool {
        if series > self.most / 2 {
            (self.most, self.ticks) = (self.most.max(series), 0);
            return false;
        }
        self.ticks += 1;
        if self.ticks < SETTLED {
            return false;
        }
        (self.most, self.ticks) = (series, 0);
        true
    }
}

/// Gives freed memory between used memory back to the kernel, which takes none of it while it is locked.
pub fn trim() {
    let _ = munlockall();
    trim_heaps();
    lock();
}

#[cfg(target_env = "gnu")]
#[allow(unsafe_code, reason = "no crate has malloc_trim as a safe call")]
fn trim_heaps() {
    // SAFETY: malloc_trim takes an integer, locks what it looks at, and gives back nothing that is in use.
    unsafe { libc::malloc_trim(0) };
}

#[cfg(not(target_env = "gnu"))]
fn trim_heaps() {}

/// Keeps this process's memory out of swap, where it may.
fn lock() {
    if geteuid().is_root() {
        // pages are kept once they were used; reserving all of the address space would take memory from others
        let _ = mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT);
    }
}

/// Keeps this process's memory out of swap, puts it before others on the processors, and makes it a late choice when
/// memory ends. What is refused is left: the machine's administrator may have set limits.
pub fn raise() {
    if !geteuid().is_root() {
        return;
    }
    lock();
    if getpriority_process(None).is_ok_and(|nice| nice > NICE) {
        let _ = setpriority_process(None, NICE);
    }
    let _ = fs::write("/proc/self/oom_score_adj", SCORE);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_goes_back_some_ticks_after_many_devices_went_and_once() {
        let mut slack = DeviceLossWatch::default();
        assert!([150, 5000, 5000, 2600].iter().all(|series| !slack.is_due(*series)), "half is kept");
        let due = (0..100).filter(|_| slack.is_due(150)).count();
        assert_eq!(due, 1);
        assert!(!(0..SETTLED - 1).any(|_| slack.is_due(40)) && slack.is_due(40));
        // who comes back before is not trimmed
        slack.is_due(400);
        assert!(!(0..SETTLED - 1).any(|_| slack.is_due(40)) && !slack.is_due(400) && !slack.is_due(40));
    }
}

//! Protection of a recorder from the conditions that it records: it must keep running when memory and processors run
//! short. Root may ask the kernel for that; other users record like any program.

use std::fs;

use rustix::mm::{MlockAllFlags, mlockall, munlockall};
use rustix::process::{geteuid, getpriority_process, setpriority_process};

use crate::commands::priority::NICE;

/// Adjustment of the score by which the kernel chooses processes to kill when memory runs out; -1000 is never.
const SCORE: &str = "-800";

/// Makes the C library return large buffers to the kernel when they are freed. By default it keeps up to 64 MiB once a
/// buffer of half that size was freed, and returns nothing while memory is locked. Must be called before any thread
/// starts.
#[cfg(target_env = "gnu")]
#[allow(unsafe_code, reason = "no crate has mallopt as a safe call")]
pub fn give_back() {
    const LARGE: i32 = 128 << 10;
    // SAFETY: mallopt takes two integers and touches no memory of ours; no other thread exists yet.
    unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE) };
}

/// Other C libraries return freed memory.
#[cfg(not(target_env = "gnu"))]
pub fn give_back() {}

/// Ticks between the last wide row and the trim: the log's thread has freed it by then.
const SETTLED: u32 = 30;

/// Detects that a machine has lost at least half of its devices.
#[derive(Default)]
pub struct DeviceLossWatch {
    most: usize,
    ticks: u32,
}

impl DeviceLossWatch {
    /// Handles the width of a tick's row. True if memory for the lost devices should be returned.
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

/// Returns free memory between used memory to the kernel, which takes none of it back while it is locked.
pub fn trim() {
    let _ = munlockall();
    trim_heaps();
    lock();
}

#[cfg(target_env = "gnu")]
#[allow(unsafe_code, reason = "no crate has malloc_trim as a safe call")]
fn trim_heaps() {
    // SAFETY: malloc_trim takes an integer, locks what it examines, and returns nothing that is in use.
    unsafe { libc::malloc_trim(0) };
}

#[cfg(not(target_env = "gnu"))]
fn trim_heaps() {}

/// Keeps this process's memory out of swap, if it may.
fn lock() {
    if geteuid().is_root() {
        // pages are locked once they are used; reserving the whole address space would take memory from others
        let _ = mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT);
    }
}

/// Keeps this process's memory out of swap, raises its priority, and makes it a late choice when memory runs out.
/// Refused requests are ignored: the administrator may have set limits.
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
        // devices that come back before the trim cancel it
        slack.is_due(400);
        assert!(!(0..SETTLED - 1).any(|_| slack.is_due(40)) && !slack.is_due(400) && !slack.is_due(40));
    }
}

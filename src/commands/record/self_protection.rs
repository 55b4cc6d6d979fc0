//! Protection of a recorder from the conditions that it records: it must keep running when memory and processors run
//! short. Root may ask the kernel for that; other users record like any program.

use std::fs;

use rustix::mm::{MlockAllFlags, mlockall, munlockall};
use rustix::process::{geteuid, getpriority_process, setpriority_process};

use diskwright_counters::live::thread_priority::SAMPLER_NICE;

use super::super::process_limits;
use super::program_pages::release_program_pages;

/// Adjustment of the score by which the kernel chooses processes to kill when memory runs out; -1000 is never.
const OOM_SCORE_ADJUSTMENT: &str = "-800";

/// Makes the C library return large buffers to the kernel when they are freed, and lets all threads share one heap. By
/// default it keeps up to 64 MiB once a buffer of half that size was freed, and returns nothing while memory is locked.
/// Must be called before any thread starts.
#[cfg(target_env = "gnu")]
#[allow(unsafe_code, reason = "no crate has mallopt as a safe call")]
pub fn return_freed_memory() {
    const LARGE_BUFFER_BYTES: i32 = 128 << 10;
    // SAFETY: mallopt takes two integers and touches no memory of ours; no other thread exists yet.
    unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_BUFFER_BYTES) };
    process_limits::share_heap();
}

/// Other C libraries return freed memory.
#[cfg(not(target_env = "gnu"))]
pub fn return_freed_memory() {}

/// Ticks between the start, or the last wide row, and the trim: the log's thread has freed the row by then.
const TRIM_DELAY_TICKS: u32 = 30;

/// Decides when memory is returned: some ticks after the start, and after a machine has lost at least half of its
/// devices.
#[derive(Default)]
pub struct TrimSchedule {
    has_started: bool,
    max_series: usize,
    ticks: u32,
}

impl TrimSchedule {
    /// Handles the width of a tick's row. True if memory should be returned now.
    pub fn is_trim_due(&mut self, series: usize) -> bool {
        if self.has_started && series > self.max_series / 2 {
            (self.max_series, self.ticks) = (self.max_series.max(series), 0);
            return false;
        }
        self.ticks += 1;
        if self.ticks < TRIM_DELAY_TICKS {
            return false;
        }
        *self = TrimSchedule { has_started: true, max_series: series, ticks: 0 };
        true
    }
}

/// Returns to the kernel, which takes nothing back while it is locked, free memory between used memory and the
/// program's pages that only the start needed.
pub fn trim_memory() {
    let _ = munlockall();
    trim_heaps();
    release_program_pages();
    lock_memory();
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
fn lock_memory() {
    if geteuid().is_root() {
        // pages are locked once they are used; reserving the whole address space would take memory from others
        let _ = mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT);
    }
}

/// Releases what only the start needed, keeps this process's memory out of swap, raises its priority, and makes it a
/// late choice when memory runs out.
/// Refused requests are ignored: the administrator may have set limits.
pub fn protect_process() {
    release_program_pages();
    if !geteuid().is_root() {
        return;
    }
    lock_memory();
    if getpriority_process(None).is_ok_and(|nice| nice > SAMPLER_NICE) {
        let _ = setpriority_process(None, SAMPLER_NICE);
    }
    let _ = fs::write("/proc/self/oom_score_adj", OOM_SCORE_ADJUSTMENT);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trims_once_some_ticks_after_the_start_and_after_many_devices_left() {
        let mut schedule = TrimSchedule::default();
        let due = (0..200).filter(|_| schedule.is_trim_due(150)).count();
        assert_eq!(due, 1, "after the start");
        assert!([150, 5000, 5000, 2600].iter().all(|series| !schedule.is_trim_due(*series)), "half is kept");
        let due = (0..100).filter(|_| schedule.is_trim_due(150)).count();
        assert_eq!(due, 1);
        assert!(!(0..TRIM_DELAY_TICKS - 1).any(|_| schedule.is_trim_due(40)) && schedule.is_trim_due(40));
        // devices that come back before the trim cancel it
        schedule.is_trim_due(400);
        assert!(
            !(0..TRIM_DELAY_TICKS - 1).any(|_| schedule.is_trim_due(40))
                && !schedule.is_trim_due(400)
                && !schedule.is_trim_due(40)
        );
    }
}

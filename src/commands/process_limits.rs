//! Limits that this process was started with (`ulimit`): what the program does about them, and how they are named where
//! they make a command fail.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use diskwright_base::units::format_value;
use rustix::process::{Resource, getrlimit};
use signal_hook::consts::SIGXFSZ;

use super::Failure;

/// Stack of a thread that does little: the default of 2 MiB is much where the address space is limited (`ulimit -v`).
pub const SMALL_STACK_BYTES: usize = 512 << 10;

/// Prepares this process for its limits. Must be called before any thread starts.
pub fn adapt_to_limits() -> Result<(), Failure> {
    // a write beyond the largest file (`ulimit -f`) then fails like one to a full disk, and ends no process; a program
    // that this one starts gets the usual action
    signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)))?;
    if getrlimit(Resource::As).current.is_some() {
        share_heap();
    }
    Ok(())
}

/// Lets all threads share one heap. By default, the C library reserves 64 MiB of addresses for a heap of each thread,
/// and each keeps free memory of its own. Must be called before any thread starts.
#[cfg(target_env = "gnu")]
#[allow(unsafe_code, reason = "no crate has mallopt as a safe call")]
pub fn share_heap() {
    // SAFETY: mallopt takes two integers and touches no memory of ours; no other thread exists yet.
    unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) };
}

/// Other C libraries reserve no addresses.
#[cfg(not(target_env = "gnu"))]
pub fn share_heap() {}

/// Names the limit of this process's open files, if it has one.
pub fn describe_open_files() -> Option<String> {
    getrlimit(Resource::Nofile).current.map(|most| format!("this process may open {most} files (ulimit -n)"))
}

/// Names the limit of this process that may be the reason of a failure with this text.
pub fn describe_reached_limit(failure: &str) -> Option<String> {
    let is_error = |number: i32| failure.contains(&format!("(os error {number})"));
    let limit = |resource| getrlimit(resource).current;
    if is_error(libc::EMFILE) {
        return describe_open_files();
    }
    if is_error(libc::EFBIG) {
        return Some(format!(
            "this process may write files of {} (ulimit -f)",
            format_value(limit(Resource::Fsize)? as f64, "bytes")
        ));
    }
    if is_error(libc::ENOMEM) {
        return Some(format!(
            "this process may use {} of addresses (ulimit -v)",
            format_value(limit(Resource::As)? as f64, "bytes")
        ));
    }
    // threads: their stacks need addresses
    if is_error(libc::EAGAIN) {
        let threads = limit(Resource::Nproc).map(|most| format!("this user may run {most} threads (ulimit -u)"));
        let addresses = limit(Resource::As).map(|most| {
            format!("this process may use {} of addresses (ulimit -v)", format_value(most as f64, "bytes"))
        });
        let limits: Vec<String> = threads.into_iter().chain(addresses).collect();
        return (!limits.is_empty()).then(|| limits.join(", "));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_names_the_limit_that_it_met() {
        let named = describe_reached_limit("log/tail: Too many open files (os error 24)");
        assert_eq!(named.is_some(), getrlimit(Resource::Nofile).current.is_some());
        assert_eq!(describe_reached_limit("log: No such file or directory (os error 2)"), None);
    }
}

//! Detection of processes that have not run since the last scan: their files need not be read again, because activity
//! is counted only while a process runs. On most machines that is nearly all of them.
//!
//! `/proc/PID/schedstat` is the scheduler's account of a process's first thread: nanoseconds on a processor,
//! nanoseconds of waiting for one, and the number of times that it got one. Reading it costs a fourth of `stat`, less
//! than a tenth if it stays open, and every user may read it. A process has rested if
//!
//! * it had one thread at the last scan, so that no other thread runs for it, and only that thread can start another;
//! * it slept then: a thread that was on a processor continues without getting one again, and one that waits
//!   uninterruptibly may have been woken;
//! * neither the time nor the count has changed since before `stat` was read.
//!
//! Two values change while a process does not run, and are handled elsewhere: its parent, if that ends, and its
//! resident memory, which is reported only for active processes. A kernel that keeps no such account writes zeros;
//! then each process is read at each scan.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::live::open_file::has_many_descriptors;
use crate::live::text_scan::WordIter;
use crate::live::watched_read::watch_read;

use super::parse::ProcessStat;
use super::read_small_file;

/// Largest number of accounts that stay open, if that is within a third of the files that this process may open. Each
/// takes a page of the kernel's memory. Those of further processes are opened for each read.
const MAX_OPEN_ACCOUNTS: usize = 1024;

/// Time on a processor, nanoseconds, and the number of times that the thread got one.
pub(super) type RunAccount = (u64, u64);

/// Parses `schedstat`; `None` where the kernel keeps no account.
pub fn parse_account(text: &[u8]) -> Option<RunAccount> {
    let mut words = WordIter::new(text.trim_ascii_end());
    let (time, _waited, times) = (words.next_number()??, words.next_number()??, words.next_number()??);
    (times > 0).then_some((time, times))
}

/// Number of accounts that may stay open.
pub(super) fn max_open_accounts() -> usize {
    if !has_many_descriptors() {
        return 0;
    }
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    limit.map_or(MAX_OPEN_ACCOUNTS, |limit| {
        usize::try_from(limit / 3).unwrap_or(MAX_OPEN_ACCOUNTS).min(MAX_OPEN_ACCOUNTS)
    })
}

/// Reads the account of the process with this folder in `/proc`, through its open file where there is one.
pub(super) fn read_account(open_file: Option<&File>, folder: &Path, text: &mut [u8]) -> Option<RunAccount> {
    let length = match open_file {
        // an open file never returns the data of another process with the same number
        Some(file) => watch_read(folder, || file.read_at(text, 0)).ok()?,
        None => read_small_file(&folder.join("schedstat"), text).ok()?,
    };
    parse_account(&text[..length])
}

/// Returns true if the account covers all activity of the process, which has one thread, and that thread slept.
pub(super) fn can_rest(stat: &ProcessStat) -> bool {
    stat.threads == 1 && matches!(stat.state, b'S' | b'I' | b'T' | b'Z')
}

/// Rate of getting a processor from which on a process does something, although it uses hardly any time: one that waits
/// for a disk gets one after each request. Ours; daemons that only look around do so once or twice a second.
const MIN_BUSY_RUNS_PER_S: f64 = 4.0;

/// Returns true if the account shows that the process ran often since the last scan.
pub(super) fn runs_often(before: Option<RunAccount>, now: Option<RunAccount>, elapsed_s: f64) -> bool {
    before
        .zip(now)
        .is_some_and(|((_, before), (_, now))| now.saturating_sub(before) as f64 >= MIN_BUSY_RUNS_PER_S * elapsed_s)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_of_zeros_is_none() {
        assert_eq!(parse_account(b"287830 12 3\n"), Some((287_830, 3)));
        for none in [&b"0 0 0\n"[..], b"", b"1 2\n", b"1 x 3\n", b"-1 2 3\n"] {
            assert_eq!(parse_account(none), None);
        }
    }

    #[test]
    fn only_one_sleeping_thread_can_rest() {
        let stat = |state, threads| ProcessStat { state, threads, ..ProcessStat::default() };
        assert!([b'S', b'I', b'T', b'Z'].iter().all(|state| can_rest(&stat(*state, 1))));
        assert!(![b'R', b'D', b'X', b't'].iter().any(|state| can_rest(&stat(*state, 1))));
        assert!(!can_rest(&stat(b'S', 2)) && !can_rest(&stat(b'S', 0)));
    }

    /// Checks the assumption of this module on the running kernel.
    #[test]
    fn the_account_of_a_process_moves_whenever_it_ran() {
        use std::io::{BufRead, BufReader, Write};
        use std::process::{Command, Stdio};
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (mut input, mut output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let folder = Path::new("/proc").join(child.id().to_string());
        let (mut text, mut line) = ([0; 4096], String::new());
        let mut rested = None;
        for _ in 0..10 {
            // waits until it sleeps in its read, as a look finds it
            let before = loop {
                // one that is about to sleep and is woken before it does goes on, and its time is counted by the next
                // tick of the scheduler: looks are further apart than those
                std::thread::park_timeout(std::time::Duration::from_millis(10));
                let Some(runs) = read_account(None, &folder, &mut text) else {
                    drop(input);
                    child.wait().unwrap();
                    return eprintln!("skipped: no account here");
                };
                let length = read_small_file(&folder.join("stat"), &mut text).unwrap();
                if super::super::parse_stat(&text[..length]).is_some_and(|stat| can_rest(&stat)) {
                    break runs;
                }
            };
            assert_ne!(rested, Some(before), "it has answered since");
            rested = Some(before);
            input.write_all(b"x\n").unwrap();
            output.read_line(&mut line).unwrap();
        }
        drop(input);
        child.wait().unwrap();
        assert_eq!(read_account(None, &folder, &mut text), None, "it has ended");
    }
}

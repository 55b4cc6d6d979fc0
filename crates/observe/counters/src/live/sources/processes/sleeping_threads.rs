//! Kernel functions in which threads sleep, by program. Many threads of one program in `futex_wait_queue` may wait for
//! one lock, in `unix_stream_read` or `sk_wait_data` for a peer. Idle threads sleep there too, so this is a hint for
//! further analysis, not evidence by itself.

use std::collections::HashMap;
use std::path::Path;

use crate::live::watched_read::list_folder;
use diskwright_base::SleepRow;

use super::run_accounts::RunAccount;
use super::{ProcessState, read_small_file};

/// Largest number of threads that are examined.
const MAX_THREADS: usize = 512;
/// Largest number of threads of one process that are examined.
const MAX_THREADS_PER_PROCESS: usize = 64;
/// Largest number of rows that are reported.
const MAX_ROWS: usize = 12;

/// Function in which the only thread of a process sleeps, and its account before that was read: while the account is
/// unchanged, the thread still sleeps there.
#[derive(Debug)]
pub(super) struct SleepPlace {
    run_account: RunAccount,
    function: Box<str>,
}

/// Returns sleeping threads by program and function; processes that were active in this scan are examined first.
/// `sampling_process` is the process for which this one reads; `text` is a buffer.
pub(super) fn sleep_rows(
    proc: &Path,
    sampling_process: Option<u32>,
    known: &mut HashMap<u32, ProcessState>,
    text: &mut [u8],
) -> Vec<SleepRow> {
    // the threads of this process wait for each other, which is not a property of the machine
    let sampler_pids = [Some(std::process::id()), sampling_process];
    let examined =
        known.iter_mut().filter(|(pid, state)| !state.stat.is_kernel_thread() && !sampler_pids.contains(&Some(**pid)));
    let mut examined: Vec<(u32, &mut ProcessState)> = examined.map(|(pid, state)| (*pid, state)).collect();
    examined.sort_by_key(|(pid, state)| (std::cmp::Reverse(state.used_ticks), *pid));
    let mut counts: HashMap<(&[u8], Box<str>), u32> = HashMap::new();
    let mut threads_left = MAX_THREADS;
    for (pid, state) in examined {
        debug_assert!(threads_left > 0, "no thread is examined beyond the limit");
        let ProcessState { stat, run_account, sleep_place, .. } = state;
        let mut count = |function: &str| {
            if !function.is_empty() && function != "0" {
                *counts.entry((&stat.name, function.into())).or_default() += 1;
            }
        };
        if stat.threads == 1 {
            // most processes: no folder has to be listed for them
            threads_left -= 1;
            match sleep_place.as_ref().filter(|place| *run_account == Some(place.run_account)) {
                Some(place) => count(&place.function),
                None => {
                    let function = read_function(&proc.join(pid.to_string()).join("wchan"), text);
                    count(&function);
                    *sleep_place = run_account.map(|run_account| SleepPlace { run_account, function: function.into() });
                }
            }
        } else {
            let tasks = list_folder(&proc.join(pid.to_string()).join("task"));
            for task in tasks.take(MAX_THREADS_PER_PROCESS.min(threads_left)) {
                threads_left -= 1;
                count(&read_function(&task.path().join("wchan"), text));
            }
        }
        if threads_left == 0 {
            break;
        }
    }
    let name = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
    let row = |((program, waits_in), threads): ((&[u8], Box<str>), u32)| SleepRow {
        name: name(program),
        waits_in: waits_in.into(),
        threads,
    };
    let mut rows: Vec<SleepRow> = counts.into_iter().map(row).collect();
    rows.sort_by(|a, b| (b.threads, &a.name, &a.waits_in).cmp(&(a.threads, &b.name, &b.waits_in)));
    rows.truncate(MAX_ROWS);
    rows
}

/// Reads the function from a `wchan` file; empty where it shows none.
fn read_function(file: &Path, text: &mut [u8]) -> String {
    let length = read_small_file(file, text).unwrap_or(0);
    String::from_utf8_lossy(&text[..length]).trim().to_owned()
}

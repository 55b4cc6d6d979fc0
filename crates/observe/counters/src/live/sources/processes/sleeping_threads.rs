//! Kernel functions in which threads sleep, by program. Many threads of one
//! program in `futex_wait_queue` may wait for one lock, in `unix_stream_read` or
//! `sk_wait_data` for a peer. Idle threads sleep there too, so this is a hint
//! for further analysis, not evidence by itself.

use std::collections::HashMap;
use std::path::Path;

use crate::live::watched_read::list_folder;
use diskwright_base::SleepRow;

use super::run_accounts::RunAccount;
use super::{ProcessState, read_small_file};

/// Most threads that are examined, of all processes and of one.
const MAX_THREADS: usize = 512;
const MAX_THREADS_PER_PROCESS: usize = 64;
/// Most rows that are reported.
const MAX_ROWS: usize = 12;

/// Function in which the only thread of a process slept, and its account before that: it sleeps there until it runs.
#[derive(Debug)]
pub(super) struct SleepPlace {
    run_account: RunAccount,
    function: Box<str>,
}

/// Returns sleeping threads by program and function; processes that were active in this scan are examined first.
/// `sampling_process` is the one for which this process reads; `text` is a buffer for reading.
pub(super) fn sleep_rows(
    proc: &Path,
    sampling_process: Option<u32>,
    known: &mut HashMap<u32, ProcessState>,
    text: &mut [u8],
) -> Vec<SleepRow> {
    // the threads of this process wait for each other, which is not a property of the machine
    let own = [Some(std::process::id()), sampling_process];
    let examined =
        known.iter_mut().filter(|(pid, state)| !state.stat.is_kernel_thread() && !own.contains(&Some(**pid)));
    let mut examined: Vec<(u32, &mut ProcessState)> = examined.map(|(pid, state)| (*pid, state)).collect();
    examined.sort_by_key(|(pid, state)| (std::cmp::Reverse(state.used_ticks), *pid));
    let mut counts: HashMap<(&[u8], Box<str>), u32> = HashMap::new();
    let mut left = MAX_THREADS;
    for (pid, state) in examined {
        debug_assert!(left > 0, "no thread is examined beyond the limit");
        let ProcessState { stat, run_account: runs, sleep_place: place, .. } = state;
        let mut count = |function: &str| {
            if !function.is_empty() && function != "0" {
                *counts.entry((&stat.name, function.into())).or_default() += 1;
            }
        };
        if stat.threads == 1 {
            // most processes: no folder has to be listed for them
            left -= 1;
            match place.as_ref().filter(|place| *runs == Some(place.run_account)) {
                Some(place) => count(&place.function),
                None => {
                    let function = read_function(&proc.join(pid.to_string()).join("wchan"), text);
                    count(&function);
                    *place = runs.map(|since| SleepPlace { run_account: since, function: function.into() });
                }
            }
        } else {
            let tasks = list_folder(&proc.join(pid.to_string()).join("task"));
            for task in tasks.take(MAX_THREADS_PER_PROCESS.min(left)) {
                left -= 1;
                count(&read_function(&task.path().join("wchan"), text));
            }
        }
        if left == 0 {
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

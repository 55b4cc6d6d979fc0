//! Where threads sleep: the kernel's function, by program. Many threads of one
//! program in `futex_wait_queue` may wait for one lock, in `unix_stream_read` or
//! `sk_wait_data` for a peer. Idle threads sleep there too, so this is a hint
//! where to look and no evidence by itself.

use std::collections::HashMap;
use std::path::Path;

use diskwright_base::SleepRow;

use super::read_small;
use super::table::ProcessInterval;

/// Threads that are looked at, of all processes and of one.
const THREADS: usize = 512;
const OF_ONE: usize = 64;
/// Rows that are told.
const ROWS: usize = 12;

/// Sleeping threads by program and function; processes that did something at this look come first.
/// `text` is room to read into.
pub(super) fn rows(proc: &Path, spans: &[ProcessInterval], text: &mut [u8]) -> Vec<SleepRow> {
    // who looks waits for its own threads, which tells nothing of the machine
    let own = std::process::id();
    let mut spans: Vec<&ProcessInterval> = spans.iter().filter(|s| !s.now.is_kernel_thread() && s.pid != own).collect();
    spans.sort_by_key(|s| (std::cmp::Reverse(s.used()), s.pid));
    let mut counts: HashMap<(String, String), u32> = HashMap::new();
    let mut left = THREADS;
    for span in spans {
        let folder = proc.join(span.pid.to_string());
        let name = String::from_utf8_lossy(&span.now.name);
        let mut count = |file: &Path, left: &mut usize| {
            *left -= 1;
            let function = read_small(file, text).map(|length| String::from_utf8_lossy(&text[..length]).into_owned());
            let function = function.map(|function| function.trim().to_owned()).unwrap_or_default();
            if !function.is_empty() && function != "0" {
                *counts.entry((name.clone().into_owned(), function)).or_default() += 1;
            }
        };
        if span.now.threads == 1 {
            // most processes: no folder has to be listed for them
            count(&folder.join("wchan"), &mut left);
        } else {
            let tasks = std::fs::read_dir(folder.join("task")).into_iter().flatten().flatten();
            tasks.take(OF_ONE.min(left)).for_each(|task| count(&task.path().join("wchan"), &mut left));
        }
        if left == 0 {
            break;
        }
    }
    let row = |((name, waits_in), threads)| SleepRow { name, waits_in, threads };
    let mut rows: Vec<SleepRow> = counts.into_iter().map(row).collect();
    rows.sort_by(|a, b| (b.threads, &a.name, &a.waits_in).cmp(&(a.threads, &b.name, &b.waits_in)));
    rows.truncate(ROWS);
    rows
}

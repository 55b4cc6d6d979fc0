//! Where threads sleep: the kernel's function, by program. Many threads of one
//! program in `futex_wait_queue` may wait for one lock, in `unix_stream_read` or
//! `sk_wait_data` for a peer. Idle threads sleep there too, so this is a hint
//! where to look and no evidence by itself.

use std::collections::HashMap;
use std::path::Path;

use diskwright_base::SleepRow;

use crate::live::held::read_text;

use super::table::ProcessInterval;

/// Threads that are looked at, of all processes and of one.
const THREADS: usize = 512;
const OF_ONE: usize = 64;
/// Rows that are told.
const ROWS: usize = 12;

/// Sleeping threads by program and function; processes that did something at this look come first.
pub(super) fn rows(proc: &Path, spans: &[ProcessInterval]) -> Vec<SleepRow> {
    // who looks waits for its own threads, which tells nothing of the machine
    let own = std::process::id();
    let mut spans: Vec<&ProcessInterval> = spans.iter().filter(|s| !s.now.is_kernel_thread() && s.pid != own).collect();
    spans.sort_by_key(|s| (std::cmp::Reverse(s.used()), s.pid));
    let mut counts: HashMap<(String, String), u32> = HashMap::new();
    let mut left = THREADS;
    for span in spans {
        let Ok(tasks) = std::fs::read_dir(proc.join(span.pid.to_string()).join("task")) else { continue };
        let name = String::from_utf8_lossy(&span.now.name);
        for task in tasks.flatten().take(OF_ONE.min(left)) {
            left -= 1;
            let function = read_text(&task.path().join("wchan")).filter(|f| f != "0" && !f.is_empty());
            if let Some(function) = function {
                *counts.entry((name.clone().into_owned(), function)).or_default() += 1;
            }
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

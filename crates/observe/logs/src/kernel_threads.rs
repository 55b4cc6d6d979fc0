//! Threads of the kernel among the processes that a tool shows. What they do tells what the machine lacks: kswapd works
//! where memory is short, ksoftirqd where interrupts are too many, a thread of md where an array computes parity.

use diskwright_base::counter_ids::system;
use diskwright_base::kernel_threads::is_reclaim_thread;

use crate::level_row::LevelRow;

/// What a thread of the kernel is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ThreadKind {
    /// Frees memory or arranges it.
    Reclaim,
    /// Serves interrupts that were put off.
    Interrupts,
    /// Computes parity, encrypts, or compresses.
    Storage,
    /// Checks or rebuilds an array.
    Resync,
    /// Writes back or commits.
    Flusher,
}

/// Beginnings of the names of threads, but for those that reclaim memory. A worker is named for what it does behind a
/// plus sign or a dash: `kworker/u16:3+flush-8:0`, `kworker/u16:3-kcryptd/254:0`.
const NAMES: [(&str, ThreadKind); 20] = [
    ("ksoftirqd", ThreadKind::Interrupts),
    ("irq/", ThreadKind::Interrupts),
    ("kcryptd", ThreadKind::Storage),
    ("dmcrypt_write", ThreadKind::Storage),
    ("raid5wq", ThreadKind::Storage),
    ("z_wr_iss", ThreadKind::Storage),
    ("z_wr_int", ThreadKind::Storage),
    ("jbd2/", ThreadKind::Flusher),
    ("kjournald", ThreadKind::Flusher),
    ("xfsaild", ThreadKind::Flusher),
    ("xfssyncd", ThreadKind::Flusher),
    ("xfs-cil", ThreadKind::Flusher),
    ("flush-", ThreadKind::Flusher),
    ("wb_workfn", ThreadKind::Flusher),
    ("writeback", ThreadKind::Flusher),
    ("pdflush", ThreadKind::Flusher),
    ("kdmflush", ThreadKind::Flusher),
    ("kupdated", ThreadKind::Flusher),
    ("btrfs-transacti", ThreadKind::Flusher),
    ("txg_sync", ThreadKind::Flusher),
];

/// Returns what the thread of this name is for; `None` for all others.
fn thread_kind(name: &str) -> Option<ThreadKind> {
    let name = name.trim_start_matches('[').trim_end_matches(']');
    let work = match name.strip_prefix("kworker/") {
        Some(worker) => worker.split_once(['+', '-'])?.1,
        None => name,
    };
    if let Some((number, work)) = name.strip_prefix("md").and_then(|rest| rest.split_once('_')) {
        let is_array = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
        return match work {
            _ if !is_array => None,
            "resync" | "reshape" | "recovery" => Some(ThreadKind::Resync),
            _ => work.starts_with("raid").then_some(ThreadKind::Storage),
        };
    }
    if is_reclaim_thread(work) {
        return Some(ThreadKind::Reclaim);
    }
    NAMES.iter().find(|(start, _)| work.starts_with(start)).map(|(_, kind)| *kind)
}

/// True for a thread that writes back or commits: one that waits, waits for a disk.
pub(crate) fn is_flusher(name: &str) -> bool {
    thread_kind(name) == Some(ThreadKind::Flusher)
}

/// Sums over the threads of a tick.
#[derive(Clone, Copy, Debug, Default)]
struct ThreadSums {
    reclaim_processors: f64,
    busiest_interrupt: f64,
    busiest_storage: f64,
    resyncs: u32,
    blocked_flushers: u32,
}

/// The kernel's threads of the tick that is being read.
#[derive(Debug, Default)]
pub(crate) struct KernelThreads {
    sums: ThreadSums,
    /// Kinds that were seen in this log. Of the others a list of the busiest processes says nothing.
    seen: Vec<ThreadKind>,
}

impl KernelThreads {
    /// Adds a process of the tick: the part of a processor that it uses, and whether it is in uninterruptible sleep.
    pub fn add_process(&mut self, name: &str, processor: f64, is_blocked: bool) {
        let Some(kind) = thread_kind(name) else { return };
        if !self.seen.contains(&kind) {
            self.seen.push(kind);
        }
        let sums = &mut self.sums;
        match kind {
            ThreadKind::Reclaim => sums.reclaim_processors += processor,
            ThreadKind::Interrupts => sums.busiest_interrupt = sums.busiest_interrupt.max(processor),
            ThreadKind::Storage => sums.busiest_storage = sums.busiest_storage.max(processor),
            ThreadKind::Resync => sums.resyncs += u32::from(processor > 0.0 || is_blocked),
            ThreadKind::Flusher => sums.blocked_flushers += u32::from(is_blocked),
        }
    }

    /// Puts the counters of the tick into its row, and begins another tick.
    pub fn put_values(&mut self, row: &mut LevelRow) {
        let sums = std::mem::take(&mut self.sums);
        for kind in &self.seen {
            let (counter, value) = match kind {
                ThreadKind::Reclaim => (system::RECLAIM_PROCESSORS, sums.reclaim_processors),
                ThreadKind::Interrupts => (system::INTERRUPT_THREAD, sums.busiest_interrupt),
                ThreadKind::Storage => (system::STORAGE_THREAD, sums.busiest_storage),
                ThreadKind::Resync => (system::RESYNC_THREADS, f64::from(sums.resyncs)),
                ThreadKind::Flusher => (system::BLOCKED_FLUSHERS, f64::from(sums.blocked_flushers)),
            };
            row.put_value(counter, "", value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_known_by_their_names() {
        for (name, kind) in [
            ("kswapd1", Some(ThreadKind::Reclaim)),
            ("[khugepaged]", Some(ThreadKind::Reclaim)),
            ("arc_prune", Some(ThreadKind::Reclaim)),
            ("ksoftirqd/11", Some(ThreadKind::Interrupts)),
            ("irq/128-nvme0q3", Some(ThreadKind::Interrupts)),
            ("md127_raid6", Some(ThreadKind::Storage)),
            ("md2_resync", Some(ThreadKind::Resync)),
            ("kworker/u64:5+flush-253:4", Some(ThreadKind::Flusher)),
            ("kworker/u8:1-kcryptd/254:2", Some(ThreadKind::Storage)),
            ("kworker/3:1H", None),
            ("kworker/2:0-events", None),
            ("jbd2/dm-3-8", Some(ThreadKind::Flusher)),
            ("md_backup", None),
            ("mdadm", None),
            ("flushd", None),
        ] {
            assert_eq!(thread_kind(name), kind, "{name}");
        }
    }

    #[test]
    fn a_kind_that_was_seen_once_is_zero_where_it_is_not_seen() {
        let (mut threads, mut row) = (KernelThreads::default(), LevelRow::default());
        threads.add_process("kswapd0", 0.9, false);
        threads.add_process("kcompactd0", 0.25, false);
        threads.put_values(&mut row);
        assert_eq!(row.counter_value(system::RECLAIM_PROCESSORS, ""), Some(1.15));
        assert_eq!(row.counter_value(system::INTERRUPT_THREAD, ""), None);
        row.clear();
        threads.put_values(&mut row);
        assert_eq!(row.counter_value(system::RECLAIM_PROCESSORS, ""), Some(0.0));
    }
}

//! Activity and waits of programs, for verdicts that blame nothing: the busiest, and those whose threads sleep for a
//! lock, a disk or a peer. Idle threads sleep in the same functions, so this suggests the next step and proves nothing.

use std::collections::BTreeMap;

use diskwright_base::units::format_value;
use diskwright_base::{ProcessTable, stable_task_name};

use crate::culprits::culprit::{ProgramActivity, Sleep};

/// Largest number of busiest programs.
const MAX_BUSIEST: usize = 2;
/// Largest number of waiting programs.
const MAX_WAITING: usize = 3;
/// Processor share from which a program counts as busy.
const MIN_BUSY_SHARE: f64 = 0.05;
/// Share of the time from which the wait of a program is listed although no table counted its sleeping threads. Our
/// choice.
const MIN_BLOCKED_SHARE: f64 = 0.05;
/// Processor share from which a program counts as active at all.
const MIN_ACTIVE_SHARE: f64 = 0.0005;
/// Largest number of pairs of program and function that are kept.
const MAX_KEYS: usize = 4096;
/// Largest number of sleeps listed for a program.
const MAX_SLEEPS: usize = 3;
/// Smallest share, of a processor or of the time, that a description mentions. Our choice.
const MIN_MENTIONED_SHARE: f64 = 0.01;
/// Processor share from which a program computes most of the time, so that its waits explain little.
const MIN_COMPUTING_SHARE: f64 = 0.5;

/// Kind of event that a thread sleeps for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum SleepKind {
    Lock,
    Disk,
    Network,
    Peer,
    Timer,
    Child,
    Events,
    Other,
}

/// Prefixes of kernel function names, by kind of sleep; the first match wins.
const KERNEL_FUNCTIONS: &[(SleepKind, &[&str])] = &[
    (
        SleepKind::Lock,
        &[
            "futex_",
            "__futex_",
            "do_futex",
            "rwsem_",
            "__mutex",
            "mutex_",
            "rt_mutex",
            "__rt_mutex",
            "percpu_rwsem",
            "fcntl_setlk",
            "posix_lock",
            "locks_lock",
            "flock_lock",
            "do_semtimedop",
            "__do_semtimedop",
            "__down",
        ],
    ),
    (
        SleepKind::Disk,
        &[
            "io_schedule",
            "folio_wait",
            "wait_on_page",
            "wait_on_buffer",
            "__wait_on_buffer",
            "blk_",
            "blkdev_",
            "submit_bio",
            "rq_qos",
            "wbt_",
            "jbd2_log_wait",
            "balance_dirty",
            "read_events",
            "do_io_getevents",
            "filemap_",
            "xlog_",
            "xfs_log",
            "wait_current_trans",
            "btrfs_",
            "__blkdev",
            "bio_",
            "wait_transaction",
        ],
    ),
    // a thread that waits for a connection is an idle server; the prefix `inet_` below matches it too
    (SleepKind::Events, &["inet_csk_accept"]),
    (
        SleepKind::Network,
        &[
            "sk_wait",
            "sk_stream",
            "__skb_wait",
            "skb_wait",
            "wait_for_more_packets",
            "inet_",
            "__inet_",
            "tcp_",
            "rpc_wait",
            "nfs_",
            "nfs4_",
            "cifs_",
            "smb2_",
            "wait_for_response",
        ],
    ),
    (SleepKind::Peer, &["pipe_", "anon_pipe_", "unix_", "fuse_", "request_wait_answer"]),
    (SleepKind::Timer, &["hrtimer_nanosleep", "do_nanosleep", "common_nsleep", "msleep", "timerfd", "alarm_timer"]),
    (SleepKind::Child, &["do_wait", "kernel_wait4"]),
    (
        SleepKind::Events,
        &[
            "ep_poll",
            "do_epoll",
            "poll_schedule",
            "do_select",
            "core_sys_select",
            "do_poll",
            "do_sys_poll",
            "io_cqring_wait",
            "inotify_",
            "signalfd",
            "eventfd",
            "do_sigtimedwait",
            "sigsuspend",
            "n_tty_read",
        ],
    ),
];

impl SleepKind {
    fn from_function(function: &str) -> SleepKind {
        let has_prefix = |(_, names): &&(SleepKind, &[&str])| names.iter().any(|name| function.starts_with(name));
        KERNEL_FUNCTIONS.iter().find(has_prefix).map_or(SleepKind::Other, |(kind, _)| *kind)
    }

    fn id(self) -> &'static str {
        match self {
            SleepKind::Lock => "lock",
            SleepKind::Disk => "disk",
            SleepKind::Network => "network",
            SleepKind::Peer => "peer",
            SleepKind::Timer => "timer",
            SleepKind::Child => "child",
            SleepKind::Events => "events",
            SleepKind::Other => "other",
        }
    }

    /// Phrase that follows "wait" or "waits".
    fn wait_phrase(self) -> &'static str {
        match self {
            SleepKind::Lock => "for a lock, or for work",
            SleepKind::Disk => "for a disk",
            SleepKind::Network => "for another machine",
            SleepKind::Peer => "for another process",
            SleepKind::Timer => "for a timer",
            SleepKind::Child => "for a child process",
            SleepKind::Events => "for events: requests, answers or timers",
            SleepKind::Other => "in the kernel",
        }
    }

    /// Next step of the investigation in words, and how to do it on Linux; `pid` is a process with such a wait.
    fn next_step(self, name: &str, pid: u32) -> (&'static str, String) {
        match self {
            SleepKind::Lock => (
                "find out who holds the lock",
                format!(
                    "`gdb -p {pid} -batch -ex 'thread apply all bt'`; in a database, query its lock table; idle worker \
                     threads sleep in the same place"
                ),
            ),
            SleepKind::Disk => {
                ("find out which files", format!("`ls -l /proc/{pid}/fd`, `strace -f -T -e trace=desc -p {pid}`"))
            }
            SleepKind::Network => {
                ("find the peer", format!("`ss -tnp | grep pid={pid}`, and look for the delay on that machine"))
            }
            SleepKind::Peer => {
                ("find the process at the other end", format!("`lsof +E -p {pid}`, and record what it does"))
            }
            SleepKind::Timer => {
                ("find out why it pauses", format!("`strace -f -r -p {pid}`; {name} may be configured to wait"))
            }
            SleepKind::Child => ("look at the children", format!("`ps --ppid {pid}`")),
            SleepKind::Events => (
                "find out what it waits for",
                format!("`strace -f -T -p {pid}` shows the calls and how long each took"),
            ),
            SleepKind::Other => ("find the call", format!("`cat /proc/{pid}/stack` (root), `strace -f -T -p {pid}`")),
        }
    }

    /// Sort key, the most telling kind first: waiting event loops are normal, waits for locks are not.
    fn sort_rank(self) -> u8 {
        match self {
            SleepKind::Lock | SleepKind::Disk | SleepKind::Network => 0,
            SleepKind::Peer | SleepKind::Timer => 1,
            SleepKind::Events | SleepKind::Child | SleepKind::Other => 2,
        }
    }
}

/// Sleeping threads of the process tables, summed over the window.
#[derive(Clone, Debug, Default)]
pub(crate) struct ThreadSleeps {
    /// Threads by program and function, summed over the tables.
    threads: BTreeMap<(String, String), u64>,
    /// Number of tables that list sleeping threads.
    tables: u64,
}

/// Activity of a program, from the process tables.
#[derive(Clone, Debug, Default)]
pub(crate) struct Activity {
    pub name: String,
    /// Id of the most active process.
    pub pid: u32,
    pub processes: u32,
    /// Processors used on average.
    pub processor: f64,
    /// Share of the time in uninterruptible sleep or waiting for block I/O.
    pub blocked: f64,
    pub waits_in: Option<String>,
}

impl ThreadSleeps {
    /// Adds a process table.
    pub fn add_table(&mut self, table: &ProcessTable) {
        if table.sleepers.is_empty() {
            return;
        }
        self.tables += 1;
        for row in &table.sleepers {
            let key = (stable_task_name(&row.name).to_owned(), row.waits_in.clone());
            if self.threads.len() < MAX_KEYS || self.threads.contains_key(&key) {
                *self.threads.entry(key).or_default() += u64::from(row.threads);
            }
        }
    }

    /// Describes the busiest programs, then those with the most telling waits; the next steps have commands of Linux if
    /// `has_commands`.
    pub fn describe_programs(&self, activities: &[Activity], has_commands: bool) -> Vec<ProgramActivity> {
        let mut busiest: Vec<&Activity> = activities.iter().filter(|a| a.processor >= MIN_BUSY_SHARE).collect();
        busiest.sort_by(|a, b| b.processor.total_cmp(&a.processor).then(a.pid.cmp(&b.pid)));
        busiest.truncate(MAX_BUSIEST);
        let mut waiting: Vec<(&Activity, Vec<Sleep>)> = activities
            .iter()
            .filter(|a| a.processor >= MIN_ACTIVE_SHARE || a.blocked > 0.0)
            .map(|a| (a, self.program_sleeps(a)))
            .collect();
        waiting.retain(|(_, sleeps)| !sleeps.is_empty());
        waiting.sort_by(|a, b| {
            let key = |(activity, sleeps): &(&Activity, Vec<Sleep>)| {
                let rank = SleepKind::from_function(&sleeps[0].waits_in).sort_rank();
                (rank, std::cmp::Reverse(sleeps[0].threads), activity.pid)
            };
            key(a).cmp(&key(b))
        });
        let mut described: Vec<ProgramActivity> =
            busiest.iter().map(|a| describe_program(a, self.program_sleeps(a), has_commands)).collect();
        let further = waiting.into_iter().filter(|(a, _)| !busiest.iter().any(|b| b.name == a.name));
        described.extend(
            further.take(MAX_WAITING).map(|(activity, sleeps)| describe_program(activity, sleeps, has_commands)),
        );
        described
    }

    /// Kernel functions in which a program's threads sleep on average, the most telling first.
    fn program_sleeps(&self, activity: &Activity) -> Vec<Sleep> {
        let mean = |threads: u64| (threads as f64 / self.tables as f64).round() as u32;
        let sleep = |function: &str, threads: u32| Sleep {
            kind: SleepKind::from_function(function).id().into(),
            waits_in: function.to_owned(),
            threads,
        };
        let program = stable_task_name(&activity.name);
        let of_program = self.threads.iter().filter(|((name, _), _)| *name == program);
        let mut sleeps: Vec<Sleep> = of_program
            .map(|((_, function), threads)| sleep(function, mean(*threads)))
            .filter(|s| s.threads > 0)
            .collect();
        // the function of an uninterruptible sleep is listed even where no table counted its threads
        if let Some(function) = activity.waits_in.as_ref().filter(|_| activity.blocked >= MIN_BLOCKED_SHARE)
            && !sleeps.iter().any(|s| s.waits_in == *function)
        {
            sleeps.push(sleep(function, 1));
        }
        sleeps.sort_by_key(|s| {
            (SleepKind::from_function(&s.waits_in).sort_rank(), std::cmp::Reverse(s.threads), s.waits_in.clone())
        });
        sleeps.truncate(MAX_SLEEPS);
        sleeps
    }
}

fn describe_program(activity: &Activity, sleeps: Vec<Sleep>, has_commands: bool) -> ProgramActivity {
    let mut parts = Vec::new();
    if activity.processor >= MIN_MENTIONED_SHARE {
        parts.push(format!("{} of a processor", format_value(activity.processor, "fraction")));
    }
    if activity.blocked >= MIN_MENTIONED_SHARE {
        parts.push(format!("blocked for {} of the time", format_value(activity.blocked, "fraction")));
    }
    for (index, sleep) in sleeps.iter().enumerate() {
        let Sleep { waits_in, threads, .. } = sleep;
        let threads_text = match (index, *threads) {
            (0, 1) => "1 thread waits ".to_owned(),
            (0, n) => format!("{n} threads wait "),
            (_, n) => format!("{n} "),
        };
        parts.push(format!("{threads_text}{} ({waits_in})", SleepKind::from_function(waits_in).wait_phrase()));
    }
    let together = if activity.processes > 1 { format!("{} processes: ", activity.processes) } else { String::new() };
    let (words, command) = match sleeps.first() {
        // a program that computes most of the time waits little
        Some(first) if activity.processor < MIN_COMPUTING_SHARE => {
            SleepKind::from_function(&first.waits_in).next_step(&activity.name, activity.pid)
        }
        _ => ("find out what it computes", format!("`perf top -p {}`", activity.pid)),
    };
    // some logs name programs without their ids, and a command for process 0 shows something else
    let next_step = if has_commands && activity.pid != 0 { format!("{words}: {command}") } else { words.to_owned() };
    ProgramActivity {
        name: activity.name.clone(),
        pid: activity.pid,
        processes: activity.processes,
        processor: activity.processor,
        blocked: activity.blocked,
        sleeps,
        description: together + &parts.join(", "),
        next_step,
    }
}

#[cfg(test)]
mod tests {
    use diskwright_base::SleepRow;

    use super::*;

    fn sleepers(rows: &[(&str, &str, u32)]) -> ProcessTable {
        let row = |(name, waits_in, threads): &(&str, &str, u32)| SleepRow {
            name: (*name).into(),
            waits_in: (*waits_in).into(),
            threads: *threads,
        };
        ProcessTable { elapsed_s: 10.0, sleepers: rows.iter().map(row).collect(), ..ProcessTable::default() }
    }

    fn activity(name: &str, pid: u32, processor: f64) -> Activity {
        Activity { name: name.into(), pid, processes: 1, processor, ..Activity::default() }
    }

    #[test]
    fn functions_of_several_kernels_have_a_kind() {
        for (function, kind) in [
            ("futex_wait_queue_me", "lock"),
            ("futex_do_wait", "lock"),
            ("sk_wait_data", "network"),
            ("anon_pipe_read", "peer"),
            ("request_wait_answer", "peer"),
            ("inet_csk_accept", "events"),
            ("inet_wait_for_connect", "network"),
            ("unix_stream_read_generic", "peer"),
            ("poll_schedule_timeout.constprop.0", "events"),
            ("folio_wait_bit_common", "disk"),
            ("hrtimer_nanosleep", "timer"),
            ("do_wait", "child"),
            ("something_new", "other"),
        ] {
            assert_eq!(SleepKind::from_function(function).id(), kind, "{function}");
        }
    }

    #[test]
    fn lock_waits_come_before_event_loops_and_idle_programs_are_left_out() {
        let mut waits = ThreadSleeps::default();
        let table = sleepers(&[("app", "futex_do_wait", 31), ("web", "ep_poll", 200), ("agent", "futex_do_wait", 9)]);
        waits.add_table(&table);
        waits.add_table(&table);
        let programs = waits
            .describe_programs(&[activity("web", 2, 0.004), activity("app", 1, 0.02), activity("agent", 3, 0.0)], true);
        let names: Vec<&str> = programs.iter().map(|p| p.name.as_str()).collect();
        assert_eq!(names, ["app", "web"]);
        assert_eq!(
            programs[0].description,
            "2 % of a processor, 31 threads wait for a lock, or for work (futex_do_wait)"
        );
        assert_eq!((programs[0].sleeps[0].kind.as_str(), programs[0].sleeps[0].threads), ("lock", 31));
        assert!(programs[0].next_step.contains("gdb -p 1 "), "{}", programs[0].next_step);
    }

    #[test]
    fn the_busiest_comes_first_and_is_told_once() {
        let mut waits = ThreadSleeps::default();
        waits.add_table(&sleepers(&[("app", "sk_wait_data", 1), ("db", "do_wait", 1)]));
        let programs = waits.describe_programs(&[activity("db", 2, 0.01), activity("app", 1, 0.7)], true);
        assert_eq!(programs.len(), 2);
        assert_eq!(programs[0].description, "70 % of a processor, 1 thread waits for another machine (sk_wait_data)");
        assert!(programs[0].next_step.contains("perf top -p 1"), "{}", programs[0].next_step);
        assert_eq!(programs[1].sleeps[0].kind, "child");
    }

    #[test]
    fn a_program_without_an_id_gets_no_command() {
        let waits = ThreadSleeps::default();
        let programs = waits.describe_programs(&[activity("sqlservr", 0, 0.7)], true);
        assert_eq!(programs[0].next_step, "find out what it computes");
    }
}

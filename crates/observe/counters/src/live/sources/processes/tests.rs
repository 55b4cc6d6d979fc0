//! Cases of the processes.

use diskwright_base::ProcessRow;

use super::*;
use crate::live::fake::{FakeMachine, FakeWatch};

struct Made {
    name: &'static str,
    state: char,
    user: u64,
    faults: u64,
    delay: u64,
    start: u64,
    flags: u64,
    threads: u64,
    priority: u64,
}

const MADE: Made = Made {
    name: "worker",
    state: 'S',
    user: 10,
    faults: 0,
    delay: 0,
    start: 50,
    flags: 0x40_0000,
    threads: 1,
    priority: 0,
};

fn put(machine: &FakeMachine, pid: u32, made: &Made) {
    machine.put_file(&format!("proc/{pid}/stat"), stat_line(pid, made));
}

fn stat_line(pid: u32, made: &Made) -> String {
    let Made { name, state, user, faults, delay, start, flags, threads, priority } = made;
    let rest = format!("0 0 0 0 0 0 0 0 0 0 0 0 0 17 0 {priority} 0");
    format!(
        "{pid} ({name}) {state} 1 1 1 0 -1 {flags} 0 0 {faults} 0 {user} 0 0 0 20 0 \
         {threads} 0 {start} 0 7 {rest} {delay}\n"
    )
}

fn io_text(requested: u64, read: u64) -> String {
    format!(
        "rchar: {requested}\nwchar: 0\nsyscr: 5\nsyscw: 0\nread_bytes: {read}\nwrite_bytes: 0\n\
         cancelled_write_bytes: 0\n"
    )
}

fn ordinary() -> FakeMachine {
    let machine = FakeMachine::new();
    machine.put_ordinary_files();
    machine
}

fn row(table: &ProcessTable, pid: u32) -> &ProcessRow {
    table.rows.iter().find(|r| r.pid == pid).unwrap()
}

#[test]
fn requested_bytes_and_disk_bytes_are_recorded_separately() {
    let machine = ordinary();
    put(&machine, 7, &MADE);
    machine.put_file("proc/7/io", io_text(1000, 0)).put_file("proc/7/cgroup", "0::/jobs\n");
    machine.put_file("proc/7/status", "VmSwap: 4 kB\n");
    let mut watch = machine.watch_default();
    watch.tick();
    assert!(watch.last_processes().is_none(), "one look tells nothing");
    put(&machine, 7, &Made { user: 60, faults: 20, delay: 250, ..MADE });
    machine.put_file("proc/7/io", io_text(5_001_000, 500_000));
    let table = watch.tick_after(5.0).last_processes().unwrap();
    let row = row(&table, 7);
    assert!((table.elapsed_s - 5.0).abs() < 1e-9);
    assert_eq!(row.requested_read_bytes_per_s, Some(1e6));
    assert_eq!(row.read_bytes_per_s, Some(1e5));
    assert_eq!(row.read_calls_per_s, Some(0.0));
    assert!((row.processor - 0.1).abs() < 1e-12);
    assert_eq!(row.major_faults_per_s, 4.0);
    assert_eq!(row.block_delay, Some(0.5));
    assert_eq!((row.cgroup.as_str(), row.swapped_bytes), ("/jobs", Some(4096.0)));
    assert_eq!(row.resident_bytes, 7.0 * rustix::param::page_size() as f64);
}

/// `stat` with a parent.
fn put_child(machine: &FakeMachine, pid: u32, parent: u32, user: u64) {
    let line = stat_line(pid, &Made { user, ..MADE }).replacen(" S 1 ", &format!(" S {parent} "), 1);
    machine.put_file(&format!("proc/{pid}/stat"), line);
}

#[test]
fn the_io_of_an_ended_child_is_not_counted_again_for_its_parent() {
    let machine = ordinary();
    for (pid, parent) in [(7, 1), (8, 7), (9, 8)] {
        put_child(&machine, pid, parent, 10);
        machine
            .put_file(&format!("proc/{pid}/io"), io_text(1000, 1000))
            .put_file(&format!("proc/{pid}/cgroup"), "0::/jobs\n");
    }
    let mut watch = machine.watch_default();
    watch.tick();
    put_child(&machine, 8, 7, 60);
    put_child(&machine, 9, 8, 60);
    machine
        .put_file("proc/8/io", io_text(10_001_000, 10_001_000))
        .put_file("proc/9/io", io_text(20_001_000, 20_001_000));
    let table = watch.tick_after(5.0).last_processes().unwrap();
    assert_eq!(row(&table, 8).read_bytes_per_s, Some(2e6));
    assert_eq!(row(&table, 9).read_bytes_per_s, Some(4e6));
    // both end, each after another megabyte; the shell waits for them and reads a megabyte itself
    for pid in [8, 9] {
        machine.remove(&format!("proc/{pid}"));
    }
    put_child(&machine, 7, 1, 20);
    // its account holds theirs, calls and all
    let calls = |text: String| text.replace("syscr: 5\n", "syscr: 50\n");
    machine.put_file("proc/7/io", calls(io_text(33_003_000, 33_003_000)));
    let table = watch.tick_after(5.0).last_processes().unwrap();
    // it rested at the previous scan, so this covers ten seconds
    assert_eq!(row(&table, 7).read_bytes_per_s, Some(3e5));
    // a child that was not waited for subtracts nothing
    put_child(&machine, 10, 7, 10);
    machine.put_file("proc/10/io", io_text(9_000_000, 9_000_000)).put_file("proc/10/cgroup", "0::/jobs\n");
    watch.tick_after(5.0);
    machine.remove("proc/10");
    put_child(&machine, 7, 1, 30);
    machine.put_file("proc/7/io", calls(io_text(34_003_000, 34_003_000)));
    let table = watch.tick_after(5.0).last_processes().unwrap();
    assert_eq!(row(&table, 7).read_bytes_per_s, Some(1e5));
}

#[test]
fn without_delay_accounting_the_wait_is_unknown() {
    let machine = ordinary();
    machine.put_file("proc/sys/kernel/task_delayacct", "0\n");
    put(&machine, 7, &MADE);
    let mut watch = machine.watch_default();
    watch.tick();
    put(&machine, 7, &Made { user: 20, ..MADE });
    assert_eq!(row(&watch.tick_after(5.0).last_processes().unwrap(), 7).block_delay, None);
    assert!(watch.has_note(Note::UNSEEN, "delay accounting is off"));
}

/// The account is on from the start there; the kernel may have been built or started without it.
#[test]
fn before_linux_5_14_a_wait_shows_that_it_is_counted() {
    for (delay, later, expected) in [(100, 350, Some(0.5)), (0, 0, None)] {
        let machine = ordinary();
        machine.remove("proc/sys/kernel/task_delayacct");
        put(&machine, 7, &Made { delay, ..MADE });
        let mut watch = machine.watch_default();
        watch.tick();
        put(&machine, 7, &Made { user: 20, delay: later, ..MADE });
        assert_eq!(row(&watch.tick_after(5.0).last_processes().unwrap(), 7).block_delay, expected);
        assert_eq!(watch.has_note(Note::UNSEEN, "no process shows a wait"), expected.is_none());
        assert!(!watch.has_note(Note::UNSEEN, "delay accounting is off"), "there is no such setting");
    }
}

#[test]
fn io_that_cannot_be_read_is_unknown_not_zero() {
    let machine = ordinary();
    put(&machine, 7, &MADE);
    let mut watch = machine.watch_default();
    watch.tick();
    put(&machine, 7, &Made { user: 20, ..MADE });
    let table = watch.tick_after(5.0).last_processes().unwrap();
    assert_eq!(row(&table, 7).read_bytes_per_s, None);
}

#[test]
fn a_reused_process_id_is_another_process() {
    let machine = ordinary();
    put(&machine, 7, &Made { user: 5000, start: 50, ..MADE });
    let mut watch = machine.watch_default();
    watch.tick();
    // began after the first scan, at 100 s after boot: all its activity is in this interval
    put(&machine, 7, &Made { user: 100, start: 10_200, ..MADE });
    // and this one is older than the first scan, which missed it
    put(&machine, 8, &Made { user: 100, start: 60, ..MADE });
    let table = watch.tick_after(5.0).last_processes().unwrap();
    assert!((row(&table, 7).processor - 0.2).abs() < 1e-12);
    assert_eq!(table.rows.len(), 1);
}

#[test]
fn blocked_processes_are_listed_with_their_kernel_function() {
    let machine = ordinary();
    put(&machine, 7, &Made { state: 'D', ..MADE });
    machine.put_file("proc/7/wchan", "io_schedule");
    // a database whose second thread waits
    let threads = Made { user: 11, threads: 2, ..MADE };
    put(&machine, 8, &Made { user: 10, ..threads });
    machine.put_file("proc/8/task/8/stat", stat_line(8, &MADE));
    machine
        .put_file("proc/8/task/9/stat", stat_line(9, &Made { state: 'D', ..MADE }))
        .put_file("proc/8/task/9/wchan", "0");
    let mut watch = machine.watch_default();
    watch.tick();
    put(&machine, 8, &threads);
    let table = watch.tick_after(5.0).last_processes().unwrap();
    assert_eq!((row(&table, 7).blocked_share, row(&table, 7).waits_in.as_deref()), (1.0, Some("io_schedule")));
    assert_eq!((row(&table, 8).blocked_share, row(&table, 8).waits_in.as_deref()), (1.0, None));
}

fn tables(watch: &FakeWatch) -> usize {
    watch.notes_of_kind(Note::PROCESSES).len()
}

#[test]
fn processes_are_scanned_at_once_when_tasks_wait() {
    let machine = ordinary();
    put(&machine, 7, &MADE);
    let mut watch = machine.watch_default();
    watch.tick().tick_after(0.2);
    assert_eq!(tables(&watch), 0);
    let waits = "some avg10=0.00 avg60=0.00 avg300=0.00 total=900000\nfull avg10=0.00 total=0\n";
    machine.put_file("proc/pressure/memory", waits);
    watch.tick_after(0.2);
    assert_eq!(tables(&watch), 0, "not more than once a second");
    let waits = waits.replace("900000", "2900000");
    machine.put_file("proc/pressure/memory", &waits);
    watch.tick_after(0.8);
    assert_eq!(tables(&watch), 1);
    watch.tick_after(1.2);
    assert_eq!(tables(&watch), 1, "the trouble is over");
    watch.tick_after(3.0);
    assert_eq!(tables(&watch), 2, "the slow beat");
}

#[test]
fn rows_are_bounded_and_the_busiest_stay() {
    let machine = ordinary();
    for pid in 1..=200 {
        put(&machine, pid, &MADE);
        machine.put_file(&format!("proc/{pid}/io"), io_text(0, 0));
    }
    let mut watch = machine.watch_default();
    watch.tick();
    for pid in 1..=200 {
        put(&machine, pid, &Made { user: 10 + u64::from(pid), ..MADE });
    }
    machine.put_file("proc/3/io", io_text(0, 9_000_000_000));
    let table = watch.tick_after(5.0).last_processes().unwrap();
    assert!(table.rows.len() < 60, "{}", table.rows.len());
    assert_eq!(table.rows[0].pid, 3);
    assert!(table.rows.iter().any(|r| r.pid == 200));
}

#[test]
fn the_absence_of_processes_is_noted() {
    let machine = ordinary();
    let mut watch = machine.watch_default();
    watch.tick().tick_after(5.0);
    assert!(watch.has_note(Note::UNSEEN, "no process can be seen"));
}

#[test]
fn the_io_of_a_seemingly_idle_process_is_read_periodically() {
    let machine = ordinary();
    put(&machine, 7, &MADE);
    machine.put_file("proc/7/io", io_text(0, 0));
    let mut watch = machine.watch_default();
    watch.tick();
    // throttled so hard that its processor time does not reach a hundredth
    machine.put_file("proc/7/io", io_text(0, 1_000_000));
    let mut seen = Vec::new();
    for _ in 0..IDLE_SCAN_INTERVAL {
        let table = watch.tick_after(5.0).last_processes().unwrap();
        seen.extend(table.rows.iter().map(|r| r.read_bytes_per_s));
    }
    assert_eq!(seen, [Some(1_000_000.0 / 25.0)], "over the time since it was last read");
}

/// One that waits for a disk takes no processor time to speak of, and sleeps at each scan where it waits for events.
#[test]
fn the_io_of_a_process_that_runs_often_is_read_at_each_scan() {
    let machine = ordinary();
    put(&machine, 7, &MADE);
    machine.put_file("proc/7/io", io_text(0, 0)).put_file("proc/7/schedstat", "5000000 0 100\n");
    let mut watch = machine.watch_default();
    watch.tick();
    let mut seen = Vec::new();
    for scan in 1..=3_u64 {
        machine.put_file("proc/7/io", io_text(0, scan * 1_000_000));
        machine.put_file("proc/7/schedstat", format!("{} 0 {}\n", 5_000_000 + scan * 1000, 100 + scan * 150));
        let table = watch.tick_after(5.0).last_processes().unwrap();
        seen.extend(table.rows.iter().map(|r| r.read_bytes_per_s));
    }
    assert_eq!(seen, [Some(200_000.0); 3]);
}

#[test]
fn lasting_trouble_does_not_cause_a_scan_every_second() {
    let machine = ordinary();
    put(&machine, 7, &MADE);
    machine.put_file("proc/stat", "cpu 1 1 1 1\nprocs_blocked 3\n");
    let mut watch = machine.watch_default();
    watch.tick();
    for _ in 0..600 {
        watch.tick_after(1.1);
    }
    // there are 120 slow ticks, and each allows one more scan
    let looks = tables(&watch);
    assert!((200..=275).contains(&looks), "{looks}");
}

/// A process of two threads with so much processor time, hundredths of a second.
fn put_two_threads(machine: &FakeMachine, first: u64, second: u64) {
    let two = Made { threads: 2, ..MADE };
    put(machine, 7, &Made { user: first + second, ..two });
    machine.put_file("proc/7/task/7/stat", stat_line(7, &Made { user: first, ..two }));
    machine.put_file("proc/7/task/9/stat", stat_line(9, &Made { user: second, name: "parser", ..two }));
}

#[test]
fn a_thread_that_always_runs_is_measured_at_each_tick_and_named() {
    let machine = ordinary();
    put_two_threads(&machine, 10, 0);
    let mut watch = machine.watch_default();
    watch.tick();
    put_two_threads(&machine, 60, 500);
    watch.tick_after(5.0);
    assert!(watch.find_value("system.busiest_thread", "").is_none(), "which of its threads did it is not known yet");
    put_two_threads(&machine, 70, 597);
    watch.tick_after(1.0);
    assert!((watch.value("system.busiest_thread", "") - 0.97).abs() < 1e-9);
    put_two_threads(&machine, 70, 697);
    watch.tick_after(1.0);
    assert!((watch.value("system.busiest_thread", "") - 1.0).abs() < 1e-9);
    put_two_threads(&machine, 80, 997);
    let table = watch.tick_after(3.0).last_processes().unwrap();
    let thread = row(&table, 7).busiest_thread.clone().unwrap();
    assert_eq!((thread.tid, thread.name.as_str()), (9, "parser"));
    assert!((thread.processor - 0.994).abs() < 1e-9, "{thread:?}");
}

#[test]
fn a_short_recording_has_the_busiest_thread_from_its_third_tick_on() {
    let machine = ordinary();
    put_two_threads(&machine, 10, 0);
    let mut watch = machine.watch_default();
    watch.tick();
    assert!(watch.find_value("system.busiest_thread", "").is_none());
    put_two_threads(&machine, 10, 98);
    assert!(watch.tick_after(1.0).last_processes().is_some(), "the second look comes soon");
    put_two_threads(&machine, 10, 197);
    watch.tick_after(1.0);
    assert!((watch.value("system.busiest_thread", "") - 0.99).abs() < 1e-9);
}

#[test]
fn many_half_busy_threads_are_not_one_busy_thread() {
    let machine = ordinary();
    put_two_threads(&machine, 0, 0);
    let mut watch = machine.watch_default();
    watch.tick();
    put_two_threads(&machine, 250, 250);
    watch.tick_after(5.0);
    put_two_threads(&machine, 300, 300);
    watch.tick_after(1.0);
    assert!((watch.value("system.busiest_thread", "") - 0.5).abs() < 1e-9);
}

#[test]
fn where_no_process_is_near_a_processor_the_busiest_bounds_its_threads() {
    let machine = ordinary();
    put(&machine, 7, &MADE);
    let mut watch = machine.watch_default();
    watch.tick();
    put(&machine, 7, &Made { user: 110, ..MADE });
    watch.tick_after(5.0).tick_after(1.0);
    assert!((watch.value("system.busiest_thread", "") - 0.2).abs() < 1e-9);
}

#[test]
fn processors_of_real_time_processes_are_counted_up_to_the_last_scan() {
    let machine = ordinary();
    put(&machine, 7, &Made { priority: 50, ..MADE });
    put(&machine, 8, &MADE);
    let mut watch = machine.watch_default();
    watch.tick();
    assert!(watch.find_value("system.realtime_processors", "").is_none(), "one look tells nothing");
    put(&machine, 7, &Made { user: 485, priority: 50, ..MADE });
    put(&machine, 8, &Made { user: 500, ..MADE });
    watch.tick_after(5.0).tick_after(1.0);
    assert!((watch.value("system.realtime_processors", "") - 0.95).abs() < 1e-9);
    // it has become an ordinary one
    put(&machine, 7, &Made { user: 980, ..MADE });
    watch.tick_after(5.0).tick_after(1.0);
    assert_eq!(watch.value("system.realtime_processors", ""), 0.0);
}

#[test]
fn real_time_threads_of_an_ordinary_process_count() {
    let machine = ordinary();
    let put_ticks = |first: u64, second: u64| {
        put_two_threads(&machine, first, second);
        let thread = Made { user: second, name: "audio", priority: 99, threads: 2, ..MADE };
        machine.put_file("proc/7/task/9/stat", stat_line(9, &thread));
    };
    put_ticks(0, 0);
    let mut watch = machine.watch_default();
    watch.tick();
    put_ticks(100, 500);
    watch.tick_after(5.0);
    put_ticks(120, 600);
    watch.tick_after(1.0);
    assert!((watch.value("system.realtime_processors", "") - 1.0).abs() < 1e-9);
}

#[test]
fn a_thread_that_ended_is_not_followed() {
    let machine = ordinary();
    put_two_threads(&machine, 0, 0);
    let mut watch = machine.watch_default();
    watch.tick();
    put_two_threads(&machine, 0, 500);
    watch.tick_after(5.0);
    put_two_threads(&machine, 0, 600);
    watch.tick_after(1.0);
    machine.remove("proc/7");
    watch.tick_after(1.0);
    assert!(watch.value("system.busiest_thread", "").is_nan());
}

#[test]
fn sleepers_are_counted_by_program_and_function() {
    let machine = ordinary();
    put(&machine, 7, &Made { name: "postgres", ..MADE });
    machine.put_file("proc/7/wchan", "futex_wait_queue");
    put(&machine, 8, &Made { name: "postgres", threads: 2, ..MADE });
    machine.put_file("proc/8/task/8/wchan", "futex_wait_queue").put_file("proc/8/task/80/wchan", "futex_wait_queue");
    put(&machine, 9, &Made { name: "sleep", ..MADE });
    machine.put_file("proc/9/wchan", "hrtimer_nanosleep");
    put(&machine, 10, &Made { name: "kworker", flags: 0x20_0000, ..MADE });
    machine.put_file("proc/10/wchan", "worker_thread");
    let mut watch = machine.watch_default();
    watch.tick();
    let table = watch.tick_after(5.0).last_processes().unwrap();
    let rows: Vec<_> = table.sleepers.iter().map(|s| (s.name.as_str(), s.waits_in.as_str(), s.threads)).collect();
    assert_eq!(rows, [("postgres", "futex_wait_queue", 3), ("sleep", "hrtimer_nanosleep", 1)]);
}

#[test]
fn after_the_first_scans_sleepers_are_scanned_every_ten_seconds() {
    let machine = ordinary();
    put(&machine, 7, &MADE);
    machine.put_file("proc/7/wchan", "futex_wait_queue");
    let mut watch = machine.watch_default();
    watch.tick();
    let has: Vec<bool> =
        (0..9).map(|_| !watch.tick_after(5.0).last_processes().expect("a table").sleepers.is_empty()).collect();
    assert_eq!(has, [true, true, true, true, true, false, true, false, true]);
}

/// A process, its I/O and its scheduler's account.
fn put_account(machine: &FakeMachine, made: &Made, read: u64, account: &str) {
    put(machine, 7, made);
    machine.put_file("proc/7/io", io_text(read, read)).put_file("proc/7/cgroup", "0::/jobs\n");
    machine.put_file("proc/7/schedstat", account);
}

#[test]
fn a_process_that_has_not_run_is_not_read_until_it_runs() {
    let machine = ordinary();
    put_account(&machine, &MADE, 1000, "500 0 3\n");
    let mut watch = machine.watch_default();
    watch.tick().tick_after(5.0);
    // no kernel shows this: it proves that the files are not read
    put_account(&machine, &Made { user: 60, ..MADE }, 2_001_000, "500 9 3\n");
    assert!(watch.tick_after(5.0).last_processes().unwrap().rows.is_empty());
    put_account(&machine, &Made { user: 60, ..MADE }, 2_001_000, "900 9 4\n");
    let table = watch.tick_after(5.0).last_processes().unwrap();
    assert!((row(&table, 7).processor - 0.1).abs() < 1e-12);
    assert_eq!(row(&table, 7).read_bytes_per_s, Some(4e5), "its I/O stood still up to the look before");
}

#[test]
fn a_process_that_may_have_run_unseen_is_read() {
    let blocked = Made { state: 'D', ..MADE };
    let threads = Made { threads: 2, ..MADE };
    let running = Made { state: 'R', ..MADE };
    for (before, account) in
        [(&MADE, "0 0 0\n"), (&MADE, ""), (&blocked, "500 0 3\n"), (&threads, "500 0 3\n"), (&running, "500 0 3\n")]
    {
        let machine = ordinary();
        put_account(&machine, before, 1000, account);
        let mut watch = machine.watch_default();
        watch.tick().tick_after(5.0);
        put_account(&machine, &Made { user: before.user + 50, ..MADE }, 1000, account);
        let table = watch.tick_after(5.0).last_processes().unwrap();
        assert!((row(&table, 7).processor - 0.1).abs() < 1e-12, "{} {account}", before.state);
    }
}

#[test]
fn deferred_io_of_a_resting_process_is_still_reported() {
    let machine = ordinary();
    put_account(&machine, &MADE, 0, "500 0 3\n");
    let mut watch = machine.watch_default();
    watch.tick();
    // it ran for less than a hundredth of a second, and never again
    put_account(&machine, &MADE, 1_000_000, "900 0 4\n");
    let mut seen = Vec::new();
    for _ in 0..IDLE_SCAN_INTERVAL * 2 {
        let table = watch.tick_after(5.0).last_processes().unwrap();
        seen.extend(table.rows.iter().map(|r| r.read_bytes_per_s));
    }
    assert_eq!(seen, [Some(1_000_000.0 / 25.0)], "over the time since it was last read");
}

#[test]
fn a_resting_childs_io_is_subtracted_from_its_new_parent() {
    let machine = ordinary();
    machine.put_file("proc/sys/kernel/task_delayacct", "0\n");
    let put_all = |pid: u32, parent: u32, user: u64, read: u64| {
        put_child(&machine, pid, parent, user);
        machine
            .put_file(&format!("proc/{pid}/io"), io_text(read, read))
            .put_file(&format!("proc/{pid}/cgroup"), "0::/jobs\n");
        machine.put_file(&format!("proc/{pid}/schedstat"), format!("{user} 0 {user}\n"));
    };
    put_all(1, 0, 10, 1000);
    put_all(7, 1, 10, 1000);
    put_all(8, 7, 10, 9_000_000);
    let mut watch = machine.watch_default();
    watch.tick().tick_after(5.0);
    machine.remove("proc/7");
    put_child(&machine, 8, 1, 10);
    watch.tick_after(5.0);
    machine.remove("proc/8");
    // its new parent waits for it, and reads a megabyte itself
    put_all(1, 0, 20, 1000 + 1000 + 9_000_000 + 1_000_000);
    let calls = io_text(10_002_000, 10_002_000).replace("syscr: 5\n", "syscr: 50\n");
    machine.put_file("proc/1/io", calls);
    let table = watch.tick_after(5.0).last_processes().unwrap();
    assert_eq!(row(&table, 1).read_bytes_per_s, Some(2e5));
}

#[test]
fn a_sleep_place_is_read_again_after_the_process_has_run() {
    let machine = ordinary();
    put_account(&machine, &MADE, 0, "500 0 3\n");
    machine.put_file("proc/7/wchan", "futex_wait_queue");
    let mut watch = machine.watch_default();
    watch.tick();
    let mut place = |account: &str, function: &str| {
        machine.put_file("proc/7/schedstat", account).put_file("proc/7/wchan", function);
        watch.tick_after(5.0).last_processes().unwrap().sleepers.remove(0).waits_in
    };
    assert_eq!(place("500 0 3\n", "futex_wait_queue"), "futex_wait_queue");
    assert_eq!(place("500 0 3\n", "left_alone"), "futex_wait_queue");
    assert_eq!(place("900 0 4\n", "pipe_read"), "pipe_read");
}

//! Output of small commands and parts of it, as people paste them.

use crate::text_log::{ReadLog, read_as_format};
use diskwright_base::{Note, ProcessTable};
use diskwright_logs::{LogOptions, TimeBasis};
use std::sync::Arc;

fn read_text(format: &str, text: &str) -> ReadLog {
    let read = read_as_format(format, text, &LogOptions::default());
    assert!(read.summary.is_ok(), "{text}: {:?}", read.summary.as_ref().err().map(ToString::to_string));
    read
}

fn assert_values(read: &ReadLog, wanted: &[(&str, &str, f64)]) {
    for (counter, instance, value) in wanted {
        let found = read.column_values(counter, instance);
        assert!(
            found.iter().any(|found| (found - value).abs() < 1e-6 * value.abs().max(1.0)),
            "{counter} {instance}: {found:?}"
        );
    }
}

fn processes(read: &ReadLog) -> ProcessTable {
    let note = read.notes.iter().find(|note| note.kind == Note::PROCESSES).expect("a table");
    Arc::unwrap_or_clone(note.read_processes().expect("a table"))
}

const CPU: &str = "%Cpu(s):  7.0 us,  3.0 sy,  0.0 ni, 11.0 id, 78.0 wa,  0.0 hi,  1.0 si,  0.0 st\n";
const MEMORY: &str = "KiB Mem :  4000000 total,   120000 free,  3500000 used,   380000 buff/cache\n";
const PROCESSES: &str = "  PID USER      PR  NI    VIRT    RES    SHR S  %CPU %MEM     TIME+ COMMAND\n\
                         \x20  71 root      20   0       0      0      0 D  88.2  0.0   9:31.07 kswapd1\n\
                         \x204410 app       20   0 9120440   1.2g   9120 D   6.0 31.0  88:12.40 worker --all\n";

#[test]
fn one_frame_of_top_is_read_whole_with_any_of_its_lines() {
    let first = "top - 05:12:40 up 3 days,  2:11,  2 users,  load average: 24.10, 19.50, 8.75\n";
    let tasks = "Tasks: 311 total,   2 running, 309 sleeping,   0 stopped,   0 zombie\n";
    for text in [
        [first, tasks, CPU, MEMORY, "\n", PROCESSES].concat(),
        [tasks, CPU, MEMORY, "\n", PROCESSES].concat(),
        [first, CPU, MEMORY, "\n", PROCESSES].concat(),
        [CPU, MEMORY, PROCESSES].concat(),
        [CPU, "\n", PROCESSES].concat(),
    ] {
        let read = read_text("top-text", &text);
        assert_eq!(read.ticks.len(), 1, "{text}");
        assert_eq!(read.ticks[0].1, 1.0);
        assert_values(&read, &[("processor.iowait", "_total", 0.78), ("system.blocked", "", 2.0)]);
        let table = processes(&read);
        assert_eq!((table.rows[0].name.as_str(), table.rows[0].processor), ("kswapd1", 0.882));
        assert_eq!(table.rows[1].blocked_share, 1.0);
        let warnings: Vec<&str> = read.notes.iter().filter(|n| n.kind == Note::WARNING).map(Note::text).collect();
        assert!(warnings.iter().any(|text| text.starts_with("a single frame of top shows a moment")), "{warnings:?}");
        assert!(read.skip_counts().iter().all(|(because, _)| !because.contains("a single report")));
    }
    let rows_only = PROCESSES.split_once('\n').unwrap().1;
    assert_eq!(processes(&read_text("top-text", rows_only)).rows.len(), 2);
    // a line of uptime below
    let read = read_text(
        "top-text",
        &[CPU, " 05:12:40 up 3 days,  2:11,  2 users,  load average: 24,10, 19,50, 8,75\n"].concat(),
    );
    assert_values(&read, &[("system.load_1", "", 24.1), ("processor.iowait", "_total", 0.78)]);
}

#[test]
fn lines_for_each_processor_keep_their_own_shares() {
    let busy = "%Cpu0  :  0.0 us,  4.0 sy,  0.0 ni,  0.0 id,  0.0 wa,  0.0 hi, 96.0 si,  0.0 st\n";
    let idle = "%Cpu1  :  0.0 us,  0.0 sy,  0.0 ni,100.0 id,  0.0 wa,  0.0 hi,  0.0 si,  0.0 st\n";
    let cut = "%Cpu2  :  0.0 us,  0.0 sy,  0.0 ni,100.0 id,  0.0 wa,  0.0 hi,  0.0 si,  0.0 s\n";
    let read = read_text("top-text", &[busy, idle, cut].concat());
    assert_values(&read, &[("processor.softirq", "cpu0", 0.96), ("processor.idle", "cpu2", 1.0)]);
    assert_values(&read, &[("processor.idle", "_total", 2.0 / 3.0)]);
    let router = "Mem: 60000K used, 4000K free, 10K shrd, 200K buff, 9000K cached\n\
                  CPU:  12% usr  80% sys   0% nic   8% idle   0% io   0% irq   0% sirq\n\
                  Load average: 3.20 2.10 1.00 2/88 4120\n  PID  PPID USER     STAT   VSZ %VSZ CPU %CPU COMMAND\n\
                  \x20 812     1 root     R     3100   5%   0  79% busyd -f\n";
    let read = read_text("top-text", router);
    assert_values(
        &read,
        &[
            ("processor.system", "_total", 0.8),
            ("system.load_5", "", 2.1),
            ("memory.cached_bytes", "", 9000.0 * 1024.0),
        ],
    );
    assert_eq!(processes(&read).rows[0].processor, 0.79);
}

#[test]
fn lines_of_processors_alone_are_frames() {
    let line = |idle: u32| format!("Cpu(s): {}%us,  3%sy,  0%ni, {idle}%id,  5%wa,  0%hi,  0%si,  0%st\n", 92 - idle);
    let read = read_text("top-text", &(line(20) + &line(30) + &line(40)));
    assert_eq!(read.ticks, [(1.0, 1.0), (2.0, 1.0)]);
    assert_eq!(read.column_values("processor.idle", "_total"), [0.3, 0.4]);
    assert_eq!(read.summary.unwrap().time_basis, TimeBasis::Reports);
}

#[test]
fn free_and_uptime_in_their_forms() {
    let new = "               total        used        free      shared  buff/cache   available\n\
               Mem:         8000000     6100000      400000       90000     1500000     1700000\n\
               Swap:        2000000      500000     1500000\n";
    let old = "             total       used       free     shared    buffers     cached\n\
               Mem:          7812       7400        412          0        110       1200\n\
               -/+ buffers/cache:       6090       1722\nSwap:         1953        488       1465\n";
    let human = "              total        used        free      shared  buff/cache   available\n\
                 Mem:          7.6Gi       5.8Gi       390Mi        88Mi       1.4Gi       1.6Gi\n\
                 Swap:         1.9Gi       488Mi       1.4Gi\n";
    for text in [new, old, human] {
        let read = read_text("snapshot-text", text);
        let level = |counter: &str| read.column_values(counter, "")[0];
        let share = level("memory.available_bytes") / level("memory.total_bytes");
        assert!((0.2..0.23).contains(&share), "{share} of {text}");
        assert!((7.5e9..8.5e9).contains(&level("memory.total_bytes")), "{text}");
        let swap = level("memory.swap_free_bytes") / level("memory.swap_total_bytes");
        assert!((0.73..0.76).contains(&swap), "{swap}");
    }
    assert_eq!(read_text("snapshot-text", &new.repeat(3)).ticks.len(), 3);
    let read = read_text("snapshot-text", &format!(" 10:00:01 up 9 days,  load average: 7.50, 6.00, 5.25\n{new}"));
    assert_values(&read, &[("system.load_1", "", 7.5), ("memory.free_bytes", "", 400_000.0 * 1024.0)]);
    assert_eq!(read.ticks.len(), 1);
}

#[test]
fn pressure_needs_the_name_of_its_file() {
    let lines =
        "some avg10=40.50 avg60=21.00 avg300=9.00 total=123456\nfull avg10=30.25 avg60=20.00 avg300=8.00 total=99999\n";
    for text in [
        format!("==> /proc/pressure/io <==\n{lines}"),
        format!("$ cat /proc/pressure/io\n{lines}"),
        lines.lines().map(|line| format!("/proc/pressure/io:{line}\n")).collect(),
    ] {
        let read = read_text("snapshot-text", &text);
        assert_values(&read, &[("pressure.io_some", "", 0.405), ("pressure.io_full", "", 0.3025)]);
    }
    let read = read_text("snapshot-text", &format!("==> /sys/fs/cgroup/app.slice/memory.pressure <==\n{lines}"));
    assert_values(&read, &[("cgroup.memory_full", "/app.slice", 0.3025)]);
}

#[test]
fn arrays_that_lack_members_or_work_in_the_background() {
    let text = "Personalities : [raid1] [raid6]\nmd3 : active raid6 sdk1[5] sdj1[4](F) sdi1[2] sdh1[1]\n\
                \x20     7813770240 blocks super 1.2 level 6, 512k chunk, algorithm 2 [5/3] [_UUU_]\n\
                \x20     [==>..................]  check = 11.2% (44210/390688) finish=90.0min speed=52000K/sec\n\
                \x20     bitmap: 2/30 pages [8KB], 65536KB chunk\n\nunused devices: <none>\n";
    let read = read_text("snapshot-text", text);
    assert_values(
        &read,
        &[
            ("array.missing", "md3", 2.0),
            ("array.degraded", "md3", 1.0),
            ("array.failed", "md3", 1.0),
            ("array.background", "md3", 1.0),
            ("array.sync_bytes_per_s", "md3", 52_000.0 * 1024.0),
        ],
    );
    let topology =
        read.notes.iter().find(|note| note.kind == Note::TOPOLOGY).expect("one").read_topology().expect("one");
    let md3 = topology.find_device("md3").expect("the array");
    assert_eq!((md3.below.len(), md3.missing, md3.background.as_deref()), (4, 2, Some("check")));
    assert_eq!(topology.disks_under("md3").len(), 4);
}

#[test]
fn totals_since_boot_show_shares() {
    let read = read_text("snapshot-text", "nr_periods 400\nnr_throttled 300\nthrottled_time 90000000000\n");
    assert_values(&read, &[("cgroup.cpu_throttled", "/", 0.75), ("cgroup.processors_throttled", "/", 2.25)]);
    let client = "Client rpc:\nConnectionless:\ncalls    badcalls retrans  timeouts\n40000    12       8000     3000\n";
    let read = read_text("snapshot-text", client);
    assert_values(&read, &[("network_filesystem.retransmission_fraction", "Connectionless", 0.2)]);
    let clock = "analyzing CPU 3:\n  driver: acpi-cpufreq\n  hardware limits: 800 MHz - 3.20 GHz\n  \
                 current CPU frequency: 800 MHz (asserted by call to hardware)\n";
    assert_values(&read_text("snapshot-text", clock), &[("processor.frequency_fraction", "cpu3", 0.25)]);
    let held = "analyzing CPU 0:\n  hardware limits: 1.00 GHz - 4.00 GHz\n  current policy: frequency should be within \
                1.00 GHz and 2.20 GHz.\n";
    assert_values(&read_text("snapshot-text", held), &[("processor.frequency_limit_fraction", "cpu0", 0.55)]);
    let client = "Client rpc:\nConnectionless:\ncalls    retrans  badxids\n50000    6000     500\n";
    let read = read_text("snapshot-text", client);
    assert_values(&read, &[("network_filesystem.duplicate_reply_fraction", "Connectionless", 0.01)]);
}

#[test]
fn nfsiostat_shows_the_queue_of_the_client() {
    let report = |operations: f64| {
        format!(
            "nas7:/vol mounted on /data:\n\n           ops/s       rpc bklog\n{operations:>16.3}           2.000\n\n\
             read:              ops/s            kB/s           kB/op         retrans    avg RTT (ms)    avg exe (ms)  \
             avg queue (ms)          errors\n                   0.000           0.000           0.000        0 (0.0%) \
             0.000           0.000           0.000        0 (0.0%)\n\
             write:             ops/s            kB/s           kB/op         retrans    avg RTT (ms)    avg exe (ms)  \
             avg queue (ms)          errors\n{operations:>26.3}         640.000          32.000        1 (5.0%) \
             2.000        1502.000        1500.000        0 (0.0%)\n"
        )
    };
    let read = read_text("nfsiostat-text", &report(20.0));
    assert_values(
        &read,
        &[
            ("network_filesystem.avg_queue_s", "/data", 1.5),
            ("network_filesystem.requests_queued", "/data", 30.0),
            ("network_filesystem.avg_write_round_trip_s", "/data", 0.002),
            ("network_filesystem.write_bytes_per_s", "/data", 640.0 * 1024.0),
            ("network_filesystem.retransmission_fraction", "/data", 0.05),
            ("network_filesystem.avg_backlog_length", "/data", 2.0),
        ],
    );
    let read = read_text("nfsiostat-text", &(report(900.0) + &report(20.0) + &report(22.0)));
    let operations = read.column_values("network_filesystem.operations_per_s", "/data");
    assert_eq!(operations[operations.len() - 2..], [20.0, 22.0]);
}

#[test]
fn zpool_iostat_shows_disks_below_pools() {
    let head = "              capacity     operations     bandwidth    total_wait     disk_wait\n\
                pool        alloc   free   read  write   read  write   read  write   read  write\n\
                ----------  -----  -----  -----  -----  -----  -----  -----  -----  -----  -----\n";
    let rows = "deep         1.5T   500G     40    300  1.50M  12.0M   60ms   90ms   50ms   80ms\n  \
                raidz1     1.5T   500G     40    300  1.50M  12.0M   60ms   90ms   50ms   80ms\n    \
                sdq           -      -     20    150   768K  6.00M   60ms   90ms   50ms   80ms\n    \
                sdr           -      -     20    150   768K  6.00M   60ms   90ms    5ms    8ms\n";
    let read = read_text("zpool-iostat", &format!("{head}{rows}"));
    assert_values(
        &read,
        &[
            ("physical_disk.avg_s_per_read", "sdq", 0.05),
            ("physical_disk.avg_s_per_write", "sdr", 0.008),
            ("physical_disk.read_bytes_per_s", "sdr", 768.0 * 1024.0),
            ("logical_disk.writes_per_s", "deep", 300.0),
            ("logical_disk.avg_s_per_write", "deep", 0.09),
        ],
    );
    assert_eq!(read_text("zpool-iostat", &format!("{head}{}", rows.repeat(4))).ticks.len(), 4);
}

#[test]
fn iotop_or_a_row_of_it_shows_who_waits() {
    let row = " 5120 be/4 pg          3.00 M/s  512.00 K/s  0.00 % 88.50 % postgres: vacuum worker\n";
    let whole = format!(
        "Total DISK READ :       3.00 M/s | Total DISK WRITE :     512.00 K/s\n\
         Actual DISK READ:       3.00 M/s | Actual DISK WRITE:       1.00 M/s\n    \
         TID  PRIO  USER     DISK READ  DISK WRITE  SWAPIN     IO>    COMMAND\n{row}"
    );
    for (text, written) in [(row, 0.5), (&whole, 1.0)] {
        let read = read_text("iotop-text", text);
        let mib = 1_048_576.0;
        assert_values(
            &read,
            &[("paging.block_in_bytes_per_s", "", 3.0 * mib), ("paging.block_out_bytes_per_s", "", written * mib)],
        );
        let table = processes(&read);
        let row = &table.rows[0];
        assert_eq!((row.name.as_str(), row.block_delay, row.user.as_deref()), ("postgres", Some(0.885), Some("pg")));
        assert_eq!(row.command_line.as_deref(), Some("postgres: vacuum worker"));
    }
    assert_eq!(read_text("iotop-text", &whole.repeat(3)).ticks.len(), 3);
}

#[test]
fn kernel_messages_are_counted_by_device() {
    let text = "[ 8812.114] ata7.00: exception Emask 0x0 SAct 0x0 SErr 0x0 action 0x6 frozen\n\
                [ 8812.115] ata7: hard resetting link\n[ 8813.900] usb 1-1: new device\n\
                Nov 20 08:11:02 host9 kernel: blk_update_request: I/O error, dev sdm, sector 81234\n\
                Nov 20 08:11:09 host9 kernel: INFO: task flushd:881 blocked for more than 120 seconds.\n\
                Nov 20 08:12:01 host9 kernel: Out of memory: Killed process 4411 (java) total-vm:1kB\n\
                Nov 20 08:12:05 host9 kernel: CPU3: Core temperature above threshold, cpu clock throttled (8)\n";
    let read = read_text("kernel-log", text);
    assert_values(
        &read,
        &[
            // what the driver wrote about one attempt
            ("physical_disk.kernel_messages", "ata7", 1.0),
            ("physical_disk.kernel_messages", "sdm", 1.0),
            // a task that hung once
            ("system.passed_troubles", "", 1.0),
            ("paging.oom_kills", "", 1.0),
            ("hardware.thermal_throttles", "processors", 1.0),
        ],
    );
}

#[test]
fn counters_of_windows_in_a_list_or_table() {
    let list = "| PhysicalDisk |\n2 E: |\n| Avg. Disk sec/Read |\n0.240 |\n| Disk Reads/sec |\n1,250.5 |\n\
                | SQLServer:Locks |\n| Waits |\n77 |\n";
    let table = "PhysicalDisk                0 C:        2 E:\n   Avg. Disk sec/Read     0.004       0.240\n   \
                 Disk Reads/sec           10.0        1250.5\n";
    let paths = "\\\\web4\\physicaldisk(2 e:)\\avg. disk sec/read :\n0.240\n\n\
                 \\\\web4\\physicaldisk(2 e:)\\disk reads/sec :\n1250.5\n";
    for text in [list, table, paths] {
        let read = read_text("snapshot-text", text);
        let disk = if text == paths { "2 e:" } else { "2 E:" };
        assert_values(
            &read,
            &[("physical_disk.avg_s_per_read", disk, 0.24), ("physical_disk.reads_per_s", disk, 1250.5)],
        );
        assert_eq!(read.ticks.len(), 1, "{text}");
    }
}

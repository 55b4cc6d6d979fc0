//! Facts that people paste: controllers, adapters, interrupts, totals since boot, and threads of the kernel in a list
//! of processes.

use crate::text_log::{ReadLog, read_as_format};
use diskwright_base::Note;
use diskwright_logs::LogOptions;

fn read_text(format: &str, text: &str) -> ReadLog {
    let read = read_as_format(format, text, &LogOptions::default());
    assert!(read.summary.is_ok(), "{text}: {:?}", read.summary.as_ref().err().map(ToString::to_string));
    read
}

/// Asserts the first value of a counter; `None` where it must have none.
fn assert_value(read: &ReadLog, counter: &str, instance: &str, wanted: Option<f64>) {
    let value = read.column_values(counter, instance).into_iter().find(|value| !value.is_nan());
    let is_same = match (value, wanted) {
        (Some(value), Some(wanted)) => (value - wanted).abs() < 1e-4 * wanted.abs().max(1.0),
        (value, wanted) => value.is_none() && wanted.is_none(),
    };
    assert!(is_same, "{counter} {instance}: {value:?}, not {wanted:?}");
}

const CACHE_OFF: &str = "controller.write_cache_off";
const BATTERY: &str = "controller.battery_failed";
const DEGRADED: &str = "controller.degraded_volumes";

#[test]
fn controllers_tell_whether_they_cache_writes() {
    let storcli = "Controller = 2\n\
                   Status = Success\n\
                   -----\n\
                   DG/VD TYPE  State Access Consist Cache Cac sCC Size Name\n\
                   -----\n\
                   0/0   RAID5 Dgrd  RW     No      NRWTD -   ON  5.4 TB vol\n\
                   1/1   RAID1 Optl  RW     No      NRWTD -   ON  1.0 TB os\n\
                   -----\n";
    let tw_cli = "Unit  UnitType  Status         %RCmpl  %V/I/M  Stripe  Size(GB)  Cache  AVrfy\n\
                  u1    RAID-10   REBUILDING     44%     -       64K     1862.6    OFF    ON\n";
    let lines = "=> ctrl slot=3 ld all show\n\
                   Smart Array P822 in Slot 3\n\
                   \x20  array A\n\
                   \x20     logicaldrive 1 (1.6 TB, RAID 6, OK)\n\
                   \x20     logicaldrive 2 (1.6 TB, RAID 6, Interim Recovery Mode)\n";
    for (text, name, is_off, is_failed, degraded) in [
        (
            "Default Cache Policy: WriteBack, ReadAhead\nCurrent Cache Policy: WriteThrough, ReadAhead\n",
            "0",
            Some(1.0),
            None,
            None,
        ),
        ("Cache Status: OK\nBattery/Capacitor Status: OK\n", "0", Some(0.0), Some(0.0), None),
        (
            "   Cache Status: Temporarily Disabled\n   Battery/Capacitor Status: Recharging\n",
            "0",
            Some(1.0),
            Some(1.0),
            None,
        ),
        (
            "Adapter 3 -- Virtual Drive Information:\nVirtual Drive: 0 (Target Id: 0)\nState : Degraded\n",
            "3",
            None,
            None,
            Some(1.0),
        ),
        (
            "BBU status for Adapter: 1\nBattery State : Optimal\n  Battery Replacement required : No\n",
            "1",
            None,
            Some(0.0),
            None,
        ),
        (storcli, "2", Some(1.0), None, Some(1.0)),
        (tw_cli, "0", Some(1.0), None, Some(1.0)),
        (lines, "3", None, None, Some(1.0)),
    ] {
        let read = read_text("snapshot-text", text);
        assert_value(&read, CACHE_OFF, name, is_off);
        assert_value(&read, BATTERY, name, is_failed);
        assert_value(&read, DEGRADED, name, degraded);
        let is_warned =
            read.notes.iter().any(|note| note.kind == Note::WARNING && note.text().contains("cache is off"));
        assert_eq!(is_warned, is_off == Some(1.0), "{text}");
    }
}

#[test]
fn adapters_tell_what_they_dropped() {
    let drops = "network.received_drop_fraction";
    let old = "eth5      Link encap:Ethernet  HWaddr 02:00:00:00:00:05\n\
                   \x20         RX packets:2000000 errors:0 dropped:4000 overruns:1000 frame:0\n\
                   \x20         TX packets:9 errors:0 dropped:0 overruns:0 carrier:0\n";
    let new = "enp7s0: flags=4163<UP,BROADCAST,RUNNING,MULTICAST>  mtu 1500\n\
                   \x20       inet 10.0.0.7  netmask 255.0.0.0\n\
                   \x20       RX packets 2000000  bytes 900 (900.0 B)\n\
                   \x20       RX errors 0  dropped 4000  overruns 0  frame 0\n";
    let ip = "4: ens9: <BROADCAST,UP> mtu 1500 qdisc mq state UP\n\
                   \x20   link/ether 02:00:00:00:00:09 brd ff:ff:ff:ff:ff:ff\n\
                   \x20   RX: bytes  packets  errors  dropped overrun mcast\n\
                   \x20   90012      2000000  0       4000    1000    0\n";
    for (text, name) in [(old, "eth5"), (new, "enp7s0"), (ip, "ens9")] {
        assert_value(&read_text("snapshot-text", text), drops, name, Some(0.002));
    }
    let ethtool = "# ethtool -S ens5\n\
                   NIC statistics:\n\
                   \x20    rx_packets: 4000000\n\
                   \x20    rx_missed_errors: 8000\n\
                   \x20    rx_dropped: 12\n\
                   \x20    bw_in_allowance_exceeded: 700\n\
                   \x20    pps_allowance_exceeded: 50\n";
    let read = read_text("snapshot-text", ethtool);
    assert_value(&read, drops, "ens5", Some(0.002));
    assert_value(&read, "network.allowance_exceeded", "ens5", Some(750.0));
    // of few packets a share means nothing
    let few = old.replace("2000000", "2000");
    assert_value(
        &read_text("snapshot-text", &(few + " 10:00:01 up 9 days,  load average: 1.0, 1.0, 1.0\n")),
        drops,
        "eth5",
        None,
    );
}

#[test]
fn interrupts_of_an_adapter_are_added_over_its_queues() {
    let table = "            CPU0       CPU1       CPU2       CPU3\n\
                   \x20 30:   90000000   10000000          0          0  PCI-MSI eth3-rx-0\n\
                   \x20 31:   60000000          0          0   40000000  PCI-MSI eth3-rx-1\n\
                   \x20 32:   91000000          0          0          0  PCI-MSI nvme0q1\n\
                   \x20NMI:          9          9          9          9   Non-maskable interrupts\n";
    let read = read_text("snapshot-text", table);
    assert_value(&read, "network.interrupt_queues", "eth3", Some(2.0));
    assert_value(&read, "network.interrupt_busiest_share", "eth3", Some(0.75));
    assert_value(&read, "network.interrupt_queues", "nvme0q1", None);
}

#[test]
fn one_dump_of_vmstat_tells_what_passed_through_swap() {
    let dump = "nr_free_pages 100000\n\
                   nr_active_anon 700000\n\
                   nr_inactive_file 200000\n\
                   pgpgin 900\npgfault 900\npgmajfault 9\n\
                   pgpgout 900\n\
                   pswpin 2500000\n\
                   pswpout 3000000\n\
                   numa_hit 750\n\
                   numa_miss 250\n";
    let read = read_text("proc-loop", dump);
    assert_value(&read, "memory.swapped_in_fraction", "", Some(2.5));
    assert_value(&read, "memory.swapped_out_fraction", "", Some(3.0));
    assert_value(&read, "memory.numa_miss_fraction", "", Some(0.25));
    // two dumps show what happens now
    let read = read_text("proc-loop", &dump.repeat(2));
    assert_value(&read, "memory.swapped_in_fraction", "", None);
}

#[test]
fn threads_of_the_kernel_are_told_from_programs() {
    let rows = "  PID USER      PR  NI    VIRT    RES    SHR S  %CPU %MEM     TIME+ COMMAND\n\
                   \x20  61 root      20   0       0      0      0 R  62.0  0.0   9:31.07 kswapd0\n\
                   \x20  66 root      39  19       0      0      0 R  30.0  0.0   9:31.07 khugepaged\n\
                   \x20 812 root      20   0    9120   4096   2048 S   9.0  0.0   0:31.07 kswapd-watch\n\
                   \x20 300 root      20   0       0      0      0 D   1.0  0.0   0:31.07 jbd2/sdh1-8\n\
                   \x20  16 root      20   0       0      0      0 R  55.0  0.0   0:31.07 ksoftirqd/1\n";
    let read = read_text("top-text", rows);
    assert_value(&read, "system.reclaim_processors", "", Some(0.92));
    assert_value(&read, "system.interrupt_thread", "", Some(0.55));
    assert_value(&read, "system.blocked_flushers", "", Some(1.0));
    assert_value(&read, "system.storage_thread", "", None);
}

#[test]
fn rates_and_seconds_of_windows_make_a_queue() {
    let list = "| PhysicalDisk |\n\
                   3 F: |\n\
                   | Avg. Disk sec/Read |\n\
                   0.050 |\n\
                   | Disk Reads/sec |\n\
                   80 |\n\
                   | Avg. Disk sec/Write |\n\
                   0.020 |\n\
                   | Disk Writes/sec |\n\
                   100 |\n";
    let read = read_text("snapshot-text", list);
    assert_value(&read, "physical_disk.avg_read_queue_length", "3 F:", Some(4.0));
    assert_value(&read, "physical_disk.avg_write_queue_length", "3 F:", Some(2.0));
}

#[test]
fn low_voltage_and_heat_lower_the_clock() {
    for (text, voltage, heat) in [
        ("throttled=0x50000\n", Some(1.0), Some(0.0)),
        ("temp=82.0'C\nthrottled=0x80008\n", Some(0.0), Some(1.0)),
        ("throttled=0x0\n", Some(0.0), Some(0.0)),
    ] {
        let read = read_text("snapshot-text", text);
        assert_value(&read, "hardware.under_voltages", "processors", voltage);
        assert_value(&read, "hardware.thermal_throttles", "processors", heat);
    }
}

#[test]
fn pools_of_zfs_show_lost_disks_and_what_they_rebuild() {
    let text = "  pool: depot\n state: DEGRADED\nstatus: One or more devices is being resilvered.\n\
                \x20       The pool goes on.\n\
                \x20 scan: resilver in progress since Tue Mar  5 10:00:00 2024\n    \
                120G scanned out of 8,00T at 2,50M/s, 900h to go\nconfig:\n\n\
                \tNAME        STATE     READ WRITE CKSUM\n\tdepot       DEGRADED     0     0     0\n\
                \t  raidz1-0  DEGRADED     0     0     0\n\t    sdt     ONLINE       0     0     0\n\
                \t    sdu     FAULTED     12     3     7  too many errors\n\
                \t    sdv     ONLINE       0     0     0  (resilvering)\n\nerrors: No known data errors\n";
    let read = read_text("snapshot-text", text);
    for (counter, value) in [
        ("array.degraded", 1.0),
        ("array.background", 1.0),
        ("array.members", 2.0),
        ("array.missing", 1.0),
        ("array.device_errors", 22.0),
        ("array.sync_bytes_per_s", 2.5 * 1_048_576.0),
    ] {
        assert_value(&read, counter, "depot", Some(value));
    }
    assert_value(&read, "physical_disk.io_errors", "sdu", Some(15.0));
    let healthy = "  pool: depot\n state: ONLINE\n  scan: scrub repaired 0B in 02:11:00\nconfig:\n\n\
                   \tNAME    STATE   READ WRITE CKSUM\n\tdepot   ONLINE     0     0     0\n\
                   \t  sdt   ONLINE     0     0     0\n\nerrors: No known data errors\n";
    let read = read_text("snapshot-text", healthy);
    assert_value(&read, "array.degraded", "depot", Some(0.0));
    assert_value(&read, "array.background", "depot", None);
    assert_value(&read, "physical_disk.io_errors", "sdt", None);
}

#[test]
fn failed_paths_and_processors_with_full_queues_are_told() {
    let paths = "mpathk (3600a098) dm-6 NETAPP,LUN C-Mode\nsize=2.0T features='0' hwhandler='1 alua' wp=rw\n\
                 |-+- policy='service-time 0' prio=50 status=active\n| |- 3:0:1:7  sdax 67:16  active ready running\n\
                 `-+- policy='service-time 0' prio=0 status=enabled\n  `- 4:0:1:7  sdbc 67:96  failed faulty running\n";
    let read = read_text("snapshot-text", paths);
    assert_value(&read, "physical_disk.kernel_messages", "sdbc", Some(1.0));
    assert_value(&read, "physical_disk.kernel_messages", "sdax", Some(0.0));
    let row = |packets: u32, dropped: u32, squeezed: u32| {
        format!("{packets:08x} {dropped:08x} {squeezed:08x}{}\n", " 00000000".repeat(8))
    };
    let text = row(90_000, 0, 1) + &row(800_000, 1000, 5000) + &row(110_000, 0, 2);
    let read = read_text("snapshot-text", &text);
    assert_value(&read, "network.received_drop_fraction", "queues of the processors", Some(0.001));
    assert_value(&read, "foreign.interrupts.softirq_net_rx_share", "cpu1", Some(0.8));
    let told = |part: &str| read.notes.iter().any(|note| note.kind == Note::WARNING && note.text().contains(part));
    assert!(told("cpu1 stopped 5000 times"), "{:?}", read.notes);
}

#[test]
fn segments_that_are_sent_again_are_a_fraction_of_all() {
    let linux =
        "Tcp:\n    31 active connection openings\n    50000 segments sent out\n    2500 segments retransmitted\n";
    let mac = "tcp:\n\t50000 packets sent\n\t\t40000 data packets (9912 bytes)\n\
               \t\t2500 data packets (812 bytes) retransmitted\n\t60 packets received\nudp:\n\t77 datagrams\n";
    for text in [linux, mac] {
        let read = read_text("snapshot-text", text);
        assert_value(&read, "network.tcp_retransmitted_fraction", "TCP", Some(0.05));
    }
    let few = linux.replace("50000", "5000");
    assert_value(&read_text("snapshot-text", &few), "network.tcp_retransmitted_fraction", "TCP", None);
}

#[test]
fn tables_of_containers_and_of_busybox_may_be_short() {
    let names = "NAME          CPU %     MEM USAGE / LIMIT   MEM %     BLOCK I/O         PIDS\n\
                 cache-two     1.50%     90MiB / 100MiB      90.00%    1.0MB / 0B\n";
    let read = read_text("snapshot-text", names);
    assert_value(&read, "cgroup.memory_bytes", "cache-two", Some(90.0 * 1_048_576.0));
    assert_value(&read, "cgroup.memory_limit_bytes", "cache-two", Some(100.0 * 1_048_576.0));
    let top = "  PID  PPID USER     STAT   VSZ %VSZ CPU %CPU COMMAND\n\
               \x20  41     2 root     RW       0  0.0   1 71.5 [kswapd0]\n\
               \x20 300     1 root     S     9000 44.0   0  2.0 /bin/playerd -q\n";
    assert_value(&read_text("top-text", top), "system.reclaim_processors", "", Some(0.715));
}

#[test]
fn telegraf_s_lines_are_read_behind_what_syslog_puts_before_them() {
    let line = |idle: u32, time: u32| {
        format!(
            "Mar  4 09:12:55 pump7 telegraf[412]: > cpu,cpu=cpu-total,host=pump7 usage_idle={idle} {time}000000000\n"
        )
    };
    let read = read_text("influx-lines", &(line(60, 1_709_543_575) + &line(40, 1_709_543_585)));
    assert!(read.column_values("processor.idle", "_total").contains(&0.4), "{:?}", read.notes);
}

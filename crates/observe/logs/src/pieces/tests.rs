use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::Duration;

use diskwright_base::Note;

use crate::{LogInput, LogOptions, LogPiece, ReadSummary};

/// What a text gives: values by counter and instance, and warnings.
#[derive(Default)]
struct Found {
    values: BTreeMap<(String, String), Vec<f64>>,
    warnings: Vec<String>,
    processes: Vec<String>,
    elapsed_s: Vec<u64>,
}

impl Found {
    fn last(&self, counter: &str, instance: &str) -> Option<f64> {
        let values = self.values.get(&(counter.to_owned(), instance.to_owned()))?;
        values.iter().rev().find(|value| !value.is_nan()).map(|value| (value * 1e6).round() / 1e6)
    }

    fn warns(&self, text: &str) -> bool {
        self.warnings.iter().any(|warning| warning.contains(text))
    }
}

fn try_read(text: &str, interval_s: Option<u64>) -> (Found, Result<ReadSummary, crate::LogError>) {
    let mut found = Found::default();
    let mut sink = |piece: LogPiece<'_>| {
        match piece {
            LogPiece::Note(note) if note.kind == Note::WARNING => found.warnings.push(note.into_text()),
            LogPiece::Note(note) if note.kind == Note::PROCESSES => {
                let table = note.read_processes().unwrap();
                found.processes.extend(table.rows.iter().map(|row| row.name.clone()));
            }
            LogPiece::Note(_) => {}
            LogPiece::Frame(frame) => {
                found.elapsed_s.extend(frame.ticks().iter().map(|tick| tick.elapsed_ns / 1_000_000_000));
                for (column, series) in frame.schema().series.iter().enumerate() {
                    let key = (series.counter.clone(), series.instance.clone());
                    found.values.entry(key).or_default().extend(frame.column(column));
                }
            }
        }
        ControlFlow::Continue(())
    };
    let mut input = LogInput::from_bytes("x", text.as_bytes().to_vec()).unwrap();
    let options = LogOptions { interval: interval_s.map(Duration::from_secs), ..LogOptions::default() };
    let summary = crate::read(&mut input, &options, &mut sink);
    (found, summary)
}

fn read_text(text: &str) -> Found {
    let (found, summary) = try_read(text, None);
    let summary = summary.unwrap_or_else(|error| panic!("{text}: {error}"));
    assert_eq!(summary.format, "snapshot-text", "{text}");
    let is_remark = |reason: &str| reason.contains("single dump");
    assert!(summary.skipped.iter().all(|skip| is_remark(&skip.reason)), "{text}: {:?}", summary.skipped);
    found
}

const IFCONFIG: &str = "\
ens7: flags=4163<UP,BROADCAST,RUNNING,MULTICAST>  mtu 9000
        inet 192.0.2.9  netmask 255.255.255.0  broadcast 192.0.2.255
        ether 52:54:00:aa:bb:cc  txqueuelen 1000  (Ethernet)
        RX packets 4000000  bytes 600000000 (572.2 MiB)
        RX errors 0  dropped 200000  overruns 0  frame 0
        TX packets 90  bytes 12000 (11.7 KiB)
        TX errors 0  dropped 0 overruns 0  carrier 0  collisions 0
";

#[test]
fn adapters_show_what_they_dropped() {
    let old = "\
eth3      Link encap:Ethernet  HWaddr 00:16:3e:aa:bb:cc
          inet addr:192.0.2.9  Bcast:192.0.2.255  Mask:255.255.255.0
          UP BROADCAST RUNNING MULTICAST  MTU:1500  Metric:1
          RX packets:4000000 errors:0 dropped:200000 overruns:4000 frame:0
          TX packets:90 errors:0 dropped:0 overruns:0 carrier:0
          collisions:0 txqueuelen:1000
          RX bytes:600000000 (572.2 MB)  TX bytes:12000 (11.7 KB)
          Interrupt:17
";
    let ip = "\
3: ens7: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 9000 qdisc mq state UP mode DEFAULT group default qlen 1000
    link/ether 52:54:00:aa:bb:cc brd ff:ff:ff:ff:ff:ff
    RX: bytes  packets  errors  dropped overrun mcast
    600000000  4000000  0       200000  4000    12
    TX: bytes  packets  errors  dropped carrier collsns
    12000      90       0       0       0       0
";
    let proc = "\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes packets errs drop fifo colls carrier compressed
    lo: 1 2 0 0 0 0 0 0 1 2 0 0 0 0 0 0
  ens7: 600000000 4000000 0 200000 4000 0 0 12 12000 90 0 0 0 0 0 0
";
    for (text, device, missed) in
        [(IFCONFIG, "ens7", 0.0), (old, "eth3", 0.000999), (ip, "ens7", 0.000999), (proc, "ens7", 0.000999)]
    {
        let found = read_text(text);
        assert_eq!(found.last("foreign.network.received_dropped_share", device), Some(0.05), "{text}");
        assert_eq!(found.last("foreign.network.received_missed_share", device).unwrap_or(0.0), missed, "{text}");
        assert!(found.warns("5.000 % of the packets that were received were dropped"), "{text}: {:?}", found.warnings);
        assert!(found.values.keys().all(|(_, instance)| instance != "lo"));
    }
}

#[test]
fn two_dumps_give_what_was_added_between_their_times() {
    let later = IFCONFIG.replace("packets 4000000", "packets 4009000").replace("dropped 200000", "dropped 200900");
    let text = format!("10:00:00\n{IFCONFIG}10:00:30\n{later}");
    let found = read_text(&text);
    assert_eq!(found.last("network.received_packets", "ens7"), Some(9000.0));
    assert_eq!(found.last("network.received_dropped", "ens7"), Some(900.0));
    assert_eq!(found.last("foreign.network.received_dropped_share", "ens7"), Some(0.1));
    assert!(found.elapsed_s.ends_with(&[30]), "{:?}", found.elapsed_s);
    // without a time only shares are known
    let (found, _) = try_read(&format!("{IFCONFIG}{later}"), None);
    assert_eq!(found.last("network.received_packets", "ens7"), None);
    assert_eq!(found.last("foreign.network.received_dropped_share", "ens7"), Some(0.1));
}

#[test]
fn drivers_count_lost_packets_under_many_names() {
    let intel = "NIC statistics:\n     rx_packets: 900000\n     tx_packets: 10\n     rx_missed_errors: 100000\n     \
                 rx_fifo_errors: 100000\n     rx_queue_0_packets: 900000\n";
    let vmware = "NIC statistics:\n     Rx Queue#: 0\n       ucast pkts rx: 500000\n       pkts rx OOB: 60000\n     \
                  Rx Queue#: 1\n       ucast pkts rx: 400000\n       pkts rx OOB: 40000\n";
    for text in [intel, vmware] {
        let found = read_text(&format!("==> ethtool ens7 <==\n{text}"));
        assert_eq!(found.last("foreign.network.received_missed_share", "ens7"), Some(0.1), "{text}");
        assert!(found.warns("its ring was full"), "{:?}", found.warnings);
    }
}

#[test]
fn segments_that_were_sent_again_are_a_share() {
    let netstat = "Ip:\n    900 total packets received\nTcp:\n    12 active connection openings\n    \
                   200000 segments sent out\n    8000 segments retransmitted\nUdp:\n    900 packets received\n    \
                   100 packet receive errors\nTcpExt:\n    5 times the listen queue of a socket overflowed\n";
    let snmp = "Tcp: RtoAlgorithm OutSegs RetransSegs InErrs\nTcp: 1 200000 8000 0\nUdp: InDatagrams NoPorts InErrors\n\
                Udp: 900 0 100\n";
    let nstat = "#kernel\nTcpOutSegs                      200000             0.0\nTcpRetransSegs 8000 0.0\n\
                 UdpInDatagrams 900 0.0\nUdpInErrors 100 0.0\n";
    for text in [netstat, snmp, nstat] {
        let found = read_text(text);
        assert_eq!(found.last("foreign.network.tcp_retransmitted_share", ""), Some(0.04), "{text}");
        assert_eq!(found.last("foreign.network.udp_lost_share", ""), Some(0.1), "{text}");
        assert!(found.warns("4.000 % of TCP's segments were sent again"), "{:?}", found.warnings);
    }
}

#[test]
fn soft_interrupts_of_one_processor_are_told() {
    let text = "                    CPU0       CPU1\n          HI:          5          1\n      \
                NET_RX:     900000     100000\n       BLOCK:       1000       2000\n         RCU:  4000  5000\n";
    let found = read_text(text);
    assert_eq!(found.last("foreign.interrupts.softirq_net_rx_share", "cpu0"), Some(0.9));
    assert!(found.warns("cpu0 takes 90 % of the packets received (NET_RX) of 2 processors"), "{:?}", found.warnings);
    // two dumps give what came in between
    let later = text.replace("900000     100000", "900000     400000");
    let found = read_text(&format!("10:00:00\n{text}10:00:10\n{later}"));
    assert_eq!(found.last("foreign.interrupts.softirq_net_rx_share", "cpu1"), Some(1.0));
    assert_eq!(found.last("interrupts.softirq_net_rx", ""), Some(300_000.0));
}

#[test]
fn two_dumps_of_interrupts_give_their_number_by_class() {
    let dump = |network: u32| {
        format!(
            "           CPU0       CPU1\n  7:         20          0   IO-APIC   7-edge      parport0\n \
             31:       5000     {network}   PCI-MSI 524288-edge      ens7-rx-0\nLOC:    900000    800000   Local timer \
             interrupts\n"
        )
    };
    let (found, _) = try_read(&format!("{}{}", dump(100_000), dump(160_000)), Some(10));
    assert_eq!(found.last("interrupts.network", ""), Some(60_000.0));
    assert_eq!(found.last("interrupts.clock", ""), Some(0.0));
}

#[test]
fn files_of_a_cgroup_give_limits_and_events() {
    let text = "==> /sys/fs/cgroup/web.slice/memory.events <==\nlow 0\nhigh 44\nmax 3000\noom 2\noom_kill 2\n\
                ==> /sys/fs/cgroup/web.slice/memory.current <==\n1048576\n\
                /sys/fs/cgroup/web.slice/memory.max:2097152\n\
                ==> /sys/fs/cgroup/web.slice/memory.stat <==\nanon 524288\nfile 4096\npgmajfault 900\nunevictable 0\n";
    let found = read_text(text);
    assert_eq!(found.last("cgroup.memory_bytes", "/web.slice"), Some(1_048_576.0));
    assert_eq!(found.last("cgroup.memory_limit_bytes", "/web.slice"), Some(2_097_152.0));
    assert_eq!(found.last("cgroup.memory_file_bytes", "/web.slice"), Some(4096.0));
    assert!(found.warns("/web.slice: 2 tasks were killed because memory ran out"), "{:?}", found.warnings);
    assert!(found.warns("the limit of memory was reached 3000 times"), "{:?}", found.warnings);
}

#[test]
fn two_dumps_of_a_cgroup_give_what_it_did_in_between() {
    let dump = |time: &str, periods: u32, throttled: u32, read: u32| {
        format!(
            "{time}\n==> /sys/fs/cgroup/web/cpu.stat <==\nnr_periods {periods}\nnr_throttled {throttled}\n\
             throttled_usec {throttled}00000\n==> /sys/fs/cgroup/web/io.stat <==\n8:0 rbytes={read} wbytes=7 rios=5 \
             wios=1\n8:16 rbytes=0 wbytes=0 rios=0 wios=0\n"
        )
    };
    let found = read_text(&(dump("10:00:00", 1000, 0, 4096) + &dump("10:00:10", 1100, 80, 8192)));
    assert_eq!(found.last("cgroup.cpu_throttled", "/web"), Some(0.8));
    assert_eq!(found.last("cgroup.processors_throttled", "/web"), Some(0.8));
    assert_eq!(found.last("cgroup.read_bytes", "/web"), Some(4096.0));
    let v1 = |time: &str, read: u32| {
        format!(
            "{time}\n==> /sys/fs/cgroup/blkio/web/blkio.throttle.io_serviced <==\n8:0 Read {read}\n\
             8:0 Total {read}\nTotal 9\n"
        )
    };
    let (found, summary) = try_read(&(v1("10:00:00", 100) + &v1("10:00:10", 400)), None);
    assert!(summary.is_ok(), "{summary:?}");
    assert_eq!(found.last("cgroup.reads", "/blkio/web"), Some(300.0));
}

#[test]
fn tasks_in_uninterruptible_sleep_are_named() {
    let aux = "USER         PID %CPU %MEM    VSZ   RSS TTY      STAT START   TIME COMMAND\n\
               root           1  0.0  0.1 169316 13124 ?        Ss   Nov20   0:12 /sbin/init\n\
               app          812  4.0  9.1 169316 13124 ?        Dl   Nov20   9:12 worker: queue 1\n\
               root          60  1.0  0.0      0     0 ?        D    Nov20   1:00 [kswapd0]\n";
    let eo = "S   PID WCHAN                            CMD\nD    60 folio_wait_bit_common  [kswapd0]\n\
              R    61 -                                ps\nD   812 rpc_wait_bit_killable    worker: queue 1\n";
    let found = read_text(aux);
    assert_eq!(found.last("system.blocked", ""), Some(2.0));
    assert!(found.warns("2 tasks are in uninterruptible sleep (D): worker, [kswapd0]"), "{:?}", found.warnings);
    assert_eq!(found.processes.len(), 2);
    // as grep leaves it, without headings
    let headless = eo.lines().filter(|line| line.starts_with("D ")).collect::<Vec<_>>().join("\n") + "\n";
    for text in [eo, headless.as_str()] {
        let found = read_text(text);
        assert_eq!(found.last("system.blocked", ""), Some(2.0), "{text}");
        assert!(found.warns("they wait in folio_wait_bit_common, rpc_wait_bit_killable"), "{:?}", found.warnings);
    }
}

#[test]
fn containers_and_nodes_show_processors_and_memory() {
    let docker = "CONTAINER ID   NAME      CPU %     MEM USAGE / LIMIT     MEM %     NET I/O        BLOCK I/O  PIDS\n\
                  0a1b2c3d4e5f   queue     150.00%   1.5GiB / 2GiB         75.00%    12.3MB / 45.6MB   0B / 0B     9\n";
    let found = read_text(docker);
    assert_eq!(found.last("cgroup.processor", "queue"), Some(1.5));
    assert_eq!(found.last("cgroup.memory_limit_bytes", "queue"), Some(2_147_483_648.0));
    let pods = "NAME        CPU(cores)   MEMORY(bytes)\nqueue-0     250m         64Mi\n";
    assert_eq!(read_text(pods).last("cgroup.memory_bytes", "queue-0"), Some(67_108_864.0));
    let nodes =
        "NAME     CPU(cores)   CPU%   MEMORY(bytes)   MEMORY%\nworker-1   1900m       95%    3000Mi          75%\n";
    let found = read_text(nodes);
    assert_eq!(
        (found.last("processor.busy", "_total"), found.last("memory.total_bytes", "")),
        (Some(0.95), Some(4_194_304_000.0))
    );
    let svmon = "               size       inuse        free         pin     virtual   mmode\n\
                 memory      1000000      990000       10000      212345     1212345     Ded\n\
                 pg space     500000      125000\n";
    assert_eq!(read_text(svmon).last("memory.swap_free_bytes", ""), Some(1_536_000_000.0));
}

#[test]
fn file_systems_show_what_is_free() {
    let human = "Filesystem      Size  Used Avail Use% Mounted on\n/dev/sdc2       200G  198G  2.0G 100% /srv\n\
                 tmpfs           3.9G     0  3.9G   0% /dev/shm\n";
    let found = read_text(human);
    assert_eq!(found.last("logical_disk.total_bytes", "/srv"), Some(214_748_364_800.0));
    assert_eq!(found.last("logical_disk.free_bytes", "/srv"), Some(2_147_483_648.0));
    assert!(found.values.keys().all(|(_, instance)| instance != "/dev/shm"));
    let typed = "Filesystem     Type 1K-blocks    Used Available Use% Mounted on\n/dev/mapper/a-very-long-name\n    \
                 xfs      2000    1000      1000  50% /data\n";
    assert_eq!(read_text(typed).last("logical_disk.free_bytes", "/data"), Some(1_024_000.0));
    let inodes =
        "Filesystem      Inodes  IUsed  IFree IUse% Mounted on\n/dev/sdc2        1000    990     10   99% /srv\n";
    assert_eq!(read_text(inodes).last("logical_disk.inodes_free", "/srv"), Some(10.0));
}

const MOUNT: &str = "\
device filer:/vol/a mounted on /mnt/a with fstype nfs4 statvers=1.1
\topts:\trw,vers=4.1
\tage:\t1000
\tevents:\t1 2 3
\tbytes:\t100 200 0 0 5000 6000 1 2
\tRPC iostats version: 1.1  p/v: 100003/4 (nfs)
\txprt:\ttcp 812 1 2 0 12 4000 3990 1 9 70 2 1 1
\tper-op statistics
\t        READ: 2000 2040 1 148148 138271 3000 20000 24000
\t     GETATTR: 500 500 0 1 2 3 4 5
";

#[test]
fn mounts_give_averages_since_they_were_mounted() {
    let found = read_text(MOUNT);
    assert_eq!(found.elapsed_s, [1000]);
    assert_eq!(found.last("network_filesystem.reads", "/mnt/a"), Some(2000.0));
    assert_eq!(found.last("network_filesystem.read_round_trip_s", "/mnt/a"), Some(20.0));
    assert!(found.warns("averages since the file system was mounted"), "{:?}", found.warnings);
    let later =
        MOUNT.replace("READ: 2000 2040 1 148148 138271 3000 20000", "READ: 2100 2140 1 148148 138271 3000 30000");
    let found = read_text(&format!("10:00:00\n{MOUNT}10:00:10\n{later}"));
    assert_eq!(found.last("network_filesystem.reads", "/mnt/a"), Some(100.0));
    assert_eq!(found.last("network_filesystem.read_round_trip_s", "/mnt/a"), Some(10.0));
}

#[test]
fn the_nfs_servers_calls_are_read() {
    let dump = |calls: u32, reads: u32| {
        format!(
            "Server rpc stats:\ncalls      badcalls   badfmt     badauth    badclnt\n{calls}  0   0   0 \
             0\n\nServer nfs v3:\nnull             getattr          read\n1         0%    500       5% {reads}   3%\n\n"
        )
    };
    let (found, _) = try_read(&(dump(1000, 10) + &dump(6000, 4010)), Some(10));
    assert_eq!((found.last("nfs_server.calls", ""), found.last("nfs_server.reads", "")), (Some(5000.0), Some(4000.0)));
}

#[test]
fn reports_of_get_counter_have_their_times() {
    let report = |time: &str, queue: &str| {
        format!(
            "{time}     \\\\web9\\physicaldisk(1 e:)\\avg. disk queue length :\n                          {queue}\n\n\
             {}\\\\web9\\processor(_total)\\% processor time :\n                          25.5\n\n",
            " ".repeat(26)
        )
    };
    let text = format!(
        "Timestamp                 CounterSamples\n---------                 --------------\n{}{}",
        report("11/23/2026 9:15:10 AM", "12.5"),
        report("11/23/2026 9:15:20 AM", "14.5")
    );
    let found = read_text(&text);
    assert_eq!(
        found.values.get(&("physical_disk.avg_queue_length".to_owned(), "1 e:".to_owned())).map(Vec::len),
        Some(2)
    );
    assert_eq!(found.last("physical_disk.avg_queue_length", "1 e:"), Some(14.5));
    assert_eq!(found.last("processor.busy", "_total"), Some(0.255));
    assert!(found.elapsed_s.ends_with(&[10]), "{:?}", found.elapsed_s);
}

#[test]
fn a_single_dump_of_totals_alone_says_what_is_missing() {
    let (_, summary) = try_read("8:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=0 dios=0\n", None);
    assert!(summary.unwrap_err().to_string().contains("rates need two dumps"));
}

const PRESSURE: &str = "some avg10=71.00 avg60=60.00 avg300=40.00 total=8123000\n\
                        full avg10=65.00 avg60=50.00 avg300=30.00 total=7123000\n";

#[test]
fn pressure_without_the_name_of_its_file_is_read() {
    let quiet = "some avg10=2.00 avg60=0.00 avg300=0.00 total=12\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n";
    // all three, in the order of their names
    let found = read_text(&format!("{quiet}{PRESSURE}{}", PRESSURE.replace("71.00", "1.00")));
    assert_eq!(found.last("pressure.cpu_some", ""), Some(0.02));
    assert_eq!((found.last("pressure.io_some", ""), found.last("pressure.io_full", "")), (Some(0.71), Some(0.65)));
    assert_eq!(found.last("pressure.memory_some", ""), Some(0.01));
    // one of them
    let found = read_text(PRESSURE);
    assert_eq!(found.last("pressure.io_some", ""), None);
    assert!(found.warns("tasks waited 71 %") && found.warns("disks or memory"), "{:?}", found.warnings);
    for (name, counter) in [("io", "io"), ("/tmp/pressure_memory.txt", "memory"), ("psi-cpu.log, lines 1-2", "cpu")] {
        let mut input = LogInput::from_bytes(name, PRESSURE.as_bytes().to_vec()).unwrap();
        let mut values = Vec::new();
        let mut sink = |piece: LogPiece<'_>| {
            if let LogPiece::Frame(frame) = piece {
                values.extend(frame.schema().series.iter().map(|series| series.counter.clone()));
            }
            ControlFlow::Continue(())
        };
        crate::read(&mut input, &LogOptions::default(), &mut sink).unwrap();
        assert!(values.contains(&format!("pressure.{counter}_some")), "{name}: {values:?}");
    }
}

#[test]
fn work_on_an_array_is_seen_where_its_line_was_cut() {
    let line = "      [=>...]  recovery =  8.4% (82000/976630) finish=900.5min";
    let head =
        "Personalities : [raid1]\nmd3 : active raid1 sdb1[2] sda1[0]\n      976630 blocks super 1.2 [2/1] [U_]\n";
    for (end, speed) in
        [(" speed=14140K/sec", Some(14_479_360.0)), (" speed=14140K/se", Some(14_479_360.0)), ("", None)]
    {
        let found = read_text(&format!("{head}{line}{end}\n"));
        assert_eq!(found.last("array.background", "md3"), Some(1.0), "{end}");
        assert_eq!(found.last("array.sync_bytes_per_s", "md3"), speed, "{end}");
    }
}

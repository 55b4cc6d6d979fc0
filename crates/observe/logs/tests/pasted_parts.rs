//! What people paste about one part of a machine: protocols, file systems, arrays, controllers, tasks that wait.

use crate::text_log::{ReadLog, read_as_format};
use diskwright_base::Note;
use diskwright_logs::LogOptions;

fn read_text(text: &str) -> ReadLog {
    let read = read_as_format("snapshot-text", text, &LogOptions::default());
    assert!(read.summary.is_ok(), "{text}: {:?}", read.summary.as_ref().err().map(ToString::to_string));
    read
}

fn values(read: &ReadLog, counter: &str, instance: &str) -> Vec<f64> {
    read.column_values(counter, instance).into_iter().filter(|value| !value.is_nan()).collect()
}

/// Asserts the first value of a counter; `None` where it must have none.
fn assert_value(text: &str, counter: &str, instance: &str, wanted: Option<f64>) {
    let value = values(&read_text(text), counter, instance).first().copied();
    let is_same = match (value, wanted) {
        (Some(value), Some(wanted)) => (value - wanted).abs() < 1e-3 * wanted.abs().max(1e-3),
        (value, wanted) => value.is_none() && wanted.is_none(),
    };
    assert!(is_same, "{counter} {instance}: {value:?}, not {wanted:?} in\n{text}");
}

/// 300 of 1000 datagrams are lost, in the words of every system.
#[test]
fn losses_of_udp_are_read_in_the_words_of_every_system() {
    let linux = "Udp:\n    2100 packets received\n    4 packets to unknown port received\n    900 packet receive \
            errors\n\
                 \x20   77 packets sent\n    RcvbufErrors: 900\n";
    let only_full_buffers = "Udp:\n    2100 packets received\n    900 receive buffer errors\n";
    let nstat = "#kernel\nUdpInDatagrams    2000   0.0\nUdp6InDatagrams   100    0.0\nUdpInErrors       900    0.0\n\
                 UdpRcvbufErrors   900    0.0\n";
    let rows = "UdpInDatagrams    2100   0.0\nUdpInErrors       900    0.0\n";
    let json = "{\"kernel\":{\"UdpInDatagrams\":2100,\"UdpInErrors\":900}}\n";
    let snmp = "Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors\nUdp: 2100 4 900 77 900\n";
    let bsd = "udp:\n\t3000 datagrams received\n\t1 with incomplete header\n\t4 dropped due to no socket\n\
               \t900 dropped due to full socket buffers\n\t2100 delivered\n\t77 datagrams output\n";
    let aix = "udp:\n\t3000 datagrams received\n\t900 socket buffer overflows\n\t2100 delivered\n";
    let solaris = "RAWIP   rawipInDatagrams    =     0     rawipInErrors       =     0\n\
                   UDP     udpInDatagrams      =  2100     udpInErrors         =   900\n\
                   \x20       udpOutDatagrams     =    77     udpOutErrors        =     0\n";
    let windows = "UDP Statistics for IPv4\n\n  Datagrams Received    = 2000\n  No Ports              = 4\n  \
                   Receive Errors        = 800\n\nUDP Statistics for IPv6\n\n  Datagrams Received    = 100\n  \
                   Receive Errors        = 100\n";
    for text in [linux, only_full_buffers, nstat, rows, json, snmp, bsd, aix, solaris, windows] {
        assert_value(text, "network.udp_lost_fraction", "UDP", Some(0.3));
    }
    // of few datagrams a share means nothing
    assert_value(&linux.replace("2100", "21").replace("900", "9"), "network.udp_lost_fraction", "UDP", None);
}

#[test]
fn connections_that_were_turned_away_are_a_fraction_of_all() {
    let linux = "Tcp:\n    31 active connection openings\n    9900 passive connection openings\nTcpExt:\n    \
                 100 times the listen queue of a socket overflowed\n    100 SYNs to LISTEN sockets dropped\n";
    let freebsd = "tcp:\n\t9900 connection accepts\n\t100 listen queue overflows\n";
    let solaris = "TCP     tcpPassiveOpens     =  9900     tcpListenDrop       =   100\n";
    for text in [linux, freebsd, solaris] {
        assert_value(text, "network.listen_overflow_fraction", "TCP", Some(0.01));
    }
    let windows = "TCP Statistics for IPv4\n\n  Passive Opens   = 7\n  Segments Sent   = 50000\n  \
                   Segments Retransmitted  = 2500\n";
    assert_value(windows, "network.tcp_retransmitted_fraction", "TCP", Some(0.05));
}

#[test]
fn dumps_of_netstat_one_after_another_are_compared() {
    let dump = |received: u32, errors: u32| {
        format!("Udp:\n    {received} packets received\n    {errors} packet receive errors\nUdpLite:\n")
    };
    let read = read_text(&(dump(50_000, 40_000) + &dump(51_500, 40_500)));
    assert_eq!(values(&read, "network.udp_lost_fraction", "UDP").last().map(|v| (v * 100.0).round()), Some(25.0));
}

/// A filesystem of 100 GiB at its end, in the forms of every system.
#[test]
fn full_file_systems_are_read_in_every_form_of_df() {
    let gib = 1_073_741_824.0;
    for (text, mount) in [
        ("Filesystem 1K-blocks Used Available Use% Mounted on\n/dev/sdk1 104857600 104857600 0 100% /data\n", "/data"),
        (
            "Filesystem 1024-blocks Used Available Capacity Mounted on\n/dev/sdk1 104857600 104857600 0 100% /data\n",
            "/data",
        ),
        ("Filesystem Type Size Used Avail Use% Mounted on\n/dev/sdk1 xfs 100G 100G 0 100% /data\n", "/data"),
        (
            "Filesystem      Size  Used Avail Use% Mounted on\n\
            /dev/mapper/a-very-long-name\n                100G  100G     0 100% /data\n",
            "/data",
        ),
        (
            "Filesystem Size Used Avail Capacity iused ifree %iused Mounted on\n\
            /dev/disk3s1 100Gi 100Gi 0Bi 100% 500 900 35% /System/Data\n",
            "/System/Data",
        ),
        (
            "Filesystem 1K-blocks Used Avail Capacity Mounted on\n\
            /dev/ada0p2 104857600 113000000 -8142400 108% /data\n",
            "/data",
        ),
        ("Filesystem size used avail capacity Mounted on\n/dev/dsk/c0t0d0s0 100G 100G 0K 100% /data\n", "/data"),
        (
            "Filesystem GB blocks Free %Used Iused %Iused Mounted on\n/dev/hd4 100.00 0.00 100% 12345 14% /data\n",
            "/data",
        ),
        ("Filesystem kbytes used avail %used Mounted on\n/dev/vg00/lvol3 104857600 104857600 0 100% /data\n", "/data"),
        (
            "Dateisystem 1K-Blöcke Benutzt Verfügbar Verw% Eingehängt auf\n\
            /dev/sdk1 104857600 104857600 0 100% /data\n",
            "/data",
        ),
        ("Caption  FreeSpace  Size\nC:       0          107374182400\nD:\n", "C:"),
        (
            "Name Used (GB) Free (GB) Provider Root CurrentLocation\n---- --------- --------- -------- ---- ---\n\
            C 100.00 0.00 FileSystem C:\\ Users\\a\n",
            "C:",
        ),
        (
            "DriveLetter FriendlyName FileSystemType DriveType HealthStatus OperationalStatus SizeRemaining Size\n\
            ----------- ------------ -------------- --------- ------------ ----------------- ------------- ----\n\
            C           System       NTFS           Fixed     Healthy      OK                         0 B 100 GB\n",
            "C:",
        ),
        (
            "C:\\> fsutil volume diskfree c:\nTotal free bytes                :               0 (  0.0 KB)\n\
            Total bytes                     : 107,374,182,400 (100.0 GB)\n",
            "C:",
        ),
    ] {
        assert_value(text, "logical_disk.total_bytes", mount, Some(100.0 * gib));
        assert_value(text, "logical_disk.free_bytes", mount, Some(0.0));
        assert_value(text, "logical_disk.read_only", mount, Some(0.0));
    }
}

#[test]
fn inodes_are_told_from_bytes_and_images_are_full_by_nature() {
    let linux = "Filesystem Inodes IUsed IFree IUse% Mounted on\n/dev/sdk1 3000 3000 0 100% /data\n";
    let german = "Dateisystem Inodes IBenutzt IFrei IUse% Eingehängt auf\n/dev/sdk1 3000 3000 0 100% /data\n";
    let mac = "Filesystem Size Used Avail Capacity iused ifree %iused Mounted on\n\
            /dev/sdk1 9Gi 1Gi 8Gi 12% 3000 0 100% /data\n";
    for text in [linux, german, mac] {
        assert_value(text, "logical_disk.inodes_total", "/data", Some(3000.0));
        assert_value(text, "logical_disk.inodes_free", "/data", Some(0.0));
    }
    let rows = "/dev/loop3 56832 56832 0 100% /snap/core/21\n/dev/sr0 700 700 0 100% /media/cdrom0\n\
                tmpfs 4096 12 4084 1% /run\nsquash squashfs 7 7 0 100% /image\n/dev/sdk1 90 40 50 45% /data\n";
    let text = format!("Filesystem 1K-blocks Used Available Use% Mounted on\n{rows}");
    for mount in ["/snap/core/21", "/media/cdrom0", "/run"] {
        assert_value(&text, "logical_disk.free_bytes", mount, None);
    }
    let full = text.replace("tmpfs 4096 12 4084 1% /run", "tmpfs 4096 4096 0 100% /tmp");
    assert_value(&full, "logical_disk.free_bytes", "/tmp", Some(0.0));
}

#[test]
fn arrays_that_do_not_run_are_told_from_those_that_do() {
    let inactive = "Personalities : [raid6] [raid5] [raid4]\nmd31 : inactive sdb[1](S) sdc[2](S)\n      \
                    5860270080 blocks super 1.2\n\nunused devices: <none>\n";
    let active =
        "Personalities : [raid1]\nmd31 : active raid1 sdb[1] sdc[2]\n      976 blocks super 1.2 [2/2] [UU]\n\n";
    let detail = "/dev/md31:\n           Version : 1.2\n        Raid Level : raid0\n     Total Devices : \
            2\n\n             \
                  State : inactive\n\n    Number   Major   Minor   RaidDevice\n\n       -       8       16        -   \
                  /dev/sdb\n";
    let container = inactive.replace("super 1.2", "super external:imsm");
    for (text, value) in [(inactive, 1.0), (active, 0.0), (detail, 1.0), (container.as_str(), 0.0)] {
        assert_value(text, "array.inactive", "md31", Some(value));
        let is_told =
            read_text(text).notes.iter().any(|note| note.kind == Note::WARNING && note.text().contains("md31"));
        assert_eq!(is_told, value > 0.0, "{text}");
    }
    let degraded = "/dev/md31:\n        Raid Level : raid5\n      Raid Devices : 3\n             \
                    State : clean, degraded, recovering\n    Active Devices : 2\n    Failed Devices : 1\n    \
                    Rebuild Status : 23% complete\n\n    Number   Major   Minor   RaidDevice State\n       \
                    0       8       17        0      active sync   /dev/sdb1\n       -       0        0        2      \
                    removed\n";
    for (counter, value) in
        [("array.degraded", 1.0), ("array.missing", 1.0), ("array.failed", 1.0), ("array.background", 1.0)]
    {
        assert_value(degraded, counter, "md31", Some(value));
    }
    let read = read_text(degraded);
    let topology = read.notes.iter().find_map(|note| note.read_topology().ok()).expect("a topology");
    let array = topology.find_device("md31").expect("the array");
    assert_eq!((array.below.as_slice(), array.members), (&["sdb1".to_owned()][..], Some(3)));
}

/// The default tells a cache that failed from one that was never wanted.
#[test]
fn a_policy_that_was_chosen_is_no_fault() {
    let mega = |set: &str, now: &str| {
        format!(
            "Adapter 4 -- Virtual Drive Information:\nVirtual Drive: 0 (Target Id: 0)\nDefault Cache Policy: {set}, \
             ReadAhead\nCurrent Cache Policy: {now}, ReadAhead\n"
        )
    };
    let storcli = |set: &str| {
        format!(
            "Controller = 4\nDG/VD TYPE  State Access Consist Cache Cac sCC Size Name\n\
            0/0 RAID1 Optl RW Yes NRWTD - ON \
             1 TB os\n---\nVD0 Properties :\n===\nWrite Cache(initial setting) = {set}\n"
        )
    };
    let arcconf =
        |set: &str| format!("Adapter #4\nWrite-cache setting : {set}\nWrite-cache mode : Disabled (write-through)\n");
    let ssacli = |status: &str, caching: &str| {
        format!("Smart Array P9 in Slot 4\n   Cache Status: {status}\n   Logical Drive: 1\n      Caching: {caching}\n")
    };
    for (text, is_fault, is_chosen) in [
        (mega("WriteBack", "WriteThrough"), 1.0, 0.0),
        (mega("WriteThrough", "WriteThrough"), 0.0, 1.0),
        (mega("WriteBack", "WriteBack"), 0.0, 0.0),
        (storcli("WriteBack"), 1.0, 0.0),
        (storcli("WriteThrough"), 0.0, 1.0),
        (arcconf("Enabled (write-back)"), 1.0, 0.0),
        (arcconf("Disabled (write-through)"), 0.0, 1.0),
        (ssacli("Temporarily Disabled", "Disabled"), 1.0, 0.0),
        (ssacli("OK", "Disabled"), 0.0, 1.0),
        (ssacli("Not Configured", "Disabled"), 0.0, 1.0),
    ] {
        assert_value(&text, "controller.write_cache_off", "4", Some(is_fault));
        assert_value(&text, "controller.write_through_set", "4", Some(is_chosen));
        let told = |part: &str| read_text(&text).notes.iter().any(|note| note.text().contains(part));
        assert_eq!([told("cache is off"), told("nothing is broken")], [is_fault > 0.0, is_chosen > 0.0], "{text}");
    }
}

#[test]
fn rows_of_ps_are_read_without_their_headings() {
    let aux = "root       301  0.3  0.0      0     0 ?        D    Feb16   3:22 [jbd2/sda1-8]\n\
               pg         812  9.1  4.1 812340 340112 ?       Ds   10:01   1:11 postgres: writer\n\
               pg         813  9.1  4.1 812340 340112 pts/3   S+   10:01   1:11 psql\n";
    assert_value(aux, "system.blocked", "", Some(2.0));
    assert_value(aux, "system.blocked_on_servers", "", None);
    for row in ["  {} D    rpc_wait_bit_killable          cp\n", "D {} rpc_wait_bit_killable cp /mnt/a\n"] {
        let text: String = [812, 813, 999].map(|pid| row.replace("{}", &pid.to_string())).concat();
        assert_value(&text, "system.blocked_on_servers", "", Some(3.0));
        let local = text.replace("rpc_wait_bit_killable", "io_schedule");
        assert_value(&local, "system.blocked_on_servers", "", Some(0.0));
    }
}

#[test]
fn small_tables_tell_what_decides() {
    let numa = "                           node0           node1\nnuma_hit   700  100\nnuma_miss  150  50\n\
            numa_foreign  50 150\n";
    assert_value(numa, "memory.numa_miss_fraction", "", Some(0.2));
    let prstat = "   PID USERNAME USR SYS TRP TFL DFL LCK SLP LAT VCX ICX SCL SIG PROCESS/LWPID\n  1234 app 95 3.1 \
            0.0 0.0 \
                  0.0 0.0 0.0 2.0 12 900 4K 0 app/1\n   812 root 0.1 0.1 0.0 0.0 0.0 90 9.8 0.0 10 0 30 0 java/12\n\
                  Total: \
                  62 processes, 301 lwps, load averages: 1.22, 1.10, 1.01\n";
    assert_value(prstat, "system.busiest_process", "", Some(0.981));
    assert_value(prstat, "system.load_5", "", Some(1.10));
    let sockets = "State    Recv-Q   Send-Q     Local Address:Port     Peer Address:Port  Process\n\
            LISTEN   129      128  \
                   0.0.0.0:80            0.0.0.0:*\n\
            LISTEN   0        128              0.0.0.0:22            0.0.0.0:*\n";
    assert_value(sockets, "network.full_listen_queues", "TCP", Some(1.0));
    assert_value(&sockets.replace("129", "127"), "network.full_listen_queues", "TCP", Some(0.0));
}

/// `State : inactive` and `9123456789 interrupts` are no tables of sar.
#[test]
fn a_line_with_one_word_of_sar_is_no_table_of_it() {
    for text in ["             State : inactive\n", "    912345678 interrupts\n", "Swap: inactive\n"] {
        let head = diskwright_logs::InputHead { name: "x", bytes: text.as_bytes() };
        assert!(diskwright_logs::format_of_head(&head).is_none_or(|format| format.id != "sar-text"), "{text}");
    }
}

"""Pastes with a known cause, on each side of what decides: what the program must answer, and what it may not.

A case is a name, the answers that are right, and a text for each file. Names begin with the part that they are about.
"""

import texts

HEALTHY = {"none"}


def paging():
    rows = 10
    thrash = {"swpd": 1_820_400, "cache": 61_000, "free": 9_800}
    yield "paging-1", {"memory"}, [
        texts.vmstat(
            [{**thrash, "si": 130, "so": 510, "bi": 400, "bo": 530, "b": 17, "wa": 93, "us": 1, "id": 4}] * rows
        )
    ]
    yield "paging-2", {"memory"}, [
        texts.vmstat(
            [{**thrash, "si": 70, "so": 240, "bi": 180, "bo": 260, "b": 6, "wa": 71, "us": 4, "id": 23}] * rows
        )
    ]
    yield "paging-3", {"memory"}, [
        texts.vmstat(
            [{**thrash, "si": 2100, "so": 2900, "bi": 3900, "bo": 3100, "b": 31, "wa": 88, "us": 2, "id": 8}] * rows
        )
    ]
    yield "paging-not-copy", {"disk"}, [
        texts.vmstat(
            [{"swpd": 9100, "si": 24, "so": 60, "bi": 164_000, "bo": 158_000, "b": 4, "wa": 46, "us": 3, "id": 48}]
            * rows
        )
    ]
    yield "paging-not-idle", HEALTHY, [texts.vmstat([{"swpd": 88_200, "so": 32, "si": 4, "wa": 2, "id": 93}] * rows)]
    yield "paging-not-once", HEALTHY, [
        texts.vmstat([{"swpd": 88_200}] * 9 + [{"so": 4200, "bo": 4300, "wa": 8, "id": 87}])
    ]


def cache():
    rows = 10
    tiny = {"cache": 38_100, "buff": 900, "free": 7_100}
    yield "cache-1", {"memory"}, [texts.vmstat([{**tiny, "bi": 29_000, "b": 15, "wa": 90, "us": 2, "id": 6}] * rows)]
    yield "cache-2", {"memory"}, [
        texts.vmstat([{**tiny, "cache": 61_000, "bi": 44_000, "b": 34, "wa": 84, "us": 3, "id": 9}] * rows)
    ]
    yield "cache-3", {"memory"}, [
        texts.vmstat([{**tiny, "cache": 88_000, "bi": 61_000, "b": 8, "wa": 71, "us": 6, "id": 19}] * rows)
    ]
    yield "cache-not-large", {"disk"}, [texts.vmstat([{"bi": 29_000, "b": 15, "wa": 90, "us": 2, "id": 6}] * rows)]
    yield "cache-not-read", HEALTHY, [texts.vmstat([{**tiny, "bi": 60, "wa": 2, "id": 93}] * rows)]
    yield "cache-not-again", {"disk"}, [
        texts.vmstat([{**tiny, "cache": 92_000, "bi": 3_900, "b": 7, "wa": 64, "us": 2, "id": 32}] * rows)
    ]


def iowait():
    rows = 10
    yield "iowait-1", {"disk"}, [texts.vmstat([{"b": 7, "wa": 71, "us": 4, "id": 23, "bo": 2_100}] * rows)]
    yield "iowait-2", {"disk"}, [texts.vmstat([{"b": 1, "wa": 42, "us": 4, "id": 52, "bi": 1_800}] * rows)]
    yield "iowait-3", {"disk"}, [texts.vmstat([{"b": 11, "wa": 13, "us": 21, "id": 64, "bo": 3_300}] * rows)]
    yield "iowait-not-little", HEALTHY, [texts.vmstat([{"wa": 7, "id": 88}] * rows)]
    yield "iowait-not-one", HEALTHY, [texts.vmstat([{"b": 1, "wa": 14, "id": 81}, {"wa": 3, "id": 92}] * 5)]
    yield "iowait-not-busy", HEALTHY, [texts.vmstat([{"r": 3, "us": 58, "sy": 6, "wa": 2, "id": 34}] * rows)]


def serial():
    yield "serial-1", {"disk"}, [texts.iostat({"sdb": {"writes": 96, "write_ms": 9.9, "busy": 97.0}}, iowait=11.0)]
    yield "serial-2", {"disk"}, [texts.iostat({"sdb": {"writes": 138, "write_ms": 6.6, "busy": 94.0}}, iowait=9.0)]
    yield "serial-3", {"disk"}, [texts.iostat({"sdb": {"writes": 61, "write_ms": 14.2, "busy": 90.0}}, iowait=12.0)]
    yield "serial-not-flash", {"none", "application"}, [
        texts.iostat({"sdb": {"writes": 880, "write_ms": 0.8, "busy": 70.0}}, iowait=4.0)
    ]
    yield "serial-not-rare", HEALTHY, [
        texts.iostat({"sdb": {"writes": 19, "write_ms": 8.0, "busy": 14.0}}, iowait=1.0)
    ]
    yield "serial-not-full", HEALTHY, [
        texts.iostat({"sdb": {"writes": 150, "write_ms": 3.1, "busy": 45.0}}, iowait=2.0)
    ]


def processors():
    quiet = {str(number): {"usr": 4.0, "sys": 1.0} for number in range(8)}
    mean = {"all": {"usr": 16.0, "sys": 1.5}}
    yield "processor-1", {"cpu"}, [texts.mpstat({**mean, **quiet, "3": {"usr": 99.2, "sys": 0.8}})]
    yield "processor-2", {"cpu"}, [
        texts.mpstat(
            {"all": {"usr": 51.0, "sys": 1.0}, "0": {"usr": 98.5, "sys": 1.5}, "1": {"usr": 3.5, "sys": 0.5}}
        )
    ]
    yield "processor-3", {"cpu"}, [texts.mpstat({**mean, **quiet, "6": {"usr": 2.0, "sys": 98.0}})]
    yield "softirq-1", {"interrupts"}, [texts.mpstat({**mean, **quiet, "2": {"usr": 1.0, "sys": 3.0, "soft": 96.0}})]
    yield "softirq-2", {"interrupts"}, [
        texts.top(
            (4.0, 2.0, 91.0, 0.2, 2.8),
            [("R", 92.4, 0, "ksoftirqd/3"), ("S", 9.1, 91_200, "haproxy"), ("S", 1.3, 12_000, "sshd")],
        )
    ]
    yield "softirq-3", {"interrupts"}, [
        texts.top(
            (6.0, 9.0, 82.0, 0.4, 2.6),
            [("R", 81.0, 0, "irq/44-enp3s0"), ("R", 8.0, 41_200, "nginx"), ("S", 1.0, 9_000, "sshd")],
        )
    ]
    yield "processor-not-most", HEALTHY, [texts.mpstat({**mean, **quiet, "3": {"usr": 82.0, "sys": 2.0}})]
    yield "processor-not-even", HEALTHY, [
        texts.mpstat({"all": {"usr": 42.0, "sys": 4.0}, **{str(n): {"usr": 42.0, "sys": 4.0} for n in range(8)}})
    ]
    yield "softirq-not-much", HEALTHY, [texts.mpstat({**mean, **quiet, "2": {"usr": 11.0, "sys": 6.0, "soft": 31.0}})]
    yield "softirq-not-thread", HEALTHY, [
        texts.top(
            (4.0, 2.0, 92.0, 0.2, 1.8),
            [("S", 18.0, 91_200, "haproxy"), ("S", 11.4, 0, "ksoftirqd/3"), ("S", 1.3, 12_000, "sshd")],
        )
    ]


def interrupts():
    def busy_rows(count, irq):
        return lambda number: {
            "all": {"sys": 8.0, "wait": 20.0, "irq": irq, "soft": irq} if number < count else {"usr": 1.0}
        }

    yield "interrupts-1", {"interrupts"}, [texts.mpstat(busy_rows(6, 29.0), 10)]
    yield "interrupts-2", {"interrupts"}, [texts.mpstat(busy_rows(4, 33.0), 10)]
    yield "interrupts-3", {"interrupts"}, [texts.mpstat(busy_rows(3, 31.0), 10)]
    yield "interrupts-not-one-row", {"none", "disk"}, [texts.mpstat(busy_rows(1, 30.0), 10)]
    yield "interrupts-not-few", {"none", "disk", "unknown"}, [texts.mpstat(busy_rows(10, 4.0), 10)]
    yield "interrupts-not-idle", HEALTHY, [texts.mpstat(busy_rows(0, 0.0), 10)]
    both = [("ens224-rxtx-0", [231_000_114]), ("ens224-rxtx-1", [188_410_220]), ("ens224-rxtx-2", [91_000_771])]
    yield "queues-1", {"interrupts"}, [texts.interrupts(both)]
    yield "queues-2", {"interrupts"}, [
        "$ grep eth2 /proc/interrupts\n"
        + texts.interrupts([("eth2-TxRx-0", [0, 81_400_220]), ("eth2-TxRx-1", [0, 77_100_220])], 16).split("\n", 1)[1]
    ]
    yield "queues-3", {"interrupts"}, [
        texts.interrupts([("virtio2-input.0", [91_400_220, 300]), ("virtio2-output.0", [88_100_220, 120])], 4)
    ]
    yield "queues-not-spread", {"none", "unknown"}, [
        texts.interrupts([(f"ens224-rxtx-{n}", [0] * n + [91_000_114]) for n in range(8)])
    ]
    yield "queues-not-several", {"none", "unknown"}, [texts.interrupts([("eth0", [231_000_114])])]
    yield "queues-not-used", {"none", "unknown"}, [
        texts.interrupts([("ens224-rxtx-0", [2_114]), ("ens224-rxtx-1", [1_800])])
    ]


def steal():
    rows = 8
    yield "steal-1", {"cpu"}, [texts.vmstat([{"r": 4, "us": 2, "sy": 1, "id": 0, "wa": 0}] * rows, steal=False)]
    yield "steal-2", {"cpu"}, [texts.vmstat([{"r": 2, "us": 9, "sy": 4, "id": 11, "wa": 0}] * rows, steal=False)]
    yield "steal-3", {"cpu"}, [texts.vmstat([{"r": 3, "us": 21, "sy": 6, "id": 8, "wa": 1, "st": 64}] * rows)]
    yield "steal-not-shown", HEALTHY, [texts.vmstat([{"us": 21, "sy": 6, "id": 72, "wa": 1}] * rows, steal=False)]
    yield "steal-not-much", HEALTHY, [texts.vmstat([{"us": 21, "sy": 6, "id": 69, "wa": 1, "st": 3}] * rows)]
    yield "steal-not-rounding", HEALTHY, [texts.vmstat([{"us": 20, "sy": 6, "id": 72, "wa": 1}] * rows, steal=False)]


def twins():
    def pair(slow, fast, busy, writes=112):
        return {
            "sdc": {"writes": writes, "write_ms": fast, "busy": 31.0},
            "sdd": {"writes": writes, "write_ms": slow, "busy": busy},
        }

    yield "twin-1", {"disk"}, [texts.iostat(pair(118.0, 8.0, 99.0), iowait=9.0)]
    yield "twin-2", {"disk"}, [texts.iostat(pair(61.0, 4.0, 93.0), iowait=8.0)]
    yield "twin-3", {"disk"}, [texts.iostat(pair(240.0, 11.0, 100.0, 44), iowait=14.0)]
    yield "twin-not-both", HEALTHY, [texts.iostat(pair(3.4, 3.1, 30.0), iowait=1.0)]
    yield "twin-not-equal", HEALTHY, [
        texts.iostat(
            {
                "sdc": {"writes": 9, "write_ms": 2.0, "busy": 2.0},
                "sdd": {"writes": 40, "write_ms": 9.0, "busy": 30.0},
            },
            iowait=1.0,
        )
    ]
    yield "twin-not-slow", HEALTHY, [texts.iostat(pair(3.9, 0.6, 28.0), iowait=1.0)]


def full_before_lazy():
    lazy = {"reads": 88, "read_ms": 8.4, "busy": 37.0}
    yield "lazy-1", {"disk:sde"}, [
        texts.iostat({"sda": lazy, "sde": {"reads": 1_600, "read_ms": 4.4, "busy": 97.0}}, iowait=31.0)
    ]
    yield "lazy-2", {"disk:sde"}, [
        texts.iostat({"sda": lazy, "sde": {"reads": 310, "read_ms": 31.0, "busy": 100.0}}, iowait=44.0)
    ]
    yield "lazy-3", {"disk:sde"}, [
        texts.iostat({"sda": lazy, "sde": {"writes": 420, "write_ms": 22.0, "busy": 99.0}}, iowait=38.0)
    ]


def members():
    def array(queue, milliseconds, busy, total):
        one = {"writes": 1000 * queue / milliseconds, "write_ms": milliseconds, "busy": busy, "write_kib": 64.0}
        disks = {f"nvme{n}n1": dict(one) for n in range(6)}
        return {
            **disks,
            "md0": {"writes": one["writes"] * 6, "write_ms": milliseconds * 1.1, "busy": total, "write_kib": 64.0},
        }

    yield "members-1", {"disk"}, [texts.iostat(array(1.7, 2.1, 83.0, 100.0), iowait=22.0)]
    yield "members-2", {"disk"}, [texts.iostat(array(1.6, 3.2, 78.0, 99.0), iowait=17.0)]
    yield "members-3", {"disk"}, [texts.iostat(array(1.9, 1.9, 88.0, 100.0), iowait=28.0)]
    yield "members-not-quick", HEALTHY, [texts.iostat(array(0.2, 0.2, 31.0, 44.0), iowait=1.0)]


def checks():
    yield "check-1", {"disk"}, [texts.mdstat("check")]
    yield "check-2", {"disk"}, [texts.mdstat("resync")]
    yield "check-3", {"disk"}, [
        texts.top(
            (3.0, 7.0, 55.0, 35.0),
            [
                ("D", 22.0, 0, "md4_resync"),
                ("S", 31.0, 0, "md4_raid6"),
                ("D", 2.0, 91_000, "postgres"),
                ("S", 1.0, 9_000, "sshd"),
            ],
        )
    ]
    yield "check-not", HEALTHY, [texts.mdstat()]
    yield "check-rebuild", {"disk"}, [texts.mdstat("recovery", "[4/3] [UU_U]")]


def network():
    ena = texts.form("ethtool-ena")
    yield "allowance-1", {"throttle", "network"}, [ena.format(0, 918_112)]
    yield "allowance-2", {"throttle", "network"}, [ena.format(44_120, 0)]
    yield "allowance-3", {"throttle", "network"}, [ena.format(7_100, 51_000)]
    yield "allowance-not", {"none", "unknown"}, [ena.format(0, 0)]
    yield "allowance-not-few", {"none", "unknown"}, [ena.format(3, 40)]
    ring = texts.form("ethtool")
    ifconfig = texts.form("ifconfig")
    ip = texts.form("ip-link")
    yield "drops-1", {"network", "interrupts"}, [ring.format(2_912_004)]
    yield "drops-2", {"network", "interrupts"}, [ifconfig.format(412_004)]
    yield "drops-3", {"network", "interrupts"}, [ip.format(912_004)]
    yield "drops-not-1", {"none", "unknown"}, [ring.format(71)]
    yield "drops-not-2", {"none", "unknown"}, [ifconfig.format(0)]
    yield "drops-not-3", {"none", "unknown"}, [ip.format(12)]


def nfs():
    yield "nfs-queue-1", {"network", "application"}, [texts.nfsiostat(9.1, 1.2, 3_900.0)]
    yield "nfs-queue-2", {"network", "application"}, [texts.nfsiostat(240.0, 4.0, 61.0)]
    yield "nfs-queue-3", {"network", "application"}, [texts.nfsiostat(31.0, 0.8, 900.0, 8.0)]
    yield "nfs-queue-not-1", {"none", "unknown"}, [texts.nfsiostat(12.0, 1.1, 0.2)]
    yield "nfs-queue-not-2", {"none", "unknown"}, [texts.nfsiostat(70.0, 2.0, 0.9)]
    yield "nfs-server", {"network"}, [texts.nfsiostat(41.0, 88.0, 2.0)]
    udp = texts.form("nfsstat-udp")
    linux = texts.form("nfsstat-linux")
    yield "repeats-1", {"network"}, [udp.format(88_120, 21_400, 210)]
    yield "repeats-2", {"network"}, [linux.format(912_004, 101_120)]
    yield "repeats-3", {"network"}, ["$ nfsstat -c\n" + udp.format(41_000, 2_900, 2_700)]
    yield "repeats-not-1", {"none", "unknown"}, [udp.format(88_120, 12, 3)]
    yield "repeats-not-2", {"none", "unknown"}, [linux.format(912_004, 901)]
    yield "repeats-not-3", {"none", "unknown"}, [linux.format(9_912_004, 0)]


def threads():
    kswapd = [("R", 99.3, 0, "kswapd0"), ("S", 12.0, 812_000, "java"), ("S", 1.0, 9_000, "sshd")]
    yield "reclaim-1", {"memory"}, [texts.top((5.0, 21.0, 68.0, 6.0), kswapd, load=(88.0, 81.0, 70.0))]
    yield "reclaim-2", {"memory"}, [
        texts.top(
            (8.0, 33.0, 57.0, 2.0),
            [
                ("R", 100.0, 0, "khugepaged"),
                ("R", 41.0, 0, "kcompactd1"),
                ("S", 22.0, 4_812_000, "mongod"),
                ("S", 1.0, 9_000, "sshd"),
            ],
        )
    ]
    yield "reclaim-3", {"memory"}, [
        texts.process_rows(
            [
                ("R", 77.2, 0, "kswapd1"),
                ("R", 71.0, 0, "kswapd0"),
                ("D", 9.0, 812_000, "ruby"),
                ("S", 1.0, 9_000, "sshd"),
            ]
        )
    ]
    yield "reclaim-not-1", HEALTHY, [
        texts.top(
            (25.0, 4.0, 70.0, 1.0),
            [("S", 44.0, 812_000, "java"), ("S", 3.1, 0, "kswapd0"), ("S", 1.0, 9_000, "sshd")],
        )
    ]
    yield "reclaim-not-2", {"none", "unknown"}, [
        texts.process_rows([("S", 14.0, 812_000, "java"), ("S", 2.0, 0, "khugepaged"), ("S", 1.0, 9_000, "sshd")])
    ]


def storage_threads():
    yield "raid-thread-1", {"cpu"}, [
        texts.top(
            (3.0, 19.0, 74.0, 4.0),
            [("R", 98.7, 0, "md7_raid6"), ("S", 21.0, 92_000, "rsync"), ("S", 1.0, 9_000, "sshd")],
        )
    ]
    yield "raid-thread-2", {"cpu"}, [
        texts.top(
            (3.0, 16.0, 79.0, 2.0),
            [("R", 99.9, 0, "kworker/u16:2+kcryptd"), ("S", 11.0, 92_000, "cp"), ("S", 1.0, 9_000, "sshd")],
        )
    ]
    yield "raid-thread-not", HEALTHY, [
        texts.top(
            (3.0, 9.0, 87.0, 1.0),
            [("S", 21.0, 92_000, "rsync"), ("S", 12.7, 0, "md7_raid6"), ("S", 1.0, 9_000, "sshd")],
        )
    ]
    yield "flushers-1", {"disk"}, [
        texts.process_rows(
            [
                ("D", 3.0, 91_000, "mysqld"),
                ("D", 1.0, 0, "jbd2/sdb1-8"),
                ("D", 0.7, 12_000, "rsyslogd"),
                ("D", 0.3, 0, "kworker/u8:1+flush-8:16"),
            ]
        )
    ]
    yield "flushers-not", {"none", "unknown"}, [
        texts.process_rows(
            [
                ("S", 3.0, 91_000, "mysqld"),
                ("S", 1.0, 0, "jbd2/sdb1-8"),
                ("S", 0.7, 12_000, "rsyslogd"),
                ("S", 0.3, 9_000, "sshd"),
            ]
        )
    ]


def controllers():
    mega = texts.form("megacli")
    bbu = texts.form("megacli-bbu")
    storcli = texts.form("storcli")
    ssacli = texts.form("ssacli")
    right = {"controller", "disk"}
    yield "controller-1", right, [mega.format("Optimal", "WriteThrough")]
    yield "controller-2", right, [storcli.format("RWTD", "Optl")]
    yield "controller-3", right, [ssacli.format("Temporarily Disabled", "Failed (Replace Batteries)")]
    yield "controller-4", right, [mega.format("Degraded", "WriteBack")]
    yield "controller-5", right, [storcli.format("RWBD", "Dgrd")]
    yield "controller-6", right, [texts.form("ssacli-volumes")]
    yield "controller-not-1", {"none", "unknown"}, [mega.format("Optimal", "WriteBack")]
    yield "controller-not-2", {"none", "unknown"}, [storcli.format("RWBD", "Optl")]
    yield "controller-not-3", {"none", "unknown"}, [ssacli.format("OK", "OK")]
    yield "controller-battery", {"none", "controller", "unknown"}, [bbu.format("Failed", "Yes")]
    slow = texts.iostat({"sda": {"writes": 108, "write_ms": 21.0, "busy": 98.0}}, iowait=18.0)
    quick = texts.iostat({"sda": {"writes": 108, "write_ms": 0.3, "busy": 4.0}}, iowait=0.2)
    yield "controller-slow", {"controller"}, [mega.format("Optimal", "WriteThrough"), slow]
    yield "controller-quick", HEALTHY, [mega.format("Optimal", "WriteThrough"), quick]


def clocks():
    cpupower = texts.form("cpupower")
    yield "clock-1", {"throttle"}, [cpupower.format("3.60 GHz", "800 MHz", "powersave", 0)]
    yield "clock-2", {"throttle"}, [cpupower.format("1.20 GHz", "1.20 GHz", "performance", 0)]
    yield "clock-3", {"throttle"}, ["".join(cpupower.format("3.60 GHz", "900 MHz", "powersave", n) for n in range(4))]
    yield "clock-not-1", {"none", "unknown"}, [cpupower.format("3.60 GHz", "3.41 GHz", "performance", 0)]
    yield "clock-not-2", {"none", "unknown"}, [cpupower.format("3.60 GHz", "2.90 GHz", "powersave", 0)]


def since_boot():
    dump = texts.form("vmstat-dump")
    yield "vmstat-dump-1", {"memory"}, [dump.format(2_912_004_112, 31_200_441, 33_100_441)]
    yield "vmstat-dump-2", {"memory"}, ["# cat /proc/vmstat\n" + dump.format(0, 12_100_441, 15_100_441)]
    yield "vmstat-dump-3", {"memory"}, [
        "".join("   " + line + "\n" for line in dump.format(71_200, 91_200_441, 98_100_441).splitlines())
    ]
    yield "vmstat-dump-not-1", {"none", "unknown"}, [dump.format(0, 0, 0)]
    yield "vmstat-dump-not-2", {"none", "unknown"}, [dump.format(0, 91_200, 812_004)]


def windows():
    table = texts.form("windows-table")
    listed = texts.form("windows-list")
    yield "windows-1", {"disk"}, [listed.format("F:", "0.141", "0.092", "131.2", "71.4")]
    yield "windows-2", {"disk"}, [table.format("H:", "0.061", "0.044", "210.4", "101.1")]
    yield "windows-3", {"disk"}, [listed.format("F:", "0.033", "0.180", "18.2", "88.1")]
    yield "windows-not-1", {"none", "unknown"}, [listed.format("F:", "0.002", "0.001", "31.2", "11.4")]
    yield "windows-not-2", {"none", "unknown"}, [table.format("H:", "0.004", "0.003", "12.4", "9.1")]


def quotas():
    stat = texts.form("cpu-stat-v1")
    new = texts.form("cpu-stat-v2")
    yield "quota-1", {"throttle"}, [stat.format(4120, 3810, 912_004_112_004)]
    yield "quota-2", {"throttle"}, [new.format(9120, 7810, 1_912_004_112)]
    yield "quota-3", {"throttle"}, ["$ cat /sys/fs/cgroup/web.slice/cpu.stat\n" + new.format(612, 410, 91_204_112)]
    yield "quota-not-1", {"none", "throttle"}, [stat.format(211, 3, 7_100_441)]
    yield "quota-not-2", {"none"}, [new.format(9120, 40, 1_912_004)]
    yield "quota-not-3", {"none"}, [stat.format(8120, 0, 0)]


def runs():
    """Two runs or machines in one text, and other output below a table, without a prompt between."""
    quiet = texts.vmstat([{"wa": 0, "id": 96}] * 8)
    sick = texts.vmstat([{"b": 9, "wa": 78, "us": 4, "id": 14, "bo": 1_900}] * 8)
    prompt = "root@{}:~# vmstat 1 8\n{}".format
    yield "runs-again", {"disk"}, [quiet + sick]
    yield "runs-again-quiet", {"disk"}, [sick + quiet]
    yield "runs-after", {"disk"}, ["before:\n" + quiet + "after the change:\n" + sick]
    yield "runs-cache", {"disk"}, ["# with cache off\n" + sick + "# with cache on\n" + quiet]
    yield "runs-machines", {"disk"}, [prompt("web1", quiet) + prompt("db2", sick)]
    yield "runs-machines-quiet", {"disk"}, [prompt("db2", sick) + prompt("web1", quiet)]
    yield "runs-array", {"disk"}, [quiet + texts.mdstat("recovery")]
    yield "runs-not-sick", HEALTHY, ["before:\n" + quiet + "after the change:\n" + quiet]
    yield "runs-machines-not-sick", HEALTHY, [prompt("web1", quiet) + prompt("db2", quiet)]


def elsewhere():
    rows = 10
    waits = texts.vmstat([{"b": 20, "wa": 98, "us": 0, "sy": 1, "id": 1}] * rows)
    idle = {"sda": {"writes": 0.5, "write_ms": 0.4, "busy": 0.1}}
    right = {"unknown", "network"}
    yield "elsewhere-1", right, [waits, texts.iostat(idle, user=0.5, iowait=97.0)]
    yield "elsewhere-2", right, [waits, texts.iostat({**idle, "sdb": {"busy": 0.0}}, user=0.5, iowait=0.4)]
    yield "elsewhere-not-idle", {"disk"}, [
        waits,
        texts.iostat({"sda": {"reads": 210, "read_ms": 41.0, "busy": 99.0}}, user=0.5, iowait=97.0),
    ]
    yield "elsewhere-not-waiting", HEALTHY, [texts.vmstat([{}] * rows), texts.iostat(idle, iowait=0.2)]


def both_tools():
    rows = 10
    yield "both-disk", {"disk:sda"}, [
        texts.vmstat([{"b": 6, "wa": 61, "us": 4, "id": 33, "bi": 9_000}] * rows),
        texts.iostat({"sda": {"reads": 190, "read_ms": 38.0, "busy": 99.0}}, iowait=60.0),
    ]
    yield "both-memory", {"memory"}, [
        texts.vmstat([{"swpd": 1_820_400, "si": 900, "so": 1400, "b": 9, "wa": 71, "us": 3, "id": 24}] * rows),
        texts.iostat({"sda": {"reads": 190, "read_ms": 38.0, "busy": 99.0}}, iowait=70.0),
    ]
    yield "both-healthy", HEALTHY, [
        texts.vmstat([{"r": 2, "us": 31, "sy": 9, "id": 60}] * rows),
        texts.iostat({"sda": {"reads": 41, "read_ms": 0.5, "busy": 3.0}}, user=31.0, iowait=0.3),
    ]


def protocols():
    netstat = texts.form("netstat")
    nstat = texts.form("nstat")
    yield "udp-1", {"network"}, [netstat.format(212, 1_219_788, 9_000, 0, 3_000)]
    yield "udp-2", {"network"}, [nstat.format(212, 1_219_788)]
    yield "udp-beside", {"network"}, [netstat.format(212, 1_219_788, 9_000, 0, 3_000), texts.vmstat([{}] * 10)]
    yield "udp-not", {"none", "unknown"}, [netstat.format(1_219_788, 12, 9_000, 0, 3_000)]
    yield "listen-1", {"application"}, [netstat.format(12_000, 0, 90_000, 4_000, 3_000)]
    yield "listen-not", {"none", "unknown"}, [netstat.format(12_000, 0, 90_000, 31, 3_000)]
    yield "segments-1", {"network"}, [netstat.format(12_000, 0, 90_000, 0, 400_000)]


def file_systems():
    df = texts.form("df")
    yield "full-1", {"disk"}, [df.format(48_712_345, 0, 100)]
    yield "full-beside", HEALTHY, [df.format(48_712_345, 0, 100), texts.vmstat([{}] * 10)]
    yield "full-not", {"none", "unknown"}, [df.format(20_712_345, 28_000_000, 43)]


def arrays():
    inactive = "Personalities : [raid1]\nmd7 : inactive sdq[1](S) sdr[0](S)\n      976762584 blocks super 1.2\n\n"
    yield "inactive-1", {"disk"}, [inactive + "unused devices: <none>\n"]
    yield "degraded-1", {"disk"}, [texts.mdstat("", "[4/3] [UU_U]")]


def chosen_policies():
    mega = texts.form("megacli")
    chosen = mega.replace("Default Cache Policy: WriteBack", "Default Cache Policy: WriteThrough")
    yield "chosen-1", {"none", "unknown"}, [chosen.format("Optimal", "WriteThrough")]
    yield "chosen-not", {"controller"}, [mega.format("Optimal", "WriteThrough")]


def healthy():
    yield "healthy-1", HEALTHY, [texts.vmstat([{"r": 5, "us": 61, "sy": 9, "wa": 2, "id": 28, "bo": 4100}] * 10)]
    yield "healthy-2", HEALTHY, [
        texts.top(
            (44.0, 6.0, 48.5, 1.5),
            [("R", 210.0, 2_812_000, "java"), ("S", 31.0, 912_000, "nginx"), ("S", 1.0, 9_000, "sshd")],
            load=(4.1, 3.9, 3.2),
        )
    ]
    yield "healthy-3", HEALTHY, [
        texts.iostat(
            {"sda": {"reads": 410, "read_ms": 0.4, "writes": 210, "write_ms": 0.6, "busy": 38.0}},
            user=41.0,
            iowait=0.6,
        )
    ]
    yield "healthy-4", HEALTHY, [texts.vmstat([{"r": 2, "us": 31, "sy": 9, "wa": 0, "id": 60, "swpd": 41_000}] * 10)]


MAKERS = [
    paging,
    cache,
    iowait,
    serial,
    processors,
    interrupts,
    steal,
    twins,
    full_before_lazy,
    members,
    checks,
    network,
    nfs,
    threads,
    storage_threads,
    controllers,
    clocks,
    since_boot,
    windows,
    quotas,
    runs,
    elsewhere,
    both_tools,
    protocols,
    file_systems,
    arrays,
    chosen_policies,
    healthy,
]


def all_cases():
    """Every case: name, right answers (`disk:sde` names the instance too), texts."""
    for maker in MAKERS:
        yield from maker()

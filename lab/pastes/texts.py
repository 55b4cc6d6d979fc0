"""Output of tools as people paste it, made from the figures that matter; all others are of no account."""

import os

FORMS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "forms")


def form(name):
    """A text with places for figures (`{0}`), which the folder `forms` holds."""
    with open(os.path.join(FORMS, name + ".txt"), encoding="utf-8") as file:
        return file.read()


def vmstat(rows, steal=True):
    """Rows of `vmstat 1`: a dict of columns each, KiB; what is not named is quiet."""
    usual = {
        "r": 1,
        "b": 0,
        "swpd": 0,
        "free": 412_044,
        "buff": 61_220,
        "cache": 2_204_118,
        "si": 0,
        "so": 0,
        "bi": 12,
        "bo": 90,
        "in": 711,
        "cs": 1320,
        "us": 3,
        "sy": 2,
        "id": 95,
        "wa": 0,
        "st": 0,
    }
    columns = list(usual)[: None if steal else -1]
    text = (
        "procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu-----\n"
        + " ".join(f"{name:>6}" for name in columns)
        + "\n"
    )
    for number, row in enumerate(rows):
        values = {**usual, **row}
        values["cs"] += 7 * number
        text += " ".join(f"{values[name]:>6}" for name in columns) + "\n"
    return text


def iostat(disks, reports=6, user=4.0, iowait=6.0, first=True):
    """Reports of `iostat -x 1`: for each disk reads and writes a second, their milliseconds and KiB, queue and busy."""
    text = "Linux 5.10.0-21-amd64 (box) \t02/17/2024 \t_x86_64_\t(8 CPU)\n\n" if first else ""
    idle = 100.0 - user - iowait - 2.0
    for number in range(reports):
        text += (
            "avg-cpu:  %user   %nice %system %iowait  %steal   %idle\n"
            f"          {user:6.2f}    0.00    2.00  {iowait:6.2f}    0.00  {idle:6.2f}\n\n"
            "Device            r/s     rkB/s   rrqm/s  %rrqm r_await rareq-sz     w/s     wkB/s   wrqm/s  %wrqm "
            "w_await wareq-sz  aqu-sz  %util\n"
        )
        for name, disk in disks.items():
            reads, writes = (disk.get(key, 0.0) * (1 + 0.01 * number) for key in ("reads", "writes"))
            read_kib, write_kib = disk.get("read_kib", 16.0), disk.get("write_kib", 16.0)
            read_ms, write_ms = disk.get("read_ms", 0.0), disk.get("write_ms", 0.0)
            queue = disk.get("queue", (reads * read_ms + writes * write_ms) / 1000)
            text += (
                f"{name:<12} {reads:8.2f} {reads * read_kib:9.2f}     0.00   0.00 {read_ms:7.2f} {read_kib:8.2f} "
                f"{writes:8.2f} {writes * write_kib:9.2f}     0.00   0.00 {write_ms:7.2f} {write_kib:8.2f} "
                f"{queue:7.2f} {disk.get('busy', 50.0):6.2f}\n"
            )
        text += "\n"
    return text


def mpstat(processors, reports=5):
    """Reports of `mpstat -P ALL 1`: for each processor (`all` among them) its shares, percent."""
    text = "Linux 5.10.0-21-amd64 (box) \t02/17/2024 \t_x86_64_\t(8 CPU)\n\n"
    for number in range(reports):
        since, at = f"10:20:{number:02}", f"10:20:{number + 1:02}"
        text += f"{since}     CPU    %usr   %nice    %sys %iowait    %irq   %soft  %steal  %guest  %gnice   %idle\n"
        for name, shares in processors(number).items() if callable(processors) else processors.items():
            usr, sys, wait, irq, soft = (shares.get(key, 0.0) for key in ("usr", "sys", "wait", "irq", "soft"))
            idle = 100.0 - usr - sys - wait - irq - soft
            text += (
                f"{at}    {name:>4} {usr:7.2f}    0.00 {sys:7.2f} {wait:7.2f} {irq:7.2f} {soft:7.2f}"
                f"    0.00    0.00    0.00 {idle:7.2f}\n"
            )
        text += "\n"
    return text


def top(
    shares,
    rows,
    load=(1.2, 1.1, 0.9),
    memory=(16_284_412, 412_000, 9_120_000, 6_752_412),
    swap=(4_000_000, 0),
    available=6_100_000,
):
    """One frame of top: shares of processors, rows of processes (state, share of a processor, KiB resident, name)."""
    user, system, idle, wait = shares[:4]
    soft, steal = (shares[4:] + (0.0, 0.0))[:2]
    total, free, used, cached = memory
    text = (
        f"top - 11:41:07 up 31 days,  4:02,  2 users,  load average: {load[0]:.2f}, {load[1]:.2f}, {load[2]:.2f}\n"
        "Tasks: 312 total,   2 running, 310 sleeping,   0 stopped,   0 zombie\n"
        f"%Cpu(s): {user:4.1f} us, {system:4.1f} sy,  0.0 ni, {idle:4.1f} id, {wait:4.1f} wa,  0.0 hi, "
        f"{soft:4.1f} si, {steal:4.1f} st\n"
        f"KiB Mem : {total} total, {free} free, {used} used, {cached} buff/cache\n"
        f"KiB Swap: {swap[0]} total, {swap[0] - swap[1]} free, {swap[1]} used. {available} avail Mem\n\n"
    )
    return text + process_rows(rows)


def process_rows(rows):
    """Rows of top alone."""
    text = "  PID USER      PR  NI    VIRT    RES    SHR S  %CPU %MEM     TIME+ COMMAND\n"
    for number, (state, share, resident, name) in enumerate(rows):
        text += (
            f"{300 + 17 * number:>5} root      20   0 {resident * 3:>7} {resident:>6} {resident // 9:>6} {state} "
            f"{share:>5.1f}  0.4 {number + 3}:12.40 {name}\n"
        )
    return text


def nfsiostat(rate, round_trip_ms, queue_ms, write_kib=32.0):
    """A report of nfsiostat: writes a second, and where they spend their time."""
    heading = (
        "ops/s            kB/s           kB/op         retrans    avg RTT (ms)    avg exe (ms)  "
        "avg queue (ms)          errors\n"
    )
    return (
        "nas4:/export/home mounted on /home:\n\n           ops/s       rpc bklog\n"
        f"{rate + 0.2:>16.3f}           0.000\n\nread:              {heading}"
        "                   0.000           0.000           0.000        0 (0.0%)           0.000           0.000"
        f"           0.000        0 (0.0%)\nwrite:             {heading}"
        f"{rate:>24.3f} {rate * write_kib:>15.3f} {write_kib:>15.3f}        0 (0.0%) {round_trip_ms:>15.3f} "
        f"{round_trip_ms + queue_ms:>15.3f} {queue_ms:>15.3f}        0 (0.0%)\n"
    )


def mdstat(work="", members="[4/4] [UUUU]", level="raid6"):
    """/proc/mdstat with one array."""
    line = f"      [===>.................]  {work} = 17.3% (337912/1953382) finish=201.5min speed=41200K/sec\n"
    return (
        f"Personalities : [{level}]\nmd4 : active {level} sdf1[3] sde1[2] sdd1[1] sdc1[0]\n"
        f"      3906764800 blocks super 1.2 level 6, 512k chunk, algorithm 2 {members}\n"
        f"{line if work else ''}\nunused devices: <none>\n"
    )


def interrupts(lines, processors=12):
    """/proc/interrupts: a name and the numbers of the first processors for each line."""
    text = "      " + "".join(f"{f'CPU{number}':>12}" for number in range(processors)) + "\n"
    for number, (name, counts) in enumerate(lines):
        counts = list(counts) + [0] * (processors - len(counts))
        text += (
            f"{90 + number:>4}: "
            + "".join(f"{count:>11} " for count in counts)
            + f"  PCI-MSI {700 + number}-edge {name}\n"
        )
    return text

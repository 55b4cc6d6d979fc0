"""Bounds everywhere: memory of children, bombs, many devices, holes. Each has a figure that must not be passed."""

import gzip
import lzma
import os
import struct
import subprocess
import threading
import time

from hostile.trial import Broken, Case, Unavailable

MIB = 1 << 20
MOST_BYTES = 768 * MIB
SPOOL_MIB = 32


def devices_page(bench, devices, ticks=3, name="page.prom"):
    """A page of so many disks, each with one metric."""
    path = bench.path(name)
    with open(path, "w", encoding="ascii") as file:
        file.write("# TYPE node_disk_reads_completed_total counter\n")
        for tick in range(ticks):
            for device in range(devices):
                file.write(f'node_disk_reads_completed_total{{device="sd{device:06}"}} {tick * (device % 97)} '
                           f"{1700000000 + 15 * tick}000\n")
        file.write("# EOF\n")
    return path


def describe_usage(done):
    return f"exit {done.code} after {done.seconds:.1f} s, at most {done.peak // MIB} MiB: {done.said}"


# --- many devices -----------------------------------------------------------------------------------------

def many_devices(bench, devices, seconds, command):
    """The time is the command's own, of a log of ours that was made before."""
    log = bench.path("log")
    made = bench.run("import", devices_page(bench, devices), "--to", log)
    if made.code:
        raise Broken(f"import: {describe_usage(made)}")
    more = {"report": ["-o", bench.path("page.html")], "show": ["--counter", "physical_disk.*"]}.get(command, [])
    done = bench.run(command, log, *more, patience=2 * seconds, memory=4 << 30)
    if done.code or done.ended or done.seconds > seconds:
        raise Broken(describe_usage(done))
    return f"{describe_usage(done)} (import {made.seconds:.1f} s)"


IOSTAT_ROW = "sd{n:05} 1.00 4.00 0.00 0.00 1.00 4.00 0.00 0.00 0.00 0.00 0.00 0.00 0.00 0.00 0.00 0.00 0.00 0.00 " \
             "0.00 0.00 0.01 1.00\n"
IOSTAT_HEAD = "Device            r/s     rkB/s   rrqm/s  %rrqm r_await rareq-sz     w/s     wkB/s   wrqm/s  %wrqm " \
              "w_await wareq-sz     d/s     dkB/s   drqm/s  %drqm d_await dareq-sz     f/s f_await  aqu-sz  %util\n"


def iostat(file, disks, reports):
    """Reports of so many disks, as iostat -tx prints them."""
    file.write("Linux 6.1 (host) \t11/22/2026 \t_x86_64_\t(2 CPU)\n\n")
    rows = "".join(IOSTAT_ROW.format(n=n) for n in range(disks))
    for report in range(reports):
        at = time.strftime("%m/%d/%Y %I:%M:%S %p", time.gmtime(1_700_000_000 + report))
        file.write(f"{at}\n{IOSTAT_HEAD}{rows}\n")


MANY = """
[system]
name = "many"
[watch]
duration = "5s"
[[drive]]
name = "{name}"
count = {count}
capacity = "1GiB"
[drive.plain]
servers = 1
service = {{ uniform_us = [4800, 11200] }}
[[workload]]
name = "readers"
users = 8
on = "{name}1"
"""


def many_disks(bench, disks):
    """So many disks with long names make the machine's description in the log, a note, longer than 1 MiB."""
    system = bench.write("many.toml", MANY.format(name="disk-" + "volume" * 9, count=disks))
    log = bench.path("log")
    made = bench.run("simulate", system, "--out", log)
    done = bench.run("report", log, "-o", bench.path("page.html"))
    if made.code or done.code or done.ended:
        raise Broken(f"simulate {describe_usage(made)}; report {describe_usage(done)}")
    return describe_usage(done)


# --- children and spools ----------------------------------------------------------------------------------

def recorded(bench):
    """A small file of sar, and where in it the number of items of each activity stands."""
    path = bench.path("sa")
    bench.output(["sar", "-o", path, "1", "1"])
    with open(path, "rb") as file:
        return bytearray(file.read())


def grown_sadf(bench):
    """A file of sar in which a count is not what it was. Whatever sadf does with it, it does within a
    limit. Which count it is differs by version: one at a time is raised until a plain sadf grows."""
    content = recorded(bench)
    for at in range(0, min(len(content), 1600), 4):
        if grown(bench, content, at, RAISED)[0] > SUSPECT:
            break
    else:
        raise Unavailable(f"no count makes this sadf grow beyond {SUSPECT // MIB} MiB")
    plain, path = grown(bench, content, at, 6 * RAISED)
    done = bench.run("why", path, patience=120, memory=6 << 30)
    finding = f"byte {at}: a plain sadf takes {plain // MIB} MiB or more; {describe_usage(done)}"
    if done.peak > MOST_BYTES or done.ended or (done.code and not done.said):
        raise Broken(finding)
    return finding


RAISED, SUSPECT = 4_000_000, 256 * MIB


def grown(bench, content, at, value):
    """What a plain sadf takes for the file with one count raised, and that file."""
    changed = content[:]
    struct.pack_into("<I", changed, at, value)
    path = bench.write("sa.changed", bytes(changed))
    script = 'ulimit -v 6000000 -t 3; exec sadf -j "$0" -- -A > /dev/null'
    return bench.program(["sh", "-c", script, path], patience=10, memory=6 << 30).peak, path


class MinFreeSpace(threading.Thread):
    """Follows the smallest free space of a filesystem."""

    def __init__(self, folder):
        super().__init__(daemon=True)
        self.folder, self.least, self.over = folder, 1 << 62, threading.Event()
        self.start()

    def run(self):
        while not self.over.wait(0.002):
            room = os.statvfs(self.folder)
            self.least = min(self.least, room.f_bavail * room.f_frsize)


PACKERS = {"gz": gzip.compress, "xz": lzma.compress, "zst": None}


def bomb(bench, kind, mib):
    """A small compressed file becomes a large one on the way to sadf; the temporary folder has little room."""
    plain = bytes(recorded(bench)) + bytes(mib * MIB)
    packed = bench.path(f"sa.{kind}")
    if PACKERS[kind]:
        bench.write(f"sa.{kind}", PACKERS[kind](plain))
    else:
        bench.output(["zstd", "-q", bench.write("sa", plain), "-o", packed])
    temporary = bench.mount("tmpfs", "temporary", "-t", "tmpfs", "-o", f"size={SPOOL_MIB}m")
    min_free = MinFreeSpace(temporary)
    done = bench.run("why", packed, env={"TMPDIR": temporary}, patience=180)
    min_free.over.set()
    min_free.join()
    finding = (f"{os.path.getsize(packed) >> 10} KiB of {mib} MiB; {describe_usage(done)}; "
            f"least room {min_free.least / MIB:.1f} MiB")
    left = os.listdir(temporary)
    if done.ended or done.peak > MOST_BYTES or min_free.least < MIB or left or (done.code and not done.said):
        raise Broken(finding + (f"; left {left}" if left else ""))
    return finding


# --- holes -------------------------------------------------------------------------------------------------------

def sparse(bench, kind):
    """A terabyte of nothing, which takes no room on the disk and days to read."""
    folder = bench.disk_folder()
    path = os.path.join(folder, "log")
    if kind == "segment":
        bench.run("record", path, "--for", "300ms", "--every", "100ms")
        target = os.path.join(path, "00000001.dwlog")
    else:
        target = path = os.path.join(folder, "iostat.txt")
        with open(path, "w", encoding="ascii") as file:
            if kind == "behind a head":
                iostat(file, 2, 3)
    try:
        os.truncate(target, 1 << 40)
    except OSError as error:
        raise Unavailable(f"no terabyte of holes here: {error}") from None
    broken, worst = [], 0
    for words in (["why"], ["show"], ["export", "--as", "csv", "-o", bench.path("out.csv")]):
        done = bench.run(words[0], path, *words[1:], patience=15)
        worst = max(worst, done.seconds)
        if done.ended or done.peak > MOST_BYTES or (done.code and not done.said):
            broken.append(f"{words[0]}: {'ended by us, ' * done.ended}{describe_usage(done)}")
    if broken:
        raise Broken("; ".join(broken))
    return f"three commands, at most {worst:.1f} s"


def endless_stdin(bench):
    """A log that comes without an end, from a pipe."""
    with subprocess.Popen(["yes", "no log at all"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as source:
        temporary = bench.mount("tmpfs", "temporary", "-t", "tmpfs", "-o", f"size={SPOOL_MIB}m")
        try:
            process = bench.begin("import", "-", "--to", bench.path("log"), env={"TMPDIR": temporary},
                                  stdin=source.stdout)
            end = time.monotonic() + 60
            while process.poll() is None and time.monotonic() < end:
                time.sleep(0.1)
            ended = process.poll() is not None
            bench.end(process)
        finally:
            source.kill()
    with open(process.err, encoding="utf-8", errors="replace") as err:
        message = err.read().strip()
    if not ended or process.returncode != 1 or os.listdir(temporary):
        raise Broken(f"ended {ended}, exit {process.returncode}, left {os.listdir(temporary)}: {message}")
    return f"exit 1: {message.splitlines()[-1]}"


CASES = [
    *(Case(f"bounds/{command}, {devices:,} devices", f"{command} of a log with {devices:,} devices",
           f"within {seconds} s", many_devices, (devices, seconds, command))
      for command, devices, seconds in (("show", 20_000, 10), ("show", 100_000, 30), ("why", 20_000, 30),
                                        ("report", 20_000, 30))),
    Case("bounds/report, long description", "report of a log of 4,096 disks with long names", "a page", many_disks,
         (4096,)),
    Case("bounds/sadf", "a file of sar with a count that makes sadf grow", f"at most {MOST_BYTES // MIB} MiB in all",
         grown_sadf, needs=frozenset({"sar", "sadf"})),
    *(Case(f"bounds/bomb, {kind}", f"a compressed file of sar of 150 MiB with {SPOOL_MIB} MiB of temporary room",
           f"at least 1 MiB of room is left, at most {MOST_BYTES // MIB} MiB, nothing left behind", bomb, (kind, 150),
           frozenset({"sar", "zstd"} if kind == "zst" else {"sar"}), kind == "gz") for kind in PACKERS),
    *(Case(f"bounds/sparse, {kind}", "why, show and export of a file with a terabyte of holes",
           "an end within 15 s each", sparse, (kind,), tiny=kind == "from the start")
      for kind in ("from the start", "behind a head", "segment")),
    Case("bounds/endless input", "import - of a pipe that does not end", "exit 1, and nothing left behind",
         endless_stdin),
]

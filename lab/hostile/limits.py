"""Limits: those of the host, under which the program must run on or say what it lacks; and the program's own, within
which input of any size stays cheap."""

import http.client
import json
import os
import resource
import signal
import subprocess
import threading
import time

from hostile.logs import Read
from hostile.recorder import finished, record
from hostile.trial import Broken, Case, Unavailable, fields_of

MIB = 1 << 20
SYSTEMS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "systems")
# What a command may hold while it refuses a file without an end.
MOST_OF_ENDLESS = 128 * MIB


# --- limits of the host ------------------------------------------------------------------------------

def limited(bench, name, values, tiny_values):
    """The recorder under a limit of the host: it records, or ends with an error that says why; no signal ends it."""
    happened = []
    for value in tiny_values if bench.tiny else values:
        log = bench.path(f"log{value}")
        kind = {"f": resource.RLIMIT_FSIZE, "n": resource.RLIMIT_NOFILE, "v": resource.RLIMIT_AS}[name]
        limit = value * {"f": 1024, "n": 1, "v": 1024}[name]
        process = bench.begin("record", log, "--every", "100ms", "--for", "3s", "--json",
                              preexec_fn=lambda kind=kind, limit=limit: resource.setrlimit(kind, (limit, limit)))
        try:
            process.wait(40)
        except subprocess.TimeoutExpired:
            bench.end(process, signal.SIGKILL)
            raise Broken(f"ulimit -{name} {value}: it hangs") from None
        document, message = finished(process)
        message = message.strip().splitlines()[-1:] or [""]
        if process.returncode not in (0, 1) or process.returncode == 1 and not message[0]:
            raise Broken(f"ulimit -{name} {value}: exit {process.returncode}: {message[0]}")
        if process.returncode == 0 and not document["series"]:
            if "no counter of this machine could be read" not in message[0]:
                raise Broken(f"ulimit -{name} {value}: no counter, and nothing said: {message[0]}")
            happened.append(f"{value}: told that no counter could be read")
        elif process.returncode == 0:
            read = Read(bench, log)
            told = document.get("ticks_lost", 0) + document.get("ticks_missed", 0)
            if len(read.times) + told < 20:
                raise Broken(f"ulimit -{name} {value}: {len(read.times)} of 30 ticks are left, {told} told lost")
            happened.append(f"{value}: {len(read.times)} ticks")
        else:
            happened.append(f"{value}: refused")
    return "; ".join(happened)


def removed_ticks(bench):
    """A log's folder that is removed: its ticks are counted."""
    import shutil
    log = bench.path("log")
    process = record(bench, log, every="20ms")
    time.sleep(8)
    shutil.rmtree(log)
    time.sleep(2)
    bench.end(process)
    document, _ = finished(process)
    left = len(Read(bench, log).times)
    told = document.get("ticks_removed", 0)
    if document["ticks"] - left != told or not told:
        raise Broken(f"{document['ticks']} recorded, {left} left, {told} told to be removed")
    return f"{document['ticks']} recorded, {left} left, {told} told to be removed"


# --- limits of the program ----------------------------------------------------------------------------

def endless(bench):
    """A file without an end for each option that names one."""
    log, system = bench.path("log"), os.path.join(SYSTEMS, "one-arm.toml")
    bench.run("record", log, "--for", "1s", "--every", "200ms")
    zero, tries = "/dev/zero", 0
    for words in (["simulate", zero], ["simulate", system, "--replay", zero], ["plan", log, "--prices", zero],
                  ["why", log, "--pack", zero], ["why", log, "--topology", zero],
                  ["watch", log, "--once", "--panels", zero],
                  ["record", bench.path("own"), "--for", "200ms", f"--alerts={zero}"], ["why", zero],
                  ["compare", zero, zero]):
        done = bench.run(*words, patience=60, memory=2 << 30)
        tries += 1
        if done.code not in (1, 2) or done.ended or not done.said or done.peak > MOST_OF_ENDLESS:
            raise Broken(f"{' '.join(words)}: exit {done.code}, {done.peak // MIB} MiB, {done.seconds:.0f} s: "
                         f"{done.said}")
    return f"{tries} refused with a message"


def wide_log(bench, columns, rows=3):
    """A PerfMon text with so many columns."""
    path = bench.path(f"wide{columns}.csv")
    with open(path, "w", encoding="ascii") as file:
        file.write('"(PDH-CSV 4.0) (GMT)(0)"')
        for column in range(columns):
            file.write(f',"\\\\HOST\\PhysicalDisk({column} D{column}:)\\Avg. Disk Queue Length"')
        file.write("\n")
        for row in range(rows):
            file.write(f'"11/20/2026 10:00:{row * 15:02}.000"' + ',"1.5"' * columns + "\n")
    return path


def wide(bench, columns, seconds):
    log, worst = wide_log(bench, columns), 0.0
    for words in (["why", log], ["report", log, "-o", bench.path("page.html")], ["watch", log, "--once"]):
        done = bench.run(*words, patience=5 * seconds)
        worst = max(worst, done.seconds)
        if done.ended or done.code or done.seconds > seconds:
            raise Broken(f"{words[0]}: exit {done.code}, {done.seconds:.1f} s: {done.said}")
    return f"at most {worst:.1f} s"


def refused_heading(bench):
    """A million columns are refused by the heading."""
    log = wide_log(bench, 1_000_000, rows=1)
    done = bench.run("why", log)
    if done.code != 1 or done.seconds > 5 or done.peak > 512 * MIB:
        raise Broken(f"exit {done.code}, {done.seconds:.1f} s, {done.peak // MIB} MiB: {done.said}")
    return f"{done.seconds:.1f} s, {done.peak // MIB} MiB: {done.said}"


def long_name(bench, letters):
    """A name of very many letters."""
    log = bench.write("long.csv", '"(PDH-CSV 4.0) (GMT)(0)","\\\\HOST\\PhysicalDisk(' + "x" * letters
                      + ')\\Avg. Disk Queue Length"\n' + "".join(
                          f'"11/20/2026 10:00:{row * 15:02}.000","1.5"\n' for row in range(4)))
    for command in ("show", "why"):
        done = bench.run(command, log)
        if done.code or done.seconds > 5 or done.peak > 512 * MIB:
            raise Broken(f"{command}: exit {done.code}, {done.seconds:.1f} s, {done.peak // MIB} MiB: {done.said}")
    return "two commands within 5 s"


def many_values(bench):
    """A list of 5,000 values to simulate."""
    users = ",".join(map(str, range(1, 5001)))
    done = bench.run("simulate", os.path.join(SYSTEMS, "one-arm.toml"), "--users", users)
    if done.code not in (0, 2) or done.seconds > 10:
        raise Broken(f"exit {done.code}, {done.seconds:.1f} s: {done.said}")
    return f"exit {done.code}, {done.seconds:.1f} s: {done.said}"


# --- what is cut in the middle ------------------------------------------------------------------------

SETTING, ITEM = "/proc/sys/kernel/task_delayacct", "host.delay-accounting"


def cut_advice(bench):
    """`advise --apply` and `--undo` end at a call of the kernel, each at another one: the setting can be taken back."""
    if not os.path.exists(SETTING):
        raise Unavailable(f"no {SETTING}")
    with open(SETTING, encoding="ascii") as file:
        before = file.read()
    if before.strip() != "0":
        raise Unavailable("the setting is as advised already")
    # the setting is opened and written a few times; the record is written, synced and renamed
    points = [(call, place, count) for call, place, counts in (
        ("openat", SETTING, 8), ("write", SETTING, 3), ("fsync", None, 4), ("rename", None, 2))
        for count in range(1, counts + 1)]
    cut = 0
    try:
        for call, place, count in points[::4] if bench.tiny else points:
            for words in (["advise", "--apply", ITEM], ["advise", "--undo", ITEM]):
                only = ["-P", place] if place else []
                done = bench.program(["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={call}", "-e",
                                      f"inject={call}:signal=KILL:when={count}", *only, bench.binary, *words])
                cut += done.code not in (0, 1, 2)
                state = bench.run("advise", "--json")
                if state.code:
                    raise Broken(f"{words[1]} cut at {call} {count}: advise says {state.said}")
            bench.run("advise", "--undo", ITEM)
            with open(SETTING, encoding="ascii") as file:
                now = file.read()
            if now != before:
                raise Broken(f"cut at {call} {count}: the setting is {now.strip()} after --undo")
    finally:
        with open(SETTING, "w", encoding="ascii") as file:
            file.write(before)
    return f"{cut} of {2 * len(points)} were cut; each time the setting could be taken back"


# --- very many of something ----------------------------------------------------------------------------

def many_viewers(bench, devices, viewers):
    """A log of very many series served to many pages that follow it."""
    log = wide_log(bench, devices)
    own = bench.path("log")
    done = bench.run("import", log, "--to", own)
    if done.code:
        raise Broken(f"import: {done.said}")
    process = bench.begin("serve", own, "--listen", "127.0.0.1:0")
    address, end = None, time.monotonic() + 20
    while not address and time.monotonic() < end and process.poll() is None:
        time.sleep(0.1)
        with open(process.out, encoding="utf-8") as out, open(process.err, encoding="utf-8") as err:
            text = out.read() + err.read()
        found = [word for word in text.replace('"', " ").split() if word.startswith("http://")]
        address = found[0] if found else None
    if not address:
        raise Broken(f"serve told no address: {text[-200:]}")
    host, _, port = address.removeprefix("http://").split("/")[0].rpartition(":")
    answered, lock = [], threading.Lock()

    def view():
        connection = http.client.HTTPConnection(host, int(port), timeout=30)
        connection.request("GET", "/")
        response = connection.getresponse()
        size = len(response.read())
        with lock:
            answered.append((response.status, size))

    began = time.monotonic()
    threads = [threading.Thread(target=view) for _ in range(viewers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.monotonic() - began
    bench.end(process)
    wrong = [status for status, _ in answered if status != 200]
    if len(answered) < viewers or wrong:
        raise Broken(f"{len(answered)} of {viewers} were answered, {wrong[:5]}")
    return f"{viewers} pages in {took:.1f} s"


def other_version(bench):
    """A log that a later version of the format wrote is refused by name, and not continued."""
    log = bench.path("log")
    bench.run("record", log, "--for", "1s", "--every", "200ms")
    for name in sorted(os.listdir(log)):
        if not name.endswith(".dwlog"):
            continue
        path = os.path.join(log, name)
        with open(path, "r+b") as file:
            head = bytearray(file.read(16))
            # the version stands behind the letters of the format
            place = next(index for index in range(4, 16) if head[index] not in b"DWLOGdwlog")
            head[place] += 1
            file.seek(0)
            file.write(head)
    read = bench.run("why", log, "--json")
    again = bench.run("record", log, "--for", "1s", "--every", "200ms")
    for done in (read, again):
        if done.code not in (0, 1) or done.code == 1 and not done.said:
            raise Broken(f"exit {done.code}: {done.said}")
    if read.code == 0 and not fields_of(read).get("damage"):
        raise Broken("it is read as if nothing were")
    return f"why: exit {read.code}, {read.said}; record: exit {again.code}, {again.said}"


STRACE = frozenset({"strace"})
CASES = [
    Case("limits/ulimit -f", "record under a limit of the size of files", "it records or says why not", limited,
         ("f", [4, 64, 256, 1024], [64])),
    Case("limits/ulimit -n", "record under a limit of open files", "it records or says why not", limited,
         ("n", [6, 8, 10, 12, 16, 24, 32, 64], [8, 16, 32]), tiny=True),
    Case("limits/ulimit -v", "record under a limit of memory", "it records or says why not", limited,
         ("v", [100_000, 150_000, 200_000, 400_000], [200_000])),
    Case("limits/removed folder", "the log's folder removed while record writes", "what went with it is counted",
         removed_ticks, tiny=True),
    Case("limits/endless files", "/dev/zero wherever a file is named", "refused, within 128 MiB", endless, tiny=True),
    *(Case(f"limits/wide, {columns:,} columns", f"why, report and watch --once of a log of {columns:,} columns",
           f"within {seconds} s each", wide, (columns, seconds)) for columns, seconds in ((20_000, 4), (130_000, 24))),
    Case("limits/wide, a million columns", "why of a log of a million columns", "refused by its heading",
         refused_heading),
    *(Case(f"limits/long name, {letters:,}", f"show and why of a log with a name of {letters:,} letters",
           "within 5 s and 512 MiB", long_name, (letters,)) for letters in (400_000, 20_000_000)),
    Case("limits/many values", "simulate --users with 5,000 values", "answered or refused within 10 s", many_values,
         tiny=True),
    Case("limits/cut advice", "advise --apply and --undo, killed at many points", "the setting can be taken back",
         cut_advice, needs=STRACE),
    Case("limits/many viewers", "1,000 series served to 50 pages at once", "each is answered", many_viewers,
         (1000, 50)),
    Case("limits/other version", "a log of a later version of the format", "it is refused or told of", other_version,
         tiny=True),
]

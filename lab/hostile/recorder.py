"""The recorder under force: killed, stopped, with calls of the kernel that fail, without its folder,
with a full disk, and with a clock that steps. Nothing recorded is lost in silence."""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import time
from datetime import datetime

from hostile.logs import Read, sum_fields
from hostile.trial import Broken, Case, Unavailable, fields_of
from machine import wait_for

SEED = 20261122
# A tick is 0.2 s there, and other work on the machine makes it late.
SLACK_S = 5


def seconds(text):
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def record(bench, log, *more, every="20ms", argv=()):
    process = bench.begin("record", log, "--every", every, "--json", *more, argv=argv)
    bench.wait_for(lambda: os.path.exists(os.path.join(log, "tail")), "the first tick", process=process)
    return process


def finished(process):
    with open(process.out, encoding="utf-8") as out, open(process.err, encoding="utf-8", errors="replace") as err:
        text, message = out.read(), err.read()
    return (json.loads(text) if text.strip() else {}), message


# --- kills ------------------------------------------------------------------------------------------

def kills(bench, rounds, tiny_rounds):
    """What could be read a moment before the kill, and after every kill before it, is read after it."""
    chance, log, before, oldest = random.Random(SEED), bench.path("log"), set(), 0.0
    rounds = tiny_rounds if bench.tiny else rounds
    for number in range(rounds):
        process = record(bench, log)
        time.sleep(chance.uniform(0.02, 0.6))
        before |= set(Read(bench, log).times)
        killed = time.time()
        bench.end(process, signal.SIGKILL)
        read = Read(bench, log)
        now = set(read.times)
        if before - now:
            raise Broken(f"after {number + 1} kills {len(before - now)} of {len(before)} ticks are gone")
        if read.lost:
            raise Broken(f"after {number + 1} kills {read.lost} ticks are told to be lost: {read.done.said}")
        before, oldest = now, max(oldest, killed - max(map(seconds, now), default=0))
    return f"{rounds} kills, {len(before)} ticks, none lost; the last tick at most {oldest * 1000:.0f} ms old"


# --- faults -----------------------------------------------------------------------------------------

# A call of the kernel, what it answers, and when: from which call on, and every how many.
FAULTS = [(call, error, when)
          for call in ("write", "pwrite64", "fsync", "fdatasync", "ftruncate", "openat", "renameat", "rename")
          for error in ("ENOSPC", "EIO", "EDQUOT", "EINTR")
          for when in ("3", "9", "5+4", "2+")
          if not (error == "EINTR" and when == "2+")]
TINY_FAULTS = [("pwrite64", "ENOSPC", "5+4"), ("pwrite64", "EIO", "9"), ("openat", "EDQUOT", "2+")]


def faults(bench, chosen, tiny_chosen):
    """Each fault in a life of its own. Every tick is read, told to be lost, or ended the recorder with an error."""
    broken, reported, hit = [], 0, 0
    for number, (call, error, when) in enumerate(tiny_chosen if bench.tiny else chosen):
        log = bench.path(f"log{number}")
        os.mkdir(log)
        trace = bench.path("trace")
        files = [word for name in ("tail", "00000001.dwlog", "00000002.dwlog", "00000003.dwlog")
                 for word in ("-P", os.path.join(log, name))]
        argv = ["strace", "-f", "-qq", "-o", trace, "-e", f"trace={call}",
                "-e", f"inject={call}:error={error}:when={when}", *files]
        process = bench.begin("record", log, "--every", "20ms", "--for", "1200ms", "--keep", "4s", "--json", argv=argv)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            bench.end(process, signal.SIGKILL)
            broken.append(f"{call} {error} {when}: hangs")
            continue
        with open(trace, encoding="utf-8", errors="replace") as file:
            hit += "(INJECTED)" in file.read()
        trouble, was_told = judge_fault(bench, log, process)
        reported += was_told
        broken += [f"{call} {error} {when}: {trouble}"] if trouble else []
        shutil.rmtree(log)
    if broken:
        raise Broken("; ".join(broken[:6]) + (f" and {len(broken) - 6} more" if len(broken) > 6 else ""))
    if not hit:
        raise Unavailable("strace injected nothing")
    return f"{hit} faults came, {reported} were told of, no tick lost in silence"


def judge_fault(bench, log, process):
    """What is wrong, or None; and whether the recorder told of trouble."""
    document, message = finished(process)
    message = "\n".join(line for line in message.splitlines() if "the log is on" not in line)
    if process.returncode not in (0, 1):
        return f"exit {process.returncode}", True
    if process.returncode == 1 and not message.strip():
        return "ended with 1 without a word", True
    read = Read(bench, log)
    if process.returncode == 1:
        return None, True
    trimmed = sum_fields(document, "trim")
    if document["ticks"] != len(read.times) + read.lost + trimmed:
        return (f"{document['ticks']} ticks by its own account, {len(read.times)} read, "
                f"{read.lost + trimmed} told to be gone"), bool(message.strip())
    return None, bool(message.strip() or document["ticks_lost"])


def full_disk(bench):
    """A small filesystem fills, and has room again: what was lost is counted, to the tick."""
    point = bench.mount("tmpfs", "small", "-t", "tmpfs", "-o", "size=256k")
    log = os.path.join(point, "log")
    filler = os.path.join(point, "filler")
    process = record(bench, log)
    time.sleep(0.5)
    subprocess.run(["dd", "if=/dev/zero", f"of={filler}", "bs=4k"], stderr=subprocess.DEVNULL, check=False)
    time.sleep(1.5)
    os.unlink(filler)
    time.sleep(1)
    bench.end(process)
    document, message = finished(process)
    read = Read(bench, log)
    if process.returncode or document.get("ticks") != len(read.times):
        raise Broken(f"exit {process.returncode}, {document.get('ticks')} by its account, "
                     f"{len(read.times)} read: {message}")
    if not document["ticks_lost"]:
        raise Unavailable("the disk was never full")
    return f"{document['ticks']} kept and read, {document['ticks_lost']} lost and counted"


# --- a stopped process ----------------------------------------------------------------------------------

# Other notes of the same moments, of devices that come and go, are none of it.
HOLE = re.compile("stopp|no sample|no tick|without (a )?(sample|tick)|paus|suspend|missed|held up", re.IGNORECASE)


def stopped(bench):
    """SIGSTOP, and SIGCONT some seconds later: the hole is told, by why's notes or its damage."""
    asleep = 3 if bench.tiny else 60
    log = bench.path("log")
    process = record(bench, log, every="200ms")
    time.sleep(2)
    os.kill(process.pid, signal.SIGSTOP)
    begin = time.time()
    time.sleep(asleep)
    os.kill(process.pid, signal.SIGCONT)
    end = time.time()
    time.sleep(2)
    bench.end(process)
    verdict = fields_of(bench.run("why", log, "--json"))
    words = [note["text"] for note in verdict["notes"] if HOLE.search(note["text"])
             and begin - 1 < seconds(note["time"]) < end + SLACK_S]
    reported = words or verdict.get("damage")
    if not reported:
        raise Broken(f"{asleep} s without a tick, and neither a note nor damage says so")
    return f"{asleep} s stopped; told: {words[0] if words else reported}"


# --- a folder that goes -------------------------------------------------------------------------------------

def folder_goes(bench, how):
    """Recording goes on in a new folder within a tick or two, or ends with an error; never on into nothing."""
    log, aside = bench.path("log"), bench.path("aside")
    process = record(bench, log, every="200ms")
    time.sleep(1.5)
    if how == "removed":
        shutil.rmtree(log)
    elif how == "moved":
        os.rename(log, aside)
    else:
        for name in os.listdir(log):
            if name != "lock":
                os.unlink(os.path.join(log, name))
    gone = time.time()
    while time.time() < gone + SLACK_S and process.poll() is None and not os.path.exists(os.path.join(log, "tail")):
        time.sleep(0.05)
    time.sleep(2)
    ended = process.poll() is not None
    if not ended:
        bench.end(process)
    document, message = finished(process)
    if process.returncode == 1 and message.strip():
        if not ended:
            raise Broken(f"noticed only at the end: {message.strip().splitlines()[-1]}")
        return f"ended with an error: {message.strip().splitlines()[-1]}"
    times = [moment for place in (log, aside) if os.path.isdir(place)
             for moment in map(seconds, Read(bench, place).times)]
    after = [moment for moment in times if moment > gone]
    if not after or min(after) > gone + SLACK_S or max(after) < gone + 1:
        raise Broken(f"exit {process.returncode}, {document.get('ticks')} ticks by its own account, "
                     f"{len(after)} from after the folder went")
    return f"went on: {len(after)} ticks from after it"


# --- clocks ----------------------------------------------------------------------------------------------------

# Four lives, because each makes segments of its own; within the last of them the clock steps, and comes back.
CLOCK = """
cd /run; rm -rf log out err; export HOME=/run
for life in 1 2 3; do diskwright record log --every 50ms --keep 120s --for 3s --json >> out 2>> err; done
diskwright record log --every 50ms --keep 120s --json >> out 2>> err &
sleep 20; date -s @$(( $(date +%s) + {step} )) > /dev/null
sleep 3; date -s @$(( $(date +%s) - {step} )) > /dev/null
sleep 6; kill -INT $!; wait $!
diskwright export log --as jsonl --counter processor.busy --instance _total > rows 2>> err
wc -l < rows; cat out
"""


def documents(text):
    """JSON documents, one behind the other."""
    decoder, found, text = json.JSONDecoder(), [], text.strip()
    while text:
        document, end = decoder.raw_decode(text)
        found.append(document)
        text = text[end:].strip()
    return found


def clock_steps(bench, days):
    """In an emulated machine, whose clock is nobody else's. All of it is younger than what is kept."""
    from qemu import Guest, NoKernel
    try:
        small = bench.path("diskwright")
        bench.output(["strip", "-o", small, bench.binary])
        guest = Guest(bench.undo, bench.folder, programs=[small])
    except NoKernel as reason:
        raise Unavailable(str(reason)) from None
    text = guest.sh(CLOCK.format(step=days * 86400), patience=180)
    guest.end()
    rows, _, report = text.partition("\n")
    written, read = sum(document["ticks"] for document in documents(report)), int(rows)
    if read != written:
        raise Broken(f"{read} of {written} ticks are left, and all of them are to be kept")
    return f"{read} of {written} ticks are left"


def keeps_count(bench):
    """Without any step: what retention takes is told, so that the sum is right."""
    log, lives = bench.path("log"), []
    for _ in range(6):
        process = bench.begin("record", log, "--every", "20ms", "--keep", "4s", "--for", "1500ms", "--json")
        wait_for(lambda process=process: process.poll() is not None, "the recorder's end", 60)
        lives.append(finished(process)[0])
    read = Read(bench, log)
    written, left = sum(document["ticks"] for document in lives), len(read.times)
    # by the recorder's own document, or by the reader's
    trimmed = {sum(sum_fields(document, "trim") for document in lives), sum_fields(read.document, "trim")}
    if left >= written:
        raise Broken(f"nothing was trimmed of {written} ticks")
    if written - left not in trimmed:
        raise Broken(f"{written} recorded, {left} left, {max(trimmed)} told to be trimmed")
    return f"{written} recorded, {left} left, {max(trimmed)} told to be trimmed"


STRACE = frozenset({"strace"})
GUEST = frozenset({"qemu-system-x86_64", "busybox", "depmod", "strip"})
CASES = [
    Case("recorder/kills", "SIGKILL at random moments, again and again", "no recorded tick lost", kills, (70, 8),
         tiny=True),
    Case("recorder/faults", "calls of the kernel that fail, one kind a life (strace's injection)",
         "each tick is read or told to be lost, or the recorder ends with an error", faults, (FAULTS, TINY_FAULTS),
         STRACE, True),
    Case("recorder/full disk", "a log's filesystem fills and has room again", "lost ticks are counted, the rest read",
         full_disk, tiny=True),
    Case("recorder/stopped", "SIGSTOP, then SIGCONT", "the hole is told", stopped, tiny=True),
    Case("recorder/folder removed", "rm -r of the log's folder while it is written",
         "within a tick or two in a new one, or an error", folder_goes, ("removed",), tiny=True),
    Case("recorder/folder moved", "the log's folder gets another name", "goes on there or anew, or an error",
         folder_goes, ("moved",)),
    Case("recorder/files removed", "the log's files are removed, the folder stays",
         "within a tick or two in new ones, or an error", folder_goes, ("emptied",)),
    Case("recorder/retention counts", "six lives of 1.5 s with --keep 4s",
         "recorded is what is left and what is told to be trimmed", keeps_count),
    Case("recorder/clock ahead", "--keep 120s, clock 400 days ahead for 3 s of 40", "every tick is left",
         clock_steps, (400,), GUEST),
    Case("recorder/clock behind", "--keep 120s, clock 400 days behind for 3 s of 40", "every tick is left",
         clock_steps, (-400,), GUEST),
]

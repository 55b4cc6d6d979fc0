"""Probes on a disk that hangs, bookmarks, the same file twice, and whose programs root runs."""

import json
import os
import signal
import time

from hostile.bounds import devices_page
from hostile.logs import documents_of
from hostile.trial import Broken, Case, fields_of
from machine import wait_for

# A second is asked for; a busy machine gets another.
SECONDS = 2.0


def hanging(bench, *words):
    """A probe of a disk that hangs after the probe has measured for some seconds."""
    system = bench.system("one-arm")
    device = system.device()
    process = bench.begin("probe", *words[:1], device, "--json", "--forget", "--ramp", "0", *words[1:])
    time.sleep(4)
    if process.poll() is not None:
        with open(process.err, encoding="utf-8") as err:
            raise Broken(f"it ended before the disk hung: {err.read()}")
    system.order("hang", member="disk")
    return system, process


def result_of(process):
    with open(process.out, encoding="utf-8") as out, open(process.err, encoding="utf-8", errors="replace") as err:
        text, message = out.read(), err.read().strip()
    try:
        return json.loads(text), message
    except ValueError:
        return {}, message


def brake(bench):
    """A request that is late, and not only one that has come late, ends it."""
    system, process = hanging(bench, "minread", "--for", "60s", "--live", "--brake", "1500ms")
    began = time.monotonic()
    try:
        wait_for(lambda: process.poll() is not None, "the brake", 15)
        took = time.monotonic() - began
    except Exception:
        raise Broken("15 s after the disk hung it still waits") from None
    finally:
        system.order("release", member="disk")
    document, message = result_of(process)
    if took > 1.5 + SECONDS or not message and not document.get("because"):
        raise Broken(f"ended after {took:.1f} s: {message}")
    return f"ended {took:.1f} s after the disk hung: {message.splitlines()[-1:] or document['because']}"


def first_ctrl_c(bench):
    """One Ctrl-C is enough, and what was measured is there."""
    system, process = hanging(bench, "quick", "--for", "500ms")
    time.sleep(1)
    try:
        took = bench.end(process, signal.SIGINT, patience=15)
    finally:
        system.order("release", member="disk")
    document, message = result_of(process)
    runs = len(document.get("runs", []))
    process.wait(20)
    if took > SECONDS or not runs:
        raise Broken(f"ended after {took:.1f} s, {runs} runs kept, exit {process.returncode}: {message}")
    return f"ended after {took:.1f} s, {runs} runs kept, exit {process.returncode}"


def all_bookmarks(bench):
    """As many as were set."""
    log, count = bench.path("log"), 60 if bench.tiny else 300
    bench.run("record", log, "--for", "300ms", "--every", "100ms")
    for number in range(count):
        bench.run("mark", log, f"bookmark {number}")
    bench.run("record", log, "--for", "300ms", "--every", "100ms")
    document = fields_of(bench.run("why", log, "--json"))
    listed = {entry["text"] for name in ("notes", "bookmarks") for entry in document.get(name) or []
              if "bookmark" in entry.get("text", "")}
    if len(listed) < count:
        raise Broken(f"{len(listed)} of {count}")
    return f"{count} of {count}"


def twice(bench):
    """The second import of the same file says that it is one, or is refused."""
    page, log = devices_page(bench, 2), bench.path("log")
    first, second = (bench.run("import", page, "--to", log, "--json") for _ in range(2))
    words = [documents_of(done).get("skipped") for done in (first, second)]
    is_refused = (second.code == 1 and second.said or second.err.strip() and not first.err.strip()
                  or words[0] != words[1])
    if first.code or not is_refused:
        raise Broken(f"the second: exit {second.code}, and not a word")
    return f"the second: exit {second.code}, {second.said or words[1]}"


PROGRAMS = ["sadf", "sar", "losetup", "modprobe", "mount", "umount", "fusermount3", "fusermount", "zstd", "xz", "gzip",
            "blkid", "lsblk", "udevadm", "sysctl", "smartctl", "pcp", "perf", "nbd-client", "mknod", "sh"]


def whose_programs(bench):
    """A folder of somebody else stands first in root's PATH."""
    folder, ran = bench.path("evil"), bench.path("ran")
    os.mkdir(folder)
    for name in PROGRAMS:
        path = os.path.join(folder, name)
        with open(path, "w", encoding="ascii") as file:
            file.write(f'#!/bin/sh\necho "{name}" >> "{ran}"\nexit 1\n')
        os.chmod(path, 0o755)
    sa, system = bench.path("sa"), bench.system("one-arm")
    bench.output(["sar", "-o", sa, "1", "1"])
    env = {"PATH": folder + os.pathsep + os.environ["PATH"]}
    device = bench.loop(bench.image("disk", 4))
    tries = [["why", sa], ["import", sa, "--to", bench.path("log")],
             ["disk", "attach", "--socket", system.socket, "--by", "nbd"],
             ["probe", "minread", device, "--for", "50ms", "--ramp", "0", "--forget"],
             ["record", bench.path("own"), "--for", "200ms", "--every", "100ms"], ["why", "--for", "300ms"]]
    for words in tries:
        bench.run(*words, env=env)
    attached = bench.run("disk", "attach", "--socket", system.socket, "--by", "fuse", "--json", env=env)
    if attached.code == 0:
        bench.run("disk", "detach", json.loads(attached.out)["device"])
    if os.path.exists(ran):
        with open(ran, encoding="ascii") as file:
            raise Broken(f"it ran somebody else's {', '.join(sorted(set(file.read().split())))}")
    return f"{len(tries) + 1} commands, none of that folder's programs"


CASES = [
    Case("smaller/brake", "probe --live --brake 1500ms while the disk stops answering",
         "it ends within seconds, and says so", brake, needs=frozenset({"losetup"})),
    Case("smaller/first Ctrl-C", "probe of a disk that stops answering, one Ctrl-C",
         "it ends within a second or two and keeps what was measured", first_ctrl_c, needs=frozenset({"losetup"}),
         tiny=True),
    Case("smaller/bookmarks", "hundreds of bookmarks in why --json", "all are listed", all_bookmarks, tiny=True),
    Case("smaller/import twice", "the same file imported twice into one log", "the second is told of", twice,
         tiny=True),
    Case("smaller/programs of others", "a folder with sadf, losetup, modprobe first in root's PATH",
         "none of them runs", whose_programs, needs=frozenset({"losetup", "sar"}), tiny=True),
]

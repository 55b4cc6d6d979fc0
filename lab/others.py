"""Measures the share of the processors that other programs than the lab and the kernel use.

A verdict is about the whole machine, so a compiler that runs beside a scenario
is part of what Diskwright sees. This tells how much of that there was.
"""

import os
import time

BUSY_SHARE = 0.3


class Meter:
    """Measures from its making until `share` is asked."""

    def __init__(self):
        self.before = reading()

    def share(self):
        """The others' share of all processors, 0 to 1."""
        total, busy, known = (now - then for now, then in zip(reading(), self.before))
        return round(min(1.0, max(0.0, (busy - known) / max(1, total))), 3)


def share_now(seconds=1.0):
    meter = Meter()
    time.sleep(seconds)
    return meter.share()


def reading():
    """Clock ticks so far: of the machine, of these the ones in use, and of the
    ones in use those of the lab's own processes and of kernel threads."""
    with open("/proc/stat", encoding="ascii") as file:
        times = [int(word) for word in file.readline().split()[1:9]]
    # User, nice and system; interrupts belong to nobody.
    return sum(times), sum(times[:3]), known_ticks()


def known_ticks():
    parents, ticks = {}, {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", encoding="ascii", errors="replace") as file:
                fields = file.read().rsplit(")", 1)[1].split()
        except (OSError, IndexError):
            continue  # it ended while we looked
        parents[int(name)] = int(fields[1])
        # With the children that it has waited for.
        ticks[int(name)] = sum(map(int, fields[11:15]))
    return sum(ticks[pid] for pid in ticks if is_known(pid, parents))


def is_known(pid, parents):
    kernel_thread_parent = 2
    while pid > 0:
        if pid in (os.getpid(), kernel_thread_parent):
            return True
        pid = parents.get(pid, 0)
    return False

"""Loads that are asked of a set one after another, and what the kernel counted of each.

Two kinds: requests that come whatever becomes of them (`Arrivals`, Poisson), and
users who wait for each request and pause before the next (`Users`).
"""

import time
from dataclasses import dataclass

from machine import wait_for

KB = 4
# Requests of a job that may be in flight: a set that keeps up has fewer. Each is a thread, and an emulated
# machine takes its time to start those.
MOST = 32


@dataclass
class Arrivals:
    """Reads and writes a second that nothing holds back."""

    reads: float
    writes: float
    seconds: float

    @property
    def name(self):
        return f"{self.reads:.0f} reads/s and {self.writes:.0f} writes/s"

    def jobs(self, files):
        """As words of fio. Threads of their own submit, because a job that sleeps until the
        next arrival hears of a completion only then."""
        common = words(ioengine="psync", io_submit_mode="offload", iodepth=MOST, rate_process="poisson",
                       filename=":".join(files))
        kinds = [("randread", self.reads), ("randwrite", self.writes)]
        return [word for seed, (rw, rate) in enumerate(kinds, 1) if rate > 0
                for word in words(name=rw, rw=rw, rate_iops=max(1, round(rate)), randseed=seed) + common]


@dataclass
class Users:
    """So many users with a pause; a share of their requests reads."""

    count: int
    pause_s: float
    reads_percent: int
    seconds: float

    @property
    def name(self):
        return f"{self.count} users"

    def jobs(self, files):
        each = [word for number in range(self.count)
                for word in words(name=f"user{number}", filename=files[number % len(files)], randseed=number + 1)]
        return words(ioengine="psync", rw="randrw", rwmixread=self.reads_percent,
                     thinktime=f"{self.pause_s * 1e6:.0f}us") + each


def words(**settings):
    return [f"--{key}={value}" for key, value in settings.items()]


def fio(load, files, ramp):
    """The words of fio for a load; it ends by itself some time after it was counted."""
    common = words(direct=1, bs=f"{KB}k", norandommap=1, thread=1, time_based=1, group_reporting=1,
                   random_generator="tausworthe64", runtime=round(load.seconds + ramp + 30))
    jobs = load.jobs(files)
    # options before the first name are of all jobs
    first = next(index for index, word in enumerate(jobs) if word.startswith("--name"))
    if isinstance(load, Arrivals):
        return ["fio", "--output-format=terse", *repeated(jobs, common)]
    return ["fio", "--output-format=terse", *common, *jobs[:first], *jobs[first:]]


def repeated(jobs, common):
    """Jobs on a command line, each with the words that all have: what follows a name is of that job alone."""
    found = []
    for word in jobs:
        found.append(word)
        if word.startswith("--name"):
            found += common
    return found


@dataclass
class Counted:
    """Of a device, or of several together: reads and writes that were done, and the seconds they took."""

    moment: float
    reads: int
    writes: int
    took_s: float


def counted(moment, text, names):
    """The sums of some lines of /proc/diskstats."""
    reads = writes = took_ms = 0
    for fields in (line.split() for line in text.splitlines()):
        if len(fields) > 10 and fields[2] in names:
            reads, writes = reads + int(fields[3]), writes + int(fields[7])
            took_ms += int(fields[6]) + int(fields[10])
    return Counted(moment, reads, writes, took_ms / 1e3)


def between(before, after):
    """Requests a second, and their mean response."""
    seconds = after.moment - before.moment
    done = after.reads - before.reads + after.writes - before.writes
    return {"requests_per_s": done / seconds, "reads_per_s": (after.reads - before.reads) / seconds,
            "writes_per_s": (after.writes - before.writes) / seconds,
            "response_s": (after.took_s - before.took_s) / max(done, 1)}


def measure(count, load, ramp):
    """What is done between a moment after requests flow and the load's time later; `count` gives a `Counted`."""
    before = count()
    started = before.reads + before.writes

    def flows():
        now = count()
        return now.reads + now.writes > started + 20

    # an emulated machine takes a minute and more to start the threads of some loads
    wait_for(flows, "requests to flow", 240)
    time.sleep(ramp)
    before = count()
    time.sleep(load.seconds)
    return between(before, count())

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
    """So many users with a pause; a share of their requests reads.

    Each has a pause of its own, from half to one and a half of the mean. With the same pause for all and a drive
    that takes the same time for everything, users fall into step: those who waited for each other once never meet
    again, and a set of disks answers faster than any load that comes by chance would let it.
    """

    count: int
    pause_s: float
    reads_percent: int
    seconds: float

    @property
    def name(self):
        return f"{self.count} users"

    def pauses_s(self):
        return [self.pause_s * (0.5 + (number + 0.5) / self.count) for number in range(self.count)]

    def jobs(self, files):
        each = [word for number, pause_s in enumerate(self.pauses_s())
                for word in words(name=f"user{number}", filename=files[number % len(files)], randseed=number + 1,
                                  thinktime=f"{pause_s * 1e6:.0f}us")]
        return words(ioengine="psync", rw="randrw", rwmixread=self.reads_percent) + each


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


def is_flowing(before, now, load):
    """Whether all kinds of requests of a load are done.

    In an emulated machine, a job of fio 3.33 with Poisson arrivals sleeps in about a third of its starts until long
    after its next request is due, whatever its clock source, and only the other one flows."""
    done = (now.reads - before.reads, now.writes - before.writes)
    expected = (load.reads > 0, load.writes > 0) if isinstance(load, Arrivals) else (True, False)
    return sum(done) > 20 and all(count > 5 for count, is_asked in zip(done, expected) if is_asked)


def measure(count, load, ramp, patience=240):
    """What is done between a moment after requests flow and the load's time later; `count` gives a `Counted`."""
    before = count()
    # an emulated machine takes a minute and more to start the threads of some loads
    wait_for(lambda: is_flowing(before, count(), load), "requests to flow", patience)
    time.sleep(ramp)
    before = count()
    time.sleep(load.seconds)
    return between(before, count())


def is_whole(got, load):
    """Whether each kind of arrivals was done at all that came: more than half."""
    if not isinstance(load, Arrivals):
        return True
    return got["reads_per_s"] >= 0.5 * load.reads and got["writes_per_s"] >= 0.5 * load.writes

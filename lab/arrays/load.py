"""The load, the same for every array, and how its requests are counted.

Fio keeps so many requests outstanding (levels.Load). Their bytes are counted by the
kernel's own counters in the middle of its run: md counts a request that it divides more
than once, and fio's rates leave out what was outstanding when its ramp ended, five in a hundred of a short
run on slow members. When they are counted is told by this machine's clock, never by
an emulated machine's, which may run at a pace of its own.
"""

import statistics
import time

from machine import wait_for

SECTOR = 512
# How much longer than the counting fio runs at most.
SPARE_SECONDS = 30
# The counting is cut into so many windows.
WINDOWS = 5


def fio_words(target, load, options, **more):
    settings = {"name": "lab", "filename": target, "direct": 1, **load.fio(), "ioengine": "libaio",
                "iodepth": load.outstanding, "thread": 1, "norandommap": 1, "randrepeat": 1,
                "random_generator": "tausworthe64", "time_based": 1,
                "runtime": options.ramp + options.seconds + SPARE_SECONDS,
                "output-format": "terse"} | more
    return [f"--{key}={value}" for key, value in settings.items() if value is not None]


def take_readings(done, count, options):
    """Readings at the windows' ends, beginning when requests flow and not when fio was
    asked to start. `done` tells how many were; `count` gives a moment and lines in the form
    of /proc/diskstats."""
    wait_for(lambda: done() > 50, "fio's requests to flow", 60)
    time.sleep(options.ramp)
    readings, start = [count()], time.monotonic()
    for window in range(1, WINDOWS + 1):
        time.sleep(max(0.0, start + options.seconds * window / WINDOWS - time.monotonic()))
        readings.append(count())
    return readings


def outcome(name, readings, load):
    """What came of a run: requests a second of device `name` and their times, and
    the I/Os of its members, by readings of a clock and of /proc/diskstats.

    The rate is the median of those between readings: a moment in which others
    kept this machine from running is not the array's.
    """
    readings = [read_counters(*reading) for reading in readings]
    (start, first), (end, last) = readings[0], readings[-1]
    seconds = end - start
    counts = {device: [b - a for a, b in zip(first[device], last[device])]
              for device in last if device in first}
    reads, read_sectors, read_ms, writes, write_sectors, write_ms = counts.pop(name)
    rates = [rate(name, *pair, load) for pair in zip(readings, readings[1:])]
    return {
        "iops": statistics.median(rates),
        "windows": rates,
        "read_iops": read_sectors * SECTOR / load.mean_bytes / seconds,
        "write_iops": write_sectors * SECTOR / load.mean_bytes / seconds,
        # counters without times say 0
        "read_ms": read_ms / reads if reads and read_ms else None,
        "write_ms": write_ms / writes if writes and write_ms else None,
        "members": {device: {"read_iops": count[0] / seconds, "read_bytes_per_s": count[1] * SECTOR / seconds,
                             "write_iops": count[3] / seconds, "write_bytes_per_s": count[4] * SECTOR / seconds}
                    for device, count in counts.items()},
    }


def rate(name, before, after, load):
    """Requests a second of a device between two readings, by their bytes."""
    (start, first), (end, last) = before, after
    sectors = sum(last[name][column] - first[name][column] for column in (1, 4))
    return sectors * SECTOR / load.mean_bytes / (end - start)


def read_counters(moment, text):
    """The moment, and of each device: reads, their sectors and ms, writes, their sectors and ms."""
    fields = [line.split() for line in text.splitlines()]
    columns = (3, 5, 6, 7, 9, 10)
    return moment, {words[2]: [int(words[i]) for i in columns] for words in fields if len(words) > 10}

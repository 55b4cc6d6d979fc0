"""Sets of disks that are built of so many: btrfs on this machine, md in the emulated one.

Each can `build` a set of so many disks, put a load on it and count (`ask`), and keep
a log of that by `diskwright record` (`begin_record`, `end_record`).
"""

import base64
import os
import shlex
import tarfile
import time

from emulated import Emulated
from here import Here
from levels import Level
from machine import LabError
from steps import counted, fio, is_whole, measure
from undo import kill, start_time_of

FILES = 32
EVERY = "500ms"
# Starts of a load in the emulated machine, and how long all of its kinds of requests may take to flow.
TRIES = 6
FLOWS_S = 40


def probe_words(device):
    return ["probe", "quick", device, "--no-save", "--seed", "19", "--destroy-data-on", device]


class BtrfsSet:
    """btrfs RAID 0 over drives of `diskwright disk`."""

    level, raid = "raid0", "raid0"
    # disks of the small set, and the share of requests that read
    before, reads = 3, 2 / 3
    # what the next size has to answer in
    response = "25ms"

    def __init__(self, machine, most):
        self.machine = machine
        self.here = Here(machine, most)
        self.about = self.here.about
        self.built, self.recorder = None, None

    def probe(self, result):
        self.machine.output([self.machine.binary, *probe_words(self.here.devices[0]), "-o", result])

    def build(self, count):
        self.built = Level(f"btrfs-{self.raid}-{count}", count, self.raid, self.level, by="btrfs")
        folder = self.here.make(self.built)
        self.files = [os.path.join(folder, f"lab.{number}") for number in range(FILES)]
        # each request is one of a member: RAID 0 keeps no copies, and 4 KB lie in one stripe unit
        self.names = {os.path.basename(device) for device in self.here.devices[:count]}
        self.in_log = os.path.basename(self.here.devices[0])

    def unbuild(self):
        self.here.unmake(self.built)

    def _count(self):
        with open("/proc/diskstats", encoding="ascii") as file:
            return counted(time.monotonic(), file.read(), self.names)

    def ask(self, load, ramp):
        process = self.machine.start(fio(load, self.files, ramp))
        try:
            got = measure(self._count, load, ramp)
            if process.poll() is not None:
                with open(process.log, encoding="utf-8", errors="replace") as file:
                    raise LabError(f"fio ended: {file.read()[-400:].strip()}")
        finally:
            kill(process.pid, start_time_of(process.pid))
        return got

    def begin_record(self, folder):
        self.log = folder
        self.recorder = self.machine.start([self.machine.binary, "record", folder, "--every", EVERY])
        self.machine.wait_for(lambda: os.path.isdir(folder), "the recorder to begin", process=self.recorder)

    def end_record(self):
        self.recorder.terminate()
        self.recorder.wait(20)
        return self.log


class BtrfsMirror(BtrfsSet):
    """btrfs RAID 10, which is read only: a member's counters do not tell when the later of two copies was written, and
    Linux writes to mirrors of btrfs through the cache."""

    level, raid = "raid10", "raid10"
    before, reads = 4, 1.0


class MdSet:
    """md RAID 5 in the emulated machine, over drives of `diskwright disk` that are attached here."""

    level = "raid5"
    before, reads = 3, 2 / 3
    response = "40ms"

    def __init__(self, machine, most):
        self.machine = machine
        self.stripped = os.path.join(machine.folder, "diskwright")
        machine.output(["strip", "-o", self.stripped, machine.binary])
        self.emulated = Emulated(machine, most, "served", None, [self.stripped])
        self.guest, self.about = self.emulated.guest, self.emulated.about
        self.names, self.in_log = {"md0"}, "md0"

    def probe(self, result):
        """There, because the way to a member is part of it."""
        words = " ".join(probe_words(self.emulated.devices[0]))
        text = self.guest.sh(f"diskwright {words} -o /run/quick.json > /run/probe 2>&1 "
                             "|| { cat /run/probe; exit 1; }\ncat /run/quick.json", patience=300)
        with open(result, "w", encoding="utf-8") as file:
            file.write(text)

    def build(self, count):
        self.built = Level(f"raid5-{count}", count, "5", "raid5")
        self.files = [self.emulated.make(self.built)]

    def unbuild(self):
        self.emulated.unmake(self.built)

    def _count(self):
        """By the emulated machine's own uptime: its clock is this machine's (HPET)."""
        text = self.guest.sh("[ ! -e /run/fio.ended ] || { cat /run/fio; exit 1; }\ncat /proc/uptime /proc/diskstats")
        return counted(float(text.split(maxsplit=1)[0]), text, self.names)

    def ask(self, load, ramp):
        for _ in range(TRIES):
            try:
                got = self._ask(load, ramp)
            except LabError:
                # not all of it flows: another start may do better
                got = None
            if got and is_whole(got, load):
                return got
        raise LabError(f"{TRIES} starts of fio, and in none all requests of {load.name} flowed")

    def _ask(self, load, ramp):
        words = " ".join(shlex.quote(word) for word in fio(load, self.files, ramp))
        self.guest.sh(f"({words} > /run/fio 2>&1; touch /run/fio.ended) > /dev/null &")
        try:
            return measure(self._count, load, ramp, patience=FLOWS_S)
        finally:
            self._end_load()

    def _end_load(self):
        # asked to end, a fio whose threads submit waits for arrivals that are due long after
        self.guest.sh("[ ! -e /run/fio.ended ] || { cat /run/fio; exit 1; }\n"
                      "killall -KILL fio; while [ ! -e /run/fio.ended ]; do sleep 0.1; done; rm /run/fio.ended")

    def begin_record(self, folder):
        self.log = folder
        self.guest.sh(f"(diskwright record /run/log --every {EVERY} > /run/recorder 2>&1;"
                      " touch /run/recorder.ended) > /dev/null &")

    def end_record(self):
        text = self.guest.sh("killall -INT diskwright; while [ ! -e /run/recorder.ended ]; do sleep 0.1; done\n"
                             "[ -d /run/log ] || { cat /run/recorder; exit 1; }\n"
                             "cd /run && tar -c log | base64; rm -r /run/log /run/recorder.ended", patience=120)
        packed = self.log + ".tar"
        with open(packed, "wb") as file:
            file.write(base64.b64decode(text))
        with tarfile.open(packed) as tar:
            tar.extractall(self.log, filter="data")
        return os.path.join(self.log, "log")


SETS = {"btrfs": BtrfsSet, "btrfs-mirror": BtrfsMirror, "md": MdSet}

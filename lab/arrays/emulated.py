"""md arrays in an emulated machine, and their members alone."""

import os
import re
import time

from levels import CHUNK_KB
from load import fio_words, outcome, read_counters, take_readings
from qemu import Drive, Guest, sparse

SERVED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "systems", "served.toml")
MEMBER_MIB = 256
# Of a metered member, as in systems/members.toml: half of its requests may have 64 KB.
METERED_BYTES = 50 * 65536
ARRAY = "/dev/md0"
MODULES = ["raid0", "raid1", "raid10", "raid456"]
PROGRAMS = ["mdadm", "fio"]

# fio ends by itself only when something is wrong.
START = """
(fio {fio} > /run/fio 2>&1; touch /run/fio.ended) > /dev/null &
"""
COUNT = """
[ ! -e /run/fio.ended ] || {{ cat /run/fio; exit 1; }}
awk 'FILENAME == "/proc/uptime" || $3 ~ /^({names})$/' /proc/uptime /proc/diskstats
grep recovery /proc/mdstat || true
"""
END = """
killall -INT fio
while [ ! -e /run/fio.ended ]; do sleep 0.1; done
rm /run/fio.ended
"""


# What /proc/mdstat says of a rebuild: KB of each member that are done, of all. (sync_completed moves by
# sixteenths of the array.)
REBUILT = re.compile(r"recovery = .*\((\d+)/\d+\)")


def device(number):
    return "/dev/vd" + "abcdefghijklmnop"[number]


class Emulated:
    """A guest with so many members of a kind: `capped` (files under QEMU's limit of
    requests), `metered` (under one of bytes, too) or `served` (one-armed drives of our
    own virtual disk)."""

    def __init__(self, machine, members, kind, rate, programs=()):
        self.machine, self.kind, self.server = machine, kind, None
        self.members = members
        # In systems/members.toml.
        self.model = "arm" if kind == "served" else kind
        drives = [getattr(self, f"_{kind}")(number, rate) for number in range(members)]
        self.devices = [device(number) for number in range(members)]
        self.guest = Guest(machine.undo, machine.folder, drives, MODULES, [*PROGRAMS, *programs])
        self.about = self.guest.sh("uname -sr")
        for member in self.devices:
            # The kernel's own holding back of writes has no part in the model: arrays
            # pass writes on as background ones, and a thread that is held back at a
            # write asks for no reads meanwhile.
            self.guest.sh(f"echo 0 > /sys/block/{member[5:]}/queue/wbt_lat_usec")

    def _capped(self, number, rate):
        path = os.path.join(self.machine.folder, f"member{number}")
        return Drive(sparse(path, MEMBER_MIB), iops=rate)

    def _metered(self, number, rate):
        path = os.path.join(self.machine.folder, f"member{number}")
        return Drive(sparse(path, MEMBER_MIB), iops=rate, bytes_per_s=METERED_BYTES)

    def _served(self, number, _rate):
        """A drive of our own virtual disk; one server has all of them. Attached here, and
        not by QEMU's own NBD client: 7.2's keeps up to 16 answers back until the last of
        them has come, so that members idle that have work waiting."""
        self.server = self.server or self.machine.system(SERVED, {"disk.count": self.members})
        return Drive(self.server.device(f"disk{number}"), direct=True)

    def believe(self, rotational):
        for member in self.devices:
            self.guest.sh(f"echo {int(rotational)} > /sys/block/{member[5:]}/queue/rotational")

    def make(self, level):
        """Makes an array in its state; `unmake` ends it."""
        self.believe(level.rotational)
        chunk = "" if level.level == "1" else f"--chunk={CHUNK_KB}"
        clean = "" if level.level == "0" else "--assume-clean --bitmap=none"
        members = self.devices[:level.members]
        words = " ".join("missing" if place in level.failed else member for place, member in enumerate(members))
        self.guest.sh(f"mdadm --create {ARRAY} --run --level={level.level} {chunk} {clean} "
                      f"--raid-devices={level.members} {words} 2>&1")
        if level.rebuilding:
            self.guest.sh(f"mdadm --add {ARRAY} {self.devices[level.members]} 2>&1")
        return ARRAY

    def unmake(self, level):
        members = " ".join(self.devices[:level.drives])
        self.guest.sh(f"mdadm --stop {ARRAY} 2>&1; mdadm --zero-superblock {members} 2>&1; true")

    def measure(self, target, members, load, options):
        """Runs fio on a device; `members` are those whose I/Os are counted beside it."""
        names = [name.removeprefix("/dev/") for name in (target, *members)]
        script = COUNT.format(names="|".join(dict.fromkeys(names)))

        def count():
            sent_s = time.monotonic()
            text = self.guest.sh(script)
            return (sent_s + time.monotonic()) / 2, text

        def done():
            return sum(read_counters(*count())[1][names[0]][::3])

        before = done()
        self.guest.sh(START.format(fio=" ".join(fio_words(target, load, options))))
        readings = take_readings(lambda: done() - before, count, options)
        self.guest.sh(END)
        readings, pace = to_host_clock(readings)
        return outcome(names[0], readings, load) | {"guest_clock": pace, "rebuilt_bytes_per_s": rebuild_rate(readings)}


def rebuild_rate(readings):
    """Returns the rate of the rebuild, by bytes of each member; None without a rebuild, or if it ended early."""
    (start, first), (end, last) = ((moment, REBUILT.search(text)) for moment, text in (readings[0], readings[-1]))
    if not first or not last:
        return None
    return (int(last[1]) - int(first[1])) * 1024 / (end - start)


def to_host_clock(readings):
    """Readings whose first line is the emulated machine's uptime, at moments of this
    machine's clock; and how many seconds of the other went by in one of this one.

    The uptime tells exactly when the counters were read but may run at a pace of its
    own; this machine knows its own time, but hears of the counters some 50 ms later.
    """
    (start, first), (end, last) = readings[0], readings[-1]
    pace = (uptime(last) - uptime(first)) / (end - start)
    return [(uptime(text) / pace, text) for _, text in readings], pace


def uptime(text):
    return float(text.split(maxsplit=1)[0])

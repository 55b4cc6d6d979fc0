"""md arrays in an emulated machine, and their members alone."""

import os

from levels import CHUNK_KB, OUTSTANDING
from load import WINDOWS, fio_words, outcome
from machine import wait_for
from qemu import Drive, Guest, GuestError, sparse

HERE = os.path.dirname(os.path.abspath(__file__))
MEMBER_MIB = 256
ARRAY = "/dev/md0"
MODULES = ["raid0", "raid1", "raid10", "raid456"]
PROGRAMS = ["mdadm", "fio"]

# Counts when requests flow, not when fio was asked to start, and ends fio then.
SCRIPT = """
done_now() {{ awk '$3 == "{name}" {{ print $4 + $8 }}' /proc/diskstats; }}
count() {{ cat /proc/uptime; grep -E ' ({names}) ' /proc/diskstats; echo @@; }}
before=$(done_now)
fio {fio} > /run/fio 2>&1 &
while [ $(done_now) -lt $((before + 50)) ]; do
    kill -0 $! 2> /dev/null || {{ cat /run/fio; exit 0; }}
    sleep 0.2
done
sleep {ramp}
count
for window in $(seq {windows}); do sleep {step}; count; done
kill -INT $!
wait $!
cat /run/fio
"""


def device(number):
    return "/dev/vd" + "abcdefghijklmnop"[number]


class Emulated:
    """A guest with so many members of a kind: `capped` (files under QEMU's limit) or
    `served` (one-armed drives of our own virtual disk)."""

    def __init__(self, lab, members, kind, rate):
        self.lab, self.kind = lab, kind
        # In systems/members.toml.
        self.model = "capped" if kind == "capped" else "arm"
        drives = [getattr(self, f"_{kind}")(number, rate) for number in range(members)]
        self.devices = [device(number) for number in range(members)]
        self.guest = Guest(lab.undo, lab.folder, drives, MODULES, PROGRAMS)
        self.about = self.guest.sh("uname -sr")
        for member in self.devices:
            # The kernel's own holding back of writes has no part in the model: arrays
            # pass writes on as background ones, and a thread that is held back at a
            # write asks for no reads meanwhile.
            self.guest.sh(f"echo 0 > /sys/block/{member[5:]}/queue/wbt_lat_usec")

    def _capped(self, number, rate):
        path = os.path.join(self.lab.folder, f"member{number}")
        return Drive(sparse(path, MEMBER_MIB), iops=rate)

    def _served(self, number, _rate):
        """A drive of our own virtual disk; one server has all of them."""
        path = os.path.join(self.lab.folder, "served")
        if number == 0:
            system = os.path.join(HERE, "systems", "served.toml")
            self.lab.start([self.lab.binary, "disk", system, "--socket", path])
            wait_for(lambda: os.path.exists(path), "the served disks' socket")
        return Drive(nbd=path, export=f"disk{number}")

    def believe(self, rotational):
        for member in self.devices:
            self.guest.sh(f"echo {int(rotational)} > /sys/block/{member[5:]}/queue/rotational")

    def make(self, level):
        """Makes an array; `unmake` ends it."""
        self.believe(level.rotational)
        chunk = "" if level.level == "1" else f"--chunk={CHUNK_KB}"
        clean = "" if level.level == "0" else "--assume-clean --bitmap=none"
        members = " ".join(self.devices[:level.members])
        self.guest.sh(f"mdadm --create {ARRAY} --run --level={level.level} {chunk} {clean} "
                      f"--raid-devices={level.members} {members} 2>&1")
        return ARRAY

    def unmake(self, level):
        members = " ".join(self.devices[:level.members])
        self.guest.sh(f"mdadm --stop {ARRAY} 2>&1; mdadm --zero-superblock {members} 2>&1")

    def measure(self, target, members, read_percent, options, outstanding=OUTSTANDING):
        """Runs fio on a device; `members` are those whose I/Os are counted beside it."""
        names = {name.removeprefix("/dev/") for name in (target, *members)}
        words = fio_words(target, read_percent, options, outstanding)
        answer = self.guest.sh(SCRIPT.format(
            fio=" ".join(words), name=target.removeprefix("/dev/"), names="|".join(names),
            ramp=options.ramp, step=options.seconds / WINDOWS, windows=WINDOWS), options.seconds + 120)
        *readings, trouble = answer.split("@@")
        if len(readings) <= WINDOWS:
            raise GuestError(f"fio: {trouble.strip()[-400:]}")
        return outcome(target.removeprefix("/dev/"), readings)

"""The devices that are described from a minute's probe, each with what the probe runs in."""

import os
from dataclasses import dataclass, field

from machine import LabError

HERE = os.path.dirname(os.path.abspath(__file__))
# What the capped device may do: requests and bytes a second, of reads and of writes.
CAPS = {"read_iops": 3000, "write_iops": 1500, "read_bps": 100_000_000, "write_bps": 50_000_000}
FILE_MIB = 1024


@dataclass
class Target:
    """What is probed, and the words before the probe's own."""

    path: str
    about: str
    before: list = field(default_factory=list)


def capped(machine):
    """A loop device over a file in memory, held by a version 1 cgroup."""
    disk = machine.fast_disk(FILE_MIB)
    group = machine.cgroup("blkio")
    for quantity, maximum in CAPS.items():
        machine.limit(group, quantity, disk, maximum)
    limits = ", ".join(f"{quantity} {maximum}" for quantity, maximum in CAPS.items())
    into = ["sh", "-c", 'echo $$ > "$0"/cgroup.procs && exec "$@"', group]
    return Target(disk, f"a loop device over memory, held to {limits}", into)


def served(model, about):
    """A drive of the catalogue behind `disk attach`; without its first size, the whole of it."""

    def make(machine):
        device = machine.disk(os.path.join(HERE, "one.toml"), {"disk.model": model})
        return Target(device, f"{about} ({model}) behind `disk attach`")

    return make


def own_file(machine):
    """A written file on the disk that holds the temporary folder."""
    path, disk = machine.real_file(FILE_MIB)
    return Target(path, f"a file of {FILE_MIB} MiB on {disk}, this machine's own disk")


DEVICES = {
    "capped": capped,
    "mechanical": served("st3600057ss", "a disk of 15,000 rpm"),
    "ssd": served("intel-x25m-80", "an SSD"),
    "file": own_file,
}

# Nothing of these is in `probe quick`: depths between its own, sizes at random, mixes.
KEPT_ASIDE = [
    *(("depth", rw, 100 * (rw == "read"), 4, depth) for rw in ("read", "write") for depth in (2, 8, 32)),
    *(("size", rw, 100 * (rw == "read"), kb, depth)
      for rw in ("read", "write") for kb, depth in ((16, 4), (64, 8), (256, 4))),
    *(("mix", "mix", reads, kb, depth) for reads, kb, depth in ((70, 4, 4), (70, 4, 32), (50, 16, 8), (30, 4, 16))),
]


def job_file(target, seconds, ramp):
    """What is kept aside, as a job file of fio."""
    lines = ["[global]", "ioengine=libaio", "direct=1", "time_based=1", f"runtime={seconds * 1000:.0f}ms",
             f"ramp_time={ramp * 1000:.0f}ms",
             f"filename={target}", ""]
    for tries, name, reads, kb, depth in KEPT_ASIDE:
        rw = {100: "randread", 0: "randwrite"}.get(reads, "randrw")
        lines += [f"[{tries}-{name}-{reads}-{kb}k-depth-{depth}]", "stonewall", f"rw={rw}", f"rwmixread={reads}",
                  f"bs={kb}k", f"iodepth={depth}", ""]
    return "\n".join(lines)


def check_names(names):
    """Names of devices, all of them where none is given."""
    unknown = [name for name in names if name not in DEVICES]
    if unknown:
        raise LabError(f"no such device: {', '.join(unknown)}")
    return names or list(DEVICES)

"""Much lies in swap and stays there; what is slow now is a disk."""

TRUTH = "disk"
INSIDE = None
MAKES = "256 MiB touched once in a 128 MiB cgroup, and then eight readers on a disk of one arm"
NEEDS = ["fio", "mkswap", "losetup"]


def start(machine):
    group = machine.cgroup("memory", limit_in_bytes=128 << 20)
    machine.swap_on(machine.disk("many-at-once", {"disk.plain.service": "{ constant_us = 400 }"}))
    disk = machine.disk("one-arm")
    machine.own("touch-memory", "--mib", 256, "--once", cgroups=[group])
    machine.settle += 10
    machine.fio(disk, rw="randread", bs="4k", numjobs=8)
    return disk

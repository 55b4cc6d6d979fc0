"""A striped set with one member much slower than its fellows, which wait for it."""

import os

TRUTH = "disk"
MAKES = "eight random readers on btrfs RAID 0 of three disks of 2 ms and one of 20 ms"
NEEDS = ["fio", "nbdfuse", "losetup", "mkfs.btrfs"]
INSTANCE_MATTERS = True


def start(machine):
    times = (2, 2, 20, 2)
    disks = [machine.slow_disk(512, service_ms=time, sequential_ms=1, jitter=0.3, parallel=1,
                               seed=time) for time in times]
    path = os.path.join(machine.mount_btrfs(disks, "raid0"), "data")
    machine.fill(path, 256)
    machine.fio(path, rw="randread", bs="4k", size="256m", numjobs=8)
    return disks[times.index(max(times))]

"""A striped set with one member much slower than its fellows, which wait for it."""

import os

TRUTH = "disk"
MAKES = "eight random readers on btrfs RAID 0 of three disks of 2 ms and one of 20 ms"
NEEDS = ["fio", "losetup", "mkfs.btrfs"]
INSTANCE_MATTERS = True
INSIDE_INSTANCE = "slow"


def start(machine):
    system = machine.system("slow-one-of-four")
    disks = [system.device(name) for name in ("disk0", "disk1", "slow", "disk2")]
    path = os.path.join(machine.mount_btrfs(disks, "raid0"), "data")
    machine.fill(path, 256)
    machine.fio(path, rw="randread", bs="4k", size="256m", numjobs=8)
    return disks[2]

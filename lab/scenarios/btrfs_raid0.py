"""A striped set of four slow members, all of them full."""

import os

TRUTH = "disk"
MAKES = "twenty-four random readers on btrfs RAID 0 of four disks with one arm of 8 ms each"
NEEDS = ["fio", "losetup", "mkfs.btrfs"]


def start(machine):
    system = machine.system("four-arms")
    disks = [system.device(f"disk{number}") for number in range(4)]
    path = os.path.join(machine.mount_btrfs(disks, "raid0"), "data")
    machine.fill(path, 256)
    machine.fio(path, rw="randread", bs="4k", size="256m", numjobs=24)

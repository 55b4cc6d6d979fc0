"""Pages of a mapped file are read from a slow disk, with memory to spare: that is no paging for want of memory."""

import os

TRUTH = "disk"
MAKES = "eight threads that touch pages of a mapped file of 512 MiB at random, on a disk of one arm and 8 ms"
NEEDS = ["losetup"]


def start(machine):
    disk = machine.disk("one-arm")
    path = os.path.join(machine.mount_ext4(disk, "900m"), "data")
    # written in part: the rest reads as it is on the disk
    machine.fill(path, 512)
    machine.own("touch-file", "--path", path, "--threads", 8)
    return disk

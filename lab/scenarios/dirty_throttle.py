"""Writers through the page cache are stopped, because the disk cannot keep up."""

import os

TRUTH = "disk"
MAKES = "two buffered writers on ext4 on a disk of 10 MB/s, at most 48 MiB dirty"
NEEDS = ["losetup", "mkfs.ext4"]


def start(machine):
    disk = machine.disk("slow-medium")
    folder = machine.mount_ext4(disk, "900m")
    # With the usual limit, a fifth of all memory, the writers would be stopped
    # only after minutes, and cleaning up would take as long.
    machine.limit_dirty_pages(24 << 20, 48 << 20)
    for number in (1, 2):
        machine.own("write-file", "--mib", 256, "--path", os.path.join(folder, f"out{number}"))
    return disk

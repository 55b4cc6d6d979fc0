"""A file that would fit the machine's memory many times is read again and again
inside a cgroup that is too small for it."""

import os

TRUTH = "memory"
INSIDE = None
MAKES = "96 MiB file read at random through the page cache inside a 64 MiB cgroup, disk at 2 ms"
NEEDS = ["fio", "losetup", "mkfs.ext4"]


def start(machine):
    folder = machine.mount_ext4(machine.disk("many-at-once", {
        "disk.plain.servers": 16, "disk.plain.service": "{ uniform_us = [1600, 2400] }"}))
    path = os.path.join(folder, "data")
    machine.fill(path, 96)
    group = machine.cgroup("memory", limit_in_bytes=64 << 20)
    # The file is read whole first, so that every miss that follows is a page
    # that was there and was pushed out.
    machine.settle += 4
    machine.fio(path, rw="randread", bs="4k", direct=0, numjobs=4, invalidate=0, size="96m",
                ioengine="mmap", pre_read=1, cgroups=[group])

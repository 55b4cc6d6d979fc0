"""A file that would fit the machine's memory many times is read again and again
inside a cgroup that is too small for it."""

import os

TRUTH = "memory"
MAKES = "96 MiB file read at random through the page cache inside a 64 MiB cgroup, disk at 2 ms"
NEEDS = ["fio", "nbdfuse", "losetup", "mkfs.ext4"]


def start(machine):
    folder = machine.mount_ext4(machine.slow_disk(512, service_ms=2, jitter=0.2))
    path = os.path.join(folder, "data")
    machine.fill(path, 96)
    group = machine.cgroup("memory", limit_in_bytes=64 << 20)
    # The file is read whole first, so that every miss that follows is a page
    # that was there and was pushed out.
    machine.settle += 4
    machine.fio(path, rw="randread", bs="4k", direct=0, numjobs=4, invalidate=0, size="96m",
                ioengine="mmap", pre_read=1, cgroups=[group])

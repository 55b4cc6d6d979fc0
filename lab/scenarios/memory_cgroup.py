"""A file that would fit the machine's memory many times is read again and again
inside a cgroup that is too small for it."""

import os

TRUTH = "memory"
MAKES = "192 MiB file read through the page cache inside a 96 MiB cgroup, disk at 2 ms"
NEEDS = ["fio", "nbdfuse", "losetup", "mkfs.ext4"]


def start(machine):
    folder = machine.mount_ext4(machine.slow_disk(512, service_ms=2, jitter=0.2))
    path = os.path.join(folder, "data")
    machine.fill(path, 192)
    group = machine.cgroup("memory", limit_in_bytes=96 << 20)
    # Half of the reads go to a tenth of the file, as in life; without the hint
    # of random access the kernel would read ahead and hide the refaults.
    machine.fio(path, rw="randread", bs="4k", direct=0, numjobs=4, invalidate=0,
                random_distribution="zipf:0.8", size="192m", cgroups=[group])

"""A controller's cache takes writes at once until it is full of what the disks
behind it could not take; then every write waits for a disk.

While the cache lasts nothing is wrong for anybody; it ends a third into what is
watched.
"""

TRUTH = "disk"
MAKES = "300 random writes a second on a mirror of two disks behind a cache that runs out"
NEEDS = ["fio", "losetup"]
# What the cache fills by: 300 pages of 8 KiB a second less the 200 that the disks take.
FILLS_BY_S = 100 * 8192


def start(machine):
    lasts = machine.settle + machine.watched / 3
    disk = machine.disk("controller-cache", {"raid.cache.size": f"{int(lasts * FILLS_BY_S) >> 20}MB"})
    machine.fio(disk, rw="randwrite", bs="8k", numjobs=6, rate_iops=50)
    return disk

"""An SSD that was written once in order takes random writes quickly until its
spare blocks are used up; from then on it moves old data before it can write new.
"""

TRUTH = "disk"
MAKES = "random 4 KiB writes, eight at a time, on a small SSD that enters garbage collection"
NEEDS = ["fio", "nbdfuse", "losetup"]


def start(machine):
    disk = machine.disk("small-ssd")
    machine.fio(disk, rw="randwrite", bs="4k", numjobs=8, rate_iops=125)
    return disk

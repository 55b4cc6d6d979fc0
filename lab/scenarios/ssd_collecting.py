"""An SSD that was written once in order takes random writes quickly until its
spare blocks are used up; from then on it moves old data before it can write new.
"""

TRUTH = "disk"
MAKES = "random 4 KiB writes, eight at a time, on a small SSD that enters garbage collection"
NEEDS = ["fio", "losetup"]
WRITES_S, SPARE = 1000, 0.07


def start(machine):
    # So large that its spare blocks last for the first third of what is watched.
    capacity = WRITES_S * 4096 * (machine.settle + machine.watched / 3) / SPARE
    disk = machine.disk("small-ssd", {"ssd.capacity": f"{int(capacity) >> 20}MiB"})
    machine.fio(disk, rw="randwrite", bs="4k", numjobs=8, rate_iops=WRITES_S // 8)
    return disk

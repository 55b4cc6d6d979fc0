"""Moderate, paced work on a fast disk: quick answers, no queue, nobody waits."""

TRUTH = "none"
MAKES = "400 random requests of 8 KiB a second, a third of them writes, on a disk in memory"
NEEDS = ["fio", "losetup"]


def start(machine):
    disk = machine.fast_disk()
    machine.fio(disk, rw="randrw", rwmixread=70, bs="8k", numjobs=2, rate_iops="140,60")

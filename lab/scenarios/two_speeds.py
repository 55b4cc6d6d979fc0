"""A disk with a cache of its own: four reads in five are quick, the others are not."""

TRUTH = "disk"
INSIDE = None
MAKES = "six paced readers on a disk that answers four reads in five in 0.5 ms and the others in 30 ms"
NEEDS = ["fio", "losetup"]
RULE_TRACED = "disk.two-speeds"


def start(machine):
    service = "{ quantiles_us = [[0, 400], [0.8, 600], [0.80000001, 28000], [1, 32000]] }"
    disk = machine.disk("many-at-once", {"disk.plain.service": service, "disk.plain.servers": 32})
    machine.fio(disk, rw="randread", bs="4k", numjobs=6, rate_iops=25)
    return disk

"""A disk that answers one read in two hundred after half a second, and all others in 2 ms.

The readers rest most of the time, so that neither the queue nor the mean is long.
"""

TRUTH = "disk"
INSIDE = None
MAKES = "four readers of 40 requests a second on a disk of 2 ms of which one read in 200 takes 500 ms"
NEEDS = ["fio", "losetup"]
RULE_TRACED = "disk.read-tail"


def start(machine):
    service = "{ quantiles_us = [[0, 1800], [0.995, 2200], [0.99500001, 480000], [1, 520000]] }"
    disk = machine.disk("many-at-once", {"disk.plain.service": service, "disk.plain.servers": 32})
    machine.fio(disk, rw="randread", bs="4k", numjobs=4, rate_iops=40)
    return disk

"""The disk and load of ceiling-far without a measurement of the disk: queue and
latency are all that there is to go by, and they say that it is the disk.

The truth is what a judge can know here, so that what the measurement changes
stays visible.
"""

from scenarios import ceiling_far

TRUTH = "disk"
MAKES = ceiling_far.MAKES.replace(", measured by a probe", ", not measured")
NEEDS = ceiling_far.NEEDS


def start(machine):
    disk = machine.slow_disk(service_ms=3, parallel=8)
    machine.fio(disk, **ceiling_far.LOAD)
    return disk

"""The disk and load of ceiling-far without a measurement of the disk: queue and
latency are all that there is to go by outside, and they say that it is the disk.
Inside, where it is known that two thirds of it are idle, nothing is full.
"""

from scenarios import ceiling_far

TRUTH = "none"
OUTSIDE = "disk"
MAKES = ceiling_far.MAKES.replace(", measured by a probe", ", not measured")
NEEDS = ceiling_far.NEEDS


def start(machine):
    disk = machine.disk("many-at-once")
    machine.fio(disk, **ceiling_far.LOAD)
    return disk

"""A disk that answers nothing for two seconds in every six, and is quick between.

Its own record does not know who waits, and a device that stands still under
write-back alone holds nobody back.
"""

TRUTH = "disk"
INSIDE = None
MAKES = "four readers on a quick disk that stands still for 2 s in every 6 s"
NEEDS = ["fio", "losetup"]


def start(machine):
    system = machine.system("many-at-once", {"disk.plain.service": "{ constant_us = 400 }"})
    disk = system.device()
    machine.fio(disk, rw="randread", bs="4k", numjobs=4, thinktime=3000)
    machine.own("stall", "--path", system.socket + ".control", "--part", "disk")
    return disk

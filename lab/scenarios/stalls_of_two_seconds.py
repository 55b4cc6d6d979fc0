"""A disk that stands still for two seconds in every six, under readers that rest between."""

TRUTH = "disk"
INSIDE = None
MAKES = "four paced readers of 30 requests a second on a quick disk that stands still for 2 s in every 6 s"
NEEDS = ["fio", "losetup"]


def start(machine):
    system = machine.system("many-at-once", {"disk.plain.service": "{ constant_us = 400 }"})
    disk = system.device()
    machine.fio(disk, rw="randread", bs="4k", numjobs=4, rate_iops=30)
    machine.own("stall", "--path", system.socket + ".control", "--part", "disk")
    return disk

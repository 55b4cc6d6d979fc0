"""A quick disk behind a queue that lets few requests through: they wait in the host."""

TRUTH = "disk"
INSIDE = None
MAKES = "48 readers on a disk of 0.4 ms that serves one at a time, of which the kernel sends four at once"
NEEDS = ["fio", "losetup"]
RULE_TRACED = "disk.waits-before-device"


def start(machine):
    disk = machine.disk("many-at-once", {"disk.plain.service": "{ constant_us = 400 }", "disk.plain.servers": 1})
    machine.limit_queue(disk, 4)
    machine.fio(disk, rw="randread", bs="4k", numjobs=48)
    return disk

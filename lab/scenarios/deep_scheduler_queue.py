"""A quick disk behind a queue that lets few requests through: they wait in the host."""

import os

TRUTH = "disk"
INSIDE = None
MAKES = "48 readers on a disk of 0.4 ms that serves one at a time, of which the kernel sends four at once"
NEEDS = ["fio", "losetup"]
RULE_TRACED = "disk.waits-before-device"


def start(machine):
    disk = machine.disk("many-at-once", {"disk.plain.service": "{ constant_us = 400 }", "disk.plain.servers": 1})
    path = f"/sys/block/{os.path.basename(disk)}/queue/nr_requests"
    with open(path, encoding="ascii") as file:
        machine.undo.push("write", path, file.read().strip())
    with open(path, "w", encoding="ascii") as file:
        file.write("4")
    machine.fio(disk, rw="randread", bs="4k", numjobs=48)
    return disk

"""A disk hangs with one request that nobody waits for, while the processors are full."""

import os

TRUTH = "cpu"
INSIDE = None
MAKES = "two spinning processes for each processor, and a disk that hangs under one lone read-ahead"
NEEDS = ["losetup"]


def start(machine):
    system = machine.system("many-at-once")
    disk = system.device()
    # undone before the device is taken away, which waits for its last request
    machine.undo.push("run", machine.binary, "disk", "release", "disk", "--socket", system.socket)
    system.order("hang", member="disk")
    machine.own("read-ahead", "--path", disk)
    for _ in range(2 * os.cpu_count()):
        machine.own("spin")

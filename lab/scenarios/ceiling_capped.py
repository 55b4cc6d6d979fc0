"""A volume that was measured before somebody held it to a quarter: from the first
moment it is watched it stands at its cap, so nothing but the measurement tells
that it could do more.
"""

import os

TRUTH = "throttle"
MAKES = "asynchronous reads, depth 24, on a disk of 4 ms for each of eight, measured before it was held to 500/s"
NEEDS = ["fio", "nbdfuse", "losetup"]


def start(machine):
    cap = os.path.join(machine.folder, "capped")
    disk = machine.slow_disk(service_ms=4, parallel=8, cap_iops=500, cap_when=cap)
    machine.probe(disk)
    open(cap, "w", encoding="ascii").close()
    machine.fio(disk, rw="randread", bs="4k", ioengine="libaio", iodepth=24)
    return disk

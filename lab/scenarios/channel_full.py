"""Disks that could do more wait for each other's data on the bus that they share.

The kernel sees four disks, each with a queue and slow answers, and no bus: that
it is the disks is what can be known there. Inside, the bus is full and no arm is.
"""

TRUTH = "channel"
OUTSIDE = "disk"
INSIDE_INSTANCE = "scsi"
MAKES = "eight readers of whole files on four disks that share a channel of 5 MB/s"
NEEDS = ["fio", "losetup"]


def start(machine):
    system = machine.system("narrow-channel")
    for number in range(4):
        # Two regions for each disk, far apart.
        machine.fio(system.device(f"disk{number}"), rw="read", bs="64k", numjobs=2, size="600m",
                    offset_increment="1g")

"""A disk of a RAID 5 fails while it is used, and what it held is rebuilt onto the
spare: the disks are full of the rebuild, and users who had enough of them wait.
"""

TRUTH = "disk"
MAKES = "four users on a RAID 5 of three drives that loses one and rebuilds it onto a spare"
NEEDS = ["fio", "losetup"]


def start(machine):
    system = machine.system("spare")
    disk = system.device()
    machine.fio(disk, rw="randrw", rwmixread=80, bs="8k", numjobs=4, thinktime=60_000)
    system.order("fail", member="disk1")
    return disk

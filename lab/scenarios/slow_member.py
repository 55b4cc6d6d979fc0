"""One member of a stripe becomes ten times slower while it is used.

The kernel sees one disk that has become slow; inside it is one member of four.
"""

TRUTH = "disk"
INSIDE_INSTANCE = "disk2"
MAKES = "eight readers on a stripe of four disks of 2 ms, one of which becomes ten times slower"
NEEDS = ["fio", "losetup"]


def start(machine):
    system = machine.system("stripe-of-four")
    disk = system.device()
    machine.fio(disk, rw="randread", bs="4k", numjobs=8)
    system.order("slow", member="disk2", factor=10)
    return disk

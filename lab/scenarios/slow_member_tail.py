"""A stripe of ten of which one member is slow: a tenth of the reads, and one disk to the kernel."""

TRUTH = "disk"
INSIDE = None
MAKES = "four paced readers on a stripe of ten disks of 1 ms, of which one takes 150 ms"
NEEDS = ["fio", "losetup"]
RULE_TRACED = "disk.read-tail"


def start(machine):
    system = machine.system("stripe-of-ten")
    disk = system.device()
    system.order("slow", member="disk3", factor=150)
    machine.fio(disk, rw="randread", bs="4k", numjobs=4, rate_iops=6)
    return disk

"""One stream of 512-byte records on a disk in memory."""

TRUTH = "application"
MAKES = "one sequential reader of 512-byte records, not cached, on a loop device in memory"
NEEDS = ["fio", "losetup"]


def start(machine):
    disk = machine.fast_disk()
    machine.fio(disk, rw="read", bs="512", numjobs=1)
    return disk

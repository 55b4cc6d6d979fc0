"""Random reads, eight at a time, on a disk with one arm."""

TRUTH = "disk"
MAKES = "eight readers of random 4 KiB on a disk that serves one request at a time in 8 ms"
NEEDS = ["fio", "losetup"]


def start(machine):
    disk = machine.disk("one-arm")
    machine.fio(disk, rw="randread", bs="4k", numjobs=8)
    return disk

"""Whole files are read from a disk whose medium passes 20 MB/s."""

TRUTH = "disk"
MAKES = "two sequential readers through the page cache on a disk of 20 MB/s"
NEEDS = ["fio", "nbdfuse", "losetup"]


def start(machine):
    disk = machine.slow_disk(2048, service_ms=8, sequential_ms=0.2, jitter=0.3, mb_per_s=20,
                             parallel=1)
    machine.fio(disk, rw="read", bs="256k", direct=0, numjobs=2, offset_increment="1g")
    return disk

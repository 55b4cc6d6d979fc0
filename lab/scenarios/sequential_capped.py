"""Whole files are read from a drive of 1999 that passes 20 MB/s where it is quickest."""

TRUTH = "disk"
MAKES = "two sequential readers through the page cache on a drive of 20 MB/s"
NEEDS = ["fio", "losetup"]


def start(machine):
    disk = machine.disk("whole-files")
    machine.fio(disk, rw="read", bs="256k", direct=0, numjobs=2, size="2g", offset_increment="4g")
    return disk

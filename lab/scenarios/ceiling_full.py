"""The disk of ceiling-far, asked for all that it can do and more."""

TRUTH = "disk"
MAKES = "asynchronous random 4 KiB reads, depth 16, on a disk of 3 ms for each of eight, measured by a probe"
NEEDS = ["fio", "losetup"]


def start(machine):
    disk = machine.disk("many-at-once")
    machine.probe(disk)
    machine.fio(disk, rw="randread", bs="4k", ioengine="libaio", iodepth=16)
    return disk

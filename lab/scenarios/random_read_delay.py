"""Random reads, eight at a time, on a disk that takes them all at once but slowly."""

TRUTH = "disk"
MAKES = "asynchronous random 4 KiB reads, depth 8, on a disk that takes 8 ms for each"
NEEDS = ["fio", "losetup"]


def start(machine):
    disk = machine.disk("many-at-once", {"disk.plain.servers": 16, "disk.plain.service": "{ constant_us = 8000 }"})
    machine.fio(disk, rw="randread", bs="4k", ioengine="libaio", iodepth=8)
    return disk

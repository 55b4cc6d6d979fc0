"""One reader that never has more than one request out, on a slow disk."""

TRUTH = "disk"
MAKES = "one reader of random 8 KiB on a disk that takes 10 ms, with room for sixteen at once"
NEEDS = ["fio", "losetup"]


def start(machine):
    disk = machine.disk("many-at-once",
                        {"disk.plain.servers": 16, "disk.plain.service": "{ uniform_us = [7000, 13000] }"})
    machine.fio(disk, rw="randread", bs="8k", numjobs=1)
    return disk

"""One reader that never has more than one request out, on a slow disk."""

TRUTH = "disk"
MAKES = "one reader of random 8 KiB on a disk that takes 10 ms, with room for sixteen at once"
NEEDS = ["fio", "nbdfuse", "losetup"]


def start(machine):
    disk = machine.slow_disk(service_ms=10, jitter=0.3)
    machine.fio(disk, rw="randread", bs="8k", numjobs=1)
    return disk

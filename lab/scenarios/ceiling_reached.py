"""A disk of one quick arm that does all it can for one reader.

Each answer is quick and nobody queues, so by latency and queue the disk has
room and the reader's small requests are to blame. What a probe measured tells
that there is no more to be had.
"""

TRUTH = "disk"
MAKES = "one reader on a disk of one arm and 0.6 ms that a probe has measured"
NEEDS = ["fio", "nbdfuse", "losetup"]


def start(machine):
    disk = machine.slow_disk(service_ms=0.6, parallel=1)
    machine.probe(disk)
    machine.fio(disk, rw="randread", bs="4k")
    return disk

"""A disk that serves eight at once, busy nearly all of the time with a third of
what it can do: paced requests, of which about three are always outstanding,
each answered as quickly as one alone. Nobody is held back.

By busy time and queue it looks full; what a probe measured tells that it is not.
"""

TRUTH = "none"
MAKES = "800 paced asynchronous reads a second on a disk of 3 ms for each of eight, measured by a probe"
NEEDS = ["fio", "losetup"]
# Evenly paced: with arrivals by chance the kernel counted the disk busy for three quarters of the time.
LOAD = {"rw": "randread", "bs": "4k", "ioengine": "libaio", "iodepth": 8, "rate_iops": 800}


def start(machine):
    disk = machine.disk("many-at-once")
    machine.probe(disk)
    machine.fio(disk, **LOAD)
    return disk

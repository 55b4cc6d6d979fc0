"""A disk of one quick arm that does all it can for two readers.

Each answer is quick and hardly anybody queues, so by latency and queue the disk
has room and the readers' small requests are to blame. What a probe measured
tells that there is no more to be had. (One reader would not fill the disk: the
way to it takes time too, during which the arm stands idle.)
"""

TRUTH = "disk"
MAKES = "two readers on a disk of one arm and 0.4 ms that a probe has measured"
NEEDS = ["fio", "losetup"]


def start(machine):
    disk = machine.disk("one-arm", {"disk.plain.service": "{ constant_us = 400 }"})
    machine.probe(disk)
    machine.fio(disk, rw="randread", bs="4k", numjobs=2)
    return disk

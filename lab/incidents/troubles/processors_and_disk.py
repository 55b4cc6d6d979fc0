"""Processors that are full, and a disk that is, by two different programs."""

import os

from incidents.judging import Culprit, Truth
from incidents.troubles.parts import device_name, start_readers

MAKES = "a process with six computing threads for each processor, and eight readers of a disk of one arm"
NEEDS = ["fio", "losetup"]


def prepare(ground):
    disk = ground.disk("one-arm")
    ground.victim = ground.own("serve", "--rate", 30, "--mib", 24)

    def begin():
        load = ground.own("compute", "--threads", 6 * os.cpu_count())
        readers = start_readers(ground, disk)
        return Truth(resources=[("cpu", None), ("disk", device_name(disk))],
                     culprits=[Culprit(["python3", "compute"], ground.pids_of(load)),
                               Culprit(["fio", "--name=reindex"], ground.pids_of(readers))])

    return begin

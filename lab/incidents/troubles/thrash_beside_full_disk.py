"""Two troubles that have nothing to do with each other."""

import os

from incidents.judging import Culprit, Truth
from incidents.troubles.parts import device_name, start_readers

MAKES = "a cgroup that thrashes in compressed memory (zram), and eight readers of a disk of one arm"
NEEDS = ["fio", "mkswap", "losetup"]


def prepare(ground):
    group = ground.cgroup("memory", limit_in_bytes=128 << 20)
    ground.zram_swap()
    disk = ground.disk("one-arm")

    def begin():
        load = ground.victim = ground.own("touch-memory", "--mib", 160, "--pause", 0.002, cgroups=[group])
        readers = start_readers(ground, disk)
        return Truth(resources=[("memory", os.path.basename(group)), ("disk", device_name(disk))],
                     culprits=[Culprit(["python3", "touch-memory"], ground.pids_of(load)),
                               Culprit(["fio", "--name=reindex"], ground.pids_of(readers))])

    return begin

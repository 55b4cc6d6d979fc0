"""A cgroup that may have less memory than its program uses; the rest lies on swap."""

import os

from incidents.judging import Culprit, Truth

MAKES = "148 MiB touched at random inside a cgroup of 128 MiB, swap at 1 ms a request"
NEEDS = ["mkswap", "losetup"]


def prepare(ground):
    group = ground.cgroup("memory", limit_in_bytes=128 << 20)
    ground.swap_on(ground.disk("many-at-once", {
        "disk.plain.servers": 4, "disk.plain.service": "{ uniform_us = [800, 1200] }"}))

    def begin():
        load = ground.victim = ground.own("touch-memory", "--mib", 148, cgroups=[group])
        return Truth(resources=[("memory", os.path.basename(group))],
                     culprits=[Culprit(["python3", "touch-memory"], ground.pids_of(load))],
                     place=[os.path.basename(group)])

    return begin

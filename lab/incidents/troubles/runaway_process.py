"""One process computes with more threads than there are processors; another, which is needed, gets no turn."""

import os

from incidents.judging import Culprit, Truth

MAKES = "one process with six computing threads for each processor, beside a service that computes 30 times a second"
NEEDS = []


def prepare(ground):
    ground.victim = ground.own("serve", "--rate", 30, "--mib", 24)

    def begin():
        load = ground.own("compute", "--threads", 6 * os.cpu_count())
        return Truth(resources=[("cpu", None)], culprits=[Culprit(["python3", "compute"], ground.pids_of(load))],
                     victims=["serve --"])

    return begin

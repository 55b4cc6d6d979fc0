"""More spinning processes than processors, and no I/O to speak of."""

import os

TRUTH = "cpu"
MAKES = "two spinning processes for each processor"
NEEDS = []


def start(machine):
    for _ in range(2 * os.cpu_count()):
        machine.own("spin")

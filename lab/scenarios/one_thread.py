"""One thread that never stops, and processors that have nothing to do."""

import os

from machine import Unavailable

TRUTH = "cpu"
MAKES = "one spinning thread on a machine of several processors"
NEEDS = []
RULE = "cpu.one-thread"
QUIET = True


def start(machine):
    if os.cpu_count() < 2:
        raise Unavailable("one processor: one thread fills the machine")
    machine.own("spin")

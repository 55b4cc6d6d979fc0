"""Many threads want one lock; nothing of the machine is short."""

TRUTH = "none"
MAKES = "24 threads that take turns on one lock, held for 5 ms at a time"
NEEDS = []
WAITS = "lock"


def start(machine):
    machine.own("contend")

"""Many threads that wait for time to pass, and nothing else."""

TRUTH = "none"
MAKES = "200 threads that sleep a tenth of a second at a time"
NEEDS = []


def start(machine):
    machine.own("doze", "--threads", 200)

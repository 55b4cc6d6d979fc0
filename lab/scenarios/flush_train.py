"""Commits in a train: reads of another program wait whenever the controller empties its cache."""

TRUTH = "disk"
INSIDE = None
MAKES = "a paced reader beside bursts of 60 small writes with one sync each, behind a controller without a battery"
NEEDS = ["fio", "losetup"]
RULE_TRACED = "disk.flush-holds-reads"


def start(machine):
    disk = machine.disk("flush-train")
    machine.fio(disk, rw="randread", bs="4k", size="100m", rate_iops=25)
    machine.fio(disk, rw="randwrite", bs="4k", offset="200m", size="400m", fdatasync=60,
                thinktime=700000, thinktime_blocks=60)
    return disk

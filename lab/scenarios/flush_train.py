"""Commits in a train: reads of another program wait whenever the drive empties its write cache."""

TRUTH = "disk"
INSIDE = None
MAKES = "a paced reader beside a writer that syncs 64 small writes twice a second, on a drive with a write cache"
NEEDS = ["fio", "losetup"]
RULE_TRACED = "disk.flush-holds-reads"


def start(machine):
    disk = machine.disk("commits")
    machine.fio(disk, rw="randread", bs="4k", size="100m", rate_iops=25)
    machine.fio(disk, rw="randwrite", bs="4k", offset="200m", size="400m", fdatasync=64, rate_iops=128)
    return disk

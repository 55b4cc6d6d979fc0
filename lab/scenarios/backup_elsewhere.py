"""A backup reads one disk from end to end while users wait for another: it is not theirs."""

TRUTH = "disk"
INSTANCE_MATTERS = True
MAKES = "eight random readers on a disk of one arm, and a backup of a quick disk beside them"
NEEDS = ["fio", "losetup"]


def start(machine):
    disk = machine.disk("one-arm")
    machine.fio(disk, rw="randread", bs="4k", numjobs=8)
    machine.fio(machine.fast_disk(), name="backup", rw="read", bs="1m", rate="200m")
    return disk

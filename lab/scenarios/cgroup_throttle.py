"""The disk is fast and idle; a limit on the cgroup holds its readers."""

TRUTH = "throttle"
MAKES = "four random readers held to 300 requests a second on a disk that does tens of thousands"
NEEDS = ["fio", "losetup"]


def start(machine):
    disk = machine.fast_disk()
    group = machine.cgroup("blkio")
    machine.limit(group, "read_iops", disk, 300)
    machine.fio(disk, rw="randread", bs="4k", numjobs=4, cgroups=[group])

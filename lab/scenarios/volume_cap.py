"""A volume with an allowance of requests: quick while the saved-up burst lasts
and whenever little is asked, and flat at its cap, whatever is asked, after that."""

TRUTH = "throttle"
MAKES = "light work, then eight readers, on a volume of 1 ms held to 250 requests a second"
NEEDS = ["fio", "nbdfuse", "losetup"]


def start(machine):
    disk = machine.slow_disk(service_ms=1, jitter=0.2, cap_iops=250, burst=2000)
    machine.fio(disk, rw="randread", bs="4k", numjobs=8, startdelay=0)
    return disk

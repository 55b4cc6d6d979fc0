"""A volume with an allowance of requests: quick while little is asked and while
the saved-up burst lasts, and flat at its cap, whatever is asked, after that.

What tells it from a saturated disk: alone, a request takes 1.2 ms, so a disk
of one arm would do 800 a second and one of many arms more; yet it stops at 250,
to the request, second after second, with a queue.
"""

TRUTH = "throttle"
MAKES = "light work, then eight readers more, on a volume of 1 ms held to 250 requests a second"
NEEDS = ["fio", "losetup"]


def start(machine):
    disk = machine.disk("volume-held")
    machine.fio(disk, rw="randread", bs="4k", numjobs=1, rate_iops=100)
    # The first third of what is watched shows the volume with little to do.
    machine.fio(disk, rw="randread", bs="4k", numjobs=8,
                startdelay=machine.settle + machine.watched // 3)
    return disk

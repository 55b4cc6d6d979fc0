"""A cloud volume serves what is asked of it until its credits end, a third into
what is watched; then it gives its baseline and everybody waits.
"""

TRUTH = "throttle"
MAKES = "900 requests a second on a volume that bursts to 1,500 on credit and has 300 for ever"
NEEDS = ["fio", "losetup"]
ASKED, BASELINE = 900, 300


def start(machine):
    credits = (ASKED - BASELINE) * (machine.settle + machine.watched // 3)
    disk = machine.disk("volume-credits", {"volume.volume.iops_credits": credits,
                                           "volume.volume.iops": BASELINE})
    machine.fio(disk, rw="randrw", rwmixread=70, bs="8k", numjobs=9, rate_iops=f"{ASKED * 7 // 90},{ASKED * 3 // 90}")
    return disk

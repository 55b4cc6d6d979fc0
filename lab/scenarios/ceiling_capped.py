"""A volume that was measured while it had credits. They are gone before it is
watched, so that from the first moment it stands at its cap, and nothing but the
measurement tells that it could do more.
"""

TRUTH = "throttle"
MAKES = "asynchronous reads, depth 24, on a disk of 4 ms for each of eight, measured before its credits ended at 500/s"
NEEDS = ["fio", "losetup"]
# Enough for the probe, at 2,000 a second; what it leaves is spent before the watching begins.
CREDITS = 40_000
SPENT_AFTER_S = CREDITS // (2000 - 500) + 1


def start(machine):
    disk = machine.disk("volume-credits", {
        "volume.volume.queue": 8, "volume.volume.iops": 500, "volume.volume.burst_iops": 4000,
        "volume.volume.iops_credits": CREDITS, "volume.volume.read": "{ constant_us = 4000 }"})
    machine.probe(disk)
    machine.settle += SPENT_AFTER_S
    machine.fio(disk, rw="randread", bs="4k", ioengine="libaio", iodepth=24)
    return disk

"""A volume that was measured while it had credits. They are gone before it is
watched, so that from the first moment it stands at its cap, and nothing but the
measurement tells that it could do more.
"""

TRUTH = "throttle"
MAKES = "asynchronous reads, depth 24, on a disk of 4 ms for each of eight, measured before its credits ended at 500/s"
NEEDS = ["fio", "nbdfuse", "losetup"]
# Credits enough for the probe, which takes seconds at 2,000 a second, and what is left of them in time.
CREDITS = 16_000
SPENT_AT_MOST = 8


def start(machine):
    disk = machine.disk("volume-credits", {
        "volume.volume.queue": 8, "volume.volume.iops": 500, "volume.volume.burst_iops": 4000,
        "volume.volume.iops_credits": CREDITS, "volume.volume.read": "{ constant_us = 4000 }"})
    machine.probe(disk)
    machine.fio(disk, rw="randread", bs="4k", ioengine="libaio", iodepth=24)
    machine.settle += SPENT_AT_MOST
    return disk

"""A nightly job begins while somebody watches. This machine has no systemd, so that busybox's cron starts it."""

import os
import time

from incidents.judging import Culprit, Truth
from incidents.troubles.parts import device_name, documents_disk

MAKES = "cron starts a job that computes checksums of 600 files on the disk of a paced reader"
NEEDS = ["busybox", "losetup", "mkfs.ext4"]
BEGINS_LATER = True
LIVE_EARLIER_S = 8
# How long before the job the recorder begins.
CALM_S = 20


def prepare(ground):
    disk, folder, make_slow = documents_disk(ground)
    make_slow()
    ground.victim = ground.own("serve", "--path", disk, "--rate", 20)
    tables = os.path.join(ground.folder, "crontabs")
    os.makedirs(tables)
    with open(os.path.join(tables, "root"), "w", encoding="ascii") as file:
        file.write(f"* * * * * exec flock -n {tables} timeout {ground.seconds} "
                   f"find {folder}/documents -type f -exec sha256sum {{}} +\n")
    # so that the recorder sees some calm before
    time.sleep((60 - CALM_S - time.time()) % 60)

    def begin():
        ground.start(["busybox", "crond", "-f", "-c", tables, "-L", os.path.join(ground.folder, "cron.log")])
        since = (time.time() // 60 + 1) * 60
        return Truth(resources=[("disk", device_name(disk))], culprits=[Culprit(["sha256sum"])], since=since,
                     victims=["serve --"])

    return begin

"""A backup reads the disk on which a database commits."""

import os

from incidents.judging import Culprit, Truth
from incidents.troubles.parts import device_name, documents_disk

MAKES = "tar reads 600 MB on a disk of 4 MB/s on which PostgreSQL commits 30 times a second"
NEEDS = ["pg_ctlcluster", "setpriv", "losetup", "mkfs.ext4"]


def prepare(ground):
    disk, folder, make_slow = documents_disk(ground)
    server = ground.postgres(folder, scale=2)
    make_slow()
    ground.victim = server.bench(2, rate=30, script="simple-update")

    def begin():
        load = ground.load(["tar", "-C", folder, "-cf", os.path.join(ground.folder, "backup.tar"), "documents"])
        return Truth(resources=[("disk", device_name(disk))],
                     culprits=[Culprit(["tar -C", "documents"], ground.pids_of(load))], victims=["postgres: "])

    return begin

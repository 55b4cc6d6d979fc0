"""A backup that runs in a container reads the disk that others need."""

from incidents.judging import Culprit, Truth
from incidents.troubles.parts import device_name, documents_disk

MAKES = "tar in a container of podman reads 600 MB on a disk of 4 MB/s, beside a paced reader"
NEEDS = ["podman", "losetup", "mkfs.ext4"]
CONTAINER = "nightly-backup"


def prepare(ground):
    disk, folder, make_slow = documents_disk(ground)
    make_slow()
    ground.victim = ground.own("serve", "--path", disk, "--rate", 20)

    def begin():
        script = f"timeout {ground.seconds} tar cf /tmp/backup.tar /data"
        pids = ground.container(CONTAINER, {folder: "/data"}, script)
        return Truth(resources=[("disk", device_name(disk))], place=[CONTAINER],
                     culprits=[Culprit(["tar cf", "backup.tar"], lambda: pids)], victims=["serve --"])

    return begin

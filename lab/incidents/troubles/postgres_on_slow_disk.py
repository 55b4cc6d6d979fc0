"""More clients than a slow disk can commit for."""

from incidents.judging import Culprit, Truth
from incidents.troubles.parts import device_name

MAKES = "PostgreSQL on a drive that must empty its write cache; 16 clients come to the one that was there"
NEEDS = ["pg_ctlcluster", "setpriv", "losetup", "mkfs.ext4"]


def prepare(ground):
    disk = ground.disk("commits")
    server = ground.postgres(ground.mount_ext4(disk, "900m"))
    server.bench(1, rate=4)

    def begin():
        ground.victim = server.bench(16)
        return Truth(resources=[("disk", device_name(disk))], culprits=[Culprit(["postgres: ", "bench"])])

    return begin

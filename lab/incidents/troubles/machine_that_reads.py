"""A virtual machine reads a disk of the host that others need."""

from incidents.judging import Culprit, Truth
from incidents.troubles.parts import device_name

MAKES = "an emulated machine by name reads at random on a disk of one arm of the host, beside a paced reader there"
NEEDS = ["qemu-system-x86_64", "losetup"]
GUEST = "files-vm"
# Six readers of 64 KiB, past the guest's page cache; busybox has no random reader, so that each reads its own part.
READ = """
for part in 0 1 2 3 4 5; do
    (while :; do dd if=/dev/vda of=/dev/null bs=64k skip=$((part * 2000)) count=2000 iflag=direct; done) \
        > /dev/null 2>&1 &
done
"""


def prepare(ground):
    disk = ground.disk("one-arm")
    ground.schedule(disk, "bfq")
    guest = ground.guest(GUEST, disk)
    ground.victim = ground.own("serve", "--path", disk, "--rate", 40)

    def begin():
        guest.sh(READ)
        return Truth(resources=[("disk", device_name(disk))],
                     culprits=[Culprit(["qemu-system-x86_64"], lambda: [guest.process.pid])], place=[GUEST],
                     victims=["serve --"])

    return begin

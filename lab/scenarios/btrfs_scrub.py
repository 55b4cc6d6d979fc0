"""A btrfs checks its own data, and two users wait behind it."""

import glob
import os

TRUTH = "disk"
RULE = "disk.background"
MAKES = "a scrub of a mirrored btrfs on disks of one arm, beside two random readers"
NEEDS = ["fio", "losetup", "mkfs.btrfs"]


def start(machine):
    system = machine.system("four-arms")
    disks = [system.device(f"disk{number}") for number in range(2)]
    folder = machine.mount_btrfs(disks, "raid1")
    path = os.path.join(folder, "data")
    machine.fill(path, 256)
    # at 4 MiB/s it lasts longer than the watching, and leaves room for the readers
    for found in glob.glob(f"/sys/fs/btrfs/*/devices/{os.path.basename(disks[0])}"):
        volume = os.path.dirname(os.path.dirname(found))
        for limit in glob.glob(os.path.join(volume, "devinfo/*/scrub_speed_max")):
            with open(limit, "w", encoding="ascii") as file:
                file.write(str(4 << 20))
    machine.undo.push("run", "sh", "-c", 'btrfs scrub cancel "$0" || true', folder)
    machine.load(["btrfs", "scrub", "start", "-B", folder])
    machine.fio(path, rw="randread", bs="4k", size="256m", numjobs=2)

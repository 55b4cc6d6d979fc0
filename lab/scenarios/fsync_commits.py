"""A database commits: a small write, then a wait until it is safe."""

TRUTH = "disk"
MAKES = "two processes that write 4 KiB and fdatasync, on ext4 on a drive that must empty its write cache"
NEEDS = ["fio", "losetup", "mkfs.ext4"]


def start(machine):
    disk = machine.disk("commits")
    folder = machine.mount_ext4(disk)
    machine.fio(None, directory=folder, rw="write", bs="4k", size="64m", direct=0, fdatasync=1,
                numjobs=2)
    return disk

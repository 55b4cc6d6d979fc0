"""NT Magazine 1998's file server: twenty users who copy files on a RAID 5 of three disks."""

TRUTH = "disk"
MAKES = "twenty users, 63 % reads of 16 KiB and 0.1 s of thought, on a RAID 5 of three drives of 1997"
NEEDS = ["fio", "losetup"]


def start(machine):
    disk = machine.disk("raid5-of-three")
    machine.fio(disk, rw="randrw", rwmixread=63, bs="16k", numjobs=20, thinktime=100_000)
    return disk

"""Layers between disks and their users: how each is made in the emulated machine, and
what must be refused or measured on it. Drives are /dev/vda to /dev/vdd, 160 MiB each."""

from dataclasses import dataclass, field

MODULES = ["loop", "ext4", "btrfs", "raid1", "dm_mod", "dm_crypt", "dm_snapshot", "dm_thin_pool", "dm_multipath",
           "dm_round_robin", "nbd", "aes_generic", "ecb", "xts", "sha256_generic", "cbc", "essiv"]
PROGRAMS = ["mdadm", "lvm", "dmsetup", "cryptsetup", "losetup", "mkfs.ext4", "mkfs.btrfs", "mkswap", "md5sum"]

SERVED = """
[[drive]]
name = "disk"
capacity = "64MiB"
plain = { servers = 8, service = { constant_us = 20 } }
"""


@dataclass
class Target:
    """What is written to; `why` is a part of the refusal, nothing where it is to be measured."""

    what: str
    path: str
    why: str = ""


@dataclass
class Layer:
    name: str
    make: str
    undo: str
    # These are compared byte by byte.
    data: list
    targets: list = field(default_factory=list)


# Not even a journal is written behind our backs.
MOUNT = "mkdir -p /mnt/x; mount -t ext4 -o ro,noload"
EXT4 = "mkfs.ext4 -q -F"
WIPE = "for d in /dev/vda /dev/vdb /dev/vdc /dev/vdd; do dd if=/dev/zero of=$d bs=1M count=4 2>/dev/null; done"
LVM = "--config 'activation{udev_sync=0 udev_rules=0} devices{use_devicesfile=0} global{use_lvmlockd=0}'"
SECTORS = 65536

MD = Layer(
    "md raid1",
    f"""set -e
    mdadm --create /dev/md0 --run --level=1 --metadata=1.2 --assume-clean --raid-devices=2 /dev/vda /dev/vdb 2>&1
    mdadm --create /dev/md1 --run --level=1 --metadata=1.2 --assume-clean --raid-devices=2 /dev/vdc missing 2>&1
    {EXT4} /dev/md0; {MOUNT} /dev/md0 /mnt/x
    losetup /dev/loop0 /dev/vdb""",
    f"umount /mnt/x; losetup -d /dev/loop0; mdadm --stop /dev/md0 /dev/md1 2>&1; {WIPE}",
    ["/dev/vda", "/dev/vdb"],
    [Target("the mounted array", "/dev/md0", "md0 is mounted on /mnt/x"),
     Target("a member", "/dev/vda", "vda is held by md0, and md0 is mounted on /mnt/x"),
     Target("a loop device over a member", "/dev/loop0", "loop0 stands on vdb, and vdb is held by md0"),
     Target("the member of an idle array", "/dev/vdc", "vdc is held by md1"),
     Target("an idle array beside it", "/dev/md1"),
     Target("an idle disk", "/dev/vdd")])

VOLUMES = Layer(
    "LVM",
    f"""set -e
    lvm pvcreate {LVM} -q -ff -y /dev/vda 2>&1; lvm vgcreate {LVM} -q g /dev/vda 2>&1
    for v in a b; do lvm lvcreate {LVM} -q -y -an -Zn -Wn -n $v -L 32M g 2>&1; done
    lvm lvextend {LVM} -q -L 48M g/a 2>&1
    lvm vgchange {LVM} -q -ay g 2>&1; lvm vgmknodes {LVM} 2>&1
    {EXT4} /dev/mapper/g-a; {MOUNT} /dev/mapper/g-a /mnt/x
    losetup /dev/loop0 /dev/vda
    echo "0 2048 linear /dev/vda 4096" | dmsetup create --noudevsync over 2>&1
    dmsetup mknodes 2>&1""",
    f"""umount /mnt/x; losetup -d /dev/loop0; dmsetup remove --noudevsync over
    lvm vgchange {LVM} -q -an g 2>&1; {WIPE}""",
    ["/dev/vda"],
    [Target("the mounted volume", "/dev/mapper/g-a", "is mounted on /mnt/x"),
     Target("the physical volume", "/dev/vda", "is mounted on /mnt/x"),
     Target("a loop device over it", "/dev/loop0", "loop0 stands on vda, and vda is held by dm-"),
     Target("another mapping of the same sectors", "/dev/mapper/over", "is mounted on /mnt/x"),
     Target("the volume beside it, between its pieces", "/dev/mapper/g-b")])

LUKS = Layer(
    "LUKS",
    f"""set -e
    printf secret > /run/key
    cryptsetup luksFormat -q --type luks2 --pbkdf pbkdf2 --pbkdf-force-iterations 1000 --key-file /run/key /dev/vda
    DM_DISABLE_UDEV=1 cryptsetup open --key-file /run/key /dev/vda secret
    {EXT4} /dev/mapper/secret; {MOUNT} /dev/mapper/secret /mnt/x""",
    f"umount /mnt/x; DM_DISABLE_UDEV=1 cryptsetup close secret; {WIPE}",
    ["/dev/vda"],
    [Target("the disk below", "/dev/vda", "vda is held by dm-"),
     Target("the mounted container", "/dev/mapper/secret", "is mounted on /mnt/x"),
     Target("an idle disk", "/dev/vdb")])

PATHS = Layer(
    "multipath",
    f"""set -e
    size=$(blockdev --getsz /dev/vda)
    echo "0 $size multipath 0 0 1 1 round-robin 0 1 1 /dev/vda 1000" | dmsetup create --noudevsync paths 2>&1
    dmsetup mknodes 2>&1
    {EXT4} /dev/mapper/paths; {MOUNT} /dev/mapper/paths /mnt/x""",
    f"umount /mnt/x; dmsetup remove --noudevsync paths; {WIPE}",
    ["/dev/vda"],
    [Target("a path", "/dev/vda", "vda is held by dm-"),
     Target("the mounted device of all paths", "/dev/mapper/paths", "is mounted on /mnt/x")])

THIN = Layer(
    "thin pool",
    f"""set -e
    echo "0 8192 linear /dev/vda 0" | dmsetup create --noudevsync meta 2>&1
    echo "0 {SECTORS} linear /dev/vda 8192" | dmsetup create --noudevsync data 2>&1
    dmsetup mknodes 2>&1
    dd if=/dev/zero of=/dev/mapper/meta bs=4096 count=1 2>/dev/null
    echo "0 {SECTORS} thin-pool /dev/mapper/meta /dev/mapper/data 128 0" | dmsetup create --noudevsync pool 2>&1
    dmsetup mknodes 2>&1
    for n in 0 1; do
        dmsetup message /dev/mapper/pool 0 "create_thin $n" 2>&1
        echo "0 32768 thin /dev/mapper/pool $n" | dmsetup create --noudevsync thin$n 2>&1
    done
    dmsetup mknodes 2>&1
    {EXT4} /dev/mapper/thin0; sync; {MOUNT} /dev/mapper/thin0 /mnt/x""",
    f"umount /mnt/x; for d in thin0 thin1 pool data meta; do dmsetup remove --noudevsync $d; done; {WIPE}",
    ["/dev/mapper/thin0"],
    [Target("the disk below the pool", "/dev/vda", "is mounted on /mnt/x"),
     Target("the pool's data", "/dev/mapper/data", "is mounted on /mnt/x"),
     Target("the pool", "/dev/mapper/pool", "is mounted on /mnt/x"),
     Target("the mounted volume", "/dev/mapper/thin0", "is mounted on /mnt/x"),
     Target("the volume beside it", "/dev/mapper/thin1")])

SNAPSHOT = Layer(
    "snapshot",
    f"""set -e
    echo "0 {SECTORS} linear /dev/vda 0" | dmsetup create --noudevsync real 2>&1
    echo "0 32768 linear /dev/vda {SECTORS}" | dmsetup create --noudevsync cow 2>&1
    dmsetup mknodes 2>&1
    {EXT4} /dev/mapper/real
    echo "0 {SECTORS} snapshot-origin /dev/mapper/real" | dmsetup create --noudevsync origin 2>&1
    echo "0 {SECTORS} snapshot /dev/mapper/real /dev/mapper/cow N 16" | dmsetup create --noudevsync snap 2>&1
    dmsetup mknodes 2>&1
    {MOUNT} /dev/mapper/origin /mnt/x""",
    f"umount /mnt/x; for d in snap origin cow real; do dmsetup remove --noudevsync $d; done; {WIPE}",
    ["/dev/mapper/origin"],
    [Target("the origin's own sectors", "/dev/mapper/real", "is mounted on /mnt/x"),
     Target("the snapshot's room", "/dev/mapper/cow", "is held by dm-"),
     Target("the disk below", "/dev/vda", "is mounted on /mnt/x"),
     Target("the snapshot, which has its own room", "/dev/mapper/snap")])

NBD = Layer(
    "NBD",
    f"""set -e
    diskwright disk /served.toml --socket /run/s > /run/served 2>&1 &
    i=0; while [ ! -S /run/s ] && [ $i -lt 100 ]; do sleep 0.2; i=$((i + 1)); done
    diskwright disk attach --by nbd --socket /run/s > /run/device 2> /run/attached || {{ cat /run/attached; exit 1; }}
    ln -sf $(cat /run/device) /dev/served
    {EXT4} /dev/served; {MOUNT} /dev/served /mnt/x; losetup /dev/loop0 /dev/served""",
    "umount /mnt/x; losetup -d /dev/loop0; diskwright disk detach $(cat /run/device) 2>&1; killall diskwright",
    ["/dev/served"],
    [Target("the mounted device", "/dev/served", "is mounted on /mnt/x"),
     Target("a loop device over it", "/dev/loop0", "loop0 stands on nbd")])

BTRFS = Layer(
    "btrfs, swap",
    f"""set -e
    mkfs.btrfs -q -f -d raid1 -m raid1 /dev/vda /dev/vdb
    mkdir -p /mnt/x; mount -t btrfs -o ro /dev/vda /mnt/x
    mkswap /dev/vdc > /dev/null; swapon /dev/vdc; mknod /node b $(cat /sys/block/vdb/dev | tr : ' ')
    losetup /dev/loop0 /dev/vdb""",
    f"umount /mnt/x; swapoff /dev/vdc; losetup -d /dev/loop0; rm /node; {WIPE}",
    ["/dev/vda", "/dev/vdb"],
    [Target("the first member", "/dev/vda", "vda is mounted on /mnt/x"),
     Target("the second member", "/dev/vdb", "vdb is a member of the btrfs"),
     Target("the second member by a node elsewhere", "/node", "vdb is a member of the btrfs"),
     Target("a loop device over it", "/dev/loop0", "loop0 stands on vdb, and vdb is a member of the btrfs"),
     Target("swap", "/dev/vdc", "vdc is swap"),
     Target("an idle disk", "/dev/vdd")])

LAYERS = [MD, VOLUMES, LUKS, PATHS, THIN, SNAPSHOT, NBD, BTRFS]

"""The arrays that are measured, and the mixes of reads and writes."""

from dataclasses import dataclass, field

MIXES = [100, 90, 75, 67, 50, 25, 0]
# Requests that are outstanding at all times: enough to keep every member busy.
OUTSTANDING = 32
CHUNK_KB = 64


@dataclass
class Level:
    """One array: what makes it, and the description that predicts it."""

    name: str
    members: int
    # What mdadm or mkfs.btrfs calls it.
    level: str
    # The description in systems/, and values of it that are another here.
    system: str
    settings: list = field(default_factory=list)
    by: str = "md"
    # What the kernel believes of the members: md reads mirrors by it.
    rotational: bool = True
    about: str = ""


LEVELS = [
    Level("raid0", 4, "0", "raid0"),
    Level("raid1", 2, "1", "raid1", about="mirror of rotating members: an idle one, else the nearest"),
    Level("raid1-flash", 2, "1", "raid1", ["md.read_from=least-busy"], rotational=False,
          about="mirror of members without arms: the one with the least to do"),
    Level("raid10", 4, "10", "raid10"),
    Level("raid10-flash", 4, "10", "raid10", ["md.read_from=least-busy"], rotational=False),
    Level("raid5-3", 3, "5", "raid5", ["disk.count=3"], about="small writes reconstruct: 3 I/Os"),
    Level("raid5-4", 4, "5", "raid5", ["disk.count=4"], about="reconstruct and modify cost the same"),
    Level("raid5-5", 5, "5", "raid5", ["disk.count=5"], about="small writes modify: 4 I/Os"),
    Level("raid6", 6, "6", "raid6"),
    Level("btrfs-raid0", 4, "raid0", "raid0", by="btrfs"),
    Level("btrfs-raid1", 2, "raid1", "raid1", ["md.read_from=process"], by="btrfs"),
    Level("btrfs-raid10", 4, "raid10", "raid10", ["md.read_from=process"], by="btrfs"),
]
TINY = (["raid5-5"], [100, 50])


def named(name):
    return next(level for level in LEVELS if level.name == name)

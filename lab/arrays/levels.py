"""The arrays that are measured, the loads on them, and what state they are in."""

from dataclasses import dataclass, field, replace

MIXES = [100, 90, 75, 67, 50, 25, 0]
# Requests that are outstanding at all times: enough to keep every member busy.
OUTSTANDING = 32
CHUNK_KB = 64
# How md rebuilds beside other I/O (drivers/md/md.c, md_do_sync): by 128 KB, its window. As long as it is slower than
# speed_limit_min (1,000 KB/s of each member) it does not wait for other I/O.
REBUILD = '{ step = "128KB", depth = 4, rate = "1MB/s" }'


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
    # Positions of members that are missing, and whether the last one measured, a fresh
    # drive, is being rebuilt in the place of the first.
    failed: tuple = ()
    rebuilding: bool = False
    about: str = ""

    @property
    def drives(self):
        """How many drives it takes, the fresh one included."""
        return self.members + self.rebuilding

    def described(self):
        """The description's values that say all this."""
        values = list(self.settings)
        if self.failed:
            values.append(f"md.failed={list(self.failed)}")
        if self.rebuilding:
            count = f"disk.count={self.drives}"
            values = [value for value in values if not value.startswith("disk.count=")]
            values += [count, f'md.spares=["disk{self.members}"]', f"md.rebuild={REBUILD}"]
        return values

    def without(self, *failed):
        return replace(self, name=f"{self.name} -{len(failed)}", failed=failed)

    def in_rebuild(self):
        return replace(self, name=f"{self.name} rebuilds", failed=(1,), rebuilding=True)


@dataclass
class Load:
    """What fio asks for, and the same in words of a description."""

    reads: int
    # Sizes in KB with their shares, percent.
    sizes: tuple = ((4, 100),)
    sequential: bool = False
    # Of sequential requests: one stream of all, or (0) one for each that is outstanding.
    streams: int = 1
    outstanding: int = OUTSTANDING

    @property
    def name(self):
        sizes = "+".join(f"{kb}K" for kb, _ in self.sizes)
        mix = {100: "read", 0: "write"}.get(self.reads, f"{self.reads} %")
        return f"{mix} {sizes}{' in sequence' if self.sequential else ''}"

    @property
    def mean_bytes(self):
        return sum(kb * 1024 * share for kb, share in self.sizes) / 100

    def fio(self):
        rw = {100: "read", 0: "write"}.get(self.reads, "rw") if self.sequential else "randrw"
        words = {"rw": rw, "rwmixread": self.reads}
        if len(self.sizes) == 1:
            return words | {"bs": f"{self.sizes[0][0]}k"}
        split = ":".join(f"{kb}k/{share}" for kb, share in self.sizes)
        return words | {"bssplit": split, "blockalign": f"{self.sizes[0][0]}k"}

    def described(self):
        sizes = ", ".join(f'["{kb}KB", {share / 100}]' for kb, share in self.sizes)
        values = [f"fio.read_share={self.reads}%", f"fio.users={self.outstanding}", f"fio.size=[{sizes}]"]
        if self.sequential:
            return values + ["fio.access=sequential", f"fio.streams={self.streams}"]
        return values + [f"fio.align={self.sizes[0][0]}KB"]


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


def level_by_name(name):
    return next(level for level in LEVELS if level.name == name)


def row_kb(level):
    """A whole row of the array: what its members hold beside parity and copies, a chunk each."""
    data = {"raid0": 1, "raid1": 0, "raid10": 0.5, "raid5": (level.members - 1) / level.members,
            "raid6": (level.members - 2) / level.members}[level.system]
    return round(max(1, level.members * data) * CHUNK_KB)


def random_cells(level, mixes):
    return [(level, Load(reads)) for reads in mixes]


def degraded_cells(level, mixes):
    """With a member missing; RAID 6 also with two."""
    if level.system == "raid0":
        return []
    states = [level.without(1)] + ([level.without(1, 3)] if level.system == "raid6" else [])
    return [(state, Load(reads)) for state in states for reads in mixes]


def rebuilding_cells(level, mixes):
    if level.system == "raid0" or level.by != "md":
        return []
    return [(level.in_rebuild(), Load(reads)) for reads in mixes]


def size_cells(level, mixes):
    return [(level, Load(reads, ((4, 50), (64, 50)))) for reads in mixes]


def sequence_cells(level, _mixes):
    """In chunks and in whole rows: one stream, of btrfs one for each file."""
    sizes = dict.fromkeys([CHUNK_KB, row_kb(level)])
    return [(level, Load(reads, ((kb, 100),), sequential=True, streams=int(level.by == "md"), outstanding=8))
            for kb in sizes for reads in (100, 0)]


# Name: what makes the cells of a level, the mixes unless others are told, the kind of members.
SETS = {
    "random": (random_cells, MIXES, "capped"),
    "degraded": (degraded_cells, [100, 67, 50, 0], "capped"),
    # capped members take requests of any size as one, and would be rebuilt before anything is measured
    "rebuilding": (rebuilding_cells, [100, 50, 0], "metered"),
    "sizes": (size_cells, [100, 50, 0], "metered"),
    "sequence": (sequence_cells, [100], "metered"),
}

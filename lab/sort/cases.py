"""The cases: where source, runs and result lie, how much memory, which buffers."""

from dataclasses import dataclass, field

ROW, KEY = 100, 10
KIB, MIB = 1 << 10, 1 << 20
ROWS = 48_000
# The described disks run at a twentieth of their speed, and all times are in theirs: what this machine takes on the
# way to them counts for a twentieth, and a late request does not miss a rotation.
SPEED = 0.05


@dataclass(frozen=True)
class Case:
    """A sort on some described disks, which are named by letters."""

    name: str
    about: str
    # where each lies: names of exports
    source: str = "a"
    work: str = "a"
    target: str = "a"
    memory: int = MIB
    request: int = 64 * KIB
    merge_request: int = 64 * KIB
    # exports that are RAID 0 of so many drives; the others are single drives
    arrays: dict = field(default_factory=dict)

    def exports(self):
        return sorted({self.source, self.work, self.target})


@dataclass(frozen=True)
class Gain:
    """A published gain: 1 - fast / slow."""

    row: str
    about: str
    slow: str
    fast: str
    published: str


CASES = [
    Case("one", "all on one disk"),
    Case("runs-apart", "runs on a second disk", work="b"),
    Case("three", "runs on a second disk, the result on a third", work="b", target="c"),
    Case("raid0", "all on RAID 0 of two disks", arrays={"a": 2}),
    Case("two-sets", "RAID 0 of two, and another for runs", work="b", arrays={"a": 2, "b": 2}),
    Case("buffers", "all on one disk, merges read 256 KiB at a time", merge_request=256 * KIB, memory=4 * MIB),
    Case("two-passes", "all on one disk, memory for merges of eight", memory=644 * KIB),
    Case("in-memory", "all in memory", memory=32 * MIB),
]

GAINS = [
    Gain("M30", "runs on a second disk", "one", "runs-apart", "31.1 %, 34.1 %, 41.4 %, 11.1 %"),
    Gain("M28", "two disks as RAID 0", "one", "raid0", "23.0 %, 28.7 %, 19.2 %, 36.0 %"),
    Gain("M31", "two sets, runs on their own", "one", "two-sets", "33.1 % (derived)"),
    Gain("M32", "all in memory", "one", "in-memory", "54.1 % (derived)"),
]

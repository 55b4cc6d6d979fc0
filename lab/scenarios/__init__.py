"""The scenarios, in the order in which they run: the file names of this folder.

A scenario is a module with
    TRUTH   what really holds the machine back, in the words of a verdict
    MAKES   one line for people: what it makes
    NEEDS   the programs it starts (packages.py knows their packages)
    start(machine)  builds it and starts the load; returns the device that is
            the truth's instance, or None where there is no single one
and, where the truth is not all,
    OUTSIDE  the verdict that the kernel's counters allow, where that is another
    INSIDE   the verdict that the served system's own record must give, where
             that is another, or None where the cause lies outside of it
    INSIDE_INSTANCE   the part that it must name
    INSTANCE_MATTERS = True  where a verdict outside without the right instance
            is a wrong one
    QUIET = True  where it is untrue while others use the processors, as every "none" is
    RULE    a rule that must be among the findings
    RULE_TRACED   a rule that must be among the findings where single requests are traced
    WAITS   the kind of wait that a program must be told with, where the truth is none
"""

import importlib
import itertools
import os

NAMES = [
    "idle",
    "busy-healthy",
    "cpu-bound",
    "one-thread",
    "lock-contention",
    "network-wait",
    "sleepers",
    "hanging-unused",
    "interrupts",
    "random-read-slow",
    "random-read-delay",
    "mapped-reads",
    "stalling-disk",
    "backup-elsewhere",
    "latency-bound",
    "sequential-capped",
    "dirty-throttle",
    "fsync-commits",
    "btrfs-raid0",
    "btrfs-raid0-slow-member",
    "btrfs-scrub",
    "raid5-of-three",
    "rebuild-under-users",
    "slow-member",
    "channel-full",
    "controller-cache",
    "ssd-collecting",
    "cgroup-throttle",
    "volume-cap",
    "burst-credits",
    "small-records",
    "small-records-memory",
    "ceiling-unknown",
    "ceiling-far",
    "ceiling-full",
    "ceiling-reached",
    "ceiling-capped",
    "memory-paging",
    "memory-cgroup",
    "memory-and-disk",
    "old-swap-and-disk",
    "stalls-of-two-seconds",
    "one-in-two-hundred",
    "flush-train",
    "slow-member-tail",
    "deep-scheduler-queue",
    "two-speeds",
]

# Quick ones, of three kinds, that need little of the machine: for the test suite.
TINY = ["cpu-bound", "random-read-slow", "cgroup-throttle"]

# Troubles of different parts of the machine, of which any two can be made at once.
PAIRED = ["cpu-bound", "one-thread", "memory-cgroup", "random-read-slow", "fsync-commits", "cgroup-throttle",
          "stalls-of-two-seconds"]


class Pair:
    """Two scenarios at once: both truths must be listed."""

    QUIET = False
    INSIDE = None

    def __init__(self, names):
        self.parts = [load(name) for name in names]
        self.truths = [outside(part) for part in self.parts]
        self.TRUTH = "+".join(self.truths)
        self.MAKES = "; ".join(part.MAKES for part in self.parts)
        self.NEEDS = sorted({need for part in self.parts for need in part.NEEDS})

    def start(self, machine):
        for part in self.parts:
            part.start(machine)


def pair_names():
    """All pairs but those of two loads of the processors."""
    every = itertools.combinations(PAIRED, 2)
    return ["+".join(pair) for pair in every if {load(name).TRUTH for name in pair} != {"cpu"}]


def load(name):
    if "+" in name:
        return Pair(name.split("+"))
    return importlib.import_module("scenarios." + name.replace("-", "_"))


def outside(scenario):
    """The verdict that the kernel's counters allow."""
    return getattr(scenario, "OUTSIDE", scenario.TRUTH)


def takes_quiet(scenario):
    """Whether others' work makes the truth untrue."""
    return outside(scenario) == "none" or getattr(scenario, "QUIET", False)


def inside(scenario):
    """The verdict that a served system's own record must give; None where nothing is asked of it."""
    return getattr(scenario, "INSIDE", scenario.TRUTH)


def on_disk():
    """The names of the files here; a test holds them against NAMES."""
    folder = os.path.dirname(os.path.abspath(__file__))
    return sorted(file[:-3].replace("_", "-") for file in os.listdir(folder)
                  if file.endswith(".py") and file != "__init__.py")

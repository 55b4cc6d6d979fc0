"""The scenarios, in the order in which they run: the file names of this folder.

A scenario is a module with
    TRUTH   what really holds the machine back, in the words of a verdict
    MAKES   one line for people: what it makes
    NEEDS   the programs it starts (packages.py knows their packages)
    start(machine)  builds it and starts the load; returns the device that is
            the truth's instance, or None where there is no single one
and, where a verdict without the right instance is a wrong one,
    INSTANCE_MATTERS = True
"""

import importlib
import os

NAMES = [
    "idle",
    "busy-healthy",
    "cpu-bound",
    "interrupts",
    "random-read-slow",
    "random-read-delay",
    "latency-bound",
    "sequential-capped",
    "dirty-throttle",
    "fsync-commits",
    "btrfs-raid0",
    "btrfs-raid0-slow-member",
    "cgroup-throttle",
    "volume-cap",
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
]

# Quick ones, of three kinds, that need little of the machine: for the test suite.
TINY = ["cpu-bound", "random-read-slow", "cgroup-throttle"]


def load(name):
    return importlib.import_module("scenarios." + name.replace("-", "_"))


def on_disk():
    """The names of the files here; a test holds them against NAMES."""
    folder = os.path.dirname(os.path.abspath(__file__))
    return sorted(file[:-3].replace("_", "-") for file in os.listdir(folder)
                  if file.endswith(".py") and file != "__init__.py")

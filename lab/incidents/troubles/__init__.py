"""The incidents, in the order in which they run: the file names of this folder.

An incident is a module with
    MAKES   one line for people: what it makes
    NEEDS   the programs that it starts (packages.py knows their packages)
    prepare(ground)  prepares disks, servers and those who will suffer, and returns a function that starts the trouble
            and returns the truth (judging.py)
and, where it is needed,
    BEGINS_LATER    it begins by itself, at the time that the truth tells, and not when the function is called
    LIVE_EARLIER_S  so many seconds before the trouble the person asks; otherwise some seconds after it began
"""

import importlib
import os

NAMES = [
    "postgres-on-slow-disk",
    "memory-thrash",
    "runaway-process",
    "thrash-beside-full-disk",
    "backup-slows-database",
    "oom-kill",
    "backup-in-container",
    "machine-that-reads",
    "lock-in-database",
    "checkpoint-storm",
    "processors-and-disk",
    "job-of-cron",
]


def load(name):
    return importlib.import_module("incidents.troubles." + name.replace("-", "_"))


def on_disk():
    """The names of the files here; a test holds them against NAMES."""
    folder = os.path.dirname(os.path.abspath(__file__))
    return sorted(file[:-3].replace("_", "-") for file in os.listdir(folder)
                  if file.endswith(".py") and file not in ("__init__.py", "parts.py"))

"""Paging and a full disk at once: memory comes first in the order of suspicion."""

from scenarios import memory_paging, random_read_slow

TRUTH = "memory"
INSIDE = None
MAKES = "what memory-paging and random-read-slow make, at the same time"
NEEDS = sorted({*memory_paging.NEEDS, *random_read_slow.NEEDS})


def start(machine):
    random_read_slow.start(machine)
    memory_paging.start(machine)

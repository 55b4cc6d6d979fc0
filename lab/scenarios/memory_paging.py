"""A program needs twice the memory it may have; the rest lies on a slow swap device."""

TRUTH = "memory"
INSIDE = None
MAKES = "256 MiB touched at random inside a 128 MiB cgroup, swap at 4 ms a request"
NEEDS = ["mkswap", "losetup"]


def start(machine):
    group = machine.cgroup("memory", limit_in_bytes=128 << 20)
    machine.swap_on(machine.disk("many-at-once", {
        "disk.plain.servers": 4, "disk.plain.service": "{ uniform_us = [3200, 4800] }"}))
    for seed in (1, 2):
        machine.own("touch-memory", "--mib", 128, "--seed", seed, cgroups=[group])

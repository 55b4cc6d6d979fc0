"""A program needs twice the memory it may have; the rest lies on a slow swap device."""

TRUTH = "memory"
MAKES = "256 MiB touched at random inside a 128 MiB cgroup, swap at 4 ms a request"
NEEDS = ["nbdfuse", "mkswap", "losetup"]


def start(machine):
    group = machine.cgroup("memory", limit_in_bytes=128 << 20)
    machine.swap_on(machine.slow_disk(512, service_ms=4, jitter=0.2, parallel=4))
    for seed in (1, 2):
        machine.own("touch-memory", "--mib", 128, "--seed", seed, cgroups=[group])

"""Paging and a full disk at once: memory comes first in the order of suspicion."""

TRUTH = "memory"
MAKES = "the paging of memory-paging beside the eight readers of random-read-slow"
NEEDS = ["fio", "nbdfuse", "mkswap", "losetup"]


def start(machine):
    group = machine.cgroup("memory", limit_in_bytes=128 << 20)
    machine.swap_on(machine.slow_disk(512, service_ms=4, jitter=0.2, parallel=4))
    disk = machine.slow_disk(service_ms=8, jitter=0.4, parallel=1)
    machine.fio(disk, rw="randread", bs="4k", numjobs=8)
    for seed in (1, 2):
        machine.own("touch-memory", "--mib", 128, "--seed", seed, cgroups=[group])

"""A service outgrows the memory of its group; the kernel kills it, its supervisor starts it again."""

import os
import re
import sys
import time

from incidents.judging import Culprit, Truth
from machine import HERE, read_text

MAKES = "a worker that grows to 115 MiB in a cgroup of 96 MiB without swap, started again whenever it was killed"
NEEDS = []
KILL_PATIENCE_S = 30
# Only the worker enters the group, and it is the first to be killed: the supervisor and what it starts live on.
ENTER = 'echo $$ > "$0"/cgroup.procs && echo 1000 > /proc/$$/oom_score_adj && exec "$@"'
SUPERVISOR = 'while :; do sh -c "$0" "$@"; sleep 1; done'


def prepare(ground):
    group = ground.cgroup("memory", limit_in_bytes=96 << 20)

    def begin():
        worker = [sys.executable, os.path.join(HERE, "loads.py"), "grow", "--seconds", str(ground.seconds)]
        ground.load(["sh", "-c", SUPERVISOR, ENTER, group, *worker, "--mib", "115"])
        since = wait_for_kill(group)
        name = re.escape(os.path.basename(group))
        killed = [r"\bOOM|out of memory|memory ran out", rf"(kill|OOM).{{0,160}}{name}|{name}.{{0,160}}(kill|OOM)"]
        return Truth(resources=[("memory", os.path.basename(group))], culprits=[Culprit(["python3"])], events=killed,
                     since=since)

    return begin


def wait_for_kill(group):
    """When the first process of a group was killed, seconds since 1970."""
    end = time.monotonic() + KILL_PATIENCE_S
    while time.monotonic() < end:
        if re.search(r"oom_kill [1-9]", read_text(os.path.join(group, "memory.oom_control"))):
            return time.time()
        time.sleep(0.1)
    return time.time()

"""Whether this machine kept time while something was measured on it.

An emulated machine, and a disk that is a program, are as slow as one says only
while they may run when they want to. So a clock runs beside them, at their
priority, and what it was woken late is told with each figure.
"""

import contextlib
import os
import threading
import time

STEP = 0.02
# Others' slices of a busy processor make one wake late by so much; members that
# keep to a schedule, and 32 requests that wait for them, bridge that.
USUAL = 0.03
# A share of the time above which a measurement is done again, how far its windows
# may lie from each other before it is, and how often.
LATE = 0.05
SPREAD = 0.15
TRIES = 4


class Clock:
    """Adds up how late it is woken."""

    def __init__(self):
        self.late = 0.0
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        while True:
            due = time.monotonic() + STEP
            time.sleep(STEP)
            self.late += max(0.0, time.monotonic() - due - USUAL)

    def steady(self, measure):
        """Measures until it was not disturbed, so often at most; the steadiest counts.
        Only other work of the machine and the scatter within a measurement say so,
        never what the figure is."""
        best, min_disturbed = None, None
        for tried in range(1, TRIES + 1):
            start, late = time.monotonic(), self.late
            got = measure()
            share = (self.late - late) / (time.monotonic() - start)
            spread = (max(got["windows"]) - min(got["windows"])) / max(got["iops"], 1e-9)
            disturbed = max(share / LATE, spread / SPREAD)
            if best is None or disturbed < min_disturbed:
                best, min_disturbed = got | {"late_share": share, "spread": spread}, disturbed
            if disturbed <= 1:
                break
        return best | {"tries": tried, "disturbed": min_disturbed > 1}


def raise_priority():
    """Puts this process, and all that it starts, before others, where it may."""
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(50))

"""Whether this machine was left alone while something was measured on it."""

import contextlib
import os

# What compiles and links: the usual company on a machine of developers.
COMPILERS = {"rustc", "cargo", "cc1", "cc1plus", "clang", "ld", "lld", "ld.lld", "mold", "collect2"}
# The share of the time that the clock was late from which a measurement was disturbed.
MAX_LATE = 0.01


def compilers(root="/proc"):
    """How many compilers and linkers run now."""
    count = 0
    for name in os.listdir(root):
        with contextlib.suppress(OSError):
            if name.isdigit():
                with open(os.path.join(root, name, "comm"), encoding="utf-8", errors="replace") as file:
                    count += file.read().strip() in COMPILERS
    return count


def company():
    """The load of this machine by others, at one moment."""
    return {"load_average": round(os.getloadavg()[0], 2), "compilers": compilers()}


def is_quiet(part):
    """Whether a part was measured on a quiet machine: its own programs are some of the load, so the load alone
    does not say."""
    met = [part.get(key, {}).get("compilers", 0) for key in ("company_before", "company_after")]
    return sum(met) == 0 and part.get("late_share", 0) <= MAX_LATE

"""SQLite commits on a drive without its write cache, with it, and behind a battery."""

import sqlite
from figures import summary, format_rate, format_seconds
from played import inside_section, kernel_section, setup_section, verdict_section
from stage import Side

MAKES = "SQLite commits on a drive without its write cache, with it, and behind a cache with a battery"
NEEDS = sqlite.NEEDS
SIDES = [Side("no write cache", "drive", {"disk.write_cache": "false"}),
         Side("write cache", "drive", {"disk.write_cache": "true"}),
         Side("battery", "drive-behind-battery")]
SECONDS, TINY_SECONDS = 40, 6
ROTATION_S = 60 / 7200


class Demo(sqlite.Commits):
    def __init__(self, options):
        self.seconds = options.seconds or (TINY_SECONDS if options.tiny else SECONDS)
        self.settle = 2 if options.tiny else 5

    def page(self, binary, sides):
        names = [side.side.name for side in sides]
        summaries = self.summaries(sides)
        turns = ["the same in turns of the disk",
                 *(f"{one['mean_s'] / ROTATION_S:.1f}" if one["mean_s"] else "none" for one in summaries)]
        kernel = {"title": "What the kernel saw, outside", "words": [flushes(sides)], "tables": [kernel_section(sides)]}
        courses = [(side.side.name, side.events, side.window) for side in sides]
        application = sqlite.application(names, summaries, courses, [turns])
        return {"title": conclusion(sides, summaries), "lead": lead(sides, summaries), "names": names[:2],
                "sections": [application, inside_section(sides), kernel, verdict_section(sides),
                             setup_section(sides, [sqlite.facts(self.seconds, self.settle)])]}


def flushes(sides):
    """What the kernel did for a commit, as its counters tell."""
    counts = []
    for side in sides:
        flush = side.kernel("flushes")
        commits = summary(side.events, side.window)["per_s"]
        counts.append(f"{side.side.name}: " + (f"{flush / commits:.1f} flushes a commit" if flush and commits else
                                             "no flush was counted"))
    kinds = sorted({f"`{side.write_cache}`" for side in sides})
    return (f"The kernel takes the device's cache for {' or '.join(kinds)}, whatever is described below, and flushes "
            f"one that is `write back` for every commit: {'; '.join(counts)}. What a flush costs is what the "
            "description says.")


def conclusion(sides, summaries):
    """One sentence, from the numbers alone."""
    rates = [f"{format_rate(one['per_s'])} with {side.side.name}" for side, one in zip(sides, summaries)]
    plain, cached, battery = (one["per_s"] for one in summaries)
    if not plain or not cached or not battery:
        return f"Too few commits to compare: {', '.join(rates)}."
    gain = cached / plain
    own = ("brings nothing" if 0.9 < gain < 1.1 else f"brings {gain:.1f} times as many" if gain > 1 else
           f"leaves {gain:.1f} of them")
    return (f"Commits that are safe: {', '.join(rates)}. The drive's own cache {own}, because every commit flushes it; "
            f"one that survives a power failure brings {battery / plain:.0f} times as many.")


def lead(sides, summaries):
    return [f"{side.side.name.capitalize()}: a commit takes {format_seconds(one['mean_s'])}, 95 % within "
            f"{format_seconds(one['p95_s'])}; `why` says {side.why_inside['bottleneck']} inside and "
            f"{side.why_outside['bottleneck']} outside."
            for side, one in zip(sides, summaries)] + [
                "A drive that reports flushes which it has not done would look like the one with the battery, until "
                "the power fails."]

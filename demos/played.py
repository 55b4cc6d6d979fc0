"""Results of a side that was played: its logs, its verdicts, its application."""

import json
import os

from figures import (Log, bars, digits, first_finding, format_rate, format_seconds, format_share, format_utc, table,
                     verdict_text)
from others import BUSY_SHARE
from stage import run


MOST_TIMES, MOST_MORE_S = 2.5, 0.003  # what a request may take longer outside than inside


class Played:
    """A side, seen by its application, by the kernel and from inside."""

    def __init__(self, binary, stage, window, events):
        self.binary = binary
        self.side = stage.side
        self.device = os.path.basename(stage.device)
        self.attached_by = stage.attached_by
        self.limits = stage.limits
        self.write_cache = stage.cache_seen
        self.others = stage.others
        self.window = window
        self.events = events
        self.paths = (stage.outside, stage.inside)
        self.look(window)

    def look(self, window):
        """Reads the logs within a window of time and runs `why` on them."""
        outside, inside = self.paths
        self.outside, self.inside = Log(self.binary, outside, window), Log(self.binary, inside, window)
        self.why_outside, self.why_inside = run_why(self.binary, outside, window), run_why(self.binary, inside, window)

    def kernel(self, counter):
        return self.outside.mean(f"physical_disk.{counter}", self.device)

    def disturbed(self):
        """What says that this machine, and not the described disk, held the load back;
        None where nothing does. A request may wait above the disk, but not for ever."""
        served = self.inside.instances("array.members") or list(self.drives())
        inside = max((took for name in served if (took := self.inside.mean(
            "physical_disk.avg_s_per_transfer", name)) is not None), default=None)
        outside = self.kernel("avg_s_per_transfer")
        if inside is None or outside is None or outside <= MOST_TIMES * inside + MOST_MORE_S:
            return None
        return (f"{self.side.name}: a request took {format_seconds(outside)} as the kernel saw it and "
                f"{format_seconds(inside)} inside: "
                "this machine was too busy")

    def drives(self):
        """Busy share of each described drive. An array is seen beside its members; only those are drives."""
        arrays = self.inside.instances("array.members")
        names = [name for name in self.inside.instances("physical_disk.busy") if name not in arrays]
        return {name: self.inside.mean("physical_disk.busy", name) for name in names}

    def paths_above(self):
        """Busy share of each described channel and controller."""
        return {f"{sort} {name}": self.inside.mean(f"{sort}.busy", name)
                for sort in ("channel", "controller") for name in self.inside.instances(f"{sort}.busy")}

    def fullest_drive(self):
        known = [(share, name) for name, share in self.drives().items() if share is not None]
        return max(known, default=(None, "none"))


def run_why(binary, log, window):
    words = ["--from", format_utc(window[0]), "--to", format_utc(window[1]), "--json"]
    return json.loads(run([binary, "why", log, *words], 120))


def inside_section(sides, words=(), charts=()):
    """Section of the page on the utilization of each described part."""
    parts = {}
    for at, side in enumerate(sides):
        for name, share in (side.drives() | side.paths_above()).items():
            parts.setdefault(name, [None] * len(sides))[at] = share
    names = [side.side.name for side in sides]
    groups = [[name, shares] for name, shares in parts.items()]
    return {"title": "Utilization of each part, inside", "words": list(words), "charts": list(charts),
            "bars": [bars("Share of time busy", "fraction", names, groups, full=1.0)]}


def kernel_section(sides, more=()):
    """Section of the page on the device of each side as the kernel saw it."""
    rows = [["requests", *(format_rate(side.kernel("transfers_per_s")) for side in sides)],
            ["reads", *(format_rate(side.kernel("reads_per_s")) for side in sides)],
            ["writes", *(format_rate(side.kernel("writes_per_s")) for side in sides)],
            ["flushes", *(format_rate(side.kernel("flushes")) for side in sides)],
            ["time of a request", *(format_seconds(side.kernel("avg_s_per_transfer")) for side in sides)],
            ["requests under way", *(digits(side.kernel("avg_queue_length")) for side in sides)],
            ["busy", *(format_share(side.kernel("busy")) for side in sides)],
            ["write cache, as the kernel takes it", *(side.write_cache for side in sides)], *more]
    return table(["The block device", *(side.side.name for side in sides)], rows)


def verdict_section(sides):
    """Section of the page with the verdicts of `why` on both views."""
    sentences = []
    for side in sides:
        outside, inside = (f"{verdict_text(verdict)}. {first_finding(verdict)}."
                           for verdict in (side.why_outside, side.why_inside))
        named = side.why_outside.get("instance")
        # what else goes on on this machine is part of what the kernel counts
        other = "" if not named or side.device in named else f" That is not this load's device, {side.device}."
        sentences += [f"{side.side.name.capitalize()}, from outside: {outside}{other}",
                 f"{side.side.name.capitalize()}, from inside: {inside}"]
    words = ("From outside are the kernel's counters of the one block device, as an administrator has them; from "
             "inside are those of the described parts, which only the simulation knows.")
    return {"title": "The verdicts of why", "words": [*sentences, words]}


def setup_section(sides, facts):
    """Section of the page on the set-up, for readers who want to repeat it."""
    rows = [[side.side.name, side.side.command()] for side in sides]
    limits = "; ".join(sides[0].limits)
    words = [f"Made a block device by `disk attach` ({sides[0].attached_by}){': ' + limits if limits else ''}.",
             "All data lie in memory: what takes time is the description, and nothing is written to a disk of this "
             "machine."]
    max_share = max((side.others for side in sides if side.others is not None), default=0)
    if max_share > BUSY_SHARE:
        words.append(f"Others used up to {format_share(max_share)} of this machine's processors meanwhile: the "
                     "requests and the application waited for those too, and a quiet machine shows other figures.")
    return {"title": "How it was made", "words": [*facts, *words], "tables": [table(["Side", "Served by"], rows)]}

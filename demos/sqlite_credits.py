"""SQLite commits on a cloud volume before and after its burst credits end."""

import copy
import os

import sqlite
from figures import Log, chart, latency_curve, rate_curve, format_rate, format_seconds, format_utc
from machine import LabError
from played import inside_section, kernel_section, setup_section, verdict_section
from stage import Side, Stage

MAKES = "SQLite commits on a cloud volume before and after its burst credits end"
NEEDS = sqlite.NEEDS
SIDES = [Side("volume", "volume")]
BEFORE, AFTER = "credits left", "credits ended"
SECONDS, TINY_SECONDS = 75, 18
BASELINE = 100  # operations a second, as in systems/volume.toml
PLENTY = 5_400_000  # credits of a full bucket
TRIAL = 4  # seconds in which the pace of commits is found
CLEARLY = 1.3  # times the baseline: credits are being used


class Demo(sqlite.Commits):
    def __init__(self, options):
        self.seconds = options.seconds or (TINY_SECONDS if options.tiny else SECONDS)
        self.settle = 1 if options.tiny else 3
        self.credits = options.credits

    def prepare(self, keep, machine):
        """Credits for a third of what is watched, at the pace at which commits use them."""
        settings = SIDES[0].settings
        if not self.credits:
            settings["volume.volume.iops_credits"] = PLENTY
            stage = Stage(machine, SIDES[0], os.path.join(keep.folder, "trial"))
            _, uri = stage.serve()
            stage.attach(uri)
            load, _ = sqlite.start_commits(machine, stage.format(sqlite.SIZE_MIB), TRIAL + 4)
            window = stage.watch(load, 2, TRIAL)
            seen = Log(machine.binary, stage.outside, window)
            rate = seen.mean("physical_disk.transfers_per_s", os.path.basename(stage.device)) or 0
            if rate < 1.5 * CLEARLY * BASELINE:
                raise LabError(f"commits come to {rate:.0f} requests a second here, too few to use up credits beyond "
                               f"{BASELINE}; this machine is too busy")
            self.credits = round((rate - BASELINE) * (self.settle + 1 + self.seconds / 3))
        settings["volume.volume.iops_credits"] = self.credits

    def seen(self, sides):
        """The one run as two: until the credits ended and from then on."""
        self.whole = sides[0]
        self.end = end_of_credits(self.whole)
        windows = ((self.whole.window[0], self.end), (self.end, self.whole.window[1]))
        parts = []
        for name, window in zip((BEFORE, AFTER), windows):
            part = copy.copy(self.whole)
            part.side, part.window = Side(name, self.whole.side.system, self.whole.side.settings), window
            part.look(window)
            parts.append(part)
        return parts

    def compared(self, sides):
        """The kernel's view, cut in two."""
        return [self.whole.paths[0], "--at", format_utc(self.end)]

    def page(self, binary, sides):
        summaries = self.summaries(sides)
        names = [side.side.name for side in sides]
        since = self.whole.window[0]
        application = sqlite.application(names, summaries, [])
        application["charts"] = [
            chart("Commits a second", "per_s", "commits a second",
                  split_curve(rate_curve(self.whole.events, self.whole.window), self.end - since)),
            chart("95 % of the commits of each second took at most", "s", "time of a commit",
                  split_curve(latency_curve(self.whole.events, self.whole.window), self.end - since), log=True)]
        application["words"] = [f"The credits ended {self.end - since:.0f} s into what was watched, as the described "
                                "volume itself recorded."]
        course = self.whole.inside.course("physical_disk.transfers_per_s", "volume", since)
        served = chart("Operations a second of the volume", "per_s", "operations a second",
                       split_curve(course, self.end - since))
        inside = inside_section(sides, charts=[served])
        kernel = {"title": "What the kernel saw, outside", "tables": [kernel_section(sides)]}
        return {"title": conclusion(summaries), "lead": [lead(side) for side in sides], "names": names,
                "sections": [application, inside, kernel, verdict_section(sides), setup_section(sides, [
                    sqlite.facts(self.seconds, self.settle), self.arithmetic(summaries)])]}

    def arithmetic(self, summaries):
        """The end that credits and rates alone would give."""
        served = self.whole.inside.course("physical_disk.transfers_per_s", "volume", self.whole.window[0])
        before = [rate for at, rate in served if at <= self.end - self.whole.window[0] - 1]
        if not before:
            return "Too few samples before the end to hold it against the arithmetic."
        rate = sum(before) / len(before)
        lasts = self.credits / (rate - BASELINE) if rate > BASELINE else None
        expected = f"{lasts:.0f} s of such use" if lasts else "for ever"
        return (f"{self.credits:,} credits less {rate:.0f} operations a second beyond the baseline of {BASELINE} last "
                f"{expected}, counted from the making of the filesystem on.")


def end_of_credits(side):
    """The moment from which on the volume served its baseline, by its own log."""
    course = side.inside.course("physical_disk.transfers_per_s", "volume", 0)
    above = [at for at, rate in course if rate > CLEARLY * BASELINE]
    if not above:
        raise LabError("the credits had ended before the watching began; --credits takes more of them")
    # the sample that tells of use beyond the baseline ends there
    end = above[-1]
    if end > side.window[1] - 2 or end < side.window[0] + 2:
        raise LabError("the credits did not end within what was watched; --credits takes fewer of them")
    after = [rate for at, rate in course if at > end]
    if sum(after) > CLEARLY * BASELINE * len(after):
        raise LabError("the volume was asked for little throughout, and its credits did not end")
    return end


def split_curve(points, end):
    """One curve as two, with the moment of the end between them."""
    return [(BEFORE, [point for point in points if point[0] <= end]),
            (AFTER, [point for point in points if point[0] > end])]


def conclusion(summaries):
    """One sentence, from the numbers alone."""
    before, after = summaries
    if not before["count"] or not after["count"]:
        return "Too few commits to compare."
    share = after["per_s"] / before["per_s"]
    return (f"When the credits ended, commits fell from {format_rate(before['per_s'])} to "
            f"{format_rate(after['per_s'])} ({share:.0%}), "
            f"and a commit took {format_seconds(after['mean_s'])} instead of "
            f"{format_seconds(before['mean_s'])}.")


def lead(side):
    return (f"{side.side.name.capitalize()}: `why` says {side.why_outside['bottleneck']} of what the kernel saw and "
            f"{side.why_inside['bottleneck']} of what the volume recorded.")

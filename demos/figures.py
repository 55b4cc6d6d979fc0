"""Numbers from logs and from applications, and the parts of a page made of them."""

import calendar
import csv
import io
import json
import math
import time

from stage import run


class Log:
    """A Diskwright log, read through `diskwright show`, within a window of time."""

    def __init__(self, binary, path, window):
        self.binary = binary
        self.path = path
        self.window = window
        words = [binary, "show", path, "--counter", "*", "--from", format_utc(window[0]), "--to", format_utc(window[1])]
        series = json.loads(run([*words, "--json"], 120))["series"]
        self.series = {(one["counter"], one["instance"]): one for one in series}
        rows = list(csv.reader(io.StringIO(run([*words, "--as", "csv"], 120))))
        self.titles, self.rows = (rows[0], rows[1:]) if rows else ([], [])

    def mean(self, counter, instance):
        """The mean over the stretch, weighted as its kind demands; None where nothing is known."""
        one = self.series.get((counter, instance))
        return one["mean"] if one else None

    def instances(self, counter):
        return [instance for name, instance in self.series if name == counter]

    def course(self, counter, instance, since):
        """Points of a curve: seconds after `since`, value."""
        title = f"{counter}[{instance}]"
        if title not in self.titles:
            return []
        at = self.titles.index(title)
        points = [(parse_time(row[0]) - since, row[at]) for row in self.rows]
        return [[round(x, 3), float(y)] for x, y in points if y]


def format_utc(seconds):
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{int(seconds % 1 * 1000):03}Z"


def parse_time(text):
    seconds, _, rest = text.rstrip("Z").partition(".")
    return calendar.timegm(time.strptime(seconds, "%Y-%m-%dT%H:%M:%S")) + (float("0." + rest) if rest else 0.0)


# --- an application's own numbers -------------------------------------------


def quantile(ordered, share):
    """The value that a share of them does not exceed; None of none."""
    return ordered[min(len(ordered) - 1, math.ceil(share * len(ordered)) - 1)] if ordered else None


def summary(events, window):
    """Rate and latency of what ended within the window: events are (when, seconds, ...)."""
    inside = [event for event in events if window[0] <= event[0] < window[1]]
    took = sorted(event[1] for event in inside)
    return {"count": len(took), "per_s": len(took) / (window[1] - window[0]),
            "mean_s": sum(took) / len(took) if took else None, "p50_s": quantile(took, 0.5),
            "p95_s": quantile(took, 0.95), "p99_s": quantile(took, 0.99), "max_s": took[-1] if took else None}


def rate_curve(events, window, step=1.0):
    """Points of a curve: what ended in each step, a second."""
    counts = [0] * max(1, int((window[1] - window[0]) / step))
    for event in events:
        at = math.floor((event[0] - window[0]) / step)
        if 0 <= at < len(counts):
            counts[at] += 1
    return [[round((at + 0.5) * step, 3), count / step] for at, count in enumerate(counts)]


def latency_curve(events, window, share=0.95, step=1.0):
    """Points of a curve: the latency that a share of each step's events did not exceed."""
    steps = [[] for _ in range(max(1, int((window[1] - window[0]) / step)))]
    for event in events:
        at = math.floor((event[0] - window[0]) / step)
        if 0 <= at < len(steps):
            steps[at].append(event[1])
    return [[round((at + 0.5) * step, 3), quantile(sorted(took), share)] for at, took in enumerate(steps) if took]


# --- words -------------------------------------------------------------------


def format_seconds(value):
    if value is None:
        return "not measured"
    if value < 1e-3:
        return f"{value * 1e6:.0f} us"
    return f"{digits(value * 1e3)} ms" if value < 1 else f"{digits(value)} s"


def digits(value):
    """Three significant digits, as people write them."""
    if value is None:
        return "not measured"
    if value == 0:
        return "0"
    places = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{places}f}"


def format_share(value):
    return "not measured" if value is None else f"{value * 100:.0f} %"


def format_rate(value):
    return "not measured" if value is None else f"{digits(value)}/s"


def verdict_text(verdict):
    """`disk (loop0), confidence 93 %`."""
    instance = f" ({verdict['instance']})" if verdict.get("instance") else ""
    return f"{verdict['bottleneck']}{instance}, confidence {verdict['confidence'] * 100:.0f} %"


def first_finding(verdict):
    for finding in verdict.get("findings", []):
        return f"{finding['instance'] or 'The machine'}: {finding.get('title', finding['rule'])}"
    return "Nothing was found"


# --- parts of the page ---------------------------------------------------------


def chart(title, unit, words, lines, log=False, along="time since the load was watched"):
    return {"title": title, "x": {"words": along, "unit": "s"}, "y": {"words": words, "unit": unit, "log": log},
            "lines": [{"name": name, "points": points} for name, points in lines]}


def bars(title, unit, names, groups, full=None):
    return {"title": title, "unit": unit, "full": full, "names": names, "groups": groups}


def table(titles, rows):
    return {"titles": titles, "rows": [[str(cell) for cell in row] for row in rows]}

#!/usr/bin/env python3
"""What confidence meant over several runs of the lab: its documents (`lab/run --json`), one after the other."""

import json
import sys

BANDS = [(0.8, 1.01, "80 % and more"), (0.6, 0.8, "60 to 79 %"), (0.0, 0.6, "below 60 %")]


def judged(paths):
    """Every verdict of the runs: name, right or not, confidence; and how many were skipped or failed."""
    found, without = [], 0
    for path in paths:
        with open(path, encoding="utf-8") as file:
            for one in json.load(file)["scenarios"]:
                if "skipped" in one or "failed" in one:
                    without += 1
                else:
                    found.append((one["name"], one["right"], one["confidence"]))
    return found, without


def mean(values):
    return f"{sum(values) / len(values):.2f}" if values else "-"


def lines(paths):
    found, without = judged(paths)
    right = [confidence for _, ok, confidence in found if ok]
    wrong = [confidence for _, ok, confidence in found if not ok]
    share = len(right) / max(len(found), 1)
    yield f"{len(found)} verdicts, {len(right)} right ({share:.1%}); {without} skipped or failed"
    yield f"mean confidence: {mean(right)} when right, {mean(wrong)} when wrong"
    for low, high, name in BANDS:
        of = [ok for _, ok, confidence in found if low <= confidence < high]
        yield f"{name}: {len(of)} verdicts, {sum(of)} right"
    for name in sorted({name for name, ok, _ in found if not ok}):
        yield f"wrong: {name} {sum(1 for n, ok, _ in found if n == name and not ok)} of " \
              f"{sum(1 for n, _, _ in found if n == name)}"


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: lab/confidence.py RUN.json …")
    print("\n".join(lines(sys.argv[1:])))

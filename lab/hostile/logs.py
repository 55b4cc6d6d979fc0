"""Content of a log as its readers report it: the times of its ticks, and reported losses."""

import json
import os
import re

from hostile.trial import Broken

ONE = ["--counter", "processor.busy", "--instance", "_total"]
OLD_WORDS = re.compile(r"(\d+) ticks lost|how many ticks is not known")


def reported_losses(document, err):
    """Returns the number of ticks that a reader reports as lost, and whether there may be more.

    They are in `damage[]` of its document; for a reader without that field, its messages are parsed.
    """
    entries = document.get("damage")
    if entries is not None:
        numbers = [entry.get("ticks_lost") for entry in entries]
    else:
        numbers = [int(found[1]) if found[1] else None for found in OLD_WORDS.finditer(err)]
    return sum(number or 0 for number in numbers), any(number is None for number in numbers)


def documents_of(done):
    try:
        return json.loads(done.out)
    except ValueError:
        return {}


class Read:
    """A log, read once as JSON lines: `times` of its ticks, and reported losses."""

    def __init__(self, bench, log, name="read.jsonl"):
        path = bench.path(name)
        if os.path.exists(path):
            os.unlink(path)
        self.done = bench.run("export", log, "--as", "jsonl", "-o", path, "--json", *ONE)
        self.times = []
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                self.times = [json.loads(line)["time"] for line in file]
        err = self.done.err.decode("utf-8", "replace")
        self.document = documents_of(self.done)
        self.lost, self.maybe_more = reported_losses(self.document, err)
        self.failed = self.done.code == 1 and bool(err.strip())

    def judged(self, written):
        """Returns `exact` if the ticks read and reported as lost add up to those written, `told` if a loss is
        reported whose number cannot be known. Raises `Broken` otherwise."""
        if self.done.code not in (0, 1) or self.done.ended:
            raise Broken(f"exit {self.done.code}: {self.done.said}")
        invented = sorted(set(self.times) - set(written))
        if invented or len(set(self.times)) < len(self.times):
            raise Broken(f"{len(invented)} ticks that nobody wrote, "
                         f"{len(self.times) - len(set(self.times))} that came twice")
        lost = len(set(written)) - len(self.times)
        if self.failed and not self.times:
            return "refused"
        if lost == self.lost:
            return "told" if self.maybe_more and lost else "exact"
        if self.maybe_more and self.lost <= lost:
            return "told"
        raise Broken(f"{lost} of {len(written)} ticks lost, {self.lost} told")


def sum_fields(document, *names):
    """The sum of the fields of a document with one of these words in their names, at any depth."""
    total = 0
    for key, value in document.items() if isinstance(document, dict) else ():
        if isinstance(value, dict):
            total += sum_fields(value, *names) if not any(name in key for name in names) else (value.get("ticks") or 0)
        elif isinstance(value, int) and not isinstance(value, bool) and any(name in key for name in names):
            total += value
    return total

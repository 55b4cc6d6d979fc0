"""SQLite's commits on a virtual disk: the load and what is shared by its demonstrations."""

import os
import sqlite3
import sys

from demonstration import Demonstration
from figures import bars, chart, latency_curve, rate_curve, table, format_rate, format_seconds
from stage import with_priority

HERE = os.path.dirname(os.path.abspath(__file__))
SIZE_MIB = 512  # of the filesystem
NEEDS = ["chrt", "losetup", "mkfs.ext4"]


def start_commits(machine, folder, seconds):
    """One program that commits one record after the other. Returns it and where it notes each."""
    notes = os.path.join(machine.folder, "commits.txt")
    database = os.path.join(folder, "demo.sqlite")
    argv = [sys.executable, os.path.join(HERE, "commits.py"), database, "--seconds", str(seconds), "--to", notes]
    load = machine.start(with_priority(argv))
    return load, notes


def read_commits(notes):
    """The commits: when each was done and how long it took, seconds."""
    with open(notes, encoding="ascii") as file:
        complete = [line.split() for line in file if line.endswith("\n")]
    return [(float(when), float(took)) for when, took in complete]


class Commits(Demonstration):
    """Commits on each side, one after the other."""

    def play(self, machine, stage):
        """Commits until the watching has ended. Returns the stretch watched and the commits."""
        _, uri = stage.serve()
        stage.attach(uri)
        load, notes = start_commits(machine, stage.format(SIZE_MIB), self.settle + self.seconds + 2)
        window = stage.watch(load, self.settle, self.seconds)
        stage.ends(load, 60)
        return window, read_commits(notes)


def application(names, summaries, courses, more=()):
    """The section of what the application saw: names of the cases, their summaries,
    and each one's events with its window."""
    rows = [["commits", *(format_rate(one["per_s"]) for one in summaries)],
            ["time of a commit, mean", *(format_seconds(one["mean_s"]) for one in summaries)],
            ["half of them within", *(format_seconds(one["p50_s"]) for one in summaries)],
            ["95 % within", *(format_seconds(one["p95_s"]) for one in summaries)],
            ["longest", *(format_seconds(one["max_s"]) for one in summaries)]]
    return {"title": "What the application saw",
            "bars": [bars("Commits a second", "per_s", names, [["commits", [one["per_s"] for one in summaries]]]),
                     bars("Time of a commit", "s", names, [["mean", [one["mean_s"] for one in summaries]],
                                                          ["95 %", [one["p95_s"] for one in summaries]]])],
            "charts": [chart("Commits a second", "per_s", "commits a second",
                             [(name, rate_curve(events, window)) for name, events, window in courses], log=True),
                       chart("95 % of the commits of each second took at most", "s", "time of a commit",
                             [(name, latency_curve(events, window)) for name, events, window in courses], log=True)],
            "tables": [table(["SQLite", *names], rows + list(more))]}


def facts(seconds, settle):
    return (f"SQLite {sqlite3.sqlite_version} in its write-ahead log with `synchronous = FULL`, one program that "
            f"commits a record of 200 bytes at a time, on ext4 with barriers; watched for {seconds} s after {settle} "
            "s. A commit appends to the log, so ext4 writes its journal too: more than one write waits for another.")

"""Tests of the demonstrations' own machinery: `python3 -m unittest discover -s demos -p "test_*.py"`.

They start nothing that needs root. The demonstrations themselves are tested by
running one: `demos/run pgbench-raid5 --tiny`.
"""

import os
import sqlite3
import subprocess
import sys
import tempfile
import tomllib
import unittest
from types import SimpleNamespace

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "lab")]
sys.dont_write_bytecode = True

import figures  # noqa: E402
import packages  # noqa: E402
import pgbench_raid5  # noqa: E402
import played  # noqa: E402
import postgres  # noqa: E402
import predict  # noqa: E402
import sqlite  # noqa: E402
import sqlite_credits  # noqa: E402
import sqlite_write_cache  # noqa: E402
from machine import LabError  # noqa: E402

MODULES = (pgbench_raid5, sqlite_write_cache, sqlite_credits)


def side(name, drives=None):
    return SimpleNamespace(side=SimpleNamespace(name=name), fullest_drive=lambda: max(
        ((share, drive) for drive, share in (drives or {}).items()), default=(None, "none")))


def said(per_s, mean_s=0.01, count=100):
    return {"per_s": per_s, "mean_s": mean_s, "count": count, "p95_s": mean_s}


class Registered(unittest.TestCase):
    def test_programs_and_descriptions_are_there(self):
        for module in MODULES:
            self.assertTrue(module.MAKES and module.__doc__)
            for program in packages.programs_of(module.NEEDS):
                self.assertIn(program, packages.PACKAGE_OF)
            for one in module.SIDES:
                with open(one.file, "rb") as file:
                    self.assertIn("drive", tomllib.load(file))

    def test_a_volume_without_credits_has_the_baseline_that_is_told(self):
        with open(sqlite_credits.SIDES[0].file, "rb") as file:
            volume = tomllib.load(file)["drive"][0]["volume"]
        self.assertEqual(volume["iops"], sqlite_credits.BASELINE)


class Figures(unittest.TestCase):
    def test_only_the_window_counts(self):
        events = [(9.9, 5.0), (10.0, 0.1), (11.0, 0.2), (11.5, 0.3), (12.0, 9.0)]
        summary = figures.summary(events, (10, 12))
        self.assertEqual((summary["count"], summary["per_s"], summary["p50_s"], summary["max_s"]), (3, 1.5, 0.2, 0.3))
        self.assertEqual(figures.rate_curve(events, (10, 12)), [[0.5, 1.0], [1.5, 2.0]])
        self.assertEqual(figures.latency_curve(events, (10, 12), share=1), [[0.5, 0.1], [1.5, 0.3]])

    def test_nothing_done_is_not_zero_latency(self):
        summary = figures.summary([], (0, 10))
        self.assertEqual((summary["count"], summary["mean_s"], summary["p95_s"]), (0, None, None))
        self.assertEqual(figures.format_seconds(None), "not measured")

    def test_words(self):
        self.assertEqual([figures.format_seconds(v) for v in (0.00002, 0.0123, 1.5)], ["20 us", "12.3 ms", "1.50 s"])
        self.assertEqual([figures.digits(v) for v in (1234.5, 12.34, 0.05, 0)], ["1,234", "12.3", "0.0500", "0"])
        self.assertEqual(figures.parse_time(figures.format_utc(1_780_000_000.25)), 1_780_000_000.25)


class Sentences(unittest.TestCase):
    def test_pgbench_is_told_from_the_numbers(self):
        sides = [side("three disks", {"disk0": 0.97}), side("ten disks", {"disk3": 0.4})]
        sentence = pgbench_raid5.conclusion(sides, [said(50, 0.4), said(100, 0.02)])
        self.assertIn("Ten disks carry 2.00 times the transactions of three disks", sentence)
        self.assertIn("20.0 ms instead of 400 ms", sentence)
        self.assertIn("disk0 of the three disks was busy 97 %", sentence)
        self.assertIn("as many transactions", pgbench_raid5.conclusion(sides, [said(60), said(60)]))
        self.assertIn("only 0.500", pgbench_raid5.conclusion(sides, [said(60), said(30)]))
        self.assertIn("neither side", pgbench_raid5.conclusion(sides, [said(0, None, 0)] * 2))

    def test_a_cache_that_brings_nothing_is_told_so(self):
        sides = [side(name) for name in ("no write cache", "write cache", "battery")]
        sentence = sqlite_write_cache.conclusion(sides, [said(40), said(41), said(800)])
        self.assertIn("own cache brings nothing", sentence)
        self.assertIn("brings 20 times", sentence)
        self.assertIn("1.5 times as many", sqlite_write_cache.conclusion(sides, [said(40), said(60), said(80)]))

    def test_credits(self):
        sentence = sqlite_credits.conclusion([said(300, 0.003), said(30, 0.033)])
        self.assertIn("from 300/s to 30.0/s (10%)", sentence)


class Disturbed(unittest.TestCase):
    def side(self, outside, inside):
        log = SimpleNamespace(instances=lambda _: [], mean=lambda *_: inside)
        return SimpleNamespace(side=SimpleNamespace(name="a"), inside=log, drives=lambda: {"disk": 0.5},
                               kernel=lambda _: outside)

    def test_a_machine_that_held_the_load_back_is_told(self):
        self.assertIsNone(played.Played.disturbed(self.side(0.010, 0.008)))
        self.assertIsNone(played.Played.disturbed(self.side(0.0005, 0.020)))
        self.assertIsNone(played.Played.disturbed(self.side(None, 0.020)))
        self.assertIn("342 ms", played.Played.disturbed(self.side(0.342, 0.008)))


class Credits(unittest.TestCase):
    def volume(self, rates):
        course = [[float(at + 1), rate] for at, rate in enumerate(rates)]
        return SimpleNamespace(window=(0.0, float(len(rates))), inside=SimpleNamespace(course=lambda *_: course))

    def test_the_end_is_the_last_sample_beyond_the_baseline(self):
        self.assertEqual(sqlite_credits.end_of_credits(self.volume([800, 790, 810, 700, 101, 100, 99, 100])), 4.0)

    def test_an_end_that_was_not_watched_is_no_end(self):
        for rates in ([100] * 8, [800] * 8, [800, 100, 100, 100, 100, 100]):
            with self.assertRaises(LabError):
                sqlite_credits.end_of_credits(self.volume(rates))


class Programs(unittest.TestCase):
    def test_pgbench_log_lines_are_read(self):
        # client, number, time, script, epoch, microseconds, lag; the second line is torn
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "t.1.2"), "w", encoding="ascii") as file:
                file.write("0 1 250000 0 1700000000 500000 50000\n0 2 25")
            server = SimpleNamespace(log=os.path.join(folder, "t"))
            (when, took, lag), = postgres.Postgres.transactions(server)
        self.assertEqual((when, round(took, 6), lag), (1700000000.5, 0.2, 0.05))

    def test_commits_are_noted_and_safe(self):
        with tempfile.TemporaryDirectory() as folder:
            database, notes = os.path.join(folder, "demo.sqlite"), os.path.join(folder, "notes")
            subprocess.run([sys.executable, os.path.join(HERE, "commits.py"), database, "--seconds", "0.3",
                            "--to", notes], check=True, timeout=60)
            commits = sqlite.read_commits(notes)
            with sqlite3.connect(database) as opened:
                count, = opened.execute("SELECT count(*) FROM record").fetchone()
            opened.close()
        self.assertGreater(count, 0)
        self.assertEqual(count, len(commits))

    def test_requests_are_whole_blocks(self):
        self.assertEqual([predict.to_whole_blocks(size) for size in (1, 8192, 8500)], [512, 8192, 8704])


if __name__ == "__main__":
    unittest.main()

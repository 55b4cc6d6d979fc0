"""Tests of the lab's own machinery: `python3 -m unittest discover -s lab -p "test_*.py"`.

They start nothing that needs root. The scenarios themselves are tested by
running them: `lab/run --tiny`.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
import unittest
from unittest import mock

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.dont_write_bytecode = True

import scenarios  # noqa: E402
import table  # noqa: E402
from judge import Judge, NoVerdict, is_right_inside, same_device, format_utc, missing_from_verdict  # noqa: E402
from packages import PACKAGE_OF, programs_of  # noqa: E402
from undo import Undo, kill, start_time_of, undo_step, uninterrupted  # noqa: E402
from virtual import description  # noqa: E402

VERDICTS = {"none", "memory", "disk", "cpu", "interrupts", "channel", "controller", "network",
            "application", "throttle"}


class Scenarios(unittest.TestCase):
    def test_the_files_are_the_registered_names(self):
        self.assertEqual(scenarios.on_disk(), sorted(scenarios.NAMES))

    def test_each_says_what_it_is(self):
        for name in scenarios.NAMES:
            scenario = scenarios.load(name)
            self.assertIn(scenario.TRUTH, VERDICTS, name)
            self.assertIn(scenarios.outside(scenario), VERDICTS, name)
            self.assertIn(scenarios.inside(scenario), VERDICTS | {None}, name)
            self.assertTrue(scenario.MAKES and scenario.__doc__, name)
            for program in programs_of(scenario.NEEDS):
                self.assertIn(program, PACKAGE_OF, name)


class Undoing(unittest.TestCase):
    def test_steps_are_undone_newest_first_and_the_journal_goes(self):
        with tempfile.TemporaryDirectory() as folder:
            undo = Undo("test")
            path = os.path.join(folder, "setting")
            undo.push("write", path, "as it was")
            undo.push("write", path, "in between")
            self.assertTrue(os.path.exists(undo.path))
            self.assertEqual(undo.all(), [])
            with open(path, encoding="ascii") as file:
                self.assertEqual(file.read(), "as it was")
            self.assertFalse(os.path.exists(undo.path))

    def test_a_device_that_went_with_its_server_is_undone(self):
        with tempfile.TemporaryDirectory() as folder:
            binary = os.path.join(folder, "diskwright")
            with open(binary, "w", encoding="ascii") as file:
                file.write('#!/bin/sh\necho "$3 was not made by \\`disk attach\\`; nothing was changed" >&2; exit 1\n')
            os.chmod(binary, 0o755)
            self.assertIsNone(undo_step(["detach", binary, "/dev/loop77"]))
            # the binary is gone, and with it, by the server's own step, the device
            self.assertIsNone(undo_step(["detach", binary + ".gone", "/dev/loop77"]))

    def test_a_process_is_ended_only_if_it_is_the_one(self):
        process = subprocess.Popen(["sleep", "60"], start_new_session=True)
        started = start_time_of(process.pid)
        kill(process.pid, started + 1)
        self.assertIsNone(process.poll())
        self.assertIsNone(kill(process.pid, started))
        self.assertIsNone(start_time_of(process.pid))
        process.wait()

    def test_a_signal_waits_until_the_undoing_is_noted(self):
        seen = []
        before = signal.signal(signal.SIGTERM, lambda *_: seen.append("handled"))
        try:
            with uninterrupted():
                os.kill(os.getpid(), signal.SIGTERM)
                seen.append("noted")
        finally:
            signal.signal(signal.SIGTERM, before)
        self.assertEqual(seen, ["noted", "handled"])


class FakeMachine(mock.MagicMock):
    """Makes nothing, and notes which systems are asked for."""

    def __init__(self, *words, **more):
        super().__init__(*words, **more)
        self.settle, self.watched, self.folder = 6, 30, "/folder"
        self.mount_ext4.return_value = self.mount_btrfs.return_value = "/folder/mount"
        self.real_file.return_value = ("/file", "disk")

    def _get_child_mock(self, **more):
        return mock.MagicMock(**more)


class Systems(unittest.TestCase):
    def test_each_scenario_names_a_description_that_is_there(self):
        used = set()
        for name in scenarios.NAMES:
            machine = FakeMachine()
            scenarios.load(name).start(machine)
            for call in machine.disk.call_args_list + machine.system.call_args_list:
                self.assertTrue(os.path.exists(description(call.args[0])), name)
                used.add(call.args[0])
                with open(description(call.args[0]), "rb") as file:
                    read = tomllib.load(file)
                parts = {part.get("name") for kind in ("drive", "controller", "array") for part in read.get(kind, [])}
                for setting in call.args[1] if len(call.args) > 1 else {}:
                    self.assertIn(setting.split(".")[0], parts, name)
        here = os.path.join(HERE, "systems")
        self.assertEqual({file[:-5] for file in os.listdir(here)} - used, set(), "descriptions that nobody uses")

    def test_a_file_is_its_own_description(self):
        self.assertEqual(description("/elsewhere/members.toml"), "/elsewhere/members.toml")

    def test_what_no_description_has_is_refused(self):
        with self.assertRaises(KeyError):
            description("no-such-system")


class Judging(unittest.TestCase):
    def test_devices_are_the_same_by_their_last_part(self):
        self.assertTrue(same_device("/dev/loop2", "loop2"))
        self.assertFalse(same_device("loop12", "/dev/loop2"))
        self.assertFalse(same_device(None, "/dev/loop2"))

    def test_the_instance_counts_only_where_it_matters(self):
        plain = scenarios.load("random-read-slow")
        member = scenarios.load("btrfs-raid0-slow-member")
        verdict = {"bottleneck": "disk", "instance": "loop1"}
        self.assertIsNone(missing_from_verdict(plain, verdict, "/dev/loop2"))
        self.assertEqual(missing_from_verdict(member, verdict, "/dev/loop2"), "blames another device")
        self.assertIsNone(missing_from_verdict(member, verdict, "/dev/loop1"))

    def test_inside_the_part_counts_and_nothing_where_nothing_is_asked(self):
        channel = scenarios.load("channel-full")
        self.assertTrue(is_right_inside(channel, {"bottleneck": "channel", "instance": "scsi"}))
        self.assertFalse(is_right_inside(channel, {"bottleneck": "disk", "instance": "disk0"}))
        self.assertIsNone(missing_from_verdict(channel, {"bottleneck": "disk"}, None))
        self.assertIsNone(is_right_inside(scenarios.load("memory-paging"), {"bottleneck": "disk"}))

    def test_times_are_told_to_the_millisecond(self):
        self.assertEqual(format_utc(86_400.25), "1970-01-02T00:00:00.250Z")

    def test_a_failing_binary_is_no_verdict(self):
        with self.assertRaisesRegex(NoVerdict, "exit 1"):
            Judge("false").why(["log"])
        with self.assertRaisesRegex(NoVerdict, "no JSON"):
            Judge("true").why(["log"])


class Tables(unittest.TestCase):
    def test_each_outcome_is_named(self):
        results = [{"name": "a", "truth": "disk", "verdict": "disk", "right": True,
                    "confidence": 0.9, "packs": {"default": "disk"}},
                   {"name": "b", "truth": "disk", "verdict": "none", "right": False,
                    "wrong": "outside should be disk"},
                   {"name": "e", "truth": "channel", "outside": "disk", "verdict": "disk", "right": True,
                    "inside": [{"verdict": "disk", "instance": "disk0", "right": False}],
                    "inside_truth": "channel", "inside_instance": "scsi"},
                   {"name": "c", "truth": "disk", "skipped": "no root"},
                   {"name": "d", "truth": "disk", "failed": "no verdict"}]
        self.assertEqual(table.score(results), "1 right, 2 wrong, 1 failed, 1 skipped")
        self.assertIn("no root", table.verdicts(results))
        self.assertIn("outside should be disk", table.verdicts(results))
        self.assertIn("inside should be channel scsi", table.verdicts(results))
        self.assertIn("default", table.pack_table(results))


if __name__ == "__main__":
    unittest.main()

"""Tests of the hostile trial's own oracles: `python3 -m unittest discover -s lab -p "test_*.py"`.

They start nothing and need no root; what the oracles judge is made here, right and wrong.
"""

import json
import os
import random
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.dont_write_bytecode = True

from hostile import damage, guard, links, recorder, results, sectors, servers, smaller, trial, words  # noqa: E402
from hostile.logs import Read, sum_fields, reported_losses  # noqa: E402
from hostile.trial import Broken, Done  # noqa: E402
from packages import PACKAGE_OF  # noqa: E402


class Cases(unittest.TestCase):
    def all(self):
        from hostile import AREAS
        return [(area, case) for area in AREAS for case in __import__(f"hostile.{area}", fromlist=["CASES"]).CASES]

    def test_each_says_what_must_hold_and_is_named_after_its_area(self):
        names = [case.name for _, case in self.all()]
        self.assertEqual(len(names), len(set(names)))
        for area, case in self.all():
            self.assertTrue(case.name.startswith(area + "/"), case.name)
            self.assertTrue(case.tried and case.must, case.name)
            for need in case.needs:
                self.assertIn(need, PACKAGE_OF, case.name)

    def test_each_area_has_a_case_in_the_short_form(self):
        for area in {area for area, _ in self.all()}:
            self.assertTrue(any(case.tiny for other, case in self.all() if other == area), area)


def read_of(times, lost=0, maybe_more=False, code=0, err=b""):
    """A log as it was read, without reading one."""
    read = Read.__new__(Read)
    read.done = Done(code, b"", err, 0)
    read.times, read.lost, read.maybe_more, read.failed = times, lost, maybe_more, code == 1 and bool(err)
    return read


class Ticks(unittest.TestCase):
    WRITTEN = ["a", "b", "c", "d"]

    def test_the_sum_is_right_or_it_is_broken(self):
        self.assertEqual(read_of(self.WRITTEN).judged(self.WRITTEN), "exact")
        self.assertEqual(read_of(["a", "d"], lost=2).judged(self.WRITTEN), "exact")
        self.assertEqual(read_of(["a"], lost=1, maybe_more=True).judged(self.WRITTEN), "told")
        self.assertEqual(read_of([], code=1, err=b"nothing can be read").judged(self.WRITTEN), "refused")
        for wrong in (read_of(["a", "d"]), read_of(["a", "d"], lost=1), read_of(self.WRITTEN, lost=1),
                      read_of(["a", "b"], lost=3, maybe_more=True), read_of(["a", "a", "b", "c", "d"]),
                      read_of(["a", "x"], lost=2), read_of([], code=-11), read_of([], code=1)):
            with self.assertRaises(Broken):
                wrong.judged(self.WRITTEN)

    def test_losses_are_taken_from_the_document_and_else_from_words(self):
        damage = {"damage": [{"ticks_lost": 3}, {"ticks_lost": None}]}
        self.assertEqual(reported_losses(damage, "9 ticks lost"), (3, True))
        self.assertEqual(reported_losses({"damage": []}, "9 ticks lost"), (0, False))
        self.assertEqual(reported_losses({}, "x: 9 ticks lost\ny: how many ticks is not known"), (9, True))

    def test_what_was_trimmed_is_found_wherever_it_stands(self):
        self.assertEqual(sum_fields({"ticks": 5, "ticks_trimmed": 7}, "trim"), 7)
        self.assertEqual(sum_fields({"log": {"trimmed": {"ticks": 7, "segments": 2}}}, "trim"), 7)
        self.assertEqual(sum_fields({"ticks": 5, "trimmed": None}, "trim"), 0)

    def test_documents_one_behind_the_other(self):
        self.assertEqual(recorder.documents('{"ticks": 1}\n{"ticks":\n 2}\n'), [{"ticks": 1}, {"ticks": 2}])


class Damaging(unittest.TestCase):
    def test_every_way_changes_the_log_and_is_the_same_again(self):
        for way in dict.fromkeys(damage.WAYS):
            damages = []
            for _ in range(2):
                with tempfile.TemporaryDirectory() as log:
                    for number in range(1, 5):
                        with open(os.path.join(log, f"{number:08}.dwlog"), "wb") as file:
                            file.write(bytes([number]) * 5000)
                    before = self.content(log)
                    damages.append(way(log, random.Random(3)))
                    self.assertNotEqual(self.content(log), before, way.__name__)
            self.assertEqual(damages[0], damages[1])

    def content(self, log):
        found = {}
        for name in os.listdir(log):
            with open(os.path.join(log, name), "rb") as file:
                found[name] = file.read()
        return found


class Sectors(unittest.TestCase):
    def content(self, oracle, versions):
        return b"".join(sectors.stamped_bytes(n, version) if version else bytes(512)
                        for n, version in enumerate(versions)) + bytes(512 * (len(oracle.acknowledged) - len(versions)))

    def test_old_new_and_torn(self):
        oracle = sectors.Oracle(4)
        for version in (1, 2):
            oracle.send(0, 2, version)
        oracle.acknowledge(0, 2, 1)
        for right in ([1, 1], [2, 1], [1, 2], [2, 2]):
            self.assertEqual(oracle.judge(self.content(oracle, right)), ([], []), right)
        self.assertEqual(oracle.judge(self.content(oracle, [0, 1])), ([], [0]), "older than acknowledged")
        self.assertEqual(oracle.judge(self.content(oracle, [1, 3])), ([], [1]), "never sent")
        torn = bytearray(self.content(oracle, [1, 2]))
        torn[512 + 100:1024] = sectors.stamped_bytes(1, 1)[100:]
        self.assertEqual(oracle.judge(bytes(torn)), ([1], []))
        moved = sectors.stamped_bytes(1, 1) + sectors.stamped_bytes(0, 1) + bytes(1024)
        self.assertEqual(len(oracle.judge(moved)[0]), 2, "another sector's bytes")

    def test_a_life_ends_with_what_is_there(self):
        oracle = sectors.Oracle(2)
        oracle.send(0, 1, 1)
        oracle.settle(self.content(oracle, [1]))
        self.assertEqual(oracle.judge(bytes(1024)), ([], [0]))

    def test_no_two_writes_are_under_way_at_one_place(self):
        chance, in_flight = random.Random(1), []
        for _ in range(8):
            in_flight.append((sectors.free_place(chance, 1024, in_flight), 1024, 1))
        spans = sorted((at, at + count) for at, count, _ in in_flight)
        self.assertTrue(all(one[1] <= two[0] for one, two in zip(spans, spans[1:])))


class Words(unittest.TestCase):
    def test_every_hostile_character_is_found(self):
        for character in "\x1b\x07\x08\x00\x7f\x9b\u202e\u2066\r":
            self.assertTrue(words.controls(f"a{character}b".encode()), repr(character))
        self.assertEqual(words.controls("plain text\twith ü and █\n".encode()), [])
        self.assertEqual(words.controls(b"one\r\ntwo\r\n", terminal=True), [])
        self.assertEqual(words.controls(f"a\n{words.FORGED}".encode()), ["a forged line"])
        self.assertTrue(words.controls(words.NASTY_LINES.encode(), terminal=True))

    def test_a_progress_line_is_our_own(self):
        progress = b"\r\x1b[2K 3 s left\x1b[1A\x1b[?25l"
        self.assertEqual(words.controls(progress, terminal=True, moving=True), [])
        self.assertTrue(words.controls(progress + words.NASTY.encode(), terminal=True, moving=True))

    def test_cells_that_run(self):
        text = "time,name,value\n1,=cmd|x,-3.5\n2,'=cmd,+1e-9\n3,@SUM(1),-\n4,\"\t=1\",5\n"
        self.assertEqual(words.formulas(text), ["=cmd|x", "@SUM(1)", "-", "\t=1"])

    def test_what_is_shown_of_what_happened_is_harmless(self):
        self.assertEqual(words.controls(trial.escape_controls(words.NASTY_LINES).encode()), [])
        self.assertEqual(len(trial.escape_controls("a" * 500)), 160)

    def test_two_terminals(self):
        script = "import sys; sys.stdout.write(str(sys.stdout.isatty())); sys.stderr.write(str(sys.stderr.isatty()))"
        out, err, code = words.on_terminals([sys.executable, "-c", script], os.environ, HERE)
        self.assertEqual((out, err, code), (b"True", b"True", 0))


class Files(unittest.TestCase):
    def test_bytes_and_names_that_changed_are_told(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "data")
            for change, count in (("", 0), ("bytes", 1), ("name", 1)):
                with open(path, "wb") as file:
                    file.write(b"before")
                kept = guard.Snapshot([path], [path])
                if change == "bytes":
                    with open(path, "r+b") as file:
                        file.write(b"B")
                elif change == "name":
                    os.rename(path, path + ".old")
                    with open(path, "wb") as file:
                        file.write(b"before")
                self.assertEqual(len(kept.changed()), count, change)

    def test_a_refusal_is_no_attempt(self):
        self.assertEqual(guard.refusal_faults(Done(1, b"", b"is in use", 0)), [])
        self.assertTrue(guard.refusal_faults(Done(0, b"", b"", 0)))
        self.assertTrue(guard.refusal_faults(Done(1, b"", b"6 requests failed, the first with: Input/output error", 0)))

    def test_what_others_can_read_is_found(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, mode in (("private", 0o600), ("open", 0o640)):
                path = os.path.join(folder, name)
                open(path, "wb").close()
                os.chmod(path, mode)
            self.assertEqual(links.open_to_others(folder), ["open 0640"])


class Tables(unittest.TestCase):
    def test_a_row_a_case_and_a_score(self):
        rows = [{"name": "a/b", "tried": "x | y", "must": "m", "happened": "h", "outcome": outcome, "seconds": 1}
                for outcome in ("held", "broken")]
        document = {"cases": rows, "took_s": 2}
        self.assertIn("| a/b | x \\| y | m | h | BROKEN |", results.table(document))
        self.assertEqual(results.score(document), "1 held, 1 broken; 2 s")
        json.dumps(document)

    def test_what_breaks_is_told_and_what_fails_too(self):
        def breaks(_):
            raise Broken("it broke")

        def fails(_):
            raise AssertionError("no such thing")
        for check, outcome in ((breaks, "broken"), (fails, "failed"), (lambda _: "well", "held")):
            row = trial.run_case(trial.Case("test/case", "t", "m", check), "/bin/true")
            self.assertEqual(row["outcome"], outcome)
        self.assertTrue(servers.CASES and smaller.CASES)


if __name__ == "__main__":
    unittest.main()

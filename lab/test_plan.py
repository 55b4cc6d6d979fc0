"""Tests of planning's machinery that start nothing: `lab/plan/run` does."""

import os
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "plan"), HERE]
sys.dont_write_bytecode = True

import figures  # noqa: E402
import quiet  # noqa: E402
import steps  # noqa: E402

LINES = """12.00 3.00
   7 0 loop0 {reads} 0 0 {read_ms} {writes} 0 0 {write_ms} 0 0 0
   7 1 loop1 {reads} 0 0 {read_ms} {writes} 0 0 {write_ms} 0 0 0
 254 0 vda 999 0 0 999 999 0 0 999 0 0 0"""


def lines(reads, read_ms, writes, write_ms):
    return LINES.format(reads=reads, read_ms=read_ms, writes=writes, write_ms=write_ms)


class Counting(unittest.TestCase):
    def test_members_are_added_up_and_others_are_not(self):
        names = {"loop0", "loop1"}
        before = steps.counted(10.0, lines(100, 1000, 50, 500), names)
        after = steps.counted(20.0, lines(500, 5000, 250, 4500), names)
        self.assertEqual((before.reads, before.writes, before.took_s), (200, 100, 3.0))
        got = steps.between(before, after)
        self.assertEqual((got["reads_per_s"], got["writes_per_s"], got["requests_per_s"]), (80, 40, 120))
        # 2 x (4000 + 4000) ms for 1200 requests
        self.assertAlmostEqual(got["response_s"], 16 / 1200)

    def test_fio_is_told_of_arrivals_and_of_users(self):
        words = steps.fio(steps.Arrivals(120, 60, 8), ["/dev/md0"], 2)
        names = [word for word in words if word.startswith(("--name", "--rate_iops"))]
        self.assertEqual(names, ["--name=randread", "--rate_iops=120", "--name=randwrite", "--rate_iops=60"])
        # what follows a name is of that job alone: each has everything
        self.assertEqual(words.count("--direct=1"), 2)
        self.assertEqual(words.count("--rate_process=poisson"), 2)
        words = steps.fio(steps.Users(3, 0.1, 67, 8), ["a", "b"], 2)
        self.assertEqual([word for word in words if word.startswith("--filename")],
                         ["--filename=a", "--filename=b", "--filename=a"])
        # pauses differ, so that users do not fall into step, and their mean is what was asked for
        self.assertEqual([word for word in words if "thinktime" in word],
                         ["--thinktime=66667us", "--thinktime=100000us", "--thinktime=133333us"])
        self.assertLess(words.index("--name=user0"), words.index("--thinktime=66667us"))
        self.assertLess(words.index("--thinktime=66667us"), words.index("--name=user1"))

    def test_all_kinds_of_requests_have_to_flow(self):
        load, zero = steps.Arrivals(120, 60, 8), steps.Counted(0, 0, 0, 0)
        for reads, writes, flows in [(0, 500, False), (3, 500, False), (300, 2, False), (30, 10, True)]:
            self.assertEqual(steps.is_flowing(zero, steps.Counted(1, reads, writes, 1), load), flows)
        self.assertTrue(steps.is_flowing(zero, steps.Counted(1, 0, 50, 1), steps.Arrivals(0, 60, 8)))
        self.assertTrue(steps.is_flowing(zero, steps.Counted(1, 30, 0, 1), steps.Users(3, 0.1, 67, 8)))
        self.assertFalse(steps.is_whole({"reads_per_s": 0, "writes_per_s": 60}, load))
        self.assertTrue(steps.is_whole({"reads_per_s": 115, "writes_per_s": 58}, load))
        self.assertTrue(steps.is_whole({"reads_per_s": 115, "writes_per_s": 0}, steps.Arrivals(120, 0, 8)))

    def test_figures_say_how_far_off(self):
        result = {"load": "40 users", "predicted": {"requests_per_s": 99.0, "response_s": 0.022},
                  "measured": {"requests_per_s": 100.0, "response_s": 0.020}}
        limits = {"within_requests": 5, "within_response": 10}
        document = {"took_s": 1, "limits": limits, "parts": [{"set": "md", "run": 1, "disks": 6, "results": [result]}]}
        self.assertEqual([round(error, 3) for _, _, error in figures.rows(document)], [0.01, 0.1])
        words = [line.split() for line in figures.text(document).splitlines()]
        self.assertIn("md 1 6 40 users response, ms 20.0 22.0 +10.0% 10 % pass".split(), words)
        self.assertFalse(figures.has_missed(document))
        # each quantity has its own limit
        result["predicted"]["requests_per_s"] = 94.0
        self.assertEqual([passed for _, passed, _ in figures.rows(document)], [False, True])
        self.assertTrue(figures.has_missed(document))
        self.assertIn("MISS", figures.text(document))

    def test_what_was_not_measured_is_missed(self):
        for part in ({"skipped": "12 minutes are left"}, {"failed": "fio ended"}):
            document = {"took_s": 1, "limits": {}, "parts": [{"set": "md", "run": 1, "results": [], **part}]}
            self.assertTrue(figures.has_missed(document))
            self.assertIn(next(iter(part.values())), figures.text(document))
        self.assertTrue(figures.has_missed({"parts": []}))

    def test_a_machine_with_compilers_is_not_quiet(self):
        alone, busy = {"load_average": 1.5, "compilers": 0}, {"load_average": 4.0, "compilers": 2}
        part = {"company_before": alone, "company_after": alone, "late_share": 0.001}
        self.assertTrue(quiet.is_quiet(part))
        self.assertFalse(quiet.is_quiet(part | {"company_after": busy}))
        self.assertFalse(quiet.is_quiet(part | {"late_share": 0.05}))
        with tempfile.TemporaryDirectory() as root:
            for pid, name in (("7", "rustc\n"), ("8", "bash\n"), ("9", None), ("self", "rustc\n")):
                os.mkdir(os.path.join(root, pid))
                if name:
                    with open(os.path.join(root, pid, "comm"), "w", encoding="utf-8") as file:
                        file.write(name)
            self.assertEqual(quiet.compilers(root), 1)


if __name__ == "__main__":
    unittest.main()

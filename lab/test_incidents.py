"""Tests of how the lab judges answers to incidents: an answer that lacks a piece must fail for that piece.

They start nothing that needs root. The incidents themselves are tested by running them: `lab/incidents/run`.
"""

import datetime
import os
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.dont_write_bytecode = True

from incidents import judging, remedies, table, terminal, troubles  # noqa: E402
from incidents.judging import Answer, Culprit, Found, Truth  # noqa: E402
from packages import PACKAGE_OF, programs_of  # noqa: E402

SINCE = datetime.datetime(2026, 11, 29, 14, 10, 12).timestamp()
SCREEN = """\
db1, 2026-11-29 14:09:50 to 14:10:40 UTC (50 s, 51 ticks)

DISK  loop3                                        ██████████░░  confidence 83 %
MEMORY  /shop                                      ███████████░  confidence 92 %
The kernel killed 2 processes of /shop for lack of memory (limit 96 MiB).
loop3: 22 to 68 ms since 14:10:12, when tar started

Evidence
  ● loop3: it is overloaded; requests queue and are slow
    ▁▁▁▁▁▁▁▁▇███████████  7.82 requests  more than 2 for 60.5 % of the time

Who is doing it
  tar (24951)      disk loop3: reads 803 kB/s, waits for I/O for 61.8 % of the …
    tar -C /srv -cf /backup/b.tar documents (podman nightly-backup)
  postgres (311)   disk loop3: 9 processes together: writes 81 kB/s
    postgres: shop shop [local] COMMIT

What to do, cheapest first
  1. Let tar use loop3 only when no one else does.
     `ionice -c3 -p 24951`
  … 9 more: `--full`""".splitlines()


def truth(**changes):
    told = {"resources": [("disk", "loop3"), ("memory", "/shop")], "place": ["nightly-backup"], "since": SINCE,
            "culprits": [Culprit(["tar -C", "documents"], lambda: [24951])], "events": [r"killed .*/shop"],
            "victims": ["postgres: "]}
    return Truth(**told | changes)


def without(*words):
    return [row for row in SCREEN if not any(word in row for word in words)]


def with_words(before, after):
    changed = [row.replace(before, after) for row in SCREEN]
    assert changed != SCREEN, before
    return changed


def missing(rows, document=None, others_share=0.0, **changes):
    """The parts that an answer lacks."""
    found = judging.judge(truth(**changes), Answer(rows, document, others_share))
    return [name for name, part in found.items() if part.right is False]


class Screens(unittest.TestCase):
    def test_a_whole_screen_lacks_nothing(self):
        self.assertEqual(missing(SCREEN), [])

    def test_a_bottleneck_that_is_not_named(self):
        self.assertEqual(missing(without("MEMORY")), ["resource"])
        self.assertEqual(missing(with_words("DISK  loop3", "DISK  loop4")), ["resource"])

    def test_a_bottleneck_without_a_cause(self):
        self.assertEqual(missing(SCREEN, resources=[("disk", "loop3")]), ["resource"])

    def test_only_busy_neighbors_excuse_a_blamed_processor(self):
        rows = with_words("MEMORY  /shop", "PROCESSOR   ")
        self.assertEqual(missing(rows, resources=[("disk", "loop3")], others_share=0.1), ["resource"])
        self.assertEqual(missing(rows, resources=[("disk", "loop3")], others_share=0.9), [])

    def test_another_ones_disk_is_no_fault_of_the_answer(self):
        rows = [*SCREEN[:3], SCREEN[2].replace("loop3", "loop7"), *SCREEN[3:]]
        self.assertEqual(missing(rows), ["resource"])
        self.assertTrue(judging.judge_resources(truth(), Answer(rows, others_disks=("loop7",))).right)

    def test_nothing_named_is_not_that_nothing_is_wrong(self):
        self.assertEqual(missing(without("DISK", "MEMORY"), resources=[]), ["resource"])
        rows = with_words("MEMORY  /shop", "NO BOTTLENECK")
        self.assertEqual(missing(without("DISK", "MEMORY"), resources=[]), ["resource"])
        self.assertEqual(missing([row for row in rows if "DISK" not in row], resources=[]), [])

    def test_a_command_line_that_is_cut_before_what_matters(self):
        self.assertEqual(missing(with_words(" documents", "")), ["culprit"])

    def test_what_only_the_document_has_is_told_and_is_missing(self):
        document = {"culprits": [{"command_line": "tar -C /srv -cf /backup/b.tar documents"}]}
        found = judging.judge_culprits(truth(), Answer(with_words(" documents", ""), document))
        self.assertFalse(found.right)
        self.assertIn("culprits[] has it", found.because)

    def test_the_right_name_with_another_process(self):
        self.assertEqual(missing(with_words("(24951)", "(24952)")), ["culprit"])

    def test_a_victim_before_the_culprit(self):
        rows = [*SCREEN[:12], *SCREEN[14:16], *SCREEN[12:14], *SCREEN[16:]]
        self.assertEqual(missing(rows), ["culprit"])

    def test_a_victim_in_the_headline_is_no_culprit(self):
        self.assertEqual(missing(with_words("since 14:10:12", "for postgres: since 14:10:12")), [])

    def test_a_container_without_its_name(self):
        self.assertEqual(missing(with_words("podman nightly-backup", "podman 8d19c375a1c6")), ["place"])

    def test_a_kill_that_is_not_told(self):
        self.assertEqual(missing(without("killed")), ["event"])

    def test_a_kill_that_is_told_over_two_rows(self):
        killed = ["The kernel killed 2 processes", "  of /shop for lack of memory (limit 96 MiB)."]
        at = SCREEN.index(" ".join(line.strip() for line in killed))
        self.assertEqual(missing([*SCREEN[:at], *killed, *SCREEN[at + 1:]], events=[r"2 processes of /shop"]), [])

    def test_what_stands_below_the_first_screen_counts_for_nothing(self):
        rows = [*SCREEN[:2], *[""] * 22, *SCREEN[2:]]
        self.assertEqual(missing(rows), ["fits", "resource", "culprit", "place", "since", "event"])

    def test_a_screen_that_is_longer_than_the_terminal(self):
        self.assertEqual(missing(SCREEN + [""] * (terminal.ROWS - len(SCREEN))), [])
        self.assertEqual(missing(SCREEN + ["more"] * (terminal.ROWS + 1 - len(SCREEN))), ["fits"])


class Since(unittest.TestCase):
    def test_no_time_and_the_times_of_the_window(self):
        self.assertEqual(missing(without("since")), ["since"])
        rows = [SCREEN[0].replace("14:09:50", "14:10:12"), *without("since")[1:]]
        self.assertEqual(missing(rows), ["since"])

    def test_a_time_that_is_off(self):
        self.assertEqual(missing(with_words("14:10:12", "14:10:19")), ["since"])
        self.assertEqual(missing(with_words("14:10:12", "14:10:17")), [])

    def test_a_time_that_says_no_beginning(self):
        self.assertEqual(missing(with_words("since 14:10:12, when tar started", "worst at 14:10:12")), ["since"])

    def test_a_word_that_the_wrapping_took_away(self):
        at = SCREEN.index("loop3: 22 to 68 ms since 14:10:12, when tar started")
        wrapped = ["loop3: latency 22 to 68 ms and queue 0 to 7.9 from 14:10:12,", "when tar began"]
        rows = [*SCREEN[:at], *wrapped, *SCREEN[at + 1:]]
        self.assertEqual(missing(rows), [])

    def test_the_timeline_tells_beginnings(self):
        rows = without("since") + ["Timeline", "  · 14:10:12 to 14:10:40: disk loop3 (83 %)"]
        self.assertEqual(missing(rows), [])

    def test_a_change_that_only_the_document_has(self):
        at = datetime.datetime.fromtimestamp(SINCE + 1, datetime.UTC).isoformat()
        found = judging.judge_since(truth(), Answer(without("since"), {"changes": [{"at": at}]}))
        self.assertFalse(found.right)
        self.assertIn("changes[] has it", found.because)

    def test_midnight_lies_between(self):
        time = judging.TIME.search("23:59:58")
        self.assertAlmostEqual(judging.seconds_off(time, datetime.datetime(2026, 11, 29, 0, 0, 2).timestamp()), -4)


class Commands(unittest.TestCase):
    def setUp(self):
        self.child = subprocess.Popen(["sleep", "60"])
        self.own = remedies.Own(os.getpid(), groups=["/sys/fs/cgroup/memory/diskwright-lab-1"], disks=["loop3"],
                                containers=["nightly-backup"], environment={"PGPORT": "5433", "PGDATABASE": "bench"})

    def tearDown(self):
        self.child.kill()
        self.child.wait()

    def test_a_whole_command_is_found_and_a_cut_one_is_not(self):
        self.assertEqual(remedies.commands_on(SCREEN), ["ionice -c3 -p 24951"])
        self.assertEqual(remedies.commands_on(with_words("`ionice -c3 -p 24951`", "`ionice -c3 …")), [])
        wrapped = ["  1. Lower it. `renice -n 19", "     -p 7`", "  $ kill -STOP 8"]
        self.assertEqual(remedies.commands_on(wrapped), ["renice -n 19 -p 7", "kill -STOP 8"])
        after_a_cut_one = ["  1. Lower it. `renice …", "  … 4 more: `--full`", "  2. `kill -STOP 8`"]
        self.assertEqual(remedies.commands_on(after_a_cut_one), ["kill -STOP 8"])

    def test_commands_on_rows_of_their_own(self):
        group = "/sys/fs/cgroup/memory/diskwright-lab-22092/memory.limit_in_bytes"
        rows = ["  1. disk loop0: Let tar use loop0 only when no one else does.", "     ionice -c3 -p 7",
                "     back: ionice -c2 -n4 -p 7", "  2. memory /shop: echo 201326592 >", f"     {group}",
                "  3. renice -n 19 -p 8", "     mount it with noatime, and", "     kill what nobody needs"]
        self.assertEqual(remedies.commands_on(rows),
                         ["ionice -c3 -p 7", f"echo 201326592 > {group}", "renice -n 19 -p 8"])
        self.assertEqual(remedies.commands_on(["  1. disk loop0: ionice -c3 …"]), [])

    def test_a_way_back_is_no_remedy(self):
        self.assertEqual(remedies.commands_on(["`ionice -c3 -p 7` (back: `ionice -c2 -n4 -p 7`)"]), ["ionice -c3 -p 7"])
        words = ["     renice prints the old one, for the way back. `renice -n 19 -p 7`"]
        self.assertEqual(remedies.commands_on(words), ["renice -n 19 -p 7"])

    def test_a_word_that_the_screen_broke_is_mended(self):
        whole = "echo 1 > /sys/fs/cgroup/memory/diskwright-lab-1/memory.limit_in_bytes"
        broken = whole.replace("lab-1/", "lab-1/ ")
        self.assertEqual(remedies.repair(broken, {"advice": [{"command": whole}]}), whole)
        self.assertEqual(remedies.repair(broken, {"advice": []}), broken)

    def test_commands_on_what_is_ours_are_typed(self):
        pid = self.child.pid
        for command in (f"ionice -c3 -p {pid}", f"ionice -c2 -n4 -p {pid}", f"renice -n 19 -p {pid}",
                        f"renice -n 19 -p $(ls /proc/{pid}/task)", f"kill -STOP {pid}",
                        f"chrt --other --all-tasks --pid 0 {pid}", "podman pause nightly-backup",
                        "echo 201326592 > /sys/fs/cgroup/memory/diskwright-lab-1/memory.limit_in_bytes",
                        "echo mq-deadline > /sys/block/loop3/queue/scheduler",
                        "psql -c 'select pg_terminate_backend(1122)'",
                        "psql -d postgres://role@127.0.0.1:5433/bench -c 'select pg_reload_conf()'",
                        'psql -c "ALTER SYSTEM SET max_wal_size = \'1GB\'"'):
            self.assertTrue(remedies.vet(command, self.own), command)

    def test_all_else_is_refused(self):
        pid = self.child.pid
        for command in ("renice -n 19 -p 1", f"renice -n 19 -p {os.getppid()}", f"renice -n 19 -p {pid} 1",
                        f"renice -n 19 -p {pid}; reboot", "ionice -c3 -p $(pidof init)",
                        "ionice -c3 -p $(ls /proc/1/task)", f"kill -KILL {pid}",
                        "kill -STOP", f"ionice -c3 -p {pid} > /etc/passwd", "rm -rf /",
                        "kill -STOP PID", "ionice -c3 -p <pid>",
                        "echo 1 > /sys/fs/cgroup/memory/other/memory.limit_in_bytes",
                        "echo 1 > /sys/fs/cgroup/memory/diskwright-lab-1/../memory.limit_in_bytes",
                        "echo 1 > /sys/fs/cgroup/memory/diskwright-lab-1/below/memory.limit_in_bytes",
                        "echo $(reboot) > /sys/fs/cgroup/memory/diskwright-lab-1/memory.limit_in_bytes",
                        "echo none > /sys/block/vda/queue/scheduler", "podman pause other", "podman rm nightly-backup",
                        "psql -d postgres://role@127.0.0.1:5432/bench -c 'select pg_reload_conf()'",
                        "psql -c 'drop table x'", "psql -p 5432 -c 'select pg_reload_conf()'",
                        "psql -c 'select pg_reload_conf(); drop table x'",
                        "systemctl set-property x.service CPUQuota=5%"):
            with self.assertRaises(remedies.Refused, msg=command):
                remedies.vet(command, self.own)

    def test_a_typed_command_does_what_it_says(self):
        self.assertIsNone(remedies.type_command(f"kill -STOP {self.child.pid}", self.own))
        self.assertTrue(os.WIFSTOPPED(os.waitpid(self.child.pid, os.WUNTRACED)[1]))

    def test_a_command_that_fails_says_so(self):
        # no server is there, and perhaps no psql
        self.own.environment["PGHOST"] = "/nonexistent"
        self.assertTrue(remedies.type_command("psql -c 'select pg_reload_conf()'", self.own))


class Effects(unittest.TestCase):
    def typed(self, **more):
        return {"command": "renice -n 19 -p 7", "worked": True, "helped": False, "because": "compare: unclear"} | more

    def right(self, *typed):
        found = judging.judge_typed(list(typed), Answer(SCREEN))
        return found["remedy"].right, found["effect"].right

    def test_only_what_compare_confirms_has_an_effect(self):
        self.assertEqual(self.right(self.typed(helped=True)), (True, True))
        self.assertEqual(self.right(self.typed()), (True, False))
        self.assertEqual(self.right(self.typed(worked=False)), (False, False))
        # one that was shown and never tried proves nothing
        self.assertEqual(self.right(), (False, False))
        self.assertEqual(self.right(self.typed(worked=False), self.typed(helped=True)), (True, True))

    def test_compare_must_say_that_it_helped(self):
        for outcome, right in (("helped", True), ("less_asked", False), ("unclear", False), ("worse", False)):
            self.assertEqual(judging.judge_effect({"outcome": outcome, "sentence": "."}).right, right)


class Terminals(unittest.TestCase):
    def test_a_command_sees_a_terminal_of_24_rows_and_80_columns(self):
        code, written = terminal.run(["sh", "-c", "stty size; test -t 1 && echo yes; exit 3"], 10)
        self.assertEqual((code, terminal.rows_of(written)), (3, ["24 80", "yes"]))

    def test_one_that_does_not_end_is_ended(self):
        with self.assertRaises(terminal.TooLong):
            terminal.run(["sleep", "60"], 0.3)

    def test_progress_that_was_overwritten_is_gone(self):
        self.assertEqual(terminal.rows_of("watching 1/5 s\r\x1b[2K\x1b[1;31mDISK\x1b[0m\r\n\r\nloop3\r\n"),
                         ["DISK", "", "loop3"])

    def test_long_lines_go_on_in_the_next_row(self):
        self.assertEqual(terminal.rows_of("x" * 85), ["x" * 80, "x" * 5])


class Troubles(unittest.TestCase):
    def test_the_files_are_the_registered_names(self):
        self.assertEqual(troubles.on_disk(), sorted(troubles.NAMES))

    def test_each_says_what_it_is(self):
        for name in troubles.NAMES:
            trouble = troubles.load(name)
            self.assertTrue(trouble.MAKES and trouble.__doc__ and callable(trouble.prepare), name)
            for program in programs_of(trouble.NEEDS):
                self.assertIn(program, PACKAGE_OF, name)


class Tables(unittest.TestCase):
    def result(self, name, **parts):
        part = {key: vars(Found(value, "" if value else "why")) for key, value in parts.items()}
        view = {"parts": part, "rows": 24, "others_share": 0.2}
        return {"name": name, "views": {"live": view, "log": view}, "typed": []}

    def test_a_part_that_is_missing_makes_an_answer_wanting(self):
        results = [self.result("a", resource=True, place=None), self.result("b", resource=True, effect=False),
                   {"name": "c", "skipped": "no podman"}, {"name": "d", "failed": "the load ended early"}]
        self.assertEqual([table.outcome(result) for result in results], ["whole", "WANTING", "skipped", "FAILED"])
        self.assertIn("1 whole, 1 wanting, 1 failed, 1 skipped of 4", table.score(results))
        self.assertIn("NO", table.table(results))
        self.assertEqual(table.missing_lines(results), ["b, live: effect: why", "b, log: effect: why"])


if __name__ == "__main__":
    unittest.main()

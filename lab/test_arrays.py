"""Tests of the arrays' machinery that start nothing: `lab/arrays/run --tiny` does."""

import os
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "arrays"), HERE]
sys.dont_write_bytecode = True

import clock  # noqa: E402
import emulated  # noqa: E402
import levels  # noqa: E402
import load  # noqa: E402
import qemu  # noqa: E402
import results  # noqa: E402

# md counts a request that it divides more than once: its sectors tell, and are those of 4 KB each
READING = """{moment} 7.00
 253 0 vda {reads} 0 {sectors_read} {ms} {writes} 0 {sectors_written} 0 0 0 0
   9 0 md0 {twice} 0 {sectors_read} {ms} {writes} 0 {sectors_written} 0 0 0 0"""


def reading(moment, reads, ms, writes):
    return moment, READING.format(moment=moment * 1.1, reads=reads, ms=ms, writes=writes, twice=2 * reads,
                                  sectors_read=8 * reads, sectors_written=8 * writes)


class Counting(unittest.TestCase):
    def test_rates_are_the_median_of_the_windows(self):
        # 100 a second in two windows, and nothing in the one between
        outcome = load.outcome("md0", [reading(10, 500, 100, 50), reading(12, 650, 1600, 100),
                                    reading(14, 650, 1600, 100), reading(16, 800, 3100, 150)], levels.Load(67))
        self.assertEqual(outcome["windows"], [100, 0, 100])
        self.assertEqual(outcome["iops"], 100)
        self.assertEqual(outcome["read_iops"], 50)
        self.assertEqual(outcome["read_ms"], 5)
        self.assertIsNone(outcome["write_ms"])
        self.assertEqual(outcome["members"]["vda"], {"read_iops": 50, "read_bytes_per_s": 50 * 4096,
                                                  "write_iops": 100 / 6, "write_bytes_per_s": 100 / 6 * 4096})

    def test_an_emulated_clock_at_a_pace_of_its_own_changes_no_rate(self):
        readings = [reading(moment, 100 * moment, 0, 0) for moment in (0, 2, 4)]
        timed, pace = emulated.to_host_clock(readings)
        self.assertAlmostEqual(load.outcome("md0", timed, levels.Load(100))["iops"], 100)
        self.assertAlmostEqual(pace, 1.1)

    def test_fio_is_told_what_is_measured(self):
        class Options:
            ramp, seconds = 1, 5

        words = load.fio_words("/dev/md0", levels.Load(75), Options, group_reporting=1, name=None)
        self.assertIn("--rwmixread=75", words)
        self.assertIn("--iodepth=32", words)
        self.assertFalse([word for word in words if word.startswith("--name")])
        words = load.fio_words("/dev/md0", levels.Load(50, ((4, 50), (64, 50))), Options)
        self.assertIn("--bssplit=4k/50:64k/50", words)
        self.assertIn("--blockalign=4k", words)

    def test_a_disturbed_measurement_is_done_again(self):
        class Late(clock.Clock):
            def __init__(self):
                self.late, self.runs = 0.0, 0

        late = Late()

        def measure():
            late.runs += 1
            late.late += 1.0 if late.runs < 3 else 0.0
            return {"iops": late.runs, "windows": [late.runs] * 5}

        outcome = late.steady(measure)
        self.assertEqual((outcome["iops"], outcome["tries"], outcome["late_share"]), (3, 3, 0))
        self.assertFalse(outcome["disturbed"])

    def test_what_scatters_is_disturbed_whatever_it_says(self):
        class Quiet(clock.Clock):
            def __init__(self):
                self.late = 0.0

        outcome = Quiet().steady(lambda: {"iops": 100.0, "windows": [100, 100, 100, 60, 100]})
        self.assertEqual((outcome["tries"], outcome["disturbed"]), (clock.TRIES, True))


class Levels(unittest.TestCase):
    def test_each_has_a_description_and_a_name_of_its_own(self):
        names = [level.name for level in levels.LEVELS]
        self.assertEqual(len(names), len(set(names)))
        for level in levels.LEVELS:
            path = os.path.join(HERE, "arrays", "systems", level.system + ".toml")
            self.assertTrue(os.path.exists(path), path)
            with open(path, encoding="utf-8") as file:
                described = f"count = {level.members}\n" in file.read()
            self.assertTrue(described or f"disk.count={level.members}" in level.settings, level.name)
        rows = {"raid0": 256, "raid1": 64, "raid10": 128, "raid5-5": 256, "raid6": 256}
        self.assertEqual({name: levels.row_kb(levels.level_by_name(name)) for name in rows}, rows)
        for name in levels.TINY[0]:
            self.assertIn(levels.level_by_name(name).by, ("md", "btrfs"))

    def test_a_state_is_told_to_the_description(self):
        level = levels.level_by_name("raid5-3")
        self.assertEqual(level.without(1).described(), ["disk.count=3", "md.failed=[1]"])
        fresh = level.in_rebuild()
        self.assertEqual(fresh.drives, 4)
        self.assertEqual(fresh.described(), ["md.failed=[1]", "disk.count=4", 'md.spares=["disk3"]',
                                             f"md.rebuild={levels.REBUILD}"])

    def test_how_fast_md_rebuilds_is_told_while_it_does(self):
        line = "9 0 md0\n      [==>.......]  recovery = 12.6% ({}/262144) finish=3.5min speed=1024K/sec\n"
        readings = [(10.0, line.format(2048)), (20.0, line.format(12288))]
        self.assertEqual(emulated.rebuild_rate(readings), 1024 * 1024)
        self.assertIsNone(emulated.rebuild_rate([*readings, (30.0, "9 0 md0\n")]))


class Words(unittest.TestCase):
    def test_the_table_tells_how_far_off(self):
        one = {"level": "raid0", "load": "50 % 4K", "predicted": {"iops": 109.0},
               "measured": {"iops": 100.0}}
        self.assertAlmostEqual(results.error_of(one), 0.09)
        part = {"set": "random", "by": "md", "results": [one, one | {"load": "write 4K", "predicted": {"iops": 80.0}}]}
        text = results.text({"measured_s": 5, "parts": [part]})
        self.assertIn("+9.0%", text)
        self.assertIn("1 of 2 within 10 %", text)
        self.assertIn("worst -20.0% (raid0, write 4K)", text)
        part["results"][1]["measured"] = one["measured"] | {"disturbed": True}
        text = results.text({"measured_s": 5, "parts": [part]})
        self.assertIn("1 of 1 within 10 %", text)
        self.assertIn("1 spoiled", text)
        self.assertIn("nothing was measured",
                      results.text({"measured_s": 5, "parts": []}))


class Emulation(unittest.TestCase):
    def test_modules_are_loaded_after_what_they_need(self):
        with tempfile.TemporaryDirectory() as folder:
            files = {"modules.dep": "kernel/raid456.ko: kernel/libcrc32c.ko kernel/xor.ko\nkernel/xor.ko:\n"
                                    "kernel/libcrc32c.ko:\nkernel/crc32c_generic.ko:\nkernel/dm-mod.ko:\n",
                     "modules.builtin": "kernel/md-mod.ko\n"}
            for name, text in files.items():
                with open(os.path.join(folder, name), "w", encoding="ascii") as file:
                    file.write(text)
            order = qemu.module_files(folder, ["md_mod", "raid456", "dm_mod", "raid456"])
            self.assertEqual([os.path.basename(path)[:-3] for path in order],
                             ["crc32c_generic", "libcrc32c", "xor", "raid456", "dm-mod"])
            with self.assertRaisesRegex(qemu.GuestError, "no module nonesuch"):
                qemu.module_files(folder, ["nonesuch"])

    def test_the_archive_is_one_that_the_kernel_unpacks(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "archive")
            archive = qemu.Archive(path)
            archive.add("usr/bin/tool", b"12345")
            archive.add("/usr/bin/tool", b"once only")
            archive.close()
            with open(path, "rb") as file:
                data = file.read()
        names, at = [], 0
        while at < len(data):
            self.assertEqual(data[at:at + 6], b"070701")
            fields = [int(data[at + 6 + 8 * i:at + 14 + 8 * i], 16) for i in range(13)]
            size, length = fields[6], fields[11]
            names.append((data[at + 110:at + 110 + length - 1].decode(), size))
            at += 110 + length
            at += -at % 4
            at += size + -size % 4
        self.assertEqual(names, [("usr", 0), ("usr/bin", 0), ("usr/bin/tool", 5), ("TRAILER!!!", 0)])

    def test_drives_are_files_or_devices(self):
        self.assertIn("throttling.iops-total=100", " ".join(qemu.Drive("/x", iops=100).words(0)))
        words = " ".join(qemu.Drive("/dev/loop7", direct=True).words(3))
        self.assertIn("file=/dev/loop7,format=raw,cache=none", words)
        self.assertIn("drive=drive3", words)


if __name__ == "__main__":
    unittest.main()

"""The short form of lab/hostile/power_cut.py: three power cuts, every tick counted."""

import os
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "hostile"))
import forgetful  # noqa: E402
import power_cut  # noqa: E402


def program():
    """The newest that was built."""
    target = os.environ.get("CARGO_TARGET_DIR", os.path.join(os.path.dirname(HERE), "target"))
    built = [os.path.join(target, profile, "diskwright") for profile in ("debug", "release")]
    return max(filter(os.path.exists, built), key=os.path.getmtime, default=None)


class PowerCut(unittest.TestCase):
    def test_a_disk_forgets_what_was_not_flushed(self):
        disk = forgetful.Disk(8192, seed=1)
        disk.write(0, b"a" * 1024, False)
        disk.flush()
        disk.write(512, b"b" * 512, False)
        disk.write(4096, b"c" * 512, True)
        self.assertEqual(disk.read(500, 24), b"a" * 12 + b"b" * 12)
        disk.cut(0.0)
        self.assertIsNone(disk.read(0, 512))
        self.assertFalse(disk.write(0, b"d" * 512, False) or disk.flush())
        disk.power_on()
        self.assertEqual(disk.read(0, 1024), b"a" * 1024)
        self.assertEqual(disk.read(4096, 512), b"c" * 512)

    def test_ticks_that_the_device_has_outlive_the_power(self):
        why = forgetful.missing() or (None if program() else "the program was not built")
        if why:
            print(f"skipped: {why}", file=sys.stderr)
            self.skipTest(why)
        for row in power_cut.run(program(), rounds=3, seed=7):
            self.assertEqual(row["wrong"], [])


if __name__ == "__main__":
    unittest.main()

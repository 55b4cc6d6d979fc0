#!/usr/bin/env python3
"""Records on a disk that forgets, cuts its power, and counts every tick.

    lab/hostile/power_cut.py [--rounds 20] [--seed 1] [--binary PATH]

What the recorder was told to be on the device is read from the log's ledger just
before the cut; those ticks must be there afterwards. Of a log that was closed all
must be there. What is lost beyond is counted, and held against `--sync`.
"""

import argparse
import contextlib
import json
import os
import random
import signal
import struct
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import forgetful  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
EVERY = 0.02
SYNC = 0.3
BLOCK, TICK = 3, 5


def records(path):
    """Kind and payload of the records of a file, as far as they go on without a break."""
    with contextlib.suppress(OSError), open(path, "rb") as file:
        data = file.read()
        at = 0
        while data[at:at + 4] == b"\xd1\x5c\x3a\x7e" and at + 16 <= len(data):
            length = int.from_bytes(data[at + 5:at + 8], "little")
            yield data[at + 4], data[at + 16:at + 16 + length]
            at += 16 + length


def ticks_of(log):
    """Numbers of the ticks that a log's files hold."""
    found = set()
    for name in os.listdir(log):
        for kind, payload in records(os.path.join(log, name)):
            if kind == BLOCK and len(payload) >= 34:
                first, count = struct.unpack_from("<Q", payload)[0], struct.unpack_from("<H", payload, 32)[0]
                found.update(range(first, first + count))
            elif kind == TICK and len(payload) >= 8:
                found.add(struct.unpack_from("<Q", payload)[0])
    return found


def ledger_of(log):
    """First tick that is kept, next tick, ticks that are on the device; None without a ledger."""
    for _kind, payload in records(os.path.join(log, "ledger")):
        _begins, first, following, durable = struct.unpack_from("<4Q", payload)
        return first, following, durable
    return None


class Round:
    """One recording, its cut, and what is left."""

    def __init__(self, binary, disk, chance, number):
        self.binary, self.disk, self.random = binary, disk, chance
        self.log = os.path.join(disk.mount, f"log-{number}")
        self.wrong = []

    def record(self, lasts=None):
        command = [self.binary, "record", self.log, "--every", f"{EVERY * 1000:.0f}ms", "--keep", "8s"]
        if "--sync" in subprocess.run([self.binary, "record", "--help"], capture_output=True, text=True,
                                      check=False).stdout:
            command += ["--sync", f"{SYNC * 1000:.0f}ms"]
        command += ["--for", f"{lasts}s"] if lasts else []
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def read(self):
        """Rows that the program's own reader gives, and what it tells of damage."""
        target = os.path.join(self.disk.folder, "rows")
        done = subprocess.run([self.binary, "export", self.log, "--as", "csv", "-o", target, "--raw", "--json",
                               "--allow-damage"], capture_output=True, text=True, timeout=60, check=False)
        with contextlib.suppress(OSError):
            os.unlink(target)
        if done.returncode != 0:
            self.wrong.append(f"export: {done.stderr.strip()}")
            return 0, []
        answer = json.loads(done.stdout)
        return answer["rows"], answer["damage"]

    def check(self, known, durable, first):
        """Holds what is left against what was known to be on the device."""
        left = ticks_of(self.log)
        lost = [number for number in range(first, durable) if number not in left]
        if lost:
            self.wrong.append(f"{len(lost)} ticks that the device had are gone, from {lost[0]} to {lost[-1]}")
        rows, damage = self.read()
        if rows < len(left):
            self.wrong.append(f"{rows} rows are read of {len(left)} ticks that are there")
        lost_ticks = sum(entry["ticks_lost"] or 0 for entry in damage)
        return {"recorded": known, "on_device": durable, "left": max(left, default=-1) + 1, "told": lost_ticks}

    def run(self):
        recorder = self.record()
        time.sleep(self.random.uniform(1.0, 6.0))
        if recorder.poll() is not None:
            message = recorder.stderr.read().decode().strip()
            return {"recorded": 0, "on_device": None, "left": 0, "told": None, "wrong": [f"record ended: {message}"]}
        before = max(ticks_of(self.log), default=-1) + 1
        ledger = ledger_of(self.log)
        self.disk.disk.cut()
        os.kill(recorder.pid, signal.SIGKILL)
        recorder.communicate()
        self.disk.restart()
        if ledger is None:
            left = max(ticks_of(self.log), default=-1) + 1 if os.path.isdir(self.log) else 0
            lost = (before - left) * EVERY
            return {"recorded": before, "on_device": None, "left": left, "told": None,
                    "wrong": [f"no ledger says what the device has; {before - left} ticks ({lost:.1f} s) are lost"]}
        row = self.check(ledger[1], ledger[2], ledger[0])
        self.go_on()
        row["wrong"] = self.wrong
        return row

    def go_on(self):
        """The next recorder begins on what is left, ends in order, and the power goes again."""
        recorder = self.record(lasts=0.5)
        message = recorder.communicate()[1].decode()
        if recorder.returncode != 0:
            self.wrong.append(f"the next recorder failed: {message.strip()}")
            return
        closed = ticks_of(self.log)
        self.disk.disk.cut(0.0)
        self.disk.restart()
        if ticks_of(self.log) != closed:
            self.wrong.append("a log that was closed lost ticks")


def run(binary=None, rounds=3, seed=1):
    """Rows of the table, one a round; each has `wrong`, empty where all is well."""
    binary = binary or os.environ.get("DISKWRIGHT") or os.path.join(ROOT, "target/release/diskwright")
    chance = random.Random(seed)
    disk = forgetful.Attached(96 << 20, seed)
    rows = []
    try:
        disk.attach()
        disk.format()
        disk.up()
        for number in range(rounds):
            rows.append(Round(binary, disk, chance, number).run())
    finally:
        disk.disk.power_on()
        disk.close()
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--binary")
    options = parser.parse_args()
    why = forgetful.missing()
    if why:
        print(f"skipped: {why}", file=sys.stderr)
        return 0
    rows = run(options.binary, options.rounds, options.seed)
    print("round  recorded  on device  left  lost (s)  told")
    for number, row in enumerate(rows):
        lost = (row.get("recorded", 0) - row.get("left", 0)) * EVERY
        print(f"{number:5}  {row.get('recorded'):8}  {row.get('on_device')!s:>9}  {row.get('left'):4}  "
              f"{lost:8.2f}  {row.get('told')}  {'; '.join(row['wrong']) or 'well'}")
    return 1 if any(row["wrong"] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())

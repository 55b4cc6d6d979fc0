"""Hostile words, and what must not be left of them in what is written to people."""

import csv
import io
import os
import pty
import re
import subprocess
import threading

# Title, clear screen, C1 control, right-to-left override, isolates, delete, backspace.
NASTY = "n\x1b]0;PWN\x07\x1b[2J\x9b31m\u202egpj\u2066\x7f\x08"
FORGED = "FORGED: all is well"
FORGED_LINE = "a forged line"
# The same with an end of line, where the place can hold one.
NASTY_LINES = NASTY + "\n" + FORGED + "\r" + FORGED
MARKUP = "<img src=x onerror=alert(1)>"
FORMULAS = ["=cmd|'/C calc'!A0", "+1+1", "-2+3", "@SUM(1)"]
LONG = "A" * 10_000

# What a program of good faith says to a terminal: colours, clearing of a line, moving up, hiding the cursor.
OWN = re.compile(r"\x1b\[[0-9;]*[mKAJGBCD]|\x1b\[\?25[lh]|\x1b\[\?2026[lh]")
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def controls(output, terminal=False, moving=False):
    """Control characters in an output that are not a plain end of line or tab. `terminal`: an end of
    line is \\r\\n there. `moving`: a progress line is drawn anew there."""
    text = output.decode("utf-8", "replace")
    if moving:
        text = OWN.sub("", text).replace("\r", "\n")
    if terminal:
        text = re.sub("\r+\n", "\n", text)
    found = sorted({f"U+{ord(c):04X}" for c in CONTROLS.findall(text)})
    if any(line.startswith(FORGED) for line in re.split("[\r\n]", text)):
        found.append(FORGED_LINE)
    return found


def formulas(text):
    """Cells of a CSV text that a spreadsheet would run."""
    return [cell for row in csv.reader(io.StringIO(text)) for cell in row if is_formula(cell)]


def is_formula(cell):
    if not cell or cell[0] not in "=+-@\t\r":
        return False
    try:
        float(cell)
    except ValueError:
        return True
    return False


def on_terminals(argv, env, cwd, patience=60):
    """A program whose outputs are two terminals; what it wrote to each, and its exit code."""
    masters, texts, threads = [], [b"", b""], []
    slaves = []
    for _ in range(2):
        master, slave = pty.openpty()
        masters.append(master)
        slaves.append(slave)
    process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=slaves[0], stderr=slaves[1], env=env, cwd=cwd,
                               start_new_session=True)
    for slave in slaves:
        os.close(slave)

    def read(number):
        parts = []
        try:
            while part := os.read(masters[number], 1 << 16):
                parts.append(part)
        except OSError:  # how a terminal ends
            pass
        texts[number] = b"".join(parts)
    for number in range(2):
        threads.append(threading.Thread(target=read, args=(number,), daemon=True))
        threads[-1].start()
    try:
        code = process.wait(patience)
    except subprocess.TimeoutExpired:
        process.kill()
        code = process.wait()
    for thread in threads:
        thread.join(10)
    for master in masters:
        os.close(master)
    return texts[0], texts[1], code

"""What a person sees of a command: it runs on a terminal of its own, and the rows that it leaves are read."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
import unicodedata

ROWS, COLUMNS = 24, 80
# Escape sequences: of control (CSI), of the operating system (OSC), of two characters.
ESCAPE = re.compile(r"\x1b(?:\[([0-9;?]*)[ -/]*([@-~])|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_=>()][0-9A-B]?)")
# The answer is for a person who looks at it: no width but the terminal's.
FORGOTTEN = ("COLUMNS", "LINES", "NO_COLOR")


class TooLong(Exception):
    """A command did not end in time."""


def run(argv, patience, environment=None):
    """Runs a command on a terminal of 24 rows and 80 columns. Returns its exit code and what it wrote."""
    pid, terminal = pty.fork()
    if pid == 0:
        _become(argv, environment or {})
    try:
        return _read_all(pid, terminal, patience, argv)
    finally:
        os.close(terminal)


def _become(argv, environment):
    """The child: becomes the command, or ends as a shell would for a missing one."""
    try:
        for name in FORGOTTEN:
            os.environ.pop(name, None)
        os.environ |= {"TERM": "xterm-256color"} | environment
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        os.execvp(argv[0], argv)
    finally:
        os._exit(127)


def _read_all(pid, terminal, patience, argv):
    written, end = b"", time.monotonic() + patience
    while True:
        left = end - time.monotonic()
        if left <= 0:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise TooLong(f"{' '.join(argv)[:120]}: no end after {patience} s")
        if not select.select([terminal], [], [], left)[0]:
            continue
        try:
            some = os.read(terminal, 1 << 16)
        except OSError:  # the last user of the terminal has gone
            some = b""
        if not some:
            break
        written += some
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), written.decode("utf-8", errors="replace")


def rows_of(written):
    """The rows that a text leaves on a terminal, from the first; what was overwritten is gone."""
    screen = _Screen()
    at = 0
    while at < len(written):
        if escape := ESCAPE.match(written, at):
            screen.obey(escape[1] or "", escape[2])
            at = escape.end()
        else:
            screen.put(written[at])
            at += 1
    rows = ["".join(row).rstrip() for row in screen.rows]
    while rows and not rows[-1]:
        rows.pop()
    while rows and not rows[0]:
        rows.pop(0)
    return rows


class _Screen:
    """As much of a terminal as commands that print and draw progress use."""

    def __init__(self):
        self.rows, self.row, self.column = [[]], 0, 0

    def put(self, char):
        if char == "\r":
            self.column = 0
        elif char == "\n":
            self._go_down()
        elif char == "\b":
            self.column = max(0, self.column - 1)
        elif char >= " ":
            width = 2 if unicodedata.east_asian_width(char) in "WF" else 1
            if self.column + width > COLUMNS:
                self._go_down()
                self.column = 0
            row = self.rows[self.row]
            row += " " * (self.column + 1 - len(row))
            row[self.column] = char
            self.column += width

    def _go_down(self):
        self.row += 1
        if self.row == len(self.rows):
            self.rows.append([])

    def obey(self, numbers, order):
        count = int(numbers) if numbers.isdigit() else 0
        if order == "K":
            self._clear_line(count)
        elif order == "J":
            self.rows = [[]] if count >= 2 else self.rows[:self.row + 1]
            self.row = min(self.row, len(self.rows) - 1)
        elif order == "A":
            self.row = max(0, self.row - max(1, count))
        elif order == "G":
            self.column = max(0, count - 1)

    def _clear_line(self, which):
        row = self.rows[self.row]
        if which == 2:
            row.clear()
        elif which == 0:
            del row[self.column:]
        else:
            row[:self.column] = " " * min(self.column, len(row))

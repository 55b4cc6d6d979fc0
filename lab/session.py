"""What a run on this machine begins and ends with, whatever it makes: a binary,
signals that lead to an end in order, and everything undone."""

import contextlib
import fcntl
import os
import signal
import subprocess
import sys

from undo import JOURNAL_DIR, STOPS, Undo, clean_leftovers, uninterrupted

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
BINARY = os.path.join(os.environ.get("CARGO_TARGET_DIR") or os.path.join(ROOT, "target"), "release", "diskwright")


class Interrupted(BaseException):
    """A signal asked for an end. Not an Exception, so that nothing mistakes it for one."""


def say(text):
    print(text, file=sys.stderr, flush=True)


def build(caller):
    """The release binary, built."""
    say("cargo build --release")
    done = subprocess.run(["cargo", "build", "--release", "--quiet"], cwd=ROOT, check=False)
    if done.returncode != 0:
        sys.exit(f"{caller}: the build failed")
    return BINARY


def with_sbin():
    """Debian keeps mkfs, losetup and their like where users do not look."""
    os.environ["PATH"] = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])


def lock(caller, name="lock"):
    """Two runs at once would be each other's noise. Returns what holds the lock until it is closed."""
    os.makedirs(JOURNAL_DIR, exist_ok=True)
    file = open(os.path.join(JOURNAL_DIR, name), "w", encoding="ascii")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        sys.exit(f"{caller}: another run is going on")
    return file


def catch_signals():
    def interrupt(number, _frame):
        raise Interrupted(signal.Signals(number).name)

    for number in STOPS:
        signal.signal(number, interrupt)


@contextlib.contextmanager
def undoing(name):
    """Undoes whatever the body did, and cannot be interrupted while at it."""
    undo = Undo(name)
    try:
        yield undo
    finally:
        with uninterrupted():
            for trouble in undo.all():
                say(f"{name}: could not undo: {trouble}")


def clean():
    """Undoes what killed runs left behind. Returns whether all of it could be."""
    runs, troubles = clean_leftovers()
    if runs:
        say(f"cleaned up after {runs} killed run(s)")
    for trouble in troubles:
        say(f"could not undo: {trouble}")
    return not troubles

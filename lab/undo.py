"""What must be undone, newest first, whatever happens.

Every step is plain data, not a closure, and is written to a journal before
the thing it undoes is made. So a run that was killed outright (SIGKILL, a
crashed machine) can still be cleaned up later by `lab/run --clean`.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time

JOURNAL_DIR = ("/run/diskwright-lab" if os.access("/run", os.W_OK)
               else f"/tmp/diskwright-lab-{os.getuid()}")
STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def uninterrupted():
    """Holds signals back, for example between doing a thing and noting its undoing.

    The handlers are swapped and the signals not masked, because a mask would be
    inherited by the programs started meanwhile.
    """
    caught = []
    before = {number: signal.signal(number, lambda got, _frame: caught.append(got))
              for number in STOPS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if caught:
            signal.raise_signal(caught[0])


def start_time_of(pid):
    """The kernel's start time of a process, or None: a pid alone may have been reused."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            fields = file.read().rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        return None
    if fields[0] == "Z":
        return None
    return int(fields[19])


class Undo:
    """A stack of steps that put the machine back as it was."""

    def __init__(self, name):
        os.makedirs(JOURNAL_DIR, exist_ok=True)
        self.path = os.path.join(JOURNAL_DIR, f"{name}-{os.getpid()}.json")
        self.steps = []

    def push(self, *step):
        """Adds a step: ("run", argv...), ("detach", binary, device), ("kill", pid),
        ("write", path, text), ("rmdir", path), ("rmtree", path)."""
        if step[0] == "kill":
            step = ("kill", step[1], start_time_of(step[1]))
        self.steps.append(list(step))
        self._save()

    def forget(self, *step):
        """Drops a step that was undone meanwhile."""
        self.steps.remove(list(step))
        self._save()

    def all(self):
        """Undoes every step, newest first; returns what could not be undone."""
        failed = []
        while self.steps:
            trouble = undo_step(self.steps[-1])
            if trouble:
                failed.append(trouble)
            self.steps.pop()
            self._save()
        if os.path.exists(self.path):
            os.unlink(self.path)
        return failed

    def _save(self):
        scratch = self.path + ".new"
        with open(scratch, "w", encoding="utf-8") as file:
            json.dump({"owner": os.getpid(), "owner_start": start_time_of(os.getpid()),
                       "steps": self.steps}, file)
        os.replace(scratch, self.path)


def undo_step(step):
    """Undoes one step. Returns None, or one line that says what went wrong."""
    action, rest = step[0], step[1:]
    try:
        if action == "run":
            return run_until_done(rest)
        if action == "detach":
            # What `disk attach` made goes with its server, so it may be gone.
            return run_until_done([rest[0], "disk", "detach", rest[1]], "was not made by `disk attach`")
        if action == "kill":
            return kill(rest[0], rest[1])
        if action == "write":
            with open(rest[0], "w", encoding="ascii") as file:
                file.write(rest[1])
        elif action == "rmdir":
            return retry(lambda: os.rmdir(rest[0]), f"rmdir {rest[0]}")
        elif action == "rmtree":
            shutil.rmtree(rest[0], ignore_errors=True)
        else:
            return f"unknown step {step}"
    except FileNotFoundError:
        return None
    except OSError as error:
        return f"{' '.join(map(str, step))}: {error}"
    return None


def run_until_done(argv, done_already=None):
    """Unmounting and detaching say "busy" for a moment after the last user left.
    Where `done_already` is said, there is nothing left to do."""
    for _ in range(50):
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.returncode == 0 or done_already and done_already in done.stderr:
            return None
        time.sleep(0.2)
    return f"{' '.join(argv)}: {done.stderr.strip()}"


def retry(action, name):
    for _ in range(50):
        try:
            action()
            return None
        except FileNotFoundError:
            return None
        except OSError as error:
            last = error
        time.sleep(0.1)
    return f"{name}: {last}"


def kill(pid, started):
    """Ends a process and its group, if it is still the one that we started."""
    reap_child(pid)
    if started is None or start_time_of(pid) != started:
        return None
    for sign, patience in ((signal.SIGTERM, 10), (signal.SIGKILL, 10)):
        try:
            os.killpg(pid, sign)
        except ProcessLookupError:
            return None
        if wait_until_gone(pid, started, patience):
            return None
    return f"process {pid} does not end"


def wait_until_gone(pid, started, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        reap_child(pid)
        if start_time_of(pid) != started:
            return True
        time.sleep(0.05)
    return False


def reap_child(pid):
    """Takes a child's exit status, where it is a child of ours and has ended."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def clean_leftovers():
    """Finishes the undoing of runs that were killed. Returns (runs, troubles)."""
    runs, troubles = 0, []
    if not os.path.isdir(JOURNAL_DIR):
        return runs, troubles
    for name in sorted(os.listdir(JOURNAL_DIR)):
        path = os.path.join(JOURNAL_DIR, name)
        if not name.endswith(".json"):
            continue
        with open(path, encoding="utf-8") as file:
            journal = json.load(file)
        if start_time_of(journal["owner"]) == journal["owner_start"]:
            continue  # that run is still going
        runs += 1
        for step in reversed(journal["steps"]):
            trouble = undo_step(step)
            if trouble:
                troubles.append(trouble)
        os.unlink(path)
    return runs, troubles

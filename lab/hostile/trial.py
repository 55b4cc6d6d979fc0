"""What every case stands on: a case, its outcome, and a bench with a folder,
devices and programs that are all undone.

A case says beforehand what is tried and what must hold. Its function makes the
trouble and returns what happened, in words; where something did not hold, it
raises `Broken` with what happened instead.
"""

import contextlib
import hashlib
import os
import shutil
import signal
import subprocess
import threading
import time
from dataclasses import dataclass, field
from typing import Callable

from machine import Machine, Unavailable, need_root, wait_for
from session import undoing
from undo import kill, start_time_of, uninterrupted

# Nothing that is tried here may take more; what does is ended, and has not held.
MOST_MEMORY = 3 << 30
PATIENCE = 120
PAGE = os.sysconf("SC_PAGESIZE")


class Broken(Exception):
    """What must hold did not; the text says what happened."""


@dataclass(frozen=True)
class Case:
    """One thing that is tried."""
    name: str
    tried: str
    must: str
    check: Callable
    arguments: tuple = ()
    needs: frozenset = frozenset()
    tiny: bool = False


@dataclass
class Done:
    """A program that has ended."""
    code: int
    out: bytes
    err: bytes
    seconds: float
    peak: int = 0
    ended: bool = field(default=False)

    @property
    def said(self):
        """The last line of its standard error, for people: without what a terminal would take for orders."""
        lines = [line for line in self.err.decode("utf-8", "replace").splitlines() if line.strip()]
        return escape_controls(lines[-1] if lines else "")


def escape_controls(text, max_length=160):
    """Escapes every character of a text that is not a plain one, and cuts it to a length."""
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return shown if len(shown) <= max_length else shown[:max_length - 1] + "…"


def checksum(path):
    """Checksum of a file or device, read past a stale page cache of a device."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        if not os.path.isfile(path):
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def resident(session):
    """Bytes of memory that the processes of a session hold together."""
    total = 0
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", encoding="ascii", errors="replace") as file:
                fields = file.read().rsplit(")", 1)[1].split()
        except (OSError, IndexError):
            continue
        if int(fields[3]) == session:
            total += int(fields[21]) * PAGE
    return total


class Watcher(threading.Thread):
    """Follows the memory of a program and its children; ends them where they take too much."""

    def __init__(self, process, most):
        super().__init__(daemon=True)
        self.process, self.most = process, most
        self.peak, self.over = 0, threading.Event()
        self.stopped = threading.Event()
        self.start()

    def run(self):
        while not self.stopped.wait(0.03):
            self.peak = max(self.peak, resident(self.process.pid))
            if self.peak > self.most and not self.over.is_set():
                self.over.set()
                kill_session(self.process)

    def finish(self):
        self.stopped.set()
        self.join()


def kill_session(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


class Bench(Machine):
    """One case's hands: the lab's machine, and what the hostile need besides."""

    def __init__(self, undo, binary, tiny=False):
        super().__init__(undo, settle=0, watched=0, binary=binary)
        self.tiny = tiny
        self.environment = dict(os.environ, NO_COLOR="1", LC_ALL="C.UTF-8", HOME=self.folder)

    def path(self, name):
        return os.path.join(self.folder, name)

    def disk_folder(self):
        """A folder on a real filesystem, where swap files, links and modes are as usual."""
        return self._temporary_folder("/var/tmp")

    def write(self, name, content):
        path = self.path(name)
        with open(path, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
        return path

    # --- Diskwright ----------------------------------------------------------

    def run(self, *words, **more):
        """Diskwright, run to its end."""
        return self.program([self.binary, *map(str, words)], **more)

    def program(self, argv, env=None, patience=PATIENCE, memory=MOST_MEMORY, cwd=None, **more):
        """A program, run to its end, and what it took. It is ended after `patience` seconds."""
        began = time.monotonic()
        with uninterrupted():
            process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                env=self.environment | (env or {}), cwd=cwd or self.folder, start_new_session=True, **more)
            self.undo.push("kill", process.pid)
        watcher = Watcher(process, memory)
        ended = False
        try:
            out, err = process.communicate(timeout=patience)
        except subprocess.TimeoutExpired:
            ended = True
            kill_session(process)
            out, err = process.communicate()
        watcher.finish()
        self.undo.steps = [step for step in self.undo.steps if step[:2] != ["kill", process.pid]]
        return Done(process.returncode, out, err, time.monotonic() - began, watcher.peak,
                    ended or watcher.over.is_set())

    def begin(self, *words, env=None, argv=(), **more):
        """Diskwright, started; `argv` goes before it. Both outputs are in files."""
        self.made += 1
        process_out, process_err = self.path(f"{self.made}.out"), self.path(f"{self.made}.err")
        with open(process_out, "wb") as out, open(process_err, "wb") as err, uninterrupted():
            process = subprocess.Popen([*argv, self.binary, *map(str, words)], stdout=out, stderr=err,
                                       env=self.environment | (env or {}), cwd=self.folder, start_new_session=True,
                                       **{"stdin": subprocess.DEVNULL} | more)
            self.undo.push("kill", process.pid)
        process.out, process.err, process.log = process_out, process_err, process_err
        return process

    def end(self, process, sign=signal.SIGINT, patience=60):
        """Sends a signal and waits for the end; how many seconds it took."""
        began = time.monotonic()
        process.send_signal(sign)
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            kill_session(process)
            with contextlib.suppress(subprocess.TimeoutExpired):  # on a disk that hangs not even this ends it
                process.wait(10)
        return time.monotonic() - began

    # --- devices ---------------------------------------------------------------

    def image(self, name, mib, folder=None):
        """A file with bytes in it that are known by their sum, not by their holes."""
        path = os.path.join(folder or self.folder, name)
        block = hashlib.sha256(name.encode()).digest() * 32768
        with open(path, "wb") as file:
            for _ in range(mib):
                file.write(block)
        return path

    def loop(self, file, *options):
        need_root("loop devices")
        with uninterrupted():
            device = self.output(["losetup", "--find", "--show", *options, file])
            self.undo.push("run", "losetup", "-d", device)
        return device

    def mount(self, device, name, *options):
        """A mount, which is undone; `options` go before the device."""
        point = self.path(name)
        os.makedirs(point, exist_ok=True)
        with uninterrupted():
            self.output(["mount", *options, device, point])
            self.undo.push("run", "umount", point)
        return point

    def filesystem(self, name="disk", mib=16):
        """An image with a small ext4 in it, a loop device over it, and where it is mounted."""
        image = self.ext4(self.image(name, mib))
        device = self.loop(image)
        point = self.mount(device, name + "-point", "-o", "noatime")
        return image, device, point

    def ext4(self, image):
        self.output(["mkfs.ext4", "-q", "-F", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0", image])
        return image


def fields_of(done):
    """The JSON document that a command printed."""
    import json
    try:
        return json.loads(done.out)
    except ValueError:
        raise Broken(f"exit {done.code} and no JSON: {done.said}") from None


def run_case(case, binary, tiny=False):
    """Tries one case; the outcome as a row of the table."""
    row = {"name": case.name, "tried": case.tried, "must": case.must}
    began, folder = time.monotonic(), ""
    try:
        with undoing("hostile-" + case.name.replace("/", "-").replace(" ", "-")) as undo:
            bench = Bench(undo, binary, tiny)
            folder = bench.folder
            for need in sorted(case.needs):
                if not shutil.which(need):
                    raise Unavailable(f"not installed: {need}")
            happened = case.check(bench, *case.arguments)
        row |= {"outcome": "held", "happened": happened}
    except Broken as broken:
        row |= {"outcome": "broken", "happened": str(broken)}
    except Unavailable as reason:
        row |= {"outcome": "skipped", "happened": str(reason)}
    except Exception as error:  # whatever it is, the other cases go on and this one is told of
        row |= {"outcome": "failed", "happened": f"{type(error).__name__}: {error}"}
    row["happened"] = escape_controls(row["happened"].replace(folder + "/", "") if folder else row["happened"], 300)
    row["seconds"] = round(time.monotonic() - began, 1)
    return row


__all__ = ["Bench", "Broken", "Case", "Done", "Unavailable", "checksum", "escape_controls", "fields_of", "kill",
           "run_case", "start_time_of", "wait_for"]

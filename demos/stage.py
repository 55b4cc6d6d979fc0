"""One side of a demonstration: a described system served as a disk of this
machine, a filesystem on it, and who watches from outside."""

import json
import os
import subprocess
import time

import others
from machine import LabError, need_root
from undo import uninterrupted

HERE = os.path.dirname(os.path.abspath(__file__))
SYSTEMS = os.path.join(HERE, "systems")


class Side:
    """What is served: a description with some keys set."""

    def __init__(self, name, system, settings=None):
        self.name = name
        self.system = system
        self.settings = settings or {}
        self.file = os.path.join(SYSTEMS, system + ".toml")

    def words(self):
        return [word for key, value in self.settings.items() for word in ("--set", f"{key}={value}")]

    def command(self):
        """As a user would write it."""
        return " ".join(["diskwright disk", f"demos/systems/{self.system}.toml", *self.words()])


class Stage:
    """A side in use. Everything is undone by the machine's `undo`."""

    def __init__(self, machine, side, logs):
        need_root("virtual disks as block devices")
        self.machine = machine
        self.side = side
        self.inside = os.path.join(logs, "inside")
        self.outside = os.path.join(logs, "outside")
        self.device = None
        self.attached_by = self.cache_seen = self.others = None
        self.limits = []

    def serve(self, *words, speed=1, record=True):
        """Serves the side's system and returns the server and its first URI."""
        first = ["chrt", "-f", "20"] if speed == 1 else []
        argv = [*first, self.machine.binary, "disk", self.side.file, "--json", "--speed", str(speed),
                *self.side.words(), *words]
        if record:
            argv += ["--record", self.inside]
        server = self.machine.start(argv + ["--socket", self._path("socket")])
        document = self._announced(server)
        return server, document["exports"][0]["uri"]

    def _announced(self, server, patience=20):
        end = time.monotonic() + patience
        while time.monotonic() < end:
            with open(server.log, encoding="utf-8", errors="replace") as file:
                text = file.read()
            start = text.find("{")
            if start >= 0:
                try:
                    return json.JSONDecoder().raw_decode(text[start:])[0]
                except ValueError:
                    pass
            if server.poll() is not None:
                raise LabError(f"{self.side.command()}: ended early: {text[-400:].strip()}")
            time.sleep(0.05)
        raise LabError(f"{self.side.command()}: served nothing within {patience} s: {text[-400:].strip()}")

    def stop(self, server):
        """Ends a server in order, and waits until it has let go of its content."""
        server.terminate()
        try:
            server.wait(60)
        except subprocess.TimeoutExpired:
            raise LabError(f"{self.side.command()}: does not end") from None

    def attach(self, uri):
        """Makes the export a block device, by the best path that the kernel has."""
        # a disk does not wait for programs, whatever else this machine does
        argv = ["chrt", "-f", "20", self.machine.binary, "disk", "attach", uri, "--json"]
        with uninterrupted():
            made = json.loads(run(argv, 60))
            self.machine.undo.push("run", self.machine.binary, "disk", "detach", made["device"])
        self.device, self.attached_by, self.limits = made["device"], made["by"], made["limits"]
        self.cache_seen = self.write_cache()

    def format(self, size_mib):
        """An ext4 of the first part of the device, mounted; its files are gone, not
        written back, when it is undone."""
        self.machine.output(["mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard",
                             self.device, f"{size_mib}m"])
        return self.mount()

    def mount(self):
        folder = self.machine._mount(self.device)
        self.machine.undo.push("rmtree", os.path.join(folder, "data"))
        os.makedirs(os.path.join(folder, "data"), exist_ok=True)
        return os.path.join(folder, "data")

    def watch(self, load, settle, seconds):
        """Lets a load come to its pace and watches it from outside for so long.
        Returns the stretch, seconds since 1970. A load that dies before is told."""
        time.sleep(settle)
        self.lives(load)
        meter = others.Meter()
        began = time.time()
        run([self.machine.binary, "record", self.outside, "--every", "1s", "--for", f"{seconds}s"], seconds + 60)
        ended = time.time()
        self.others = meter.share()
        self.lives(load)
        return began, ended

    def lives(self, load):
        if load.poll() is not None:
            raise LabError(f"the load ended early: {log_tail(load)}")

    def ends(self, load, patience):
        """Waits for a load's own end."""
        try:
            load.wait(patience)
        except subprocess.TimeoutExpired:
            raise LabError(f"the load has not ended {patience} s after it should have") from None
        if load.returncode:
            raise LabError(f"the load failed: {log_tail(load)}")

    def write_cache(self):
        """What the kernel believes of the device's cache: `write back` is flushed."""
        name = os.path.basename(self.device)
        with open(f"/sys/block/{name}/queue/write_cache", encoding="ascii") as file:
            return file.read().strip()

    def _path(self, ending):
        return os.path.join(self.machine.folder, f"side-{self.machine.made}.{ending}")


def with_priority(argv):
    """Returns the command line of a program with priority over others here, as on a machine of its own.

    Where the kernel groups programs by session, a program's own niceness counts only
    within its session, and the group's is another file.
    """
    return ["sh", "-c", '{ echo -10 >/proc/self/autogroup; } 2>/dev/null; exec nice -n -10 "$@"', "sh", *argv]


def log_tail(process):
    """Returns the end of the log of a helper."""
    with open(process.log, encoding="utf-8", errors="replace") as file:
        return file.read()[-400:].strip()


def run(argv, patience):
    """Runs a command to its end and returns what it printed."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL,
                              timeout=patience, check=False)
    except subprocess.TimeoutExpired as error:
        raise LabError(f"{' '.join(argv)[:120]}: no end after {patience:.0f} s") from error
    if done.returncode:
        raise LabError(f"{' '.join(argv)[:120]}: {(done.stderr or done.stdout).strip()[-400:]}")
    return done.stdout

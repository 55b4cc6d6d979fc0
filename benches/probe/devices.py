"""Real block devices with a known truth, built on the lab's machine.

A paced device is nbdkit's memory disk behind its delay filter on a Unix socket,
mounted as a file by nbdfuse with sixteen connections and attached by losetup:
the kernel's own block layer in front, a known service time behind. It serves
about ten requests at once, so nothing here asks it for more than eight.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "lab"))
sys.dont_write_bytecode = True

from machine import (Machine, Unavailable, need_root, read_text, wait_for, whole_disk_of,  # noqa: E402
                     write_text)
from undo import uninterrupted  # noqa: E402

# before everything that is not real-time: compilers beside us must not be measured
REAL_TIME = ["chrt", "-f", "50"]
ZRAM = "/sys/class/zram-control"


class Devices(Machine):
    """The bench's hands: everything made goes away with the `Undo`."""

    def __init__(self, undo):
        super().__init__(undo, 0, 0)
        self.servers = {}

    def paced(self, delay_ms, size_mib=1024):
        """A device that takes `delay_ms` for every request; its path in /dev."""
        return self._attach_served(self.paced_file(delay_ms, size_mib))

    def _attach_served(self, mount):
        device = self._attach(mount)
        self.servers[device] = self.servers[mount]
        return device

    def paced_file(self, delay_ms, size_mib=1024):
        """The same as a file, without the kernel's block layer before it."""
        need_root("loop devices")
        if not os.path.exists("/dev/fuse"):
            raise Unavailable("no /dev/fuse, so no NBD export as a file")
        base = os.path.join(self.folder, f"paced{self.made}")
        socket, mount, stats = base + ".socket", base + ".nbd", base + ".stats"
        # the outermost filter sees how long the server really took
        names = ["--filter=stats", "--filter=delay"]
        delay = [f"rdelay={delay_ms}ms", f"wdelay={delay_ms}ms"] if delay_ms else []
        server = self.start([*REAL_TIME, "nbdkit", "-f", "-U", socket, *names, "memory", f"{size_mib}M", *delay,
                             f"statsfile={stats}"])
        wait_for(lambda: os.path.exists(socket), "nbdkit's socket")
        open(mount, "w", encoding="ascii").close()
        with uninterrupted():
            client = self.start([*REAL_TIME, "nbdfuse", "-C", "16", mount, f"nbd+unix:///?socket={socket}"])
            # the client may have ended and unmounted it by then
            self.undo.push("run", "sh", "-c", 'fusermount3 -u "$0" || ! mountpoint -q "$0"', mount)
        wait_for(lambda: os.stat(mount).st_size > 0, f"{mount} to be served")
        self.servers[mount] = (server.pid, client.pid, stats)
        return mount

    def truth(self, target):
        """Ends a paced target's server; the mean time that it took for a read, seconds."""
        pid, client, stats = self.servers[target]
        # the server ends when its clients have gone
        for process in (client, pid):
            os.kill(process, signal.SIGTERM)
        wait_for(lambda: "read:" in read_text(stats), f"{stats}")
        found = re.search(r"^read: (\d+) ops, ([\d.]+) s", read_text(stats), re.MULTILINE)
        return float(found[2]) / int(found[1])

    def loop_over(self, path):
        """A loop device over a file, past the page cache."""
        return self._attach(path)

    def room(self, mib):
        """A folder on this machine's disk with so much room; notes the disk."""
        folder = self._temporary_folder("/var/tmp")
        self.disks.append(whole_disk_of(folder))
        if shutil.disk_usage(folder).free < mib << 20:
            raise Unavailable(f"too little room in {folder}")
        return folder

    def zram(self, size_mib=256):
        """A compressed disk in memory, filled with what cannot be compressed."""
        if not os.access(ZRAM, os.W_OK):
            raise Unavailable("the kernel has no zram")
        with uninterrupted():
            number = read_text(os.path.join(ZRAM, "hot_add"))
            # as a command, because those are tried again while the device is busy for a moment
            self.undo.push("run", "sh", "-c", f"echo {number} > {ZRAM}/hot_remove")
        write_text(f"/sys/block/zram{number}/disksize", str(size_mib << 20))
        device = f"/dev/zram{number}"
        self.fill(device, size_mib)
        return device


class Stalls:
    """Stops a device's server for `lasts` seconds in every `period`, from its
    entry to its end; the server always goes on afterwards."""

    def __init__(self, pid, period, lasts):
        self.pid, self.period, self.lasts = pid, period, lasts
        self.over = threading.Event()
        self.stalls = 0
        self.thread = threading.Thread(target=self._work, daemon=True)

    def _work(self):
        next_at = time.monotonic() + self.period - self.lasts
        while not self.over.wait(max(0.0, next_at - time.monotonic())):
            os.kill(self.pid, signal.SIGSTOP)
            self.stalls += 1
            self.over.wait(self.lasts)
            os.kill(self.pid, signal.SIGCONT)
            next_at += self.period

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()
        os.kill(self.pid, signal.SIGCONT)


def versions():
    """What the runs were made with."""
    outputs = {}
    for argv in (["fio", "--version"], ["nbdkit", "--version"], ["uname", "-r"]):
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        outputs[argv[0]] = done.stdout.strip()
    return outputs

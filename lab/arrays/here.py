"""btrfs arrays on this machine's own kernel, over drives of our own virtual disk.

The members are one-armed drives of one described system, each attached to the
kernel (`disk attach`).
"""

import os
import time

from levels import OUTSTANDING
from load import SECTOR, fio_words, outcome, take_readings
from machine import LabError, need_root, read_text, write_text
from undo import kill, start_time_of

SERVED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "systems", "served.toml")
# Of each thread's own file. All lie in the first chunk of data (205 MiB on members of 1 GiB): btrfs
# pairs members anew for each chunk, and a member that is missing is then not where the model has it.
FILE_MIB = 6


class Here:
    """So many slow disks, and a btrfs over some of them."""

    def __init__(self, machine, members):
        need_root("btrfs over block devices")
        self.machine = machine
        self.kind = self.model = "arm"
        self.about = "Linux " + os.uname().release
        served = machine.system(SERVED, {"disk.count": members})
        self.devices = [served.device(f"disk{number}") for number in range(members)]
        for device in self.devices:
            self._no_throttle(device)
        self.folder = None

    def _no_throttle(self, device):
        """The kernel's own holding back of buffered writes has no part in the model."""
        path = f"/sys/block/{os.path.basename(device)}/queue/wbt_lat_usec"
        if os.path.exists(path):
            self.machine.undo.push("write", path, read_text(path))
            write_text(path, "0")

    def make(self, level):
        """Written files without copy on write, so that requests to them are requests to members.

        Each thread has its own: where copies are kept, Linux makes a direct write a
        buffered one that is waited for, and whoever writes so waits for all readers
        of the file. A member that fails does so when the files are there.
        """
        members = self.devices[:level.members]
        self.folder = self.machine.mount_btrfs(members, level.level)
        for number in range(OUTSTANDING):
            self.machine.fill(os.path.join(self.folder, f"lab.{number}"), FILE_MIB)
        os.sync()
        if level.failed:
            self.machine.unmount(self.folder)
            for place in level.failed:
                self.machine.output(["btrfs", "device", "scan", "--forget", members[place]])
                self.machine.output(["wipefs", "-q", "-a", members[place]])
            self.folder = self.machine.mount(members[0], "noatime,degraded")
        return self.folder

    def unmake(self, level):
        self.machine.unmount(self.folder)
        for device in self.devices[:level.members]:
            self.machine.output(["wipefs", "-q", "-a", device])

    def measure(self, target, members, load, options):
        """Runs fio: as many threads as requests are outstanding, each with its own
        id, by which btrfs picks the copy to read. The bytes of its system calls are counted."""
        jobs = dict(numjobs=load.outstanding)
        if os.path.isdir(target):
            jobs = {"size": f"{FILE_MIB}m", "name": None, "filename": None}
        words = fio_words(target, load, options, iodepth=1, ioengine="psync", disk_util=0,
                          group_reporting=1, **jobs)
        if os.path.isdir(target):
            for number in range(load.outstanding):
                words += [f"--name=lab.{number}", f"--filename={target}/lab.{number}"]
        fio = self.machine.start(["fio", *words])
        try:
            readings = take_readings(lambda: sum(self._bytes(fio)) / load.mean_bytes,
                                     lambda: self._count(fio, members), options)
            even = self._even_ids(fio)
            if fio.poll() is not None:
                with open(fio.log, encoding="utf-8", errors="replace") as file:
                    raise LabError(f"fio ended: {file.read()[-400:].strip()}")
        finally:
            kill(fio.pid, start_time_of(fio.pid))
        return outcome("fio", readings, load) | {"even_ids": even}

    def _even_ids(self, fio):
        """The share of fio's reading and writing threads whose id is even."""
        folder, ids = f"/proc/{fio.pid}/task", []
        for name in os.listdir(folder):
            with open(f"{folder}/{name}/io", encoding="ascii") as file:
                counts = dict(line.split(": ") for line in file)
            if int(counts["syscr"]) + int(counts["syscw"]) > 1 and name != str(fio.pid):
                ids.append(int(name))
        return sum(number % 2 == 0 for number in ids) / max(len(ids), 1)

    def _bytes(self, fio):
        """What fio's threads have read and written by their system calls; those that it
        starts with are few."""
        with open(f"/proc/{fio.pid}/io", encoding="ascii") as file:
            counts = dict(line.split(": ") for line in file)
        return [int(counts[name]) for name in ("rchar", "wchar")]

    def _count(self, fio, members):
        """The moment, what fio's threads have read and written, in the form of
        /proc/diskstats (without requests and times), and the members' own lines."""
        read, written = (count // SECTOR for count in self._bytes(fio))
        moment, lines = time.monotonic(), [f"0 0 fio 0 0 {read} 0 0 0 {written} 0"]
        names = {os.path.basename(member) for member in members}
        with open("/proc/diskstats", encoding="ascii") as file:
            lines += [line for line in file if line.split()[2] in names]
        return moment, "\n".join(lines)

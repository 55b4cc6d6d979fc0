"""What a scenario builds on: devices, filesystems, swap, cgroups and loads.

Everything made here is pushed to the run's `Undo` in the same breath, so a
scenario never cleans up by itself. Loads stop by themselves as well.
"""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

from undo import kill, start_time_of, uninterrupted
from virtual import VirtualDisk

HERE = os.path.dirname(os.path.abspath(__file__))
CGROUPS = "/sys/fs/cgroup"


class Unavailable(Exception):
    """This machine cannot make the scenario; the text says why."""


class LabError(Exception):
    """Something that ought to work here did not."""


def log_tail(path):
    """The last words of a helper, for an error."""
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()[-400:].strip()


def wait_for(condition, event, seconds=20, process=None):
    """Waits for what a helper makes, and tells what it said if it dies before."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(OSError):
            if condition():
                return
        if process and process.poll() is not None:
            raise LabError(f"waited for {event}, and its program ended: {log_tail(process.log)}")
        time.sleep(0.02)
    raise LabError(f"waited {seconds} s for {event}")


class Machine:
    """One scenario's hands on the machine."""

    def __init__(self, undo, settle, watched, binary=None, logs=None):
        self.undo = undo
        self.binary = binary
        self.settle = settle
        self.watched = watched
        self.loads = []
        self.disks = []
        self.systems = []
        self.groups = []
        self.made = 0
        # Backing files live in memory, so that no real disk is part of the truth.
        memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self.folder = self._temporary_folder(memory)
        # Where served systems record what goes on inside; it may outlive the machine's folder.
        self.logs = logs or self.folder
        # Profiles of this machine's own use are no part of a scenario.
        os.environ["DISKWRIGHT_STATE"] = os.path.join(self.folder, "state")

    @property
    def seconds(self):
        """How long a load lives: past the end of what is watched, but not by much."""
        return self.settle + self.watched + 15

    # --- devices ---------------------------------------------------------

    def fast_disk(self, size_mib=512):
        """A loop device over a file in memory: tens of microseconds a request."""
        return self._attach(self._sparse_file("fast", size_mib))

    def system(self, name, settings=None, speed=1):
        """A described system, by its name or file, that `diskwright disk` serves; its
        exports can be attached.

        The settings are those of `--set`: system("one-arm", {"disk.plain.servers": 2}); the speed is that of `--speed`.
        """
        if not self.binary:
            raise Unavailable("no binary to serve a system with")
        system = VirtualDisk(self, name, settings or {}, speed)
        self.systems.append(system)
        return system

    def disk(self, name, settings=None):
        """A described system's default export as a block device."""
        return self.system(name, settings).device()

    def attach(self, socket, export):
        """An NBD export as a block device, by `disk attach`; the path into the kernel is
        the one that the scenarios were tried with, even where there is a better one.

        Should this run be killed before the device is noted, it goes all the same: its
        server's end is noted, and with the server goes what `disk attach` made.
        """
        need_root("block devices")
        if not os.path.exists("/dev/fuse"):
            raise Unavailable("no /dev/fuse, so no NBD export as a file")
        with uninterrupted():
            made = json.loads(self.output([self.binary, "disk", "attach", "--socket", socket, "--export", export,
                                           "--by", "fuse", "--json"]))
            self.undo.push("detach", self.binary, made["device"])
        self.disks.append(os.path.basename(made["device"]))
        return made["device"]

    def probe(self, device):
        """Has Diskwright measure a device, as a user would before there is any trouble."""
        if not self.binary:
            raise Unavailable("no binary to probe with")
        self.output([self.binary, "probe", "quick", device, "--for", "2200ms", "--ramp", "200ms"])

    def real_file(self, size_mib=256):
        """A written file on the disk that holds the temporary folder, with its disk's name."""
        folder = self._temporary_folder("/var/tmp")
        disk = whole_disk_of(folder)
        if shutil.disk_usage(folder).free < 4 * size_mib << 20:
            raise Unavailable(f"too little room in {folder}")
        path = os.path.join(folder, "data")
        self.fill(path, size_mib)
        self.disks.append(disk)
        return path, disk

    def _temporary_folder(self, parent):
        with uninterrupted():
            folder = tempfile.mkdtemp(prefix="diskwright-lab-", dir=parent)
            self.undo.push("rmtree", folder)
        return folder

    def _sparse_file(self, kind, size_mib):
        self.made += 1
        path = os.path.join(self.folder, f"{kind}{self.made}.image")
        with open(path, "wb") as file:
            file.truncate(size_mib << 20)
        return path

    def _attach(self, path):
        need_root("loop devices")
        with uninterrupted():
            device = self.output(["losetup", "--find", "--show", "--direct-io=on", path])
            self.undo.push("run", "losetup", "-d", device)
        self.disks.append(os.path.basename(device))
        return device

    # --- filesystems and swap ----------------------------------------------

    def mount_ext4(self, device, size="512m"):
        # Without lazy initialisation, which would go on writing behind the scenario;
        # and of no more of a disk than is used, because that takes a slow disk minutes.
        self.output(["mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0",
                     device, size])
        return self.mount(device)

    def mount_ext4_plain(self, device, size):
        """An ext4 without a journal: what is written to it is data, and very little else."""
        self.output(["mkfs.ext4", "-q", "-F", "-b", "4096", "-O", "^has_journal,^resize_inode", "-E",
                     "lazy_itable_init=0,nodiscard", device, size])
        return self.mount(device)

    def mount_btrfs(self, devices, level):
        """A btrfs over several devices; its files are made without copy on write,
        because direct writes to checksummed files go through the page cache."""
        with open("/proc/filesystems", encoding="ascii") as file:
            if "btrfs" not in file.read():
                raise Unavailable("the kernel has no btrfs")
        self.output(["mkfs.btrfs", "-q", "-f", "-d", level, "-m", level, *devices])
        folder = self.mount(devices[0])
        self.output(["chattr", "+C", folder])
        return folder

    def mount(self, device, options="noatime"):
        folder = tempfile.mkdtemp(prefix="mount-", dir=self.folder)
        with uninterrupted():
            self.output(["mount", "-o", options, device, folder])
            self.undo.push("run", "umount", folder)
        return folder

    def unmount(self, folder):
        self.output(["umount", folder])
        self.undo.forget("run", "umount", folder)

    def swap_on(self, device):
        # With more swap-outs queued than FUSE took in the background (a dozen, by
        # nbdfuse) it and the loop device's worker have been seen to wait for each
        # other for ever. It takes more now, which was not tried here.
        queue = "/sys/block/%s/queue/nr_requests" % os.path.basename(device)
        with open(queue, "w") as file:
            file.write("8")
        self.output(["mkswap", device])
        # Swapping off before the hog has gone would read every page back, slowly;
        # the hog is started later, so it is ended earlier.
        with uninterrupted():
            self.output(["swapon", "-p", "100", device])
            self.undo.push("run", "swapoff", device)

    def fill(self, path, size_mib):
        """Writes a file for good: holes and unwritten extents never reach a disk."""
        block = os.urandom(1 << 20)
        with open(path, "wb") as file:
            for _ in range(size_mib):
                file.write(block)
            file.flush()
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    # --- limits --------------------------------------------------------------

    def cgroup(self, controller, **limits):
        """A version 1 cgroup, with limits by the names of the controller's files."""
        need_root("cgroups")
        root = os.path.join(CGROUPS, controller)
        if not os.access(os.path.join(root, "cgroup.procs"), os.W_OK):
            raise Unavailable(f"no writable version 1 cgroup controller {controller}")
        group = os.path.join(root, f"diskwright-lab-{os.getpid()}")
        self.undo.push("rmdir", group)
        os.makedirs(group, exist_ok=True)
        self.groups.append(group)
        for name, value in limits.items():
            write_text(os.path.join(group, f"{controller}.{name}"), str(value))
        return group

    def limit(self, group, quantity, device, value):
        """Sets one blkio limit: limit(group, "read_iops", disk, 300)."""
        write_text(os.path.join(group, f"blkio.throttle.{quantity}_device"),
                   f"{device_number(device)} {value}")

    def limit_dirty_pages(self, background, limit):
        """Sets how many bytes may be dirty before writers are stopped."""
        for name, value in (("dirty_background", background), ("dirty", limit)):
            # Bytes and ratio exclude each other: the one in force is the one that
            # is not zero, and writing it back puts the other to zero again.
            paths = [f"/proc/sys/vm/{name}_{unit}" for unit in ("bytes", "ratio")]
            for path in paths:
                before = read_text(path)
                if before != "0":
                    self.undo.push("write", path, before)
            write_text(paths[0], str(value))

    def limit_queue(self, device, requests):
        """Sets how many requests the host has for a device at once."""
        path = f"/sys/block/{os.path.basename(device)}/queue/nr_requests"
        self.undo.push("write", path, read_text(path))
        write_text(path, str(requests))

    # --- loads ---------------------------------------------------------------

    def load(self, argv, cgroups=()):
        """Starts a load that ends by itself, inside the cgroups given."""
        for group in cgroups:
            argv = ["sh", "-c", 'echo $$ > "$0"/cgroup.procs && exec "$@"', group, *argv]
        process = self.start(["timeout", "-k", "5", str(self.seconds + 5), *argv])
        self.loads.append((process, argv))
        return process

    def fio(self, target, cgroups=(), **options):
        """An fio load; the options are fio's own: fio(disk, rw="randread", bs="4k").

        Requests are blocking ones of several processes unless said otherwise:
        the kernel counts a waiter of asynchronous I/O in no pressure and no iowait.
        """
        settings = {"name": "lab", "filename": target, "direct": 1, "ioengine": "psync",
                    "time_based": 1, "runtime": self.seconds, "group_reporting": 1,
                    "randrepeat": 1, "norandommap": 1, "thread": 0} | options
        argv = ["fio", *[f"--{key}={value}" for key, value in settings.items()
                         if value is not None]]
        return self.load(argv, cgroups)

    def own(self, name, *words, cgroups=()):
        """One of the small loads in loads.py."""
        return self.load([sys.executable, os.path.join(HERE, "loads.py"), name,
                          "--seconds", str(self.seconds), *map(str, words)], cgroups)

    def start(self, argv):
        """Starts a helper in a process group of its own, so that it can be ended whole."""
        self.made += 1
        log = os.path.join(self.folder, f"{self.made}-{os.path.basename(argv[0])}.log")
        with open(log, "wb") as out, uninterrupted():
            process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out,
                                       stderr=subprocess.STDOUT, start_new_session=True)
            self.undo.push("kill", process.pid)
        process.log = log
        return process

    wait_for = staticmethod(wait_for)

    def check_loads(self):
        """A load that died makes the truth a lie: say so instead of judging."""
        for process, argv in self.loads:
            if process.poll() is not None:
                raise LabError(f"the load ended early ({' '.join(argv)[:80]}...): {log_tail(process.log)}")

    def stop_loads(self):
        """Ends the loads before their logs are read, so that judging is not slowed."""
        for process, _ in self.loads:
            kill(process.pid, start_time_of(process.pid))

    def output(self, argv):
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.returncode:
            raise LabError(f"{' '.join(argv)}: {(done.stderr or done.stdout).strip()}")
        return done.stdout.strip()


def need_root(users):
    if os.geteuid() != 0:
        raise Unavailable(f"{users} need root")


def read_text(path):
    with open(path, encoding="ascii", errors="replace") as file:
        return file.read().strip()


def write_text(path, text):
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def device_number(device):
    """`7:8`, as the cgroup's limit files want it."""
    number = os.stat(device).st_rdev
    return f"{os.major(number)}:{os.minor(number)}"


def whole_disk_of(folder):
    """The disk below a folder's filesystem, or Unavailable where it has none."""
    number = os.stat(folder).st_dev
    link = f"/sys/dev/block/{os.major(number)}:{os.minor(number)}"
    if not os.path.exists(link):
        raise Unavailable(f"{folder} is not on a disk of its own")
    path = os.path.realpath(link)
    if os.path.exists(os.path.join(path, "partition")):
        path = os.path.dirname(path)
    return os.path.basename(path)

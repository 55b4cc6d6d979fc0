"""What the incidents build on, beside what every scenario of the lab has: servers, files, groups, containers, machines.

Everything made here is noted in the run's journal in the same breath, like all that `Machine` makes.
"""

import contextlib
import glob
import os
import re
import shutil
import signal
import socket
import subprocess

from incidents import remedies
from machine import Machine, Unavailable, need_root, read_text, write_text
from qemu import Drive, Guest, GuestError
from undo import uninterrupted

# Others compile on this machine, too. An incident's programs have as many times the weight of one task of them, and so
# have, in a group of their own as services have, the recorder and those who ask. The names are short, so that they
# are taken for no place.
WEIGHT = 64
CPU = "/sys/fs/cgroup/cpu"
TROUBLE_GROUP, ASKING_GROUP = f"{CPU}/dw-lab", f"{CPU}/dw-ask"
AS_POSTGRES = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
# Of the limits that a container is given, none may be above ours.
CONTAINER_WORDS = ["--cgroup-manager", "cgroupfs", "--runtime", "runc"]
CONTAINER_LIMITS = ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024"]


class Ground(Machine):
    """One incident's hands on the machine."""

    def __init__(self, undo, watched, binary, logs=None):
        super().__init__(undo, 0, watched, binary, logs)
        # servers have users of their own
        os.chmod(self.folder, 0o711)
        self.containers, self.container_ids = [], []
        self.server = None
        # the load of those who suffer, which tells its own rate
        self.victim = None

    def weigh(self):
        """Lets nobody else's work decide who gets the processors; without version 1 of cgroups, others may."""
        if os.access(f"{CPU}/cpu.shares", os.W_OK):
            for group in (TROUBLE_GROUP, ASKING_GROUP):
                self.undo.push("rmdir", group)
                os.makedirs(group, exist_ok=True)
                write_text(f"{group}/cpu.shares", str(1024 * WEIGHT))
            write_text(f"{ASKING_GROUP}/cgroup.procs", str(os.getpid()))

    @staticmethod
    def leave():
        """Leaves the group, which would not go otherwise."""
        if os.path.isdir(ASKING_GROUP):
            write_text(f"{CPU}/cgroup.procs", str(os.getpid()))

    def start(self, argv):
        """As `Machine.start`; all but what asks belongs to the trouble."""
        if os.path.isdir(TROUBLE_GROUP):
            argv = ["sh", "-c", 'echo $$ > "$0"/cgroup.procs && exec "$@"', TROUBLE_GROUP, *argv]
        return super().start(argv)

    def start_asking(self, argv):
        return super().start(argv)

    def belongings(self):
        """What commands may be typed for."""
        environment = self.server.environment() if self.server else {}
        return remedies.Own(os.getpid(), list(self.groups), list(self.disks), [*self.containers, *self.container_ids],
                            environment, [f"libpod-{one}" for one in self.container_ids])

    def others_disks(self):
        """Loop devices that are in use and not ours: somebody else's trial."""
        return tuple(name for name in os.listdir("/sys/block") if name.startswith("loop")
                     and name not in self.disks and read_text(f"/sys/block/{name}/size") != "0")

    # --- who is who ------------------------------------------------------------

    @staticmethod
    def pids_below(pid):
        """A process's offspring."""
        parents = {}
        for name in filter(str.isdigit, os.listdir("/proc")):
            found = re.match(r"\d+ \(.*\) (\S) (\d+)", remedies.read(f"/proc/{name}/stat"), re.S)
            if found and found[1] != "Z":
                parents[int(name)] = int(found[2])
        below, more = [], [pid]
        while more:
            more = [child for child, parent in parents.items() if parent in more]
            below += more
        return below

    def pids_of(self, load):
        """What returns the processes that a load is made of by then."""
        return lambda: self.pids_below(load.pid)

    def end_offspring(self):
        """Ends what still runs below us, so that nothing holds a device when it is taken away. What serves the disks
        is ended by the journal, after them."""
        if self.server:
            # at once: a checkpoint on a slow disk takes its time
            self.server.process.send_signal(signal.SIGQUIT)
        kept = {system.process.pid for system in self.systems}
        kept |= {below for pid in kept for below in self.pids_below(pid)}
        for pid in self.pids_below(os.getpid()):
            if pid not in kept:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    # --- disks and files ---------------------------------------------------------

    def schedule(self, device, scheduler):
        """Has a disk's requests put in order by a scheduler that honors priorities, as spinning disks have."""
        path = f"/sys/block/{os.path.basename(device)}/queue/scheduler"
        there = read_text(path)
        if scheduler not in there:
            raise Unavailable(f"this kernel has no scheduler {scheduler}")
        # the device is not ours alone: others get it when it has been given back
        self.undo.push("write", path, re.search(r"\[(\S+)\]", there)[1])
        write_text(path, scheduler)

    def make_files(self, folder, count, kib):
        """Files of random content."""
        os.makedirs(folder)
        block = os.urandom(kib << 10)
        for number in range(count):
            with open(f"{folder}/document{number:05}", "wb") as file:
                file.write(block)

    def mount_cold(self, device, fill, size="900m"):
        """An ext4 that was filled and whose files are in nobody's memory. Returns its folder."""
        folder = self.mount_ext4(device, size)
        fill(folder)
        self.unmount(folder)
        return self.mount(device)

    def zram_swap(self, size_mib=512):
        """Compressed swap in memory."""
        need_root("swap")
        if not os.path.exists("/sys/class/zram-control/hot_add"):
            raise Unavailable("this kernel has no zram")
        with uninterrupted():
            number = read_text("/sys/class/zram-control/hot_add")
            self.undo.push("write", "/sys/class/zram-control/hot_remove", number)
        write_text(f"/sys/block/zram{number}/disksize", f"{size_mib}M")
        device = f"/dev/zram{number}"
        self.wait_for(lambda: os.path.exists(device), device)
        self.output(["mkswap", device])
        with uninterrupted():
            self.output(["swapon", "-p", "100", device])
            self.undo.push("run", "swapoff", device)
        return device

    # --- servers, containers, machines ---------------------------------------------

    def postgres(self, folder, scale=5, **settings):
        self.server = Postgres(self, folder, scale, settings)
        return self.server

    def container(self, name, mounts, script):
        """A container of podman, from a folder with nothing but busybox in it. Returns the process's id."""
        if not shutil.which("podman"):
            raise Unavailable("no podman")
        root = os.path.join(self.folder, "rootfs")
        for part in ("bin", "proc", "sys", "dev", "etc", "tmp", *(inside.strip("/") for inside in mounts.values())):
            os.makedirs(os.path.join(root, part), exist_ok=True)
        shutil.copy(shutil.which("busybox"), os.path.join(root, "bin"))
        for program in ("sh", "tar", "sleep", "cat"):
            os.symlink("busybox", os.path.join(root, "bin", program))
        volumes = [word for outside, inside in mounts.items() for word in ("-v", f"{outside}:{inside}")]
        with uninterrupted():
            self.undo.push("run", "podman", *CONTAINER_WORDS, "rm", "-f", "-i", "-t", "0", name)
            done = subprocess.run(["podman", *CONTAINER_WORDS, "run", "-d", "--name", name, *CONTAINER_LIMITS,
                                   "--network", "host", *volumes, "--rootfs", root, "/bin/sh", "-c", script],
                                  capture_output=True, text=True, check=False)
        if done.returncode:
            raise Unavailable(f"podman starts no container: {done.stderr.strip()[-200:]}")
        self.containers.append(name)
        self.container_ids.append(done.stdout.strip())
        pid = int(self.output(["podman", "inspect", "-f", "{{.State.Pid}}", name]))
        for path in re.findall(r"(?m)^\d+:([\w,=]*):(/\S+)", remedies.read(f"/proc/{pid}/cgroup")):
            self.groups.append(f"/sys/fs/cgroup/{path[0] or 'unified'}{path[1]}")
        return [pid, *self.pids_below(pid)]

    def guest(self, name, device):
        """An emulated machine whose first drive is a disk of this machine."""
        try:
            guest = Guest(self.undo, self.folder, [Drive(device, direct=True)], name=name, memory_mib=256)
        except GuestError as error:
            raise Unavailable(str(error)) from None
        if os.path.isdir(TROUBLE_GROUP):
            write_text(f"{TROUBLE_GROUP}/cgroup.procs", str(guest.process.pid))
        return guest


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


class Postgres:
    """A real server with its data in a folder of ours, and a database for pgbench."""

    def __init__(self, ground, folder, scale, settings):
        found = sorted(glob.glob("/usr/lib/postgresql/*/bin"))
        if not found:
            raise Unavailable("no PostgreSQL")
        self.ground, self.programs, self.port = ground, found[-1], free_port()
        self.data, self.sockets = os.path.join(folder, "data"), os.path.join(ground.folder, "sockets")
        for path in (self.data, self.sockets):
            os.makedirs(path, mode=0o700)
            shutil.chown(path, "postgres", "postgres")
        os.chmod(os.path.dirname(self.data), 0o755)
        ground.output([*AS_POSTGRES, self.program("initdb"), "-D", self.data, "-A", "trust", "--no-sync", "-E", "UTF8"])
        self.process = self._start({"fsync": "off", "wal_level": "minimal", "max_wal_senders": 0})
        self.sql("create database bench", "postgres")
        self.sql("create role diskwright login in role pg_monitor")
        ground.output([self.program("pgbench"), *self.address(), "-i", "-q", "-s", str(scale), "bench"])
        self.process.terminate()
        self.process.wait(timeout=60)
        ground.output(["sync", "-f", self.data])
        self.process = self._start({"shared_buffers": "256MB"} | settings)

    def program(self, name):
        return os.path.join(self.programs, name)

    def address(self):
        return ["-h", self.sockets, "-p", str(self.port), "-U", "postgres"]

    @property
    def url(self):
        return f"postgres://diskwright@127.0.0.1:{self.port}/bench"

    def environment(self):
        return {"PGHOST": self.sockets, "PGPORT": str(self.port), "PGUSER": "postgres", "PGDATABASE": "bench"}

    def _start(self, settings):
        settings = {"port": self.port, "unix_socket_directories": self.sockets, "listen_addresses": "127.0.0.1",
                    "logging_collector": "off", "track_io_timing": "on"} | settings
        words = [word for key, value in settings.items() for word in ("-c", f"{key}={value}")]
        process = self.ground.start([*AS_POSTGRES, self.program("postgres"), "-D", self.data, *words])
        ready = [self.program("pg_isready"), *self.address()]
        self.ground.wait_for(lambda: subprocess.run(ready, capture_output=True, check=False).returncode == 0,
                             "PostgreSQL", seconds=60, process=process)
        return process

    def sql(self, text, database="bench"):
        return self.ground.output(["psql", *self.address(), "-d", database, "-X", "-At", "-c", text])

    def bench(self, clients, rate=None, script=None):
        """A pgbench; its progress is read from what it prints."""
        words = ["-R", str(rate)] if rate else []
        words += ["-b", script] if script else []
        return self.ground.load([self.program("pgbench"), *self.address(), "-n", "-c", str(clients), "-j", "2", "-P",
                                 "1", "-T", str(self.ground.seconds), *words, "bench"])

    def session(self, text):
        """A session that sends something and then neither ends nor does anything, as forgotten ones do."""
        script = '(printf "%s\\n" "$1"; exec sleep "$2") | exec psql -X -q -h "$3" -p "$4" -U postgres bench'
        return self.ground.load(["sh", "-c", script, "session", text, str(self.ground.seconds), self.sockets,
                                 str(self.port)])


def rate_of(load, last=5):
    """Operations a second that a load told in its last seconds; None where it told nothing."""
    with open(load.log, encoding="utf-8", errors="replace") as file:
        told = re.findall(r"progress: [\d.]+ s, ([\d.]+) tps", file.read())[-last:]
    return round(sum(map(float, told)) / len(told), 1) if told else None

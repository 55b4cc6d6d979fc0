"""PostgreSQL on a virtual disk: a server of its own, for one run, and pgbench.

The server runs as a user made for it, listens on a Unix socket in a private
folder and nowhere else, and keeps everything on the disk it is given.
"""

import contextlib
import glob
import os
import shutil
import time

from machine import LabError, Unavailable
from stage import with_priority, run, log_tail
from undo import uninterrupted

# A small server's: what the demonstration asks of the disk is that pages come from it.
SETTINGS = {
    "listen_addresses": "", "shared_buffers": "16MB", "max_connections": "40", "autovacuum": "off",
    "wal_level": "minimal", "max_wal_senders": "0", "checkpoint_timeout": "30s", "max_wal_size": "512MB",
    "fsync": "on", "synchronous_commit": "on", "logging_collector": "off",
}


@contextlib.contextmanager
def installing():
    """While the package is installed: Debian would make a cluster and start it as a
    service, which nobody here asked for."""
    if shutil.which("pg_ctlcluster") or os.geteuid() != 0:
        yield
        return
    folder = "/etc/postgresql-common/createcluster.d"
    path = os.path.join(folder, "diskwright-demo.conf")
    os.makedirs(folder, exist_ok=True)
    with open(path, "w", encoding="ascii") as file:
        file.write("create_main_cluster = false\n")
    try:
        yield
    finally:
        os.unlink(path)


def programs():
    """The folder of the newest server's programs, which Debian keeps off the path."""
    folders = [folder for folder in glob.glob("/usr/lib/postgresql/*/bin")
             if all(os.path.exists(os.path.join(folder, name)) for name in ("initdb", "postgres", "pgbench"))]
    return max(folders, key=version_of, default=None)


def version_of(folder):
    number = folder.split("/")[-2]
    return float(number) if number.replace(".", "", 1).isdigit() else 0.0


class Postgres:
    """A cluster in a folder, and its server."""

    def __init__(self, machine, user):
        self.machine = machine
        self.user = user
        self.bin = programs()
        if not self.bin:
            raise Unavailable("no PostgreSQL (initdb, postgres, pgbench) below /usr/lib/postgresql")
        machine.made += 1
        self.socket = os.path.join(machine.folder, f"pg{machine.made}")
        os.mkdir(self.socket)
        os.chmod(machine.folder, 0o711)
        give_to_user(self.socket, user)
        self.server = None
        self.version = run([os.path.join(self.bin, "postgres"), "--version"], 20).strip()

    def make(self, folder, scale):
        """A new cluster in the folder with pgbench's tables of this scale."""
        give_to_user(folder, self.user)
        self.asked("initdb", "-D", folder, "--no-sync", "--auth=trust", "--locale=C", "--encoding=UTF8",
                   "-U", self.user)
        self.start(folder, {"fsync": "off", "full_page_writes": "off", "shared_buffers": "256MB",
                            "max_wal_size": "4GB", "checkpoint_timeout": "30min"})
        self.asked("createdb", *self.where(), "bench")
        self.asked("pgbench", *self.where(), "--initialize", "--quiet", "--scale", str(scale), "bench", patience=300)
        self.stop(folder)

    def start(self, folder, changed=None):
        settings = SETTINGS | {"unix_socket_directories": self.socket} | (changed or {})
        words = [word for key, value in settings.items() for word in ("-c", f"{key}={value}")]
        argv = [*as_user(self.user), os.path.join(self.bin, "postgres"), "-D", folder, *words]
        self.server = self.machine.start(with_priority(argv))
        # at once, without writing down what nobody will read; pg_ctl fails where it has ended already
        stop = [*as_user(self.user), os.path.join(self.bin, "pg_ctl"), "stop", "-D", folder, "-m", "immediate"]
        self.machine.undo.push("run", "sh", "-c", '"$@" || true', "sh", *stop)
        self.asked("pg_isready", "-h", self.socket, "--timeout", "0", tries=600)

    def stop(self, folder):
        """Stops the server after a checkpoint."""
        self.asked("pg_ctl", "stop", "-D", folder, "-m", "fast", "-w", "-t", "120", patience=150)
        self.server.wait(30)

    def where(self):
        return ["-h", self.socket, "-U", self.user]

    def asked(self, program, *words, patience=60, tries=1):
        argv = [*as_user(self.user), os.path.join(self.bin, program), *words]
        for left in range(tries - 1, -1, -1):
            try:
                return run(argv, patience)
            except LabError:
                if left == 0:
                    raise
                if self.server and self.server.poll() is not None:
                    raise LabError(f"postgres ended: {log_tail(self.server)}") from None
                time.sleep(0.1)

    def bench(self, seconds, clients, rate):
        """Starts pgbench with two lookups to an update, which is near NT Magazine 1998's 63 % of
        reads; its log of transactions lies in memory."""
        self.log = os.path.join(self.socket, "transactions")
        return self.machine.start(with_priority([
            *as_user(self.user), os.path.join(self.bin, "pgbench"), *self.where(), "--no-vacuum", "--builtin",
            "select-only@2", "--builtin", "simple-update@1", "--client", str(clients), "--jobs", "2",
            "--time", str(seconds), "--rate", str(rate), "--random-seed", "1", "--log",
            "--log-prefix", self.log, "bench"]))

    def transactions(self):
        """What was done: when (seconds since 1970), how long it took and how long it
        had waited for a client (seconds)."""
        done = []
        for path in glob.glob(self.log + ".*"):
            with open(path, encoding="ascii") as file:
                for line in file:
                    fields = line.split()
                    # client, number, time in us with the lag, script, epoch s, epoch us, lag in us
                    if len(fields) < 7 or not fields[2].isdigit():
                        continue
                    when, lag = int(fields[4]) + int(fields[5]) / 1e6, int(fields[6]) / 1e6
                    done.append((when, int(fields[2]) / 1e6 - lag, lag))
        return sorted(done)


def as_user(user):
    return ["setpriv", "--reuid", user, "--regid", user, "--clear-groups", "--"]


def give_to_user(path, user):
    run(["chown", f"{user}:{user}", path], 20)
    run(["chmod", "700", path], 20)


def temporary_user(machine):
    """A user without home, password or shell, gone again at the end."""
    name = f"dwdemo{os.getpid()}"
    with uninterrupted():
        run(["useradd", "--system", "--user-group", "--no-create-home", "--home-dir", "/nonexistent",
             "--shell", "/usr/sbin/nologin", name], 30)
        machine.undo.push("run", "userdel", name)
    return name

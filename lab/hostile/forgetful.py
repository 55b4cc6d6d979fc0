"""A disk that forgets: what was written and not flushed is gone when the power goes.

It is an NBD server (the protocol is described in the NBD project's doc/proto.md), which
nbdfuse and a loop device make a block device of. Writes stay in a volatile cache
until a flush or a write with FUA. `cut` keeps a random part of the cache, sector
by sector, and from then on every request fails, until `power_on`.
"""

import contextlib
import os
import random
import socket
import struct
import subprocess
import tempfile
import threading
import time

SECTOR = 512
EIO = 5
FLAGS = 1 | 4 | 8  # flags are told; flush and FUA are taken
READ, WRITE, DISCONNECT, FLUSH = 0, 1, 2, 3
OPTION_EXPORT, OPTION_ABORT, OPTION_INFO, OPTION_GO = 1, 2, 6, 7


class Gone(Exception):
    """The client has left."""


class Disk:
    """What is on the platters, and what is only in the cache."""

    def __init__(self, size, seed=0):
        self.random = random.Random(seed)
        self.lock = threading.Lock()
        self.kept = bytearray(size)
        self.cache = {}
        self.is_off = False
        self.writes = self.flushes = self.written = 0

    def read(self, at, length):
        with self.lock:
            if self.is_off:
                return None
            begin, end = at // SECTOR, (at + length + SECTOR - 1) // SECTOR
            data = bytearray(self.kept[begin * SECTOR:end * SECTOR])
            for sector in range(begin, end):
                cached = self.cache.get(sector)
                if cached is not None:
                    data[(sector - begin) * SECTOR:(sector - begin + 1) * SECTOR] = cached
            return bytes(data[at - begin * SECTOR:at - begin * SECTOR + length])

    def write(self, at, data, durable):
        with self.lock:
            if self.is_off:
                return False
            self.writes += 1
            self.written += len(data)
            for offset in range(0, len(data), SECTOR):
                part = data[offset:offset + SECTOR]
                if durable:
                    self.kept[at + offset:at + offset + SECTOR] = part
                    self.cache.pop((at + offset) // SECTOR, None)
                else:
                    self.cache[(at + offset) // SECTOR] = part
            return True

    def flush(self):
        with self.lock:
            if self.is_off:
                return False
            self.flushes += 1
            self._keep(lambda: True)
            return True

    def _keep(self, wanted):
        for sector, data in self.cache.items():
            if wanted():
                self.kept[sector * SECTOR:(sector + 1) * SECTOR] = data
        self.cache.clear()

    def cut(self, share=None):
        """The power goes; a share of the cache's sectors had got to the platters."""
        with self.lock:
            share = self.random.choice([0.0, 0.3, 0.7]) if share is None else share
            self.is_off = True
            self._keep(lambda: self.random.random() < share)

    def power_on(self):
        with self.lock:
            self.is_off = False


def receive(connection, count):
    data = bytearray()
    while len(data) < count:
        part = connection.recv(count - len(data))
        if not part:
            raise Gone
        data += part
    return bytes(data)


def handshake(connection, disk):
    """The handshake; false where the client wants nothing."""
    connection.sendall(b"NBDMAGICIHAVEOPT" + struct.pack(">H", 3))
    receive(connection, 4)
    while True:
        _magic, option, length = struct.unpack(">8sII", receive(connection, 16))
        receive(connection, length)
        if option == OPTION_EXPORT:
            connection.sendall(struct.pack(">QH", len(disk.kept), FLAGS))
            return True

        def reply(kind, data=b"", option=option):
            connection.sendall(struct.pack(">QIII", 0x3e889045565a9, option, kind, len(data)) + data)

        if option in (OPTION_INFO, OPTION_GO):
            reply(3, struct.pack(">HQH", 0, len(disk.kept), FLAGS))
            reply(1)
            if option == OPTION_GO:
                return True
        elif option == OPTION_ABORT:
            reply(1)
            return False
        else:
            reply(0x80000001)


def serve(connection, disk):
    with connection, contextlib.suppress(Gone, OSError):
        if not handshake(connection, disk):
            return
        while True:
            _magic, flags, kind, handle, at, length = struct.unpack(">IHHQQI", receive(connection, 28))
            data, done = b"", True
            if kind == READ:
                found = disk.read(at, length)
                data, done = found or b"", found is not None
            elif kind == WRITE:
                done = disk.write(at, receive(connection, length), flags & 1)
            elif kind == FLUSH:
                done = disk.flush()
            elif kind == DISCONNECT:
                return
            connection.sendall(struct.pack(">IIQ", 0x67446698, 0 if done else EIO, handle) + data)


def listen(path, disk):
    """Serves a disk at a socket, until the socket is closed."""
    server = socket.socket(socket.AF_UNIX)
    server.bind(path)
    server.listen(4)

    def accept():
        with contextlib.suppress(OSError):
            while True:
                connection, _ = server.accept()
                threading.Thread(target=serve, args=(connection, disk), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    return server


def run_command(*command, check=True):
    return subprocess.run(command, check=check, capture_output=True, text=True, timeout=60)


def until(action, done, seconds=60):
    """Tries again until it is done: what else looks at the device lets go of it soon."""
    end = time.monotonic() + seconds
    while not done():
        if time.monotonic() > end:
            raise TimeoutError(f"{action} was not done within {seconds} s")
        time.sleep(0.05)


class Attached:
    """A forgetful disk as a block device with a filesystem that is mounted."""

    def __init__(self, size, seed=0):
        self.disk = Disk(size, seed)
        self.folder = tempfile.mkdtemp(prefix="diskwright-forgetful-")
        self.mount = os.path.join(self.folder, "mnt")
        self.fuse = os.path.join(self.folder, "fuse")
        self.socket = os.path.join(self.folder, "socket")
        os.mkdir(self.mount)
        os.mkdir(self.fuse)
        self.server = listen(self.socket, self.disk)
        self.program = self.loop = None
        self.is_mounted = False

    def attach(self):
        file = os.path.join(self.fuse, "disk")
        self.program = subprocess.Popen(["nbdfuse", file, f"nbd+unix:///?socket={self.socket}"],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until("nbdfuse", lambda: os.path.exists(file))
        self.loop = run_command("losetup", "--find", "--show", "--direct-io=on", file).stdout.strip()

    def format(self):
        run_command("mkfs.ext4", "-q", "-F", self.loop)

    def up(self):
        run_command("mount", self.loop, self.mount)
        self.is_mounted = True

    def down(self):
        """Whatever state it is in, it is detached; an error where that cannot be."""
        if self.is_mounted:
            until("umount", lambda: run_command("umount", self.mount, check=False).returncode == 0)
            self.is_mounted = False
        if self.loop:
            # A loop device that somebody looks at is let go a little later.
            until("losetup -d", lambda: run_command("losetup", "-d", self.loop, check=False).returncode != 0
                  or run_command("losetup", self.loop, check=False).returncode != 0)
            self.loop = None
        if self.program:
            until("fusermount3 -u", lambda: run_command("fusermount3", "-u", self.fuse, check=False).returncode == 0)
            self.program.wait(timeout=60)
            self.program = None

    def restart(self):
        """The power comes back: the journal is replayed, as any boot does."""
        self.down()
        self.disk.power_on()
        self.attach()
        self.up()

    def close(self):
        self.down()
        self.server.close()
        os.unlink(self.socket)
        for folder in (self.mount, self.fuse, self.folder):
            with contextlib.suppress(OSError):
                os.rmdir(folder)


def missing():
    """Why it cannot be had on this machine; None where it can."""
    if os.geteuid() != 0:
        return "loop devices take root"
    for program in ("nbdfuse", "losetup", "mkfs.ext4", "fusermount3"):
        if run_command("sh", "-c", f"command -v {program}", check=False).returncode != 0:
            return f"no {program} program"
    return None if os.path.exists("/dev/fuse") else "no /dev/fuse"

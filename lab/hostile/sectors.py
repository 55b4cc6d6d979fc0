"""A virtual disk's server killed under writes: every sector is as some write left it, whole, and
none is older than what was acknowledged."""

import os
import random
import signal
import struct
import threading
import time

from hostile.nbd import FLUSH, WRITE, Client, Gone
from hostile.trial import Broken, Case
from machine import wait_for

SEED = 512
SECTOR = 512
SIZE_MIB = 16


def stamped_bytes(sector, version, count=1):
    """The bytes of sectors from this one on, as a write of this version leaves them."""
    return b"".join(struct.pack("<II", version, sector + n) * (SECTOR // 8) for n in range(count))


class Oracle:
    """What each sector may hold: the last version that was acknowledged, or one that was sent since."""

    def __init__(self, sectors):
        self.acknowledged = [0] * sectors
        self.sent = [set() for _ in range(sectors)]

    def send(self, sector, count, version):
        for n in range(sector, sector + count):
            self.sent[n].add(version)

    def acknowledge(self, sector, count, version):
        """No two writes of one sector are under way at a time, so versions only grow."""
        for n in range(sector, sector + count):
            self.acknowledged[n] = max(self.acknowledged[n], version)

    def judge(self, content):
        """What is wrong with these bytes: torn sectors, and sectors that are older than acknowledged or of nobody."""
        torn, wrong = [], []
        for sector in range(len(self.acknowledged)):
            piece = content[sector * SECTOR:(sector + 1) * SECTOR]
            if piece == bytes(SECTOR):
                version = 0
            else:
                version, place = struct.unpack_from("<II", piece)
                if piece != stamped_bytes(sector, version):
                    torn.append(sector if place == sector or piece[:8] == bytes(8) else -sector)
                    continue
            if version != self.acknowledged[sector] and not (
                    version > self.acknowledged[sector] and version in self.sent[sector]):
                wrong.append(sector)
        return torn, wrong

    def settle(self, content):
        """After a life, what is there is what is there."""
        for sector in range(len(self.acknowledged)):
            self.acknowledged[sector] = struct.unpack_from("<I", content, sector * SECTOR)[0]
            self.sent[sector].clear()


class Disk:
    """A served disk on a backing file, life after life."""

    def __init__(self, bench, system):
        self.bench = bench
        self.words = ["disk", bench.write("system.toml", system), "--backing", bench.path("backing"), "--size",
                      f"{SIZE_MIB}MiB"]
        self.life = 0

    def start(self):
        self.life += 1
        self.socket = self.bench.path(f"socket{self.life}")
        self.process = self.bench.begin(*self.words, "--socket", self.socket)
        wait_for(lambda: os.path.exists(self.socket + ".control"), "the server", process=self.process)
        return Client(self.socket)

    def kill(self):
        self.bench.end(self.process, signal.SIGKILL)

    def content(self):
        """All of it, as the next life serves it."""
        client = self.start()
        content = b"".join(client.read(at << 20, 1 << 20) for at in range(SIZE_MIB))
        client.close()
        self.bench.end(self.process)
        return content


ONE = """
[system]
name = "one"
[[drive]]
name = "disk"
capacity = "16MiB"
[drive.plain]
servers = 8
service = { uniform_us = [1, 2] }
"""
RAID5 = """
[system]
name = "five"
[[drive]]
name = "disk"
count = 3
capacity = "16MiB"
[drive.plain]
servers = 8
service = { uniform_us = [1, 2] }
[[array]]
name = "data"
level = "raid5"
drives = "disk"
stripe_unit = "16KiB"
"""


LANE = (SIZE_MIB << 11) // 8


def free_place(chance, count, in_flight):
    """Where the next write of so many sectors goes: into an eighth of the disk in which no other is under way."""
    taken = {sector // LANE for sector, _, _ in in_flight}
    return chance.choice([n for n in range(8) if n not in taken]) * LANE + chance.randrange(LANE - count)


def kills(bench, system, rounds, tiny_rounds):
    """Writes of many sizes, up to eight under way on places that do not overlap, and SIGKILL at a random moment."""
    chance, disk, oracle = random.Random(SEED), Disk(bench, system), Oracle(SIZE_MIB << 11)
    version, acknowledged = 0, 0
    for number in range(tiny_rounds if bench.tiny else rounds):
        client = disk.start()
        killer = threading.Timer(chance.uniform(0.01, 0.25), disk.process.kill)
        killer.start()
        in_flight = {}
        try:
            while True:
                while len(in_flight) < 8:
                    count = chance.choice([1, 3, 8, 64, 256, 1024])
                    sector, version = free_place(chance, count, in_flight.values()), version + 1
                    oracle.send(sector, count, version)
                    sent = client.send(WRITE, sector * SECTOR, stamped_bytes(sector, version, count))
                    in_flight[sent] = (sector, count, version)
                answered, error, _ = client.answer()
                done = in_flight.pop(answered)
                if not error:
                    oracle.acknowledge(*done)
                    acknowledged += 1
        except (Gone, TimeoutError, OSError):
            pass
        killer.join()
        disk.kill()
        content = disk.content()
        torn, wrong = oracle.judge(content)
        if torn or wrong:
            raise Broken(f"after {number + 1} kills and {acknowledged} acknowledged writes: {len(torn)} torn sectors "
                         f"{torn[:3]}, {len(wrong)} wrong {wrong[:3]}")
        oracle.settle(content)
    return f"{number + 1} kills, {acknowledged} acknowledged writes, every sector whole"


def half_a_write(bench, system, ending):
    """A client sends some bytes of a long write, and then it or the server ends."""
    disk = Disk(bench, system)
    client = disk.start()
    client.write(0, stamped_bytes(0, 1, 128))
    client.ask(FLUSH)
    torn, lengths = [], (2148, 1, 511, 513, 4097)
    for cut in lengths:
        before = disk.socket
        data = stamped_bytes(0, 1 + cut, 128)
        client.socket.sendall(struct.pack(">IHHQQI", 0x25609513, 0, WRITE, 99, 0, len(data)) + data[:cut])
        time.sleep(0.15)
        if ending == "client":
            client.close()
            time.sleep(0.15)
            client = Client(before)
        else:
            disk.kill()
            client = disk.start()
        content = client.read(0, 128 * SECTOR)
        torn += [f"{cut} bytes: sector {n}" for n in range(128)
                 if content[n * SECTOR:][:SECTOR] not in [stamped_bytes(n, 1 + other) for other in (0, *lengths)]]
    client.close()
    bench.end(disk.process)
    if torn:
        raise Broken(f"torn: {', '.join(torn)}")
    return "every sector whole"


WHOLE = "every sector is whole, and none is older than acknowledged"
CASES = [
    Case("sectors/kills, one drive", "SIGKILL of the server under eight writes at a time, one drive", WHOLE, kills,
         (ONE, 145, 10), tiny=True),
    Case("sectors/kills, raid5", "the same on a RAID 5 of three", WHOLE, kills, (RAID5, 60, 6)),
    *(Case(f"sectors/half a write, {ending} ends", f"2,148 bytes of a write of 64 KiB, then the {ending} ends",
           "every sector is whole", half_a_write, (ONE, ending), tiny=ending == "server")
      for ending in ("server", "client")),
]

"""Small loads that no packaged program makes just so. Each ends by itself."""

import argparse
import hashlib
import json
import mmap
import os
import random
import socket
import threading
import time

UDP_SEGMENT = 103  # linux/udp.h; not in the socket module


def touch_memory(options):
    """Touches pages of more memory than there is, at random, and so pages."""
    size = options.mib << 20
    # Private: shared anonymous memory would be counted as page cache.
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    noise, rate = random.Random(options.seed), Rate()
    for offset in range(0, size, mmap.PAGESIZE):
        memory[offset] = 1
    for _ in until(options.seconds):
        if options.once:
            time.sleep(1)
            continue
        for _ in range(64):
            memory[noise.randrange(size // mmap.PAGESIZE) * mmap.PAGESIZE] = 2
        rate.count(64)
        # where nothing pauses, the kernel has been seen to kill rather than to swap: it finds no page that is old
        time.sleep(options.pause)


def spin(options):
    """Keeps one processor busy."""
    total = 0
    for _ in until(options.seconds):
        for number in range(100_000):
            total += number * number


def compute(options):
    """Keeps so many threads of one process computing; hashing leaves the interpreter to the others."""
    block = bytes(1 << 20)

    def work():
        for _ in until(options.seconds):
            hashlib.sha256(block).digest()

    together(options.threads, work)


def serve(options):
    """Does a piece of work at a time, at most so many a second: it hashes so many mebibytes, or reads a page of a disk
    past the page cache. Tells its rate."""
    block, page = bytes(options.mib << 20), mmap.mmap(-1, mmap.PAGESIZE)
    disk = os.open(options.path, os.O_RDONLY | os.O_DIRECT) if options.path else None
    pages = os.lseek(disk, 0, os.SEEK_END) // mmap.PAGESIZE if options.path else 0
    noise, rate = random.Random(options.seed), Rate()
    for _ in until(options.seconds):
        began = time.monotonic()
        if options.path:
            os.preadv(disk, [page], noise.randrange(pages) * mmap.PAGESIZE)
        else:
            hashlib.sha256(block).digest()
        rate.count(1)
        time.sleep(max(0, 1 / options.rate - (time.monotonic() - began)))


class Rate:
    """Tells each second how much was done in it, in pgbench's words."""

    def __init__(self):
        self.done, self.began = 0, time.monotonic()
        self.told = self.began

    def count(self, pieces):
        self.done += pieces
        now = time.monotonic()
        if now - self.told >= 1:
            print(f"progress: {now - self.began:.1f} s, {self.done / (now - self.told):.1f} tps", flush=True)
            self.done, self.told = 0, now


def grow(options):
    """Takes more and more memory, as a leak does, up to a size that it keeps."""
    taken = []
    for _ in until(options.seconds):
        if len(taken) < options.mib // 4:
            taken.append(os.urandom(1 << 12) * 1024)
        time.sleep(0.25)


def contend(options):
    """Threads that take turns on one lock. Its holder sleeps, so that nothing is used."""
    lock = threading.Lock()

    def work():
        for _ in until(options.seconds):
            with lock:
                time.sleep(0.005)

    together(options.threads, work)


def doze(options):
    """Threads that sleep."""
    def work():
        for _ in until(options.seconds):
            time.sleep(0.1)

    together(options.threads, work)


def ask(options):
    """Threads that each wait for a slow server over TCP; the server is a thread of this process."""
    with socket.create_server(("127.0.0.1", 0), backlog=options.threads) as server:
        def answer(connection):
            with connection:
                while connection.recv(1):
                    time.sleep(0.2)
                    connection.send(b".")

        def accept():
            while True:
                threading.Thread(target=answer, args=[server.accept()[0]], daemon=True).start()

        def work():
            with socket.create_connection(server.getsockname()) as connection:
                for _ in until(options.seconds):
                    connection.send(b"?")
                    connection.recv(1)

        threading.Thread(target=accept, daemon=True).start()
        together(options.threads, work)


def touch_file(options):
    """Threads that touch pages of a mapped file at random."""
    with open(options.path, "rb") as file:
        memory = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        # each touch is a read of one page, not of those around it
        memory.madvise(mmap.MADV_RANDOM)

        def work():
            noise = random.Random()
            for _ in until(options.seconds):
                memory[noise.randrange(len(memory) // mmap.PAGESIZE) * mmap.PAGESIZE]

        together(options.threads, work)


def read_ahead(options):
    """Asks for a part of a device and does not wait for it."""
    with open(options.path, "rb", buffering=0) as device:
        os.posix_fadvise(device.fileno(), 0, 128 << 10, os.POSIX_FADV_WILLNEED)
        time.sleep(options.seconds)


def stall(options):
    """Has a part of a served system hang for two seconds in every six."""
    def order(do):
        with socket.socket(socket.AF_UNIX) as control:
            control.connect(options.path)
            control.sendall(json.dumps({"do": do, "member": options.part}).encode() + b"\n")
            control.recv(65536)

    for _ in until(options.seconds):
        time.sleep(4)
        order("hang")
        time.sleep(2)
        order("release")


def together(count, work):
    """Runs some work in so many threads, to its end."""
    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def write_file(options):
    """Writes a file over and over through the page cache."""
    block = bytes(1 << 20)
    with open(options.path, "wb", buffering=0) as file:
        for _ in until(options.seconds):
            if file.tell() >= options.mib << 20:
                file.seek(0)
            file.write(block)


def flood(options):
    """Sends one-byte datagrams over the loopback network as fast as it goes.

    Sixty go out with one call (generic segmentation) and are taken apart on
    arrival, so nearly all of the work is the kernel's, in its soft interrupts.
    """
    receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    receiver.bind(("127.0.0.1", 0))
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sender.connect(receiver.getsockname())
    sender.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, 1)
    for _ in until(options.seconds):
        for _ in range(64):
            sender.send(bytes(60))


def until(seconds):
    """Yields until the time is up."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        yield


LOADS = {"touch-memory": touch_memory, "touch-file": touch_file, "spin": spin, "write-file": write_file, "flood": flood,
         "contend": contend, "doze": doze, "ask": ask, "stall": stall,
         "read-ahead": read_ahead, "compute": compute, "serve": serve, "grow": grow}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("load", choices=LOADS)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--mib", type=int, default=64)
    parser.add_argument("--path")
    parser.add_argument("--threads", type=int, default=24)
    parser.add_argument("--rate", type=float, default=10, help="pieces of work a second")
    parser.add_argument("--pause", type=float, default=0, help="seconds between touches of 64 pages")
    parser.add_argument("--part", help="of a served system")
    parser.add_argument("--once", action="store_true", help="touches all once, and sleeps")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    LOADS[options.load](options)


if __name__ == "__main__":
    main()

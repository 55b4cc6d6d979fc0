"""Small loads that no packaged program makes just so. Each ends by itself."""

import argparse
import mmap
import random
import socket
import time

UDP_SEGMENT = 103  # linux/udp.h; not in the socket module


def touch_memory(options):
    """Touches pages of more memory than there is, at random, and so pages."""
    size = options.mib << 20
    # Private: shared anonymous memory would be counted as page cache.
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    noise = random.Random(options.seed)
    for offset in range(0, size, mmap.PAGESIZE):
        memory[offset] = 1
    for _ in until(options.seconds):
        for _ in range(64):
            memory[noise.randrange(size // mmap.PAGESIZE) * mmap.PAGESIZE] = 2


def spin(options):
    """Keeps one processor busy."""
    total = 0
    for _ in until(options.seconds):
        for number in range(100_000):
            total += number * number


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


LOADS = {"touch-memory": touch_memory, "spin": spin, "write-file": write_file, "flood": flood}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("load", choices=LOADS)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--mib", type=int, default=64)
    parser.add_argument("--path")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    LOADS[options.load](options)


if __name__ == "__main__":
    main()

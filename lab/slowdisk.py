"""A slow disk behind the NBD protocol, for the lab only.

Serves a sparse file as an NBD export on a Unix socket and takes, for every
request, the time that the described device would have taken:

    --service-ms     positioning time of a request
    --jitter         its spread: 0.3 means evenly from 0.7 to 1.3 times
    --sequential-ms  positioning when a request follows the one before
    --mb-per-s       transfer rate of the medium
    --parallel       how many requests the device serves at once (1: one arm)
    --write-ms       positioning time of writes, where it is another
    --flush-ms       what a cache flush takes
    --cap-iops       a volume's allowance: requests a second ...
    --burst          ... after this many that were saved up
    --cap-when       ... from the moment on at which this file is there

Python is quick enough: about 0.1 ms of its own for a request, which is why
nothing faster than one millisecond should be described here.
"""

import argparse
import os
import random
import select
import socket
import struct
import threading
import time

FIXED_NEWSTYLE_NO_ZEROES = 3
OPTION_EXPORT_NAME, OPTION_ABORT, OPTION_INFO, OPTION_GO = 1, 2, 6, 7
REPLY_ACK, REPLY_INFO, REPLY_UNSUPPORTED = 1, 3, 0x80000001
# has flags, flush, FUA, trim, write zeroes, many connections
EXPORT_FLAGS = 1 | 1 << 2 | 1 << 3 | 1 << 5 | 1 << 6 | 1 << 8
READ, WRITE, DISCONNECT, FLUSH, TRIM, WRITE_ZEROES = 0, 1, 2, 3, 4, 6
FORCE_UNIT_ACCESS = 1


class Device:
    """Decides how long a request takes and makes it take that long."""

    def __init__(self, options):
        self.options = options
        self.random = random.Random(options.seed)
        self.servers = threading.Semaphore(options.parallel)
        self.lock = threading.Lock()
        self.last_end = 0
        self.free_at = 0.0
        self.tokens = float(options.burst)
        self.filled_at = time.monotonic()

    def serve(self, kind, offset, length, queued=False):
        """Takes a request's time. A request that was `queued` on its connection
        came before the one in front of it was done."""
        came = 0.0 if queued else time.monotonic()
        self.wait_for_allowance()
        with self.servers:
            seconds = self.seconds(kind, offset, length)
            if self.options.parallel > 1:
                time.sleep(seconds)
                return
            # One arm goes on when it is free, not when this process woke up.
            self.free_at = max(came, self.free_at) + seconds
            time.sleep(max(0.0, self.free_at - time.monotonic()))

    def seconds(self, kind, offset, length):
        o = self.options
        if kind == FLUSH:
            return o.flush_ms / 1e3
        if kind in (TRIM, WRITE_ZEROES):
            return 0.0
        with self.lock:
            # Read-ahead arrives over several connections, slightly out of order.
            near = abs(offset - self.last_end) <= 1 << 20
            self.last_end = offset + length
            spread = 1 + o.jitter * self.random.uniform(-1, 1)
        base = o.write_ms if kind == WRITE and o.write_ms is not None else o.service_ms
        if near and o.sequential_ms is not None:
            base = o.sequential_ms
        transfer = length / (o.mb_per_s * 1e6) if o.mb_per_s else 0.0
        return (base / 1e3 + transfer) * spread

    def wait_for_allowance(self):
        o = self.options
        if not o.cap_iops or (o.cap_when and not os.path.exists(o.cap_when)):
            return
        with self.lock:
            now = time.monotonic()
            earned = (now - self.filled_at) * o.cap_iops
            self.tokens = min(max(o.burst, 1.0), self.tokens + earned) - 1
            self.filled_at = now
            owed = max(0.0, -self.tokens) / o.cap_iops
        time.sleep(owed)


def receive(connection, length):
    data = bytearray(length)
    view = memoryview(data)
    while view:
        got = connection.recv_into(view)
        if got == 0:
            raise EOFError
        view = view[got:]
    return data


def negotiate(connection, size):
    """The fixed newstyle handshake; True when the client may send requests."""
    connection.sendall(b"NBDMAGICIHAVEOPT" + struct.pack(">H", FIXED_NEWSTYLE_NO_ZEROES))
    receive(connection, 4)
    while True:
        _, option, length = struct.unpack(">8sII", receive(connection, 16))
        receive(connection, length)
        if option == OPTION_EXPORT_NAME:
            connection.sendall(struct.pack(">QH", size, EXPORT_FLAGS))
            return True
        if option in (OPTION_INFO, OPTION_GO):
            reply(connection, option, REPLY_INFO, struct.pack(">HQH", 0, size, EXPORT_FLAGS))
            reply(connection, option, REPLY_ACK)
            if option == OPTION_GO:
                return True
        elif option == OPTION_ABORT:
            reply(connection, option, REPLY_ACK)
            return False
        else:
            reply(connection, option, REPLY_UNSUPPORTED)


def reply(connection, option, kind, data=b""):
    connection.sendall(struct.pack(">QIII", 0x3E889045565A9, option, kind, len(data)) + data)


def serve_connection(connection, device, backing, size):
    try:
        if not negotiate(connection, size):
            return
        while True:
            queued = bool(select.select([connection], [], [], 0)[0])
            _, flags, kind, handle, offset, length = struct.unpack(
                ">IHHQQI", receive(connection, 28))
            if kind == DISCONNECT:
                return
            payload = receive(connection, length) if kind == WRITE else None
            device.serve(kind, offset, length, queued)
            answer = b""
            if kind == READ:
                answer = os.pread(backing, length, offset)
            elif kind == WRITE:
                os.pwrite(backing, payload, offset)
                if flags & FORCE_UNIT_ACCESS:
                    device.serve(FLUSH, 0, 0)
            elif kind == WRITE_ZEROES:
                os.pwrite(backing, bytes(length), offset)
            connection.sendall(struct.pack(">IIQ", 0x67446698, 0, handle) + answer)
    except (EOFError, ConnectionError):
        pass
    finally:
        connection.close()


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--socket", required=True)
    parser.add_argument("--backing", required=True)
    parser.add_argument("--service-ms", type=float, default=0.0)
    parser.add_argument("--write-ms", type=float)
    parser.add_argument("--sequential-ms", type=float)
    parser.add_argument("--flush-ms", type=float, default=0.0)
    parser.add_argument("--jitter", type=float, default=0.0)
    parser.add_argument("--mb-per-s", type=float, default=0.0)
    parser.add_argument("--parallel", type=int, default=16)
    parser.add_argument("--cap-iops", type=float, default=0.0)
    parser.add_argument("--burst", type=float, default=1.0)
    parser.add_argument("--cap-when")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def main():
    options = arguments()
    backing = os.open(options.backing, os.O_RDWR)
    size = os.fstat(backing).st_size
    device = Device(options)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(options.socket)
    listener.listen(64)
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=serve_connection, daemon=True,
                         args=(connection, device, backing, size)).start()


if __name__ == "__main__":
    main()

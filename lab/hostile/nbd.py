"""An NBD client over a Unix socket: as much of the protocol as reads and writes take."""

import socket
import struct

OPTION, REQUEST, REPLY = 0x49484156454F5054, 0x25609513, 0x67446698
GO, ACK, INFO = 7, 1, 3
READ, WRITE, FLUSH = 0, 1, 3
FUA = 1


class Gone(OSError):
    """The server ended the connection."""


class Client:
    """One connection. Requests are sent without waiting, answers taken as they come."""

    def __init__(self, path, export="", patience=20):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(patience)
        self.socket.connect(path)
        self.sent, self.next = {}, 1
        magic = self._take(18)
        assert magic[:8] == b"NBDMAGIC", magic
        self.socket.sendall(struct.pack(">I", 3))
        name = export.encode()
        body = struct.pack(">I", len(name)) + name + struct.pack(">H", 0)
        self.socket.sendall(struct.pack(">QII", OPTION, GO, len(body)) + body)
        self.bytes = self._go()

    def _go(self):
        size = 0
        while True:
            _, _, kind, length = struct.unpack(">QIII", self._take(20))
            body = self._take(length)
            if kind == INFO and body[:2] == b"\0\0":
                size = struct.unpack(">Q", body[2:10])[0]
            elif kind == ACK:
                return size
            elif kind & 1 << 31:
                raise OSError(f"the server refuses: {body!r}")

    def _take(self, count):
        parts = bytearray()
        while len(parts) < count:
            some = self.socket.recv(count - len(parts))
            if not some:
                raise Gone("the server is gone")
            parts += some
        return bytes(parts)

    def send(self, kind, offset=0, data=b"", length=None, flags=0):
        """Sends a request; its number, by which the answer is told."""
        number, self.next = self.next, self.next + 1
        length = len(data) if length is None else length
        self.sent[number] = (kind, offset, length)
        try:
            self.socket.sendall(struct.pack(">IHHQQI", REQUEST, flags, kind, number, offset, length) + data)
        except (BrokenPipeError, ConnectionResetError):
            raise Gone("the server is gone") from None
        return number

    def answer(self):
        """The next answer: number, error (0: done) and the bytes of a read."""
        try:
            magic, error, number = struct.unpack(">IIQ", self._take(16))
        except ConnectionResetError:
            raise Gone("the server is gone") from None
        assert magic == REPLY, hex(magic)
        kind, _, length = self.sent.pop(number)
        data = self._take(length) if kind == READ and not error else b""
        return number, error, data

    def ask(self, kind, offset=0, data=b"", length=None, flags=0):
        """One request and its answer; an error of the server is an OSError."""
        self.send(kind, offset, data, length, flags)
        _, error, data = self.answer()
        if error:
            raise OSError(error, f"the server answers error {error}")
        return data

    def read(self, offset, length):
        return self.ask(READ, offset, length=length)

    def write(self, offset, data, flags=0):
        self.ask(WRITE, offset, data, flags=flags)

    def close(self):
        self.socket.close()

"""Servers that do not behave, on loopback: each way is a function of a connection that has sent its request."""

import contextlib
import json
import select
import socket
import threading
import time


class Store:
    """Takes connections until it is closed; `requests` are the first lines that came, `heads` all of their heads."""

    def __init__(self, answer):
        self.answer, self.requests, self.heads, self.over = answer, [], [], threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self):
        while not self.over.is_set():
            if not select.select([self.listener], [], [], 0.2)[0]:
                continue
            with contextlib.suppress(OSError):
                threading.Thread(target=self._serve, args=(self.listener.accept()[0],), daemon=True).start()
        self.listener.close()

    def _serve(self, connection):
        with connection, contextlib.suppress(OSError, ValueError):
            connection.settimeout(60)
            while (head := request_of(connection)) and not self.over.is_set():
                line = head.split(b"\r\n")[0].decode("latin-1")
                self.heads.append(head)
                self.requests.append(line)
                self.answer(self, connection, line)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.over.set()


def request_of(connection):
    """One HTTP request, read whole; its head, or None at the end."""
    data = b""
    while b"\r\n\r\n" not in data:
        some = connection.recv(1 << 16)
        if not some:
            return None
        data += some
    head, _, body = data.partition(b"\r\n\r\n")
    lengths = [int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    left = (lengths[0] if lengths else 0) - len(body)
    while left > 0:
        some = connection.recv(min(left, 1 << 16))
        if not some:
            return None
        left -= len(some)
    return head


def status(code, body=b"", kind="application/json"):
    def answer(_, connection, __):
        head = f"HTTP/1.1 {code} Word\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
        connection.sendall(head.encode() + body)
    return answer


def hang(store, _, __):
    store.over.wait(120)


def drip(store, connection, _):
    """A header a byte at a time, for ever."""
    for byte in b"HTTP/1.1 200 OK\r\nX-Slow: " + b"a" * 100_000:
        connection.sendall(bytes([byte]))
        if store.over.wait(0.5):
            return


def close(_, connection, __):
    connection.close()


def endless_head(store, connection, _):
    connection.sendall(b"HTTP/1.1 200 OK\r\n")
    while not store.over.is_set():
        connection.sendall(b"X-More: " + b"a" * 8000 + b"\r\n")


def endless_body(store, connection, _):
    """White space is JSON too, as far as it goes."""
    connection.sendall(b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{"status":')
    while not store.over.is_set():
        connection.sendall(b" " * 65536)


def endless_error(store, connection, _):
    connection.sendall(b"HTTP/1.1 503 Busy\r\nContent-Type: text/plain\r\n\r\n")
    while not store.over.is_set():
        connection.sendall(b"busy " * 13000)


def many_series(count, ticks=3):
    """A store that has so many series of whatever it is asked for; they are sent as they are made."""
    def answer(store, connection, line):
        now = int(time.time())
        labels = "/label/" in line or "/labels" in line
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n")
        connection.sendall(b'{"status":"success","data":[' if labels or "/series" in line
                           else b'{"status":"success","data":{"resultType":"matrix","result":[')
        values = [[now - 15 * (ticks - i), str(i)] for i in range(ticks)]
        shown = f'"values":{json.dumps(values)}'
        for start in range(0, count, 2000):
            metric = ('{{"__name__":"node_disk_reads_completed_total","instance":"db1:9100","job":"node",'
                      '"device":"sd{}"}}')
            each = ([f'"sd{n}"' for n in range(start, start + 2000)] if labels
                    else [metric.format(n) for n in range(start, start + 2000)] if "/series" in line
                    else [f'{{"metric":{metric.format(n)},{shown}}}' for n in range(start, start + 2000)])
            connection.sendall((("," if start else "") + ",".join(each)).encode())
            if store.over.is_set():
                return
        connection.sendall(b"]}" if labels or "/series" in line else b"]}}")
        connection.close()
    return answer

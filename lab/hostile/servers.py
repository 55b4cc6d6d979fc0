"""What Diskwright serves and whom it asks: clients that only take, stores that misbehave."""

import base64
import contextlib
import json
import os
import re
import signal
import socket
import threading
import time

from hostile import stores
from hostile.logs import Read
from hostile.recorder import finished
from hostile.trial import Broken, Case, resident, wait_for

SCRAPE_S = 1.0
END_S = 8.0
MOST_BYTES = 256 << 20


# --- /metrics and its clients -------------------------------------------------------------------------

def serve_metrics(bench):
    """A recorder with a page for scrapers, and its port."""
    process = bench.begin("record", "--listen", "127.0.0.1:0", "--every", "500ms")
    found = []

    def told():
        with open(process.err, encoding="utf-8") as err:
            found[:] = re.findall(r"http://127\.0\.0\.1:(\d+)/metrics", err.read())
        return found
    wait_for(told, "the address of /metrics", process=process)
    scrape(int(found[0]))
    return process, int(found[0])


def scrape(port, patience=20):
    """Seconds that a page took, to its last byte."""
    began = time.monotonic()
    with socket.create_connection(("127.0.0.1", port), patience) as connection:
        connection.settimeout(patience)
        connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        page = b""
        while some := connection.recv(1 << 16):
            page += some
    if not page.startswith(b"HTTP/1.1 200"):
        raise OSError(f"no page: {page[:80]!r}")
    return time.monotonic() - began


def idle(_):
    """Says nothing."""


def half(connection):
    """Begins a request and does not end it."""
    connection.sendall(b"GET /metrics HTTP/1.1\r\nX: ")


def slow(connection):
    """A byte now and then; the last of them keep coming while others are scraped."""
    def drip():
        with contextlib.suppress(OSError):
            for byte in b"GET /metrics HTTP/1.1\r\nX: " + b"a" * 60:
                connection.sendall(bytes([byte]))
                time.sleep(0.3)
    threading.Thread(target=drip, daemon=True).start()


def read_nothing(connection):
    """Asks for many pages and reads none."""
    with contextlib.suppress(OSError):
        connection.settimeout(0.2)
        for _ in range(200):
            connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")


def clients(bench, kind, count, tiny_count):
    """So many clients of a kind, and a scrape beside them; twice, because other work can hold one up."""
    process, port = serve_metrics(bench)
    count, took = tiny_count if bench.tiny else count, []
    for _ in range(2):
        with contextlib.ExitStack() as open_ones:
            end = time.monotonic() + 10
            for _ in range(count):
                if time.monotonic() > end:
                    break
                with contextlib.suppress(OSError):
                    connection = open_ones.enter_context(socket.create_connection(("127.0.0.1", port), 2))
                    kind(connection)
            try:
                took.append(max(scrape(port) for _ in range(3)))
            except OSError as error:
                took.append(20.0)
                trouble = error
        if took[-1] < SCRAPE_S:
            break
    threads = len(os.listdir(f"/proc/{process.pid}/task"))
    memory = resident(process.pid)
    seconds = bench.end(process)
    if min(took) >= SCRAPE_S:
        raise Broken(f"a scrape took {min(took):.1f} s" if min(took) < 20 else f"no scrape: {trouble}")
    if threads > 300 or memory > MOST_BYTES:
        raise Broken(f"{threads} threads, {memory >> 20} MiB")
    if seconds > END_S:
        raise Broken(f"Ctrl-C took {seconds:.1f} s")
    return f"{count} of them; a scrape took {min(took) * 1000:.0f} ms; {threads} threads, {memory >> 20} MiB"


def dropped(bench):
    """Who says nothing is not kept for ever."""
    process, port = serve_metrics(bench)
    with socket.create_connection(("127.0.0.1", port), 2) as connection:
        connection.settimeout(60)
        began = time.monotonic()
        try:
            end = connection.recv(1000)
        except TimeoutError:
            raise Broken("an idle client is kept for 60 s and more") from None
        except OSError:
            end = b""
    bench.end(process)
    return f"dropped after {time.monotonic() - began:.1f} s ({end[:20]!r})"


# --- remote write ----------------------------------------------------------------------------------------

WAYS = {"hangs": stores.hang, "drips": stores.drip, "closes": stores.close,
        "answers 400": stores.status(400, b"out of order"), "answers 503": stores.status(503, b"busy"),
        "never ends its head": stores.endless_head, "never ends an error": stores.endless_error}


def remote_write(bench, way, with_log):
    """The recorder goes on, ends at once on Ctrl-C, and tells what was lost and where it is not."""
    log, lasts = bench.path("log"), 2 if bench.tiny else 5
    with stores.Store(WAYS[way]) as store:
        process = bench.begin("record", *([log] if with_log else []), "--every", "50ms", "--json",
                              "--remote-write", f"http://127.0.0.1:{store.port}")
        time.sleep(lasts)
        memory = resident(process.pid)
        took = bench.end(process)
    document, message = finished(process)
    broken = []
    if took > END_S:
        broken.append(f"Ctrl-C took {took:.1f} s")
    if memory > MOST_BYTES:
        broken.append(f"{memory >> 20} MiB")
    lost = (document.get("remote_write") or {}).get("samples_lost")
    if not lost or str(lost) not in message:
        broken.append(f"lost: {lost} in the document, said: {message.strip().splitlines()[-1:]}")
    if with_log:
        ticks = len(Read(bench, log).times)
        if process.returncode or ticks < lasts * 20 * 0.5:
            broken.append(f"exit {process.returncode}, {ticks} ticks in the log")
    else:
        if process.returncode != 1:
            broken.append(f"exit {process.returncode}, and {lost} samples are nowhere")
        if "the log has" in message:
            broken.append("it says that the log has them, and there is no log")
    if broken:
        raise Broken("; ".join(broken))
    return f"ended {took:.1f} s after Ctrl-C, exit {process.returncode}, {lost} samples told to be lost"


def full_url(bench):
    """The address as stores document it, path and all."""
    with stores.Store(stores.status(204)) as store:
        done = [bench.run("record", "--remote-write", f"http://127.0.0.1:{store.port}{path}", "--for", "500ms",
                          "--every", "100ms") for path in ("", "/", "/api/v1/write")]
    paths = {line.split()[1] for line in store.requests}
    if paths != {"/api/v1/write"} or any(one.code for one in done):
        raise Broken(f"asked for {', '.join(sorted(paths))}; exits {[one.code for one in done]}")
    return "each address leads to /api/v1/write"


# --- why --prometheus ----------------------------------------------------------------------------------------

QUESTIONS = {"an endless body": stores.endless_body, "an endless error": stores.endless_error,
             "an endless head": stores.endless_head, "many series": None}


def store_answers(bench, way):
    """Bounded in memory and time, and an end that says why."""
    answer = QUESTIONS[way] or stores.many_series(300_000)
    with stores.Store(answer) as store:
        done = bench.run("why", "--prometheus", f"http://127.0.0.1:{store.port}", "--match",
                         '{instance="db1:9100"}', "--json", patience=240, memory=2 << 30)
    summary = f"exit {done.code} after {done.seconds:.1f} s, at most {done.peak >> 20} MiB"
    if done.ended or done.peak > MOST_BYTES or done.code not in (0, 1) or (done.code and not done.said):
        raise Broken(summary + f": {done.said}")
    if way != "many series" and done.code == 0:
        raise Broken(f"{summary}: an answer was made of it")
    return f"{summary}: {done.said}"


def hanging_question(bench):
    """The first Ctrl-C ends a question that nobody answers."""
    with stores.Store(stores.hang) as store:
        process = bench.begin("why", "--prometheus", f"http://127.0.0.1:{store.port}", "--match", '{instance="x"}')
        wait_for(lambda: store.requests, "the question", process=process)
        took = bench.end(process, signal.SIGINT)
    if took > END_S:
        raise Broken(f"Ctrl-C took {took:.1f} s")
    return f"ended {took:.1f} s after Ctrl-C, exit {process.returncode}"


# --- passwords -----------------------------------------------------------------------------------------------------

SECRET = "s3cr3tpassw0rd"
ADDRESSES = ["http://user:{0}@127.0.0.1:1", "http://user:{0}@127.0.0.1:99999", "ftp://user:{0}@127.0.0.1",
             "http://user:{0}@", "http://user:{0}@[::1", "user:{0}@127.0.0.1:9090", "http://user:{0}@127.0.0.1:1/a b",
             "https://user:{0}@127.0.0.1:1", "http://:{0}@127.0.0.1:1", "http://user:{0}@127.0.0.1:port/x",
             "http://user:{0}@no-such-host.invalid/", "//user:{0}@127.0.0.1"]


def passwords(bench):
    """In no message, also where the address cannot be used; not in a log; not in the words of a child."""
    broken, encoded = [], base64.b64encode(f"user:{SECRET}".encode()).decode()
    for address in ADDRESSES:
        url = address.format(SECRET)
        for words in (["record", bench.path("log"), "--for", "300ms", "--every", "100ms", "--remote-write", url],
                      ["why", "--timeout", "2s", "--prometheus", url, "--match", '{instance="x"}'],
                      ["import", "--timeout", "2s", "--prometheus", url, "--match", '{instance="x"}', "--to",
                       bench.path("imported")]):
            done = bench.run(*words)
            output = done.out + done.err
            if SECRET.encode() in output or encoded.encode() in output:
                broken.append(f"{words[0]} {address.format('…')}")
    for folder, _, names in os.walk(bench.path("log")):
        for name in names:
            with open(os.path.join(folder, name), "rb") as file:
                broken += [f"it stands in {name}"] * (SECRET.encode() in file.read())
    if broken:
        raise Broken(f"shown by {', '.join(broken)}")
    return f"{len(ADDRESSES)} addresses, three commands: shown by none"


def password_elsewhere(bench):
    """Read from a file or the environment, so that the command line need not have it."""
    page = json.dumps({"status": "success", "data": []}).encode()
    helped = bench.run("record", "--help").out.decode() + bench.run("why", "--help").out.decode()
    flags = [flag for flag in re.findall(r"--[a-z-]+", helped) if "password" in flag or "credential" in flag]
    variables = re.findall(r"DISKWRIGHT_[A-Z_]*(?:PASSWORD|CREDENTIALS)[A-Z_]*", helped)
    secret = bench.write("secret", SECRET + "\n")
    os.chmod(secret, 0o600)
    tries = [([flag, secret], {}) for flag in dict.fromkeys(flags)]
    tries += [([], {name: SECRET}) for name in dict.fromkeys(variables)]
    arrived = 0
    for words, env in tries:
        seen = []

        def answer(store, connection, line, seen=seen):
            seen.append(store.heads[-1])
            stores.status(200, page)(store, connection, line)
        with stores.Store(answer) as store:
            bench.run("why", "--prometheus", f"http://user@127.0.0.1:{store.port}", "--match", '{instance="x"}', *words,
                      env=env)
        arrived += any(base64.b64encode(f"user:{SECRET}".encode()) in head or SECRET.encode() in head for head in seen)
    if not arrived:
        raise Broken(f"no way found: flags {flags}, variables {variables}")
    return f"{arrived} ways: {', '.join(dict.fromkeys(flags + variables))}"


CASES = [
    *(Case(f"servers/{kind.__name__} clients",
           f"{count} clients of /metrics: {kind.__doc__.strip().lower().rstrip('.')}",
           f"a scrape beside them takes less than {SCRAPE_S:.0f} s; threads and memory are bounded", clients,
           (kind, count, small), tiny=kind is idle)
      for kind, count, small in ((idle, 200, 20), (half, 50, 5), (slow, 50, 5), (read_nothing, 20, 5))),
    Case("servers/five idle clients", "five clients of /metrics that say nothing",
         f"a scrape beside them takes less than {SCRAPE_S:.0f} s", clients, (idle, 5, 5)),
    Case("servers/idle client dropped", "a client of /metrics that says nothing for a minute", "it is dropped",
         dropped),
    *(Case(f"servers/store {way}, {'log' if with_log else 'no log'}",
           f"record {'DIR ' if with_log else ''}--remote-write to a store that {way}",
           "Ctrl-C ends it in seconds; lost samples are told; "
           + ("the log is whole" if with_log else "exit 1, and no word of a log"),
           remote_write, (way, with_log), tiny=way == "hangs" and not with_log)
      for way in WAYS for with_log in (True, False)),
    Case("servers/full write address", "--remote-write with and without /api/v1/write", "the path once", full_url,
         tiny=True),
    *(Case(f"servers/question, {way}", f"why --prometheus of a store that answers {way}",
           f"at most {MOST_BYTES >> 20} MiB, and an end that says why", store_answers, (way,),
           tiny=way == "an endless body") for way in QUESTIONS),
    Case("servers/question hangs", "why --prometheus of a store that hangs, Ctrl-C", "it ends in seconds",
         hanging_question, tiny=True),
    Case("servers/passwords shown", "addresses with a password, most of them wrong", "in no message and no log",
         passwords, tiny=True),
    Case("servers/passwords elsewhere", "a password from a file or the environment", "there is a way, and it arrives",
         password_elsewhere),
]

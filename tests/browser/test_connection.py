"""The page of `serve` in a real browser whose server goes, hangs or refuses, or whose tab slept."""

import socket
import subprocess
import threading
import time
import unittest

from served import BINARY, FRAMES, STATE, BrowserCase, picture


class Between:
    """A server in front of another: it can let connections hang, or refuse some addresses with 503, as a proxy does."""

    def __init__(self, url):
        self.upstream = url[len("http://"):-1]
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}/"
        self.refused, self.asked, self.hangs, self.open = (), [], threading.Event(), []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        server = None
        try:
            head = b""
            while b"\r\n\r\n" not in head:
                part = client.recv(1 << 16)
                if not part:
                    return
                head += part
            path = head.split(b" ")[1].decode()
            if path.startswith(self.refused):
                self.asked.append(time.monotonic())
                client.sendall(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                return
            host, port = self.upstream.split(":")
            server = socket.create_connection((host, int(port)), timeout=60)
            # one request a connection, so that each is seen here
            first, rest = head.split(b"\r\n", 1)
            lines = [line for line in rest.split(b"\r\n") if not line.lower().startswith(b"connection:")]
            server.sendall(b"\r\n".join([first, b"Connection: close", *lines]))
            hangs = self.hangs
            while part := server.recv(1 << 16):
                if hangs.is_set():
                    # open, and silent for ever
                    self.open.append(client)
                    client = None
                    return
                client.sendall(part)
        except OSError:
            pass
        finally:
            for each in (client, server):
                if each:
                    each.close()

    def refuse(self, *paths):
        """Answers what begins like this with 503 from now on, and notes when it was asked."""
        self.asked, self.refused = [], paths

    def hang(self):
        """No byte comes any more on what is open now; what is opened later is served."""
        old, self.hangs = self.hangs, threading.Event()
        old.set()

    def stop(self):
        self.listener.close()
        for each in self.open:
            each.close()


class ConnectionTest(BrowserCase):
    """How the page goes on."""

    def test_a_server_that_goes_and_comes_back(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        start = lambda: subprocess.Popen([BINARY, "serve", self.log, "--listen", str(port)], stderr=subprocess.DEVNULL)
        server = start()
        try:
            time.sleep(1)
            page = self.browser.page()
            self.addCleanup(page.close)
            page.open(f"http://127.0.0.1:{port}/")
            page.until(f"{FRAMES} >= 2", "frames")
            server.kill()
            server.wait()
            page.until(f"/no connection/.test({STATE}) && !document.querySelector('#fault').hidden", "the loss")
            page.until(f"/no connection: no data for \\d+ s, trying again/.test({STATE})", "for how long", 40)
            picture(page, "lost")
            frames = page.run("+document.documentElement.dataset.frames")
            server = start()
            page.until(f"{FRAMES} > {frames + 2} && document.querySelector('#fault').hidden", "the return", 40)
        finally:
            server.kill()
            server.wait()

    def test_a_page_says_what_it_waits_for_until_its_first_frame(self):
        between = Between(self.live.url)
        self.addCleanup(between.stop)
        between.refuse("/api/host", "/api/view", "/events")
        page = self.browser.page()
        self.addCleanup(page.close)
        page.open(between.url)
        waits = "document.querySelector('#wait')"
        text = f"{waits}.innerText === `Connecting to ${{location.host}} …`"
        page.until(f"!{waits}.hidden && {text}", "what it waits for")
        picture(page, "connecting")
        between.refuse()
        page.until(f"{FRAMES} >= 2 && {waits}.hidden && /live/.test({STATE})", "frames", 60)

    def goes_and_comes_back(self, logs, shown, back):
        """A server of logs that goes while something is shown; the page says so until it is back."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        words = [BINARY, "serve", *logs, "--listen", str(port)]
        start = lambda: subprocess.Popen(words, stderr=subprocess.DEVNULL)
        server = start()
        try:
            time.sleep(1)
            page = self.browser.page()
            self.addCleanup(page.close)
            page.open(f"http://127.0.0.1:{port}/")
            page.until(shown, "the page", 60)
            server.kill()
            server.wait()
            page.until("!document.querySelector('#fault').hidden", "the loss", 40)
            server = start()
            page.until(f"document.querySelector('#fault').hidden && {back}", "the return", 60)
        finally:
            server.kill()
            server.wait()

    def test_a_list_of_hosts_goes_on_after_its_server_was_away(self):
        listed = "document.querySelectorAll('#hosts tbody tr').length === 2"
        self.goes_and_comes_back([self.log, self.simulated], listed, listed)

    def test_a_log_that_has_ended_is_no_longer_called_lost_after_its_server_was_away(self):
        recorded = f"/recorded/.test({STATE})"
        self.goes_and_comes_back([self.simulated], recorded, recorded)

    def through(self, server):
        between = Between(server.url)
        self.addCleanup(between.stop)
        return between, self.shown(between)

    def ranges(self, page):
        page.run("1")
        return sum("/api/range?" in url and "points=400" not in url for url in page.requests())

    def goes_on(self, page, event, known):
        """Frames come again, and the ticks between were asked for."""
        frames = page.run(FRAMES)
        calm = f"/live/.test({STATE}) && document.querySelector('#fault').hidden"
        page.until(f"{FRAMES} > {frames + 2} && {calm}", event, 60)
        self.wait(lambda: self.ranges(page) > known, f"the ticks before {event}")

    def test_a_tab_that_slept_goes_on(self):
        page = self.shown(self.live)
        page.until(f"{FRAMES} >= 3", "frames")
        page.call("Page.setWebLifecycleState", state="frozen")
        time.sleep(4)
        page.call("Page.setWebLifecycleState", state="active")
        frames = page.run(FRAMES)
        page.until(f"{FRAMES} > {frames + 2} && /live/.test({STATE})", "frames after its sleep")
        self.calm(page, self.live.url)

    def test_a_connection_that_died_without_a_word_is_replaced(self):
        between, page = self.through(self.live)
        page.until(f"{FRAMES} >= 3", "frames")
        for wakes in (False, True):
            known = self.ranges(page)
            between.hang()
            page.until(f"/no data for/.test({STATE})", "the silence")
            picture(page, "silent")
            if wakes:
                # a machine that wakes up, or finds its network again, asks at once
                page.run("dispatchEvent(new Event('online'))")
            self.goes_on(page, "frames of a new connection", known)

    def test_a_viewer_that_is_refused_asks_again_after_longer_and_longer_pauses(self):
        # what is asked for once is asked for again, and shown
        self.wait(lambda: self.recorded.json("api/host")["alerts_ready"], "the search for alerts")
        between, page = self.through(self.recorded)
        time.sleep(1)
        between.refuse("/api/range")
        page.key("+")
        self.wait(lambda: len(between.asked) >= 4, "four questions for a stretch")
        self.pauses_grow(between, 0.25)
        known = self.ranges(page)
        between.refuse()
        self.wait(lambda: self.ranges(page) > known, "the question that is answered")
        page.until("document.querySelector('#fault').hidden", "no fault")
        between, page = self.through(self.live)
        page.until(f"{FRAMES} >= 2", "frames")
        # a stream is no stream after such an answer, and the browser itself gives it up
        known = self.ranges(page)
        between.refuse("/events")
        between.hang()
        page.until(f"/no connection/.test({STATE})", "the refusal")
        self.wait(lambda: len(between.asked) >= 3, "three questions for the stream")
        self.pauses_grow(between, 1)
        between.refuse()
        self.goes_on(page, "frames after the refusals", known)

    def pauses_grow(self, between, first):
        """Each pause is at least three quarters of twice the one before."""
        times = list(between.asked)
        for number, (one, other) in enumerate(zip(times, times[1:])):
            self.assertGreaterEqual(other - one, first * 2 ** number * 0.74, times)


if __name__ == "__main__":
    unittest.main()

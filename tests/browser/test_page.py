"""The page of `serve` in a real browser: live, scrubbed, marked, on a phone, without a network, with many viewers.

DISKWRIGHT is the program; PICTURES a folder for pictures of the page, where somebody wants to look at them."""

import json
import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.request
from pathlib import Path

from chromium import Chromium, program

ROOT = Path(__file__).resolve().parents[2]
BINARY = os.environ.get("DISKWRIGHT", ROOT / "target/debug/diskwright")
HOSTILE = "<img src=x onerror=alert(1)>"
VIEWERS = 32


STATE = "document.querySelector('#state').innerText"
STRETCH = "document.querySelector('#stretch').innerText"
FRAMES = "+(document.documentElement.dataset.frames || 0)"
INKED = """(() => { const c = document.querySelector('#c2');
  const d = c.getContext('2d').getImageData(60, 0, c.width - 60, c.height - 20).data;
  let n = 0; for (let i = 3; i < d.length; i += 4) n += d[i] > 60; return n; })()"""


def picture(page, name):
    if folder := os.environ.get("PICTURES"):
        page.picture(Path(folder) / f"{name}.png")


class Served:
    """A running server."""

    def __init__(self, *arguments):
        self.process = subprocess.Popen(
            [BINARY, "serve", "--listen", "0", "--json", *map(str, arguments)],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        text = ""
        while not text.rstrip().endswith("}"):
            line = self.process.stdout.readline()
            if not line:
                raise AssertionError(f"the server ended: {text}")
            text += line
        self.url = json.loads(text)["url"]

    def json(self, target):
        with urllib.request.urlopen(self.url + target, timeout=60) as answer:
            return json.load(answer)

    def stop(self):
        self.process.terminate()
        self.process.wait(30)
        self.process.stdout.close()


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


@unittest.skipUnless(program(), "skipped: no chromium")
class PageTest(unittest.TestCase):
    """One browser, one recording and one simulated log for all tests."""

    @classmethod
    def setUpClass(cls):
        cls.folder = Path(tempfile.mkdtemp(prefix="diskwright-page-"))
        cls.log = cls.folder / "log"
        cls.recorder = subprocess.Popen(
            [BINARY, "record", cls.log, "--every", "200ms"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        cls.simulated = cls.folder / "simulated"
        subprocess.run([BINARY, "simulate", ROOT / "lab/systems/one-arm.toml", "--out", cls.simulated],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        cls.browser = Chromium()
        cls.servers = [Served(cls.simulated)]
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            shown = subprocess.run([BINARY, "show", cls.log, "--json"], capture_output=True)
            if shown.returncode == 0:
                break
            time.sleep(0.2)
        cls.servers.append(Served(cls.log))
        cls.recorded, cls.live = cls.servers

    @classmethod
    def tearDownClass(cls):
        for server in cls.servers:
            server.stop()
        cls.recorder.terminate()
        cls.recorder.wait(30)
        cls.browser.close()
        shutil.rmtree(cls.folder, ignore_errors=True)

    def page(self, server, fragment="", **size):
        page = self.browser.page(**size)
        self.addCleanup(page.close)
        page.open(server.url + fragment)
        return page

    def shown(self, server, fragment="", **size):
        page = self.page(server, fragment, **size)
        page.until("document.querySelectorAll('#devices tbody tr').length > 0", "the devices")
        page.until(f"/live|recorded/.test({STATE})", "the state")
        return page

    def calm(self, page, own):
        """Nothing went wrong, nothing was asked of others."""
        self.assertEqual(page.complaints(), [])
        strange = [url for url in page.requests() if not url.startswith((own, "data:", "about:"))]
        self.assertEqual(strange, [])

    def test_it_is_live(self):
        page = self.shown(self.live)
        page.until(f"{FRAMES} >= 3", "three frames")
        before = page.run("+document.documentElement.dataset.frames")
        page.until(f"{FRAMES} >= {before + 5}", "five more frames")
        self.assertIn("live", page.text("#state"))
        self.assertRegex(page.text("#verdict"), r"confidence")
        self.assertIn("chromium", page.text("#processes"))
        picture(page, "live")
        shown = page.run("document.querySelectorAll('#devices tbody tr').length")
        page.key("d")
        page.until("document.querySelector('#built').getAttribute('aria-pressed') === 'true'", "all block devices")
        page.until(f"document.querySelectorAll('#devices tbody tr').length >= {shown}", "the devices")
        page.key("d")
        page.key(" ")
        page.until(f"/paused/.test({STATE})", "the pause")
        page.until("location.hash.includes('at=')", "the moment in the address")
        page.key("End")
        page.until(f"/live/.test({STATE})", "the end")
        self.calm(page, self.live.url)

    def test_a_stretch_is_chosen_with_mouse_keys_and_fingers(self):
        page = self.shown(self.recorded)
        page.drag("#c1", 0.4, 0.7)
        page.until(f"/Save report/.test({STRETCH})", "a stretch")
        page.until("/judged: /.test(document.querySelector('#verdict').innerText)", "its verdict")
        page.until("location.hash.includes('part=')", "the stretch in the address")
        part = page.run("new URLSearchParams(location.hash.slice(1)).get('part')")
        begin, end = map(int, part.split("-"))
        first, last = self.recorded.json("api/host")["range_ms"]
        self.assertAlmostEqual((end - begin) / (last - first), 0.3 * 1.07, delta=0.06)
        picture(page, "stretch")
        # the same moment, by its link
        other = self.shown(self.recorded, page.run("location.hash"))
        other.until("!document.querySelector('#chosen').hidden", "the stretch of the link")
        # the stretch is kept, and another compared with it
        page.key("k")
        page.drag("#c1", 0.75, 0.95)
        page.until(f"/Compare with first/.test({STRETCH})", "the second stretch")
        page.key("c")
        page.until("!document.querySelector('#compared').hidden", "the comparison")
        self.assertIn("physical_disk.", page.text("#compared"))
        page.key("Escape")
        page.click("#c1", 0.5)
        page.until(f"/^At /.test({STRETCH})", "the cursor")
        page.key("Escape")
        for _ in range(3):
            page.key("ArrowLeft", shift=True)
        page.until(f"/Save report/.test({STRETCH})", "a stretch by keys")
        self.calm(page, self.recorded.url)
        phone = self.shown(self.recorded, width=390, height=844, mobile=True)
        phone.touch_drag("#c1", 0.3, 0.8)
        phone.until(f"/Save report/.test({STRETCH})", "a stretch by a finger")

    def test_latency_is_a_map(self):
        page = self.shown(self.recorded)
        page.until("/requests; half took/.test(document.querySelector('#key2').innerText)", "the map")
        page.until(f"{INKED} > 500", "cells of the map")
        picture(page, "map")
        self.calm(page, self.recorded.url)

    def test_bookmarks_are_text(self):
        page = self.shown(self.live)
        page.until(f"{FRAMES} >= 2", "frames")
        page.key("m")
        page.until("document.querySelector('#ask').open", "the question")
        page.type(HOSTILE)
        page.click("#askset")
        page.until(f"document.querySelector('#notes').innerText.includes({json.dumps(HOSTILE)})", "the bookmark")
        again = self.shown(self.live)
        again.until(f"document.querySelector('#notes').innerText.includes({json.dumps(HOSTILE)})", "it in the log")
        self.assertEqual(again.run("document.images.length"), 0)
        self.calm(again, self.live.url)

    def test_it_fits_a_phone_in_light_and_dark(self):
        for dark in (False, True):
            page = self.shown(self.recorded, width=360, height=740, mobile=True, dark=dark)
            self.assertLessEqual(page.run("document.documentElement.scrollWidth"), 360)
            ground = page.run("getComputedStyle(document.body).backgroundColor")
            self.assertEqual(int(ground.split("(")[1].split(",")[0]) < 60, dark, ground)
            picture(page, f"phone-{'dark' if dark else 'light'}")

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
            picture(page, "lost")
            frames = page.run("+document.documentElement.dataset.frames")
            server = start()
            page.until(f"{FRAMES} > {frames + 2} && document.querySelector('#fault').hidden", "the return", 40)
        finally:
            server.kill()
            server.wait()

    def through(self, server):
        between = Between(server.url)
        self.addCleanup(between.stop)
        return between, self.shown(between)

    def ranges(self, page):
        page.run("1")
        return sum("/api/range?" in url and "points=400" not in url for url in page.requests())

    def goes_on(self, page, what, known):
        """Frames come again, and the ticks between were asked for."""
        frames = page.run(FRAMES)
        calm = f"/live/.test({STATE}) && document.querySelector('#fault').hidden"
        page.until(f"{FRAMES} > {frames + 2} && {calm}", what, 60)
        self.wait(lambda: self.ranges(page) > known, f"the ticks before {what}")

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

    def wait(self, holds, what, seconds=40):
        end = time.monotonic() + seconds
        while not holds():
            self.assertLess(time.monotonic(), end, f"waited for {what}")
            time.sleep(0.05)

    def test_of_very_many_devices_a_hundred_busy_ones_are_shown(self):
        parts = ["Linux 6.1.0 (db1) \t03/02/2026 \t_x86_64_\t(4 CPU)\n"]
        disks = [f"d{number:03}" for number in range(130)]
        for second in range(60):
            parts.append(f"\n03/02/2026 08:00:{second:02} AM\n")
            parts.append("Device r/s rkB/s r_await w/s wkB/s w_await aqu-sz %util\n")
            # the last ones are the busy ones
            parts.extend(f"{disk} 10.00 40.00 1.00 0.00 0.00 0.00 {(number + 1) / 100:.2f} 1.00\n"
                         for number, disk in enumerate(disks))
        log = Path(self.folder) / "iostat-many.txt"
        log.write_text("".join(parts))
        server = Served(log)
        self.addCleanup(server.stop)
        page = self.page(server)
        rows = "[...document.querySelectorAll('#devices tbody tr')]"
        names = f"{rows}.slice(0, 100).map(row => row.cells[0].innerText)"
        page.until(f"{rows}.length === 101", "a hundred devices and a line for the rest")
        self.assertEqual(page.run(names), disks[:29:-1])
        self.assertEqual(page.run(f"{rows}[100].innerText.trim()"), "30 more …")
        page.click("#devices tbody tr:nth-child(101) button")
        page.until(f"{rows}.length === 131", "all of them")
        self.assertEqual(page.run(f"{rows}[130].innerText.trim()"), "fewer")
        self.assertEqual(sorted(page.run(f"{rows}.slice(0, 130).map(row => row.cells[0].innerText)")), disks)
        page.click("#devices tbody tr:nth-child(131) button")
        page.until(f"{rows}.length === 101", "a hundred again")
        # whoever sorts gets the first hundred of that order
        page.click("#devices thead th:nth-child(2) button")
        page.until(f"{rows}.length === 101 && document.querySelector('#devices th[aria-sort]') !== null", "an order")
        self.calm(page, server.url)

    def test_many_viewers_see_all_frames(self):
        streams = []
        host, port = self.live.url[7:-1].split(":")
        for _ in range(VIEWERS - 1):
            stream = socket.create_connection((host, int(port)), timeout=30)
            stream.sendall(f"GET /events HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
            streams.append(stream)
        page = self.shown(self.live)
        page.until(f"{FRAMES} >= 5", "frames beside many viewers")
        for stream in streams:
            text = b""
            while text.count(b"event: frame") < 2:
                part = stream.recv(1 << 16)
                self.assertTrue(part, "the stream ended")
                text += part
            stream.close()

    def test_a_line_keeps_its_look_whatever_is_beside_it(self):
        # a disk that is gone in the second log of its host
        files = []
        for minute, disks in enumerate((("sda", "sdb"), ("sdb",))):
            parts = ["Linux 6.1.0 (db1) \t03/02/2026 \t_x86_64_\t(4 CPU)\n"]
            for second in range(60):
                parts.append(f"\n03/02/2026 08:{minute:02}:{second:02} AM\n")
                parts.append("Device r/s rkB/s r_await w/s wkB/s w_await aqu-sz %util\n")
                parts.extend(f"{disk} 10.00 40.00 1.00 0.00 0.00 0.00 0.10 1.00\n" for disk in disks)
            files.append(Path(self.folder) / f"iostat-{minute}.txt")
            files[-1].write_text("".join(parts))
        server = Served(*files)
        self.addCleanup(server.stop)
        look = """Object.fromEntries([...document.querySelectorAll('#key1 button')].map(b =>
            [b.textContent, b.querySelector('line').getAttribute('stroke')]))"""
        page = self.shown(server)
        first, last = server.json("api/host")["range_ms"]
        page.until(f"Object.keys({look}).length === 2", "both lines")
        both = page.run(look)
        other = self.shown(server, f"#from={last - 10000:.0f}&to={last:.0f}")
        other.until(f"Object.keys({look}).length > 0", "the line")
        self.assertEqual(other.run(look)["sdb"], both["sdb"])
        self.assertNotEqual(both["sda"], both["sdb"])

    def test_hosts_are_a_list_that_leads_to_each(self):
        server = Served(self.log, self.simulated)
        self.addCleanup(server.stop)
        page = self.page(server)
        page.until("document.querySelectorAll('#hosts tbody tr').length === 2", "two hosts")
        page.until("!/being judged/.test(document.querySelector('#hosts').innerText)", "both verdicts", 40)
        picture(page, "hosts")
        page.click("#hosts tbody tr:nth-child(1) button", 0.5)
        page.until("document.querySelectorAll('#devices tbody tr').length > 0", "the host")
        page.click("#all")
        page.until("!document.querySelector('#fleet').hidden", "the list again")
        self.calm(page, server.url)


if __name__ == "__main__":
    unittest.main()

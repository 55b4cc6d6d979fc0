"""What the tests of the page share: servers, logs, a browser.

DISKWRIGHT is the program; PICTURES a folder for pictures of the page, where somebody wants to look at them."""

import json
import os
import shutil
import subprocess
import tempfile
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


@unittest.skipUnless(program(), "skipped: no chromium")
class BrowserCase(unittest.TestCase):
    """One browser, one recording and one simulated log for all tests of a class."""

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

    def wait(self, holds, event, seconds=40):
        end = time.monotonic() + seconds
        while not holds():
            self.assertLess(time.monotonic(), end, f"waited for {event}")
            time.sleep(0.05)

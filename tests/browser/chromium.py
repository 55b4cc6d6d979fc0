"""A headless Chromium, driven over its pipe (Chrome DevTools Protocol), with the standard library alone."""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
KEYS = {"Tab": 9, "[": 219, "]": 221, "ArrowLeft": 37, "ArrowRight": 39, "Escape": 27, "End": 35, "Home": 36}


def program():
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


class Chromium:
    """A browser that reaches nothing but this machine's loopback."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="diskwright-chromium-")
        to_browser, self.write_end = os.pipe()
        self.read_end, from_browser = os.pipe()
        flags = [
            "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage",
            "--disable-background-networking", "--disable-component-update", "--hide-scrollbars", "--mute-audio",
            "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
            f"--user-data-dir={self.folder}", "--remote-debugging-pipe", "about:blank",
        ]

        def three_and_four():
            # far from 3 and 4 first, so that neither overwrites the other
            command, answer = os.dup(to_browser), os.dup(from_browser)
            os.dup2(command, 3)
            os.dup2(answer, 4)

        self.process = subprocess.Popen(
            [program(), *flags], close_fds=False, preexec_fn=three_and_four,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.buffer, self.number, self.events = b"", 0, []

    def message(self, seconds):
        end = time.monotonic() + seconds
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.read_end], [], [], max(0, end - time.monotonic()))
            if not ready:
                return None
            part = os.read(self.read_end, 1 << 16)
            if not part:
                raise EOFError("the browser has ended")
            self.buffer += part
        line, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(line)

    def call(self, method, session=None, **parameters):
        self.number += 1
        request = {"id": self.number, "method": method, "params": parameters}
        if session:
            request["sessionId"] = session
        os.write(self.write_end, json.dumps(request).encode() + b"\0")
        end = time.monotonic() + 60
        while time.monotonic() < end:
            found = self.message(end - time.monotonic())
            if found is None:
                break
            if found.get("id") == self.number:
                if "error" in found:
                    raise RuntimeError(f"{method}: {found['error']}")
                return found["result"]
            self.events.append(found)
        raise TimeoutError(method)

    def page(self, **size):
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        return Page(self, session, target, **size)

    def close(self):
        try:
            self.call("Browser.close")
        except (OSError, EOFError, TimeoutError, RuntimeError):
            pass
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.read_end)
        os.close(self.write_end)
        shutil.rmtree(self.folder, ignore_errors=True)


class Page:
    """A tab."""

    def __init__(self, browser, session, target, width=1280, height=900, mobile=False, dark=False):
        self.browser, self.session, self.target = browser, session, target
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)
        if mobile:
            self.call("Emulation.setTouchEmulationEnabled", enabled=True)
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=features)

    def call(self, method, **parameters):
        return self.browser.call(method, self.session, **parameters)

    def open(self, url):
        self.call("Page.navigate", url=url)

    def run(self, script):
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{script}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def text(self, selector):
        return self.run(f"document.querySelector({json.dumps(selector)})?.innerText ?? null")

    def until(self, script, event, seconds=25):
        end = time.monotonic() + seconds
        # the page may be on its way
        careful = f"(() => {{ try {{ return {script}; }} catch {{ return false; }} }})()"
        while time.monotonic() < end:
            if self.run(careful):
                return
            time.sleep(0.05)
        state, fault = self.text("#state"), self.text("#fault")
        raise AssertionError(f"waited {seconds} s for {event}; state: {state!r}, fault: {fault!r}")

    def box(self, selector):
        script = "(e => { e.scrollIntoView({block: 'center'}); const b = e.getBoundingClientRect();"
        script += " return [b.left, b.top, b.width, b.height]; })"
        return self.run(f"{script}(document.querySelector({json.dumps(selector)}))")

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def click(self, selector, share=0.5):
        left, top, wide, high = self.box(selector)
        self.drag_points([(left + wide * share, top + high / 2)])

    def press(self, selector):
        """Presses the mouse's button on the middle of an element."""
        left, top, wide, high = self.box(selector)
        self.mouse("mouseMoved", left + wide / 2, top + high / 2)
        self.mouse("mousePressed", left + wide / 2, top + high / 2, button="left", clickCount=1)

    def release(self, selector):
        """Releases the mouse's button on the middle of an element."""
        left, top, wide, high = self.box(selector)
        self.mouse("mouseReleased", left + wide / 2, top + high / 2, button="left", clickCount=1)

    def drag(self, selector, begin, end):
        left, top, wide, high = self.box(selector)
        steps = [begin + (end - begin) * part / 6 for part in range(7)]
        self.drag_points([(left + wide * share, top + high / 2) for share in steps])

    def drag_points(self, points):
        pressed = {"button": "left", "clickCount": 1}
        self.mouse("mouseMoved", *points[0])
        self.mouse("mousePressed", *points[0], **pressed)
        for point in points[1:]:
            self.mouse("mouseMoved", *point, button="left", buttons=1)
        self.mouse("mouseReleased", *points[-1], **pressed)

    def touch_drag(self, selector, begin, end):
        left, top, wide, high = self.box(selector)
        at = lambda share: [{"x": left + wide * share, "y": top + high / 2}]
        self.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=at(begin))
        for part in range(1, 7):
            self.call("Input.dispatchTouchEvent", type="touchMove", touchPoints=at(begin + (end - begin) * part / 6))
        self.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

    def key(self, key, shift=False):
        code = KEYS.get(key, ord(key.upper()) if len(key) == 1 else 0)
        for kind in ("rawKeyDown", "keyUp"):
            modifiers = 8 if shift else 0
            self.call("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, modifiers=modifiers)

    def type(self, text):
        self.call("Input.insertText", text=text)

    def picture(self, path, full=True):
        size = self.run("[document.documentElement.scrollWidth, document.documentElement.scrollHeight]")
        clip = {"x": 0, "y": 0, "width": size[0], "height": size[1], "scale": 1} if full else None
        more = {"clip": clip, "captureBeyondViewport": True} if clip else {}
        data = self.call("Page.captureScreenshot", format="png", **more)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))

    def requests(self):
        """Addresses that the page asked for so far."""
        mine = [event for event in self.browser.events if event.get("sessionId") == self.session]
        return [e["params"]["request"]["url"] for e in mine if e.get("method") == "Network.requestWillBeSent"]

    def complaints(self):
        """What the browser's console complains of: errors of scripts, breaches of the content policy."""
        mine = [event for event in self.browser.events if event.get("sessionId") == self.session]
        errors = [e["params"]["entry"]["text"] for e in mine
                  if e.get("method") == "Log.entryAdded" and e["params"]["entry"]["level"] == "error"]
        thrown = [e["params"]["exceptionDetails"]["exception"].get("description", "") for e in mine
                  if e.get("method") == "Runtime.exceptionThrown"]
        return errors + thrown

    def close(self):
        self.browser.call("Target.closeTarget", targetId=self.target)

"""The page of `serve` in a real browser: live, scrubbed, marked, on a phone, without a network, with many viewers."""

import json
import socket
import subprocess
import time
import unittest
from pathlib import Path

from served import BINARY, FRAMES, HOSTILE, INKED, STATE, STRETCH, VIEWERS, BrowserCase, Served, picture


class PageTest(BrowserCase):
    """What the page shows."""

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

    def test_everything_fits_a_phone_of_usual_width(self):
        for server in (self.live, self.recorded):
            page = self.shown(server, width=390, height=844, mobile=True)
            page.until("document.querySelectorAll('#processes tbody td').length > 0", "the processes")
            self.assertLessEqual(page.run("document.documentElement.scrollWidth"), 390)
            # no value of a process lies beyond the edge, where nobody looks for it
            beyond = "[...document.querySelectorAll('#processes td, #who p, #verdict p')]"
            beyond += ".filter(one => one.getBoundingClientRect().right > 390).map(one => one.innerText)"
            self.assertEqual(page.run(beyond), [])
            picture(page, f"phone-390-{'live' if server is self.live else 'log'}")

    def test_the_report_fits_a_desk_and_a_phone(self):
        file = self.folder / "report.html"
        subprocess.run([BINARY, "report", self.simulated, "-o", file], check=True, stderr=subprocess.DEVNULL)
        for width, mobile in ((1280, False), (390, True)):
            page = self.browser.page(width=width, height=900, mobile=mobile)
            self.addCleanup(page.close)
            page.open(f"file://{file}")
            page.until("document.querySelector('.card.verdict') !== null", "the report")
            self.assertLessEqual(page.run("document.documentElement.scrollWidth"), width)
            picture(page, f"report-{width}")

    def frames_changed(self, page, change):
        """From now on, `change` sees each frame before the page does."""
        page.run("(() => { const parse = JSON.parse; JSON.parse = text => { const value = parse(text);"
                 f" if (value.view) (frame => {{ {change} }})(value); return value; }}; }})()")

    def test_what_was_not_measured_is_a_dash(self):
        page = self.shown(self.live)
        # a kernel that does not count delays
        self.frames_changed(page, """frame.view.processes = [{ pid: 7, name: 'unmeasured', cgroup: '/',
            processor: 0.5, read_bytes_per_s: null, write_bytes_per_s: null, block_delay: null, blocked_share: 0,
            resident_bytes: 1 }]""")
        texts = "one => one.innerText"
        row = "[...document.querySelectorAll('#processes tbody tr')].find(one => /unmeasured/.test(one.innerText))"
        page.until(f"window.found = [...{row}.cells].map({texts})", "the process")
        cells = page.run("found")
        heads = page.run(f"[...document.querySelectorAll('#processes th')].map({texts})")
        shown = dict(zip([head.split(" ↓")[0] for head in heads], cells))
        self.assertEqual((shown["I/O wait"], shown["read"], shown["processor"]), ("-", "-", "50.0 %"))
        self.assertNotIn("–", "".join(cells))

    def test_backticks_are_never_shown_but_in_bookmarks(self):
        page = self.shown(self.live)
        self.frames_changed(page, """const mark = (kind, text) => ({ time_ns: frame.range_ms[1] * 1e6, kind, text });
            frame.view.marks = [mark('warning', 'type `why`'), mark('bookmark', 'my `own`')]""")
        page.until("/type why/.test(document.querySelector('#notes').innerText)", "what is typed")
        self.assertGreater(page.run("document.querySelectorAll('#notes code').length"), 0)
        self.assertIn("my `own`", page.text("#notes"))
        self.assertEqual(page.run("[...document.querySelectorAll('[title*=\"`\"]')].map(one => one.title)"), [])
        self.assertNotIn("`", page.text("#explain"))

    def test_a_frame_that_comes_twice_is_drawn_once(self):
        page = self.browser.page()
        self.addCleanup(page.close)
        page.call("Page.addScriptToEvaluateOnNewDocument", source="""
            const listen = EventSource.prototype.addEventListener;
            window.came = 0;
            EventSource.prototype.addEventListener = function (kind, handle) {
              listen.call(this, kind, event => { window.came += kind === 'frame'; handle(event); handle(event); });
            };""")
        page.open(self.live.url)
        page.until(f"{FRAMES} >= 3", "three frames")
        came, drawn = page.run(f"[came, {FRAMES}]")
        # the first one of a stream may be one that the page has
        self.assertIn(drawn, (came, came - 1))

    def test_the_card_of_culprits_cuts_no_text_that_cannot_be_scrolled_to(self):
        page = self.shown(self.recorded, width=1280, height=900)
        cut = "(() => { const card = document.querySelector('#who'); card.scrollTop = 1e6;"
        cut += " const last = [...card.children].at(-1).getBoundingClientRect(), edge = card.getBoundingClientRect();"
        cut += " return [card.scrollWidth - card.clientWidth, last.bottom - edge.bottom]; })()"
        sideways, below = page.run(cut)
        self.assertLessEqual(sideways, 0)
        self.assertLessEqual(below, 1)

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
        # a link names its host, which has another number in another server
        page.click("#hosts tbody tr:nth-child(1) button", 0.5)
        page.until("location.hash.includes('name=')", "the host in the address")
        link, name = page.run("location.hash"), page.text("#host")
        other = Served(self.simulated, self.log)
        self.addCleanup(other.stop)
        self.assertEqual(self.shown(other, link).text("#host"), name)
        self.calm(page, server.url)

    def test_a_click_survives_a_redraw_of_the_list(self):
        server = Served(self.log, self.simulated)
        self.addCleanup(server.stop)
        page = self.page(server)
        page.until("document.querySelectorAll('#hosts tbody tr').length === 2", "two hosts")
        page.run("""(() => {
          const real = window.fetch;
          window.asked = 0;
          window.fetch = (...given) => { if (/api.hosts/.test(given[0])) window.asked++; return real(...given); };
        })()""")
        page.press("#hosts tbody tr:nth-child(1) button")
        # the list was drawn after the first of them, at the latest when it is requested again
        page.until("window.asked > 1", "the list, requested again", 40)
        page.release("#hosts tbody tr:nth-child(1) button")
        page.until("document.querySelectorAll('#devices tbody tr').length > 0", "the host")

    def test_an_answer_about_a_host_is_nothing_to_the_list(self):
        server = Served(self.log, self.simulated)
        self.addCleanup(server.stop)
        page = self.page(server)
        page.until("document.querySelectorAll('#hosts tbody tr').length === 2", "two hosts")
        page.run("""(() => {
          const real = window.fetch, fault = document.querySelector('#fault');
          window.told = [];
          new MutationObserver(() => told.push(fault.textContent)).observe(fault, { childList: true });
          window.fetch = async (...given) => {
            if (!/api.view/.test(given[0])) return real(...given);
            await new Promise(done => { window.release = done; });
            return real(...given).finally(() => { window.answered = true; });
          };
        })()""")
        page.click("#hosts tbody tr:nth-child(1) button", 0.5)
        page.until("!!window.release", "the question")
        page.click("#all")
        page.until("!document.querySelector('#fleet').hidden", "the list again")
        page.run("release()")
        page.until("!!window.answered", "the late answer")
        time.sleep(0.5)
        self.assertEqual(page.run("told.filter(text => text).join()"), "")

    def test_keys_jump_to_alerts(self):
        page = self.shown(self.recorded)
        begin = round(self.recorded.json("api/host")["range_ms"][0]) + 2000
        # what a stretch answers has alerts beside its marks
        page.run("""(() => {
          const real = window.fetch;
          window.fetch = async (...given) => {
            const answer = await real(...given);
            if (!/api.range/.test(given[0]) || !answer.ok) return answer;
            const found = await answer.json();
            found.marks = [];
            const alert = { id: 'disk.stall', instance: 'sda', severity: 'critical', sentence: 'it stalls' };
            found.alerts = [{ ...alert, begin_ns: %d * 1e6 }];
            return new Response(JSON.stringify(found));
          };
        })()""" % begin)
        page.key("+")
        page.until("document.querySelector('#alerts').innerText.includes('it stalls')", "the alert")
        page.key("[")
        page.until(f"location.hash.includes('at={begin}')", "the cursor at its begin")

    def test_a_button_that_is_pressed_while_a_frame_comes_is_clicked(self):
        page = self.shown(self.live)
        page.until(f"{FRAMES} >= 2", "frames")
        left, top, width, height = page.box("#devices th button")
        place = (left + width / 2, top + height / 2)
        page.mouse("mousePressed", *place, button="left", clickCount=1)
        frames = page.run(FRAMES)
        page.until(f"{FRAMES} > {frames + 1}", "frames meanwhile")
        page.mouse("mouseReleased", *place, button="left", clickCount=1)
        page.until("!!document.querySelector('#devices th[aria-sort]')", "the order")

    def test_tables_keep_the_keyboard_while_frames_come(self):
        page = self.shown(self.live)
        page.until(f"{FRAMES} >= 2", "frames")
        page.run("document.querySelector('#built').focus()")
        page.key("Tab")
        focused = "document.activeElement.textContent"
        head = page.run(focused)
        for step in range(2):
            self.assertTrue(page.run("document.activeElement.matches('#devices button')"), page.run(focused))
            frames = page.run(FRAMES)
            page.until(f"{FRAMES} > {frames + 2}", "frames meanwhile")
            self.assertEqual(page.run(focused).rstrip(" ↑↓"), head)
            if step == 0:
                # the arrow of its order is no other button
                page.run("document.activeElement.click()")
                page.until("document.querySelector('#devices th[aria-sort]') !== null", "the order")
        # a button that has it, here by the mouse, leaves other keys their meaning
        page.click("#devices th button")
        frames = page.run(FRAMES)
        page.until(f"{FRAMES} > {frames + 1}", "frames meanwhile")
        page.key("m")
        page.until("document.querySelector('#ask').open", "the question")

    def test_ticks_that_come_before_the_answer_to_a_question_are_shown(self):
        page = self.shown(self.live)
        page.until(f"{FRAMES} >= 2", "frames")
        page.run("""(() => {
          const real = window.fetch;
          window.ticks = []; window.held = []; window.answered = 0;
          window.fetch = async (...given) => {
            const answer = await real(...given);
            if (!/api.range/.test(given[0])) return answer;
            await new Promise(done => window.held.push(done));
            answered++;
            return answer;
          };
          new EventSource('events?host=0').addEventListener('frame', event =>
            ticks.push(...JSON.parse(event.data).ticks.map(tick => tick[0])));
        })()""")
        # all is asked anew at each thirtieth frame
        page.until(f"{FRAMES} % 30 > 0 && {FRAMES} % 30 < 5", "frames without a question of their own")
        page.run("ticks.length = 0")
        page.key("+")
        page.until("held.length > 0", "the question")
        page.until("ticks.length >= 6", "ticks meanwhile")
        page.run("held.forEach(done => done())")
        page.until("answered > 0", "the answer")
        page.key(" ")
        page.until("/from=/.test(location.hash)", "the pause")
        read = page.run("""(() => {
          const words = new URLSearchParams(location.hash.slice(1)), from = +words.get('from'), to = +words.get('to');
          const box = document.querySelector('#c0').getBoundingClientRect(), margin = 58;
          return ticks.slice(0, -1).filter(t => t <= to).map(t => {
            const x = box.left + margin + (t - %f / 2 - from) / (to - from) * (box.width - margin);
            const move = new PointerEvent('pointermove', { clientX: x, bubbles: true });
            document.querySelector('#c0').dispatchEvent(move);
            return document.querySelector('#read').textContent;
          });
        })()""" % self.live.json("api/host")["interval_ms"])
        self.assertGreaterEqual(len(read), 4)
        for text in read:
            self.assertRegex(text, r"\d\d:\d\d:\d\d   \S")

    def test_shift_begins_at_the_new_cursor_after_a_click(self):
        page = self.shown(self.recorded)
        for _ in range(4):
            page.key("ArrowLeft", shift=True)
        page.until(f"/Save report/.test({STRETCH})", "a stretch at the end")
        page.click("#c1", 0.3)
        page.until("location.hash.includes('at=')", "the cursor")
        for _ in range(4):
            page.key("ArrowRight", shift=True)
        page.until("location.hash.includes('part=')", "a stretch at the cursor")
        begin, end = page.run("new URLSearchParams(location.hash.slice(1)).get('part').split('-').map(Number)")
        first, last = self.recorded.json("api/host")["range_ms"]
        self.assertLess((begin - first) / (last - first), 0.4)
        self.assertLess((end - first) / (last - first), 0.5)

    def test_the_value_at_a_cursor_is_of_the_tick_that_ends_there(self):
        page = self.shown(self.recorded)
        page.until("location.hash.includes('from=')", "its address")
        host = self.recorded.json("api/host")
        first, interval = host["range_ms"][0], host["interval_ms"]
        # twenty ticks, of which the tenth is another
        line = {"counter": host["timeline"][0]["counter"], "instance": ""}
        values = [7 if tick == 9 else 3 for tick in range(20)]
        line |= {"least": values, "mean": values, "most": values}
        page.run("""(() => {
          const real = window.fetch;
          window.fetch = async (...given) => {
            const answer = await real(...given);
            if (!/api.range/.test(given[0]) || !answer.ok) return answer;
            return new Response(JSON.stringify({ ...await answer.json(), lines: [%s] }));
          };
          location.hash = '#from=%f&to=%f&at=%f';
        })()""" % (json.dumps(line), first, first + 20 * interval, first + 10 * interval))
        read = "document.querySelector('#read').innerText"
        page.until(f"/ (300|700|3.00|7.00)/.test({read})", "a value")
        self.assertRegex(page.run(read), " (700|7.00)")

    def test_days_below_a_chart_of_years_lie_apart(self):
        page = self.shown(self.recorded)
        first = self.recorded.json("api/host")["range_ms"][0]
        last = first + 730 * 86_400_000
        # the labels of the last drawing, from left to right
        page.run("""(() => {
          const real = window.fetch, write = CanvasRenderingContext2D.prototype.fillText;
          window.fetch = async (...given) => {
            const answer = await real(...given);
            if (!/api.host\\?/.test(given[0]) || !answer.ok) return answer;
            return new Response(JSON.stringify({ ...await answer.json(), range_ms: [%f, %f] }));
          };
          window.days = [];
          CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
            const before = window.days.at(-1) ?? Infinity;
            const isDay = this.canvas.id === 'c0' && /^\\d\\d-\\d\\d$/.test(text);
            if (isDay) window.days = x > before ? [...window.days, x] : [x];
            write.call(this, text, x, y);
          };
          window.askFor = hash => { if (!location.hash.includes(hash)) location.hash = hash; };
        })()""" % (first, last))
        # an answer that was on its way may set the true range again
        page.until(f"askFor('from={first:.0f}&to={last:.0f}') || window.days.length >= 3", "the days")
        days = page.run("window.days")
        self.assertGreater(min(after - before for before, after in zip(days, days[1:])), 40)


if __name__ == "__main__":
    unittest.main()

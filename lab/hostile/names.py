"""Hostile names in every place where a name can stand: what people are shown has no control
characters in it, and no cell that a spreadsheet runs."""

import json
import os
import sys

from hostile import stores
from hostile.situations import hold
from hostile.trial import Broken, Case, Unavailable, escape_controls
from hostile.words import FORGED_LINE, FORMULAS, LONG, MARKUP, NASTY, NASTY_LINES, controls, formulas, on_terminals
from virtual import description

IOSTAT = """Linux 6.1 (host) \t11/22/2026 \t_x86_64_\t(2 CPU)

{reports}"""
REPORT = """11/22/2026 10:00:0{n} PM
Device            r/s     rkB/s   rrqm/s  %rrqm r_await rareq-sz     w/s     wkB/s   wrqm/s  %wrqm w_await wareq-sz \
    d/s     dkB/s   drqm/s  %drqm d_await dareq-sz     f/s f_await  aqu-sz  %util
{device}  {first} 4.00 0.00 0.00 1.00 4.00 0.00 0.00 0.00 0.00 0.00 0.00 \
    0.00 0.00 0.00 0.00 0.00 0.00 0.00 0.00 0.01 1.00

"""
SAR = """Linux 6.1 (host{name}) \t11/22/2026 \t_x86_64_\t(2 CPU)

12:00:01 AM       DEV       tps     rkB/s     wkB/s     dkB/s   areq-sz    aqu-sz     await     %util
12:00:02 AM {name}      5.00     10.00      0.00      0.00      2.00      0.01      1.00      0.50
12:00:03 AM {name}      {cell}     10.00      0.00      0.00      2.00      0.01      1.00      0.50
"""


SHORT = ["--for", "50ms", "--ramp", "0", "--forget"]


def iostat(bench, device, cell="1.00"):
    reports = "".join(REPORT.format(n=n, device=device, first=cell if n == 2 else "1.00") for n in range(4))
    return bench.write("iostat.txt", IOSTAT.format(reports=reports))


def quoted(text):
    """As a label's value, a CSV cell in quotes, or a TOML string has it."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def page(bench, devices, value="5"):
    lines = ["# TYPE node_disk_reads_completed_total counter", "# TYPE node_disk_io_time_seconds_total counter"]
    for at in range(4):
        for device in devices:
            lines.append(f'node_disk_reads_completed_total{{device="{quoted(device)}"}} '
                         f"{value if at == 2 else at * 5000} {1700000000 + 15 * at}000")
            lines.append(f'node_disk_io_time_seconds_total{{device="{quoted(device)}"}} {at * 14.9} '
                         f"{1700000000 + 15 * at}000")
    return bench.write("page.prom", "\n".join([*lines, "# EOF", ""]))


def readings(bench, log, imports=True):
    """Every command that shows a log, by the words that it is given."""
    made = bench.path("made")
    if imports:
        bench.run("import", log, "--to", made)
        yield ["import", log, "--to", bench.path("again")]
    log = made if os.path.isdir(made) else log
    yield from (["show", log], ["show", log, "--as", "chart", "--counter", "physical_disk.*"],
                ["show", log, "--as", "csv"], ["why", log], ["export", log, "--as", "csv", "--long"],
                ["export", log, "--as", "prometheus"], ["export", log, "--as", "jsonl"], ["show", log, "--json"],
                ["report", log, "-o", bench.path("page.html")], ["compare", log, log])


def by(bench, place, lines):
    """A place, judged by control characters or, by itself, by lines that begin with a name's words."""
    bench.lines = lines
    return place(bench)


def raw_output(bench, commands, env=None):
    """What is shown raw by these commands, on a terminal and, of standard error, always."""
    broken, tried = [], 0
    for words in commands:
        tried += 1
        done = bench.run(*words, env=env, patience=60)
        environment = bench.environment | {"TERM": "xterm-256color"} | (env or {})
        out, err, code = on_terminals([bench.binary, *map(str, words)], environment, bench.folder)
        found = {"standard error": controls(done.err), "a terminal": controls(out, terminal=True),
                 "a terminal's standard error": controls(err, terminal=True, moving=True)}
        name = " ".join(str(word) for word in words[:3] if "/" not in str(word))
        found = {where: [one for one in lines if (one == FORGED_LINE) == bench.lines] for where, lines in found.items()}
        broken += [f"{escape_controls(name, 40)} on {where}: {', '.join(lines)}"
                   for where, lines in found.items() if lines]
        if done.code not in (0, 1, 2) or code not in (0, 1, 2):
            broken.append(f"{escape_controls(name, 40)}: exit {done.code} and {code}")
    if broken:
        raise Broken("; ".join(broken))
    return f"{tried} commands, nothing raw"


# --- places ---------------------------------------------------------------------------------------------

def file_names(bench):
    missing, there = bench.path("missing" + NASTY_LINES), bench.write("there" + NASTY_LINES, "no log\n")
    commands = [[*words, name, *more] for name in (missing, there, missing + "\udcff")
                for words, more in ((["show"], []), (["why"], []), (["export", "--as", "csv"], []),
                                    (["report", "-o", bench.path("p.html")], []),
                                    (["import", "--to", bench.path("l")], []),
                                    (["simulate"], []), (["disk"], []), (["mark"], ["text"]),
                                    (["compare", "x"], []), (["probe", "minread"], ["--live", *SHORT]))]
    return raw_output(bench, commands)


def output_names(bench):
    page_file = page(bench, ["sda"])
    nowhere = os.path.join(bench.path("none" + NASTY_LINES), "page")
    here = bench.path("page" + NASTY_LINES + ".html")
    return raw_output(bench, [["report", page_file, "-o", nowhere], ["export", page_file, "--as", "csv", "-o", nowhere],
                              ["report", page_file, "-o", here],
                              ["export", page_file, "--as", "csv", "-o", here + ".csv"]])


def words_typed(bench):
    log = page(bench, ["sda"])
    return raw_output(bench, [["show", log, "--counter", NASTY_LINES], ["why", log, "--pack", NASTY_LINES],
                              ["explain", NASTY_LINES], ["list", NASTY_LINES], [NASTY_LINES],
                              ["why", "--" + NASTY_LINES],
                              ["show", log, "--from", NASTY_LINES], ["probe", NASTY_LINES, "/nowhere"],
                              ["show", log, "--array", NASTY_LINES + "=single"], ["why", log, "--role", NASTY_LINES],
                              ["experiments", NASTY_LINES], ["disk", "status", "--socket", "/nowhere" + NASTY_LINES]])


def iostat_devices(bench):
    return raw_output(bench, readings(bench, iostat(bench, NASTY)))


def iostat_cells(bench):
    return raw_output(bench, readings(bench, iostat(bench, "sda", NASTY)))


def sar_names(bench):
    return raw_output(bench, readings(bench, bench.write("sar.txt", SAR.format(name=NASTY, cell="5.00"))))


def sar_cells(bench):
    return raw_output(bench, readings(bench, bench.write("sar.txt", SAR.format(name="sda", cell=NASTY))))


def perfmon(bench, name, cell):
    head = ["(PDH-CSV 4.0) (UTC)(0)", f"\\\\{name}\\PhysicalDisk({name})\\Avg. Disk Queue Length",
            f"\\\\{name}\\Odd Object({name})\\Odd Counter {name}"]
    rows = [[f"11/22/2026 10:00:{n:02}.000", cell if n == 2 else "1.5", "2"] for n in range(5)]
    text = "\r\n".join(",".join('"' + value.replace('"', '""') + '"' for value in row) for row in [head, *rows])
    return bench.write("perfmon.csv", text + "\r\n")


def perfmon_names(bench):
    return raw_output(bench, readings(bench, perfmon(bench, NASTY, "1")))


def perfmon_cells(bench):
    return raw_output(bench, readings(bench, perfmon(bench, "host", NASTY)))


def page_labels(bench):
    return raw_output(bench, readings(bench, page(bench, [NASTY_LINES])))


def page_values(bench):
    return raw_output(bench, readings(bench, page(bench, ["sda"], NASTY)))


def long_names(bench):
    return raw_output(bench, readings(bench, page(bench, [LONG, MARKUP])))


def descriptions(bench):
    """Unknown keys and hostile names of systems, packs and topologies."""
    with open(description("one-arm"), encoding="utf-8") as file:
        plain = file.read()
    # TOML has no raw controls, so they come by escapes
    text = "".join(c if c.isalnum() else f"\\U{ord(c):08X}" for c in NASTY_LINES)
    wrong = {"key": f'"{text}" = 1\n' + plain, "part": plain + f'[["{text}"]]\nname = "x"\n',
             "name": plain.replace('"disk"', f'"{text}"'), "value": plain.replace('"1GiB"', f'"{text}"'),
             "inner key": plain.replace("servers = 1", f'servers = 1\n"{text}" = 3'),
             "raw": NASTY_LINES + plain, "raw key": f'{NASTY} = 1\n'}
    paths = [bench.write(f"{name}.toml", content) for name, content in wrong.items()]
    log = page(bench, ["sda"])
    commands = [["simulate", path] for path in paths] + [["disk", path, "--for", "100ms"] for path in paths]
    commands += [[*words, path] for path in paths for words in (["why", log, "--pack"], ["why", log, "--topology"])]
    return raw_output(bench, commands)


def fio_jobs(bench):
    jobs = [f"[global]\n{NASTY}=1\n[job]\nrw=read\nsize=1M\n", f"[{NASTY}]\nrw={NASTY}\nsize=1M\n",
            f"[job]\nrw=read\nsize={NASTY}\n", f"[job]\nrw=read\nsize=1M\nfilename={NASTY}\n",
            f"[job]\nrw=read\nioengine={NASTY}\nsize=1M\n{NASTY}\n"]
    paths = [bench.write(f"{number}.fio", job) for number, job in enumerate(jobs)]
    return raw_output(bench, [["probe", path, bench.path("target"), "--size", "1MiB", *SHORT] for path in paths])


def bookmarks(bench):
    log = bench.path("made")
    bench.run("record", log, "--for", "300ms", "--every", "100ms")
    marked = bench.run("mark", log, NASTY_LINES, "=cmd|calc")
    if marked.code:
        return f"refused: {marked.said}"
    return raw_output(bench, [["mark", log, NASTY_LINES], *readings(bench, log, imports=False)])


def store_errors(bench):
    """What a store says goes into messages."""
    for kind in ("text/plain", "application/json"):
        body = (json.dumps({"status": "error", "errorType": NASTY, "error": NASTY_LINES}) if "json" in kind
                else NASTY_LINES).encode()
        with stores.Store(stores.status(400, body, kind)) as store:
            url = f"http://127.0.0.1:{store.port}"
            raw_output(bench, [["why", "--prometheus", url, "--match", '{instance="x"}'],
                               ["why", "--prometheus", url, "--fleet"],
                               ["import", "--prometheus", url, "--match", '{instance="x"}', "--to", bench.path("l")],
                               ["record", "--for", "300ms", "--every", "100ms", "--remote-write", url]])
    return "3 commands, two kinds of answer, nothing raw"


def probe_results(bench):
    """A result of `probe` is a file from outside as well."""
    result = bench.path("result.json")
    made = bench.run("probe", "minread", bench.path("t"), "--size", "1MiB", "--for", "50ms", "--ramp", "0", "--forget",
                     "-o", result)
    if made.code:
        raise Unavailable(made.said)
    with open(result, encoding="utf-8") as file:
        document = json.load(file)
    changed = {"target": NASTY_LINES, "suite": NASTY, "command": [NASTY_LINES], "remarks": [
        {"id": NASTY, "text": NASTY_LINES, "value": 1, "unit": NASTY}], "because": NASTY_LINES}
    device = {key: NASTY_LINES for key in ("name", "model", "serial", "host", "kernel", "filesystem", "mount")}
    document |= changed
    document["device"] |= device
    for run in document["runs"]:
        run["name"] = NASTY_LINES
    hostile = bench.write("hostile.json", json.dumps(document))
    return raw_output(bench, [["compare", hostile, result], ["compare", result, hostile], ["compare", hostile, hostile],
                              ["report", hostile, "-o", bench.path("p.html")],
                              ["report", hostile, "-o", bench.path("p.svg")]])


def processes(bench):
    """A process whose name is an order to the terminal holds a device, and works while `why` watches."""
    name = "\x1b]0;P\x07\x9b\nx"
    device = bench.loop(bench.image("disk", 4))
    rename = ("import ctypes, sys, time; file = open(sys.argv[2], 'rb', 0)\n"
              "ctypes.CDLL(None).prctl(15, sys.argv[1].encode('latin-1'), 0, 0, 0); print('held', flush=True)\n"
              "end = time.time() + 60\n"
              "while time.time() < end: sum(range(20000))")
    process = bench.start([sys.executable, "-c", rename, name, device])
    bench.wait_for(lambda: b"held" in open(process.log, "rb").read(), "the process", process=process)
    return raw_output(bench, [["probe", "commit", device, "--destroy-data-on", device], ["probe", "minread", device],
                              ["why", "--for", "1s", "--every", "200ms"]])


def mount_points(bench):
    image = bench.ext4(bench.image("disk", 16))
    device = bench.loop(image)
    bench.mount(device, "point" + NASTY.replace("\x9b", ""), "-o", "ro,noload")
    hold(bench, "read", device)
    return raw_output(bench, [["probe", "commit", device, "--destroy-data-on", device], ["probe", "minread", device],
                              ["record", bench.path("log"), "--for", "200ms", "--every", "100ms"]])


def damaged_names(bench):
    """A log whose folder's name is hostile, and damaged, so that it is told of."""
    log = bench.path("log" + NASTY_LINES)
    bench.run("record", log, "--for", "300ms", "--every", "100ms")
    os.truncate(os.path.join(log, "00000001.dwlog"), 900)
    return raw_output(bench, readings(bench, log, imports=False))


# --- cells --------------------------------------------------------------------------------------------------------

def cells(bench):
    """Names that a spreadsheet would run, in every CSV that is written."""
    log = page(bench, FORMULAS)
    target, broken = bench.path("out.csv"), []
    for words in (["show", log, "--as", "csv"], ["export", log, "--as", "csv"],
                  ["export", log, "--as", "csv", "--long"], ["export", log, "--as", "csv", "--long", "-o", target]):
        done = bench.run(*words)
        text = done.out.decode()
        if "-o" in words and done.code == 0:
            with open(target, encoding="utf-8") as file:
                text = file.read()
        found = formulas(text)
        if found or done.code:
            broken.append(f"{' '.join(words[::2][:2])} {words[-1] if words[-1][0] == '-' else ''}: "
                          f"{len(found)} cells such as {found[:1]}")
        if not any(formula.strip("=+-@") in text for formula in FORMULAS):
            broken.append("the names are gone altogether")
    if broken:
        raise Broken("; ".join(broken))
    return "no cell that is run"


def markup(bench):
    """A page is no place for orders either."""
    log, made = page(bench, [MARKUP, "</script><script>alert(2)</script>"]), bench.path("page.html")
    done = bench.run("report", log, "-o", made)
    with open(made, encoding="utf-8") as file:
        text = file.read()
    if done.code or MARKUP in text or "<script>alert(2)" in text:
        raise Broken(f"exit {done.code}; raw in the page")
    return "escaped in the page"


NOTHING = "no control character raw on a terminal, and none on standard error at all"
PLACES = [
    ("file names", file_names, True), ("output names", output_names, False), ("words typed", words_typed, False),
    ("iostat devices", iostat_devices, False), ("iostat cells", iostat_cells, True), ("sar names", sar_names, False),
    ("sar cells", sar_cells, False), ("perfmon names", perfmon_names, False), ("perfmon cells", perfmon_cells, False),
    ("page labels", page_labels, True), ("page values", page_values, False), ("long names", long_names, False),
    ("descriptions", descriptions, False), ("fio jobs", fio_jobs, True), ("bookmarks", bookmarks, False),
    ("store errors", store_errors, True), ("probe results", probe_results, False), ("process names", processes, False),
    ("mount points", mount_points, False), ("damaged log's name", damaged_names, False),
]
LINES = {"file names", "output names", "words typed", "page labels", "descriptions", "bookmarks", "store errors",
         "probe results", "process names", "damaged log's name"}
NEEDS = {"process names": {"losetup"}, "mount points": {"losetup", "mkfs.ext4"}}
CASES = [
    *(Case(f"names/{name}", f"escape sequences, C1 controls, bidi in {name}", NOTHING, by, (check, False),
           frozenset(NEEDS.get(name, ())), tiny) for name, check, tiny in PLACES),
    *(Case(f"names/forged line, {name}", f"an end of line and words of good news in {name}",
           "no line begins with those words", by, (check, True), frozenset(NEEDS.get(name, ())))
      for name, check, _ in PLACES if name in LINES),
    Case("names/spreadsheet", "=, +, -, @ as a device's name in show and export --as csv",
         "no cell that a spreadsheet runs", cells, tiny=True),
    Case("names/markup", "tags as a device's name in report", "escaped", markup),
]

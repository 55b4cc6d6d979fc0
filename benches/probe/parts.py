"""The parts of the bench. Each builds its devices, measures, and gives a
table, its raw runs, and what it holds to be wrong."""

import hashlib
import lzma
import os
import statistics
import sys
import time
import zlib

from contenders import contenders, fio, run_contender
from devices import Stalls
from table import aligned

# the goals: how far both may be apart, and how far a known time may be missed
PACED, FAST, KNOWN = 0.03, 0.10, 0.05
# a test beside compilers holds no more than this: known times, and one against the other
ROBUST, ROBUST_APART = 0.30, 1.0

DEPTHS = (1, 4, 8)
CORE = {
    **{f"4k random read, depth {depth}": {"rw": "randread", "bs": "4k", "iodepth": depth} for depth in DEPTHS},
    "64k sequential read, depth 1": {"rw": "read", "bs": "64k", "iodepth": 1},
    "4k random write, depth 4": {"rw": "randwrite", "bs": "4k", "iodepth": 4},
    "4k random, 70 % reads, depth 8": {"rw": "randrw", "rwmixread": 70, "bs": "4k", "iodepth": 8},
}
# a third of what the paced device does at depth 8, so that fio's late requests are few
OPEN = {
    "8k open loop, fixed rate": {"rw": "randread", "bs": "8k", "iodepth": 64, "rate_iops": 500},
    "8k open loop, poisson": {"rw": "randread", "bs": "8k", "iodepth": 64, "rate_iops": 500,
                              "rate_process": "poisson"},
}
MEASURES = ("requests_per_s", "mean_s", "p99_s")


def print_progress(text):
    print(text, file=sys.stderr, flush=True)


def run_in_turns(options, device, job, names=None):
    """Runs each contender several times, in turns; they alternate in going first."""
    both = contenders(options.program)
    names = names or list(both)
    runs = {name: [] for name in names}
    for turn in range(options.repeats):
        for name in names if turn % 2 == 0 else reversed(names):
            runs[name].append(both[name](device, job, 0.5, options.seconds))
    return runs


def median(runs, measure):
    values = [run[measure] for run in runs if run[measure] is not None]
    return statistics.median(values) if values else float("nan")


def relative_difference(runs, measure):
    """Returns the relative difference of diskwright from fio: the median over pairs of runs that followed each
    other, so that the state of the machine is the same for both, and a 95 % interval of it."""
    pairs = zip(runs["fio"], runs["diskwright"])
    ratios = sorted(b[measure] / a[measure] - 1 for a, b in pairs if a[measure] and b[measure])
    if not ratios:
        return (float("nan"),) * 3
    # the ranks between which a median lies with 95 % (binomial, normal approximation)
    reach = round(0.98 * len(ratios) ** 0.5)
    middle = (len(ratios) - 1) / 2
    low, high = max(0, int(middle - reach)), min(len(ratios) - 1, int(middle + reach + 0.5))
    return statistics.median(ratios), ratios[low], ratios[high]


def compare_jobs(options, device, jobs, goal):
    """Compares both programs over the jobs; `wrong` lists the figures that miss the goal."""
    rows = [["pattern", "requests/s: fio", "apart", "of 95 %", "mean: fio", "apart", "of 95 %", "99 %: fio", "apart",
             "of 95 %"]]
    raw, wrong, medians = {}, [], {}
    for name, job in jobs.items():
        print_progress(f"  {name}")
        raw[name] = runs = run_in_turns(options, device, job)
        row = [name]
        for measure in MEASURES:
            by, low, high = relative_difference(runs, measure)
            row += [format_value(measure, median(runs["fio"], measure)), f"{by:+.1%}", f"{low:+.1%} to {high:+.1%}"]
            medians[f"{name}: {measure}"] = [by, low, high]
            held = goal if not options.tiny else ROBUST_APART
            # beside compilers a tail is theirs; an open loop's latency is not the same quantity with both
            loose = measure == "p99_s" if options.tiny else "rate_iops" in job and measure != "requests_per_s"
            # half as much is as far away as twice as much
            if not -held / (1 + held) <= by <= held and not loose:
                noise = " (which may be noise)" if low <= held and high >= -held else ""
                wrong.append(f"{name}: {measure} is {by:+.1%} apart, goal {held:.0%}{noise}")
        rows.append(row)
    return {"table": aligned(rows), "apart": medians, "raw": raw, "wrong": wrong}


def format_value(measure, value):
    return f"{value:,.0f}" if measure == "requests_per_s" else f"{value * 1e3:.3f} ms"


def agreement_paced(devices, options):
    """Both on a device of 2 ms, depth up to 8; goal within 3 %."""
    return compare_on_paced(options, devices.paced(2), "a loop device over a paced export")


def agreement_paced_file(devices, options):
    """The same without the loop device, whose kernel threads wait on a busy machine."""
    return compare_on_paced(options, devices.paced_file(2), "a paced export as a file")


def compare_on_paced(options, target, title):
    jobs = {"4k random read, depth 4": CORE["4k random read, depth 4"]} if options.tiny else CORE | OPEN
    title += f", 2 ms; medians of {options.repeats} runs of {options.seconds} s; goal {PACED:.0%}"
    return {"what": title} | compare_jobs(options, target, jobs, PACED)


def agreement_fast(devices, options):
    """Both on this machine's disk, past the page cache; goal within 10 %."""
    path, disk = devices.real_file(64 if options.tiny else 1024)
    jobs = {"4k random read, depth 4": CORE["4k random read, depth 4"]} if options.tiny else CORE | faster(OPEN)
    title = f"a written file on {disk}, direct; goal {FAST:.0%}"
    return {"what": title} | compare_jobs(options, path, jobs, FAST)


def agreement_loop(devices, options):
    """Both on a loop device over such a file; goal within 10 %."""
    path, disk = devices.real_file(64 if options.tiny else 1024)
    device = devices.loop_over(path)
    jobs = {"4k random read, depth 8": CORE["4k random read, depth 8"]} if options.tiny else CORE
    return {"what": f"a loop device over a file on {disk}; goal {FAST:.0%}"} | compare_jobs(options, device, jobs, FAST)


def agreement_memory(devices, options):
    """Both on a compressed disk in memory (zram); goal within 10 %."""
    device = devices.zram(32 if options.tiny else 256)
    jobs = {"4k random read, depth 8": CORE["4k random read, depth 8"]} if options.tiny else CORE
    return {"what": f"zram with incompressible data; goal {FAST:.0%}"} | compare_jobs(options, device, jobs, FAST)


def faster(jobs):
    return {name: job | {"rate_iops": 4 * job["rate_iops"]} for name, job in jobs.items()}


def known_times(devices, options):
    """Service times of 1 to 20 ms through the block layer, recovered; goal within 5 %."""
    return recover_times(devices, options, devices.paced)


def known_times_file(devices, options):
    """The same without loop device and block layer, whose kernel threads wait on a busy machine."""
    return recover_times(devices, options, devices.paced_file)


def recover_times(devices, options, make):
    """Known times at several depths. `true` is what the server itself took, as it
    says. The path's own time is measured in the same turns and taken off: the
    same requests at delay 0, with a pause of that delay after each, because a
    processor that has slept takes longer to wake than a busy one."""
    delays = (5,) if options.tiny else (1, 2, 5, 8, 20)
    depths = (4,) if options.tiny else DEPTHS
    job = CORE["4k random read, depth 1"]
    both = contenders(options.program)
    bare = make(0)
    rows = [["delay", "depth", "true", "path", "ours", "less path", "missed", "depth / rate", "fio", "less path",
             "missed"]]
    raw, wrong = {}, []
    for delay in delays:
        for depth in depths:
            print_progress(f"  {delay} ms, depth {depth}")
            target = make(delay)
            runs = {"fio": [], "diskwright": [], "fio, path": [], "diskwright, path": []}
            for _ in range(options.repeats):
                for name, measure in both.items():
                    runs[name].append(measure(target, job | {"iodepth": depth}, 0.2, options.seconds))
                    pauses = job | {"thinktime": delay * 1000, "numjobs": depth}
                    runs[f"{name}, path"].append(measure(bare, pauses, 0.2, options.seconds / 2))
            true = devices.truth(target)
            raw[f"{delay} ms, depth {depth}"] = runs | {"true_s": true}
            row, missed = recovery_row(runs, true, depth)
            rows.append([f"{delay} ms", str(depth), f"{true * 1e3:.3f} ms", *row])
            if abs(missed) > (ROBUST if options.tiny else KNOWN):
                wrong.append(f"{delay} ms at depth {depth} is missed by {missed:+.1%}")
    title = f"medians of {options.repeats} runs of {options.seconds} s; goal {KNOWN:.0%} of the true time"
    return {"what": title, "table": aligned(rows), "raw": raw, "wrong": wrong}


def recovery_row(runs, true, depth):
    """Returns a row of the table, and the error of diskwright."""
    row, missed = [], {}
    for name in ("diskwright", "fio"):
        mean, path = median(runs[name], "mean_s"), median(runs[f"{name}, path"], "mean_s")
        missed[name] = (mean - path) / true - 1
        if name == "diskwright":
            row.append(f"{path * 1e6:.0f} us")
        row += [f"{mean * 1e3:.3f} ms", f"{(mean - path) * 1e3:.3f} ms", f"{missed[name]:+.1%}"]
        if name == "diskwright":
            row.append(f"{depth / median(runs[name], 'requests_per_s') * 1e3:.3f} ms")
    return row, missed["diskwright"]


def stalls(devices, options):
    """A device of 1 ms that stands still for one second in every ten."""
    period, lasts = (3, 1) if options.tiny else (10, 1)
    seconds = period if options.tiny else 3 * period
    device = devices.paced(1)
    rate = {"rw": "randread", "bs": "4k", "iodepth": 1024, "rate_iops": 100}
    jobs = {
        "diskwright, open loop": ("diskwright", rate),
        "diskwright, open loop, poisson": ("diskwright", rate | {"rate_process": "poisson"}),
        "diskwright, closed loop": ("diskwright", CORE["4k random read, depth 1"]),
        "fio, closed loop": ("fio", CORE["4k random read, depth 1"]),
        "fio, fixed rate": ("fio", rate),
        "fio, fixed rate, one outstanding": ("fio", rate | {"iodepth": 1}),
    }
    if options.tiny:
        jobs = {name: jobs[name] for name in ("diskwright, open loop", "diskwright, closed loop")}
    rows = [["run", "requests/s", "mean", "50 %", "99 %", "max", "longest silence", "hidden requests"]]
    raw = {}
    for name, (contender, job) in jobs.items():
        print_progress(f"  {name}")
        with Stalls(devices.servers[device][0], period, lasts) as stalled:
            raw[name] = run = contenders(options.program)[contender](device, job, 0.0, seconds)
        run["stalls"] = stalled.stalls
        silence, hidden = run.get("longest_silence_s"), run.get("hidden_requests")
        cell = lambda value: "too few" if value is None else format_value("mean_s", value)  # noqa: E731
        rows.append([name, format_value("requests_per_s", run["requests_per_s"]),
                     *(cell(run[m]) for m in ("mean_s", "p50_s", "p99_s", "max_s")),
                     "-" if silence is None else f"{silence:.3f} s", "-" if hidden is None else f"{hidden:,.0f}"])
    title = f"no answer for {lasts} s in every {period} s; {seconds} s a run"
    return {"what": title, "table": aligned(rows), "raw": raw, "wrong": check_stall_figures(raw, lasts)}


def check_stall_figures(raw, lasts):
    """Returns what is wrong: the open loop must show the stall, the closed loop must say what it hides."""
    wrong = []
    open_loop, closed = raw["diskwright, open loop"], raw["diskwright, closed loop"]
    # a tenth of all requests, or more, falls into stalls: the slowest hundredth waited most of one
    tail = open_loop["p99_s"] or open_loop["max_s"]
    if not 0.7 * lasts < tail < 1.5 * lasts:
        wrong.append(f"the open loop's 99 % is {tail:.3f} s, stalls last {lasts} s")
    if closed["p99_s"] and closed["p99_s"] > 0.1 * lasts:
        wrong.append(f"the closed loop's 99 % is {closed['p99_s']:.3f} s: it hides nothing, so this is no test")
    if not 0.9 * lasts < closed["longest_silence_s"] < 1.5 * lasts:
        wrong.append(f"the closed loop's longest silence is {closed['longest_silence_s']:.3f} s")
    if not closed["hidden_requests"]:
        wrong.append("the closed loop does not say what it hides")
    return wrong


def filling(devices, options):
    """What a file is filled with, and how fast, beside fio's writing."""
    mib = 64 if options.tiny else 2048
    folder = devices.room(4 * mib)
    ours, theirs = os.path.join(folder, "ours"), os.path.join(folder, "fio")
    job = {"rw": "write", "bs": "1m", "iodepth": 4, "size": f"{mib}m", "time_based": 0, "end_fsync": 1}
    runs = {"diskwright": [], "fio": []}
    for turn in range(options.repeats):
        for name in ("diskwright", "fio") if turn % 2 == 0 else ("fio", "diskwright"):
            path = ours if name == "diskwright" else theirs
            if os.path.exists(path):
                os.unlink(path)
            begun = time.monotonic()
            if name == "diskwright":
                run_contender([options.program, path, "--fill", str(mib << 20)])
                rate = (mib << 20) / (time.monotonic() - begun)
            else:
                # without the time that it takes to start
                rate = fio(path, job, 0, 0)["requests_per_s"] * (1 << 20)
            runs[name].append({"bytes_per_s": rate})
    shares, twice = compressed_share(ours), duplicate_pages(ours)
    rows = [["", "bytes/s"], *([name, f"{median(runs[name], 'bytes_per_s') / 1e6:,.0f} MB/s"] for name in runs)]
    rows += [[f"left by {name}", f"{share:.2%}"] for name, share in shares.items()]
    rows.append(["pages (4 KiB) that stand there twice", str(twice)])
    wrong = [f"{name} leaves {share:.1%}" for name, share in shares.items() if share < 1]
    wrong += [f"{twice} pages stand there twice"] if twice else []
    title = f"a file of {mib} MiB on {devices.disks[-1]}, flushed"
    return {"what": title, "table": aligned(rows), "raw": runs, "wrong": wrong}


def compressed_share(path):
    """Returns the share of the first part of a file that compressors leave."""
    with open(path, "rb") as file:
        data = file.read(32 << 20)
    squeezed = {"gzip": zlib.compress(data, 6), "xz": lzma.compress(data, preset=1)}
    return {name: len(less) / len(data) for name, less in squeezed.items()}


def duplicate_pages(path):
    """Counts pages of a file that equal another page."""
    seen, twice = set(), 0
    with open(path, "rb") as file:
        while page := file.read(4096):
            mark = hashlib.blake2b(page, digest_size=16).digest()
            twice += mark in seen
            seen.add(mark)
    return twice


PARTS = {
    "filling": filling,
    "agreement-paced": agreement_paced,
    "agreement-paced-file": agreement_paced_file,
    "agreement-fast": agreement_fast,
    "agreement-loop": agreement_loop,
    "agreement-memory": agreement_memory,
    "known-times": known_times,
    "known-times-file": known_times_file,
    "stalls": stalls,
}

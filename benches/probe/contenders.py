"""The two that are held against each other: one job, the same words for both.

A job is a table of fio's own options. What comes back is the same for both:
requests a second, mean and percentiles of latency in seconds, and the raw
answer. Latency is from the hand-over of a request to its answer: fio's `lat`
(not `clat`), and what `diskwright probe` calls latency in a closed loop.

An open loop differs: fio takes a late request's time from when it was made,
diskwright from when it should have been made.
"""

import json
import os
import subprocess
import tempfile

from devices import REAL_TIME

UNITS = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


class Failed(Exception):
    """A contender did not measure; the text is what it said."""


def parse_size(text):
    """Returns the bytes of a size such as `4k`."""
    text = str(text).lower()
    return int(text[:-1]) * UNITS[text[-1]] if text[-1] in UNITS else int(text)


def run_contender(argv):
    """Runs a command at real-time priority; returns its standard output or raises `Failed`."""
    done = subprocess.run([*REAL_TIME, *argv], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Failed(f"{' '.join(argv)}: {(done.stderr or done.stdout).strip()[-400:]}")
    return done.stdout


def fio(target, job, ramp_s, lasts_s):
    """One run of fio."""
    options = {"name": "job", "filename": target, "direct": 1, "ioengine": "io_uring", "time_based": 1,
               "runtime": f"{lasts_s * 1e3:.0f}ms", "ramp_time": f"{ramp_s * 1e3:.0f}ms",
               "norandommap": 1, "randrepeat": 1, "registerfiles": 1, "fixedbufs": 1,
               "lat_percentiles": 1, "clat_percentiles": 0, "percentile_list": "50:95:99:99.9",
               "group_reporting": 1, "output-format": "json"} | job
    if not options["time_based"]:
        # a size instead of a time
        options = {key: options[key] for key in options if key not in ("time_based", "runtime", "ramp_time")}
    out = run_contender(["fio", *(f"--{key}={value}" for key, value in options.items())])
    document = json.loads(out[out.index("{"):])["jobs"][0]
    sides = [document[name] for name in ("read", "write") if document[name]["total_ios"]]
    requests = sum(side["total_ios"] for side in sides)
    weighted = sum(side["lat_ns"]["mean"] * side["total_ios"] for side in sides)

    def at(share):
        # two directions have a percentile each; reads stand for a mix
        return sides[0]["lat_ns"].get("percentile", {}).get(share, float("nan")) * 1e-9

    return {
        "requests_per_s": sum(side["iops"] for side in sides), "mean_s": weighted / requests * 1e-9,
        "p50_s": at("50.000000"), "p99_s": at("99.000000"), "p999_s": at("99.900000"),
        "max_s": max(side["lat_ns"]["max"] for side in sides) * 1e-9,
        "cpu_share": (document["usr_cpu"] + document["sys_cpu"]) / 100, "requests": requests,
        "failed": document.get("total_err", 0),
    }


def probe_pattern(job, ramp_s, lasts_s):
    """Translates a job of fio to a pattern of diskwright."""
    random = "rand" in job["rw"]
    reads = {"read": 1.0, "write": 0.0, "rw": job.get("rwmixread", 50) / 100}[job["rw"].removeprefix("rand")]
    if "rate_iops" in job:
        # of a mix, fio wants a rate for each direction
        rate = sum(float(part) for part in str(job["rate_iops"]).split(","))
        pace = {"loop": "open", "rate_per_s": rate, "poisson": job.get("rate_process") == "poisson"}
    elif "thinktime" in job:
        # microseconds, after every request of each job
        pace = {"loop": "users", "users": job["numjobs"], "think_s": job["thinktime"] / 1e6, "random": False}
    else:
        pace = {"loop": "closed", "depth": job.get("iodepth", 1)}
    place = {"place": "uniform"} if random else {"place": "sequential", "streams": 1}
    return {"name": "job", **place, **pace, "sizes": [[parse_size(job["bs"]), 1.0]], "read_share": reads,
            "align_bytes": 0,
            "from_bytes": 0, "range_bytes": None, "buffered": False, "durable": "no", "ramp_s": ramp_s,
            "lasts_s": lasts_s, "seed": 1}


def diskwright(program, target, job, ramp_s, lasts_s):
    """One run of diskwright."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(probe_pattern(job, ramp_s, lasts_s), file)
        file.flush()
        # fio has one thread a job
        run = json.loads(run_contender([program, target, file.name, "--lanes", "1"]))
    latency = run["latency_s"]
    # reads stand for a mix, as with fio
    shares = (run.get("reads") or run)["latency_s"]
    return {
        "requests_per_s": run["requests_per_s"], "mean_s": latency["mean"], "p50_s": shares["p50"],
        "p99_s": shares["p99"], "p999_s": shares["p999"], "max_s": latency["max"], "cpu_share": run["cpu_share"],
        "requests": round(run["requests_per_s"] * run["measured_s"]), "failed": run["failed"],
        "longest_silence_s": run["longest_silence_s"], "hidden_requests": run.get("hidden_requests"),
        "engine": run["engine"],
    }


def contenders(program):
    """Both, by name."""
    return {"fio": fio, "diskwright": lambda *words: diskwright(program, *words)}


def default_program(target):
    return os.path.join(target, "release/examples/pattern")

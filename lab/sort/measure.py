"""The real sort of a case, on the described disks of the prediction, each with a filesystem of its own."""

import contextlib
import json
import math
import os
import re
import subprocess
import time
from dataclasses import dataclass

from cases import KEY, MIB, ROW, ROWS, SPEED
from machine import LabError
from predict import description

# of a filesystem: room for source, result and two sets of runs
SIZE = "160m"


@dataclass
class Processor:
    """Seconds of a comparison, and of a row moved through memory."""

    compare: float
    move: float


@dataclass
class Measurement:
    """Seconds of the sort and of its stages, and where its files begin on their disks, bytes."""

    seconds: float
    stages: dict
    extents: dict


def words(binary, memory):
    return [binary, "workload", "sort", "--rows", str(ROWS), "--row-size", str(ROW), "--key-size", str(KEY),
            "--threads", "1", "--memory", str(memory), "--json"]


def calibrate(machine):
    """The processor's part, from the processor time of a sort in memory: runs take n (move + log2(r) compare),
    a merge of k takes n (move + log2(k) compare)."""
    answers = []
    for _ in range(3):
        text = machine.output([*words(machine.binary, MIB), "--source", machine.folder])
        answers.append(json.loads(text)["runs"][0])
    cpu = {}
    for stage in ("form runs", "final merge"):
        cpu[stage] = min(found["compute"]["cpu_s"] for answer in answers for found in answer["stages"]
                         if found["name"] == stage)
    runs = answers[0]["runs"]
    in_run, in_merge = math.log2(ROWS / runs), math.log2(runs)
    compare = max(0.0, (cpu["form runs"] - cpu["final merge"]) / ROWS / (in_run - in_merge))
    move = max(0.0, cpu["final merge"] / ROWS - in_merge * compare)
    # in the time of the described disks
    return Processor(compare * SPEED, move * SPEED)


def extents(pid):
    """Where the files of the sort begin on their disks: source, result and runs are opened in this order."""
    folder, found = f"/proc/{pid}/fd", {}
    for fd in sorted(os.listdir(folder), key=int):
        with contextlib.suppress(OSError):
            status = os.stat(f"{folder}/{fd}")
            if not os.readlink(f"{folder}/{fd}").endswith("(deleted)") or status.st_size == 0:
                continue
            done = subprocess.run(["filefrag", "-v", "-b512", f"{folder}/{fd}"], capture_output=True, text=True,
                                  check=False)
            first = re.search(r"^\s*0:\s+0\.\.\s*\d+:\s+(\d+)\.\.", done.stdout, re.MULTILINE)
            if first:
                found.setdefault((status.st_dev, status.st_ino), int(first[1]) * 512)
    return dict(zip(("input", "output", "work"), found.values()))


def measure(machine, case):
    path = os.path.join(machine.folder, case.name + ".toml")
    with open(path, "w", encoding="ascii") as file:
        file.write(description(case))
    system = machine.system(path, speed=SPEED)
    folders = {export: machine.mount_ext4_plain(system.device(export), SIZE) for export in case.exports()}
    argv = [*words(machine.binary, case.memory), "--direct", "--request", str(case.request),
            "--merge-request", str(case.merge_request), "--source", folders[case.source],
            "--work", folders[case.work], "--target", folders[case.target]]
    with open(os.path.join(machine.folder, "answer.json"), "w+", encoding="utf-8") as answer:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=answer, stderr=subprocess.PIPE, text=True)
        machine.undo.push("kill", process.pid)
        places = {}
        while process.poll() is None:
            # all three are there only from the first run on
            with contextlib.suppress(OSError):
                seen = extents(process.pid)
                places = seen if len(seen) >= len(places) else places
            time.sleep(2)
        if process.returncode:
            raise LabError(f"{' '.join(argv)}: {process.stderr.read().strip()}")
        answer.seek(0)
        run = json.load(answer)["runs"][0]
    if not run["verified"]:
        raise LabError(f"{case.name}: the result was not verified")
    stages = {stage["name"]: stage["wall_s"] * SPEED for stage in run["stages"]}
    return Measurement(run["wall_s"] * SPEED, stages, places)

"""What the simulator says of a case, before it is compared with anything."""

import json
import os
import subprocess
from dataclasses import dataclass

from cases import KEY, KIB, ROW, ROWS

# one that a sort of 1998 could have, with everything that the model of a drive has
MODEL = "st34572w"
ALIGN = 4 * KIB
# beside a row in memory (workload/src/sort/plan.rs)
BESIDE_ROW = 16
# what a filesystem holds, for the place of files
ROOM = 160_000_000


@dataclass
class Prediction:
    """Seconds of the sort, and of its stages."""

    seconds: float
    stages: dict


def description(case, processor=None, extents=None):
    """The system, with the workload once it is known where the filesystem put the files."""
    lines = ["[system]", f'name = "sort-{case.name}"', "[watch]", 'warm_up = "0s"', 'duration = "20min"',
             "[host]", "processors = 1", 'largest = "256KiB"']
    for export in case.exports():
        count = case.arrays.get(export, 1)
        drive = export if count == 1 else export + "-member"
        lines += ["[[drive]]", f'name = "{drive}"', f'model = "{MODEL}"', f"count = {count}"]
        if count > 1:
            lines += ["[[array]]", f'name = "{export}"', 'level = "raid0"', f'drives = ["{drive}"]',
                      'stripe_unit = "64KiB"']
    if processor:
        # the writer's buffer is no place for rows
        memory = case.memory - case.request - ALIGN
        if case.memory > ROWS * (ROW + BESIDE_ROW):
            memory = case.memory
        names = ", ".join(f'"{export}"' for export in case.exports())
        lines += ["[[workload]]", 'name = "sort"', 'kind = "sort"', f"on = [{names}]", f'data = "{ROWS * ROW}B"',
                  f'record = "{ROW}B"', f'keys = "{BESIDE_ROW}B"', "memory_factor = 1.0", f'memory = "{memory}B"',
                  f'compare = "{processor.compare * 1e9:.1f}ns"', f'move = "{processor.move * 1e9:.1f}ns"',
                  f'request = "{case.request}B"', f'merge_request = "{case.merge_request}B"', "window = 1",
                  "cached = false"]
        for key, export in (("input", case.source), ("work", case.work), ("output", case.target)):
            first = extents.get(key, 0) if extents else 0
            lines.append(f'{key} = {{ on = "{export}", area = {{ from = "{first}B", size = "{4 * ROWS * ROW}B" }} }}')
    return "\n".join(lines) + "\n"


def predict(binary, folder, case, processor, extents):
    path = os.path.join(folder, case.name + "-predicted.toml")
    with open(path, "w", encoding="ascii") as file:
        file.write(description(case, processor, extents))
    done = subprocess.run([binary, "simulate", path, "--json"], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{path}: {done.stderr.strip()}")
    operation = json.loads(done.stdout)["workloads"][0]["operations"][0]
    spans = {span["name"]: span["to_s"] - span["from_s"] for span in operation["spans"]}
    merges = [name for name in spans if name.startswith("merge ")]
    names = {"runs": "form runs", **({merges[-1]: "final merge"} if merges else {})}
    return Prediction(operation["response_s"]["mean"], {names.get(name, name): time for name, time in spans.items()})

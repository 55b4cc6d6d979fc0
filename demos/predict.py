"""What the simulator says of a comparable load: as many requests under way, of
the sizes and the mix that the kernel saw, at random places."""

import json
import os
import tempfile

from figures import digits, table, format_rate, format_seconds
from machine import LabError
from stage import run

LOAD = """
[[workload]]
name = "as watched"
users = {users}
read_share = {read_share:.4f}
size = "{read_bytes}B"
write_size = "{write_bytes}B"
access = "random"
area = "{area}MB"
"""


def prediction(binary, sides, area_mib):
    """The section, or one that says why there is none."""
    rows, notes = [], []
    for side in sides:
        try:
            rows.append([side.side.name, *prediction_row(binary, side, area_mib)])
        except (LabError, KeyError, ValueError) as reason:
            notes.append(f"{side.side.name}: no prediction: {reason}")
    titles = ["Side", "Under way", "Requests predicted", "Watched", "Response predicted", "Watched"]
    words = ["`simulate` of the same description under as many requests as were under way in the mean, of the same "
             "mix and sizes, at random places of the same area. It knows nothing of what a database does besides: its "
             "log is written in sequence and its pages in bursts, so that a difference of a third is no surprise."]
    return {"title": "What simulate predicts of such a load", "words": words + notes,
            "tables": [table(titles, rows)] if rows else []}


def prediction_row(binary, side, area_mib):
    reads, writes = side.kernel("reads_per_s"), side.kernel("writes_per_s")
    queue = side.kernel("avg_queue_length")
    if not reads or not writes or not queue:
        raise ValueError("the kernel's counters tell no mix of reads and writes")
    users = max(1, round(queue))
    load = LOAD.format(users=users, read_share=reads / (reads + writes), area=area_mib,
                       read_bytes=to_whole_blocks(side.kernel("avg_bytes_per_read")),
                       write_bytes=to_whole_blocks(side.kernel("avg_bytes_per_write")))
    with open(side.side.file, encoding="utf-8") as file:
        described = file.read()
    with tempfile.NamedTemporaryFile("w", suffix=".toml", encoding="utf-8") as file:
        file.write(described + load)
        file.flush()
        answer = json.loads(run([binary, "simulate", os.path.abspath(file.name), *side.side.words(), "--json"], 120))
    workload = answer["workloads"][0]
    return [f"{digits(queue)} ({users} asked)", format_rate(workload["requests_per_s"]),
            format_rate(side.kernel("transfers_per_s")), format_seconds(workload["response_s"]["mean"]),
            format_seconds(side.kernel("avg_s_per_transfer"))]


def to_whole_blocks(size):
    """To whole blocks of 512 bytes, as requests are."""
    return max(1, round(size / 512)) * 512

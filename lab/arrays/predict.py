"""What the model says: `diskwright simulate` of a description, before anything is measured."""

import json
import os
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))


class PredictionError(Exception):
    """The description could not be simulated."""


def predict(binary, level, load, settings):
    """Requests a second of a level under a load, and each member's share of being busy."""
    path = os.path.join(HERE, "systems", level.system + ".toml")
    values = [*level.described(), *load.described(), *settings]
    words = [binary, "simulate", path, "--json", *(word for value in values for word in ("--set", value))]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise PredictionError(f"{' '.join(words[1:])}: {done.stderr.strip()}")
    return parse_prediction(json.loads(done.stdout))


def parse_prediction(answer):
    work, array = answer["workloads"][0], answer["arrays"][0]
    drives = [part for part in answer["components"] if part["kind"] == "drive"]
    busy = max((part["utilisation"] for part in drives), default=None)
    rebuild = array.get("background")
    return {"iops": work["requests_per_s"], "read_iops": work["reads_per_s"],
            "write_iops": work["writes_per_s"], "response_ms": work["response_s"]["mean"] * 1e3,
            "member_ios": array["member_ios_per_s"] / work["requests_per_s"],
            "busiest_member": busy, "rebuilt_bytes": rebuild and rebuild["done_bytes"]}

#!/usr/bin/env python3
"""Compares the answers of two builds of the program over every log, trace and system that lies in some folders.

    tests/same_answers.py OLD NEW [FOLDER...] [--jobs N] [--show N]

OLD and NEW are two programs. Every file (and every folder that is one log) of the fixtures, examples and experiments
of this checkout, and of the FOLDERs, goes through `why`, `show`, `export`, `report`, `compare` and `plan --from`, each
also with `--json` where there is one; described systems go through `simulate`; then come fixed `plan`, `explain`,
`list` and `experiments` commands. Exit code, standard output and standard error must be the same, byte for byte; pages
must have the same elements, attributes and texts, however they are written, and are counted where only that differs.

Prints each kind of difference once, with its number of places and its first example: lines that differ in numbers alone
are of one kind. What differs between two runs of OLD is counted as unstable. Exit codes: 0 all the same, 1 otherwise.
"""

import argparse
import collections
import concurrent.futures
import difflib
import html.parser
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
MAX_SECONDS = 120
# a page repeats what the other commands print; of a large log one of the two is enough
MAX_PAGE_BYTES = 4 << 20
FIXED = [
    ["plan", "--reads", "126", "--writes", "73", "--size", "8K", "--capacity", "36GB", "--response", "40ms"],
    ["plan", "--reads", "400", "--writes", "200", "--capacity", "40TB", "--only", "hdd",
     "--controllers", "sas3-hba-8,sas3-raid-8"],
    ["plan", "--reads", "3000", "--writes", "900", "--size", "16K", "--capacity", "2TB", "--response", "5ms"],
    ["experiments"],
]
LISTS = ["counters", "rules", "packs", "sources", "formats", "suites", "levels", "drives", "experiments"]
WORDS = ["physical_disk.avg_queue_length", "aqu-sz", "await", "steal", "raid5", "write-back", "memory.paging",
         "disk.queue-per-spindle", "Pages/sec", "queue depth", "no-such-word"]


def inputs(folders):
    """Files and folders that may be logs, sorted; and described systems."""
    own = [ROOT / "crates", ROOT / "examples", ROOT / "experiments", ROOT / "lab/systems"]
    logs, systems = [], []
    for folder in own + folders:
        for path in sorted(folder.rglob("*")):
            inside = path.relative_to(folder).as_posix()
            if folder == own[0] and "fixtures" not in inside:
                continue
            if path.is_dir():
                if (path / "ledger").exists() or any(path.glob("*.dwlog")) or any(path.glob("*.meta")):
                    logs.append(path)
            elif path.suffix == ".toml" and path.parent.name == "systems":
                systems.append(path)
            elif path.suffix not in (".md", ".py", ".rs"):
                logs.append(path)
    return logs, systems


def commands(logs, systems):
    """Every command line to be compared."""
    for log in map(str, logs):
        yield ["why", log]
        yield ["why", log, "--json"]
        yield ["show", log]
        yield ["show", log, "--json"]
        yield ["show", log, "--as", "csv", "--allow-damage"]
        yield ["export", log, "--as", "jsonl", "--allow-damage"]
        yield ["export", log, "--as", "prometheus", "--allow-damage"]
        yield ["plan", "--from", log]
        yield ["plan", "--from", log, "--demand-only", "--json"]
        yield ["compare", log, log, "--json"]
        if os.path.isdir(log) or os.path.getsize(log) <= MAX_PAGE_BYTES:
            yield ["report", log, "-o", "-"]
    for one, other in zip(logs, logs[1:]):
        if one.parent == other.parent:
            yield ["compare", str(one), str(other)]
    for system in map(str, systems):
        yield ["simulate", system]
        yield ["simulate", system, "--json"]
    for fixed in FIXED:
        yield fixed
        yield fixed + ["--json"]
    for name in LISTS:
        yield ["list", name]
        yield ["list", name, "--json"]
    for word in WORDS:
        yield ["explain", word]
        yield ["explain", word, "--json"]


def answer(program, command, home):
    """Exit code, output and errors of one run, without profiles and colours of whoever runs this."""
    environment = {"PATH": os.environ["PATH"], "HOME": home, "TZ": "UTC", "LANG": "C.UTF-8", "COLUMNS": "100"}
    try:
        done = subprocess.run([program, *command], capture_output=True, stdin=subprocess.DEVNULL, env=environment,
                              timeout=MAX_SECONDS, cwd=home)
    except subprocess.TimeoutExpired:
        return "no end", b"", b""
    return done.returncode, done.stdout, done.stderr


class Page(html.parser.HTMLParser):
    """A page as lines: one for each element that begins, with its attributes, and for each text."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.lines, self.text = [], ""
        self.feed(text)
        self.close()
        self.end_text()

    def end_text(self):
        self.lines += [" ".join(self.text.split())] if self.text.strip() else []
        self.text = ""

    def handle_starttag(self, tag, attrs):
        self.end_text()
        self.lines.append(" ".join([tag, *(f"{name}={value}" for name, value in sorted(attrs))]))

    def handle_endtag(self, tag):
        self.end_text()

    def handle_data(self, data):
        self.text += data


def compare(arguments, command, home):
    """None where both answer the same, else what differs: "unstable", "markup" or pairs of lines."""
    old, new = answer(arguments.old, command, home), answer(arguments.new, command, home)
    if old == new:
        return None
    if answer(arguments.old, command, home) != old:
        return "unstable"
    return list(differences(old, new)) or "markup"


def lines_of(output):
    text = output.decode(errors="replace")
    if text.lstrip()[:9].lower() == "<!doctype":
        return Page(text).lines
    return text.splitlines()


def differences(old, new):
    """Pairs (line of old, line of new); either may be missing."""
    if old[0] != new[0]:
        yield f"exit code {old[0]}", f"exit code {new[0]}"
    for before, after in zip(old[1:], new[1:]):
        texts = [lines_of(part) for part in (before, after)]
        is_long = max(map(len, texts)) >= 4000
        for tag, a, b, c, d in difflib.SequenceMatcher(None, *texts, autojunk=is_long).get_opcodes():
            if tag == "equal":
                continue
            lines = [texts[0][a:b], texts[1][c:d]]
            for index in range(max(map(len, lines))):
                pair = [part[index] if index < len(part) else "" for part in lines]
                if pair[0] != pair[1]:
                    yield tuple(pair)


def kind(pair):
    return tuple(re.sub(r"[0-9][0-9.,e+-]*", "N", line).strip()[:160] for line in pair)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("folders", nargs="*", type=pathlib.Path)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--show", type=int, default=60, help="kinds of differences to print")
    parser.add_argument("--only", help="commands that begin with this word")
    arguments = parser.parse_args()
    arguments.old, arguments.new = os.path.abspath(arguments.old), os.path.abspath(arguments.new)
    work = list(commands(*inputs([folder.resolve() for folder in arguments.folders])))
    work = [command for command in work if not arguments.only or command[0] == arguments.only]
    kinds, examples, unstable, markup, different = collections.Counter(), {}, 0, 0, 0
    with tempfile.TemporaryDirectory() as home, concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for command, found in zip(work, pool.map(lambda one: compare(arguments, one, home), work)):
            if found == "unstable":
                unstable += 1
                print("unstable:", " ".join(command), file=sys.stderr)
            elif found == "markup":
                markup += 1
            elif found:
                different += 1
                for pair in found:
                    kinds[kind(pair)] += 1
                    examples.setdefault(kind(pair), (command, pair))
    for one, count in kinds.most_common(arguments.show):
        command, (before, after) = examples[one]
        print(f"{count} x, first in `{' '.join(command)}`:\n  - {before[:300]}\n  + {after[:300]}")
    print(f"{len(work)} commands: {different} differ in {len(kinds)} kinds, "
          f"{markup} pages in their markup alone, {unstable} are unstable")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())

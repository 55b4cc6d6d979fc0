#!/usr/bin/env python3
"""Builds the tests and runs their programs side by side, which `cargo test` does one after another: most of them
wait for devices, servers and clocks, and leave a processor idle meanwhile.

Everything that was written is printed at the end, program by program. Exit codes: 0 all passed, 1 otherwise.
"""

import concurrent.futures
import json
import os
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# as many programs at once, each with RUST_TEST_THREADS tests; what takes longest begins first
PROGRAMS = 2
# the library, the program and the tests of each crate; Clippy reads benches and examples (`--tests` would link the
# benches that are marked as tests)
TARGETS = ["--lib", "--bins", "--test", "*"]


def build():
    """The test programs: (name, command, folder)."""
    command = ["cargo", "test", "--workspace", "--no-run", "--quiet", *TARGETS,
               "--message-format", "json-render-diagnostics"]
    built = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if built.returncode != 0:
        sys.exit("the tests do not compile")
    programs = []
    for message in map(json.loads, built.stdout.splitlines()):
        if message["reason"] == "compiler-artifact" and message["profile"]["test"] and message["executable"]:
            folder = os.path.dirname(message["manifest_path"])
            name = os.path.relpath(message["target"]["src_path"], ROOT)
            programs.append((name, [message["executable"], "--quiet", "--show-output"], folder))
    if not programs:
        sys.exit("cargo named no test programs")
    # the largest link most of the project, and test most
    return sorted(programs, key=lambda program: -os.path.getsize(program[1][0]))


def run(program):
    """Runs one as `cargo test` would; its name, exit code, output and seconds."""
    name, command, folder = program
    environment = dict(os.environ, CARGO_MANIFEST_DIR=folder)
    began = time.monotonic()
    done = subprocess.run(command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
    return name, done.returncode, done.stdout, time.monotonic() - began


def main():
    programs = build()
    if sys.argv[1:] == ["--no-run"]:
        return 0
    programs.append(("the examples in documentation", ["cargo", "test", "--workspace", "--doc", "--quiet"], ROOT))
    failed = []
    with concurrent.futures.ThreadPoolExecutor(PROGRAMS) as pool:
        for name, code, output, seconds in pool.map(run, programs):
            print(f"-- {name}: {seconds:.1f} s, exit {code}\n{output}", flush=True)
            if code != 0:
                failed.append(name)
    for name in failed:
        print(f"failed: {name}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

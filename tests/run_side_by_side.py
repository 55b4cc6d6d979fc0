#!/usr/bin/env python3
"""Builds the tests and runs their programs side by side, which `cargo test` does one after another: most of them
wait for devices, servers and clocks, and leave a processor idle meanwhile. A program begins as soon as it is built, and
what is still to be built goes first; the tests of the program itself wait until that is built, too.

    tests/run_side_by_side.py [--beside COMMAND]...   a command of the shell, run beside the tests once all is built

Everything that was written is printed at the end, program by program. Exit codes: 0 all passed, 1 otherwise.
"""

import argparse
import concurrent.futures
import json
import os
import queue
import resource
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# as many programs at once, each with so many tests; those of the program wait for devices and servers, not processors
PROGRAMS = 2
THREADS, THREADS_OF_PROGRAM = 3, 6
# what ends a queue: it comes behind all sizes, which are below zero, and the examples
LAST = (1,)
# the library, the program and the tests of each crate; Clippy reads benches and examples (`--tests` would link the
# benches that are marked as tests)
TARGETS = ["--lib", "--bins", "--test", "*"]
BUILD = ["cargo", "test", "--workspace", "--no-run", "--quiet", *TARGETS,
         "--message-format", "json-render-diagnostics"]


def test_program(message):
    """A test program that cargo built, as it queues: the largest, which link and test most, come first. Or None."""
    message = json.loads(message)
    if message["reason"] != "compiler-artifact" or not message["profile"]["test"] or not message["executable"]:
        return None
    folder = os.path.dirname(message["manifest_path"])
    name = os.path.relpath(message["target"]["src_path"], ROOT)
    command = [message["executable"], "--quiet", "--show-output"]
    return -os.path.getsize(message["executable"]), name, command, folder


def restore_priority(pid):
    """Takes back the `nice` of a program's threads: beside compilers of others it would crawl to its end."""
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            os.setpriority(os.PRIO_PROCESS, int(thread), 0)
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        # it has ended, or only root may raise a priority
        pass


def run(name, command, folder, running=None):
    """Runs one as `cargo test` would; its name, exit code, output, seconds, and those of processors. Its process's
    number stands in `running` meanwhile."""
    threads = THREADS_OF_PROGRAM if name == "tests/all.rs" else THREADS
    environment = {"RUST_TEST_THREADS": str(threads), **os.environ, "CARGO_MANIFEST_DIR": folder}
    began = time.monotonic()
    with tempfile.TemporaryFile() as output:
        # no `with`: it is waited for by its number, which tells the processor time of all that it started
        process = subprocess.Popen(command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=output,
                                   stderr=subprocess.STDOUT)
        if running is not None:
            running.add(process.pid)
        _, status, used = os.wait4(process.pid, 0)
        if running is not None:
            running.discard(process.pid)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read().decode(errors="replace")
    return name, process.returncode, text, time.monotonic() - began, used.ru_utime + used.ru_stime


def work(programs, building, running, finished):
    while (program := programs.get()) != LAST:
        _, name, command, folder = program
        if building.is_set():
            command = ["nice", "-n", "10", *command]
        finished.append(run(name, command, folder, running))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--beside", action="append", default=[], metavar="COMMAND")
    options = parser.parse_args()
    programs, building, running, finished = queue.PriorityQueue(), threading.Event(), set(), []
    building.set()
    began = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(PROGRAMS + len(options.beside)) as pool:
        workers = [pool.submit(work, programs, building, running, finished) for _ in range(PROGRAMS)]
        of_program = []
        # the compiler's errors are printed with the build, which failed and so comes last
        with tempfile.TemporaryFile() as errors, \
                subprocess.Popen(BUILD, cwd=ROOT, stdout=subprocess.PIPE, stderr=errors, text=True) as built:
            for program in filter(None, map(test_program, built.stdout)):
                of_program.append(program) if program[3] == ROOT else programs.put(program)
            built.wait()
            errors.seek(0)
            said = errors.read().decode(errors="replace")
        building.clear()
        for pid in tuple(running):
            restore_priority(pid)
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        used = used.ru_utime + used.ru_stime - sum(program[4] for program in finished)
        finished.append(("the build", built.returncode, said, time.monotonic() - began, used))
        if built.returncode == 0:
            for program in of_program:
                programs.put(program)
            examples = ["cargo", "test", "--workspace", "--doc", "--quiet"]
            programs.put((0, "the examples in documentation", examples, ROOT))
            beside = [pool.submit(run, command, ["bash", "-c", command], ROOT) for command in options.beside]
        for _ in workers:
            programs.put(LAST)
        for worker in workers:
            worker.result()
        finished += [done.result() for done in beside] if built.returncode == 0 else []
    # what failed comes last, where people look
    for name, code, output, seconds, used in sorted(finished, key=lambda program: program[1] != 0):
        print(f"-- {name}: {seconds:.1f} s, {used:.1f} s of processors, exit {code}\n{output}", flush=True)
    failed = [name for name, code, *_ in finished if code != 0]
    for name in failed:
        print(f"failed: {name}")
    if not of_program:
        print("cargo built no tests of the program")
    return 1 if failed or not of_program else 0


if __name__ == "__main__":
    sys.exit(main())

"""Conditions that the host sets: a frozen recorder, no more processes, a quota of the filesystem, a disk that fails, a
clock that jumps and a machine that sleeps."""

import contextlib
import json
import os
import time

import packages
from qemu import Guest, GuestError

CGROUPS = "/sys/fs/cgroup"
MIB = 1 << 20


def write(path, text):
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def cgroup(trial, controller):
    """A control group of version 1: its folder, and what makes a process enter it."""
    folder = os.path.join(CGROUPS, controller, f"diskwright-recorder-{os.getpid()}")
    os.mkdir(folder)
    trial.undo.push("rmdir", folder)
    return folder, lambda: write(f"{folder}/cgroup.procs", str(os.getpid()))


def frozen(trial, seconds=15):
    """the recorder itself is frozen for 15 s"""
    folder, enter = cgroup(trial, "freezer")
    state = f"{folder}/freezer.state"
    trial.record(enter)
    trial.wait(5)
    write(state, "FROZEN")
    try:
        trial.wait(seconds)
    finally:
        write(state, "THAWED")
    trial.wait(5)


def no_processes(trial):
    """no process and no thread may be started any more, from the sixth second on"""
    folder, enter = cgroup(trial, "pids")
    trial.record(enter)
    trial.wait(5)
    with open(f"{folder}/pids.current", encoding="ascii") as file:
        write(f"{folder}/pids.max", file.read().strip())
    trial.wait(30)
    with open(f"{folder}/pids.events", encoding="ascii") as file:
        trial.remark = f"refused {file.read().split()[1]} times"


def file_quota(trial):
    """the log's subvolume of btrfs is at its quota for 15 s"""
    device = trial.loop("disk.image", 256 * MIB)
    trial.run("mkfs.btrfs", "-q", device)
    point = os.path.join(trial.folder, "disk")
    os.mkdir(point)
    trial.run("mount", device, point)
    trial.undo.push("run", "umount", point)
    volume = os.path.join(point, "volume")
    trial.run("btrfs", "subvolume", "create", volume)
    trial.run("btrfs", "quota", "enable", point)
    trial.run("btrfs", "qgroup", "limit", f"{4 * MIB}", volume)
    trial.log = os.path.join(volume, "log")
    trial.record()
    trial.wait(5)
    filler = os.path.join(volume, "filler")
    with contextlib.suppress(OSError), open(filler, "wb", buffering=0) as file:
        while True:
            file.write(os.urandom(4096))
            os.fsync(file.fileno())
    trial.wait(15)
    trial.run("btrfs", "qgroup", "limit", "none", volume)
    trial.wait(10)


def failing_disk(trial):
    """each request to the log's own disk fails for 15 s: the kernel still holds the ticks, and the recorder says that
    they are not synced"""
    needs = ["nbdkit", "nbdfuse", "mkfs.ext4"]
    packages.install(needs)
    if absent := packages.missing(needs):
        raise GuestError(f"not installed: {', '.join(absent)}")
    served, fails = os.path.join(trial.folder, "served"), os.path.join(trial.folder, "fails")
    os.mkdir(served)
    trial.load(["nbdfuse", served, "--command", "nbdkit", "-s", "--exit-with-parent", "--filter=error", "memory",
                f"{64 * MIB}", "error=EIO", "error-rate=100%", f"error-file={fails}"])
    trial.undo.push("run", "fusermount3", "-uz", served)
    image = os.path.join(served, "nbd")
    for _ in range(100):
        if os.path.exists(image):
            break
        time.sleep(0.1)
    # a journal would make the filesystem read-only for good
    trial.run("mkfs.ext4", "-q", "-O", "^has_journal", "-E", "nodiscard", image)
    device = trial.run("losetup", "--find", "--show", "--direct-io=off", image)
    trial.undo.push("run", "losetup", "-d", device)
    point = os.path.join(trial.folder, "disk")
    os.mkdir(point)
    trial.run("mount", "-o", "errors=continue", device, point)
    trial.undo.push("run", "umount", point)
    trial.log = os.path.join(point, "log")
    trial.record()
    trial.wait(5)
    write(fails, "")
    trial.wait(15)
    os.unlink(fails)
    trial.wait(15)


CLOCK = """
diskwright record /run/log --every 1s --json >/run/out 2>/run/err & recorder=$!
sleep 8
date -s @$(($(date +%s) + 3600)) >/dev/null
sleep 8
date -s @$(($(date +%s) - 7200)) >/dev/null
sleep 8
echo $recorder >/run/recorder
"""
END = "kill -INT $(cat /run/recorder); while kill -0 $(cat /run/recorder) 2>/dev/null; do sleep 0.1; done"


def clock(trial, seconds=10):
    """an emulated machine whose clock is set an hour ahead, then two hours back, and that sleeps for 10 s"""
    needs = ["qemu-system-x86_64", "strip"]
    packages.install(needs)
    if absent := packages.missing(needs):
        raise GuestError(f"not installed: {', '.join(absent)}")
    program = os.path.join(trial.folder, "diskwright")
    trial.run("strip", "-o", program, trial.binary)
    guest = Guest(trial.undo, trial.folder, drives=[], modules=[], programs=[program], memory_mib=768)
    guest.sh("mkdir -p /tmp /var/tmp")
    guest.sh(CLOCK, patience=300)
    guest.sh("(sleep 1; echo mem >/sys/power/state) >/dev/null 2>&1 &")
    time.sleep(seconds)
    guest.qmp("system_wakeup")
    # the console loses what it gets while it wakes up
    guest.sh("true", check=False)
    guest.sh("sleep 8", patience=120)
    guest.sh(END, patience=60)
    out, said = (guest.sh(f"cat /run/{name}") for name in ("out", "err"))
    rows = guest.sh("diskwright export /run/log --as jsonl --counter system.uptime_s 2>/dev/null", patience=120)
    uptimes = [json.loads(line)["system.uptime_s"] for line in rows.splitlines()]
    verdict = guest.sh("diskwright why /run/log --json 2>/dev/null || true", patience=120)
    trial.remark = f"why tells {verdict.count('stepped by')} steps and {verdict.count('slept for')} sleep"
    # the clock jumps; the time since the start does not. Sleep is no time in which a tick is due
    steps = [later - earlier for earlier, later in zip(uptimes, uptimes[1:])]
    running = [step if step < 5 else 1.0 for step in steps]
    trial.ended = (json.loads(out or "{}"), said, [sum(running[:index]) for index in range(len(uptimes))], 0.0,
                   0 if out else 1)


CONDITIONS = {"frozen": frozen, "no-processes": no_processes, "file-quota": file_quota, "failing-disk": failing_disk,
              "clock": clock}

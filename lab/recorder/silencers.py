"""Conditions that keep a recorder from reading or from running: files that do not answer, and real-time hogs.

Each ends by itself: a hog has a limit of the kernel (RLIMIT_RTTIME) and a watchdog of a higher priority, a stalled disk
and a hanging filesystem are released by another process that is started before them."""

import os
import subprocess
import sys
import tempfile
import time

from recorder.host_limits import cgroup, write

HOG_PRIORITY, WATCHDOG_PRIORITY = 98, 99

# Computes on every processor at a real-time priority. Arguments: seconds, priority, priority of the watchdog.
HOG = """
import os, resource, signal, sys, time
seconds, priority, watchdog = float(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
end, children = time.monotonic() + seconds, []
for processor in sorted(os.sched_getaffinity(0)):
    child = os.fork()
    if child == 0:
        os.sched_setaffinity(0, {processor})
        limit = int((seconds + 2) * 1e6)
        resource.setrlimit(resource.RLIMIT_RTTIME, (limit, limit))
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(priority))
        while time.monotonic() < end:
            sum(range(100_000))
        os._exit(0)
    children.append(child)
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(watchdog))
time.sleep(seconds + 1)
for child in children:
    os.kill(child, signal.SIGKILL)
"""

# Reads a device asynchronously and executes another program, which has to wait for the read. Arguments: the device.
READ_AND_EXECUTE = """
import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
IO_SETUP, IO_SUBMIT, BYTES = 206, 209, 1 << 20
context = ctypes.c_ulong(0)
assert libc.syscall(IO_SETUP, 8, ctypes.byref(context)) == 0
device = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT)
libc.aligned_alloc.restype = ctypes.c_void_p
buffer = libc.aligned_alloc(4096, BYTES)
request = ctypes.create_string_buffer(struct.pack("QIIHhIQQqQII", 0, 0, 0, 0, 0, device, buffer, BYTES, 0, 0, 0, 0))
requests = (ctypes.c_void_p * 1)(ctypes.addressof(request))
assert libc.syscall(IO_SUBMIT, context, 1, requests) == 1
os.execv("/bin/sleep", ["sleep", "600"])
"""

# Covers a file with one of a filesystem in user space that answers nothing. Arguments: the file.
HANGING_FILESYSTEM = """
import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
FUSE_INIT = 26
device = os.open("/dev/fuse", os.O_RDWR)
options = f"fd={device},rootmode=100444,user_id=0,group_id=0,allow_other".encode()
if libc.mount(b"hanging", sys.argv[1].encode(), b"fuse.hanging", 0, options):
    sys.exit(os.strerror(ctypes.get_errno()))
while True:
    request = os.read(device, 1 << 20)
    _, operation, number = struct.unpack_from("IIQ", request)
    if operation == FUSE_INIT:
        body = struct.pack("IIIIHHIIHHI28x", 7, 31, 65536, 0, 0, 0, 4096, 1, 0, 0, 0)
        os.write(device, struct.pack("IiQ", 16 + len(body), 0, number) + body)
"""

# Releases a condition after some seconds, whatever happens to the trial. Arguments: seconds, file, text to write there.
RELEASE = "import sys, time; time.sleep(float(sys.argv[1])); open(sys.argv[2], 'w').write(sys.argv[3])"


def realtime_hogs(trial, seconds=20):
    """a program of priority FIFO 98 that computes on every processor"""
    trial.record()
    trial.wait(5)
    hog = trial.load([sys.executable, "-c", HOG, str(seconds), str(HOG_PRIORITY), str(WATCHDOG_PRIORITY)])
    trial.wait(seconds)
    hog.wait(60)
    trial.wait(3)


def pending_exec(trial, seconds=20):
    """a process whose exec waits for an asynchronous read of a stalled disk: its files in /proc block"""
    device = trial.loop("stalled.image", 16 << 20)
    with open(f"/sys/block/{os.path.basename(device)}/dev", encoding="ascii") as file:
        number = file.read().strip()
    group, enter = cgroup(trial, "blkio")
    limit = f"{group}/blkio.throttle.read_bps_device"
    release = trial.load([sys.executable, "-c", RELEASE, str(seconds + 20), limit, f"{number} 0"])
    write(limit, f"{number} 100")
    trial.record()
    trial.wait(5)
    waiting = subprocess.Popen([sys.executable, "-c", READ_AND_EXECUTE, device], preexec_fn=enter)
    trial.wait(seconds)
    # the recorder ends while the files still block
    trial.stop()
    write(limit, f"{number} 0")
    release.kill()
    time.sleep(1)
    waiting.kill()
    waiting.wait(30)


def silent_pipe(trial):
    """a pipe that nobody writes to, mounted over /proc/vmstat before the recorder starts"""
    pipe = os.path.join(trial.folder, "pipe")
    os.mkfifo(pipe)
    trial.record(argv=unshared(f"mount --bind {pipe} /proc/vmstat"))
    trial.wait(20)
    trial.stop()


def silent_filesystem(trial, seconds=20):
    """a file of a filesystem in user space that never answers, mounted over /proc/vmstat"""
    script = os.path.join(tempfile.mkdtemp(dir=trial.folder), "filesystem.py")
    with open(script, "w", encoding="ascii") as file:
        file.write(HANGING_FILESYSTEM)
    begin = f"timeout {seconds + 30} {sys.executable} {script} /proc/vmstat >/dev/null 2>&1 & sleep 1"
    trial.record(argv=unshared(begin))
    trial.wait(seconds)
    trial.stop()


def unshared(begin):
    """Prefix of a command that runs in a mount namespace of its own, after the shell's words `begin`."""
    return ["unshare", "--mount", "--propagation", "private", "sh", "-c", f'{begin}; exec "$@"', "sh"]


CONDITIONS = {"realtime-hogs": realtime_hogs, "pending-exec": pending_exec, "silent-pipe": silent_pipe,
              "silent-filesystem": silent_filesystem}

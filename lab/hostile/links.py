"""Root in other people's folders: no link is followed, files are private, nothing is left behind."""

import os
import shutil
import signal
import stat
import time

from hostile.bounds import devices_page
from hostile.trial import Broken, Case, Unavailable, escape_controls, kill_session
from machine import wait_for
from virtual import description

NOBODY = 65534
PRECIOUS = b"precious\n"


def precious(bench, name="precious"):
    return bench.write(name, PRECIOUS)


def is_precious(path):
    with open(path, "rb") as file:
        return file.read() == PRECIOUS


def log_writers(bench, log):
    """Every command that writes into a log's folder."""
    page = devices_page(bench, 2)
    return {"record": ["record", log, "--for", "300ms", "--every", "100ms"], "mark": ["mark", log, "text"],
            "import": ["import", page, "--to", log],
            "disk --record": ["disk", description("one-arm"), "--socket", bench.path("s"), "--record", log, "--every",
                              "100ms", "--for", "300ms"]}


def links(bench, owner, mode, how):
    """A log's folder in which every name that a writer opens leads elsewhere."""
    broken, message = [], ""
    for number, command in enumerate(log_writers(bench, "")):
        log = bench.path(f"log{number}")
        bench.run("record", log, "--for", "200ms", "--every", "100ms")
        victims = []
        for name in ("lock", "marks.dwlog", "tail", "00000002.dwlog", "00000002.dwlog.new", "ledger", "ledger.new"):
            victim = precious(bench, f"{number}-{name}.victim")
            path = os.path.join(log, name)
            if os.path.lexists(path):
                os.unlink(path)
            (os.symlink if how == "symbolic" else os.link)(victim, path)
            os.chown(path, owner, owner, follow_symlinks=False)
            victims.append(victim)
        os.chown(log, owner, owner)
        os.chmod(log, mode)
        done = bench.run(*log_writers(bench, log)[command], patience=20)
        broken += [f"{command} wrote to the target of {os.path.basename(victim)[2:-7]}" for victim in victims
                   if not is_precious(victim)]
        if done.ended:
            broken.append(f"{command} hangs")
        if owner and done.code != 1:
            broken.append(f"{command} in a folder of somebody else: exit {done.code}")
        message = message or done.said
    if broken:
        raise Broken("; ".join(broken))
    return f"no target changed: {message}"


def fifo(bench):
    """A pipe that nobody reads holds whoever opens it."""
    log = bench.path("log")
    os.mkdir(log)
    for name in ("lock", "tail", "marks.dwlog"):
        os.mkfifo(os.path.join(log, name))
    hung = [command for command, words in log_writers(bench, log).items() if bench.run(*words, patience=10).ended]
    if hung:
        raise Broken(f"{', '.join(hung)} hangs")
    return "an end in seconds for each"


# --- who else can read it -------------------------------------------------------------------------------

def open_to_others(folder):
    """What below a folder others than the owner can read or change."""
    found = []
    for place, _, names in os.walk(folder):
        for path in [place, *(os.path.join(place, name) for name in names)]:
            mode = stat.S_IMODE(os.lstat(path).st_mode)
            if mode & 0o077:
                found.append(f"{os.path.relpath(path, folder)} {mode:04o}")
    return found


def private_logs(bench):
    log = bench.path("log")
    made = {"record": bench.path("recorded"), "import": bench.path("imported"), "disk --record": bench.path("served")}
    broken = []
    for command, log in made.items():
        done = bench.run(*log_writers(bench, log)[command], umask=0)
        if command == "record":
            bench.run("mark", log, "text", umask=0)
        found = open_to_others(log) if os.path.isdir(log) else [f"no log: {done.said}"]
        broken += [f"{command}: {', '.join(found)}"] if found else []
    if broken:
        raise Broken("; ".join(broken))
    return "0700 and 0600, whatever the umask"


def private_backing(bench):
    backing = bench.path("backing")
    done = bench.run("disk", description("one-arm"), "--socket", bench.path("s"), "--backing", backing,
                     "--for", "200ms", umask=0)
    mode = stat.S_IMODE(os.stat(backing).st_mode)
    if mode != 0o600:
        raise Broken(f"{mode:04o}: {done.said}")
    return "0600"


# --- what an import leaves behind ---------------------------------------------------------------------------

def temporary_import(bench, sign):
    """A log of another tool is read into a temporary one: private while it is there, gone after
    any end but SIGKILL, and after that with the next start."""
    temporary = bench.path("temporary")
    os.mkdir(temporary, 0o1777)
    page = devices_page(bench, 20_000, ticks=6)
    env = {"TMPDIR": temporary, "DISKWRIGHT_MEMORY_LIMIT": "0"}
    # a part of a log is kept, here in no memory; a whole one is judged while it is read
    process = bench.begin("why", page, "--from=-10m", env=env, umask=0)
    wait_for(lambda: os.listdir(temporary) or process.poll() is not None, "the temporary log", 30)
    time.sleep(0.05)
    found = [problem for name in os.listdir(temporary) for problem in open_to_others(os.path.join(temporary, name))]
    if process.poll() is not None:
        raise Unavailable("it had ended before it could be looked at")
    process.send_signal(sign)
    try:
        process.wait(30)
    except Exception:  # it must not be left either
        kill_session(process)
        raise
    left = os.listdir(temporary)
    if sign == signal.SIGKILL:
        bench.run("why", devices_page(bench, 2, name="small.prom"), env=env)
        left = os.listdir(temporary)
    broken = [f"open to others: {', '.join(found[:3])}"] if found else []
    broken += [f"left: {', '.join(left)}"] if left else []
    if broken:
        raise Broken("; ".join(broken))
    return "private, and nothing left"


def socket_goes(bench):
    """A served disk that is hung up on."""
    socket = bench.path("socket")
    process = bench.begin("disk", description("one-arm"), "--socket", socket)
    wait_for(lambda: os.path.exists(socket + ".control"), "the server", process=process)
    process.send_signal(signal.SIGHUP)
    process.wait(20)
    left = [name for name in os.listdir(bench.folder) if name.startswith("socket")]
    if left:
        raise Broken(f"left: {', '.join(left)}")
    return f"exit {process.returncode}, nothing left"


# --- /tmp/diskwright-0 ------------------------------------------------------------------------------------------

def taken_name(bench, make):
    """A private /tmp in which somebody else was first. The binary is held open: it may lie below the old one."""
    if bench.folder.startswith("/tmp/"):
        raise Unavailable("no /dev/shm, so the description would be hidden too")
    with open(description("one-arm"), encoding="utf-8") as file:
        system = bench.write("system.toml", file.read())
    script = (f'exec 9< "$0" && mount -t tmpfs -o mode=1777 tmpfs /tmp && cd /tmp && {make} && '
              'exec /proc/self/fd/9 disk "$1" --for 500ms')
    done = bench.program(["unshare", "-m", "sh", "-c", script, bench.binary, system],
                         env={"XDG_RUNTIME_DIR": "", "TMPDIR": "/tmp"}, patience=20)
    if done.code:
        raise Broken(f"exit {done.code}: {done.said}")
    return f"serves all the same: {escape_controls(done.out.decode('utf-8', 'replace').strip(), 100)}"


def foreign_runtime(bench):
    """No link of another user decides where root's sockets lie."""
    target = bench.path("target")
    os.mkdir(target)
    os.chown(target, NOBODY, NOBODY)
    taken_name(bench, f"ln -s {target} diskwright-0 && chown -h {NOBODY} diskwright-0")
    if os.listdir(target):
        raise Broken(f"it made {os.listdir(target)} in somebody else's folder")
    shutil.rmtree(target)
    return "serves, and the link is not followed"


CASES = [
    Case("links/folder of somebody else", "lock, marks.dwlog, tail and segments as links in a folder of nobody",
         "refused, and no target changed", links, (NOBODY, 0o755, "symbolic"), tiny=True),
    Case("links/folder of everybody", "the same in a folder of root that everybody may write to", "no target changed",
         links, (0, 0o777, "symbolic")),
    Case("links/hard links", "the same with hard links in a folder of nobody", "refused, and no target changed", links,
         (NOBODY, 0o755, "hard")),
    Case("links/pipes", "lock, tail and marks.dwlog are pipes that nobody reads", "no command hangs", fifo),
    Case("links/private logs", "record, import, mark and disk --record with umask 0", "folders 0700, files 0600",
         private_logs, tiny=True),
    Case("links/private backing file", "disk --backing NEW with umask 0", "0600", private_backing, tiny=True),
    *(Case(f"links/temporary import, {sign.name}", f"why FOREIGN-LOG --from=-10m with umask 0, ended by {sign.name}",
           "its temporary log is 0700 and 0600, and gone "
           + ("with the next start" if sign == signal.SIGKILL else "with it"), temporary_import, (sign,),
           tiny=sign == signal.SIGHUP)
      for sign in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT, signal.SIGKILL)),
    Case("links/socket after SIGHUP", "SIGHUP to a served disk", "its socket is gone", socket_goes),
    Case("links/taken folder", "/tmp/diskwright-0 was made by nobody", "root's disk is served all the same", taken_name,
         (f"mkdir diskwright-0 && chown {NOBODY} diskwright-0",), frozenset({"unshare"}), True),
    Case("links/taken file", "/tmp/diskwright-0 is a file of nobody", "root's disk is served all the same", taken_name,
         (f"touch diskwright-0 && chown {NOBODY} diskwright-0",), frozenset({"unshare"})),
    Case("links/taken link", "/tmp/diskwright-0 is a link of nobody", "served, and the link not followed",
         foreign_runtime, needs=frozenset({"unshare"})),
]

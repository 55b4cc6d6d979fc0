"""The commands of a first screen: found as a person finds them, vetted, and typed.

Nothing is typed but commands of the forms below, and those only on processes, groups, disks, containers and servers
that the lab made. Text of an answer is never given to a shell before a pattern has matched all of it.
"""

import dataclasses
import os
import re
import shlex
import subprocess

from incidents.terminal import COLUMNS

PROGRAMS = ("ionice", "renice", "chrt", "kill", "systemctl", "echo", "psql", "podman", "docker", "taskset", "sysctl",
            "mount", "sudo", "runuser", "virsh", "nice", "cgset", "tc", "fstrim")
# What an answer says with placeholders instead of a thing's own name.
PLACEHOLDER = re.compile(r"\b[A-Z]{3,}\b(?=$|[ '\"])|<[a-z ]+>")
WRITE = re.compile(r"echo ('?)([\w=:. -]+)\1 > (/sys/[\w./:@\\-]+)")
SQL = re.compile(r"(?i)(select pg_(terminate|cancel)_backend\(\d+\)|select pg_reload_conf\(\)"
                 r"|alter system (set \w+ = ?'?[\w.]+'?|reset \w+)"
                 r"|alter (role|database) \"?\w+\"? set \w+ = ?'?[\w.]+'?);?")
# What stands before the command that takes another one back.
WAY_BACK = re.compile(r"(?i)\b(back|undo): ?$")
# A command on rows of its own, after its number and what it is against, if these are told. Words that are no command
# begin likewise ("mount it …"), so that more than the program's name is asked for.
ALONE = re.compile(r"\s*(?:\d+\. *)?(?:(?!back:)[a-z][\w /.:-]*: )?(?:[$#] )?"
                   r"(echo \S+ > /[^`…]+|(?:%s) (?:-|\d|set-property|pause|unpause|update)[^`…]*)" % "|".join(PROGRAMS))
NUMBER = re.compile(r"-?\d+")
# All threads of a process: ionice and renice take one thread each.
THREADS = re.compile(r"\$\(ls /proc/(\d+)/task/?\)")
SIGNALS = {"-STOP", "-CONT", "-TERM", "-INT"}


class Refused(Exception):
    """A command that the lab does not type; the text says why."""


@dataclasses.dataclass
class Own:
    """What the lab made, and may touch."""

    root_pid: int
    groups: list = dataclasses.field(default_factory=list)
    disks: list = dataclasses.field(default_factory=list)
    containers: list = dataclasses.field(default_factory=list)
    # of a database server: what psql finds it by
    environment: dict = dataclasses.field(default_factory=dict)
    # processes that no longer descend from us, by a part of their cgroup's path
    group_parts: list = dataclasses.field(default_factory=list)

    def has_process(self, pid):
        return descends(pid, {self.root_pid}) or any(
            part in read("/proc/%d/cgroup" % pid) for part in self.group_parts)

    def has_path(self, path):
        """A file of a cgroup of ours, or of a disk's queue."""
        path = os.path.normpath(path)
        in_group = any(os.path.dirname(path) == os.path.normpath(group) for group in self.groups)
        return in_group or any(path.startswith(f"/sys/block/{disk}/queue/") for disk in self.disks)


def read(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def descends(pid, ancestors):
    """Whether a process is below one of ours, and neither one of them nor the machine's first."""
    while pid > 1:
        parent = re.match(r"\d+ \(.*\) \S (\d+)", read(f"/proc/{pid}/stat"), re.S)
        if not parent:
            return False
        pid = int(parent[1])
        if pid in ancestors:
            return True
    return False


def commands_on(rows):
    """The commands that a screen shows whole, in its order: between backticks, or on rows of their own. A command
    that is cut (its last backtick is missing, or it ends in a mark of omission) is none, nor is a way back."""
    found = []
    text = " ".join(row.strip() for row in rows)
    for quoted in re.finditer(r"`((?:%s) [^`…]+)`" % "|".join(PROGRAMS), text):
        if not WAY_BACK.search(text[:quoted.start()]):
            found.append((quoted.start(), quoted[1]))
    for number, row in enumerate(rows):
        if alone := ALONE.fullmatch(unwrapped(rows, number)):
            found.append((text.index(row.strip()), alone[1].strip()))
    return list(dict.fromkeys(command for _, command in sorted(found) if is_command(command)))


def unwrapped(rows, number):
    """A row with what the wrapping put on the next ones: words for which there was no room, not less indented."""
    text = last = rows[number]
    for row in rows[number + 1:]:
        is_next = not row or indent_of(row) < indent_of(last) or re.match(r" *(back:|\d+\.)", row)
        if is_next or len(last) + 1 + len(row.split()[0]) <= COLUMNS:
            break
        text, last = f"{text} {row.strip()}", row
    return text


def indent_of(row):
    return len(row) - len(row.lstrip())


def is_command(text):
    first = text.split(" ", 1)
    return len(first) == 2 and first[0] in PROGRAMS and "…" not in text and not text.endswith("...")


def repair(command, document):
    """The command as the document has it, where the screen's wrapping broke a long word of it."""
    squeezed = "".join(command.split())
    for advice in (document or {}).get("advice", []):
        if advice.get("command") and "".join(advice["command"].split()) == squeezed:
            return advice["command"]
    return command


def undo_of(command, document):
    for advice in (document or {}).get("advice", []):
        if advice.get("command") == command:
            return advice.get("undo")
    return None


def vet(command, own):
    """The words to run for a command, or Refused."""
    if write := WRITE.fullmatch(command):
        if not own.has_path(write[3]):
            raise Refused(f"{write[3]} is not the lab's")
        return ["sh", "-c", command]
    command = THREADS.sub(lambda found: threads_of(int(found[1]), own), command)
    if re.search(r"[;&|<>$()\\\n]", re.sub(r"'[^']*'|\"[^\"$`]*\"", "", command)):
        raise Refused("has signs of a shell")
    if PLACEHOLDER.search(re.sub(r"'[^']*'|\"[^\"]*\"|-[A-Z]+", "", command)):
        raise Refused("has a placeholder, so that it cannot be typed")
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise Refused(f"no shell takes it: {error}") from None
    for role in (["sudo", "-u", "postgres"], ["runuser", "-u", "postgres", "--"]):
        if words[:len(role)] == role:
            words = words[len(role):]
    check = CHECKS.get(words[0] if words else "")
    if not check:
        raise Refused(f"the lab types no {words[0] if words else 'empty command'}")
    check(words[1:], own)
    return words


def threads_of(pid, own):
    """The numbers of a process's threads, as the shell would put them in."""
    if not own.has_process(pid):
        raise Refused(f"process {pid} is not the lab's")
    return " ".join(sorted(os.listdir(f"/proc/{pid}/task")))


def own_processes(words, own):
    """The words that are left must be processes of ours, one at least."""
    if not words:
        raise Refused("names no process")
    for word in words:
        if not NUMBER.fullmatch(word) or not own.has_process(int(word)):
            raise Refused(f"process {word} is not the lab's")


def check_ionice(words, own):
    if "-p" not in words:
        raise Refused("names no process")
    at = words.index("-p")
    if not all(re.fullmatch(r"-c ?[0-3]|-n ?[0-7]|[0-7]|-c|-n", word) for word in words[:at]):
        raise Refused("has options that the lab does not know")
    own_processes(words[at + 1:], own)


def check_renice(words, own):
    words = [word for word in words if word not in ("-n", "-p")]
    if not words or not NUMBER.fullmatch(words[0]):
        raise Refused("names no priority")
    own_processes(words[1:], own)


def check_chrt(words, own):
    flags = {"--other", "--all-tasks", "--pid", "-o", "-a", "-p", "-b", "--batch", "-i", "--idle"}
    words = [word for word in words if word not in flags]
    if words[:1] != ["0"]:
        raise Refused("asks for a priority of real time")
    own_processes(words[1:], own)


def check_kill(words, own):
    if words and words[0].startswith("-"):
        if words[0] not in SIGNALS:
            raise Refused(f"sends {words[0]}")
        words = words[1:]
    own_processes(words, own)


def check_taskset(words, own):
    if words[:1] not in (["-cp"], ["-pc"], ["-acp"]) or not re.fullmatch(r"[\d,-]+", (words + ["", ""])[1]):
        raise Refused("has options that the lab does not know")
    own_processes(words[2:], own)


def check_container(words, own):
    if words[:1] not in (["pause"], ["unpause"], ["update"]) or words[-1] not in own.containers:
        raise Refused("is not about a container of the lab")
    if not all(re.fullmatch(r"--(memory|cpus|cpu-shares|blkio-weight)(=[\w.]+)?|[\d.]+[kmgKMG]?", word)
               for word in words[1:-1]):
        raise Refused("has options that the lab does not know")


def check_psql(words, own):
    if not own.environment:
        raise Refused("there is no server of the lab")
    options = list(words)
    while options:
        word = options.pop(0)
        if word in ("-c", "--command"):
            if not options or not SQL.fullmatch(options.pop(0)):
                raise Refused("is SQL that the lab does not send")
        elif word == "-d" and options and is_own_address(options[0], own.environment):
            options.pop(0)
        elif word in ("-d", "-U", "-p", "-h"):
            name = {"-d": "PGDATABASE", "-U": "PGUSER", "-p": "PGPORT", "-h": "PGHOST"}[word]
            if not options or options.pop(0) != own.environment.get(name):
                raise Refused("is about another server")
        elif word != own.environment.get("PGDATABASE") and word not in ("-X", "-At", "-q"):
            raise Refused("has options that the lab does not know")


def is_own_address(text, environment):
    """Whether a text is the address of the lab's server, with any role of it."""
    server = rf"127\.0\.0\.1:{environment.get('PGPORT')}/{environment.get('PGDATABASE')}"
    return bool(re.fullmatch(rf"postgres(ql)?://\w+@{server}", text))


def check_systemctl(words, own):
    # the lab starts no units, so that each unit is somebody else's
    raise Refused("no systemd unit is the lab's")


CHECKS = {"ionice": check_ionice, "renice": check_renice, "chrt": check_chrt, "kill": check_kill,
          "taskset": check_taskset, "podman": check_container, "docker": check_container, "psql": check_psql,
          "systemctl": check_systemctl}


def type_command(command, own):
    """Types a command. Returns None if it worked, or what it said; raises Refused if the lab does not type it."""
    words = vet(command, own)
    try:
        done = subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60,
                              env=os.environ | own.environment, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode:
        return f"exit {done.returncode}: {(done.stderr or done.stdout).strip()[-200:]}"
    return None

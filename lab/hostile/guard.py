"""The guard's table: nobody's data overwritten, whatever is typed, on real devices with the data compared."""

import contextlib
import os

from hostile import situations as s
from hostile.nbd import Client, Gone
from hostile.trial import Broken, Case, Done, checksum
from machine import wait_for

SYSTEM = """
[system]
name = "small"
[[drive]]
name = "disk"
capacity = "{bytes}B"
[drive.plain]
servers = 1
service = {{ uniform_us = [10, 20] }}
"""
PROBE = ["--for", "50ms", "--ramp", "0", "--forget"]

# How it is in use, what is used, programs it takes, whether it is tried in the short form.
SITUATIONS = [
    ("mounted", s.plainly_mounted, "a mounted device", (), False),
    ("second loop", s.second_loop, "a second loop device over the file of a mounted one", (), True),
    ("second loop, direct", s.second_loop_without_cache, "the same with direct I/O", (), False),
    ("by a link", s.by_a_link, "a second loop device by a symbolic link to the file of a mounted one", (), False),
    ("offset", s.offset_over_a_partition, "loop devices with an offset into a mounted partition", ("partx",), True),
    ("loop over loop", s.loop_over_a_mounted_loop, "a loop device over a loop device that is mounted", (), True),
    ("loop below loop", s.loop_below_a_mounted_loop, "what is below a loop device that is mounted", (), False),
    ("other hard link", s.other_hard_link, "another hard link of a mounted file that was removed by its first name",
     (), True),
    ("mounted over", s.mounted_over, "a bind mount of a mounted file over whose folder something else is mounted",
     (), True),
    ("mounted over, overlay elsewhere", s.mounted_over_beside_an_overlay,
     "the same while a loop device over an overlay's file of that size is there", (), True),
    ("overlay", s.overlay, "a mounted file of an overlay filesystem, by its layer and by the overlay", (), True),
    ("file open", s.file_open_for_writing, "a file that a process holds open for writing", (), True),
    ("node elsewhere, open", s.node_elsewhere_open, "a device open through a node outside /dev", (), True),
    ("node elsewhere, mounted", s.node_elsewhere_mounted, "a mounted device, named by a node outside /dev", (), False),
    ("mapped on btrfs", s.mapped_on_btrfs, "a file on btrfs that a process has mapped", ("mkfs.btrfs",), True),
    ("open on btrfs", s.open_on_btrfs, "a file on btrfs that a process holds open", ("mkfs.btrfs",), False),
    ("btrfs member", s.btrfs_member, "the second member of a mounted btrfs", ("mkfs.btrfs",), False),
    ("swap file", s.swap_file, "a file that is swapped on", ("mkswap",), True),
    ("swap device", s.swap_device, "a device that is swapped on, by another", ("mkswap",), False),
]
# Only the device is in use there, and no file.
NOT_THERE = {"node elsewhere, open": ("files",), "node elsewhere, mounted": ("files",)}


def identity(path):
    """What a name leads to: a rename over it changes this, not the bytes."""
    status = os.stat(path)
    return status.st_dev, status.st_ino, status.st_rdev


def flush_to_backing(name):
    """Flushes writes to a device down to the file that holds its bytes."""
    file = os.open(name, os.O_RDONLY)
    with contextlib.suppress(OSError):
        os.fsync(file)
    os.close(file)


class Snapshot:
    """A snapshot of bytes and names; `changed` lists what is different now."""

    def __init__(self, paths, names):
        for name in names:
            flush_to_backing(name)
        self.sums = {path: checksum(path) for path in paths}
        self.names = {name: identity(name) for name in names}

    def changed(self):
        for name in filter(os.path.exists, self.names):
            flush_to_backing(name)
        changes = [f"{os.path.basename(path)} was overwritten" for path, before in self.sums.items()
                if checksum(path) != before]
        return changes + [f"{name} is another file now" for name, before in self.names.items()
                       if not os.path.exists(name) or identity(name) != before]


# --- writers: each tries a target and tells what it took to say no, or None where it went through ---

def by_probe(bench, target):
    return bench.run("probe", "commit", target, "--destroy-data-on", target, *PROBE)


def by_backing(bench, target):
    """Served from the target; where that is taken, a client writes to it as clients do."""
    with open(target, "rb") as file:
        size = file.seek(0, os.SEEK_END)
    system, socket = bench.write("small.toml", SYSTEM.format(bytes=size)), bench.path("served")
    server = bench.begin("disk", system, "--backing", target, "--socket", socket, "--for", "20s")
    wait_for(lambda: os.path.exists(socket) or server.poll() is not None, "a server or its refusal")
    if server.poll() is None:
        try:
            client = Client(socket)
            client.write(0, b"overwritten" * 512)
            client.close()
        except (OSError, Gone):
            pass
        bench.end(server)
    with open(server.err, "rb") as err:
        return Done(server.returncode, b"", err.read(), 0)


def small_log(bench):
    """A log of a few ticks, made once."""
    if not os.path.isdir(bench.path("log")):
        bench.run("record", bench.path("log"), "--for", "300ms", "--every", "100ms")
    return bench.path("log")


def by_export(bench, target):
    return bench.run("export", small_log(bench), "--as", "csv", "-o", target)


def by_report(bench, target):
    return bench.run("report", small_log(bench), "-o", target)


def by_probe_output(bench, target):
    own = bench.image("measured", 4)
    return bench.run("probe", "minread", own, "--size", "1MiB", "-o", target, *PROBE)


# Which writer, what it is told, and whether it is tried on devices or on files. Nothing is ever put
# out to a device, and content is never kept on one: that is tried by itself, below.
WRITERS = [
    ("probe device", "probe … --destroy-data-on", by_probe, "devices"),
    ("probe file", "probe … --destroy-data-on", by_probe, "files"),
    ("backing", "disk --backing", by_backing, "files"),
    ("output", "export, report and probe -o", None, "files"),
]
OUTPUTS = {"export": by_export, "report": by_report, "probe": by_probe_output}


def refused(bench, situation, writer, kind):
    """Every name in use, by one writer: an error, and not a byte changed."""
    used = situation(bench)
    small_log(bench)
    names = getattr(used, kind)
    targets = [name if isinstance(name, str) else bench.loop(*name) for name in names]
    writers = {"": writer} if writer else OUTPUTS
    went, message = [], ""
    for target in targets:
        for name, write in writers.items():
            kept = Snapshot(used.data, [target])
            done = write(bench, target)
            through = kept.changed() + refusal_faults(done)
            if through:
                went.append(f"{name} {target}: {', '.join(through)}".strip())
            message = message or done.said
    if went:
        raise Broken("; ".join(went))
    return f"refused ({len(targets)}): {message}"


def refusal_faults(done):
    """Returns what is wrong with a refusal: it must exit with 1 before any request."""
    faults = [] if done.code == 1 else [f"exit {done.code}"]
    return faults + ["it tried to write"] * (b"requests failed" in done.err)


# --- what -o must leave alone, whoever uses it -----------------------------------------------------

def content_of_a_device(bench, use):
    """A page or an export is no content for a device, in use or not; nor is one a place for a virtual disk."""
    image = bench.ext4(bench.image("disk", 16))
    device = bench.loop(image)
    if use:
        bench.mount(device, "point", "-o", "ro,noload")
    broken = []
    for name, write in (OUTPUTS | {"disk --backing": by_backing}).items():
        kept = Snapshot([image], [device])
        through = refusal_faults(write(bench, device)) + kept.changed()
        broken += [f"{name}: {', '.join(through)}"] if through else []
    if broken:
        raise Broken("; ".join(broken))
    return "refused, and no byte changed"


def output_to_link(bench):
    """A link is neither followed nor replaced in silence: target and link stay, or the command says no."""
    broken = []
    for name, write in OUTPUTS.items():
        target, link = bench.write(f"{name}.precious", "precious\n"), bench.path(f"{name}.link")
        os.symlink(target, link)
        done = write(bench, link)
        with open(target, encoding="utf-8", errors="replace") as file:
            if file.read() != "precious\n":
                broken.append(f"{name} wrote through the link")
        if not os.path.islink(link):
            broken.append(f"{name} replaced the link")
        if done.code == 0:
            broken.append(f"{name} ended with 0")
    if broken:
        raise Broken("; ".join(broken))
    return "refused, link and target as before"


def new_files_of_the_kernel(bench, place):
    """A name that is not there yet, where only the kernel makes names."""
    target = os.path.join(place, f"diskwright-hostile-{os.getpid()}")
    tries = {"probe": lambda: bench.run("probe", "diskmax", target, "--size", "1MiB", *PROBE),
             "backing": lambda: bench.run("disk", bench.write("s.toml", SYSTEM.format(bytes=1 << 20)), "--backing",
                                          target, "--socket", bench.path("s"), "--for", "200ms"),
             **{name: lambda write=write: write(bench, target) for name, write in OUTPUTS.items()},
             "record": lambda: bench.run("record", target, "--for", "200ms"),
             "import": lambda: bench.run("import", small_log(bench), "--to", target)}
    broken, message = [], ""
    for name, tried in tries.items():
        done = tried()
        if done.code == 0:
            broken.append(f"{name} went on")
        if os.path.lexists(target):
            broken.append(f"{name} left {target}")
            bench.program(["rm", "-rf", target])
        message = message or done.said
    if broken:
        raise Broken("; ".join(broken))
    return f"refused by all {len(tries)}: {message}"


# --- the neighbours, which are allowed ----------------------------------------------------------------

def unused_device(bench):
    image = bench.image("disk", 16)
    device = bench.loop(image)
    before = checksum(image)
    without = bench.run("probe", "commit", device, *PROBE)
    if without.code != 1 or checksum(image) != before:
        raise Broken(f"without its name typed: exit {without.code}")
    done = by_probe(bench, device)
    if done.code or checksum(image) == before:
        raise Broken(f"exit {done.code}: {done.said}")
    return "written to, as was said twice"


def unused_beside_a_used(bench):
    """The second of two loop devices over two parts of a file that do not touch; only the first is mounted."""
    image = bench.image("disk", 32)
    part = bench.ext4(bench.image("part", 16))
    with open(image, "r+b") as disk, open(part, "rb") as source:
        disk.write(source.read())
    first = bench.loop(image, "--sizelimit", str(16 << 20))
    bench.mount(first, "point", "-o", "ro,noload")
    unmounted = bench.loop(bench.image("other", 16))
    before = checksum(first)
    done = by_probe(bench, unmounted)
    if done.code or checksum(first) != before:
        raise Broken(f"exit {done.code}: {done.said}")
    return "the device of another file is written to, the mounted one is as before"


def own_files(bench):
    """A file that is made, one whose name was typed, a page over an older page."""
    fresh, typed, page = bench.path("fresh"), bench.image("typed", 4), bench.write("page", "old")
    tries = {"a new file": bench.run("probe", "minread", fresh, "--size", "1MiB", *PROBE),
             "a file typed twice": by_probe(bench, typed),
             "a new page": by_report(bench, bench.path("new.html")),
             "an older export": by_export(bench, page),
             "a new backing file": bench.run("disk", bench.write("s.toml", SYSTEM.format(bytes=1 << 20)), "--backing",
                                             bench.path("backing"), "--socket", bench.path("s"), "--for", "200ms")}
    broken = [f"{name}: exit {done.code}: {done.said}" for name, done in tries.items() if done.code]
    if broken:
        raise Broken("; ".join(broken))
    return f"allowed: {', '.join(tries)}"


def special_outputs(bench):
    """The one device that takes everything."""
    done = by_export(bench, "/dev/null")
    if done.code or not os.path.exists("/dev/null") or os.path.isfile("/dev/null"):
        raise Broken(f"exit {done.code}: {done.said}")
    return "allowed"


def table_cases():
    """Every situation with every writer that can come into it."""
    for name, make, description, needs, tiny in SITUATIONS:
        for writer, command, write, kind in WRITERS:
            if kind in NOT_THERE.get(name, ()):
                continue
            yield Case(f"guard/{name}: {writer}", f"{command} NAME: {description}", "exit 1, and not a byte changed",
                       refused, (make, write, kind), frozenset({"losetup", "mkfs.ext4", *needs}),
                       tiny and (writer == "probe device" or name == "second loop"))


CASES = [
    *table_cases(),
    Case("guard/content of an idle device", "export, report, probe -o and disk --backing: a device that nobody uses",
         "exit 1, and not a byte changed", content_of_a_device, (False,), frozenset({"losetup", "mkfs.ext4"}), True),
    Case("guard/content of a mounted device", "the same of a mounted device",
         "exit 1, and not a byte changed", content_of_a_device, (True,), frozenset({"losetup", "mkfs.ext4"})),
    Case("guard/output to a link", "export, report and probe -o LINK",
         "refused, link and target as they were", output_to_link, tiny=True),
    *(Case(f"guard/new file in {place}", f"probe, record, import, disk --backing, export, report -o {place}/NEW",
           "refused, and nothing made", new_files_of_the_kernel, (place,), tiny=place == "/dev")
      for place in ("/dev", "/proc", "/sys")),
    Case("guard/allowed: unused device", "probe of an idle loop device, without and with its name typed",
         "without: refused; with: written to", unused_device, needs=frozenset({"losetup"}), tiny=True),
    Case("guard/allowed: beside a used one", "probe of the loop device of another file",
         "written to; the mounted one as before", unused_beside_a_used, needs=frozenset({"losetup", "mkfs.ext4"})),
    Case("guard/allowed: own files", "new files, files typed twice, older pages", "all allowed", own_files, tiny=True),
    Case("guard/allowed: /dev/null", "export -o /dev/null", "allowed, and /dev/null stays a device", special_outputs),
]

#!/usr/bin/env python3
"""Records pages of trace events on another kernel, for the tests of crates/observe/blocktrace.

    lab/trace_pages.py PACKAGE.deb FOLDER

Boots the kernel of a Debian package (`apt-get download linux-image-…`) in an emulated machine, runs the load
that `crates/observe/blocktrace/tests/recorded.rs` describes on its disk, and keeps the format files of the events
(`formats`), the layout of pages (`header_page`), the pages of the one processor (`cpu0`) and what the kernel
counted of the disk meanwhile (`counted`: its `stat` after, less that before) in FOLDER.
"""

import base64
import glob
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.dont_write_bytecode = True

import qemu  # noqa: E402
from session import catch_signals, undoing, with_sbin  # noqa: E402

EVENTS = ("block_bio_queue block_getrq block_io_start block_rq_insert block_rq_issue block_rq_complete "
          "block_rq_requeue block_bio_backmerge block_bio_frontmerge block_rq_merge block_bio_complete "
          "block_bio_remap block_split")
LOAD = """
set -e
mkdir -p /trace; mount -t tracefs none /trace; cd /trace
mkdir instances/pages; cd instances/pages
echo 0 > tracing_on; echo mono > trace_clock
for event in EVENTS; do [ -e events/block/$event ] && echo 1 > events/block/$event/enable; done
cat /sys/block/vda/stat > /run/before
echo 1 > tracing_on
/usr/bin/dd if=/dev/vda of=/dev/null bs=4k count=6 iflag=direct
/usr/bin/dd if=/dev/zero of=/dev/vda bs=64k count=3 oflag=direct conv=fsync,notrunc
/usr/bin/dd if=/dev/zero of=/dev/vda bs=4k count=2 seek=100 oflag=direct,dsync conv=notrunc
/usr/bin/dd if=/dev/zero of=/dev/vda bs=32k count=1 seek=8 conv=fsync,notrunc
sleep 1
echo 0 > tracing_on
cat /sys/block/vda/stat > /run/after
# a splice, as cat makes one, hands out whole pages alone
/usr/bin/dd if=per_cpu/cpu0/trace_pipe_raw of=/run/pages bs=4096 iflag=nonblock || true
""".replace("EVENTS", EVENTS)


def unpack(package, folder):
    """The parts of a kernel's package that a guest takes."""
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", package], stdout=subprocess.PIPE) as tar:
        subprocess.run(["tar", "-x", "--wildcards", "-C", folder, *qemu.KEPT], stdin=tar.stdout, check=False,
                       stderr=subprocess.DEVNULL)
    packed = glob.glob(os.path.join(folder, "lib", "modules", "*", "**", "*.ko.xz"), recursive=True)
    if packed:
        subprocess.run(["xz", "-d", *packed], check=True)
    release = os.listdir(os.path.join(folder, "lib", "modules"))[0]
    subprocess.run(["depmod", "-b", folder, release], check=True)
    return release


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with_sbin()
    catch_signals()
    package, kept = sys.argv[1:]
    os.makedirs(kept, exist_ok=True)
    with undoing("trace-pages") as undo, tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        qemu.CACHE = os.path.join(folder, "kernel")
        os.mkdir(qemu.CACHE)
        print(unpack(package, qemu.CACHE), file=sys.stderr)
        drive = qemu.Drive(qemu.sparse(os.path.join(folder, "disk"), 64))
        guest = qemu.Guest(undo, folder, drives=[drive], programs=["dd"], patience=400)
        guest.sh(LOAD, patience=120)

        def keep(name, command):
            with open(os.path.join(kept, name), "wb") as file:
                file.write(base64.b64decode(guest.sh(f"({command}) | base64", patience=120)))

        keep("formats", "; ".join(f"cat /trace/events/block/{event}/format 2>/dev/null" for event in EVENTS.split()))
        keep("header_page", "cat /trace/events/header_page")
        keep("cpu0", "cat /run/pages")
        before, after = (guest.sh(f"cat /run/{when}").split() for when in ("before", "after"))
        with open(os.path.join(kept, "counted"), "w", encoding="ascii") as file:
            file.write(" ".join(str(int(b) - int(a)) for a, b in zip(before, after)) + "\n")
        guest.end()


if __name__ == "__main__":
    main()
